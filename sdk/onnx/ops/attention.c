/* SPDX-License-Identifier: Apache-2.0 */
/* attention.c: runs Attention nodes: splits heads that share one axis, puts the past keys and
 * values in front, and reads which keys a query sees. */
#include "../ops.h"
#include "heads.h"
#include <math.h>

/* The operands of the node; each is an input, or was created by the chain. */
struct parts {
    struct onnx_chain k;
    struct bp_tensor *q, *key, *v, *mask;
    bool joined; /* the last axis holds all heads */
};

static struct bp_tensor *take_apart(struct parts *p, uint32_t i, const char *attribute)
{
    int64_t heads = onnx_attr_int(p->k.call, attribute, 0);
    struct bp_tensor *x = onnx_in(p->k.call, i);
    struct bp_tensor_info info = onnx_info(x);

    if (info.rank == 4 && !p->joined) return x;
    if (info.rank != 3 || !p->joined || heads < 1 || info.shape[2] % heads) {
        p->k.status = onnx_error(BP_ERR_INVALID, "input %u has %u axes, for %lld heads", i,
                                 info.rank, (long long)heads);
        return NULL;
    }
    return onnx_heads_split(&p->k, x, heads);
}

/* Puts the past in front of x. The result is also output number out, if the node has this
 * output. */
static struct bp_tensor *put_past(struct parts *p, uint32_t past, uint32_t out,
                                  struct bp_tensor *x)
{
    struct bp_tensor *both[] = {onnx_in(p->k.call, past), x};

    if (both[0]) x = onnx_heads_concat(&p->k, both, 2, 2);
    if (onnx_wants(p->k.call, out)) onnx_chain_give(&p->k, out, MAKE(&p->k, assign, NULL, x));
    return x;
}

/* From opset 24 on, a mask may be for fewer keys; the others are not seen. The text also lets an
 * extent of 1 broadcast, but ONNX's definition of the operator by others always pads: so does
 * this. */
static void attention_pad_mask(struct parts *p, int64_t columns)
{
    int64_t before[ONNX_RANK_MAX] = {0}, after[ONNX_RANK_MAX] = {0};
    struct bp_pad_attrs attrs = bp_pad_defaults();
    struct bp_tensor_info info;

    if (p->k.status || !p->mask || p->k.call->node->opset < 24) return;
    info = onnx_info(p->mask);
    if (!info.rank || info.rank > 4 || info.shape[info.rank - 1] >= columns) return;
    after[info.rank - 1] = columns - info.shape[info.rank - 1];
    attrs.before = (struct bp_dims){before, info.rank};
    attrs.after = (struct bp_dims){after, info.rank};
    attrs.value = info.dtype == BP_BOOL ? 0 : -INFINITY;
    if (info.dtype != BP_BOOL) p->mask = onnx_chain_cast(&p->k, p->mask, onnx_info(p->q).dtype);
    p->mask = MAKE(&p->k, pad, &attrs, p->mask);
}

/* Reads the window of the node. With nonpad_kv_seqlen the last query of a batch has the position of
 * the last key that is no padding. */
static void attention_window(struct parts *p, int64_t past, struct onnx_window *w)
{
    struct onnx_call *c = p->k.call;

    *w = (struct onnx_window){.left = onnx_attr_int(c, "left_window_size", -1),
                              .right = onnx_attr_int(c, "right_window_size", -1),
                              .offset = past,
                              .ends = onnx_in(c, 6)};
    if (w->left < -1 || w->right < -1)
        p->k.status = onnx_error(BP_ERR_INVALID, "left_window_size is %lld, right_window_size is "
                                 "%lld, expected -1 or more", (long long)w->left,
                                 (long long)w->right);
    if (w->left > INT32_MAX) w->left = INT32_MAX; /* so that sums do not overflow */
    if (w->right > INT32_MAX) w->right = INT32_MAX;
    if (onnx_attr_int(c, "is_causal", 0)) w->right = 0;
}

static void attention_attend(struct parts *p)
{
    struct onnx_call *c = p->k.call;
    struct onnx_attention a = {.scale = onnx_attr_float(c, "scale", 0),
                               .softcap = onnx_attr_float(c, "softcap", 0),
                               .mode = onnx_attr_int(c, "qk_matmul_output_mode", 0),
                               .want_product = onnx_wants(c, 3)};
    struct bp_tensor *product = NULL, *y;
    int64_t past;

    p->q = take_apart(p, 0, "q_num_heads");
    p->key = put_past(p, 4, 1, take_apart(p, 1, "kv_num_heads"));
    p->v = put_past(p, 5, 2, take_apart(p, 2, "kv_num_heads"));
    if (p->k.status) return;
    past = onnx_in(c, 4) ? onnx_info(onnx_in(c, 4)).shape[2] : 0;
    attention_pad_mask(p, onnx_info(p->key).shape[2]);
    attention_window(p, past, &a.window);
    a.q = p->q;
    a.key = p->key;
    a.v = p->v;
    a.mask = p->mask;
    y = onnx_attend(&p->k, &a, &product);
    if (p->joined) y = onnx_heads_join(&p->k, y);
    if (a.want_product) onnx_chain_give(&p->k, 3, product);
    onnx_chain_give(&p->k, 0, y);
}

enum bp_status onnx_attention(struct onnx_call *c)
{
    struct parts p = {.k = onnx_chain_begin(c), .mask = onnx_in(c, 3)};

    TRY(onnx_need(c, 3));
    if (!onnx_in(c, 4) != !onnx_in(c, 5))
        return onnx_error(BP_ERR_INVALID, "past_key and past_value are expected together");
    if (onnx_in(c, 6) && c->node->opset < 24)
        return onnx_error(BP_ERR_INVALID, "nonpad_kv_seqlen is known from opset 24 on, this is "
                          "opset %lld", (long long)c->node->opset);
    if (onnx_in(c, 6) && onnx_in(c, 4))
        return onnx_error(BP_ERR_INVALID, "nonpad_kv_seqlen and past_key exclude each other");
    p.joined = onnx_info(onnx_in(c, 0)).rank == 3;
    attention_attend(&p);
    return onnx_chain_end(&p.k);
}
