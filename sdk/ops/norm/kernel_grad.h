/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_grad.h: computes gradients of the operators of kernel.h: that of x group by group, and
 * those of scale and bias, which are sums over the elements that share one parameter. */
#ifndef BP_OPS_NORM_KERNEL_GRAD_H
#define BP_OPS_NORM_KERNEL_GRAD_H

#include "kernel_group.h"

/* dx = r (g - all - h along) with h = (x - mean) r. */
struct norm_slope {
    acc mean, r, all, along;
};

KFN struct norm_slope norm_slope(const struct norm_plan *p, struct norm_stats s, acc sum_g,
                                 acc sum_gd)
{
    struct norm_slope k;
    acc n = (acc)p->terms;

    k.mean = s.mean;
    k.r = s.r;
    k.all = p->centre ? sum_g / n : 0;
    k.along = sum_gd * s.r / n;
    return k;
}

KFN elem norm_dx(struct norm_slope k, acc g, acc x)
{
    return elem_put(k.r * (g - k.all - (x - k.mean) * k.r * k.along));
}

/* The statistics that the forward saved for group number j of the team; mean NULL: 0. */
KFN struct norm_stats norm_saved(const struct norm_plan *p, const struct norm_base *b, i64 j,
                                 GLOBAL const acc *mean, GLOBAL const acc *r)
{
    struct norm_stats s = {0, 0, 0};

    if (mean) s.mean = mean[b->at[NORM_MEAN] + j * norm_next(p, NORM_MEAN)];
    s.r = r[b->at[NORM_R] + j * norm_next(p, NORM_R)];
    return s;
}

#ifdef ON_HOST
/* Two sums over a contiguous line: of g = dy scale, and of g (x - mean). */
KFN void norm_sum_pairs(const struct norm_plan *p, const elem *x, const elem *dy,
                        const void *scale, i64 at_scale, i64 ss, i64 n, acc mean, acc *sum_g,
                        acc *sum_gd)
{
    acc s = 0, t = 0, factor = ss ? 0 : norm_param(p, scale, at_scale, 1);

    if (ss == 1 && !p->wide_params) {
        const elem *f = (const elem *)scale + at_scale;
        SIMD_SUM(s, t) for (i64 i = 0; i < n; i++) {
            acc g = elem_get(dy[i]) * elem_get(f[i]);
            s += g;
            t += g * (elem_get(x[i]) - mean);
        }
    } else if (!ss) {
        SIMD_SUM(s, t) for (i64 i = 0; i < n; i++) {
            acc g = elem_get(dy[i]) * factor;
            s += g;
            t += g * (elem_get(x[i]) - mean);
        }
    } else {
        for (i64 i = 0; i < n; i++) {
            acc g = elem_get(dy[i]) * norm_param(p, scale, at_scale + i * ss, 1);
            s += g;
            t += g * (elem_get(x[i]) - mean);
        }
    }
    *sum_g = s;
    *sum_gd = t;
}

KFN void norm_dx_run(const struct norm_plan *p, elem *dx, const elem *x, const elem *dy,
                     const void *scale, i64 at_scale, i64 ss, i64 n, struct norm_slope k)
{
    acc factor = ss ? 0 : norm_param(p, scale, at_scale, 1);

    if (ss == 1 && !p->wide_params) {
        const elem *f = (const elem *)scale + at_scale;
        SIMD for (i64 i = 0; i < n; i++)
            dx[i] = norm_dx(k, elem_get(dy[i]) * elem_get(f[i]), elem_get(x[i]));
    } else if (!ss) {
        SIMD for (i64 i = 0; i < n; i++)
            dx[i] = norm_dx(k, elem_get(dy[i]) * factor, elem_get(x[i]));
    } else {
        for (i64 i = 0; i < n; i++)
            dx[i] = norm_dx(k, elem_get(dy[i]) * norm_param(p, scale, at_scale + i * ss, 1),
                            elem_get(x[i]));
    }
}

KFN void norm_grad_row(const struct norm_plan *p, const struct norm_base *b, elem *dx,
                       const elem *x, const elem *dy, const void *scale, struct norm_stats s)
{
    struct norm_slope k;
    i64 run = norm_run(p), ss = norm_step(p, NORM_SCALE);
    double sum_g = 0, sum_gd = 0;

    for (i64 line = 0; line * run < p->terms; line++) {
        const elem *at_x = x + norm_line(p, NORM_X, line);
        const elem *at_dy = dy + norm_line(p, NORM_DY, line);
        i64 at_scale = b->at[NORM_SCALE] + norm_line(p, NORM_SCALE, line);
        for (i64 i = 0; i < run; i += NORM_BLOCK) {
            acc g, gd;
            norm_sum_pairs(p, at_x + i, at_dy + i, scale, at_scale + i * ss, ss,
                           run - i < NORM_BLOCK ? run - i : NORM_BLOCK, s.mean, &g, &gd);
            sum_g += (double)g;
            sum_gd += (double)gd;
        }
    }
    k = norm_slope(p, s, (acc)sum_g, (acc)sum_gd);
    for (i64 line = 0; line * run < p->terms; line++)
        norm_dx_run(p, dx + norm_line(p, NORM_Y, line), x + norm_line(p, NORM_X, line),
                    dy + norm_line(p, NORM_DY, line), scale,
                    b->at[NORM_SCALE] + norm_line(p, NORM_SCALE, line), ss, run, k);
}

/* Gradients of neighbouring groups, each of which has one scale. */
KFN void norm_grad_columns(const struct norm_plan *p, const struct norm_base *b, elem *dx,
                           const elem *x, const elem *dy, const void *scale,
                           const struct norm_stats *s)
{
    i64 run = norm_run(p), sx = norm_step(p, NORM_X), sd = norm_step(p, NORM_DY),
        sy = norm_step(p, NORM_Y), n = b->n, lines = 0;
    acc mean[NORM_COLUMNS], r[NORM_COLUMNS], factor[NORM_COLUMNS], all[NORM_COLUMNS] = {0},
        along[NORM_COLUMNS] = {0};
    double sum_g[NORM_COLUMNS] = {0}, sum_gd[NORM_COLUMNS] = {0};

    for (i64 j = 0; j < n; j++) {
        mean[j] = s[j].mean;
        r[j] = s[j].r;
        factor[j] = norm_param(p, scale, b->at[NORM_SCALE] + j * norm_next(p, NORM_SCALE), 1);
    }
    for (i64 line = 0; line * run < p->terms; line++) {
        const elem *at_x = x + norm_line(p, NORM_X, line);
        const elem *at_dy = dy + norm_line(p, NORM_DY, line);
        for (i64 i = 0; i < run; i++, at_x += sx, at_dy += sd) {
            SIMD for (i64 j = 0; j < n; j++) {
                acc g = elem_get(at_dy[j]) * factor[j];
                all[j] += g;
                along[j] += g * (elem_get(at_x[j]) - mean[j]);
            }
            if (++lines % NORM_LINES) continue;
            norm_flush(all, sum_g, n);
            norm_flush(along, sum_gd, n);
        }
    }
    norm_flush(all, sum_g, n);
    norm_flush(along, sum_gd, n);
    for (i64 j = 0; j < n; j++) {
        struct norm_slope k = norm_slope(p, s[j], (acc)sum_g[j], (acc)sum_gd[j]);
        all[j] = k.all;
        along[j] = k.along;
    }
    for (i64 line = 0; line * run < p->terms; line++) {
        const elem *at_x = x + norm_line(p, NORM_X, line);
        const elem *at_dy = dy + norm_line(p, NORM_DY, line);
        elem *to = dx + norm_line(p, NORM_Y, line);
        for (i64 i = 0; i < run; i++, at_x += sx, at_dy += sd, to += sy) {
            SIMD for (i64 j = 0; j < n; j++) {
                struct norm_slope k = {mean[j], r[j], all[j], along[j]};
                to[j] = norm_dx(k, elem_get(at_dy[j]) * factor[j], elem_get(at_x[j]));
            }
        }
    }
}

/* As norm_host; also writes the statistics that normalize_params reads, unless they are saved. */
KFN int norm_grad_host(const struct norm_plan *p, const struct norm_base *b, elem *dx,
                       const elem *x, const elem *dy, const void *scale, acc *mean, acc *r)
{
    struct norm_stats s[NORM_COLUMNS];
    i64 n = b->n;

    for (i64 j = 0; p->saved && j < n; j++) s[j] = norm_saved(p, b, j, mean, r);
    if (norm_is_row(p, NORM_X) && norm_is_row(p, NORM_Y) && norm_is_row(p, NORM_DY)) {
        if (!p->saved) s[0] = norm_measure_row(p, x);
        norm_grad_row(p, b, dx, x, dy, scale, s[0]);
    } else {
        if (!norm_is_column(p, NORM_X) || !norm_is_column(p, NORM_Y) ||
            !norm_is_column(p, NORM_DY))
            return 0;
        for (i64 axis = p->outer; axis < p->outer + p->inner; axis++)
            if (p->stride[NORM_SCALE][axis]) return 0;
        if (!p->saved) norm_measure_columns(p, x, n, s);
        norm_grad_columns(p, b, dx, x, dy, scale, s);
    }
    for (i64 j = 0; mean && !p->saved && j < n; j++) {
        mean[b->at[NORM_MEAN] + j * norm_next(p, NORM_MEAN)] = s[j].mean;
        r[b->at[NORM_R] + j * norm_next(p, NORM_R)] = s[j].r;
    }
    return 1;
}
#endif

/* Computes dx. Reads mean and r of each group if they are saved, else writes them unless they are
 * NULL. */
KFN void normalize_grad_team(const struct normalize_grad_args *a, i64 team, LOCAL acc *scratch,
                             GLOBAL elem *dx, GLOBAL const elem *x, GLOBAL const void *scale,
                             GLOBAL const elem *dy, GLOBAL acc *mean, GLOBAL acc *r)
{
    const struct norm_plan *p = &a->p;
    struct norm_base b;

    norm_find(p, team, &b);
#ifdef ON_HOST
    if (norm_grad_host(p, &b, dx + b.at[NORM_Y], x + b.at[NORM_X], dy + b.at[NORM_DY], scale, mean,
                       r))
        return;
#endif
    NORM_ROUNDS(p, round, b.n)
    {
        struct norm_share own = norm_share(p, round, b.n);
        i64 j = own.j;
        GLOBAL const elem *at_x = x + b.at[NORM_X] + j * norm_next(p, NORM_X);
        GLOBAL const elem *at_dy = dy + b.at[NORM_DY] + j * norm_next(p, NORM_DY);
        GLOBAL elem *to = dx + b.at[NORM_Y] + j * norm_next(p, NORM_Y);
        i64 at_scale = b.at[NORM_SCALE] + j * norm_next(p, NORM_SCALE);
        struct norm_stats s;
        struct norm_slope k;
        acc sum_g = 0, sum_gd = 0;
        if (p->saved) s = norm_saved(p, &b, j, mean, r);
        else s = norm_measure(p, own.terms, at_x, scratch);
        if (mean && !p->saved && own.writes) {
            mean[b.at[NORM_MEAN] + j * norm_next(p, NORM_MEAN)] = s.mean;
            r[b.at[NORM_R] + j * norm_next(p, NORM_R)] = s.r;
        }
        NORM_TERMS(p, own.terms, w)
        {
            acc g = elem_get(at_dy[norm_term(p, NORM_DY, &w)]) *
                    norm_param(p, scale, at_scale + norm_term(p, NORM_SCALE, &w), 1);
            sum_g += g;
            sum_gd += g * (elem_get(at_x[norm_term(p, NORM_X, &w)]) - s.mean);
        }
        sum_g = norm_join(p, sum_g, scratch);
        sum_gd = norm_join(p, sum_gd, scratch);
        k = norm_slope(p, s, sum_g, sum_gd);
        NORM_TERMS(p, own.terms, w)
        {
            acc g = elem_get(at_dy[norm_term(p, NORM_DY, &w)]) *
                    norm_param(p, scale, at_scale + norm_term(p, NORM_SCALE, &w), 1);
            to[norm_term(p, NORM_Y, &w)] =
                norm_dx(k, g, elem_get(at_x[norm_term(p, NORM_X, &w)]));
        }
    }
}

/* Writes a gradient of a parameter; here a group has one parameter. `param` may be NULL. */
KFN void norm_put_param(const struct norm_plan *p, GLOBAL void *param, i64 at, acc s)
{
    if (!param) return;
    if (p->wide_params) ((GLOBAL acc *)param)[at] = s;
    else ((GLOBAL elem *)param)[at] = elem_put(s);
}

#ifdef ON_HOST
KFN int norm_params_columns(const struct norm_plan *p, const struct norm_base *b, void *dscale,
                            void *dbias, const elem *x, const elem *dy, const acc *mean,
                            const acc *r)
{
    i64 run = norm_run(p), sx = norm_step(p, NORM_X), sd = norm_step(p, NORM_DY), n = b->n;
    i64 lines = 0, sm = norm_step(p, NORM_MEAN), sr = norm_step(p, NORM_R);
    i64 next = norm_next(p, NORM_R);
    acc sum[NORM_COLUMNS] = {0}, product[NORM_COLUMNS] = {0};
    double sums[NORM_COLUMNS] = {0}, products[NORM_COLUMNS] = {0};

    if (!norm_is_column(p, NORM_X) || !norm_is_column(p, NORM_DY) || next > 1) return 0;
    if (next != norm_next(p, NORM_MEAN)) return 0;
    for (i64 line = 0; line * run < p->terms; line++) {
        const elem *at_x = x + norm_line(p, NORM_X, line);
        const elem *at_dy = dy + norm_line(p, NORM_DY, line);
        i64 of = b->at[NORM_MEAN] + norm_line(p, NORM_MEAN, line);
        i64 by = b->at[NORM_R] + norm_line(p, NORM_R, line);
        for (i64 i = 0; i < run; i++, at_x += sx, at_dy += sd, of += sm, by += sr) {
            acc m = mean ? mean[of] : 0, f = r[by];
            if (next) { /* which rms_norm, without a mean, does not have: groups are lines */
                SIMD for (i64 j = 0; j < n; j++) {
                    acc d = elem_get(at_dy[j]);
                    sum[j] += d;
                    product[j] += d * ((elem_get(at_x[j]) - mean[of + j]) * r[by + j]);
                }
            } else {
                SIMD for (i64 j = 0; j < n; j++) {
                    acc d = elem_get(at_dy[j]);
                    sum[j] += d;
                    product[j] += d * ((elem_get(at_x[j]) - m) * f);
                }
            }
            if (++lines % NORM_LINES) continue;
            norm_flush(sum, sums, n);
            norm_flush(product, products, n);
        }
    }
    norm_flush(sum, sums, n);
    norm_flush(product, products, n);
    for (i64 j = 0; j < n; j++) {
        norm_put_param(p, dscale, b->at[NORM_SCALE] + j * norm_next(p, NORM_SCALE),
                       (acc)products[j]);
        norm_put_param(p, dbias, b->at[NORM_BIAS] + j * norm_next(p, NORM_BIAS), (acc)sums[j]);
    }
    return 1;
}

/* Handles contiguous lines, each of which is within one group of x. */
KFN int norm_params_row(const struct norm_plan *p, const struct norm_base *b, void *dscale,
                        void *dbias, const elem *x, const elem *dy, const acc *mean, const acc *r)
{
    i64 run = norm_run(p);
    double sums = 0, products = 0;

    if (!norm_is_row(p, NORM_X) || !norm_is_row(p, NORM_DY)) return 0;
    if (norm_step(p, NORM_MEAN) || norm_step(p, NORM_R)) return 0;
    for (i64 line = 0; line * run < p->terms; line++) {
        const elem *at_x = x + norm_line(p, NORM_X, line);
        const elem *at_dy = dy + norm_line(p, NORM_DY, line);
        i64 of = b->at[NORM_R] + norm_line(p, NORM_R, line);
        acc m = mean ? mean[b->at[NORM_MEAN] + norm_line(p, NORM_MEAN, line)] : 0;
        for (i64 i = 0; i < run; i += NORM_BLOCK) {
            i64 n = run - i < NORM_BLOCK ? run - i : NORM_BLOCK;
            acc s = 0, t = 0;
            SIMD_SUM(s, t) for (i64 k = i; k < i + n; k++) {
                acc d = elem_get(at_dy[k]);
                s += d;
                t += d * (elem_get(at_x[k]) - m);
            }
            sums += (double)s;
            products += (double)t * (double)r[of];
        }
    }
    norm_put_param(p, dscale, b->at[NORM_SCALE], (acc)products);
    norm_put_param(p, dbias, b->at[NORM_BIAS], (acc)sums);
    return 1;
}
#endif

/* Here a group is the elements that share one parameter. mean and r have the strides of the groups
 * of x, so that each term reads the statistics of the group of x that it belongs to. mean NULL:
 * 0. */
KFN void normalize_params_team(const struct normalize_params_args *a, i64 team, LOCAL acc *scratch,
                               GLOBAL void *dscale, GLOBAL void *dbias, GLOBAL const elem *x,
                               GLOBAL const elem *dy, GLOBAL const acc *mean, GLOBAL const acc *r)
{
    const struct norm_plan *p = &a->p;
    struct norm_base b;

    norm_find(p, team, &b);
#ifdef ON_HOST
    if (norm_params_columns(p, &b, dscale, dbias, x + b.at[NORM_X], dy + b.at[NORM_DY], mean, r) ||
        norm_params_row(p, &b, dscale, dbias, x + b.at[NORM_X], dy + b.at[NORM_DY], mean, r))
        return;
#endif
    NORM_ROUNDS(p, round, b.n)
    {
        struct norm_share own = norm_share(p, round, b.n);
        i64 j = own.j;
        GLOBAL const elem *at_x = x + b.at[NORM_X] + j * norm_next(p, NORM_X);
        GLOBAL const elem *at_dy = dy + b.at[NORM_DY] + j * norm_next(p, NORM_DY);
        i64 at_mean = b.at[NORM_MEAN] + j * norm_next(p, NORM_MEAN);
        i64 at_r = b.at[NORM_R] + j * norm_next(p, NORM_R);
        acc sum = 0, product = 0;
        NORM_TERMS(p, own.terms, w)
        {
            acc d = elem_get(at_dy[norm_term(p, NORM_DY, &w)]);
            acc h = elem_get(at_x[norm_term(p, NORM_X, &w)]);
            if (mean) h -= mean[at_mean + norm_term(p, NORM_MEAN, &w)];
            sum += d;
            product += d * (h * r[at_r + norm_term(p, NORM_R, &w)]);
        }
        sum = norm_join(p, sum, scratch);
        product = norm_join(p, product, scratch);
        if (own.writes) {
            norm_put_param(p, dscale, b.at[NORM_SCALE] + j * norm_next(p, NORM_SCALE), product);
            norm_put_param(p, dbias, b.at[NORM_BIAS] + j * norm_next(p, NORM_BIAS), sum);
        }
    }
}

#endif
