/* SPDX-License-Identifier: Apache-2.0 */
/* running.h: numbers with what a computation in steps may have missed them by, for references of
 * operators that are a chain of others (running error analysis: Higham 2002, section 3.3). e is in
 * unit roundoffs of the type that is computed in. Each step adds its own error, and passes on those
 * of its operands to first order: docs/accuracy.md, "Chains". */
#ifndef BP_CONFORM_RUNNING_H
#define BP_CONFORM_RUNNING_H

#include "reference.h"
#include <math.h>

struct running {
    long double v, e;
};

/* Relative errors of functions of one number, besides those of their arguments. */
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
    return (struct running){v, 0};
}

/* A number that is rounded first, such as an attribute or a factor that is worked out. f32 may
 * hold it. */
static inline struct running run_rounded(long double v)
{
    return (struct running){v, (float)v == v ? 0 : fabsl(v)};
}
/* An error times a factor: one of them 0 is nothing, such as of exp(-inf). */
static inline long double run_part(long double e, long double factor)
{
    return e == 0 || factor == 0 ? 0 : e * fabsl(factor);
}
static inline struct running run_add(struct running a, struct running b)
{
    long double v = a.v + b.v;
    bool exact = a.e == 0 && b.e == 0 && (float)v == v;

    return (struct running){v, a.e + b.e + (exact ? 0 : fabsl(v))};
}
static inline struct running run_neg(struct running a)
{
    return (struct running){-a.v, a.e};
}
static inline struct running run_sub(struct running a, struct running b)
{
    return run_add(a, run_neg(b));
}
static inline bool run_is_power(long double v) /* of two, or 0 */
{
    int exponent;

    return v == 0 || fabsl(frexpl(v, &exponent)) == 0.5L;
}
static inline struct running run_mul(struct running a, struct running b)
{
    long double v = a.v * b.v;
    bool exact = (a.e == 0 && run_is_power(a.v)) || (b.e == 0 && run_is_power(b.v));

    return (struct running){v, run_part(b.e, a.v) + run_part(a.e, b.v) + (exact ? 0 : fabsl(v))};
}
static inline struct running run_div(struct running a, struct running b)
{
    long double v = a.v / b.v;

    return (struct running){v, (a.e + run_part(b.e, v)) / fabsl(b.v) + RUNNING_DIV * fabsl(v)};
}

/* f(a) = v with a slope, and an error of its own relative to v. */
static inline struct running run_function(struct running a, long double v, long double slope,
                                          long double own)
{
    return (struct running){v, run_part(a.e, slope) + own * fabsl(v)};
}
static inline struct running run_exp(struct running a)
{
    return run_function(a, expl(a.v), expl(a.v), RUNNING_EXP);
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
    return (struct running){fabsl(a.v), a.e};
}

/* max(a, 0): an error stays, but where a is further below 0 than that. NaN stays. */
static inline struct running run_relu(struct running a)
{
    bool below = a.v < 0;

    return (struct running){below ? 0 : a.v, below && a.v + a.e * 0x1p-24L < 0 ? 0 : a.e};
}

/* The sum of n numbers, in any order. */
static inline struct running run_sum(const struct running *a, int64_t n)
{
    long double v = 0, size = 0, e = 0;

    for (int64_t i = 0; i < n; i++) {
        v += a[i].v;
        size += fabsl(a[i].v);
        e += a[i].e;
    }
    return (struct running){v, e + size * ref_growth(n - 1)};
}

/* Element i of a result. */
static inline void run_put(struct ref_array *out, int64_t i, struct running a)
{
    out->v[i] = a.v;
    out->bound[i] = isfinite(a.v) && isfinite(a.e) ? a.e : 0;
}

#endif
