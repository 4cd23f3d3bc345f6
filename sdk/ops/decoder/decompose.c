/* SPDX-License-Identifier: Apache-2.0 */
/* decompose.c: decomposes rotary_embedding, causal_conv_with_state, tensor_scatter and swiglu into
 * other operators. */
#include <call/compose.h>

#include <backplane/attrs.h>

/* Takes every step-th of the elements begin to end - 1 along an axis. */
static struct bp_tensor *decoder_slice(struct bp_compose *c, struct bp_tensor *x, int64_t axis,
                                       int64_t begin, int64_t end, int64_t step)
{
    struct bp_slice_attrs part = {.size = sizeof part, .starts = {&begin, 1}, .ends = {&end, 1},
                                  .axes = {&axis, 1}, .steps = {&step, 1}};

    return c->status ? NULL : MAKE(c, slice, &part, x);
}

static struct bp_tensor *decoder_concat(struct bp_compose *c, int64_t axis,
                                        struct bp_tensor *const *part, size_t n)
{
    struct bp_concat_attrs join = {.size = sizeof join, .axis = axis};

    return n == 1 ? part[0] : bp_compose_all(c, BP_ROW_concat, &join, part, n);
}

/* Gives a table the axis of the heads, and takes its rows at the positions. */
static struct bp_tensor *rotary_rows(struct bp_compose *c, struct bp_tensor *t,
                                     struct bp_tensor *positions)
{
    struct bp_gather_attrs rows = {.size = sizeof rows};
    int64_t shape[4];

    if (positions) t = MAKE(c, gather, &rows, t, positions);
    if (c->status) return NULL;
    shape[0] = t->shape[0];
    shape[1] = 1;
    shape[2] = t->shape[1];
    shape[3] = t->shape[2];
    return bp_compose_reshape(c, bp_compose_widen(c, t), 4, shape);
}

/* Puts the two results of each pair side by side. */
static struct bp_tensor *rotary_pairs(struct bp_compose *c, struct bp_tensor *const *part,
                                      const int64_t *shape, int64_t half)
{
    int64_t apart[] = {shape[0], shape[1], shape[2], half, 1};
    int64_t joined[] = {shape[0], shape[1], shape[2], 2 * half};
    struct bp_tensor *pair[2];

    for (int i = 0; i < 2; i++) pair[i] = bp_compose_reshape(c, part[i], 5, apart);
    return bp_compose_reshape(c, decoder_concat(c, -1, pair, 2), 4, joined);
}

enum bp_status bp_decompose_rotary_embedding(struct bp_decomposition *e)
{
    const struct bp_rotary_embedding_attrs *attrs = e->attrs;
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_tensor *x = bp_compose_widen(&c, e->in[0]), *part[3], *a, *b;
    struct bp_tensor *cos = rotary_rows(&c, e->in[1], e->in[3]);
    struct bp_tensor *sin = rotary_rows(&c, e->in[2], e->in[3]);
    int64_t half = e->in[1]->shape[e->in[1]->view.rank - 1], size = e->in[0]->shape[3];
    size_t n = 2;

    if (attrs->interleaved) {
        a = decoder_slice(&c, x, -1, 0, 2 * half, 2);
        b = decoder_slice(&c, x, -1, 1, 2 * half, 2);
    } else {
        a = decoder_slice(&c, x, -1, 0, half, 1);
        b = decoder_slice(&c, x, -1, half, 2 * half, 1);
    }
    part[0] = MAKE(&c, sub, NULL, MAKE(&c, mul, NULL, a, cos), MAKE(&c, mul, NULL, b, sin));
    part[1] = MAKE(&c, add, NULL, MAKE(&c, mul, NULL, a, sin), MAKE(&c, mul, NULL, b, cos));
    if (attrs->interleaved) {
        part[0] = rotary_pairs(&c, part, e->in[0]->shape, half);
        n = 1;
    }
    if (2 * half < size) part[n++] = decoder_slice(&c, x, -1, 2 * half, size, 1);
    return bp_compose_give(e, &c, decoder_concat(&c, -1, part, n));
}

/* The elements before x are the state, or zeros. The next state has the bits of its elements. */
enum bp_status bp_decompose_causal_conv(struct bp_decomposition *e)
{
    const struct bp_causal_conv_with_state_attrs *a = e->attrs;
    struct bp_tensor *x = e->in[0], *w = e->in[1], *bias = e->in[2], *state = e->in[3], *y;
    int64_t before[3] = {0, 0, w->shape[2] - 1}, length = x->shape[2];
    struct bp_pad_attrs zeros = {.size = sizeof zeros, .before = {before, 3}};
    struct bp_conv_attrs conv = {.size = sizeof conv, .stride = {1, 1, 1}, .dilation = {1, 1, 1},
                                 .groups = x->shape[1]};
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_tensor *part[] = {state, x};

    if (before[2] && state) x = decoder_concat(&c, 2, part, 2);
    else if (before[2]) x = MAKE(&c, pad, &zeros, x);
    if (e->want >> 1 & 1)
        bp_compose_keep(&c, decoder_slice(&c, x, 2, length, length + before[2], 1), &e->out[1]);
    y = MAKE(&c, conv, &conv, bp_compose_widen(&c, x), bp_compose_widen(&c, w),
             bias ? bp_compose_widen(&c, bias) : NULL);
    if (a->silu) y = MAKE(&c, mul, NULL, y, MAKE(&c, sigmoid, NULL, y));
    return bp_compose_give(e, &c, y);
}

/* The positions of update along axis, as indices of put_along_axis. */
enum bp_status bp_decompose_tensor_scatter(struct bp_decomposition *e)
{
    const struct bp_tensor_scatter_attrs *a = e->attrs;
    struct bp_tensor *cache = e->in[0], *update = e->in[1], *at = e->in[2], *index;
    int64_t axis = a->axis < 0 ? a->axis + cache->view.rank : a->axis, n = update->shape[axis];
    int64_t line[BP_RANK_MAX], first[BP_RANK_MAX];
    struct bp_arange_attrs count = {.size = sizeof count, .num = n, .step = 1, .dtype = BP_I64};
    struct bp_full_attrs length = {.size = sizeof length, .dtype = BP_I64,
                                   .value = (double)cache->shape[axis]};
    struct bp_expand_attrs all = {.size = sizeof all,
                                  .shape = {update->shape, update->view.rank}};
    struct bp_put_along_axis_attrs put = {.size = sizeof put, .axis = axis};
    struct bp_compose c = bp_compose_begin(e->scope);

    for (uint32_t i = 0; i < cache->view.rank; i++) line[i] = first[i] = 1;
    line[axis] = n;
    first[0] = cache->shape[0];
    index = bp_compose_reshape(&c, MAKE(&c, arange, &count, NULL), cache->view.rank, line);
    if (at) {
        at = bp_compose_reshape(&c, bp_compose_cast(&c, at, BP_I64), cache->view.rank, first);
        index = MAKE(&c, add, NULL, index, at);
    }
    if (a->circular && cache->shape[axis])
        index = MAKE(&c, mod, NULL, index, MAKE(&c, full, &length, NULL));
    index = MAKE(&c, assign, NULL, MAKE(&c, expand, &all, index));
    return bp_compose_give(e, &c, MAKE(&c, put_along_axis, &put, cache, index, update));
}

enum bp_status bp_decompose_swiglu(struct bp_decomposition *e)
{
    const struct bp_swiglu_attrs *a = e->attrs;
    struct bp_swish_attrs swish = {.size = sizeof swish, .beta = a->alpha};
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_tensor *gate = MAKE(&c, swish, &swish, bp_compose_widen(&c, e->in[0]));

    return bp_compose_give(e, &c, MAKE(&c, mul, NULL, gate, bp_compose_widen(&c, e->in[1])));
}
