/* SPDX-License-Identifier: Apache-2.0 */
/* expect.h: the vendor's file of expectations: cases that are known to fail, with reasons. Each
 * line is PATTERN xfail|unsupported|skip [until=YYYY-MM-DD] REASON; '#' begins a comment. If
 * several patterns match a case, the first one counts. */
#ifndef BP_CONFORM_EXPECT_H
#define BP_CONFORM_EXPECT_H

#include "report/report.h"

struct expectation {
    char *pattern, *reason;
    enum outcome outcome; /* xfail, unsupported or skip */
    int line;
    char until[12]; /* the last day on which the entry holds, "2026-12-31", or "" */
    bool used;      /* the pattern matches a case of the device */
    bool met;       /* the pattern matches a case of this run */
    bool applied;   /* the entry decided the outcome of a case */
};

struct expectations {
    struct expectation *at;
    size_t n;
};

/* Reads a file. Writes every mistake to standard error, as a message of the subcommand `command`.
 * Returns false if there was one. */
bool expectations_init(struct expectations *e, const char *path, const char *command);
void expectations_finish(struct expectations *e);

/* Reports each pattern that matches no case at all, selected or not, because it is probably
 * misspelt. Returns false if there was one. */
bool expectations_check(struct expectations *e, const struct report *report, const char *path);

/* Returns NULL if nothing is expected of the case. */
struct expectation *expectation_of(const struct expectations *e, const char *id);

/* Changes the outcome of a case that has run according to its expectation. */
void expectation_apply(struct expectation *e, struct report_case *c);

/* After the run: adds the entries whose date has passed to the report, which then fails, and writes
 * to standard error those that had cases in this run and decided no outcome. */
void expectations_judge(struct expectations *e, struct report *report, const char *path);

#endif
