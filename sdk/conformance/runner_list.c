/* SPDX-License-Identifier: Apache-2.0 */
/* runner_list.c: starts a child process that lists the device, its kernel rows and the cases. A
 * child is needed because listing the rows loads the plugin. */
#include "runner.h"
#include "child.h"
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

enum {
    LIST_LEAST_S = 3, /* opening a device may take as long even if the time limit of cases is
                         short */
    LIST_MOST_S = 60,
    EVENT_S = 5 /* time within which an event must complete */
};

struct listing {
    struct report *report;
    size_t room;
    char error[1000];
    bool complete; /* all cases were received */
    bool ended;    /* the device and the plugin's instance were destroyed, too */
    /* Seconds in which an event behind a small copy did not complete. 0: it completed. */
    double silent;
};

static char *text_of(const cJSON *json, const char *key)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, key));

    return strdup(text ? text : "");
}

static void take_case(struct listing *l, const cJSON *json)
{
    struct report *r = l->report;
    double outcome = runner_number_of(json, "outcome", -1),
           suite = runner_number_of(json, "suite", -1), row = runner_number_of(json, "of", -1);
    struct report_case *c;

    if (r->n == l->room) {
        l->room = l->room ? 2 * l->room : 256;
        r->at = realloc(r->at, l->room * sizeof *r->at);
        if (!r->at) abort();
    }
    c = &r->at[r->n++];
    *c = (struct report_case){
        .id = text_of(json, "case"), .message = text_of(json, "message"), .worst = -1};
    c->suite = suite >= 0 && suite < SUITE_COUNT ? (enum suite)suite : SUITE_PLUGIN;
    c->row = row >= 0 && row < (double)r->n_row ? (int)row : -1;
    c->unit = (int)runner_number_of(json, "unit", -1);
    c->at = (int)runner_number_of(json, "at", -1);
    if (runner_number_of(json, "facts", -1) > 0)
        c->facts = (uint32_t)runner_number_of(json, "facts", -1);
    c->quick = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(json, "quick"));
    c->fixed = outcome >= 0;
    c->outcome = c->fixed ? (enum outcome)outcome : OUTCOME_COUNT;
}

static void take_row(struct report *r, const cJSON *json)
{
    r->row = realloc(r->row, (r->n_row + 1) * sizeof *r->row);
    if (!r->row) abort();
    r->row[r->n_row++] = (struct report_row){
        .name = text_of(json, "row"),
        .usable = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(json, "usable"))};
}

static void take_device(struct report *r, const cJSON *json)
{
    free(r->device);
    free(r->description);
    free(r->driver);
    free(r->library);
    free(r->manifest);
    r->device = text_of(json, "device");
    r->description = text_of(json, "description");
    r->driver = text_of(json, "driver");
    r->library = text_of(json, "library");
    r->manifest = text_of(json, "manifest");
}

static void take_left_out(struct report *r, const cJSON *json)
{
    double suite = runner_number_of(json, "left_out", -1);

    if (suite >= 0 && suite < SUITE_COUNT) r->left_out[(int)suite] = true;
}

static void runner_list_take_line(void *ctx, const char *line)
{
    struct listing *l = ctx;
    cJSON *json = cJSON_Parse(line);

    if (cJSON_IsTrue(json)) l->complete = true;
    else if (cJSON_HasObjectItem(json, "case")) take_case(l, json);
    else if (cJSON_HasObjectItem(json, "row")) take_row(l->report, json);
    else if (cJSON_HasObjectItem(json, "device")) take_device(l->report, json);
    else if (cJSON_HasObjectItem(json, "silent")) l->silent = runner_number_of(json, "silent", -1);
    else if (cJSON_HasObjectItem(json, "left_out")) take_left_out(l->report, json);
    else if (cJSON_HasObjectItem(json, "step")) {
        const cJSON *step = cJSON_GetObjectItemCaseSensitive(json, "step");
        l->ended = cJSON_IsString(step) && !strcmp(step->valuestring, "exit");
    } else if (cJSON_HasObjectItem(json, "error")) {
        char *text = text_of(json, "error");
        snprintf(l->error, sizeof l->error, "%s", text);
        free(text);
    }
    cJSON_Delete(json);
}

/* The step in which the process did not continue, or did not end normally. */
static const char *lost_step(const struct listing *l)
{
    if (!l->complete) return "opening the device";
    return l->ended ? "the end of the process after destroy, in an exit handler or a destructor,"
                    : "destroy";
}

/* Replaces all listed cases by a single one, with an empty message. */
static struct report_case *only_case(struct report *r, const char *id, enum outcome outcome)
{
    struct report_case *c = calloc(1, sizeof *c);

    if (!c) abort();
    *c = (struct report_case){.id = strdup(id),
                              .row = -1,
                              .selected = true,
                              .fixed = true,
                              .worst = -1,
                              .message = strdup(""),
                              .outcome = outcome};
    for (size_t i = 0; i < r->n; i++) {
        free(r->at[i].id);
        free(r->at[i].message);
        free(r->at[i].missing);
    }
    free(r->at);
    r->at = c;
    r->n = 1;
    r->lost = true;
    return c;
}

/* Reports a plugin that ended or blocked the listing process as a case that crashed or timed out.
 * This is a finding, not a missing device. */
static int broken_plugin(struct listing *l, const struct bp_child_result *result)
{
    bool hangs = result->end == BP_CHILD_TIMEOUT;
    struct report *r = l->report;
    struct report_case *c = only_case(r, "plugin/load", hangs ? OUTCOME_TIMEOUT : OUTCOME_CRASH);
    const char *device = r->options->device, *output = result->output ? result->output : "";
    int name = (int)(strchr(device, '/') ? strlen(device) : strcspn(device, ":"));
    char how[200];

    bp_child_describe(result, how, sizeof how);
    c->seconds = result->seconds;
    report_case_message(c, "%s%s%s %s: %s; `bp doctor %.*s` says more%s%.400s",
                        l->complete ? r->library : "", l->complete ? ": " : "", lost_step(l),
                        hangs ? "did not end" : "ended the process", how, name, device,
                        *output ? ". Output: " : "", output);
    return 0;
}

/* Reports one case that timed out instead of running the others: without events, all cases that
 * wait for work would wait until their time limit. */
static int silent_device(struct listing *l)
{
    struct report_case *c = only_case(l->report, "runtime/event/comes", OUTCOME_TIMEOUT);

    c->seconds = l->silent;
    report_case_message(c,
                        "an event behind a copy of 64 elements had not come after %.1f s "
                        "(event_record, event_wait); no other case was run, for without events "
                        "none knows when work has ended",
                        l->silent);
    return 0;
}

/* The command line of the child; the caller frees it. With expectations, the child reports all
 * cases without filters, because the patterns of expectations are compared with the ids of all
 * cases. */
static const char **list_command(const struct report *r, const char *seed, const char *event_ms)
{
    const struct conform_options *o = r->options;
    const char *head[] = {o->self, o->command, CONFORM_CHILD, o->data ? o->data : "", "list",
                          o->device, "", "", seed, event_ms, "", o->suites ? o->suites : "",
                          o->quick && !o->expect ? "quick" : ""};
    size_t n = sizeof head / sizeof *head, n_filters = o->expect ? 0 : o->n_filters;
    const char **argv = calloc(n + n_filters + 1, sizeof *argv);

    if (!argv) abort();
    memcpy(argv, head, sizeof head);
    for (size_t i = 0; i < n_filters; i++) argv[n + i] = o->filters[i];
    return argv;
}

int runner_list(struct report *r, char *text, size_t size)
{
    struct listing listing = {.report = r};
    double most_s = r->options->timeout_s, event_s;
    char seed[32], event_ms[32];
    const char **argv;

    if (most_s > LIST_MOST_S) most_s = LIST_MOST_S;
    if (most_s < LIST_LEAST_S) most_s = LIST_LEAST_S;
    event_s = most_s / 2 < EVENT_S ? most_s / 2 : EVENT_S;
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)r->options->seed);
    snprintf(event_ms, sizeof event_ms, "%.0f", event_s * 1000);
    argv = list_command(r, seed, event_ms);
    struct bp_child child = {.argv = argv,
                             .timeout_ns = (uint64_t)(most_s * 1e9),
                             .report = runner_list_take_line,
                             .ctx = &listing};
    struct bp_child_result result;
    int status = 4;

    bp_child_run(&child, &result);
    free(argv);
    bool in_peace = result.end == BP_CHILD_EXITED && result.code == 0;
    if (listing.silent > 0) status = silent_device(&listing);
    else if (in_peace && listing.complete && listing.ended) status = 0;
    else if (*listing.error && result.end == BP_CHILD_EXITED)
        status = result.code == 1 || result.code == 3 ? result.code : 4;
    else if (result.end != BP_CHILD_NOT_RUN && (r->n == 0 || listing.complete))
        status = broken_plugin(&listing, &result);
    if (*listing.error) snprintf(text, size, "%s", listing.error);
    else bp_child_describe(&result, text, size);
    bp_child_finish(&result);
    return status;
}
