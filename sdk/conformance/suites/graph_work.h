/* SPDX-License-Identifier: Apache-2.0 */
/* graph_work.h: what cases of recorded calls share: a graph of sums, its inputs, and what it gives.
 * Functions answer whether all was well, as those of work.h. */
#ifndef BP_CONFORM_GRAPH_WORK_H
#define BP_CONFORM_GRAPH_WORK_H

#include "async_fixture.h"

enum { GRAPH_N = 96 }; /* elements */

/* a = x + y, b = a + x, c = b + a: 7 i + 2 k for x = i, y = 2 i + k. */
struct graph {
    struct work w;
    struct bp_graph *graph;
    struct bp_tensor *symbol[5]; /* x, y, a, b, c */
    struct bp_tensor *x, *y, *out[2];
};

/* On two streams, of the kinds that arg says: x holds i, y holds 2 i + 1. */
bool graph_begin(struct graph *g, struct check *c, const int64_t *arg);
void graph_finish(struct graph *g);

bool graph_input(struct graph *g, int i, const char *name);
/* a, b and c of x and y, with c as the output; and of two inputs. */
bool graph_sums(struct graph *g, struct bp_tensor *x, struct bp_tensor *y);
bool graph_record(struct graph *g);
/* With x and the graph's y, into g->out[out]. */
bool graph_run(struct graph *g, int stream, struct bp_tensor *x, int out);

/* The graph as a program. */
struct program {
    struct graph g;
    struct bp_program *program;
};

/* Of the graph as it is; of graph_begin and graph_record. */
bool program_make(struct program *p);
bool program_begin(struct program *p, struct check *c, const int64_t *arg);
void program_finish(struct program *p);

/* With inputs x and y (NULL: there is one), into what is given or made. */
bool program_run_into(struct program *p, int stream, struct bp_tensor *x, struct bp_tensor *y,
                      struct bp_tensor **out);
/* With the graph's x and y, into a new tensor; then its elements are as said. */
bool program_run(struct program *p, int stream, int factor, int add, const char *what);
struct bp_program_info program_info(struct program *p);

/* So many runs, of these so many replays; none where the device says that it records nothing. */
bool program_counted(struct program *p, uint64_t runs, uint64_t replays);
/* The last run was none although the device records, that is said, and nothing is kept for it. */
bool program_refused(struct program *p, const char *why);

#endif
