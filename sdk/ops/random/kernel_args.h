/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_args.h: numbers of the kernels of kernel.h, kernel_randint.h and kernel_uniform.h. */
#ifndef BP_KERNELS_RANDOM_ARGS_H
#define BP_KERNELS_RANDOM_ARGS_H

#include "../../dialect/dialect.h"
#include "../common/kernel_formulas.h"

/* Key and first block; where the last operand of a kernel is there, its two numbers: the key, and
 * what is added to the block. */
struct random_source {
    u64 seed, offset;
};

/* n elements, of which a span counts blocks of four; a to d: the attributes, in order. */
struct draw_args {
    struct random_source from;
    i64 n, op;
    host_real a, b, c, d;
    host_real base, width; /* of truncated_normal: erf at the lower end, and from it to the upper */
};
struct bernoulli_args {
    struct random_source from;
    i64 n;
};

/* An element is dropped whose 24 bits are below limit. */
struct dropout_args {
    struct random_source from;
    i64 n, limit;
    host_real factor;
};
struct dropout_grad_args {
    host_real factor;
};
struct poisson_args {
    struct random_source from;
};

/* n draws of m categories in each row. */
struct multinomial_args {
    struct random_source from;
    i64 n, m, again;
};

/* range 0: 2^64. */
struct randint_args {
    struct random_source from;
    i64 n;
    u64 low, range;
};

struct uniform_args {
    struct random_source from;
    i64 n;
    host_real low, high;
};

#endif
