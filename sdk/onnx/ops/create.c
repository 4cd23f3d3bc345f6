/* SPDX-License-Identifier: Apache-2.0 */
/* create.c: runs operators that create values from attributes and shapes. */
#include "../chain.h"
#include "../ops.h"
#include <stdlib.h>
#include <string.h>

static enum bp_status give_constant(struct onnx_call *c, uint32_t dtype, uint32_t rank,
                                    int64_t extent, const void *data)
{
    struct bp_tensor *y;

    TRY(onnx_constant(c, dtype, rank, &extent, data, &y));
    return onnx_give(c, 0, y);
}

enum bp_status onnx_constant_node(struct onnx_call *c)
{
    const Onnx__AttributeProto *a;
    struct onnx_value *v;
    struct bp_tensor *y;

    if ((a = onnx_attr(c->node, "value")) && a->t) {
        TRY(onnx_tensor_value(c->run, a->t, false, &v));
        c->run->use->given += onnx_info(v->tensor).bytes;
        return onnx_give_value(c, 0, v);
    }
    if ((a = onnx_attr(c->node, "sparse_value")) && a->sparse_tensor) {
        TRY(onnx_sparse_tensor(c->run, a->sparse_tensor, &y));
        return onnx_give(c, 0, y);
    }
    if ((a = onnx_attr(c->node, "value_float"))) return give_constant(c, BP_F32, 0, 1, &a->f);
    if ((a = onnx_attr(c->node, "value_int"))) return give_constant(c, BP_I64, 0, 1, &a->i);
    if ((a = onnx_attr(c->node, "value_floats")))
        return give_constant(c, BP_F32, 1, (int64_t)a->n_floats, a->floats);
    if ((a = onnx_attr(c->node, "value_ints")))
        return give_constant(c, BP_I64, 1, (int64_t)a->n_ints, a->ints);
    return onnx_error(BP_ERR_UNSUPPORTED, "a constant of numbers is expected");
}

/* Creates a weight by ConstantOfShape, after the callback of bp_model_options has replaced its
 * values. */
static enum bp_status create_replaced(struct onnx_call *c, struct onnx_ints shape, float value)
{
    const struct bp_model_options *options = &c->run->model->options;
    int64_t count = 1;
    struct bp_tensor *y;
    enum bp_status status;
    float *data;

    for (int64_t i = 0; i < shape.n; i++)
        if (shape.at[i] < 0 || __builtin_mul_overflow(count, shape.at[i], &count))
            return onnx_error(BP_ERR_INVALID, "extent %lld is %lld", (long long)i,
                              (long long)shape.at[i]);
    data = count < INT64_MAX / 8 ? malloc((size_t)count * sizeof *data + 4) : NULL;
    if (!data) return onnx_no_memory();
    for (int64_t i = 0; i < count; i++) data[i] = value;
    options->weights(options->weights_ctx, c->node->name, (uint32_t)shape.n, shape.at,
                     onnx_fan_in(c->run->model, c->node->out[0], (uint32_t)shape.n, shape.at), data,
                     count);
    status = onnx_constant(c, BP_F32, (uint32_t)shape.n, shape.at, data, &y);
    free(data);
    return status ? status : onnx_give(c, 0, y);
}

enum bp_status onnx_constant_of_shape(struct onnx_call *c)
{
    const Onnx__AttributeProto *value = onnx_attr(c->node, "value");
    struct bp_expand_attrs attrs = bp_expand_defaults();
    struct bp_tensor *one, *wide = NULL, *y = NULL;
    struct onnx_ints shape;
    enum bp_status status;
    const float zero = 0;

    TRY(onnx_in_ints(c, 0, &shape));
    if (shape.n < 0 || shape.n > ONNX_RANK_MAX)
        return onnx_error(BP_ERR_INVALID, "a shape of at most %d extents is expected",
                          ONNX_RANK_MAX);
    if (value && value->t) TRY(onnx_tensor(c->run->model, c->run->stream, value->t, &one));
    else TRY(onnx_constant(c, BP_F32, 0, NULL, &zero, &one));
    if (c->run->model->options.weights && !c->symbolic && shape.n &&
        onnx_info(one).dtype == BP_F32 && onnx_info(one).count == 1 &&
        c->run->slot == c->run->model->constant) {
        float number;
        status = bp_tensor_read(c->run->stream, one, &number, sizeof number);
        bp_tensor_destroy(one);
        return status ? status : create_replaced(c, shape, number);
    }
    attrs.shape = onnx_dims(shape);
    status = bp_tensor_reshape(one, 0, NULL, &y);
    bp_tensor_destroy(one);
    if (status) return status;
    one = y;
    y = NULL;
    status = bp_op_expand(c->scope, one, NULL, &attrs, &wide);
    if (status == BP_OK) {
        status = bp_op_assign(c->scope, wide, &y);
        bp_tensor_destroy(wide);
    }
    bp_tensor_destroy(one);
    return status ? status : onnx_give(c, 0, y);
}

/* The host reads start, limit and delta as doubles, so integers are exact below 2^53. Numbers of
 * half types are computed in stash_type and converted, so that 2048 + 1 of f16 does not stop the
 * sequence. */
enum bp_status onnx_range(struct onnx_call *c)
{
    struct bp_arange_attrs attrs = bp_arange_defaults();
    struct onnx_chain k = onnx_chain_begin(c);
    struct bp_tensor *y = NULL;
    uint32_t dtype, inner;

    TRY(onnx_need(c, 1));
    TRY(onnx_in_float(c, 0, 0, &attrs.start));
    TRY(onnx_in_float(c, 1, 0, &attrs.end));
    TRY(onnx_in_float(c, 2, 1, &attrs.step));
    dtype = inner = onnx_info(onnx_in(c, 0)).dtype;
    if (dtype == BP_F16 || dtype == BP_BF16) TRY(onnx_attr_dtype(c, "stash_type", BP_F32, &inner));
    attrs.dtype = inner;
    if ((attrs.step > 0 && attrs.end < attrs.start) || (attrs.step < 0 && attrs.end > attrs.start))
        attrs.end = attrs.start;
    k.status = bp_op_arange(c->scope, NULL, &attrs, &y);
    onnx_chain_give(&k, 0, onnx_chain_cast(&k, onnx_chain_take(&k, y), dtype));
    return onnx_chain_end(&k);
}

enum bp_status onnx_eye_like(struct onnx_call *c)
{
    struct bp_eye_attrs attrs = bp_eye_defaults();
    uint32_t dtype;
    struct bp_tensor *x = onnx_in(c, 0), *y = NULL;
    struct bp_tensor_info info;

    if (!x || (info = onnx_info(x)).rank != 2)
        return onnx_error(BP_ERR_INVALID, "a matrix is expected");
    attrs.rows = info.shape[0];
    attrs.columns = info.shape[1];
    attrs.diagonal = onnx_attr_int(c, "k", 0);
    TRY(onnx_attr_dtype(c, "dtype", info.dtype, &dtype));
    attrs.dtype = dtype;
    TRY(bp_op_eye(c->scope, NULL, NULL, &attrs, &y));
    return onnx_give(c, 0, y);
}
