/* SPDX-License-Identifier: Apache-2.0 */
/* html.c: writes the report as one self-contained HTML page: verdict, totals, failures, support
 * matrix, worst errors. */
#include "escape.h"
#include "report.h"
#include <backplane/backplane.h>
#include <stdlib.h>
#include <string.h>

static void print_head(const struct report *r, FILE *file)
{
    bool good = report_is_good(r);

    report_page_begin("Conformance of ", r->device, "", file);
    fprintf(file, "<p>");
    escape(file, r->description);
    fprintf(file, " <span class=\"soft\">");
    escape(file, r->driver);
    fprintf(file, "</span></p>\n");
    if (r->options->note) {
        fprintf(file, "<p>");
        escape(file, r->options->note);
        fprintf(file, "</p>\n");
    }
    fprintf(file, "<p class=\"soft\">");
    escape(file, r->machine);
    fprintf(file,
            "</p>\n<p><span class=\"verdict %s\">%s</span><span class=\"verdict %s\">level "
            "%s</span></p>\n",
            good ? "good" : "bad", good ? "passed" : "failed",
            r->level > LEVEL_NONE ? "good" : "dull", report_level(r));
    fprintf(file, "<p class=\"soft\">");
    escape(file, r->level_reason);
    fprintf(file, "</p>\n<p>%zu cases in %.1f s, seed %llu; kernel rows executed %zu of %zu",
            r->selected, r->seconds, (unsigned long long)r->options->seed, r->rows_executed,
            r->rows_total);
    for (int f = 0; f < ROW_FACT_COUNT; f++)
        if (r->fact[f].total)
            fprintf(file, "; %s %zu of %zu", report_fact_text[f], r->fact[f].executed,
                    r->fact[f].total);
    fprintf(file, ".</p>\n");
    for (size_t i = 0; i < r->n_missing && !r->unjudged; i++) {
        const struct report_missing *m = &r->missing[i];
        if (i == 0 || r->missing[i - 1].level != m->level)
            fprintf(file,
                    "%s<p>missing for level %s, with the number of ONNX's test models that use "
                    "each: ",
                    i ? "</p>\n" : "", level_name(m->level));
        else fprintf(file, ", ");
        fprintf(file, "%s%s %u", m->op, m->in_part ? " (for some cases)" : "", m->models);
    }
    if (r->n_missing && !r->unjudged) fprintf(file, "</p>\n");
}

/* Expectations that are out of date, and the cases that the baseline has as failures. */
static void print_earlier(const struct report *r, FILE *file)
{
    size_t known = 0, repaired = 0;

    for (size_t i = 0; i < r->n_expired; i++) {
        fprintf(file, "<div class=\"failure\"><strong>expired</strong> <span class=\"id\">");
        escape(file, r->expired[i]);
        fprintf(file, "</span></div>\n");
    }
    if (!r->compared) return;
    for (size_t i = 0; i < r->n; i++) {
        known += r->at[i].known;
        repaired += r->at[i].repaired;
    }
    fprintf(file, "<p>Failures that the baseline knows: %zu; fixed since the baseline: %zu.</p>\n",
            known, repaired);
    for (size_t i = 0, shown = 0; i < r->n && shown < 300; i++) {
        if (!r->at[i].repaired) continue;
        fprintf(file, "<p class=\"id\">fixed: ");
        escape(file, r->at[i].id);
        fprintf(file, "</p>\n");
        shown++;
    }
}

void report_html_totals(const struct report *r, FILE *file)
{
    fprintf(file, "<h2>Totals</h2>\n<div class=\"scroll\"><table><thead><tr><th>suite</th>");
    for (int o = 0; o < OUTCOME_COUNT; o++)
        fprintf(file, "<th>%s</th>", outcome_name((enum outcome)o));
    fprintf(file, "</tr></thead><tbody>\n");
    for (int s = 0; s <= SUITE_COUNT; s++) {
        const size_t *totals = s < SUITE_COUNT ? r->suite_totals[s] : r->totals;
        fprintf(file, "<tr><th>%s</th>", s < SUITE_COUNT ? suite_name((enum suite)s) : "all");
        for (int o = 0; o < OUTCOME_COUNT; o++)
            fprintf(file, "<td class=\"%s\">%zu</td>",
                    !totals[o]                        ? "none"
                    : outcome_is_bad((enum outcome)o) ? "bad"
                                                      : "",
                    totals[o]);
        fprintf(file, "</tr>\n");
    }
    fprintf(file, "</tbody></table></div>\n");
}

/* The results of the cases of an operator, or of a collective call, with a dtype of its first type
 * variable. */
struct cell {
    size_t good, bad, other;
};

static void count_cell(const struct report *r, const char *suite, const char *op, const char *dtype,
                       struct cell *cell)
{
    char prefix[80];
    size_t n;

    snprintf(prefix, sizeof prefix, "%s/%s/%s", suite, op, dtype);
    n = strlen(prefix);
    for (size_t i = 0; i < r->n; i++) {
        const struct report_case *c = &r->at[i];
        if (!c->selected || strncmp(c->id, prefix, n) || (c->id[n] != '/' && c->id[n] != '-'))
            continue;
        cell->good += c->outcome == OUTCOME_PASS;
        cell->bad += outcome_is_bad(c->outcome);
        cell->other += c->outcome != OUTCOME_PASS && !outcome_is_bad(c->outcome);
    }
}

/* types: mask of the dtypes that the operator has. */
static void print_support(const struct report *r, const char *suite, const char *name,
                          uint64_t types, FILE *file)
{
    fprintf(file, "<tr><th>");
    escape(file, name);
    fprintf(file, "</th>");
    for (uint32_t d = 0; d < 64; d++) {
        struct cell cell = {0};
        if (!(BP_MASK_ANY >> d & 1)) continue;
        if (!(types >> d & 1)) {
            fprintf(file, "<td></td>");
            continue;
        }
        count_cell(r, suite, name, bp_dtype_name(d), &cell);
        if (cell.bad) fprintf(file, "<td class=\"bad\">%zu fail</td>", cell.bad);
        else if (cell.good) fprintf(file, "<td class=\"good\">%zu</td>", cell.good);
        else fprintf(file, "<td class=\"none\">%s</td>", cell.other ? "skip" : "&ndash;");
    }
    fprintf(file, "</tr>\n");
}

/* The name of an operator of a plugin, DOMAIN.NAME, of a case kernel/DOMAIN.NAME/... or
 * kernel/DOMAIN.NAME@ROW. */
static bool own_operator(const struct report_case *c, char *out, size_t size)
{
    const char *op = strncmp(c->id, "kernel/", 7) ? "" : c->id + 7;
    size_t length = strcspn(op, "/@");

    if (!c->selected || !memchr(op, '.', length) || length >= size) return false;
    snprintf(out, size, "%.*s", (int)length, op);
    return true;
}

/* Operators that only this device's plugin has. Without cases nothing is known of their results. */
static void print_own(const struct report *r, FILE *file)
{
    char own[80], last[80] = "";

    for (size_t i = 0; i < r->n; i++) {
        size_t before = 0;
        char other[80];
        if (!own_operator(&r->at[i], own, sizeof own) || !strcmp(own, last)) continue;
        memcpy(last, own, sizeof last);
        while (before < i &&
               !(own_operator(&r->at[before], other, sizeof other) && !strcmp(own, other)))
            before++;
        if (before == i) print_support(r, "kernel", own, BP_MASK_ANY, file);
    }
}

void report_html_support(const struct report *r, FILE *file)
{
    static const char *const calls[] = {
#define X(NAME, name) #name,
        BP_COMM_CALLS(X)
#undef X
    };

    fprintf(file, "<h2>Support</h2>\n<p class=\"soft\">Cases that pass, by operator and dtype of "
                  "the first input; for a dtype that fails: how many fail. A dash: no case ran, as "
                  "the device has no kernel row or the run left them out. At the end operators of "
                  "the plugin's own, and collective calls.</p>\n"
                  "<div class=\"scroll\"><table><thead><tr><th>operator</th>");
    for (uint32_t d = 0; d < 64; d++)
        if (BP_MASK_ANY >> d & 1) fprintf(file, "<th>%s</th>", bp_dtype_name(d));
    fprintf(file, "</tr></thead><tbody>\n");
    for (uint32_t i = 0; i < bp_opinfo_count(); i++) {
        const struct bp_opinfo *op = bp_opinfo_at(i);
        print_support(r, "kernel", op->name, op->types[0], file);
    }
    print_own(r, file);
    for (size_t i = BP_COMM_BARRIER + 1;
         r->suite_totals[SUITE_CCL][OUTCOME_PASS] && i < BP_COMM_SEND; i++)
        print_support(r, "ccl", calls[i], BP_MASK_ANY, file);
    fprintf(file, "</tbody></table></div>\n");
}

/* The widths fit the screen of a phone. */
enum {
    BAR_LEFT = 160,
    BAR_FULL = 270,
    BAR_STEP = 20,
    BAR_WIDTH = 480
};

static void print_bar(const struct report_accuracy *a, size_t i, FILE *file)
{
    double part = a->worst > 1.03 ? 1.03 : a->worst;
    size_t y = i * BAR_STEP;
    char text[16];

    fprintf(file, "<text x=\"0\" y=\"%zu\">", y + 14);
    escape(file, a->op);
    fprintf(file,
            " <tspan class=\"soft\">%s</tspan></text><rect class=\"%s\" x=\"%d\" y=\"%zu\" "
            "width=\"%.1f\" height=\"11\" "
            "rx=\"2\"><title>",
            a->dtype, a->worst > 1 ? "over" : "bar", BAR_LEFT, y + 4, 1 + part * BAR_FULL);
    escape(file, a->id);
    fprintf(file, "</title></rect><text class=\"soft\" x=\"%.1f\" y=\"%zu\">%s</text>\n",
            BAR_LEFT + 6 + part * BAR_FULL, y + 14, report_worst(a->worst, text, sizeof text));
}

/* Keeps the worst error of each operator and dtype of the result, without exact results; returns
 * the number of bars. */
static size_t worst_bars(struct report_accuracy *a, size_t n)
{
    size_t kept = 0;

    for (size_t i = 0; i < n; i++) {
        char *dash = strchr(a[i].dtype, '-');
        size_t k = 0;
        if (dash) memmove(a[i].dtype, dash + 1, strlen(dash));
        if (a[i].worst <= 0) continue;
        while (k < kept && (strcmp(a[k].op, a[i].op) || strcmp(a[k].dtype, a[i].dtype))) k++;
        if (k == kept) a[kept++] = a[i];
        else if (a[i].worst > a[k].worst) a[k] = a[i];
    }
    return kept;
}

static void print_edge(int x, size_t height, FILE *file)
{
    fprintf(file, "<line class=\"edge\" x1=\"%d\" x2=\"%d\" y1=\"0\" y2=\"%zu\"/>\n", x, x, height);
}

void report_html_accuracy(const struct report *r, FILE *file)
{
    struct report_accuracy *a;
    size_t n = report_accuracy(r, &a), kept = worst_bars(a, n), height = kept * BAR_STEP + 4;

    if (n) {
        fprintf(file,
                "<h2>Largest error, as a part of what is allowed</h2>\n<p class=\"soft\">By "
                "operator and dtype of "
                "the result, the worst of all rows. 1 is the tolerance, the line at the right, "
                "derived in "
                "docs/accuracy.md; half types are rounded to nearest, which takes nearly all of "
                "it. What is exact "
                "is left out.</p>\n<svg viewBox=\"0 0 %d %zu\" role=\"img\" aria-label=\"largest "
                "errors\">\n",
                BAR_WIDTH, height);
        print_edge(BAR_LEFT, height, file);
        print_edge(BAR_LEFT + 1 + BAR_FULL, height, file);
        for (size_t i = 0; i < kept; i++) print_bar(&a[i], i, file);
        fprintf(file, "</svg>\n");
    }
    free(a);
}

enum {
    SHOWN = 300
};

void report_html_failures(const struct report *r, FILE *file)
{
    size_t shown = 0, all = 0;

    for (size_t i = 0; i < r->n; i++) all += r->at[i].selected && outcome_is_bad(r->at[i].outcome);
    if (!all) return;
    fprintf(file, "<h2>Failures</h2>\n");
    for (size_t i = 0; i < r->n && shown < SHOWN; i++) {
        const struct report_case *c = &r->at[i];
        char *command;
        if (!c->selected || !outcome_is_bad(c->outcome)) continue;
        shown++;
        command = report_command(r, c);
        fprintf(file, "<div class=\"failure\"><strong>%s</strong> <span class=\"id\">",
                outcome_name(c->outcome));
        escape(file, c->id);
        fprintf(file, "</span><p>");
        escape(file, c->message);
        fprintf(file, "</p><code class=\"soft\">");
        escape(file, command);
        fprintf(file, "</code></div>\n");
        free(command);
    }
    if (shown < all)
        fprintf(file, "<p>and %zu more: the JSON report holds all.</p>\n", all - shown);
}

/* Lists the cases with this outcome, with the reasons. */
static void print_others(const struct report *r, enum outcome outcome, const char *title,
                         FILE *file)
{
    size_t shown = 0;

    if (!r->totals[outcome]) return;
    fprintf(file, "<details><summary>%zu %s</summary><ul>\n", r->totals[outcome], title);
    for (size_t i = 0; i < r->n && shown < SHOWN; i++) {
        const struct report_case *c = &r->at[i];
        if (!c->selected || c->outcome != outcome) continue;
        shown++;
        fprintf(file, "<li><span class=\"id\">");
        escape(file, c->id);
        fprintf(file, "</span> <span class=\"soft\">");
        escape(file, c->message);
        fprintf(file, "</span></li>\n");
    }
    if (shown < r->totals[outcome])
        fprintf(file, "<li>and %zu more</li>\n", r->totals[outcome] - shown);
    fprintf(file, "</ul></details>\n");
}

void report_html(const struct report *r, FILE *file)
{
    print_head(r, file);
    print_earlier(r, file);
    report_html_totals(r, file);
    report_html_failures(r, file);
    report_html_support(r, file);
    report_html_accuracy(r, file);
    if (r->totals[OUTCOME_UNSUPPORTED] + r->totals[OUTCOME_SKIP] + r->totals[OUTCOME_XFAIL]) {
        fprintf(file, "<h2>Not judged</h2>\n");
        print_others(r, OUTCOME_UNSUPPORTED, "unsupported", file);
        print_others(r, OUTCOME_SKIP, "skipped", file);
        print_others(r, OUTCOME_XFAIL, "expected to fail", file);
    }
    fprintf(file, "</body></html>\n");
}
