/* SPDX-License-Identifier: Apache-2.0 */
/* compare_write.c: writes the result of `bp compare` as text, JSON, JUnit and HTML. */
#include "compare_reports.h"

#include <report/escape.h>
#include <report/report.h>
#include <stdlib.h>

/* Regressions are all listed, the others only up to this number. */
enum {
    SHOWN = 30
};

static void write_text(const struct compare *c, enum compare_change change, FILE *file)
{
    size_t shown = 0;

    if (!c->count[change]) return;
    fprintf(file, "\n%s: %zu\n", compare_title[change], c->count[change]);
    for (size_t i = 0; i < c->n; i++) {
        if (c->at[i].change != change) continue;
        if (change != COMPARE_REGRESSION && shown++ == SHOWN) {
            fprintf(file, "  %zu more are in --json\n", c->count[change] - SHOWN);
            return;
        }
        fprintf(file, "  %s: %s\n", c->at[i].name, c->at[i].text);
    }
}

void compare_text(const struct compare *c, FILE *file)
{
    fprintf(file, "bp %s: %s, now %s\n", c->kind, c->device[0], c->device[1]);
    for (size_t i = 0; i < c->n_note; i++) fprintf(file, "note: %s\n", c->note[i]);
    for (int i = 0; i < COMPARE_COUNT; i++) write_text(c, (enum compare_change)i, file);
    fprintf(file, "\n");
    for (int i = 0; i < COMPARE_COUNT; i++)
        fprintf(file, "%zu %s, ", c->count[i], compare_title[i]);
    fprintf(file, "%zu without a difference\n", c->same);
}

void compare_json(const struct compare *c, FILE *file)
{
    cJSON *json = cJSON_CreateObject(), *list, *devices;
    char *text;

    cJSON_AddStringToObject(json, "report", "compare");
    cJSON_AddNumberToObject(json, "format", 1);
    cJSON_AddStringToObject(json, "of", c->kind);
    devices = cJSON_AddArrayToObject(json, "devices");
    for (int i = 0; i < 2; i++) cJSON_AddItemToArray(devices, cJSON_CreateString(c->device[i]));
    list = cJSON_AddArrayToObject(json, "notes");
    for (size_t i = 0; i < c->n_note; i++)
        cJSON_AddItemToArray(list, cJSON_CreateString(c->note[i]));
    for (int change = 0; change < COMPARE_COUNT; change++) {
        list = cJSON_AddArrayToObject(json, compare_key[change]);
        for (size_t i = 0; i < c->n; i++) {
            cJSON *one;
            if ((int)c->at[i].change != change) continue;
            one = cJSON_CreateObject();
            cJSON_AddStringToObject(one, "name", c->at[i].name);
            cJSON_AddStringToObject(one, "text", c->at[i].text);
            cJSON_AddItemToArray(list, one);
        }
    }
    cJSON_AddNumberToObject(json, "same", (double)c->same);
    text = cJSON_Print(json);
    if (text) fprintf(file, "%s\n", text);
    cJSON_free(text);
    cJSON_Delete(json);
}

/* Each difference is a case: a regression has failed, what is gone was skipped, others passed. */
void compare_junit(const struct compare *c, FILE *file)
{
    fprintf(file,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite "
            "name=\"bp compare %s\" tests=\"%zu\" failures=\"%zu\" errors=\"0\" "
            "skipped=\"%zu\">\n",
            c->kind, c->n, c->count[COMPARE_REGRESSION], c->count[COMPARE_GONE]);
    for (size_t i = 0; i < c->n; i++) {
        const struct compare_item *item = &c->at[i];
        fprintf(file, "    <testcase classname=\"%s\" name=\"", compare_key[item->change]);
        escape(file, item->name);
        if (item->change != COMPARE_REGRESSION && item->change != COMPARE_GONE) {
            fprintf(file, "\"/>\n");
            continue;
        }
        fprintf(file, "\">\n      <%s message=\"",
                item->change == COMPARE_REGRESSION ? "failure" : "skipped");
        escape(file, item->text);
        fprintf(file, "\"/>\n    </testcase>\n");
    }
    fprintf(file, "  </testsuite>\n</testsuites>\n");
}

void compare_items_html(const struct compare *c, enum compare_change change, FILE *file)
{
    for (size_t i = 0; i < c->n; i++) {
        if (c->at[i].change != change) continue;
        fprintf(file, "<li><span class=\"id\">");
        escape(file, c->at[i].name);
        fprintf(file, "</span> <span class=\"soft\">");
        escape(file, c->at[i].text);
        fprintf(file, "</span></li>\n");
    }
}

void compare_html(const struct compare *c, FILE *file)
{
    bool good = !c->count[COMPARE_REGRESSION];

    report_page_begin("Comparison of bp ", c->kind, "", file);
    fprintf(file, "<p>");
    escape(file, c->device[0]);
    fprintf(file, ", now ");
    escape(file, c->device[1]);
    fprintf(file, "</p>\n<p><span class=\"verdict %s\">%s</span></p>\n", good ? "good" : "bad",
            good ? "nothing got worse" : "worse");
    for (size_t i = 0; i < c->n_note; i++) {
        fprintf(file, "<p class=\"soft\">");
        escape(file, c->note[i]);
        fprintf(file, "</p>\n");
    }
    for (int change = 0; change < COMPARE_COUNT; change++) {
        if (!c->count[change]) continue;
        fprintf(file, "<h2>%zu %s</h2>\n<ul>\n", c->count[change], compare_title[change]);
        compare_items_html(c, (enum compare_change)change, file);
        fprintf(file, "</ul>\n");
    }
    fprintf(file, "<h2>%zu without a difference</h2>\n</body></html>\n", c->same);
}
