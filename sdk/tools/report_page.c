/* SPDX-License-Identifier: Apache-2.0 */
/* report_page.c: the page of `bp report`: its head, what the device lacks, and the order of the
 * sections. */
#include "device_report.h"

#include <report/escape.h>
#include <stdlib.h>
#include <string.h>

static void page_text(const char *before, const char *text, const char *behind, FILE *file)
{
    if (!*text) return;
    fprintf(file, "%s", before);
    escape(file, text);
    fprintf(file, "%s", behind);
}

/* Whether the report says that its run was quick. */
static bool page_is_quick(const struct device_report *d)
{
    return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(d->conform, "quick"));
}

static bool page_is_judged(const struct device_report *d)
{
    return !cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(d->conform, "judged"));
}

static size_t page_failures(const struct report *r)
{
    size_t bad = 0;

    for (int o = 0; o < OUTCOME_COUNT; o++)
        if (outcome_is_bad((enum outcome)o)) bad += r->totals[o];
    return bad;
}

static void page_head(const struct device_report *d, FILE *file)
{
    const struct report *r = &d->cases;
    size_t bad = page_failures(r);

    report_page_begin("Report on ", r->device, "", file);
    page_text("<p>", bp_json_get(d->conform, "description"), "</p>\n", file);
    page_text("<p class=\"soft\">", bp_json_get(d->conform, "driver"), "</p>\n", file);
    page_text("<p class=\"soft\">", bp_json_get(d->conform, "machine"), "</p>\n", file);
    page_text("<p>", bp_json_get(d->conform, "note"), "</p>\n", file);
    fprintf(file, "<p><span class=\"verdict %s\">", bad ? "bad" : "good");
    if (bad) fprintf(file, "%zu of %zu cases failed", bad, r->selected);
    else fprintf(file, "no case failed");
    fprintf(file, "</span><span class=\"verdict %s\">level %s</span></p>\n",
            r->level > LEVEL_NONE ? "good" : "dull",
            page_is_judged(d) ? level_name(r->level) : "not judged");
    fprintf(file, "<p>%zu cases of bp conform, seed %llu%s.</p>\n", r->selected,
            (unsigned long long)d->options.seed,
            page_is_quick(d) ? "; a quick run, which has some cases of each kind" : "");
}

/* Missing operators that are shown at once; a reader opens the rest. */
enum {
    PAGE_MISSING = 25
};

static void page_missing(const struct report *r, size_t begin, size_t end, FILE *file)
{
    fprintf(file,
            "<div class=\"scroll\"><table><thead><tr><th>operator</th><th>level that needs it</th>"
            "<th>lacks</th><th>ONNX models that use it</th></tr></thead><tbody>\n");
    for (size_t i = begin; i < end; i++) {
        const struct report_missing *m = &r->missing[i];
        fprintf(file, "<tr><th>");
        escape(file, m->op);
        fprintf(file, "</th><td>%s</td><td>%s</td><td>%u</td></tr>\n", level_name(m->level),
                m->in_part ? "some cases" : "all cases", m->models);
    }
    fprintf(file, "</tbody></table></div>\n");
}

static void page_next(const struct device_report *d, FILE *file)
{
    const struct report *r = &d->cases;
    size_t first;

    fprintf(file, "<h2>What to do next</h2>\n");
    page_text(page_is_judged(d) ? "<p>The next level: " : "<p>The level is not judged: ",
              bp_json_get(d->conform, "level_reason"), ".</p>\n", file);
    if (page_failures(r))
        fprintf(file,
                "<p>First the cases that fail: each level needs all cases of its suites.</p>\n");
    if (!r->suite_totals[SUITE_KERNEL][OUTCOME_PASS] &&
        !r->suite_totals[SUITE_KERNEL][OUTCOME_UNSUPPORTED]) {
        fprintf(file, "<p>No kernel case ran, so that nothing is known of the operators.</p>\n");
        return;
    }
    if (!r->n_missing) {
        fprintf(
            file,
            "<p>Of the operators that the run tried, none that a level needs is missing.</p>\n");
        return;
    }
    fprintf(
        file,
        "<p>%zu operators are missing for the levels. The next level comes first, and in it the "
        "operators that most models use.</p>\n<p class=\"soft\">The levels need the operators of "
        "the table by which ONNX models are imported. The models are the 1072 test models of "
        "ONNX 1.12.0; a model mostly needs several operators.%s</p>\n",
        r->n_missing, page_is_quick(d) ? " A quick run does not judge gradients: use --full." : "");
    /* To fold one or two rows away would save no room. */
    first = r->n_missing < PAGE_MISSING + 3 ? r->n_missing : PAGE_MISSING;
    page_missing(r, 0, first, file);
    if (first == r->n_missing) return;
    fprintf(file, "<details><summary>%zu more</summary>\n", r->n_missing - first);
    page_missing(r, first, r->n_missing, file);
    fprintf(file, "</details>\n");
}

void device_report_html(const struct device_report *d, FILE *file)
{
    page_head(d, file);
    page_next(d, file);
    device_speed_html(d, file);
    device_roof_html(d, file);
    report_html_totals(&d->cases, file);
    report_html_failures(&d->cases, file);
    report_html_support(&d->cases, file);
    report_html_accuracy(&d->cases, file);
    fprintf(file, "</body></html>\n");
}
