/* SPDX-License-Identifier: Apache-2.0 */
/* judge.c: judges a run: counts outcomes and executed kernel rows, and finds the worst errors. */
#include "report.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whether the case requires its row to be executed. In a shard, a case that was skipped or is
 * unsupported does not, and one that passed because the row may refuse it (strided tensors) does
 * not, because the cases that can run may be in another shard. */
static bool requests_row(const struct report *r, const struct report_case *c)
{
    bool left = c->outcome == OUTCOME_SKIP || c->outcome == OUTCOME_UNSUPPORTED ||
                (c->outcome == OUTCOME_PASS && !c->executed);

    if (c->facts >> ROW_WITHIN & 1) return false; /* the row is only a step in this case */
    return c->row >= 0 && !(r->options->shards && left);
}

/* Whether the case requires its row to run for the case's facts. Unsupported cases and those that
 * the vendor excludes do not; they prevent the level instead. */
static bool requests_fact(const struct report_case *c)
{
    if (c->facts >> ROW_MAY_DECLINE & 1) return false;
    return c->row >= 0 && !c->expected && c->outcome != OUTCOME_UNSUPPORTED;
}

static void judge_count(struct report *r)
{
    memset(r->totals, 0, sizeof r->totals);
    memset(r->suite_totals, 0, sizeof r->suite_totals);
    r->selected = r->broken = r->rows_executed = r->rows_total = 0;
    for (size_t i = 0; i < r->n_row; i++) r->row[i].has = r->row[i].ran = 0;
    for (size_t i = 0; i < r->n; i++) {
        const struct report_case *c = &r->at[i];
        if (!c->selected) continue;
        r->selected++;
        if (requests_row(r, c)) r->row[c->row].selected = true;
        if (requests_fact(c)) r->row[c->row].has |= c->facts;
        if (c->row >= 0 && c->executed) {
            r->row[c->row].executed |= !(c->facts >> ROW_WITHIN & 1);
            r->row[c->row].ran |= c->facts;
        }
        if (c->outcome == OUTCOME_COUNT) {
            r->broken++;
            continue;
        }
        r->totals[c->outcome]++;
        r->suite_totals[c->suite][c->outcome]++;
    }
    report_find_within(r, requests_fact);
}

/* Counts the rows. A row without cases in the suite is counted, as not executed, if the whole suite
 * kernel is run. */
static void count_rows(struct report *r)
{
    bool all = r->options->n_filters == 0 && r->options->shards == 0;

    all = all && (!r->options->suites || strstr(r->options->suites, "kernel"));
    r->whole = all && !r->options->quick;
    memset(r->fact, 0, sizeof r->fact);
    for (size_t i = 0; i < r->n_row; i++) {
        struct report_row *row = &r->row[i];
        row->counted = row->usable && (row->selected || all);
        if (!row->counted) continue;
        r->rows_total++;
        r->rows_executed += row->executed;
        for (int f = 0; f < ROW_FACT_COUNT; f++) {
            r->fact[f].total += row->has >> f & 1;
            r->fact[f].executed += (row->has & row->ran) >> f & 1;
        }
    }
}

const char *const report_fact_text[] = {
#define X(NAME, number, key, text) [ROW_##NAME] = text,
    ROW_FACTS(X)
#undef X
};
const char *const report_fact_key[] = {
#define X(NAME, number, key, text) [ROW_##NAME] = #key,
    ROW_FACTS(X)
#undef X
};

bool report_row_ran(const struct report *r, const struct report_row *row)
{
    return row->executed && (!r->whole || !(row->has & ~row->ran));
}

void report_judge(struct report *report)
{
    judge_count(report);
    count_rows(report);
    report_find_level(report);
}

bool report_is_good(const struct report *r)
{
    for (int i = 0; i < OUTCOME_COUNT; i++)
        if (r->totals[i] && outcome_is_bad((enum outcome)i)) return false;
    for (size_t i = 0; i < r->n_row; i++)
        if (r->row[i].counted && !report_row_ran(r, &r->row[i])) return false;
    return !r->broken && !r->n_expired;
}

const char *report_worst(double worst, char *text, size_t size)
{
    enum {
        TELLING = 1000000
    };

    /* Children report 1e300 if the result was NaN or an infinity where a number was expected. */
    if (worst < TELLING) snprintf(text, size, "%.3g", worst);
    else snprintf(text, size, "over");
    return text;
}

char *report_command(const struct report *r, const struct report_case *c)
{
    char *command = NULL, seed[40] = "";
    bool quote = strpbrk(r->options->device, " '\"$\\()&;*?") != NULL;

    if (r->options->seed)
        snprintf(seed, sizeof seed, " --seed %llu", (unsigned long long)r->options->seed);
    if (asprintf(&command, "bp %s %s%s%s%s%s --filter '%s'%s", r->options->command,
                 r->options->data ? r->options->data : "", r->options->data ? " --device " : "",
                 quote ? "'" : "", r->options->device, quote ? "'" : "", c->id, seed) < 0)
        abort();
    return command;
}

bool report_parts(const char *id, char op[40], char dtypes[24], char row[64])
{
    const char *at = strchr(id, '@');

    row[0] = 0;
    if (at) snprintf(row, 64, "%s", at + 1);
    return at && sscanf(id, "kernel/%39[^/]/%23[^/]/", op, dtypes) == 2;
}

size_t report_accuracy(const struct report *r, struct report_accuracy **out)
{
    struct report_accuracy *all = calloc(r->n + 1, sizeof *all);
    size_t n = 0, k;

    if (!all) abort();
    for (size_t i = 0; i < r->n; i++) {
        struct report_accuracy a = {.worst = r->at[i].worst, .id = r->at[i].id};
        if (!r->at[i].selected || a.worst < 0 || !report_parts(a.id, a.op, a.dtype, a.row))
            continue;
        for (k = 0; k < n; k++)
            if (!strcmp(all[k].op, a.op) && !strcmp(all[k].dtype, a.dtype) &&
                !strcmp(all[k].row, a.row))
                break;
        if (k == n) all[n++] = a;
        else if (a.worst > all[k].worst) all[k] = a;
    }
    if (out) *out = all;
    else free(all);
    return n;
}
