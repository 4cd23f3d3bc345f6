/* SPDX-License-Identifier: Apache-2.0 */
/* chain.c: builds one ONNX node from several operator calls. */
#include "chain.h"
#include <stdio.h>

struct onnx_chain onnx_chain_begin(struct onnx_call *c)
{
    return (struct onnx_chain){.call = c};
}

struct bp_tensor *onnx_chain_take(struct onnx_chain *k, struct bp_tensor *t)
{
    if (k->status == BP_OK && k->n == ONNX_CHAIN_ROOM)
        k->status = onnx_error(BP_ERR_INVALID, "a chain of more than %d calls", ONNX_CHAIN_ROOM);
    if (k->status) {
        bp_tensor_destroy(t);
        return NULL;
    }
    return k->made[k->n++] = t;
}

struct bp_tensor *onnx_chain_call(struct onnx_chain *k, const char *op, const void *attrs,
                                  struct bp_tensor *const *in, size_t n_in)
{
    struct bp_arg arg[ONNX_CHAIN_PORTS];
    const struct bp_call call = {.size = sizeof call, .op = op, .in = arg, .n_in = n_in,
                                 .attrs = attrs};
    struct bp_tensor *out = NULL;

    if (k->status) return NULL;
    for (size_t i = 0; i < n_in; i++) arg[i] = (struct bp_arg){&in[i], 1};
    k->status = bp_call_run(k->call->scope, &call, &out, 1, NULL);
    return k->status ? NULL : onnx_chain_take(k, out);
}

/* Finds the node's input whose tensor is t, or NULL. */
static struct onnx_value *input_of(const struct onnx_call *c, const struct bp_tensor *t)
{
    for (uint32_t i = 0; i < c->node->n_in; i++) {
        struct onnx_value *v = onnx_in_value(c, i);
        if (v && v->tensor == t) return v;
    }
    return NULL;
}

struct bp_tensor *onnx_chain_drop(struct onnx_chain *k, struct bp_tensor *t)
{
    for (uint32_t n = 0; n < k->n; n++)
        if (k->made[n] == t) k->made[n] = NULL;
    return t;
}

void onnx_chain_give(struct onnx_chain *k, uint32_t i, struct bp_tensor *t)
{
    struct onnx_value *input;

    if (k->status || !onnx_wants(k->call, i)) return;
    input = input_of(k->call, t);
    for (uint32_t n = 0; n < k->n; n++) {
        if (k->made[n] != t) continue;
        k->made[n] = NULL;
        k->status = onnx_give(k->call, i, t);
        return;
    }
    if (input) k->status = onnx_give_value(k->call, i, onnx_value_retain(input));
    else k->status = onnx_error(BP_ERR_INVALID, "output %u is not made", i);
}

/* Names a recorded value between two calls after the node, so that a failure of a later run names
 * the node of the model. */
static void chain_name(const struct onnx_chain *k, uint32_t n)
{
    const struct onnx_call *c = k->call;
    char name[96];

    if (!c->symbolic || !c->node->name) return;
    snprintf(name, sizeof name, "%.80s/%u", c->node->name, n);
    (void)bp_graph_name(c->run->graph, k->made[n], name);
}

enum bp_status onnx_chain_end(struct onnx_chain *k)
{
    for (uint32_t n = 0; n < k->n; n++) {
        if (k->made[n] && !k->status) chain_name(k, n);
        bp_tensor_destroy(k->made[n]);
    }
    k->n = 0;
    return k->status;
}

/* Converts a constant operand of a recorded node immediately, so that it is not converted in each
 * run. */
static struct bp_tensor *cast_now(struct onnx_chain *k, struct bp_tensor *x,
                                  const struct bp_cast_attrs *attrs)
{
    struct bp_tensor *y = NULL;

    k->status = bp_op_cast(bp_stream_scope(k->call->run->stream), x, attrs, &y);
    return onnx_chain_take(k, y);
}

struct bp_tensor *onnx_chain_cast(struct onnx_chain *k, struct bp_tensor *x, uint32_t dtype)
{
    struct bp_cast_attrs attrs = bp_cast_defaults();

    attrs.to = dtype;
    return onnx_chain_cast_by(k, x, &attrs);
}

struct bp_tensor *onnx_chain_cast_by(struct onnx_chain *k, struct bp_tensor *x,
                                     const struct bp_cast_attrs *attrs)
{
    const struct onnx_value *input;

    if (k->status || onnx_info(x).dtype == (uint32_t)attrs->to) return x;
    if (k->call->symbolic && (input = input_of(k->call, x)) && !input->symbolic)
        return cast_now(k, x, attrs);
    return MAKE(k, cast, attrs, x);
}

struct bp_tensor *onnx_chain_scale(struct onnx_chain *k, struct bp_tensor *x, double factor,
                                   double bias)
{
    struct bp_scale_attrs attrs = bp_scale_defaults();

    attrs.factor = factor;
    attrs.bias = bias;
    return MAKE(k, scale, &attrs, x);
}

struct bp_tensor *onnx_chain_reshape(struct onnx_chain *k, struct bp_tensor *x, int64_t rank,
                                     const int64_t *shape)
{
    struct bp_reshape_attrs attrs = bp_reshape_defaults();

    attrs.shape = (struct bp_dims){rank ? shape : NULL, rank};
    return MAKE(k, reshape, &attrs, x);
}

struct bp_tensor *onnx_chain_slice(struct onnx_chain *k, struct bp_tensor *x, int64_t axis,
                                   int64_t begin, int64_t end, int64_t step)
{
    struct bp_slice_attrs attrs = bp_slice_defaults();

    attrs.starts = (struct bp_dims){&begin, 1};
    attrs.ends = (struct bp_dims){&end, 1};
    attrs.axes = (struct bp_dims){&axis, 1};
    attrs.steps = (struct bp_dims){&step, 1};
    return MAKE(k, slice, &attrs, x);
}

struct bp_tensor *onnx_chain_number(struct onnx_chain *k, uint32_t dtype, double value)
{
    struct bp_full_attrs attrs = bp_full_defaults();

    attrs.dtype = dtype;
    attrs.value = value;
    return onnx_chain_call(k, "full", &attrs, NULL, 0);
}
