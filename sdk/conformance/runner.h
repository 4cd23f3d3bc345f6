/* SPDX-License-Identifier: Apache-2.0 */
/* runner.h: runs the cases of a report, in children or here. */
#ifndef BP_CONFORM_RUNNER_H
#define BP_CONFORM_RUNNER_H

#include "report/report.h"

/* Asks a child for device, rows and cases. Answers 0 or the exit status, with the reason in
 * text. */
int runner_list(struct report *report, char *text, size_t size);

/* Runs all cases that are selected and have no outcome yet. */
void runner_run(struct report *report);

/* Sets the text of a case. */
void report_case_message(struct report_case *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
