/* SPDX-License-Identifier: Apache-2.0 */
/* cases.c: builds the conformance cases of operators that copy elements to other positions: tile,
 * pad, roll, slices, triangles, unfold. */
#include "../common/cases_listed.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

cases_fn cases_shape_move, cases_strided_slice, cases_triangle, cases_fill_diagonal, cases_patches;

static const struct listed_case moves[] = {
    {"tile", "line", "3", {{1, {4}}}, .quick = true},
    {"tile", "matrix", "2x3", {{2, {2, 3}}}, .quick = true},
    {"tile", "rows", "2x3", {{2, {3, 1}}}, .quick = true},
    {"tile", "short", "2x3x2", {{1, {2}}}},
    {"tile", "more", "3", {{3, {2, 1, 3}}}, .quick = true},
    {"tile", "none", "2x3", {{0}}},
    {"tile", "zero", "2x3", {{2, {2, 0}}}, .quick = true},
    {"tile", "empty", "0x3", {{2, {2, 2}}}, .quick = true},
    {"tile", "scalar", "scalar", {{2, {2, 3}}}, .quick = true},
    {"tile", "same-scalar", "scalar", {{0}}},
    {"tile", "width", "1x15", {{2, {16, 1}}}},
    {"tile", "width", "17x1", {{2, {1, 33}}}},
    {"tile", "rank8", "1x2x1x2x1x2x1x3", {{8, {2, 1, 2, 2, 1, 1, 3, 2}}}},
    {"tile", "long", "129x31", {{2, {3, 5}}}},
    {"tile", "planes", "5x6x7", {{3, {2, 1, 3}}}, .layouts = true},
    {"pad", "line", "5", {{1, {2}}, {1, {3}}}, .real = {7}, .quick = true},
    {"pad", "zeros", "2x3", {{2, {1, 0}}, {2, {0, 2}}}, .quick = true},
    {"pad", "none", "2x3", {{0}, {0}}},
    {"pad", "before", "2x3", {{2, {1, 2}}, {0}}, .real = {1}},
    {"pad", "after", "2x3", {{0}, {2, {1, 2}}}, .real = {0.1}},
    {"pad", "less", "5x7", {{2, {-1, 0}}, {2, {0, -3}}}, .quick = true},
    {"pad", "shifted", "5x7", {{2, {-1, 2}}, {2, {3, -2}}}, .real = {-2.75}, .quick = true},
    {"pad", "beyond", "3", {{1, {-5}}, {1, {6}}}, .real = {3}},
    {"pad", "all-gone", "3", {{1, {-1}}, {1, {-2}}}},
    {"pad", "scalar", "scalar", {{0}, {0}}, .quick = true},
    {"pad", "empty", "0x3", {{2, {1, 1}}, {2, {1, 0}}}, .real = {300}, .quick = true},
    {"pad", "empty", "0x3", {{2, {0, 1}}, {2, {0, 0}}}},
    {"pad", "nan", "5", {{1, {1}}, {1, {1}}}, .real = {NAN}},
    {"pad", "infinite", "5", {{1, {1}}, {1, {1}}}, .real = {-INFINITY}},
    {"pad", "huge", "5", {{1, {1}}, {1, {1}}}, .real = {1e30}},
    {"pad", "rank8", "1x2x1x2x1x2x1x3",
     {{8, {0, 1, 0, 0, 1, 0, 0, 2}}, {8, {1, 0, 0, 1, 0, 0, 0, 0}}}},
    {"pad", "rows", "15x17", {{2, {16, 0}}, {2, {1, 0}}}, .real = {2}},
    {"pad", "planes", "5x6x7", {{3, {1, 0, 2}}, {3, {0, 3, 1}}}, .real = {5}, .layouts = true},
    {"pad", "image", "2x3x5x4", {{4, {0, 0, 1, 1}}, {4, {0, 0, 1, 2}}}, .layouts = true},
    {"pad", "reflect", "5", {{1, {4}}, {1, {3}}}, {1}, .quick = true},
    {"pad", "reflect", "3x4", {{2, {1, 2}}, {2, {2, 3}}}, {1}, .quick = true},
    {"pad", "reflect-less", "6", {{1, {4}}, {1, {-5}}}, {1}},
    {"pad", "reflect-less", "6", {{1, {-4}}, {1, {5}}}, {1}},
    {"pad", "reflect-one", "1x3", {{2, {0, 2}}, {2, {0, 1}}}, {1}},
    {"pad", "reflect-planes", "5x6x7", {{3, {2, 0, 3}}, {3, {1, 2, 0}}}, {1}, .layouts = true},
    {"pad", "replicate", "3", {{1, {5}}, {1, {4}}}, {2}, .quick = true},
    {"pad", "replicate", "3x4", {{2, {1, 2}}, {2, {2, 3}}}, {2}, .quick = true},
    {"pad", "replicate-less", "4x3", {{2, {-2, 2}}, {2, {3, -1}}}, {2}},
    {"pad", "replicate-less", "4", {{1, {4}}, {1, {-5}}}, {2}},
    {"pad", "replicate-planes", "5x6x7", {{3, {2, 0, 9}}, {3, {7, 2, 0}}}, {2}, .layouts = true},
    {"pad", "circular", "5", {{1, {5}}, {1, {3}}}, {3}, .quick = true},
    {"pad", "circular", "3x4", {{2, {1, 2}}, {2, {2, 4}}}, {3}, .quick = true},
    {"pad", "circular-less", "5", {{1, {4}}, {1, {-6}}}, {3}},
    {"pad", "circular-less", "5", {{1, {-6}}, {1, {5}}}, {3}},
    {"pad", "circular-planes", "5x6x7", {{3, {2, 0, 3}}, {3, {1, 2, 0}}}, {3}, .layouts = true},
    {"flip", "all", "3x4", {{0}}, .quick = true},
    {"flip", "line", "17", {{1, {0}}}, .quick = true},
    {"flip", "rows", "3x4", {{1, {0}}}, .quick = true},
    {"flip", "columns", "3x4", {{1, {-1}}}, .quick = true},
    {"flip", "both", "2x3x4", {{2, {2, 0}}}},
    {"flip", "scalar", "scalar", {{0}}, .quick = true},
    {"flip", "empty", "0x3", {{0}}, .quick = true},
    {"flip", "one", "1x1", {{1, {1}}}},
    {"flip", "width", "15", {{0}}},
    {"flip", "width", "16x33", {{1, {1}}}},
    {"flip", "rank8", "1x2x1x2x1x2x1x3", {{4, {1, 3, 4, 7}}}},
    {"flip", "long", "129x257", {{1, {0}}}},
    {"flip", "planes", "5x6x7", {{2, {0, 2}}}, .layouts = true},
    {"roll", "line", "7", {{1, {3}}, {1, {0}}}, .quick = true},
    {"roll", "back", "7", {{1, {-2}}, {1, {0}}}, .quick = true},
    {"roll", "round", "7", {{1, {-23}}, {1, {0}}}},
    {"roll", "none", "7", {{1, {14}}, {1, {0}}}},
    {"roll", "two", "3x4", {{2, {1, -1}}, {2, {0, 1}}}, .quick = true},
    {"roll", "rows", "3x4", {{1, {2}}, {1, {-2}}}, .quick = true},
    {"roll", "flat", "3x4", {{1, {5}}, {0}}, .quick = true},
    {"roll", "flat", "2x3x4", {{1, {-7}}, {0}}},
    {"roll", "scalar", "scalar", {{1, {5}}, {0}}},
    {"roll", "empty", "0x3", {{1, {5}}, {0}}, .quick = true},
    {"roll", "empty", "0x3", {{1, {5}}, {1, {0}}}},
    {"roll", "far", "5", {{1, {INT64_MIN}}, {1, {0}}}},
    {"roll", "rank8", "1x2x1x2x1x2x1x3", {{3, {1, 1, 2}}, {3, {1, 5, 7}}}},
    {"roll", "long", "129x257", {{2, {5, 100}}, {2, {0, 1}}}},
    {"roll", "planes", "5x6x7", {{2, {2, 3}}, {2, {0, 1}}}, .layouts = true},
};

/* Adds the cases of `moves`. A value of pad that is not finite is equal in all float types; an
 * integer type cannot hold a fraction. */
void cases_shape_move(struct case_builder *builder)
{
    static const char *const name[] = {"", ".host-i64", ".host-i32"};

    for (int i = 0; i < COUNT(moves); i++)
        for (int form = 0; form < 3 && case_is(builder, moves[i].op); form++) {
            const struct listed_case *line = &moves[i];
            struct kernel_case *made;
            if (form && (!line->quick || !listed_has_host(line))) continue;
            made = listed_begin(builder, line);
            case_data(made, i % 2 ? DATA_SPECIAL : DATA_PLAIN);
            made->host = form == 1 ? BP_I64 : form == 2 ? BP_I32 : 0;
            if (isfinite(line->real[0]) && !listed_is_wide(line)) case_smooth(made, 2);
            if (line->layouts) case_layouts(builder, made, line->variant, false);
            else case_end(builder, made, "%s%s", line->variant, name[form]);
        }
}

/* result: the shape of the selected elements. */
static const struct {
    struct listed_case line;
    const char *result;
} slices[] = {
    {{"", "middle", "7", {{1, {2}}, {1, {5}}}, .quick = true}, "3"},
    {{"", "turned", "7", {{1, {-1}}, {1, {INT64_MIN}}, {0}, {1, {-1}}}, .quick = true}, "7"},
    {{"", "down", "7", {{1, {5}}, {1, {1}}, {1, {0}}, {1, {-2}}}, .quick = true}, "2"},
    {{"", "down-end", "7", {{1, {100}}, {1, {-5}}, {1, {0}}, {1, {-1}}}}, "4"},
    {{"", "down-all", "7", {{1, {6}}, {1, {-8}}, {1, {0}}, {1, {-3}}}}, "3"},
    {{"", "nothing", "7", {{1, {2}}, {1, {5}}, {1, {0}}, {1, {-1}}}, .quick = true}, "0"},
    {{"", "nothing", "7", {{1, {-9}}, {1, {-10}}, {1, {0}}, {1, {-1}}}}, "0"},
    {{"", "beyond", "7", {{1, {9}}, {1, {12}}}}, "0"},
    {{"", "both", "5x6", {{2, {1, -1}}, {2, {4, 0}}, {0}, {2, {2, -3}}}, .quick = true}, "2x2"},
    {{"", "columns", "5x6", {{1, {4}}, {1, {1}}, {1, {-1}}, {1, {-1}}}, .quick = true}, "5x3"},
    {{"", "leap", "5x6", {{1, {0}}, {1, {5}}, {1, {1}}, {1, {1000000007}}}}, "5x1"},
    {{"", "whole", "4x3", {{0}, {0}, {0}, {0}}}, "4x3"},
    {{"", "scalar", "scalar", {{0}, {0}, {0}, {0}}}, "scalar"},
    {{"", "empty", "0x3", {{2, {0, 2}}, {2, {-1, -9}}, {0}, {2, {1, -1}}}, .quick = true}, "0x3"},
    {{"", "empty-down", "0x3", {{1, {5}}, {1, {-5}}, {1, {0}}, {1, {-1}}}}, "0x3"},
    {{"", "rank8", "1x2x1x3x1x2x1x4",
      {{2, {2, -1}}, {2, {0, -5}}, {2, {3, 7}}, {2, {-1, -2}}}}, "1x2x1x2x1x2x1x2"},
    {{"", "long", "70001", {{1, {70000}}, {1, {9}}, {1, {0}}, {1, {-7}}}}, "9999"},
    {{"", "planes", "5x6x7", {{2, {-1, 1}}, {2, {0, 6}}, {2, {2, 0}}, {2, {-2, 2}}},
      .layouts = true}, "2x6x3"},
};

/* Adds the cases of strided_slice and its gradient. */
void cases_strided_slice(struct case_builder *builder)
{
    bool grad = case_is(builder, "strided_slice_grad");
    static const char *const name[] = {"", ".host-i64", ".host-i32"};
    char shapes[96];

    for (int i = 0; i < COUNT(slices); i++)
        for (int form = 0; form < (grad ? 1 : 3); form++) {
            struct listed_case line = slices[i].line;
            struct kernel_case *made;
            line.op = "strided_slice";
            if (form && (!line.quick || !listed_has_host(&line))) continue;
            if (form == 2 && line.list[1].at[0] < INT32_MIN) continue;
            snprintf(shapes, sizeof shapes, "%s+%s", slices[i].result, line.shapes);
            if (grad) line.shapes = shapes;
            made = listed_begin(builder, &line);
            case_data(made, i % 2 ? DATA_SPECIAL : DATA_PLAIN);
            if (grad) made->in[1].data = DATA_UNREAD;
            made->host = form == 1 ? BP_I64 : form == 2 ? BP_I32 : 0;
            case_smooth(made, 2);
            if (line.layouts) case_layouts(builder, made, line.variant, false);
            else case_end(builder, made, "%s%s", line.variant, name[form]);
        }
}

static const struct {
    const char *variant, *shape;
    int64_t diagonal;
    bool quick, layouts;
} triangles[] = {
    {"square", "4x4", 0, true, false},      {"wide", "3x5", 0, true, false},
    {"tall", "5x3", 0, true, false},        {"right", "3x5", 2, true, false},
    {"down", "5x3", -2, true, false},       {"all", "3x5", 9, false, false},
    {"none", "3x5", -9, true, false},       {"corner", "3x5", 4, false, false},
    {"corner", "3x5", -2, false, false},    {"far", "3x5", INT64_MAX, false, false},
    {"far", "3x5", INT64_MIN, false, false}, {"one", "1x1", 0, false, false},
    {"empty", "0x3", 0, true, false},       {"empty", "2x3x0", 0, false, false},
    {"batch", "2x3x4", 1, true, false},     {"rank8", "1x2x1x2x1x2x2x3", -1, false, false},
    {"width", "17x33", 3, false, false},    {"long", "257x129", -5, false, false},
    {"planes", "5x6x7", 1, false, true},
};

/* Adds the cases of tril and triu, whose attributes have one layout. */
void cases_triangle(struct case_builder *builder)
{
    for (int i = 0; i < COUNT(triangles); i++) {
        struct kernel_case *made = case_begin(builder, triangles[i].shape);
        made->attrs.tril.diagonal = triangles[i].diagonal;
        case_data(made, i % 2 ? DATA_NONFINITE : DATA_PLAIN);
        if (!case_is_float(builder)) case_data(made, DATA_PLAIN);
        case_smooth(made, 2);
        made->quick = triangles[i].quick;
        if (triangles[i].layouts) case_layouts(builder, made, triangles[i].variant, true);
        else case_end(builder, made, "%s", triangles[i].variant);
    }
}

static const struct listed_case diagonals[] = {
    {"", "square", "4x4", .number = {0, 0}, .real = {7}, .quick = true},
    {"", "wide", "3x5", .number = {0, 0}, .real = {1.5}, .quick = true},
    {"", "tall", "7x3", .number = {0, 0}, .real = {-2}, .quick = true},
    {"", "wrapped", "11x3", .number = {0, 1}, .real = {2}, .quick = true},
    {"", "wrapped", "8x3", .number = {0, 1}, .real = {2}},
    {"", "wrapped-right", "11x3", .number = {1, 1}, .real = {2}},
    {"", "wrapped-down", "11x3", .number = {-2, 1}, .real = {2}},
    {"", "wrapped-line", "9x1", .number = {0, 1}, .real = {3}},
    {"", "right", "3x5", .number = {2, 0}, .real = {0.1}, .quick = true},
    {"", "down", "5x3", .number = {-2, 0}, .real = {0}},
    {"", "past", "3x5", .number = {5, 0}, .real = {1}},
    {"", "far", "3x5", .number = {INT64_MIN, 0}, .real = {1}},
    {"", "cube", "3x3x3", .number = {0, 0}, .real = {4}, .quick = true},
    {"", "rank8", "2x2x2x2x2x2x2x2", .number = {0, 0}, .real = {4}},
    {"", "empty", "0x3", .number = {0, 0}, .real = {4}, .quick = true},
    {"", "empty", "3x0", .number = {0, 1}, .real = {4}},
    {"", "nan", "3x3", .number = {0, 0}, .real = {NAN}},
    {"", "long", "129x257", .number = {1, 0}, .real = {3}},
    {"", "matrix", "13x17", .number = {-1, 0}, .real = {3}, .layouts = true},
    {"", "planes", "5x5x5", .number = {0, 0}, .real = {3}, .layouts = true},
};

void cases_fill_diagonal(struct case_builder *builder)
{
    for (int i = 0; i < COUNT(diagonals); i++) {
        const struct listed_case *line = &diagonals[i];
        struct kernel_case *made = listed_begin(builder, line);
        case_data(made, i % 2 ? DATA_SPECIAL : DATA_PLAIN);
        if (isfinite(line->real[0])) case_smooth(made, 2);
        if (line->layouts) case_layouts(builder, made, line->variant, true);
        else case_end(builder, made, "%s", line->variant);
    }
}

/* number: extents of the window, stride, dilation, pad. image and columns are the shapes of
 * unfold's x and y. */
static const struct {
    const char *variant, *image, *columns;
    int64_t number[10];
    bool quick, layouts;
} windows[] = {
    {"three", "1x1x4x5", "1x9x6", {3, 3, 1, 1, 1, 1}, true, false},
    {"one", "2x3x2x3", "2x3x6", {1, 1, 1, 1, 1, 1}, true, false},
    {"strided", "1x2x4x4", "1x8x4", {2, 2, 2, 2, 1, 1}, true, false},
    {"apart", "1x1x5x5", "1x4x4", {2, 2, 3, 3, 1, 1}, false, false},
    {"dilated", "1x1x5x6", "1x6x4", {2, 3, 1, 1, 3, 2}, true, false},
    {"padded", "1x1x3x3", "1x9x9", {3, 3, 1, 1, 1, 1, 1, 1, 1, 1}, true, false},
    {"uneven", "1x2x3x4", "1x12x8", {3, 2, 2, 1, 1, 1, 2, 0, 0, 1}, true, false},
    {"wide-border", "1x1x2x2", "1x2x20", {1, 2, 1, 1, 1, 2, 2, 3, 1, 1}, false, false},
    {"empty", "0x2x4x4", "0x8x9", {2, 2, 1, 1, 1, 1}, true, false},
    {"empty", "1x1x0x3", "1x4x4", {2, 2, 1, 1, 1, 1, 1, 0, 2, 0}, false, false},
    {"image", "2x3x17x15", "2x27x255", {3, 3, 1, 1, 1, 1, 1, 1, 1, 1}, false, false},
    {"layouts", "2x3x5x6", "2x12x12", {2, 2, 2, 1, 1, 2, 0, 0, 2, 0}, false, true},
};

/* Adds the cases of unfold and fold. */
void cases_patches(struct case_builder *builder)
{
    bool adds = case_is(builder, "fold");

    for (int i = 0; i < COUNT(windows); i++) {
        const int64_t *n = windows[i].number;
        struct kernel_case *image = case_begin(builder, windows[i].image), *made;
        made = adds ? case_begin(builder, windows[i].columns) : image;
        if (adds) {
            struct bp_fold_attrs *a = &made->attrs.fold;
            memcpy(a->image, &image->in[0].shape[2], sizeof a->image);
            memcpy(a->kernel, n, 10 * sizeof *n);
            free(image);
        } else {
            memcpy(made->attrs.unfold.kernel, n, 10 * sizeof *n);
        }
        if (i % 2) case_data(made, adds ? DATA_NONFINITE : DATA_SPECIAL);
        case_smooth(made, 2);
        made->quick = windows[i].quick;
        if (windows[i].layouts) case_layouts(builder, made, windows[i].variant, false);
        else case_end(builder, made, "%s", windows[i].variant);
    }
}
