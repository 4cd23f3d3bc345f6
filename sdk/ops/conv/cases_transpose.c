/* SPDX-License-Identifier: Apache-2.0 */
/* cases_transpose.c: builds the conformance cases of the transposed convolution. */
#include "../common/cases.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

cases_fn cases_conv_transpose;

#define ONES {1, 1, 1}
#define NO_PAD {0, 0, 0, 0, 0, 0}
#define NO_MORE {0, 0, 0}
static const struct {
    const char *variant, *x, *w;
    int64_t stride[3], dilation[3], pad[6], more[3], groups;
    bool quick;
} geometries[] = {
    {"1d.small", "1x4x3", "4x1x2", {2, 1, 1}, {2, 1, 1}, {1, 0, 0, 0, 0, 0}, {1, 0, 0}, 2, false},
    {"2d.small", "1x2x2x3", "2x2x2x2", {1, 2, 1}, ONES, {0, 1, 0, 1, 0, 0}, NO_MORE, 1, false},
    {"2d.small-gaps", "1x1x2x2", "1x2x1x2", {3, 2, 1}, {1, 3, 1}, {0, 1, 0, 0, 0, 0}, {2, 2, 0}, 1,
     false},
    {"2d.narrow-odd", "2x3x4x1", "3x5x2x1", {2, 2, 1}, ONES, NO_PAD, {1, 0, 0}, 1, false},
    {"1d", "2x3x17", "3x4x3", ONES, ONES, NO_PAD, NO_MORE, 1, true},
    {"1d.stride", "1x3x9", "3x5x4", {3, 1, 1}, ONES, {2, 0, 0, 1, 0, 0}, {2, 0, 0}, 1, false},
    {"2d.one", "1x1x1x1", "1x1x1x1", ONES, ONES, NO_PAD, NO_MORE, 1, true},
    {"2d.empty", "0x3x2x2", "3x4x3x3", ONES, ONES, NO_PAD, NO_MORE, 1, true},
    {"2d", "2x3x7x6", "3x4x3x3", {2, 2, 1}, ONES, {1, 1, 0, 1, 1, 0}, {1, 1, 0}, 1, true},
    {"2d.cut", "1x2x5x5", "2x3x4x3", {2, 1, 1}, ONES, {3, 1, 0, 2, 0, 0}, {1, 0, 0}, 1, true},
    {"2d.dilation", "1x3x5x6", "3x2x3x2", {1, 2, 1}, {3, 2, 1}, {1, 0, 0, 2, 1, 0}, {2, 1, 0}, 1,
     true},
    {"2d.zeros", "1x2x3x4", "2x3x2x2", {1, 2, 1}, {4, 1, 1}, NO_PAD, {3, 5, 0}, 1, true},
    {"2d.zeros-cut", "1x2x3x4", "2x3x2x2", {1, 2, 1}, {4, 1, 1}, {0, 0, 0, 2, 1, 0}, {3, 5, 0}, 1,
     false},
    {"2d.groups", "2x6x5x4", "6x2x3x3", {2, 2, 1}, ONES, {1, 1, 0, 1, 1, 0}, NO_MORE, 3, true},
    {"2d.depthwise", "2x7x5x5", "7x1x3x3", {2, 2, 1}, ONES, {1, 1, 0, 1, 1, 0}, {1, 1, 0}, 7,
     false},
    {"1d.vocoder", "1x5x33", "5x7x16", {8, 1, 1}, ONES, {4, 0, 0, 4, 0, 0}, NO_MORE, 1, false},
    {"2d.apart", "1x3x9x9", "3x5x2x2", {2, 2, 1}, ONES, NO_PAD, NO_MORE, 1, false},
    {"2d.prime", "3x13x5x3", "13x17x3x3", ONES, ONES, {1, 1, 0, 1, 1, 0}, NO_MORE, 1, false},
    {"1d.pairs", "1x3x41", "3x5x4", {2, 1, 1}, ONES, {1, 0, 0, 1, 0, 0}, NO_MORE, 1, false},
    {"1d.pairs-odd", "2x3x37", "3x14x2", {2, 1, 1}, ONES, NO_PAD, {1, 0, 0}, 1, false},
    {"1d.pairs-apart", "1x3x38", "3x4x2", {2, 1, 1}, {3, 1, 1}, NO_PAD, NO_MORE, 1, false},
    {"1d.triples", "1x3x35", "3x5x3", {3, 1, 1}, ONES, NO_PAD, NO_MORE, 1, false},
    {"2d.width", "1x16x8x9", "16x15x2x2", {2, 2, 1}, ONES, NO_PAD, NO_MORE, 1, false},
    {"3d", "1x2x3x4x3", "2x3x2x2x3", {2, 1, 2}, {1, 2, 1}, {1, 0, 1, 0, 1, 0}, {1, 0, 0}, 1, true},
    {"3d.groups", "2x4x2x3x3", "4x1x3x2x2", {1, 2, 2}, ONES, NO_PAD, {0, 1, 1}, 2, false},
};
enum { N_GEOMETRIES = sizeof geometries / sizeof *geometries };

static struct kernel_case *transpose_cases_begin(const struct case_builder *builder, int i,
                                                 bool bias)
{
    char shapes[96];
    struct kernel_case *made;
    struct bp_conv_transpose_attrs *a;
    int64_t filters = strtoll(strchr(geometries[i].w, 'x') + 1, NULL, 10) * geometries[i].groups;

    if (bias)
        snprintf(shapes, sizeof shapes, "%s+%s+%lld", geometries[i].x, geometries[i].w,
                 (long long)filters);
    else snprintf(shapes, sizeof shapes, "%s+%s+-", geometries[i].x, geometries[i].w);
    made = case_begin(builder, shapes);
    a = &made->attrs.conv_transpose;
    memcpy(a->stride, geometries[i].stride, sizeof a->stride);
    memcpy(a->dilation, geometries[i].dilation, sizeof a->dilation);
    memcpy(a->pad, geometries[i].pad, sizeof a->pad);
    memcpy(a->output_padding, geometries[i].more, sizeof a->output_padding);
    a->groups = geometries[i].groups;
    made->quick = geometries[i].quick;
    return made;
}

void cases_conv_transpose(struct case_builder *builder)
{
    struct kernel_case *made;

    for (int i = 0; i < N_GEOMETRIES; i++)
        for (int bias = 0; bias < 2; bias++) {
            made = transpose_cases_begin(builder, i, bias);
            case_smooth(made, 2);
            if (i == 9 && bias) case_layouts(builder, made, geometries[i].variant, false);
            else case_end(builder, made, "%s%s", geometries[i].variant, bias ? ".bias" : "");
        }
    made = case_begin(builder, "1x33x13x11+33x17x3x3+17");
    made->attrs.conv_transpose.stride[0] = made->attrs.conv_transpose.stride[1] = 2;
    case_real(builder, made, 1, "real");
    made = transpose_cases_begin(builder, N_GEOMETRIES - 3, true);
    case_data(made, DATA_EXACT);
    case_end(builder, made, "exact");
    made = transpose_cases_begin(builder, N_GEOMETRIES - 3, false);
    case_data(made, DATA_POSITIVE);
    case_end(builder, made, "positive");
    /* An element of x that is not finite affects only the results that its window covers. There are
     * no such elements in w: rows may multiply w by the zeros between elements of x, or not. */
    for (int i = 3; i > 1; i--) {
        made = transpose_cases_begin(builder, N_GEOMETRIES - i, i == 3);
        made->in[0].data = DATA_NONFINITE;
        case_end(builder, made, "nonfinite");
    }
}
