/* SPDX-License-Identifier: Apache-2.0 */
/* rocblas.c: products of matrices by rocBLAS. Its handles have a stream, and memory that what is
 * done in it uses: each stream has its own. */
#include "rocblas.h"
#include "gemm.h"
#include "vendor.h"

static const struct gpu_vendor_symbol symbols[] = {
#define CALL(result, name, parameters) {#name, true},
#define CALL_OR_NONE(result, name, parameters) {#name, false},
#include "rocblas.def"
};
enum { SYMBOLS = sizeof symbols / sizeof *symbols };

static union {
    void *function[SYMBOLS];
    struct gpu_vendor_calls first;
    struct rocblas_calls call;
} roc;
_Static_assert(sizeof roc.call == sizeof roc.function, "functions alone");

struct gpu_vendor gpu_rocblas = {
    .name = "rocBLAS", .id = GPU_VENDOR_ROCBLAS, .symbol = symbols, .n = SYMBOLS,
    .function = roc.function, .calls = &roc.first, .lock = PTHREAD_MUTEX_INITIALIZER,
};

#define CHECK(device, name, ...) \
    gpu_vendor_check(device, &gpu_rocblas, #name, roc.call.name(__VA_ARGS__))

static bool fits(const struct gpu_gemm *g)
{
    bool good = g->m <= INT32_MAX && g->n <= INT32_MAX && g->k <= INT32_MAX &&
                g->batch <= INT32_MAX && g->adds != GEMM_VECTOR;

    for (int i = 0; i < GEMM_OPERANDS; i++) good = good && g->between[i] <= INT32_MAX;
    return good;
}

/* The plan is the shape: rocBLAS chooses in each call. */
enum bp_status gpu_rocblas_prepare(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    GPU_CALLER caller = {NULL};
    struct gpu_device *device;
    struct gpu_gemm gemm, *plan;
    void *handle;

    if (!gpu_gemm_init(&gemm, prep) || !fits(&gemm)) return BP_ERR_UNSUPPORTED;
    TRY(gpu_vendor_enter(self, prep->device, &gpu_rocblas, &caller, &device, &handle));
    plan = gpu_vendor_keep(device, &gpu_rocblas, &gemm, sizeof gemm);
    if (!plan) return BP_ERR_MEMORY;
    BP_SET(out, plan, plan);
    return BP_OK;
}

void gpu_rocblas_end(void *self, const struct bp_kernel *row, void *plan)
{
    const struct bp_host *host = ((struct gpu *)self)->host;

    (void)row;
    host->release(host->ctx, plan, sizeof(struct gpu_gemm));
}

static int type_of(uint8_t dtype)
{
    return dtype == BP_F64 ? ROCBLAS_F64
           : dtype == BP_F32 ? ROCBLAS_F32
           : dtype == BP_F16 ? ROCBLAS_F16
                             : ROCBLAS_BF16;
}

static enum bp_status run(const struct bp_launch *launch, const struct gpu_gemm *g, void *handle,
                          int64_t call)
{
    union gpu_factor alpha = gpu_factor(g->dtype, g->alpha), beta = gpu_factor(g->dtype, g->beta);
    int added = g->adds ? GEMM_ADDED : GEMM_RESULT, type = type_of(g->dtype);
    int sums = g->dtype == BP_F64 ? ROCBLAS_F64 : ROCBLAS_F32;
    int32_t between[GEMM_OPERANDS];
    void *at[GEMM_OPERANDS];

    gpu_gemm_place(g, launch, call, at);
    for (int i = 0; i < GEMM_OPERANDS; i++) between[i] = (int32_t)g->between[i];
    return CHECK(((struct gpu_stream *)launch->stream)->device, rocblas_gemm_strided_batched_ex,
                 handle, g->turned[0] ? ROCBLAS_TURNED : ROCBLAS_PLAIN,
                 g->turned[1] ? ROCBLAS_TURNED : ROCBLAS_PLAIN, (int32_t)g->m, (int32_t)g->n,
                 (int32_t)g->k, &alpha, at[GEMM_FIRST], type, between[GEMM_FIRST],
                 g->step[GEMM_FIRST], at[GEMM_SECOND], type, between[GEMM_SECOND],
                 g->step[GEMM_SECOND], &beta, at[GEMM_ADDED], type, between[added],
                 g->step[added], at[GEMM_RESULT], type, between[GEMM_RESULT],
                 g->step[GEMM_RESULT], (int32_t)g->batch, sums, ROCBLAS_STANDARD, 0, 0);
}

/* Under the stream's lock: a handle is for one thread at a time. */
static enum bp_status run_all(const struct bp_launch *launch)
{
    const struct gpu_gemm *gemm = launch->plan;
    struct gpu_stream *stream = launch->stream;
    enum bp_status status = BP_OK;
    void *handle;

    TRY(gpu_vendor_handle(stream, &gpu_rocblas, &handle));
    TRY(CHECK(stream->device, rocblas_set_atomics_mode, handle, ROCBLAS_NO_ATOMICS));
    TRY(CHECK(stream->device, rocblas_set_stream, handle, stream->raw));
    for (int64_t i = 0; i < gemm->calls && status == BP_OK; i++)
        status = run(launch, gemm, handle, i);
    return status;
}

enum bp_status gpu_rocblas_run(const struct bp_launch *launch)
{
    struct gpu_stream *stream = launch->stream;
    GPU_CALLER caller = {NULL};
    struct gpu_device *device;
    enum bp_status status;

    TRY(gpu_device_use(launch->self, launch->device, &caller, &device));
    pthread_mutex_lock(&stream->lock);
    status = run_all(launch);
    pthread_mutex_unlock(&stream->lock);
    return status;
}
