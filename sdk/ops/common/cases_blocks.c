/* SPDX-License-Identifier: Apache-2.0 */
/* cases_blocks.c: builds cases of elementwise operators and copies for rows with layouts of the
 * plugin, whose blocks of channels and columns may be full or not; and of a network's first
 * convolution, whose image has few channels. */
#include "cases.h"
#include <stdio.h>

cases_fn cases_assign, cases_binary, cases_conv, cases_pair, cases_unary;

/* Families of operators that take any shape, and how many inputs they have. */
static const struct {
    cases_fn *family;
    int n_in;
} families[] = {{cases_assign, 1}, {cases_unary, 1}, {cases_binary, 2}, {cases_pair, 2}};

static const struct {
    const char *shape;
    enum data data;
    bool quick;
} blocks[] = {
    {"2x1x3x5", DATA_PLAIN, false},     {"2x7x3x5", DATA_SPECIAL, true},
    {"2x8x3x5", DATA_NONFINITE, true},  {"3x9x2x3", DATA_SPECIAL, true},
    {"1x15x1x1", DATA_PLAIN, false},    {"1x16x4x4", DATA_PLAIN, false},
    {"2x17x3x2", DATA_NONFINITE, true}, {"1x33x1x7", DATA_ZERO, false},
    {"0x8x3x5", DATA_PLAIN, false},     {"2x0x3x5", DATA_PLAIN, false},
    {"2x8x0x5", DATA_PLAIN, false},     {"3x1", DATA_PLAIN, false},
    {"5x7", DATA_SPECIAL, true},        {"5x8", DATA_PLAIN, false},
    {"1x9", DATA_NONFINITE, true},      {"17x16", DATA_PLAIN, false},
    {"9x17", DATA_PLAIN, true},         {"7x0", DATA_PLAIN, false},
    {"0x7", DATA_PLAIN, false},
};

static void block_case(const struct case_builder *builder, int n_in, size_t index)
{
    enum data data = blocks[index].data;
    struct kernel_case *made;
    char shapes[64];

    snprintf(shapes, sizeof shapes, "%s%s%s", blocks[index].shape, n_in > 1 ? "+" : "",
             n_in > 1 ? blocks[index].shape : "");
    if (case_is_complex(builder) || (data == DATA_NONFINITE && !case_is_float(builder)))
        data = DATA_PLAIN;
    made = case_begin(builder, shapes);
    case_data(made, data);
    made->quick = blocks[index].quick;
    case_end(builder, made, "blocks");
}

/* The second operand has a number for each channel, or one for all, as biases and factors have. */
static void block_broadcasts(const struct case_builder *builder)
{
    static const char *const shapes[] = {
        "2x9x3x5+9x1x1", "2x17x3x2+1x17x1x1", "1x8x2x3+8x1x1", "2x9x3x5+1", "3x9+9", "5x16+5x1"};

    for (int i = 0; i < COUNT(shapes); i++) {
        struct kernel_case *made = case_begin(builder, shapes[i]);
        made->quick = !i;
        case_end(builder, made, "blocks.broadcast");
    }
}

/* Images whose strides are not those of a row-major tensor reach the conversion. */
static void block_strides(const struct case_builder *builder)
{
    static const enum layout layouts[] = {LAYOUT_PERMUTED, LAYOUT_GAPS, LAYOUT_REPEAT, LAYOUT_LAST};
    static const char *const names[] = {"permuted", "gaps", "repeat", "last"};

    for (int i = 0; i < COUNT(layouts); i++)
        for (int matrix = 0; matrix < 2; matrix++) {
            struct kernel_case *made;
            if (matrix && layouts[i] == LAYOUT_LAST) continue;
            made = case_begin(builder, matrix ? "5x9" : "2x9x3x5");
            made->in[0].layout = layouts[i];
            case_end(builder, made, "blocks.%s", names[i]);
        }
}

static void block_first(const struct case_builder *builder)
{
    struct kernel_case *made = case_begin(builder, "1x3x40x40+17x3x3x3+17");

    made->attrs.conv.stride[0] = made->attrs.conv.stride[1] = 2;
    made->attrs.conv.pad[0] = made->attrs.conv.pad[1] = 1;
    case_real(builder, made, 1, "real.blocks.first");
}

void case_blocks(const struct case_builder *builder)
{
    if (builder->op->cases == cases_conv) block_first(builder);
    for (int f = 0; f < COUNT(families); f++) {
        if (builder->op->cases != families[f].family) continue;
        for (size_t i = 0; i < COUNT(blocks); i++) block_case(builder, families[f].n_in, i);
        if (families[f].n_in == 1) block_strides(builder);
        else block_broadcasts(builder);
    }
}
