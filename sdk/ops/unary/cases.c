/* SPDX-License-Identifier: Apache-2.0 */
/* cases.c: builds cases of elementwise operators with one input, of their gradients, and of
 * predicates. */
#include "../common/cases.h"
#include <backplane/kernel.h>
#include <stdio.h>
#include <string.h>

cases_fn cases_unary, cases_unary_grad, cases_predicate;

#define LENGTH(list) (int)(sizeof(list) / sizeof *(list))

/* Numbers at which functions end, turn, underflow or overflow in any dtype, and at which kernels
 * change from one formula to another. */
static const double points[] = {
    0.5, -0.5, 1, -1, 2, -2, -3, -2.5, -1.0009765625, -0.99951171875, 0.99951171875,
    1.0009765625, 0x1.fffffep-1, 0x1.000002p0, -0x1.fffffep-1, 1 - 0x1p-40, 1 + 0x1p-40, 1e-3,
    -1e-3, 1e-5, -1e-8, 1e-20, -1e-20, 2e-20, 1e-30, -1e-38, 0x1p-130, 0.25, 0.3, 0.45, 0.55,
    0.625, -0.625, 0.7, 0.92, -0.92, 1.4616321449683622, 1.5707963267948966, 2.5, 3, -3,
    3.141592653589793, 3.92, 4, -4.5, 5, 6, 6.2831853071795865, 9.01, 9.5, -9.5, -10.0078125,
    13, -13.5, -14.2, 15, 19.99, 20, 20.5, -20.5, 29, 31, 35, 80, -80, 86, -86.5, 87.3, -87.4,
    -88, 88.7, 88.73, 89, -90, 95, -95, -100, -103.5, -104, 110, 120, -126.5, 127.5, 127.99,
    128, 144.5, -149.5, -150, 170.5, 172, 355, 500, -600, 700, -708.5, 709.7, 709.8, -740, -745,
    -746, 1000, 1023.5, -1022.5, -1074.5, -1075, 1e4, -1e4, 12345.678, 1e5, -1e6, 8388607.5,
    8388609, 16777217, 3e7,
};

static const struct {
    const char *variant, *shape;
    enum data data;
    bool quick, floats; /* floats: for float types only */
} cases[] = {
    {"empty", "0x3", DATA_PLAIN, true, false},
    {"scalar", "scalar", DATA_PLAIN, false, false},
    {"one", "1", DATA_PLAIN, false, false},
    {"prime", "1031", DATA_PLAIN, true, false},
    {"width", "15", DATA_PLAIN, false, false},
    {"width", "17", DATA_PLAIN, false, false},
    {"width", "65", DATA_PLAIN, false, false},
    {"rank5", "2x3x2x3x5", DATA_PLAIN, false, false},
    {"special", "331", DATA_SPECIAL, true, false},
    {"wide", "1031", DATA_WIDE, false, false},
    {"long", "40009", DATA_WIDE, false, false},
    {"unit", "1031", DATA_UNIT, false, true},
    {"large", "515", DATA_LARGE, false, true},
    {"nonfinite", "259", DATA_NONFINITE, false, true},
    {"range", "1031", DATA_RANGE, true, true},
    {"zeros", "17", DATA_ZERO, true, true},
    {"rank8", "1x2x1x2x1x2x3x2", DATA_PLAIN, true, false},
};

/* Values of attributes besides the defaults. */
static const struct {
    const char *op;
    double number[3];
} numbers[] = {
    {"leaky_relu", {0.25}},
    {"leaky_relu", {-1.5}},
    {"clip", {-0.75, 1.1}},
    {"clip", {0.5, 0.25}},
    {"clip", {-1e300, 3}},
    {"clip", {3.5, 1e300}},
    {"hard_tanh", {-0.1, 1.7}},
    {"hard_tanh", {0, 24}},
    {"nan_to_num", {1.1, 2.3, -4.7}},
    {"nan_to_num", {-1e300, 1e300, 5}},
    {"swish", {1.7}},
    {"swish", {-0.3}},
    {"logit", {0.1}},
    {"logit", {1e-6}},
    {"softplus", {2.5, 1}},
    {"softplus", {0.3, 10}},
    {"hard_shrink", {1.1}},
    {"hard_shrink", {0}},
    {"soft_shrink", {1.1}},
    {"soft_shrink", {0}},
    {"shrink", {1.1, 0.4}},
    {"shrink", {0.75, 0.75}},
    {"shrink", {0, -1.3}},
    {"thresholded_relu", {-0.3}},
    {"elu", {0.7}},
    {"elu", {-1.3}},
    {"celu", {0.7}},
    {"celu", {-1.3}},
    {"selu", {1.3, 0.4}},
    {"hard_sigmoid", {0.2, 0.4}},
    {"stanh", {1.3, -0.9}},
    {"clip_grad", {-0.7, 1.1}},
    {"clip_grad", {0, 6}},
    {"hard_shrink_grad", {1.1}},
    {"elu_grad", {0.7, 1}},
    {"elu_grad", {1, 1.6}},
    {"softplus_grad", {2.5, 1}},
    {"leaky_relu_grad", {0.25}},
};

/* Inputs for gradients: inside the domain, away from kinks and jumps. */
static const double line[] = {-3.7, -2.3, -1.6, -0.8, -0.3, -0.1, 0.2, 0.3, 0.7, 1.3, 2.6, 4.4};
/* Far enough from the ends, so that fifth derivatives are small enough for finite differences. */
static const double within[] = {-0.6, -0.5, -0.4, -0.2, 0.1, 0.15, 0.3, 0.35, 0.45, 0.5, 0.55, 0.6};
static const double probability[] = {0.3,  0.35, 0.37, 0.4, 0.42, 0.45,
                                     0.55, 0.6,  0.63, 0.65, 0.68, 0.7};
static const double positive[] = {0.3, 0.5, 0.8, 1.1, 1.4, 1.9, 2.2, 2.7, 3.1, 3.6, 4.2, 5};
static const double above_one[] = {1.2, 1.3, 1.5, 1.7, 1.9, 2.1, 2.4, 2.7, 3.1, 3.6, 4.2, 5};

/* Inputs for operators that are not smooth on `line`. order 0: no gradient. */
static const struct {
    const char *op;
    const double *list;
    int order;
} domains[] = {
    {"sqrt", positive, 2},      {"rsqrt", positive, 2},        {"reciprocal", positive, 2},
    {"log", positive, 2},       {"log2", positive, 2},         {"log10", positive, 2},
    {"log1p", positive, 2},     {"lgamma", positive, 2},       {"digamma", positive, 1},
    {"asin", within, 2},        {"acos", within, 2},           {"atanh", within, 2},
    {"erfinv", within, 2},      {"logit", probability, 2},     {"acosh", above_one, 2},
    {"tan", within, 2},         {"trigamma", positive, 0},     {"bitwise_not", line, 0},
};

static void set_numbers(struct kernel_case *made, const double *number, size_t size)
{
    memcpy((char *)&made->attrs + sizeof(size_t), number, size - sizeof(size_t));
}

static void with_numbers(struct case_builder *builder, const char *shapes, enum data data)
{
    for (int i = 0; i < LENGTH(numbers); i++) {
        struct kernel_case *made;
        if (strcmp(numbers[i].op, builder->op->name)) continue;
        made = case_begin(builder, shapes);
        made->in[0].data = data;
        set_numbers(made, numbers[i].number, builder->attrs_size);
        case_end(builder, made, "numbers%d", i);
    }
}

static void unary_cases_gradient(struct case_builder *builder, const char *shapes)
{
    struct kernel_case *made = case_begin(builder, shapes);
    const double *list = line;

    made->gradient = 2;
    for (int i = 0; i < LENGTH(domains); i++)
        if (!strcmp(domains[i].op, builder->op->name)) {
            list = domains[i].list;
            made->gradient = domains[i].order;
        }
    case_list(made, 0, LENGTH(line), list);
    if (made->n_in > 1) made->in[1].data = DATA_POSITIVE;
    case_end(builder, made, "gradient");
}

/* gelu has a second formula. */
static void by_tanh(struct case_builder *builder)
{
    static const enum data data[] = {DATA_PLAIN, DATA_WIDE, DATA_SPECIAL};
    struct kernel_case *made;

    for (int i = 0; i < LENGTH(data); i++) {
        made = case_begin(builder, "331");
        case_data(made, data[i]);
        made->attrs.gelu.approximate = 1;
        case_end(builder, made, "tanh%d", i);
    }
    made = case_begin(builder, "3x4");
    case_list(made, 0, LENGTH(line), line);
    made->attrs.gelu.approximate = 1;
    made->gradient = 2;
    case_end(builder, made, "tanh-gradient");
}

/* The numbers of f64 that are closest to multiples of pi / 2, up to 1e6 and in larger ranges: near
 * them the result of sin, cos or tan consists of digits of pi that f64 does not have. */
static const double multiples[] = {
    1.5707963267948966, -3.141592653589793, 45.553093477052, -91.106186954104, 1457.698991265664,
    276400.4632554836, 321307.9594422229, 642615.9188844458, 999200.8222338285, 3397346.5699258847,
    -462757653.44890815, 32102760787.64268, 4507333981601.797, 3.0548967794245493e19,
    4.919441506565777e45, 1.2890478281807222e136, 5.319372648326541e255, 3.580703081615749e286,
    1e22,
};

/* Adds cases with extents that the lists lack: a drawn one, each extent up to a limit, and if
 * `large` one above 2^24. For gradients and predicates the large cases of other operators
 * suffice. */
static void more_extents(struct case_builder *builder, int inputs, bool large)
{
    static const char *const one[] = {"1", "1+1"};
    char shapes[64], shape[32];

    case_drawn_shape(builder, shape, sizeof shape);
    snprintf(shapes, sizeof shapes, "%s%s%s", shape, inputs > 1 ? "+" : "",
             inputs > 1 ? shape : "");
    case_end(builder, case_begin(builder, shapes), "drawn");
    case_extents(builder, case_begin(builder, one[inputs - 1]), "sweep");
    if (large) case_large(builder, case_begin(builder, "257"), "large");
}

void cases_unary(struct case_builder *builder)
{
    bool floats = case_is_float(builder) && !case_is_complex(builder);
    struct kernel_case *made;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (cases[i].floats && !floats) continue;
        /* the sum of squares of such parts would overflow */
        if (case_is_complex(builder) && cases[i].data == DATA_SPECIAL) continue;
        made = case_begin(builder, cases[i].shape);
        case_data(made, cases[i].data);
        made->quick = cases[i].quick;
        case_end(builder, made, "%s", cases[i].variant);
    }
    more_extents(builder, 1, true);
    with_numbers(builder, "331", DATA_PLAIN);
    made = case_begin(builder, "5x6x7");
    case_layouts(builder, made, "rank3", true);
    if (builder->row_flags & BP_KERNEL_STRIDED) { /* long runs with gaps between them */
        made = case_begin(builder, "2x601");
        made->in[0].layout = made->out = LAYOUT_GAPS;
        case_end(builder, made, "rows.gaps");
    }
    if (!floats) return;
    with_numbers(builder, "257", DATA_SPECIAL);
    made = case_begin(builder, "127");
    case_list(made, 0, LENGTH(points), points);
    made->quick = true;
    case_end(builder, made, "points");
    unary_cases_gradient(builder, "3x4");
    if (!strcmp(builder->op->name, "gelu")) by_tanh(builder);
    if (case_is(builder, "sin") || case_is(builder, "cos") || case_is(builder, "tan")) {
        made = case_begin(builder, "19");
        case_list(made, 0, LENGTH(multiples), multiples);
        made->quick = true;
        case_end(builder, made, "multiples");
    }
}

static const struct {
    const char *variant, *shapes;
    enum data data; /* of x */
    bool quick;
} grads[] = {
    {"empty", "0x3+0x3", DATA_PLAIN, false},
    {"scalar", "scalar+scalar", DATA_PLAIN, false},
    {"prime", "1031+1031", DATA_PLAIN, true},
    {"width", "15+15", DATA_PLAIN, false},
    {"width", "65+65", DATA_PLAIN, false},
    {"broadcast-left", "5+7x5", DATA_PLAIN, false},
    {"broadcast-right", "7x5+7x1", DATA_PLAIN, false},
    {"rank5", "2x3x2x3x5+2x3x2x3x5", DATA_PLAIN, false},
    {"special", "331+331", DATA_SPECIAL, true},
    {"nonfinite", "259+259", DATA_NONFINITE, false},
    {"wide", "1031+1031", DATA_WIDE, false},
    {"large", "515+515", DATA_LARGE, false},
    {"long", "40009+40009", DATA_WIDE, false},
    {"range", "1031+1031", DATA_RANGE, false},
    {"rank8", "1x2x1x2x1x2x3x2+1x2x1x2x1x2x3x2", DATA_PLAIN, false},
};

void cases_unary_grad(struct case_builder *builder)
{
    struct kernel_case *made;

    for (int i = 0; i < LENGTH(grads); i++) {
        made = case_begin(builder, grads[i].shapes);
        made->in[0].data = grads[i].data;
        if (grads[i].data == DATA_NONFINITE) made->in[1].data = DATA_NONFINITE;
        made->quick = grads[i].quick;
        case_end(builder, made, "%s", grads[i].variant);
    }
    more_extents(builder, 2, false);
    with_numbers(builder, "331+331", DATA_PLAIN);
    with_numbers(builder, "257+257", DATA_SPECIAL);
    made = case_begin(builder, "5x6x7+5x6x7");
    case_layouts(builder, made, "rank3", true);
    made = case_begin(builder, "127+127");
    case_list(made, 0, LENGTH(points), points);
    case_end(builder, made, "points");
    unary_cases_gradient(builder, "3x4+3x4");
    unary_cases_gradient(builder, "3x4+3x1");
}

void cases_predicate(struct case_builder *builder)
{
    static const struct {
        const char *variant, *shape;
        enum data data;
    } kinds[] = {
        {"empty", "0x3", DATA_PLAIN},    {"scalar", "scalar", DATA_PLAIN},
        {"one", "1", DATA_PLAIN},        {"prime", "1031", DATA_EXACT},
        {"width", "15", DATA_SPARSE},    {"width", "17", DATA_SPARSE},
        {"width", "65", DATA_NONFINITE}, {"rank5", "2x3x2x3x5", DATA_SPARSE},
        {"special", "331", DATA_SPECIAL}, {"zero", "67", DATA_ZERO},
        {"nonfinite", "259", DATA_NONFINITE}, {"long", "40009", DATA_SPARSE},
        {"rank8", "1x2x1x2x1x2x3x2", DATA_SPARSE},
    };
    struct kernel_case *made;

    for (int i = 0; i < LENGTH(kinds); i++) {
        made = case_begin(builder, kinds[i].shape);
        case_data(made, kinds[i].data);
        made->quick = i == 3 || i == 8;
        case_end(builder, made, "%s", kinds[i].variant);
    }
    more_extents(builder, 1, false);
    made = case_begin(builder, "5x6x7");
    case_data(made, DATA_NONFINITE);
    case_layouts(builder, made, "rank3", false);
}
