/* SPDX-License-Identifier: Apache-2.0 */
/* bench.h: what the parts of `bp bench` share. */
#ifndef BP_BENCH_H
#define BP_BENCH_H

#include "tools.h"

struct bench {
    struct bp_device *device;
    struct bp_stream *stream;
    struct bp_scope *scope;
    bool quick;
    int threads;
    bool failed;
    const char *machine;
    cJSON *results;
    struct bp_table table;
};

/* Does the thing once, its work ended; false: it failed. */
typedef bool bench_body(void *ctx);

struct bench_case {
    const char *name;           /* "launch/prepared" */
    const char *unit;           /* "ns", or of work a second: "GB/s" */
    double work;                /* of one call, in that unit; 0: the figure is the time of a call */
    bench_body *body;
    void *ctx;
    const char *reference_name; /* what the ratio is to */
    bench_body *reference;      /* NULL: there is none */
    void *reference_ctx;
};

double bench_now(void);

/* Measures a case and adds its row; a failure is printed and remembered. */
void bench_run(struct bench *bench, const struct bench_case *c);

void bench_calls(struct bench *bench);   /* bench_calls.c: launch cost */
void bench_memory(struct bench *bench);  /* bench_memory.c: allocation and copies */
void bench_compute(struct bench *bench); /* bench_compute.c: matmul, convolution */

#endif
