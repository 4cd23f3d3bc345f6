/* SPDX-License-Identifier: Apache-2.0 */
/* builds.h: declares what the files with build functions share. The functions themselves are
 * declared by the lists of rows. */
#ifndef NPU_BUILDS_H
#define NPU_BUILDS_H

#include "call.h"

#define NPU_BUILD(function) enum bp_status function(struct kit_build *b);
#define NPU_ROW(...)
#define NPU_ROW_OR(...)
#define NPU_BUILT(...)
#define NPU_BUILT_EACH(...)
#include "rows_all.def"
#undef NPU_BUILD
#undef NPU_ROW
#undef NPU_ROW_OR
#undef NPU_BUILT
#undef NPU_BUILT_EACH

/* create.c: the dtype by which CANN's functions see elements that they only fill or move: they take
 * no unsigned integers but u8, which are seen as signed ones. */
uint32_t create_bits(uint32_t dtype);
/* The number with which elements of a dtype are filled: integers get a whole number of their range;
 * those that are seen by create_bits the number of the same bits. */
struct kit_arg create_number(uint32_t dtype, double value);
/* Fills a tensor, which must be contiguous if it is complex. */
enum bp_status create_fill(struct kit_build *b, struct kit_arg to, double value);

#endif
