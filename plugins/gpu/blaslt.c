/* SPDX-License-Identifier: Apache-2.0 */
/* blaslt.c: computes products of matrices by cuBLASLt and hipBLASLt. A plan has one algorithm for
 * operands at multiples of 16 bytes, which fast kernels of cuBLASLt need, and one for other
 * operands. */
#include "blaslt_plan.h"

static int blaslt_type_of(uint8_t dtype)
{
    return dtype == BP_F64 ? BLASLT_F64
           : dtype == BP_F32 ? BLASLT_F32
           : dtype == BP_F16 ? BLASLT_F16
                             : BLASLT_BF16;
}

static bool make_operation(struct blaslt_plan *p)
{
    const struct blaslt_numbers *number = &p->library->number;
    int sums = p->gemm.dtype == BP_F64 ? number->sum_f64
               : p->gemm.dtype == BP_F32 && gpu_vendor_tf32() ? number->sum_tf32
                                                              : number->sum_f32;
    int factors = p->gemm.dtype == BP_F64 ? BLASLT_F64 : BLASLT_F32;
    const int32_t transposed = number->transposed, add = BLASLT_ADD_BIAS,
                  type = blaslt_type_of(p->gemm.dtype);

    if (!BLASLT_GOOD(p, MatmulDescCreate, &p->operation, sums, factors))
        return false;
    for (int i = 0; i < 2; i++)
        if (p->gemm.transposed[i] &&
            !BLASLT_GOOD(p, MatmulDescSetAttribute, p->operation, number->operation_trans_a + i,
                         &transposed, sizeof transposed))
            return false;
    if (p->gemm.bias < 0) return true;
    return BLASLT_GOOD(p, MatmulDescSetAttribute, p->operation, number->operation_epilogue, &add,
                       sizeof add) &&
           (number->operation_bias_type < 0 ||
            BLASLT_GOOD(p, MatmulDescSetAttribute, p->operation, number->operation_bias_type,
                        &type, sizeof type));
}

/* rows x columns is the matrix as it is stored: in transposed matrices both are exchanged. */
static bool make_layout(struct blaslt_plan *p, int operand)
{
    const struct blaslt_numbers *number = &p->library->number;
    const struct gpu_gemm *g = &p->gemm;
    bool transposed = operand <= GEMM_SECOND && g->transposed[operand];
    int64_t rows = operand == GEMM_SECOND ? g->k : g->m;
    int64_t columns = operand == GEMM_FIRST ? g->k : g->n;
    int32_t batch = (int32_t)g->batch;
    void **layout = &p->layout[operand];

    return BLASLT_GOOD(p, MatrixLayoutCreate, layout, blaslt_type_of(g->dtype),
                       (uint64_t)(transposed ? columns : rows),
                       (uint64_t)(transposed ? rows : columns), g->between[operand]) &&
           (batch == 1 || (BLASLT_GOOD(p, MatrixLayoutSetAttribute, *layout, number->layout_batch,
                                       &batch, sizeof batch) &&
                           BLASLT_GOOD(p, MatrixLayoutSetAttribute, *layout, number->layout_step,
                                       &g->step[operand], sizeof *g->step)));
}

static bool blaslt_make(struct blaslt_plan *p)
{
    bool good = make_operation(p);

    for (int i = 0; i < GEMM_OPERANDS && good; i++)
        if (i != GEMM_ADDED || gpu_gemm_adds_matrix(&p->gemm)) good = make_layout(p, i);
    return good && blaslt_choose(p);
}

static void blaslt_drop(const struct blaslt_plan *p)
{
    for (int i = 0; i < GEMM_OPERANDS; i++)
        if (p->layout[i]) BLASLT_GOOD(p, MatrixLayoutDestroy, p->layout[i]);
    if (p->operation) BLASLT_GOOD(p, MatmulDescDestroy, p->operation);
}

/* Describes the product and what is behind it. false: the library does not support it. */
static bool product_init(struct blaslt_plan *p, const struct bp_prep *prep)
{
    const struct bp_fused_matmul_attrs *fused = prep->attrs;

    if (!gpu_gemm_init(&p->gemm, prep)) return false;
    return portable_number(prep->kernel) != GEMM_FUSED ||
           gpu_epilogue_init(&p->epilogue, (enum bp_activation)fused->activation, fused->alpha,
                             fused->beta, prep->out[0]->dtype);
}

static bool is_narrow(const struct gpu_gemm *g)
{
    bool forward = true;

    for (int i = 0; i < GEMM_OPERANDS; i++) forward = forward && g->step[i] >= 0;
    return forward && gpu_gemm_is_small(g);
}

enum bp_status blaslt_prepare(const struct blaslt_library *library, struct gpu *gpu,
                              const struct bp_prep *prep, struct bp_plan *out)
{
    KIT_CONTEXT caller = {NULL};
    struct blaslt_plan made = {.library = library}, *plan = NULL;
    bool good;

    if (!product_init(&made, prep) || made.gemm.batch > INT32_MAX ||
        (library->narrow && !is_narrow(&made.gemm)))
        return BP_ERR_UNSUPPORTED;
    TRY(gpu_vendor_enter(gpu, prep->device, library->vendor, &caller, &made.device, &made.handle));
    good = blaslt_make(&made);
    if (good) plan = gpu_vendor_keep(made.device, library->vendor, &made, sizeof made);
    if (!plan) {
        blaslt_drop(&made);
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
    struct blaslt_plan *plan = p;

    (void)row;
    blaslt_drop(plan);
    pthread_mutex_destroy(&plan->lock);
    gpu_vendor_drop(self, plan, sizeof *plan);
}

/* The algorithm for operands at these addresses. */
static const struct blaslt_found *found_for(const struct blaslt_plan *p, void *const at[],
                                            void *bias)
{
    uintptr_t all = (uintptr_t)bias;

    for (int i = 0; i < GEMM_OPERANDS; i++) all |= (uintptr_t)at[i];
    return all % BLASLT_ALIGNED ? &p->any : &p->aligned;
}

int blaslt_multiply(const struct blaslt_plan *p, void *handle, const struct blaslt_found *found,
                    void *const at[GEMM_OPERANDS], void *workspace, void *raw_stream)
{
    const struct gpu_gemm *g = &p->gemm;
    union gpu_factor alpha = gpu_factor(g->dtype, g->alpha),
                     beta = gpu_factor(g->dtype, gpu_gemm_adds_matrix(g) ? g->beta : 0);

    return p->library->call->Matmul(
        handle, p->operation, &alpha, at[GEMM_FIRST], p->layout[GEMM_FIRST], at[GEMM_SECOND],
        p->layout[GEMM_SECOND], &beta, at[GEMM_ADDED], blaslt_added(p), at[GEMM_RESULT],
        p->layout[GEMM_RESULT], &found->algorithm, workspace, found->workspace, raw_stream);
}

static enum bp_status blaslt_run(const struct bp_launch *launch, const struct blaslt_plan *p,
                                 void *handle, int64_t call)
{
    const struct blaslt_library *library = p->library;
    const struct gpu_gemm *g = &p->gemm;
    struct gpu_stream *stream = launch->stream;
    void *at[GEMM_OPERANDS], *bias = NULL;

    gpu_gemm_place(g, launch, call, at);
    if (g->bias >= 0) { /* the bias is not operand C */
        bias = launch->in[g->bias]->data;
        TRY(gpu_vendor_check(p->device, library->vendor, BLASLT_NAME(p, MatmulDescSetAttribute),
                             library->call->MatmulDescSetAttribute(
                                 p->operation, library->number.operation_bias, &bias,
                                 sizeof bias)));
    }
    return gpu_vendor_check(p->device, library->vendor, BLASLT_NAME(p, Matmul),
                            blaslt_multiply(p, handle, found_for(p, at, bias), at,
                                            launch->workspace, stream->raw));
}

/* Under the plan's lock if the calls write to the plan's operation. */
static enum bp_status blaslt_run_all(const struct bp_launch *launch, struct blaslt_plan *p,
                                     void *handle)
{
    bool alone = p->gemm.bias >= 0 || p->library->writes;
    enum bp_status status = BP_OK;

    if (alone) pthread_mutex_lock(&p->lock);
    for (int64_t i = 0; i < p->gemm.calls && status == BP_OK; i++)
        status = blaslt_run(launch, p, handle, i);
    if (alone) pthread_mutex_unlock(&p->lock);
    return status;
}

/* Under the stream's lock if the handle is the stream's. */
static enum bp_status blaslt_products(const struct bp_launch *launch)
{
    struct blaslt_plan *plan = launch->plan;
    struct gpu_vendor *vendor = plan->library->vendor;
    struct gpu_stream *stream = launch->stream;
    void *handle = plan->handle;
    KIT_CONTEXT caller = {NULL};
    struct gpu_device *device;
    enum bp_status status;

    TRY(gpu_device_use(launch->self, launch->device, &caller, &device));
    if (!vendor->for_streams) return blaslt_run_all(launch, plan, handle);
    pthread_mutex_lock(&stream->kit.lock);
    status = gpu_vendor_handle(stream, vendor, &handle);
    if (status == BP_OK) status = blaslt_run_all(launch, plan, handle);
    pthread_mutex_unlock(&stream->kit.lock);
    return status;
}

enum bp_status gpu_blaslt_run(const struct bp_launch *launch)
{
    const struct blaslt_plan *plan = launch->plan;

    TRY(blaslt_products(launch));
    return gpu_epilogue_run(&plan->epilogue, launch);
}
