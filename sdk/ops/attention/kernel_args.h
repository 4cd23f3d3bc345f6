/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_args.h: numbers of the kernels of kernel.h. */
#ifndef BP_KERNELS_ATTENTION_ARGS_H
#define BP_KERNELS_ATTENTION_ARGS_H

#include "../../dialect/dialect.h"

enum {
    ATTENTION_AXES = 7,   /* before the lengths, with that of heads cut in two */
    ATTENTION_ROWS = 64,  /* queries of a team */
    ATTENTION_WIDTH = 256, /* of the last axis of v, in a team */
};

/* Operands: strides along the axes before the lengths, a length, and the last axis. mask has the
 * strides of scores: queries, then keys. */
struct attention_strides {
    i64 axes[ATTENTION_AXES], length, last;
};

struct attention_args {
    i64 rank, shape[ATTENTION_AXES];
    i64 queries, keys, depth, width; /* L, S, D and the last extent of v */
    i64 blocks, parts;               /* teams along queries, along width */
    i64 causal, additive;            /* mask is of the type of q, else bool */
    i64 hides;                       /* a query may be left no key: its result is 0 */
    struct attention_strides y, q, k, v, mask;
    host_real scale;
};

#endif
