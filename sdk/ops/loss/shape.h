/* SPDX-License-Identifier: Apache-2.0 */
/* shape.h: what expansions of losses share. */
#ifndef BP_OPS_LOSS_SHAPE_H
#define BP_OPS_LOSS_SHAPE_H

#include <call/compose.h>

/* What attributes of losses begin with. */
struct bp_loss_attrs {
    size_t size;
    int64_t reduction;
};

/* An expansion under way: its inputs, half types in f32; absent ones NULL. */
struct bp_loss {
    struct bp_decomposition *e;
    struct bp_compose c;
    struct bp_tensor *in[4];
};
struct bp_loss bp_loss_begin(struct bp_decomposition *e);

/* Ends it: the losses, reduced as the attribute says, as the dtype of the first input. */
enum bp_status bp_loss_end(struct bp_loss *l, struct bp_tensor *losses);

/* The sum, or the mean, of all elements. */
struct bp_tensor *bp_loss_sum(struct bp_compose *c, struct bp_tensor *x);
struct bp_tensor *bp_loss_mean(struct bp_compose *c, struct bp_tensor *x);

struct bp_tensor *bp_loss_clip(struct bp_compose *c, struct bp_tensor *x, double min, double max);

/* x where the condition is true, 0 elsewhere; invert: where it is false. */
struct bp_tensor *bp_loss_mask(struct bp_compose *c, struct bp_tensor *x,
                               struct bp_tensor *condition, bool invert);

/* Whether x is above a number. */
struct bp_tensor *bp_loss_above(struct bp_compose *c, struct bp_tensor *x, double number);

/* The result of a loss, of which each is where nothing is reduced; checks the reduction, at most
 * most. */
enum bp_status bp_loss_result(struct bp_invocation *site, const struct bp_type *each, int64_t most);

/* Refuses an attribute below the least. */
enum bp_status bp_loss_least(const struct bp_invocation *site, const char *attr, double value,
                             double least);

#endif
