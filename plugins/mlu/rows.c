/* SPDX-License-Identifier: Apache-2.0 */
/* rows.c: has the table of kernel rows (rows.def), and refuses the rows whose functions CNNL lacks,
 * and those whose numbers are not confirmed (numbers.h). */
#include "rows.h"
#include "plan.h"

static const int numbers[MLU_NUMBERS_COUNT] = {
#define NUMBER(name, number) [NUM_##name] = MLU_##name,
    MLU_NUMBERS(NUMBER, MLU_OPEN)
#undef NUMBER
#define FACT(name, value, needed, statement) [FACT_##name] = value,
        MLU_FACTS(FACT, MLU_OPEN, true, false)
#undef FACT
};

static const char *const number_names[MLU_NUMBERS_COUNT] = {
#define NUMBER(name, number) [NUM_##name] = #name,
    MLU_NUMBERS(NUMBER, MLU_OPEN)
#undef NUMBER
#define FACT(name, value, needed, statement) [FACT_##name] = #name,
        MLU_FACTS(FACT, MLU_OPEN, true, false)
#undef FACT
};

/* The statements of facts, and whether the rows need them to hold. */
static const struct {
    const char *text;
    bool needed;
} facts[MLU_NUMBERS_COUNT] = {
#define FACT(name, value, needed, statement) [FACT_##name] = {statement, needed},
    MLU_FACTS(FACT, MLU_OPEN, true, false)
#undef FACT
};

int mlu_number(enum mlu_number number)
{
    return numbers[number];
}

int64_t mlu_axis(int64_t axis, uint32_t rank)
{
    return axis < 0 ? axis + rank : axis;
}

/* The masks of the two passes over the list: all dtypes but bf16, and bf16. */
#define WIDE_FLOATS (BP_M(F16) | BP_M(F32))
#define WIDE_NUMBERS (WIDE_FLOATS | BP_M(I32))
#define WIDE_MOVED (WIDE_NUMBERS | BP_M(I8) | BP_M(I16) | BP_M(U8) | BP_M(BOOL))

static const struct mlu_row rows[] = {
#define FLOATS WIDE_FLOATS
#define NUMBERS WIDE_NUMBERS
#define COMPARED WIDE_NUMBERS | BP_M(BOOL)
#define MOVED WIDE_MOVED
#define ROW_AS(op, name, T, U, I, R, flags, build, fn, size, number, ...) \
    {mlu_build_##build, fn, size, number, {__VA_ARGS__}},
#define ROW_WITHOUT_BF16_AS ROW_AS
#include "rows.def"
#define FLOATS BP_M(BF16)
#define NUMBERS BP_M(BF16)
#define COMPARED BP_M(BF16)
#define MOVED BP_M(BF16)
#define ROW_AS(op, name, T, U, I, R, flags, build, fn, size, number, ...) \
    {mlu_build_##build, fn, size, number, {__VA_ARGS__}},
#define ROW_WITHOUT_BF16_AS(...)
#include "rows.def"
};

static enum bp_status rows_prepare(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    return mlu_plan_prepare(self, prep, &rows[prep->kernel - mlu_kernels.first], out);
}

#define KERNEL(the_op, the_name, T, U, I, R, the_flags) \
    {BP_OPROW(the_op),        .name = the_name, \
     .types = {T, U, I, R},   .flags = the_flags, \
     .priority = 100,         .launch = mlu_plan_launch, \
     .prepare = rows_prepare, .plan_destroy = mlu_plan_destroy},
static const struct bp_kernel kernels[] = {
#define FLOATS WIDE_FLOATS
#define NUMBERS WIDE_NUMBERS
#define COMPARED WIDE_NUMBERS | BP_M(BOOL)
#define MOVED WIDE_MOVED
#define ROW_AS(op, name, T, U, I, R, flags, ...) KERNEL(op, "mlu_" #name, T, U, I, R, flags)
#define ROW_WITHOUT_BF16_AS ROW_AS
#include "rows.def"
#define FLOATS BP_M(BF16)
#define NUMBERS BP_M(BF16)
#define COMPARED BP_M(BF16)
#define MOVED BP_M(BF16)
#define ROW_AS(op, name, T, U, I, R, flags, ...) KERNEL(op, "mlu_" #name "_bf16", T, U, I, R, flags)
#define ROW_WITHOUT_BF16_AS(...)
#include "rows.def"
};

static bool rows_have_bf16(const struct mlu *self)
{
    for (uint32_t i = 0; i < self->n_device; i++)
        if (self->device[i].has_bf16) return true;
    return false;
}

/* Facts on which functions depend, and numbers that functions take beside that of the row. */
static const struct {
    enum mlu_fn fn;
    enum mlu_number number;
} also[] = {
    {FN_cnnlBatchNormForwardTraining_v2, FACT_BATCH_NORM_SAVES_INVERSE},
    {FN_cnnlBatchNormForwardTraining_v2, FACT_BATCH_NORM_MOVES_UNBIASED},
    {FN_cnnlBatchNormBackward_v2, FACT_BATCH_NORM_SAVES_INVERSE},
    {FN_cnnlScatter_v2, FACT_SCATTER_V2_ORDER},
    {FN_cnnlMSELoss_v2, FACT_MSE_LOSS_V2_ORDER},
    {FN_cnnlActivationForward, NUM_CNNL_ACTIVATION_HIGH_PRECISION},
    {FN_cnnlActivationBackward, NUM_CNNL_ACTIVATION_HIGH_PRECISION},
    {FN_cnnlSoftmaxForward, NUM_CNNL_SOFTMAX_MODE_MEDIUM_DIMENSION},
    {FN_cnnlSoftmaxBackward, NUM_CNNL_SOFTMAX_MODE_MEDIUM_DIMENSION},
    {FN_cnnlReduce, NUM_CNNL_REDUCE_NO_INDICES},
    {FN_cnnlReduce, NUM_CNNL_32BIT_INDICES},
    {FN_cnnlCastDataType, NUM_CNNL_CAST_FLOAT_TO_HALF},
    {FN_cnnlCastDataType, NUM_CNNL_CAST_FLOAT_TO_BFLOAT16},
    {FN_cnnlCastDataType, NUM_CNNL_CAST_FLOAT_TO_INT32},
    {FN_cnnlCastDataType, NUM_CNNL_CAST_FLOAT_TO_INT16},
    {FN_cnnlCastDataType, NUM_CNNL_CAST_FLOAT_TO_INT8},
    {FN_cnnlCastDataType, NUM_CNNL_CAST_FLOAT_TO_UINT8},
    {FN_cnnlCastDataType, NUM_CNNL_CAST_FLOAT_TO_BOOL},
    {FN_cnnlCastDataType, NUM_CNNL_CAST_HALF_TO_FLOAT},
    {FN_cnnlCastDataType, NUM_CNNL_CAST_BFLOAT16_TO_FLOAT},
    {FN_cnnlCastDataType, NUM_CNNL_CAST_INT32_TO_FLOAT},
    {FN_cnnlCastDataType, NUM_CNNL_CAST_INT16_TO_FLOAT},
    {FN_cnnlCastDataType, NUM_CNNL_CAST_INT8_TO_FLOAT},
    {FN_cnnlCastDataType, NUM_CNNL_CAST_UINT8_TO_FLOAT},
    {FN_cnnlCastDataType, NUM_CNNL_CAST_BOOL_TO_FLOAT},
    {FN_cnnlMatMul_v2, NUM_CNNL_MATMUL_DESC_TRANSA},
    {FN_cnnlMatMul_v2, NUM_CNNL_MATMUL_DESC_TRANSB},
    {FN_cnnlMatMul_v2, NUM_CNNL_MATMUL_DESC_COMPUTE_TYPE},
    {FN_cnnlMatMul_v2, NUM_CNNL_MATMUL_ALLOW_TF32},
    {FN_cnnlMatMul_v2, NUM_CNNL_BMM_BCAST_DESC_TRANSA},
    {FN_cnnlMatMul_v2, NUM_CNNL_BMM_BCAST_DESC_TRANSB},
    {FN_cnnlMatMul_v2, NUM_CNNL_BMM_BCAST_DESC_COMPUTE_TYPE},
    {FN_cnnlBatchNormForwardTraining_v2, NUM_CNNL_ACTIVATION_IDENTITY},
    {FN_cnnlBatchNormForwardTraining_v2, NUM_CNNL_ACTIVATION_HIGH_PRECISION},
    {FN_cnnlBatchNormForwardTraining_v2, NUM_CNNL_BATCHNORM_SPATIAL},
    {FN_cnnlBatchNormForwardTraining_v2, NUM_CNNL_BATCHNORM_OPS_BN},
    {FN_cnnlScatter_v2, NUM_CNNL_SCATTER},
    {FN_cnnlScatter_v2, NUM_CNNL_SCATTER_ADD},
    {FN_cnnlScatter_v2, NUM_CNNL_OP_TENSOR_MUL},
    {FN_cnnlSmoothL1LossForward_v2, NUM_CNNL_SMOOTHL1LOSS_REDUCTION_MEAN},
    {FN_cnnlSmoothL1LossForward_v2, NUM_CNNL_SMOOTHL1LOSS_REDUCTION_SUM},
    {FN_cnnlBceWithLogits_v2, NUM_CNNL_BCE_WITH_LOGITS_MEAN},
    {FN_cnnlBceWithLogits_v2, NUM_CNNL_BCE_WITH_LOGITS_SUM},
    {FN_cnnlNlllossForward_v2, NUM_CNNL_REDUCTION_NONE},
    {FN_cnnlNlllossForward_v2, NUM_CNNL_REDUCTION_MEAN},
    {FN_cnnlNlllossForward_v2, NUM_CNNL_REDUCTION_SUM},
    {FN_cnnlNlllossForward_v2, NUM_CNNL_LOGIC_OP_EQ},
    {FN_cnnlScatterNd_v2, NUM_CNNL_SCATTERND_ADD},
    {FN_cnnlScatterNd_v2, NUM_CNNL_SCATTERND_UPDATE},
    {FN_cnnlBatchNormBackward_v2, NUM_CNNL_ACTIVATION_IDENTITY},
    {FN_cnnlBatchNormBackward_v2, NUM_CNNL_ACTIVATION_HIGH_PRECISION},
    {FN_cnnlBatchNormBackward_v2, NUM_CNNL_BATCHNORM_SPATIAL},
    {FN_cnnlBatchNormBackward_v2, NUM_CNNL_BATCHNORM_OPS_BN},
};

/* Refuses a row that depends on an open fact, or needs one that does not hold. */
static enum bp_status row_depends(const struct mlu *self, const struct bp_kernel *kernel,
                                  enum mlu_number fact)
{
    bool open = numbers[fact] == MLU_OPEN;

    if (!open && (numbers[fact] || !facts[fact].needed)) return BP_OK;
    return bp_fail(self->host, BP_ERR_UNSUPPORTED,
                   "mlu: row %s: it is %s that %s: %s in plugins/mlu/numbers.h", kernel->name,
                   open ? "not confirmed" : "not so", facts[fact].text, number_names[fact]);
}

static enum bp_status row_waits(const struct mlu *self, const struct bp_kernel *kernel,
                                enum mlu_number number)
{
    if (facts[number].text) return row_depends(self, kernel, number);
    if (numbers[number] != MLU_OPEN) return BP_OK;
    return bp_fail(self->host, BP_ERR_UNSUPPORTED,
                   "mlu: row %s: the number of %s in cnnl.h is not confirmed: "
                   "plugins/mlu/numbers.h says how to fill it in",
                   kernel->name, number_names[number]);
}

static enum bp_status row_lacks(const struct mlu *self, const struct bp_kernel *kernel,
                                enum mlu_fn fn)
{
    if (fn == FN_NONE || mlu_cnnl.function[fn]) return BP_OK;
    return bp_fail(self->host, BP_ERR_UNSUPPORTED,
                   "mlu: row %s: %s has no function %s: another version of CNNL is needed",
                   kernel->name, mlu_cnnl_path(), mlu_cnnl_name(fn));
}

static bool row_calls(const struct mlu_row *row, enum mlu_fn fn)
{
    for (const enum mlu_fn *at = row->also; *at != FN_NONE; at++)
        if (*at == fn) return true;
    return row->fn == fn;
}

static enum bp_status rows_usable(void *p, const struct bp_kernel *kernel)
{
    const struct mlu_row *row = &rows[kernel - kernels];
    const struct mlu *self = p;

    TRY(row_waits(self, kernel, row->number));
    for (size_t i = 0; i < sizeof also / sizeof *also; i++)
        if (row_calls(row, also[i].fn)) TRY(row_waits(self, kernel, also[i].number));
    if ((kernel->types[0] == BP_M(BF16) || kernel->types[1] == BP_M(BF16)) && !rows_have_bf16(self))
        return bp_fail(self->host, BP_ERR_UNSUPPORTED, "mlu: row %s: these devices have no bf16",
                       kernel->name);
    if (mlu_cnnl_open())
        return bp_fail(self->host, BP_ERR_UNSUPPORTED, "mlu: row %s: %s", kernel->name,
                       mlu_cnnl_why());
    TRY(row_lacks(self, kernel, row->fn));
    TRY(row_lacks(self, kernel, row->size_fn));
    for (const enum mlu_fn *fn = row->also; *fn != FN_NONE; fn++) TRY(row_lacks(self, kernel, *fn));
    return BP_OK;
}

const struct bp_kernels mlu_kernels = {
    .size = sizeof mlu_kernels,
    .first = kernels,
    .count = sizeof kernels / sizeof *kernels,
    .stride = sizeof *kernels,
    .usable = rows_usable,
};
