/* SPDX-License-Identifier: Apache-2.0 */
/* cases.c: builds the conformance cases of operators on vectors and matrices. */
#include "../common/cases.h"
#include <stdio.h>

cases_fn cases_trace, cases_dot, cases_outer, cases_inner, cases_mv, cases_addmm, cases_kron,
    cases_cross, cases_einsum, cases_multi_dot, cases_matrix_power, cases_bilinear, cases_det;

static bool is_real_float(const struct case_builder *builder)
{
    return case_is_float(builder) && !case_is_complex(builder);
}

/* Whether cases may have infinities. With three factors, the result of infinities and NaN depends
 * on the order of the products, which is undefined; for complex infinities the product itself is
 * undefined. */
static bool has_infinities(const struct case_builder *builder)
{
    return is_real_float(builder) && !case_is(builder, "bilinear") &&
           !case_is(builder, "multi_dot");
}

/* Adds the shapes with data that all operators of this file accept. */
static void linalg_cases_plain(const struct case_builder *builder, const char *const *shapes, int n,
                               const char *gradient)
{
    struct kernel_case *made;

    for (int i = 0; i < n; i++) {
        made = case_begin(builder, shapes[i]);
        made->quick = i % 2;
        case_end(builder, made, "plain");
    }
    made = case_begin(builder, shapes[1]);
    case_data(made, DATA_EXACT);
    case_end(builder, made, "exact");
    made = case_begin(builder, shapes[2]);
    case_data(made, DATA_POSITIVE);
    case_end(builder, made, "positive");
    if (has_infinities(builder)) {
        made = case_begin(builder, shapes[2]);
        case_data(made, DATA_NONFINITE);
        case_end(builder, made, "nonfinite");
    }
    made = case_begin(builder, gradient);
    made->gradient = is_real_float(builder) ? 2 : 0;
    case_layouts(builder, made, "gradient", false);
}

void cases_dot(struct case_builder *builder)
{
    static const char *const shapes[] = {"0+0", "17+17", "5x67+5x67", "1+1", "0x3+0x3", "3x0+3x0",
                                         "2x3x2x3x5+2x3x2x3x5", "1031+1031", "131x3+131x3",
                                         "131x2+131x2"};

    case_real_thin(builder, case_begin(builder, "67x771+67x771"), 1, "real");
    linalg_cases_plain(builder, shapes, 10, "3x4+3x4");
}

void cases_outer(struct case_builder *builder)
{
    static const char *const shapes[] = {"0+3", "17+13", "5x6+7", "1+1", "scalar+3", "2x3x4+2x2",
                                         "33+31"};

    linalg_cases_plain(builder, shapes, 7, "3+4");
}

void cases_inner(struct case_builder *builder)
{
    static const char *const shapes[] = {"0+0", "17+17", "5x67+3x67", "scalar+5", "4x3+scalar",
                                         "2x3x4+5x4", "4+2x3x4", "3x0+2x0", "0x3+2x3",
                                         "3x1031+2x1031", "31x2+7x2"};

    case_real(builder, case_begin(builder, "67x129+97x129"), 1, "real");
    linalg_cases_plain(builder, shapes, 11, "3x2+4x2");
}

void cases_mv(struct case_builder *builder)
{
    static const char *const shapes[] = {"0x3+3", "13x31+31", "5x67+67", "1x1+1", "3x0+0",
                                         "3x1031+1031", "131x2+2", "131x3+3"};

    case_real_thin(builder, case_begin(builder, "769x131+131"), 1, "real");
    linalg_cases_plain(builder, shapes, 8, "3x4+4");
}

void cases_kron(struct case_builder *builder)
{
    static const char *const shapes[] = {"scalar+scalar", "3+5", "2x3+4x5", "7+2x3", "2x3+scalar",
                                         "2x1x3x2+1x3x2x2", "0x2+3x3"};

    linalg_cases_plain(builder, shapes, 7, "2x2+2x3");
}

void cases_cross(struct case_builder *builder)
{
    static const struct {
        const char *shapes;
        int64_t axis;
    } cases[] = {{"3+3", 0}, {"7x3+7x3", -1}, {"3x7+3x7", 0}, {"2x3x5+2x3x5", 1}, {"0x3+0x3", 1},
                 {"131x3+131x3", 1}, {"2x2x3x2x5+2x2x3x2x5", 2}};
    struct kernel_case *made;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int exact = 0; exact < 2; exact++) {
            made = case_begin(builder, cases[i].shapes);
            made->attrs.cross.axis = cases[i].axis;
            if (exact) case_data(made, DATA_EXACT);
            made->quick = i == 2;
            case_end(builder, made, "axis%lld%s", (long long)cases[i].axis, exact ? ".exact" : "");
        }
    if (has_infinities(builder)) {
        made = case_begin(builder, "31x3+31x3");
        case_data(made, DATA_NONFINITE);
        case_end(builder, made, "nonfinite");
    }
    made = case_begin(builder, "2x3+2x3");
    made->gradient = is_real_float(builder) ? 2 : 0;
    case_layouts(builder, made, "gradient", false);
}

void cases_trace(struct case_builder *builder)
{
    static const struct {
        const char *shape;
        int64_t offset, axis1, axis2;
    } cases[] = {{"1x1", 0, 0, 1}, {"17x17", 0, 0, 1}, {"5x7", 0, 0, 1}, {"7x5", 2, 0, 1},
                 {"5x7", -3, 0, 1}, {"5x7", 9, 0, 1}, {"5x7", -9, 0, 1}, {"5x7", 1, 1, 0},
                 {"3x4x5", 0, 0, 2}, {"3x4x5", 1, -1, 1}, {"2x3x2x3x5", -1, 1, 3}, {"0x3", 0, 0, 1},
                 {"3x3x0", 0, 0, 1}, {"3x0", 1, 0, 1}, {"131x2x2", 0, 1, 2},
                 {"3x131x131", 0, 1, 2}};
    struct kernel_case *made;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        made = case_begin(builder, cases[i].shape);
        made->attrs.trace.offset = cases[i].offset;
        made->attrs.trace.axis1 = cases[i].axis1;
        made->attrs.trace.axis2 = cases[i].axis2;
        made->quick = i % 3 == 1;
        case_end(builder, made, "offset%lld.axes%lld_%lld", (long long)cases[i].offset,
                 (long long)cases[i].axis1, (long long)cases[i].axis2);
    }
    if (has_infinities(builder)) {
        made = case_begin(builder, "31x3x3");
        made->attrs.trace.axis1 = 1;
        made->attrs.trace.axis2 = 2;
        case_data(made, DATA_NONFINITE);
        case_end(builder, made, "nonfinite");
    }
    made = case_begin(builder, "3x4x3");
    made->attrs.trace.axis2 = 2;
    made->gradient = is_real_float(builder) ? 2 : 0;
    case_layouts(builder, made, "gradient", false);
}

void cases_addmm(struct case_builder *builder)
{
    static const char *const shapes[] = {"3x5+3x4+4x5", "5+3x4+4x5", "3x1+3x4+4x5",
                                         "scalar+13x31+31x7", "0x5+0x4+4x5", "3x5+3x0+0x5",
                                         "17x19+17x33+33x19", "3x5+3x257+257x5", "7x5+7x1+1x5"};
    static const double factor[][2] = {{1, 1}, {0.5, -2}, {0, 1}, {1, 0.3}};
    struct kernel_case *made;

    for (int i = 0; i < 9; i++)
        for (int f = 0; f < 4; f++) {
            made = case_begin(builder, shapes[i]);
            made->attrs.addmm.beta = factor[f][0];
            made->attrs.addmm.alpha = factor[f][1];
            made->quick = i == 1 || i == 6;
            case_end(builder, made, "beta%g.alpha%g", factor[f][0], factor[f][1]);
        }
    case_real(builder, case_begin(builder, "97+67x129+129x97"), 2, "real");
    case_real(builder, case_begin(builder, "67x97+67x129+129x97"), 2, "real.matrix");
    made = case_begin(builder, "17x5+17x13+13x5");
    case_data(made, DATA_NONFINITE);
    case_end(builder, made, "nonfinite");
    made = case_begin(builder, "4+3x2+2x4");
    made->attrs.addmm.alpha = 0.5;
    made->gradient = 2;
    case_layouts(builder, made, "gradient", false);
}

void cases_bilinear(struct case_builder *builder)
{
    static const char *const shapes[] = {"0x3+0x4+2x3x4", "5x3+5x4+2x3x4", "5x7+5x9+3x7x9+3",
                                         "5x3+5x4+2x3x4+1x2", "1x1+1x1+1x1x1+1",
                                         "31x2+31x1+1x2x1", "131x1+131x1+1x1x1",
                                         "3x17+3x31+5x17x31+5"};

    case_real_thin(builder, case_begin(builder, "19x33+19x31+17x33x31+17"), 2, "real");
    linalg_cases_plain(builder, shapes, 8, "2x2+2x3+2x2x3+2");
}

void cases_multi_dot(struct case_builder *builder)
{
    static const char *const shapes[] = {"3x4+4x5", "3x4+4x5+5x2", "17x3+3x31+31x5+5x7",
                                         "4+4x5+5x2",
                                         "3x4+4x5+5", "4+4", "4+4x5+5", "0x4+4x5+5x2", "3x0+0x5",
                                         "2x9+9x2+2x9+9x2+2x3", "31x1+1x7"};

    case_real(builder, case_begin(builder, "33x65+65x67+67x31"), 1, "real");
    linalg_cases_plain(builder, shapes, 11, "2x3+3x2+2x2");
}

/* There is no data that is not finite: powers above 2 are products of three or more. */
void cases_matrix_power(struct case_builder *builder)
{
    static const char *const shapes[] = {"3x3", "2x5x5", "1x1", "0x0", "0x3x3", "17x17"};
    struct kernel_case *made;

    for (int i = 0; i < 6; i++)
        for (int n = 0; n < 7; n++) {
            if (n == 4) continue;
            made = case_begin(builder, shapes[i]);
            made->attrs.matrix_power.n = n;
            made->quick = i == 1;
            case_end(builder, made, "n%d", n);
        }
    made = case_begin(builder, "48x48");
    made->attrs.matrix_power.n = 3;
    case_real(builder, made, 0, "real");
    made = case_begin(builder, "2x3x3");
    made->attrs.matrix_power.n = 3;
    made->gradient = 2;
    case_layouts(builder, made, "gradient", false);
}

/* Labels as in the operator's attribute: -1 separates operands. -2 ends the list. */
static const struct {
    const char *name, *shapes;
    int64_t labels[24];
    bool quick;
} sums[] = {
    {"ij_jk_ik", "3x4+4x5", {0, 1, -1, 1, 2, -1, 0, 2, -2}, true},
    {"ij_jk_ki", "3x17+17x5", {0, 1, -1, 1, 2, -1, 2, 0, -2}, true},
    {"bij_bjk_bik", "2x3x4+2x4x5", {0, 1, 2, -1, 0, 2, 3, -1, 0, 1, 3, -2}, true},
    {"bij_bkj_bik", "2x3x4+2x5x4", {0, 1, 2, -1, 0, 3, 2, -1, 0, 1, 3, -2}, false},
    {"bhid_bhjd_bhij", "2x3x4x5+2x3x6x5", {0, 1, 2, 3, -1, 0, 1, 4, 3, -1, 0, 1, 2, 4, -2}, false},
    {"bihd_bjhd_bhij", "2x4x3x5+2x6x3x5", {0, 1, 2, 3, -1, 0, 4, 2, 3, -1, 0, 2, 1, 4, -2}, false},
    {"i_i_", "17+17", {0, -1, 0, -1, -2}, true},
    {"i_i_i", "17+17", {0, -1, 0, -1, 0, -2}, false},
    {"i_j_ij", "5+7", {0, -1, 1, -1, 0, 1, -2}, false},
    {"i_j_", "5+7", {0, -1, 1, -1, -2}, false},
    {"ij_i", "5x7", {0, 1, -1, 0, -2}, true},
    {"ij_", "5x7", {0, 1, -1, -2}, false},
    {"ij_ji", "5x7", {0, 1, -1, 1, 0, -2}, true},
    {"ii_i", "7x7", {0, 0, -1, 0, -2}, true},
    {"ii_", "7x7", {0, 0, -1, -2}, false},
    {"iji_j", "5x3x5", {0, 1, 0, -1, 1, -2}, false},
    {"iii_i", "5x5x5", {0, 0, 0, -1, 0, -2}, false},
    {"iijj_ij", "3x3x4x4", {0, 0, 1, 1, -1, 0, 1, -2}, false},
    {"iij_jk_ik", "4x4x3+3x5", {0, 0, 1, -1, 1, 2, -1, 0, 2, -2}, false},
    {"scalars", "scalar+scalar", {-1, -1, -2}, false},
    {"scalar_ij_ij", "scalar+3x4", {-1, 0, 1, -1, 0, 1, -2}, false},
    {"scalar", "scalar", {-1, -2}, false},
    {"ij_jk_kl_il", "3x4+4x5+5x2", {0, 1, -1, 1, 2, -1, 2, 3, -1, 0, 3, -2}, true},
    {"ij_ik_il_jkl", "3x2+3x4+3x5", {0, 1, -1, 0, 2, -1, 0, 3, -1, 1, 2, 3, -2}, false},
    {"bm_omn_bn_bo", "3x4+2x4x5+3x5", {0, 1, -1, 2, 1, 3, -1, 0, 3, -1, 0, 2, -2}, false},
    {"abcd_bc_ad", "2x3x4x5+3x4", {0, 1, 2, 3, -1, 1, 2, -1, 0, 3, -2}, false},
    {"six", "2x2x3+3x2+2x3x2", {0, 1, 2, -1, 2, 3, -1, 4, 2, 5, -1, 0, 4, 5, -2}, false},
    {"empty", "0x4+4x5", {0, 1, -1, 1, 2, -1, 0, 2, -2}, true},
    {"empty_sum", "3x0+0x5", {0, 1, -1, 1, 2, -1, 0, 2, -2}, true},
    {"empty_diagonal", "0x0x3", {0, 0, 1, -1, 1, -2}, false},
    {"deep", "3x257+257x5", {0, 1, -1, 1, 2, -1, 0, 2, -2}, false},
    {"real", "67x129+129x97", {0, 1, -1, 1, 2, -1, 0, 2, -2}, false},
};

static struct kernel_case *linalg_cases_einsum(const struct case_builder *builder, size_t i)
{
    struct kernel_case *made = case_begin(builder, sums[i].shapes);
    int64_t n = 0, *labels = made->dims[0]; /* the storage of all lists together */

    while (sums[i].labels[n] != -2) n++;
    for (int64_t k = 0; k < n; k++) labels[k] = sums[i].labels[k];
    made->attrs.einsum.labels = (struct bp_dims){labels, n};
    return made;
}

void cases_einsum(struct case_builder *builder)
{
    struct kernel_case *made;

    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) {
        made = linalg_cases_einsum(builder, i);
        made->quick = sums[i].quick;
        case_end(builder, made, "%s", sums[i].name);
    }
    case_real(builder, linalg_cases_einsum(builder, COUNT(sums) - 1), 1, "real.weights");
    made = linalg_cases_einsum(builder, 2);
    case_data(made, DATA_EXACT);
    case_end(builder, made, "exact");
    if (has_infinities(builder)) {
        made = linalg_cases_einsum(builder, 1);
        case_data(made, DATA_NONFINITE);
        case_end(builder, made, "nonfinite");
    }
    for (int i = 0; i < 3; i++) {
        made = linalg_cases_einsum(builder, i == 0 ? 2 : i == 1 ? 18 : 22);
        made->gradient = is_real_float(builder) ? 2 : 0;
        case_layouts(builder, made, i == 0 ? "batched" : i == 1 ? "diagonal" : "three", false);
    }
}

/* There is no data that is not finite: it leaves the choice of pivot rows undefined. */
void cases_det(struct case_builder *builder)
{
    /* Matrices that need row exchanges; and one with a small number that must not become a
     * pivot. */
    static const double turns[] = {0, 3, 0, 0, 0, 0.5, 0, -2, 0, 0, 0, 4, 0, 0, 0, 1};
    static const double small[] = {1e-4, 1, 1, 1, 1, 2, 1, 2, 1};
    static const struct {
        const char *variant, *shape;
        enum data data;
        bool quick;
        const double *list;
        int n_list;
    } some[] = {
        {"none", "0x3x3", DATA_PLAIN, true},      {"no-rows", "2x0x0", DATA_PLAIN, true},
        {"one", "5x1x1", DATA_PLAIN, true},       {"two", "7x31x2x2", DATA_PLAIN, true},
        {"three", "61x3x3", DATA_PLAIN, true},    {"matrix", "4x4", DATA_PLAIN, true},
        {"layouts", "3x5x5", DATA_PLAIN, false},  {"exact", "257x3x3", DATA_EXACT, true},
        {"exact", "31x6x6", DATA_EXACT, false},   {"zero", "2x4x4", DATA_ZERO, false},
        {"turned", "4x4", DATA_LIST, true, turns, 16},
        {"sparse", "31x4x4", DATA_LIST, false, turns, 13},
        {"small", "3x3", DATA_LIST, true, small, 9},
        {"positive", "5x8x8", DATA_POSITIVE, false}, {"width", "3x15x15", DATA_PLAIN, false},
        {"width", "17x17", DATA_UNIT, false},     {"width", "2x33x33", DATA_UNIT, false},
    };

    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        struct kernel_case *made = case_begin(builder, some[i].shape);
        if (some[i].data == DATA_LIST) case_list(made, 0, some[i].n_list, some[i].list);
        else made->in[0].data = some[i].data;
        made->quick = some[i].quick;
        if (i == 6) case_layouts(builder, made, some[i].variant, false);
        else case_end(builder, made, "%s", some[i].variant);
    }
}
