/* SPDX-License-Identifier: Apache-2.0 */
/* attention.c: runs Attention nodes: splits heads that share one axis and puts the past keys and
 * values in front. The attention operator aligns the last query with the last key; a causal node
 * that aligns them otherwise gets an explicit mask. */
#include "../chain.h"
#include "../ops.h"
#include <math.h>
#include <stdlib.h>

/* The operands of the node; each is an input, or was created by the chain. */
struct parts {
    struct onnx_chain k;
    struct bp_tensor *q, *key, *v, *mask;
    bool joined; /* the last axis holds all heads */
};

static struct bp_tensor *attention_transpose(struct onnx_chain *k, struct bp_tensor *x)
{
    static const int64_t middle_transposed[] = {0, 2, 1, 3};
    struct bp_transpose_attrs attrs = bp_transpose_defaults();

    attrs.perm = (struct bp_dims){middle_transposed, 4};
    return MAKE(k, transpose, &attrs, x);
}

/* Reshapes B L (heads D) to B heads L D. */
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
    int64_t shape[] = {info.shape[0], info.shape[1], heads, info.shape[2] / heads};
    return attention_transpose(&p->k, onnx_chain_reshape(&p->k, x, 4, shape));
}

/* Puts the past in front of x. The result is also output number out, if the node has this
 * output. */
static struct bp_tensor *put_past(struct parts *p, uint32_t past, uint32_t out,
                                  struct bp_tensor *x)
{
    struct bp_tensor *both[] = {onnx_in(p->k.call, past), x}, *all = NULL;
    struct bp_concat_attrs concat = bp_concat_defaults();

    concat.axis = 2;
    if (both[0] && p->k.status == BP_OK) {
        p->k.status = bp_op_concat(p->k.call->scope, both, 2, &concat, &all);
        x = onnx_chain_take(&p->k, all);
    }
    if (onnx_wants(p->k.call, out)) onnx_chain_give(&p->k, out, MAKE(&p->k, assign, NULL, x));
    return x;
}

/* Adds a causal mask. Query i comes after `past` keys: it sees key j if j <= i + past. */
static void causal_mask(struct parts *p, int64_t rows, int64_t columns, int64_t past)
{
    const int64_t shape[] = {rows, columns};
    uint8_t *data = malloc((size_t)rows * (size_t)columns + 1);
    struct bp_tensor *visible = NULL;

    if (!data) p->k.status = onnx_no_memory();
    for (int64_t i = 0; data && i < rows; i++)
        for (int64_t j = 0; j < columns; j++) data[i * columns + j] = j <= i + past;
    if (p->k.status == BP_OK)
        p->k.status = onnx_constant(p->k.call, BP_BOOL, 2, shape, data, &visible);
    free(data);
    visible = onnx_chain_take(&p->k, visible);
    if (!p->mask) p->mask = visible;
    else if (onnx_info(p->mask).dtype == BP_BOOL)
        p->mask = MAKE(&p->k, logical_and, NULL, p->mask, visible);
    else /* the additive mask is kept for keys that the query sees */
        p->mask = MAKE(&p->k, where, NULL, visible, p->mask,
                       onnx_chain_number(&p->k, onnx_info(p->mask).dtype, -INFINITY));
}

/* From opset 24 on, a mask may cover fewer keys than there are: the others are not visible. Before,
 * an extent of 1 is a value for all keys; ONNX does not say which of both it is from then on. */
static void extend_mask(struct parts *p, int64_t keys)
{
    struct bp_pad_attrs attrs = bp_pad_defaults();
    int64_t before[ONNX_RANK_MAX] = {0}, after[ONNX_RANK_MAX] = {0};
    struct bp_tensor_info info = onnx_info(p->mask);

    if (p->k.call->node->opset < 24 || !info.rank || info.shape[info.rank - 1] >= keys) return;
    if (info.shape[info.rank - 1] == 1) {
        p->k.status = onnx_error(BP_ERR_UNSUPPORTED, "attn_mask has one column, for %lld keys: "
                                 "write all columns", (long long)keys);
        return;
    }
    after[info.rank - 1] = keys - info.shape[info.rank - 1];
    attrs.before = (struct bp_dims){before, info.rank};
    attrs.after = (struct bp_dims){after, info.rank};
    attrs.value = info.dtype == BP_BOOL ? 0 : (double)-INFINITY;
    p->mask = MAKE(&p->k, pad, &attrs, p->mask, NULL, NULL);
}

static void attention_attend(struct parts *p)
{
    struct bp_attention_attrs attrs = bp_attention_defaults();
    struct onnx_call *c = p->k.call;
    struct bp_tensor_info q, key;
    struct bp_tensor *y;
    int64_t past;

    p->q = take_apart(p, 0, "q_num_heads");
    p->key = put_past(p, 4, 1, take_apart(p, 1, "kv_num_heads"));
    p->v = put_past(p, 5, 2, take_apart(p, 2, "kv_num_heads"));
    if (p->k.status) return;
    if (p->mask && onnx_info(p->mask).dtype != BP_BOOL) /* it may have another dtype */
        p->mask = onnx_chain_cast(&p->k, p->mask, onnx_info(p->q).dtype);
    q = onnx_info(p->q);
    key = onnx_info(p->key);
    if (p->mask) extend_mask(p, key.shape[2]);
    if (p->k.status) return;
    attrs.scale = onnx_attr_float(c, "scale", 0);
    attrs.causal = onnx_attr_int(c, "is_causal", 0) != 0;
    past = onnx_in(c, 4) ? onnx_info(onnx_in(c, 4)).shape[2] : 0;
    if (attrs.causal && q.shape[2] + past != key.shape[2]) {
        causal_mask(p, q.shape[2], key.shape[2], past);
        attrs.causal = 0;
    }
    y = MAKE(&p->k, attention, &attrs, p->q, p->key, p->v, p->mask);
    if (p->joined && y) { /* joins the heads in the last axis */
        struct bp_tensor_info info = onnx_info(y);
        int64_t shape[] = {info.shape[0], info.shape[2], info.shape[1] * info.shape[3]};
        y = onnx_chain_reshape(&p->k, attention_transpose(&p->k, y), 3, shape);
    }
    onnx_chain_give(&p->k, 0, y);
}

enum bp_status onnx_attention(struct onnx_call *c)
{
    struct parts p = {.k = onnx_chain_begin(c), .mask = onnx_in(c, 3)};

    TRY(onnx_need(c, 3));
    p.joined = onnx_info(onnx_in(c, 0)).rank == 3;
    attention_attend(&p);
    return onnx_chain_end(&p.k);
}
