/* SPDX-License-Identifier: Apache-2.0 */
/* cases_other.c: cases of lp_normalize, mean_variance_normalization and lrn. */
#include <conformance/kernel_case.h>
#include <math.h>
#include <stdio.h>

cases_fn cases_lp_normalize, cases_mean_variance_normalization, cases_lrn;

static struct kernel_case *begin(const struct case_maker *maker, const char *shapes,
                                 const char *one, const char *other)
{
    struct kernel_case *made = case_begin(maker, shapes);
    uint32_t wide = num_accumulate(num_type(maker->dtype[0]))->dtype;

    if (maker->row) return made;
    case_needs(made, one, wide);
    case_needs(made, other, wide);
    if (wide != maker->dtype[0]) case_needs(made, "cast", maker->dtype[0]);
    return made;
}

void cases_lp_normalize(struct case_maker *maker)
{
    static const struct {
        const char *shape;
        int axis;
    } cases[] = {{"3x4", 1}, {"3x4", 0}, {"17", 0}, {"0x4", 1}, {"4x0", 1}, {"1", 0}, {"5x131", -1},
                 {"131x2", 1}, {"2x3x2x3x5", 2}, {"33x5", 0}};
    static const double orders[] = {2, 1, INFINITY, 3};
    static const double some[] = {1, -2, 0, 0.5, 0, 0, 0, 0, 3, 0, -1, 0.25};
    struct kernel_case *made;

    for (int i = 0; i < COUNT(cases); i++)
        for (int k = 0; k < COUNT(orders); k++) {
            made = begin(maker, cases[i].shape, "norm", "div");
            made->attrs.lp_normalize.p = orders[k];
            made->attrs.lp_normalize.axis = cases[i].axis;
            if (k == 1) case_data(made, DATA_APART);
            if (k != 2) case_smooth(made, 2);
            made->quick = i % 2;
            case_end(maker, made, "p%g.axis%d", orders[k], cases[i].axis & 7);
        }
    made = begin(maker, "5x7", "norm", "div");
    case_data(made, DATA_ZERO);
    case_end(maker, made, "zeros");
    for (int k = 0; k < COUNT(orders); k++) { /* the second vector is 0, and nothing is added */
        made = begin(maker, "3x4", "norm", "div");
        made->attrs.lp_normalize.p = orders[k];
        made->attrs.lp_normalize.epsilon = 0;
        case_list(made, 0, COUNT(some), some);
        made->quick = true;
        case_end(maker, made, "zero.p%g", orders[k]);
    }
    made = begin(maker, "9x67", "norm", "div");
    case_data(made, DATA_NONFINITE);
    case_end(maker, made, "nonfinite");
    made = begin(maker, "5x7", "norm", "div");
    made->attrs.lp_normalize.epsilon = 3;
    case_end(maker, made, "epsilon3");
    case_layouts(maker, begin(maker, "5x6x7", "norm", "div"), "layouts", false);
}

void cases_mean_variance_normalization(struct case_maker *maker)
{
    static const struct {
        const char *shape;
        int n;
        int64_t axes[3];
    } cases[] = {{"3x4", 1, {1}}, {"2x3x4", 2, {0, 2}}, {"5x7", 0, {0}}, {"0x4", 1, {0}},
                 {"2x3x5x7", 3, {0, 2, 3}}, {"31x17", 1, {0}}, {"2x3x2x3x5", 2, {-1, 1}},
                 {"131x2", 1, {1}}, {"3x131", 1, {-1}}, {"131x3", 1, {1}}};
    struct kernel_case *made;

    for (int i = 0; i < COUNT(cases); i++)
        for (int data = 0; data < 2; data++) {
            made = begin(maker, cases[i].shape, "sum", "norm");
            made->attrs.mean_variance_normalization.axes = case_dims(made, 0, cases[i].n,
                                                                     cases[i].axes);
            if (data) case_data(made, DATA_POSITIVE);
            case_smooth(made, data ? 0 : 2);
            made->quick = i % 2;
            case_end(maker, made, data ? "positive" : "plain");
        }
    made = begin(maker, "5x9", "sum", "norm");
    made->attrs.mean_variance_normalization.epsilon = 0.5;
    case_end(maker, made, "epsilon");
    made = begin(maker, "5x6x7", "sum", "norm");
    case_layouts(maker, made, "layouts", false);
}

void cases_lrn(struct case_maker *maker)
{
    static const char *const shapes[] = {"2x3x4", "1x7x3", "0x3x2", "2x0x3", "1x1", "2x17x5x3",
                                         "3x67", "1x2x2x2x3x2"};
    static const struct {
        int64_t size;
        double alpha, beta, bias;
    } how[] = {{5, 1e-4, 0.75, 1}, {1, 0.5, 0.5, 2}, {2, 1, 1, 0.5}, {3, 2, 0.75, 1}, {40, 1, 1, 1},
               {4, 0.1, -0.5, 3}};
    struct kernel_case *made;

    for (int i = 0; i < COUNT(shapes); i++)
        for (int k = 0; k < COUNT(how); k++) {
            made = begin(maker, shapes[i], "log", "exp");
            made->attrs.lrn.window = how[k].size;
            made->attrs.lrn.alpha = how[k].alpha;
            made->attrs.lrn.beta = how[k].beta;
            made->attrs.lrn.bias = how[k].bias;
            case_smooth(made, k > 1 && k < 4 ? 2 : 0);
            made->quick = i % 2;
            case_end(maker, made, "size%d", (int)how[k].size);
        }
    made = begin(maker, "1x67x3", "log", "exp");
    case_data(made, DATA_NONFINITE);
    case_end(maker, made, "nonfinite");
    case_layouts(maker, begin(maker, "3x6x7", "log", "exp"), "layouts", false);
    case_layouts(maker, begin(maker, "2x5x3x4", "log", "exp"), "image", false);
}
