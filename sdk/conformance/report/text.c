/* SPDX-License-Identifier: Apache-2.0 */
/* text.c: writes the report as text for people. */
#include "report.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Replaces control characters: text of plugins and of crashed children may contain any bytes. */
static void print_clean(FILE *file, const char *text)
{
    for (; *text; text++)
        fputc(*text == '\n' ? ' ' : iscntrl((unsigned char)*text) ? '?' : *text, file);
}

static void print_totals(FILE *file, const size_t *totals)
{
    const char *between = "";

    for (int i = 0; i < OUTCOME_COUNT; i++) {
        if (!totals[i]) continue;
        fprintf(file, "%s%zu %s", between, totals[i], outcome_name((enum outcome)i));
        between = ", ";
    }
}

enum {
    SHOWN = 20,
    SHOWN_OF_ROW = 3
};

/* Counts of the cases of a kernel row, or of all cases without one. */
struct tally {
    size_t cases, bad, shown;
};

static void print_failure(const struct report *r, const struct report_case *c, FILE *file)
{
    char *command = report_command(r, c);

    fprintf(file, "\n%s  %s\n  ", outcome_name(c->outcome), c->id);
    print_clean(file, c->message);
    fprintf(file, "\n  %s\n", command);
    free(command);
}

/* A broken row fails in most of its cases. The first failures of a row are printed; the others are
 * only counted. */
static void print_failures(const struct report *r, FILE *file)
{
    struct tally *tally = calloc(r->n_row + 1, sizeof *tally), *others = tally + r->n_row;
    size_t shown = 0;
    const char *before = "\n";

    if (!tally) abort();
    for (size_t i = 0; i < r->n; i++) {
        const struct report_case *c = &r->at[i];
        struct tally *t = c->row < 0 ? others : &tally[c->row];
        if (!c->selected) continue;
        t->cases++;
        if (!outcome_is_bad(c->outcome)) continue;
        t->bad++;
        if (shown == SHOWN || (t != others && t->shown == SHOWN_OF_ROW)) continue;
        print_failure(r, c, file);
        t->shown++;
        shown++;
    }
    for (struct tally *t = tally; t <= others; t++) {
        if (t->bad == t->shown) continue;
        fprintf(file, "%s%s: %zu of %zu cases fail; %zu more are in --json\n", before,
                t < others ? r->row[t - tally].name : "other suites", t->bad, t->cases,
                t->bad - t->shown);
        before = "";
    }
    free(tally);
}

/* Prints the operators in whose decomposition the row should have run and did not. */
static void print_not_within(const struct report *r, int row, FILE *file)
{
    const char *before = " (in ";

    for (size_t i = 0; i < r->n_within; i++) {
        const struct report_within *w = &r->within[i];
        if (w->row != row || !w->has || w->ran) continue;
        fprintf(file, "%s%s", before, w->op);
        before = ", ";
    }
    fprintf(file, ")");
}

/* Prints the rows that were never executed (fact < 0), or not for one fact. */
static void print_not_executed(const struct report *r, int fact, FILE *file)
{
    fprintf(file, "not executed%s%s:", fact < 0 ? "" : " ",
            fact < 0 ? "" : report_fact_text[fact]);
    for (size_t i = 0; i < r->n_row; i++) {
        const struct report_row *row = &r->row[i];
        bool lacks = fact < 0 ? !row->executed : (row->has & ~row->ran) >> fact & 1;
        if (!row->counted || !lacks) continue;
        fprintf(file, " %s", row->name);
        if (fact == ROW_WITHIN) print_not_within(r, (int)i, file);
    }
    fprintf(file, "\n");
}

static void print_rows(const struct report *r, FILE *file)
{
    fprintf(file, "kernel rows executed %zu of %zu", r->rows_executed, r->rows_total);
    for (int f = 0; f < ROW_FACT_COUNT; f++)
        if (r->fact[f].total)
            fprintf(file, "; %s %zu of %zu", report_fact_text[f], r->fact[f].executed,
                    r->fact[f].total);
    fprintf(file, "\n");
    if (r->rows_executed < r->rows_total) print_not_executed(r, -1, file);
    for (int f = 0; f < ROW_FACT_COUNT && r->whole; f++)
        if (r->fact[f].executed < r->fact[f].total) print_not_executed(r, f, file);
}

/* Prints one line for each operator: the worst error of its rows for each float dtype. */
static void print_accuracy(const struct report *r, FILE *file)
{
    static const char *const dtypes[] = {"f16", "bf16", "f32", "f64", "c64", "c128"};
    struct report_accuracy *a;
    size_t n = report_accuracy(r, &a);
    char text[16];

    for (size_t i = 0; i < n; i++) {
        size_t before = 0;
        while (before < i && strcmp(a[before].op, a[i].op)) before++;
        if (before < i) continue;
        fprintf(file, "  %-17s", a[i].op);
        for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
            double worst = -1;
            for (size_t k = 0; k < n; k++)
                if (!strcmp(a[k].op, a[i].op) && strcspn(a[k].dtype, "-") == strlen(dtypes[d]) &&
                    !strncmp(a[k].dtype, dtypes[d], strlen(dtypes[d])) && a[k].worst > worst)
                    worst = a[k].worst;
            if (worst >= 0)
                fprintf(file, "  %s %s", dtypes[d], report_worst(worst, text, sizeof text));
        }
        fprintf(file, "\n");
    }
    free(a);
}

/* Prints the missing features that most models need. */
static void print_blockers(const struct report *r, FILE *file)
{
    enum { MOST = 12 };
    struct report_blocker *blocker;
    size_t n = report_blockers(r, &blocker);

    if (n) fprintf(file, "\nmissing, and how many models need it:\n");
    for (size_t i = 0; i < n && i < MOST; i++) {
        fprintf(file, "  %5zu  ", blocker[i].models);
        print_clean(file, blocker[i].name);
        fprintf(file, "\n");
    }
    if (n > MOST) fprintf(file, "  %zu more are in --json\n", n - MOST);
    free(blocker);
}

/* Prints the operators that a level needs and the device lacks, in lines of at most 100 columns. */
static void print_missing(const struct report *r, enum level level, FILE *file)
{
    enum { INDENT = 13, WIDTH = 100 };
    int column = fprintf(file, "  %-9s ", level_name(level));
    const char *comma = "";

    for (size_t i = 0; i < r->n_missing; i++) {
        const struct report_missing *m = &r->missing[i];
        char text[64];
        int n;
        if (m->level != level) continue;
        n = snprintf(text, sizeof text, "%s%s", m->op, m->in_part ? "*" : "");
        if (m->models) n += snprintf(text + n, sizeof text - (size_t)n, " %u", m->models);
        column += fprintf(file, "%s", comma);
        if (column + 1 + n >= WIDTH) column = fprintf(file, "\n%*s", INDENT - 1, "") - 1;
        column += fprintf(file, " %s", text);
        comma = ",";
    }
    fprintf(file, "\n");
}

static void print_all_missing(const struct report *r, FILE *file)
{
    if (r->unjudged || !r->n_missing) return;
    fprintf(file, "\nmissing operators by level, those first that most of ONNX's test models use "
                  "(*: for some cases):\n");
    for (int level = LEVEL_NONE; level < LEVEL_COUNT; level++)
        if (report_missing_of(r, (enum level)level)) print_missing(r, (enum level)level, file);
}

/* Prints the ids of the cases that `has` selects, behind a title; the first ones only. */
static void print_ids(const struct report *r, const char *title,
                      bool (*has)(const struct report_case *c), FILE *file)
{
    size_t n = 0;

    for (size_t i = 0; i < r->n; i++) n += r->at[i].selected && has(&r->at[i]);
    fprintf(file, "%s: %zu\n", title, n);
    for (size_t i = 0, shown = 0; i < r->n && shown < SHOWN; i++)
        if (r->at[i].selected && has(&r->at[i])) {
            fprintf(file, "  %s\n", r->at[i].id);
            shown++;
        }
    if (n > SHOWN) fprintf(file, "  %zu more are in --json\n", n - SHOWN);
}

static bool is_known(const struct report_case *c)
{
    return c->known;
}

static bool is_repaired(const struct report_case *c)
{
    return c->repaired;
}

/* Prints the cases that the baseline has as failures, and the expectations that are out of date. */
static void print_earlier(const struct report *r, FILE *file)
{
    if (r->compared) {
        fprintf(file, "\n");
        print_ids(r, "known failures, as in the baseline", is_known, file);
        print_ids(r, "fixed since the baseline", is_repaired, file);
    }
    for (size_t i = 0; i < r->n_expired; i++) {
        fprintf(file, "%sEXPIRED ", i ? "" : "\n");
        print_clean(file, r->expired[i]);
        fprintf(file, "\n");
    }
}

void report_text(const struct report *r, FILE *file)
{
    fprintf(file, "%s  ", r->device);
    print_clean(file, r->description);
    fprintf(file, "  seed %llu\n", (unsigned long long)r->options->seed);
    if (r->options->note) {
        fprintf(file, "  ");
        print_clean(file, r->options->note);
        fprintf(file, "\n");
    }
    for (int s = 0; s < SUITE_COUNT; s++) {
        size_t any = 0;
        for (int o = 0; o < OUTCOME_COUNT; o++) any += r->suite_totals[s][o];
        if (!any) continue;
        fprintf(file, "  %-8s  ", suite_name((enum suite)s));
        print_totals(file, r->suite_totals[s]);
        fprintf(file, "\n");
    }
    print_failures(r, file);
    if (r->suite_totals[SUITE_KERNEL][OUTCOME_PASS]) {
        fprintf(file, "\nlargest error, as a part of what is allowed (1 is the tolerance; correct "
                      "rounding may use all of it)\n");
        print_accuracy(r, file);
    }
    print_earlier(r, file);
    fprintf(file, "\n");
    print_totals(file, r->totals);
    if (r->broken)
        fprintf(file, "%s%zu WITHOUT A RESULT", r->broken < r->selected ? ", " : "", r->broken);
    fprintf(file, " in %.1f s\n", r->seconds);
    if (r->options->data) {
        print_blockers(r, file);
        return;
    }
    print_all_missing(r, file);
    print_rows(r, file);
    fprintf(file, "level %s (%s)\n", report_level(r), r->level_reason);
}
