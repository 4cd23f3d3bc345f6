/* SPDX-License-Identifier: Apache-2.0 */
/* flex.c: runs FlexAttention of ai.onnx.preview: attention whose scores and probabilities graphs of
 * the node may change. */
#include "../ops.h"
#include "body.h"
#include "heads.h"
#include <math.h>
#include <string.h>

/* Checks that the result of a graph is a tensor of the type of x. */
static enum bp_status flex_check(const char *name, const struct onnx_value *made,
                                 const struct bp_tensor_info *x)
{
    struct bp_tensor_info to;

    if (made->kind != BP_MODEL_TENSOR)
        return onnx_error(BP_ERR_INVALID, "graph %s does not make a tensor", name);
    to = onnx_info(made->tensor);
    if (to.rank == x->rank && to.dtype == x->dtype &&
        !memcmp(to.shape, x->shape, x->rank * sizeof *x->shape))
        return BP_OK;
    return onnx_error(BP_ERR_INVALID, "graph %s makes a tensor of another type than that of its "
                      "input", name);
}

/* Returns the result of the graph `name` for x, or x if the node does not have the graph. The
 * result belongs to *out, which the caller releases. */
static struct bp_tensor *flex_modify(struct onnx_chain *k, const char *name, struct bp_tensor *x,
                                     struct onnx_value **out)
{
    struct onnx_call *c = k->call;
    struct onnx_value *in = NULL;
    struct onnx_inner inner;

    if (k->status || !onnx_attr(c->node, name)) return x;
    k->status = onnx_inner_find(c, name, &inner);
    if (k->status) return NULL;
    if (inner.body->n_input != 1 || inner.body->n_output != 1) {
        k->status = onnx_error(BP_ERR_INVALID, "graph %s has %u inputs and %u outputs, expected "
                               "one of each", name, inner.body->n_input, inner.body->n_output);
        return NULL;
    }
    k->status = onnx_value_tensor(c->run, onnx_chain_drop(k, x), c->symbolic, &in);
    if (k->status) return NULL;
    k->status = onnx_inner_run(c, &inner, &in, out);
    if (k->status == BP_OK) {
        struct bp_tensor_info info = onnx_info(in->tensor);
        k->status = flex_check(name, *out, &info);
    }
    onnx_value_release(in);
    return k->status ? NULL : (*out)->tensor;
}

enum bp_status onnx_flex_attention(struct onnx_call *c)
{
    struct onnx_attention a = {.q = onnx_in(c, 0), .key = onnx_in(c, 1), .v = onnx_in(c, 2)};
    struct onnx_chain k = onnx_chain_begin(c);
    struct onnx_value *made[2] = {NULL, NULL};
    struct bp_tensor_info q;
    struct bp_tensor *x;
    uint32_t dtype;
    double scale;

    TRY(onnx_need(c, 3));
    for (uint32_t i = 0; i < 3; i++)
        if (onnx_info(onnx_in(c, i)).rank != 4)
            return onnx_error(BP_ERR_INVALID, "input %u has %u axes, expected 4", i,
                              onnx_info(onnx_in(c, i)).rank);
    q = onnx_info(a.q);
    TRY(onnx_attr_dtype(c, "softmax_precision", q.dtype == BP_F64 ? BP_F64 : BP_F32, &dtype));
    scale = onnx_attr_float(c, "scale", 1 / sqrt((double)q.shape[3]));
    if (!onnx_attend_check(&k, &a)) return onnx_chain_end(&k);
    x = onnx_attend_product(&k, onnx_chain_cast(&k, a.q, dtype), onnx_chain_cast(&k, a.key, dtype),
                            true);
    x = onnx_chain_scale(&k, x, scale, 0);
    x = flex_modify(&k, "score_mod", x, &made[0]);
    x = flex_modify(&k, "prob_mod", MAKE(&k, softmax, NULL, x), &made[1]);
    x = onnx_attend_product(&k, x, onnx_chain_cast(&k, a.v, dtype), false);
    onnx_chain_give(&k, 0, onnx_chain_cast(&k, x, q.dtype));
    for (int i = 0; i < 2; i++) onnx_value_release(made[i]);
    return onnx_chain_end(&k);
}
