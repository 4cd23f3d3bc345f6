/* SPDX-License-Identifier: Apache-2.0 */
/* cases.c: builds the conformance cases of operators that read elements by indices, or select them.
 * The cases of operators that write elements by indices are in scatter/cases.c. */
#include "../common/cases.h"
#include "../common/cases_shapes.h"
#include "../common/cases_slices.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

cases_fn cases_gather, cases_index_select, cases_index_sample, cases_gather_nd,
    cases_take_along_axis, cases_embedding, cases_one_hot, cases_shard_index, cases_multiplex,
    cases_multiplex_grad, cases_masked_select, cases_set_value, cases_repeat_interleave,
    cases_gather_tree, cases_reverse_sequence, cases_hardmax, cases_nonzero;

/* Sets the data of a gradient's inputs: the values that are summed, and the input of which only the
 * shape is used. */
static void grad_data(struct kernel_case *made, size_t i)
{
    made->in[0].data = i % 3 == 0 ? DATA_PLAIN : i % 3 == 1 ? DATA_EXACT : DATA_POSITIVE;
    made->in[2].data = DATA_UNREAD;
}

/* Marks a case for the suite `gradient`. */
static void index_cases_mark(struct kernel_case *made)
{
    made->in[0].data = DATA_PLAIN;
    made->in[2].data = DATA_PLAIN;
    made->gradient = 2;
}

static const struct {
    const char *variant, *x, *index, *y;
    int64_t axis, extent;
    bool quick;
} gathers[] = {
    {"empty", "3x4", "0", "0x4", 0, 3, true},
    {"no-columns", "3x0", "5", "5x0", 0, 3, false},
    {"scalar-index", "5", "scalar", "scalar", 0, 5, true},
    {"one", "1x1", "1", "1x1", 1, 1, false},
    {"axis0", "3x4", "5", "5x4", 0, 3, true},
    {"axis1", "3x7x5", "2x3", "3x2x3x5", 1, 7, true},
    {"last", "3x4x9", "11", "3x4x11", -1, 9, false},
    {"width", "6x15", "9", "9x15", 0, 6, false},
    {"width", "6x17", "9", "9x17", 0, 6, false},
    {"rank5", "2x3x5x2x3", "2x2", "2x3x2x2x2x3", 2, 5, false},
    {"rank8", "1x2x1x2x3x2x1x2", "4", "1x2x1x2x4x2x1x2", 4, 3, false},
    {"several", "3x2", "37", "37x2", 0, 3, false},
    {"long", "129x67", "513", "513x67", 0, 129, false},
};
enum { SMOOTH_GATHER = 4 };

/* Adds the cases of gather and gather_grad. */
void cases_gather(struct case_builder *builder)
{
    bool grad = case_is(builder, "gather_grad");
    char shapes[96];

    for (int i = 0; i < COUNT(gathers); i++) {
        struct kernel_case *made;
        snprintf(shapes, sizeof shapes, "%s+%s%s%s", grad ? gathers[i].y : gathers[i].x,
                 gathers[i].index, grad ? "+" : "", grad ? gathers[i].x : "");
        made = case_begin(builder, shapes);
        made->attrs.gather.axis = gathers[i].axis; /* the gradient has this layout */
        if (grad) grad_data(made, i);
        else if (i % 2) made->in[0].data = DATA_SPECIAL;
        case_index(made, 1, builder->dtype[2], -gathers[i].extent, gathers[i].extent);
        made->quick = gathers[i].quick;
        if (i == SMOOTH_GATHER) index_cases_mark(made);
        if (i == 5) case_layouts(builder, made, gathers[i].variant, false);
        else case_end(builder, made, "%s", gathers[i].variant);
    }
}

static const struct {
    const char *variant, *shapes;
    int64_t axis, extent;
} selects[] = {
    {"empty", "3x4+0", 0, 3},      {"axis0", "7x5+4", 0, 7},     {"axis1", "3x4+3", 1, 4},
    {"last", "2x3x16+33", -1, 16}, {"rank5", "2x3x5x2x3+7", 2, 5}, {"more", "4x65+31", -2, 4},
};

void cases_index_select(struct case_builder *builder)
{
    for (int i = 0; i < COUNT(selects); i++) {
        struct kernel_case *made = case_begin(builder, selects[i].shapes);
        made->attrs.index_select.axis = selects[i].axis;
        case_index(made, 1, builder->dtype[2], -selects[i].extent, selects[i].extent);
        made->quick = i < 2;
        if (i == 2) made->gradient = 2;
        if (i == 4) case_layouts(builder, made, selects[i].variant, false);
        else case_end(builder, made, "%s", selects[i].variant);
    }
}

void cases_index_sample(struct case_builder *builder)
{
    static const char *const shapes[] = {"0x3+0x2", "3x4+3x0", "1x1+1x1", "3x4+3x5", "5x17+5x16",
                                         "129x31+129x65"};
    static const int64_t extent[] = {3, 4, 1, 4, 17, 31};

    for (int i = 0; i < COUNT(shapes); i++) {
        struct kernel_case *made = case_begin(builder, shapes[i]);
        case_index(made, 1, builder->dtype[2], -extent[i], extent[i]);
        made->quick = i % 2;
        if (i == 3) made->gradient = 2;
        if (i == 4) case_layouts(builder, made, "rows", false);
        else case_end(builder, made, "rows");
    }
}

static const struct {
    const char *variant, *x, *index, *y;
    int64_t batch, extent;
    bool quick;
} named[] = {
    {"empty", "3x4", "0x1", "0x4", 0, 3, true},
    {"all-of-it", "3x4", "2x0", "2x3x4", 0, 1, false},
    {"elements", "3x3", "5x2", "5", 0, 3, true},
    {"rows", "4x5", "3x1", "3x5", 0, 4, true},
    {"one-row", "4x5", "1", "5", 0, 4, false},
    {"planes", "3x3x4", "2x5x2", "2x5x4", 0, 3, false},
    {"batches", "2x3x4x5", "2x3x2", "2x3", 2, 4, false},
    {"batch", "2x3x2", "2x4x1", "2x4x2", 1, 3, true},
    {"batch-one", "2x3x4x5", "2x1", "2x4x5", 1, 3, false},
    {"rank8", "2x2x2x2x2x2x2x3", "4x6", "4x2x3", 0, 2, false},
    {"several", "2x2", "33x2", "33", 0, 2, false},
    {"long", "11x13x67", "257x2", "257x67", 0, 11, false},
};

/* Adds the cases of gather_nd and its gradient. */
void cases_gather_nd(struct case_builder *builder)
{
    bool grad = case_is(builder, "gather_nd_grad");
    char shapes[96];

    for (int i = 0; i < COUNT(named); i++) {
        struct kernel_case *made;
        snprintf(shapes, sizeof shapes, "%s+%s%s%s", grad ? named[i].y : named[i].x, named[i].index,
                 grad ? "+" : "", grad ? named[i].x : "");
        made = case_begin(builder, shapes);
        made->attrs.gather_nd.batch_dims = named[i].batch; /* the gradient has this layout */
        if (grad) grad_data(made, i);
        case_index(made, 1, builder->dtype[2], -named[i].extent, named[i].extent);
        made->quick = named[i].quick;
        if (i == 4 || i == 7) index_cases_mark(made);
        if (i == 5) case_layouts(builder, made, named[i].variant, false);
        else case_end(builder, made, "%s", named[i].variant);
    }
}

static const struct {
    const char *variant, *x, *index;
    int64_t axis, extent;
    bool quick;
} along[] = {
    {"empty", "3x4", "3x0", 1, 4, true},
    {"one", "1", "1", 0, 1, false},
    {"line", "7", "11", 0, 7, true},
    {"axis0", "3x4", "5x4", 0, 3, true},
    {"axis1", "3x4", "3x5", 1, 4, true},
    {"fewer", "5x4x3", "2x6x2", 1, 4, true},
    {"last", "2x3x17", "2x3x16", -1, 17, false},
    {"rank5", "2x3x4x2x3", "2x3x5x2x3", 2, 4, false},
    {"rank8", "2x1x2x3x1x2x2x2", "1x1x2x4x1x2x1x2", 3, 3, false},
    {"several", "2x3", "65x3", 0, 2, false},
    {"long", "129x67", "257x67", 0, 129, false},
    {"rows", "67x129", "67x257", 1, 129, false},
};

/* Adds the cases of take_along_axis and its gradient. */
void cases_take_along_axis(struct case_builder *builder)
{
    bool grad = case_is(builder, "take_along_axis_grad");
    char shapes[96];

    for (int i = 0; i < COUNT(along); i++) {
        struct kernel_case *made;
        snprintf(shapes, sizeof shapes, "%s+%s%s%s", grad ? along[i].index : along[i].x,
                 along[i].index, grad ? "+" : "", grad ? along[i].x : "");
        made = case_begin(builder, shapes);
        made->attrs.take_along_axis.axis = along[i].axis; /* the gradient has this layout */
        if (grad) grad_data(made, i);
        case_index(made, 1, builder->dtype[2], -along[i].extent, along[i].extent);
        made->quick = along[i].quick;
        if (i == 2 || i == 4) index_cases_mark(made);
        if (i == 5) case_layouts(builder, made, along[i].variant, false);
        else case_end(builder, made, "%s", along[i].variant);
    }
}

static const struct {
    const char *variant, *weight, *ids, *y;
    int64_t padding, extent;
} lookups[] = {
    {"empty", "3x4", "0", "0x4", -1, 3},         {"scalar", "5x3", "scalar", "3", -1, 5},
    {"rows", "5x3", "4", "4x3", -1, 5},          {"padding", "5x3", "2x7", "2x7x3", 2, 5},
    {"padding-first", "3x2", "5", "5x2", 0, 3}, {"planes", "4x2x3", "2x2", "2x2x2x3", -1, 4},
    {"long", "129x65", "257", "257x65", 7, 129},
};

/* Adds the cases of embedding and its gradient. */
void cases_embedding(struct case_builder *builder)
{
    bool grad = case_is(builder, "embedding_grad");
    char shapes[96];

    for (int i = 0; i < COUNT(lookups); i++) {
        struct kernel_case *made;
        snprintf(shapes, sizeof shapes, "%s+%s%s%s", grad ? lookups[i].y : lookups[i].weight,
                 lookups[i].ids, grad ? "+" : "", grad ? lookups[i].weight : "");
        made = case_begin(builder, shapes);
        made->attrs.embedding.padding_idx = lookups[i].padding; /* the gradient has this layout */
        if (grad) grad_data(made, i);
        case_index(made, 1, builder->dtype[2], 0, lookups[i].extent);
        made->quick = i % 2;
        if (i == 2 || i == 4) index_cases_mark(made);
        if (i == 5) case_layouts(builder, made, lookups[i].variant, false);
        else case_end(builder, made, "%s", lookups[i].variant);
    }
}

static const struct {
    const char *variant, *index;
    int64_t depth, axis, low, high;
    double on, off;
    bool lenient;
    uint32_t host;
} hots[] = {
    {"empty", "0", 3, -1, 0, 3, 1, 0, false, 0},
    {"no-depth", "3", 0, -1, 0, 3, 1, 0, true, 0},
    {"scalar", "scalar", 5, -1, 0, 5, 1, 0, false, 0},
    {"rows", "7", 5, -1, -5, 5, 1, 0, false, 0},
    {"first", "3x4", 5, 0, -5, 5, 3, 2, false, 0},
    {"middle", "3x4x2", 6, 1, 0, 6, 1, 0, false, 0},
    {"lenient", "31", 4, -1, -9, 9, 1, 0, true, 0},
    {"values", "4x5", 16, -2, 0, 16, 7, 1, false, 0},
    {"host-i64", "5", 4, -1, 0, 4, 1, 0, false, BP_I64},
    {"host-i32", "5", 4, -1, 0, 4, 1, 0, false, BP_I32},
    {"rank8", "1x2x1x2x1x2x2", 3, 4, 0, 3, 1, 0, false, 0},
    {"long", "1031", 17, -1, 0, 17, 1, 0, false, 0},
};

void cases_one_hot(struct case_builder *builder)
{
    for (int i = 0; i < COUNT(hots); i++) {
        struct kernel_case *made = case_begin(builder, hots[i].index);
        struct bp_one_hot_attrs *a = &made->attrs.one_hot;
        a->depth = hots[i].depth;
        a->axis = hots[i].axis;
        a->dtype = builder->dtype[0];
        a->on = hots[i].on;
        a->off = hots[i].off;
        a->allow_out_of_range = hots[i].lenient;
        made->host = hots[i].host;
        case_index(made, 0, builder->dtype[2], hots[i].low, hots[i].high);
        made->quick = i < 4;
        if (i == 5) case_layouts(builder, made, hots[i].variant, false);
        else case_end(builder, made, "%s", hots[i].variant);
    }
}

void cases_shard_index(struct case_builder *builder)
{
    static const struct {
        const char *shape;
        int64_t num, shards, shard, ignore;
    } some[] = {{"0", 7, 2, 0, -1},  {"scalar", 1, 1, 0, -1}, {"13", 20, 2, 0, -1},
                {"13", 20, 2, 1, -1}, {"17", 20, 3, 2, -1},    {"3x4x5", 21, 4, 3, -7},
                {"1031", 100, 7, 5, 99}};

    for (int i = 0; i < COUNT(some); i++) {
        struct kernel_case *made = case_begin(builder, some[i].shape);
        struct bp_shard_index_attrs *a = &made->attrs.shard_index;
        a->index_num = some[i].num;
        a->nshards = some[i].shards;
        a->shard_id = some[i].shard;
        a->ignore_value = some[i].ignore;
        case_index(made, 0, builder->dtype[0], 0, some[i].num);
        made->quick = i < 4;
        if (i == 5) case_layouts(builder, made, "shards", true);
        else case_end(builder, made, "shards%lld", (long long)some[i].shards);
    }
}

void cases_multiplex(struct case_builder *builder)
{
    static const struct {
        const char *shapes;
        int64_t n;
    } some[] = {{"3+3", 1},           {"0+0x4+0x4", 2},       {"5x1+5x3+5x3+5x3", 3},
                {"3+3x4+3x4", 2},     {"4+4+4+4", 3},         {"6+6x2x3+6x2x3", 2},
                {"31+31x67+31x67+31x67+31x67", 4}};

    for (int i = 0; i < COUNT(some); i++) {
        struct kernel_case *made = case_begin(builder, some[i].shapes);
        case_index(made, 0, builder->dtype[2], 0, some[i].n);
        made->quick = i < 3;
        if (i == 3) made->gradient = 2;
        if (i == 5) case_layouts(builder, made, "rows", false);
        else case_end(builder, made, "rows");
    }
}

void cases_multiplex_grad(struct case_builder *builder)
{
    static const char *const shapes[] = {"0x3+0", "3+3", "5x4+5x1", "6x2x3+6", "31x67+31"};

    for (int i = 0; i < COUNT(shapes); i++) {
        struct kernel_case *made = case_begin(builder, shapes[i]);
        made->attrs.multiplex_grad.which = (int64_t)i % 3;
        case_index(made, 1, builder->dtype[2], 0, 3);
        made->quick = i < 3;
        if (i == 2) made->gradient = 2;
        if (i == 3) case_layouts(builder, made, "rows", true);
        else case_end(builder, made, "rows");
    }
}

/* Masks, of which about half of the elements are set, all or none. */
static const struct {
    const char *variant, *x;
} masks[] = {
    {"empty", "0"},   {"empty", "3x0x2"}, {"scalar", "scalar"}, {"line", "7"},
    {"width", "63"},  {"width", "65"},    {"planes", "3x4x5"},  {"rank8", "1x2x1x2x1x2x1x3"},
    {"long", "4095"}, {"long", "4097"},   {"long", "20000"},
};
static const double mask_bits[] = {1, 0, 1, 1, 0, 0, 1, 0, 1, 1, 0, 1};

static int64_t set_of(int64_t n)
{
    int64_t set = 0;

    for (int64_t i = 0; i < n; i++) set += mask_bits[i % (int64_t)COUNT(mask_bits)] != 0;
    return set;
}

static int64_t index_cases_elements(const char *shape)
{
    int64_t n = 1;

    if (!strcmp(shape, "scalar")) return 1;
    for (char *at = (char *)shape; *at; at += *at == 'x') n *= strtoll(at, &at, 10);
    return n;
}

/* Adds the cases of masked_select and its gradient. */
void cases_masked_select(struct case_builder *builder)
{
    bool grad = case_is(builder, "masked_select_grad");
    char shapes[96];

    for (int i = 0; i < COUNT(masks); i++)
        for (int kind = 0; kind < 3; kind++) { /* half of the elements, none, all */
            static const double none = 0, all = 1;
            static const char *const name[] = {"", ".none", ".all"};
            int64_t n = index_cases_elements(masks[i].x);
            struct kernel_case *made;
            if (kind && i % 3) continue;
            n = kind == 0 ? set_of(n) : kind == 1 ? 0 : n;
            if (grad) snprintf(shapes, sizeof shapes, "%lld+%s", (long long)n, masks[i].x);
            else snprintf(shapes, sizeof shapes, "%s+%s", masks[i].x, masks[i].x);
            made = case_begin(builder, shapes);
            if (i % 2) made->in[0].data = DATA_SPECIAL;
            made->in[1].dtype = BP_BOOL;
            if (kind) case_list(made, 1, 1, kind == 1 ? &none : &all);
            else case_list(made, 1, (int)COUNT(mask_bits), mask_bits);
            made->quick = i < 4;
            if (i == 3 && kind == 2) made->gradient = 2; /* the bound is exact then */
            if (i == 3) made->in[0].data = DATA_PLAIN;
            if (i == 6 && !kind) {
                case_layouts(builder, made, masks[i].variant, false);
            } else {
                case_end(builder, made, "%s%s", masks[i].variant, name[kind]);
            }
        }
}

/* Adds set_value with the slices of case_slices: value has the slice's shape, or is one number, one
 * line, or absent. */
static void set_value(struct case_builder *builder, const struct case_slice *s, const char *value,
                      const char *what, uint32_t host)
{
    struct kernel_case *made;
    char shapes[96];

    snprintf(shapes, sizeof shapes, "%s+%s", s->shape, value);
    made = case_begin(builder, shapes);
    case_slice_attrs(made, s);
    made->in[1].data = DATA_SPECIAL;
    made->host = host;
    made->quick = s->quick;
    if (s->layouts && !host) {
        made->gradient = 2;
        made->in[1].data = DATA_PLAIN;
        case_layouts(builder, made, s->variant, true);
    } else {
        case_end(builder, made, "%s%s", s->variant, what);
    }
}

/* Adds the cases of one slice; i selects the forms of its value. */
static void set_slice(struct case_builder *builder, const struct case_slice *s, int i)
{
    bool wide = s->n && (s->ends[0] > INT32_MAX || s->ends[0] < INT32_MIN);
    const char *last = strrchr(s->result, 'x');

    set_value(builder, s, s->result, "", 0);
    if (s->layouts) return;
    if (i % 2) set_value(builder, s, "scalar", ".one", 0);
    if (last && i % 2 == 0) set_value(builder, s, last + 1, ".line", 0);
    if (i % 3 == 0) set_value(builder, s, "-", ".zeros", 0);
    if (i % 4 == 1) set_value(builder, s, s->result, ".host-i64", BP_I64);
    if (i % 4 == 1 && !wide) set_value(builder, s, s->result, ".host-i32", BP_I32);
}

void cases_set_value(struct case_builder *builder)
{
    for (int i = 0; i < CASE_SLICES; i++) set_slice(builder, &case_slices[i], i);
    for (int i = 0; i < CASE_SLICES_DOWN; i++) set_slice(builder, &case_slices_down[i], i);
}

void cases_repeat_interleave(struct case_builder *builder)
{
    static const struct {
        const char *variant, *shape;
        int64_t repeats, axis;
        uint32_t host;
    } some[] = {{"empty", "0x3", 2, 0, 0},        {"none", "3x4", 0, 1, 0},
                {"once", "5", 1, 0, 0},           {"line", "7", 3, 0, 0},
                {"axis0", "3x4", 2, 0, 0},        {"axis1", "3x4", 2, 1, 0},
                {"last", "2x3x5", 4, -1, 0},      {"middle", "2x3x5", 3, 1, 0},
                {"rank8", "1x2x1x2x1x2x1x3", 2, 3, 0}, {"host-i64", "3x4", 3, 0, BP_I64},
                {"host-i32", "3x4", 3, 0, BP_I32},     {"long", "257x31", 5, 0, 0}};

    for (int i = 0; i < COUNT(some); i++) {
        struct kernel_case *made = case_begin(builder, some[i].shape);
        made->attrs.repeat_interleave.repeats = some[i].repeats;
        made->attrs.repeat_interleave.axis = some[i].axis;
        made->host = some[i].host;
        made->quick = i < 4;
        made->gradient = i == 4 ? 2 : 0;
        if (i == 7) case_layouts(builder, made, some[i].variant, false);
        else case_end(builder, made, "%s", some[i].variant);
    }
}

void cases_gather_tree(struct case_builder *builder)
{
    static const char *const shapes[] = {"0x2x3+0x2x3", "3x0x4+3x0x4", "1x1x1+1x1x1", "4x1x3+4x1x3",
                                         "5x3x4+5x3x4", "31x17x8+31x17x8"};
    static const int64_t beams[] = {3, 4, 1, 3, 4, 8};

    for (int i = 0; i < COUNT(shapes); i++) {
        struct kernel_case *made = case_begin(builder, shapes[i]);
        made->in[0].data = DATA_PLAIN;
        case_index(made, 1, builder->dtype[0], 0, beams[i]);
        made->quick = i < 4;
        if (i == 4) case_layouts(builder, made, "tree", false);
        else case_end(builder, made, "tree");
    }
}

void cases_reverse_sequence(struct case_builder *builder)
{
    static const struct {
        const char *variant, *shapes;
        int64_t batch, time, steps;
        bool quick;
    } some[] = {
        {"empty", "4x0+0", 1, 0, 4, true},        {"no-steps", "0x3+3", 1, 0, 0, true},
        {"one", "1x1+1", 1, 0, 1, false},         {"time-first", "5x3+3", 1, 0, 5, true},
        {"batch-first", "3x5+3", 0, 1, 5, true},  {"layouts", "7x3x4+3", 1, 0, 7, true},
        {"last", "3x2x5+3", -3, -1, 5, false},    {"middle", "2x7x3x5+3", 2, 1, 7, false},
        {"apart", "5x2x3x4+4", 3, 0, 5, false},   {"rank8", "1x2x1x5x1x3x1x2+3", 5, 3, 5, false},
        {"long", "67x31x17+31", 1, 0, 67, false}, {"lines", "31x1031+31", 0, 1, 1031, false},
    };

    for (size_t i = 0; i < COUNT(some); i++) {
        struct kernel_case *made = case_begin(builder, some[i].shapes);
        made->attrs.reverse_sequence.batch_axis = some[i].batch;
        made->attrs.reverse_sequence.time_axis = some[i].time;
        case_index(made, 1, builder->dtype[2], 0, some[i].steps + 1);
        made->quick = some[i].quick;
        made->gradient = i == 3 || i == 4 ? 2 : 0;
        if (i == 5) case_layouts(builder, made, some[i].variant, false);
        else case_end(builder, made, "%s", some[i].variant);
    }
}

void cases_hardmax(struct case_builder *builder)
{
    static const struct {
        const char *variant, *shape;
        int64_t axis;
        enum data data;
        bool quick;
    } some[] = {
        {"empty", "0x3", 1, DATA_PLAIN, true},    {"no-lines", "3x0", 1, DATA_PLAIN, false},
        {"one", "1", 0, DATA_PLAIN, false},       {"last", "3x4", -1, DATA_PLAIN, true},
        {"equal", "5x7", 1, DATA_EXACT, true},    {"first", "5x7", 0, DATA_EXACT, true},
        {"middle", "2x9x5", 1, DATA_PLAIN, true}, {"zeros", "3x5", 1, DATA_ZERO, false},
        {"unsound", "9x31", 1, DATA_NONFINITE, false}, {"long", "7x2053", 1, DATA_EXACT, false},
    };

    for (size_t i = 0; i < COUNT(some); i++) {
        struct kernel_case *made = case_begin(builder, some[i].shape);
        made->attrs.hardmax.axis = some[i].axis;
        case_data(made, some[i].data);
        made->quick = some[i].quick;
        if (i == 6) case_layouts(builder, made, some[i].variant, false);
        else case_end(builder, made, "%s", some[i].variant);
    }
}

static void index_cases_nonzero(struct case_builder *builder, const char *shape, enum data data,
                                bool quick, const char *variant)
{
    struct kernel_case *made = case_begin(builder, shape);

    case_data(made, data);
    made->quick = quick;
    case_end(builder, made, "%s", variant);
}

void cases_nonzero(struct case_builder *builder)
{
    struct kernel_case *made;
    char drawn[32];

    for (int i = 0; i < CASE_SHAPES; i++)
        index_cases_nonzero(builder, case_shapes[i].shape, DATA_SPARSE, case_shapes[i].quick,
                            case_shapes[i].variant);
    index_cases_nonzero(builder, "scalar", DATA_ZERO, false, "none");
    index_cases_nonzero(builder, "5x7", DATA_ZERO, true, "none");
    index_cases_nonzero(builder, "40000", DATA_ZERO, false, "none");
    if (builder->dtype[0] != BP_BOOL && case_is_float(builder))
        index_cases_nonzero(builder, "5x7", DATA_POSITIVE, true, "all");
    index_cases_nonzero(builder, "331", DATA_SPECIAL, true, "special");
    index_cases_nonzero(builder, case_drawn_shape(builder, drawn, sizeof drawn), DATA_SPARSE, false,
                        "drawn");
    made = case_begin(builder, "3x1");
    case_data(made, DATA_SPARSE);
    case_extents(builder, made, "sweep");
    made = case_begin(builder, "5x6x7");
    case_data(made, DATA_SPARSE);
    case_layouts(builder, made, "rank3", false);
}
