/* SPDX-License-Identifier: Apache-2.0 */
/* expect.h: what the vendor knows to fail, with reasons. A line: PATTERN xfail|unsupported|skip
 * REASON; '#' begins a comment. Of several that fit a case the first counts. */
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

/* Reads a file. Every mistake is said on standard error, as command's; false if there was one. */
bool expectations_init(struct expectations *e, const char *path, const char *command);
void expectations_finish(struct expectations *e);

/* Refuses entries that fit no case at all, selected or not: they hide a misspelling. */
bool expectations_check(struct expectations *e, const struct report *report, const char *path);

/* NULL: nothing is expected of the case. */
const struct expectation *expectation_of(const struct expectations *e, const char *id);

/* Changes the outcome of a case that has run as its expectation says. */
void expectation_apply(const struct expectation *e, struct report_case *c);

#endif
