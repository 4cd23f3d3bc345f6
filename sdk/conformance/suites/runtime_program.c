/* SPDX-License-Identifier: Apache-2.0 */
/* runtime_program.c: tests that a program gives the results of its graph in each run, in the
 * streams' order, whether the device records and replays its work or not. */
#include "graph_work.h"
#include "suites.h"
#include <string.h>

static void program_again(struct check *c, const int64_t *arg)
{
    struct program p;

    if (program_begin(&p, c, arg) && program_run(&p, 0, 7, 2, "the first run") &&
        program_counted(&p, 1, 0) && program_run(&p, 0, 7, 2, "the second") &&
        program_counted(&p, 2, 1) && program_run(&p, 0, 7, 2, "the third"))
        program_counted(&p, 3, 2);
    program_finish(&p);
}

/* Runs with other values in the same tensors, and with another tensor in place of a destroyed
 * one. */
static void program_inputs(struct check *c, const int64_t *arg)
{
    struct program p;
    bool good = program_begin(&p, c, arg) && program_run(&p, 0, 7, 2, "the first run");

    for (int k = 1; good && k < 5; k++) {
        struct bp_tensor *old = p.g.x;
        if (k == 3) {
            good = work_floats(&p.g.w, WORK_HOST, GRAPH_N, &p.g.x);
            bp_tensor_destroy(old);
        } /* 3 x + 2 y */
        good = good && work_put(&p.g.w, 0, p.g.x, k, k) && work_put(&p.g.w, 0, p.g.y, 1, 2 * k) &&
               program_run(&p, 0, 3 * k + 2, 7 * k, "a run with other inputs");
    }
    if (good) program_counted(&p, 5, 4);
    program_finish(&p);
}

/* Runs with preallocated outputs, one of which is also an input: the program reads it first. */
static void program_given(struct check *c, const int64_t *arg)
{
    struct program p;
    bool good = program_begin(&p, c, arg) && work_floats(&p.g.w, WORK_HOST, GRAPH_N, &p.g.out[0]);

    for (int k = 0; good && k < 3; k++)
        good = work_put(&p.g.w, 0, p.g.out[0], 0, 9) &&
               program_run_into(&p, 0, p.g.x, p.g.y, &p.g.out[0]) &&
               work_has(&p.g.w, 0, p.g.out[0], 7, 2, "an output that is given") &&
               work_put(&p.g.w, 0, p.g.x, 1, 0) && program_run_into(&p, 0, p.g.x, p.g.y, &p.g.x) &&
               work_has(&p.g.w, 0, p.g.x, 7, 2, "an output that is an input") &&
               work_put(&p.g.w, 0, p.g.x, 1, 0);
    if (good) program_counted(&p, 6, 5);
    program_finish(&p);
}

/* Makes calls before and after; none of their work has begun when the last call returns. */
static void program_order(struct check *c, const int64_t *arg)
{
    struct bp_tensor *t[2] = {0};
    struct program p;

    if (program_begin(&p, c, arg) && program_run(&p, 0, 7, 2, "the first run") &&
        program_run(&p, 0, 7, 2, "the second") && work_shut(&p.g.w, 0)) {
        struct bp_scope *scope = bp_stream_scope(p.g.w.stream[0]);
        bool good = work_add(&p.g.w, scope, p.g.x, p.g.x, &t[0]) &&      /* 2 i */
                    program_run_into(&p, 0, t[0], p.g.y, &p.g.out[0]) && /* 10 i + 2 */
                    work_put(&p.g.w, 0, t[0], 0, 5) &&                   /* contents already read */
                    work_add(&p.g.w, scope, p.g.out[0], t[0], &t[1]) &&  /* 10 i + 7 */
                    program_run_into(&p, 0, t[1], p.g.y, &p.g.out[1]) && /* 34 i + 23 */
                    work_put(&p.g.w, 0, t[1], 1, 1);
        work_open(&p.g.w, 0);
        if (good && work_has(&p.g.w, 0, p.g.out[0], 10, 2, "behind a call"))
            work_has(&p.g.w, 0, p.g.out[1], 34, 23, "behind a call behind it");
        if (good) program_counted(&p, 4, 3);
    }
    bp_tensor_destroy(t[0]);
    bp_tensor_destroy(t[1]);
    program_finish(&p);
}

/* Runs two programs of one graph on two streams at the same time. */
static void two_streams(struct check *c, const int64_t *arg)
{
    struct program p;
    struct bp_program *other = NULL, *first;
    bool good = program_begin(&p, c, arg) &&
                check_ok(c, bp_program_create(p.g.graph, p.g.w.device, &other),
                         "bp_program_create");

    first = p.program;
    for (int k = 0; good && k < 4; k++) {
        p.program = first;
        good = program_run_into(&p, 0, p.g.x, p.g.y, &p.g.out[0]);
        p.program = other;
        good = good && program_run_into(&p, 1, p.g.y, p.g.x, &p.g.out[1]) &&
               work_has(&p.g.w, 1, p.g.out[1], 8, 3, "the second stream's") && /* 3 y + 2 x */
               work_has(&p.g.w, 0, p.g.out[0], 7, 2, "the first stream's");
    }
    if (good) good = program_counted(&p, 4, 3);
    p.program = first;
    if (good) program_counted(&p, 4, 3);
    bp_program_destroy(other);
    program_finish(&p);
}

/* Runs one program alternately on two streams. It is recorded for the first stream, and again for
 * the second one when two runs in a row use that stream. */
static void program_moved(struct check *c, const int64_t *arg)
{
    static const int stream[] = {0, 0, 1, 0, 1, 1, 1, 0};
    struct program p;
    bool good = program_begin(&p, c, arg);

    for (size_t k = 0; good && k < sizeof stream / sizeof *stream; k++)
        good = program_run(&p, stream[k], 7, 2, "a run");
    if (good) program_counted(&p, 8, 4);
    if (good) work_leave(&p.g.w, 1);
    if (good && program_run(&p, 0, 7, 2, "when a stream is gone")) program_counted(&p, 9, 5);
    program_finish(&p);
}

/* Allocates memory on other streams and fills it, so that memory that was freed too early shows. */
static bool take_all(struct program *p)
{
    bool good = true;

    for (int i = 0; good && i < WORK_TENSORS; i++)
        good = work_tensor(&p->g.w, i, i % 2 ? 1 : WORK_HOST, i < 4 ? 384 : 256 << 10) &&
               work_fill(&p->g.w, 1, i, i);
    return good;
}

/* Destroys the program with its graph, a constant and all inputs before the submitted work has
 * begun. */
static void program_destroyed(struct check *c, const int64_t *arg)
{
    struct program p = {.program = NULL};

    if (graph_begin(&p.g, c, arg) && graph_input(&p.g, 0, "x") &&
        graph_sums(&p.g, p.g.symbol[0], p.g.y) && program_make(&p) &&
        program_run_into(&p, 0, p.g.x, NULL, &p.g.out[0]) &&
        program_run_into(&p, 0, p.g.x, NULL, &p.g.out[1]) && work_sync(&p.g.w, 0) &&
        work_shut(&p.g.w, 0)) {
        bool good = program_run_into(&p, 0, p.g.x, NULL, &p.g.out[0]) &&
                    program_run_into(&p, 0, p.g.out[0], NULL, &p.g.out[1]) &&
                    program_counted(&p, 4, 3);
        for (int i = 0; i < 5; i++) bp_tensor_destroy(p.g.symbol[i]);
        memset(p.g.symbol, 0, sizeof p.g.symbol);
        bp_program_destroy(p.program);
        bp_graph_destroy(p.g.graph);
        bp_tensor_destroy(p.g.x);
        bp_tensor_destroy(p.g.y);
        p.program = NULL;
        p.g.graph = NULL;
        p.g.x = p.g.y = NULL;
        good = good && take_all(&p);
        work_open(&p.g.w, 0);
        if (good && work_has(&p.g.w, 0, p.g.out[0], 7, 2, "what was given"))
            work_has(&p.g.w, 0, p.g.out[1], 25, 8, "what was given then"); /* 3 (7 i + 2) + 2 y */
    }
    program_finish(&p);
}

/* Two threads run one program, each on its own stream. */
struct part {
    struct program *p;
    int stream;
    struct bp_tensor *x, *y, *out;
    enum bp_status status;
};

static void *run_often(void *arg)
{
    struct part *part = arg;
    struct bp_tensor *in[2] = {part->x, part->y};

    for (int k = 0; k < 40 && part->status == BP_OK; k++)
        part->status = bp_program_run(part->p->program, part->p->g.w.stream[part->stream], in, 2,
                                      &part->out, 1);
    if (part->status == BP_OK)
        part->status = bp_stream_synchronize(part->p->g.w.stream[part->stream]);
    return NULL;
}

static void program_threads(struct check *c, const int64_t *arg)
{
    struct part part[2];
    pthread_t thread;
    struct program p;

    if (program_begin(&p, c, arg)) {
        part[0] = (struct part){&p, 0, p.g.x, p.g.y, NULL, BP_OK};
        part[1] = (struct part){&p, 1, p.g.y, p.g.x, NULL, BP_OK};
        if (check_that(c, !pthread_create(&thread, NULL, run_often, &part[1]), "no thread")) {
            run_often(&part[0]);
            pthread_join(thread, NULL);
            for (int i = 0; i < 2; i++)
                if (check_that(c, part[i].status == BP_OK, "thread %d: %s", i,
                               bp_status_name(part[i].status)))
                    work_has(&p.g.w, i, part[i].out, i ? 8 : 7, i ? 3 : 2, "a thread's result");
            check_that(c, program_info(&p).runs == 80, "%d runs", (int)program_info(&p).runs);
        }
        bp_tensor_destroy(part[0].out);
        bp_tensor_destroy(part[1].out);
    }
    program_finish(&p);
}

const struct check_kinds suite_runtime_program[] = {
    {"program/again", program_again, 1},
    {"program/inputs", program_inputs, 1},
    {"program/given", program_given, 1},
    {"program/order", program_order, 1},
    {"program/two-streams", two_streams, 2},
    {"program/moved", program_moved, 2},
    {"program/destroyed", program_destroyed, 1},
    {"program/threads", program_threads, 2},
    {NULL, NULL, 0},
};
