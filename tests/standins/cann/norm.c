/* SPDX-License-Identifier: Apache-2.0 */
/* norm.c: implements softmax and normalisations of the stand-in for CANN. */
#include "family.h"
#include <string.h>

/* self, dim, out */
int cann_check_softmax(struct cann_call *call)
{
    int axis;

    CANN_TRY(cann_want_own(call, 0));
    CANN_TRY(cann_want_axis(call, 1, call->arg[1].i, cann_type(call, 0)->rank, &axis));
    return cann_want_like(call, 2, 0);
}

/* A view of one axis more, of a tensor without axes. */
static struct base_tensor norm_view(const struct base_tensor *t)
{
    struct base_tensor v = *t;

    if (!v.rank) v.shape[0] = v.stride[0] = v.rank = 1;
    return v;
}

int cann_run_softmax(struct cann_call *call)
{
    struct bp_softmax_attrs attrs = {.size = sizeof attrs, .axis = call->arg[1].i};
    struct base_tensor x = norm_view(cann_host(call, 0)), y = norm_view(cann_host(call, 2));
    struct cann_temps temps = {.n = 0};

    cann_apply(&temps, call->op->bp, &attrs, &x, NULL, NULL, &y);
    return temps.code;
}

/* gradOutput, output, dim, out */
int cann_check_softmax_grad(struct cann_call *call)
{
    int axis;

    CANN_TRY(cann_want_own(call, 0));
    CANN_TRY(cann_want_axis(call, 2, call->arg[2].i, cann_type(call, 0)->rank, &axis));
    CANN_TRY(cann_want_like(call, 1, 0));
    return cann_want_like(call, 3, 0);
}

int cann_run_softmax_grad(struct cann_call *call)
{
    struct bp_softmax_grad_attrs attrs = {.size = sizeof attrs, .axis = call->arg[2].i};
    struct base_tensor dy = norm_view(cann_host(call, 0)), y = norm_view(cann_host(call, 1));
    struct base_tensor dx = norm_view(cann_host(call, 3));
    struct cann_temps temps = {.n = 0};

    cann_apply(&temps, "softmax_grad", &attrs, &y, &dy, NULL, &dx);
    return temps.code;
}

/* Checks an argument's numbers: the last extents of the tensor. Fills the shape of these axes, and
 * that of statistics: the axes before, and 1 for each of these. */
static int normalised_check(struct cann_call *call, int arg, int self, struct cann_shape *axes,
                            struct cann_shape *stat)
{
    const struct cann_tensor *x = cann_type(call, self);
    const struct cann_arg *a = &call->arg[arg];

    if (a->n_at < 1 || a->n_at > x->rank) return cann_refuse(call, arg, "has %d numbers", a->n_at);
    *axes = (struct cann_shape){.rank = a->n_at};
    *stat = cann_shape(x);
    for (int i = 0; i < a->n_at; i++) {
        int k = x->rank - a->n_at + i;
        if (a->at[i] != x->dims[k])
            return cann_refuse(call, arg, "has %lld, %s has %lld", (long long)a->at[i],
                               call->op->port[self], (long long)x->dims[k]);
        axes->at[i] = a->at[i];
        stat->at[k] = 1;
    }
    return 0;
}

/* Statistics have the dtype f32, or that of the values. */
static int stat_check(struct cann_call *call, int arg, int self, const struct cann_shape *shape)
{
    const struct cann_tensor *t = cann_type(call, arg);

    if (t && t->dtype != CANN_F32) CANN_TRY(cann_want_same(call, arg, self));
    return cann_want_shape(call, arg, shape);
}

/* input, normalizedShape, weight, bias, eps, out, mean, rstd */
int cann_check_layer_norm(struct cann_call *call)
{
    struct cann_shape axes, stat;

    CANN_TRY(cann_want_own(call, 0));
    CANN_TRY(normalised_check(call, 1, 0, &axes, &stat));
    for (int i = 2; i < 4; i++) {
        CANN_TRY(cann_want_same(call, i, 0));
        CANN_TRY(cann_want_shape(call, i, &axes));
    }
    CANN_TRY(stat_check(call, 6, 0, &stat));
    CANN_TRY(stat_check(call, 7, 0, &stat));
    return cann_want_like(call, 5, 0);
}

/* A tensor in f32 or f64, or an absent one. */
static const struct base_tensor *wide_of(struct cann_temps *temps, const struct base_tensor *t,
                                         uint32_t wide, struct base_tensor *out)
{
    if (!t) return NULL;
    *out = cann_in_dtype(temps, t, wide);
    return out;
}

/* Room for a result of this number of elements in f32, written to `to` by result_write. */
static struct base_tensor result_room(struct cann_temps *temps, const struct base_tensor *to,
                                      uint32_t wide, int rank, const int64_t *shape)
{
    return to ? cann_temp(temps, wide, rank, shape) : (struct base_tensor){0};
}

static void result_write(struct cann_temps *temps, struct base_tensor made,
                         const struct base_tensor *to)
{
    if (!to) return;
    if (made.rank != to->rank) made = base_tensor_of(made.data, made.dtype, to->rank, to->shape);
    cann_write(temps, &made, to);
}

int cann_run_layer_norm(struct cann_call *call)
{
    const struct base_tensor *x = cann_host(call, 0), *y = cann_host(call, 5);
    const struct base_tensor *mean = cann_host(call, 6), *rstd = cann_host(call, 7);
    int axis = x->rank - call->arg[1].n_at;
    struct bp_layer_norm_attrs attrs = {
        .size = sizeof attrs, .axis = axis, .epsilon = call->arg[4].d};
    struct cann_temps temps = {.n = 0};
    struct base_tensor m = result_room(&temps, mean, BP_F32, axis, x->shape);
    struct base_tensor r = result_room(&temps, rstd, BP_F32, axis, x->shape);
    struct base_call base = {.op = "layer_norm",
                             .attrs = &attrs,
                             .n_in = 3,
                             .n_out = 3,
                             .in = {x, cann_host(call, 2), cann_host(call, 3)},
                             .out = {y, mean ? &m : NULL, rstd ? &r : NULL},
                             .type = {x->dtype, BP_F32, BASE_ABSENT, BASE_ABSENT}};

    cann_call_base(&temps, &base);
    result_write(&temps, m, mean);
    result_write(&temps, r, rstd);
    cann_temps_free(&temps);
    return temps.code;
}

/* gradOut, input, normalizedShape, mean, rstd, weight, bias, outputMask, gradInputOut,
 * gradWeightOut, gradBiasOut */
int cann_check_layer_norm_grad(struct cann_call *call)
{
    struct cann_shape axes, stat;

    CANN_TRY(cann_want_own(call, 1));
    CANN_TRY(cann_want_like(call, 0, 1));
    CANN_TRY(normalised_check(call, 2, 1, &axes, &stat));
    CANN_TRY(stat_check(call, 3, 1, &stat));
    CANN_TRY(stat_check(call, 4, 1, &stat));
    CANN_TRY(cann_want_n(call, 7, 3));
    for (int i = 5; i < 7; i++) CANN_TRY(cann_want_shape(call, i, &axes));
    for (int i = 0; i < 3; i++)
        if (call->arg[7].at[i] && !cann_type(call, 8 + i))
            return base_refuse(NN_NULL, "%s is NULL", call->op->port[8 + i]);
    CANN_TRY(cann_want_like(call, 8, 1));
    CANN_TRY(cann_want_shape(call, 9, &axes));
    return cann_want_shape(call, 10, &axes);
}

int cann_run_layer_norm_grad(struct cann_call *call)
{
    const int64_t *mask = call->arg[7].at;
    const struct base_tensor *x = cann_host(call, 1);
    int n = call->arg[2].n_at, axis = x->rank - n;
    struct bp_layer_norm_grad_attrs attrs = {.size = sizeof attrs, .axis = axis};
    struct cann_temps temps = {.n = 0};
    struct base_tensor in[5], dx = cann_temp(&temps, BP_F32, x->rank, x->shape);
    struct base_tensor dw = cann_temp(&temps, BP_F32, n, x->shape + axis);
    struct base_tensor db = cann_temp(&temps, BP_F32, n, x->shape + axis);
    struct base_call base = {.op = "layer_norm_grad",
                             .attrs = &attrs,
                             .n_in = 5,
                             .n_out = 3,
                             .out = {&dx, &dw, &db},
                             .type = {BP_F32, BP_F32, BASE_ABSENT, BASE_ABSENT}};
    static const int from[5] = {1, 5, 0, 3, 4};

    for (int i = 0; i < 5; i++)
        base.in[i] = wide_of(&temps, cann_host(call, from[i]), BP_F32, &in[i]);
    for (int i = 3; i < 5; i++) /* without the axes of extent 1 */
        in[i] = base_tensor_of(in[i].data, BP_F32, axis, x->shape);
    cann_call_base(&temps, &base);
    if (mask[0]) result_write(&temps, dx, cann_host(call, 8));
    if (mask[1]) result_write(&temps, dw, cann_host(call, 9));
    if (mask[2]) result_write(&temps, db, cann_host(call, 10));
    cann_temps_free(&temps);
    return temps.code;
}

/* x, gamma, epsilon, yOut, rstdOut */
int cann_check_rms_norm(struct cann_call *call)
{
    const struct cann_tensor *x = cann_type(call, 0), *gamma = cann_type(call, 1);
    struct cann_shape axes, stat = cann_shape(x);

    CANN_TRY(cann_want_own(call, 0));
    CANN_TRY(cann_want_same(call, 1, 0));
    CANN_TRY(cann_want_rank(call, 1, 1, x->rank));
    axes = (struct cann_shape){.rank = gamma->rank};
    for (int i = 0; i < gamma->rank; i++) {
        axes.at[i] = x->dims[x->rank - gamma->rank + i];
        stat.at[x->rank - gamma->rank + i] = 1;
    }
    CANN_TRY(cann_want_shape(call, 1, &axes));
    CANN_TRY(cann_want_like(call, 3, 0));
    CANN_TRY(cann_want(call, 4, BP_M(F32)));
    return cann_want_shape(call, 4, &stat);
}

int cann_run_rms_norm(struct cann_call *call)
{
    const struct base_tensor *x = cann_host(call, 0), *gamma = cann_host(call, 1);
    int axis = x->rank - gamma->rank;
    struct bp_rms_norm_attrs attrs = {
        .size = sizeof attrs, .axis = axis, .epsilon = call->arg[2].d};
    struct cann_temps temps = {.n = 0};
    struct base_tensor r = cann_temp(&temps, BP_F32, axis, x->shape);
    struct base_call base = {.op = "rms_norm",
                             .attrs = &attrs,
                             .n_in = 2,
                             .n_out = 2,
                             .in = {x, gamma},
                             .out = {cann_host(call, 3), &r},
                             .type = {x->dtype, BP_F32, BASE_ABSENT, BASE_ABSENT}};

    cann_call_base(&temps, &base);
    result_write(&temps, r, cann_host(call, 4));
    cann_temps_free(&temps);
    return temps.code;
}

/* self, gamma, beta, N, C, HxW, group, eps, out, meanOut, rstdOut */
int cann_check_group_norm(struct cann_call *call)
{
    const struct cann_tensor *x = cann_type(call, 0);
    const struct cann_arg *a = call->arg;
    struct cann_shape channels = {1, {a[4].i}}, stat = {2, {a[3].i, a[6].i}};

    CANN_TRY(cann_want_own(call, 0));
    CANN_TRY(cann_want_rank(call, 0, 2, CANN_RANK));
    if (a[3].i != x->dims[0] || a[4].i != x->dims[1] ||
        a[3].i * a[4].i * a[5].i != cann_tensor_count(x))
        return cann_refuse(call, 3, "or C or HxW is not that of self");
    if (a[6].i < 1 || a[4].i % a[6].i) return cann_refuse(call, 6, "does not divide C");
    for (int i = 1; i < 3; i++) {
        CANN_TRY(cann_want_same(call, i, 0));
        CANN_TRY(cann_want_shape(call, i, &channels));
        CANN_TRY(cann_want_same(call, 8 + i, 0));
        CANN_TRY(cann_want_shape(call, 8 + i, &stat));
    }
    return cann_want_like(call, 8, 0);
}

int cann_run_group_norm(struct cann_call *call)
{
    const struct base_tensor *x = cann_host(call, 0), *mean = cann_host(call, 9);
    const struct base_tensor *rstd = cann_host(call, 10);
    int64_t stat[] = {call->arg[3].i, call->arg[6].i};
    struct bp_group_norm_attrs attrs = {
        .size = sizeof attrs, .groups = stat[1], .epsilon = call->arg[7].d};
    struct cann_temps temps = {.n = 0};
    struct base_tensor m = result_room(&temps, mean, BP_F32, 2, stat);
    struct base_tensor r = result_room(&temps, rstd, BP_F32, 2, stat);
    struct base_call base = {.op = "group_norm",
                             .attrs = &attrs,
                             .n_in = 3,
                             .n_out = 3,
                             .in = {x, cann_host(call, 1), cann_host(call, 2)},
                             .out = {cann_host(call, 8), mean ? &m : NULL, rstd ? &r : NULL},
                             .type = {x->dtype, BP_F32, BASE_ABSENT, BASE_ABSENT}};

    cann_call_base(&temps, &base);
    result_write(&temps, m, mean);
    result_write(&temps, r, rstd);
    cann_temps_free(&temps);
    return temps.code;
}

/* Batch norms take NC, NCL, NCHW and NCDHW. */
static int batch_image(struct cann_call *call, int arg)
{
    static const int formats[] = {CANN_NC, CANN_NCL, CANN_NCHW, CANN_NCDHW};
    const struct cann_tensor *t = cann_type(call, arg);

    CANN_TRY(cann_want_rank(call, arg, 2, 5));
    if (t->format == formats[t->rank - 2] || (t->rank == 2 && t->format == CANN_ND)) return 0;
    return cann_refuse(call, arg, "has %d axes and the format %d", t->rank, t->format);
}

/* Checks arguments that have a number for each channel of self. */
static int channels_check(struct cann_call *call, int self, int from, int to)
{
    struct cann_shape channels = {1, {cann_type(call, self)->dims[1]}};

    for (int i = from; i <= to; i++) CANN_TRY(stat_check(call, i, self, &channels));
    return 0;
}

/* input, weight, bias, runningMean, runningVar, training, momentum, eps, output, saveMean,
 * saveInvstd */
int cann_check_batch_norm(struct cann_call *call)
{
    CANN_TRY(cann_want_own(call, 0));
    CANN_TRY(batch_image(call, 0));
    CANN_TRY(channels_check(call, 0, 1, 4));
    CANN_TRY(cann_want_like(call, 8, 0));
    if (!call->arg[5].i && (!cann_type(call, 3) || !cann_type(call, 4)))
        return cann_refuse(call, 3, "or runningVar is NULL, training is false");
    return call->arg[5].i ? channels_check(call, 0, 9, 10) : 0;
}

/* With saved statistics: those of the batch. */
static void batch_train(struct cann_temps *temps, struct cann_call *call,
                        const struct base_tensor *const in[5])
{
    const struct base_tensor *x = in[0];
    struct bp_batch_norm_train_attrs attrs = {.size = sizeof attrs,
                                              .epsilon = call->arg[7].d,
                                              .momentum = 1 - call->arg[6].d,
                                              .unbiased = 1};
    struct base_tensor room[6];
    struct base_call base = {.op = "batch_norm_train",
                             .attrs = &attrs,
                             .n_in = 5,
                             .n_out = 5,
                             .in = {x, in[1], in[2], in[3], in[4]},
                             .out = {cann_host(call, 8)},
                             .type = {x->dtype, BP_F32, BASE_ABSENT, BASE_ABSENT}};

    for (int i = 0; i < 6; i++) room[i] = cann_temp(temps, BP_F32, 1, &x->shape[1]);
    for (int i = 0; i < 4; i++) base.out[1 + i] = &room[i];
    for (int i = 3; i < 5; i++)
        if (!base.in[i]) base.in[i] = &room[1 + i];
    cann_call_base(temps, &base);
    for (int i = 0; i < 2; i++) result_write(temps, room[i], cann_host(call, 3 + i));
    for (int i = 0; i < 2; i++) result_write(temps, room[2 + i], cann_host(call, 9 + i));
}

int cann_run_batch_norm(struct cann_call *call)
{
    const struct base_tensor *x = cann_host(call, 0), *in[5] = {x};
    struct bp_batch_norm_attrs attrs = {.size = sizeof attrs, .epsilon = call->arg[7].d};
    struct cann_temps temps = {.n = 0};
    struct base_tensor wide[5];
    struct base_call base = {.op = "batch_norm",
                             .attrs = &attrs,
                             .n_in = 5,
                             .n_out = 1,
                             .out = {cann_host(call, 8)},
                             .type = {x->dtype, BP_F32, BASE_ABSENT, BASE_ABSENT}};

    for (int i = 1; i < 5; i++) in[i] = wide_of(&temps, cann_host(call, i), BP_F32, &wide[i]);
    memcpy(base.in, in, sizeof in);
    if (call->arg[5].i) batch_train(&temps, call, in);
    else cann_call_base(&temps, &base);
    cann_temps_free(&temps);
    return temps.code;
}

/* gradOut, input, weight, runningMean, runningVar, saveMean, saveInvstd, training, eps, outputMask,
 * gradInput, gradWeight, gradBias; of training only */
int cann_check_batch_norm_grad(struct cann_call *call)
{
    CANN_TRY(cann_want_own(call, 1));
    CANN_TRY(batch_image(call, 1));
    CANN_TRY(cann_want_like(call, 0, 1));
    CANN_TRY(channels_check(call, 1, 2, 6));
    CANN_TRY(cann_want_n(call, 9, 3));
    if (!call->arg[7].i) return cann_refuse(call, 7, "is false: this is not simulated");
    if (!cann_type(call, 5) || !cann_type(call, 6))
        return cann_refuse(call, 5, "or saveInvstd is NULL, training is true");
    for (int i = 0; i < 3; i++)
        if (call->arg[9].at[i] && !cann_type(call, 10 + i))
            return base_refuse(NN_NULL, "%s is NULL", call->op->port[10 + i]);
    CANN_TRY(cann_want_like(call, 10, 1));
    return channels_check(call, 1, 11, 12);
}

int cann_run_batch_norm_grad(struct cann_call *call)
{
    const int64_t *mask = call->arg[9].at;
    const struct base_tensor *x = cann_host(call, 1);
    struct bp_batch_norm_grad_attrs attrs = {.size = sizeof attrs, .epsilon = call->arg[8].d};
    struct cann_temps temps = {.n = 0};
    struct base_tensor in[5], dx = cann_temp(&temps, BP_F32, x->rank, x->shape);
    struct base_tensor dw = cann_temp(&temps, BP_F32, 1, x->shape + 1);
    struct base_tensor db = cann_temp(&temps, BP_F32, 1, x->shape + 1);
    struct base_call base = {.op = "batch_norm_grad",
                             .attrs = &attrs,
                             .n_in = 5,
                             .n_out = 3,
                             .out = {&dx, &dw, &db},
                             .type = {BP_F32, BP_F32, BASE_ABSENT, BASE_ABSENT}};
    static const int from[5] = {1, 2, 0, 5, 6};

    for (int i = 0; i < 5; i++)
        base.in[i] = wide_of(&temps, cann_host(call, from[i]), BP_F32, &in[i]);
    cann_call_base(&temps, &base);
    if (mask[0]) result_write(&temps, dx, cann_host(call, 10));
    if (mask[1]) result_write(&temps, dw, cann_host(call, 11));
    if (mask[2]) result_write(&temps, db, cann_host(call, 12));
    cann_temps_free(&temps);
    return temps.code;
}
