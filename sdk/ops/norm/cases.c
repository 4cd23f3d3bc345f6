/* SPDX-License-Identifier: Apache-2.0 */
/* cases.c: builds cases of layer_norm, rms_norm, group_norm, instance_norm, batch_norm and their
 * gradients, which share shapes by kind, and of lp_normalize, mean_variance_normalization and
 * lrn. */
#include "../common/cases.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

cases_fn cases_layer_norm, cases_rms_norm, cases_layer_norm_grad, cases_rms_norm_grad,
    cases_group_norm, cases_group_norm_grad, cases_instance_norm, cases_batch_norm,
    cases_batch_norm_train, cases_batch_norm_grad, cases_lp_normalize,
    cases_mean_variance_normalization, cases_lrn;

/* Statistics, and the parameters of batch_norm, have the dtype that the operator computes in. */
static bool norm_cases_fits(const struct case_builder *builder)
{
    return builder->gradients ||
           builder->dtype[1] == num_accumulate(num_type(builder->dtype[0]))->dtype;
}

/* The shape of x, and the shape of the parameters: that of x from an axis on. */
struct rows {
    const char *x, *param;
    int64_t axis;
    double epsilon;
    enum data data;
    bool quick;
};

static const struct rows rows[] = {
    {"0x5", "5", 1, 1e-5, DATA_PLAIN, true},
    {"5x0", "0", 1, 1e-5, DATA_PLAIN, false},
    {"0x5", "0x5", 0, 1e-5, DATA_PLAIN, false},
    {"1", "1", 0, 1e-5, DATA_PLAIN, true},
    {"17", "17", 0, 1e-5, DATA_PLAIN, true},
    {"3x15", "15", -1, 1e-5, DATA_PLAIN, false},
    {"3x16", "16", 1, 1e-12, DATA_PLAIN, true},
    {"3x17", "17", 1, 0.25, DATA_PLAIN, false},
    {"5x7", "5x7", 0, 1e-5, DATA_PLAIN, true},
    {"5x7", "7", 1, 1e-5, DATA_PLAIN, true},
    {"2x3x4x5", "4x5", 2, 1e-5, DATA_PLAIN, true},
    {"2x3x4x5", "3x4x5", -3, 1e-5, DATA_PLAIN, false},
    {"2x3x2x3x5", "3x5", 3, 1e-5, DATA_PLAIN, false},
    {"1x2x1x2x2x2x1x3", "2x2x1x3", 4, 1e-5, DATA_PLAIN, false},
    {"5x63", "63", 1, 1e-5, DATA_PLAIN, false},
    {"5x64", "64", 1, 1e-5, DATA_PLAIN, false},
    {"5x65", "65", 1, 1e-5, DATA_PLAIN, true},
    {"131x3", "3", 1, 1e-5, DATA_PLAIN, false},
    {"131x2", "2", 1, 1e-5, DATA_POSITIVE, false},
    {"67x1", "1", 1, 1e-5, DATA_PLAIN, false},
    {"3x1031", "1031", 1, 1e-5, DATA_POSITIVE, false},
    {"2x2500", "2500", 1, 1e-5, DATA_PLAIN, false},
    {"3x131", "131", 1, 1e-5, DATA_POSITIVE, true},
    {"7x67", "67", 1, 1e-5, DATA_NONFINITE, true},
    {"7x67", "67", 1, 1e-5, DATA_WIDE, false},
    {"7x67", "67", 1, 1e-5, DATA_EXACT, false},
    {"131x130", "130", 1, 1e-5, DATA_PLAIN, false},
    {"3x4096", "4096", 1, 1e-5, DATA_PLAIN, true}, /* fills the registers of a team */
    {"2x8195", "8195", 1, 1e-5, DATA_PLAIN, false}, /* more, and not a whole number of vectors */
    {"2x8200", "8200", 1, 1e-5, DATA_PLAIN, false},
    {"1x16401", "16401", 1, 1e-5, DATA_POSITIVE, false},
    {"513x8", "8", 1, 1e-5, DATA_PLAIN, false},
};
enum { N_ROWS = COUNT(rows), LAYOUTS = 10 };

/* Rows of whole vectors: a host has a faster path for these where y is the only wanted output. */
static const struct rows whole[] = {
    {"5x32", "32", 1, 1e-5, DATA_PLAIN, true},
    {"5x64", "64", 1, 1e-5, DATA_PLAIN, false},
};

/* The number of statistics that a forward saves for the gradient. */
static int saved_count(const struct case_builder *builder)
{
    return case_is(builder, "rms_norm_grad") ? 1 : 2;
}

/* Gives the n saved statistics, inputs from 3 on, their dtype and numbers. These need not be the
 * statistics of x: the kernel must not compute them. */
static void case_saved(const struct case_builder *builder, struct kernel_case *made, int n)
{
    for (int i = 3; i < 3 + n; i++) made->in[i].dtype = builder->dtype[1];
    made->in[2 + n].data = DATA_POSITIVE;
}

/* which: bits of the parameters that are present. grad: dy follows the first parameter. saved:
 * statistics of the first `axis` axes follow. */
static struct kernel_case *row_case(const struct case_builder *builder, const struct rows *r,
                                    int which, int params, bool grad, bool saved)
{
    char shapes[240], lead[64];
    struct kernel_case *made;
    size_t used = (size_t)snprintf(shapes, sizeof shapes, "%s+%s", r->x,
                                   which & 1 ? r->param : "-");

    if (params == 2)
        used += (size_t)snprintf(shapes + used, sizeof shapes - used, "+%s",
                                 which & 2 ? r->param : "-");
    if (grad) used += (size_t)snprintf(shapes + used, sizeof shapes - used, "+%s", r->x);
    if (saved) {
        size_t length = strlen(r->x) - strlen(r->param);
        snprintf(lead, sizeof lead, "%.*s", length ? (int)length - 1 : 6, length ? r->x : "scalar");
        for (int i = 0; i < saved_count(builder); i++)
            used += (size_t)snprintf(shapes + used, sizeof shapes - used, "+%s", lead);
    }
    made = case_begin(builder, shapes);
    made->attrs.layer_norm.axis = r->axis; /* rms_norm has this layout too */
    made->attrs.layer_norm.epsilon = r->epsilon;
    case_data(made, DATA_PLAIN);
    if (saved) case_saved(builder, made, saved_count(builder));
    made->in[0].data = r->data;
    if (grad && r->data == DATA_NONFINITE) made->in[2].data = r->data;
    made->quick = r->quick;
    return made;
}

static void of_rows(const struct case_builder *builder, int params, bool grad, int outputs,
                    uint32_t fixed)
{
    static const char *const with[] = {"bare", "scale", "bias", "both"};
    struct kernel_case *made;
    char variant[64];

    for (int i = 0; i < N_ROWS; i++) {
        int which = i % 3 || params == 1 ? i % 5 ? (1 << params) - 1 : 0 : 1 + i % 2;
        made = row_case(builder, &rows[i], which, params, grad, false);
        snprintf(variant, sizeof variant, "axis%d.%s", (int)(rows[i].axis & 15), with[which]);
        if (i % 4 == 1 || !rows[i].axis) case_parts(builder, made, outputs, variant);
        else case_end(builder, made, "%s", variant);
    }
    for (size_t i = 0; i < COUNT(whole); i++) {
        made = row_case(builder, &whole[i], (1 << params) - 1, params, grad, false);
        case_end(builder, made, "whole");
    }
    for (int which = 0; which < 1 << params; which++) {
        made = row_case(builder, &rows[LAYOUTS], which, params, grad, false);
        if (which == (1 << params) - 1) case_layouts(builder, made, "layouts", !grad);
        else case_end(builder, made, "which.%s", with[which]);
        if (!builder->gradients) continue;
        made = row_case(builder, &(struct rows){"2x5", "5", 1, 0.125, DATA_PLAIN, true}, which,
                        params, grad, false);
        made->gradient = 2;
        made->n_out = outputs;
        made->fixed_out = fixed;
        case_end(builder, made, "smooth.%s", with[which]);
    }
}

/* Gradients with statistics that the forward saved. */
static void saved_rows(const struct case_builder *builder, int outputs)
{
    struct kernel_case *made;

    if (builder->gradients) return; /* the gradient of the gradient computes statistics of x */
    for (int i = 0; i < N_ROWS; i++) {
        made = row_case(builder, &rows[i], i % 5 != 0, 1, true, true);
        if (i % 2 || !rows[i].axis) case_parts(builder, made, outputs, "saved");
        else case_end(builder, made, "saved");
    }
    made = row_case(builder, &rows[LAYOUTS], 1, 1, true, true);
    case_part_layouts(builder, made, outputs, "saved.layouts");
}

void cases_layer_norm(struct case_builder *builder)
{
    if (norm_cases_fits(builder)) of_rows(builder, 2, false, 3, 6);
}

void cases_rms_norm(struct case_builder *builder)
{
    if (norm_cases_fits(builder)) of_rows(builder, 1, false, 2, 2);
}

void cases_layer_norm_grad(struct case_builder *builder)
{
    if (!norm_cases_fits(builder)) return;
    of_rows(builder, 1, true, 3, 0);
    saved_rows(builder, 3);
}

void cases_rms_norm_grad(struct case_builder *builder)
{
    if (!norm_cases_fits(builder)) return;
    of_rows(builder, 1, true, 2, 0);
    saved_rows(builder, 2);
}

/* Channels are axis 1 of x. */
struct channels {
    const char *x, *param;
    int64_t groups;
    double epsilon;
    enum data data;
    enum layout layout;
    bool quick;
};

static const struct channels channels[] = {
    {"0x4x3", "4", 2, 1e-5, DATA_PLAIN, LAYOUT_DENSE, true},
    {"2x4x0", "4", 2, 1e-5, DATA_PLAIN, LAYOUT_DENSE, false},
    {"2x0x3", "0", 1, 1e-5, DATA_PLAIN, LAYOUT_DENSE, false},
    {"1x1", "1", 1, 1e-5, DATA_PLAIN, LAYOUT_DENSE, false},
    {"7x6", "6", 3, 1e-5, DATA_PLAIN, LAYOUT_DENSE, true},
    {"2x4x3", "4", 2, 1e-5, DATA_PLAIN, LAYOUT_DENSE, true},
    {"3x6x5x7", "6", 2, 1e-5, DATA_PLAIN, LAYOUT_DENSE, true},
    {"3x6x5x7", "6", 2, 1e-5, DATA_PLAIN, LAYOUT_LAST, true},
    {"2x67x3x5", "67", 67, 0.25, DATA_PLAIN, LAYOUT_LAST, false},
    {"2x67x3x5", "67", 1, 1e-5, DATA_POSITIVE, LAYOUT_LAST, true},
    {"2x130x3", "130", 65, 1e-5, DATA_PLAIN, LAYOUT_LAST, false},
    {"3x3x17", "3", 3, 1e-5, DATA_PLAIN, LAYOUT_DENSE, false},
    {"2x2x3x5x7", "2", 1, 1e-5, DATA_POSITIVE, LAYOUT_DENSE, false},
    {"2x4x1x2x1x2x1x3", "4", 4, 1e-5, DATA_PLAIN, LAYOUT_LAST, false},
    {"5x3x15", "3", 1, 1e-5, DATA_PLAIN, LAYOUT_DENSE, false},
    {"3x2x1031", "2", 2, 1e-5, DATA_POSITIVE, LAYOUT_DENSE, false},
    {"131x6", "6", 6, 1e-5, DATA_PLAIN, LAYOUT_DENSE, false},
    {"3x5x67", "5", 5, 1e-5, DATA_NONFINITE, LAYOUT_DENSE, true},
    {"3x5x67", "5", 1, 1e-5, DATA_NONFINITE, LAYOUT_LAST, false},
    {"3x4x31", "4", 2, 1e-5, DATA_WIDE, LAYOUT_LAST, false},
    {"3x4x31", "4", 2, 1e-5, DATA_EXACT, LAYOUT_DENSE, false},
    {"2x64x65", "64", 32, 1e-5, DATA_PLAIN, LAYOUT_LAST, false},
    {"2x4x65", "4", 4, 1e-5, DATA_PLAIN, LAYOUT_DENSE, false},
    {"2x67x151", "67", 67, 1e-5, DATA_PLAIN, LAYOUT_LAST, false}, /* more than one task */
    {"2x2053x5", "2053", 2053, 1e-5, DATA_PLAIN, LAYOUT_LAST, false}, /* more than GIVEN_RUN */
    {"2x67", "67", 67, 0.25, DATA_PLAIN, LAYOUT_DENSE, false}, /* few terms: nearest to the bound */
    {"3x37x1", "37", 37, 1e-3, DATA_PLAIN, LAYOUT_LAST, false},
    {"41x6x2", "6", 6, 0.5, DATA_PLAIN, LAYOUT_DENSE, false},
    {"2x6x1031", "6", 3, 1e-5, DATA_PLAIN, LAYOUT_DENSE, true}, /* vectors cross channels */
    {"2x4x5000", "4", 2, 1e-5, DATA_PLAIN, LAYOUT_DENSE, false}, /* more than registers hold */
    {"2x6x16", "6", 2, 1e-5, DATA_PLAIN, LAYOUT_OFFSET, false},
};
enum { N_CHANNELS = COUNT(channels), CHANNEL_LAYOUTS = 6 };

/* Writes the shape of the saved statistics: channels, or N and groups. */
static void channel_saved(const struct case_builder *builder, const struct channels *c, char *text,
                          size_t size)
{
    if (case_is(builder, "batch_norm_grad")) snprintf(text, size, "%s", c->param);
    else snprintf(text, size, "%.*sx%d", (int)strcspn(c->x, "x"), c->x, (int)c->groups);
}

/* Parameters are inputs 1 to params, and the first two may be absent; a variance is positive. grad:
 * dy follows the first parameter. saved: statistics follow dy. */
static struct kernel_case *channel_case(const struct case_builder *builder,
                                        const struct channels *c, int which, int params, bool grad,
                                        bool saved)
{
    char shapes[200];
    struct kernel_case *made;
    size_t used = (size_t)snprintf(shapes, sizeof shapes, "%s", c->x);

    for (int i = 0; i < params; i++)
        used += (size_t)snprintf(shapes + used, sizeof shapes - used, "+%s",
                                 i > 1 || which >> i & 1 ? c->param : "-");
    if (grad) used += (size_t)snprintf(shapes + used, sizeof shapes - used, "+%s", c->x);
    if (saved) {
        char shape[40];
        channel_saved(builder, c, shape, sizeof shape);
        snprintf(shapes + used, sizeof shapes - used, "+%s+%s", shape, shape);
    }
    made = case_begin(builder, shapes);
    case_data(made, DATA_PLAIN);
    if (saved) case_saved(builder, made, 2);
    made->in[0].data = c->data;
    made->in[0].layout = c->layout;
    if (grad) made->in[2].layout = c->layout;
    if (grad && c->data == DATA_NONFINITE) made->in[2].data = c->data;
    if (params == 4) made->in[4].data = DATA_POSITIVE;
    made->quick = c->quick;
    return made;
}

/* set: sets the attributes of a case. wide: the parameters have dtype U. */
static void of_channels(const struct case_builder *builder, int params, bool wide, bool grad,
                        int outputs, uint32_t fixed,
                        void (*set)(struct kernel_case *made, const struct channels *c))
{
    static const char *const with[] = {"bare", "scale", "bias", "both"};
    static const struct channels small = {"3x4x2", "4", 2, 0.125, DATA_PLAIN, LAYOUT_DENSE, true},
                                 tiny = {"2x2x3", "2", 1, 0.125, DATA_PLAIN, LAYOUT_DENSE, true};
    int all = params > 1 ? 3 : 1;
    char variant[64];

    for (int i = 0; i <= N_CHANNELS + all; i++) {
        bool alone = i >= N_CHANNELS;
        const struct channels *c = alone ? params == 4 ? &tiny : &small : &channels[i];
        int which = alone ? i - N_CHANNELS : i % 4 ? all : i / 4 & all;
        struct kernel_case *made = channel_case(builder, c, which, params, grad, false);
        for (int k = 1; k <= params && wide; k++) made->in[k].dtype = builder->dtype[1];
        set(made, c);
        made->n_out = outputs;
        snprintf(variant, sizeof variant, "%s%s.%s", alone ? "which" : "groups",
                 c->layout == LAYOUT_LAST ? ".last" : "", with[which]);
        if (alone && builder->gradients) {
            made->gradient = 2;
            made->fixed_out = fixed;
            case_end(builder, made, "smooth.%s", with[which]);
            continue;
        }
        if (i == CHANNEL_LAYOUTS) case_layouts(builder, made, variant, !grad);
        else if (i % 5 || alone) case_end(builder, made, "%s", variant);
        else case_parts(builder, made, outputs, variant);
    }
}

/* Gradients with statistics that the forward saved. wide: scale has dtype U. */
static void saved_channels(const struct case_builder *builder, bool wide,
                           void (*set)(struct kernel_case *made, const struct channels *c))
{
    if (builder->gradients) return; /* the gradient of the gradient computes statistics of x */
    for (int i = 0; i < N_CHANNELS; i++) {
        const struct channels *c = &channels[i];
        struct kernel_case *made = channel_case(builder, c, i % 4 != 0, 1, true, true);
        if (wide) made->in[1].dtype = builder->dtype[1];
        set(made, c);
        if (i == CHANNEL_LAYOUTS) case_part_layouts(builder, made, 3, "saved.layouts");
        else case_parts(builder, made, 3, c->layout == LAYOUT_LAST ? "saved.last" : "saved");
    }
}

static void set_group(struct kernel_case *made, const struct channels *c)
{
    made->attrs.group_norm.groups = c->groups; /* group_norm_grad has this layout too */
    made->attrs.group_norm.epsilon = c->epsilon;
}

void cases_group_norm(struct case_builder *builder)
{
    if (norm_cases_fits(builder)) of_channels(builder, 2, false, false, 3, 6, set_group);
}

void cases_group_norm_grad(struct case_builder *builder)
{
    if (!norm_cases_fits(builder)) return;
    of_channels(builder, 1, false, true, 3, 0, set_group);
    saved_channels(builder, false, set_group);
}

static void set_epsilon(struct kernel_case *made, const struct channels *c)
{
    made->attrs.instance_norm.epsilon = c->epsilon; /* the first attribute of all others too */
}

/* The reference computes instance_norm as a group_norm. */
void cases_instance_norm(struct case_builder *builder)
{
    of_channels(builder, 2, false, false, 1, 0, set_epsilon);
}

void cases_batch_norm(struct case_builder *builder)
{
    if (norm_cases_fits(builder)) of_channels(builder, 4, true, false, 1, 0, set_epsilon);
}

static void set_train(struct kernel_case *made, const struct channels *c)
{
    made->attrs.batch_norm_train.epsilon = c->epsilon;
    made->attrs.batch_norm_train.momentum = c->quick ? 0.9 : 0.25;
    made->attrs.batch_norm_train.unbiased = c->groups > 1;
}

void cases_batch_norm_train(struct case_builder *builder)
{
    if (norm_cases_fits(builder)) of_channels(builder, 4, true, false, 5, 30, set_train);
}

void cases_batch_norm_grad(struct case_builder *builder)
{
    if (!norm_cases_fits(builder)) return;
    of_channels(builder, 1, true, true, 3, 0, set_epsilon);
    saved_channels(builder, true, set_epsilon);
}

void cases_lp_normalize(struct case_builder *builder)
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
            made = case_begin(builder, cases[i].shape);
            made->attrs.lp_normalize.p = orders[k];
            made->attrs.lp_normalize.axis = cases[i].axis;
            if (k == 1) case_data(made, DATA_APART);
            if (k != 2) case_smooth(made, 2);
            made->quick = i % 2;
            case_end(builder, made, "p%g.axis%d", orders[k], cases[i].axis & 7);
        }
    made = case_begin(builder, "5x7");
    case_data(made, DATA_ZERO);
    case_end(builder, made, "zeros");
    for (int k = 0; k < COUNT(orders); k++) { /* the second vector is 0, and epsilon is 0 */
        made = case_begin(builder, "3x4");
        made->attrs.lp_normalize.p = orders[k];
        made->attrs.lp_normalize.epsilon = 0;
        case_list(made, 0, COUNT(some), some);
        made->quick = true;
        case_end(builder, made, "zero.p%g", orders[k]);
    }
    made = case_begin(builder, "9x67");
    case_data(made, DATA_NONFINITE);
    case_end(builder, made, "nonfinite");
    made = case_begin(builder, "5x7");
    made->attrs.lp_normalize.epsilon = 3;
    case_end(builder, made, "epsilon3");
    case_layouts(builder, case_begin(builder, "5x6x7"), "layouts", false);
}

void cases_mean_variance_normalization(struct case_builder *builder)
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
            made = case_begin(builder, cases[i].shape);
            made->attrs.mean_variance_normalization.axes = case_dims(made, 0, cases[i].n,
                                                                     cases[i].axes);
            if (data) case_data(made, DATA_POSITIVE);
            case_smooth(made, data ? 0 : 2);
            made->quick = i % 2;
            case_end(builder, made, data ? "positive" : "plain");
        }
    made = case_begin(builder, "5x9");
    made->attrs.mean_variance_normalization.epsilon = 0.5;
    case_end(builder, made, "epsilon");
    made = case_begin(builder, "5x6x7");
    case_layouts(builder, made, "layouts", false);
}

void cases_lrn(struct case_builder *builder)
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
            made = case_begin(builder, shapes[i]);
            made->attrs.lrn.window = how[k].size;
            made->attrs.lrn.alpha = how[k].alpha;
            made->attrs.lrn.beta = how[k].beta;
            made->attrs.lrn.bias = how[k].bias;
            case_smooth(made, k > 1 && k < 4 ? 2 : 0);
            made->quick = i % 2;
            case_end(builder, made, "size%d", (int)how[k].size);
        }
    made = case_begin(builder, "1x67x3");
    case_data(made, DATA_NONFINITE);
    case_end(builder, made, "nonfinite");
    case_layouts(builder, case_begin(builder, "3x6x7"), "layouts", false);
    case_layouts(builder, case_begin(builder, "2x5x3x4"), "image", false);
}
