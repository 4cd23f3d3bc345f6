/* SPDX-License-Identifier: Apache-2.0 */
/* gemm.h: products of matrices, which count columns first, as work of a simulated stream. */
#ifndef SIM_GEMM_H
#define SIM_GEMM_H

#include "number.h"
#include "sim.h"

enum { SIM_A, SIM_B, SIM_C, SIM_D, SIM_MATRICES };

/* d = alpha a b + beta c + bias; bias, of m values, may be NULL. rows x columns as stored. split:
 * the sum of products is put together of parts, and is rounded before the bias is added. */
struct sim_gemm {
    enum sim_type type;
    bool turned[2], tf32, split;
    double alpha, beta;
    unsigned pause; /* microseconds that it takes beyond what it needs */
    int64_t m, n, k, batch;
    unsigned *under_way; /* counted down when it is done; or NULL */
    const void *at[SIM_MATRICES], *bias;
    int64_t between[SIM_MATRICES], step[SIM_MATRICES];
};

/* Under the driver's lock. */
int sim_gemm_submit(void *stream, const struct sim_gemm *gemm);

#endif
