/* SPDX-License-Identifier: Apache-2.0 */
/* reference.c: steps of training. Each number goes with what a computation may miss it by, in units
 * of the unit roundoff, to first order: every operation rounds once. */
#include "../common/reference.h"
#include <math.h>

struct near {
    long double v, off;
};

static struct near exact(long double v)
{
    return (struct near){v, 0};
}
/* An attribute is rounded to the type that is computed in. */
static struct near attribute(double v)
{
    return (struct near){v, fabs(v)};
}
static struct near add(struct near a, struct near b)
{
    return (struct near){a.v + b.v, a.off + b.off + fabsl(a.v + b.v)};
}
static struct near sub(struct near a, struct near b)
{
    return (struct near){a.v - b.v, a.off + b.off + fabsl(a.v - b.v)};
}
static struct near mul(struct near a, struct near b)
{
    long double v = a.v * b.v;

    return (struct near){v, fabsl(a.v) * b.off + fabsl(b.v) * a.off + fabsl(v)};
}
static struct near quotient(struct near a, struct near b)
{
    long double v = a.v / b.v;

    return (struct near){v, (a.off + fabsl(v) * b.off) / fabsl(b.v) + fabsl(v)};
}
static struct near root(struct near a)
{
    long double v = sqrtl(a.v);

    return (struct near){v, v > 0 ? a.off / (2 * v) + v : 0};
}
static struct near larger(struct near a, struct near b)
{
    return a.v <= b.v ? b : a;
}

/* The last rounding is counted by ulp. */
static void put(struct ref_array *out, int64_t i, struct near y)
{
    out->v[i] = y.v;
    if (isfinite(y.v) && isfinite(y.off) && y.off > fabsl(y.v)) out->bound[i] = y.off - fabsl(y.v);
}

static void begin(const struct ref_array *of, struct ref_array *out)
{
    ref_array_init(out, of->type->dtype, of->rank, of->shape);
}

static struct near at(const struct ref_array *x, int64_t i)
{
    return exact(x->v[i]);
}

/* keep x + (1 - keep) y. */
static struct near mean(double keep, struct near x, struct near y)
{
    struct near rest = {1 - (long double)keep, 1 - (long double)keep};

    return add(mul(attribute(keep), x), mul(rest, y));
}

static void power(const struct ref_array *x, double beta, struct ref_array *out)
{
    begin(x, out);
    put(out, 0, mul(at(x, 0), attribute(beta)));
}

void ref_momentum(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_momentum_attrs *a = attrs;

    begin(&in[0], &out[0]);
    begin(&in[3], &out[1]);
    for (int64_t i = 0; i < in->count; i++) {
        struct near p = at(&in[0], i), g = at(&in[1], i), v = at(&in[3], i);
        if (a->l2 != 0 || !isfinite(p.v)) g = add(g, mul(attribute(a->l2), p));
        v = add(mul(attribute(a->momentum), v), g);
        put(&out[1], i, v);
        if (a->nesterov) v = add(g, mul(attribute(a->momentum), v));
        put(&out[0], i, sub(p, mul(at(&in[2], 0), v)));
    }
}

struct adam {
    const struct bp_adam_attrs *a; /* those of adamw and lamb are the same */
    struct near lr, bias1, bias2;
};

static struct adam adam_of(const struct ref_array *in, const void *attrs)
{
    return (struct adam){attrs, at(&in[2], 0), sub(exact(1), at(&in[5], 0)),
                         sub(exact(1), at(&in[6], 0))};
}

static struct near ratio(const struct adam *k, struct near m, struct near v)
{
    return quotient(quotient(m, k->bias1),
                    add(root(quotient(v, k->bias2)), attribute(k->a->epsilon)));
}

static void adam_step(const struct ref_array *in, const void *attrs, bool apart,
                      struct ref_array *out)
{
    struct adam k = adam_of(in, attrs);
    struct near decay = attribute(k.a->decay);
    bool third = in[7].type != NULL;

    begin(&in[0], &out[0]);
    begin(&in[3], &out[1]);
    begin(&in[4], &out[2]);
    power(&in[5], k.a->beta1, &out[3]);
    power(&in[6], k.a->beta2, &out[4]);
    if (third) begin(&in[7], &out[5]);
    for (int64_t i = 0; i < in->count; i++) {
        struct near p = at(&in[0], i), g = at(&in[1], i), m, v;
        if (!apart && (k.a->decay != 0 || !isfinite(p.v))) g = add(g, mul(decay, p));
        m = mean(k.a->beta1, at(&in[3], i), g);
        v = mean(k.a->beta2, at(&in[4], i), mul(g, g));
        put(&out[1], i, m);
        put(&out[2], i, v);
        if (third) put(&out[5], i, v = larger(v, at(&in[7], i)));
        if (apart) p = mul(p, sub(exact(1), mul(k.lr, decay)));
        put(&out[0], i, sub(p, mul(k.lr, ratio(&k, m, v))));
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
    struct near rate = quotient(at(&in[2], 0), sub(exact(1), at(&in[5], 0)));

    begin(&in[0], &out[0]);
    begin(&in[3], &out[1]);
    begin(&in[4], &out[2]);
    power(&in[5], a->beta1, &out[3]);
    for (int64_t i = 0; i < in->count; i++) {
        struct near g = at(&in[1], i), m = mean(a->beta1, at(&in[3], i), g);
        struct near norm = add(mul(attribute(a->beta2), at(&in[4], i)), attribute(a->epsilon));
        norm = larger(exact(fabsl(g.v)), norm);
        put(&out[1], i, m);
        put(&out[2], i, norm);
        put(&out[0], i, sub(at(&in[0], i), mul(rate, quotient(m, norm))));
    }
}

void ref_adagrad(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_adagrad_attrs *a = attrs;

    begin(&in[0], &out[0]);
    begin(&in[3], &out[1]);
    for (int64_t i = 0; i < in->count; i++) {
        struct near g = at(&in[1], i), moment = add(at(&in[3], i), mul(g, g));
        struct near below = add(root(moment), attribute(a->epsilon));
        put(&out[1], i, moment);
        put(&out[0], i, sub(at(&in[0], i), quotient(mul(at(&in[2], 0), g), below)));
    }
}

void ref_adadelta(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_adadelta_attrs *a = attrs;
    struct near epsilon = attribute(a->epsilon);

    for (int o = 0; o < 3; o++) begin(&in[o ? 2 + o : 0], &out[o]);
    for (int64_t i = 0; i < in->count; i++) {
        struct near g = at(&in[1], i), squares = mean(a->rho, at(&in[3], i), mul(g, g)), d;
        d = root(quotient(add(at(&in[4], i), epsilon), add(squares, epsilon)));
        d = mul(d, g);
        put(&out[1], i, squares);
        put(&out[2], i, mean(a->rho, at(&in[4], i), mul(d, d)));
        put(&out[0], i, sub(at(&in[0], i), mul(at(&in[2], 0), d)));
    }
}

void ref_rmsprop(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_rmsprop_attrs *a = attrs;
    bool centered = in[5].type != NULL;

    for (int o = 0; o < 3 + centered; o++) begin(&in[o ? 2 + o : 0], &out[o]);
    for (int64_t i = 0; i < in->count; i++) {
        struct near g = at(&in[1], i), squares = mean(a->rho, at(&in[3], i), mul(g, g)), m, v;
        put(&out[1], i, squares);
        if (centered) {
            m = mean(a->rho, at(&in[5], i), g);
            put(&out[3], i, m);
            squares = sub(squares, mul(m, m));
        }
        v = quotient(mul(at(&in[2], 0), g), root(add(squares, attribute(a->epsilon))));
        v = add(mul(attribute(a->momentum), at(&in[4], i)), v);
        put(&out[2], i, v);
        put(&out[0], i, sub(at(&in[0], i), v));
    }
}

/* Squares are added as sums are: docs/accuracy.md. */
struct norm {
    struct near squares;
    int64_t n;
};
static void count(struct norm *norm, struct near x)
{
    norm->squares.v += x.v * x.v;
    norm->squares.off += 2 * fabsl(x.v) * x.off;
    norm->n++;
}
static struct near norm_of(const struct norm *norm)
{
    struct near all = norm->squares;

    all.off += ref_growth(norm->n) * all.v;
    return root(all);
}

void ref_lamb(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    struct adam k = adam_of(in, attrs);
    struct norm own = {{0, 0}, 0}, other = {{0, 0}, 0};
    struct near trust = exact(1);

    for (int o = 0; o < 3; o++) begin(&in[o ? 2 + o : 0], &out[o]);
    power(&in[5], k.a->beta1, &out[3]);
    power(&in[6], k.a->beta2, &out[4]);
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t i = 0; i < in->count; i++) {
            struct near p = at(&in[0], i), g = at(&in[1], i);
            struct near m = mean(k.a->beta1, at(&in[3], i), g);
            struct near v = mean(k.a->beta2, at(&in[4], i), mul(g, g));
            struct near r = add(ratio(&k, m, v), mul(attribute(k.a->decay), p));
            if (pass) {
                put(&out[0], i, sub(p, mul(mul(k.lr, trust), r)));
                continue;
            }
            count(&own, p);
            count(&other, r);
            put(&out[1], i, m);
            put(&out[2], i, v);
        }
        if (own.squares.v > 0 && other.squares.v > 0)
            trust = quotient(norm_of(&own), norm_of(&other));
    }
}

void ref_lars_momentum(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_lars_momentum_attrs *a = attrs;
    struct norm own = {{0, 0}, 0}, other = {{0, 0}, 0};
    struct near decay = attribute(a->decay), rate = at(&in[2], 0);

    begin(&in[0], &out[0]);
    begin(&in[3], &out[1]);
    for (int64_t i = 0; i < in->count; i++) {
        count(&own, at(&in[0], i));
        count(&other, at(&in[1], i));
    }
    if (a->decay > 0 && own.squares.v > 0 && other.squares.v > 0) {
        struct near p = norm_of(&own), below = add(norm_of(&other), mul(decay, p));
        p = mul(attribute(a->coefficient), p);
        rate = mul(rate, quotient(p, add(below, attribute(a->epsilon))));
    }
    for (int64_t i = 0; i < in->count; i++) {
        struct near p = at(&in[0], i), g = at(&in[1], i);
        struct near v = mul(rate, add(g, mul(decay, p)));
        v = add(mul(attribute(a->momentum), at(&in[3], i)), v);
        put(&out[1], i, v);
        put(&out[0], i, sub(p, v));
    }
}

void ref_unscale(const struct ref_array *in, const void *attrs,
                                  struct ref_array *out)
{
    struct near factor = quotient(exact(1), at(&in[0], 0));

    (void)attrs;
    ref_array_init(&out[0], BP_BOOL, in[0].rank, in[0].shape);
    for (int x = 1; in[x].type; x++) {
        if (x < REF_OUTPUTS) begin(&in[x], &out[x]);
        for (int64_t i = 0; i < in[x].count; i++) {
            struct near y = mul(at(&in[x], i), factor);
            char at_y[8];
            num_set_float(in[x].type, at_y, y.v);
            if (!isfinite(num_get_float(in[x].type, at_y))) out[0].u[0] = 1;
            if (x < REF_OUTPUTS) put(&out[x], i, y);
        }
    }
}

void ref_update_loss_scaling(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_update_loss_scaling_attrs *a = attrs;
    bool found = in[1].u[0] != 0;
    int64_t steps = (int64_t)in[found ? 3 : 2].u[0] + 1;
    struct near scale = at(&in[0], 0);

    begin(&in[0], &out[0]);
    begin(&in[2], &out[1]);
    begin(&in[3], &out[2]);
    if (steps >= (found ? a->shrink_after : a->grow_after)) {
        struct near next = mul(scale, attribute(found ? a->shrink : a->grow));
        char kept[8];
        num_set_float(in->type, kept, next.v);
        if (found && next.v < 1) next = exact(1);
        if (isfinite(num_get_float(in->type, kept))) scale = next;
        steps = 0;
    }
    put(&out[0], 0, scale);
    out[found ? 2 : 1].u[0] = (uint64_t)steps;
}
