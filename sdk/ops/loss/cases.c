/* SPDX-License-Identifier: Apache-2.0 */
/* cases.c: builds the conformance cases of elementwise losses between predictions and targets. */
#include "../common/cases.h"
#include <stdio.h>
#include <string.h>

cases_fn cases_loss;

static const struct {
    const char *variant, *shape;
    bool quick;
} lines[] = {
    {"empty", "0x3", true},  {"scalar", "scalar", true},   {"one", "1", false},
    {"width", "15", false},  {"width", "16", false},       {"width", "17", false},
    {"few", "2", false},     {"few", "3", false},          {"smooth", "3x4", true},
    {"prime", "1031", true}, {"rank5", "2x3x2x3x5", true}, {"rank8", "1x2x1x2x1x2x1x3", false},
    {"long", "67x65", true},
};

/* Numbers between 0 and 1, without the ends (two lists) and with them; signs; truth values;
 * counts. */
static const double inside[] = {0.31, 0.72, 0.55, 0.43, 0.64, 0.37, 0.59, 0.49, 0.68, 0.34, 0.61};
static const double others[] = {0.62, 0.38, 0.71, 0.29, 0.44, 0.66, 0.33, 0.73, 0.41, 0.57};
static const double ends[] = {0, 1, 0.5, 0.001, 0.25, 0.97, 0.125};
static const double signs[] = {1, -1, -1, 1, 1, 1, -1};
static const double whether[] = {0, 1, 1, 0, 1, 0, 0, 0, 1};
static const double counts[] = {0, 1, 2, 5, 1.5, 7, 3};
static const double same_sign[] = {1};

/* The data of the inputs of one loss: x and y are DATA_PLAIN where there is no list and no kind. */
struct kind {
    const char *op;
    enum data data[4];
    const double *list[4];
    int n_list[4];
    enum data smooth;           /* kind of x in the suite `gradient` */
    const char *third, *fourth; /* shapes of further inputs; "x": the shape of x, NULL: none */
};

static const struct kind kinds[] = {
    {.op = "l1_loss", .smooth = DATA_APART},
    {.op = "square_error_cost", .smooth = DATA_PLAIN},
    {.op = "huber_loss", .smooth = DATA_APART},
    {.op = "smooth_l1_loss", .smooth = DATA_APART},
    {.op = "log_loss",
     .data = {DATA_LIST, DATA_LIST},
     .list = {inside, whether},
     .n_list = {COUNT(inside), COUNT(whether)},
     .smooth = DATA_LIST},
    {.op = "hinge_loss",
     .data = {DATA_PLAIN, DATA_LIST},
     .list = {NULL, whether},
     .n_list = {0, COUNT(whether)},
     .smooth = DATA_APART},
    {.op = "soft_margin_loss",
     .data = {DATA_PLAIN, DATA_LIST},
     .list = {NULL, signs},
     .n_list = {0, COUNT(signs)},
     .smooth = DATA_PLAIN},
    {.op = "hinge_embedding_loss",
     .data = {DATA_PLAIN, DATA_LIST},
     .list = {NULL, signs},
     .n_list = {0, COUNT(signs)},
     .smooth = DATA_APART},
    {.op = "kl_div", .data = {DATA_PLAIN, DATA_POSITIVE}, .smooth = DATA_PLAIN},
    {.op = "poisson_nll_loss",
     .data = {DATA_POSITIVE, DATA_LIST},
     .list = {NULL, counts},
     .n_list = {0, COUNT(counts)},
     .smooth = DATA_POSITIVE},
    {.op = "bce_loss",
     .data = {DATA_LIST, DATA_LIST, DATA_POSITIVE},
     .list = {inside, whether},
     .n_list = {COUNT(inside), COUNT(whether)},
     .smooth = DATA_LIST,
     .third = "x"},
    {.op = "bce_with_logits",
     .data = {DATA_PLAIN, DATA_LIST, DATA_POSITIVE, DATA_POSITIVE},
     .list = {NULL, whether},
     .n_list = {0, COUNT(whether)},
     .smooth = DATA_PLAIN,
     .third = "x",
     .fourth = "last"},
    {.op = "sigmoid_focal_loss",
     .data = {DATA_PLAIN, DATA_LIST, DATA_POSITIVE},
     .list = {NULL, whether},
     .n_list = {0, COUNT(whether)},
     .smooth = DATA_PLAIN,
     .third = "1"},
    {.op = "gaussian_nll_loss",
     .data = {DATA_PLAIN, DATA_PLAIN, DATA_POSITIVE},
     .smooth = DATA_PLAIN,
     .third = "x"},
    {.op = "margin_ranking_loss",
     .data = {DATA_PLAIN, DATA_PLAIN, DATA_LIST},
     .list = {NULL, NULL, signs},
     .n_list = {0, 0, COUNT(signs)},
     .smooth = DATA_APART,
     .third = "x"},
};

static const struct kind *kind_of(const struct case_builder *builder)
{
    const struct kind *k = kinds;

    while (strcmp(k->op, builder->op->name)) k++;
    return k;
}

/* Sets other values of attributes than the defaults; reduction is the first attribute of all
 * losses. */
static void set_attrs(const struct case_builder *builder, struct kernel_case *made, int way,
                      int64_t reduction)
{
    made->attrs.l1_loss.reduction = reduction;
    if (!way) return;
    if (case_is(builder, "huber_loss")) made->attrs.huber_loss.delta = 0.5;
    if (case_is(builder, "smooth_l1_loss")) made->attrs.smooth_l1_loss.beta = way == 1 ? 1.5 : 0;
    if (case_is(builder, "log_loss")) made->attrs.log_loss.epsilon = 0.1;
    if (case_is(builder, "hinge_embedding_loss")) made->attrs.hinge_embedding_loss.margin = 0.5;
    if (case_is(builder, "kl_div")) made->attrs.kl_div.log_target = 1;
    if (case_is(builder, "poisson_nll_loss")) {
        made->attrs.poisson_nll_loss.log_input = way == 1;
        made->attrs.poisson_nll_loss.full = 1;
    }
    if (case_is(builder, "sigmoid_focal_loss")) {
        made->attrs.sigmoid_focal_loss.alpha = way == 1 ? -1 : 0.75;
        made->attrs.sigmoid_focal_loss.gamma = way == 1 ? 1.5 : 0;
    }
    if (case_is(builder, "gaussian_nll_loss")) {
        made->attrs.gaussian_nll_loss.full = 1;
        made->attrs.gaussian_nll_loss.epsilon = 0.75;
    }
    if (case_is(builder, "margin_ranking_loss")) made->attrs.margin_ranking_loss.margin = 0.5;
}

/* Begins a case of this shape. with: includes the optional inputs. */
static struct kernel_case *of_shape(const struct case_builder *builder, const char *shape,
                                    bool with)
{
    const struct kind *k = kind_of(builder);
    const char *last = strrchr(shape, 'x'), *third = k->third, *fourth = k->fourth;
    struct kernel_case *made;
    char shapes[128];

    if (third && !strcmp(third, "x")) third = shape;
    if (third && !with && !case_is(builder, "gaussian_nll_loss") &&
        !case_is(builder, "margin_ranking_loss"))
        third = "-";
    if (fourth) fourth = !with ? "-" : last ? last + 1 : shape;
    snprintf(shapes, sizeof shapes, "%s+%s%s%s%s%s", shape, shape, third ? "+" : "",
             third ? third : "", fourth ? "+" : "", fourth ? fourth : "");
    made = case_begin(builder, shapes);
    for (int i = 0; i < 4; i++) {
        made->in[i].data = k->data[i];
        if (k->list[i]) case_list(made, i, k->n_list[i], k->list[i]);
    }
    return made;
}

/* Adds the cases of the suite `gradient`, each of a small shape. */
static void loss_cases_gradients(struct case_builder *builder)
{
    const struct kind *k = kind_of(builder);

    for (int way = 0; way < 3; way++)
        for (int reduction = 0; reduction < 3; reduction++) {
            struct kernel_case *made = of_shape(builder, reduction ? "5" : "2x3", way != 0);
            set_attrs(builder, made, way, reduction);
            if (k->smooth != DATA_LIST) made->in[0].data = k->smooth;
            if (k->smooth == DATA_APART && k->data[1] != DATA_LIST) made->in[1].data = DATA_APART;
            if (case_is(builder, "bce_with_logits") ||
                case_is(builder, "bce_loss")) /* y must not be an end of its range */
                case_list(made, 1, COUNT(others), others);
            if (case_is(builder, "poisson_nll_loss")) {
                static const double apart[] = {0.5, 3, 1.75, 0.7};
                case_list(made, 1, COUNT(apart), apart);
            }
            if (case_is(builder, "gaussian_nll_loss")) {
                static const double apart[] = {0.6, 0.9, 1.2, 1.3, 0.65};
                case_list(made, 2, COUNT(apart), apart);
            }
            case_smooth(made, 2);
            case_end(builder, made, "way%d.reduction%d", way, reduction);
        }
}

/* Adds numbers at which formulas change or end. */
static void loss_cases_odd(struct case_builder *builder)
{
    const struct kind *k = kind_of(builder);
    struct kernel_case *made;

    for (int way = 0; way < 3; way++) {
        made = of_shape(builder, "9x67", way != 0);
        set_attrs(builder, made, way, 0);
        made->in[0].data = DATA_NONFINITE;
        case_end(builder, made, "nonfinite");
        made = of_shape(builder, "7x17", way != 0);
        set_attrs(builder, made, way, 0);
        if (k->data[0] == DATA_LIST) case_list(made, 0, COUNT(ends), ends);
        else made->in[0].data = DATA_WIDE;
        if (!k->list[1] && !case_is(builder, "kl_div")) made->in[1].data = DATA_WIDE;
        if (case_is(builder, "kl_div")) case_list(made, 1, COUNT(ends), ends);
        made->quick = true;
        case_end(builder, made, "ends");
        made = of_shape(builder, "7x17", way != 0);
        set_attrs(builder, made, way, 1);
        if (k->list[1]) case_list(made, 1, COUNT(same_sign), same_sign);
        case_end(builder, made, "same");
    }
}

/* Adds cases with few terms, whose results are the closest to the allowed error. Results of half
 * types show only their last rounding, so they are left out. */
static void loss_cases_few(struct case_builder *builder)
{
    static const char *const shapes[] = {"3", "5", "2", "7"};

    if (builder->dtype[0] != BP_F32 && builder->dtype[0] != BP_F64) return;
    for (int i = 0; i < 24; i++) {
        struct kernel_case *made = of_shape(builder, shapes[i % 4], i % 3 != 0);
        set_attrs(builder, made, i % 3, 1);
        case_end(builder, made, "few%d", i / 4);
    }
}

void cases_loss(struct case_builder *builder)
{
    static const char *const reduction[] = {"none", "mean", "sum", "batch"};
    bool half = builder->dtype[0] == BP_F16 || builder->dtype[0] == BP_BF16;
    int n_reductions = case_is(builder, "kl_div") ? 4 : 3;
    struct kernel_case *made;

    if (builder->gradients) {
        loss_cases_gradients(builder);
        return;
    }
    for (int i = 0; i < COUNT(lines); i++)
        for (int r = 0; r < n_reductions; r++) {
            int way = (i + r) % 3;
            if (half && r != i % n_reductions) continue;
            made = of_shape(builder, lines[i].shape, way != 0);
            set_attrs(builder, made, way, r);
            made->quick = lines[i].quick;
            case_end(builder, made, "%s.%s.way%d", reduction[r], lines[i].variant, way);
        }
    loss_cases_odd(builder);
    loss_cases_few(builder);
    made = of_shape(builder, "5x6x7", true);
    set_attrs(builder, made, 1, 0);
    case_layouts(builder, made, "layouts", false);
}
