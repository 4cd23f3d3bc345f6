/* SPDX-License-Identifier: Apache-2.0 */
/* gemm.h: describes a product of matrices as vendors' libraries expect it: in column-major
 * order. */
#ifndef GPU_GEMM_H
#define GPU_GEMM_H

#include "gpu.h"

/* The numbers of kernel rows in rows.def. */
enum gpu_gemm_op { GEMM_MATMUL, GEMM_ADDMM, GEMM_LINEAR, GEMM_FUSED };

enum { GEMM_FIRST, GEMM_SECOND, GEMM_RESULT, GEMM_ADDED, GEMM_OPERANDS, GEMM_AXES = 8 };

/* The kind of the summand: none, a matrix, a vector with one value for each of the m rows, or a
 * matrix with the result's shape and strides in all products. */
enum gpu_gemm_adds { GEMM_NOTHING, GEMM_MATRIX, GEMM_VECTOR, GEMM_LIKE_RESULT };

/* result = alpha first second + beta added, for m x k and k x n matrices. All matrices are stored
 * column-major, except that transposed factors (`turned`) are stored row-major. between: the
 * leading dimension, the distance of columns (or rows) in elements. One call of the library
 * computes `batch` products, whose operands are `step` elements apart (0: the same operand for
 * all). The call is repeated over further axes, by shape and stride. */
struct gpu_gemm {
    uint8_t dtype;
    bool transposed[2];
    enum gpu_gemm_adds adds;
    double alpha, beta;
    int64_t m, n, k, batch;
    int64_t between[GEMM_OPERANDS], step[GEMM_OPERANDS];
    int rank, input[GEMM_OPERANDS]; /* input[]: the launch's input that each operand is */
    int bias;                       /* the input with m values that are added to each column, beside
                                       a matrix or alone; -1: none */
    int64_t shape[GEMM_AXES], stride[GEMM_OPERANDS][GEMM_AXES];
    int64_t calls;
};

/* false: no library supports these strides, or there are no products to compute. */
bool gpu_gemm_init(struct gpu_gemm *out, const struct bp_prep *prep);

/* Whether all extents, batch counts and leading dimensions fit into 32 bits. */
bool gpu_gemm_is_small(const struct gpu_gemm *gemm);

/* Whether the summand is a matrix, the libraries' operand C. */
static inline bool gpu_gemm_adds_matrix(const struct gpu_gemm *gemm)
{
    return gemm->adds == GEMM_MATRIX || gemm->adds == GEMM_LIKE_RESULT;
}

/* Computes the addresses of the operands of a call, 0 <= call < calls. If no matrix is added, the
 * address of GEMM_ADDED is that of the result. */
void gpu_gemm_place(const struct gpu_gemm *gemm, const struct bp_launch *launch, int64_t call,
                    void *out[GEMM_OPERANDS]);

/* Rounds bytes up to a multiple of an alignment. */
static inline uint64_t gpu_gemm_aligned(uint64_t bytes, uint64_t alignment)
{
    return (bytes + alignment - 1) / alignment * alignment;
}

/* Size of an element in bytes. */
static inline uint64_t gpu_gemm_size(uint8_t dtype)
{
    return dtype == BP_F64 ? 8 : dtype == BP_F32 ? 4 : 2;
}

/* A factor of products (alpha or beta) in the type of the sums: f64 for f64, otherwise f32. */
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
