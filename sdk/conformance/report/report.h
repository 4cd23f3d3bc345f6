/* SPDX-License-Identifier: Apache-2.0 */
/* report.h: a run of the suite as data: what was to be run, what became of it, and the reports
 * of it. */
#ifndef BP_CONFORM_REPORT_H
#define BP_CONFORM_REPORT_H

#include "../check.h"
#include "../conform.h"
#include <ops/common/cases.h>
#include "../list.h"
#include <stdio.h>

struct report_case {
    char *id;
    enum suite suite;
    int unit, at; /* of list.h */
    int row; /* number in rows, or -1 */
    uint32_t facts; /* bit of each enum row_fact that holds of its row if the case executes it */
    bool quick, selected;
    bool fixed;    /* nothing to run: outcome and message came with the list */
    bool expected; /* an expectation decided the outcome */
    bool executed, refused;
    enum outcome outcome; /* OUTCOME_COUNT: has not run */
    double seconds, worst;
    char *message; /* never NULL */
    char *missing; /* names of what a model lacks, '\n' between them; or NULL */
    int *step;     /* numbers of the rows that ran as what its operator is defined in */
    size_t n_step;
};

struct report_row {
    char *name;
    bool usable, selected, executed, counted; /* counted: among those that should be executed */
    uint32_t has, ran; /* facts of cases that it has, of those that executed it */
};

/* A row and an operator that is defined in that of the row, among others: whether there are cases
 * in which the row is to run as one of the operator's steps, and whether it has run so. */
struct report_within {
    char op[40];
    int row;
    bool has, ran;
};

/* The levels, in order. Each needs the ones before it. */
#define CONFORM_LEVELS(X) \
    X(NONE, none) \
    X(RUNTIME, runtime) X(CORE, core) X(INFERENCE, inference) X(TRAINING, training) X(CCL, ccl)
enum level {
#define X(NAME, name) LEVEL_##NAME,
    CONFORM_LEVELS(X)
#undef X
    LEVEL_COUNT,
};
const char *level_name(enum level level);
enum level level_find(const char *name); /* LEVEL_COUNT: there is none */

struct report {
    const struct conform_options *options;
    struct selection wanted; /* what the options select */
    char *device, *description, *driver, *library, *manifest, *machine;
    struct report_case *at; /* all but such as are not wanted and not asked for their names */
    size_t n;
    bool left_out[SUITE_COUNT]; /* whether there are others */
    struct report_row *row;
    size_t n_row;
    struct report_within *within;
    size_t n_within;
    bool lost; /* the plugin ended the process that listed: the one case says so */

    /* Filled by report_judge. */
    size_t totals[OUTCOME_COUNT], suite_totals[SUITE_COUNT][OUTCOME_COUNT];
    size_t selected, broken; /* broken: selected, and without a result */
    size_t rows_executed, rows_total;
    struct {
        size_t executed, total; /* of rows that have such cases */
    } fact[ROW_FACT_COUNT];
    bool whole; /* all kernel cases were selected: each fact of each row is to be seen */
    enum level level;
    bool unjudged;          /* no level, for what the lowest needs was not all run */
    char level_reason[300]; /* why not the next one */
    double seconds;
};

/* The rows of names that are apart by blanks become the case's steps. */
void report_case_steps(const struct report *report, struct report_case *c, const char *names);

/* within.c: makes the list of pairs anew, and says of each row whether it has, and ran in, all of
 * its own. asks: whether a case asks for its row. */
void report_find_within(struct report *report, bool (*asks)(const struct report_case *c));

/* Counts, and finds the level. */
void report_judge(struct report *report);
void report_find_level(struct report *report); /* level.c: needs the totals */

/* Whether a row was executed; in each way that it has cases for, where all were selected. */
bool report_row_ran(const struct report *report, const struct report_row *row);
extern const char *const report_fact_text[ROW_FACT_COUNT], *const report_fact_key[ROW_FACT_COUNT];

/* Whether nothing that ran went wrong and every row was executed in each way. */
bool report_is_good(const struct report *report);

/* The level for people: its name, or "not judged". */
const char *report_level(const struct report *report);

/* The command that runs one case. To be freed. */
char *report_command(const struct report *report, const struct report_case *c);

/* The largest error of an operator with a dtype, over all rows, as a part of what is allowed. */
struct report_accuracy {
    char op[40], dtype[24], row[64];
    double worst;
    const char *id;
};
/* Answers how many there are; out: NULL, or that many entries to be freed. */
size_t report_accuracy(const struct report *report, struct report_accuracy **out);

/* What models of `bp onnx-test` lack, and how many lack it: an operator of ONNX, "kernel of OP" of
 * the device (the first that a model lacks), an element type, an opset. */
enum { REPORT_BLOCKER = 128 };
struct report_blocker {
    char name[REPORT_BLOCKER];
    size_t models;
};
/* Answers how many there are; out: that many, to be freed, most models first. */
size_t report_blockers(const struct report *report, struct report_blocker **out);

/* A worst error for people: "0.52"; "over" where no number tells more. */
const char *report_worst(double worst, char *text, size_t size);

/* The parts of a kernel case's id; false if it has none. */
bool report_parts(const char *id, char op[40], char dtypes[24], char row[64]);

extern const char report_style[]; /* style.c: CSS of the page */

void report_text(const struct report *report, FILE *file);
void report_json(const struct report *report, FILE *file);
void report_junit(const struct report *report, FILE *file);
void report_html(const struct report *report, FILE *file);

#endif
