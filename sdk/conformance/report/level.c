/* SPDX-License-Identifier: Apache-2.0 */
/* level.c: finds the highest level that a run reaches; docs/conformance.md, "Levels", defines the
 * levels. */
#include "report.h"
#include <stdio.h>
#include <string.h>

static const char *const levels[] = {
#define X(NAME, name) #name,
    CONFORM_LEVELS(X)
#undef X
};

const char *level_name(enum level level)
{
    return levels[level];
}

enum level level_find(const char *name)
{
    int i = 0;

    while (i < LEVEL_COUNT && strcmp(levels[i], name)) i++;
    return (enum level)i;
}

/* Whether the lowest level cannot be judged, because cases that it needs were left out. */
static bool is_part(const struct report *r)
{
    if (r->options->quick) return true;
    for (size_t i = 0; i < r->n; i++)
        if (!r->at[i].selected && r->at[i].suite <= SUITE_MEMORY) return true;
    return false;
}

/* Whether the case is the note of a kernel row that BP_KERNELS leaves out (the reason of the core
 * says so): the user excludes the row, as an expectation would. */
static bool is_left_out(const struct report_case *c)
{
    static const char reason[] = "left out by BP_KERNELS";

    return c->outcome == OUTCOME_SKIP && !strncmp(c->message, reason, sizeof reason - 1);
}

/* Whether all cases of a suite were run and are good; otherwise sets the reason. A case that the
 * vendor expects to fail, or excludes, does not make a run fail, but the suite does not hold. */
static bool suite_holds(struct report *r, enum suite suite, enum level level)
{
    size_t cases = 0;

    if (r->left_out[suite]) {
        snprintf(r->level_reason, sizeof r->level_reason,
                 "for %s all of suite %s must pass; not all of it was run", level_name(level),
                 suite_name(suite));
        return false;
    }
    for (size_t i = 0; i < r->n; i++) {
        const struct report_case *c = &r->at[i];
        const char *why = NULL;
        if (c->suite != suite) continue;
        cases++;
        if (!c->selected) why = "not run";
        else if (outcome_is_bad(c->outcome)) why = outcome_name(c->outcome);
        else if (c->outcome == OUTCOME_XFAIL || (c->expected && c->outcome == OUTCOME_SKIP))
            why = "only expected";
        else if (is_left_out(c)) why = c->message;
        if (!why) continue;
        snprintf(r->level_reason, sizeof r->level_reason,
                 "for %s all of suite %s must pass; %s: %s", level_name(level), suite_name(suite),
                 c->id, why);
        return false;
    }
    if (!cases)
        snprintf(r->level_reason, sizeof r->level_reason, "suite %s has no cases",
                 suite_name(suite));
    return cases > 0;
}

/* Whether no operator of the level is missing; otherwise sets the reason. */
static bool operators_hold(struct report *r, enum level level)
{
    size_t n = report_missing_of(r, level);
    const struct report_missing *first = r->missing;

    if (!n) return true;
    while (first->level != level) first++;
    snprintf(r->level_reason, sizeof r->level_reason,
             "for %s the device must run %s, of suite %s, %s; operators that are missing: %zu",
             level_name(level), first->op, suite_name(first->suite),
             first->in_part ? "for all cases: it lacks rows for some" : "for which no case passed",
             n);
    return false;
}

static bool is_training(struct report *r)
{
    if (!suite_holds(r, SUITE_GRADIENT, LEVEL_TRAINING)) return false;
    if (!r->suite_totals[SUITE_GRADIENT][OUTCOME_PASS]) {
        snprintf(r->level_reason, sizeof r->level_reason, "for training gradients must pass");
        return false;
    }
    return operators_hold(r, LEVEL_TRAINING);
}

/* Whether there are kernel rows, and all were executed for each of their facts. */
static bool rows_hold(struct report *r)
{
    for (size_t i = 0; i < r->n_row; i++) {
        const struct report_row *row = &r->row[i];
        if (!row->counted || report_row_ran(r, row)) continue;
        snprintf(r->level_reason, sizeof r->level_reason,
                 "for core every kernel row must be executed, in each way that it has cases for; "
                 "%s was not",
                 row->name);
        return false;
    }
    if (!r->rows_total)
        snprintf(r->level_reason, sizeof r->level_reason,
                 "for core there must be a kernel row that is executed");
    return r->rows_total > 0;
}

/* Whether no case of the patterns and of the engine is bad; otherwise sets the reason. */
static bool programs_hold(struct report *r)
{
    for (size_t i = 0; i < r->n; i++) {
        const struct report_case *c = &r->at[i];
        if ((c->suite != SUITE_PASS && c->suite != SUITE_GRAPH) || !c->selected) continue;
        if (!outcome_is_bad(c->outcome) && c->outcome != OUTCOME_XFAIL) continue;
        snprintf(r->level_reason, sizeof r->level_reason,
                 "for core no case of the suites pass and graph may fail; %s: %s", c->id,
                 outcome_name(c->outcome));
        return false;
    }
    return true;
}

void report_find_level(struct report *r)
{
    r->level = LEVEL_NONE;
    report_find_missing(r);
    r->unjudged = is_part(r);
    if (r->unjudged) {
        snprintf(r->level_reason, sizeof r->level_reason, "only a part was run");
        return;
    }
    for (enum suite suite = SUITE_PLUGIN; suite <= SUITE_MEMORY; suite++)
        if (!suite_holds(r, suite, LEVEL_RUNTIME)) return;
    r->level = LEVEL_RUNTIME;
    if (!suite_holds(r, SUITE_KERNEL, LEVEL_CORE)) return;
    if (!rows_hold(r) || !programs_hold(r)) return;
    r->level = LEVEL_CORE;
    if (!operators_hold(r, LEVEL_INFERENCE)) return;
    r->level = LEVEL_INFERENCE;
    if (!is_training(r)) return;
    r->level = LEVEL_TRAINING;
    if (!suite_holds(r, SUITE_CCL, LEVEL_CCL)) return;
    r->level = LEVEL_CCL;
    snprintf(r->level_reason, sizeof r->level_reason, "there is none above");
}

const char *report_level(const struct report *r)
{
    return r->unjudged ? "not judged" : level_name(r->level);
}
