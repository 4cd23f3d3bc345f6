/* SPDX-License-Identifier: Apache-2.0 */
/* matmul.h: what a matmul is, once ranks, transposition and broadcasting are taken out. */
#ifndef CPU_MATMUL_H
#define CPU_MATMUL_H

#include "walk.h"
#include <backplane/attrs.h>

/* c (m x n) = a (m x k) b (k x n), for each step of batch (c, a, b). Strides in elements. */
struct matmul {
    int64_t m, n, k;
    int64_t a_row, a_column, b_row, b_column, c_row, c_column;
    struct walk batch; /* collapsed */
};

void matmul_init(struct matmul *out, const struct bp_view *a, const struct bp_view *b,
                 const struct bp_view *c, const struct bp_matmul_attrs *attrs);

#endif
