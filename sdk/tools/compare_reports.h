/* SPDX-License-Identifier: Apache-2.0 */
/* compare_reports.h: types and functions shared by the files of `bp compare`. */
#ifndef BP_COMPARE_REPORTS_H
#define BP_COMPARE_REPORTS_H

#include "tools.h"

/* The kinds of differences. X(NAME, key, title), in the order of the output. */
#define COMPARE_CHANGES(X) \
    X(REGRESSION, regressions, "regressions") \
    X(IMPROVEMENT, improvements, "improvements") X(NEW, new, "new") X(GONE, gone, "gone")
enum compare_change {
#define X(NAME, key, title) COMPARE_##NAME,
    COMPARE_CHANGES(X)
#undef X
    COMPARE_COUNT,
};
extern const char *const compare_key[COMPARE_COUNT], *const compare_title[COMPARE_COUNT];

struct compare_item {
    char *name; /* of a case, a figure, ... */
    char *text; /* the difference, for people: "pass, now fail: ..." */
    enum compare_change change;
};

struct compare {
    const char *kind; /* of both reports: "bench" */
    double least;     /* the smallest difference of a measured figure that counts, as a part of 1 */
    char *device[2];  /* of A and of B; of profiles, the command */
    struct compare_item *at;
    size_t n, count[COMPARE_COUNT];
    size_t same;   /* names without a difference */
    char *note[8]; /* n_note remarks on both reports as a whole */
    size_t n_note;
};

/* Adds a difference, or a remark. */
void compare_add(struct compare *c, enum compare_change change, const char *name,
                 const char *format, ...) __attribute__((format(printf, 4, 5)));
void compare_note(struct compare *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A kind of report compares two of them. Returns 0, or the number of the report (1 or 2) that is
 * not of this form, with the reason in out_why. */
typedef int compare_reports(struct compare *c, const cJSON *a, const cJSON *b, char *out_why,
                            size_t size);
compare_reports compare_bench, compare_conform, compare_profile, compare_report;

/* In compare.c: frees what compare_add and compare_note have stored. */
void compare_finish(struct compare *c);

/* In compare_write.c: the outputs. */
void compare_text(const struct compare *c, FILE *file);
void compare_json(const struct compare *c, FILE *file);
void compare_junit(const struct compare *c, FILE *file);
void compare_html(const struct compare *c, FILE *file);
/* Writes the differences of one kind as items of a list. */
void compare_items_html(const struct compare *c, enum compare_change change, FILE *file);

#endif
