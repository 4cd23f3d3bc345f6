/* SPDX-License-Identifier: Apache-2.0 */
/* numbers.h: has the numbers of CNNL's enumerations that the plugin passes to CNNL. This is the one
 * header to fill in by a person who has the SDK: NUMBER(name in cnnl.h, number). OPEN stands for a
 * number that is not confirmed by a public source. The rows that need an open number are refused,
 * with its name in the message, until it is filled in; nothing else has to change.
 *
 * FACT(name, value, needed, statement): a behaviour of a function, which the documentation of CNNL
 * states, or an experiment shows: 1 if the statement holds, 0 if not. Rows that depend on an open
 * fact are refused. Where YES is needed, the value 0 refuses them too; EITHER: the rows work with
 * both values.
 *
 * tests/mlu/print_numbers.c prints this header with the numbers of an SDK and the facts that
 * it is given:
 *
 *   cc -I $NEUWARE_HOME/include -I plugins/mlu tests/mlu/print_numbers.c -o print
 *   ./print BATCH_NORM_SAVES_INVERSE=1 > numbers.h
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
    NUMBER(CNNL_LAYOUT_NDHWC, 3) \
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
    NUMBER(CNNL_ACTIVATION_RELU6, OPEN) \
    NUMBER(CNNL_ACTIVATION_SIGMOID, OPEN) \
    NUMBER(CNNL_ACTIVATION_TANH, OPEN) \
    NUMBER(CNNL_ACTIVATION_ELU, OPEN) \
    NUMBER(CNNL_ACTIVATION_LEAKYRELU, OPEN) \
    NUMBER(CNNL_ACTIVATION_SELU, OPEN) \
    NUMBER(CNNL_ACTIVATION_HARDSWISH, OPEN) \
    NUMBER(CNNL_ACTIVATION_GELU, OPEN) \
    NUMBER(CNNL_ACTIVATION_LOGSIGMOID, OPEN) \
    NUMBER(CNNL_ACTIVATION_SWISH, OPEN) \
    NUMBER(CNNL_SOFTMAX_MODE_MEDIUM_DIMENSION, OPEN) \
    NUMBER(CNNL_SOFTMAX_ACCURATE, OPEN) \
    NUMBER(CNNL_SOFTMAX_LOG, OPEN) \
    NUMBER(CNNL_REDUCE_ADD, OPEN) \
    NUMBER(CNNL_REDUCE_AVG, OPEN) \
    NUMBER(CNNL_REDUCE_MAX, OPEN) \
    NUMBER(CNNL_REDUCE_MIN, OPEN) \
    NUMBER(CNNL_REDUCE_MUL, OPEN) \
    NUMBER(CNNL_REDUCE_NO_INDICES, OPEN) \
    NUMBER(CNNL_32BIT_INDICES, OPEN) \
    NUMBER(CNNL_CAST_FLOAT_TO_HALF, OPEN) \
    NUMBER(CNNL_CAST_FLOAT_TO_BFLOAT16, OPEN) \
    NUMBER(CNNL_CAST_FLOAT_TO_INT32, OPEN) \
    NUMBER(CNNL_CAST_FLOAT_TO_INT16, OPEN) \
    NUMBER(CNNL_CAST_FLOAT_TO_INT8, OPEN) \
    NUMBER(CNNL_CAST_FLOAT_TO_UINT8, OPEN) \
    NUMBER(CNNL_CAST_FLOAT_TO_BOOL, OPEN) \
    NUMBER(CNNL_CAST_HALF_TO_FLOAT, OPEN) \
    NUMBER(CNNL_CAST_BFLOAT16_TO_FLOAT, OPEN) \
    NUMBER(CNNL_CAST_INT32_TO_FLOAT, OPEN) \
    NUMBER(CNNL_CAST_INT16_TO_FLOAT, OPEN) \
    NUMBER(CNNL_CAST_INT8_TO_FLOAT, OPEN) \
    NUMBER(CNNL_CAST_UINT8_TO_FLOAT, OPEN) \
    NUMBER(CNNL_CAST_BOOL_TO_FLOAT, OPEN) \
    NUMBER(CNNL_MATMUL_DESC_TRANSA, OPEN) \
    NUMBER(CNNL_MATMUL_DESC_TRANSB, OPEN) \
    NUMBER(CNNL_MATMUL_DESC_COMPUTE_TYPE, OPEN) \
    NUMBER(CNNL_MATMUL_ALLOW_TF32, OPEN) \
    NUMBER(CNNL_BMM_BCAST_DESC_TRANSA, OPEN) \
    NUMBER(CNNL_BMM_BCAST_DESC_TRANSB, OPEN) \
    NUMBER(CNNL_BMM_BCAST_DESC_COMPUTE_TYPE, OPEN) \
    NUMBER(CNNL_CONVOLUTION_FWD_FASTEST, OPEN) \
    NUMBER(CNNL_CONVOLUTION_BWD_DATA_FASTEST, OPEN) \
    NUMBER(CNNL_CONVOLUTION_BWD_FILTER_FASTEST, OPEN) \
    NUMBER(CNNL_ACTIVATION_IDENTITY, OPEN) \
    NUMBER(CNNL_BATCHNORM_SPATIAL, OPEN) \
    NUMBER(CNNL_BATCHNORM_OPS_BN, OPEN) \
    NUMBER(CNNL_SCATTER, OPEN) \
    NUMBER(CNNL_SCATTER_ADD, OPEN) \
    NUMBER(CNNL_SCATTERND_ADD, OPEN) \
    NUMBER(CNNL_SCATTERND_UPDATE, OPEN) \
    NUMBER(CNNL_LOGIC_OP_XOR, OPEN) \
    NUMBER(CNNL_TRIGON_TAN, OPEN) \
    NUMBER(CNNL_TRIGON_ASIN, OPEN) \
    NUMBER(CNNL_TRIGON_ACOS, OPEN) \
    NUMBER(CNNL_TRIGON_ATAN, OPEN) \
    NUMBER(CNNL_TRIGON_SINH, OPEN) \
    NUMBER(CNNL_TRIGON_COSH, OPEN) \
    NUMBER(CNNL_TRIGON_ASINH, OPEN) \
    NUMBER(CNNL_TRIGON_ACOSH, OPEN) \
    NUMBER(CNNL_TRIGON_ATANH, OPEN) \
    NUMBER(CNNL_CYCLE_BAND_OP, OPEN) \
    NUMBER(CNNL_CYCLE_BOR_OP, OPEN) \
    NUMBER(CNNL_CYCLE_BXOR_OP, OPEN) \
    NUMBER(CNNL_BNOT_OP, OPEN) \
    NUMBER(CNNL_MSE_LOSS_MEAN, OPEN) \
    NUMBER(CNNL_SMOOTHL1LOSS_REDUCTION_NONE, OPEN) \
    NUMBER(CNNL_SMOOTHL1LOSS_REDUCTION_MEAN, OPEN) \
    NUMBER(CNNL_SMOOTHL1LOSS_REDUCTION_SUM, OPEN) \
    NUMBER(CNNL_BCE_WITH_LOGITS_NONE, OPEN) \
    NUMBER(CNNL_BCE_WITH_LOGITS_MEAN, OPEN) \
    NUMBER(CNNL_BCE_WITH_LOGITS_SUM, OPEN) \
    NUMBER(CNNL_REDUCTION_NONE, OPEN) \
    NUMBER(CNNL_REDUCTION_MEAN, OPEN) \
    NUMBER(CNNL_REDUCTION_SUM, OPEN)

#define MLU_FACTS(FACT, OPEN, YES, EITHER) \
    FACT(BATCH_NORM_SAVES_INVERSE, OPEN, YES, \
         "the second statistic that cnnlBatchNormForwardTraining_v2 saves, and that " \
         "cnnlBatchNormBackward_v2 takes, is 1 / sqrt(variance + eps)") \
    FACT(BATCH_NORM_MOVES_UNBIASED, OPEN, EITHER, \
         "cnnlBatchNormForwardTraining_v2 moves moving_var towards the variance by n - 1, not " \
         "by n") \
    FACT(SCATTER_V2_ORDER, OPEN, YES, \
         "the arguments of cnnlScatter_v2 are handle, dim, input, index, src, workspace, " \
         "output and mode, each tensor with its descriptor in front") \
    FACT(MSE_LOSS_V2_ORDER, OPEN, YES, \
         "the arguments of cnnlMSELoss_v2 are handle, reduction, input, target, workspace and " \
         "output, each tensor with its descriptor in front") \
    FACT(NLL_LOSS_ORDER, OPEN, YES, \
         "the arguments of cnnlNlllossForward_v2 are handle, reduction, input, target, " \
         "ignore_index, weight, workspace, total_weight and output, each tensor with its " \
         "descriptor in front") \
    FACT(SCATTER_LAST_WINS, OPEN, YES, \
         "of several updates of one place, cnnlScatter_v2 and cnnlScatterNd_v2 keep the last")

#endif
