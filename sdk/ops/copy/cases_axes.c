/* SPDX-License-Identifier: Apache-2.0 */
/* cases_axes.c: builds the conformance cases of operators that view a tensor with other axes, and
 * of operators that are defined by other operators. */
#include "../common/cases_listed.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

cases_fn cases_shape_view, cases_unstack, cases_stack, cases_shape_more, cases_shape_facts,
    cases_grids;

static const struct listed_case views[] = {
    {"squeeze", "all", "1x3x1x4", {{0}}, .quick = true},
    {"squeeze", "none", "2x3", {{0}}},
    {"squeeze", "scalar", "scalar", {{0}}, .quick = true},
    {"squeeze", "to-scalar", "1x1", {{0}}},
    {"squeeze", "empty", "0x1", {{0}}, .quick = true},
    {"squeeze", "one", "1x3x1x4", {{1, {2}}}, .quick = true},
    {"squeeze", "two", "1x3x1x4", {{2, {-2, 0}}}, .quick = true},
    {"squeeze", "stays", "1x3x1x4", {{2, {1, 0}}}},
    {"squeeze", "rank8", "1x2x1x3x1x2x1x3", {{3, {4, 0, -2}}}},
    {"squeeze", "layouts", "5x1x6x1x7", {{1, {1}}}, .layouts = true},
    {"unsqueeze", "none", "2x3", {{0}}},
    {"unsqueeze", "front", "2x3", {{1, {0}}}, .quick = true},
    {"unsqueeze", "last", "2x3", {{1, {-1}}}, .quick = true},
    {"unsqueeze", "both", "2x3", {{2, {0, 3}}}, .quick = true},
    {"unsqueeze", "unsorted", "2x3", {{3, {2, 0, -1}}}},
    {"unsqueeze", "scalar", "scalar", {{2, {0, 1}}}, .quick = true},
    {"unsqueeze", "empty", "0x3", {{1, {1}}}, .quick = true},
    {"unsqueeze", "rank8", "2x3x2", {{5, {0, 2, 3, 5, 7}}}},
    {"unsqueeze", "layouts", "5x6x7", {{2, {1, 4}}}, .layouts = true},
    {"flatten", "all", "2x3x4", .number = {0, -1}, .quick = true},
    {"flatten", "first", "2x3x4", .number = {0, 1}, .quick = true},
    {"flatten", "last", "2x3x4", .number = {-2, -1}, .quick = true},
    {"flatten", "one", "2x3x4", .number = {1, 1}},
    {"flatten", "scalar", "scalar", .number = {0, -1}, .quick = true},
    {"flatten", "line", "17", .number = {0, 0}},
    {"flatten", "empty", "3x0x2", .number = {0, 1}, .quick = true},
    {"flatten", "rank8", "1x2x1x2x1x2x1x3", .number = {2, 6}},
    {"flatten", "joined", "5x6x7", .number = {0, 1}, .layouts = true},
    {"flatten", "joined-last", "5x6x7", .number = {1, 2}, .layouts = true},
    {"atleast", "scalar1", "scalar", .number = {1}, .quick = true},
    {"atleast", "scalar3", "scalar", .number = {3}},
    {"atleast", "line1", "7", .number = {1}},
    {"atleast", "line2", "7", .number = {2}, .quick = true},
    {"atleast", "line3", "7", .number = {3}, .quick = true},
    {"atleast", "matrix", "2x3", .number = {3}, .quick = true},
    {"atleast", "more", "2x3x2x2", .number = {3}},
    {"atleast", "empty", "0", .number = {2}},
    {"atleast", "matrix", "5x6", .number = {3}, .layouts = true},
    {"expand_as", "rows", "1x3+4x3", .quick = true},
    {"expand_as", "front", "3+2x3", .quick = true},
    {"expand_as", "scalar", "scalar+2x2", .quick = true},
    {"expand_as", "scalars", "scalar+scalar"},
    {"expand_as", "same", "2x3+2x3"},
    {"expand_as", "middle", "2x1x3+2x4x3"},
    {"expand_as", "empty", "1+0", .quick = true},
    {"expand_as", "rank8", "2x1+1x2x1x2x1x2x2x3"},
    {"expand_as", "wider", "5x1x7+2x5x6x7", .layouts = true},
    {"crop", "middle", "7", {{1, {2}}, {1, {3}}}, .quick = true},
    {"crop", "front", "5x6", {{0}, {2, {2, 3}}}, .quick = true},
    {"crop", "rest", "5x6", {{2, {1, 2}}, {2, {-1, -1}}}, .quick = true},
    {"crop", "whole", "4x3", {{2, {0, 0}}, {2, {4, 3}}}},
    {"crop", "none", "4x3", {{2, {4, 1}}, {2, {0, 2}}}, .quick = true},
    {"crop", "empty", "0x3", {{2, {0, 1}}, {2, {0, 2}}}},
    {"crop", "end", "7x3", {{2, {6, 2}}, {2, {1, 1}}}},
    {"crop", "scalar", "scalar", {{0}, {0}}},
    {"crop", "rank8", "1x2x1x3x1x2x1x4", {{0}, {8, {1, 1, 1, 2, 1, -1, 1, 3}}}},
    {"crop", "box", "5x6x7", {{3, {1, 0, 2}}, {3, {3, -1, 4}}}, .layouts = true},
    {"swapaxes", "matrix", "3x5", .number = {0, 1}, .quick = true},
    {"swapaxes", "ends", "2x3x4", .number = {0, -1}, .quick = true},
    {"swapaxes", "same", "2x3", .number = {1, -1}},
    {"swapaxes", "line", "5", .number = {0, 0}},
    {"swapaxes", "empty", "0x3", .number = {0, 1}, .quick = true},
    {"swapaxes", "rank8", "1x2x1x2x1x2x1x3", .number = {1, 7}},
    {"swapaxes", "turned", "5x6x7", .number = {1, 2}, .layouts = true},
    {"moveaxis", "first-last", "2x3x4", {{1, {0}}, {1, {-1}}}, .quick = true},
    {"moveaxis", "last-first", "2x3x4", {{1, {2}}, {1, {0}}}, .quick = true},
    {"moveaxis", "two", "2x3x2x3", {{2, {0, 1}}, {2, {-1, 0}}}, .quick = true},
    {"moveaxis", "none", "2x3", {{0}, {0}}},
    {"moveaxis", "same", "2x3", {{1, {1}}, {1, {1}}}},
    {"moveaxis", "all", "2x3x4", {{3, {2, 0, 1}}, {3, {1, 2, 0}}}},
    {"moveaxis", "empty", "0x3", {{1, {0}}, {1, {1}}}, .quick = true},
    {"moveaxis", "rank8", "1x2x1x2x1x2x1x3", {{3, {7, 1, 3}}, {3, {0, 4, -1}}}},
    {"moveaxis", "turned", "5x6x7", {{1, {0}}, {1, {2}}}, .layouts = true},
    {"diagonal", "square", "4x4", .number = {0, 0, 1}, .quick = true},
    {"diagonal", "wide", "3x5", .number = {0, 0, 1}, .quick = true},
    {"diagonal", "tall", "5x3", .number = {0, 0, 1}},
    {"diagonal", "right", "3x5", .number = {3, 0, 1}, .quick = true},
    {"diagonal", "down", "5x3", .number = {-3, 0, 1}, .quick = true},
    {"diagonal", "corner", "3x5", .number = {4, 0, 1}},
    {"diagonal", "past", "3x5", .number = {5, 0, 1}, .quick = true},
    {"diagonal", "past-down", "3x5", .number = {-9, 0, 1}},
    {"diagonal", "last", "2x3x4", .number = {1, -2, -1}, .quick = true},
    {"diagonal", "turned", "3x2x4", .number = {-1, 2, 0}},
    {"diagonal", "empty", "0x3", .number = {0, 0, 1}},
    {"diagonal", "empty", "0x3x3", .number = {1, 1, 2}},
    {"diagonal", "one", "1x1", .number = {0, 0, 1}},
    {"diagonal", "rank8", "1x2x1x2x1x2x1x3", .number = {1, 5, 7}},
    {"diagonal", "planes", "5x6x7", .number = {1, 0, 2}, .layouts = true},
};

/* The forms of a case: as a view; copied into a preallocated output; with the lists passed as
 * tensors. */
enum form { FORM_VIEW, FORM_GIVEN, FORM_HOST_I64, FORM_HOST_I32, FORMS };
static const char *const form_name[] = {"", ".given", ".host-i64", ".host-i32"};

static void axes_cases_view(struct case_builder *builder, const struct listed_case *line,
                            enum form form)
{
    struct kernel_case *made = listed_begin(builder, line);

    made->given = form == FORM_GIVEN;
    made->host = form == FORM_HOST_I64 ? BP_I64 : form == FORM_HOST_I32 ? BP_I32 : 0;
    if (made->n_in > 1) made->in[1].data = DATA_UNREAD;
    if (form == FORM_VIEW) case_smooth(made, 2);
    made->may_copy = case_is(builder, "flatten");
    if (line->layouts && form == FORM_VIEW) case_layouts(builder, made, line->variant, false);
    else case_end(builder, made, "%s%s", line->variant, form_name[form]);
}

void cases_shape_view(struct case_builder *builder)
{
    for (int i = 0; i < COUNT(views); i++)
        for (int form = 0; form < FORMS && case_is(builder, views[i].op); form++)
            if (listed_repeats(builder, &views[i])) break;
            else if (form < FORM_HOST_I64 || (listed_has_host(&views[i]) && !views[i].layouts))
                axes_cases_view(builder, &views[i], (enum form)form);
}

static const struct listed_case unstacks[] = {
    {"unstack", "line", "5", .number = {0}, .quick = true},
    {"unstack", "rows", "3x4", .number = {0}, .quick = true},
    {"unstack", "columns", "3x4", .number = {-1}, .quick = true},
    {"unstack", "one", "1x4", .number = {0}},
    {"unstack", "middle", "2x3x4", .number = {1}},
    {"unstack", "empty", "2x0", .number = {0}, .quick = true},
    {"unstack", "rank8", "1x2x1x2x1x2x1x3", .number = {5}},
    {"unstack", "planes", "5x2x7", .number = {1}, .layouts = true},
};

static void axes_cases_slice(struct case_builder *builder, const struct listed_case *line, int part,
                             int n, bool given)
{
    struct kernel_case *made = listed_begin(builder, line);
    char variant[48];

    made->n_out = n;
    made->part = part;
    made->given = given;
    if (!part && !given) case_smooth(made, 2); /* the parts are one call: one case is enough */
    snprintf(variant, sizeof variant, "%s.part%d", line->variant, part);
    if (line->layouts && !given) case_layouts(builder, made, variant, false);
    else case_end(builder, made, "%s%s", variant, given ? ".given" : "");
}

void cases_unstack(struct case_builder *builder)
{
    for (int i = 0; i < COUNT(unstacks); i++) {
        if (listed_repeats(builder, &unstacks[i])) continue;
        struct kernel_case *made = listed_begin(builder, &unstacks[i]);
        int64_t axis = unstacks[i].number[0];
        int n = (int)made->in[0].shape[axis < 0 ? axis + made->in[0].rank : axis];
        free(made);
        for (int part = 0; part < n; part++)
            for (int given = 0; given < 2; given++)
                axes_cases_slice(builder, &unstacks[i], part, n, given);
    }
}

static const struct listed_case stacks[] = {
    {"stack", "alone", "7", .number = {0}},
    {"stack", "scalars", "scalar+scalar+scalar", .number = {0}, .quick = true},
    {"stack", "lines", "5+5", .number = {0}, .quick = true},
    {"stack", "columns", "5+5+5", .number = {1}, .quick = true},
    {"stack", "last", "2x3+2x3", .number = {-1}, .quick = true},
    {"stack", "middle", "2x3+2x3+2x3", .number = {1}},
    {"stack", "empty", "0x3+0x3", .number = {0}, .quick = true},
    {"stack", "eight", "3+3+3+3+3+3+3+3", .number = {1}},
    {"stack", "rank8", "1x2x1x2x1x2x3+1x2x1x2x1x2x3", .number = {4}},
    {"stack", "width", "17+17+17", .number = {0}},
    {"stack", "long", "1031+1031", .number = {1}},
    {"stack", "planes", "5x6x7+5x6x7", .number = {1}, .layouts = true},
};

void cases_stack(struct case_builder *builder)
{
    for (int i = 0; i < COUNT(stacks); i++) {
        struct kernel_case *made = listed_begin(builder, &stacks[i]);
        case_data(made, i % 2 ? DATA_SPECIAL : DATA_PLAIN);
        case_smooth(made, 2);
        if (stacks[i].layouts) case_layouts(builder, made, stacks[i].variant, false);
        else case_end(builder, made, "%s", stacks[i].variant);
    }
}

/* Operators that are defined by other operators; some also have a kernel. */
static const struct listed_case more[] = {
    {"rot90", "once", "3x4", .number = {1, 0, 1}, .quick = true},
    {"rot90", "twice", "3x4", .number = {2, 0, 1}, .quick = true},
    {"rot90", "thrice", "3x4", .number = {3, 0, 1}, .quick = true},
    {"rot90", "none", "3x4", .number = {0, 0, 1}},
    {"rot90", "back", "3x4", .number = {-1, 0, 1}, .quick = true},
    {"rot90", "round", "3x4", .number = {-6, 0, 1}},
    {"rot90", "often", "2x5", .number = {1000001, 0, 1}},
    {"rot90", "axes", "2x3x4", .number = {1, -1, 1}},
    {"rot90", "empty", "0x3", .number = {1, 0, 1}, .quick = true},
    {"rot90", "one", "1x1", .number = {3, 0, 1}},
    {"rot90", "rank8", "1x2x1x2x1x2x1x3", .number = {3, 1, 7}},
    {"rot90", "planes", "5x6x7", .number = {1, 1, 2}, .layouts = true},
    {"diag_embed", "line", "4", .number = {0, -2, -1}, .quick = true},
    {"diag_embed", "right", "4", .number = {2, -2, -1}, .real = {7}, .quick = true},
    {"diag_embed", "down", "3", .number = {-2, 0, 1}, .real = {1}, .quick = true},
    {"diag_embed", "one", "1", .number = {0, 0, 1}},
    {"diag_embed", "empty", "0", .number = {0, 0, 1}, .quick = true},
    {"diag_embed", "empty", "0", .number = {-3, 0, 1}, .real = {2}},
    {"diag_embed", "empty", "0x3", .number = {1, 0, 1}},
    {"diag_embed", "batch", "2x3", .number = {1, -2, -1}, .quick = true},
    {"diag_embed", "turned", "2x3", .number = {1, -1, 0}},
    {"diag_embed", "apart", "2x3x2", .number = {-1, 1, 3}},
    {"diag_embed", "rank8", "1x2x1x2x1x2x3", .number = {0, 2, 5}},
    {"diag_embed", "width", "17", .number = {0, 0, 1}, .real = {0.1}},
    {"diag_embed", "planes", "3x4x5", .number = {-1, 3, 1}, .layouts = true},
    {"diag", "line", "4", .number = {0}, .quick = true},
    {"diag", "right", "4", .number = {2}, .real = {7}, .quick = true},
    {"diag", "down", "3", .number = {-2}, .real = {3}, .quick = true},
    {"diag", "empty", "0", .number = {2}},
    {"diag", "square", "4x4", .number = {0}, .quick = true},
    {"diag", "wide", "3x5", .number = {1}, .quick = true},
    {"diag", "tall", "5x3", .number = {-3}},
    {"diag", "past", "3x5", .number = {5}, .quick = true},
    {"diag", "past-down", "3x5", .number = {-7}},
    {"diag", "empty", "0x3", .number = {0}},
    {"diag", "matrix", "13x17", .number = {2}, .layouts = true},
    {"depth_to_space", "dcr", "1x8x2x3", .number = {2, 0, 0}, .quick = true},
    {"depth_to_space", "crd", "1x8x2x1", .number = {2, 1, 0}, .quick = true},
    {"depth_to_space", "dcr-last", "1x2x2x8", .number = {2, 0, 1}, .quick = true},
    {"depth_to_space", "crd-last", "1x1x3x8", .number = {2, 1, 1}},
    {"depth_to_space", "one", "2x3x2x3", .number = {1, 0, 0}},
    {"depth_to_space", "three", "2x18x1x2", .number = {3, 0, 0}},
    {"depth_to_space", "empty", "0x4x2x3", .number = {2, 0, 0}, .quick = true},
    {"depth_to_space", "wide", "2x12x17x5", .number = {2, 1, 0}},
    {"depth_to_space", "layouts", "2x8x3x4", .number = {2, 0, 0}, .layouts = true},
    {"space_to_depth", "dcr", "1x2x4x2", .number = {2, 0, 0}, .quick = true},
    {"space_to_depth", "crd", "1x2x2x4", .number = {2, 1, 0}, .quick = true},
    {"space_to_depth", "dcr-last", "1x4x2x3", .number = {2, 0, 1}, .quick = true},
    {"space_to_depth", "crd-last", "1x2x6x2", .number = {2, 1, 1}},
    {"space_to_depth", "one", "2x3x2x3", .number = {1, 0, 0}},
    {"space_to_depth", "three", "2x2x3x6", .number = {3, 0, 0}},
    {"space_to_depth", "empty", "0x4x2x4", .number = {2, 0, 0}, .quick = true},
    {"space_to_depth", "wide", "2x3x34x10", .number = {2, 1, 0}},
    {"space_to_depth", "layouts", "2x3x6x4", .number = {2, 0, 0}, .layouts = true},
    {"pixel_shuffle", "two", "1x8x2x2", .number = {2, 0}, .quick = true},
    {"pixel_shuffle", "last", "1x2x2x8", .number = {2, 1}, .quick = true},
    {"pixel_shuffle", "three", "2x9x1x2", .number = {3, 0}},
    {"pixel_shuffle", "empty", "1x4x0x2", .number = {2, 0}},
    {"pixel_shuffle", "layouts", "2x8x3x4", .number = {2, 0}, .layouts = true},
    {"pixel_unshuffle", "two", "1x2x4x4", .number = {2, 0}, .quick = true},
    {"pixel_unshuffle", "last", "1x4x4x2", .number = {2, 1}, .quick = true},
    {"pixel_unshuffle", "three", "2x1x3x6", .number = {3, 0}},
    {"pixel_unshuffle", "empty", "1x4x0x2", .number = {2, 0}},
    {"pixel_unshuffle", "layouts", "2x3x6x4", .number = {2, 0}, .layouts = true},
    {"channel_shuffle", "two", "1x6x2x2", .number = {2, 0}, .quick = true},
    {"channel_shuffle", "three", "2x6x1x2", .number = {3, 0}, .quick = true},
    {"channel_shuffle", "last", "1x2x2x6", .number = {3, 1}, .quick = true},
    {"channel_shuffle", "one", "1x6x2x2", .number = {1, 0}},
    {"channel_shuffle", "all", "1x6x2x2", .number = {6, 0}},
    {"channel_shuffle", "empty", "0x6x2x2", .number = {2, 0}},
    {"channel_shuffle", "layouts", "2x6x5x3", .number = {2, 0}, .layouts = true},
    {"temporal_shift", "three", "3x4x1x2", .number = {3, 0}, .real = {0.25}, .quick = true},
    {"temporal_shift", "two", "4x4x2x1", .number = {2, 0}, .real = {0.5}, .quick = true},
    {"temporal_shift", "last", "3x2x1x4", .number = {3, 1}, .real = {0.25}, .quick = true},
    {"temporal_shift", "odd", "3x7x1x1", .number = {3, 0}, .real = {0.3}},
    {"temporal_shift", "none", "2x3x1x2", .number = {2, 0}, .real = {0}},
    {"temporal_shift", "alone", "3x4x1x2", .number = {1, 0}, .real = {0.25}},
    {"temporal_shift", "empty", "0x4x2x2", .number = {2, 0}, .real = {0.25}},
    {"temporal_shift", "layouts", "6x5x3x4", .number = {3, 0}, .real = {0.25}, .layouts = true},
};

void cases_shape_more(struct case_builder *builder)
{
    for (int i = 0; i < COUNT(more); i++) {
        struct kernel_case *made;
        if (!case_is(builder, more[i].op) || listed_repeats(builder, &more[i])) continue;
        made = listed_begin(builder, &more[i]);
        case_data(made, i % 2 ? DATA_SPECIAL : DATA_PLAIN);
        if (!listed_is_wide(&more[i])) case_smooth(made, 2);
        if (more[i].layouts) case_layouts(builder, made, more[i].variant, false);
        else case_end(builder, made, "%s", more[i].variant);
    }
}

/* broadcast_tensors and meshgrid: each output has its own case. */
static const struct listed_case grids[] = {
    {"broadcast_tensors", "alone", "2x3"},
    {"broadcast_tensors", "sides", "1x3+4x1", .quick = true},
    {"broadcast_tensors", "front", "3+2x3+scalar", .quick = true},
    {"broadcast_tensors", "same", "5+5"},
    {"broadcast_tensors", "empty", "0x1+3", .quick = true},
    {"broadcast_tensors", "rank8", "2x1+1x2x1x2x1x2x1x3"},
    {"broadcast_tensors", "width", "17x1+1x33"},
    {"broadcast_tensors", "planes", "5x1x7+6x1", .layouts = true},
    {"meshgrid", "alone", "5", .number = {0}},
    {"meshgrid", "two", "3+4", .number = {0}, .quick = true},
    {"meshgrid", "two-xy", "3+4", .number = {1}, .quick = true},
    {"meshgrid", "three", "2+3+4", .number = {0}, .quick = true},
    {"meshgrid", "three-xy", "2+3+4", .number = {1}},
    {"meshgrid", "scalar", "scalar+3", .number = {0}, .quick = true},
    {"meshgrid", "alone-xy", "5", .number = {1}},
    {"meshgrid", "empty", "0+3", .number = {1}, .quick = true},
    {"meshgrid", "rank8", "1+2+1+2+1+2+1+3", .number = {1}},
    {"meshgrid", "width", "17+33", .number = {0}},
    {"meshgrid", "lines", "5+7", .number = {1}, .layouts = true},
};

void cases_grids(struct case_builder *builder)
{
    for (int i = 0; i < COUNT(grids); i++)
        for (int part = 0, n = 1; part < n; part++) {
            struct kernel_case *made;
            char variant[48];
            if (!case_is(builder, grids[i].op) || listed_repeats(builder, &grids[i])) continue;
            made = listed_begin(builder, &grids[i]);
            n = made->n_out = made->n_in;
            made->part = part;
            case_data(made, i % 2 ? DATA_SPECIAL : DATA_PLAIN);
            if (!part && !listed_is_wide(&grids[i])) case_smooth(made, 2); /* one call for all */
            snprintf(variant, sizeof variant, "%s.part%d", grids[i].variant, part);
            if (grids[i].layouts) case_layouts(builder, made, variant, false);
            else case_end(builder, made, "%s", variant);
        }
}

/* Adds the cases of shape, numel and is_empty, which do not read the elements of x. */
void cases_shape_facts(struct case_builder *builder)
{
    static const char *const shapes[] = {"scalar", "0", "7", "3x5", "3x0x2", "1x2x1x2x1x2x1x3",
                                         "257x129"};

    for (int i = 0; i < COUNT(shapes); i++) {
        struct kernel_case *made = case_begin(builder, shapes[i]);
        case_data(made, DATA_UNREAD);
        made->quick = i < 3;
        if (i == 3) case_layouts(builder, made, "matrix", false);
        else case_end(builder, made, "asked");
    }
}
