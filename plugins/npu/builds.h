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
/* rows_product.c: adds the product of two lists of matrices or vectors, in a dtype of the vendor's
 * products; and for other dtypes, by all terms and their sums. */
void npu_product(struct kit_build *b, struct kit_arg x, struct kit_arg y, bool transpose_x,
                 bool transpose_y, struct kit_arg out);
void npu_product_terms(struct kit_build *b, struct kit_arg left, struct kit_arg right,
                       bool transpose_left, bool transpose_right, struct kit_arg out);
/* The matrices of x for each matrix of a result of such a shape, in one axis. */
struct kit_arg npu_product_batches(struct kit_build *b, struct kit_arg x,
                                   const struct bp_view *result);
/* complex.c: the real part (0) or the imaginary part (1) of a contiguous complex tensor. */
struct kit_arg npu_complex_part(struct kit_build *b, struct kit_arg z, int64_t part);
/* binary.c: the root of the sum of two squares, without overflow, of f64 tensors.
 * is_wide: their numbers need not be in the range of f32. */
struct kit_arg npu_hypot(struct kit_build *b, struct kit_arg x, struct kit_arg y, bool is_wide);

#endif
