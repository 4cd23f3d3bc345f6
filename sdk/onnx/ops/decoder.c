/* SPDX-License-Identifier: Apache-2.0 */
/* decoder.c: runs MultiHeadAttention and GroupQueryAttention of the domain com.microsoft. */
#include "../ops.h"
#include "heads.h"

/* Adds the elements of bias from begin on to a projection, B L (heads D), and splits it. */
static struct bp_tensor *decoder_project(struct onnx_chain *k, struct bp_tensor *x,
                                         struct bp_tensor *bias, int64_t begin, int64_t heads)
{
    if (k->status) return NULL;
    if (onnx_info(x).rank == 4) return x;
    if (bias) {
        int64_t end = begin + onnx_info(x).shape[2];
        x = MAKE(k, add, NULL, x, onnx_chain_slice(k, bias, -1, begin, end, 1));
    }
    return onnx_heads_split(k, x, heads);
}

/* Checks the operands of MultiHeadAttention: B L (heads D), or for keys and values of an encoder
 * B heads S D. */
static enum bp_status decoder_check(struct onnx_call *c, int64_t heads)
{
    struct bp_tensor_info x[3], bias;
    int64_t sum = 0;

    for (uint32_t i = 0; i < 3; i++) {
        x[i] = onnx_info(onnx_in(c, i));
        if (x[i].rank == 5 || !onnx_in(c, i))
            return onnx_error(BP_ERR_UNSUPPORTED, "packed queries, keys and values are not "
                              "supported: split them into inputs 0 to 2");
        if (x[i].rank == 4 && i && x[i].shape[1] == heads && !onnx_in(c, 3) && !onnx_in(c, 6))
            continue;
        if (x[i].rank != 3 || heads < 1 || x[i].shape[2] % heads)
            return onnx_error(BP_ERR_INVALID, "input %u has %u axes, for %lld heads", i,
                              x[i].rank, (long long)heads);
        sum += x[i].shape[2];
    }
    if (!onnx_in(c, 6) != !onnx_in(c, 7))
        return onnx_error(BP_ERR_INVALID, "past_key and past_value are expected together");
    if (!onnx_in(c, 3)) return BP_OK;
    bias = onnx_info(onnx_in(c, 3));
    if (bias.rank == 1 && bias.shape[0] == sum) return BP_OK;
    return onnx_error(BP_ERR_INVALID, "bias: a list of %lld numbers is expected", (long long)sum);
}

/* Converts key_padding_mask to a summand: mask_filter_value for keys that are padding. It has the
 * number of keys of each batch, or a number for each key that is above 0 if the key is no
 * padding. */
static struct bp_tensor *decoder_padding(struct onnx_chain *k, struct bp_tensor *mask,
                                         const struct bp_tensor_info *q, int64_t keys)
{
    int64_t rows = q->shape[2], batch = q->shape[0];
    struct bp_tensor *visible, *filter;
    struct bp_tensor_info m;

    if (!mask || k->status) return NULL;
    m = onnx_info(mask);
    mask = onnx_chain_cast(k, mask, BP_I64);
    if (m.rank == 1 && m.shape[0] == batch) {
        mask = onnx_chain_reshape(k, mask, 4, (const int64_t[]){batch, 1, 1, 1});
        visible = MAKE(k, less_than, NULL, onnx_heads_numbers(k, keys, 1, &keys), mask);
    } else if ((m.rank == 2 && m.shape[0] == batch && m.shape[1] == keys) ||
               (m.rank == 3 && m.shape[0] == batch && m.shape[1] == rows && m.shape[2] == keys)) {
        int64_t shape[] = {batch, 1, m.rank == 3 ? rows : 1, keys};
        mask = onnx_chain_reshape(k, mask, 4, shape);
        visible = MAKE(k, greater_than, NULL, mask, onnx_chain_number(k, BP_I64, 0));
    } else {
        k->status = onnx_error(BP_ERR_UNSUPPORTED, "key_padding_mask: [%lld], [%lld, %lld] or "
                               "[%lld, %lld, %lld] is expected", (long long)batch,
                               (long long)batch, (long long)keys, (long long)batch,
                               (long long)rows, (long long)keys);
        return NULL;
    }
    filter = onnx_chain_number(k, q->dtype, onnx_attr_float(k->call, "mask_filter_value", -10000));
    return MAKE(k, where, NULL, visible, onnx_chain_number(k, q->dtype, 0), filter);
}

/* Puts the past in front of x; the result is also an output, if the node has this output. */
static struct bp_tensor *decoder_past(struct onnx_chain *k, uint32_t past, uint32_t out,
                                      struct bp_tensor *x)
{
    struct bp_tensor *both[] = {onnx_in(k->call, past), x};

    if (both[0]) x = onnx_heads_concat(k, both, 2, 2);
    if (onnx_wants(k->call, out)) onnx_chain_give(k, out, MAKE(k, assign, NULL, x));
    return x;
}

enum bp_status onnx_contrib_attention(struct onnx_call *c)
{
    int64_t heads = onnx_attr_int(c, "num_heads", 0), width[2];
    struct onnx_attention a = {.scale = onnx_attr_float(c, "scale", 0)};
    struct bp_tensor *bias = onnx_in(c, 3), *added = onnx_in(c, 5);
    struct onnx_chain k = onnx_chain_begin(c);
    struct bp_tensor_info q, key;

    TRY(onnx_need(c, 1));
    TRY(decoder_check(c, heads));
    for (uint32_t i = 0; i < 2; i++) width[i] = onnx_info(onnx_in(c, i)).shape[2];
    a.q = decoder_project(&k, onnx_in(c, 0), bias, 0, heads);
    a.key = decoder_project(&k, onnx_in(c, 1), bias, width[0], heads);
    a.v = decoder_project(&k, onnx_in(c, 2), bias, width[0] + width[1], heads);
    a.key = decoder_past(&k, 6, 1, a.key);
    a.v = decoder_past(&k, 7, 2, a.v);
    if (k.status) return onnx_chain_end(&k);
    q = onnx_info(a.q);
    key = onnx_info(a.key);
    a.window = (struct onnx_window){
        .left = -1, .right = onnx_attr_int(c, "unidirectional", 0) ? 0 : -1,
        .offset = onnx_in(c, 6) ? onnx_info(onnx_in(c, 6)).shape[2] : 0};
    a.mask = decoder_padding(&k, onnx_in(c, 4), &q, key.shape[2]);
    if (added) a.mask = a.mask ? MAKE(&k, add, NULL, a.mask, added) : added;
    onnx_chain_give(&k, 0, onnx_heads_join(&k, onnx_attend(&k, &a, NULL)));
    return onnx_chain_end(&k);
}

/* A call of GroupQueryAttention. The new tokens of a batch begin at position start, or at
 * starts[batch] if batches differ; total is the largest number of tokens of a batch, and room the
 * number of positions of the past. */
struct group {
    struct onnx_chain k;
    int64_t heads, kv_heads, size, batch, length, total, room, start;
    struct bp_tensor *starts; /* i64, or NULL */
};

static enum bp_status group_read(struct group *g)
{
    struct onnx_call *c = g->k.call;
    struct bp_tensor_info q, key, past;
    bool packed = !onnx_in(c, 1);
    int64_t all;

    g->heads = onnx_attr_int(c, "num_heads", 0);
    g->kv_heads = onnx_attr_int(c, "kv_num_heads", 0);
    if (g->heads < 1 || g->kv_heads < 1 || g->heads % g->kv_heads || g->heads > INT32_MAX)
        return onnx_error(BP_ERR_INVALID, "num_heads is %lld, kv_num_heads is %lld",
                          (long long)g->heads, (long long)g->kv_heads);
    if (packed != !onnx_in(c, 2) || !onnx_in(c, 3) != !onnx_in(c, 4))
        return onnx_error(BP_ERR_INVALID, "keys and values are expected together");
    q = onnx_info(onnx_in(c, 0));
    all = packed ? g->heads + 2 * g->kv_heads : g->heads;
    if (q.rank != 3 || q.shape[2] % all)
        return onnx_error(BP_ERR_INVALID, "query: 3 axes are expected, the last of %lld heads",
                          (long long)all);
    g->batch = q.shape[0];
    g->length = q.shape[1];
    g->size = q.shape[2] / all;
    for (uint32_t i = 1; i < 3 && !packed; i++) {
        key = onnx_info(onnx_in(c, i));
        if (key.rank != 3 || key.shape[0] != g->batch || key.shape[1] != g->length ||
            key.shape[2] != g->kv_heads * g->size)
            return onnx_error(BP_ERR_INVALID, "input %u: [%lld, %lld, %lld] is expected", i,
                              (long long)g->batch, (long long)g->length,
                              (long long)(g->kv_heads * g->size));
    }
    for (uint32_t i = 3; i < 5 && onnx_in(c, i); i++) {
        past = onnx_info(onnx_in(c, i));
        if (past.rank != 4 || past.shape[0] != g->batch || past.shape[1] != g->kv_heads ||
            past.shape[3] != g->size || (i == 4 && past.shape[2] != g->room))
            return onnx_error(BP_ERR_INVALID, "input %u: [%lld, %lld, positions, %lld] is "
                              "expected", i, (long long)g->batch, (long long)g->kv_heads,
                              (long long)g->size);
        g->room = past.shape[2];
    }
    return BP_OK;
}

/* Finds where the new tokens begin. A first prompt has no past: its shorter batches are padded
 * behind, and results of padding are undefined. */
static enum bp_status group_place(struct group *g)
{
    struct onnx_call *c = g->k.call;
    struct bp_tensor *last = onnx_in(c, 5);

    if (!last || onnx_info(last).count != g->batch)
        return onnx_error(BP_ERR_INVALID, "seqlens_k: %lld numbers are expected",
                          (long long)g->batch);
    TRY(onnx_in_whole(c, 6, &g->total));
    g->start = g->total - g->length;
    if (g->start < 0 || g->start > g->room)
        return onnx_error(BP_ERR_INVALID, "total_sequence_length is %lld, for %lld tokens and a "
                          "past of %lld", (long long)g->total, (long long)g->length,
                          (long long)g->room);
    if (g->batch == 1 || !g->start) return BP_OK;
    last = onnx_chain_reshape(&g->k, onnx_chain_cast(&g->k, last, BP_I64), 1, &g->batch);
    g->starts = MAKE(&g->k, add, NULL, last,
                     onnx_chain_number(&g->k, BP_I64, (double)(1 - g->length)));
    return BP_OK;
}

/* The rows of cos_cache or sin_cache for the new tokens. */
static struct bp_tensor *group_table(struct group *g, uint32_t input)
{
    const int64_t row[] = {1, g->length}, column[] = {g->batch, 1};
    struct bp_tensor *at = onnx_heads_numbers(&g->k, g->length, 2, row);

    if (g->starts)
        at = MAKE(&g->k, add, NULL, at, onnx_chain_reshape(&g->k, g->starts, 2, column));
    else if (g->start)
        at = MAKE(&g->k, add, NULL, at, onnx_chain_number(&g->k, BP_I64, (double)g->start));
    return MAKE(&g->k, gather, NULL, onnx_in(g->k.call, input), at);
}

static enum bp_status group_check_tables(const struct group *g)
{
    for (uint32_t i = 7; i < 9; i++) {
        struct bp_tensor *table = onnx_in(g->k.call, i);
        struct bp_tensor_info info = table ? onnx_info(table) : (struct bp_tensor_info){0};
        if (info.rank != 2 || info.shape[1] < 1 || 2 * info.shape[1] > g->size ||
            info.shape[1] != onnx_info(onnx_in(g->k.call, 7)).shape[1])
            return onnx_error(BP_ERR_INVALID, "do_rotary: cos_cache and sin_cache of 2 axes are "
                              "expected, with half as many columns as elements are rotated");
    }
    return BP_OK;
}

/* Writes the new keys or values into the past. The result has the positions of the past, or as
 * many as there are tokens; it is output number out. */
static struct bp_tensor *group_write(struct group *g, uint32_t input, uint32_t out,
                                     struct bp_tensor *x)
{
    int64_t end = g->start + g->length, more = g->total - g->room;
    struct bp_tensor *past = onnx_in(g->k.call, input), *part[3];
    size_t n = 0;

    if (g->starts) { /* group_place has checked that there is a past */
        int64_t none[4] = {0}, after[4] = {0, 0, more, 0};
        struct bp_pad_attrs attrs = bp_pad_defaults();
        attrs.before = (struct bp_dims){none, 4};
        attrs.after = (struct bp_dims){after, 4};
        if (more > 0) past = MAKE(&g->k, pad, &attrs, past);
        x = onnx_cache_write(&g->k, past, x, g->starts, 2, false);
    } else {
        if (g->start) part[n++] = onnx_chain_slice(&g->k, past, 2, 0, g->start, 1);
        part[n++] = x;
        if (end < g->room) part[n++] = onnx_chain_slice(&g->k, past, 2, end, g->room, 1);
        if (n > 1) x = onnx_heads_concat(&g->k, part, n, 2);
    }
    if (onnx_wants(g->k.call, out)) onnx_chain_give(&g->k, out, MAKE(&g->k, assign, NULL, x));
    return x;
}

/* Splits the heads of input i, or of a part of the packed input 0. */
static struct bp_tensor *group_take(struct group *g, uint32_t i)
{
    int64_t begin = i ? g->heads + (i - 1) * g->kv_heads : 0, heads = i ? g->kv_heads : g->heads;
    struct bp_tensor *x = onnx_in(g->k.call, i);

    if (!onnx_in(g->k.call, 1))
        x = onnx_chain_slice(&g->k, onnx_in(g->k.call, 0), -1, begin * g->size,
                             (begin + heads) * g->size, 1);
    return onnx_heads_split(&g->k, x, heads);
}

/* Sets the window, and the mask: attention_bias, padded to all keys. */
static void group_mask(struct group *g, struct onnx_attention *a, int64_t columns)
{
    int64_t window = onnx_attr_int(g->k.call, "local_window_size", -1);
    struct bp_tensor *added = onnx_in(g->k.call, 10);
    int64_t none[4] = {0}, after[4] = {0};
    struct bp_pad_attrs attrs = bp_pad_defaults();

    if (window < -1 || window == 0 || window > INT32_MAX)
        g->k.status = onnx_error(BP_ERR_INVALID, "local_window_size is %lld, expected -1, or 1 to "
                                 "%d", (long long)window, INT32_MAX);
    if (added && (onnx_info(added).rank != 4 || onnx_info(added).shape[3] != g->total))
        g->k.status = onnx_error(BP_ERR_INVALID, "attention_bias: 4 axes are expected, the last "
                                 "of %lld", (long long)g->total);
    if (g->k.status) return;
    after[3] = columns - g->total;
    attrs.before = (struct bp_dims){none, 4};
    attrs.after = (struct bp_dims){after, 4};
    if (added && after[3] > 0) added = MAKE(&g->k, pad, &attrs, added);
    a->mask = added;
    a->window = (struct onnx_window){
        .left = window < 0 ? -1 : window - 1, .right = 0, .offset = g->start};
    if (g->starts)
        a->window.ends = MAKE(&g->k, add, NULL, g->starts,
                              onnx_chain_number(&g->k, BP_I64, (double)g->length));
}

static void group_attend(struct group *g)
{
    struct onnx_call *c = g->k.call;
    struct onnx_attention a = {.scale = onnx_attr_float(c, "scale", 0),
                               .softcap = onnx_attr_float(c, "softcap", 0)};

    a.q = group_take(g, 0);
    a.key = group_take(g, 1);
    a.v = group_take(g, 2);
    if (onnx_attr_int(c, "do_rotary", 0)) {
        bool interleaved = onnx_attr_int(c, "rotary_interleaved", 0) != 0;
        struct bp_tensor *cos = group_table(g, 7), *sin = group_table(g, 8);
        a.q = onnx_rotate(&g->k, a.q, cos, sin, NULL, interleaved);
        a.key = onnx_rotate(&g->k, a.key, cos, sin, NULL, interleaved);
    }
    a.key = group_write(g, 3, 1, a.key);
    a.v = group_write(g, 4, 2, a.v);
    if (g->k.status) return;
    group_mask(g, &a, onnx_info(a.key).shape[2]);
    onnx_chain_give(&g->k, 0, onnx_heads_join(&g->k, onnx_attend(&g->k, &a, NULL)));
}

enum bp_status onnx_contrib_group_attention(struct onnx_call *c)
{
    struct group g = {.k = onnx_chain_begin(c)};
    enum bp_status status;

    TRY(onnx_need(c, 1));
    TRY(group_read(&g));
    if (onnx_attr_int(c, "do_rotary", 0)) TRY(group_check_tables(&g));
    status = group_place(&g);
    if (status == BP_OK) group_attend(&g);
    else g.k.status = status;
    return onnx_chain_end(&g.k);
}
