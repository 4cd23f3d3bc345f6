/* SPDX-License-Identifier: Apache-2.0 */
/* cudnn_batch_norm.c: computes batch_norm of half types by a graph of elementwise operations of
 * cuDNN, which its run-time compiler makes one kernel. cuDNN has a norm operation with this mode,
 * but 9.19 has no engine that computes it with given statistics. The tensors have the axes N, C and
 * all others as one, or, where channels are last, places, C and 1. As those of cudnn_norm.c, the
 * rows exist only with the setting NORMS. */
#include "cudnn_chain.h"
#include "cudnn_held.h"

/* The operands, whose tensors have these ids, and epsilon, which the library reads from the host's
 * memory. */
enum {
    X,
    SCALE,
    BIAS,
    MEAN,
    VARIANCE,
    Y,
    TENSORS,
    EPSILON = TENSORS,
    OPERANDS,
    RANK = 3
};

/* All inputs of a graph. Keys are compared as bytes. */
struct batch_norm_key {
    int kind, dtype, has_scale, has_bias, shape[RANK], stride[RANK];
};

struct batch_norm_plan {
    struct cudnn_held held; /* must be first */
    struct batch_norm_key key;
    float epsilon;
};

static void batch_norm_views(const struct bp_view *const *in, uint32_t n_in,
                             const struct bp_view *y, const struct bp_view *view[CUDNN_VIEWS])
{
    for (uint32_t i = 0; i < CUDNN_VIEWS; i++) view[i] = i < n_in && i < Y ? in[i] : NULL;
    view[Y] = y;
}

/* Whether a tensor is dense, with channels last if `last`. */
static bool batch_norm_lies(const struct bp_view *v, bool last)
{
    int64_t next = last ? v->shape[1] : 1;

    for (int a = v->rank - 1; a >= 0; a--) {
        int64_t stride = last && a == 1 ? 1 : next;
        if (v->shape[a] > 1 && v->stride[a] != stride) return false;
        if (!last || a != 1) next *= v->shape[a];
    }
    return true;
}

static bool batch_norm_init(struct batch_norm_plan *p, const struct bp_view *view[CUDNN_VIEWS])
{
    const struct bp_view *x = view[X], *y = view[Y];
    bool rows = batch_norm_lies(x, false) && batch_norm_lies(y, false);
    int64_t channels = x->shape[1], inner;

    if (!x->count || x->count > INT32_MAX) return false;
    if (!rows && !(batch_norm_lies(x, true) && batch_norm_lies(y, true))) return false;
    inner = x->count / x->shape[0] / channels;
    p->key = (struct batch_norm_key){
        CUDNN_IS_POINTWISE,
        x->dtype,
        view[SCALE] != NULL,
        view[BIAS] != NULL,
        {(int)(rows ? x->shape[0] : x->shape[0] * inner), (int)channels, rows ? (int)inner : 1},
        {(int)(rows ? channels * inner : channels), rows ? (int)inner : 1, 1}};
    for (int i = 0; i < TENSORS; i++) {
        if (!view[i]) continue;
        if (i != X && i != Y && channels > 1 && view[i]->stride[0] != 1) return false;
        p->held.bytes[i] = cudnn_held_bytes(view[i]->dtype, (uint64_t)view[i]->count);
    }
    return true;
}

/* Whether an operand belongs to the graph of a key. */
static bool batch_norm_has(const struct batch_norm_key *key, int i)
{
    return (i != SCALE || key->has_scale) && (i != BIAS || key->has_bias);
}

/* Appends the step y = mode(x, with). is_last: of the graph, whose result is `result`. */
static void *batch_norm_step(struct cudnn_chain *c, int mode, void *x, void *with, void *result,
                             bool is_last)
{
    const struct cudnn_step step = {
        .mode = mode, .x = x, .with = with, .y = is_last ? result : NULL};

    return cudnn_chain_step(c, step, CUDNN_F32);
}

static bool batch_norm_make(const void *of, struct cudnn_graph *out)
{
    const struct batch_norm_plan *p = of;
    const struct batch_norm_key *key = &p->key;
    const int shape[RANK] = {1, key->shape[1], 1}, stride[RANK] = {key->shape[1], 1, 1};
    struct cudnn_chain c = {.b = {.device = p->held.device, .handle = p->held.handle},
                            .rank = RANK,
                            .shape = key->shape,
                            .stride = key->stride,
                            .failed = !cudnn_has_graphs()};
    void *tensor[OPERANDS] = {NULL}, *x, *r;

    for (int i = 0; i < TENSORS; i++) {
        bool wide = i == X || i == Y;
        if (!batch_norm_has(key, i)) continue;
        tensor[i] = cudnn_chain_tensor(&c, i, wide ? cudnn_type_of((uint8_t)key->dtype) : CUDNN_F32,
                                       wide ? key->shape : shape, wide ? key->stride : stride);
    }
    tensor[EPSILON] = cudnn_chain_number(&c, EPSILON, CUDNN_F32);
    x = batch_norm_step(&c, CUDNN_SUBTRACT, tensor[X], tensor[MEAN], NULL, false);
    c.shape = shape; /* the factor of each channel */
    c.stride = stride;
    r = batch_norm_step(&c, CUDNN_ADD, tensor[VARIANCE], tensor[EPSILON], NULL, false);
    r = batch_norm_step(&c, CUDNN_RSQRT, r, NULL, NULL, false);
    c.shape = key->shape;
    c.stride = key->stride;
    x = batch_norm_step(&c, CUDNN_MULTIPLY, x, r, tensor[Y], !key->has_scale && !key->has_bias);
    if (key->has_scale)
        x = batch_norm_step(&c, CUDNN_MULTIPLY, x, tensor[SCALE], tensor[Y], !key->has_bias);
    if (key->has_bias) batch_norm_step(&c, CUDNN_ADD, x, tensor[BIAS], tensor[Y], true);
    return cudnn_chain_build(&c, out);
}

enum bp_status gpu_batch_norm_prepare(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    const struct bp_batch_norm_attrs *attrs = prep->attrs;
    struct batch_norm_plan made = {.held = {.size = sizeof made, .results = 1 << Y},
                                   .epsilon = (float)attrs->epsilon};
    const struct bp_view *view[CUDNN_VIEWS];

    batch_norm_views(prep->in, prep->n_in, prep->out[0], view);
    if (!batch_norm_init(&made, view)) return BP_ERR_UNSUPPORTED;
    return cudnn_held_prepare(self, prep, &made.held, &made.key, sizeof made.key, batch_norm_make,
                              out);
}

enum bp_status gpu_batch_norm_run(const struct bp_launch *launch)
{
    const struct batch_norm_plan *p = launch->plan;
    const struct bp_view *view[CUDNN_VIEWS];
    struct bp_view at[CUDNN_VIEWS];
    void *operand[OPERANDS], *workspace;
    KIT_CONTEXT caller = {NULL};
    struct gpu_device *device;
    int64_t id[OPERANDS];
    int n = 0;

    TRY(gpu_device_use(launch->self, launch->device, &caller, &device));
    batch_norm_views(launch->in, launch->n_in, launch->out[0], view);
    TRY(cudnn_held_begin(&p->held, launch, view, at, &workspace));
    for (int i = 0; i < OPERANDS; i++) {
        if (!batch_norm_has(&p->key, i)) continue;
        id[n] = i;
        operand[n++] = i == EPSILON ? (void *)&p->epsilon : at[i].data;
    }
    TRY(cudnn_graph_enqueue(p->held.device, p->held.graph, launch->stream, n, id, operand,
                            workspace));
    return cudnn_held_finish(&p->held, launch, view, at);
}
