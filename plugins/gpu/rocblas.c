/* SPDX-License-Identifier: Apache-2.0 */
/* rocblas.c: computes products of matrices by rocBLAS. A handle belongs to one stream, and holds
 * the workspace of the next product: each stream has its own handle. */
#include "rocblas.h"
#include "gemm.h"
#include "vendor.h"

#define KIT_LIST "gpu/rocblas.def"
#define KIT_TABLE roc
#define KIT_CALLS struct rocblas_calls
#define KIT_MORE struct gpu_vendor_calls first;
#include <kit/table.h>

/* Atomics are disabled: they add in no fixed order. */
static int rocblas_set_up(void *handle, void *raw_stream, const char **out_function)
{
    int code = roc.call.rocblas_set_atomics_mode(handle, ROCBLAS_NO_ATOMICS);

    *out_function = "rocblas_set_atomics_mode";
    if (code || !raw_stream) return code;
    *out_function = "rocblas_set_stream";
    return roc.call.rocblas_set_stream(handle, raw_stream);
}

struct gpu_vendor gpu_rocblas = {
    .name = "rocBLAS", .id = GPU_VENDOR_ROCBLAS, .calls = &roc.first,
    .library = KIT_LIBRARY(roc_symbols, roc.function, NULL),
    .for_streams = true, .set_up = rocblas_set_up,
};

#define GOOD(device, name, ...) \
    gpu_vendor_good(device, &gpu_rocblas, #name, roc.call.name(__VA_ARGS__))
#define CHECK(device, name, ...) \
    gpu_vendor_check(device, &gpu_rocblas, #name, roc.call.name(__VA_ARGS__))

/* USUAL: the workspace that the library allocates itself if the caller sets none. */
enum { ALIGNMENT = 256, USUAL = 32 << 20 };

struct plan {
    struct gpu_gemm gemm;
    uint64_t workspace; /* 0: this version cannot use the caller's workspace */
};

static int rocblas_type_of(uint8_t dtype)
{
    return dtype == BP_F64 ? ROCBLAS_F64
           : dtype == BP_F32 ? ROCBLAS_F32
           : dtype == BP_F16 ? ROCBLAS_F16
                             : ROCBLAS_BF16;
}

static int rocblas_multiply(void *handle, const struct gpu_gemm *g, void *const at[GEMM_OPERANDS])
{
    union gpu_factor alpha = gpu_factor(g->dtype, g->alpha), beta = gpu_factor(g->dtype, g->beta);
    int added = g->adds ? GEMM_ADDED : GEMM_RESULT, type = rocblas_type_of(g->dtype);
    int sums = g->dtype == BP_F64 ? ROCBLAS_F64 : ROCBLAS_F32;
    int32_t between[GEMM_OPERANDS];

    for (int i = 0; i < GEMM_OPERANDS; i++) between[i] = (int32_t)g->between[i];
    return roc.call.rocblas_gemm_strided_batched_ex(
        handle, g->transposed[0] ? ROCBLAS_TRANSPOSED : ROCBLAS_PLAIN,
        g->transposed[1] ? ROCBLAS_TRANSPOSED : ROCBLAS_PLAIN, (int32_t)g->m, (int32_t)g->n,
        (int32_t)g->k, &alpha, at[GEMM_FIRST], type, between[GEMM_FIRST], g->step[GEMM_FIRST],
        at[GEMM_SECOND], type, between[GEMM_SECOND], g->step[GEMM_SECOND], &beta, at[GEMM_ADDED],
        type, between[added], g->step[added], at[GEMM_RESULT], type, between[GEMM_RESULT],
        g->step[GEMM_RESULT], (int32_t)g->batch, sums, ROCBLAS_STANDARD, 0, 0);
}

/* Queries how much memory a product needs, without computing it. Some versions require valid
 * addresses even so; then the result is USUAL. Under the device's lock `loading`: the device's
 * handle must be used by one thread at a time. */
static bool rocblas_query(const struct gpu_device *device, void *handle, const struct gpu_gemm *g,
                          size_t *out)
{
    void *const nowhere[GEMM_OPERANDS] = {NULL};
    int code;

    if (!GOOD(device, rocblas_start_device_memory_size_query, handle)) return false;
    code = rocblas_multiply(handle, g, nowhere);
    if (!GOOD(device, rocblas_stop_device_memory_size_query, handle, out)) return false;
    if (code == ROCBLAS_INVALID_POINTER) *out = USUAL;
    return code == ROCBLAS_INVALID_POINTER || code == ROCBLAS_SIZE_INCREASED ||
           code == ROCBLAS_SIZE_UNCHANGED ||
           gpu_vendor_good(device, &gpu_rocblas, "rocblas_gemm_strided_batched_ex", code);
}

/* Determines the size of the plan's workspace. The library may replace memory that it allocated
 * itself by a larger block, but recorded launches would still use the old block. So it always uses
 * the plan's workspace, which is never empty. */
static bool size_up(struct plan *p, struct gpu_device *device, void *handle)
{
    const struct rocblas_calls *call = &roc.call;
    size_t size = USUAL;
    bool good = true;

    if (!call->rocblas_set_workspace) return true;
    if (call->rocblas_start_device_memory_size_query &&
        call->rocblas_stop_device_memory_size_query) {
        pthread_mutex_lock(&device->loading);
        good = rocblas_query(device, handle, &p->gemm, &size);
        pthread_mutex_unlock(&device->loading);
    }
    p->workspace = size < ALIGNMENT ? ALIGNMENT : size;
    return good;
}

/* The plan only holds the shape: rocBLAS chooses an algorithm in each call. */
enum bp_status gpu_rocblas_prepare(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    struct plan made = {.workspace = 0}, *plan;
    KIT_CONTEXT caller = {NULL};
    struct gpu_device *device;
    void *handle;

    if (!gpu_gemm_init(&made.gemm, prep) || !gpu_gemm_is_small(&made.gemm) ||
        made.gemm.adds == GEMM_VECTOR)
        return BP_ERR_UNSUPPORTED;
    TRY(gpu_vendor_enter(self, prep->device, &gpu_rocblas, &caller, &device, &handle));
    if (!size_up(&made, device, handle)) return BP_ERR_UNSUPPORTED;
    plan = gpu_vendor_keep(device, &gpu_rocblas, &made, sizeof made);
    if (!plan) return BP_ERR_MEMORY;
    BP_SET(out, plan, plan);
    BP_SET(out, workspace, made.workspace);
    BP_SET(out, workspace_alignment, ALIGNMENT);
    return BP_OK;
}

void gpu_rocblas_end(void *self, const struct bp_kernel *row, void *plan)
{
    (void)row;
    gpu_vendor_drop(self, plan, sizeof(struct plan));
}

/* Sets the workspace of the handle. */
static enum bp_status set_workspace(const struct bp_launch *launch, void *handle)
{
    const struct plan *plan = launch->plan;
    struct gpu_stream *stream = launch->stream;

    if (plan->workspace)
        return CHECK(stream->device, rocblas_set_workspace, handle, launch->workspace,
                     plan->workspace);
    if (!stream->kit.captured) return BP_OK;
    return bp_fail(stream->device->gpu->host, BP_ERR_UNSUPPORTED,
                   GPU_NAME ":%u: this version of rocBLAS has no function rocblas_set_workspace: "
                            "its products cannot be recorded",
                   stream->device->index);
}

/* Under the stream's lock. */
static enum bp_status rocblas_run_all(const struct bp_launch *launch)
{
    const struct gpu_gemm *gemm = &((const struct plan *)launch->plan)->gemm;
    struct gpu_stream *stream = launch->stream;
    void *handle, *at[GEMM_OPERANDS];
    int code;

    TRY(gpu_vendor_handle(stream, &gpu_rocblas, &handle));
    TRY(set_workspace(launch, handle));
    for (int64_t i = 0; i < gemm->calls; i++) {
        gpu_gemm_place(gemm, launch, i, at);
        code = rocblas_multiply(handle, gemm, at);
        if (code == ROCBLAS_SLOWER) continue;
        TRY(gpu_vendor_check(stream->device, &gpu_rocblas, "rocblas_gemm_strided_batched_ex",
                             code));
    }
    return BP_OK;
}

enum bp_status gpu_rocblas_run(const struct bp_launch *launch)
{
    return gpu_vendor_run(launch, rocblas_run_all);
}
