/* SPDX-License-Identifier: Apache-2.0 */
/* build.c: records the graph of a recipe, and makes the tensors of its constants and inputs. */
#include "graphs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbers ---- */

static long double number_special(uint64_t random)
{
    switch (random % 24) {
    case 0: return NAN;
    case 1: return INFINITY;
    case 2: return -INFINITY;
    case 3: return -0.0L;
    case 4: return 0;
    default: return (long double)(random >> 40) / (1 << 22) - 2;
    }
}

static long double number_of(enum fuzz_data data, uint64_t random)
{
    long double unit = (long double)(random >> 40) / (1 << 24);

    switch (data) {
    case FUZZ_WEIGHT: return unit - 0.5L;
    case FUZZ_POSITIVE: return unit + 0.5L;
    case FUZZ_RATE: return unit;
    case FUZZ_SPECIAL: return number_special(random);
    default: return 4 * unit - 2;
    }
}

static void write_number(const struct fuzz_value *v, const struct num_type *type, char *at,
                         uint64_t random)
{
    if (type->class == NUM_FLOAT) num_set_float(type, at, number_of(v->data, random));
    else if (v->data == FUZZ_INDEX) num_set_int(type, at, (random >> 32) % (uint64_t)v->limit);
    else if (type->class == NUM_BOOL) num_set_int(type, at, random >> 63);
    else num_set_int(type, at, (uint64_t)((int64_t)((random >> 32) % 7) - 3));
}

bool fuzz_write(const struct fuzz_recipe *recipe, uint32_t value, uint32_t set,
                struct bp_stream *stream, struct bp_tensor *tensor)
{
    const struct fuzz_value *v = &recipe->value[value];
    const struct num_type *type = num_type(v->dtype);
    uint64_t state = fuzz_mix(recipe->seed * 1000003 + value * 131 + (v->frozen ? 0 : set)), n = 1;
    enum bp_status status;
    char *data;

    for (uint32_t i = 0; i < v->rank; i++) n *= (uint64_t)v->shape[i];
    data = calloc(n + 1, type->size);
    if (!data) abort();
    for (uint64_t i = 0; i < n; i++)
        write_number(v, type, data + i * type->size, fuzz_mix(state + i));
    status = bp_tensor_write(stream, tensor, data, n * type->size);
    free(data);
    return status == BP_OK;
}

/* ---- graphs ---- */

static bool build_failed(struct fuzz_report *report, const char *what)
{
    report->fault = FUZZ_RECORD;
    snprintf(report->message, sizeof report->message, "%s: %s", what, bp_error_message());
    return false;
}

enum bp_status fuzz_tensor(const struct fuzz_place *place, const struct fuzz_value *v, bool strided,
                           struct bp_tensor **out)
{
    int64_t stride[REF_RANK], step = 1;
    struct bp_tensor_options options = {
        .size = sizeof options, .dtype = v->dtype, .rank = v->rank, .shape = v->shape};

    for (uint32_t i = 0; i < v->rank; i++) { /* the first axis is the innermost */
        stride[i] = step;
        step *= v->shape[i] > 1 ? v->shape[i] : 1;
    }
    if (strided && v->rank > 1) options.stride = stride;
    return bp_tensor_create_with(place->device, &options, out);
}

static bool build_constant(const struct fuzz_place *place, struct fuzz_built *built, uint32_t v)
{
    const struct fuzz_value *value = &built->recipe->value[v];

    if (built->constant[v]) return true;
    if (value->base != FUZZ_ABSENT)
        return build_constant(place, built, value->base) &&
               bp_tensor_transpose(built->constant[value->base], NULL, &built->constant[v]) ==
                   BP_OK;
    if (fuzz_tensor(place, value, value->strided, &built->constant[v]) ||
        !fuzz_write(built->recipe, v, 0, place->stream[0], built->constant[v]))
        return false;
    return !value->frozen || bp_tensor_freeze(built->constant[v]) == BP_OK;
}

static bool build_values(const struct fuzz_place *place, struct fuzz_built *built,
                         struct bp_tensor **symbol)
{
    for (uint32_t v = 0; v < built->recipe->n_value; v++) {
        const struct fuzz_value *value = &built->recipe->value[v];
        if (value->kind == FUZZ_RESULT || (!value->readers && !value->is_output)) continue;
        if (value->kind == FUZZ_CONSTANT && value->readers) {
            if (!build_constant(place, built, v)) return false;
            symbol[v] = built->constant[v];
        } else {
            built->input[built->n_input++] = v;
            if (bp_graph_input(built->graph, NULL, (enum bp_dtype)value->dtype, value->rank,
                               value->shape, &symbol[v]))
                return false;
        }
    }
    return true;
}

/* Returns the number of a value of the graph: gives it a name and searches for that. */
static uint32_t build_find(struct bp_graph *graph, struct bp_tensor *tensor, uint32_t output)
{
    struct bp_graph_info info = {.size = sizeof info};
    char name[16];

    snprintf(name, sizeof name, "out%u", output);
    if (bp_graph_name(graph, tensor, name) || bp_graph_get_info(graph, &info)) return FUZZ_ABSENT;
    for (uint32_t v = 0; v < info.values; v++) {
        struct bp_value_info value = {.size = sizeof value};
        if (bp_graph_value(graph, v, &value) == BP_OK && !strcmp(value.name, name)) return v;
    }
    return FUZZ_ABSENT;
}

/* Whether a node can be recorded: all its inputs have been. */
static bool node_is_ready(const struct fuzz_node *node, struct bp_tensor *const *symbol)
{
    for (uint32_t i = 0; i < node->n_in; i++)
        if (node->in[i] != FUZZ_ABSENT && !symbol[node->in[i]]) return false;
    return true;
}

/* Records the nodes in a random order. */
static bool build_shuffled(struct fuzz_built *built, struct bp_tensor **symbol, uint64_t shuffle)
{
    const struct fuzz_recipe *r = built->recipe;
    bool done[FUZZ_NODES] = {false};
    uint32_t left = 0;

    for (uint32_t n = 0; n < r->n_node; n++) left += !r->node[n].dropped;
    while (left) {
        uint32_t n = (uint32_t)(fuzz_mix(shuffle++) >> 32) % r->n_node;
        if (r->node[n].dropped || done[n] || !node_is_ready(&r->node[n], symbol)) continue;
        if (fuzz_record(built->graph, &r->node[n], symbol)) return false;
        done[n] = true;
        left--;
    }
    return true;
}

static bool build_nodes(struct fuzz_built *built, struct bp_tensor **symbol, uint64_t shuffle)
{
    const struct fuzz_recipe *r = built->recipe;

    if (shuffle && !build_shuffled(built, symbol, shuffle)) return false;
    for (uint32_t n = 0; n < r->n_node && !shuffle; n++)
        if (!r->node[n].dropped && fuzz_record(built->graph, &r->node[n], symbol)) return false;
    for (uint32_t o = 0; o < r->n_output; o++) {
        struct bp_tensor *t = symbol[r->output[o]];
        if (bp_graph_output(built->graph, t, NULL)) return false;
        built->output[o] = build_find(built->graph, t, o);
        if (built->output[o] == FUZZ_ABSENT) return false;
    }
    built->n_output = r->n_output;
    return true;
}

bool fuzz_build(const struct fuzz_place *place, const struct fuzz_recipe *recipe, uint64_t shuffle,
                struct fuzz_built *built, struct fuzz_report *report)
{
    struct bp_tensor *symbol[FUZZ_VALUES] = {0};
    bool ok;

    memset(built, 0, sizeof *built);
    built->recipe = recipe;
    if (bp_graph_create(place->core, &built->graph)) return build_failed(report, "graph");
    ok = build_values(place, built, symbol) || build_failed(report, "values");
    ok = ok && (build_nodes(built, symbol, shuffle) || build_failed(report, "nodes"));
    for (uint32_t v = 0; v < recipe->n_value; v++)
        if (symbol[v] != built->constant[v]) bp_tensor_destroy(symbol[v]);
    return ok;
}

void fuzz_unbuild(struct fuzz_built *built)
{
    for (uint32_t v = 0; v < built->recipe->n_value; v++) bp_tensor_destroy(built->constant[v]);
    bp_graph_destroy(built->graph);
}
