/* SPDX-License-Identifier: Apache-2.0 */
/* report.h: a run of the suite as data: the selected cases, their results, and the functions that
 * write reports. */
#ifndef BP_CONFORM_REPORT_H
#define BP_CONFORM_REPORT_H

#include "../check.h"
#include "../conform.h"
#include <ops/common/cases.h>
#include "../list.h"
#include <stdio.h>

/* The number of the form of JSON reports. It is raised if a key is removed or gets another meaning.
 * */
enum { REPORT_FORMAT = 1 };

struct report_case {
    char *id;
    enum suite suite;
    int unit, at; /* position in the list of cases (list.h) */
    int row;      /* index in rows, or -1 */
    /* Bit for each enum row_fact that holds for its kernel row if the case executes the row. */
    uint32_t facts;
    bool quick, selected;
    /* The case has nothing to run: the child reported outcome and message with the list. */
    bool fixed;
    bool expected; /* an expectation or the baseline decided the outcome */
    bool known;    /* it failed, as in the baseline */
    bool repaired; /* it passed, and the baseline has a failure of it */
    bool executed, refused;
    enum outcome outcome; /* OUTCOME_COUNT: has not run */
    double seconds, worst;
    char *message; /* never NULL */
    /* Names of the features that a model needs and that are missing, separated by '\n'; or NULL. */
    char *missing;
    /* Indices of the kernel rows that ran as steps of the operator's decomposition. */
    int *step;
    size_t n_step;
};

struct report_row {
    char *name;
    bool usable, selected, executed, counted; /* counted: one of the rows that must be executed */
    /* has: the facts for which the row has cases. ran: the facts of the cases that executed it. */
    uint32_t has, ran;
};

/* A kernel row as a step of an operator's decomposition. has: there are cases in which the row must
 * run as a step of op. ran: it has run in one. */
struct report_within {
    char op[40];
    int row;
    bool has, ran;
};

/* The levels, in order. Each includes all requirements of the levels before it. */
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
enum level level_find(const char *name); /* LEVEL_COUNT: no level has this name */

/* An operator that a level needs and that the device does not run. */
struct report_missing {
    const char *op;
    enum level level; /* the lowest level that needs it */
    enum suite suite; /* kernel, or gradient: the suite whose cases show it */
    bool in_part;     /* some cases passed, and the device lacks kernel rows for others */
    unsigned models;  /* how many of ONNX's test models use it: models.def */
};

struct report {
    const struct conform_options *options;
    struct selection wanted; /* the selection that the options state */
    char *device, *description, *driver, *library, *manifest, *machine;
    struct report_case *at; /* all cases that the child reported: those that may be selected, or
                               whose names are needed */
    size_t n;
    bool left_out[SUITE_COUNT]; /* whether the suite has further cases, which the child did not
                                   report */
    struct report_row *row;
    size_t n_row;
    struct report_within *within;
    size_t n_within;
    bool lost; /* the plugin ended the process that listed the cases; the only case reports this */

    bool compared; /* there was a baseline */
    char **expired; /* n_expired expectations whose date has passed, as texts with file and line */
    size_t n_expired;

    /* Filled by report_judge. */
    size_t totals[OUTCOME_COUNT], suite_totals[SUITE_COUNT][OUTCOME_COUNT];
    size_t selected, broken; /* broken: selected cases without a result */
    size_t rows_executed, rows_total;
    struct {
        size_t executed, total; /* of the rows that have cases of this fact */
    } fact[ROW_FACT_COUNT];
    bool whole; /* all kernel cases were selected, so each row must have run for each of its
                   facts */
    enum level level;
    bool unjudged;          /* no level: not all cases that the lowest level needs were run */
    char level_reason[300]; /* why the next level is not reached */
    struct report_missing *missing; /* what the levels with operators lack: n_missing entries, those
                                       that most models need first */
    size_t n_missing;
    double seconds;
};

/* Stores the kernel rows that names lists, separated by blanks, as the steps of the case. */
void report_case_steps(const struct report *report, struct report_case *c, const char *names);

/* In within.c: makes the list of (row, operator) pairs again, and sets in each row the fact
 * ROW_WITHIN: `has` if it has such pairs, `ran` if it ran in all of them. `asks`: whether a case
 * requires its row to run. */
void report_find_within(struct report *report, bool (*requests)(const struct report_case *c));

/* Counts the outcomes and finds the level. */
void report_judge(struct report *report);
void report_find_level(struct report *report); /* in level.c; needs the totals */

/* In missing.c: lists the operators that the levels need and the device does not run, of the suites
 * that were run as a whole. */
void report_find_missing(struct report *report);
size_t report_missing_of(const struct report *report, enum level level); /* how many of one level */

/* Whether a row was executed; if all cases were selected, also for each fact for which the row has
 * cases. */
bool report_row_ran(const struct report *report, const struct report_row *row);
extern const char *const report_fact_text[ROW_FACT_COUNT], *const report_fact_key[ROW_FACT_COUNT];

/* Whether no case failed, no expectation is out of date, and every counted row was executed for
 * each of its facts. */
bool report_is_good(const struct report *report);

/* The level as text for people: its name, or "not judged". */
const char *report_level(const struct report *report);

/* The command line that runs one case. The caller frees it. */
char *report_command(const struct report *report, const struct report_case *c);

/* The largest error of one kernel row of an operator with a dtype, divided by the allowed error. */
struct report_accuracy {
    char op[40], dtype[24], row[64];
    double worst;
    const char *id;
};
/* Returns the number of entries. out: NULL, or receives that many entries, which the caller
 * frees. */
size_t report_accuracy(const struct report *report, struct report_accuracy **out);

/* A feature that models of `bp onnx-test` need and that is missing, and the number of models that
 * need it. The feature is an operator of ONNX, "kernel of OP" (the first kernel of the device that
 * a model lacks), an element type or an opset. */
enum { REPORT_BLOCKER = 128 };
struct report_blocker {
    char name[REPORT_BLOCKER];
    size_t models;
};
/* Returns the number of entries. out receives them, sorted so that the feature that most models
 * lack is first; the caller frees it. */
size_t report_blockers(const struct report *report, struct report_blocker **out);

/* A worst error as text for people: "0.52"; "over" where a number would be meaningless. */
const char *report_worst(double worst, char *text, size_t size);

/* Splits the id of a kernel case. Returns false if the id names no kernel row. */
bool report_parts(const char *id, char op[40], char dtypes[24], char row[64]);

void report_text(const struct report *report, FILE *file);
void report_json(const struct report *report, FILE *file);
void report_junit(const struct report *report, FILE *file);
void report_html(const struct report *report, FILE *file);

/* In page.c: writes the head of a page, and opens its body with the heading: `title`, behind it
 * `of`, which may be of any origin. more_style: CSS behind that of all pages. */
void report_page_begin(const char *title, const char *of, const char *more_style, FILE *file);

/* The sections of the page of a report. They need no more of it than the cases, the totals and the
 * options' device and seed: for pages that show a report among other things. */
void report_html_totals(const struct report *report, FILE *file);
void report_html_failures(const struct report *report, FILE *file);
void report_html_support(const struct report *report, FILE *file);
void report_html_accuracy(const struct report *report, FILE *file);

#endif
