/* SPDX-License-Identifier: Apache-2.0 */
/* conform.h: the conformance suite as a program's one call. docs/conformance.md says what it
 * does. */
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

/* Cases of a program's own that are run like those of a device, in place of them: the suite
 * `onnx`. Each process makes the same list. */
struct check;
struct conform_cases {
    void *ctx;
    const char *(*id)(void *ctx, size_t index); /* without the suite; NULL past the last */
    void (*run)(void *ctx, size_t index, struct check *check);
};

struct conform_options {
    const char *command;             /* the program's word for it, "conform" */
    const char *data;                /* what it needs to make its own cases; NULL: it has none */
    const char *device;              /* "cpu:0", or a path of a plugin, with a '/' in it */
    const char *suites;              /* "plugin,kernel"; NULL: all */
    const char *const *filters;      /* globs on ids; a case is selected if one of them fits,
                                        and none of those that begin with '!' */
    size_t n_filters;                /* 0: all */
    uint32_t shard, shards;          /* this one, from 1, of so many; 0, 0: all */
    const char *require;             /* a level that must be reached, or NULL */
    const char *expect;              /* file of expectations, or NULL */
    const char *junit, *json, *html; /* files of reports, or NULL */
    const char *dump;                /* directory, or NULL */
    enum conform_isolate isolate;
    uint64_t seed;
    uint32_t jobs;    /* children at once; 0: one for each processor, at most 4 */
    double timeout_s; /* of one case; 0: 60 */
    bool quick, list;

    const char *self;                   /* absolute path of this program */
    void (*progress)(const char *text); /* the live line, "" to remove it; NULL: none */
};

/* Runs the suite and prints the report. Answers the exit status: 0 good, 1 a check failed, 2
 * wrong use or nothing matched, 3 no such device, 4 the suite itself broke. */
int conform_run(const struct conform_options *options);

/* Before conform_run or conform_child of a program with cases of its own; kept. */
void conform_bring(const struct conform_cases *cases);
bool conform_brings(void);

/* The word after the command by which the program is run as a child; then come data, "" for NULL,
 * and the words for conform_child. */
#define CONFORM_CHILD "--child"
int conform_child(int argc, char **argv);

#endif
