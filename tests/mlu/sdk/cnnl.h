/* SPDX-License-Identifier: Apache-2.0 */
/* cnnl.h: stands in for the header of Cambricon's SDK in tests of print_numbers.c. The numbers that
 * are not confirmed are those that the stand-in for libcnnl.so assumes. */
#ifndef TESTS_MLU_SDK_CNNL_H
#define TESTS_MLU_SDK_CNNL_H

enum {
    CNNL_DTYPE_HALF = 1,
    CNNL_DTYPE_FLOAT = 2,
    CNNL_DTYPE_INT8 = 3,
    CNNL_DTYPE_INT16 = 4,
    CNNL_DTYPE_INT32 = 6,
    CNNL_DTYPE_UINT8 = 7,
    CNNL_DTYPE_BOOL = 8,
    CNNL_DTYPE_BFLOAT16 = 17
};
enum {
    CNNL_LAYOUT_NHWC = 1,
    CNNL_LAYOUT_ARRAY = 4
};
enum {
    CNNL_POINTER_MODE_HOST
};
enum {
    CNNL_POOLING_MAX,
    CNNL_POOLING_AVERAGE_COUNT_INCLUDE_PADDING,
    CNNL_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING
};
enum {
    CNNL_NOT_PROPAGATE_NAN,
    CNNL_PROPAGATE_NAN
};
enum {
    CNNL_COMPUTATION_FAST,
    CNNL_COMPUTATION_HIGH_PRECISION
};
enum {
    CNNL_LOG_E,
    CNNL_LOG_2,
    CNNL_LOG_10
};
enum {
    CNNL_LOGIC_OP_EQ,
    CNNL_LOGIC_OP_NE,
    CNNL_LOGIC_OP_GT,
    CNNL_LOGIC_OP_GE,
    CNNL_LOGIC_OP_LT,
    CNNL_LOGIC_OP_LE,
    CNNL_LOGIC_OP_AND,
    CNNL_LOGIC_OP_OR
};

/* No stand-in has the functions that take these. */
enum {
    CNNL_OP_TENSOR_ADD,
    CNNL_OP_TENSOR_SUB,
    CNNL_OP_TENSOR_MUL
};
enum {
    CNNL_ACTIVATION_HIGH_PRECISION
};
enum {
    CNNL_ACTIVATION_RELU,
    CNNL_ACTIVATION_SIGMOID,
    CNNL_ACTIVATION_TANH
};
enum {
    CNNL_SOFTMAX_MODE_MEDIUM_DIMENSION
};
enum {
    CNNL_SOFTMAX_ACCURATE,
    CNNL_SOFTMAX_LOG
};
enum {
    CNNL_REDUCE_ADD,
    CNNL_REDUCE_AVG,
    CNNL_REDUCE_MAX,
    CNNL_REDUCE_MIN,
    CNNL_REDUCE_MUL
};
enum {
    CNNL_REDUCE_NO_INDICES,
    CNNL_32BIT_INDICES
};

#endif
