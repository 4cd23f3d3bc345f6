/* SPDX-License-Identifier: Apache-2.0 */
/* report_cases.c: makes the cases of a conformance report again from its JSON, so that `bp report`
 * shows them by the functions that write the suite's own page. */
#include "device_report.h"

#include <earlier.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The suite of an id: the part before the first '/'. */
static enum suite cases_suite(const char *id)
{
    size_t length = strcspn(id, "/");
    int suite = 0;

    while (suite < SUITE_COUNT && (strncmp(suite_name((enum suite)suite), id, length) ||
                                   suite_name((enum suite)suite)[length]))
        suite++;
    return (enum suite)suite;
}

/* Whether an id is that of a note, kernel/OP/DTYPE@none: the device has no kernel row for cases of
 * this dtype. Cases of operators that run as several steps have longer ids that end like this. */
static bool cases_is_note(const char *id)
{
    const char *op = strchr(id, '/'), *dtype = op ? strchr(op + 1, '/') : NULL;

    return dtype && !strcmp(dtype + strcspn(dtype, "@"), "@none") && !strchr(dtype + 1, '/');
}

static void cases_take(struct report *r, const cJSON *json, const struct earlier *e)
{
    const struct earlier_case *known = earlier_find(e, bp_json_get(json, "id"));
    enum suite suite = cases_suite(bp_json_get(json, "id"));
    double worst = bp_json_number(json, "worst");
    struct report_case *c = &r->at[r->n];

    if (!known || suite == SUITE_COUNT || known->outcome == OUTCOME_COUNT) return;
    *c = (struct report_case){.id = bp_text_clean(known->id),
                              .message = bp_text_clean(known->message),
                              .suite = suite,
                              .row = -1,
                              .selected = true,
                              .outcome = known->outcome,
                              .seconds = known->seconds,
                              .worst = isnan(worst) ? -1 : worst};
    c->fixed = cases_is_note(c->id);
    r->n++;
    r->selected++;
    r->totals[c->outcome]++;
    r->suite_totals[suite][c->outcome]++;
    r->seconds += c->seconds;
}

/* Whether the report has a case or a note of the operator: a run with --filter has not. */
static bool cases_have(const struct report *r, enum suite suite, const char *op)
{
    char prefix[80];
    size_t n = (size_t)snprintf(prefix, sizeof prefix, "%s/%s", suite_name(suite), op);

    for (size_t i = 0; i < r->n; i++)
        if (!strncmp(r->at[i].id, prefix, n) && strchr("/@", r->at[i].id[n])) return true;
    return false;
}

/* Takes operators off of which the run tried nothing. */
static void cases_drop_unknown(struct report *r)
{
    size_t kept = 0;

    for (size_t i = 0; i < r->n_missing; i++)
        if (cases_have(r, r->missing[i].suite, r->missing[i].op))
            r->missing[kept++] = r->missing[i];
    r->n_missing = kept;
}

/* Lists the operators that the levels lack: as the report does, if it was judged, else from the
 * cases. A quick run has cases of each operator, but not of all gradients. */
static void cases_missing(struct device_report *d)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(d->conform, "missing_operators"), *one;
    struct report *r = &d->cases;

    r->left_out[SUITE_GRADIENT] = cJSON_IsTrue(
        cJSON_GetObjectItemCaseSensitive(d->conform, "quick"));
    report_find_missing(r);
    cases_drop_unknown(r);
    if (cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(d->conform, "judged"))) return;
    r->n_missing = 0;
    cJSON_ArrayForEach(one, list)
    {
        const struct bp_opinfo *op = bp_opinfo_find(bp_json_get(one, "op"));
        enum level level = level_find(bp_json_get(one, "level"));
        double models = bp_json_number(one, "models");
        if (!op || level == LEVEL_COUNT || r->n_missing == bp_opinfo_count()) continue;
        r->missing[r->n_missing++] = (struct report_missing){
            .op = op->name,
            .level = level,
            .in_part = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(one, "in_part")),
            .models = models > 0 && models < 1e6 ? (unsigned)models : 0};
    }
}

bool device_cases_init(struct device_report *d, char *out_why, size_t size)
{
    const cJSON *cases = cJSON_GetObjectItemCaseSensitive(d->conform, "cases"), *one;
    struct report *r = &d->cases;
    struct earlier e;

    if (!earlier_init(&e, d->conform, out_why, size)) return false;
    r->options = &d->options;
    r->device = bp_text_clean(e.device);
    d->options.command = "conform";
    d->options.device = r->device;
    d->options.seed = e.seed > 0 && e.seed < 0x1p53 ? (uint64_t)e.seed : 0;
    r->at = calloc((size_t)cJSON_GetArraySize(cases) + 1, sizeof *r->at);
    if (!r->at) abort();
    cJSON_ArrayForEach(one, cases) cases_take(r, one, &e);
    r->level = level_find(e.level) == LEVEL_COUNT ? LEVEL_NONE : level_find(e.level);
    earlier_finish(&e);
    cases_missing(d);
    return true;
}

void device_cases_finish(struct device_report *d)
{
    struct report *r = &d->cases;

    for (size_t i = 0; i < r->n; i++) {
        free(r->at[i].id);
        free(r->at[i].message);
    }
    free(r->at);
    free(r->missing);
    free(r->device);
}
