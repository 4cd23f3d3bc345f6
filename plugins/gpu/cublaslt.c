/* SPDX-License-Identifier: Apache-2.0 */
/* cublaslt.c: products of matrices by cuBLASLt. A plan has what its heuristic answered first, for
 * operands that lie at multiples of 16 bytes, which its fast kernels want, and for others. */
#include "cublaslt.h"
#include "gemm.h"
#include "vendor.h"
#include <string.h>

static const struct gpu_vendor_symbol symbols[] = {
#define CALL(result, name, parameters) {#name, true},
#define CALL_OR_NONE(result, name, parameters) {#name, false},
#include "cublaslt.def"
};
enum { SYMBOLS = sizeof symbols / sizeof *symbols };

static union {
    void *function[SYMBOLS];
    struct gpu_vendor_calls first;
    struct cublaslt_calls call;
} lt;
_Static_assert(sizeof lt.call == sizeof lt.function, "functions alone");

static size_t version(void)
{
    return lt.call.cublasLtGetVersion ? lt.call.cublasLtGetVersion() : 0;
}

struct gpu_vendor gpu_cublaslt = {
    .name = "cuBLASLt", .id = GPU_VENDOR_CUBLASLT, .symbol = symbols, .n = SYMBOLS,
    .function = lt.function, .calls = &lt.first, .lock = PTHREAD_MUTEX_INITIALIZER,
    .version = version,
};

enum { ALIGNED = 16, ALIGNMENT = 256 };
static const uint64_t workspace_most = UINT64_C(64) << 20; /* more gains nothing known */

struct plan {
    struct gpu_gemm gemm;
    struct gpu_device *device;
    void *handle, *operation;
    void *layout[GEMM_OPERANDS];
    struct cublaslt_found aligned, any; /* state 0: found */
    pthread_mutex_t lock;               /* of the operation, which has the bias's address */
};

/* Calls the library for a plan that is being made; false, and a line in the log: it failed. */
#define GOOD(device, name, ...) \
    gpu_vendor_good(device, &gpu_cublaslt, #name, lt.call.name(__VA_ARGS__))

static int type_of(uint8_t dtype)
{
    return dtype == BP_F64 ? CUBLASLT_F64
           : dtype == BP_F32 ? CUBLASLT_F32
           : dtype == BP_F16 ? CUBLASLT_F16
                             : CUBLASLT_BF16;
}

static bool make_operation(struct plan *p)
{
    int sums = p->gemm.dtype == BP_F64 ? CUBLASLT_SUM_F64
               : p->gemm.dtype == BP_F32 && gpu_vendor_tf32() ? CUBLASLT_SUM_TF32
                                                              : CUBLASLT_SUM_F32;
    int factors = p->gemm.dtype == BP_F64 ? CUBLASLT_F64 : CUBLASLT_F32;
    const int32_t turned = CUBLASLT_TURNED, add = CUBLASLT_ADD_BIAS;

    if (!GOOD(p->device, cublasLtMatmulDescCreate, &p->operation, sums, factors)) return false;
    for (int i = 0; i < 2; i++)
        if (p->gemm.turned[i] &&
            !GOOD(p->device, cublasLtMatmulDescSetAttribute, p->operation,
                  CUBLASLT_OPERATION_TURN_A + i, &turned, sizeof turned))
            return false;
    return p->gemm.adds != GEMM_VECTOR ||
           GOOD(p->device, cublasLtMatmulDescSetAttribute, p->operation,
                CUBLASLT_OPERATION_EPILOGUE, &add, sizeof add);
}

/* rows x columns is the matrix as it is stored: turned ones have them exchanged. */
static bool make_layout(struct plan *p, int operand)
{
    const struct gpu_gemm *g = &p->gemm;
    bool turned = operand <= GEMM_SECOND && g->turned[operand];
    int64_t rows = operand == GEMM_SECOND ? g->k : g->m;
    int64_t columns = operand == GEMM_FIRST ? g->k : g->n;
    int32_t batch = (int32_t)g->batch;
    void **layout = &p->layout[operand];

    return GOOD(p->device, cublasLtMatrixLayoutCreate, layout, type_of(g->dtype),
                (uint64_t)(turned ? columns : rows), (uint64_t)(turned ? rows : columns),
                g->between[operand]) &&
           (batch == 1 || (GOOD(p->device, cublasLtMatrixLayoutSetAttribute, *layout,
                                CUBLASLT_LAYOUT_BATCH, &batch, sizeof batch) &&
                           GOOD(p->device, cublasLtMatrixLayoutSetAttribute, *layout,
                                CUBLASLT_LAYOUT_STEP, &g->step[operand], sizeof *g->step)));
}

/* What the result's memory has is added where there is no other summand: beta is 0 then. */
static void *layout_added(const struct plan *p)
{
    return p->layout[p->gemm.adds == GEMM_MATRIX ? GEMM_ADDED : GEMM_RESULT];
}

/* A sum that is put together of parts is rounded to a half type before a bias is added: there must
 * be no such then. */
static bool prefer(const struct plan *p, void *preference, uint32_t alignment)
{
    bool whole = p->gemm.adds == GEMM_VECTOR && gpu_gemm_size(p->gemm.dtype) == 2;
    const uint32_t reduction = whole ? CUBLASLT_REDUCE_NOTHING : CUBLASLT_REDUCE_IN_SUMS;
    bool good = GOOD(p->device, cublasLtMatmulPreferenceSetAttribute, preference,
                     CUBLASLT_PREFER_WORKSPACE, &workspace_most, sizeof workspace_most) &&
                GOOD(p->device, cublasLtMatmulPreferenceSetAttribute, preference,
                     CUBLASLT_PREFER_REDUCTION, &reduction, sizeof reduction);

    for (int i = 0; i < 4 && good; i++)
        good = GOOD(p->device, cublasLtMatmulPreferenceSetAttribute, preference,
                    CUBLASLT_PREFER_ALIGNMENT_A + i, &alignment, sizeof alignment);
    return good;
}

/* What the heuristic likes best; how a bias lies it knows from its address. That it has nothing is
 * no failure to be logged. */
static bool choose(const struct plan *p, void *preference, uintptr_t alignment,
                   struct cublaslt_found *out)
{
    int n = 0, code;

    if (!prefer(p, preference, (uint32_t)alignment)) return false;
    if (p->gemm.adds == GEMM_VECTOR &&
        !GOOD(p->device, cublasLtMatmulDescSetAttribute, p->operation, CUBLASLT_OPERATION_BIAS,
              &alignment, sizeof alignment))
        return false;
    code = lt.call.cublasLtMatmulAlgoGetHeuristic(
        p->handle, p->operation, p->layout[GEMM_FIRST], p->layout[GEMM_SECOND], layout_added(p),
        p->layout[GEMM_RESULT], preference, 1, out, &n);
    return code != CUBLASLT_NOT_SUPPORTED &&
           gpu_vendor_good(p->device, &gpu_cublaslt, "cublasLtMatmulAlgoGetHeuristic", code) &&
           n > 0 && !out->state;
}

static bool make(struct plan *p)
{
    void *preference = NULL;
    bool good = make_operation(p);

    for (int i = 0; i < GEMM_OPERANDS && good; i++)
        if (i != GEMM_ADDED || p->gemm.adds == GEMM_MATRIX) good = make_layout(p, i);
    if (!good || !GOOD(p->device, cublasLtMatmulPreferenceCreate, &preference)) return false;
    good = choose(p, preference, gpu_gemm_size(p->gemm.dtype), &p->any);
    if (good && !choose(p, preference, ALIGNED, &p->aligned)) p->aligned = p->any;
    GOOD(p->device, cublasLtMatmulPreferenceDestroy, preference);
    return good;
}

static void drop(const struct plan *p)
{
    for (int i = 0; i < GEMM_OPERANDS; i++)
        if (p->layout[i]) GOOD(p->device, cublasLtMatrixLayoutDestroy, p->layout[i]);
    if (p->operation) GOOD(p->device, cublasLtMatmulDescDestroy, p->operation);
}

enum bp_status gpu_cublaslt_prepare(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    GPU_CALLER caller = {NULL};
    struct plan made = {.handle = NULL}, *plan = NULL;
    bool good;

    if (!gpu_gemm_init(&made.gemm, prep) || made.gemm.batch > INT32_MAX)
        return BP_ERR_UNSUPPORTED;
    TRY(gpu_vendor_enter(self, prep->device, &gpu_cublaslt, &caller, &made.device, &made.handle));
    good = make(&made);
    if (good) plan = gpu_vendor_keep(made.device, &gpu_cublaslt, &made, sizeof made);
    if (!plan) {
        drop(&made);
        return good ? BP_ERR_MEMORY : BP_ERR_UNSUPPORTED;
    }
    pthread_mutex_init(&plan->lock, NULL);
    BP_SET(out, plan, plan);
    BP_SET(out, workspace, made.aligned.workspace > made.any.workspace ? made.aligned.workspace
                                                                       : made.any.workspace);
    BP_SET(out, workspace_alignment, ALIGNMENT);
    return BP_OK;
}

void gpu_cublaslt_end(void *self, const struct bp_kernel *row, void *p)
{
    const struct bp_host *host = ((struct gpu *)self)->host;
    struct plan *plan = p;

    (void)row;
    drop(plan);
    pthread_mutex_destroy(&plan->lock);
    host->release(host->ctx, plan, sizeof *plan);
}

/* The result of what is found for these addresses. */
static const struct cublaslt_found *found_for(const struct plan *p, void *const at[], void *bias)
{
    uintptr_t all = (uintptr_t)bias;

    for (int i = 0; i < GEMM_OPERANDS; i++) all |= (uintptr_t)at[i];
    return all % ALIGNED ? &p->any : &p->aligned;
}

static enum bp_status run(const struct bp_launch *launch, struct plan *p, int64_t call)
{
    const struct gpu_gemm *g = &p->gemm;
    struct gpu_stream *stream = launch->stream;
    union gpu_factor alpha = gpu_factor(g->dtype, g->alpha),
                     beta = gpu_factor(g->dtype, g->adds == GEMM_MATRIX ? g->beta : 0);
    const struct cublaslt_found *found;
    void *at[GEMM_OPERANDS], *bias = NULL;

    gpu_gemm_place(g, launch, call, at);
    if (g->adds == GEMM_VECTOR) { /* it is not C */
        bias = at[GEMM_ADDED];
        at[GEMM_ADDED] = at[GEMM_RESULT];
        TRY(gpu_vendor_check(p->device, &gpu_cublaslt, "cublasLtMatmulDescSetAttribute",
                             lt.call.cublasLtMatmulDescSetAttribute(
                                 p->operation, CUBLASLT_OPERATION_BIAS, &bias, sizeof bias)));
    }
    found = found_for(p, at, bias);
    return gpu_vendor_check(
        p->device, &gpu_cublaslt, "cublasLtMatmul",
        lt.call.cublasLtMatmul(p->handle, p->operation, &alpha, at[GEMM_FIRST],
                               p->layout[GEMM_FIRST], at[GEMM_SECOND], p->layout[GEMM_SECOND],
                               &beta, at[GEMM_ADDED], layout_added(p), at[GEMM_RESULT],
                               p->layout[GEMM_RESULT], &found->algorithm, launch->workspace,
                               found->workspace, stream->raw));
}

enum bp_status gpu_cublaslt_run(const struct bp_launch *launch)
{
    struct plan *plan = launch->plan;
    GPU_CALLER caller = {NULL};
    struct gpu_device *device;
    enum bp_status status;

    TRY(gpu_device_use(launch->self, launch->device, &caller, &device));
    if (plan->gemm.adds == GEMM_VECTOR) pthread_mutex_lock(&plan->lock);
    status = BP_OK;
    for (int64_t i = 0; i < plan->gemm.calls && status == BP_OK; i++) status = run(launch, plan, i);
    if (plan->gemm.adds == GEMM_VECTOR) pthread_mutex_unlock(&plan->lock);
    return status;
}
