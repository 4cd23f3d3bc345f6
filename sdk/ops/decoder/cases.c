/* SPDX-License-Identifier: Apache-2.0 */
/* cases.c: builds the cases of parts of language models: rotary positions, convolutions and
 * attention with states, caches, and gates. */
#include "../common/cases.h"
#include <stdio.h>
#include <string.h>

cases_fn cases_rotary_embedding, cases_causal_conv, cases_linear_attention,
    cases_tensor_scatter, cases_cache_write, cases_swiglu;

static const struct {
    const char *variant, *shapes;
    int rows; /* of cos and sin; 0: no positions */
    bool quick, small;
} rotaries[] = {
    {"small", "1x1x2x4+1x2x2+1x2x2+-", 0, true, true},
    {"small.part", "1x2x2x3+1x2x1+1x2x1+-", 0, true, true},
    {"small.positions", "1x1x2x4+3x2+3x2+1x2", 3, true, true},
    {"batch", "2x3x5x8+2x5x4+2x5x4+-", 0, true, false},
    {"shared", "2x3x5x8+1x5x3+1x5x3+-", 0, false, false},
    {"positions", "3x2x7x16+9x8+9x8+3x7", 9, true, false},
    {"positions.shared", "2x4x6x10+11x4+11x4+1x6", 11, false, false},
    {"step", "4x3x1x64+50x32+50x32+4x1", 50, false, false},
    {"none", "2x2x3x4+1x3x0+1x3x0+-", 0, false, false},
    {"empty", "0x2x3x4+1x3x2+1x3x2+-", 0, false, false},
};

void cases_rotary_embedding(struct case_builder *builder)
{
    for (int i = 0; i < COUNT(rotaries); i++)
        for (int interleaved = 0; interleaved < 2; interleaved++) {
            struct kernel_case *made = case_begin(builder, rotaries[i].shapes);
            made->attrs.rotary_embedding.interleaved = interleaved;
            if (rotaries[i].rows) case_index(made, 3, builder->dtype[2], 0, rotaries[i].rows);
            made->quick = rotaries[i].quick;
            if (rotaries[i].small) made->gradient = 2;
            case_end(builder, made, "%s%s", rotaries[i].variant, interleaved ? ".pairs" : "");
        }
    for (int interleaved = 0; interleaved < 2; interleaved++) {
        struct kernel_case *made = case_begin(builder, "2x3x5x8+2x5x3+2x5x3+-");
        made->attrs.rotary_embedding.interleaved = interleaved;
        case_layouts(builder, made, interleaved ? "laid.pairs" : "laid", false);
        made = case_begin(builder, "2x16x40x64+128x32+128x32+2x40");
        case_index(made, 3, builder->dtype[2], 0, 128);
        made->attrs.rotary_embedding.interleaved = interleaved;
        case_real(builder, made, 1, interleaved ? "real.pairs" : "real");
    }
}

static const struct {
    const char *variant, *shapes;
    bool quick, small;
} convs[] = {
    {"small", "1x2x3+2x1x2+2+1x2x1", true, true},
    {"small.plain", "1x2x3+2x1x3+-+-", true, true},
    {"bias", "2x3x9+3x1x4+3+-", true, false},
    {"state", "2x3x9+3x1x4+-+2x3x3", false, false},
    {"all", "2x5x17+5x1x4+5+2x5x3", true, false},
    {"step", "3x7x1+7x1x4+7+3x7x3", true, false},
    {"short", "2x3x2+3x1x5+-+-", false, false},
    {"short.state", "2x3x2+3x1x5+3+2x3x4", false, false},
    {"point", "2x3x5+3x1x1+3+-", false, false},
    {"point.state", "2x3x5+3x1x1+-+2x3x0", false, false},
    {"empty", "0x3x5+3x1x3+3+0x3x2", false, false},
    {"wide", "1x67x33+67x1x7+67+1x67x6", false, false},
};

void cases_causal_conv(struct case_builder *builder)
{
    struct kernel_case *made;

    for (int i = 0; i < COUNT(convs); i++)
        for (int silu = 0; silu < 2; silu++) {
            char name[48];
            made = case_begin(builder, convs[i].shapes);
            snprintf(name, sizeof name, "%s%s", convs[i].variant, silu ? ".silu" : "");
            made->attrs.causal_conv_with_state.silu = silu;
            made->quick = convs[i].quick;
            if (convs[i].small) made->gradient = 2;
            if (!strcmp(convs[i].variant, "all")) case_part_layouts(builder, made, 2, name);
            else case_parts(builder, made, 2, name);
        }
    made = case_begin(builder, "1x256x128+256x1x4+256+1x256x3");
    made->n_out = 2;
    case_real_thin(builder, made, 1, "real");
}

/* q, k, v, state, decay and beta. */
static const struct {
    const char *variant, *shapes;
    bool quick, small;
} attentions[] = {
    {"small", "1x2x1x2+1x2x1x2+1x2x1x1+1x1x2x1+1x2x1x2+1x2x1x1", true, true},
    {"small.plain", "1x2x2x2+1x2x1x2+1x2x1x2+1x1x2x2+-+-", true, true},
    {"small.gated", "1x2x1x2+1x2x1x2+1x2x1x2+1x1x2x2+1x2x1x1+-", true, true},
    {"small.delta", "1x3x1x2+1x3x1x2+1x3x1x1+1x1x2x1+-+1x3x1x1", true, true},
    {"plain", "2x5x3x4+2x5x3x4+2x5x3x6+2x3x4x6+-+-", true, false},
    {"gated", "2x5x3x4+2x5x3x4+2x5x3x6+2x3x4x6+2x5x3x4+-", true, false},
    {"gated.heads", "2x5x3x4+2x5x3x4+2x5x3x6+2x3x4x6+2x5x3x1+-", false, false},
    {"delta", "2x5x3x4+2x5x3x4+2x5x3x6+2x3x4x6+-+2x5x3x1", true, false},
    {"delta.shared", "2x5x3x4+2x5x3x4+2x5x3x6+2x3x4x6+-+2x5x1x1", false, false},
    {"all", "2x4x6x5+2x4x3x5+2x4x3x7+2x3x5x7+2x4x3x5+2x4x3x1", true, false},
    {"step", "3x1x4x8+3x1x2x8+3x1x2x8+3x2x8x8+3x1x2x1+3x1x2x1", true, false},
    {"one-state", "2x3x4x3+2x3x1x3+2x3x1x70+2x1x3x70+2x3x1x3+-", false, false},
    {"wide", "1x2x1x3+1x2x1x3+1x2x1x131+1x1x3x131+1x2x1x1+1x2x1x1", false, false},
    {"no-values", "2x3x2x4+2x3x2x4+2x3x2x0+2x2x4x0+-+-", false, false},
    {"empty", "0x3x2x4+0x3x2x4+0x3x2x5+0x2x4x5+0x3x2x4+0x3x2x1", false, false},
};

/* Logarithms of factors below 1, and rates between 0 and 1. */
static const double decays[] = {-0.1, -1.5, -0.02, -0.7, -0.3, 0, -3, -0.05};
static const double rates[] = {0.5, 0.1, 0.9, 0.3, 0.7, 0.05, 1};
static const double small_rates[] = {0.02, 0.01, 0.05, 0.03};

static struct kernel_case *attention_of(const struct case_builder *builder, const char *shapes)
{
    struct kernel_case *made = case_begin(builder, shapes);

    case_data(made, DATA_UNIT);
    made->in[3].dtype = builder->dtype[1];
    if (made->in[4].present) case_list(made, 4, COUNT(decays), decays);
    if (made->in[5].present) case_list(made, 5, COUNT(rates), rates);
    return made;
}

void cases_linear_attention(struct case_builder *builder)
{
    bool half = builder->dtype[0] == BP_F16 || builder->dtype[0] == BP_BF16;
    struct kernel_case *made;

    if (builder->dtype[1] != builder->dtype[0] && !(half && builder->dtype[1] == BP_F32)) return;
    for (int i = 0; i < COUNT(attentions); i++) {
        made = attention_of(builder, attentions[i].shapes);
        made->quick = attentions[i].quick;
        if (i % 2) made->attrs.linear_attention.scale = 0.75;
        if (attentions[i].small) made->gradient = 2;
        if (!strcmp(attentions[i].variant, "all")) case_part_layouts(builder, made, 2, "all");
        else case_parts(builder, made, 2, attentions[i].variant);
    }
    case_parts(builder, attention_of(builder, "1x300x1x2+1x300x1x2+1x300x1x1+1x1x2x1+1x300x1x1+-"),
               2, "long");
    made = attention_of(builder, "1x32x8x64+1x32x4x64+1x32x4x64+1x4x64x64+1x32x4x1+1x32x4x1");
    case_list(made, 5, COUNT(small_rates), small_rates);
    made->n_out = 2;
    case_real_thin(builder, made, 1, "real");
}

static const struct {
    const char *variant, *shapes;
    int64_t axis, most; /* most: the numbers of `at` are below it */
    bool circular, quick, small;
} scatters[] = {
    {"small", "2x3x2+2x2x2+2", -2, 2, false, true, true},
    {"small.circular", "2x3x2+2x2x2+2", 1, 9, true, true, true},
    {"first", "2x3x5x4+2x3x2x4+-", 2, 0, false, true, false},
    {"last", "3x4x6+3x4x2+3", -1, 5, false, true, false},
    {"circular", "3x2x5x4+3x2x3x4+3", -2, 100, true, true, false},
    {"whole", "2x5x3+2x5x3+-", 1, 0, false, false, false},
    {"none", "2x5x3+2x0x3+2", 1, 6, false, false, false},
    {"empty", "0x5x3+0x2x3+0", 1, 4, true, false, false},
};

void cases_tensor_scatter(struct case_builder *builder)
{
    struct kernel_case *made;

    for (int i = 0; i < COUNT(scatters); i++) {
        made = case_begin(builder, scatters[i].shapes);
        made->attrs.tensor_scatter.axis = scatters[i].axis;
        made->attrs.tensor_scatter.circular = scatters[i].circular;
        if (made->in[2].present) case_index(made, 2, builder->dtype[2], 0, scatters[i].most);
        made->quick = scatters[i].quick;
        if (scatters[i].small) made->gradient = 2;
        if (i == 4) case_layouts(builder, made, scatters[i].variant, false);
        else case_end(builder, made, "%s", scatters[i].variant);
    }
    made = case_begin(builder, "2x16x256x64+2x16x1x64+2");
    case_index(made, 2, builder->dtype[2], 0, 256);
    case_real(builder, made, 1, "real");
}

static const struct {
    const char *variant, *shapes;
    int64_t axis, most;
    bool circular, quick;
} writes[] = {
    {"scalar", "2x3x5x4+2x3x2x4+scalar", -2, 4, false, true},
    {"each", "2x5x4+2x2x4+2", -2, 4, false, true},
    {"circular", "3x2x5x4+3x2x3x4+3", -2, 100, true, true},
    {"circular.one", "3x2x5x4+3x2x5x4+scalar", -2, 100, true, false},
    {"begin", "2x3x5x4+2x3x2x4+-", -2, 0, false, true},
    {"last", "3x4x6+3x4x2+3", -1, 5, false, true},
    {"rows", "7x5+3x5+scalar", 0, 5, false, true},
    {"list", "7+1+scalar", 0, 7, false, false},
    {"whole", "2x5x3+2x5x3+-", 1, 0, false, false},
    {"none", "2x5x3+2x0x3+2", 1, 6, false, true},
    {"empty", "0x5x3+0x2x3+0", 1, 4, true, false},
};

void cases_cache_write(struct case_builder *builder)
{
    struct kernel_case *made;

    for (int i = 0; i < COUNT(writes); i++) {
        made = case_begin(builder, writes[i].shapes);
        made->attrs.cache_write.axis = writes[i].axis;
        made->attrs.cache_write.circular = writes[i].circular;
        if (made->in[2].present) case_index(made, 2, builder->dtype[2], 0, writes[i].most);
        made->quick = writes[i].quick;
        if (i < 3) case_layouts(builder, made, writes[i].variant, false);
        else case_end(builder, made, "%s", writes[i].variant);
    }
    made = case_begin(builder, "2x16x256x64+2x16x1x64+scalar");
    case_index(made, 2, builder->dtype[2], 0, 256);
    case_real(builder, made, 1, "real");
}

void cases_swiglu(struct case_builder *builder)
{
    static const struct case_line lines[] = {
        {"small", "2x3+2x3", DATA_PLAIN, true}, {"scalar", "scalar+scalar", DATA_PLAIN, true},
        {"empty", "0x3+0x3", DATA_PLAIN, false}, {"wide", "257+257", DATA_WIDE, true},
        {"rank4", "2x3x4x5+2x3x4x5", DATA_PLAIN, false}, {"long", "4099+4099", DATA_PLAIN, false},
    };
    struct kernel_case *made;

    case_lines(builder, lines, COUNT(lines));
    case_gradient(builder, "2x3+2x3", DATA_PLAIN, 2);
    made = case_begin(builder, "5x6x7+5x6x7");
    made->attrs.swiglu.alpha = 1.702;
    case_layouts(builder, made, "alpha", false);
    case_real(builder, case_begin(builder, "64x1024+64x1024"), 1, "real");
}
