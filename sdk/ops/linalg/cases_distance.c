/* SPDX-License-Identifier: Apache-2.0 */
/* cases_distance.c: builds the conformance cases of distances between vectors and of
 * cosine_similarity. */
#include "../common/cases.h"
#include <math.h>

cases_fn cases_dist, cases_pairwise_distance, cases_cosine_similarity;

static const double orders[] = {2, 1, 3, INFINITY, 0};
enum { N_ORDERS = 5 };

void cases_dist(struct case_builder *builder)
{
    static const char *const shapes[] = {"scalar+scalar", "17+17", "5x7+5x7", "5x7+7",
                                         "2x1x3+4x1", "1031+1031", "2x3x2x3x5+5"};
    struct kernel_case *made;

    for (int i = 0; i < 7; i++)
        for (int p = 0; p < N_ORDERS; p++) {
            made = case_begin(builder, shapes[i]);
            made->attrs.dist.p = orders[p];
            made->quick = i == 2;
            case_end(builder, made, "p%g", orders[p]);
        }
    for (int p = 0; p < N_ORDERS; p++) { /* one infinity, and several */
        made = case_begin(builder, p % 2 ? "31+31" : "9+1");
        case_data(made, DATA_NONFINITE);
        if (p % 2 == 0) made->in[1].data = DATA_PLAIN;
        made->attrs.dist.p = orders[p];
        case_end(builder, made, "nonfinite.p%g", orders[p]);
    }
    made = case_begin(builder, "0x3+0x3");
    case_end(builder, made, "empty");
    for (int i = 0; i < 128; i++) {
        made = case_begin(builder, i % 2 ? "2+2" : "1+1");
        made->attrs.dist.p = 1 + i / 2 % 2;
        case_end(builder, made, "few%d", i / 4);
    }
    made = case_begin(builder, "3x2+2");
    made->attrs.dist.p = 3;
    made->gradient = 2;
    case_end(builder, made, "gradient");
    case_layouts(builder, case_begin(builder, "5x6+5x6"), "p2", false);
}

void cases_pairwise_distance(struct case_builder *builder)
{
    static const char *const shapes[] = {"17+17", "5x7+5x7", "5x7+7", "0x3+0x3", "5x131+5x131",
                                         "2x3x2x3x5+5", "131x2+131x2"};
    struct kernel_case *made;

    for (int i = 0; i < 7; i++)
        for (int p = 0; p < N_ORDERS; p++) {
            made = case_begin(builder, shapes[i]);
            made->attrs.pairwise_distance.p = orders[p];
            made->attrs.pairwise_distance.keep = p % 2;
            made->attrs.pairwise_distance.epsilon = p == 2 ? 0.125 : 1e-6;
            made->quick = i == 1;
            case_end(builder, made, "p%g", orders[p]);
        }
    for (int p = 0; p < N_ORDERS; p++) {
        made = case_begin(builder, "31x5+31x5");
        case_data(made, DATA_NONFINITE);
        made->attrs.pairwise_distance.p = orders[p];
        case_end(builder, made, "nonfinite.p%g", orders[p]);
    }
    made = case_begin(builder, "3x2+2");
    made->gradient = 2;
    case_end(builder, made, "gradient");
    case_layouts(builder, case_begin(builder, "5x6+5x6"), "p2", false);
}

void cases_cosine_similarity(struct case_builder *builder)
{
    static const struct {
        const char *shapes;
        int64_t axis;
        double epsilon;
    } cases[] = {
        {"17+17", 0, 1e-8},     {"5x7+5x7", 1, 1e-8},   {"5x7+5x7", 0, 1e-8}, {"5x7+7", -1, 1e-8},
        {"5x7+5x1", 1, 1e-8},   {"0x3+0x3", 1, 1e-8},   {"3x4x5+4x1", 1, 1e-8},
        {"2x3x2x3x5+5", 2, 1e-8}, {"131x3+131x3", 1, 2}, {"131x2+131x2", 1, 1e-8},
        {"5x131+5x131", 1, 1e-8}, {"131x1+131x1", 1, 1e-8},
    };
    struct kernel_case *made;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int positive = 0; positive < 2; positive++) {
            made = case_begin(builder, cases[i].shapes);
            made->attrs.cosine_similarity.axis = cases[i].axis;
            made->attrs.cosine_similarity.epsilon = cases[i].epsilon;
            if (positive) case_data(made, DATA_POSITIVE);
            made->quick = i == 1;
            case_end(builder, made, "axis%lld%s", (long long)cases[i].axis,
                     positive ? ".positive" : "");
        }
    made = case_begin(builder, "5x7+5x7");
    made->in[0].data = DATA_ZERO;
    case_end(builder, made, "zeros");
    made = case_begin(builder, "31x5+31x5");
    case_data(made, DATA_NONFINITE);
    case_end(builder, made, "nonfinite");
    made = case_begin(builder, "3x2+2");
    case_data(made, DATA_POSITIVE);
    made->gradient = 2;
    case_end(builder, made, "gradient");
    case_layouts(builder, case_begin(builder, "5x6+5x6"), "axis1", false);
}
