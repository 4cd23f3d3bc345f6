/* SPDX-License-Identifier: Apache-2.0 */
/* cases.c: builds cases of recurrent cells, layers and nets (lstm, gru, rnn). */
#include "../common/cases.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

cases_fn cases_recurrent_cell, cases_recurrent_layer, cases_recurrent_net;

static const struct {
    int steps, batch, inputs, units;
    bool quick;
} sizes[] = {
    {1, 1, 1, 1, true},   {3, 2, 4, 3, true},    {2, 0, 3, 2, false}, {2, 3, 5, 4, false},
    {5, 1, 3, 2, true},   {4, 3, 2, 5, false},   {1, 5, 7, 3, false}, {6, 4, 1, 1, false},
    {13, 2, 3, 2, false}, {3, 7, 17, 16, false}, {2, 2, 3, 2, true},  {3, 2, 3, 15, false},
    {1, 1031, 1, 1, false}, {2, 257, 1, 1, false},
};
enum {
    LONG_STEPS = 300
}; /* more steps than one split has outputs */

/* Bits of a case: optional inputs that are present, and attributes. */
enum way {
    BIAS = 1,
    RECURRENT_BIAS = 2,
    STATES = 4,
    LENGTHS = 8,
    REVERSE = 16,
    BATCH_FIRST = 32,
    GATES = 64, /* the second order of gates; for an rnn: relu */
    RESET_BEFORE = 128,
    PEEPHOLE = 256
};
static const int ways[] = {
    0,
    BIAS | RECURRENT_BIAS | STATES,
    LENGTHS | STATES,
    BIAS | REVERSE | GATES,
    BIAS | RECURRENT_BIAS | LENGTHS | REVERSE | STATES | RESET_BEFORE | PEEPHOLE,
    RECURRENT_BIAS | BATCH_FIRST | RESET_BEFORE | GATES,
    BIAS | BATCH_FIRST | LENGTHS | REVERSE | GATES | PEEPHOLE | STATES,
};

static bool is_lstm(const struct case_builder *builder)
{
    return !strncmp(builder->op->name, "lstm", 4);
}
static bool is_gru(const struct case_builder *builder)
{
    return !strncmp(builder->op->name, "gru", 3);
}

static int recurrent_cases_blocks(const struct case_builder *builder)
{
    return is_lstm(builder) ? 4 : is_gru(builder) ? 3 : 1;
}

/* Adds the shape of one input to text, as "+AxB" or "+-". n: number of extents. */
static void recurrent_cases_input(char *text, bool present, int n, int a, int b, int c)
{
    size_t used = strlen(text);
    char *at = text + used;
    const char *join = used ? "+" : "";

    if (!present) snprintf(at, 256 - used, "%s-", join);
    else if (n == 1) snprintf(at, 256 - used, "%s%d", join, a);
    else if (n == 2) snprintf(at, 256 - used, "%s%dx%d", join, a, b);
    else snprintf(at, 256 - used, "%s%dx%dx%d", join, a, b, c);
}

/* Weights are in [-1, 1), so that gates are rarely closed. */
static struct kernel_case *recurrent_cases_begin(const struct case_builder *builder,
                                                 const char *shapes, int outputs)
{
    struct kernel_case *made = case_begin(builder, shapes);

    case_data(made, DATA_UNIT);
    made->n_out = outputs;
    return made;
}

static void recurrent_cases_end(const struct case_builder *builder, struct kernel_case *made,
                                const char *variant)
{
    if (builder->gradients || made->n_out == 1) case_end(builder, made, "%s", variant);
    else case_parts(builder, made, made->n_out, variant);
}

/* Weights of states. The sum of their magnitudes multiplies the error of a state in each step: with
 * larger weights the error that is allowed grows with the steps, until any result is right. */
static const double recurrent_weights[] = {0.03,  -0.02, 0.011, -0.007, 0.019, -0.013,
                                           0.005, -0.03, 0.017, 0.002,  -0.023};

/* Adds a case of a size that models have (40 inputs, 64 units), and a copy of it in which the
 * weights, inputs from `from` on, are frozen. Input `from` + 1 has the weights of states. */
static void recurrent_cases_real(const struct case_builder *builder, struct kernel_case *made,
                                 int from, const char *variant)
{
    struct kernel_case *frozen;
    char text[48];

    if (builder->gradients) {
        free(made);
        return;
    }
    made->real = true;
    case_list(made, from + 1, COUNT(recurrent_weights), recurrent_weights);
    frozen = case_copy(made);
    for (int i = from; i < frozen->n_in; i++)
        frozen->in[i].frozen = frozen->in[i].present && frozen->in[i].dtype == builder->dtype[0];
    recurrent_cases_end(builder, made, variant);
    snprintf(text, sizeof text, "%s.frozen", variant);
    recurrent_cases_end(builder, frozen, text);
}

static struct kernel_case *recurrent_cases_cell(const struct case_builder *builder, int batch,
                                                int inputs, int units, int way)
{
    struct kernel_case *made;
    char text[256] = "";
    int rows = recurrent_cases_blocks(builder) * units;

    recurrent_cases_input(text, true, 2, batch, inputs, 0);
    recurrent_cases_input(text, true, 2, batch, units, 0);
    if (is_lstm(builder)) recurrent_cases_input(text, true, 2, batch, units, 0);
    recurrent_cases_input(text, true, 2, rows, inputs, 0);
    recurrent_cases_input(text, true, 2, rows, units, 0);
    recurrent_cases_input(text, way & BIAS, 1, rows, 0, 0);
    recurrent_cases_input(text, way & RECURRENT_BIAS, 1, rows, 0, 0);
    if (is_lstm(builder)) recurrent_cases_input(text, way & PEEPHOLE, 1, 3 * units, 0, 0);
    made = recurrent_cases_begin(builder, text, is_lstm(builder) ? 2 : 1);
    if (is_lstm(builder)) made->attrs.lstm_cell.gates = !!(way & GATES);
    else if (is_gru(builder)) made->attrs.gru_cell.gates = !!(way & GATES);
    else made->attrs.rnn_cell.activation = !!(way & GATES);
    if (is_gru(builder)) made->attrs.gru_cell.reset_after = !(way & RESET_BEFORE);
    return made;
}

void cases_recurrent_cell(struct case_builder *builder)
{
    struct kernel_case *made;
    char variant[32];

    for (int i = 0; i < COUNT(sizes) && !builder->gradients; i++)
        for (int w = i % 2; w < COUNT(ways); w += 2) {
            made = recurrent_cases_cell(builder, sizes[i].batch, sizes[i].inputs, sizes[i].units,
                                        ways[w]);
            made->quick = sizes[i].quick;
            snprintf(variant, sizeof variant, "way%d", w);
            recurrent_cases_end(builder, made, variant);
        }
    for (int w = 1; w < COUNT(ways) && builder->gradients; w++) {
        made = recurrent_cases_cell(builder, 2, 1, w % 2 ? 1 : is_lstm(builder) ? 1 : 2, ways[w]);
        case_smooth(made, 2);
        snprintf(variant, sizeof variant, "way%d", w);
        recurrent_cases_end(builder, made, variant);
    }
    if (builder->gradients) return;
    recurrent_cases_real(builder, recurrent_cases_cell(builder, 17, 40, 64, ways[1]),
                         is_lstm(builder) ? 3 : 2, "real");
    if (is_gru(builder)) /* only gru splits its weights: into views, of frozen weights too */
        recurrent_cases_real(builder,
                             recurrent_cases_cell(builder, 17, 40, 64, ways[1] | RESET_BEFORE), 2,
                             "real.reset");
    made = recurrent_cases_cell(builder, 3, 5, 4, ways[1]);
    made->in[0].data = DATA_NONFINITE;
    recurrent_cases_end(builder, made, "nonfinite");
    case_layouts(builder, recurrent_cases_cell(builder, 3, 5, 4, ways[1]), "layouts", false);
}

static struct kernel_case *recurrent_cases_layer(const struct case_builder *builder, int steps,
                                                 int batch, int inputs, int units, int way)
{
    bool lstm = is_lstm(builder), transposed = way & BATCH_FIRST;
    struct kernel_case *made;
    char text[256] = "";
    int rows = recurrent_cases_blocks(builder) * units, lengths = lstm ? 8 : 6;

    recurrent_cases_input(text, true, 3, transposed ? batch : steps, transposed ? steps : batch,
                          inputs);
    recurrent_cases_input(text, true, 2, rows, inputs, 0);
    recurrent_cases_input(text, true, 2, rows, units, 0);
    recurrent_cases_input(text, way & BIAS, 1, rows, 0, 0);
    recurrent_cases_input(text, way & RECURRENT_BIAS, 1, rows, 0, 0);
    recurrent_cases_input(text, way & STATES, 2, batch, units, 0);
    if (lstm) recurrent_cases_input(text, way & STATES, 2, batch, units, 0);
    if (lstm) recurrent_cases_input(text, way & PEEPHOLE, 1, 3 * units, 0, 0);
    recurrent_cases_input(text, way & LENGTHS, 1, batch, 0, 0);
    made = recurrent_cases_begin(builder, text, lstm ? 3 : 2);
    if (way & LENGTHS) case_index(made, lengths, builder->dtype[2], 0, steps + 1);
    made->attrs.rnn_layer.reverse = !!(way & REVERSE); /* the first attributes of all */
    made->attrs.rnn_layer.batch_first = transposed;
    made->attrs.rnn_layer.activation = !!(way & GATES);
    if (is_gru(builder)) made->attrs.gru_layer.reset_after = !(way & RESET_BEFORE);
    return made;
}

/* Adds layers of models that run step by step or over long sequences. `odd` has more steps than a
 * kernel may multiply by the weights of x at a time, and units that fill no vectors. */
static void recurrent_cases_models(const struct case_builder *builder)
{
    static const struct {
        const char *variant;
        int steps, batch, inputs, units, way;
    } models[] = {
        {"step", 1, 1, 128, 128, BIAS | RECURRENT_BIAS | STATES},
        {"step8", 1, 8, 128, 128, BIAS | RECURRENT_BIAS | STATES | RESET_BEFORE},
        {"steps", 100, 1, 16, 32, BIAS | RECURRENT_BIAS},
        {"odd", 100, 3, 7, 33, BIAS | RECURRENT_BIAS | LENGTHS | REVERSE | RESET_BEFORE},
    };

    if (builder->dtype[0] != BP_F32) return;
    for (int i = 0; i < COUNT(models); i++)
        recurrent_cases_real(builder,
                             recurrent_cases_layer(builder, models[i].steps, models[i].batch,
                                                   models[i].inputs, models[i].units,
                                                   models[i].way),
                             1, models[i].variant);
}

void cases_recurrent_layer(struct case_builder *builder)
{
    struct kernel_case *made;
    char variant[32];

    for (int i = 0; i < COUNT(sizes) && !builder->gradients; i++)
        for (int w = i % 3; w < COUNT(ways); w += 3) {
            if (builder->dtype[2] == BP_I32 && (!(ways[w] & LENGTHS) || i % 2)) continue;
            made = recurrent_cases_layer(builder, sizes[i].steps, sizes[i].batch, sizes[i].inputs,
                                         sizes[i].units, ways[w]);
            made->quick = sizes[i].quick;
            snprintf(variant, sizeof variant, "way%d", w);
            recurrent_cases_end(builder, made, variant);
        }
    for (int w = 1; w < COUNT(ways) && builder->gradients; w++) {
        made = recurrent_cases_layer(builder, 2, w % 2 ? 2 : 1, 1,
                                     w % 2 || is_lstm(builder) ? 1 : 2, ways[w]);
        case_smooth(made, 2);
        snprintf(variant, sizeof variant, "way%d", w);
        recurrent_cases_end(builder, made, variant);
    }
    if (builder->gradients || builder->dtype[2] == BP_I32) return;
    if (builder->dtype[0] == BP_F32)
        recurrent_cases_end(builder, recurrent_cases_layer(builder, LONG_STEPS, 1, 1, 2, BIAS),
                            "long");
    recurrent_cases_real(
        builder, recurrent_cases_layer(builder, 5, 9, 40, 64, BIAS | RECURRENT_BIAS), 1, "real");
    recurrent_cases_models(builder);
    made = recurrent_cases_layer(builder, 3, 4, 5, 3, ways[2]);
    made->in[0].data = DATA_NONFINITE;
    recurrent_cases_end(builder, made, "nonfinite");
    case_layouts(builder, recurrent_cases_layer(builder, 2, 3, 5, 4, ways[4]), "layouts", false);
}

/* Nets: number of layers, direction (2: both), and bits of enum way. */
static const struct {
    const char *variant;
    int layers, direction, way;
    bool quick;
} nets[] = {
    {"one", 1, 0, BIAS, true},
    {"reverse", 1, 1, STATES | LENGTHS, false},
    {"both", 1, 2, BIAS | LENGTHS | GATES, true},
    {"two", 2, 0, BIAS | STATES | RESET_BEFORE, true},
    {"two-both", 2, 2, STATES | BATCH_FIRST, true},
    {"three", 3, 1, LENGTHS | BATCH_FIRST | GATES | RESET_BEFORE, false},
};

static struct kernel_case *recurrent_cases_net(const struct case_builder *builder, int i, int steps,
                                               int batch, int inputs, int units)
{
    int directions = nets[i].direction == 2 ? 2 : 1, way = nets[i].way;
    int all = nets[i].layers * directions, rows = recurrent_cases_blocks(builder) * units;
    bool lstm = is_lstm(builder), transposed = way & BATCH_FIRST;
    struct kernel_case *made;
    char text[256] = "";

    recurrent_cases_input(text, true, 3, transposed ? batch : steps, transposed ? steps : batch,
                          inputs);
    recurrent_cases_input(text, way & STATES, 3, all, batch, units);
    if (lstm) recurrent_cases_input(text, way & STATES, 3, all, batch, units);
    recurrent_cases_input(text, way & LENGTHS, 1, batch, 0, 0);
    for (int k = 0; k < all; k++) {
        recurrent_cases_input(text, true, 2, rows, k < directions ? inputs : units * directions, 0);
        recurrent_cases_input(text, true, 2, rows, units, 0);
        if (way & BIAS) recurrent_cases_input(text, true, 1, rows, 0, 0);
        if (way & BIAS) recurrent_cases_input(text, true, 1, rows, 0, 0);
    }
    made = recurrent_cases_begin(builder, text, lstm ? 3 : 2);
    if (way & LENGTHS) case_index(made, lstm ? 3 : 2, builder->dtype[2], 0, steps + 1);
    made->attrs.rnn.layers = nets[i].layers; /* the first attributes of all */
    made->attrs.rnn.direction = nets[i].direction;
    made->attrs.rnn.biases = !!(way & BIAS);
    made->attrs.rnn.batch_first = transposed;
    made->attrs.rnn.activation = !!(way & GATES);
    if (is_gru(builder)) made->attrs.gru.reset_after = !(way & RESET_BEFORE);
    made->quick = nets[i].quick;
    return made;
}

void cases_recurrent_net(struct case_builder *builder)
{
    for (int i = 0; i < COUNT(nets); i++) {
        struct kernel_case *made;
        if (builder->gradients) {
            made = recurrent_cases_net(builder, i, 2, 1, 1, 1);
            case_smooth(made, 2);
            recurrent_cases_end(builder, made, nets[i].variant);
            continue;
        }
        for (int s = 1; s < COUNT(sizes); s += 2) {
            if (builder->dtype[2] == BP_I32 && (!(nets[i].way & LENGTHS) || s > 3)) continue;
            recurrent_cases_end(builder,
                                recurrent_cases_net(builder, i, sizes[s].steps, sizes[s].batch,
                                                    sizes[s].inputs, sizes[s].units),
                                nets[i].variant);
        }
    }
    if (!builder->gradients && builder->dtype[2] != BP_I32)
        recurrent_cases_real(builder, recurrent_cases_net(builder, 0, 5, 9, 40, 64),
                             is_lstm(builder) ? 4 : 3, "real");
    if (!builder->gradients && builder->dtype[2] != BP_I32)
        case_part_layouts(builder, recurrent_cases_net(builder, 3, 2, 3, 5, 4),
                          is_lstm(builder) ? 3 : 2, "layouts");
}
