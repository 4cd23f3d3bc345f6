/* SPDX-License-Identifier: Apache-2.0 */
/* shape.h: declares helpers of the decompositions of losses. */
#ifndef BP_OPS_LOSS_SHAPE_H
#define BP_OPS_LOSS_SHAPE_H

#include <call/compose.h>

/* The first attributes of all losses. */
struct bp_loss_attrs {
    size_t size;
    int64_t reduction;
};

/* A decomposition in progress: its inputs, half types as f32; absent inputs are NULL. */
struct bp_loss {
    struct bp_decomposition *e;
    struct bp_compose c;
    struct bp_tensor *in[4];
};
struct bp_loss bp_loss_begin(struct bp_decomposition *e);

/* Ends the decomposition: reduces the losses by the attribute, and converts them to the dtype of
 * the first input. */
enum bp_status bp_loss_end(struct bp_loss *l, struct bp_tensor *losses);

/* The sum, or the mean, of all elements. */
struct bp_tensor *bp_loss_sum(struct bp_compose *c, struct bp_tensor *x);
struct bp_tensor *bp_loss_mean(struct bp_compose *c, struct bp_tensor *x);

struct bp_tensor *bp_loss_clip(struct bp_compose *c, struct bp_tensor *x, double min, double max);

/* x where the condition is true, 0 where it is false; invert: the other way round. */
struct bp_tensor *bp_loss_mask(struct bp_compose *c, struct bp_tensor *x,
                               struct bp_tensor *condition, bool invert);

/* Whether x is above a number. */
struct bp_tensor *bp_loss_above(struct bp_compose *c, struct bp_tensor *x, double number);

/* Sets the result of a loss, whose type is `each` without a reduction. Checks that the reduction is
 * at most `most`. */
enum bp_status bp_loss_result(struct bp_invocation *inv, const struct bp_type *each, int64_t most);

/* Refuses an attribute that is below `least`. */
enum bp_status bp_loss_least(const struct bp_invocation *inv, const char *attr, double value,
                             double least);

#endif
