/* SPDX-License-Identifier: Apache-2.0 */
/* compose.c: adds the steps that rows of several calls have in common. */
#include "compose.h"

#include <backplane/attrs.h>
#include <math.h>
#include <string.h>

const struct bp_view *npu_type(const struct kit_build *b, struct kit_arg x)
{
    static const int64_t none[1];
    static const struct bp_view absent = {
        .shape = none, .stride = none, .count = 1, .dtype = BP_F32};
    const struct bp_view *view = b->status ? NULL : kit_arg_view(b, &x);

    return view ? view : &absent;
}

bool npu_is_given(const struct kit_build *b, struct kit_arg x)
{
    return !b->status && kit_arg_view(b, &x) != NULL;
}

bool npu_is_empty(const struct kit_build *b, struct kit_arg x)
{
    return !npu_type(b, x)->count;
}

uint32_t npu_axis(int64_t axis, uint32_t rank)
{
    return (uint32_t)(axis < 0 ? axis + (int64_t)rank : axis);
}

struct kit_arg npu_like(struct kit_build *b, struct kit_arg x, uint32_t dtype)
{
    const struct bp_view *type = npu_type(b, x);

    return kit_temporary(b, dtype, type->rank, type->shape);
}

struct kit_arg npu_swapped(struct kit_build *b, struct kit_arg x)
{
    const struct bp_view *type = npu_type(b, x);
    int64_t shape[KIT_AXES_MAX], stride[KIT_AXES_MAX];
    uint32_t r = type->rank;

    if (r < 2) return x;
    memcpy(shape, type->shape, r * sizeof *shape);
    memcpy(stride, type->stride, r * sizeof *stride);
    shape[r - 2] = type->shape[r - 1], shape[r - 1] = type->shape[r - 2];
    stride[r - 2] = type->stride[r - 1], stride[r - 1] = type->stride[r - 2];
    return kit_alias(b, x, type->dtype, r, shape, stride, 0);
}

struct kit_arg npu_part(struct kit_build *b, struct kit_arg x, uint32_t axis, int64_t first,
                        int64_t count, int64_t step)
{
    const struct bp_view *type = npu_type(b, x);
    int64_t shape[KIT_AXES_MAX], stride[KIT_AXES_MAX];

    if (b->status) return x;
    memcpy(shape, type->shape, type->rank * sizeof *shape);
    memcpy(stride, type->stride, type->rank * sizeof *stride);
    shape[axis] = count;
    stride[axis] *= step;
    return kit_alias(b, x, type->dtype, type->rank, shape, stride,
                     first * type->stride[axis] * (int64_t)part_item_size(type->dtype));
}

void npu_cast(struct kit_build *b, struct kit_arg from, struct kit_arg to)
{
    KIT_STEP(b, "Cast", from, KIT_DTYPE_IS(npu_type(b, to)->dtype), to);
}

struct kit_arg npu_wide(struct kit_build *b, struct kit_arg x)
{
    return part_is_half(npu_type(b, x)->dtype) ? part_cast(b, x, BP_F32) : x;
}

void npu_fill(struct kit_build *b, struct kit_arg to, double value)
{
    KIT_STEP(b, "InplaceFillScalar", to, KIT_NUMBER_IS(value));
}

struct kit_arg npu_filled(struct kit_build *b, uint32_t dtype, uint32_t rank, const int64_t *shape,
                          double value)
{
    struct kit_arg to = kit_temporary(b, dtype, rank, shape);

    npu_fill(b, to, value);
    return to;
}

struct kit_arg npu_mul(struct kit_build *b, struct kit_arg x, struct kit_arg y)
{
    return part_two(b, "Mul", x, y);
}

struct kit_arg npu_div(struct kit_build *b, struct kit_arg x, struct kit_arg y)
{
    return part_two(b, "Div", x, y);
}

struct kit_arg npu_times(struct kit_build *b, struct kit_arg x, double factor)
{
    struct kit_arg number = KIT_NUMBER_IS(factor);

    return part_times(b, x, number);
}

struct kit_arg npu_plus(struct kit_build *b, struct kit_arg x, double number)
{
    struct kit_arg other = KIT_NUMBER_IS(number);

    return part_plus(b, x, other);
}

struct kit_arg npu_clip(struct kit_build *b, struct kit_arg x, double least, double most)
{
    struct kit_arg min = KIT_NUMBER_IS(least), max = KIT_NUMBER_IS(most);

    return part_clamp(b, x, min, max);
}

static struct kit_arg compose_reduced(struct kit_build *b, const char *function, struct kit_arg x,
                                      uint32_t axes)
{
    const struct bp_view *type = npu_type(b, x);
    int64_t shape[KIT_AXES_MAX], axis[KIT_AXES_MAX];
    struct kit_arg to;
    uint32_t n = 0;

    for (uint32_t i = 0; i < type->rank; i++) {
        shape[i] = axes >> i & 1 ? 1 : type->shape[i];
        if (axes >> i & 1) axis[n++] = i;
    }
    if (!n) return x;
    to = kit_temporary(b, type->dtype, type->rank, shape);
    KIT_STEP(b, function, x, kit_array(b, axis, n), KIT_INT_IS(1), KIT_DTYPE_IS(type->dtype), to);
    return to;
}

struct kit_arg npu_sum(struct kit_build *b, struct kit_arg x, uint32_t axes)
{
    return compose_reduced(b, "ReduceSum", x, axes);
}

struct kit_arg npu_mean(struct kit_build *b, struct kit_arg x, uint32_t axes)
{
    return compose_reduced(b, "Mean", x, axes);
}

void npu_finish(struct kit_build *b, struct kit_arg result, struct kit_arg out)
{
    const struct bp_view *to = npu_type(b, out);
    struct kit_arg shaped;

    if (b->status) return;
    shaped = kit_reshaped(b, result, to->rank, to->shape);
    if (npu_type(b, result)->dtype == to->dtype) KIT_STEP(b, "InplaceCopy", out, shaped);
    else npu_cast(b, shaped, out);
}

/* slope x + offset, between 0 and 1: the vendor's function has the slope 1/6. */
static void compose_hard_sigmoid(struct kit_build *b, double slope, double offset, struct kit_arg x,
                                 struct kit_arg out)
{
    struct kit_arg t = npu_clip(b, npu_plus(b, npu_times(b, npu_wide(b, x), slope), offset), 0, 1);

    npu_finish(b, t, out);
}

void npu_activate(struct kit_build *b, int64_t activation, double alpha, double beta,
                  struct kit_arg x, struct kit_arg out)
{
    static const char *const plain[] = {
        [BP_ACTIVATION_RELU] = "Relu",   [BP_ACTIVATION_SIGMOID] = "Sigmoid",
        [BP_ACTIVATION_TANH] = "Tanh",   [BP_ACTIVATION_HARD_SWISH] = "Hardswish",
        [BP_ACTIVATION_SILU] = "Silu",   [BP_ACTIVATION_MISH] = "Mish",
        [BP_ACTIVATION_SOFTPLUS] = NULL,
    };

    switch (activation) {
    case BP_ACTIVATION_LEAKY_RELU: KIT_STEP(b, "LeakyRelu", x, KIT_NUMBER_IS(alpha), out); return;
    case BP_ACTIVATION_CLIP:
        KIT_STEP(b, "Clamp", x, KIT_NUMBER_IS(alpha), KIT_NUMBER_IS(beta), out);
        return;
    case BP_ACTIVATION_HARD_SIGMOID: compose_hard_sigmoid(b, alpha, beta, x, out); return;
    case BP_ACTIVATION_GELU:
    case BP_ACTIVATION_GELU_TANH:
        KIT_STEP(b, "GeluV2", x, KIT_INT_IS(activation == BP_ACTIVATION_GELU_TANH), out);
        return;
    case BP_ACTIVATION_ELU:
        KIT_STEP(b, "Elu", x, KIT_NUMBER_IS(alpha), KIT_SCALAR_IS(1), KIT_SCALAR_IS(1), out);
        return;
    case BP_ACTIVATION_SOFTPLUS:
        KIT_STEP(b, "Softplus", x, KIT_NUMBER_IS(alpha), KIT_NUMBER_IS(beta), out);
        return;
    default: break;
    }
    if (activation < 0 || activation >= (int64_t)(sizeof plain / sizeof *plain) ||
        !plain[activation])
        kit_refuse(b);
    else KIT_STEP(b, plain[activation], x, out);
}
