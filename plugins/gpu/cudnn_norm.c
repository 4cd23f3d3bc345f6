/* SPDX-License-Identifier: Apache-2.0 */
/* cudnn_norm.c: computes layer_norm and rms_norm of half types by the one operation that cuDNN's
 * graph interface has for them. The tensors have the axes rows, terms, 1 and 1; the portable
 * kernels compute rows that are not contiguous, and calls without a scale. The rows exist only with
 * the setting NORMS, because no GPU has shown yet that they are faster than the portable ones. */
#include "cudnn_held.h"

/* The operands, whose tensors have these ids, and epsilon, which the library reads from the host's
 * memory. R is 1 / the deviation. */
enum {
    X,
    Y,
    SCALE,
    BIAS,
    MEAN,
    R,
    TENSORS,
    EPSILON = TENSORS,
    OPERANDS,
    RANK = 4
};

/* All inputs of a graph. Keys are compared as bytes. */
struct norm_key {
    int kind, mode, dtype, saves, rows, terms;
};

struct norm_plan {
    struct cudnn_held held; /* must be first */
    struct norm_key key;
    float epsilon;
};

/* The views of a call by operand; NULL: absent. */
static void norm_views(int mode, const struct bp_view *const *in, uint32_t n_in,
                       const struct bp_view *const *out, uint32_t n_out,
                       const struct bp_view *view[CUDNN_VIEWS])
{
    const bool centres = mode == CUDNN_MODE_LAYER;
    const uint32_t r = centres ? 2 : 1;

    for (int i = 0; i < CUDNN_VIEWS; i++) view[i] = NULL;
    view[X] = in[0];
    view[Y] = out[0];
    view[SCALE] = n_in > 1 ? in[1] : NULL;
    view[BIAS] = centres && n_in > 2 ? in[2] : NULL;
    view[MEAN] = centres && n_out > 1 ? out[1] : NULL;
    view[R] = n_out > r ? out[r] : NULL;
}

/* Whether the library has the operation for these views. A layer_norm saves both statistics or
 * none, and has a bias. */
static bool norm_init(struct norm_plan *p, int mode, int axis,
                      const struct bp_view *view[CUDNN_VIEWS])
{
    const struct bp_view *x = view[X];
    const bool centres = mode == CUDNN_MODE_LAYER;
    int64_t terms = 1;

    if (!x->count || !view[SCALE] || (centres && !view[BIAS]) ||
        (centres && !view[MEAN] != !view[R]))
        return false;
    for (int a = portable_axis(axis, x->rank); a < x->rank; a++) terms *= x->shape[a];
    if (terms > INT32_MAX || x->count / terms > INT32_MAX || x->count > INT32_MAX) return false;
    for (int i = 0; i < TENSORS; i++) {
        if (!view[i]) continue;
        if (view[i]->flags & BP_VIEW_STRIDED) return false;
        p->held.bytes[i] = cudnn_held_bytes(view[i]->dtype, (uint64_t)view[i]->count);
    }
    p->key = (struct norm_key){CUDNN_IS_NORM,           mode,      x->dtype, view[R] != NULL,
                               (int)(x->count / terms), (int)terms};
    return true;
}

/* Whether an operand belongs to the graph of a key. */
static bool norm_has(const struct norm_key *key, int i)
{
    if (i == BIAS) return key->mode == CUDNN_MODE_LAYER;
    if (i == MEAN) return key->saves && key->mode == CUDNN_MODE_LAYER;
    return i != R || key->saves;
}

static void *norm_tensor(struct cudnn_builder *b, const struct norm_key *key, int i)
{
    const bool wide = i != MEAN && i != R && i != EPSILON, tall = i < SCALE || i == MEAN || i == R;
    const int terms = wide ? key->terms : 1;
    const int shape[RANK] = {tall ? key->rows : 1, terms, 1, 1}, stride[RANK] = {terms, 1, 1, 1};
    const struct cudnn_tensor t = {.type = wide ? cudnn_type_of((uint8_t)key->dtype) : CUDNN_F32,
                                   .rank = RANK,
                                   .shape = shape,
                                   .stride = stride,
                                   .id = i,
                                   .alignment = CUDNN_ALIGNED,
                                   .by_value = i == EPSILON};

    return cudnn_add_tensor(b, &t);
}

static bool norm_make(const void *of, struct cudnn_graph *out)
{
    static const int word[OPERANDS] = {CUDNN_NORM_X,      CUDNN_NORM_Y,    CUDNN_NORM_SCALE,
                                       CUDNN_NORM_BIAS,   CUDNN_NORM_MEAN, CUDNN_NORM_R,
                                       CUDNN_NORM_EPSILON};
    const struct norm_plan *p = of;
    const int phase = p->key.saves ? CUDNN_NORM_TRAINING : CUDNN_NORM_INFERENCE;
    struct cudnn_builder b = {.device = p->held.device, .handle = p->held.handle};
    void *tensor[OPERANDS] = {NULL}, *o = NULL;
    bool good = cudnn_has_graphs();

    for (int i = 0; i < OPERANDS && good; i++)
        if (norm_has(&p->key, i)) good = (tensor[i] = norm_tensor(&b, &p->key, i)) != NULL;
    good = good && (o = cudnn_add(&b, CUDNN_IS_NORM)) != NULL &&
           cudnn_set(&b, o, CUDNN_NORM_MODE, CUDNN_OF_NORM_MODES, 1, &p->key.mode) &&
           cudnn_set(&b, o, CUDNN_NORM_PHASE, CUDNN_OF_NORM_PHASES, 1, &phase);
    for (int i = 0; i < OPERANDS && good; i++)
        if (tensor[i]) good = cudnn_set_descriptor(&b, o, word[i], tensor[i]);
    good = good && cudnn_finalize(&b, o) && cudnn_build(&b, &o, 1);
    if (good) *out = b.graph;
    else cudnn_graph_drop(p->held.device, &b.graph);
    return good;
}

enum bp_status gpu_norm_prepare(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    const int mode = portable_number(prep->kernel);
    const bool centres = mode == CUDNN_MODE_LAYER;
    const struct bp_layer_norm_attrs *layer = prep->attrs;
    const struct bp_rms_norm_attrs *rms = prep->attrs;
    struct norm_plan made = {.held = {.size = sizeof made, .results = 1 << Y | 1 << MEAN | 1 << R},
                             .epsilon = (float)(centres ? layer->epsilon : rms->epsilon)};
    const struct bp_view *view[CUDNN_VIEWS];

    norm_views(mode, prep->in, prep->n_in, prep->out, prep->n_out, view);
    if (!norm_init(&made, mode, (int)(centres ? layer->axis : rms->axis), view))
        return BP_ERR_UNSUPPORTED;
    return cudnn_held_prepare(self, prep, &made.held, &made.key, sizeof made.key, norm_make, out);
}

static enum bp_status norm_enqueue(const struct norm_plan *p, struct gpu_stream *stream,
                                   const struct bp_view at[CUDNN_VIEWS], void *workspace)
{
    int64_t id[OPERANDS];
    void *operand[OPERANDS];
    int n = 0;

    for (int i = 0; i < OPERANDS; i++) {
        if (!norm_has(&p->key, i)) continue;
        id[n] = i;
        operand[n++] = i == EPSILON ? (void *)&p->epsilon : at[i].data;
    }
    return cudnn_graph_enqueue(p->held.device, p->held.graph, stream, n, id, operand, workspace);
}

enum bp_status gpu_norm_run(const struct bp_launch *launch)
{
    const struct norm_plan *p = launch->plan;
    const struct bp_view *view[CUDNN_VIEWS];
    struct bp_view at[CUDNN_VIEWS];
    KIT_CONTEXT caller = {NULL};
    struct gpu_device *device;
    void *workspace;

    TRY(gpu_device_use(launch->self, launch->device, &caller, &device));
    norm_views(p->key.mode, launch->in, launch->n_in, launch->out, launch->n_out, view);
    TRY(cudnn_held_begin(&p->held, launch, view, at, &workspace));
    TRY(norm_enqueue(p, launch->stream, at, workspace));
    return cudnn_held_finish(&p->held, launch, view, at);
}
