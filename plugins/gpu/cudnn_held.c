/* SPDX-License-Identifier: Apache-2.0 */
/* cudnn_held.c: prepares, launches and ends plans that run one of cuDNN's graphs; see
 * cudnn_held.h. */
#include "cudnn_held.h"
#include "gemm.h"

uint64_t cudnn_held_bytes(uint8_t dtype, uint64_t n)
{
    return gpu_gemm_aligned(n * gpu_gemm_size(dtype), CUDNN_WORKSPACE_ALIGNMENT);
}

enum bp_status cudnn_held_prepare(void *self, const struct bp_prep *prep, struct cudnn_held *made,
                                  const void *key, size_t key_size, cudnn_graph_fn *make,
                                  struct bp_plan *out)
{
    KIT_CONTEXT caller = {NULL};
    struct cudnn_held *plan;
    uint64_t bytes = 0;

    TRY(gpu_vendor_enter(self, prep->device, &gpu_cudnn, &caller, &made->device, &made->handle));
    pthread_mutex_lock(&made->device->loading);
    made->graph = cudnn_kept_take(made->device, key, key_size, make, made);
    pthread_mutex_unlock(&made->device->loading);
    if (!made->graph) return BP_ERR_UNSUPPORTED;
    plan = gpu_vendor_keep(made->device, &gpu_cudnn, made, made->size);
    if (!plan) {
        cudnn_graph_return(made->device, made->graph);
        return BP_ERR_MEMORY;
    }
    for (int i = 0; i < CUDNN_VIEWS; i++) bytes += made->bytes[i];
    BP_SET(out, plan, plan);
    BP_SET(out, workspace, (uint64_t)made->graph->workspace + bytes);
    BP_SET(out, workspace_alignment, CUDNN_WORKSPACE_ALIGNMENT);
    return BP_OK;
}

void gpu_cudnn_held_end(void *self, const struct bp_kernel *row, void *p)
{
    struct cudnn_held *plan = p;

    (void)row;
    cudnn_graph_return(plan->device, plan->graph);
    gpu_vendor_drop(self, plan, plan->size);
}

static bool held_writes(const struct cudnn_held *held, int i)
{
    return held->results >> i & 1;
}

enum bp_status cudnn_held_begin(const struct cudnn_held *held, const struct bp_launch *launch,
                                const struct bp_view *const view[CUDNN_VIEWS],
                                struct bp_view at[CUDNN_VIEWS], void **out_workspace)
{
    char *workspace = launch->workspace;

    for (int i = 0; i < CUDNN_VIEWS; workspace += held->bytes[i++]) {
        at[i] = view[i] ? *view[i] : (struct bp_view){.data = workspace};
        if (!view[i] || (uintptr_t)view[i]->data % CUDNN_ALIGNED == 0) continue;
        at[i].data = workspace;
        if (!held_writes(held, i)) TRY(cudnn_assign(launch, view[i], &at[i]));
    }
    *out_workspace = workspace;
    return BP_OK;
}

enum bp_status cudnn_held_finish(const struct cudnn_held *held, const struct bp_launch *launch,
                                 const struct bp_view *const view[CUDNN_VIEWS],
                                 const struct bp_view at[CUDNN_VIEWS])
{
    for (int i = 0; i < CUDNN_VIEWS; i++)
        if (held_writes(held, i) && view[i] && at[i].data != view[i]->data)
            TRY(cudnn_assign(launch, &at[i], view[i]));
    return BP_OK;
}
