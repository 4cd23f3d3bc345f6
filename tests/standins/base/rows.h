/* SPDX-License-Identifier: Apache-2.0 */
/* rows.h: declares how stand-ins compute: by the portable kernels of Backplane, compiled as C. A
 * stand-in calls base_compute in the work of its streams, once or several times for an operator of
 * the vendor. The library is libbp_standin_rows.so. */
#ifndef STANDINS_ROWS_H
#define STANDINS_ROWS_H

#include "base.h"
#include <backplane/attrs.h>
#include <backplane/kernel.h>

enum {
    BASE_RANK = 8,
    BASE_TENSORS = 64,
    BASE_ABSENT = 255
};

/* A tensor in host memory: strides in elements, not negative; 0 repeats an element. */
struct base_tensor {
    void *data;
    uint32_t dtype; /* enum bp_dtype */
    int rank;
    int64_t shape[BASE_RANK], stride[BASE_RANK];
};

/* One operator of docs/ops.md. */
struct base_call {
    const char *op;
    const void *attrs;   /* its attribute struct, with all fields; NULL: it has none */
    const char *variant; /* NULL; or the end of the row's name, such as "_bool" */
    uint32_t type[4];    /* dtypes of the type variables T U I R; BASE_ABSENT: none */
    int n_in, n_out;     /* in declared order; the tensors of a variadic port come last */
    const struct base_tensor *in[BASE_TENSORS]; /* NULL: absent */
    const struct base_tensor *out[BASE_TENSORS];
    int64_t *result; /* of operators whose extents depend on data: one number for each output */
};

/* Computes on the calling thread. 0; BASE_NO_KERNEL: no portable kernel takes these dtypes;
 * BASE_FAULT: an input has an impossible value, such as an index; BASE_NO_MEMORY. */
BASE_API int base_compute(const struct base_call *call);
/* Whether base_compute has a kernel for an operator and these types. */
BASE_API bool base_computes(const char *op, const uint32_t type[4]);

/* A contiguous tensor. */
BASE_API struct base_tensor base_tensor_of(void *data, uint32_t dtype, int rank,
                                           const int64_t *shape);
BASE_API int64_t base_tensor_count(const struct base_tensor *t);
BASE_API size_t base_dtype_size(uint32_t dtype);
BASE_API bool base_tensor_is_contiguous(const struct base_tensor *t);
/* Copies elements between tensors of equal dtype and shape, by their strides. */
BASE_API void base_tensor_copy(const struct base_tensor *from, const struct base_tensor *to);

#endif
