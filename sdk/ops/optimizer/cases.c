/* SPDX-License-Identifier: Apache-2.0 */
/* cases.c: builds cases of the optimizer steps, of unscale and of update_loss_scaling. */
#include "../common/cases.h"
#include <backplane/call.h>
#include <backplane/kernel.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

cases_fn cases_step, cases_unscale, cases_update_loss_scaling;

static const struct {
    const char *variant, *shape;
    bool quick;
} lines[] = {
    {"empty", "0", true},   {"scalar", "scalar", true},    {"one", "1", false},
    {"width", "15", false}, {"width", "16", false},        {"width", "17", true},
    {"prime", "257", true}, {"rank5", "2x3x2x5x3", false},
};

/* Whether input i holds the power of a beta, which is one value. The inputs after lr are powers or
 * states. */
static bool is_power(const struct bp_opinfo *op, uint32_t i)
{
    return strstr(op->in[i].name, "_pow") != NULL;
}

/* Whether U is the dtype in which values of dtype T are computed. */
static bool optimizer_cases_fits(const struct case_builder *builder)
{
    return builder->dtype[1] == (builder->dtype[0] == BP_F64 ? (uint32_t)BP_F64 : (uint32_t)BP_F32);
}

/* third: the case has the optional third state. */
static struct kernel_case *optimizer_cases_step(struct case_builder *builder, const char *shape,
                                                bool third)
{
    static const double rate[] = {0.125}, power1[] = {0.6561}, power2[] = {0.99};
    static const double means[] = {0.1, -0.3, 0.25, 0, -0.05, 0.3, -0.125};
    const struct bp_opinfo *op = bp_opinfo_find(builder->op->name);
    struct kernel_case *made;
    char text[256] = "";
    uint32_t n = op->n_in;

    if (op->in[n - 1].kind == BP_PORT_OPT && !third) n--;
    for (uint32_t i = 0; i < n; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%s", i ? "+" : "",
                 i == 2 || is_power(op, i) ? (n % 2 ? "1" : "scalar") : shape);
    }
    made = case_begin(builder, text);
    for (uint32_t i = 2; i < n; i++) {
        made->in[i].dtype = builder->dtype[1];
        made->in[i].data = DATA_POSITIVE; /* squares, or similar numbers */
    }
    case_list(made, 2, 1, rate);
    for (uint32_t i = 3; i < n; i++)
        if (is_power(op, i))
            case_list(made, (int)i, 1, strchr(op->in[i].name, '1') ? power1 : power2);
    if (!strcmp(op->name, "rmsprop") && third) case_list(made, 5, COUNT(means), means);
    return made;
}

/* Sets other attributes, for operators that have a second form. */
static void optimizer_cases_second(const struct case_builder *builder, struct kernel_case *made)
{
    if (case_is(builder, "momentum")) {
        made->attrs.momentum.nesterov = 1;
        made->attrs.momentum.l2 = 0.25;
    } else if (case_is(builder, "adam")) {
        made->attrs.adam.decay = 0.25;
        made->attrs.adam.epsilon = 0.01;
    } else if (case_is(builder, "adamw")) {
        made->attrs.adamw.decay = 0.5;
    } else if (case_is(builder, "rmsprop")) {
        made->attrs.rmsprop.momentum = 0.75;
        made->attrs.rmsprop.rho = 0.9;
    } else if (case_is(builder, "lamb")) {
        made->attrs.lamb.decay = 0;
    } else if (case_is(builder, "lars_momentum")) {
        made->attrs.lars_momentum.decay = 0.25;
        made->attrs.lars_momentum.coefficient = 0.5;
        made->attrs.lars_momentum.epsilon = 0.125;
    } else if (case_is(builder, "adamax")) {
        made->attrs.adamax.beta2 = 0.5;
    }
}

/* lamb and lars_momentum compute norms of whole tensors: no error bound is known for norms of data
 * that is not finite, nor for 1 / 0. */
static void data_of(const struct case_builder *builder, struct kernel_case *made, int kind)
{
    bool whole = case_is(builder, "lamb") || case_is(builder, "lars_momentum");

    if (kind == 1) made->in[0].data = made->in[1].data = DATA_POSITIVE;
    if (kind == 2) made->in[0].data = made->in[1].data = whole ? DATA_UNIT : DATA_NONFINITE;
    if (kind == 3) made->in[1].data = DATA_ZERO;
    if (kind == 4) made->in[0].data = DATA_ZERO;
}

static void each_output(struct case_builder *builder, struct kernel_case *made, bool third,
                        const char *name)
{
    const struct bp_opinfo *op = bp_opinfo_find(builder->op->name);
    bool optional = op->in[op->n_in - 1].kind == BP_PORT_OPT;

    case_parts(builder, made, (int)op->n_out - (optional && !third), name);
}

void cases_step(struct case_builder *builder)
{
    static const char *const extents[] = {"97", "129", "333"};
    const struct bp_opinfo *op = bp_opinfo_find(builder->op->name);
    bool optional = op->in[op->n_in - 1].kind == BP_PORT_OPT;
    struct kernel_case *made;
    char name[64];

    if (!optimizer_cases_fits(builder)) return;
    for (int i = 0; i < COUNT(lines); i++) {
        made = optimizer_cases_step(builder, lines[i].shape, optional && i % 2);
        made->quick = lines[i].quick;
        if (i == 5) each_output(builder, made, optional, lines[i].variant);
        else case_end(builder, made, "%s", lines[i].variant);
    }
    for (int kind = 0; kind < 5; kind++)
        for (int form = 0; form < 2; form++) {
            if (kind > 1 && form == kind % 2) continue;
            made = optimizer_cases_step(builder, "7x37", optional && form);
            if (form) optimizer_cases_second(builder, made);
            data_of(builder, made, kind);
            made->quick = kind == 0;
            snprintf(name, sizeof name, "data%d.form%d", kind, form);
            each_output(builder, made, optional && form, name);
        }
    for (int i = 0; i < COUNT(extents); i++)
        case_end(builder, optimizer_cases_step(builder, extents[i], false), "odd");
    snprintf(name, sizeof name, "%d", (int)case_drawn(builder, 0, 1, 9000));
    case_end(builder, optimizer_cases_step(builder, name, false), "drawn");
    made = optimizer_cases_step(builder, "9001", false); /* several parts of a norm */
    case_end(builder, made, "long");
    made = optimizer_cases_step(builder, "3x5x7", false);
    case_layouts(builder, made, "rank3", false);
}

void cases_unscale(struct case_builder *builder)
{
    static const char *const shapes[] = {"1+1",          "scalar+0",           "1+17",
                                         "scalar+2x3+5", "1+257+scalar+3x2x5", "1+15+16+17+1+0"};
    static const double scales[] = {1, 1024, 3, 0.125, 1e-30, 65536};
    struct kernel_case *made;
    char name[64];

    if (!optimizer_cases_fits(builder)) return;
    for (int i = 0; i < COUNT(shapes); i++)
        for (int s = 0; s < COUNT(scales); s++)
            for (int data = 0; data < 2; data++) {
                if (s > 1 && i != 4) continue;
                made = case_begin(builder, shapes[i]);
                case_data(made, data ? DATA_NONFINITE : DATA_PLAIN);
                made->in[0].dtype = builder->dtype[1];
                case_list(made, 0, 1, &scales[s]);
                made->quick = !data;
                snprintf(name, sizeof name, "scale%d.data%d", s, data);
                made->n_out = made->n_in;
                for (int part = 0; part < 2; part++) {
                    struct kernel_case *copy = case_copy(made);
                    copy->part = part;
                    case_end(builder, copy, "%s.%d", name, part);
                }
                made->part = made->n_in - 1; /* the last output */
                if (made->part > 1) case_end(builder, made, "%s.last", name);
                else case_end(builder, made, "%s.again", name);
            }
    for (size_t i = 0; i < 3; i++) { /* one NaN or infinity, in each kind of input */
        static const double odd[][3] = {{1, NAN, 2}, {INFINITY, 1, 0}, {2, 1, -INFINITY}};
        made = case_begin(builder, "1+17+3");
        made->in[0].dtype = builder->dtype[1];
        case_list(made, 0, 1, &scales[1]);
        case_list(made, 2, 3, odd[i]);
        made->n_out = 3;
        case_end(builder, made, "kind%zu", i);
    }
    made = case_begin(builder, "1+3x5+5x3x2");
    made->in[0].dtype = builder->dtype[1];
    case_list(made, 0, 1, &scales[2]);
    made->n_out = 3;
    made->part = 2;
    case_layouts(builder, made, "two", false);
}

void cases_update_loss_scaling(struct case_builder *builder)
{
    static const struct {
        const char *variant;
        double scale, good, bad;
        bool found;
    } states[] = {
        {"good", 1024, 3, 1, false},   {"bad", 1024, 3, 0, true},     {"grows", 1024, 6, 0, false},
        {"shrinks", 1024, 3, 1, true}, {"to-one", 1.5, 0, 1, true},   {"beyond", 3e38, 6, 0, false},
        {"late", 7, 100, 0, false},    {"odd", 1000.125, 0, 5, true},
    };

    for (int i = 0; i < COUNT(states); i++) {
        static const double yes = 1, no = 0;
        struct kernel_case *made = case_begin(builder, i % 2 ? "1+1+1+1" : "scalar+scalar+1+1");
        made->attrs.update_loss_scaling.grow_after = 7;
        made->attrs.update_loss_scaling.shrink = 0.6;
        made->attrs.update_loss_scaling.grow = 3;
        case_list(made, 0, 1, &states[i].scale);
        made->in[1].dtype = BP_BOOL;
        case_list(made, 1, 1, states[i].found ? &yes : &no);
        made->in[2].dtype = made->in[3].dtype = BP_I32;
        case_list(made, 2, 1, &states[i].good);
        case_list(made, 3, 1, &states[i].bad);
        made->quick = true;
        case_parts(builder, made, 3, states[i].variant);
    }
}
