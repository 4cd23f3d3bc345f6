/* SPDX-License-Identifier: Apache-2.0 */
/* cases.c: builds cases of scatter operators, whose indices may name one position several times. */
#include "../common/cases.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

cases_fn cases_index_add, cases_scatter, cases_scatter_nd, cases_scatter_nd_put,
    cases_put_along_axis, cases_segment_pool, cases_segment_pool_grad, cases_bincount;

/* Data for sums: random signs, small integers, one sign. */
static enum data sum_data(size_t i)
{
    return i % 3 == 0 ? DATA_PLAIN : i % 3 == 1 ? DATA_EXACT : DATA_POSITIVE;
}

static const struct {
    const char *variant, *shapes;
    int64_t axis, extent;
    bool quick;
} adds[] = {
    {"none", "3x4+0+0x4", 0, 3, true},          {"one", "1+1+1", 0, 1, false},
    {"line", "7+11+11", 0, 7, true},            {"axis0", "3x4+5+5x4", 0, 3, true},
    {"axis1", "3x4+5+3x5", 1, 4, true},         {"middle", "2x5x3+4+2x4x3", 1, 5, false},
    {"last", "2x3x16+9+2x3x9", -1, 16, false},  {"width", "4x15+9+9x15", 0, 4, false},
    {"width", "4x65+9+9x65", 0, 4, false},      {"rank5", "2x3x4x2x3+6+2x3x6x2x3", 2, 4, false},
    {"several", "1x3+1031+1031x3", 0, 1, false},  {"pairs", "3+65+65", 0, 3, false},
    {"long", "129x67+257+257x67", 0, 129, false},
};

void cases_index_add(struct case_builder *builder)
{
    for (int i = 0; i < COUNT(adds); i++) {
        struct kernel_case *made = case_begin(builder, adds[i].shapes);
        made->attrs.index_add.axis = adds[i].axis;
        case_data(made, sum_data(i));
        case_index(made, 1, builder->dtype[2], -adds[i].extent, adds[i].extent);
        made->quick = adds[i].quick;
        made->gradient = i == 3 || i == 4 ? 2 : 0;
        if (i == 5) case_layouts(builder, made, adds[i].variant, true);
        else case_end(builder, made, "%s", adds[i].variant);
    }
}

static const struct {
    const char *variant, *shapes;
    int64_t extent;
} rows[] = {
    {"none", "3x4+0+0x4", 3},   {"one", "1+1+1", 1},          {"line", "5+9+9", 5},
    {"rows", "5x3+4+4x3", 5},   {"column", "5x3+4x1+4x3", 5}, {"planes", "4x2x3+7+7x2x3", 4},
    {"width", "6x17+9+9x17", 6}, {"several", "2x3+65+65x3", 2}, {"long", "129x67+513+513x67", 129},
};

void cases_scatter(struct case_builder *builder)
{
    static const double once[] = {3, 0, 4, 1};

    for (int i = 0; i < COUNT(rows); i++)
        for (int overwrite = 0; overwrite < 2; overwrite++) {
            struct kernel_case *made = case_begin(builder, rows[i].shapes);
            char variant[48];
            made->attrs.scatter.overwrite = overwrite;
            case_data(made, sum_data(i));
            case_index(made, 1, builder->dtype[2], -rows[i].extent, rows[i].extent);
            if (i == 3 || i == 4) case_list(made, 1, (int)COUNT(once), once);
            made->gradient = i == 3 || i == 4 ? 2 : 0;
            made->quick = i < 4;
            snprintf(variant, sizeof variant, "%s%s", rows[i].variant, overwrite ? "" : ".sum");
            if (i == 5) case_layouts(builder, made, variant, true);
            else case_end(builder, made, "%s", variant);
        }
}

static const struct {
    const char *variant, *x, *index, *updates;
    int n;
    int64_t shape[8], extent;
    bool quick;
} named[] = {
    {"none", "3x4", "0x1", "0x4", 2, {3, 4}, 3, true},
    {"line", "7", "11x1", "11", 1, {7}, 7, true},
    {"elements", "3x3", "5x2", "5", 2, {3, 3}, 3, true},
    {"rows", "4x5", "3x1", "3x5", 2, {4, 5}, 4, true},
    {"one-row", "4x5", "1", "5", 2, {4, 5}, 4, false},
    {"planes", "3x3x4", "2x5x2", "2x5x4", 3, {3, 3, 4}, 3, false},
    {"all-of-it", "3x4", "3x0", "3x3x4", 2, {3, 4}, 1, false},
    {"width", "4x17", "9x1", "9x17", 2, {4, 17}, 4, false},
    {"rank8", "2x2x2x2x2x2x2x3", "4x6", "4x2x3", 8, {2, 2, 2, 2, 2, 2, 2, 3}, 2, false},
    {"several", "2x2", "65x2", "65", 2, {2, 2}, 2, false},
    {"long", "11x13x67", "257x2", "257x67", 3, {11, 13, 67}, 11, false},
};

void cases_scatter_nd(struct case_builder *builder)
{
    static const uint32_t hosts[] = {0, BP_I64, BP_I32};
    char shapes[96];

    for (int i = 0; i < COUNT(named); i++)
        for (int host = 0; host < (i < 4 ? 3 : 1); host++) {
            struct kernel_case *made;
            snprintf(shapes, sizeof shapes, "%s+%s", named[i].index, named[i].updates);
            made = case_begin(builder, shapes);
            made->attrs.scatter_nd.shape = case_dims(made, 0, named[i].n, named[i].shape);
            case_data(made, sum_data(i));
            case_index(made, 0, builder->dtype[2], -named[i].extent, named[i].extent);
            made->host = hosts[host];
            made->quick = named[i].quick;
            made->gradient = i == 2 || i == 3 ? 2 : 0;
            if (i == 5) case_layouts(builder, made, named[i].variant, false);
            else
                case_end(builder, made, "%s%s", named[i].variant,
                         !host       ? ""
                         : host == 1 ? ".host-i64"
                                     : ".host-i32");
        }
}

/* Cases of scatter_nd_add and scatter_nd_update. */
void cases_scatter_nd_put(struct case_builder *builder)
{
    static const double once[] = {2, 0, 1};
    bool add = !strcmp(builder->op->name, "scatter_nd_add");
    char shapes[96];

    for (int i = 0; i < COUNT(named); i++) {
        struct kernel_case *made;
        snprintf(shapes, sizeof shapes, "%s+%s+%s", named[i].x, named[i].index, named[i].updates);
        made = case_begin(builder, shapes);
        case_data(made, sum_data(i));
        if (!add && i % 2) case_data(made, DATA_SPECIAL);
        case_index(made, 1, builder->dtype[2], -named[i].extent, named[i].extent);
        if (i == 3) {
            case_data(made, DATA_PLAIN);
            case_list(made, 1, (int)COUNT(once), once);
            made->gradient = 2;
        }
        made->quick = named[i].quick;
        if (i == 5) case_layouts(builder, made, named[i].variant, true);
        else case_end(builder, made, "%s", named[i].variant);
    }
}

static const struct {
    const char *variant, *x, *index;
    int64_t axis, extent;
    bool quick;
} writes[] = {
    {"none", "3x4", "3x0", 1, 4, true},
    {"one", "1", "1", 0, 1, false},
    {"line", "7", "11", 0, 7, true},
    {"axis0", "3x4", "2x4", 0, 3, true},
    {"axis1", "3x4", "3x3", 1, 4, true},
    {"fewer", "5x4x3", "2x6x2", 1, 4, true},
    {"last", "2x3x17", "2x3x16", -1, 17, false},
    {"rank5", "2x3x4x2x3", "2x3x5x2x3", 2, 4, false},
    {"rank8", "2x1x2x3x1x2x2x2", "1x1x2x4x1x2x1x2", 3, 3, false},
    {"several", "2x3", "17x3", 0, 2, false},
    {"long", "129x67", "257x67", 0, 129, false},
};

void cases_put_along_axis(struct case_builder *builder)
{
    static const char *const name[] = {"", ".add", ".multiply"};
    static const double once[] = {1, 2, 0, 1, 2, 0, 1, 2}; /* of 2 x 4: unique in each column */
    static const double transposed[] = {1, 3, 0, 2, 0, 1, 3, 0, 2};
    char shapes[96];

    for (int i = 0; i < COUNT(writes); i++)
        for (int reduce = 0; reduce < 3; reduce++) {
            struct kernel_case *made;
            char variant[48];
            if (i > 5 && (int)i % 3 != reduce) continue;
            snprintf(shapes, sizeof shapes, "%s+%s+%s", writes[i].x, writes[i].index,
                     writes[i].index);
            made = case_begin(builder, shapes);
            made->attrs.put_along_axis.axis = writes[i].axis;
            made->attrs.put_along_axis.reduce = reduce;
            case_data(made, reduce == 2 ? DATA_POSITIVE : reduce ? sum_data(i) : DATA_PLAIN);
            case_index(made, 1, builder->dtype[2], -writes[i].extent, writes[i].extent);
            if (i == 3) case_list(made, 1, (int)COUNT(once), once);
            if (i == 4) case_list(made, 1, (int)COUNT(transposed), transposed);
            made->gradient = i == 3 || i == 4 ? 2 : 0;
            made->quick = writes[i].quick;
            snprintf(variant, sizeof variant, "%s%s", writes[i].variant, name[reduce]);
            if (i == 5) case_layouts(builder, made, variant, true);
            else case_end(builder, made, "%s", variant);
        }
}

/* Ascending ids: runs, gaps, and segments of one row. */
static const double ids[] = {0, 0, 0, 1, 3, 3, 4, 4, 4, 4, 4, 6, 7, 7, 9, 9, 9};
static const double plain_ids[] = {0, 0, 1, 2, 2, 2};

static const struct {
    const char *variant, *x;
    int64_t segments;
    const double *list;
} pools[] = {
    {"no-rows", "0x3", 4, ids},     {"no-columns", "5x0", 4, ids}, {"line", "17", 10, ids},
    {"gaps", "17x3", 12, ids},      {"rows", "6x3", 3, plain_ids}, {"planes", "12x2x5", 8, ids},
    {"width", "17x16", 10, ids},    {"width", "17x67", 10, ids},   {"long", "600x7", 3, NULL},
};

/* Returns 600 ids of three segments. */
static const double *long_ids(void)
{
    static double list[600];

    for (int i = 0; i < 600; i++) list[i] = i < 70 ? 0 : i < 71 ? 1 : 2;
    return list;
}

static void scatter_cases_segments(struct kernel_case *made, const struct case_builder *builder,
                                   size_t i)
{
    made->in[1].dtype = builder->dtype[2];
    case_list(made, 1, pools[i].list ? 17 : 600, pools[i].list ? pools[i].list : long_ids());
    if (pools[i].list == plain_ids) made->in[1].n_list = 6;
}

static void rows_of(const char *x, char *text, size_t size)
{
    snprintf(text, size, "%.*s", (int)strcspn(x, "x"), x);
}

void cases_segment_pool(struct case_builder *builder)
{
    static const char *const name[] = {"sum", "mean", "largest", "smallest"};
    char shapes[96], n[16];

    for (int i = 0; i < COUNT(pools); i++)
        for (int mode = 0; mode < 4; mode++) {
            struct kernel_case *made;
            rows_of(pools[i].x, n, sizeof n);
            snprintf(shapes, sizeof shapes, "%s+%s", pools[i].x, n);
            made = case_begin(builder, shapes);
            case_data(made, mode >= 2 && i == 6 ? DATA_NONFINITE : sum_data(i));
            scatter_cases_segments(made, builder, i);
            made->attrs.segment_pool.segments = pools[i].segments;
            made->attrs.segment_pool.mode = mode;
            made->quick = i < 5;
            made->gradient = i == 4 && case_is_float(builder) ? 2 : 0;
            if (made->gradient) made->in[0].data = DATA_PLAIN;
            made->host = i == 2 && mode ? mode == 1 ? BP_I64 : BP_I32 : 0;
            if (i == 5) case_layouts(builder, made, name[mode], false);
            else
                case_end(builder, made, "%s.%s%s", pools[i].variant, name[mode],
                         made->host ? ".host" : "");
        }
}

/* y is not the result of a pool, but some of its elements are equal to those of x: both are small
 * integers. */
void cases_segment_pool_grad(struct case_builder *builder)
{
    char shapes[128], n[16], y[32];

    for (int i = 0; i < COUNT(pools); i++)
        for (int mode = 0; mode < 4; mode++) {
            struct kernel_case *made;
            rows_of(pools[i].x, n, sizeof n);
            snprintf(y, sizeof y, "%lld%s", (long long)pools[i].segments, pools[i].x + strlen(n));
            snprintf(shapes, sizeof shapes, "%s+%s+%s+%s", pools[i].x, n, y, y);
            made = case_begin(builder, shapes);
            case_data(made, DATA_EXACT);
            made->in[3].data = DATA_PLAIN;
            scatter_cases_segments(made, builder, i);
            made->attrs.segment_pool_grad.segments = pools[i].segments;
            made->attrs.segment_pool_grad.mode = mode;
            made->quick = i < 5;
            made->gradient = i == 4 && mode < 2 ? 2 : 0; /* others have a kink where x equals y */
            if (i == 5) case_layouts(builder, made, "planes", false);
            else case_end(builder, made, "%s%d", pools[i].variant, mode);
        }
}

static void scatter_cases_bincount(const struct case_builder *builder, const char *x, int64_t bins,
                                   bool weights, size_t i, uint32_t host)
{
    struct kernel_case *made;
    char shapes[64];

    snprintf(shapes, sizeof shapes, "%s+%s", x, weights ? x : "-");
    made = case_begin(builder, shapes);
    made->attrs.bincount.bins = bins;
    case_index(made, 0, builder->dtype[2], 0, bins ? bins : 1);
    made->in[1].data = sum_data(i);
    made->host = host;
    made->quick = i < 3;
    made->gradient = i == 2 && weights ? 2 : 0;
    if (i == 3 && !host) case_layouts(builder, made, weights ? "weights" : "counts", false);
    else
        case_end(builder, made, "%s%s.%lld", weights ? "weights" : "counts",
                 !host            ? ""
                 : host == BP_I64 ? ".host-i64"
                                  : ".host-i32",
                 (long long)bins);
}

void cases_bincount(struct case_builder *builder)
{
    static const struct {
        const char *x;
        int64_t bins;
    } some[] = {{"0", 3},  {"scalar", 2}, {"7", 5},       {"3x5", 4},
                {"65", 1}, {"20000", 17}, {"70001", 9000}};

    for (int i = 0; i < COUNT(some); i++)
        for (int weights = 0; weights < 2; weights++) {
            if (!weights && builder->dtype[0] != BP_I64) continue;
            scatter_cases_bincount(builder, some[i].x, some[i].bins, weights, i, 0);
            if (i == 2)
                scatter_cases_bincount(builder, some[i].x, some[i].bins, weights, i, BP_I64);
            if (i == 2)
                scatter_cases_bincount(builder, some[i].x, some[i].bins, weights, i, BP_I32);
        }
}
