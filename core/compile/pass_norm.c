/* SPDX-License-Identifier: Apache-2.0 */
/* pass_norm.c: writes a batch_norm of frozen statistics as elementwise nodes, (x - mean) factor +
 * bias, so that the pass `fuse` merges them with their neighbours. Norms behind a convolution are
 * in its filters already (pass_affine.c). */
#include "passes.h"
#include "rewrite.h"

#include "../call/compose.h"

#include <backplane/ops.h>

enum {
    NORM_X,
    NORM_SCALE,
    NORM_BIAS,
    NORM_MEAN,
    NORM_VARIANCE,
    NORM_INPUTS
};

/* Reads the values of a node's inputs; BP_NO_VALUE where one is absent. */
static void norm_values(const struct bp_ir *ir, const struct bp_node *node,
                        uint32_t value[NORM_INPUTS])
{
    for (uint32_t p = 0; p < NORM_INPUTS; p++) {
        bool absent = node->in_at[p] == node->in_at[p + 1];
        value[p] = absent ? BP_NO_VALUE : node->in[node->in_at[p]];
        if (value[p] != BP_NO_VALUE) value[p] = bp_ir_same(ir, value[p]);
    }
}

/* Whether the node is a norm whose statistics the compiler knows, in the dtype of x. On a device
 * without a kernel of `fused`, it is faster as it is. Half types round at other places. */
static bool is_norm(const struct bp_ir *ir, uint32_t n)
{
    const struct bp_node *node = &ir->node[n].call;
    uint32_t value[NORM_INPUTS], dtype;

    if (node->row != &bp_opdef[BP_ROW_batch_norm] || node->kernel) return false;
    dtype = ir->value[node->out[0]].type->view.dtype;
    if (dtype != BP_F32 && dtype != BP_F64) return false;
    norm_values(ir, node, value);
    for (uint32_t p = NORM_X + 1; p < NORM_INPUTS; p++)
        if (value[p] != BP_NO_VALUE && (!bp_ir_is_frozen(ir, value[p]) ||
                                        ir->value[value[p]].type->view.dtype != dtype))
            return false;
    return bp_select_has_dtype(ir->device, &bp_opdef[BP_ROW_fused], dtype);
}

/* Gives a constant of one number for each channel the axes behind that of channels. */
static struct bp_tensor *norm_by_channel(struct bp_compose *c, struct bp_tensor *t, uint32_t rank)
{
    int64_t shape[BP_RANK_MAX];

    if (c->status) return NULL;
    for (uint32_t a = 0; a < rank; a++) shape[a] = 1;
    shape[0] = t->view.count;
    return bp_compose_reshape(c, t, rank - 1, shape);
}

static enum bp_status norm_record(struct bp_rewrite *rw, const struct bp_node *node,
                                  struct bp_tensor **out_result)
{
    const struct bp_batch_norm_attrs *attrs = node->attrs;
    struct bp_compose c = bp_compose_begin(bp_rewrite_scope(rw));
    struct bp_tensor *in[NORM_INPUTS], *factor, *y;
    uint32_t value[NORM_INPUTS], rank;

    norm_values(rw->ir, node, value);
    for (uint32_t p = 0; p < NORM_INPUTS; p++) TRY(bp_rewrite_in(rw, value[p], &in[p]));
    rank = in[NORM_X]->view.rank;
    factor = MAKE(&c, rsqrt, NULL, bp_compose_scale(&c, in[NORM_VARIANCE], 1, attrs->epsilon));
    if (in[NORM_SCALE]) factor = MAKE(&c, mul, NULL, factor, in[NORM_SCALE]);
    y = MAKE(&c, sub, NULL, in[NORM_X], norm_by_channel(&c, in[NORM_MEAN], rank));
    y = MAKE(&c, mul, NULL, y, norm_by_channel(&c, factor, rank));
    if (in[NORM_BIAS])
        y = MAKE(&c, add, NULL, y, norm_by_channel(&c, in[NORM_BIAS], rank));
    bp_compose_keep(&c, y, out_result);
    return bp_compose_end(&c);
}

static enum bp_status norm_replace(struct bp_ir *ir, uint32_t n)
{
    struct bp_tensor *result = NULL;
    struct bp_rewrite rw;
    enum bp_status status;

    TRY(bp_rewrite_begin(&rw, ir, &n, 1));
    status = norm_record(&rw, &ir->node[n].call, &result);
    if (status == BP_OK) return bp_rewrite_end(&rw, result, ir->node[n].call.out[0]);
    bp_rewrite_cancel(&rw);
    return status;
}

/* The pass fold then computes the factors. */
enum bp_status bp_pass_norm(struct bp_compilation *c)
{
    uint32_t found = 0;

    for (uint32_t n = c->ir->first, next; n != BP_NO_VALUE; n = next) {
        next = c->ir->node[n].next;
        if (!is_norm(c->ir, n)) continue;
        TRY(norm_replace(c->ir, n));
        found++;
    }
    c->changes += found;
    if (!found) return BP_OK;
    bp_ir_resolve(c->ir);
    return bp_pass_fold(c);
}
