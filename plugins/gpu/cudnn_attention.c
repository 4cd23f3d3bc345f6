/* SPDX-License-Identifier: Apache-2.0 */
/* cudnn_attention.c: computes attention of half types by cuDNN's graph interface: a call that shows
 * all keys by the one operation that it has for attention since 9.13, others by a graph of several
 * (cudnn_scores.c). The library rounds the weights, softmax's results, to the half type before it
 * multiplies them with v, which the operator does not allow: so its rows exist only with the
 * setting FLASH. */
#include "cudnn_attention.h"
#include "cudnn_chain.h"
#include "epilogue.h"
#include <math.h>
#include <string.h>

enum {
    RANK = ATTENTION_RANK,
    MASK = 3,
    LENGTH
};

static bool attention_has(const struct bp_prep *prep, uint32_t i)
{
    return i < prep->n_in && prep->in[i];
}

/* Sets the shape of an operand with three axes or four. The stride of an axis of extent 1 has no
 * effect, and the library wants a positive one. false: the library does not support the
 * strides. */
static bool attention_shape(const struct bp_view *v, int shape[RANK], int stride[RANK])
{
    int missing = RANK - v->rank;
    int64_t next = 1;

    if (missing < 0 || missing > 1) return false;
    for (int a = RANK - 1; a >= 0; a--) {
        int64_t extent = a < missing ? 1 : v->shape[a - missing];
        int64_t step = extent == 1 ? next : v->stride[a - missing];
        if (extent > INT32_MAX || step < 1 || step > INT32_MAX) return false;
        shape[a] = (int)extent;
        stride[a] = (int)step;
        if (extent * step > next) next = extent * step;
        if (next > INT32_MAX) return false;
    }
    return stride[RANK - 1] == 1;
}

/* Why the library cannot compute the call; NULL: it may. Where causal hides all keys of a query,
 * the result has to be 0, which the library does not promise. */
static const char *attention_refusal(const struct bp_prep *prep)
{
    const struct bp_attention_attrs *a = prep->attrs;
    const struct bp_view *q = prep->in[ATTENTION_Q], *k = prep->in[ATTENTION_K];

    if (attention_has(prep, LENGTH)) return "it has lengths";
    if (a->softcap != 0) return "it has a soft cap";
    if (a->window.n) return "it has a window";
    if (q->rank < RANK - 1 || q->rank > RANK) return "its tensors do not have 3 or 4 axes";
    if (a->causal && q->shape[q->rank - 2] > k->shape[k->rank - 2])
        return "it is causal and has more queries than keys";
    return NULL;
}

static uint64_t attention_bytes(const struct attention_key *key, int i)
{
    uint64_t last = 1;

    for (int x = 0; x < RANK; x++)
        last += (uint64_t)(key->shape[i][x] - 1) * (uint64_t)key->stride[i][x];
    return cudnn_held_bytes((uint8_t)key->dtype, last);
}

/* The extent of axis a of the scores in a mask. */
static int64_t mask_extent(const struct bp_view *mask, int a)
{
    return a < RANK - mask->rank ? 1 : mask->shape[a - (RANK - mask->rank)];
}

/* Sets the shape of the bias: the library wants all queries and keys. A mask with other strides
 * than the library's is copied. false: the bias would be too large. */
static bool attention_mask(struct attention_plan *p, const struct bp_view *mask)
{
    int *shape = p->key.shape[ATTENTION_BIAS], *stride = p->key.stride[ATTENTION_BIAS];
    int64_t next = 1;

    p->has_bias = true;
    p->makes_bias = mask->dtype == BP_BOOL || mask->rank < RANK - 1 ||
                    !attention_shape(mask, shape, stride);
    for (int a = RANK - 1; a >= 0; a--) {
        int full = p->key.shape[a == 3 ? ATTENTION_K : ATTENTION_Q][a == 3 ? 2 : a];
        shape[a] = a < 2 ? (int)mask_extent(mask, a) : full;
        p->makes_bias |= mask_extent(mask, a) != shape[a];
    }
    for (int a = RANK - 1; a >= 0 && p->makes_bias; a--) {
        stride[a] = (int)next;
        next *= shape[a];
        if (next > INT32_MAX) return false;
    }
    if (mask->dtype == BP_BOOL) p->log = gpu_epilogue_row("log", (uint8_t)p->key.dtype);
    p->held.bytes[ATTENTION_BIAS] = attention_bytes(&p->key, ATTENTION_BIAS);
    return mask->dtype != BP_BOOL || p->log;
}

/* Whether no key is hidden: causal hides none of a single query. */
static bool attention_sees_all(const struct bp_prep *prep)
{
    const struct bp_attention_attrs *a = prep->attrs;
    const struct bp_view *q = prep->in[ATTENTION_Q];

    return !attention_has(prep, MASK) && (!a->causal || q->shape[q->rank - 2] == 1);
}

/* Sets the numbers of the band. In a wide one the first query sees all keys. */
static void attention_band(struct attention_plan *p, bool causal)
{
    p->queries = p->key.shape[ATTENTION_Q][2];
    p->keys = p->key.shape[ATTENTION_K][2] + (causal ? 0 : p->queries);
    p->hidden = -INFINITY;
}

static bool attention_init(struct attention_plan *p, const struct bp_prep *prep)
{
    const struct bp_attention_attrs *a = prep->attrs;
    const struct bp_view *view[] = {prep->in[ATTENTION_Q], prep->in[ATTENTION_K],
                                    prep->in[ATTENTION_V], prep->out[0]};
    int64_t scores = view[ATTENTION_Y]->count;

    p->key.kind = attention_sees_all(prep) ? CUDNN_IS_ATTENTION : CUDNN_IS_PRODUCT;
    p->key.dtype = view[ATTENTION_Q]->dtype;
    for (int i = 0; i <= ATTENTION_Y; i++) {
        if (!view[i]->count || !attention_shape(view[i], p->key.shape[i], p->key.stride[i]))
            return false;
        p->held.bytes[i] = attention_bytes(&p->key, i);
    }
    scores = scores / p->key.shape[ATTENTION_Y][3] * p->key.shape[ATTENTION_K][2];
    p->scale = (float)(a->scale == 0 ? 1 / sqrt((double)p->key.shape[ATTENTION_Q][RANK - 1])
                                     : a->scale);
    attention_band(p, a->causal);
    if (p->key.kind == CUDNN_IS_PRODUCT && scores > INT32_MAX) return false;
    return !attention_has(prep, MASK) || attention_mask(p, prep->in[MASK]);
}

/* Makes the graph of a call without a mask. */
static bool attention_make(const void *of, struct cudnn_graph *out)
{
    static const int word[] = {CUDNN_ATTENTION_Q, CUDNN_ATTENTION_K, CUDNN_ATTENTION_V,
                               CUDNN_ATTENTION_Y};
    const struct attention_plan *p = of;
    const struct attention_key *key = &p->key;
    struct cudnn_chain c = {.b = {.device = p->held.device, .handle = p->held.handle},
                            .rank = RANK};
    void *o, *scale, *tensor;

    if (key->kind != CUDNN_IS_ATTENTION) return cudnn_scores_make(of, out);
    c.failed = !cudnn_has_graphs();
    scale = cudnn_chain_number(&c, ATTENTION_SCALE, CUDNN_F32);
    o = c.failed ? NULL : cudnn_add(&c.b, CUDNN_IS_ATTENTION);
    for (int i = 0; i <= ATTENTION_Y; i++) {
        tensor = cudnn_chain_tensor(&c, i, cudnn_type_of((uint8_t)key->dtype), key->shape[i],
                                    key->stride[i]);
        c.failed |= !o || !tensor || !cudnn_set_descriptor(&c.b, o, word[i], tensor);
    }
    c.failed = c.failed || !cudnn_set_descriptor(&c.b, o, CUDNN_ATTENTION_SCALE, scale) ||
               !cudnn_finalize(&c.b, o);
    c.operation[c.n++] = o;
    return cudnn_chain_build(&c, out);
}

enum bp_status gpu_attention_prepare(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    struct attention_plan made = {.held = {.size = sizeof made, .results = 1 << ATTENTION_Y}};
    const char *why = attention_refusal(prep);

    if (why)
        return bp_fail(((struct gpu *)self)->host, BP_ERR_UNSUPPORTED,
                       "%s: cuDNN does not compute the call: %s", prep->kernel->name, why);
    if (!attention_init(&made, prep)) return BP_ERR_UNSUPPORTED;
    return cudnn_held_prepare(self, prep, &made.held, &made.key, sizeof made.key, attention_make,
                              out);
}

/* Enqueues the computation of the bias: the mask with all queries and keys. A mask of bool becomes
 * the logarithms of 1 and 0. */
static enum bp_status attention_bias(const struct attention_plan *p, const struct bp_launch *launch,
                                     struct bp_view *bias)
{
    const struct bp_cast_attrs to = {.size = sizeof to, .to = (uint32_t)p->key.dtype};
    const struct bp_view *mask = launch->in[MASK], *in = mask, *out = bias;
    int64_t shape[RANK], stride[RANK], from[RANK];
    struct bp_launch step = *launch;
    struct bp_view wide = *mask;

    for (int a = 0; a < RANK; a++) {
        shape[a] = p->key.shape[ATTENTION_BIAS][a];
        stride[a] = p->key.stride[ATTENTION_BIAS][a];
        from[a] = mask_extent(mask, a) == 1 ? 0 : mask->stride[a - (RANK - mask->rank)];
    }
    wide.rank = RANK;
    wide.shape = bias->shape = shape;
    wide.stride = from;
    wide.flags = BP_VIEW_STRIDED;
    bias->stride = stride;
    bias->rank = RANK;
    bias->dtype = (uint8_t)p->key.dtype;
    bias->count = wide.count = shape[0] * shape[1] * shape[2] * shape[3];
    in = &wide;
    if (!p->log) return cudnn_assign(launch, in, bias);
    step.in = &in;
    step.out = &out;
    step.n_in = step.n_out = 1;
    step.attrs = &to;
    TRY(portable_cast(&step));
    in = bias;
    step.kernel = p->log;
    step.attrs = NULL;
    return p->log->launch(&step);
}

static enum bp_status attention_enqueue(const struct attention_plan *p,
                                        const struct bp_launch *launch,
                                        const struct bp_view at[CUDNN_VIEWS], void *workspace)
{
    const bool is_one = p->key.kind == CUDNN_IS_ATTENTION;
    void *const number[] = {(void *)&p->scale, (void *)&p->hidden, (void *)&p->keys,
                            (void *)&p->queries};
    void *operand[ATTENTION_OPERANDS];
    int64_t id[ATTENTION_OPERANDS];
    int n = 0;

    for (int i = 0; i < ATTENTION_OPERANDS; i++) {
        if ((i == ATTENTION_BIAS && !p->has_bias) || (i > ATTENTION_SCALE && is_one)) continue;
        id[n] = i;
        operand[n++] = i < ATTENTION_TENSORS ? at[i].data : number[i - ATTENTION_SCALE];
    }
    return cudnn_graph_enqueue(p->held.device, p->held.graph, launch->stream, n, id, operand,
                               workspace);
}

enum bp_status gpu_attention_run(const struct bp_launch *launch)
{
    const struct attention_plan *p = launch->plan;
    const struct bp_view *view[CUDNN_VIEWS] = {
        launch->in[ATTENTION_Q], launch->in[ATTENTION_K], launch->in[ATTENTION_V], launch->out[0],
        p->has_bias && !p->makes_bias ? launch->in[MASK] : NULL};
    struct bp_view at[CUDNN_VIEWS];
    KIT_CONTEXT caller = {NULL};
    struct gpu_device *device;
    void *workspace;

    TRY(gpu_device_use(launch->self, launch->device, &caller, &device));
    TRY(cudnn_held_begin(&p->held, launch, view, at, &workspace));
    if (p->makes_bias) TRY(attention_bias(p, launch, &at[ATTENTION_BIAS]));
    TRY(attention_enqueue(p, launch, at, workspace));
    return cudnn_held_finish(&p->held, launch, view, at);
}
