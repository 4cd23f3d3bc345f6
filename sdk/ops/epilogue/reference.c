/* SPDX-License-Identifier: Apache-2.0 */
/* reference.c: computes reference results of products with an epilogue, from the references of the
 * product and of the activation. */
#include "../common/reference.h"
#include <math.h>

/* How an activation is computed: the operator, its attributes and its tolerance. */
struct activation {
    const char *op;
    ref_family_fn *family;
    long double ulp; /* from TOL of the operator */
};
static const struct activation activations[] = {
    [BP_ACTIVATION_RELU] = {"relu", ref_family_unary, 0},
    [BP_ACTIVATION_LEAKY_RELU] = {"leaky_relu", ref_family_unary, 0.5L},
    [BP_ACTIVATION_CLIP] = {"clip", ref_family_unary_number, 0.5L},
    [BP_ACTIVATION_SIGMOID] = {"sigmoid", ref_family_unary, 4},
    [BP_ACTIVATION_TANH] = {"tanh", ref_family_unary, 4},
    [BP_ACTIVATION_HARD_SIGMOID] = {"hard_sigmoid", ref_family_activation, 1},
    [BP_ACTIVATION_HARD_SWISH] = {"hard_swish", ref_family_activation, 2},
    [BP_ACTIVATION_SILU] = {"silu", ref_family_activation, 4},
    [BP_ACTIVATION_GELU] = {"gelu", ref_family_activation, 3},
    [BP_ACTIVATION_GELU_TANH] = {"gelu", ref_family_activation, 3},
    [BP_ACTIVATION_MISH] = {"mish", ref_family_activation, 6},
    [BP_ACTIVATION_ELU] = {"elu", ref_family_activation, 4},
    [BP_ACTIVATION_SOFTPLUS] = {"softplus", ref_family_activation, 4},
};

/* The end of the attributes of both operators. */
struct epilogue {
    int64_t activation;
    double alpha, beta;
};

/* Returns by how much a number of that size, which may be off by `bound` units, is rounded to a
 * half type, in the same units. The error may move it to a binade with larger steps. */
static long double epilogue_half(const struct num_type *type, long double v, long double bound)
{
    long double unit = num_unit(num_accumulate(type));

    return num_is_half(type) ? num_ulp(type, fabsl(v) + bound * unit) / 2 / unit : 0;
}

/* Returns how far a sum v may be off in the computation of an operator that gives it, in units of
 * `bound`: what its own tolerance allows, with the rounding to a half type. */
static long double epilogue_allowed(const struct ref_array *sum, int64_t i)
{
    const struct num_type *wide = num_accumulate(sum->type);
    long double v = sum->v[i], allowed;

    if (!isfinite(v)) return 0;
    allowed = sum->bound[i] + num_ulp(wide, v) / num_unit(wide);
    return allowed + epilogue_half(sum->type, v, allowed);
}

/* sum += more, of the shape of sum or of its last axis. The rounding of the new sum is counted
 * where the sum is used. */
static void epilogue_add(struct ref_array *sum, const struct ref_array *more)
{
    for (int64_t i = 0; more->type && i < sum->count; i++) {
        sum->bound[i] = epilogue_allowed(sum, i);
        sum->v[i] += more->v[i % more->count];
    }
}

/* Computes the activation of x. attrs: two numbers, or for gelu a flag. */
static void epilogue_apply(const struct epilogue *e, const struct ref_array *x,
                           struct ref_array *y)
{
    const struct activation *of = &activations[e->activation];
    struct bp_gelu_attrs gelu = {sizeof gelu, e->activation == BP_ACTIVATION_GELU_TANH};
    struct bp_clip_attrs numbers = {sizeof numbers, e->alpha, e->beta};
    bool flag = e->activation == BP_ACTIVATION_GELU || gelu.approximate;

    of->family(of->op, x, flag ? (const void *)&gelu : &numbers, y);
}

/* y = activation(y). Activations are monotone, or have one extremum and are a parabola or a corner
 * near it. So if the sum is off by up to d, the result changes most at sum - d or at sum + d. The
 * tolerance of the activation itself is added: docs/accuracy.md. */
static void epilogue_activate(const struct epilogue *e, struct ref_array *y)
{
    long double unit = num_unit(num_accumulate(y->type));
    int64_t n = y->count, shape[] = {3 * n};
    struct ref_array x, got;

    if (e->activation == BP_ACTIVATION_NONE) return;
    ref_array_init(&x, y->type->dtype, 1, shape);
    for (int64_t i = 0; i < n; i++) {
        long double off = epilogue_allowed(y, i) * unit;
        x.v[i] = y->v[i];
        x.v[n + i] = y->v[i] - off;
        x.v[2 * n + i] = y->v[i] + off;
    }
    epilogue_apply(e, &x, &got);
    for (int64_t i = 0; i < n; i++) {
        long double v = got.v[i], below = fabsl(got.v[n + i] - v),
                    above = fabsl(got.v[2 * n + i] - v);
        long double more = activations[e->activation].ulp - 1; /* 1 is in TOL of this operator */
        y->v[i] = v;
        y->bound[i] = 0;
        if (!isfinite(v)) continue;
        if (more > 0) y->bound[i] = more * num_ulp(num_accumulate(y->type), v) / unit;
        y->bound[i] += got.bound[i] + fmaxl(below, above) / unit;
    }
    ref_array_finish(&x);
    ref_array_finish(&got);
}

/* The tolerance contains the rounding to a half type at y. More is allowed where the error moves y
 * to a binade with larger steps. */
static void epilogue_end(struct ref_array *y)
{
    for (int64_t i = 0; i < y->count; i++)
        if (isfinite(y->v[i]))
            y->bound[i] += epilogue_half(y->type, y->v[i], y->bound[i]) -
                           epilogue_half(y->type, y->v[i], 0);
}

void ref_fused_conv(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_fused_conv_attrs *a = attrs;
    const struct epilogue e = {a->activation, a->alpha, a->beta};

    ref_conv(in, attrs, out); /* with the bias; the attributes begin with those of conv */
    epilogue_add(out, &in[3]);
    epilogue_activate(&e, out);
    epilogue_end(out);
}

void ref_fused_matmul(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_fused_matmul_attrs *a = attrs;
    const struct epilogue e = {a->activation, a->alpha, a->beta};

    ref_matmul(in, attrs, out); /* the attributes begin with those of matmul */
    epilogue_add(out, &in[2]);
    epilogue_add(out, &in[3]);
    epilogue_activate(&e, out);
    epilogue_end(out);
}
