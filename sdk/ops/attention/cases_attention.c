/* SPDX-License-Identifier: Apache-2.0 */
/* cases_attention.c: builds the conformance cases of masked_softmax and attention. */
#include "../common/cases.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

cases_fn cases_masked_softmax, cases_attention;

/* A mask is bool or has the dtype of T; there are no cases for other dtypes. */
static bool attention_cases_fits(const struct case_builder *builder)
{
    return builder->gradients || builder->dtype[1] == BP_BOOL ||
           builder->dtype[1] == builder->dtype[0];
}

/* Sets a mask whose second row, of five elements, hides all keys. */
static void hide_row(struct kernel_case *made, int in)
{
    static const double truth[] = {1, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 1};
    static const double added[] = {0.5, 0, -INFINITY, -1, 0, -INFINITY, -INFINITY, -INFINITY,
                                   -INFINITY, -INFINITY, 0, 1, 0.25, -INFINITY, 0};

    case_list(made, in, COUNT(truth), made->in[in].dtype == BP_BOOL ? truth : added);
}

/* Finite differences need finite numbers: an additive mask with -infinity gives none. */
static bool has_differences(const struct kernel_case *made, int in)
{
    return !made->in[in].present || made->in[in].dtype == BP_BOOL;
}

/* Sets the dtype of a mask. In the suite `gradient` a mask is bool if is_bool, otherwise f64. */
static void set_mask(const struct case_builder *builder, struct kernel_case *made, int in,
                     bool is_bool)
{
    static const double some[] = {1, 1, 0, 1, 0, 1, 1, 1, 0, 1, 1};

    if (!made->in[in].present) return;
    made->in[in].dtype = builder->gradients && is_bool ? (uint32_t)BP_BOOL : builder->dtype[1];
    if (made->in[in].dtype == BP_BOOL) case_list(made, in, COUNT(some), some);
}

static const struct {
    const char *shapes;
    bool causal, quick;
    enum data data;
} softmaxes[] = {
    {"0x5", false, true, DATA_PLAIN},          {"5x0+5x0", false, false, DATA_PLAIN},
    {"3x4", false, true, DATA_PLAIN},          {"3x4", true, true, DATA_PLAIN},
    {"3x4+3x4", false, true, DATA_PLAIN},      {"3x4+4", true, true, DATA_PLAIN},
    {"4x3", true, false, DATA_PLAIN},          {"17x17", true, false, DATA_WIDE},
    {"2x3x5x7+5x7", false, false, DATA_PLAIN}, {"2x3x5x7+2x1x1x7", true, false, DATA_PLAIN},
    {"7x131+131", false, false, DATA_WIDE},    {"7x131", false, false, DATA_NONFINITE},
    {"2x3x2x3x5+2x1x5", false, true, DATA_PLAIN}, {"131x3+1", true, false, DATA_PLAIN},
    {"67x2+67x2", false, false, DATA_PLAIN},   {"3x1+3x1", false, false, DATA_PLAIN},
};

void cases_masked_softmax(struct case_builder *builder)
{
    struct kernel_case *made;

    if (!attention_cases_fits(builder)) return;
    for (int i = 0; i < COUNT(softmaxes); i++) {
        made = case_begin(builder, softmaxes[i].shapes);
        made->attrs.masked_softmax.causal = softmaxes[i].causal;
        case_data(made, softmaxes[i].data);
        set_mask(builder, made, 1, i % 2);
        if (made->in[1].data == DATA_WIDE) made->in[1].data = DATA_PLAIN;
        made->gradient = i > 1 && i < 6 ? 2 : 0;
        made->quick = softmaxes[i].quick;
        case_end(builder, made, softmaxes[i].causal ? "causal" : "all");
    }
    for (int i = 0; i < 2; i++) {
        made = case_begin(builder, "2x3x5+3x5");
        set_mask(builder, made, 1, i);
        hide_row(made, 1);
        made->attrs.masked_softmax.causal = (uint32_t)i;
        made->gradient = has_differences(made, 1) ? 2 : 0;
        made->quick = true;
        case_end(builder, made, i ? "hidden.causal" : "hidden");
    }
    made = case_begin(builder, "5x6x7+6x7");
    set_mask(builder, made, 1, false);
    case_layouts(builder, made, "layouts", false);
}

static const struct {
    const char *shapes;
    bool causal, quick;
    double scale;
    enum data data;
} attentions[] = {
    {"0x5x4+0x5x4+0x5x4", false, true, 0, DATA_PLAIN},
    {"2x0x4+2x5x4+2x5x4", false, false, 0, DATA_PLAIN},
    {"2x5x4+2x0x4+2x0x4", false, false, 0, DATA_PLAIN},
    {"2x5x0+2x3x0+2x3x2", false, false, 0, DATA_PLAIN},
    {"2x5x4+2x3x4+2x3x0", false, false, 0, DATA_PLAIN},
    {"1x1x1+1x1x1+1x1x1", false, true, 1, DATA_PLAIN},
    {"1x2x2+1x3x2+1x3x2", false, true, 0, DATA_PLAIN},
    {"2x2x2+1x3x2+1x3x2", true, true, 0.5, DATA_PLAIN},
    {"1x3x2+1x3x2+1x3x2+3x3", false, true, 0, DATA_PLAIN},
    {"1x2x2+1x2x2+1x2x3+1x1x2", true, false, 0, DATA_PLAIN},
    {"3x17x15+3x19x15+3x19x16", false, true, 0, DATA_PLAIN},
    {"2x3x17x8+2x3x19x8+2x3x19x17", true, true, 0, DATA_PLAIN},
    {"2x4x9x5+2x2x11x5+2x2x11x3+9x11", false, true, 0, DATA_PLAIN},
    {"2x4x9x5+2x1x11x5+2x1x11x3+2x1x1x11", true, false, 2, DATA_PLAIN},
    {"2x6x9x5+2x3x11x5+2x3x11x3+6x1x11", false, false, 0, DATA_PLAIN},
    {"1x2x1x2x1x2x5x3+1x2x1x2x1x1x7x3+1x2x1x2x1x1x7x2", false, false, 0, DATA_PLAIN},
    {"2x65x16+2x97x16+2x97x16", true, false, 0, DATA_PLAIN},
    {"2x63x31+2x95x31+2x95x33", false, false, 0, DATA_PLAIN},
    {"1x131x33+1x200x33+1x200x64", true, true, 0, DATA_PLAIN},
    {"1x3x131+1x7x131+1x7x5", false, false, 0, DATA_PLAIN},
    {"1x70x140+1x100x140+1x100x116", false, false, 0, DATA_PLAIN},
    {"1x3x5+1x7x5+1x7x300", false, false, 0, DATA_PLAIN},
    {"1x200x3+1x5x3+1x5x2", true, false, 0, DATA_PLAIN}, /* the first queries see no key */
    {"2x7x16+2x131x16+2x131x4+7x131", false, false, 1, DATA_WIDE},
    {"1x7x16+1x67x16+1x67x4", false, true, 0, DATA_EXACT},
    {"1x7x9+1x11x9+1x11x4", false, true, 0, DATA_NONFINITE},
    {"1x67x2+1x2x2+1x2x2", false, false, 0, DATA_POSITIVE},
    {"8x31x1+8x2x1+8x2x8", false, false, 1, DATA_POSITIVE}, /* few terms are near the bound */
    {"9x31x1+9x2x1+9x2x9", false, false, 1, DATA_EXACT},
    {"8x67x1+8x1x1+8x1x5", false, false, 1, DATA_PLAIN},
    {"8x31x1+8x3x1+8x3x7", false, false, 0.25, DATA_PLAIN},
    {"8x131x1+8x2x1+8x2x31", false, false, 1, DATA_PLAIN},
    {"8x131x1+8x2x1+8x2x31", false, false, 0.5, DATA_POSITIVE},
    /* one query */
    {"2x1x33+2x205x33+2x205x70", false, true, 0, DATA_PLAIN},
    {"2x1x64+2x300x64+2x300x64+300", true, false, 0, DATA_PLAIN},
    {"3x1x140+3x97x140+3x97x8+3x1x97", false, true, 0, DATA_PLAIN},
    {"2x4x1x16+2x2x131x16+2x2x131x4+131", false, false, 1, DATA_WIDE},
    {"1x1x9+1x11x9+1x11x4", false, true, 0, DATA_NONFINITE},
};

/* Queries that see no key: because of the mask, or causal with more queries than keys. */
static const struct {
    const char *shapes;
    bool causal, quick;
} hidden[] = {
    {"1x3x2+1x5x2+1x5x2+3x5", false, true},
    {"1x3x2+1x5x2+1x5x2+3x5", false, true},
    {"1x3x2+1x5x2+1x5x2+3x5", true, true},
    {"1x3x2+1x5x2+1x5x2+3x5", true, true},
    {"1x4x2+1x2x2+1x2x2", true, true},
    {"2x3x8+2x5x8+2x5x8+3x5", false, true},
    {"2x3x8+2x5x8+2x5x8+3x5", true, true},
    {"2x4x9x5+2x2x15x5+2x2x15x3+9x15", false, true},
    {"2x70x8+2x100x8+2x100x9+2x70x1", false, false}, /* every key of a block is hidden, block after
                                                        block */
    {"1x3x8+1x205x8+1x205x300+3x1", true, false},
    {"3x1x5+3x2x5+3x2x7+3x1x2", false, true},
    {"3x1x5+3x100x5+3x100x7+3x1x1", false, true},
};

/* Calls with a soft cap, a window or lengths: each alone, then together. */
static const struct {
    const char *variant, *shapes;
    bool causal, quick;
    int gradient;
    double softcap;
    int64_t window[2]; /* both 0: no window */
    enum data data;
} seen[] = {
    {"cap", "1x2x2+1x3x2+1x3x2", false, true, 2, 1.5, {0, 0}, DATA_PLAIN},
    {"cap.small", "2x17x5+2x19x5+2x19x3", false, true, 0, 0.25, {0, 0}, DATA_PLAIN},
    {"cap.wide", "2x70x16+2x131x16+2x131x4", true, true, 0, 30, {0, 0}, DATA_WIDE},
    {"cap.mask", "2x4x9x5+2x2x11x5+2x2x11x3+9x11", false, true, 0, 2, {0, 0}, DATA_PLAIN},
    {"cap.mask.bool", "2x4x9x5+2x2x11x5+2x2x11x3+9x11", true, true, 0, 2, {0, 0}, DATA_PLAIN},
    {"cap.nonfinite", "1x7x9+1x11x9+1x11x4", false, true, 0, 3, {0, 0}, DATA_NONFINITE},
    {"cap.few", "8x131x1+8x2x1+8x2x31", false, false, 0, 1, {0, 0}, DATA_POSITIVE},
    {"window", "1x3x2+1x3x2+1x3x2", false, true, 2, 0, {1, 0}, DATA_PLAIN},
    {"window.left", "2x17x5+2x19x5+2x19x3", false, true, 0, 0, {2, -1}, DATA_PLAIN},
    {"window.right", "2x17x5+2x19x5+2x19x3", false, true, 0, 0, {-1, 3}, DATA_PLAIN},
    {"window.both", "2x4x9x5+2x2x11x5+2x2x11x3", false, true, 0, 0, {2, 1}, DATA_PLAIN},
    {"window.causal", "2x4x9x5+2x2x11x5+2x2x11x3", true, true, 0, 0, {3, 2}, DATA_PLAIN},
    {"window.all", "2x9x5+2x11x5+2x11x3", false, false, 0, 0, {-1, -1}, DATA_PLAIN},
    {"window.own", "2x9x5+2x9x5+2x9x3", false, false, 0, 0, {-1, 0}, DATA_PLAIN},
    {"window.wide", "2x9x5+2x11x5+2x11x3", false, false, 0, 0, {2147483647, 2147483647},
     DATA_PLAIN},
    {"window.long", "1x131x16+1x300x16+1x300x8", false, true, 0, 0, {100, 3}, DATA_PLAIN},
    {"window.narrow", "1x200x8+1x410x8+1x410x70", false, false, 0, 0, {7, -1}, DATA_PLAIN},
    {"window.hidden", "1x9x4+1x3x4+1x3x2", false, true, 0, 0, {1, 2}, DATA_PLAIN},
    {"window.mask", "2x4x9x5+2x2x11x5+2x2x11x3+9x11", false, true, 0, 0, {4, 2}, DATA_PLAIN},
    {"window.mask.bool", "2x4x9x5+2x2x11x5+2x2x11x3+9x11", false, true, 0, 0, {4, 2}, DATA_PLAIN},
    {"cap.window", "1x2x2+1x3x2+1x3x2", true, true, 2, 0.75, {1, 1}, DATA_PLAIN},
    {"cap.window.long", "2x2x70x9+2x1x205x9+2x1x205x9", true, false, 0, 4, {50, -1}, DATA_PLAIN},
    {"cap.one", "2x1x16+2x131x16+2x131x4", false, true, 0, 2, {0, 0}, DATA_PLAIN},
    {"window.one", "1x1x16+1x300x16+1x300x8", true, true, 0, 0, {100, -1}, DATA_PLAIN},
    {"heads", "2x4x17x16+2x2x19x16+2x2x19x16", false, true, 0, 0, {0, 0}, DATA_PLAIN},
    {"heads.deep", "1x3x21x64+1x3x70x64+1x3x70x64", false, true, 0, 0, {0, 0}, DATA_PLAIN},
    {"heads.one", "2x4x1x32+2x2x131x32+2x2x131x32", true, true, 0, 0, {0, 0}, DATA_PLAIN},
    {"heads.mask", "2x4x17x16+2x2x19x16+2x2x19x8+2x1x17x19", false, true, 0, 0, {0, 0}, DATA_PLAIN},
    {"heads.mask.bool", "2x4x17x16+2x2x19x16+2x2x19x8+4x1x19", true, true, 0, 0, {0, 0},
     DATA_PLAIN},
    {"heads.band", "2x4x17x16+2x2x40x16+2x2x40x8", true, true, 0, 0, {0, 0}, DATA_PLAIN},
    {"heads.exact", "3x9x16+3x11x16+3x11x8", false, false, 0, 0, {0, 0}, DATA_EXACT},
    {"heads.nonfinite", "2x2x9x16+2x1x11x16+2x1x11x24", false, false, 0, 0, {0, 0},
     DATA_NONFINITE},
    {"length", "6x1x1x1+6x1x3x1+6x1x3x1+-+6", false, true, 0, 0, {0, 0}, DATA_PLAIN},
    {"length.small", "3x1x2x2+3x1x2x2+3x1x2x2+-+3", false, true, 2, 0, {0, 0}, DATA_PLAIN},
    {"length.heads", "6x4x9x5+6x2x11x5+6x2x11x3+-+6", false, true, 0, 0, {0, 0}, DATA_PLAIN},
    {"length.causal", "6x4x9x5+6x2x11x5+6x2x11x3+-+6", true, true, 0, 0, {0, 0}, DATA_PLAIN},
    {"length.mask", "6x4x9x5+6x2x11x5+6x2x11x3+9x11+6", false, true, 0, 0, {0, 0}, DATA_PLAIN},
    {"length.mask.bool", "6x2x9x5+6x2x11x5+6x2x11x3+6x1x1x11+6", true, true, 0, 0, {0, 0},
     DATA_PLAIN},
    {"length.scalar", "2x9x5+1x11x5+1x11x3+-+scalar", true, true, 0, 0, {0, 0}, DATA_PLAIN},
    {"length.axes", "2x3x2x5x4+2x3x1x11x4+2x3x1x11x2+-+2x3", true, true, 0, 0, {0, 0}, DATA_PLAIN},
    {"length.window", "6x2x9x5+6x1x11x5+6x1x11x3+-+6", false, true, 0, 0, {2, 1}, DATA_PLAIN},
    {"length.window.left", "6x2x9x5+6x1x11x5+6x1x11x3+-+6", false, true, 0, 0, {3, -1}, DATA_PLAIN},
    {"length.decode", "6x4x1x16+6x2x11x16+6x2x11x16+-+6", true, true, 0, 0, {0, 0}, DATA_PLAIN},
    {"length.empty", "0x2x9x5+0x1x11x5+0x1x11x3+-+0", false, false, 0, 0, {0, 0}, DATA_PLAIN},
    {"length.keys", "2x1x3x5+2x1x0x5+2x1x0x3+-+2", false, false, 0, 0, {0, 0}, DATA_PLAIN},
    {"all", "3x1x2x2+3x1x2x2+3x1x2x2+2x2+3", true, true, 2, 1.5, {1, 1}, DATA_PLAIN},
    {"all.mask", "6x4x9x5+6x2x11x5+6x2x11x3+9x11+6", true, true, 0, 2, {4, 3}, DATA_PLAIN},
    {"all.mask.bool", "6x4x9x5+6x2x11x5+6x2x11x3+9x11+6", false, true, 0, 2, {4, 3}, DATA_PLAIN},
};

/* Lengths of at most 11 keys: none, some, all, more, and below 0. */
static const double lengths[] = {4, 11, 0, 7, 13, -2}, few_lengths[] = {1, 2, 0};

static void seen_case(struct case_builder *builder, int i)
{
    struct kernel_case *made = case_begin(builder, seen[i].shapes);
    size_t n = strlen(seen[i].variant);

    if (builder->dtype[2] == BP_I32 && !made->in[4].present) {
        free(made); /* as for i64 */
        return;
    }
    made->attrs.attention.causal = seen[i].causal;
    made->attrs.attention.softcap = seen[i].softcap;
    if (seen[i].window[0] || seen[i].window[1])
        made->attrs.attention.window = case_dims(made, 0, 2, seen[i].window);
    made->in[0].data = made->in[1].data = seen[i].data;
    set_mask(builder, made, 3, n > 4 && !strcmp(seen[i].variant + n - 4, "bool"));
    if (made->in[4].present) {
        made->in[4].dtype = builder->dtype[2];
        if (seen[i].gradient) case_list(made, 4, COUNT(few_lengths), few_lengths);
        else case_list(made, 4, COUNT(lengths), lengths);
    }
    made->gradient = seen[i].gradient;
    made->quick = seen[i].quick;
    case_end(builder, made, "%s%s", seen[i].variant, seen[i].causal ? ".causal" : "");
}

/* v has no elements that are not finite: they would be multiplied by probabilities of 0. */
void cases_attention(struct case_builder *builder)
{
    static const double layout_lengths[] = {4, 6};
    struct kernel_case *made;

    if (!attention_cases_fits(builder)) return;
    for (int i = 0; i < COUNT(seen); i++) seen_case(builder, i);
    if (builder->dtype[2] == BP_I32) return; /* the other cases have no lengths */
    for (int i = 0; i < COUNT(attentions); i++) {
        made = case_begin(builder, attentions[i].shapes);
        made->attrs.attention.causal = attentions[i].causal;
        made->attrs.attention.scale = attentions[i].scale;
        made->in[0].data = attentions[i].data;
        if (attentions[i].data != DATA_NONFINITE && attentions[i].data != DATA_WIDE)
            case_data(made, attentions[i].data);
        set_mask(builder, made, 3, i % 2);
        made->gradient = i > 4 && i < 10 ? 2 : 0;
        made->quick = attentions[i].quick;
        case_end(builder, made, attentions[i].causal ? "causal" : "all");
    }
    for (int i = 0; i < COUNT(hidden); i++) {
        made = case_begin(builder, hidden[i].shapes);
        made->attrs.attention.causal = hidden[i].causal;
        set_mask(builder, made, 3, i % 2);
        if (made->in[3].present) hide_row(made, 3);
        made->gradient = i < 5 && has_differences(made, 3) ? 2 : 0;
        made->quick = hidden[i].quick;
        case_end(builder, made, hidden[i].causal ? "hidden.causal" : "hidden");
    }
    case_real(builder, case_begin(builder, "1x4x65x32+1x4x67x32+1x4x67x32"), 1, "real");
    made = case_begin(builder, "2x4x5x6+2x2x7x6+2x2x7x3+5x7+2");
    set_mask(builder, made, 3, false);
    made->in[4].dtype = builder->dtype[2];
    case_list(made, 4, COUNT(layout_lengths), layout_lengths);
    case_layouts(builder, made, "layouts", false);
}
