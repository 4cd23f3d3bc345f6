/* SPDX-License-Identifier: Apache-2.0 */
/* cases_more.c: cases of pools that are written in other operators. */
#include "cases.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

cases_fn cases_lp_pool, cases_adaptive_pool, cases_global_pool, cases_max_unpool, cases_maxout;

static uint32_t wide(const struct case_maker *maker)
{
    uint32_t dtype = maker->dtype[0];

    return case_wide(dtype);
}

static void needs(const struct case_maker *maker, struct kernel_case *made, const char *a,
                  const char *b)
{
    if (maker->row) return;
    if (a) case_needs(made, a, wide(maker));
    if (b) case_needs(made, b, wide(maker));
    if (wide(maker) != maker->dtype[0]) {
        case_needs(made, "cast", maker->dtype[0]);
        case_needs(made, "cast", BP_F32);
    }
}

void cases_lp_pool(struct case_maker *maker)
{
    static const double order[] = {2, 1, 3, 1.5};

    for (int i = 0; i < n_pool_case; i++)
        for (int k = 0; k < 4; k++) {
            const struct pool_case *p = &pool_case[i];
            bool small = strstr(p->variant, ".small") != NULL;
            struct kernel_case *made;
            if (!small && i % 8 != k && (k || p != pool_case_find("2d.pad"))) continue;
            made = pool_case_begin(maker, p, p->x);
            made->attrs.lp_pool.p = order[k];
            needs(maker, made, "avg_pool", k == 0 ? "sqrt" : k == 1 ? "abs" : "pow");
            case_data(made, small || i % 3 ? DATA_POSITIVE : DATA_PLAIN);
            if (small) made->gradient = 2;
            if (k == 0 && (i == 8 || p == pool_case_find("2d.pad")))
                case_layouts(maker, made, p->variant, false);
            else case_end(maker, made, "%s.p%g", p->variant, order[k]);
        }
}

static const struct {
    const char *x;
    int64_t extents[3];
    bool smooth;
} parts[] = {
    {"1x2x7", {3, 1, 1}, true},       {"1x2x4x5", {2, 3, 1}, true},
    {"1x1x3x2x4", {2, 2, 3}, true},   {"2x3x17", {5, 1, 1}, false},
    {"0x3x5x4", {2, 2, 1}, false},    {"1x1x1x1", {1, 1, 1}, false},
    {"2x3x9x8", {1, 1, 1}, false},    {"2x5x12x8", {4, 4, 1}, false},
    {"1x3x31x33", {7, 7, 1}, false},  {"2x3x5x6x7", {3, 4, 2}, false},
    {"1x17x3x3", {5, 2, 1}, false},   {"1x2x1031", {2, 1, 1}, false},
    {"1x5x2x131", {2, 131, 1}, false}, {"1x3x67x2", {30, 1, 1}, false},
    {"3x7x96x5", {32, 5, 1}, false},
};

/* adaptive_avg_pool and adaptive_max_pool. */
void cases_adaptive_pool(struct case_maker *maker)
{
    bool max = case_is(maker, "adaptive_max_pool");

    for (int i = 0; i < COUNT(parts); i++)
        for (int again = 0; again < 2; again++) {
            struct kernel_case *made;
            if (again && i % 3) continue;
            made = case_begin(maker, parts[i].x);
            memcpy(made->attrs.adaptive_avg_pool.extents, parts[i].extents,
                   sizeof parts[i].extents); /* it comes first in both */
            if (max) made->attrs.adaptive_max_pool.dtype = maker->dtype[2];
            needs(maker, made, max ? "max_pool" : "avg_pool",
                  max ? "max_pool_with_index" : "sum");
            if (!max) case_needs(made, "scale", wide(maker));
            case_data(made, again            ? DATA_EXACT
                            : parts[i].smooth ? DATA_APART
                            : i % 2           ? DATA_POSITIVE
                                              : DATA_PLAIN);
            made->quick = i < 6;
            if (parts[i].smooth && !again) made->gradient = 2;
            if (i == 1 && !again && !max) case_layouts(maker, made, "parts", false);
            else if (i == 1 && !again) case_part_layouts(maker, made, 2, "parts");
            else if (max) case_parts(maker, made, 2, again ? "exact" : "parts");
            else case_end(maker, made, again ? "exact" : "parts");
        }
}

void cases_global_pool(struct case_maker *maker)
{
    static const char *const shapes[] = {"1x2x5",   "1x2x3x3",  "1x2x2x3x2", "0x3x4x4", "1x1x1x1",
                                         "2x3x9x8", "2x17x1x5", "3x5x31x33", "2x2x3x4x5",
                                         "131x3x2", "67x3x3",   "1x2x1031"};
    bool max = case_is(maker, "global_max_pool"), norm = case_is(maker, "global_lp_pool");

    for (int i = 0; i < COUNT(shapes); i++)
        for (int flat = 0; flat < 2; flat++) {
            struct kernel_case *made = case_begin(maker, shapes[i]);
            made->attrs.global_avg_pool.flat = flat; /* it comes first in all */
            if (norm) made->attrs.global_lp_pool.p = i % 3 ? 2 : 1;
            needs(maker, made, max ? "max" : norm ? "norm" : "sum", max || norm ? NULL : "scale");
            case_data(made, i < 3 ? max ? DATA_APART : DATA_POSITIVE
                            : flat ? DATA_POSITIVE
                                   : DATA_PLAIN);
            made->quick = i < 6;
            if (i < 3) made->gradient = max ? 1 : 2;
            if (i == 1) case_layouts(maker, made, flat ? "flat" : "kept", false);
            else case_end(maker, made, flat ? "flat" : "kept");
        }
}

/* Places of y, each named once at most. */
static const struct {
    const char *variant, *shapes;
    int64_t extents[3];
    bool whole, columns;
    int n;
    double index[12];
} unpools[] = {
    {"1d", "1x2x3+1x2x3", {7, 1, 1}, false, false, 3, {1, 6, 3}},
    {"2d", "1x2x2x2+1x2x2x2", {3, 4, 1}, false, false, 4, {0, 7, 11, 4}},
    {"2d.columns", "1x2x2x2+1x2x2x2", {3, 4, 1}, false, true, 4, {0, 7, 11, 4}},
    {"2d.whole", "1x2x2x2+1x2x2x2", {3, 4, 1}, true, false, 8, {0, 7, 11, 4, 12, 20, 23, 14}},
    {"2d.whole.columns", "2x1x2x2+2x1x2x2", {3, 4, 1}, true, true, 8,
     {0, 7, 11, 4, 12, 20, 23, 14}},
    {"2d.from-end", "1x2x2x2+1x2x2x2", {3, 4, 1}, false, false, 4, {0, -1, 1, -12}},
    {"2d.last-wins", "1x2x2x2+1x2x2x2", {3, 4, 1}, false, false, 4, {5, 5, 5, 2}},
    {"3d", "2x3x1x2x2+2x3x1x2x2", {2, 3, 4}, false, false, 4, {23, 0, 9, 4}},
    {"3d.columns", "2x3x1x2x2+2x3x1x2x2", {2, 3, 4}, false, true, 4, {23, 0, 9, 4}},
    {"empty", "0x3x2x2+0x3x2x2", {4, 4, 1}, false, false, 1, {0}},
    {"one", "1x1x1+1x1x1", {1, 1, 1}, false, false, 1, {0}},
    {"2d.many", "3x17x2x2+3x17x2x2", {15, 17, 1}, false, false, 4, {254, 0, 16, 17}},
};

void cases_max_unpool(struct case_maker *maker)
{
    for (int i = 0; i < COUNT(unpools); i++) {
        struct kernel_case *made = case_begin(maker, unpools[i].shapes);
        struct bp_max_unpool_attrs *a = &made->attrs.max_unpool;
        memcpy(a->extents, unpools[i].extents, sizeof a->extents);
        a->whole = unpools[i].whole;
        a->column_major = unpools[i].columns;
        needs(maker, made, "put_along_axis", "sum");
        made->in[1].dtype = maker->dtype[2];
        case_list(made, 1, unpools[i].n, unpools[i].index);
        made->quick = i < 4;
        if (i < 5) made->gradient = 2;
        if (i == 1) case_layouts(maker, made, unpools[i].variant, false);
        else case_end(maker, made, "%s", unpools[i].variant);
    }
}

void cases_maxout(struct case_maker *maker)
{
    static const struct {
        const char *x;
        int64_t groups, axis;
        enum data data;
    } some[] = {{"2x6x3", 3, 1, DATA_APART},        {"3x2x6", 2, -1, DATA_APART},
                {"0x4x3", 2, 1, DATA_PLAIN},        {"4x0x3", 2, 1, DATA_PLAIN},
                {"5x1", 1, 1, DATA_PLAIN},          {"2x34x5x7", 17, 1, DATA_NONFINITE},
                {"33x4x17", 2, 1, DATA_EXACT},      {"2x3x4x2x1x2x3", 4, 2, DATA_PLAIN},
                {"3x15", 5, -1, DATA_SPECIAL}};

    for (int i = 0; i < COUNT(some); i++) {
        struct kernel_case *made = case_begin(maker, some[i].x);
        made->attrs.maxout.groups = some[i].groups;
        made->attrs.maxout.axis = some[i].axis;
        needs(maker, made, "max", NULL);
        case_data(made, some[i].data);
        made->quick = i < 4;
        if (i < 2) made->gradient = 1;
        if (i == 0) case_layouts(maker, made, "groups", false);
        else case_end(maker, made, "groups%lld", (long long)some[i].groups);
    }
}
