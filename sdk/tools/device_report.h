/* SPDX-License-Identifier: Apache-2.0 */
/* device_report.h: types and functions shared by the files of `bp report`. */
#ifndef BP_DEVICE_REPORT_H
#define BP_DEVICE_REPORT_H

#include "compare_reports.h"

#include <report/report.h>

/* The JSON reports that a page shows. */
struct device_report {
    const char *device;                /* the name on the command line */
    cJSON *conform, *bench, *cpu;      /* bench, cpu: NULL if there is none */
    char *bench_missing, *cpu_missing; /* why, or NULL */
    cJSON *last;                       /* an earlier report of this command, or NULL */
    struct compare since;              /* the differences from it */
    struct report cases;               /* made from conform: see device_cases_init */
    struct conform_options options;    /* of cases */
};

/* In report_run.c: runs `bp COMMAND ...` (words ends with NULL), which writes a JSON report to
 * path. Returns its exit status, or BP_EXIT_BROKEN if a signal ended it; then out_why says so. */
int device_report_child(const char *const *words, char *out_why, size_t size);

/* In report_cases.c: the cases of a conformance report in JSON, for the sections of its page. */
bool device_cases_init(struct device_report *d, char *out_why, size_t size);
void device_cases_finish(struct device_report *d);

/* In report_speed.c and report_roof.c: sections of the page. */
void device_speed_html(const struct device_report *d, FILE *file);
void device_roof_html(const struct device_report *d, FILE *file);
bool device_is_beside(const cJSON *row); /* a row of the benchmark "... beside a thread" */

/* In report_page.c: the whole page. */
void device_report_html(const struct device_report *d, FILE *file);

#endif
