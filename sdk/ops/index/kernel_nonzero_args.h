/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_nonzero_args.h: numbers of the kernels of kernel_nonzero.h. */
#ifndef BP_KERNELS_NONZERO_ARGS_H
#define BP_KERNELS_NONZERO_ARGS_H

#include "../../dialect/dialect.h"

enum { NONZERO_RANK = 8 };

/* n elements, of `words` elem each, a team has `part` of them; any bit of mask makes an element of
 * x not 0. */
struct nonzero_parts {
    i64 n, part, words;
    u64 mask;
};

struct nonzero_count_args {
    struct nonzero_parts x;
};
struct nonzero_write_args {
    struct nonzero_parts x;
    i64 parts, rank;
    i64 shape[NONZERO_RANK];
};

#endif
