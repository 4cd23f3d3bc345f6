/* SPDX-License-Identifier: Apache-2.0 */
/* cases_move.c: cases of assign, concat, slice_grad and nonzero. */
#include <conformance/kernel_case.h>
#include "cases_slices.h"
#include <stdio.h>

cases_fn cases_assign, cases_concat, cases_slice_grad, cases_nonzero;

static const struct {
    const char *variant, *shape;
    bool quick;
} lines[] = {
    {"empty", "0", false},     {"empty", "3x0x2", true}, {"scalar", "scalar", true},
    {"one", "1", false},       {"prime", "1031", true},  {"width", "15", false},
    {"width", "16", false},    {"width", "17", false},   {"width", "31", false},
    {"width", "33", false},    {"width", "63", false},   {"width", "64", false},
    {"width", "65", true},     {"rank5", "2x3x2x3x5", true},
    {"rank8", "1x2x1x2x1x2x1x3", false},                 {"rows", "129x257", false},
    {"long", "70001", false},
};
enum { N_LINES = sizeof lines / sizeof *lines };

void cases_assign(struct case_maker *maker)
{
    struct kernel_case *made;
    char drawn[32];

    for (int i = 0; i < N_LINES; i++) {
        made = case_begin(maker, lines[i].shape);
        case_data(made, i % 2 ? DATA_SPECIAL : DATA_PLAIN);
        case_smooth(made, 2);
        made->quick = lines[i].quick;
        case_end(maker, made, "%s", lines[i].variant);
    }
    case_end(maker, case_begin(maker, case_drawn_shape(maker, drawn, sizeof drawn)), "drawn");
    case_extents(maker, case_begin(maker, "1"), "sweep");
    case_large(maker, case_begin(maker, "257"), "large");
    for (int i = 0; i < 2; i++) {
        made = case_begin(maker, "1031");
        case_data(made, i ? DATA_RANGE : DATA_ZERO);
        case_end(maker, made, i ? "range" : "zeros");
    }
    made = case_begin(maker, "5x6x7");
    case_layouts(maker, made, "rank3", true);
    made = case_begin(maker, "257x129");
    made->in[0].layout = LAYOUT_PERMUTED;
    case_end(maker, made, "long.permuted0");
}

static const struct {
    const char *variant, *shapes;
    int64_t axis;
    bool quick;
} joins[] = {
    {"alone", "7", 0, false},
    {"axis0", "3+4+5", 0, true},
    {"axis0", "1+2+3+4+5+6+7+8", 0, false},
    {"axis1", "2x3+2x1+2x4", 1, true},
    {"axisn1", "2x3+2x1+2x4", -1, false},
    {"axis1", "3x2x4+3x5x4", 1, false},
    {"axisn2", "3x2x4+3x5x4", -2, true},
    {"empty-left", "0x3+2x3", 0, false},
    {"empty-right", "2x3+0x3", 0, false},
    {"empty", "2x0+2x0", 1, true},
    {"empty", "0x2+0x3", 1, false},
    {"rank8", "1x2x1x2x1x2x1x3+1x2x1x2x1x5x1x3", 5, false},
    {"long", "40000+30001", 0, false},
    {"rows", "129x257+129x31", 1, false},
};

void cases_concat(struct case_maker *maker)
{
    int rows = (int)case_drawn(maker, 0, 1, 40), left = (int)case_drawn(maker, 1, 1, 500),
        right = (int)case_drawn(maker, 2, 1, 500);
    struct kernel_case *made;
    char drawn[64];

    for (size_t i = 0; i < sizeof joins / sizeof *joins; i++) {
        made = case_begin(maker, joins[i].shapes);
        made->attrs.concat.axis = joins[i].axis;
        case_data(made, i % 2 ? DATA_SPECIAL : DATA_PLAIN);
        case_smooth(made, 2);
        made->quick = joins[i].quick;
        case_end(maker, made, "%s", joins[i].variant);
    }
    snprintf(drawn, sizeof drawn, "%dx%d+%dx%d", rows, left, rows, right);
    made = case_begin(maker, drawn);
    made->attrs.concat.axis = 1;
    case_end(maker, made, "drawn");
    made = case_begin(maker, "3x1+2x1");
    case_extents(maker, made, "sweep");
    made = case_begin(maker, "5x6x7+5x2x7");
    made->attrs.concat.axis = 1;
    case_layouts(maker, made, "rank3", false);
}

void cases_slice_grad(struct case_maker *maker)
{
    char shapes[96];

    for (int i = 0; i < CASE_SLICES; i++) {
        const struct case_slice *s = &case_slices[i];
        struct kernel_case *made;
        snprintf(shapes, sizeof shapes, "%s+%s", s->result, s->shape);
        made = case_begin(maker, shapes);
        case_slice_attrs(made, s);
        made->in[0].data = DATA_SPECIAL;
        made->in[1].data = DATA_UNREAD;
        case_smooth(made, 2);
        made->quick = s->quick;
        if (s->layouts) case_layouts(maker, made, s->variant, false);
        else case_end(maker, made, "%s", s->variant);
    }
}

static void nonzero(struct case_maker *maker, const char *shape, enum data data, bool quick,
                    const char *variant)
{
    struct kernel_case *made = case_begin(maker, shape);

    case_data(made, data);
    made->quick = quick;
    case_end(maker, made, "%s", variant);
}

void cases_nonzero(struct case_maker *maker)
{
    struct kernel_case *made;
    char drawn[32];

    for (int i = 0; i < N_LINES; i++)
        nonzero(maker, lines[i].shape, DATA_SPARSE, lines[i].quick, lines[i].variant);
    nonzero(maker, "scalar", DATA_ZERO, false, "none");
    nonzero(maker, "5x7", DATA_ZERO, true, "none");
    nonzero(maker, "40000", DATA_ZERO, false, "none");
    if (maker->dtype[0] != BP_BOOL && case_is_float(maker))
        nonzero(maker, "5x7", DATA_POSITIVE, true, "all");
    nonzero(maker, "331", DATA_SPECIAL, true, "special");
    nonzero(maker, case_drawn_shape(maker, drawn, sizeof drawn), DATA_SPARSE, false, "drawn");
    made = case_begin(maker, "3x1");
    case_data(made, DATA_SPARSE);
    case_extents(maker, made, "sweep");
    made = case_begin(maker, "5x6x7");
    case_data(made, DATA_SPARSE);
    case_layouts(maker, made, "rank3", false);
}
