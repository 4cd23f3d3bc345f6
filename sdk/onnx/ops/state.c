/* SPDX-License-Identifier: Apache-2.0 */
/* state.c: runs layers whose state passes from one call to the next: CausalConvWithState and
 * LinearAttention. */
#include "../chain.h"
#include "../ops.h"
#include <string.h>

/* Creates zeros. */
static struct bp_tensor *state_zeros(struct onnx_chain *k, uint32_t dtype, int64_t rank,
                                     const int64_t *shape)
{
    struct bp_full_attrs attrs = bp_full_defaults();

    attrs.dtype = dtype;
    attrs.shape = (struct bp_dims){shape, rank};
    return onnx_chain_call(k, "full", &attrs, NULL, 0);
}

/* Calls an operator with two outputs, and gives both to the node. */
static enum bp_status state_give(struct onnx_chain *k, const char *op, const void *attrs,
                                 struct bp_tensor **in, uint32_t n, uint32_t state_dtype)
{
    struct bp_arg arg[8];
    const struct bp_call call = {.size = sizeof call, .op = op, .in = arg, .n_in = n,
                                 .attrs = attrs};
    struct bp_tensor *out[2] = {NULL};

    for (uint32_t i = 0; i < n; i++) arg[i] = (struct bp_arg){&in[i], 1};
    if (k->status == BP_OK) k->status = bp_call_run(k->call->scope, &call, out, 2, NULL);
    if (k->status == BP_OK) {
        onnx_chain_take(k, out[0]);
        onnx_chain_take(k, out[1]);
    }
    if (k->status == BP_OK && onnx_info(in[0]).rank == 4) {
        struct bp_tensor_info y = onnx_info(out[0]);
        int64_t packed[] = {y.shape[0], y.shape[1], y.shape[2] * y.shape[3]};
        out[0] = onnx_chain_reshape(k, out[0], 3, packed);
    }
    onnx_chain_give(k, 0, out[0]);
    if (k->status == BP_OK && onnx_wants(k->call, 1))
        onnx_chain_give(k, 1, onnx_chain_cast(k, out[1], state_dtype));
    return onnx_chain_end(k);
}

enum bp_status onnx_causal_conv(struct onnx_call *c)
{
    struct bp_causal_conv_with_state_attrs attrs =
        *(const struct bp_causal_conv_with_state_attrs *)bp_opinfo_find("causal_conv_with_state")
             ->defaults;
    struct onnx_chain k = onnx_chain_begin(c);
    struct bp_tensor *in[4];

    TRY(onnx_need(c, 2));
    for (uint32_t i = 0; i < 4; i++) in[i] = onnx_in(c, i);
    attrs.silu = !onnx_attr_is(c, "activation", "none", "none");
    return state_give(&k, "causal_conv_with_state", &attrs, in, 4, onnx_info(in[0]).dtype);
}

/* Divides the last extent of an input, B T (heads D), into heads. */
static void state_split(struct onnx_chain *k, uint32_t i, int64_t heads, struct bp_tensor **x)
{
    struct bp_tensor_info info;
    int64_t shape[4];

    if (!*x || k->status) return;
    info = onnx_info(*x);
    if (info.rank != 3 || info.shape[2] % heads) {
        k->status = onnx_error(BP_ERR_INVALID, "input %u: 3 axes are expected, the last a multiple "
                               "of %lld heads", i, (long long)heads);
        return;
    }
    memcpy(shape, info.shape, 2 * sizeof *shape);
    shape[2] = heads;
    shape[3] = info.shape[2] / heads;
    *x = onnx_chain_reshape(k, *x, 4, shape);
}

/* Whether the rates of all heads are one number for each step. */
static bool has_one_rate(struct bp_tensor *beta)
{
    struct bp_tensor_info info = onnx_info(beta);

    return info.rank == 3 && info.shape[2] == 1;
}

/* Checks that decay and beta are present exactly if the rule uses them. */
static enum bp_status check_rule(const struct onnx_call *c, bool decay, bool beta)
{
    bool gated = onnx_attr_is(c, "update_rule", "gated", "gated_delta");
    bool delta = onnx_attr_is(c, "update_rule", "delta", "gated_delta");
    bool both = onnx_attr_is(c, "update_rule", "gated_delta", "gated_delta");

    if (decay == (gated || both) && beta == (delta || both)) return BP_OK;
    return onnx_error(BP_ERR_INVALID, "inputs 4 (decay) and 5 (beta) do not fit update_rule, which "
                      "expects %s", both ? "both" : gated ? "decay alone"
                                         : delta ? "beta alone" : "none of them");
}

/* Linear attention of packed heads. The state may have another type than the values: it is computed
 * in f32 then. */
enum bp_status onnx_linear_attention(struct onnx_call *c)
{
    struct bp_linear_attention_attrs attrs =
        *(const struct bp_linear_attention_attrs *)bp_opinfo_find("linear_attention")->defaults;
    int64_t heads = onnx_attr_int(c, "kv_num_heads", 0), wide = onnx_attr_int(c, "q_num_heads", 0);
    struct onnx_chain k = onnx_chain_begin(c);
    struct bp_tensor *in[6];
    uint32_t dtype, state;

    TRY(onnx_need(c, 3));
    if (heads < 1 || wide < 1)
        return onnx_error(BP_ERR_INVALID, "kv_num_heads is %lld and q_num_heads %lld, expected 1 "
                          "or more", (long long)heads, (long long)wide);
    for (uint32_t i = 0; i < 6; i++) in[i] = onnx_in(c, i);
    TRY(check_rule(c, in[4], in[5]));
    dtype = onnx_info(in[0]).dtype;
    state = in[3] ? onnx_info(in[3]).dtype : dtype;
    state_split(&k, 0, wide, &in[0]);
    state_split(&k, 1, heads, &in[1]);
    state_split(&k, 2, heads, &in[2]);
    state_split(&k, 4, heads, &in[4]);
    state_split(&k, 5, in[5] && has_one_rate(in[5]) ? 1 : heads, &in[5]);
    if (k.status) return onnx_chain_end(&k);
    if (!in[3]) {
        int64_t shape[] = {onnx_info(in[1]).shape[0], heads, onnx_info(in[1]).shape[3],
                           onnx_info(in[2]).shape[3]};
        in[3] = state_zeros(&k, dtype, 4, shape);
    } else if (state != dtype) in[3] = onnx_chain_cast(&k, in[3], BP_F32);
    attrs.scale = onnx_attr_float(c, "scale", 0);
    return state_give(&k, "linear_attention", &attrs, in, 6, state);
}
