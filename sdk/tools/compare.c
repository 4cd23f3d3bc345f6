/* SPDX-License-Identifier: Apache-2.0 */
/* compare.c: `bp compare A.json B.json`: lists the differences of two reports of one kind. */
#include "compare_reports.h"

#include <earlier.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* The kinds of reports. A further kind needs a line here and its function. */
static const struct compare_kind {
    const char *name; /* the key `report` of the JSON; of profiles `kind` */
    const char *key;  /* a key by which reports without `report` are known, or NULL */
    int format;
    compare_reports *run;
} kinds[] = {
    {"conform", "cases", REPORT_FORMAT, compare_conform},
    {"bench", NULL, 1, compare_bench},
    {"profile", NULL, 1, compare_profile},
    {"report", NULL, 1, compare_report},
};
enum {
    KINDS = sizeof kinds / sizeof *kinds
};

const char *const compare_key[COMPARE_COUNT] = {
#define X(NAME, key, title) #key,
    COMPARE_CHANGES(X)
#undef X
};
const char *const compare_title[COMPARE_COUNT] = {
#define X(NAME, key, title) title,
    COMPARE_CHANGES(X)
#undef X
};

void compare_add(struct compare *c, enum compare_change change, const char *name,
                 const char *format, ...)
{
    struct compare_item *item;
    char *text = NULL;
    va_list args;

    va_start(args, format);
    if (vasprintf(&text, format, args) < 0) abort();
    va_end(args);
    c->at = realloc(c->at, (c->n + 1) * sizeof *c->at);
    if (!c->at) abort();
    item = &c->at[c->n++];
    *item = (struct compare_item){bp_text_clean(name), bp_text_clean(text), change};
    c->count[change]++;
    free(text);
}

void compare_note(struct compare *c, const char *format, ...)
{
    char *text = NULL;
    va_list args;

    if (c->n_note == sizeof c->note / sizeof *c->note) return;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0) abort();
    va_end(args);
    c->note[c->n_note++] = bp_text_clean(text);
    free(text);
}

void compare_finish(struct compare *c)
{
    for (size_t i = 0; i < c->n; i++) {
        free(c->at[i].name);
        free(c->at[i].text);
    }
    for (size_t i = 0; i < c->n_note; i++) free(c->note[i]);
    for (int i = 0; i < 2; i++) free(c->device[i]);
    free(c->at);
}

/* Finds the kind of a report, and checks its format. Returns NULL after printing an error. */
static const struct compare_kind *compare_find_kind(const char *path, const cJSON *json)
{
    const char *word = bp_json_get(json, "report");
    const cJSON *format = cJSON_GetObjectItemCaseSensitive(json, "format");

    if (!*word && *bp_json_get(json, "kind")) { /* a profile */
        word = bp_json_get(json, "kind");
        format = cJSON_GetObjectItemCaseSensitive(json, "version");
    }
    for (int i = 0; i < KINDS; i++) {
        bool old = !*word && kinds[i].key && cJSON_HasObjectItem(json, kinds[i].key);
        if (strcmp(word, kinds[i].name) && !old) continue;
        if (old || (cJSON_IsNumber(format) && format->valuedouble == kinds[i].format))
            return &kinds[i];
        bp_complain("compare",
                    "%s: expected a report of format %d, got another one: another version of bp "
                    "wrote it; make the report again",
                    path, kinds[i].format);
        return NULL;
    }
    if (*word)
        bp_complain("compare", "%s: reports of the kind '%.40s' cannot be compared", path, word);
    else
        bp_complain("compare",
                    "%s: expected a JSON report of `bp conform`, `bp bench` or `bp trace` with the "
                    "key \"report\" or \"kind\"; another version of bp wrote it, or another "
                    "program",
                    path);
    return NULL;
}

/* Compares the two reports. Returns the exit status. */
static int compare_run(struct compare *c, const char *const path[2], cJSON *const json[2])
{
    const struct compare_kind *kind[2];
    char why[400] = "";
    int wrong;

    for (int i = 0; i < 2; i++) {
        kind[i] = compare_find_kind(path[i], json[i]);
        if (!kind[i]) return BP_EXIT_USAGE;
        c->device[i] = bp_text_clean(
            bp_json_get(json[i], cJSON_HasObjectItem(json[i], "command") ? "command" : "device"));
    }
    if (kind[0] != kind[1]) {
        bp_complain("compare",
                    "%s is a report of the kind %s, %s one of the kind %s: expected the same",
                    path[0], kind[0]->name, path[1], kind[1]->name);
        return BP_EXIT_USAGE;
    }
    c->kind = kind[0]->name;
    if (strcmp(c->device[0], c->device[1]))
        compare_note(c, "the %s differ: %s, now %s",
                     strcmp(kind[0]->name, "profile") ? "devices" : "commands", c->device[0],
                     c->device[1]);
    wrong = kind[0]->run(c, json[0], json[1], why, sizeof why);
    if (wrong) {
        bp_complain("compare", "%s: %s", path[wrong - 1], why);
        return BP_EXIT_USAGE;
    }
    return c->count[COMPARE_REGRESSION] ? BP_EXIT_FAILED : BP_EXIT_GOOD;
}

static bool compare_write_file(const struct compare *c, const char *path,
                               void (*write)(const struct compare *, FILE *))
{
    FILE *file;
    bool bad;

    if (!path) return true;
    file = strcmp(path, "-") ? fopen(path, "w") : stdout;
    if (file) {
        write(c, file);
        bad = ferror(file) != 0;
        if (file != stdout) bad = fclose(file) || bad;
        if (!bad) return true;
    }
    bp_complain("compare", "%s: %s", path, strerror(errno));
    return false;
}

static int compare_files(struct compare *c, const char *const path[2], const char *json_path,
                         const char *junit, const char *html)
{
    cJSON *json[2] = {NULL, NULL};
    char why[1000];
    int status = BP_EXIT_USAGE;

    for (int i = 0; i < 2; i++) {
        json[i] = earlier_parse(path[i], why, sizeof why);
        if (json[i]) continue;
        bp_complain("compare", "%s", why);
        cJSON_Delete(json[0]);
        return BP_EXIT_USAGE;
    }
    status = compare_run(c, path, json);
    cJSON_Delete(json[0]);
    cJSON_Delete(json[1]);
    if (status == BP_EXIT_USAGE) return status;
    if (!json_path || strcmp(json_path, "-")) compare_text(c, stdout);
    if (!compare_write_file(c, json_path, compare_json) ||
        !compare_write_file(c, junit, compare_junit) || !compare_write_file(c, html, compare_html))
        return BP_EXIT_BROKEN;
    return status;
}

int bp_cmd_compare(int argc, char **argv)
{
    struct compare c = {.least = 0};
    const char *path[2], *json = NULL, *junit = NULL, *html = NULL;
    double least = 5;
    const struct bp_option options[] = {
        {"least", 0, BP_OPTION_NUMBER, "PERCENT",
         "smallest difference of a measured figure that counts (default 5)", &least, 0, 1000},
        {"json", 0, BP_OPTION_OUTPUT, "FILE",
         "write the differences as JSON; - is standard output, and all it gets", &json},
        {"junit", 0, BP_OPTION_OUTPUT, "FILE", "write them as JUnit", &junit},
        {"html", 0, BP_OPTION_OUTPUT, "FILE", "write them as one page", &html},
        {0},
    };
    const struct bp_usage usage = {
        .command = "compare",
        .words = "A.json B.json",
        .min_words = 2,
        .max_words = 2,
        .about =
            "Compares two JSON reports of `bp conform`, of `bp bench` or of `bp trace`, the "
            "earlier one first: what got worse, better, is new, is gone. docs/bench.md says which "
            "differences count. Exit status: 0 nothing got worse, 1 something did, 2 wrong files.",
        .options = options,
    };
    int status = bp_options_parse(&usage, argc, argv, path);

    if (status != BP_OPTIONS_GOOD) return status;
    c.least = least / 100;
    status = compare_files(&c, path, json, junit, html);
    compare_finish(&c);
    return status;
}
