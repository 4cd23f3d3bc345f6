/* SPDX-License-Identifier: Apache-2.0 */
/* check.h: declares one run of a graph, in one of several ways, and the comparison of two runs. */
#ifndef BP_TEST_CHECK_H
#define BP_TEST_CHECK_H

#include "graphs.h"

/* The function that runs the graph. */
enum fuzz_runner {
    RUN_CALLS,
    RUN_GRAPH,
    RUN_PROGRAM
};

/* Properties of a run. */
enum {
    WITH_GIVEN = 1,   /* outputs are tensors of the app, with other strides for some */
    WITH_STRIDED = 2, /* inputs of rank 2 and more have their axes in reverse order in memory */
    WITH_OTHER = 4,   /* another stream */
    WITH_QUEUE = 8,   /* a stream with a queue */
    WITH_SAME = 16,   /* inputs of one type are one tensor, or a constant */
    WITH_ORDER = 64,  /* nodes were recorded in another order */
    WITH_OVER = 32    /* an output is the tensor of an input or a constant of its type */
};

struct fuzz_checker {
    struct fuzz_place *place;
    struct fuzz_built built;
    struct bp_program *program;
    struct fuzz_report *report;
    uint64_t perturb;
    bool is_compiled; /* the last run of the program */
};

/* The tensors of one run. */
struct fuzz_run {
    struct bp_tensor *in[FUZZ_VALUES], *out[FUZZ_OUTPUTS];
    bool is_shared[FUZZ_VALUES]; /* the tensor of another input, or of a constant */
    struct bp_tensor *over;      /* the input or constant that an output overwrites, or NULL */
};

/* run.c. Runs the graph once from a defined state, and keeps all contents afterwards. */
struct fuzz_snapshot *fuzz_run_once(struct fuzz_checker *c, enum fuzz_runner runner, uint32_t set,
                                    uint32_t with);
void fuzz_snapshot_free(struct fuzz_snapshot *s);
/* Parts of a run: sets constants and the generator; makes the inputs; destroys the tensors. */
bool fuzz_run_reset(struct fuzz_checker *c, uint32_t set, struct bp_stream *stream);
enum bp_status fuzz_run_inputs(struct fuzz_checker *c, struct fuzz_run *run, uint32_t set,
                               uint32_t with, struct bp_stream *stream);
void fuzz_run_finish(const struct fuzz_checker *c, struct fuzz_run *run);

/* near.c. Whether two runs differ by at most what the tolerances of the nodes allow. */
bool fuzz_near(struct fuzz_checker *c, const struct fuzz_snapshot *got,
               const struct fuzz_snapshot *expected, uint32_t set, uint32_t with, char *text,
               size_t size);

#endif
