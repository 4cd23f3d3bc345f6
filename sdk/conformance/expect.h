/* SPDX-License-Identifier: Apache-2.0 */
/* expect.h: the vendor's file of expectations: cases that are known to fail, with reasons. Each
 * line is PATTERN xfail|unsupported|skip REASON; '#' begins a comment. If several patterns match a
 * case, the first one counts. */
#ifndef BP_CONFORM_EXPECT_H
#define BP_CONFORM_EXPECT_H

#include "report/report.h"

struct expectation {
    char *pattern, *reason;
    enum outcome outcome; /* xfail, unsupported or skip */
    int line;
    bool used;
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
const struct expectation *expectation_of(const struct expectations *e, const char *id);

/* Changes the outcome of a case that has run according to its expectation. */
void expectation_apply(const struct expectation *e, struct report_case *c);

#endif
