/* SPDX-License-Identifier: Apache-2.0 */
/* cases.c: builds the conformance cases of cross-entropy losses, whose targets are class indices or
 * probabilities. */
#include "../common/cases.h"
#include <stdio.h>
#include <string.h>

cases_fn cases_label_loss, cases_cross_entropy, cases_soft_cross_entropy;

static const struct {
    const char *variant, *x, *label, *cut; /* cut: the shape of x without axis */
    int64_t axis, n;
    bool quick;
} lines[] = {
    {"empty", "0x5", "0", "0", 1, 5, true},
    {"line", "7", "scalar", "scalar", 0, 7, true},
    {"one", "1x1", "1", "1", 1, 1, false},
    {"rows", "5x7", "5", "5", 1, 7, true},
    {"kept", "3x4", "3x1", "3", -1, 4, true},
    {"width", "3x15", "3", "3", 1, 15, false},
    {"width", "3x16", "3", "3", 1, 16, false},
    {"width", "3x17", "3", "3", 1, 17, false},
    {"classes-first", "7x5", "5", "5", 0, 7, true},
    {"image", "2x5x3x4", "2x3x4", "2x3x4", 1, 5, true},
    {"image-kept", "2x5x3", "2x1x3", "2x3", -2, 5, false},
    {"rank5", "2x3x5x2x3", "2x3x2x3", "2x3x2x3", 2, 5, false},
    {"rank8", "1x2x1x2x3x2x1x2", "1x2x1x2x2x1x2", "1x2x1x2x2x1x2", 4, 3, false},
    {"prime", "1031x3", "1031", "1031", 1, 3, false},
    {"columns", "3x7x65", "3x65", "3x65", 1, 7, false},
    {"columns", "1x5x129", "1x129", "1x129", 1, 5, false},
    {"long", "3x1031", "3", "3", 1, 1031, true},
    {"pairs", "1031x2", "1031", "1031", 1, 2, false},
    {"pair-columns", "2x1031", "1031", "1031", 0, 2, false},
};
enum {
    N_LINES = COUNT(lines),
    SMOOTH_ROWS = 4,
    SMOOTH_COLUMNS = 10,
    WITH_LAYOUTS = 9
};

/* Combinations of weights, ignored labels and label smoothing. */
static const struct {
    const char *name;
    bool weight, ignore;
    double smoothing;
} ways[] = {
    {"", false, false, 0},
    {".weight", true, true, 0},
    {".smooth", false, true, 0.1},
    {".weight-smooth", true, false, 0.3},
};
enum {
    N_WAYS = COUNT(ways)
};

static uint32_t cross_entropy_cases_wide(uint32_t dtype)
{
    return case_wide(dtype);
}

/* Begins a case with x, labels, and a weight or none; grad: also with a gradient of the losses. */
static struct kernel_case *of_lines(const struct case_builder *builder, int i, bool weight,
                                    bool grad)
{
    struct kernel_case *made;
    char shapes[160], classes[24];

    snprintf(classes, sizeof classes, weight ? "%lld" : "-", (long long)lines[i].n);
    snprintf(shapes, sizeof shapes, "%s+%s+%s%s%s", lines[i].x, lines[i].label,
             grad ? lines[i].label : "", grad ? "+" : "", classes);
    made = case_begin(builder, shapes);
    case_index(made, 1, builder->dtype[2], 0, lines[i].n);
    if (grad) made->in[2].dtype = builder->dtype[1];
    made->in[grad ? 3 : 2].data = DATA_POSITIVE;
    made->quick = lines[i].quick;
    return made;
}

static void set_label_loss(struct kernel_case *made, int i, int way, bool logits)
{
    struct bp_label_loss_attrs *a = &made->attrs.label_loss; /* label_loss_grad has these too */

    a->axis = lines[i].axis;
    a->label_smoothing = ways[way].smoothing;
    if (ways[way].ignore) a->ignore_index = 1;
    a->logits = logits;
}

static void cross_entropy_cases_end(const struct case_builder *builder, struct kernel_case *made,
                                    bool grad, const char *variant)
{
    if (grad || builder->gradients) case_end(builder, made, "%s", variant);
    else case_parts(builder, made, 2, variant);
}

/* Adds cases with numbers whose exponentials overflow, and with some that are not finite. */
static void label_data(struct case_builder *builder, bool grad)
{
    static const enum data data[] = {DATA_WIDE, DATA_LARGE, DATA_EXACT, DATA_NONFINITE,
                                     DATA_POSITIVE};
    static const char *const name[] = {"wide", "large", "exact", "nonfinite", "positive"};
    static const double labels[] = {0, -100, 4, 2, 1, 3};

    for (int d = 0; d < COUNT(data); d++)
        for (int columns = 0; columns < 2; columns++) {
            int i = columns ? 9 : 3; /* lines "image" and "rows" */
            struct kernel_case *made = of_lines(builder, i, false, grad);
            set_label_loss(made, i, 0, d % 2 == 0 || data[d] == DATA_NONFINITE);
            made->in[0].data = data[d];
            case_list(made, 1, COUNT(labels), labels);
            made->quick = d % 2;
            cross_entropy_cases_end(builder, made, grad, name[d]);
        }
}

/* Adds the cases of label_loss and its gradient. */
void cases_label_loss(struct case_builder *builder)
{
    bool grad = case_is(builder, "label_loss_grad");
    char name[48];

    if (builder->dtype[1] != cross_entropy_cases_wide(builder->dtype[0]))
        return; /* not supported */
    for (int i = 0; i < N_LINES; i++)
        for (int way = 0; way < N_WAYS; way++) {
            bool logits = (i + way) % 3 != 0 || i == SMOOTH_ROWS;
            struct kernel_case *made;
            if (way != i % N_WAYS && (i < 3 || i > 4) && i != SMOOTH_COLUMNS) continue;
            if (builder->dtype[2] == BP_I32 && i % 3) continue;
            made = of_lines(builder, i, ways[way].weight, grad);
            set_label_loss(made, i, way, logits);
            if (i == SMOOTH_ROWS || i == SMOOTH_COLUMNS) case_smooth(made, 2);
            snprintf(name, sizeof name, "%s%s%s", lines[i].variant, ways[way].name,
                     logits ? "" : ".logs");
            cross_entropy_cases_end(builder, made, grad, name);
        }
    label_data(builder, grad);
    if (!builder->gradients) {
        struct kernel_case *made = of_lines(builder, WITH_LAYOUTS, true, grad);
        set_label_loss(made, WITH_LAYOUTS, 3, true);
        case_layouts(builder, made, "layouts", false);
    }
}

static struct kernel_case *cross_entropy_cases_reduced(const struct case_builder *builder, int i,
                                                       int way, int reduction)
{
    bool logits = case_is(builder, "cross_entropy");
    struct kernel_case *made = of_lines(builder, i, ways[way].weight, false);

    if (logits) {
        made->attrs.cross_entropy.reduction = reduction;
        made->attrs.cross_entropy.axis = lines[i].axis;
        made->attrs.cross_entropy.label_smoothing = ways[way].smoothing;
        if (ways[way].ignore) made->attrs.cross_entropy.ignore_index = 1;
    } else {
        made->attrs.nll_loss.reduction = reduction;
        made->attrs.nll_loss.axis = lines[i].axis;
        if (ways[way].ignore) made->attrs.nll_loss.ignore_index = 1;
    }
    made->n_out = logits ? 2 : 1;
    return made;
}

/* Adds the cases of cross_entropy and nll_loss. */
void cases_cross_entropy(struct case_builder *builder)
{
    static const char *const reduction[] = {"none", "mean", "sum"};
    static const double ignored = -100;
    bool logits = case_is(builder, "cross_entropy");
    struct kernel_case *made;
    char name[48];

    for (int i = 0; i < N_LINES; i++)
        for (int r = 0; r < 3; r++) {
            int way = (i + r) % N_WAYS;
            if (builder->dtype[2] == BP_I32 && i % 3) continue;
            made = cross_entropy_cases_reduced(builder, i, way, r);
            if (i == SMOOTH_ROWS || i == SMOOTH_COLUMNS) case_smooth(made, 2);
            snprintf(name, sizeof name, "%s.%s%s", reduction[r], lines[i].variant, ways[way].name);
            if (logits && r == i % 3 && !builder->gradients) case_parts(builder, made, 2, name);
            else case_end(builder, made, "%s", name);
        }
    for (int r = 0; r < 3; r++) {
        made = cross_entropy_cases_reduced(builder, 3, 0, r);
        case_list(made, 1, 1, &ignored);
        case_end(builder, made, "%s.ignored", reduction[r]);
        made = cross_entropy_cases_reduced(builder, 3, 0, r);
        made->in[0].data = DATA_NONFINITE;
        case_end(builder, made, "%s.nonfinite", reduction[r]);
    }
    case_layouts(builder, cross_entropy_cases_reduced(builder, WITH_LAYOUTS, 1, 0), "layouts",
                 false);
}

/* Begins a case with a target for each number of x. */
static struct kernel_case *cross_entropy_cases_soft(const struct case_builder *builder, int i,
                                                    int way, int reduction)
{
    struct kernel_case *made;
    char shapes[160], classes[24];

    snprintf(classes, sizeof classes, ways[way].weight ? "%lld" : "-", (long long)lines[i].n);
    snprintf(shapes, sizeof shapes, "%s+%s+%s", lines[i].x, lines[i].x, classes);
    made = case_begin(builder, shapes);
    made->in[1].data = lines[i].axis == 1 ? DATA_LOGIT : DATA_POSITIVE;
    made->in[2].data = DATA_POSITIVE;
    made->attrs.soft_cross_entropy.reduction = reduction;
    made->attrs.soft_cross_entropy.axis = lines[i].axis;
    made->attrs.soft_cross_entropy.label_smoothing = ways[way].smoothing;
    made->quick = lines[i].quick;
    return made;
}

void cases_soft_cross_entropy(struct case_builder *builder)
{
    static const char *const reduction[] = {"none", "mean", "sum"};
    struct kernel_case *made;

    for (int i = 0; i < N_LINES; i++)
        for (int r = 0; r < 3; r++) {
            int way = (i + r) % N_WAYS;
            made = cross_entropy_cases_soft(builder, i, way, r);
            if (i == SMOOTH_ROWS || i == SMOOTH_COLUMNS) case_smooth(made, 2);
            case_end(builder, made, "%s.%s%s", reduction[r], lines[i].variant, ways[way].name);
        }
    for (int r = 0; r < 3; r++) {
        made = cross_entropy_cases_soft(builder, 3, 0, r);
        made->in[0].data = DATA_WIDE;
        case_end(builder, made, "%s.wide", reduction[r]);
        made = cross_entropy_cases_soft(builder, 3, 0, r);
        made->in[0].data = DATA_NONFINITE;
        case_end(builder, made, "%s.nonfinite", reduction[r]);
    }
    case_layouts(builder, cross_entropy_cases_soft(builder, WITH_LAYOUTS, 1, 0), "layouts", false);
}
