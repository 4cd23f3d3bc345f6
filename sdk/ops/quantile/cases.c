/* SPDX-License-Identifier: Apache-2.0 */
/* cases.c: builds cases of median, nanmedian, quantile, masked_scatter, clip_by_norm and
 * accuracy. */
#include "../common/cases.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

cases_fn cases_median, cases_quantile, cases_masked_scatter, cases_clip_by_norm, cases_accuracy;

static const struct {
    const char *variant, *shape;
    int64_t axis, flatten, keep;
    bool quick;
} lines[] = {
    {"one", "1", 0, 0, 0, true},          {"two", "2", -1, 0, 0, true},
    {"three", "3", -1, 0, 1, false},      {"scalar", "scalar", 0, 1, 0, true},
    {"width", "3x15", -1, 0, 0, false},   {"width", "3x16", -1, 0, 1, true},
    {"width", "3x17", -1, 0, 0, false},   {"columns", "16x5", 0, 0, 0, true},
    {"middle", "3x6x5", 1, 0, 1, true},   {"flat", "3x6x5", 0, 1, 0, true},
    {"flat-kept", "5x7", 0, 1, 1, false}, {"rank5", "2x3x4x2x3", 2, 0, 0, false},
    {"empty", "0x3", 1, 0, 0, false},     {"prime", "257", 0, 0, 0, true},
    {"small", "2x4", 1, 0, 0, false},
};
enum { MIDDLE = 8 }; /* case for layouts */

/* NaN at some positions, and in whole lines. */
static const double holes[] = {1.5, NAN, 0.25, NAN, -1, NAN, 2, 0.5, NAN, NAN, -0.75};

void cases_median(struct case_builder *builder)
{
    static const enum data data[] = {DATA_PLAIN, DATA_EXACT, DATA_NONFINITE, DATA_WIDE,
                                     DATA_SPECIAL};
    bool without = !strcmp(builder->op->name, "nanmedian");

    for (int i = 0; i < COUNT(lines); i++)
        for (int lower = 0; lower < 2; lower++)
            for (int kind = 0; kind < 2; kind++) {
                struct kernel_case *made;
                char variant[48];
                if (kind && i % 3 != 2) continue;
                made = case_begin(builder, lines[i].shape);
                made->attrs.median.axis = lines[i].axis;
                made->attrs.median.flatten = lines[i].flatten;
                made->attrs.median.keep = lines[i].keep;
                made->attrs.median.lower = lower;
                made->in[0].data = data[(i + (size_t)lower) % 5];
                if (kind) case_list(made, 0, COUNT(holes), holes);
                made->quick = lines[i].quick;
                if (builder->gradients) made->in[0].data = DATA_APART;
                if (!kind) case_smooth(made, 2);
                snprintf(variant, sizeof variant, "%s.lower%d%s", lines[i].variant, lower,
                         kind ? ".holes" : "");
                if (i == MIDDLE && !kind) case_layouts(builder, made, variant, false);
                else case_end(builder, made, "%s", variant);
            }
    if (without && !builder->gradients) {
        static const double none[] = {NAN};
        struct kernel_case *made = case_begin(builder, "2x5");
        made->attrs.nanmedian.axis = 1;
        case_list(made, 0, 1, none);
        case_end(builder, made, "none");
    }
}

void cases_quantile(struct case_builder *builder)
{
    static const double parts[] = {0.5, 0, 1, 0.3, 0.77, 0.25, 0.999}, smooth[] = {0.3, 0.62, 0.45};
    static const char *const counts[] = {"scalar", "1", "7"};
    static const enum data data[] = {DATA_PLAIN, DATA_EXACT, DATA_NONFINITE, DATA_WIDE};
    struct kernel_case *made;
    char text[64];

    for (int i = 0; i < COUNT(lines); i++)
        for (size_t form = 0; form < 3; form++) {
            snprintf(text, sizeof text, "%s+%s", lines[i].shape, counts[form]);
            made = case_begin(builder, text);
            made->attrs.quantile.axis = lines[i].axis;
            made->attrs.quantile.flatten = lines[i].flatten;
            made->attrs.quantile.keep = lines[i].keep;
            made->in[0].data = data[(i + form) % 4];
            case_list(made, 1, COUNT(parts), parts);
            if (form == 0) case_list(made, 1, 1, parts + 3 + i % 2);
            made->quick = lines[i].quick && form != 1;
            snprintf(text, sizeof text, "%s.form%zu", lines[i].variant, form);
            if (i == MIDDLE && form == 2) case_layouts(builder, made, text, false);
            else case_end(builder, made, "%s", text);
        }
    made = case_begin(builder, "5x3+2");
    made->attrs.quantile.axis = 0;
    made->in[0].data = DATA_APART;
    case_list(made, 1, COUNT(smooth), smooth);
    case_smooth(made, 2);
    case_end(builder, made, "smooth");
}

void cases_masked_scatter(struct case_builder *builder)
{
    static const struct {
        const char *variant, *shapes;
        int64_t low, high;
        bool quick;
    } masks[] = {
        {"one", "1+1+1", 1, 2, true},
        {"none", "5+5+1", 0, 1, true},
        {"all", "3x5+3x5+15", 1, 2, true},
        {"some", "17+17+17", 0, 2, true},
        {"rows", "4x16+16+64", 0, 2, false},
        {"columns", "5x7+5x1+7x5", 0, 2, true},
        {"scalar", "3x3+scalar+9", 1, 2, false},
        {"more", "15+15+31", 0, 2, false},
        {"rank5", "2x3x1x2x3+1x3x1x1x3+36", 0, 2, false},
        {"prime", "257+257+257", 0, 2, true},
        {"empty", "0x3+0x3+2", 0, 2, true},
        {"no-source", "0+0+0", 0, 2, false},
    };

    for (int i = 0; i < COUNT(masks); i++) {
        struct kernel_case *made = case_begin(builder, masks[i].shapes);
        made->in[0].data = made->in[2].data = i % 2 ? DATA_PLAIN : DATA_SPECIAL;
        case_index(made, 1, BP_BOOL, masks[i].low, masks[i].high);
        made->quick = masks[i].quick;
        case_smooth(made, 2);
        if (i == 5) case_layouts(builder, made, masks[i].variant, false);
        else case_end(builder, made, "%s", masks[i].variant);
    }
}

void cases_clip_by_norm(struct case_builder *builder)
{
    static const char *const shapes[] = {"scalar", "1",   "5",     "15",        "16",
                                         "17",     "257", "3x5x7", "2x3x2x5x3", "0"};
    static const double norms[] = {0.375, 1000};
    static const enum data data[] = {DATA_PLAIN, DATA_POSITIVE, DATA_NONFINITE};

    for (int i = 0; i < COUNT(shapes); i++)
        for (int n = 0; n < 2; n++) {
            struct kernel_case *made = case_begin(builder, shapes[i]);
            made->attrs.clip_by_norm.max_norm = norms[n];
            made->in[0].data = data[(i + (size_t)n) % 3];
            made->quick = i % 3 == 0;
            if (i > 1 && i < 5) case_smooth(made, 2);
            if (i == 7 && n) case_layouts(builder, made, "norm1", false);
            else case_end(builder, made, "norm%d", n);
        }
    for (int i = 0; i < 36; i++) { /* few terms: the error is closest to its bound */
        static const char *const few[] = {"1", "2", "3"};
        struct kernel_case *made = case_begin(builder, few[i % 3]);
        made->attrs.clip_by_norm.max_norm = 0.1 + 0.01 * i;
        made->in[0].data = DATA_POSITIVE;
        case_end(builder, made, "few%d", i / 3);
    }
}

void cases_accuracy(struct case_builder *builder)
{
    static const char *const shapes[] = {"1x1+1",       "5x1+5x1", "17x3+17",
                                         "257x2+257x1", "3x7+3",   "1000x1+1000"};

    for (int i = 0; i < COUNT(shapes); i++)
        for (int classes = 1; classes < 9; classes += 7) {
            struct kernel_case *made = case_begin(builder, shapes[i]);
            char name[32];
            case_index(made, 0, builder->dtype[0], 0, classes);
            case_index(made, 1, builder->dtype[0], 0, classes);
            made->quick = i % 2;
            snprintf(name, sizeof name, "classes%d", classes);
            if (i == 1 && classes == 8) case_part_layouts(builder, made, 3, name);
            else case_parts(builder, made, 3, name);
        }
}
