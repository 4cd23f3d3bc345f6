/* SPDX-License-Identifier: Apache-2.0 */
/* xblas.c: computes products of matrices by XBLAS, whose functions are those of cuBLAS. Each stream
 * has its own handle. The summand of these functions is the result, so a bias is copied to the
 * result first. */
#include "xblas.h"
#include "gpu/gemm.h"
#include "gpu/vendor.h"
#include "runtime.h"

#define KIT_LIST "kunlun/xblas.def"
#define KIT_TABLE xblas
#include <kit/table.h>

/* Numbers of CUDA's headers. */
enum {
    XBLAS_PLAIN = 0,
    XBLAS_TRANSPOSED = 1,
    XBLAS_DEFAULT = -1
};
enum {
    XBLAS_F32 = 0,
    XBLAS_F16 = 2,
    XBLAS_BF16 = 14,
    XBLAS_SUMS_F32 = 68
};
enum {
    XBLAS_NOT_SUPPORTED = 15
};

/* The function by either of its names. */
#define EITHER(name) (xblas.call.name##_v2 ? xblas.call.name##_v2 : xblas.call.name)

static int xblas_create(void **out)
{
    return EITHER(cublasCreate) ? EITHER(cublasCreate)(out) : XBLAS_NOT_SUPPORTED;
}

static int xblas_destroy(void *handle)
{
    return EITHER(cublasDestroy) ? EITHER(cublasDestroy)(handle) : XBLAS_NOT_SUPPORTED;
}

static const char *xblas_text(int code)
{
    static const char *const text[] = {
        [1] = "not initialised",       [3] = "no memory",      [7] = "invalid value",
        [8] = "architecture mismatch", [11] = "mapping error", [13] = "execution failed",
        [14] = "internal error",       [15] = "not supported"};

    return code > 0 && (size_t)code < sizeof text / sizeof *text && text[code] ? text[code]
                                                                               : "a failure";
}

static int xblas_set_up(void *handle, void *raw_stream, const char **out_function)
{
    *out_function = "cublasSetStream";
    if (!raw_stream) return 0;
    return EITHER(cublasSetStream) ? EITHER(cublasSetStream)(handle, raw_stream)
                                   : XBLAS_NOT_SUPPORTED;
}

static const struct gpu_vendor_calls handles = {xblas_create, xblas_destroy, xblas_text};

struct gpu_vendor gpu_xblas = {
    .name = "XBLAS",
    .id = GPU_VENDOR_XBLAS,
    .calls = &handles,
    .library = KIT_LIBRARY(xblas_symbols, xblas.function, NULL),
    .for_streams = true,
    .set_up = xblas_set_up,
};

enum {
    COPIES = 4096
}; /* the most copies by which a bias is added */

/* How the result is filled before the product is added to it. */
enum begin {
    BEGIN_EMPTY,   /* no bias is added */
    BEGIN_ZERO,    /* there are no products, k is 0: the result is 0 */
    BEGIN_ROWS,    /* the bias is copied to the first row, and further rows are copies of it */
    BEGIN_ELEMENTS /* the bias is copied element by element */
};

struct plan {
    struct gpu_gemm gemm;
    enum begin begin;
    bool multiplies;       /* false: the result or the sums are empty */
    int64_t rows, columns; /* the result as a matrix: columns are the elements of the bias */
};

/* Whether the elements of a view lie without gaps in the order of its axes. */
static bool xblas_is_contiguous(const struct bp_view *v)
{
    int64_t step = 1;

    for (int i = v->rank - 1; i >= 0; step *= v->shape[i--])
        if (v->shape[i] != 1 && v->stride[i] != step) return false;
    return true;
}

/* Chooses how a bias gets into the result. false: it would take too many copies. */
static bool begin_init(struct plan *plan, const struct bp_view *bias, const struct bp_view *y)
{
    plan->columns = bias->count;
    plan->rows = y->count / bias->count;
    plan->begin = xblas_is_contiguous(y) && xblas_is_contiguous(bias) ? BEGIN_ROWS : BEGIN_ELEMENTS;
    return plan->begin == BEGIN_ROWS || y->count <= COPIES;
}

/* Describes the product. linear's bias is not part of it: see begin_init. */
static bool product_init(struct plan *plan, const struct bp_prep *prep)
{
    const struct bp_view *bias = prep->n_in > 2 ? prep->in[2] : NULL, *a = prep->in[0],
                         *y = prep->out[0];
    struct bp_prep product = *prep;

    plan->multiplies = a->count && y->count;
    plan->gemm.dtype = y->dtype;
    if (!y->count) return true;
    product.n_in = 2;
    if (plan->multiplies &&
        (!gpu_gemm_init(&plan->gemm, &product) || !gpu_gemm_is_small(&plan->gemm)))
        return false;
    if (!bias && !plan->multiplies) plan->begin = BEGIN_ZERO;
    if (plan->begin == BEGIN_ZERO) return xblas_is_contiguous(y) && kunlun_has_fill();
    if (!bias) return true;
    plan->gemm.beta = 1;
    return begin_init(plan, bias, y);
}

enum bp_status kunlun_xblas_prepare(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    struct plan made = {.begin = BEGIN_EMPTY}, *plan;
    KIT_CONTEXT caller = {NULL};
    struct gpu_device *device;
    void *handle;

    if (!product_init(&made, prep)) return BP_ERR_UNSUPPORTED;
    TRY(gpu_vendor_enter(self, prep->device, &gpu_xblas, &caller, &device, &handle));
    plan = gpu_vendor_keep(device, &gpu_xblas, &made, sizeof made);
    if (!plan) return BP_ERR_MEMORY;
    BP_SET(out, plan, plan);
    return BP_OK;
}

void kunlun_xblas_end(void *self, const struct bp_kernel *row, void *plan)
{
    (void)row;
    gpu_vendor_drop(self, plan, sizeof(struct plan));
}

static int xblas_type_of(uint8_t dtype)
{
    return dtype == BP_F32 ? XBLAS_F32 : dtype == BP_F16 ? XBLAS_F16 : XBLAS_BF16;
}

/* The address of product `i` of a batch. */
static void *xblas_at(const struct gpu_gemm *g, void *const at[GEMM_OPERANDS], int operand,
                      int64_t i)
{
    return (char *)at[operand] + (uint64_t)(i * g->step[operand]) * gpu_gemm_size(g->dtype);
}

/* Whether one call computes all products of a batch. */
static bool xblas_has_batches(const struct gpu_gemm *g)
{
    return g->batch > 1 && xblas.call.cublasGemmStridedBatchedEx;
}

/* One call of the library: a batch, or product `i` of it if the library has no batches. */
static int xblas_multiply(void *handle, const struct gpu_gemm *g, void *const at[GEMM_OPERANDS],
                          int64_t i)
{
    const union gpu_factor alpha = gpu_factor(g->dtype, g->alpha),
                           beta = gpu_factor(g->dtype, g->beta);
    const int type = xblas_type_of(g->dtype);
    const int trans[2] = {g->transposed[0] ? XBLAS_TRANSPOSED : XBLAS_PLAIN,
                          g->transposed[1] ? XBLAS_TRANSPOSED : XBLAS_PLAIN};
    int between[GEMM_OPERANDS];

    for (int o = 0; o < GEMM_OPERANDS; o++) between[o] = (int)g->between[o];
    if (!xblas_has_batches(g))
        return xblas.call.cublasGemmEx(handle, trans[0], trans[1], (int)g->m, (int)g->n, (int)g->k,
                                       &alpha, xblas_at(g, at, GEMM_FIRST, i), type,
                                       between[GEMM_FIRST], xblas_at(g, at, GEMM_SECOND, i), type,
                                       between[GEMM_SECOND], &beta, xblas_at(g, at, GEMM_RESULT, i),
                                       type, between[GEMM_RESULT], XBLAS_SUMS_F32, XBLAS_DEFAULT);
    return xblas.call.cublasGemmStridedBatchedEx(
        handle, trans[0], trans[1], (int)g->m, (int)g->n, (int)g->k, &alpha, at[GEMM_FIRST], type,
        between[GEMM_FIRST], g->step[GEMM_FIRST], at[GEMM_SECOND], type, between[GEMM_SECOND],
        g->step[GEMM_SECOND], &beta, at[GEMM_RESULT], type, between[GEMM_RESULT],
        g->step[GEMM_RESULT], (int)g->batch, XBLAS_SUMS_F32, XBLAS_DEFAULT);
}

/* Copies the bias to the first row and then all rows that are filled already, which doubles their
 * number. */
static enum bp_status begin_rows(const struct plan *plan, const struct bp_launch *launch)
{
    const uint64_t row = (uint64_t)plan->columns * gpu_gemm_size(plan->gemm.dtype);
    struct gpu_stream *stream = launch->stream;
    char *y = launch->out[0]->data;

    TRY(GPU_CALL(stream->device, copy_within, y, launch->in[2]->data, row, stream->raw));
    for (int64_t filled = 1; filled < plan->rows; filled *= 2) {
        int64_t more = filled < plan->rows - filled ? filled : plan->rows - filled;
        TRY(GPU_CALL(stream->device, copy_within, y + (uint64_t)filled * row, y,
                     (uint64_t)more * row, stream->raw));
    }
    return BP_OK;
}

/* The result's last axis is that of the bias. */
static enum bp_status begin_elements(const struct plan *plan, const struct bp_launch *launch)
{
    const struct bp_view *y = launch->out[0], *bias = launch->in[2];
    const uint64_t size = gpu_gemm_size(plan->gemm.dtype);
    struct gpu_stream *stream = launch->stream;

    for (int64_t i = 0; i < y->count; i++) {
        int64_t at = 0, rest = i, column = i % plan->columns;
        for (int axis = y->rank - 1; axis >= 0; rest /= y->shape[axis--])
            at += rest % y->shape[axis] * y->stride[axis];
        TRY(GPU_CALL(stream->device, copy_within, (char *)y->data + (uint64_t)at * size,
                     (char *)bias->data + (uint64_t)(column * bias->stride[0]) * size, size,
                     stream->raw));
    }
    return BP_OK;
}

static enum bp_status xblas_begin(const struct plan *plan, const struct bp_launch *launch)
{
    switch (plan->begin) {
    case BEGIN_ROWS: return begin_rows(plan, launch);
    case BEGIN_ELEMENTS: return begin_elements(plan, launch);
    case BEGIN_ZERO:
        return kunlun_fill_zero(launch->stream, launch->out[0]->data,
                                (uint64_t)launch->out[0]->count * gpu_gemm_size(plan->gemm.dtype));
    default: return BP_OK;
    }
}

/* Under the stream's lock. */
static enum bp_status xblas_run_all(const struct bp_launch *launch)
{
    const struct plan *plan = launch->plan;
    const struct gpu_gemm *gemm = &plan->gemm;
    struct gpu_stream *stream = launch->stream;
    const bool batches = xblas_has_batches(gemm);
    const char *function = batches ? "cublasGemmStridedBatchedEx" : "cublasGemmEx";
    void *handle, *at[GEMM_OPERANDS];

    TRY(xblas_begin(plan, launch));
    if (!plan->multiplies) return BP_OK;
    TRY(gpu_vendor_handle(stream, &gpu_xblas, &handle));
    for (int64_t call = 0; call < gemm->calls; call++) {
        gpu_gemm_place(gemm, launch, call, at);
        for (int64_t i = 0; i < (batches ? 1 : gemm->batch); i++)
            TRY(gpu_vendor_check(stream->device, &gpu_xblas, function,
                                 xblas_multiply(handle, gemm, at, i)));
    }
    return BP_OK;
}

enum bp_status kunlun_xblas_run(const struct bp_launch *launch)
{
    return gpu_vendor_run(launch, xblas_run_all);
}
