/* SPDX-License-Identifier: Apache-2.0 */
/* gemm.h: products of matrices as libraries take them, which count columns first. */
#ifndef GPU_GEMM_H
#define GPU_GEMM_H

#include "gpu.h"

/* Rows' numbers: rows.def. */
enum gpu_gemm_op { GEMM_MATMUL, GEMM_ADDMM, GEMM_LINEAR };

enum { GEMM_FIRST, GEMM_SECOND, GEMM_RESULT, GEMM_ADDED, GEMM_OPERANDS, GEMM_AXES = 8 };

/* How something is added: not, as a matrix, as a value for each of the m rows. */
enum gpu_gemm_adds { GEMM_NOTHING, GEMM_MATRIX, GEMM_VECTOR };

/* result = alpha first second + beta added, of m x k and k x n matrices. Each is stored column
 * after column, but factors that are turned row after row; between: elements from one to the next.
 * A call of the library makes `batch` products, step elements apart (0: the same again); calls are
 * repeated over further axes, by stride. */
struct gpu_gemm {
    uint8_t dtype;
    bool turned[2];
    enum gpu_gemm_adds adds;
    double alpha, beta;
    int64_t m, n, k, batch;
    int64_t between[GEMM_OPERANDS], step[GEMM_OPERANDS];
    int rank, input[GEMM_OPERANDS]; /* which of the launch's inputs an operand is */
    int64_t shape[GEMM_AXES], stride[GEMM_OPERANDS][GEMM_AXES];
    int64_t calls;
};

/* false: no library takes such strides, or there is nothing to compute. */
bool gpu_gemm_init(struct gpu_gemm *out, const struct bp_prep *prep);

/* Whether extents, numbers and distances have 32 bits. */
bool gpu_gemm_is_small(const struct gpu_gemm *gemm);

/* Where the operands of a call lie, 0 <= call < calls. added is that of the result if none is. */
void gpu_gemm_place(const struct gpu_gemm *gemm, const struct bp_launch *launch, int64_t call,
                    void *out[GEMM_OPERANDS]);

/* Bytes, up to a multiple of an alignment. */
static inline uint64_t gpu_gemm_aligned(uint64_t bytes, uint64_t alignment)
{
    return (bytes + alignment - 1) / alignment * alignment;
}

/* Bytes of an element. */
static inline uint64_t gpu_gemm_size(uint8_t dtype)
{
    return dtype == BP_F64 ? 8 : dtype == BP_F32 ? 4 : 2;
}

/* A factor of products, of the type that sums have: f64 of f64, else f32. */
union gpu_factor {
    double wide;
    float narrow;
};
static inline union gpu_factor gpu_factor(uint8_t dtype, double value)
{
    if (dtype == BP_F64) return (union gpu_factor){.wide = value};
    return (union gpu_factor){.narrow = (float)value};
}

#endif
