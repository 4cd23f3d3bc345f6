/* SPDX-License-Identifier: Apache-2.0 */
/* blaslt.c: products of matrices by cuBLASLt. A plan has an algorithm for operands that lie at
 * multiples of 16 bytes, which its fast kernels want, and one for others. */
#include "blaslt_plan.h"

static const struct gpu_vendor_symbol symbols[] = {
#define CALL(result, name, parameters) {#name, true},
#define CALL_OR_NONE(result, name, parameters) {#name, false},
#include "blaslt.def"
};
enum { SYMBOLS = sizeof symbols / sizeof *symbols };

static union {
    void *function[SYMBOLS];
    struct gpu_vendor_calls first;
    struct blaslt_calls call;
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
    .forget = blaslt_forget,
};

const struct blaslt_calls *const gpu_blaslt_call = &lt.call;

static int type_of(uint8_t dtype)
{
    return dtype == BP_F64 ? BLASLT_F64
           : dtype == BP_F32 ? BLASLT_F32
           : dtype == BP_F16 ? BLASLT_F16
                             : BLASLT_BF16;
}

static bool make_operation(struct blaslt_plan *p)
{
    int sums = p->gemm.dtype == BP_F64 ? BLASLT_SUM_F64
               : p->gemm.dtype == BP_F32 && gpu_vendor_tf32() ? BLASLT_SUM_TF32
                                                              : BLASLT_SUM_F32;
    int factors = p->gemm.dtype == BP_F64 ? BLASLT_F64 : BLASLT_F32;
    const int32_t turned = BLASLT_TURNED, add = BLASLT_ADD_BIAS;

    if (!BLASLT_GOOD(p->device, cublasLtMatmulDescCreate, &p->operation, sums, factors))
        return false;
    for (int i = 0; i < 2; i++)
        if (p->gemm.turned[i] &&
            !BLASLT_GOOD(p->device, cublasLtMatmulDescSetAttribute, p->operation,
                         BLASLT_OPERATION_TURN_A + i, &turned, sizeof turned))
            return false;
    return p->gemm.adds != GEMM_VECTOR ||
           BLASLT_GOOD(p->device, cublasLtMatmulDescSetAttribute, p->operation,
                       BLASLT_OPERATION_EPILOGUE, &add, sizeof add);
}

/* rows x columns is the matrix as it is stored: turned ones have them exchanged. */
static bool make_layout(struct blaslt_plan *p, int operand)
{
    const struct gpu_gemm *g = &p->gemm;
    bool turned = operand <= GEMM_SECOND && g->turned[operand];
    int64_t rows = operand == GEMM_SECOND ? g->k : g->m;
    int64_t columns = operand == GEMM_FIRST ? g->k : g->n;
    int32_t batch = (int32_t)g->batch;
    void **layout = &p->layout[operand];

    return BLASLT_GOOD(p->device, cublasLtMatrixLayoutCreate, layout, type_of(g->dtype),
                       (uint64_t)(turned ? columns : rows), (uint64_t)(turned ? rows : columns),
                       g->between[operand]) &&
           (batch == 1 ||
            (BLASLT_GOOD(p->device, cublasLtMatrixLayoutSetAttribute, *layout,
                         BLASLT_LAYOUT_BATCH, &batch, sizeof batch) &&
             BLASLT_GOOD(p->device, cublasLtMatrixLayoutSetAttribute, *layout,
                         BLASLT_LAYOUT_STEP, &g->step[operand], sizeof *g->step)));
}

static bool make(struct blaslt_plan *p)
{
    bool good = make_operation(p);

    for (int i = 0; i < GEMM_OPERANDS && good; i++)
        if (i != GEMM_ADDED || p->gemm.adds == GEMM_MATRIX) good = make_layout(p, i);
    return good && blaslt_choose(p);
}

static void drop(const struct blaslt_plan *p)
{
    for (int i = 0; i < GEMM_OPERANDS; i++)
        if (p->layout[i]) BLASLT_GOOD(p->device, cublasLtMatrixLayoutDestroy, p->layout[i]);
    if (p->operation) BLASLT_GOOD(p->device, cublasLtMatmulDescDestroy, p->operation);
}

enum bp_status gpu_cublaslt_prepare(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    GPU_CALLER caller = {NULL};
    struct blaslt_plan made = {.handle = NULL}, *plan = NULL;
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
    BP_SET(out, workspace_alignment, BLASLT_WORKSPACE_ALIGNMENT);
    return BP_OK;
}

void gpu_blaslt_end(void *self, const struct bp_kernel *row, void *p)
{
    const struct bp_host *host = ((struct gpu *)self)->host;
    struct blaslt_plan *plan = p;

    (void)row;
    drop(plan);
    pthread_mutex_destroy(&plan->lock);
    host->release(host->ctx, plan, sizeof *plan);
}

/* The result of what is found for these addresses. */
static const struct blaslt_found *found_for(const struct blaslt_plan *p, void *const at[],
                                            void *bias)
{
    uintptr_t all = (uintptr_t)bias;

    for (int i = 0; i < GEMM_OPERANDS; i++) all |= (uintptr_t)at[i];
    return all % BLASLT_ALIGNED ? &p->any : &p->aligned;
}

int blaslt_multiply(const struct blaslt_plan *p, const struct blaslt_found *found,
                    void *const at[GEMM_OPERANDS], void *workspace, void *raw_stream)
{
    const struct gpu_gemm *g = &p->gemm;
    union gpu_factor alpha = gpu_factor(g->dtype, g->alpha),
                     beta = gpu_factor(g->dtype, g->adds == GEMM_MATRIX ? g->beta : 0);

    return lt.call.cublasLtMatmul(p->handle, p->operation, &alpha, at[GEMM_FIRST],
                                  p->layout[GEMM_FIRST], at[GEMM_SECOND], p->layout[GEMM_SECOND],
                                  &beta, at[GEMM_ADDED], blaslt_added(p), at[GEMM_RESULT],
                                  p->layout[GEMM_RESULT], &found->algorithm, workspace,
                                  found->workspace, raw_stream);
}

static enum bp_status run(const struct bp_launch *launch, struct blaslt_plan *p, int64_t call)
{
    const struct gpu_gemm *g = &p->gemm;
    struct gpu_stream *stream = launch->stream;
    void *at[GEMM_OPERANDS], *bias = NULL;

    gpu_gemm_place(g, launch, call, at);
    if (g->adds == GEMM_VECTOR) { /* it is not C */
        bias = at[GEMM_ADDED];
        at[GEMM_ADDED] = at[GEMM_RESULT];
        TRY(gpu_vendor_check(p->device, &gpu_cublaslt, "cublasLtMatmulDescSetAttribute",
                             lt.call.cublasLtMatmulDescSetAttribute(
                                 p->operation, BLASLT_OPERATION_BIAS, &bias, sizeof bias)));
    }
    return gpu_vendor_check(p->device, &gpu_cublaslt, "cublasLtMatmul",
                            blaslt_multiply(p, found_for(p, at, bias), at, launch->workspace,
                                            stream->raw));
}

enum bp_status gpu_blaslt_run(const struct bp_launch *launch)
{
    struct blaslt_plan *plan = launch->plan;
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
