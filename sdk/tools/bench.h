/* SPDX-License-Identifier: Apache-2.0 */
/* bench.h: types and functions shared by the files of `bp bench`. */
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
    struct bp_texts filters; /* glob patterns of row names; none: every row */
    bool quick;
    int threads;
    bool beside; /* another thread of the process exists; names of rows show it */
    int rows;    /* number of rows that were selected so far */
    bool failed;
    const char *machine;
    cJSON *results;
    struct bp_table table;
};

/* The operation that is timed. body runs it once until its work has ended (false: it failed).
 * Alternatively, block runs it `calls` times and returns the seconds of one call, or less than 0
 * after a failure. block is needed where the clock must not run all the time, or runs on other
 * threads. */
typedef bool bench_body(void *ctx);
typedef double bench_block(void *ctx, int calls);
struct bench_side {
    bench_body *body;
    bench_block *block;
    void *ctx;
};

/* The figure of a case, computed from the time t of the measured side and the time r of the
 * reference. */
enum bench_figure {
    BENCH_TIME,  /* t, in ns */
    BENCH_RATE,  /* work / t */
    BENCH_OVER,  /* t - r, in ns: the overhead over the reference */
    BENCH_TIMES, /* work * r / t: how many references would run in the time of one */
};

struct bench_case {
    const char *name; /* "launch/prepared" */
    const char *unit;
    enum bench_figure figure;
    double work;
    struct bench_side side;
    const char *reference_name;  /* name of the reference */
    struct bench_side reference; /* all zero: no reference */
    int calls;                   /* calls in a block; 0: as many as take `slice` */
    double slice;                /* seconds of a block; 0: the default */
    int runs;                    /* largest number of pairs; 0: limited by time only */
    double operations, bytes;    /* of a call of a BENCH_RATE, for a roofline: what it computes, and
                                    what it must read and write; bytes 0: unknown */
};

double bench_now(void);

/* Whether the filters select a row of this name. */
bool bench_wants(const struct bench *bench, const char *name);

/* Measures a case if the filters select it, and adds its row. A failure is printed and sets
 * bench->failed. */
void bench_run(struct bench *bench, const struct bench_case *c);

/* Prints why a row could not be set up, and sets bench->failed. */
void bench_failed(struct bench *bench, const char *name);

/* A pseudo-random number. The state may begin with any value. */
uint32_t bench_random(uint64_t *state);

/* In bench_kernel.c: a kernel row called directly, without the core, as the reference for calls. It
 * has two inputs and one output, and is launched as the core launches it. */
struct bench_kernel {
    void *library, *self;
    const struct bp_plugin *plugin;
    const struct bp_kernel *row;
    struct bp_view view[3];
    const struct bp_view *in[2], *out[1];
    struct bp_launch launch;
};

/* Opens the library of the device's plugin again, creates a separate instance of the plugin, and
 * prepares a launch of row from x and y to z, which must outlive *out. Returns false if the row
 * does not exist or cannot be called directly (it needs a plan, or the device is not inline). */
bool bench_kernel_open(const struct bench *bench, const char *row, struct bp_tensor *const *xyz,
                       struct bench_kernel *out);
void bench_kernel_close(struct bench_kernel *kernel);
bool bench_kernel_run(void *kernel); /* a bench_body */

void bench_calls(struct bench *bench);   /* bench_calls.c: overhead of launches */
void bench_bridge(struct bench *bench);  /* bench_bridge.c: wrapping memory of frameworks */
void bench_many(struct bench *bench);    /* bench_many.c: calls of many signatures */
void bench_program(struct bench *bench); /* bench_program.c: programs */
void bench_compile(struct bench *bench); /* bench_compile.c: compiling programs */
void bench_memory(struct bench *bench);  /* bench_memory.c: allocation */
void bench_copies(struct bench *bench);  /* bench_copies.c: copies */
void bench_streams(struct bench *bench); /* bench_streams.c: two threads */
void bench_compute(struct bench *bench); /* bench_compute.c: matmul, convolution */

#endif
