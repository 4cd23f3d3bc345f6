/* SPDX-License-Identifier: Apache-2.0 */
/* runner.h: runs the cases of a report, in child processes or in this process. */
#ifndef BP_CONFORM_RUNNER_H
#define BP_CONFORM_RUNNER_H

#include "report/report.h"
#include <cjson/cJSON.h>

/* Starts a child process that lists device, kernel rows and cases. Returns 0, or the exit status
 * with the reason in text. */
int runner_list(struct report *report, char *text, size_t size);

/* Runs all cases that are selected and have no outcome yet. */
void runner_run(struct report *report);

/* A number of a line that a child process sent; `absent` if there is none. */
double runner_number_of(const cJSON *json, const char *key, double absent);

/* Sets the message of a case. */
void report_case_message(struct report_case *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
