/* SPDX-License-Identifier: Apache-2.0 */
/* json.c: writes the report for programs. Later versions may add keys, but do not remove any. */
#include <ops/common/cases.h>
#include "report.h"
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <sys/resource.h>

static void add_totals(cJSON *to, const struct report *r)
{
    for (int i = 0; i < OUTCOME_COUNT; i++)
        cJSON_AddNumberToObject(to, outcome_name((enum outcome)i), (double)r->totals[i]);
}

/* Processor time of this process and of its children that have ended. */
static double processor_seconds(void)
{
    static const int usage[] = {RUSAGE_SELF, RUSAGE_CHILDREN};
    double seconds = 0;

    for (int i = 0; i < 2; i++) {
        struct rusage used;
        if (getrusage(usage[i], &used)) continue;
        seconds += (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                   1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
    }
    return seconds;
}

/* For each fact: the number of rows that have such cases, and the number of rows that were executed
 * in one. */
static void add_facts(cJSON *to, const struct report *r)
{
    for (int f = 0; f < ROW_FACT_COUNT; f++) {
        cJSON *fact = cJSON_AddObjectToObject(to, report_fact_key[f]);
        cJSON_AddNumberToObject(fact, "executed", (double)r->fact[f].executed);
        cJSON_AddNumberToObject(fact, "total", (double)r->fact[f].total);
    }
}

static void add_steps(cJSON *to, const struct report *r, const struct report_case *c)
{
    for (size_t i = 0; i < c->n_step; i++)
        cJSON_AddItemToArray(to, cJSON_CreateString(r->row[c->step[i]].name));
}

static void add_cases(cJSON *to, const struct report *r)
{
    for (size_t i = 0; i < r->n; i++) {
        const struct report_case *c = &r->at[i];
        cJSON *entry;
        if (!c->selected) continue;
        entry = cJSON_CreateObject();
        cJSON_AddStringToObject(entry, "id", c->id);
        cJSON_AddStringToObject(entry, "outcome", outcome_name(c->outcome));
        cJSON_AddNumberToObject(entry, "seconds", c->seconds);
        cJSON_AddStringToObject(entry, "message", c->message);
        if (c->known) cJSON_AddTrueToObject(entry, "known");
        if (c->repaired) cJSON_AddTrueToObject(entry, "fixed");
        if (c->worst >= 0) cJSON_AddNumberToObject(entry, "worst", c->worst);
        if (c->n_step) add_steps(cJSON_AddArrayToObject(entry, "steps"), r, c);
        cJSON_AddItemToArray(to, entry);
    }
}

static void add_accuracy(cJSON *to, const struct report *r)
{
    struct report_accuracy *a;
    size_t n = report_accuracy(r, &a);

    for (size_t i = 0; i < n; i++) {
        const struct conform_op *op = conform_op(a[i].op);
        cJSON *entry = cJSON_CreateObject();
        cJSON_AddStringToObject(entry, "op", a[i].op);
        cJSON_AddStringToObject(entry, "dtype", a[i].dtype);
        cJSON_AddStringToObject(entry, "row", a[i].row);
        cJSON_AddNumberToObject(entry, "worst", a[i].worst);
        cJSON_AddStringToObject(entry, "id", a[i].id);
        if (op) cJSON_AddNumberToObject(entry, "ulp", op->ulp); /* none of a plugin's operators */
        if (op) cJSON_AddNumberToObject(entry, "terms", op->terms);
        cJSON_AddItemToArray(to, entry);
    }
    free(a);
}

/* Only runs of models have such a list. */
static void add_blockers(cJSON *to, const struct report *r)
{
    struct report_blocker *blocker;
    size_t n = report_blockers(r, &blocker);

    for (size_t i = 0; i < n; i++) {
        cJSON *entry = cJSON_CreateObject();
        cJSON_AddStringToObject(entry, "name", blocker[i].name);
        cJSON_AddNumberToObject(entry, "models", (double)blocker[i].models);
        cJSON_AddItemToArray(to, entry);
    }
    free(blocker);
}

static void add_missing(cJSON *to, const struct report *r)
{
    for (size_t i = 0; i < r->n_missing && !r->unjudged; i++) {
        const struct report_missing *m = &r->missing[i];
        cJSON *entry = cJSON_CreateObject();
        cJSON_AddStringToObject(entry, "op", m->op);
        cJSON_AddStringToObject(entry, "level", level_name(m->level));
        cJSON_AddStringToObject(entry, "suite", suite_name(m->suite));
        cJSON_AddBoolToObject(entry, "in_part", m->in_part);
        cJSON_AddNumberToObject(entry, "models", m->models);
        cJSON_AddItemToArray(to, entry);
    }
}

void report_json(const struct report *r, FILE *file)
{
    cJSON *json = cJSON_CreateObject(), *rows;
    char *text;

    cJSON_AddStringToObject(json, "report", "conform");
    cJSON_AddNumberToObject(json, "format", REPORT_FORMAT);
    cJSON_AddStringToObject(json, "device", r->device);
    cJSON_AddStringToObject(json, "description", r->description ? r->description : "");
    cJSON_AddStringToObject(json, "driver", r->driver ? r->driver : "");
    cJSON_AddStringToObject(json, "level", level_name(r->level));
    cJSON_AddBoolToObject(json, "judged", !r->unjudged);
    cJSON_AddStringToObject(json, "level_reason", r->level_reason);
    cJSON_AddBoolToObject(json, "quick", r->options->quick);
    cJSON_AddNumberToObject(json, "seed", (double)r->options->seed);
    cJSON_AddStringToObject(json, "machine", r->machine);
    if (r->options->note) cJSON_AddStringToObject(json, "note", r->options->note);
    cJSON_AddNumberToObject(json, "processor_seconds", processor_seconds());
    add_totals(cJSON_AddObjectToObject(json, "totals"), r);
    rows = cJSON_AddObjectToObject(json, "rows");
    cJSON_AddNumberToObject(rows, "executed", (double)r->rows_executed);
    cJSON_AddNumberToObject(rows, "total", (double)r->rows_total);
    add_facts(cJSON_AddObjectToObject(json, "row_ways"), r);
    add_cases(cJSON_AddArrayToObject(json, "cases"), r);
    if (r->n_expired)
        cJSON_AddItemToObject(json, "expired",
                              cJSON_CreateStringArray((const char *const *)r->expired,
                                                      (int)r->n_expired));
    add_accuracy(cJSON_AddArrayToObject(json, "accuracy"), r);
    if (r->options->data) add_blockers(cJSON_AddArrayToObject(json, "missing"), r);
    else add_missing(cJSON_AddArrayToObject(json, "missing_operators"), r);
    text = cJSON_PrintUnformatted(json);
    if (text) fprintf(file, "%s\n", text);
    cJSON_free(text);
    cJSON_Delete(json);
}
