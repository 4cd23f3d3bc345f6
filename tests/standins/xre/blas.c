/* SPDX-License-Identifier: Apache-2.0 */
/* blas.c: implements the functions of XBLAS, which have cuBLAS's names, on simulated streams. A
 * build with XRE_FEW has the names without a version, and no products of batches. */
#include "simulator/gemm.h"
#include "xre.h"
#include <stdlib.h>

#ifdef XRE_FEW
#define EITHER(name) name
#else
#define EITHER(name) name##_v2
#endif

enum {
    NOT_INITIALISED = 1,
    NO_MEMORY = 3,
    INVALID_VALUE = 7,
    FAILED = 13,
    NOT_SUPPORTED = 15
};
enum {
    SUMS_F32 = 68,
    DEFAULT = -1,
    MAGIC = 0xb1a5
};

struct handle {
    int magic;
    void *stream; /* NULL: not set */
};

XRE_API int EITHER(cublasCreate)(void **out);
int EITHER(cublasCreate)(void **out)
{
    struct handle *made;
    int code = xre_enter(__func__);

    if (code) return code;
    if (!out) return INVALID_VALUE;
    if (xre_use()) return NOT_INITIALISED;
    made = malloc(sizeof *made);
    if (!made) return NO_MEMORY;
    *made = (struct handle){MAGIC, NULL};
    *out = made;
    return 0;
}

XRE_API int EITHER(cublasDestroy)(void *p);
int EITHER(cublasDestroy)(void *p)
{
    struct handle *handle = p;
    int code = xre_enter(__func__);

    if (code) return code;
    if (!handle || handle->magic != MAGIC) return NOT_INITIALISED;
    handle->magic = 0;
    free(handle);
    return 0;
}

XRE_API int EITHER(cublasSetStream)(void *p, void *stream);
int EITHER(cublasSetStream)(void *p, void *stream)
{
    struct handle *handle = p;
    int code = xre_enter(__func__);

    if (code) return code;
    if (!handle || handle->magic != MAGIC) return NOT_INITIALISED;
    handle->stream = stream;
    return 0;
}

/* Numbers of CUDA's headers: f32, f16, bf16. */
static enum sim_type blas_type_of(int type)
{
    return type == 0 ? SIM_F32 : type == 2 ? SIM_F16 : type == 14 ? SIM_BF16 : SIM_TYPES;
}

/* Submits products whose result is their summand too. */
static int blas_multiply(const char *function, struct handle *handle, const int trans[2],
                         const int type[3], int compute_type, int algorithm, struct sim_gemm *g,
                         const float *alpha, const float *beta)
{
    int code = xre_enter(function);

    if (code) return code;
    if (!handle || handle->magic != MAGIC) return NOT_INITIALISED;
    if (xre_use()) return FAILED;
    g->type = blas_type_of(type[0]);
    if (g->type == SIM_TYPES || type[1] != type[0] || type[2] != type[0] ||
        compute_type != SUMS_F32 || algorithm != DEFAULT)
        return NOT_SUPPORTED;
    if (trans[0] < 0 || trans[0] > 1 || trans[1] < 0 || trans[1] > 1 || !alpha || !beta)
        return INVALID_VALUE;
    g->transposed[0] = trans[0];
    g->transposed[1] = trans[1];
    g->alpha = (double)*alpha;
    g->beta = (double)*beta;
    g->at[SIM_D] = g->at[SIM_C];
    g->between[SIM_D] = g->between[SIM_C];
    g->step[SIM_D] = g->step[SIM_C];
    if (!handle->stream || !sim_gemm_is_good(g) || !g->at[SIM_A] || !g->at[SIM_B] || !g->at[SIM_C])
        return INVALID_VALUE;
    pthread_mutex_lock(&sim.lock);
    code = sim_gemm_submit(handle->stream, g);
    pthread_mutex_unlock(&sim.lock);
    return code ? FAILED : 0;
}

XRE_API int cublasGemmEx(void *handle, int trans_a, int trans_b, int m, int n, int k,
                         const void *alpha, const void *a, int type_a, int between_a, const void *b,
                         int type_b, int between_b, const void *beta, void *c, int type_c,
                         int between_c, int compute_type, int algorithm);
int cublasGemmEx(void *handle, int trans_a, int trans_b, int m, int n, int k, const void *alpha,
                 const void *a, int type_a, int between_a, const void *b, int type_b, int between_b,
                 const void *beta, void *c, int type_c, int between_c, int compute_type,
                 int algorithm)
{
    struct sim_gemm g = {.m = m,
                         .n = n,
                         .k = k,
                         .batch = 1,
                         .at = {a, b, c},
                         .between = {between_a, between_b, between_c}};

    return blas_multiply(__func__, handle, (int[]){trans_a, trans_b},
                         (int[]){type_a, type_b, type_c}, compute_type, algorithm, &g, alpha, beta);
}

#ifndef XRE_FEW
XRE_API int cublasGemmStridedBatchedEx(void *handle, int trans_a, int trans_b, int m, int n, int k,
                                       const void *alpha, const void *a, int type_a, int between_a,
                                       long long step_a, const void *b, int type_b, int between_b,
                                       long long step_b, const void *beta, void *c, int type_c,
                                       int between_c, long long step_c, int batch, int compute_type,
                                       int algorithm);
int cublasGemmStridedBatchedEx(void *handle, int trans_a, int trans_b, int m, int n, int k,
                               const void *alpha, const void *a, int type_a, int between_a,
                               long long step_a, const void *b, int type_b, int between_b,
                               long long step_b, const void *beta, void *c, int type_c,
                               int between_c, long long step_c, int batch, int compute_type,
                               int algorithm)
{
    struct sim_gemm g = {.m = m,
                         .n = n,
                         .k = k,
                         .batch = batch,
                         .at = {a, b, c},
                         .between = {between_a, between_b, between_c},
                         .step = {step_a, step_b, step_c}};

    return blas_multiply(__func__, handle, (int[]){trans_a, trans_b},
                         (int[]){type_a, type_b, type_c}, compute_type, algorithm, &g, alpha, beta);
}
#endif
