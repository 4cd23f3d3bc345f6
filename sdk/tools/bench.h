/* SPDX-License-Identifier: Apache-2.0 */
/* bench.h: what the parts of `bp bench` share. */
#ifndef BP_BENCH_H
#define BP_BENCH_H

#include "tools.h"

#include <backplane/kernel.h>
#include <backplane/plugin.h>

struct bench {
    struct bp_core *core;
    struct bp_device *device;
    struct bp_stream *stream;
    struct bp_scope *scope;
    struct bp_texts filters; /* globs; none: every row */
    bool quick;
    int threads;
    bool beside; /* another thread of the process lives: rows are called so */
    int rows; /* that were wanted so far */
    bool failed;
    const char *machine;
    cJSON *results;
    struct bp_table table;
};

/* What is timed: body does the thing once, its work ended (false: it failed). Or block does it
 * calls times and answers the seconds of one, less than 0 for a failure: where the clock is not to
 * run all the time, or runs on other threads. */
typedef bool bench_body(void *ctx);
typedef double bench_block(void *ctx, int calls);
struct bench_side {
    bench_body *body;
    bench_block *block;
    void *ctx;
};

/* What the figure is, of the times t of the side measured and r of the reference. */
enum bench_figure {
    BENCH_TIME,  /* t, in ns */
    BENCH_RATE,  /* work / t */
    BENCH_OVER,  /* t - r, in ns: what is added to the reference */
    BENCH_TIMES, /* work * r / t: how many references are done in the time of one */
};

struct bench_case {
    const char *name; /* "launch/prepared" */
    const char *unit;
    enum bench_figure figure;
    double work;
    struct bench_side side;
    const char *reference_name;  /* what the ratio is to */
    struct bench_side reference; /* zero: there is none */
    int calls;                   /* in a block; 0: as many as take long enough */
    double slice;                /* seconds that are long enough; 0: the usual */
    int runs;                    /* pairs at most; 0: as many as there is time for */
};

double bench_now(void);

/* Whether a row is asked for. */
bool bench_wants(const struct bench *bench, const char *name);

/* Measures a case, if it is asked for, and adds its row; a failure is printed and remembered. */
void bench_run(struct bench *bench, const struct bench_case *c);

/* A row could not be set up: prints why. */
void bench_failed(struct bench *bench, const char *name);

/* A number that looks random, from a state that may begin with any value. */
uint32_t bench_random(uint64_t *state);

/* bench_kernel.c: a kernel row called with nothing between, the reference of calls: one output of
 * two inputs, as the core launches them. */
struct bench_kernel {
    void *library, *self;
    const struct bp_plugin *plugin;
    const struct bp_kernel *row;
    struct bp_view view[3];
    const struct bp_view *in[2], *out[1];
    struct bp_launch launch;
};

/* Opens the library of the device's plugin once more, makes an instance of its own, and readies a
 * launch of row on x and y to z, which live longer. false: there is no such row, or it cannot be
 * called so (it wants a plan, or works behind the host's back). */
bool bench_kernel_open(const struct bench *bench, const char *row, struct bp_tensor *const *xyz,
                       struct bench_kernel *out);
void bench_kernel_close(struct bench_kernel *kernel);
bool bench_kernel_run(void *kernel); /* a bench_body */

void bench_calls(struct bench *bench);   /* bench_calls.c: launch cost */
void bench_many(struct bench *bench);    /* bench_many.c: many signatures */
void bench_program(struct bench *bench); /* bench_program.c: graphs that are run again */
void bench_memory(struct bench *bench);  /* bench_memory.c: allocation */
void bench_copies(struct bench *bench);  /* bench_copies.c */
void bench_streams(struct bench *bench); /* bench_streams.c: two threads */
void bench_compute(struct bench *bench); /* bench_compute.c: matmul, convolution */

#endif
