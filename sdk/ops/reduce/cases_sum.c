/* SPDX-License-Identifier: Apache-2.0 */
/* cases_sum.c: builds cases of sums over axes and of their gradient. */
#include "../common/cases.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

cases_fn cases_reduce, cases_sum_grad;

static const struct {
    const char *shape;
    int n;
    int64_t axes[4];
    bool quick;
} sums[] = {
    {"scalar", 0, {0}, true},
    {"1", 0, {0}, true},
    {"0", 0, {0}, true},
    {"3x0", 1, {0}, false},
    {"3x0", 1, {1}, false},
    {"0x3", 1, {0}, true},
    {"17", 1, {0}, false},
    {"15", 0, {0}, false},
    {"16", 0, {0}, false},
    {"33", 0, {0}, false},
    {"63", 0, {0}, false},
    {"65", 1, {-1}, false},
    {"5x7", 0, {0}, true},
    {"5x7", 1, {0}, true},
    {"5x7", 1, {1}, true},
    {"5x7", 1, {-2}, false},
    {"5x7", 2, {1, 0}, false},
    {"5x1", 1, {1}, false},
    {"1x5", 1, {0}, false},
    {"3x4x5", 1, {1}, true},
    {"3x4x5", 2, {0, 2}, true},
    {"3x4x5", 2, {-1, 1}, false},
    {"2x3x2x3x5", 2, {1, 3}, true},
    {"2x3x2x3x5", 3, {0, 2, 4}, false},
    {"2x1x2x3x1x4", 2, {2, 4}, false},
    {"1x2x1x2x2x2x1x3", 4, {1, 3, 5, 7}, false},
    {"64x65", 1, {0}, false},
    {"65x64", 1, {1}, false},
    {"1031", 0, {0}, false},
    {"3x4099", 1, {1}, false},
    {"4099x3", 1, {0}, false},
    {"257x255", 0, {0}, false},
};
enum {
    N_SUMS = sizeof sums / sizeof *sums
};

/* Names the axes: "axes0_2" or "all"; keep adds ".keep". A negative axis is written n1. */
static const char *axes_name(const struct bp_dims *axes, bool keep, char *text, size_t size)
{
    int used = snprintf(text, size, axes->n ? "axes" : "all");

    for (int64_t i = 0; i < axes->n; i++)
        used += snprintf(text + used, size - (size_t)used, "%s%s%lld", i ? "_" : "",
                         axes->at[i] < 0 ? "n" : "",
                         (long long)(axes->at[i] < 0 ? -axes->at[i] : axes->at[i]));
    if (keep) snprintf(text + used, size - (size_t)used, ".keep");
    return text;
}

static struct kernel_case *sum_begin(const struct case_builder *builder, const char *shape, int n,
                                     const int64_t *axes, bool keep)
{
    struct kernel_case *made = case_begin(builder, shape);

    made->attrs.sum.axes = case_dims(made, 0, n, axes);
    made->attrs.sum.keep = keep;
    return made;
}

static void sum_data(const struct case_builder *builder, const char *shape, int64_t axis,
                     enum data data, const char *what)
{
    struct kernel_case *made = sum_begin(builder, shape, 1, &axis, false);

    case_data(made, data);
    made->quick = true;
    case_end(builder, made, "axes%lld.%s", (long long)axis, what);
}

void cases_reduce(struct case_builder *builder)
{
    static const int64_t last = -1;
    char name[64];

    for (int i = 0; i < N_SUMS; i++)
        for (int keep = 0; keep < 2; keep++) {
            struct kernel_case *made = sum_begin(builder, sums[i].shape, sums[i].n, sums[i].axes,
                                                 keep);
            case_smooth(made, 2);
            made->quick = sums[i].quick && !keep;
            case_end(builder, made, "%s",
                     axes_name(&made->attrs.sum.axes, keep, name, sizeof name));
        }
    for (int64_t axis = 0; axis < 3; axis++) {
        struct kernel_case *made = sum_begin(builder, "5x6x7", 1, &axis, false);
        case_layouts(builder, made, axes_name(&made->attrs.sum.axes, false, name, sizeof name),
                     false);
    }
    case_extents(builder, sum_begin(builder, "3x1", 1, &last, false), "sweep");
    sum_data(builder, "3x1031", 1, DATA_EXACT, "exact");
    sum_data(builder, "1031x3", 0, DATA_EXACT, "exact");
    sum_data(builder, "16411", 0, DATA_EXACT, "exact");
    sum_data(builder, "3x4099", 1, DATA_POSITIVE, "positive");
    sum_data(builder, "4099x3", 0, DATA_POSITIVE, "positive");
    case_drawn_shape(builder, name, sizeof name);
    for (int64_t axis = 0; axis < 2; axis++) sum_data(builder, name, axis, DATA_POSITIVE, "drawn");
    /* No data of any exponent: whether a partial sum overflows depends on the order of
     * additions. */
    if (case_is_float(builder)) sum_data(builder, "7x67", 1, DATA_ZERO, "zeros");
    if (case_is_float(builder)) sum_data(builder, "7x67", 1, DATA_NONFINITE, "nonfinite");
    else sum_data(builder, "7x67", 1, DATA_SPECIAL, "special");
    if (case_is_float(builder)) sum_data(builder, "67x7", 0, DATA_NONFINITE, "nonfinite");
}

/* Writes the shape of the forward's result as text, then the shape of its input. */
static void grad_shapes(int i, bool keep, char *text, size_t size)
{
    struct kernel_input x = {0};
    bool is[REF_RANK] = {0};
    const char *at = sums[i].shape;
    int used = 0;

    while (*at && strcmp(sums[i].shape, "scalar")) {
        x.shape[x.rank++] = strtoll(at, (char **)&at, 10);
        if (*at == 'x') at++;
    }
    for (int a = 0; a < x.rank; a++) is[a] = sums[i].n == 0;
    for (int a = 0; a < sums[i].n; a++) is[ref_axis(sums[i].axes[a], x.rank)] = true;
    for (int a = 0; a < x.rank; a++)
        if (!is[a] || keep)
            used += snprintf(text + used, size - (size_t)used, "%s%lld", used ? "x" : "",
                             (long long)(is[a] ? 1 : x.shape[a]));
    snprintf(text + used, size - (size_t)used, "%s+%s", used ? "" : "scalar", sums[i].shape);
}

void cases_sum_grad(struct case_builder *builder)
{
    char name[64], shapes[96];

    for (int i = 0; i < N_SUMS; i++)
        for (int keep = 0; keep < 2; keep++) {
            struct kernel_case *made;
            grad_shapes(i, keep, shapes, sizeof shapes);
            made = sum_begin(builder, shapes, sums[i].n, sums[i].axes, keep);
            made->quick = sums[i].quick && !keep;
            made->in[0].data = DATA_SPECIAL;
            made->in[1].data = DATA_UNREAD;
            case_smooth(made, 2);
            axes_name(&made->attrs.sum.axes, keep, name, sizeof name);
            if (!strcmp(sums[i].shape, "3x4x5") && !keep) case_layouts(builder, made, name, false);
            else case_end(builder, made, "%s", name);
        }
}
