/* SPDX-License-Identifier: Apache-2.0 */
/* cases.c: builds cases of operators that draw random numbers of a distribution. Element i depends
 * on its own random words only, whatever the shape. */
#include "../common/cases.h"
#include <backplane/kernel.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

cases_fn cases_normal, cases_truncated_normal, cases_exponential, cases_randint, cases_randperm,
    cases_bernoulli, cases_multinomial, cases_poisson, cases_dropout, cases_dropout_grad,
    cases_gumbel_softmax;

static const struct {
    const char *variant;
    int rank;
    int64_t shape[REF_RANK];
    uint64_t seed, offset;
    bool quick;
} shapes[] = {
    {"scalar", 0, {0}, 1, 0, true},
    {"empty", 2, {2, 0}, 1, 0, true},
    {"1", 1, {1}, 0, 0, false},
    {"2", 1, {2}, 2, 1, false},
    {"3", 1, {3}, 2, 1, false},
    {"5", 1, {5}, 2, 1, false},
    {"17", 1, {17}, 3, 100, true},
    {"255", 1, {255}, 4, 0, false},
    {"257", 1, {257}, 4, 0, true},
    {"3x5x7", 3, {3, 5, 7}, 5, 7, true},
    {"rank6", 6, {1, 2, 3, 1, 2, 3}, 5, 7, false},
    {"seed", 1, {259}, UINT64_C(0xfedcba9876543210), 12, true},
    {"carry", 1, {259}, 6, UINT64_C(0xfffffffe), false},
    {"wraps", 1, {259}, 6, UINT64_MAX - 2, false},
    {"long", 1, {4099}, 9, 3, true},
};

/* Begins a case of an operator that creates a tensor; their attributes all begin alike. form: the
 * shape is an attribute, or a tensor of i64 or i32. */
static struct kernel_case *random_cases_drawn(struct case_builder *builder, size_t i, int form)
{
    static const uint32_t host[] = {0, BP_I64, BP_I32};
    struct kernel_case *made = case_begin(builder, "-");

    made->attrs.normal.shape = case_dims(made, 0, shapes[i].rank, shapes[i].shape);
    made->attrs.normal.dtype = builder->dtype[0];
    made->seed = shapes[i].seed;
    made->offset = shapes[i].offset;
    made->quick = shapes[i].quick;
    made->host = host[form];
    return made;
}

static void all_shapes(struct case_builder *builder)
{
    static const char *const name[] = {"", ".host-i64", ".host-i32"};

    for (int i = 0; i < COUNT(shapes); i++)
        for (int form = 0; form < 3; form++) {
            if (form && (!shapes[i].quick || !shapes[i].rank || i > 9)) continue;
            case_end(builder, random_cases_drawn(builder, i, form), "%s%s", shapes[i].variant,
                     name[form]);
        }
}

enum {
    LONG = COUNT(shapes) - 1,
    SOME = 8
};

void cases_normal(struct case_builder *builder)
{
    static const struct {
        const char *variant;
        double mean, std;
    } values[] = {{"moved", 3, 0.5},
                  {"cancels", -1.5, 2},
                  {"wide", 0, 1e4},
                  {"no-width", 7, 0},
                  {"odd", 0.1, 0.3}};
    struct kernel_case *made;

    all_shapes(builder);
    for (int i = 0; i < COUNT(values); i++) {
        made = random_cases_drawn(builder, LONG, 0);
        made->attrs.normal.mean = values[i].mean;
        made->attrs.normal.std = values[i].std;
        case_end(builder, made, "%s", values[i].variant);
    }
}

void cases_truncated_normal(struct case_builder *builder)
{
    static const struct {
        const char *variant;
        double mean, std, low, high;
    } values[] = {{"moved", 3, 0.5, -1, 2}, {"one-side", 0, 2, 0.5, 3},
                  {"below", 0, 1, -3, -1},  {"narrow", 0, 1, 0.5, 0.51},
                  {"far", 0, 1, -5, 5},     {"no-width", 7, 0, -1, 1}};
    struct kernel_case *made;

    all_shapes(builder);
    for (int i = 0; i < COUNT(values); i++) {
        made = random_cases_drawn(builder, LONG, 0);
        made->attrs.truncated_normal.mean = values[i].mean;
        made->attrs.truncated_normal.std = values[i].std;
        made->attrs.truncated_normal.low = values[i].low;
        made->attrs.truncated_normal.high = values[i].high;
        case_end(builder, made, "%s", values[i].variant);
    }
}

void cases_exponential(struct case_builder *builder)
{
    static const double rates[] = {0.75, 7, 0.001, 3e5};
    struct kernel_case *made;

    for (int i = 0; i < COUNT(shapes); i++) {
        made = random_cases_drawn(builder, i, i == 9 ? 1 : 0);
        made->attrs.exponential.rate = 1.5;
        case_end(builder, made, "%s", shapes[i].variant);
    }
    for (int i = 0; i < COUNT(rates); i++) {
        made = random_cases_drawn(builder, LONG, 0);
        made->attrs.exponential.rate = rates[i];
        case_end(builder, made, "rate%d", i);
    }
}

void cases_randint(struct case_builder *builder)
{
    static const struct {
        const char *variant;
        int64_t low, high;
        bool wide;
    } ranges[] = {
        {"two", 0, 2, false},
        {"odd", -7, 100, false},
        {"prime", 3, 65540, false},
        {"half", 0, INT32_MAX, false},
        {"all-i32", INT32_MIN, (int64_t)INT32_MAX + 1, false},
        {"2^32", 5, (INT64_C(1) << 32) + 5, true},
        {"more", 5, (INT64_C(1) << 32) + 6, true},
        {"2^63", -(INT64_C(1) << 62), INT64_C(1) << 62, true},
        {"most", INT64_MIN, INT64_MAX, true},
    };
    struct kernel_case *made;

    for (int i = 0; i < COUNT(shapes); i++)
        for (int form = 0; form < 2; form++) {
            if (form && i != 9) continue;
            made = random_cases_drawn(builder, i, form);
            made->attrs.randint.high = 1000;
            case_end(builder, made, "%s%s", shapes[i].variant, form ? ".host" : "");
        }
    for (int i = 0; i < COUNT(ranges); i++)
        for (size_t s = SOME; s <= LONG; s += LONG - SOME) {
            if (ranges[i].wide && builder->dtype[0] != BP_I64) continue;
            made = random_cases_drawn(builder, s, 0);
            made->attrs.randint.low = ranges[i].low;
            made->attrs.randint.high = ranges[i].high;
            case_end(builder, made, "%s.%s", ranges[i].variant, shapes[s].variant);
        }
}

void cases_randperm(struct case_builder *builder)
{
    static const int64_t counts[] = {0, 1, 2, 3, 5, 16, 17, 257, 1031};

    for (int i = 0; i < COUNT(counts); i++)
        for (int form = 0; form < 3; form++) {
            static const uint32_t host[] = {0, BP_I64, BP_I32};
            struct kernel_case *made;
            if (form && counts[i] != 17) continue;
            made = case_begin(builder, "-");
            made->attrs.randperm.n = counts[i];
            made->attrs.randperm.dtype = builder->dtype[0];
            made->seed = 7 * i;
            made->offset = i;
            made->host = host[form];
            made->quick = i % 2;
            case_end(builder, made, "%lld.%d", (long long)counts[i], form);
        }
}

static const struct {
    const char *variant, *shape;
    uint64_t seed, offset;
    bool quick;
} tensors[] = {
    {"scalar", "scalar", 1, 0, true},
    {"empty", "2x0", 1, 0, true},
    {"1", "1", 0, 0, false},
    {"2", "2", 2, 1, false},
    {"3", "3", 2, 1, false},
    {"5", "5", 2, 1, false},
    {"15", "15", 2, 1, false},
    {"16", "16", 2, 1, false},
    {"17", "17", 3, 100, true},
    {"255", "255", 4, 0, false},
    {"257", "257", 4, 0, true},
    {"rank3", "3x5x7", 5, 7, true},
    {"rank6", "1x2x3x1x2x3", 5, 7, false},
    {"carry", "259", 6, UINT64_C(0xfffffffe), true},
    {"long", "4099", 9, 3, true},
};

/* Begins a case whose input is a tensor. twice: there is a second input of the same shape. */
static struct kernel_case *of_tensor(struct case_builder *builder, size_t i, bool twice)
{
    char text[64];
    struct kernel_case *made;

    if (twice) snprintf(text, sizeof text, "%s+%s", tensors[i].shape, tensors[i].shape);
    else snprintf(text, sizeof text, "%s", tensors[i].shape);
    made = case_begin(builder, text);
    made->seed = tensors[i].seed;
    made->offset = tensors[i].offset;
    made->quick = tensors[i].quick;
    return made;
}

void cases_bernoulli(struct case_builder *builder)
{
    static const double corners[] = {0, 1, 0.5, -1, 2, 0.25, 0x1p-24, 1 - 0x1p-24, 0.999};
    struct kernel_case *made;

    for (int i = 0; i < COUNT(tensors); i++)
        for (int data = 0; data < 3; data++) {
            static const char *const name[] = {"", ".corners", ".nonfinite"};
            if (data && i + 1 < COUNT(tensors)) continue;
            made = of_tensor(builder, i, false);
            made->in[0].data = DATA_UNIT;
            if (data == 1) case_list(made, 0, COUNT(corners), corners);
            if (data == 2) made->in[0].data = DATA_NONFINITE;
            case_end(builder, made, "%s%s", tensors[i].variant, name[data]);
        }
    made = case_begin(builder, "3x5x7");
    case_layouts(builder, made, "rank3", false);
}

/* Adds draws whose limit is a sum of weights: with this seed element 24 draws 16 of 256. And draws
 * of weights whose sum is infinite: the last weight above 0. */
static void random_cases_limits(struct case_builder *builder)
{
    static const double one[] = {1}, large[] = {3e38, 2.5e38, 1e38, 0},
                        larger[] = {1.7e308, 1.1e308, 1e308, 0};
    struct kernel_case *made = case_begin(builder, "256");

    made->attrs.multinomial.n = 64;
    made->attrs.multinomial.replacement = true;
    case_list(made, 0, COUNT(one), one);
    made->seed = 783;
    made->quick = true;
    case_end(builder, made, "limit");
    if (builder->dtype[0] == BP_F16) return; /* it has no weights whose sums are infinite in f32 */
    for (int again = 0; again < 2; again++) {
        made = case_begin(builder, "2x4");
        made->attrs.multinomial.n = 3;
        made->attrs.multinomial.replacement = again;
        case_list(made, 0, COUNT(large), builder->dtype[0] == BP_F64 ? larger : large);
        made->seed = 3;
        made->quick = true;
        case_end(builder, made, "infinite-sum%d", again);
    }
}

void cases_multinomial(struct case_builder *builder)
{
    static const struct {
        const char *variant, *shape;
        int64_t n;
        bool again, quick;
    } lines[] = {
        {"one", "1", 1, false, true},          {"one-often", "1", 5, true, false},
        {"line", "17", 3, false, true},        {"line-again", "17", 40, true, true},
        {"all", "9", 9, false, true},          {"rows", "5x7", 4, false, true},
        {"rows-again", "5x7", 11, true, true}, {"rows-all", "3x16", 16, false, false},
        {"wide", "3x257", 19, false, true},    {"wide-again", "3x257", 201, true, true},
        {"no-rows", "0x3", 2, false, false},   {"no-draws", "3x4", 0, false, false},
        {"nothing", "2x0", 0, true, false},
    };
    static const double holes[] = {0, 2, 0, 0, 1, 0.5, 0, 3, 0, 0};
    struct kernel_case *made;

    for (int i = 0; i < COUNT(lines); i++) {
        made = case_begin(builder, lines[i].shape);
        made->attrs.multinomial.n = lines[i].n;
        made->attrs.multinomial.replacement = lines[i].again;
        made->in[0].data = DATA_POSITIVE;
        made->seed = 11 + i;
        made->offset = i;
        made->quick = lines[i].quick;
        case_end(builder, made, "%s", lines[i].variant);
    }
    for (int again = 0; again < 2; again++) {
        made = case_begin(builder, "7x20");
        made->attrs.multinomial.n = again ? 50 : 8;
        made->attrs.multinomial.replacement = again;
        case_list(made, 0, COUNT(holes), holes);
        made->seed = 5;
        case_end(builder, made, "holes%d", again);
        made = case_begin(builder, "4x6");
        made->attrs.multinomial.n = 3;
        made->attrs.multinomial.replacement = again;
        made->in[0].data = DATA_POSITIVE;
        case_layouts(builder, made, again ? "rows.again" : "rows", false);
    }
    random_cases_limits(builder);
}

void cases_poisson(struct case_builder *builder)
{
    static const double rates[] = {0,  0.5, 1,   3.7, 9.99, 10,   10.5, 12,  33,
                                   75, 100, 250, 777, 2000, 6.25, 0.01, 15.5};
    static const double corners[] = {0,         1e6, -1,     NAN,  INFINITY,
                                     -INFINITY, 3e4, 0x1p41, 1e-7, 0x1p39};

    for (int i = 0; i < COUNT(tensors); i++)
        for (int data = 0; data < 2; data++) {
            struct kernel_case *made;
            if (data && i != 14) continue;
            made = of_tensor(builder, i, false);
            if (data) case_list(made, 0, COUNT(corners), corners);
            else case_list(made, 0, COUNT(rates), rates);
            case_end(builder, made, "%s%s", tensors[i].variant, data ? ".corners" : "");
        }
}

/* p, mode and training of dropout; the first two run with all sizes. */
static const struct {
    const char *variant;
    double p;
    int mode, training;
} rates[] = {
    {"half", 0.5, 0, 1},  {"odd", 0.3, 0, 1},        {"down", 0.3, 1, 1},
    {"all", 1, 0, 1},     {"none", 0, 0, 1},         {"most", 0.999, 0, 1},
    {"still", 0.3, 0, 0}, {"still-down", 0.3, 1, 0}, {"all-down", 1, 1, 0},
};

static void set_rate(struct kernel_case *made, size_t r)
{
    made->attrs.dropout.p = rates[r].p;
    made->attrs.dropout.mode = rates[r].mode;
    made->attrs.dropout.training = rates[r].training;
}

void cases_dropout(struct case_builder *builder)
{
    static const enum data data[] = {DATA_PLAIN, DATA_NONFINITE, DATA_SPECIAL};
    struct kernel_case *made;
    char name[64];

    for (int i = 0; i < COUNT(tensors); i++)
        for (int r = 0; r < COUNT(rates); r++) {
            if (r > 1 && i != 10) continue;
            made = of_tensor(builder, i, false);
            set_rate(made, r);
            made->in[0].data = data[(i + r) % 3];
            if (rates[r].p > 0 && rates[r].p < 1) case_smooth(made, 2);
            snprintf(name, sizeof name, "%s.%s", rates[r].variant, tensors[i].variant);
            case_parts(builder, made, 2, name);
        }
    made = case_begin(builder, "3x5x7");
    made->n_out = 2;
    made->attrs.dropout.p = 0.75;
    case_layouts(builder, made, "rank3", true);
}

void cases_dropout_grad(struct case_builder *builder)
{
    static const enum data data[] = {DATA_PLAIN, DATA_NONFINITE, DATA_SPECIAL};
    struct kernel_case *made;

    for (int i = 0; i < COUNT(tensors); i++)
        for (int r = 0; r < COUNT(rates); r++) {
            if (r > 1 && i != 10) continue;
            made = of_tensor(builder, i, true);
            made->in[1].dtype = BP_BOOL;
            set_rate(made, r);
            made->in[0].data = data[(i + r) % 3];
            case_smooth(made, 2);
            case_end(builder, made, "%s.%s", rates[r].variant, tensors[i].variant);
        }
    made = case_begin(builder, "3x5x7+3x5x7");
    made->in[1].dtype = BP_BOOL;
    case_layouts(builder, made, "rank3", true);
}

void cases_gumbel_softmax(struct case_builder *builder)
{
    static const struct {
        const char *variant, *shape;
        int64_t axis;
        double temperature;
        bool quick;
    } lines[] = {
        {"one", "1", -1, 1, true},
        {"few", "2", 0, 1, false},
        {"line", "17", -1, 1, true},
        {"rows", "5x7", 1, 1, true},
        {"columns", "7x5", 0, 1, true},
        {"middle", "3x5x7", 1, 1, false},
        {"rank6", "1x2x3x1x5x2", 4, 1, false},
        {"warm", "13x9", -1, 5, true},
        {"cold", "13x9", -1, 0.1, true},
        {"odd", "13x9", 0, 0.7, false},
        {"wide", "3x257", -1, 1, true},
        {"empty", "0x3", -1, 1, true},
    };

    for (int i = 0; i < COUNT(lines); i++) {
        struct kernel_case *made = case_begin(builder, lines[i].shape);
        made->attrs.gumbel_softmax.axis = lines[i].axis;
        made->attrs.gumbel_softmax.temperature = lines[i].temperature;
        made->seed = 3 + i;
        made->offset = i;
        made->quick = lines[i].quick;
        made->fixed_out = 2; /* the gradient of the second output is straight-through */
        case_smooth(made, lines[i].temperature == 1 ? 2 : 0);
        if (i == 5) case_part_layouts(builder, made, 2, lines[i].variant);
        else case_parts(builder, made, 2, lines[i].variant);
    }
}
