/* SPDX-License-Identifier: Apache-2.0 */
/* runtime_program_random.c: tests programs of random graphs: each run has the bytes that a run of
 * the graph node by node has. */
#include "graph_work.h"
#include "suites.h"

#include <backplane/backplane.h>
#include <stdlib.h>
#include <string.h>

enum {
    GRAPHS = 100,  /* of a case */
    GRAPHS_FEW = 25, /* of a device that may compile kernels for them: a second for two graphs */
    NODES = 48,    /* at most */
    VALUES = 3 + 3 * NODES,
    OUTPUTS = 4,
    RUNS = 3,      /* of each program */
    ROWS = 6,      /* of the inputs */
    COLUMNS = 8,
    ELEMENTS = 512 /* of a value, at most */
};

/* A random graph: values of two axes, of which the first three are two inputs and a constant. */
struct random_graph {
    struct graph g;
    uint64_t state;
    struct bp_tensor *value[VALUES], *in[2], *weight;
    int64_t shape[VALUES][2];
    bool of_weight[VALUES]; /* it may lie in the constant's memory */
    uint32_t n_value, n_output, output[OUTPUTS];
    uint32_t compiled; /* graphs whose last run was a compiled one */
    bool has[7]; /* of the operators in `rows`: the device has a row for f32 */
};
static const char *const rows[7] = {"mul", "relu", "softmax", "concat", "sum", "sgd",
                                   "assign"};

/* Numbers by the linear congruential generator of Knuth's MMIX, of which the upper bits are
 * used. */
static uint32_t random_below(struct random_graph *r, uint32_t n)
{
    r->state = r->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(r->state >> 33) % n;
}

static bool random_tensor(struct random_graph *r, struct bp_tensor **out)
{
    const int64_t shape[2] = {ROWS, COLUMNS};

    return check_ok(r->g.w.c, bp_tensor_create(r->g.w.device, BP_F32, 2, shape, out),
                    "bp_tensor_create");
}

/* Writes the same numbers in each call with the same seed. */
static bool random_write(struct random_graph *r, struct bp_tensor *t, uint32_t seed)
{
    float v[ROWS * COLUMNS];

    for (uint32_t i = 0; i < ROWS * COLUMNS; i++)
        v[i] = (float)((i * 37 + seed * 101) % 64) / 16 - 2;
    return check_ok(r->g.w.c, bp_tensor_write(r->g.w.stream[0], t, v, sizeof v),
                    "bp_tensor_write");
}

/* Adds *t, a result of the call, to the values. */
static bool value_add(struct random_graph *r, enum bp_status status, const char *call,
                      struct bp_tensor *const *t)
{
    struct bp_tensor_info info = {.size = sizeof info};

    if (!check_ok(r->g.w.c, status, call) ||
        !check_ok(r->g.w.c, bp_tensor_get_info(*t, &info), "bp_tensor_get_info"))
        return false;
    r->value[r->n_value] = *t;
    r->of_weight[r->n_value] = false;
    memcpy(r->shape[r->n_value++], info.shape, 2 * sizeof *info.shape);
    return true;
}

/* Returns a value with the shape of value i; value i itself if no other one is drawn. */
static uint32_t value_like(struct random_graph *r, uint32_t i)
{
    for (int tries = 0; tries < 8; tries++) {
        uint32_t k = random_below(r, r->n_value);
        if (!memcmp(r->shape[k], r->shape[i], sizeof r->shape[i])) return k;
    }
    return i;
}

static bool record_binary(struct random_graph *r, struct bp_scope *scope, uint32_t i)
{
    struct bp_tensor *a = r->value[i], *b = r->value[value_like(r, i)], *t = NULL;

    return r->has[0] && random_below(r, 2) ? value_add(r, bp_op_mul(scope, a, b, &t), "mul", &t)
                                           : value_add(r, bp_op_add(scope, a, b, &t), "add", &t);
}

static bool view_add(struct random_graph *r, enum bp_status status, const char *call,
                     struct bp_tensor *const *t, uint32_t of)
{
    if (!value_add(r, status, call, t)) return false;
    r->of_weight[r->n_value - 1] = r->of_weight[of];
    return true;
}

static bool record_view(struct random_graph *r, struct bp_scope *scope, uint32_t i)
{
    struct bp_tensor *a = r->value[i], *t = NULL;
    const int64_t *shape = r->shape[i], swapped[2] = {shape[1], shape[0]};
    const int64_t zero = 0, one = 1, end = shape[0], step = 1 + random_below(r, 2);
    struct bp_reshape_attrs reshape = {.size = sizeof reshape, .shape = {swapped, 2}};
    struct bp_slice_attrs slice = {.size = sizeof slice, .starts = {shape[0] > 1 ? &one : &zero, 1},
                                   .ends = {&end, 1}, .axes = {&zero, 1}, .steps = {&step, 1}};

    switch (random_below(r, 3)) {
    case 0: return view_add(r, bp_op_transpose(scope, a, NULL, &t), "transpose", &t, i);
    case 1: return view_add(r, bp_op_reshape(scope, a, NULL, &reshape, &t), "reshape", &t, i);
    default:
        return view_add(r, bp_op_slice(scope, a, NULL, NULL, NULL, NULL, &slice, &t), "slice", &t,
                        i);
    }
}

static bool record_other(struct random_graph *r, struct bp_scope *scope, uint32_t i)
{
    const int64_t axis = 1;
    struct bp_tensor *t = NULL, *pair[2] = {r->value[i], r->value[value_like(r, i)]};
    struct bp_sum_attrs sum = {.size = sizeof sum, .axes = {&axis, 1}, .keep = 1};
    uint32_t which = 1 + random_below(r, 4);

    if (which == 3 && 2 * r->shape[i][0] * r->shape[i][1] > ELEMENTS) which = 1;
    if (!r->has[which]) return record_binary(r, scope, i);
    switch (which) {
    case 1: return value_add(r, bp_op_relu(scope, pair[0], &t), "relu", &t);
    case 2: return value_add(r, bp_op_softmax(scope, pair[0], NULL, &t), "softmax", &t);
    case 3: return value_add(r, bp_op_concat(scope, pair, 2, NULL, &t), "concat", &t);
    default: return value_add(r, bp_op_sum(scope, pair[0], &sum, &t), "sum", &t);
    }
}

/* Updates the constant; later nodes read the new contents. */
static bool record_update(struct random_graph *r, struct bp_scope *scope)
{
    struct bp_tensor *t = NULL;
    uint32_t gradient = value_like(r, 0);

    if (r->of_weight[gradient]) gradient = 0;
    return view_add(r, bp_op_sgd(scope, r->weight, r->value[gradient], r->g.y, &t), "sgd", &t, 2);
}

static bool record_node(struct random_graph *r, struct bp_scope *scope)
{
    uint32_t i = random_below(r, r->n_value), kind = random_below(r, 12);

    if (kind < 4 || (kind < 7 && !r->has[6])) return record_binary(r, scope, i);
    if (kind < 7) return record_view(r, scope, i);
    if (kind == 7 && r->has[5]) return record_update(r, scope);
    return record_other(r, scope, i);
}

/* Adds the sum of the last value to *total, a value of one element (0: there is none yet), so that
 * the value is read soon and its memory is reused. */
static bool record_total(struct random_graph *r, struct bp_scope *scope, uint32_t *total)
{
    const int64_t axes[2] = {0, 1};
    struct bp_sum_attrs sum = {.size = sizeof sum, .axes = {axes, 2}, .keep = 1};
    struct bp_tensor *t = NULL, *both = NULL;
    bool good = value_add(r, bp_op_sum(scope, r->value[r->n_value - 1], &sum, &t), "sum", &t);

    if (good && *total)
        good = value_add(r, bp_op_add(scope, r->value[*total], t, &both), "add", &both);
    *total = r->n_value - 1;
    return good;
}

static bool random_record(struct random_graph *r)
{
    const int64_t shape[2] = {ROWS, COLUMNS};
    struct bp_scope *scope = bp_graph_scope(r->g.graph);
    uint32_t nodes = 3 + random_below(r, NODES - 3), total = 0;
    bool good = true;

    for (int i = 0; good && i < 2; i++) {
        struct bp_tensor *t = NULL;
        good = value_add(r, bp_graph_input(r->g.graph, NULL, BP_F32, 2, shape, &t), "input", &t);
    }
    r->value[2] = r->weight;
    r->of_weight[2] = true;
    memcpy(r->shape[2], shape, sizeof shape);
    r->n_value = 3;
    for (uint32_t n = 0; good && n < nodes; n++) {
        good = record_node(r, scope);
        if (good && r->has[4] && random_below(r, 2)) good = record_total(r, scope, &total);
    }
    r->n_output = 1 + random_below(r, OUTPUTS);
    for (uint32_t o = 0; good && o < r->n_output; o++) {
        uint32_t v = o ? random_below(r, r->n_value) : total ? total : r->n_value - 1;
        if (v == 2) v = 0; /* a constant is no value of the graph until a call reads it */
        r->output[o] = v;
        good = check_ok(r->g.w.c, bp_graph_output(r->g.graph, r->value[v], NULL), "output");
    }
    return good;
}

/* The elements of the outputs of one run. */
struct random_outputs {
    struct bp_tensor *out[OUTPUTS];
    float v[OUTPUTS][ELEMENTS];
    uint64_t bytes[OUTPUTS];
};

static bool outputs_read(struct random_graph *r, struct random_outputs *o)
{
    bool good = true;

    for (uint32_t i = 0; i < r->n_output; i++) {
        struct bp_tensor_info info = {.size = sizeof info};
        good = good && check_ok(r->g.w.c, bp_tensor_get_info(o->out[i], &info), "info") &&
               check_ok(r->g.w.c,
                        bp_tensor_read(r->g.w.stream[0], o->out[i], o->v[i], info.bytes), "read");
        o->bytes[i] = info.bytes;
    }
    for (uint32_t i = 0; i < r->n_output; i++) {
        bp_tensor_destroy(o->out[i]);
        o->out[i] = NULL;
    }
    return good;
}

/* Preallocates the first output of an input's shape, in the memory of that input. */
static bool outputs_give(struct random_graph *r, struct random_outputs *o)
{
    const int64_t shape[2] = {ROWS, COLUMNS}, stride[2] = {COLUMNS, 1};

    for (uint32_t i = 0; i < r->n_output; i++)
        if (!memcmp(r->shape[r->output[i]], shape, sizeof shape))
            return check_ok(r->g.w.c, bp_tensor_view(r->in[0], 0, 2, shape, stride, &o->out[i]),
                            "bp_tensor_view");
    return true;
}

/* Runs the graph, or the program, on the numbers of a seed. give: an output is an input. */
static bool random_run(struct random_graph *r, struct bp_program *program, uint32_t seed,
                       bool give, struct random_outputs *o)
{
    struct bp_stream *stream = r->g.w.stream[0];

    memset(o, 0, sizeof *o);
    if (give && !outputs_give(r, o)) return false;
    if (!random_write(r, r->in[0], seed) || !random_write(r, r->in[1], seed + 1) ||
        !random_write(r, r->weight, 5))
        return false;
    return check_ok(r->g.w.c,
                    program ? bp_program_run(program, stream, r->in, 2, o->out, r->n_output)
                            : bp_graph_run(r->g.graph, stream, r->in, 2, o->out, r->n_output),
                    program ? "bp_program_run" : "bp_graph_run") &&
           outputs_read(r, o);
}

static bool random_compare(struct random_graph *r, uint32_t number)
{
    struct random_outputs *expected = malloc(2 * sizeof *expected), *got = expected + 1;
    struct bp_program_info info = {.size = sizeof info};
    struct bp_program *program = NULL;
    bool good;

    if (!expected) abort();
    good = check_ok(r->g.w.c, bp_program_create(r->g.graph, r->g.w.device, &program),
                    "bp_program_create");
    for (uint32_t k = 0; good && k < RUNS; k++) {
        good = random_run(r, NULL, number + k, k == 1, expected) &&
               random_run(r, program, number + k, k == 1, got);
        for (uint32_t i = 0; good && i < r->n_output; i++)
            good = check_that(r->g.w.c,
                              expected->bytes[i] == got->bytes[i] &&
                                  !memcmp(expected->v[i], got->v[i], expected->bytes[i]),
                              "graph %u of %u nodes, run %u: output %u differs from that of a run "
                              "node by node",
                              (unsigned)number, (unsigned)(r->n_value - 3), (unsigned)k,
                              (unsigned)i);
    }
    r->compiled += program && !bp_program_get_info(program, &info) && info.compiled;
    bp_program_destroy(program);
    free(expected);
    return good;
}

/* Makes, runs and destroys one graph. */
static bool random_graph_run(struct random_graph *r, uint32_t number)
{
    bool good = check_ok(r->g.w.c, bp_graph_create(r->g.w.c->fixture->core, &r->g.graph),
                         "bp_graph_create");

    r->n_value = 0;
    good = good && random_record(r) && random_compare(r, number);
    for (uint32_t v = 0; v < r->n_value; v++)
        if (v != 2) bp_tensor_destroy(r->value[v]);
    bp_graph_destroy(r->g.graph);
    r->g.graph = NULL;
    return good;
}

static void program_random(struct check *c, const int64_t *arg)
{
    bool on_host = c->fixture->properties.flags & BP_DEVICE_INLINE,
         is_inline = on_host && arg[0] == BP_STREAM_INLINE;
    uint32_t graphs = on_host ? GRAPHS : GRAPHS_FEW;
    struct random_graph *r = calloc(1, sizeof *r);
    float rate = 0.25f;
    bool good;

    if (!r) abort();
    r->state = c->fixture->seed;
    good = graph_begin(&r->g, c, arg);
    bp_graph_destroy(r->g.graph);
    r->g.graph = NULL;
    bp_tensor_destroy(r->g.y); /* becomes the rate of updates, an f32 without axes */
    r->g.y = NULL;
    for (int i = 0; good && i < 7; i++) r->has[i] = kernel_has_row(r->g.w.device, rows[i], BP_F32);
    good = good && random_tensor(r, &r->in[0]) && random_tensor(r, &r->in[1]) &&
           random_tensor(r, &r->weight) &&
           check_ok(c, bp_tensor_create(r->g.w.device, BP_F32, 0, NULL, &r->g.y), "create") &&
           check_ok(c, bp_tensor_write(r->g.w.stream[0], r->g.y, &rate, sizeof rate), "write");
    for (uint32_t number = 0; good && number < graphs; number++)
        good = random_graph_run(r, number);
    if (good && is_inline)
        check_that(c, 2 * r->compiled > GRAPHS, "%u of %d graphs were compiled",
                   (unsigned)r->compiled, GRAPHS);
    bp_tensor_destroy(r->in[0]);
    bp_tensor_destroy(r->in[1]);
    bp_tensor_destroy(r->weight);
    graph_finish(&r->g);
    free(r);
}

const struct check_kinds suite_runtime_program_random[] = {
    {"program/random", program_random, 1},
    {NULL, NULL, 0},
};
