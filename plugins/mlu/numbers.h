/* SPDX-License-Identifier: Apache-2.0 */
/* numbers.h: has the numbers of CNNL's enumerations that the plugin passes to CNNL. This is the one
 * header to fill in by a person who has the SDK: NUMBER(name in cnnl.h, number). OPEN stands for a
 * number that is not confirmed by a public source. The rows that need an open number are refused,
 * with its name in the message, until it is filled in; nothing else has to change.
 *
 * tests/mlu/print_numbers.c prints this list with the numbers of an SDK:
 *
 *   cc -I plugins/mlu -I $NEUWARE_HOME/include tests/mlu/print_numbers.c -o print && ./print
 *
 * Sources of the numbers that are filled in: dtypes, layouts and preferences of precision are in
 * the header cnnl_core.h of Cambricon's cnnl-example of 2021; Cambricon's open mlu-ops passes
 * dtypes, pooling modes and modes of NaN to CNNL by casts of its own numbers, which are these. */
#ifndef MLU_NUMBERS_H
#define MLU_NUMBERS_H

#define MLU_NUMBERS(NUMBER, OPEN) \
    NUMBER(CNNL_DTYPE_HALF, 1) \
    NUMBER(CNNL_DTYPE_FLOAT, 2) \
    NUMBER(CNNL_DTYPE_INT8, 3) \
    NUMBER(CNNL_DTYPE_INT16, 4) \
    NUMBER(CNNL_DTYPE_INT32, 6) \
    NUMBER(CNNL_DTYPE_UINT8, 7) \
    NUMBER(CNNL_DTYPE_BOOL, 8) \
    NUMBER(CNNL_DTYPE_BFLOAT16, 17) \
    NUMBER(CNNL_LAYOUT_NHWC, 1) \
    NUMBER(CNNL_LAYOUT_ARRAY, 4) \
    NUMBER(CNNL_POINTER_MODE_HOST, 0) \
    NUMBER(CNNL_POOLING_MAX, 0) \
    NUMBER(CNNL_POOLING_AVERAGE_COUNT_INCLUDE_PADDING, 1) \
    NUMBER(CNNL_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING, 2) \
    NUMBER(CNNL_NOT_PROPAGATE_NAN, 0) \
    NUMBER(CNNL_PROPAGATE_NAN, 1) \
    NUMBER(CNNL_COMPUTATION_HIGH_PRECISION, 1) \
    /* From here on not confirmed. */ \
    NUMBER(CNNL_LOG_E, OPEN) \
    NUMBER(CNNL_LOG_2, OPEN) \
    NUMBER(CNNL_LOG_10, OPEN) \
    NUMBER(CNNL_LOGIC_OP_EQ, OPEN) \
    NUMBER(CNNL_LOGIC_OP_NE, OPEN) \
    NUMBER(CNNL_LOGIC_OP_GT, OPEN) \
    NUMBER(CNNL_LOGIC_OP_GE, OPEN) \
    NUMBER(CNNL_LOGIC_OP_LT, OPEN) \
    NUMBER(CNNL_LOGIC_OP_LE, OPEN) \
    NUMBER(CNNL_LOGIC_OP_AND, OPEN) \
    NUMBER(CNNL_LOGIC_OP_OR, OPEN) \
    NUMBER(CNNL_OP_TENSOR_ADD, OPEN) \
    NUMBER(CNNL_OP_TENSOR_SUB, OPEN) \
    NUMBER(CNNL_OP_TENSOR_MUL, OPEN) \
    NUMBER(CNNL_ACTIVATION_HIGH_PRECISION, OPEN) \
    NUMBER(CNNL_ACTIVATION_RELU, OPEN) \
    NUMBER(CNNL_ACTIVATION_SIGMOID, OPEN) \
    NUMBER(CNNL_ACTIVATION_TANH, OPEN) \
    NUMBER(CNNL_SOFTMAX_MODE_MEDIUM_DIMENSION, OPEN) \
    NUMBER(CNNL_SOFTMAX_ACCURATE, OPEN) \
    NUMBER(CNNL_SOFTMAX_LOG, OPEN) \
    NUMBER(CNNL_REDUCE_ADD, OPEN) \
    NUMBER(CNNL_REDUCE_AVG, OPEN) \
    NUMBER(CNNL_REDUCE_MAX, OPEN) \
    NUMBER(CNNL_REDUCE_MIN, OPEN) \
    NUMBER(CNNL_REDUCE_MUL, OPEN) \
    NUMBER(CNNL_REDUCE_NO_INDICES, OPEN) \
    NUMBER(CNNL_32BIT_INDICES, OPEN)

#endif
