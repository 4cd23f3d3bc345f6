/* SPDX-License-Identifier: Apache-2.0 */
/* cases.c: builds the conformance cases of the CTC loss and its gradient. */
#include "../common/cases.h"
#include <stdio.h>
#include <string.h>

cases_fn cases_ctc_lines, cases_ctc_loss;

/* Labels are 1 to C - 1, or 0 to C - 2 where the blank is the last class. repeat: labels are 1 and
 * 2, and some are followed by an equal label. */
static const struct {
    const char *variant;
    int steps, lines, classes, labels;
    bool last, repeat, full, quick; /* full: all steps and labels count */
} sizes[] = {
    {"one", 1, 1, 2, 1, false, false, true, true},
    {"short", 2, 3, 3, 1, false, false, true, true},
    {"lengths", 5, 4, 4, 3, false, false, false, true},
    {"repeat", 7, 3, 4, 3, false, true, true, true},
    {"last-blank", 6, 2, 5, 2, true, false, true, false},
    {"no-labels", 4, 2, 3, 0, false, false, true, false},
    {"no-lines", 4, 0, 3, 2, false, false, true, false},
    {"too-long", 3, 2, 4, 5, false, false, false, false},
    {"wide", 9, 3, 33, 4, true, false, false, false},
    {"long", 37, 2, 6, 9, false, true, false, true},
    {"many", 4, 31, 3, 2, false, false, false, false},
    {"steps", 2, 67, 3, 1, false, false, false, false},
};

static uint32_t ctc_cases_wide(uint32_t dtype)
{
    return case_wide(dtype);
}

/* Begins a case of sizes[i]; grad: also with a gradient of the losses. */
static struct kernel_case *of_size(const struct case_builder *builder, int i, bool grad)
{
    static const double labels[] = {1, 1, 2, 2, 2, 1};
    int n = sizes[i].lines, last = sizes[i].last;
    struct kernel_case *made;
    char shapes[128];

    snprintf(shapes, sizeof shapes, "%dx%dx%d+%dx%d+%d+%d", sizes[i].steps, n, sizes[i].classes, n,
             sizes[i].labels, n, n);
    if (grad) snprintf(shapes + strlen(shapes), sizeof shapes - strlen(shapes), "+%d", n);
    made = case_begin(builder, shapes);
    case_index(made, 1, builder->dtype[2], !last, sizes[i].classes - last);
    if (sizes[i].repeat) case_list(made, 1, COUNT(labels), labels);
    case_index(made, 2, builder->dtype[2], sizes[i].full ? sizes[i].steps : 0, sizes[i].steps + 1);
    case_index(made, 3, builder->dtype[2], sizes[i].full ? sizes[i].labels : 0,
               sizes[i].labels + 1);
    if (grad) made->in[4].dtype = builder->dtype[1];
    made->quick = sizes[i].quick;
    return made;
}

/* Adds the cases of ctc_lines and its gradient. */
void cases_ctc_lines(struct case_builder *builder)
{
    bool grad = !strcmp(builder->op->name, "ctc_lines_grad");

    if (builder->dtype[1] != ctc_cases_wide(builder->dtype[0]))
        return; /* no call has these dtypes */
    for (int i = 0; i < COUNT(sizes); i++) {
        struct kernel_case *made = of_size(builder, i, grad);
        if (sizes[i].last) made->attrs.ctc_lines.blank = sizes[i].classes - 1; /* _grad has it */
        case_smooth(made, sizes[i].full ? 1 : 0);
        if (i == 2) case_layouts(builder, made, sizes[i].variant, false);
        else case_end(builder, made, "%s", sizes[i].variant);
    }
    for (int d = 0; d < 2; d++) {
        struct kernel_case *made = of_size(builder, 3, grad);
        made->in[0].data = d ? DATA_NONFINITE : DATA_WIDE;
        case_end(builder, made, d ? "nonfinite" : "large");
    }
    for (int d = 0; d < 16 && builder->dtype[2] == BP_I64 && !builder->gradients; d++)
        case_end(builder, of_size(builder, d % 2, grad), "few%d", d / 2);
}

void cases_ctc_loss(struct case_builder *builder)
{
    static const char *const reduction[] = {"none", "mean", "sum"};

    for (int i = 0; i < COUNT(sizes); i++)
        for (int r = 0; r < 3; r++) {
            struct kernel_case *made;
            char variant[32];
            if (builder->dtype[2] == BP_I32 && r != i % 3) continue;
            made = of_size(builder, i, false);
            made->attrs.ctc_loss.reduction = r;
            if (sizes[i].last) made->attrs.ctc_loss.blank = sizes[i].classes - 1;
            made->attrs.ctc_loss.logits = (i + r) % 2;
            made->attrs.ctc_loss.zero_infinity = !sizes[i].full && (i + r) % 3;
            case_smooth(made, sizes[i].full ? 1 : 0);
            snprintf(variant, sizeof variant, "%s.%s", reduction[r], sizes[i].variant);
            if (i == 2 && r == 2) case_layouts(builder, made, variant, false);
            else case_end(builder, made, "%s", variant);
        }
    for (int d = 0; d < 16 && builder->dtype[2] == BP_I64 && !builder->gradients; d++) {
        struct kernel_case *made = of_size(builder, d % 2, false);
        made->attrs.ctc_loss.reduction = 0;
        made->attrs.ctc_loss.logits = d / 2 % 2;
        case_end(builder, made, "few%d", d / 2);
    }
}
