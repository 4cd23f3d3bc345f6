/* SPDX-License-Identifier: Apache-2.0 */
/* cases.c: builds cases of reductions except sum, and of argmax and argmin. The attributes of
 * reductions begin with axes and keep; those of argmax and argmin begin with one axis. */
#include "../common/cases.h"
#include <backplane/kernel.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

cases_fn cases_reduce_more, cases_norm, cases_norm_grad, cases_arg_minmax;

static const struct {
    const char *shape;
    int n;
    int64_t axes[4];
    bool keep, quick;
} reductions[] = {
    {"scalar", 0, {0}, false, true},
    {"1", 0, {0}, false, false},
    {"0", 0, {0}, false, true},
    {"3x0", 1, {0}, false, false},
    {"3x0", 1, {1}, true, false},
    {"17", 1, {0}, true, false},
    {"63", 0, {0}, false, false},
    {"65", 1, {-1}, false, true},
    {"5x7", 0, {0}, true, false},
    {"5x7", 1, {0}, false, true},
    {"5x7", 1, {1}, true, true},
    {"5x1", 1, {1}, false, false},
    {"1x5", 1, {0}, false, false},
    {"3x4x5", 1, {1}, true, true},
    {"3x4x5", 2, {0, 2}, false, true},
    {"3x4x5", 2, {-1, 1}, false, false},
    {"2x3x2x3x5", 2, {1, 3}, false, false},
    {"2x3x2x3x5", 3, {0, 2, 4}, true, false},
    {"1x2x1x2x2x2x1x3", 4, {1, 3, 5, 7}, false, false},
    {"2x3x2x3x2x2x3x2", 4, {0, 2, 4, 6}, false, false},
    {"31x67", 1, {0}, false, false},
    {"3x131", 1, {1}, false, false},
};
enum { N_REDUCTIONS = sizeof reductions / sizeof *reductions };

/* So many terms that a device divides them into more partial results than one lane joins; one dtype
 * is enough. */
static const struct {
    const char *shape;
    int64_t axis;
} in_many_parts[] = {{"2x1081357", 1}, {"36109x31", 0}};
enum { N_LONG = sizeof in_many_parts / sizeof *in_many_parts };

static bool reduce_cases_is(const struct case_builder *builder, const char *names)
{
    size_t n = strlen(builder->op->name);

    for (const char *at = strstr(names, builder->op->name); at;
         at = strstr(at + 1, builder->op->name))
        if ((at == names || at[-1] == ' ') && (at[n] == ' ' || !at[n])) return true;
    return false;
}

static struct kernel_case *reduce_cases_reduction(const struct case_builder *builder,
                                                  const char *shape, int n, const int64_t *axes,
                                                  bool keep)
{
    static const double odd[] = {3, -5, 7, 11, -1};
    static const double even[] = {1.5, 0.625, -1, 1.0625, 1.00390625};
    static const double exact[] = {2, 0.5, -1, 4, 0.25, 2, -0.5}; /* avoids a sum of roundings */
    struct kernel_case *made = case_begin(builder, shape);
    const char *last = strrchr(shape, 'x');
    bool is_long = strtoll(shape, NULL, 10) > 1000 || (last && strtoll(last + 1, NULL, 10) > 1000);

    made->attrs.sum.axes = case_dims(made, 0, n, axes);
    made->attrs.sum.keep = keep;
    if (reduce_cases_is(builder, "prod") && case_is_complex(builder))
        case_data(made, DATA_POSITIVE);
    else if (reduce_cases_is(builder, "prod") && is_long && case_is_float(builder))
        case_list(made, 0, 7, exact);
    else if (reduce_cases_is(builder, "prod") && case_is_float(builder))
        case_list(made, 0, 5, even);
    else if (reduce_cases_is(builder, "prod")) case_list(made, 0, 5, odd);
    else if (reduce_cases_is(builder, "any all count_nonzero")) case_data(made, DATA_SPARSE);
    return made;
}

/* Names the axes: "axes0_2" or "all"; keep adds ".keep". A negative axis is written n1. */
static void name_axes(const struct kernel_case *made, char *text, size_t size)
{
    const struct bp_dims *axes = &made->attrs.sum.axes;
    int used = snprintf(text, size, axes->n ? "axes" : "all");

    for (int64_t i = 0; i < axes->n; i++)
        used += snprintf(text + used, size - (size_t)used, "%s%s%lld", i ? "_" : "",
                         axes->at[i] < 0 ? "n" : "",
                         (long long)(axes->at[i] < 0 ? -axes->at[i] : axes->at[i]));
    if (made->attrs.sum.keep) snprintf(text + used, size - (size_t)used, ".keep");
}

/* Whether the reduction has no terms: no terms have no largest one. */
static bool takes_nothing(const char *shape, int n, const int64_t *axes)
{
    return (!strcmp(shape, "0") && !n) || (!strcmp(shape, "3x0") && n && axes[0] == 1);
}

static void of_data(const struct case_builder *builder, const char *shape, int64_t axis,
                    enum data data, const char *what)
{
    struct kernel_case *made = reduce_cases_reduction(builder, shape, axis >= 0, &axis, false);

    case_data(made, data);
    made->quick = true;
    case_end(builder, made, "%s", what);
}

static void of_values(const struct case_builder *builder)
{
    static const double few[] = {1, 0, 0, 0, 0, 0, 0}, zero[] = {0}, one[] = {1};
    struct kernel_case *made;

    if (reduce_cases_is(builder, "any all count_nonzero")) {
        for (int i = 0; i < 3; i++) {
            made = reduce_cases_reduction(builder, i == 1 ? "9x70" : "67x7", 1, &(int64_t){i != 1},
                                          false);
            case_list(made, 0, i == 0 ? 7 : 1, i == 0 ? few : i == 1 ? zero : one);
            case_end(builder, made, "%s", i == 0 ? "few" : i == 1 ? "zeros" : "ones");
        }
        of_data(builder, "33x5", 1, DATA_ZERO, "signed-zeros");
        return;
    }
    if (reduce_cases_is(builder, "prod")) {
        of_data(builder, "5x9", 1, DATA_PLAIN, "plain");
        of_data(builder, "5x9", 0, DATA_EXACT, "exact");
        /* The languages that define complex numbers leave products of complex infinities open. */
        if (!case_is_float(builder) || case_is_complex(builder)) return;
        of_data(builder, "31x5", 1, DATA_NONFINITE, "nonfinite");
        of_data(builder, "5x31", 0, DATA_NONFINITE, "nonfinite");
        return;
    }
    of_data(builder, "3x1031", 1, DATA_EXACT, "exact");
    of_data(builder, "131x3", 0, DATA_POSITIVE, "positive");
    if (!case_is_float(builder)) {
        of_data(builder, "7x67", 1, DATA_SPECIAL, "special");
        return;
    }
    of_data(builder, "7x67", 1, DATA_NONFINITE, "nonfinite");
    of_data(builder, "67x7", 0, DATA_NONFINITE, "nonfinite");
    of_data(builder, "5x64", 1, DATA_WIDE, "wide");
    of_data(builder, "40", -1, DATA_ZERO, "zeros");
    if (reduce_cases_is(builder, "max min amax amin"))
        of_data(builder, "7x67", 1, DATA_SPECIAL, "special");
    if (reduce_cases_is(builder, "nansum nanmean"))
        of_data(builder, "9x31", 1, DATA_SPARSE, "sparse");
}

/* With few terms, the error is closest to its bound. */
static void of_few(const struct case_builder *builder)
{
    static const char *const shape[] = {"131x2", "131x3", "131x1", "3x131"};

    if (!case_is_float(builder) || !builder->op->terms) return;
    for (int i = 0; i < 8; i++) {
        int64_t axis = i % 4 < 3;
        struct kernel_case *made = reduce_cases_reduction(builder, shape[i % 4], 1, &axis, false);
        case_data(made, i < 4 ? DATA_POSITIVE : DATA_PLAIN);
        case_end(builder, made, "few%d", i);
    }
}

/* Adds cases with extents that no list has. Operators that select or count run with numbers of any
 * exponent; in others a partial result could overflow in one order and not in another. */
static void of_extents(const struct case_builder *builder)
{
    static const int64_t last = -1;
    bool any = reduce_cases_is(builder, "max min amax amin any all count_nonzero");
    bool wild = reduce_cases_is(builder, "prod") &&
                case_is_complex(builder); /* products of hundreds overflow */
    char drawn[32];

    case_drawn_shape(builder, drawn, sizeof drawn);
    for (int64_t axis = 0; axis < 2 && !wild; axis++)
        case_end(builder, reduce_cases_reduction(builder, drawn, 1, &axis, false), "axes%d.drawn",
                 (int)axis);
    case_extents(builder, reduce_cases_reduction(builder, "3x1", 1, &last, false), "sweep");
    if (!any || !case_is_float(builder) || case_is_complex(builder)) return;
    of_data(builder, "3x1031", 1, DATA_RANGE, "range");
    of_data(builder, "131x3", 0, DATA_RANGE, "range");
}

static void of_gradient(const struct case_builder *builder)
{
    bool smooth = reduce_cases_is(builder,
                                  "mean prod logsumexp var std norm frobenius_norm nansum nanmean");
    struct kernel_case *made;

    if (!case_is_float(builder) || case_is_complex(builder)) return;
    if (reduce_cases_is(builder, "any all count_nonzero")) return;
    for (int i = 0; i < 2; i++) {
        made = reduce_cases_reduction(builder, "3x2x4", i ? 2 : 0, (int64_t[]){0, -1}, i);
        case_data(made, smooth ? DATA_POSITIVE : DATA_APART); /* avoids ties */
        made->gradient = smooth ? 2 : 1;
        case_end(builder, made, "gradient%d", i);
    }
}

void cases_reduce_more(struct case_builder *builder)
{
    bool minmax = reduce_cases_is(builder, "max min amax amin");
    struct kernel_case *made;
    char name[64];

    for (int i = 0; i < N_REDUCTIONS; i++) {
        if (minmax && takes_nothing(reductions[i].shape, reductions[i].n, reductions[i].axes))
            continue;
        made = reduce_cases_reduction(builder, reductions[i].shape, reductions[i].n,
                                      reductions[i].axes, reductions[i].keep);
        made->quick = reductions[i].quick;
        name_axes(made, name, sizeof name);
        case_end(builder, made, "%s", name);
    }
    for (int64_t axis = 0; axis < 3; axis++) {
        made = reduce_cases_reduction(builder, "5x6x7", 1, &axis, false);
        name_axes(made, name, sizeof name);
        case_layouts(builder, made, name, false);
    }
    if (!reduce_cases_is(builder, "prod") || !case_is_complex(builder))
        for (int i = 0; i < 2; i++) { /* partial results */
            made = reduce_cases_reduction(builder, i ? "9001x9" : "98317", i, (int64_t[]){0},
                                          false);
            case_end(builder, made, "long");
        }
    if (reduce_cases_is(builder, "prod max count_nonzero") && builder->dtype[0] == BP_F32)
        for (int i = 0; i < N_LONG; i++) {
            made = reduce_cases_reduction(builder, in_many_parts[i].shape, 1,
                                          &in_many_parts[i].axis, false);
            case_end(builder, made, "parts");
        }
    of_values(builder);
    of_extents(builder);
    of_few(builder);
    of_gradient(builder);
    if (!reduce_cases_is(builder, "var std") || !case_is_float(builder)) return;
    for (int i = 0; i < 3; i++) {
        made = reduce_cases_reduction(builder, i ? "3x65" : "7", i > 0, (int64_t[]){1}, false);
        made->attrs.var.unbiased = 0;
        made->in[0].data = i == 2 ? DATA_POSITIVE : DATA_PLAIN;
        case_end(builder, made, "biased%d", i);
    }
}

static const double orders[] = {0, 1, 2, 3, 0.5, 2.5, -1, INFINITY, -INFINITY};
enum { N_ORDERS = sizeof orders / sizeof *orders };

void cases_norm(struct case_builder *builder)
{
    struct kernel_case *made;
    char name[64];

    for (int i = 0; i < N_REDUCTIONS; i++) {
        made = reduce_cases_reduction(builder, reductions[i].shape, reductions[i].n,
                                      reductions[i].axes, reductions[i].keep);
        made->quick = reductions[i].quick;
        made->attrs.norm.p = i % 3;
        name_axes(made, name, sizeof name);
        case_end(builder, made, "p%d.%s", i % 3, name);
    }
    for (int i = 0; i < N_ORDERS; i++)
        for (int64_t axis = 0; axis < 2; axis++) {
            made = reduce_cases_reduction(builder, axis ? "5x131" : "67x9", 1, &axis, false);
            made->attrs.norm.p = orders[i];
            if (orders[i] < 0) case_data(made, DATA_POSITIVE);
            case_end(builder, made, "p%g", orders[i]);
            made = reduce_cases_reduction(builder, axis ? "7x67" : "67x7", 1, &axis, false);
            made->attrs.norm.p = orders[i];
            case_data(made, DATA_NONFINITE);
            if (orders[i] < 0 && isfinite(orders[i])) case_data(made, DATA_POSITIVE);
            case_end(builder, made, "p%g.nonfinite", orders[i]);
            made = reduce_cases_reduction(builder, axis ? "2x3" : "3x2", 1, &axis, true);
            made->attrs.norm.p = orders[i];
            case_data(made, DATA_POSITIVE);
            made->gradient = isfinite(orders[i]) && orders[i] != 0 && orders[i] != 1 ? 2 : 1;
            case_end(builder, made, "p%g.gradient", orders[i]);
        }
    for (int i = 0; i < 2; i++) {
        made = reduce_cases_reduction(builder, i ? "9001x9" : "98317", i, (int64_t[]){0}, false);
        case_end(builder, made, "long");
    }
    of_few(builder);
    made = reduce_cases_reduction(builder, "5x6x7", 1, (int64_t[]){1}, false);
    case_layouts(builder, made, "p2", false);
}

void cases_norm_grad(struct case_builder *builder)
{
    static const char *const shapes[] = {"0x3+1x3+1x3", "1+1+1", "5x17+5x1+5x1", "5x17+1x17+5x1",
                                         "2x3x4x5+1x3x1x5+1x3x1x5", "7x67+scalar+7x67",
                                         "3x2x3x2x3+2x1x2x1+3x1x3x1x1", "scalar+scalar+scalar"};
    struct kernel_case *made;

    for (int p = 0; p < N_ORDERS; p++)
        for (int i = 0; i < 8; i++) {
            if (orders[p] != 2 && i != 2 && i != 4 && i != p % 8) continue;
            made = case_begin(builder, shapes[i]);
            made->attrs.norm_grad.p = orders[p];
            made->in[1].data = isinf(orders[p]) ? DATA_EXACT : DATA_POSITIVE;
            if (isinf(orders[p])) made->in[0].data = DATA_EXACT;
            if (orders[p] < 0) made->in[0].data = DATA_POSITIVE;
            made->quick = orders[p] == 2;
            case_end(builder, made, "p%g", orders[p]);
        }
    made = case_begin(builder, "5x17+5x1+5x1");
    made->in[1].data = made->in[0].data = DATA_SPARSE;
    case_end(builder, made, "sparse");
    made = case_begin(builder, "3x2+3x1+3x1");
    case_data(made, DATA_POSITIVE);
    made->gradient = 2;
    case_end(builder, made, "gradient");
    made = case_begin(builder, "5x6x7+5x1x7+5x1x7");
    made->in[1].data = DATA_POSITIVE;
    case_layouts(builder, made, "p2", false);
}

static struct kernel_case *reduce_cases_arg(const struct case_builder *builder, const char *shape,
                                            int64_t axis, bool keep, bool flatten)
{
    struct kernel_case *made = case_begin(builder, shape);

    made->attrs.argmax.axis = axis;
    made->attrs.argmax.keep = keep;
    made->attrs.argmax.flatten = flatten;
    made->attrs.argmax.dtype = builder->dtype[1];
    return made;
}

void cases_arg_minmax(struct case_builder *builder)
{
    static const struct {
        const char *shape;
        int64_t axis;
        bool keep, flatten, quick;
    } cases[] = {
        {"1", 0, false, false, true},         {"scalar", 0, false, true, false},
        {"3x0", 0, true, false, false},       {"65", 0, true, false, true},
        {"5x7", 0, false, false, true},       {"5x7", -1, false, false, true},
        {"5x7", 0, true, true, true},         {"3x4x5", 1, true, false, true},
        {"2x3x2x3x5", 2, false, false, false}, {"2x3x2x3x5", 0, false, true, false},
        {"67x70", 0, false, false, false},    {"3x1031", 1, false, false, false},
        {"98317", 0, false, false, false},    {"9001x9", 0, false, false, false},
        {"521x190", 0, false, true, false},
    };
    static const enum data data[] = {DATA_EXACT, DATA_NONFINITE, DATA_SPECIAL, DATA_ZERO,
                                     DATA_RANGE};
    static const char *const name[] = {"ties", "nonfinite", "special", "zeros", "range"};
    struct kernel_case *made;
    char drawn[32];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        made = reduce_cases_arg(builder, cases[i].shape, cases[i].axis, cases[i].keep,
                                cases[i].flatten);
        made->quick = cases[i].quick;
        case_end(builder, made, "axis%lld%s%s", (long long)cases[i].axis,
                 cases[i].keep ? ".keep" : "", cases[i].flatten ? ".flat" : "");
    }
    for (int i = 0; reduce_cases_is(builder, "argmax") && builder->dtype[0] == BP_F32 && i < N_LONG;
         i++) {
        made = reduce_cases_arg(builder, in_many_parts[i].shape, in_many_parts[i].axis, false,
                                false);
        case_end(builder, made, "parts");
    }
    case_drawn_shape(builder, drawn, sizeof drawn);
    for (int64_t axis = 0; axis < 2; axis++)
        case_end(builder, reduce_cases_arg(builder, drawn, axis, false, false), "axis%d.drawn",
                 (int)axis);
    case_extents(builder, reduce_cases_arg(builder, "3x1", 1, false, false), "sweep");
    for (int i = 0; i < COUNT(data); i++)
        for (int64_t axis = 0; axis < 2; axis++) {
            made = reduce_cases_arg(builder, axis ? "7x1067" : "67x70", axis, false, false);
            case_data(made, data[i]);
            case_end(builder, made, "axis%lld.%s", (long long)axis, name[i]);
        }
    made = reduce_cases_arg(builder, "5x6x7", 1, false, false);
    case_layouts(builder, made, "axis1", false);
}
