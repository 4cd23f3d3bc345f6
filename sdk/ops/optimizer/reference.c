/* SPDX-License-Identifier: Apache-2.0 */
/* reference.c: computes reference results of optimizer steps. Each number has a bound of its error,
 * in unit roundoffs, to first order: every operation rounds once. */
#include "../common/reference.h"
#include <math.h>

struct near {
    long double v, off;
};

static struct near ref_optimizer_exact(long double v)
{
    return (struct near){v, 0};
}
/* An attribute is rounded to the type in which kernels compute. */
static struct near ref_optimizer_attribute(double v)
{
    return (struct near){v, fabs(v)};
}
static struct near ref_optimizer_add(struct near a, struct near b)
{
    return (struct near){a.v + b.v, a.off + b.off + fabsl(a.v + b.v)};
}
static struct near ref_optimizer_sub(struct near a, struct near b)
{
    return (struct near){a.v - b.v, a.off + b.off + fabsl(a.v - b.v)};
}
static struct near ref_optimizer_mul(struct near a, struct near b)
{
    long double v = a.v * b.v;

    return (struct near){v, fabsl(a.v) * b.off + fabsl(b.v) * a.off + fabsl(v)};
}
static struct near ref_optimizer_quotient(struct near a, struct near b)
{
    long double v = a.v / b.v;

    return (struct near){v, (a.off + fabsl(v) * b.off) / fabsl(b.v) + fabsl(v)};
}
static struct near ref_optimizer_root(struct near a)
{
    long double v = sqrtl(a.v);

    return (struct near){v, v > 0 ? a.off / (2 * v) + v : 0};
}
static struct near ref_optimizer_larger(struct near a, struct near b)
{
    return a.v <= b.v ? b : a;
}

/* Stores a result and its bound. TOL counts the last rounding, in ulp, so the bound leaves that
 * out. */
static void ref_optimizer_put(struct ref_array *out, int64_t i, struct near y)
{
    out->v[i] = y.v;
    if (isfinite(y.v) && isfinite(y.off) && y.off > fabsl(y.v)) out->bound[i] = y.off - fabsl(y.v);
}

static void ref_optimizer_begin(const struct ref_array *of, struct ref_array *out)
{
    ref_array_init(out, of->type->dtype, of->rank, of->shape);
}

static struct near ref_optimizer_at(const struct ref_array *x, int64_t i)
{
    return ref_optimizer_exact(x->v[i]);
}

/* Returns keep x + (1 - keep) y. */
static struct near ref_optimizer_mean(double keep, struct near x, struct near y)
{
    struct near rest = {1 - (long double)keep, 1 - (long double)keep};

    return ref_optimizer_add(ref_optimizer_mul(ref_optimizer_attribute(keep), x),
                             ref_optimizer_mul(rest, y));
}

static void ref_optimizer_power(const struct ref_array *x, double beta, struct ref_array *out)
{
    ref_optimizer_begin(x, out);
    ref_optimizer_put(out, 0,
                      ref_optimizer_mul(ref_optimizer_at(x, 0), ref_optimizer_attribute(beta)));
}

void ref_momentum(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_momentum_attrs *a = attrs;

    ref_optimizer_begin(&in[0], &out[0]);
    ref_optimizer_begin(&in[3], &out[1]);
    for (int64_t i = 0; i < in->count; i++) {
        struct near p = ref_optimizer_at(&in[0], i), g = ref_optimizer_at(&in[1], i),
                    v = ref_optimizer_at(&in[3], i);
        if (a->l2 != 0 || !isfinite(p.v))
            g = ref_optimizer_add(g, ref_optimizer_mul(ref_optimizer_attribute(a->l2), p));
        v = ref_optimizer_add(ref_optimizer_mul(ref_optimizer_attribute(a->momentum), v), g);
        ref_optimizer_put(&out[1], i, v);
        if (a->nesterov)
            v = ref_optimizer_add(g, ref_optimizer_mul(ref_optimizer_attribute(a->momentum), v));
        ref_optimizer_put(&out[0], i,
                          ref_optimizer_sub(p, ref_optimizer_mul(ref_optimizer_at(&in[2], 0), v)));
    }
}

struct adam {
    const struct bp_adam_attrs *a; /* adamw and lamb have this layout too */
    struct near lr, bias1, bias2;
};

static struct adam adam_of(const struct ref_array *in, const void *attrs)
{
    return (struct adam){attrs, ref_optimizer_at(&in[2], 0),
                         ref_optimizer_sub(ref_optimizer_exact(1), ref_optimizer_at(&in[5], 0)),
                         ref_optimizer_sub(ref_optimizer_exact(1), ref_optimizer_at(&in[6], 0))};
}

static struct near ref_optimizer_ratio(const struct adam *k, struct near m, struct near v)
{
    return ref_optimizer_quotient(
        ref_optimizer_quotient(m, k->bias1),
        ref_optimizer_add(ref_optimizer_root(ref_optimizer_quotient(v, k->bias2)),
                          ref_optimizer_attribute(k->a->epsilon)));
}

static void adam_step(const struct ref_array *in, const void *attrs, bool apart,
                      struct ref_array *out)
{
    struct adam k = adam_of(in, attrs);
    struct near decay = ref_optimizer_attribute(k.a->decay);
    bool third = in[7].type != NULL;

    ref_optimizer_begin(&in[0], &out[0]);
    ref_optimizer_begin(&in[3], &out[1]);
    ref_optimizer_begin(&in[4], &out[2]);
    ref_optimizer_power(&in[5], k.a->beta1, &out[3]);
    ref_optimizer_power(&in[6], k.a->beta2, &out[4]);
    if (third) ref_optimizer_begin(&in[7], &out[5]);
    for (int64_t i = 0; i < in->count; i++) {
        struct near p = ref_optimizer_at(&in[0], i), g = ref_optimizer_at(&in[1], i), m, v;
        if (!apart && (k.a->decay != 0 || !isfinite(p.v)))
            g = ref_optimizer_add(g, ref_optimizer_mul(decay, p));
        m = ref_optimizer_mean(k.a->beta1, ref_optimizer_at(&in[3], i), g);
        v = ref_optimizer_mean(k.a->beta2, ref_optimizer_at(&in[4], i), ref_optimizer_mul(g, g));
        ref_optimizer_put(&out[1], i, m);
        ref_optimizer_put(&out[2], i, v);
        if (third)
            ref_optimizer_put(&out[5], i, v = ref_optimizer_larger(v, ref_optimizer_at(&in[7], i)));
        if (apart)
            p = ref_optimizer_mul(
                p, ref_optimizer_sub(ref_optimizer_exact(1), ref_optimizer_mul(k.lr, decay)));
        ref_optimizer_put(
            &out[0], i,
            ref_optimizer_sub(p, ref_optimizer_mul(k.lr, ref_optimizer_ratio(&k, m, v))));
    }
}

void ref_adam(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    adam_step(in, attrs, false, out);
}

void ref_adamw(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    adam_step(in, attrs, true, out);
}

void ref_adamax(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_adamax_attrs *a = attrs;
    struct near rate = ref_optimizer_quotient(
        ref_optimizer_at(&in[2], 0),
        ref_optimizer_sub(ref_optimizer_exact(1), ref_optimizer_at(&in[5], 0)));

    ref_optimizer_begin(&in[0], &out[0]);
    ref_optimizer_begin(&in[3], &out[1]);
    ref_optimizer_begin(&in[4], &out[2]);
    ref_optimizer_power(&in[5], a->beta1, &out[3]);
    for (int64_t i = 0; i < in->count; i++) {
        struct near g = ref_optimizer_at(&in[1], i),
                    m = ref_optimizer_mean(a->beta1, ref_optimizer_at(&in[3], i), g);
        struct near norm = ref_optimizer_add(
            ref_optimizer_mul(ref_optimizer_attribute(a->beta2), ref_optimizer_at(&in[4], i)),
            ref_optimizer_attribute(a->epsilon));
        norm = ref_optimizer_larger(ref_optimizer_exact(fabsl(g.v)), norm);
        ref_optimizer_put(&out[1], i, m);
        ref_optimizer_put(&out[2], i, norm);
        ref_optimizer_put(
            &out[0], i,
            ref_optimizer_sub(ref_optimizer_at(&in[0], i),
                              ref_optimizer_mul(rate, ref_optimizer_quotient(m, norm))));
    }
}

void ref_adagrad(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_adagrad_attrs *a = attrs;

    ref_optimizer_begin(&in[0], &out[0]);
    ref_optimizer_begin(&in[3], &out[1]);
    for (int64_t i = 0; i < in->count; i++) {
        struct near g = ref_optimizer_at(&in[1], i),
                    moment = ref_optimizer_add(ref_optimizer_at(&in[3], i),
                                               ref_optimizer_mul(g, g));
        struct near below = ref_optimizer_add(ref_optimizer_root(moment),
                                              ref_optimizer_attribute(a->epsilon));
        ref_optimizer_put(&out[1], i, moment);
        ref_optimizer_put(
            &out[0], i,
            ref_optimizer_sub(
                ref_optimizer_at(&in[0], i),
                ref_optimizer_quotient(ref_optimizer_mul(ref_optimizer_at(&in[2], 0), g), below)));
    }
}

void ref_adadelta(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_adadelta_attrs *a = attrs;
    struct near epsilon = ref_optimizer_attribute(a->epsilon);

    for (int o = 0; o < 3; o++) ref_optimizer_begin(&in[o ? 2 + o : 0], &out[o]);
    for (int64_t i = 0; i < in->count; i++) {
        struct near g = ref_optimizer_at(&in[1], i),
                    squares = ref_optimizer_mean(a->rho, ref_optimizer_at(&in[3], i),
                                                 ref_optimizer_mul(g, g)),
                    d;
        d = ref_optimizer_root(
            ref_optimizer_quotient(ref_optimizer_add(ref_optimizer_at(&in[4], i), epsilon),
                                   ref_optimizer_add(squares, epsilon)));
        d = ref_optimizer_mul(d, g);
        ref_optimizer_put(&out[1], i, squares);
        ref_optimizer_put(
            &out[2], i,
            ref_optimizer_mean(a->rho, ref_optimizer_at(&in[4], i), ref_optimizer_mul(d, d)));
        ref_optimizer_put(&out[0], i,
                          ref_optimizer_sub(ref_optimizer_at(&in[0], i),
                                            ref_optimizer_mul(ref_optimizer_at(&in[2], 0), d)));
    }
}

void ref_rmsprop(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_rmsprop_attrs *a = attrs;
    bool centered = in[5].type != NULL;

    for (int o = 0; o < 3 + centered; o++) ref_optimizer_begin(&in[o ? 2 + o : 0], &out[o]);
    for (int64_t i = 0; i < in->count; i++) {
        struct near g = ref_optimizer_at(&in[1], i),
                    squares = ref_optimizer_mean(a->rho, ref_optimizer_at(&in[3], i),
                                                 ref_optimizer_mul(g, g)),
                    m, v;
        ref_optimizer_put(&out[1], i, squares);
        if (centered) {
            m = ref_optimizer_mean(a->rho, ref_optimizer_at(&in[5], i), g);
            ref_optimizer_put(&out[3], i, m);
            squares = ref_optimizer_sub(squares, ref_optimizer_mul(m, m));
        }
        v = ref_optimizer_quotient(
            ref_optimizer_mul(ref_optimizer_at(&in[2], 0), g),
            ref_optimizer_root(ref_optimizer_add(squares, ref_optimizer_attribute(a->epsilon))));
        v = ref_optimizer_add(
            ref_optimizer_mul(ref_optimizer_attribute(a->momentum), ref_optimizer_at(&in[4], i)),
            v);
        ref_optimizer_put(&out[2], i, v);
        ref_optimizer_put(&out[0], i, ref_optimizer_sub(ref_optimizer_at(&in[0], i), v));
    }
}

/* Squares are added in the order of sums: see docs/accuracy.md. */
struct norm {
    struct near squares;
    int64_t n;
};
static void ref_optimizer_count(struct norm *norm, struct near x)
{
    norm->squares.v += x.v * x.v;
    norm->squares.off += 2 * fabsl(x.v) * x.off;
    norm->n++;
}
static struct near ref_optimizer_norm_of(const struct norm *norm)
{
    struct near all = norm->squares;

    all.off += ref_growth(norm->n) * all.v;
    return ref_optimizer_root(all);
}

void ref_lamb(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    struct adam k = adam_of(in, attrs);
    struct norm own = {{0, 0}, 0}, other = {{0, 0}, 0};
    struct near trust = ref_optimizer_exact(1);

    for (int o = 0; o < 3; o++) ref_optimizer_begin(&in[o ? 2 + o : 0], &out[o]);
    ref_optimizer_power(&in[5], k.a->beta1, &out[3]);
    ref_optimizer_power(&in[6], k.a->beta2, &out[4]);
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t i = 0; i < in->count; i++) {
            struct near p = ref_optimizer_at(&in[0], i), g = ref_optimizer_at(&in[1], i);
            struct near m = ref_optimizer_mean(k.a->beta1, ref_optimizer_at(&in[3], i), g);
            struct near v = ref_optimizer_mean(k.a->beta2, ref_optimizer_at(&in[4], i),
                                               ref_optimizer_mul(g, g));
            struct near r = ref_optimizer_add(
                ref_optimizer_ratio(&k, m, v),
                ref_optimizer_mul(ref_optimizer_attribute(k.a->decay), p));
            if (pass) {
                ref_optimizer_put(
                    &out[0], i,
                    ref_optimizer_sub(p, ref_optimizer_mul(ref_optimizer_mul(k.lr, trust), r)));
                continue;
            }
            ref_optimizer_count(&own, p);
            ref_optimizer_count(&other, r);
            ref_optimizer_put(&out[1], i, m);
            ref_optimizer_put(&out[2], i, v);
        }
        if (own.squares.v > 0 && other.squares.v > 0)
            trust = ref_optimizer_quotient(ref_optimizer_norm_of(&own),
                                           ref_optimizer_norm_of(&other));
    }
}

void ref_lars_momentum(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_lars_momentum_attrs *a = attrs;
    struct norm own = {{0, 0}, 0}, other = {{0, 0}, 0};
    struct near decay = ref_optimizer_attribute(a->decay), rate = ref_optimizer_at(&in[2], 0);

    ref_optimizer_begin(&in[0], &out[0]);
    ref_optimizer_begin(&in[3], &out[1]);
    for (int64_t i = 0; i < in->count; i++) {
        ref_optimizer_count(&own, ref_optimizer_at(&in[0], i));
        ref_optimizer_count(&other, ref_optimizer_at(&in[1], i));
    }
    if (a->decay > 0 && own.squares.v > 0 && other.squares.v > 0) {
        struct near p = ref_optimizer_norm_of(&own),
                    below = ref_optimizer_add(ref_optimizer_norm_of(&other),
                                              ref_optimizer_mul(decay, p));
        p = ref_optimizer_mul(ref_optimizer_attribute(a->coefficient), p);
        rate = ref_optimizer_mul(
            rate, ref_optimizer_quotient(
                      p, ref_optimizer_add(below, ref_optimizer_attribute(a->epsilon))));
    }
    for (int64_t i = 0; i < in->count; i++) {
        struct near p = ref_optimizer_at(&in[0], i), g = ref_optimizer_at(&in[1], i);
        struct near v = ref_optimizer_mul(rate, ref_optimizer_add(g, ref_optimizer_mul(decay, p)));
        v = ref_optimizer_add(
            ref_optimizer_mul(ref_optimizer_attribute(a->momentum), ref_optimizer_at(&in[3], i)),
            v);
        ref_optimizer_put(&out[1], i, v);
        ref_optimizer_put(&out[0], i, ref_optimizer_sub(p, v));
    }
}

void ref_unscale(const struct ref_array *in, const void *attrs,
                                  struct ref_array *out)
{
    struct near factor = ref_optimizer_quotient(ref_optimizer_exact(1),
                                                ref_optimizer_at(&in[0], 0));

    (void)attrs;
    ref_array_init(&out[0], BP_BOOL, in[0].rank, in[0].shape);
    for (int x = 1; in[x].type; x++) {
        if (x < REF_OUTPUTS) ref_optimizer_begin(&in[x], &out[x]);
        for (int64_t i = 0; i < in[x].count; i++) {
            struct near y = ref_optimizer_mul(ref_optimizer_at(&in[x], i), factor);
            char at_y[8];
            num_set_float(in[x].type, at_y, y.v);
            if (!isfinite(num_get_float(in[x].type, at_y))) out[0].u[0] = 1;
            if (x < REF_OUTPUTS) ref_optimizer_put(&out[x], i, y);
        }
    }
}

void ref_update_loss_scaling(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_update_loss_scaling_attrs *a = attrs;
    bool found = in[1].u[0] != 0;
    int64_t steps = (int64_t)in[found ? 3 : 2].u[0] + 1;
    struct near scale = ref_optimizer_at(&in[0], 0);

    ref_optimizer_begin(&in[0], &out[0]);
    ref_optimizer_begin(&in[2], &out[1]);
    ref_optimizer_begin(&in[3], &out[2]);
    if (steps >= (found ? a->shrink_after : a->grow_after)) {
        struct near next = ref_optimizer_mul(scale,
                                             ref_optimizer_attribute(found ? a->shrink : a->grow));
        char kept[8];
        num_set_float(in->type, kept, next.v);
        if (found && next.v < 1) next = ref_optimizer_exact(1);
        if (isfinite(num_get_float(in->type, kept))) scale = next;
        steps = 0;
    }
    ref_optimizer_put(&out[0], 0, scale);
    out[found ? 2 : 1].u[0] = (uint64_t)steps;
}
