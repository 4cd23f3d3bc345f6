/* SPDX-License-Identifier: Apache-2.0 */
/* gemm.h: declares products of matrices in column-major order as work of a simulated stream. */
#ifndef SIM_GEMM_H
#define SIM_GEMM_H

#include "number.h"
#include "sim.h"

enum { SIM_A, SIM_B, SIM_C, SIM_D, SIM_MATRICES };

/* d = alpha a b + beta c + bias. bias has m values, and may be NULL. Matrices are stored in
 * column-major order. split: the sum of products consists of partial sums (split-K), and is rounded
 * before the bias is added. */
struct sim_gemm {
    enum sim_type type;
    bool transposed[2], tf32, split;
    double alpha, beta;
    unsigned pause; /* additional microseconds that the product takes */
    int64_t m, n, k, batch;
    unsigned *under_way; /* decremented when the product is done; or NULL */
    const void *at[SIM_MATRICES], *bias;
    int64_t between[SIM_MATRICES], step[SIM_MATRICES];
};

/* Whether the shape and the strides are valid: no column is shorter than its elements take. BLAS
 * libraries check that when they are called. */
bool sim_gemm_is_good(const struct sim_gemm *gemm);
/* Under the driver's lock. */
int sim_gemm_submit(void *stream, const struct sim_gemm *gemm);

#endif
