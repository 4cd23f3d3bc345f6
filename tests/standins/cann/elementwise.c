/* SPDX-License-Identifier: Apache-2.0 */
/* elementwise.c: implements the elementwise families of the stand-in for CANN. */
#include "family.h"
#include <math.h>
#include <string.h>

/* self, out */
int cann_check_unary(struct cann_call *call)
{
    CANN_TRY(cann_want_own(call, 0));
    return cann_want_like(call, 1, 0);
}

int cann_run_unary(struct cann_call *call)
{
    struct bp_hard_sigmoid_attrs hard = {.size = sizeof hard, .slope = 1.0 / 6, .offset = 0.5};
    struct bp_selu_attrs selu = {
        .size = sizeof selu, .scale = 1.0507009873554805, .alpha = 1.6732632423543772};
    const void *attrs = !strcmp(call->op->bp, "hard_sigmoid") ? (const void *)&hard
                        : !strcmp(call->op->bp, "selu")       ? (const void *)&selu
                                                              : NULL;
    struct cann_temps temps = {.n = 0};

    cann_apply(&temps, call->op->bp, attrs, cann_host(call, 0), NULL, NULL, cann_host(call, 1));
    return temps.code;
}

/* self, out: bool */
int cann_check_test(struct cann_call *call)
{
    struct cann_shape shape = cann_shape(cann_type(call, 0));

    CANN_TRY(cann_want_own(call, 0));
    CANN_TRY(cann_want(call, 1, BP_M(BOOL)));
    return cann_want_shape(call, 1, &shape);
}

int cann_run_test(struct cann_call *call)
{
    const struct base_tensor *x = cann_host(call, 0), *y = cann_host(call, 1);
    struct base_call base = {.op = call->op->bp,
                             .n_in = 1,
                             .n_out = 1,
                             .in = {x},
                             .out = {y},
                             .type = {x->dtype, BP_BOOL, BASE_ABSENT, BASE_ABSENT}};
    struct cann_temps temps = {.n = 0};
    struct base_tensor wide;
    int code;

    if (!strcmp(call->op->bp, "isfinite") && !(BP_MASK_FLOAT >> x->dtype & 1)) {
        wide = cann_in_dtype(&temps, x, BP_F32);
        base.in[0] = &wide;
        base.type[0] = BP_F32;
    }
    code = cann_call_base(&temps, &base);
    cann_temps_free(&temps);
    return code;
}

/* The name of an operator with scalars, as its number here. */
enum scalar_op {
    ELU,
    LEAKY,
    CELU,
    SOFTPLUS,
    GELU,
    CLAMP,
    MULS,
    ADDS
};
static enum scalar_op scalar_op(const struct cann_call *call)
{
    static const char *const names[] = {"aclnnElu",      "aclnnLeakyRelu", "aclnnCelu",
                                        "aclnnSoftplus", "aclnnGeluV2",    "aclnnClamp",
                                        "aclnnMuls"};
    int i = 0;

    while (i < ADDS && strcmp(names[i], call->op->name) != 0) i++;
    return (enum scalar_op)i;
}

/* self, scalars, out */
int cann_check_scalar(struct cann_call *call)
{
    int out = (int)strlen(call->op->letters) - 1;
    enum scalar_op op = scalar_op(call);
    uint64_t mask = op == CLAMP || op == MULS || op == ADDS ? CANN_NUMBERS : CANN_FLOATS;

    CANN_TRY(cann_want(call, 0, mask));
    if (op == GELU) CANN_TRY(cann_want_between(call, 1, 0, 1));
    if (op == CLAMP && call->arg[1].is_null && call->arg[2].is_null)
        return cann_refuse(call, 1, "and clipValueMax are both NULL");
    return cann_want_like(call, out, 0);
}

/* y = x by a number, in x's own dtype. */
static void scalar_binary(struct cann_temps *temps, const char *op, const struct base_tensor *x,
                          double number, const struct base_tensor *y)
{
    struct base_tensor s = cann_number(temps, x->dtype, number);

    cann_apply(temps, op, NULL, x, &s, NULL, y);
}

/* elu with three factors: scale (x > 0 ? x : alpha (e^(inputScale x) - 1)). */
static void scalar_elu(struct cann_temps *temps, const struct cann_call *call,
                       const struct base_tensor *x, const struct base_tensor *y)
{
    double alpha = call->arg[1].d, scale = call->arg[2].d, input = call->arg[3].d, v;

    if (scale == 1 && input == 1) {
        struct bp_elu_attrs attrs = {.size = sizeof attrs, .alpha = alpha};
        cann_apply(temps, "elu", &attrs, x, NULL, NULL, y);
        return;
    }
    for (int64_t i = 0; i < base_tensor_count(x); i++) {
        v = cann_get(x, i);
        cann_put(y, i, scale * (v > 0 ? v : alpha * expm1(input * v)));
    }
}

int cann_run_scalar(struct cann_call *call)
{
    const struct base_tensor *x = cann_host(call, 0);
    const struct base_tensor *y = cann_host(call, (int)strlen(call->op->letters) - 1);
    const struct cann_arg *a = call->arg;
    struct cann_temps temps = {.n = 0};
    struct bp_leaky_relu_attrs leaky = {.size = sizeof leaky, .slope = a[1].d};
    struct bp_celu_attrs celu = {.size = sizeof celu, .alpha = a[1].d};
    struct bp_softplus_attrs softplus = {
        .size = sizeof softplus, .beta = a[1].d, .threshold = a[2].d};
    struct bp_gelu_attrs gelu = {.size = sizeof gelu, .approximate = a[1].i};
    struct bp_clip_attrs clip = {.size = sizeof clip,
                                 .min = a[1].is_null ? -INFINITY : a[1].d,
                                 .max = a[2].is_null ? INFINITY : a[2].d};

    switch (scalar_op(call)) {
    case ELU: scalar_elu(&temps, call, x, y); break;
    case LEAKY: cann_apply(&temps, "leaky_relu", &leaky, x, NULL, NULL, y); break;
    case CELU: cann_apply(&temps, "celu", &celu, x, NULL, NULL, y); break;
    case SOFTPLUS: cann_apply(&temps, "softplus", &softplus, x, NULL, NULL, y); break;
    case GELU: cann_apply(&temps, "gelu", &gelu, x, NULL, NULL, y); break;
    case CLAMP: cann_apply(&temps, "clip", &clip, x, NULL, NULL, y); break;
    case MULS: scalar_binary(&temps, "mul", x, a[1].d, y); break;
    case ADDS: scalar_binary(&temps, "add", x, a[1].d * a[2].d, y); break;
    }
    cann_temps_free(&temps);
    return temps.code;
}

/* Checks inputs 0 to n - 1 of one dtype that broadcast to `out` of this dtype, or of bool. */
static int broadcast_check(struct cann_call *call, int n, int out, bool is_bool)
{
    struct cann_shape shape = {0};

    for (int i = 0; i < n; i++) {
        CANN_TRY(cann_want_own(call, i));
        CANN_TRY(cann_want_same(call, i, 0));
        CANN_TRY(cann_broadcast(call, i, &shape));
    }
    CANN_TRY(is_bool ? cann_want(call, out, BP_M(BOOL)) : cann_want_same(call, out, 0));
    return cann_want_shape(call, out, &shape);
}

/* self, other, out */
int cann_check_binary(struct cann_call *call)
{
    if (!strcmp(call->op->bp, "pow") || !strcmp(call->op->bp, "mod") ||
        !strcmp(call->op->bp, "fmod") || !strcmp(call->op->bp, "floor_divide"))
        CANN_TRY(cann_want(call, 0, CANN_FLOATS_F64 | CANN_INTS_U8));
    return broadcast_check(call, 2, 2, false);
}

int cann_run_binary(struct cann_call *call)
{
    struct cann_temps temps = {.n = 0};

    cann_apply(&temps, call->op->bp, NULL, cann_host(call, 0), cann_host(call, 1), NULL,
               cann_host(call, 2));
    return temps.code;
}

/* self, other, alpha, out */
int cann_check_add(struct cann_call *call)
{
    return broadcast_check(call, 2, 3, false);
}

int cann_run_add(struct cann_call *call)
{
    const struct base_tensor *x = cann_host(call, 0), *y = cann_host(call, 1);
    struct cann_temps temps = {.n = 0};
    struct base_tensor scaled;

    if (call->arg[2].d != 1) {
        scaled = cann_temp(&temps, y->dtype, y->rank, y->shape);
        scalar_binary(&temps, "mul", y, call->arg[2].d, &scaled);
        y = &scaled;
    }
    cann_apply(&temps, call->op->bp, NULL, x, y, NULL, cann_host(call, 3));
    cann_temps_free(&temps);
    return temps.code;
}

/* self, other, out: bool */
int cann_check_compare(struct cann_call *call)
{
    return broadcast_check(call, 2, 2, true);
}

int cann_run_compare(struct cann_call *call)
{
    const struct base_tensor *x = cann_host(call, 0);
    struct base_call base = {.op = call->op->bp,
                             .n_in = 2,
                             .n_out = 1,
                             .in = {x, cann_host(call, 1)},
                             .out = {cann_host(call, 2)},
                             .type = {x->dtype, BP_BOOL, BASE_ABSENT, BASE_ABSENT}};

    return base_compute(&base);
}

/* condition, self, other, out */
int cann_check_where(struct cann_call *call)
{
    struct cann_shape shape = {0};

    CANN_TRY(cann_want(call, 0, BP_M(BOOL) | BP_M(U8)));
    CANN_TRY(cann_broadcast(call, 0, &shape));
    for (int i = 1; i < 3; i++) {
        CANN_TRY(cann_want_own(call, i));
        CANN_TRY(cann_want_same(call, i, 1));
        CANN_TRY(cann_broadcast(call, i, &shape));
    }
    CANN_TRY(cann_want_same(call, 3, 1));
    return cann_want_shape(call, 3, &shape);
}

int cann_run_where(struct cann_call *call)
{
    struct cann_temps temps = {.n = 0};
    struct base_tensor condition = cann_in_dtype(&temps, cann_host(call, 0), BP_BOOL);
    struct base_call base = {
        .op = "where",
        .n_in = 3,
        .n_out = 1,
        .in = {&condition, cann_host(call, 1), cann_host(call, 2)},
        .out = {cann_host(call, 3)},
        .type = {cann_host(call, 1)->dtype, BP_BOOL, BASE_ABSENT, BASE_ABSENT}};

    cann_call_base(&temps, &base);
    cann_temps_free(&temps);
    return temps.code;
}

/* selfRef, mask, value */
int cann_check_masked_fill(struct cann_call *call)
{
    struct cann_shape shape = cann_shape(cann_type(call, 0));

    CANN_TRY(cann_want_own(call, 0));
    CANN_TRY(cann_want(call, 1, BP_M(BOOL)));
    CANN_TRY(cann_broadcast(call, 1, &shape));
    return cann_want_shape(call, 0, &shape);
}

int cann_run_masked_fill(struct cann_call *call)
{
    const struct base_tensor *x = cann_host(call, 0);
    struct cann_temps temps = {.n = 0};
    struct base_tensor value = cann_number(&temps, x->dtype, call->arg[2].d);
    struct base_tensor made = cann_temp(&temps, x->dtype, x->rank, x->shape);
    struct base_call base = {.op = "where",
                             .n_in = 3,
                             .n_out = 1,
                             .in = {cann_host(call, 1), &value, x},
                             .out = {&made},
                             .type = {x->dtype, BP_BOOL, BASE_ABSENT, BASE_ABSENT}};

    cann_call_base(&temps, &base);
    cann_write(&temps, &made, x);
    cann_temps_free(&temps);
    return temps.code;
}

/* self, end, weight, out */
int cann_check_lerp(struct cann_call *call)
{
    return broadcast_check(call, 3, 3, false);
}

int cann_run_lerp(struct cann_call *call)
{
    struct cann_temps temps = {.n = 0};

    cann_apply(&temps, "lerp", NULL, cann_host(call, 0), cann_host(call, 1), cann_host(call, 2),
               cann_host(call, 3));
    return temps.code;
}

/* self, tensor1, tensor2, value, out */
int cann_check_addc(struct cann_call *call)
{
    return broadcast_check(call, 3, 4, false);
}

int cann_run_addc(struct cann_call *call)
{
    struct bp_addcmul_attrs mul = {.size = sizeof mul, .value = call->arg[3].d};
    struct bp_addcdiv_attrs div = {.size = sizeof div, .value = call->arg[3].d};
    bool is_mul = !strcmp(call->op->bp, "addcmul");
    struct cann_temps temps = {.n = 0};

    cann_apply(&temps, call->op->bp, is_mul ? (const void *)&mul : (const void *)&div,
               cann_host(call, 0), cann_host(call, 1), cann_host(call, 2), cann_host(call, 4));
    return temps.code;
}

/* self, weight of one number or one for each channel, out */
int cann_check_prelu(struct cann_call *call)
{
    const struct cann_tensor *x = cann_type(call, 0), *w = cann_type(call, 1);

    CANN_TRY(cann_want_own(call, 0));
    CANN_TRY(cann_want_same(call, 1, 0));
    CANN_TRY(cann_want_rank(call, 1, 1, 1));
    if (w->dims[0] != 1 && (x->rank < 2 || w->dims[0] != x->dims[1]))
        return cann_refuse(call, 1, "has %lld numbers", (long long)w->dims[0]);
    return cann_want_like(call, 2, 0);
}

int cann_run_prelu(struct cann_call *call)
{
    const struct base_tensor *x = cann_host(call, 0);
    struct base_tensor w = *cann_host(call, 1);
    struct cann_temps temps = {.n = 0};

    if (w.shape[0] != 1) { /* along axis 1 */
        w.rank = x->rank - 1;
        for (int i = 1; i < w.rank; i++) {
            w.shape[i] = 1;
            w.stride[i] = 0;
        }
    }
    cann_apply(&temps, "prelu", NULL, x, &w, NULL, cann_host(call, 2));
    return temps.code;
}

/* selfRef, src of any dtype, broadcast */
int cann_check_copy(struct cann_call *call)
{
    struct cann_shape shape = cann_shape(cann_type(call, 0));

    CANN_TRY(cann_want_own(call, 0));
    CANN_TRY(cann_want_own(call, 1));
    if ((BP_MASK_COMPLEX >> cann_bp_dtype(cann_type(call, 0)->dtype) & 1) ||
        (BP_MASK_COMPLEX >> cann_bp_dtype(cann_type(call, 1)->dtype) & 1))
        CANN_TRY(cann_want_same(call, 1, 0));
    CANN_TRY(cann_broadcast(call, 1, &shape));
    return cann_want_shape(call, 0, &shape);
}

int cann_run_copy(struct cann_call *call)
{
    const struct base_tensor *y = cann_host(call, 0);
    struct base_tensor x = cann_expanded(cann_host(call, 1), y->rank, y->shape);
    struct cann_temps temps = {.n = 0};

    cann_write(&temps, &x, y);
    return temps.code;
}

/* self, dtype, out */
int cann_check_cast(struct cann_call *call)
{
    struct cann_shape shape = cann_shape(cann_type(call, 0));

    CANN_TRY(cann_want_own(call, 0));
    CANN_TRY(cann_want_own(call, 2));
    if (call->arg[1].i != cann_type(call, 2)->dtype)
        return cann_refuse(call, 1, "is %s, out is %s", cann_dtype_name((int)call->arg[1].i),
                           cann_dtype_name(cann_type(call, 2)->dtype));
    return cann_want_shape(call, 2, &shape);
}

int cann_run_cast(struct cann_call *call)
{
    struct cann_temps temps = {.n = 0};

    cann_write(&temps, cann_host(call, 0), cann_host(call, 2));
    return temps.code;
}

/* selfRef, value */
int cann_check_fill(struct cann_call *call)
{
    return cann_want_own(call, 0);
}

int cann_run_fill(struct cann_call *call)
{
    const struct base_tensor *y = cann_host(call, 0);
    struct cann_temps temps = {.n = 0};
    struct base_tensor value = cann_number(&temps, y->dtype, call->arg[1].d), all;

    if (y->dtype == BP_I64 && !temps.code) *(int64_t *)value.data = call->arg[1].i;
    all = cann_expanded(&value, y->rank, y->shape);
    cann_write(&temps, &all, y);
    cann_temps_free(&temps);
    return temps.code;
}
