/* SPDX-License-Identifier: Apache-2.0 */
/* engine_cost.c: measures what the core does for engines, by an engine whose runs do nothing
 * (../plugins/engined): a node of a program, an eager call, and the claim of a large graph. By
 * hand: see docs/results/engines.md. */
#include <backplane/backplane.h>
#include <backplane/ops.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    NODES = 2000,
    ROUNDS = 31,
    CALLS = 1000
};

static void cost_check(enum bp_status status, const char *what)
{
    if (status == BP_OK) return;
    fprintf(stderr, "%s: %s\n", what, bp_error_message());
    exit(1);
}
#define MUST(call) cost_check((call), #call)

/* Processor time, which other programs disturb less than time. */
static double cost_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int cost_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Prints the median of ROUNDS times, and the quartiles. */
static void cost_print(const char *what, double *ns, double divisor, const char *unit)
{
    qsort(ns, ROUNDS, sizeof *ns, cost_compare);
    printf("%-44s %9.3f %s (quartiles %.3f to %.3f)\n", what, ns[ROUNDS / 2] / divisor, unit,
           ns[ROUNDS / 4] / divisor, ns[3 * ROUNDS / 4] / divisor);
}

struct cost {
    struct bp_core *core;
    struct bp_device *device;
    struct bp_stream *stream;
    struct bp_tensor *x;
};

static struct cost cost_open(const char *device, const char *words)
{
    struct cost c;
    int64_t n = 16;

    setenv("BP_ENGINED", words, 1);
    MUST(bp_core_create(NULL, &c.core));
    MUST(bp_device_create(c.core, device, &c.device));
    MUST(bp_stream_create(c.device, &c.stream));
    MUST(bp_tensor_create(c.device, BP_F32, 1, &n, &c.x));
    MUST(bp_tensor_write(c.stream, c.x, (float[16]){0}, 64));
    return c;
}

static void cost_close(struct cost *c)
{
    bp_tensor_destroy(c->x);
    bp_stream_destroy(c->stream);
    bp_device_destroy(c->device);
    bp_core_destroy(c->core);
}

/* A chain of nodes as a program, which is not compiled yet. */
static struct bp_program *cost_chain(const struct cost *c, int nodes, struct bp_graph **out_graph)
{
    struct bp_tensor *t, *next;
    struct bp_program *program;
    int64_t n = 16;

    MUST(bp_graph_create(c->core, out_graph));
    MUST(bp_graph_input(*out_graph, "x", BP_F32, 1, &n, &t));
    for (int i = 0; i < nodes; i++) {
        next = NULL;
        MUST((i % 2 ? bp_op_tanh : bp_op_relu)(bp_graph_scope(*out_graph), t, &next));
        bp_tensor_destroy(t);
        t = next;
    }
    MUST(bp_graph_output(*out_graph, t, NULL));
    bp_tensor_destroy(t);
    MUST(bp_program_create(*out_graph, c->device, &program));
    return program;
}

/* Runs a program often. Each node is a group of its own. */
static double run_time(const struct cost *c, struct bp_program *program)
{
    double start = cost_now();

    for (int i = 0; i < 10; i++) {
        struct bp_tensor *out = NULL;
        MUST(bp_program_run(program, c->stream, &c->x, 1, &out, 1));
        MUST(bp_stream_synchronize(c->stream));
        bp_tensor_destroy(out);
    }
    return (cost_now() - start) / 10;
}

static void cost_of_nodes(const char *device, const char *words, const char *what)
{
    struct cost c = cost_open(device, words);
    struct bp_graph *graph[2];
    struct bp_program *program[2] = {cost_chain(&c, 1, &graph[0]), cost_chain(&c, 201, &graph[1])};
    struct bp_launch_info launch = {.size = sizeof launch};
    double ns[ROUNDS];

    MUST(bp_program_compile(program[1]));
    MUST(bp_program_launch(program[1], 200, &launch));
    if (strcmp(launch.op, "engine") != 0 || launch.sources != 1) exit(2);
    for (int r = 0; r < ROUNDS; r++) {
        double one = run_time(&c, program[0]), many = run_time(&c, program[1]);
        ns[r] = (many - one) / 200;
    }
    cost_print(what, ns, 1, "ns");
    for (int i = 0; i < 2; i++) {
        bp_program_destroy(program[i]);
        bp_graph_destroy(graph[i]);
    }
    cost_close(&c);
}

static void cost_of_calls(void)
{
    struct cost c = cost_open("graphonly:0", "run=none");
    double ns[ROUNDS];

    for (int r = 0; r < ROUNDS; r++) {
        double start = cost_now();
        for (int i = 0; i < CALLS; i++) {
            struct bp_tensor *y = NULL;
            MUST(bp_op_relu(bp_stream_scope(c.stream), c.x, &y));
            bp_tensor_destroy(y);
        }
        ns[r] = (cost_now() - start) / CALLS;
    }
    cost_print("eager call, graphonly:0", ns, 1, "ns");
    cost_close(&c);
}

/* Sets BP_PASSES to leave out all passes but that of engines, and this one too unless `with`. */
static void passes_set(const struct cost *c, int with)
{
    struct bp_pass_info info = {.size = sizeof info};
    char text[2000] = "";

    for (uint32_t i = 0; !bp_device_pass(c->device, i, &info); i++)
        if (!with || strcmp(info.name, "engine") != 0)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s-%s", *text ? "," : "",
                     info.name);
    setenv("BP_PASSES", text, 1);
}

/* The time of a compilation of many nodes with the pass and without, by turns: the engine claims
 * all nodes without a look at them, as one group, and fails to compile it at once. */
static void cost_of_claims(void)
{
    struct cost c = cost_open("cpu:0", "claim=greedy compile=fails");
    double ns[ROUNDS];

    for (int r = 0; r < ROUNDS; r++) {
        double time[2];
        for (int with = 0; with < 2; with++) {
            struct bp_graph *graph;
            struct bp_program *program = cost_chain(&c, NODES, &graph);
            double start;
            passes_set(&c, with);
            start = cost_now();
            MUST(bp_program_compile(program));
            time[with] = cost_now() - start;
            bp_program_destroy(program);
            bp_graph_destroy(graph);
        }
        ns[r] = time[1] - time[0];
    }
    unsetenv("BP_PASSES");
    cost_print("claim and partition of 2,000 nodes", ns, 1e6, "ms");
    cost_close(&c);
}

/* engine_cost cpu | sim | graphonly: which device BP_PLUGIN_PATH has. */
int main(int argc, char **argv)
{
    const char *device = argc > 1 ? argv[1] : "cpu";

    if (!strcmp(device, "graphonly")) {
        cost_of_calls();
        return 0;
    }
    setenv("BP_LOG", "error", 1);
    cost_of_nodes(!strcmp(device, "sim") ? "sim:0" : "cpu:0", "claim=each run=none",
                  "node of a program");
    cost_of_nodes(!strcmp(device, "sim") ? "sim:0" : "cpu:0", "claim=each run=none contexts",
                  "node of a program, with contexts");
    if (!strcmp(device, "cpu")) cost_of_claims();
    return 0;
}
