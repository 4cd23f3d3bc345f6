/* SPDX-License-Identifier: Apache-2.0 */
/* graph_state.c: tests engines that update memory: after each run of a program that updates a
 * tensor, each way to read or write the tensor has the values of kernels. */
#include "engaged.h"
#include "suites.h"

#include <backplane/graph.h>
#include <backplane/ops.h>
#include <backplane/prepared.h>
#include <backplane/program.h>
#include <math.h>
#include <string.h>

enum {
    STATE_N = 12,
    STATE_RUNS = 3,
    STATE_ROUNDS = 3
};

/* The program y = x + p, p = p - y / 2. */
struct state {
    struct check *c;
    struct bp_stream *stream;
    struct bp_graph *graph;
    struct bp_program *program;
    struct bp_tensor *x, *p, *rate;
    struct bp_prepared *call; /* neg, of p */
    float want[STATE_N], input[STATE_N];
};

static const int64_t state_shape[2] = {3, 4};

static bool state_tensor(struct state *s, uint32_t rank, const float *data, struct bp_tensor **out)
{
    return check_ok(s->c, bp_tensor_create(s->c->fixture->device, BP_F32, rank, state_shape, out),
                    "bp_tensor_create") &&
           check_ok(s->c,
                    bp_tensor_write(s->stream, *out, data, (rank ? STATE_N : 1) * sizeof *data),
                    "bp_tensor_write");
}

static bool state_record(struct state *s)
{
    struct bp_scope *scope = bp_graph_scope(s->graph);
    struct bp_tensor *x = NULL, *y = NULL, *p = NULL;
    bool good =
        check_ok(s->c, bp_graph_input(s->graph, "x", BP_F32, 2, state_shape, &x),
                 "bp_graph_input") &&
        check_ok(s->c, bp_op_add(scope, x, s->p, &y), "add") &&
        check_ok(s->c, bp_op_sgd(scope, s->p, y, s->rate, &p), "sgd") &&
        check_ok(s->c, bp_graph_output(s->graph, y, "y"), "bp_graph_output");

    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    bp_tensor_destroy(p);
    return good;
}

static bool state_program(struct state *s, struct bp_program **out)
{
    enum bp_status status;

    if (!check_ok(s->c, bp_program_create(s->graph, s->c->fixture->device, out),
                  "bp_program_create"))
        return false;
    status = bp_program_compile(*out);
    if (status == BP_ERR_UNSUPPORTED || status == BP_ERR_NO_KERNEL) {
        check_unsupported(s->c, "%s", bp_error_message());
        return false;
    }
    return check_ok(s->c, status, "bp_program_compile");
}

static bool state_begin(struct state *s, struct check *c)
{
    const float rate = 0.5f;
    const struct bp_arg in = {&s->p, 1};
    const struct bp_call call = {.size = sizeof call, .op = "neg", .in = &in, .n_in = 1};

    *s = (struct state){.c = c, .stream = c->fixture->stream};
    for (int i = 0; i < STATE_N; i++) {
        s->want[i] = (float)(i % 5) - 2;
        s->input[i] = (float)(i % 7) / 4;
    }
    return state_tensor(s, 2, s->want, &s->p) && state_tensor(s, 2, s->input, &s->x) &&
           state_tensor(s, 0, &rate, &s->rate) &&
           check_ok(c, bp_graph_create(c->fixture->core, &s->graph), "bp_graph_create") &&
           state_record(s) && state_program(s, &s->program) &&
           check_ok(c, bp_prepared_create(c->fixture->device, &call, NULL, 0, &s->call),
                    "bp_prepared_create");
}

static void state_finish(struct state *s)
{
    if (s->call) bp_prepared_destroy(s->call);
    bp_program_destroy(s->program);
    bp_graph_destroy(s->graph);
    bp_tensor_destroy(s->x);
    bp_tensor_destroy(s->p);
    bp_tensor_destroy(s->rate);
}

static bool state_agrees(struct state *s, const float *got, const float *want, const char *what)
{
    for (int i = 0; i < STATE_N; i++)
        if (!check_that(s->c, fabsf(got[i] - want[i]) <= 1e-5f * (1 + fabsf(want[i])),
                        "%s: element %d is %g, expected %g", what, i, (double)got[i],
                        (double)want[i]))
            return false;
    return true;
}

static bool state_read(struct state *s, struct bp_tensor *t, float *to)
{
    return check_ok(s->c, bp_tensor_read(s->stream, t, to, STATE_N * sizeof *to),
                    "bp_tensor_read");
}

/* Runs a program, and checks its output. */
static bool state_run_program(struct state *s, struct bp_program *program)
{
    struct bp_tensor *y = NULL;
    float got[STATE_N], want[STATE_N];
    bool good;

    for (int i = 0; i < STATE_N; i++) {
        want[i] = s->input[i] + s->want[i];
        s->want[i] -= want[i] / 2;
    }
    good = check_ok(s->c, bp_program_run(program, s->stream, &s->x, 1, &y, 1), "bp_program_run") &&
           state_read(s, y, got) && state_agrees(s, got, want, "the output of a run");
    bp_tensor_destroy(y);
    return good;
}

static bool state_runs(struct state *s, int n)
{
    while (n-- > 0)
        if (!state_run_program(s, s->program)) return false;
    return true;
}

/* ---- readers ---- */

/* Reads -p, and drops the tensor. */
static bool state_read_negated(struct state *s, struct bp_tensor *y, float *to)
{
    bool good = state_read(s, y, to);

    for (int i = 0; i < STATE_N; i++) to[i] = -to[i];
    bp_tensor_destroy(y);
    return good;
}

static bool state_by_read(struct state *s, float *to)
{
    return state_read(s, s->p, to);
}

static bool state_by_call(struct state *s, float *to)
{
    struct bp_tensor *y = NULL;

    return check_ok(s->c, bp_op_neg(bp_stream_scope(s->stream), s->p, &y), "neg") &&
           state_read_negated(s, y, to);
}

static bool state_by_prepared(struct state *s, float *to)
{
    struct bp_tensor *y = NULL;

    return state_tensor(s, 2, s->input, &y) &&
           check_ok(s->c, bp_prepared_run(s->call, s->stream, &s->p, 1, &y, 1, NULL),
                    "bp_prepared_run") &&
           state_read_negated(s, y, to);
}

static bool state_by_copy(struct state *s, float *to)
{
    struct bp_tensor *y = NULL;
    bool good = state_tensor(s, 2, s->input, &y) &&
                check_ok(s->c, bp_tensor_copy(s->stream, y, s->p), "bp_tensor_copy") &&
                state_read(s, y, to);

    bp_tensor_destroy(y);
    return good;
}

static bool state_by_view(struct state *s, float *to)
{
    const int64_t flat = STATE_N;
    struct bp_tensor *y = NULL;
    bool good = check_ok(s->c, bp_tensor_reshape(s->p, 1, &flat, &y), "bp_tensor_reshape") &&
                state_read(s, y, to);

    bp_tensor_destroy(y);
    return good;
}

/* Another graph that has p as a constant. */
static bool state_by_graph(struct state *s, float *to)
{
    struct bp_tensor *y = NULL, *out = NULL;
    struct bp_program *program = NULL;
    struct bp_graph *graph = NULL;
    bool good =
        check_ok(s->c, bp_graph_create(s->c->fixture->core, &graph), "bp_graph_create") &&
        check_ok(s->c, bp_op_neg(bp_graph_scope(graph), s->p, &y), "neg") &&
        check_ok(s->c, bp_graph_output(graph, y, "y"), "bp_graph_output") &&
        check_ok(s->c, bp_program_create(graph, s->c->fixture->device, &program),
                 "bp_program_create") &&
        check_ok(s->c, bp_program_run(program, s->stream, NULL, 0, &out, 1), "bp_program_run") &&
        state_read_negated(s, out, to);

    bp_tensor_destroy(y);
    bp_program_destroy(program);
    bp_graph_destroy(graph);
    return good;
}

/* The program is destroyed, and made again. */
static bool state_by_end(struct state *s, float *to)
{
    bp_program_destroy(s->program);
    s->program = NULL;
    return state_read(s, s->p, to) && state_program(s, &s->program);
}

/* Another program of the graph, whose run takes the values. */
static bool state_by_twin(struct state *s, float *to)
{
    struct bp_program *twin = NULL;
    bool good = state_program(s, &twin) && state_run_program(s, twin) &&
                state_run_program(s, s->program) && state_run_program(s, twin);

    bp_program_destroy(twin);
    return good && state_read(s, s->p, to);
}

/* ---- writers ---- */

static bool state_write(struct state *s)
{
    for (int i = 0; i < STATE_N; i++) s->want[i] = (float)(i % 3) / 2;
    return check_ok(s->c, bp_tensor_write(s->stream, s->p, s->want, sizeof s->want),
                    "bp_tensor_write");
}

static bool state_write_part(struct state *s)
{
    struct bp_tensor *row = NULL;
    bool good;

    for (int i = 4; i < 8; i++) s->want[i] = (float)i;
    good = check_ok(s->c, bp_tensor_slice(s->p, 0, 1, 2, 1, &row), "bp_tensor_slice") &&
           check_ok(s->c, bp_tensor_write(s->stream, row, s->want + 4, 4 * sizeof *s->want),
                    "bp_tensor_write");
    bp_tensor_destroy(row);
    return good;
}

static bool state_write_update(struct state *s)
{
    struct bp_tensor *y = NULL;
    bool good = check_ok(s->c,
                         bp_op_sgd(bp_stream_scope(s->stream), s->p, s->x, s->rate, &y), "sgd");

    for (int i = 0; i < STATE_N; i++) s->want[i] -= s->input[i] / 2;
    bp_tensor_destroy(y);
    return good;
}

static const struct {
    const char *name;
    bool (*read)(struct state *s, float *to);
    bool (*write)(struct state *s);
} state_cases[] = {
    {"read", state_by_read, NULL},        {"call", state_by_call, NULL},
    {"prepared", state_by_prepared, NULL}, {"copy", state_by_copy, NULL},
    {"view", state_by_view, NULL},        {"program", state_by_graph, NULL},
    {"destroyed", state_by_end, NULL},    {"twin", state_by_twin, NULL},
    {"write", NULL, state_write},         {"part", NULL, state_write_part},
    {"update", NULL, state_write_update},
};

const char *engine_state_name(uint32_t number)
{
    return number < sizeof state_cases / sizeof *state_cases ? state_cases[number].name : NULL;
}

/* graph/state/NAME: between runs of a program that updates a tensor, the tensor is read, or
 * written. */
void engine_state(struct check *c, const int64_t *arg)
{
    float got[STATE_N];
    struct state s;
    bool good = state_begin(&s, c);

    for (int round = 0; good && round < STATE_ROUNDS; round++) {
        good = state_runs(&s, STATE_RUNS);
        if (good && state_cases[arg[0]].read)
            good = state_cases[arg[0]].read(&s, got) &&
                   state_agrees(&s, got, s.want, "the updated tensor");
        else if (good)
            good = state_cases[arg[0]].write(&s) && state_runs(&s, 1 + round);
    }
    if (good && state_read(&s, s.p, got)) state_agrees(&s, got, s.want, "the tensor at last");
    state_finish(&s);
}
