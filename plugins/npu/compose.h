/* SPDX-License-Identifier: Apache-2.0 */
/* compose.h: declares the steps that rows of several calls have in common: casts, sums, parts of
 * tensors. Functions that return an argument add the steps that compute it; like those of the kit
 * they need no checks, because a failure stays in the build. */
#ifndef NPU_COMPOSE_H
#define NPU_COMPOSE_H

#include "call.h"
#include "parts.h"

/* Arguments as expressions. */
#define NPU_IN(port) KIT_VALUE(KIT_IN(port))
#define NPU_OUT(port) KIT_VALUE(KIT_OUT(port))
#define NPU_NONE KIT_VALUE(KIT_NONE)

/* The type of an argument's tensor. After a failure, or if the tensor is absent: rank 0, f32. */
const struct bp_view *npu_type(const struct kit_build *b, struct kit_arg x);
bool npu_is_given(const struct kit_build *b, struct kit_arg x);
bool npu_is_empty(const struct kit_build *b, struct kit_arg x);
/* An axis attribute, counted from the first axis. */
uint32_t npu_axis(int64_t axis, uint32_t rank);

/* A temporary of the shape of x. */
struct kit_arg npu_like(struct kit_build *b, struct kit_arg x, uint32_t dtype);
/* x with its last two axes exchanged. */
struct kit_arg npu_swapped(struct kit_build *b, struct kit_arg x);
/* The positions first, first + step, ... of an axis. */
struct kit_arg npu_part(struct kit_build *b, struct kit_arg x, uint32_t axis, int64_t first,
                        int64_t count, int64_t step);
void npu_cast(struct kit_build *b, struct kit_arg from, struct kit_arg to);
/* x as f32 if its dtype is a half type. */
struct kit_arg npu_wide(struct kit_build *b, struct kit_arg x);
void npu_fill(struct kit_build *b, struct kit_arg to, double value);
/* A temporary that holds one number everywhere. */
struct kit_arg npu_filled(struct kit_build *b, uint32_t dtype, uint32_t rank, const int64_t *shape,
                          double value);

/* Products and quotients, whose shapes broadcast; parts.h has the other steps. */
struct kit_arg npu_mul(struct kit_build *b, struct kit_arg x, struct kit_arg y);
struct kit_arg npu_div(struct kit_build *b, struct kit_arg x, struct kit_arg y);
/* x factor, x + number. */
struct kit_arg npu_times(struct kit_build *b, struct kit_arg x, double factor);
struct kit_arg npu_plus(struct kit_build *b, struct kit_arg x, double number);
/* x within bounds. */
struct kit_arg npu_clip(struct kit_build *b, struct kit_arg x, double least, double most);
/* The sum or the mean over axes (a mask); these stay with extent 1. */
struct kit_arg npu_sum(struct kit_build *b, struct kit_arg x, uint32_t axes);
struct kit_arg npu_mean(struct kit_build *b, struct kit_arg x, uint32_t axes);

/* Writes the result of a computation, which may be wider, to an output of as many elements. */
void npu_finish(struct kit_build *b, struct kit_arg result, struct kit_arg out);
/* Enqueues an activation of enum bp_activation. */
void npu_activate(struct kit_build *b, int64_t activation, double alpha, double beta,
                  struct kit_arg x, struct kit_arg out);

#endif
