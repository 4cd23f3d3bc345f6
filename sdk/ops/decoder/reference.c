/* SPDX-License-Identifier: Apache-2.0 */
/* reference.c: computes the reference results of parts of language models. */
#include "../common/reference.h"
#include "../common/reference_formula.h"
#include <math.h>
#include <stdlib.h>

void ref_rotary_embedding(const struct ref_array *in, const void *attrs, struct ref_array *y)
{
    const struct bp_rotary_embedding_attrs *a = attrs;
    const struct ref_array *x = &in[0], *cos = &in[1], *positions = &in[3];
    int64_t half = cos->shape[cos->rank - 1], at[REF_RANK] = {0};

    ref_array_init(y, x->type->dtype, x->rank, x->shape);
    for (int64_t e = 0; e < y->count; e++, ref_next(4, x->shape, at)) {
        int64_t i = a->interleaved ? at[3] / 2 : at[3] % (half ? half : 1), row;
        bool second = a->interleaved ? at[3] % 2 : at[3] >= half;
        int64_t apart = a->interleaved ? 1 : half, other = second ? e - apart : e + apart;
        if (at[3] >= 2 * half) {
            y->v[e] = x->v[e];
            continue;
        }
        if (positions->type) {
            int64_t n = positions->shape[0] == 1 ? 0 : at[0];
            row = (int64_t)positions->u[n * positions->shape[1] + at[2]];
        } else row = (cos->shape[0] == 1 ? 0 : at[0]) * cos->shape[1] + at[2];
        long double c = cos->v[row * half + i], s = in[2].v[row * half + i];
        y->v[e] = x->v[e] * c + (second ? x->v[other] * s : -x->v[other] * s);
        y->bound[e] = fabsl(x->v[e] * c) + fabsl(x->v[other] * s);
    }
}

/* An element of state, then x, then zeros in front of them where there is no state. */
static long double causal_value(const struct ref_array *in, int64_t line, int64_t i, int64_t before)
{
    const struct ref_array *x = &in[0], *state = &in[3];

    if (i >= before) return x->v[line * x->shape[2] + i - before];
    return state->type ? state->v[line * before + i] : 0;
}

/* The derivative of a / (1 + exp(-a)) is below 1.1. */
void ref_causal_conv_with_state(const struct ref_array *in, const void *attrs,
                                struct ref_array *out)
{
    const struct bp_causal_conv_with_state_attrs *a = attrs;
    const struct ref_array *x = &in[0], *w = &in[1], *bias = &in[2];
    int64_t taps = w->shape[2], length = x->shape[2], channels = x->shape[1];
    int64_t state[] = {x->shape[0], channels, taps - 1};

    ref_array_init(&out[0], x->type->dtype, 3, x->shape);
    ref_array_init(&out[1], x->type->dtype, 3, state);
    for (int64_t e = 0; e < out[0].count; e++) {
        int64_t line = e / length, c = line % channels;
        long double sum = bias->type ? bias->v[c] : 0, size = fabsl(sum);
        for (int64_t k = 0; k < taps; k++) {
            long double v = w->v[c * taps + k] * causal_value(in, line, e % length + k, taps - 1);
            sum += v;
            size += fabsl(v);
        }
        out[0].v[e] = a->silu ? sum * ref_logistic(sum) : sum;
        out[0].bound[e] = (a->silu ? 1.1L : 1) * size * ref_growth(taps + 1);
    }
    for (int64_t e = 0; e < out[1].count; e++)
        out[1].v[e] = causal_value(in, e / (taps - 1), length + e % (taps - 1), taps - 1);
}

/* One state, its error in unit roundoffs, and the inputs of a step. */
struct linear {
    int64_t keys, values;
    long double *state, *error;
};

/* Multiplies the rows by their factors: an exponential is within 2 ulp, a product rounds. */
static void linear_decay(struct linear *l, const long double *decay, int64_t n)
{
    for (int64_t i = 0; i < l->keys * l->values; i++) {
        long double by = expl(decay[n > 1 ? i / l->values : 0]);
        l->state[i] *= by;
        l->error[i] = l->error[i] * by + 5 * fabsl(l->state[i]);
    }
}

/* Adds one column: value becomes beta (value - S^T k) if there is a beta. */
static void linear_add(struct linear *l, int64_t column, const long double *k, long double value,
                       const long double *beta)
{
    long double read = 0, size = 0, error = 0;

    for (int64_t d = 0; beta && d < l->keys; d++) {
        long double s = l->state[d * l->values + column];
        read += k[d] * s;
        size += fabsl(k[d] * s);
        error += fabsl(k[d]) * l->error[d * l->values + column];
    }
    error += size * ref_growth(l->keys);
    if (beta) {
        error = fabsl(*beta) * (error + 2 * fabsl(value - read));
        value = *beta * (value - read);
    }
    for (int64_t d = 0; d < l->keys; d++) {
        long double *s = &l->state[d * l->values + column];
        *s += k[d] * value;
        l->error[d * l->values + column] +=
            fabsl(k[d]) * error + fabsl(k[d] * value) + fabsl(*s);
    }
}

static void linear_read(const struct linear *l, const long double *q, long double scale,
                        struct ref_array *y, int64_t to)
{
    for (int64_t column = 0; column < l->values; column++) {
        long double sum = 0, size = 0, error = 0;
        for (int64_t d = 0; d < l->keys; d++) {
            int64_t at = d * l->values + column;
            sum += q[d] * l->state[at];
            size += fabsl(q[d] * l->state[at]);
            error += fabsl(q[d]) * l->error[at];
        }
        y->v[to + column] = scale * sum;
        y->bound[to + column] = fabsl(scale) * (error + size * (1 + ref_growth(l->keys)));
    }
}

void ref_linear_attention(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_linear_attention_attrs *a = attrs;
    const struct ref_array *q = &in[0], *k = &in[1], *v = &in[2], *decay = &in[4], *beta = &in[5];
    int64_t steps = q->shape[1], heads = k->shape[2], group = q->shape[2] / heads;
    int64_t shape[] = {q->shape[0], steps, q->shape[2], v->shape[3]};
    struct linear l = {.keys = q->shape[3], .values = v->shape[3]};
    int64_t size = l.keys * l.values;
    long double scale = a->scale ? a->scale : 1 / sqrtl(l.keys);

    ref_array_init(&out[0], q->type->dtype, 4, shape);
    ref_array_init(&out[1], in[3].type->dtype, 4, in[3].shape);
    for (int64_t i = 0; i < out[1].count; i++) out[1].v[i] = in[3].v[i];
    for (int64_t i = 0; i < q->shape[0] * steps * heads && size; i++) {
        int64_t t = i / heads % steps, h = i % heads, n = i / heads / steps;
        int64_t at = (n * steps + t) * heads + h;
        l.state = out[1].v + (n * heads + h) * size;
        l.error = out[1].bound + (n * heads + h) * size;
        if (decay->type) linear_decay(&l, decay->v + at * decay->shape[3], decay->shape[3]);
        for (int64_t c = 0; c < l.values; c++) {
            int64_t rate = beta->type && beta->shape[2] > 1 ? at : n * steps + t;
            linear_add(&l, c, k->v + at * l.keys, v->v[at * l.values + c],
                       beta->type ? beta->v + rate : NULL);
        }
        for (int64_t g = 0; g < group; g++)
            linear_read(&l, q->v + (at * group + g) * l.keys, scale, &out[0],
                        (at * group + g) * l.values);
    }
}

void ref_tensor_scatter(const struct ref_array *in, const void *attrs, struct ref_array *y)
{
    const struct bp_tensor_scatter_attrs *a = attrs;
    const struct ref_array *cache = &in[0], *update = &in[1], *first = &in[2];
    int axis = ref_axis(a->axis, cache->rank);
    int64_t at[REF_RANK] = {0};

    ref_array_init(y, cache->type->dtype, cache->rank, cache->shape);
    for (int64_t i = 0; i < y->count; i++) ref_array_copy(y, i, cache, i);
    for (int64_t i = 0; i < update->count; i++, ref_next(update->rank, update->shape, at)) {
        int64_t to[REF_RANK];
        for (int d = 0; d < update->rank; d++) to[d] = at[d];
        if (first->type) to[axis] += (int64_t)first->u[at[0]];
        if (a->circular) to[axis] %= cache->shape[axis];
        ref_array_copy(y, ref_index(y, y->rank, to), update, i);
    }
}

void ref_cache_write(const struct ref_array *in, const void *attrs, struct ref_array *y)
{
    const struct bp_cache_write_attrs *a = attrs;
    const struct ref_array *cache = &in[0], *update = &in[1], *first = &in[2];
    int axis = ref_axis(a->axis, cache->rank);
    int64_t at[REF_RANK] = {0};

    ref_array_init(y, cache->type->dtype, cache->rank, cache->shape);
    for (int64_t i = 0; i < y->count; i++) ref_array_copy(y, i, cache, i);
    for (int64_t i = 0; i < update->count; i++, ref_next(update->rank, update->shape, at)) {
        int64_t to[REF_RANK];
        for (int d = 0; d < update->rank; d++) to[d] = at[d];
        if (first->type) to[axis] += (int64_t)first->u[first->rank ? at[0] : 0];
        if (a->circular) to[axis] %= cache->shape[axis];
        ref_array_copy(y, ref_index(y, y->rank, to), update, i);
    }
}

void ref_swiglu(const struct ref_array *in, const void *attrs, struct ref_array *y)
{
    long double alpha = ref_rounded(in->type, ((const struct bp_swiglu_attrs *)attrs)->alpha);
    long double tiny = ref_underflow(in->type);

    ref_array_init(y, in->type->dtype, in->rank, in->shape);
    for (int64_t i = 0; i < y->count; i++) {
        long double g = in[0].v[i], gate = g * ref_logistic(alpha * g);
        y->v[i] = gate * in[1].v[i];
        y->bound[i] = fabsl(y->v[i]) * (4 + fabsl(alpha * g)) + tiny * fabsl(g * in[1].v[i]);
    }
}
