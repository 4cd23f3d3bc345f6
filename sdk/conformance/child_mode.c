/* SPDX-License-Identifier: Apache-2.0 */
/* child_mode.c: the program as a child of itself: lists cases, or runs some of them, and reports
 * line by line on the descriptor BP_CHILD_REPORT. Nothing here is trusted to come back: a case
 * may end the process, so each is announced before it begins. Or it is one rank of a case of the
 * suite ccl: rank DEVICE LIBRARY MANIFEST SEED and the words of ccl_child.
 *
 * Arguments, in order: list|run DEVICE LIBRARY MANIFEST SEED TIMEOUT_MS DUMP UNIT FIRST CASES; ""
 * for absent ones. CASES are numbers in the list of all cases, "0-4,7-7", all of the list's unit
 * UNIT, whose first one has number FIRST; of a list, the names of the suites that are wanted. */
#include "conform.h"
#include "list.h"
#include "place.h"
#include "suites/ccl.h"
#include "suites/suites.h"
#include "child.h"
#include <cjson/cJSON.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* Writes object as one line and deletes it. */
static void report(cJSON *object)
{
    char *text = cJSON_PrintUnformatted(object);
    size_t size = text ? strlen(text) : 0, at = 0;

    if (text) text[size++] = '\n'; /* over the end: the length is known */
    while (at < size) {
        ssize_t n = write(BP_CHILD_REPORT, text + at, size - at);
        if (n <= 0) break;
        at += (size_t)n;
    }
    cJSON_free(text);
    cJSON_Delete(object);
}

/* The same into a buffer: lists are long, and each write would wake the parent. */
static void report_to(FILE *to, cJSON *object)
{
    char *text = cJSON_PrintUnformatted(object);

    if (text) fprintf(to, "%s\n", text);
    cJSON_free(text);
    cJSON_Delete(object);
}

static void report_list(const struct place *place, const char *suites)
{
    struct list list;
    cJSON *head = cJSON_CreateObject();
    FILE *to = fdopen(dup(BP_CHILD_REPORT), "w");

    if (!to) abort();

    cJSON_AddStringToObject(head, "device", bp_device_name(place->device));
    cJSON_AddStringToObject(head, "description", place->properties.name);
    cJSON_AddStringToObject(head, "driver", place->properties.driver);
    cJSON_AddStringToObject(head, "library", place->library);
    cJSON_AddStringToObject(head, "manifest", place->manifest);
    report(head);
    list_init(&list, place->device, LIST_ALL, *suites ? suites : NULL);
    for (size_t i = 0; i < list.n_row; i++) {
        cJSON *row = cJSON_CreateObject();
        cJSON_AddStringToObject(row, "row", list.row[i].name);
        cJSON_AddBoolToObject(row, "usable", list.row[i].usable);
        report_to(to, row);
    }
    for (size_t i = 0; i < list.n; i++) {
        const struct listed *l = &list.at[i];
        cJSON *line = cJSON_CreateObject();
        cJSON_AddStringToObject(line, "case", l->id);
        cJSON_AddNumberToObject(line, "suite", l->suite);
        cJSON_AddNumberToObject(line, "unit", l->unit);
        cJSON_AddNumberToObject(line, "of", l->row);
        cJSON_AddBoolToObject(line, "quick", l->quick);
        if (!l->run && !l->kernel) {
            cJSON_AddNumberToObject(line, "outcome", l->outcome);
            cJSON_AddStringToObject(line, "message", l->message);
        }
        report_to(to, line);
    }
    report_to(to, cJSON_CreateTrue());
    fclose(to);
    list_finish(&list);
}

/* The deadline of a case: its number is written and the process ends. Only what a signal handler
 * may do. */
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
    report(line);
}

static void run_case(struct place *place, const struct listed *listed, long number,
                     double timeout_s)
{
    struct result result = {.worst = -1};
    cJSON *start = cJSON_CreateObject();

    cJSON_AddNumberToObject(start, "start", (double)number);
    report(start);
    deadline_case = (sig_atomic_t)number;
    set_deadline(timeout_s);
    listed_run(place, listed, &result);
    set_deadline(0);
    report_result(number, &result);
}

static void run_cases(struct place *place, char **which, double timeout_s)
{
    long base = strtol(which[1], NULL, 10);
    char *cases = which[2];
    struct sigaction action = {.sa_handler = on_deadline, .sa_flags = SA_RESTART};
    struct list list;

    sigaction(SIGALRM, &action, NULL);
    list_init(&list, place->device, (int)strtol(which[0], NULL, 10), NULL);
    while (*cases) {
        long first = strtol(cases, &cases, 10),
             last = *cases == '-' ? strtol(cases + 1, &cases, 10) : first;
        for (long i = first; i >= base && i <= last && i - base < (long)list.n; i++)
            run_case(place, &list.at[i - base], i, timeout_s);
        if (*cases++ != ',') break;
    }
    list_finish(&list);
}

int conform_child(int argc, char **argv)
{
    struct place place = {0};
    int status;

    if (argc != 10) {
        fprintf(stderr, "bp: %s is for bp itself\n", CONFORM_CHILD);
        return 2;
    }
    bool list = !strcmp(argv[0], "list"), rank = !strcmp(argv[0], "rank");
    if (rank) bp_child_enter(); /* it goes with the thread that is its rank */
    place.seed = strtoull(argv[4], NULL, 10);
    place.dump = !rank && *argv[6] ? argv[6] : NULL;
    status = place_init(&place, argv[1], argv[2], argv[3],
                        list || rank || conform_brings() ||
                            strtol(argv[9], NULL, 10) >= plugin_cases());
    if (status) {
        cJSON *line = cJSON_CreateObject();
        cJSON_AddStringToObject(line, "error", bp_error_message());
        report(line);
    } else if (rank) {
        status = ccl_child(&place, argv + 4);
    } else if (list) {
        report_list(&place, argv[9]);
    } else {
        run_cases(&place, argv + 7, strtod(argv[5], NULL) / 1000);
    }
    place_finish(&place);
    return status;
}
