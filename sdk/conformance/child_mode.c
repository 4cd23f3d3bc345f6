/* SPDX-License-Identifier: Apache-2.0 */
/* child_mode.c: the program as a child process of itself: lists cases or runs some of them, and
 * reports line by line on the descriptor BP_CHILD_REPORT. A case may end the process, so the child
 * announces each case before it begins. A child can also be one rank of a case of the suite ccl;
 * its arguments are then rank DEVICE LIBRARY MANIFEST SEED and those of ccl_child.
 *
 * The arguments, in order: list|run DEVICE LIBRARY MANIFEST SEED TIMEOUT_MS DUMP, with "" for
 * absent ones; then CASES for run, or SUITES QUICK FILTER... for list, which select cases. CASES
 * has the form "UNIT:AT:N:COUNT,...": COUNT cases of the list's unit UNIT, from that unit's case
 * number AT. The parent numbers these cases from N. */
#include "conform.h"
#include "list.h"
#include "case_fixture.h"
#include "suites/ccl.h"
#include "suites/suites.h"
#include "child.h"
#include <cjson/cJSON.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* Writes object as one line and deletes it. With `to` the line goes to a buffer, because lists are
 * long and each write would wake the parent. With to NULL it is written immediately, so that no
 * line is lost if the child crashes. */
static void report_to(FILE *to, cJSON *object)
{
    char *text = cJSON_PrintUnformatted(object);

    if (text && to) fprintf(to, "%s\n", text);
    else if (text) dprintf(BP_CHILD_REPORT, "%s\n", text);
    cJSON_free(text);
    cJSON_Delete(object);
}

static void child_mode_report(cJSON *object)
{
    report_to(NULL, object);
}

/* Unselected cases are not reported, because there are many. Cases of the suites that decide on the
 * lowest level are always reported; they are few. */
static bool is_reported(const struct list *list, const struct listed *l)
{
    bool is_case = l->run || l->kernel;

    return l->suite <= SUITE_MEMORY ||
           (selection_has(list->wanted, l->suite) && selection_fits(list->wanted, l->id) &&
            (!list->wanted->quick || l->quick || !is_case));
}

static void report_case(FILE *to, const struct listed *l)
{
    cJSON *line = cJSON_CreateObject();

    cJSON_AddStringToObject(line, "case", l->id);
    cJSON_AddNumberToObject(line, "suite", l->suite);
    cJSON_AddNumberToObject(line, "unit", l->unit);
    cJSON_AddNumberToObject(line, "at", l->at);
    cJSON_AddNumberToObject(line, "of", l->row);
    cJSON_AddBoolToObject(line, "quick", l->quick);
    if (l->kernel && kernel_case_facts(l->kernel))
        cJSON_AddNumberToObject(line, "facts", kernel_case_facts(l->kernel));
    if (!l->run && !l->kernel) {
        cJSON_AddNumberToObject(line, "outcome", l->outcome);
        cJSON_AddStringToObject(line, "message", l->message);
    }
    report_to(to, line);
}

/* Reported around the end of the device, after all cases. If the process ends or hangs there, the
 * parent knows from the missing line at which step. */
static void report_step(const char *word)
{
    cJSON *line = cJSON_CreateObject();

    cJSON_AddStringToObject(line, "step", word);
    child_mode_report(line);
}

/* Checks that events work on the device. Without events, each case would wait until its time
 * limit. */
static void report_silence(struct fixture *fixture, double timeout_s)
{
    cJSON *line;

    if (fixture_receives(fixture, timeout_s)) return;
    line = cJSON_CreateObject();
    cJSON_AddNumberToObject(line, "silent", timeout_s);
    child_mode_report(line);
}

/* Keeps freed memory in the process. Returning it to the system and allocating it again would take
 * an eighth of the time of short cases. */
static void keep_memory(void)
{
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 128 << 20);
    mallopt(M_TOP_PAD, 16 << 20);
#endif
}

static void report_list(struct fixture *fixture, const struct selection *wanted, double timeout_s)
{
    struct list list;
    cJSON *head = cJSON_CreateObject();
    FILE *to = fdopen(dup(BP_CHILD_REPORT), "w");

    if (!to) abort();

    cJSON_AddStringToObject(head, "device", bp_device_name(fixture->device));
    cJSON_AddStringToObject(head, "description", fixture->properties.name);
    cJSON_AddStringToObject(head, "driver", fixture->properties.driver);
    cJSON_AddStringToObject(head, "library", fixture->library);
    cJSON_AddStringToObject(head, "manifest", fixture->manifest);
    child_mode_report(head);
    report_silence(fixture, timeout_s);
    keep_memory();
    list_init(&list, fixture, LIST_ALL, wanted);
    for (size_t i = 0; i < list.n_row; i++) {
        cJSON *row = cJSON_CreateObject();
        cJSON_AddStringToObject(row, "row", list.row[i].name);
        cJSON_AddBoolToObject(row, "usable", list.row[i].usable);
        report_to(to, row);
    }
    for (size_t i = 0; i < list.n; i++) {
        if (is_reported(&list, &list.at[i])) report_case(to, &list.at[i]);
        else list.left_out[list.at[i].suite] = true;
    }
    for (int s = 0; s < SUITE_COUNT; s++) {
        cJSON *line;
        if (!list.left_out[s]) continue;
        line = cJSON_CreateObject();
        cJSON_AddNumberToObject(line, "left_out", s);
        report_to(to, line);
    }
    report_to(to, cJSON_CreateTrue());
    fclose(to);
    list_finish(&list);
}

/* The deadline of a case: the signal handler writes the case's number and ends the process. It
 * calls only functions that are safe in a signal handler. */
static volatile sig_atomic_t deadline_case;

static void write_number(char *text, size_t *used, long number)
{
    char digits[24];
    int n = 0;

    do digits[n++] = (char)('0' + number % 10);
    while (number /= 10);
    while (n) text[(*used)++] = digits[--n];
}

static void on_deadline(int signal_number)
{
    static const char before[] = "{\"timeout\":";
    char text[64];
    size_t used = sizeof before - 1;

    (void)signal_number;
    memcpy(text, before, used);
    write_number(text, &used, deadline_case);
    text[used++] = '}';
    text[used++] = '\n';
    if (write(BP_CHILD_REPORT, text, used) < 0) _exit(3);
    _exit(0);
}

static void set_deadline(double seconds)
{
    struct itimerval timer = {
        .it_value = {(time_t)seconds, (suseconds_t)((seconds - (double)(time_t)seconds) * 1e6)}};

    setitimer(ITIMER_REAL, &timer, NULL);
}

static void report_result(long number, const struct result *result)
{
    cJSON *line = cJSON_CreateObject();

    cJSON_AddNumberToObject(line, "done", (double)number);
    cJSON_AddNumberToObject(line, "outcome", result->outcome);
    cJSON_AddNumberToObject(line, "seconds", result->seconds);
    if (result->worst >= 0)
        cJSON_AddNumberToObject(line, "worst", result->worst > 1e300 ? 1e300 : result->worst);
    cJSON_AddBoolToObject(line, "executed", result->executed);
    cJSON_AddBoolToObject(line, "refused", result->refused);
    cJSON_AddStringToObject(line, "message", result->message);
    if (*result->steps) cJSON_AddStringToObject(line, "steps", result->steps);
    if (*result->missing) cJSON_AddStringToObject(line, "missing", result->missing);
    child_mode_report(line);
}

static void run_case(struct fixture *fixture, const struct listed *listed, long number,
                     double timeout_s)
{
    struct result result = {.worst = -1};
    cJSON *start = cJSON_CreateObject();

    cJSON_AddNumberToObject(start, "start", (double)number);
    child_mode_report(start);
    deadline_case = (sig_atomic_t)number;
    set_deadline(timeout_s);
    listed_run(fixture, listed, &result);
    set_deadline(0);
    report_result(number, &result);
}

/* One element of CASES: `count` cases from case `at` of a unit, which the parent numbers from
 * `number`. */
struct span {
    long unit, at, number, count;
};

/* Reads one element and advances *cases behind it. */
static struct span take_span(const char **cases)
{
    struct span s = {0};
    int used = 0;

    if (sscanf(*cases, "%ld:%ld:%ld:%ld%n", &s.unit, &s.at, &s.number, &s.count, &used) == 4)
        *cases += used;
    *cases += **cases == ',' ? 1 : strlen(*cases);
    return s;
}

static void run_cases(struct fixture *fixture, const char *cases, double timeout_s)
{
    struct sigaction action = {.sa_handler = on_deadline, .sa_flags = SA_RESTART};
    const struct selection all = {0};
    struct list list = {0};
    long unit = -1;

    sigaction(SIGALRM, &action, NULL);
    keep_memory();
    while (*cases) {
        struct span s = take_span(&cases);
        if (s.unit != unit) {
            list_finish(&list);
            list_init(&list, fixture, (int)s.unit, &all);
            unit = s.unit;
        }
        for (long i = 0; i < s.count && s.at + i < (long)list.n; i++)
            run_case(fixture, &list.at[s.at + i], s.number + i, timeout_s);
    }
    list_finish(&list);
}

/* Whether the cases need the device. All do but those of the suite `plugin`, which are the first of
 * the list. */
static bool need_device(const char *cases)
{
    struct span first = take_span(&cases);

    return conform_brings() || first.unit || first.at >= plugin_cases();
}

int conform_child(int argc, char **argv)
{
    struct fixture fixture = {0};
    int status;

    if (argc < 8) {
        fprintf(stderr, "bp: %s is for bp itself\n", CONFORM_CHILD);
        return 2;
    }
    bool list = !strcmp(argv[0], "list"), rank = !strcmp(argv[0], "rank");
    fixture.seed = strtoull(argv[4], NULL, 10);
    fixture.dump = !rank && *argv[6] ? argv[6] : NULL;
    status = fixture_init(&fixture, argv[1], argv[2], argv[3],
                          list || rank || need_device(argv[7]));
    if (status) {
        cJSON *line = cJSON_CreateObject();
        cJSON_AddStringToObject(line, "error", bp_error_message());
        child_mode_report(line);
    } else if (rank) {
        status = ccl_child(&fixture, argv + 4);
    } else if (list) {
        struct selection wanted = {.suites = *argv[7] ? argv[7] : NULL,
                                   .quick = argc > 8 && *argv[8]};
        wanted.n_filters = argc > 9 ? (size_t)argc - 9 : 0;
        wanted.filters = (const char *const *)argv + 9;
        report_list(&fixture, &wanted, strtod(argv[5], NULL) / 1000);
    } else {
        run_cases(&fixture, argv[7], strtod(argv[5], NULL) / 1000);
    }
    if (list) report_step("destroy");
    fixture_finish(&fixture);
    if (list) report_step("exit");
    return status;
}
