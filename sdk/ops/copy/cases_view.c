/* SPDX-License-Identifier: Apache-2.0 */
/* cases_view.c: builds the conformance cases of operators that make views: as a view, copied into a
 * preallocated output, and with the attributes as tensors. An operator with several views has a
 * case for each. Also builds the cases of assign, slice_grad and concat, the copies that belong to
 * views. */
#include "../common/cases.h"
#include "../common/cases_shapes.h"
#include "../common/cases_slices.h"
#include <stdio.h>
#include <string.h>

cases_fn cases_reshape, cases_transpose, cases_slice, cases_split, cases_expand, cases_assign,
    cases_concat, cases_slice_grad;

/* Adds a case in one form: as a view; copied into a preallocated output; with the attributes as
 * tensors. The family begins the case anew for each form. */
enum form { FORM_VIEW, FORM_GIVEN, FORM_HOST_I64, FORM_HOST_I32, FORMS };
static void take_form(const struct case_builder *builder, struct kernel_case *made, enum form form,
                      const char *variant)
{
    static const char *const name[] = {"", ".given", ".host-i64", ".host-i32"};

    made->given = form == FORM_GIVEN;
    made->host = form == FORM_HOST_I64 ? BP_I64 : form == FORM_HOST_I32 ? BP_I32 : 0;
    if (!made->part) case_smooth(made, 2); /* the parts are one call: one case is enough */
    case_end(builder, made, "%s%s", variant, name[form]);
}

void cases_slice(struct case_builder *builder)
{
    for (int i = 0; i < CASE_SLICES; i++)
        for (int form = 0; form < FORMS; form++) {
            const struct case_slice *s = &case_slices[i];
            struct kernel_case *made;
            bool wide = s->n && (s->ends[0] > INT32_MAX);
            if ((form == FORM_HOST_I32 && wide) || (form >= FORM_HOST_I64 && !s->n)) continue;
            made = case_begin(builder, s->shape);
            case_slice_attrs(made, s);
            case_smooth(made, 2);
            made->quick = s->quick;
            if (s->layouts && form == FORM_VIEW) case_layouts(builder, made, s->variant, false);
            else take_form(builder, made, (enum form)form, s->variant);
        }
}

static const struct listed_view {
    const char *variant, *shape;
    int n;
    int64_t list[REF_RANK];
    bool quick, layouts;
} reshapes[] =
    {
        {"split", "24", 3, {2, 3, 4}, true, false},
        {"join", "2x3x4", 2, {6, 4}, true, false},
        {"flat", "2x3x4", 1, {-1}, true, false},
        {"open", "2x3x4", 2, {-1, 8}, false, false},
        {"same", "2x3", 2, {2, 3}, false, false},
        {"ones", "2x3", 5, {1, 2, 1, 3, 1}, false, false},
        {"across", "4x6", 3, {3, 2, 4}, false, false},
        {"scalar", "scalar", 0, {0}, false, false},
        {"scalar", "1x1", 0, {0}, true, false},
        {"from-scalar", "scalar", 2, {1, 1}, false, false},
        {"empty", "0x3", 2, {3, 0}, true, false},
        {"rank8", "256", 8, {2, 2, 2, 2, 2, 2, 2, 2}, false, false},
        {"joined", "5x6x7", 2, {30, 7}, false, true},
        {"joined-last", "5x6x7", 2, {5, -1}, false, true},
        {"split-first", "4x6x5", 4, {2, 2, 6, 5}, false, true},
        {"long", "70001", 2, {1, -1}, false, false},
},
  expands[] = {
      {"rows", "1x3", 2, {4, 3}, true, false},
      {"front", "3", 2, {2, -1}, true, false},
      {"scalar", "scalar", 2, {2, 2}, true, false},
      {"same", "2x3", 2, {2, 3}, false, false},
      {"middle", "2x1x3", 3, {2, 4, 3}, false, false},
      {"empty", "1", 1, {0}, true, false},
      {"rank8", "2x1", 8, {1, 2, 1, 2, 1, 2, 2, 3}, false, false},
      {"wider", "5x1x7", 4, {2, 5, 6, 7}, false, true},
};

/* Adds cases of reshape or expand, which have the same attributes. */
static void cases_listed(struct case_builder *builder, const struct listed_view *v, size_t n,
                         bool may_copy)
{
    for (size_t i = 0; i < n; i++)
        for (int form = 0; form < FORMS; form++) {
            struct kernel_case *made;
            if (form >= FORM_HOST_I64 && (v[i].layouts || !v[i].n)) continue;
            made = case_begin(builder, v[i].shape);
            made->attrs.reshape.shape = case_dims(made, 0, v[i].n, v[i].list);
            made->quick = v[i].quick;
            if (!v[i].layouts || form != FORM_VIEW) {
                take_form(builder, made, (enum form)form, v[i].variant);
                continue;
            }
            made->may_copy = may_copy;
            case_layouts(builder, made, v[i].variant, false);
        }
}

void cases_reshape(struct case_builder *builder)
{
    cases_listed(builder, reshapes, sizeof reshapes / sizeof *reshapes, true);
}

void cases_expand(struct case_builder *builder)
{
    cases_listed(builder, expands, sizeof expands / sizeof *expands, false);
}

static const struct listed_view turns[] = {
    {"reversed", "2x3x4", 0, {0}, true, false},
    {"matrix", "3x5", 2, {1, 0}, true, false},
    {"rotated", "2x3x4", 3, {2, 0, 1}, true, true},
    {"same", "2x3", 2, {0, 1}, false, false},
    {"line", "5", 0, {0}, false, false},
    {"scalar", "scalar", 0, {0}, false, false},
    {"empty", "0x3", 0, {0}, true, false},
    {"tiles", "19x67", 2, {1, 0}, false, false},
    {"tiles", "2x70x3x9", 4, {0, 3, 2, 1}, false, false},
    {"runs", "9x17x3", 3, {1, 0, 2}, true, false},
    {"runs", "2x9x20x5", 4, {0, 2, 1, 3}, false, false},
    {"rank8", "1x2x1x2x1x2x1x3", 8, {7, 1, 2, 3, 0, 6, 5, 4}, false, false},
};

void cases_transpose(struct case_builder *builder)
{
    for (size_t i = 0; i < sizeof turns / sizeof *turns; i++)
        for (int form = 0; form < FORM_HOST_I64; form++) {
            struct kernel_case *made = case_begin(builder, turns[i].shape);
            made->attrs.transpose.perm = case_dims(made, 0, turns[i].n, turns[i].list);
            case_smooth(made, 2);
            made->quick = turns[i].quick;
            if (turns[i].layouts && form == FORM_VIEW)
                case_layouts(builder, made, turns[i].variant, false);
            else take_form(builder, made, (enum form)form, turns[i].variant);
        }
}

static const struct {
    const char *variant, *shape;
    int64_t axis, sections;
    int n;
    int64_t sizes[REF_OUTPUTS];
    bool quick, layouts;
} splits[] = {
    {"halves", "6", 0, 2, 0, {0}, true, false},
    {"alone", "4", 0, 1, 0, {0}, false, false},
    {"sections", "3x4x2", 1, 4, 0, {0}, true, false},
    {"sizes", "2x7", -1, 0, 3, {3, 0, 4}, true, false},
    {"open", "5x3", 0, 0, 3, {1, -1, 2}, false, false},
    {"open-last", "3x5", -1, 0, 2, {5, -1}, false, false},
    {"eight", "16x3", 0, 8, 0, {0}, false, false},
    {"empty", "0x3", 0, 2, 0, {0}, true, false},
    {"empty", "0x4", 1, 0, 2, {1, 3}, false, false},
    {"rank8", "1x2x1x6x1x2x1x3", 3, 0, 2, {4, 2}, false, false},
    {"rank3", "5x6x7", 1, 0, 2, {2, 4}, false, true},
    {"long", "70001", 0, 0, 2, {1, 70000}, false, false},
};

static void cases_part(const struct case_builder *builder, size_t i, int part, enum form form)
{
    struct kernel_case *made = case_begin(builder, splits[i].shape);
    char variant[48];

    made->n_out = splits[i].n ? splits[i].n : (int)splits[i].sections;
    made->part = part;
    made->attrs.split.axis = splits[i].axis;
    made->attrs.split.sections = splits[i].sections;
    made->attrs.split.sizes = case_dims(made, 0, splits[i].n, splits[i].sizes);
    made->quick = splits[i].quick;
    snprintf(variant, sizeof variant, "%s.part%d", splits[i].variant, part);
    if (splits[i].layouts && form == FORM_VIEW) case_layouts(builder, made, variant, false);
    else take_form(builder, made, form, variant);
}

void cases_split(struct case_builder *builder)
{
    for (size_t i = 0; i < sizeof splits / sizeof *splits; i++) {
        int n = splits[i].n ? splits[i].n : (int)splits[i].sections;
        int forms = splits[i].n ? FORMS : FORM_HOST_I64; /* sections cannot be passed as a tensor */
        for (int part = 0; part < n; part++)
            for (int form = 0; form < forms; form++)
                cases_part(builder, i, part, (enum form)form);
    }
}

void cases_assign(struct case_builder *builder)
{
    struct kernel_case *made;
    char drawn[32];

    for (int i = 0; i < CASE_SHAPES; i++) {
        made = case_begin(builder, case_shapes[i].shape);
        case_data(made, i % 2 ? DATA_SPECIAL : DATA_PLAIN);
        case_smooth(made, 2);
        made->quick = case_shapes[i].quick;
        case_end(builder, made, "%s", case_shapes[i].variant);
    }
    case_end(builder, case_begin(builder, case_drawn_shape(builder, drawn, sizeof drawn)), "drawn");
    case_extents(builder, case_begin(builder, "1"), "sweep");
    case_large(builder, case_begin(builder, "257"), "large");
    for (int i = 0; i < 2; i++) {
        made = case_begin(builder, "1031");
        case_data(made, i ? DATA_RANGE : DATA_ZERO);
        case_end(builder, made, i ? "range" : "zeros");
    }
    made = case_begin(builder, "5x6x7");
    case_layouts(builder, made, "rank3", true);
    made = case_begin(builder, "257x129");
    made->in[0].layout = LAYOUT_PERMUTED;
    case_end(builder, made, "long.permuted0");
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

void cases_concat(struct case_builder *builder)
{
    int rows = (int)case_drawn(builder, 0, 1, 40), left = (int)case_drawn(builder, 1, 1, 500),
        right = (int)case_drawn(builder, 2, 1, 500);
    struct kernel_case *made;
    char drawn[64];

    for (size_t i = 0; i < sizeof joins / sizeof *joins; i++) {
        made = case_begin(builder, joins[i].shapes);
        made->attrs.concat.axis = joins[i].axis;
        case_data(made, i % 2 ? DATA_SPECIAL : DATA_PLAIN);
        case_smooth(made, 2);
        made->quick = joins[i].quick;
        case_end(builder, made, "%s", joins[i].variant);
    }
    snprintf(drawn, sizeof drawn, "%dx%d+%dx%d", rows, left, rows, right);
    made = case_begin(builder, drawn);
    made->attrs.concat.axis = 1;
    case_end(builder, made, "drawn");
    made = case_begin(builder, "3x1+2x1");
    case_extents(builder, made, "sweep");
    made = case_begin(builder, "5x6x7+5x2x7");
    made->attrs.concat.axis = 1;
    case_layouts(builder, made, "rank3", false);
}

void cases_slice_grad(struct case_builder *builder)
{
    char shapes[96];

    for (int i = 0; i < CASE_SLICES; i++) {
        const struct case_slice *s = &case_slices[i];
        struct kernel_case *made;
        snprintf(shapes, sizeof shapes, "%s+%s", s->result, s->shape);
        made = case_begin(builder, shapes);
        case_slice_attrs(made, s);
        made->in[0].data = DATA_SPECIAL;
        made->in[1].data = DATA_UNREAD;
        case_smooth(made, 2);
        made->quick = s->quick;
        if (s->layouts) case_layouts(builder, made, s->variant, false);
        else case_end(builder, made, "%s", s->variant);
    }
}
