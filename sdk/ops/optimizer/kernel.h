/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.h: updates parameters by one step of an optimizer (sgd to lamb) and scales losses.
 * Parameters and gradients have type elem; states have type acc, in which the kernels compute. All
 * results are written in place; schema.def defines the formulas. */
#ifndef BP_OPS_OPTIMIZER_KERNEL_H
#define BP_OPS_OPTIMIZER_KERNEL_H

#include "../../dialect/dialect.h"
#include "../common/kernel_formulas.h"

enum {
    OPTIMIZER_PART = 4096
}; /* elements of a partial norm */

/* The attributes of an optimizer. rest1 and rest2 are 1 - beta, computed in f64. */
struct optimizer_args {
    i64 op, nesterov;
    host_real beta1, beta2, rest1, rest2;
    host_real epsilon, decay, momentum, coefficient;
};
#define optimizer_step_args optimizer_args

/* For norms: optimizer_norms sums two kinds of squares in each of `parts` parts of the n elements;
 * optimizer_factor adds up the parts. */
struct optimizer_norms_args {
    struct optimizer_args s;
    i64 n, parts;
};
struct optimizer_factor_args {
    struct optimizer_norms_args n;
};
struct optimizer_powers_args {
    host_real beta1, beta2;
};
struct unscale_args {
    i64 begin; /* 1: the kernel only clears *found */
};
struct loss_scale_args {
    i64 grow_after, shrink_after;
    host_real grow, shrink;
};

#ifdef ELEM
#include "../../dialect/entry.h"
#include "../../dialect/maths.h"

/* Marks a function in which `op` is a constant at each call. */
#ifdef ON_HOST
#define OPTIMIZER_FN static inline __attribute__((always_inline))
#else
#define OPTIMIZER_FN KFN
#endif

/* One element: parameter, gradient and up to three states. */
struct optimizer_state {
    acc p, g, kept[3];
};

/* The numbers of a step, with the inputs of one value already read. norm: the factor that lamb and
 * lars use for the whole tensor. */
struct optimizer_numbers {
    acc beta1, rest1, beta2, rest2, epsilon, decay, momentum;
    acc rate, bias1, bias2, norm;
    int nesterov, third;
};

KFN acc optimizer_larger(acc x, acc y)
{
    return x <= y ? y : x;
}

KFN void optimizer_moments(const struct optimizer_numbers *k, struct optimizer_state *s)
{
    s->kept[0] = k->beta1 * s->kept[0] + k->rest1 * s->g;
    s->kept[1] = k->beta2 * s->kept[1] + k->rest2 * (s->g * s->g);
}

/* The mean over the square root of the mean square, both corrected for their bias to zero. */
KFN acc optimizer_ratio(const struct optimizer_numbers *k, acc moment1, acc moment2)
{
    return moment1 / k->bias1 / (MATH(sqrt)(moment2 / k->bias2) + k->epsilon);
}

KFN void optimizer_adam(const struct optimizer_numbers *k, struct optimizer_state *s)
{
    acc square;

    optimizer_moments(k, s);
    if (k->third) s->kept[2] = optimizer_larger(s->kept[1], s->kept[2]);
    square = k->third ? s->kept[2] : s->kept[1];
    s->p -= k->rate * optimizer_ratio(k, s->kept[0], square);
}

KFN void optimizer_momentum(const struct optimizer_numbers *k, struct optimizer_state *s)
{
    acc g = s->g + k->decay * s->p;

    s->kept[0] = k->momentum * s->kept[0] + g;
    s->p -= k->rate * (k->nesterov ? g + k->momentum * s->kept[0] : s->kept[0]);
}

KFN void optimizer_adamax(const struct optimizer_numbers *k, struct optimizer_state *s)
{
    s->kept[0] = k->beta1 * s->kept[0] + k->rest1 * s->g;
    s->kept[1] = optimizer_larger(acc_abs(s->g), k->beta2 * s->kept[1] + k->epsilon);
    s->p -= k->rate / k->bias1 * (s->kept[0] / s->kept[1]);
}

KFN void optimizer_adagrad(const struct optimizer_numbers *k, struct optimizer_state *s)
{
    s->kept[0] += s->g * s->g;
    s->p -= k->rate * s->g / (MATH(sqrt)(s->kept[0]) + k->epsilon);
}

KFN void optimizer_adadelta(const struct optimizer_numbers *k, struct optimizer_state *s)
{
    acc d;

    s->kept[0] = k->beta1 * s->kept[0] + k->rest1 * (s->g * s->g);
    d = MATH(sqrt)((s->kept[1] + k->epsilon) / (s->kept[0] + k->epsilon)) * s->g;
    s->kept[1] = k->beta1 * s->kept[1] + k->rest1 * (d * d);
    s->p -= k->rate * d;
}

KFN void optimizer_rmsprop(const struct optimizer_numbers *k, struct optimizer_state *s)
{
    acc square;

    s->kept[0] = k->beta1 * s->kept[0] + k->rest1 * (s->g * s->g);
    if (k->third) s->kept[2] = k->beta1 * s->kept[2] + k->rest1 * s->g;
    square = k->third ? s->kept[0] - s->kept[2] * s->kept[2] : s->kept[0];
    s->kept[1] = k->momentum * s->kept[1] + k->rate * s->g / MATH(sqrt)(square + k->epsilon);
    s->p -= s->kept[1];
}

/* The direction of a lamb step, from moments that are already updated. */
KFN acc optimizer_lamb_update(const struct optimizer_numbers *k, acc p, acc moment1, acc moment2)
{
    return optimizer_ratio(k, moment1, moment2) + k->decay * p;
}

KFN void optimizer_lars(const struct optimizer_numbers *k, struct optimizer_state *s)
{
    s->kept[0] = k->momentum * s->kept[0] + k->rate * k->norm * (s->g + k->decay * s->p);
    s->p -= s->kept[0];
}

OPTIMIZER_FN void optimizer_one(int op, const struct optimizer_numbers *k,
                                struct optimizer_state *s)
{
    switch (op) {
    case OPTIMIZER_momentum: optimizer_momentum(k, s); break;
    case OPTIMIZER_adam:
        s->g += k->decay * s->p;
        optimizer_adam(k, s);
        break;
    case OPTIMIZER_adamw:
        s->p *= 1 - k->rate * k->decay;
        optimizer_adam(k, s);
        break;
    case OPTIMIZER_adamax: optimizer_adamax(k, s); break;
    case OPTIMIZER_adagrad: optimizer_adagrad(k, s); break;
    case OPTIMIZER_adadelta: optimizer_adadelta(k, s); break;
    case OPTIMIZER_rmsprop: optimizer_rmsprop(k, s); break;
    case OPTIMIZER_moments: optimizer_moments(k, s); break;
    case OPTIMIZER_lamb:
        s->p -= k->rate * k->norm * optimizer_lamb_update(k, s->p, s->kept[0], s->kept[1]);
        break;
    default: optimizer_lars(k, s); break;
    }
}

KFN struct optimizer_numbers optimizer_numbers(const struct optimizer_args *a,
                                               GLOBAL const acc *rate, GLOBAL const acc *power1,
                                               GLOBAL const acc *power2, GLOBAL const acc *norm)
{
    struct optimizer_numbers k;

    k.beta1 = number(a->beta1);
    k.beta2 = number(a->beta2);
    k.rest1 = number(a->rest1);
    k.rest2 = number(a->rest2);
    k.epsilon = number(a->epsilon);
    k.decay = number(a->decay);
    k.momentum = number(a->momentum);
    k.nesterov = a->nesterov != 0;
    k.rate = rate[0];
    k.bias1 = power1 ? 1 - power1[0] : 1;
    k.bias2 = power2 ? 1 - power2[0] : 1;
    k.norm = norm ? norm[0] : 1;
    k.third = 0;
    return k;
}

/* kept: number of states, of c0 to c2. */
OPTIMIZER_FN void optimizer_run(int op, int kept, const struct optimizer_numbers *k, i64 begin,
                                i64 n, GLOBAL elem *p, GLOBAL const elem *g, GLOBAL acc *c0,
                                GLOBAL acc *c1, GLOBAL acc *c2)
{
    SIMD for (i64 i = begin; i < begin + n; i++)
    {
        struct optimizer_state s;
        s.p = elem_get(p[i]);
        s.g = elem_get(g[i]);
        s.kept[0] = c0[i];
        s.kept[1] = kept > 1 ? c1[i] : 0;
        s.kept[2] = kept > 2 ? c2[i] : 0;
        optimizer_one(op, k, &s);
        c0[i] = s.kept[0];
        if (kept > 1) c1[i] = s.kept[1];
        if (kept > 2) c2[i] = s.kept[2];
        if (op != OPTIMIZER_moments) p[i] = elem_put(s.p);
    }
}

/* Runs the step with the third state if c2 is present, else without. */
OPTIMIZER_FN void optimizer_third(int op, struct optimizer_numbers *k, i64 begin, i64 n,
                                  GLOBAL elem *p, GLOBAL const elem *g, GLOBAL acc *c0,
                                  GLOBAL acc *c1, GLOBAL acc *c2)
{
    k->third = c2 != 0;
    if (c2) optimizer_run(op, 3, k, begin, n, p, g, c0, c1, c2);
    else optimizer_run(op, 2, k, begin, n, p, g, c0, c1, c2);
}

KFN void optimizer_step_span(const struct optimizer_args *a, i64 begin, i64 n, GLOBAL elem *p,
                             GLOBAL const elem *g, GLOBAL acc *c0, GLOBAL acc *c1, GLOBAL acc *c2,
                             GLOBAL const acc *rate, GLOBAL const acc *power1,
                             GLOBAL const acc *power2, GLOBAL const acc *norm)
{
    struct optimizer_numbers k = optimizer_numbers(a, rate, power1, power2, norm);

    switch (a->op) {
    case OPTIMIZER_momentum:
        optimizer_run(OPTIMIZER_momentum, 1, &k, begin, n, p, g, c0, c1, c2);
        break;
    case OPTIMIZER_adam: optimizer_third(OPTIMIZER_adam, &k, begin, n, p, g, c0, c1, c2); break;
    case OPTIMIZER_adamw: optimizer_third(OPTIMIZER_adamw, &k, begin, n, p, g, c0, c1, c2); break;
    case OPTIMIZER_adamax:
        optimizer_run(OPTIMIZER_adamax, 2, &k, begin, n, p, g, c0, c1, c2);
        break;
    case OPTIMIZER_adagrad:
        optimizer_run(OPTIMIZER_adagrad, 1, &k, begin, n, p, g, c0, c1, c2);
        break;
    case OPTIMIZER_adadelta:
        optimizer_run(OPTIMIZER_adadelta, 2, &k, begin, n, p, g, c0, c1, c2);
        break;
    case OPTIMIZER_rmsprop:
        optimizer_third(OPTIMIZER_rmsprop, &k, begin, n, p, g, c0, c1, c2);
        break;
    case OPTIMIZER_moments:
        optimizer_run(OPTIMIZER_moments, 2, &k, begin, n, p, g, c0, c1, c2);
        break;
    case OPTIMIZER_lamb: optimizer_run(OPTIMIZER_lamb, 2, &k, begin, n, p, g, c0, c1, c2); break;
    default: optimizer_run(OPTIMIZER_lars, 1, &k, begin, n, p, g, c0, c1, c2); break;
    }
}
ENTRY_SPANS_9(optimizer_step, elem, const elem, acc, acc, acc, const acc, const acc, const acc,
              const acc)

/* Computes two sums over one part: the squares of the parameters, and the squares of the lamb
 * update or of the gradients. */
KFN void optimizer_norms_team(const struct optimizer_norms_args *a, i64 part, LOCAL acc *scratch,
                              GLOBAL acc *sum, GLOBAL const elem *p, GLOBAL const elem *g,
                              GLOBAL const acc *c0, GLOBAL const acc *c1, GLOBAL const acc *rate,
                              GLOBAL const acc *power1, GLOBAL const acc *power2)
{
    struct optimizer_numbers k = optimizer_numbers(&a->s, rate, power1, power2, 0);
    i64 from = part * OPTIMIZER_PART,
        n = a->n - from < OPTIMIZER_PART ? a->n - from : OPTIMIZER_PART;
    int lamb = a->s.op == OPTIMIZER_lamb;
    acc own = 0, other = 0;

    FOR_LANES(i, n)
    {
        acc x = elem_get(p[from + i]);
        acc y = lamb ? optimizer_lamb_update(&k, x, c0[from + i], c1[from + i])
                     : elem_get(g[from + i]);
        own += x * x;
        other += y * y;
    }
    own = team_sum(own, scratch);
    other = team_sum(other, scratch);
    if (LANE == 0) {
        sum[part] = own;
        sum[a->parts + part] = other;
    }
}
ENTRY_TEAMS_8(optimizer_norms, acc, const elem, const elem, const acc, const acc, const acc,
              const acc, const acc)

/* The factor of the learning rate, from the norm of the parameters (own) and the other norm. */
KFN acc optimizer_factor(const struct optimizer_norms_args *a, acc own, acc other)
{
    acc decay = number(a->s.decay), epsilon = number(a->s.epsilon);

    if (!(own > 0 && other > 0)) return 1;
    if (a->s.op == OPTIMIZER_lamb) return own / other;
    if (!(decay > 0)) return 1;
    return number(a->s.coefficient) * own / (other + decay * own + epsilon);
}

KFN void optimizer_factor_span(const struct optimizer_factor_args *a, i64 begin, i64 n,
                               GLOBAL acc *factor, GLOBAL const acc *sum)
{
    for (i64 at = begin; at < begin + n; at++) {
        acc own = 0, other = 0;
        for (i64 i = 0; i < a->n.parts; i++) {
            own += sum[i];
            other += sum[a->n.parts + i];
        }
        factor[at] = optimizer_factor(&a->n, MATH(sqrt)(own), MATH(sqrt)(other));
    }
}
ENTRY_SPANS_2(optimizer_factor, acc, const acc)

/* Multiplies the powers by beta for the next step. power2 may be NULL. */
KFN void optimizer_powers_span(const struct optimizer_powers_args *a, i64 begin, i64 n,
                               GLOBAL acc *power1, GLOBAL acc *power2)
{
    for (i64 i = begin; i < begin + n; i++) {
        power1[0] *= number(a->beta1);
        if (power2) power2[0] *= number(a->beta2);
    }
}
ENTRY_SPANS_2(optimizer_powers, acc, acc)

KFN void unscale_span(const struct unscale_args *a, i64 begin, i64 n, GLOBAL u8 *found,
                      GLOBAL elem *y, GLOBAL const elem *x, GLOBAL const acc *scale)
{
    acc factor = 1 / scale[0];
    int wrong = 0;

    if (a->begin) {
        *found = 0;
        return;
    }
    for (i64 i = begin; i < begin + n; i++) {
        elem value = elem_put(elem_get(x[i]) * factor);
        acc back = elem_get(value);
        wrong |= !(back - back == 0);
        y[i] = value;
    }
    if (wrong) *found = 1;
}
ENTRY_SPANS_4(unscale, u8, elem, const elem, const acc)

KFN void loss_scale_span(const struct loss_scale_args *a, i64 begin, i64 n, GLOBAL elem *scale,
                         GLOBAL i32 *good, GLOBAL i32 *bad, GLOBAL const u8 *found)
{
    for (i64 i = begin; i < begin + n; i++) {
        acc was = elem_get(scale[0]);
        i64 steps = (i64)(*found ? *bad : *good) + 1, many = 0;
        many = steps >= (*found ? a->shrink_after : a->grow_after);
        if (many) {
            acc next = was * number(*found ? a->shrink : a->grow);
            if (*found) next = next < 1 ? 1 : next;
            else next = next - next == 0 ? next : was;
            scale[0] = elem_put(next);
            steps = 0;
        }
        *bad = (i32)(*found ? steps : 0);
        *good = (i32)(*found ? 0 : steps);
    }
}
ENTRY_SPANS_4(loss_scale, elem, i32, i32, const u8)

#undef OPTIMIZER_FN
#endif

#endif
