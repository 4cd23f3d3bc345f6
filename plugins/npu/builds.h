/* SPDX-License-Identifier: Apache-2.0 */
/* builds.h: declares what the files with build functions share; call.h declares the functions. */
#ifndef NPU_BUILDS_H
#define NPU_BUILDS_H

#include "call.h"

/* create.c: the dtype by which CANN's functions see elements that they only fill or move: they take
 * no unsigned integers but u8, which are seen as signed ones. */
uint32_t create_bits(uint32_t dtype);
/* The number with which elements of a dtype are filled: integers get a whole number of their range;
 * those that are seen by create_bits the number of the same bits. */
struct kit_arg create_number(uint32_t dtype, double value);
/* Fills a tensor, which must be contiguous if it is complex. */
enum bp_status create_fill(struct kit_build *b, struct kit_arg to, double value);
/* random.c: the upper 24 bits of the words of the first `count` elements, as numbers, on one
 * axis. */
struct kit_arg npu_random_numbers(struct kit_build *b, int64_t count, uint32_t dtype);

#endif
