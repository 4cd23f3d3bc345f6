/* SPDX-License-Identifier: Apache-2.0 */
/* parts.h: composes operators of several calls. A part adds the steps that compute one value, and
 * returns the value, so that a build function reads like the formula of its operator:
 *
 *   struct kit_arg x = part_in(b, 0), one = KIT_NUMBER_IS(1);
 *
 *   return part_end(b, part_two(b, "Div", x, part_plus(b, part_one(b, "Abs", x), one)));
 *
 * Values are temporaries of the workspace; part_end lets values that are not used at the same time
 * share memory. Half types are computed in f32 and rounded once, at the end. */
#ifndef NPU_PARTS_H
#define NPU_PARTS_H

#include <backplane/attrs.h>
#include <kit/rows.h>

bool part_is_half(uint32_t dtype);
/* An input in the dtype of the computation: f32 for half types, else its own. */
struct kit_arg part_in(struct kit_build *b, uint32_t port);
/* A temporary of the type of another tensor. */
struct kit_arg part_like(struct kit_build *b, struct kit_arg x);
/* A value as another dtype. */
struct kit_arg part_cast(struct kit_build *b, struct kit_arg x, uint32_t dtype);
/* A tensor without axes that has a number everywhere; and one of the dtype and shape of a view. */
struct kit_arg part_number(struct kit_build *b, uint32_t dtype, struct kit_arg number);
struct kit_arg part_full(struct kit_build *b, const struct bp_view *like, struct kit_arg number);
uint32_t part_dtype(const struct kit_build *b, struct kit_arg x);
uint64_t part_item_size(uint32_t dtype); /* bytes of an element */

/* Functions of one or two tensors, which broadcast. part_test has a result of bools. */
struct kit_arg part_one(struct kit_build *b, const char *function, struct kit_arg x);
struct kit_arg part_two(struct kit_build *b, const char *function, struct kit_arg x,
                        struct kit_arg y);
struct kit_arg part_test(struct kit_build *b, const char *function, struct kit_arg x,
                         struct kit_arg y);
/* The same with a number as the second tensor. */
struct kit_arg part_compare(struct kit_build *b, const char *function, struct kit_arg x,
                            struct kit_arg number);
struct kit_arg part_times(struct kit_build *b, struct kit_arg x, struct kit_arg number);
struct kit_arg part_plus(struct kit_build *b, struct kit_arg x, struct kit_arg number);
struct kit_arg part_add(struct kit_build *b, struct kit_arg x, struct kit_arg y);
struct kit_arg part_sub(struct kit_build *b, struct kit_arg x, struct kit_arg y);
struct kit_arg part_clamp(struct kit_build *b, struct kit_arg x, struct kit_arg min,
                          struct kit_arg max);
/* x where the condition is true, else y; and the same with a number in place of either. */
struct kit_arg part_where(struct kit_build *b, struct kit_arg condition, struct kit_arg x,
                          struct kit_arg y);
struct kit_arg part_where_else(struct kit_build *b, struct kit_arg condition, struct kit_arg x,
                               struct kit_arg number);
struct kit_arg part_where_number(struct kit_build *b, struct kit_arg condition,
                                 struct kit_arg number, struct kit_arg y);
/* log(1 + e^x), as max(x, 0) + log1p(e^-|x|). */
struct kit_arg part_softplus(struct kit_build *b, struct kit_arg x);
/* The number of a scalar argument, as a scalar that a build function has computed. */
double part_value(const struct kit_build *b, struct kit_arg scalar);

/* Writes the value to output 0, which has its shape: the last step writes there directly if it has
 * computed the value in the output's dtype. Then packs. */
enum bp_status part_end(struct kit_build *b, struct kit_arg value);
/* Gives temporaries that are not used at the same time the same memory. */
enum bp_status part_pack(struct kit_build *b);

#endif
