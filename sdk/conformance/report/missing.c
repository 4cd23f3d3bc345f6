/* SPDX-License-Identifier: Apache-2.0 */
/* missing.c: lists the operators that a device lacks for the levels inference and training;
 * docs/conformance.md, "Levels", defines them. */
#include "report.h"
#include <backplane/backplane.h>
#include <stdlib.h>
#include <string.h>

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

/* The number of ONNX's test models that use the operator. */
static unsigned models_using(const struct bp_opinfo *op)
{
    static const struct {
        const char *op;
        unsigned models;
    } uses[] = {
#define USES(op, models) {#op, models},
#include "models.def"
#undef USES
    };

    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++)
        if (!strcmp(uses[i].op, op->name)) return uses[i].models;
    return 0;
}

/* Whether the operator changes its inputs, as optimizers do with parameters. */
static bool is_update(const struct bp_opinfo *op)
{
    for (uint32_t i = 0; i < op->n_out; i++)
        if (op->out[i].kind == BP_PORT_UPDATE) return true;
    return false;
}

/* Adds each wanted operator without a passing case in the suite, of f32 if the operator has f32
 * cases, or for some of whose cases the device has no kernel rows. must_have false: operators
 * without cases in the suite are not considered. */
static void missing_add(struct report *r, enum suite suite, bool must_have,
                        bool (*wanted)(const struct bp_opinfo *op), enum level level)
{
    struct ability *of;

    if (r->left_out[suite]) return;
    of = abilities_create(r, suite);
    for (uint32_t i = 0; i < bp_opinfo_count(); i++) {
        const struct bp_opinfo *op = bp_opinfo_at(i);
        int k = of[i].listed[F32] ? F32 : ALL;
        size_t known = 0;
        if (!wanted(op) || !(must_have || of[i].listed[ALL])) continue;
        if (of[i].passed[k] && !of[i].lacks[k]) continue;
        while (known < r->n_missing && strcmp(r->missing[known].op, op->name)) known++;
        if (known < r->n_missing) continue; /* a lower level lacks it already */
        r->missing[r->n_missing++] =
            (struct report_missing){op->name, level, suite, of[i].passed[k], models_using(op)};
    }
    free(of);
}

static int missing_order(const void *a, const void *b)
{
    const struct report_missing *x = a, *y = b;

    if (x->level != y->level) return x->level < y->level ? -1 : 1;
    if (x->models != y->models) return x->models > y->models ? -1 : 1;
    return strcmp(x->op, y->op);
}

void report_find_missing(struct report *r)
{
    free(r->missing);
    r->n_missing = 0;
    r->missing = calloc(bp_opinfo_count(), sizeof *r->missing);
    if (!r->missing) abort();
    missing_add(r, SUITE_KERNEL, true, is_of_models, LEVEL_INFERENCE);
    missing_add(r, SUITE_GRADIENT, false, is_of_models, LEVEL_TRAINING);
    missing_add(r, SUITE_KERNEL, true, is_update, LEVEL_TRAINING);
    qsort(r->missing, r->n_missing, sizeof *r->missing, missing_order);
}

size_t report_missing_of(const struct report *r, enum level level)
{
    size_t n = 0;

    for (size_t i = 0; i < r->n_missing; i++) n += r->missing[i].level == level;
    return n;
}
