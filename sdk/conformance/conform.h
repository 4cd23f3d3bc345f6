/* SPDX-License-Identifier: Apache-2.0 */
/* conform.h: the conformance suite as a library: a program runs the whole suite by one call.
 * docs/conformance.md describes the suite. */
#ifndef BP_CONFORM_H
#define BP_CONFORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum conform_isolate {
    CONFORM_GROUP,
    CONFORM_CASE,
    CONFORM_NONE
};

/* Cases of the calling program. Where a program registers these cases, the suite runs them in place
 * of the cases of the device, under the suite name `onnx`. The program registers the same list in
 * each process. */
struct check;
struct conform_cases {
    void *ctx;
    const char *(*id)(void *ctx, size_t index); /* without the name of the suite; NULL for an index
                                                   past the last case */
    void (*run)(void *ctx, size_t index, struct check *check);
};

struct conform_options {
    const char *command; /* the program's subcommand that runs the suite: "conform" */
    /* Argument by which a child process of the program makes the program's own cases. NULL: it
     * needs none. */
    const char *data;
    const char *device; /* "cpu:0", or the path of a plugin, with a '/' in it */
    const char *suites; /* "plugin,kernel"; NULL: all but stress */
    /* Glob patterns for case ids. A case is selected if at least one pattern matches its id and
     * none of the patterns that begin with '!' does. */
    const char *const *filters;
    size_t n_filters;                /* 0: all cases are selected */
    uint32_t shard, shards;          /* runs part `shard` (from 1) of `shards` parts; 0, 0: all */
    const char *require;             /* a level that the device must reach, or NULL */
    const char *expect;              /* path of the file of expectations, or NULL */
    /* Paths of earlier JSON reports, or NULL. Only failures that the baseline does not have fail
     * the run; the shards take about the same time. */
    const char *baseline, *times;
    const char *junit, *json, *html; /* paths of report files, or NULL */
    const char *note; /* text that the reports show beside the device, or NULL */
    const char *dump;                /* directory for dumped arrays, or NULL */
    enum conform_isolate isolate;
    uint64_t seed;
    /* Number of child processes that run at the same time. 0: one for each processor, at most 4. */
    uint32_t jobs;
    double timeout_s; /* time limit of one case in seconds; 0: 60 */
    bool quick, list;

    const char *self; /* absolute path of this program */
    /* Shows text as the live progress line; "" removes the line. NULL: no progress line. */
    void (*progress)(const char *text);
};

/* Runs the suite and prints the report. Returns the exit status: 0 all checks passed, 1 a check
 * failed, 2 wrong options or no case matched, 3 the device does not exist, 4 the suite itself
 * failed. */
int conform_run(const struct conform_options *options);

/* Registers the cases of the calling program. Called before conform_run or conform_child; cases
 * must stay valid until the process exits. */
void conform_bring(const struct conform_cases *cases);
bool conform_brings(void);

/* The argument after the subcommand by which the program starts itself as a child process. The
 * arguments after it are `data` ("" for NULL) and then the arguments of conform_child. */
#define CONFORM_CHILD "--child"
int conform_child(int argc, char **argv);

#endif
