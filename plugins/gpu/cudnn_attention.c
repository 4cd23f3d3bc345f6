/* SPDX-License-Identifier: Apache-2.0 */
/* cudnn_attention.c: computes attention of half types by the one operation that cuDNN's graph
 * interface has for it since 9.13: y = softmax(scale q k^T) v, without a mask. The library rounds
 * the weights, softmax's results, to the half type before it multiplies them with v, which the
 * operator does not allow: so its rows exist only with the setting FLASH. */
#include "cudnn_kept.h"
#include "gemm.h"
#include <math.h>
#include <string.h>

/* The operands, whose tensors have these ids, and the factor of the scores, which the library reads
 * from the host's memory. */
enum { Q, K, V, Y, TENSORS, SCALE = TENSORS, OPERANDS, RANK = 4 };

/* All inputs of a graph. Keys are compared as bytes. The axes are batch, heads, lengths, and
 * depth or width. */
struct attention_key {
    int kind, dtype;
    int shape[TENSORS][RANK], stride[TENSORS][RANK];
};
_Static_assert(sizeof(struct attention_key) == sizeof(int) * (2 + 2 * TENSORS * RANK),
               "no padding");

/* The strides of a copy are those of the operand, so it may have gaps. */
struct attention_plan {
    struct gpu_device *device;
    void *handle;
    struct attention_key key;
    const struct cudnn_graph *graph;
    float scale;
    uint64_t bytes[TENSORS]; /* of a copy in the workspace, for unaligned operands */
};

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

/* Whether the call is one without a mask: position and causal hide no key of a single query. */
static bool sees_all(const struct bp_prep *prep)
{
    const struct bp_attention_attrs *a = prep->attrs;
    const struct bp_view *q = prep->in[Q];

    for (uint32_t i = TENSORS - 1; i < prep->n_in; i++)
        if (prep->in[i]) return false;
    return a->softcap == 0 && !a->window.n && (!a->causal || q->shape[q->rank - 2] == 1);
}

static bool attention_init(struct attention_plan *p, const struct bp_prep *prep)
{
    const struct bp_attention_attrs *a = prep->attrs;
    const struct bp_view *view[TENSORS] = {prep->in[Q], prep->in[K], prep->in[V], prep->out[0]};
    uint64_t size = gpu_gemm_size(view[Q]->dtype);

    p->key.kind = CUDNN_IS_ATTENTION;
    p->key.dtype = view[Q]->dtype;
    if (!sees_all(prep)) return false;
    for (int i = 0; i < TENSORS; i++) {
        uint64_t last = 1;
        if (!view[i]->count || !attention_shape(view[i], p->key.shape[i], p->key.stride[i]))
            return false;
        for (int x = 0; x < RANK; x++)
            last += (uint64_t)(p->key.shape[i][x] - 1) * (uint64_t)p->key.stride[i][x];
        p->bytes[i] = gpu_gemm_aligned(last * size, CUDNN_WORKSPACE_ALIGNMENT);
    }
    p->scale = (float)(a->scale == 0 ? 1 / sqrt((double)p->key.shape[Q][RANK - 1]) : a->scale);
    return true;
}

static bool attention_make(const void *of, struct cudnn_graph *out)
{
    static const int one[RANK] = {1, 1, 1, 1};
    static const int word[TENSORS] = {CUDNN_ATTENTION_Q, CUDNN_ATTENTION_K, CUDNN_ATTENTION_V,
                                      CUDNN_ATTENTION_Y};
    const struct attention_plan *p = of;
    const struct attention_key *key = &p->key;
    const struct cudnn_tensor scale = {.type = CUDNN_F32, .rank = RANK, .shape = one, .stride = one,
                                       .id = SCALE, .alignment = CUDNN_ALIGNED, .by_value = true};
    struct cudnn_builder b = {.device = p->device, .handle = p->handle};
    void *tensor[OPERANDS], *o = NULL;
    bool good = cudnn_has_graphs();

    for (int i = 0; i < TENSORS && good; i++) {
        const struct cudnn_tensor t = {.type = cudnn_type_of((uint8_t)key->dtype), .rank = RANK,
                                       .shape = key->shape[i], .stride = key->stride[i], .id = i,
                                       .alignment = CUDNN_ALIGNED};
        good = (tensor[i] = cudnn_add_tensor(&b, &t)) != NULL;
    }
    good = good && (tensor[SCALE] = cudnn_add_tensor(&b, &scale)) != NULL &&
           (o = cudnn_add(&b, CUDNN_IS_ATTENTION)) != NULL;
    for (int i = 0; i < TENSORS && good; i++)
        good = cudnn_set_descriptor(&b, o, word[i], tensor[i]);
    good = good && cudnn_set_descriptor(&b, o, CUDNN_ATTENTION_SCALE, tensor[SCALE]) &&
           cudnn_finalize(&b, o) && cudnn_build(&b, &o, 1);
    if (good) *out = b.graph;
    else cudnn_graph_drop(p->device, &b.graph);
    return good;
}

enum bp_status gpu_attention_prepare(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    struct attention_plan made = {.graph = NULL}, *plan;
    uint64_t bytes = 0;
    KIT_CONTEXT caller = {NULL};

    if (!attention_init(&made, prep)) return BP_ERR_UNSUPPORTED;
    TRY(gpu_vendor_enter(self, prep->device, &gpu_cudnn, &caller, &made.device, &made.handle));
    pthread_mutex_lock(&made.device->loading);
    made.graph = cudnn_kept_take(made.device, &made.key, sizeof made.key, attention_make, &made);
    pthread_mutex_unlock(&made.device->loading);
    if (!made.graph) return BP_ERR_UNSUPPORTED;
    plan = gpu_vendor_keep(made.device, &gpu_cudnn, &made, sizeof made);
    if (!plan) {
        cudnn_graph_return(made.device, made.graph);
        return BP_ERR_MEMORY;
    }
    for (int i = 0; i < TENSORS; i++) bytes += made.bytes[i];
    BP_SET(out, plan, plan);
    BP_SET(out, workspace, (uint64_t)made.graph->workspace + bytes);
    BP_SET(out, workspace_alignment, CUDNN_WORKSPACE_ALIGNMENT);
    return BP_OK;
}

void gpu_attention_end(void *self, const struct bp_kernel *row, void *p)
{
    const struct bp_host *host = ((struct gpu *)self)->host;
    struct attention_plan *plan = p;

    (void)row;
    cudnn_graph_return(plan->device, plan->graph);
    host->release(host->ctx, plan, sizeof *plan);
}

static enum bp_status attention_enqueue(const struct attention_plan *p, struct gpu_stream *stream,
                                        void *const at[TENSORS], void *workspace)
{
    static const int64_t id[OPERANDS] = {Q, K, V, Y, SCALE};
    void *const operand[OPERANDS] = {at[Q], at[K], at[V], at[Y], (void *)&p->scale};

    return cudnn_graph_enqueue(p->device, p->graph, stream, OPERANDS, id, operand, workspace);
}

/* Operands at other addresses than multiples of 16 are copied. */
enum bp_status gpu_attention_run(const struct bp_launch *launch)
{
    const struct attention_plan *p = launch->plan;
    const struct bp_view *view[TENSORS] = {launch->in[Q], launch->in[K], launch->in[V],
                                           launch->out[0]};
    char *workspace = launch->workspace;
    struct bp_view copy[TENSORS];
    KIT_CONTEXT caller = {NULL};
    struct gpu_device *device;
    void *at[TENSORS];

    TRY(gpu_device_use(launch->self, launch->device, &caller, &device));
    for (int i = 0; i < TENSORS; i++, workspace += p->bytes[i - 1]) {
        copy[i] = *view[i];
        if ((uintptr_t)view[i]->data % CUDNN_ALIGNED) copy[i].data = workspace;
        if (copy[i].data != view[i]->data && i != Y) TRY(cudnn_assign(launch, view[i], &copy[i]));
        at[i] = copy[i].data;
    }
    TRY(attention_enqueue(p, launch->stream, at, workspace));
    return copy[Y].data == view[Y]->data ? BP_OK : cudnn_assign(launch, &copy[Y], view[Y]);
}
