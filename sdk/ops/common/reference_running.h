/* SPDX-License-Identifier: Apache-2.0 */
/* reference_running.h: computes with numbers that carry a bound on their error, for references of
 * operators that are a chain of other operators (running error analysis: Higham 2002, section 3.3).
 * e is in unit roundoffs of the computing type. Each step adds its own error, and propagates the
 * errors of its operands to first order: docs/accuracy.md, "Chains". */
#ifndef BP_OPS_COMMON_REFERENCE_RUNNING_H
#define BP_OPS_COMMON_REFERENCE_RUNNING_H

#include "reference.h"
#include <math.h>

struct running {
    long double v, e;
    long double last; /* the part of e that is due to the rounding of v itself */
};

/* Relative errors of functions of one number, without the errors of their arguments. */
enum {
    RUNNING_DIV = 2,
    RUNNING_EXP = 3,
    RUNNING_LOG = 2,
    RUNNING_SIGMOID = 4,
    RUNNING_LOG_SIGMOID = 4,
    RUNNING_TANH = 4
};

static inline struct running run_of(long double v)
{
    return (struct running){.v = v};
}

/* The result v of operands whose errors add up to e. own: the number of its own roundings, 0 or at
 * least 1; the last of them is the rounding of v itself. */
static inline struct running run_made(long double v, long double e, long double own)
{
    long double last = own > 0 ? fabsl(v) : 0;

    return (struct running){v, e + (own > 1 ? own * last : last), last};
}

/* A number that is rounded first, such as an attribute or a computed factor; without an error if
 * f32 holds it exactly. */
static inline struct running run_rounded(long double v)
{
    return run_made(v, 0, (float)v == v ? 0 : 1);
}
/* An error times a factor. If one of them is 0, so is the product, even if the other is infinite or
 * NaN, as with exp(-inf). */
static inline long double run_part(long double e, long double factor)
{
    return e == 0 || factor == 0 ? 0 : e * fabsl(factor);
}
static inline bool run_is_zero(struct running a)
{
    return a.v == 0 && a.e == 0;
}
static inline struct running run_add(struct running a, struct running b)
{
    long double v = a.v + b.v;

    if (run_is_zero(b)) return a;
    if (run_is_zero(a)) return b;
    return run_made(v, a.e + b.e, a.e == 0 && b.e == 0 && (float)v == v ? 0 : 1);
}
static inline struct running run_neg(struct running a)
{
    return (struct running){-a.v, a.e, a.last};
}
static inline struct running run_sub(struct running a, struct running b)
{
    return run_add(a, run_neg(b));
}
static inline bool run_is_power(struct running a) /* exactly a power of two, or 0 */
{
    int exponent;

    return a.e == 0 && (a.v == 0 || fabsl(frexpl(a.v, &exponent)) == 0.5L);
}

/* a times an exact power of two. */
static inline struct running run_scaled(struct running a, long double power)
{
    return (struct running){a.v * power, run_part(a.e, power), run_part(a.last, power)};
}
static inline struct running run_mul(struct running a, struct running b)
{
    if (run_is_power(a)) return run_scaled(b, a.v);
    if (run_is_power(b)) return run_scaled(a, b.v);
    return run_made(a.v * b.v, run_part(b.e, a.v) + run_part(a.e, b.v), 1);
}
static inline struct running run_div(struct running a, struct running b)
{
    long double v = a.v / b.v;

    if (run_is_power(b) && b.v != 0) return run_scaled(a, 1 / b.v);
    return run_made(v, (a.e + run_part(b.e, v)) / fabsl(b.v), RUNNING_DIV);
}

/* v = f(a), where f has this slope at a and its own error `own`, relative to v. */
static inline struct running run_function(struct running a, long double v, long double slope,
                                          long double own)
{
    return run_made(v, run_part(a.e, slope), own);
}
static inline struct running run_exp(struct running a)
{
    return run_function(a, expl(a.v), expl(a.v), RUNNING_EXP);
}

/* e^(a - most). The difference is rounded. If a is the largest element itself, the difference is 0
 * and the power is 1: the result then carries only the error a.e, which is common to all
 * elements. */
static inline struct running run_power(struct running a, struct running most, bool is_most)
{
    long double d = a.v - most.v;

    if (!isfinite(d)) return run_exp(run_of(d));
    if (is_most) return (struct running){.v = 1, .e = a.e};
    return run_exp((struct running){.v = d, .e = a.e + fabsl(d)});
}
static inline struct running run_log(struct running a)
{
    return run_function(a, logl(a.v), a.e > 0 ? 1 / a.v : 0, RUNNING_LOG);
}
static inline struct running run_sigmoid(struct running a)
{
    long double t = expl(-fabsl(a.v)), v = (a.v < 0 ? t : 1) / (1 + t);

    return run_function(a, v, t / ((1 + t) * (1 + t)), RUNNING_SIGMOID);
}
static inline struct running run_log_sigmoid(struct running a)
{
    long double t = expl(-fabsl(a.v)), v = (a.v < 0 ? a.v : 0) - log1pl(t);

    return run_function(a, v, (a.v < 0 ? 1 : t) / (1 + t), RUNNING_LOG_SIGMOID);
}
static inline struct running run_tanh(struct running a)
{
    long double v = tanhl(a.v);

    return run_function(a, v, 1 - v * v, RUNNING_TANH);
}
static inline struct running run_abs(struct running a)
{
    return (struct running){fabsl(a.v), a.e, a.last};
}

/* max(a, 0). The error remains, except where a is below 0 by more than its error. NaN remains
 * NaN. */
static inline struct running run_relu(struct running a)
{
    if (!(a.v < 0)) return a;
    return (struct running){.v = 0, .e = a.v + a.e * 0x1p-24L < 0 ? 0 : a.e};
}

/* The sum v of n terms, added in any order. size is the sum of their magnitudes, e the sum of their
 * errors; each had passed through `before` roundings. The last rounding is the rounding of v. */
static inline struct running run_total(long double v, long double size, long double e, int64_t n,
                                       int before)
{
    long double all = ref_growth(n - 1 + before) * size, rest = ref_growth(n - 2 + before) * size;

    if (n + before < 2) return (struct running){.v = v, .e = e};
    all = fminl(all, rest + fabsl(v));
    return (struct running){v, e + all, all - rest};
}

/* The sum of n numbers, in any order. */
static inline struct running run_sum(const struct running *a, int64_t n)
{
    long double v = 0, size = 0, e = 0;
    int64_t terms = 0, only = 0;

    for (int64_t i = 0; i < n; i++) {
        if (run_is_zero(a[i])) continue;
        only = i;
        terms++;
        v += a[i].v;
        size += fabsl(a[i].v);
        e += a[i].e;
    }
    return terms == 1 ? a[only] : run_total(v, size, e, terms, 0);
}

/* Stores a as element i of a result, without its last rounding: the operator's ulp covers that. */
static inline void run_put(struct ref_array *out, int64_t i, struct running a)
{
    out->v[i] = a.v;
    out->bound[i] = isfinite(a.v) && isfinite(a.e) ? a.e - a.last : 0;
}

#endif
