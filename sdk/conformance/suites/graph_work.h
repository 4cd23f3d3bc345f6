/* SPDX-License-Identifier: Apache-2.0 */
/* graph_work.h: functions shared by the cases of recorded calls: a graph of sums, its inputs, and
 * checks of its results. Functions that return bool return whether all checks passed, as those of
 * async_fixture.h. */
#ifndef BP_CONFORM_GRAPH_WORK_H
#define BP_CONFORM_GRAPH_WORK_H

#include "async_fixture.h"

enum { GRAPH_N = 96 }; /* elements */

/* The graph a = x + y, b = a + x, c = b + a. With x = i and y = 2 i + k, c is 7 i + 2 k. */
struct graph {
    struct work w;
    struct bp_graph *graph;
    struct bp_tensor *symbol[5]; /* x, y, a, b, c */
    struct bp_tensor *x, *y, *out[2];
};

/* Begins a case with two streams of the kinds that arg states. x holds i, y holds 2 i + 1. */
bool graph_begin(struct graph *g, struct check *c, const int64_t *arg);
void graph_finish(struct graph *g);

bool graph_input(struct graph *g, int i, const char *name);
/* graph_sums records a, b and c for x and y, with c as the output. graph_record does so with two
 * new inputs. */
bool graph_sums(struct graph *g, struct bp_tensor *x, struct bp_tensor *y);
bool graph_record(struct graph *g);
/* Runs the graph with x and the graph's y, into g->out[out]. */
bool graph_run(struct graph *g, int stream, struct bp_tensor *x, int out);

/* The graph as a program. */
struct program {
    struct graph g;
    struct bp_program *program;
};

/* program_make creates the program from the current graph; program_begin first calls graph_begin
 * and graph_record. */
bool program_make(struct program *p);
bool program_begin(struct program *p, struct check *c, const int64_t *arg);
void program_finish(struct program *p);

/* Runs the program with inputs x and y (y NULL: there is one input). *out: the preallocated output,
 * or NULL for a new one. */
bool program_run_into(struct program *p, int stream, struct bp_tensor *x, struct bp_tensor *y,
                      struct bp_tensor **out);
/* Runs the program with the graph's x and y into a new tensor, and checks that element i is i *
 * factor + add. */
bool program_run(struct program *p, int stream, int factor, int add, const char *what);
struct bp_program_info program_info(struct program *p);

/* Checks the number of runs, and how many of them were replays. On a device that records no
 * programs, no replays are expected. */
bool program_counted(struct program *p, uint64_t runs, uint64_t replays);
/* Checks that the last run was no replay although the device records programs, that info.reason
 * contains `why`, and that no recorded work is kept. Passes on a device that records none. */
bool program_refused(struct program *p, const char *why);

#endif
