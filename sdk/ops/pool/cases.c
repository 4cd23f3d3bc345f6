/* SPDX-License-Identifier: Apache-2.0 */
/* cases.c: builds cases of pooling operators and their gradients, all from one list of
 * geometries. */
#include "../common/cases.h"
#include <backplane/kernel.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

cases_fn cases_max_pool, cases_max_pool_grad, cases_avg_pool, cases_avg_pool_grad, cases_lp_pool,
    cases_adaptive_pool, cases_global_pool, cases_max_unpool, cases_maxout;

struct pool_case {
    const char *variant, *x;
    int64_t window[3], stride[3], dilation[3], pad[6];
    bool ceil, adaptive, quick;
};

#define FAR ((int64_t)1 << 40)
#define ONES {1, 1, 1}
#define NONE {0, 0, 0, 0, 0, 0}
#define PAD(a, b) {a, a, 0, b, b, 0}

/* Cases named "small" also test gradients: no window has its largest element twice, or a second
 * element close to the largest. */
static const struct pool_case pool_case[] = {
    {"1d.small", "1x2x7", {3, 1, 1}, {2, 1, 1}, ONES, {1, 0, 0, 1, 0, 0}, false, false, false},
    {"2d.small", "1x2x4x5", {2, 3, 1}, {1, 2, 1}, ONES, {1, 1, 0, 0, 1, 0}, true, false, false},
    {"2d.small-parts", "1x2x4x5", {3, 2, 1}, ONES, ONES, NONE, false, true, false},
    {"3d.small", "1x1x3x3x4", {2, 2, 2}, {1, 2, 2}, {2, 1, 2}, NONE, false, false, false},
    {"1d", "2x3x17", {3, 1, 1}, ONES, ONES, NONE, false, false, true},
    {"1d.width", "1x3x130", {3, 1, 1}, ONES, ONES, {1, 0, 0, 1, 0, 0}, false, false, false},
    {"1d.stride", "1x2x131", {5, 1, 1}, {2, 1, 1}, ONES, {2, 0, 0, 1, 0, 0}, false, false, false},
    {"1d.dilation", "1x2x67", {3, 1, 1}, {3, 1, 1}, {5, 1, 1}, {7, 0, 0, 9, 0, 0}, true, false,
     false},
    {"1d.parts", "2x2x19", {7, 1, 1}, ONES, ONES, NONE, false, true, false},
    {"2d.one", "1x1x1x1", ONES, ONES, ONES, NONE, false, false, true},
    {"2d.empty", "0x3x5x5", {2, 2, 1}, ONES, ONES, NONE, false, false, true},
    {"2d.no-channels", "2x0x5x5", {2, 2, 1}, ONES, ONES, NONE, false, false, false},
    {"2d", "2x3x9x8", {2, 2, 1}, {2, 2, 1}, ONES, NONE, false, false, true},
    {"2d.pad", "2x3x7x9", {3, 3, 1}, {2, 2, 1}, ONES, PAD(1, 1), false, false, true},
    {"2d.pad-uneven", "1x3x7x6", {3, 4, 1}, ONES, ONES, {2, 0, 0, 1, 3, 0}, false, false, true},
    {"2d.ceil", "1x2x8x8", {3, 3, 1}, {2, 2, 1}, ONES, NONE, true, false, true},
    {"2d.ceil-dropped", "1x2x6x5", {2, 2, 1}, {3, 3, 1}, ONES, PAD(1, 1), true, false, true},
    {"2d.ceil-larger", "1x2x2x3", {3, 3, 1}, {2, 2, 1}, ONES, NONE, true, false, false},
    {"2d.dilation", "1x3x12x11", {3, 2, 1}, ONES, {2, 3, 1}, PAD(2, 1), false, false, true},
    {"2d.jumps", "1x2x9x9", {2, 2, 1}, {5, 4, 1}, {3, 2, 1}, NONE, false, false, false},
    {"2d.whole", "2x3x5x4", {5, 4, 1}, ONES, ONES, NONE, false, false, false},
    {"2d.channels", "1x65x3x4", {2, 2, 1}, ONES, ONES, PAD(1, 0), false, false, false},
    {"2d.width15", "1x2x5x15", {3, 3, 1}, ONES, ONES, PAD(1, 1), false, false, false},
    {"2d.width66", "1x1x4x66", {3, 3, 1}, ONES, ONES, PAD(1, 1), false, false, false},
    {"2d.parts", "2x3x7x8", {3, 5, 1}, ONES, ONES, NONE, false, true, true},
    {"2d.parts-even", "1x3x6x8", {3, 2, 1}, ONES, ONES, NONE, false, true, true},
    {"2d.parts-more", "1x2x3x4", {7, 4, 1}, ONES, ONES, NONE, false, true, false},
    {"2d.parts-one", "2x3x5x6", {1, 1, 1}, ONES, ONES, NONE, false, true, false},
    {"3d", "1x2x5x6x7", {3, 2, 3}, ONES, ONES, NONE, false, false, true},
    {"3d.all", "2x2x7x8x9", {2, 3, 3}, {1, 2, 3}, {2, 1, 1}, {1, 0, 2, 0, 1, 1}, true, false,
     true},
    {"3d.parts", "1x2x5x4x7", {2, 3, 4}, ONES, ONES, NONE, false, true, false},
    {"2d.lines", "2x3x9x4", {3, 4, 1}, {2, 1, 1}, ONES, {1, 0, 0, 1, 0, 0}, false, false, false},
    /* Windows that are nearly all padding: a kernel may count the positions in padding, but must
     * not loop over them. */
    {"1d.far", "2x3x70", {FAR, 1, 1}, ONES, ONES, {FAR / 2, 0, 0, FAR / 2 - 1, 0, 0}, false, false,
     false},
    {"1d.far-jumps", "1x2x5", {4 * FAR, 1, 1}, {FAR, 1, 1}, ONES,
     {4 * FAR - 1, 0, 0, 4 * FAR - 1, 0, 0}, false, false, false},
    {"2d.far", "1x9x5x6", {FAR, FAR, 1}, ONES, {3, 2, 1},
     {2 * FAR, FAR, 0, FAR - 3, FAR - 2, 0}, false, false, false},
    {"2d.far-lines", "1x2x4x4", {FAR, 4, 1}, ONES, ONES, {FAR / 2, 0, 0, FAR / 2, 0, 0}, false,
     false, false},
};
enum { POOL_CASES = sizeof pool_case / sizeof *pool_case };

static const struct pool_case *pool_case_find(const char *variant)
{
    for (int i = 0; i < POOL_CASES; i++)
        if (!strcmp(pool_case[i].variant, variant)) return &pool_case[i];
    abort(); /* a name in this file is misspelt */
}

/* Writes the shape of a pool's result as text. */
static const char *pool_case_result(const struct pool_case *p, char *text, size_t size)
{
    char *at = (char *)p->x;
    int used = 0;

    for (int i = 0; *at; i++) {
        int64_t n = strtoll(at, &at, 10), k = i - 2, span, rest;
        if (*at == 'x') at++;
        if (i >= 2 && p->adaptive) n = p->window[k];
        if (i >= 2 && !p->adaptive) {
            span = (p->window[k] - 1) * p->dilation[k] + 1;
            rest = n + p->pad[k] + p->pad[k + 3] - span;
            int64_t count = rest < 0 ? 0 : rest / p->stride[k] + 1;
            if (p->ceil && rest % p->stride[k] && count * p->stride[k] < n + p->pad[k]) count++;
            n = count;
        }
        used += snprintf(text + used, size - (size_t)used, "%s%lld", i ? "x" : "", (long long)n);
    }
    return text;
}

/* Begins a case with these attributes; the attributes of every pool begin as those of max_pool. */
static struct kernel_case *pool_case_begin(const struct case_builder *builder,
                                           const struct pool_case *p, const char *shapes)
{
    struct kernel_case *made = case_begin(builder, shapes);
    struct bp_max_pool_attrs *a = &made->attrs.max_pool;

    memcpy(a->window, p->window, sizeof p->window);
    memcpy(a->stride, p->stride, sizeof p->stride);
    memcpy(a->dilation, p->dilation, sizeof p->dilation);
    memcpy(a->pad, p->pad, sizeof p->pad);
    a->ceil_mode = p->ceil;
    a->adaptive = p->adaptive;
    made->quick = p->quick;
    return made;
}

static bool is_small(const struct pool_case *p)
{
    return strstr(p->variant, ".small") != NULL;
}

static const char *const laid_out[] = {"1d", "2d.pad", "2d.parts", "3d.all", "2d.whole"};
static const char *const in_memory[] = {"2d.channels", "2d.pad-uneven", "2d.dilation", "2d.parts",
                                        "2d.width15", "3d.all"};
/* Cases with i32 indices, and with types of 8 bits, differ only in the stored type: a part of the
 * geometries suffices. */
static bool is_enough(const struct case_builder *builder, const struct pool_case *p)
{
    int64_t one_of = builder->dtype[2] == BP_I32 ? 5 : case_is_float(builder) ? 1 : 3;

    return is_small(p) || (p - pool_case) % one_of == 0;
}

/* Adds a case of max_pool_with_index. Cases of quick runs and of gradients compare both outputs,
 * all others only the index. */
static void with_index(const struct case_builder *builder, const struct pool_case *p, bool whole,
                       bool columns, enum data data)
{
    struct kernel_case *made = pool_case_begin(builder, p, p->x);
    char variant[64];

    made->attrs.max_pool_with_index.dtype = builder->dtype[2];
    made->attrs.max_pool_with_index.whole = whole;
    made->attrs.max_pool_with_index.column_major = columns;
    case_data(made, data);
    if (is_small(p) && data == DATA_APART) made->gradient = 2;
    snprintf(variant, sizeof variant, "%s%s%s%s", p->variant, whole ? ".whole" : "",
             columns ? ".columns" : "", data == DATA_NONFINITE ? ".nonfinite" : "");
    if (made->gradient || p->quick) {
        case_parts(builder, made, 2, variant);
        return;
    }
    made->n_out = 2;
    made->part = 1;
    case_end(builder, made, "%s.index", variant);
}

static void of_index(const struct case_builder *builder)
{
    for (int i = 0; i < POOL_CASES; i++)
        if (is_enough(builder, &pool_case[i]))
            with_index(builder, &pool_case[i], false, false,
                       is_small(&pool_case[i]) ? DATA_APART
                       : i % 2                 ? DATA_EXACT
                                               : DATA_PLAIN);
    with_index(builder, pool_case_find("2d.small"), true, true, DATA_APART);
    for (int i = 1; i < 4; i++) {
        with_index(builder, pool_case_find("3d.all"), i & 1, i & 2, DATA_PLAIN);
        with_index(builder, pool_case_find("2d.pad"), i & 1, i & 2, DATA_EXACT);
    }
    if (case_is_float(builder))
        with_index(builder, pool_case_find("2d.pad"), false, false, DATA_NONFINITE);
    for (int i = 0; i < COUNT(in_memory); i++) {
        const struct pool_case *p = pool_case_find(in_memory[i]);
        struct kernel_case *made = pool_case_begin(builder, p, p->x);
        char name[64];
        made->attrs.max_pool_with_index.dtype = builder->dtype[2];
        made->attrs.max_pool_with_index.whole = i % 2;
        made->in[0].layout = i % 3 == 2 ? LAYOUT_PERMUTED : LAYOUT_LAST;
        snprintf(name, sizeof name, "%s.memory", p->variant);
        case_parts(builder, made, 2, name);
    }
    for (int i = 0; i < COUNT(laid_out); i += 3) {
        struct kernel_case *made = pool_case_begin(builder, pool_case_find(laid_out[i]),
                                                   pool_case_find(laid_out[i])->x);
        made->attrs.max_pool_with_index.dtype = builder->dtype[2];
        case_part_layouts(builder, made, 2, i ? "3d.all.laid" : "1d.laid");
    }
    {
        const struct pool_case *p = pool_case_find("2d.pad");
        struct kernel_case *made = pool_case_begin(builder, p, p->x);
        made->attrs.max_pool_with_index.dtype = builder->dtype[2];
        made->n_out = 2;
        made->part = 1;
        if (builder->dtype[0] == BP_F32) case_orders(builder, made, 0, "2d.pad.index");
        free(made);
    }
}

static void in_layouts(const struct case_builder *builder, const struct pool_case *p, bool include)
{
    struct kernel_case *made = pool_case_begin(builder, p, p->x);
    bool avg = !strcmp(builder->op->name, "avg_pool");
    char name[64];

    snprintf(name, sizeof name, "%s.laid", p->variant);
    if (avg) made->attrs.avg_pool.include_pad = include;
    case_layouts(builder, made, name, false);
    made = pool_case_begin(builder, p, p->x);
    if (avg) made->attrs.avg_pool.include_pad = include;
    made->in[0].layout = made->out = LAYOUT_LAST;
    if (builder->row_flags & BP_KERNEL_STRIDED) case_end(builder, made, "%s.last", p->variant);
    else free(made);
}

/* Cases of max_pool and max_pool_with_index. */
void cases_max_pool(struct case_builder *builder)
{
    struct kernel_case *made;

    if (!strcmp(builder->op->name, "max_pool_with_index")) {
        of_index(builder);
        return;
    }
    for (int i = 0; i < POOL_CASES; i++) {
        const struct pool_case *p = &pool_case[i];
        if (!is_enough(builder, p)) continue;
        made = pool_case_begin(builder, p, p->x);
        if (is_small(p)) case_data(made, DATA_APART);
        if (is_small(p)) made->gradient = 2;
        case_end(builder, made, "%s", p->variant);
    }
    for (int i = 0; i < COUNT(laid_out); i++)
        in_layouts(builder, pool_case_find(laid_out[i]), false);
    for (int i = 0; i < COUNT(in_memory); i++) {
        const struct pool_case *p = pool_case_find(in_memory[i]);
        made = pool_case_begin(builder, p, p->x);
        made->in[0].layout = i % 3 == 2 ? LAYOUT_PERMUTED : LAYOUT_LAST;
        case_data(made, case_is_float(builder) ? DATA_NONFINITE : DATA_SPECIAL);
        case_end(builder, made, "%s.memory", p->variant);
    }
    made = pool_case_begin(builder, pool_case_find("2d.pad"), "2x3x7x9");
    case_data(made, case_is_float(builder) ? DATA_NONFINITE : DATA_SPECIAL);
    case_end(builder, made, "2d.nonfinite");
    made = pool_case_begin(builder, pool_case_find("2d.pad"), "2x3x7x9");
    case_data(made, DATA_SPECIAL);
    case_end(builder, made, "2d.special");
}

/* how: 0: the divisor is the number of elements of x in the window; 1: padding counts too; 2: the
 * attribute divisor. */
static void pool_cases_divided(const struct case_builder *builder, const struct pool_case *p,
                               int how)
{
    struct kernel_case *made = pool_case_begin(builder, p, p->x);
    static const char *const name[] = {"", ".padded", ".divisor"};

    made->attrs.avg_pool.include_pad = how == 1;
    made->attrs.avg_pool.divisor = how == 2 ? 0.75 : 0;
    case_smooth(made, 2);
    case_end(builder, made, "%s%s", p->variant, name[how]);
}

void cases_avg_pool(struct case_builder *builder)
{
    static const enum data data[] = {DATA_EXACT, DATA_POSITIVE, DATA_NONFINITE};
    static const char *const named[] = {"exact", "positive", "nonfinite"};
    struct kernel_case *made;

    for (int i = 0; i < POOL_CASES; i++)
        for (int how = 0; how < 3; how++)
            if (!how || is_small(&pool_case[i]) || i % 6 == how || (how == 1 && pool_case[i].ceil))
                pool_cases_divided(builder, &pool_case[i], how);
    for (int i = 0; i < COUNT(laid_out); i++)
        in_layouts(builder, pool_case_find(laid_out[i]), i % 2);
    for (int i = 0; i < 3; i++) {
        made = pool_case_begin(builder, pool_case_find("2d.pad"), "1x64x33x9");
        made->attrs.avg_pool.window[0] = 31;
        made->attrs.avg_pool.stride[0] = 5;
        case_data(made, data[i]);
        case_end(builder, made, "2d.large.%s", named[i]);
    }
    for (int i = 0; i < COUNT(in_memory); i++) {
        const struct pool_case *p = pool_case_find(in_memory[i]);
        made = pool_case_begin(builder, p, p->x);
        made->in[0].layout = i % 3 == 2 ? LAYOUT_PERMUTED : LAYOUT_LAST;
        made->attrs.avg_pool.include_pad = i % 2;
        case_end(builder, made, "%s.memory", p->variant);
    }
}

/* Begins a case of a gradient. Its inputs are: the gradient of the result, an index if `index`, and
 * x, of which only the shape is used. */
static struct kernel_case *gradient_of(const struct case_builder *builder,
                                       const struct pool_case *p, bool index)
{
    char y[64], shapes[192];
    struct kernel_case *made;

    pool_case_result(p, y, sizeof y);
    snprintf(shapes, sizeof shapes, "%s+%s%s%s", y, index ? y : "", index ? "+" : "", p->x);
    made = pool_case_begin(builder, p, shapes);
    made->in[1 + index].data = DATA_UNREAD;
    return made;
}

static int64_t plane_of(const struct pool_case *p)
{
    char *at = (char *)p->x;
    int64_t n = 1;

    for (int i = 0; *at; i++) {
        int64_t extent = strtoll(at, &at, 10);
        if (i >= 2) n *= extent;
        if (*at == 'x') at++;
    }
    return n;
}

/* An index may be any position of the plane: a window adds its gradient only at a position that it
 * covers. */
void cases_max_pool_grad(struct case_builder *builder)
{
    for (int i = 0; i < POOL_CASES; i++) {
        const struct pool_case *p = &pool_case[i];
        struct kernel_case *made;
        bool laid = false;
        if (!is_enough(builder, p)) continue;
        made = gradient_of(builder, p, true);
        /* Few positions, so that many windows select one position. */
        case_index(made, 1, builder->dtype[2], 0, i % 2 && plane_of(p) > 6 ? 6 : plane_of(p));
        for (int k = 0; k < COUNT(laid_out); k++)
            laid |= k % 2 && !strcmp(p->variant, laid_out[k]);
        if (laid) case_layouts(builder, made, p->variant, false);
        else case_end(builder, made, "%s", p->variant);
        if (i % 3) continue;
        made = gradient_of(builder, p, true);
        made->in[0].layout = LAYOUT_LAST;
        case_index(made, 1, builder->dtype[2], 0, plane_of(p) > 9 ? 9 : plane_of(p));
        if (builder->row_flags & BP_KERNEL_STRIDED) case_end(builder, made, "%s.last", p->variant);
        else free(made);
    }
    /* An index as a pool would return it: each window has one position. */
    struct kernel_case *made = case_begin(builder, "1x2x2x3+1x2x2x3+1x2x2x3");
    static const double own[] = {0, 1, 2, 3, 4, 5};
    case_list(made, 1, 6, own);
    made->in[1].dtype = builder->dtype[2];
    made->gradient = 2;
    case_end(builder, made, "own");
}

void cases_avg_pool_grad(struct case_builder *builder)
{
    for (int i = 0; i < POOL_CASES; i++)
        for (int how = 0; how < 3; how++) {
            static const char *const name[] = {"", ".padded", ".divisor"};
            const struct pool_case *p = &pool_case[i];
            struct kernel_case *made;
            char variant[64];
            if (how && !is_small(p) && i % 6 != how && !(how == 1 && p->ceil)) continue;
            made = gradient_of(builder, p, false);
            made->attrs.avg_pool_grad.include_pad = how == 1;
            made->attrs.avg_pool_grad.divisor = how == 2 ? 0.75 : 0;
            if (is_small(p)) made->gradient = 2;
            if (is_small(p) && builder->gradients) made->in[1].data = DATA_PLAIN;
            if (i % 4 == 1) case_data(made, DATA_POSITIVE);
            snprintf(variant, sizeof variant, "%s%s", p->variant, name[how]);
            if (how == 0 && i == 23) case_layouts(builder, made, variant, false);
            else case_end(builder, made, "%s", variant);
            if (how || i % 4) continue;
            if (!(builder->row_flags & BP_KERNEL_STRIDED)) continue;
            made = gradient_of(builder, p, false);
            made->in[0].layout = LAYOUT_LAST;
            made->attrs.avg_pool_grad.include_pad = i % 2;
            case_end(builder, made, "%s.last", p->variant);
        }
}

/* Cases of lp_pool, which is decomposed into other operators. */
void cases_lp_pool(struct case_builder *builder)
{
    static const double order[] = {2, 1, 3, 1.5};

    for (int i = 0; i < POOL_CASES; i++)
        for (int k = 0; k < 4; k++) {
            const struct pool_case *p = &pool_case[i];
            bool small = strstr(p->variant, ".small") != NULL;
            struct kernel_case *made;
            if (!small && i % 8 != k && (k || p != pool_case_find("2d.pad"))) continue;
            made = pool_case_begin(builder, p, p->x);
            made->attrs.lp_pool.p = order[k];
            case_data(made, small || i % 3 ? DATA_POSITIVE : DATA_PLAIN);
            if (small) made->gradient = 2;
            if (k == 0 && (i == 8 || p == pool_case_find("2d.pad")))
                case_layouts(builder, made, p->variant, false);
            else case_end(builder, made, "%s.p%g", p->variant, order[k]);
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

/* Cases of adaptive_avg_pool and adaptive_max_pool. */
void cases_adaptive_pool(struct case_builder *builder)
{
    bool max = case_is(builder, "adaptive_max_pool");

    for (int i = 0; i < COUNT(parts); i++)
        for (int again = 0; again < 2; again++) {
            struct kernel_case *made;
            if (again && i % 3) continue;
            made = case_begin(builder, parts[i].x);
            memcpy(made->attrs.adaptive_avg_pool.extents, parts[i].extents,
                   sizeof parts[i].extents); /* the first attribute of both */
            if (max) made->attrs.adaptive_max_pool.dtype = builder->dtype[2];
            case_data(made, again            ? DATA_EXACT
                            : parts[i].smooth ? DATA_APART
                            : i % 2           ? DATA_POSITIVE
                                              : DATA_PLAIN);
            made->quick = i < 6;
            if (parts[i].smooth && !again) made->gradient = 2;
            if (i == 1 && !again && !max) case_layouts(builder, made, "parts", false);
            else if (i == 1 && !again) case_part_layouts(builder, made, 2, "parts");
            else if (max) case_parts(builder, made, 2, again ? "exact" : "parts");
            else case_end(builder, made, again ? "exact" : "parts");
        }
}

void cases_global_pool(struct case_builder *builder)
{
    static const char *const shapes[] = {"1x2x5",   "1x2x3x3",  "1x2x2x3x2", "0x3x4x4", "1x1x1x1",
                                         "2x3x9x8", "2x17x1x5", "3x5x31x33", "2x2x3x4x5",
                                         "131x3x2", "67x3x3",   "1x2x1031"};
    bool max = case_is(builder, "global_max_pool"), norm = case_is(builder, "global_lp_pool");

    for (int i = 0; i < COUNT(shapes); i++)
        for (int flat = 0; flat < 2; flat++) {
            struct kernel_case *made = case_begin(builder, shapes[i]);
            made->attrs.global_avg_pool.flat = flat; /* the first attribute of all */
            if (norm) made->attrs.global_lp_pool.p = i % 3 ? 2 : 1;
            case_data(made, i < 3 ? max ? DATA_APART : DATA_POSITIVE
                            : flat ? DATA_POSITIVE
                                   : DATA_PLAIN);
            made->quick = i < 6;
            if (i < 3) made->gradient = max ? 1 : 2;
            if (i == 1) case_layouts(builder, made, flat ? "flat" : "kept", false);
            else case_end(builder, made, flat ? "flat" : "kept");
        }
}

/* The index lists positions of y, mostly each position once. */
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

void cases_max_unpool(struct case_builder *builder)
{
    for (int i = 0; i < COUNT(unpools); i++) {
        struct kernel_case *made = case_begin(builder, unpools[i].shapes);
        struct bp_max_unpool_attrs *a = &made->attrs.max_unpool;
        memcpy(a->extents, unpools[i].extents, sizeof a->extents);
        a->whole = unpools[i].whole;
        a->column_major = unpools[i].columns;
        made->in[1].dtype = builder->dtype[2];
        case_list(made, 1, unpools[i].n, unpools[i].index);
        made->quick = i < 4;
        if (i < 5) made->gradient = 2;
        if (i == 1) case_layouts(builder, made, unpools[i].variant, false);
        else case_end(builder, made, "%s", unpools[i].variant);
    }
}

void cases_maxout(struct case_builder *builder)
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
        struct kernel_case *made = case_begin(builder, some[i].x);
        made->attrs.maxout.groups = some[i].groups;
        made->attrs.maxout.axis = some[i].axis;
        case_data(made, some[i].data);
        made->quick = i < 4;
        if (i < 2) made->gradient = 1;
        if (i == 0) case_layouts(builder, made, "groups", false);
        else case_end(builder, made, "groups%lld", (long long)some[i].groups);
    }
}
