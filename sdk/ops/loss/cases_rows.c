/* SPDX-License-Identifier: Apache-2.0 */
/* cases_rows.c: builds the conformance cases of losses of vectors along the last axis, and of lists
 * of classes. */
#include "../common/cases.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

cases_fn cases_loss_rows;

static const struct {
    const char *variant, *rows; /* shape of x without its last axis */
    int n;
    bool quick;
} lines[] = {
    {"empty", "0", 3, true},    {"line", "scalar", 7, true}, {"one", "1", 1, false},
    {"rows", "3", 4, true},     {"width", "2", 15, false},   {"width", "2", 16, false},
    {"width", "3", 17, false},  {"planes", "2x3", 5, true},  {"rank5", "2x1x3x2", 3, false},
    {"prime", "131", 2, false}, {"few", "2", 3, false},
};
enum {
    SMOOTH = 3
};

static const double whether[] = {0, 1, 1, 0, 1, 0, 0, 0, 1};
static const double signs[] = {1, -1, -1, 1, 1};
static const double lists[] = {0, 2, -1, 1, 1, 2, 0, -1, -1, 0, 0};

static bool has_classes(const struct case_builder *builder)
{
    return case_is(builder, "multi_margin_loss") || case_is(builder, "dice_loss") ||
           case_is(builder, "npair_loss");
}

/* Writes the shapes of the second and third inputs. */
static void rows_cases_second(const struct case_builder *builder, const char *x, const char *rows,
                              int n, bool with, char *text, size_t size)
{
    char column[64];

    snprintf(column, sizeof column, "%s%s1", strcmp(rows, "scalar") ? rows : "",
             strcmp(rows, "scalar") ? "x" : "");
    if (case_is(builder, "dice_loss")) snprintf(text, size, "%s", column);
    else if (case_is(builder, "npair_loss")) snprintf(text, size, "%s+%s", x, rows);
    else if (case_is(builder, "cosine_embedding_loss")) snprintf(text, size, "%s+%s", x, rows);
    else if (case_is(builder, "triplet_margin_loss")) snprintf(text, size, "%s+%s", x, x);
    else if (case_is(builder, "multi_label_margin_loss")) snprintf(text, size, "%s", x);
    else if (case_is(builder, "multi_margin_loss"))
        snprintf(text, size, with ? "%s+%d" : "%s+-", rows, n);
    else snprintf(text, size, with ? "%s+%d" : "%s+-", x, n);
}

static void set_attrs(const struct case_builder *builder, struct kernel_case *made, int way,
                      int64_t reduction)
{
    static const double orders[] = {2, 1, 3};

    if (case_is(builder, "npair_loss")) {
        if (way) made->attrs.npair_loss.l2_reg = 0.25;
        return;
    }
    made->attrs.l1_loss.reduction = reduction; /* reduction is the first attribute of all */
    if (case_is(builder, "cosine_embedding_loss"))
        made->attrs.cosine_embedding_loss.margin = -0.25 * way;
    if (case_is(builder, "triplet_margin_loss")) {
        made->attrs.triplet_margin_loss.p = orders[way];
        made->attrs.triplet_margin_loss.swap = way == 1;
        made->attrs.triplet_margin_loss.margin = way ? 2.5 : 1;
    }
    if (case_is(builder, "multi_margin_loss")) {
        made->attrs.multi_margin_loss.p = way == 1 ? 2 : 1;
        if (way) made->attrs.multi_margin_loss.margin = 0.75;
    }
    if (case_is(builder, "dice_loss") && way) made->attrs.dice_loss.epsilon = 0.5;
}

static void set_data(const struct case_builder *builder, struct kernel_case *made, int n)
{
    int label = case_is(builder, "npair_loss") ? 2 : 1;

    if (case_is(builder, "multi_label_soft_margin_loss")) {
        case_list(made, 1, COUNT(whether), whether);
        made->in[2].data = DATA_POSITIVE;
    }
    if (case_is(builder, "cosine_embedding_loss")) case_list(made, 2, COUNT(signs), signs);
    if (case_is(builder, "multi_margin_loss")) made->in[2].data = DATA_POSITIVE;
    if (case_is(builder, "dice_loss")) made->in[0].data = DATA_LOGIT;
    if (has_classes(builder))
        case_index(made, label, builder->dtype[2], label == 2 ? 0 : -n, label == 2 ? 2 : n);
    if (case_is(builder, "multi_label_margin_loss")) {
        made->in[1].dtype = builder->dtype[2];
        if (n > 2) case_list(made, 1, COUNT(lists), lists);
        else case_index(made, 1, builder->dtype[2], -1, n);
    }
}

static struct kernel_case *of_rows(const struct case_builder *builder, const char *rows, int n,
                                   int way, int64_t reduction)
{
    struct kernel_case *made;
    char x[64], others[160], shapes[240];

    if (strcmp(rows, "scalar")) snprintf(x, sizeof x, "%sx%d", rows, n);
    else snprintf(x, sizeof x, "%d", n);
    rows_cases_second(builder, x, rows, n, way != 0, others, sizeof others);
    snprintf(shapes, sizeof shapes, "%s+%s", x, others);
    made = case_begin(builder, shapes);
    set_data(builder, made, n);
    set_attrs(builder, made, way, reduction);
    return made;
}

/* Whether the operator accepts an x with these rows. */
static bool rows_cases_takes(const struct case_builder *builder, const char *rows)
{
    if (case_is(builder, "npair_loss")) return strcmp(rows, "scalar") && !strchr(rows, 'x');
    return !case_is(builder, "dice_loss") || strcmp(rows, "scalar");
}

/* For smoothness, y has no ends of its range, and x is kept away from kinks. */
static void rows_cases_gradients(struct case_builder *builder)
{
    static const double inside[] = {0.31, 0.72, 0.55, 0.43, 0.64, 0.37};

    for (int way = 0; way < 3; way++)
        for (int64_t reduction = 0; reduction < 3; reduction++) {
            struct kernel_case *made = of_rows(builder, lines[SMOOTH].rows, 3, way, reduction);
            if (case_is(builder, "multi_label_soft_margin_loss"))
                case_list(made, 1, COUNT(inside), inside);
            if (case_is(builder, "triplet_margin_loss") || case_is(builder, "multi_margin_loss") ||
                case_is(builder, "multi_label_margin_loss"))
                made->in[0].data = DATA_APART;
            if (case_is(builder, "triplet_margin_loss"))
                made->in[1].data = made->in[2].data = DATA_APART;
            case_smooth(made, 2);
            case_end(builder, made, "way%d.reduction%d", way, (int)reduction);
        }
}

static void rows_cases_odd(struct case_builder *builder)
{
    struct kernel_case *made;

    for (int way = 0; way < 3; way++) {
        made = of_rows(builder, "9", 67, way, 0);
        made->in[0].data = case_is(builder, "dice_loss") ? DATA_LOGIT : DATA_NONFINITE;
        if (!case_is(builder, "npair_loss") && !case_is(builder, "cosine_embedding_loss"))
            case_end(builder, made, "nonfinite");
        else free(made);
        made = of_rows(builder, "7", 5, way, 0);
        if (!case_is(builder, "dice_loss")) made->in[0].data = DATA_EXACT;
        made->quick = true;
        case_end(builder, made, "exact");
    }
}

void cases_loss_rows(struct case_builder *builder)
{
    static const char *const reduction[] = {"none", "mean", "sum"};
    bool half = builder->dtype[0] == BP_F16 || builder->dtype[0] == BP_BF16;
    int few = 48;

    if (builder->gradients) {
        rows_cases_gradients(builder);
        return;
    }
    for (int i = 0; i < COUNT(lines); i++)
        for (int r = 0; r < 3; r++) {
            int way = (i + r) % 3;
            struct kernel_case *made;
            if (!rows_cases_takes(builder, lines[i].rows)) continue;
            if ((half || builder->dtype[2] == BP_I32) && r != i % 3) continue;
            made = of_rows(builder, lines[i].rows, lines[i].n, way, r);
            made->quick = lines[i].quick;
            case_end(builder, made, "%s.%s.way%d", reduction[r], lines[i].variant, way);
        }
    rows_cases_odd(builder);
    if (case_is(builder, "npair_loss")) {
        few *= 3; /* each result is one number */
        case_real(builder, of_rows(builder, "67", 129, 0, 0), 1, "real");
    }
    for (int i = 0; i < few && !half && builder->dtype[2] != BP_I32; i++)
        case_end(builder, of_rows(builder, i % 2 ? "3" : "2", 2 + i % 3, i % 3, i % 4 / 2), "few%d",
                 i / 6);
    case_layouts(builder, of_rows(builder, "3", 4, 1, 0), "layouts", false);
}
