/* SPDX-License-Identifier: Apache-2.0 */
/* level.c: finds the highest level that a run reaches; docs/conformance.md, "Levels", defines the
 * levels. */
#include "report.h"
#include <backplane/backplane.h>
#include <stdio.h>
#include <stdlib.h>
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

/* The results of the cases of an operator: of all cases, and of those whose first dtype is f32. */
enum { ALL, F32, KINDS };
struct ability {
    bool listed[KINDS], passed[KINDS];
    bool lacks[KINDS]; /* the device has no kernel rows for some of the cases */
};

/* dtype: the part of the id behind the operator. */
static void ability_add(struct ability *a, const struct report_case *c, const char *dtype)
{
    bool is_f32 = !strncmp(dtype, "/f32", 4) && strchr("/-@", dtype[4]);
    bool lacks = c->fixed && *dtype == '/'; /* a note kernel/OP/DTYPE@none of list.c, which is no
                                               case */

    for (int k = ALL; k <= (is_f32 ? F32 : ALL); k++) {
        a->listed[k] = true;
        a->passed[k] |= c->outcome == OUTCOME_PASS;
        a->lacks[k] |= lacks;
    }
}

static bool is_named(const struct bp_opinfo *op, const char *name, size_t length)
{
    return !strncmp(op->name, name, length) && !op->name[length];
}

/* Collects the results of a suite with ids SUITE/OPERATOR..., indexed by the number of the
 * operator. */
static struct ability *abilities_create(const struct report *r, enum suite suite)
{
    uint32_t n = bp_opinfo_count(), at = 0;
    struct ability *of = calloc(n, sizeof *of);
    size_t prefix = strlen(suite_name(suite)) + 1;

    if (!of) abort();
    for (size_t i = 0; i < r->n; i++) {
        const char *op;
        size_t length;
        uint32_t tries = n; /* consecutive cases mostly have the same operator */
        if (r->at[i].suite != suite) continue;
        op = r->at[i].id + prefix;
        length = strcspn(op, "/@");
        while (tries && !is_named(bp_opinfo_at(at), op, length)) at = (at + 1) % n, tries--;
        if (tries) ability_add(&of[at], &r->at[i], op + length);
    }
    return of;
}

/* Whether the importer of ONNX models uses this operator. */
static bool is_of_models(const struct bp_opinfo *op)
{
    static const char *const names[] = {
#define MAP(name, since, op, map) #op,
#define ROW(name, since, op, emit) #op,
#include "../../onnx/table.def"
#undef MAP
#undef ROW
    };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i], op->name)) return true;
    return false;
}

/* Whether the operator changes its inputs, as optimizers do with parameters. */
static bool is_update(const struct bp_opinfo *op)
{
    for (uint32_t i = 0; i < op->n_out; i++)
        if (op->out[i].kind == BP_PORT_UPDATE) return true;
    return false;
}

/* Whether each wanted operator has a passing case in the suite, of f32 if the operator has f32
 * cases, and the device has kernel rows for all its cases. must_have false: operators without cases
 * in the suite are not considered. */
static bool operators_hold(struct report *r, enum suite suite, bool must_have,
                           bool (*wanted)(const struct bp_opinfo *op), enum level level)
{
    struct ability *of = abilities_create(r, suite);
    bool good = true;

    for (uint32_t i = 0; i < bp_opinfo_count() && good; i++) {
        int k = of[i].listed[F32] ? F32 : ALL;
        if (!wanted(bp_opinfo_at(i)) || !(must_have || of[i].listed[ALL])) continue;
        good = of[i].passed[k] && !of[i].lacks[k];
        if (!good)
            snprintf(r->level_reason, sizeof r->level_reason,
                     "for %s the device must run %s, of suite %s, %s", level_name(level),
                     bp_opinfo_at(i)->name, suite_name(suite),
                     of[i].passed[k] ? "for all cases: it lacks rows for some"
                                     : "for which no case passed");
    }
    free(of);
    return good;
}

static bool is_inference(struct report *r)
{
    return operators_hold(r, SUITE_KERNEL, true, is_of_models, LEVEL_INFERENCE);
}

static bool is_training(struct report *r)
{
    if (!suite_holds(r, SUITE_GRADIENT, LEVEL_TRAINING)) return false;
    if (!r->suite_totals[SUITE_GRADIENT][OUTCOME_PASS]) {
        snprintf(r->level_reason, sizeof r->level_reason, "for training gradients must pass");
        return false;
    }
    return operators_hold(r, SUITE_GRADIENT, false, is_of_models, LEVEL_TRAINING) &&
           operators_hold(r, SUITE_KERNEL, true, is_update, LEVEL_TRAINING);
}

/* Whether there are kernel rows, and all were executed for each of their facts. */
static bool rows_hold(struct report *r)
{
    for (size_t i = 0; i < r->n_row; i++) {
        const struct report_row *row = &r->row[i];
        if (!row->counted || report_row_ran(r, row)) continue;
        snprintf(r->level_reason, sizeof r->level_reason,
                 "for core every kernel row must be executed, in each way that it has cases for; "
                 "%s was not", row->name);
        return false;
    }
    if (!r->rows_total)
        snprintf(r->level_reason, sizeof r->level_reason,
                 "for core there must be a kernel row that is executed");
    return r->rows_total > 0;
}

void report_find_level(struct report *r)
{
    r->level = LEVEL_NONE;
    r->unjudged = is_part(r);
    if (r->unjudged) {
        snprintf(r->level_reason, sizeof r->level_reason, "only a part was run");
        return;
    }
    for (enum suite suite = SUITE_PLUGIN; suite <= SUITE_MEMORY; suite++)
        if (!suite_holds(r, suite, LEVEL_RUNTIME)) return;
    r->level = LEVEL_RUNTIME;
    if (!suite_holds(r, SUITE_KERNEL, LEVEL_CORE)) return;
    if (!rows_hold(r)) return;
    r->level = LEVEL_CORE;
    if (!is_inference(r)) return;
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
