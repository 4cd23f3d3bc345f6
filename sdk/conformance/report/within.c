/* SPDX-License-Identifier: Apache-2.0 */
/* within.c: finds which kernel rows ran as steps of which operators. The device chooses one of
 * several rows for a step, and defects of the others would show only on another machine. Therefore
 * each row must run in each operator whose cases name it. */
#include "report.h"
#include <stdlib.h>
#include <string.h>

static int row_of(const struct report *r, const char *name, size_t length)
{
    for (size_t i = 0; i < r->n_row; i++)
        if (!strncmp(r->row[i].name, name, length) && !r->row[i].name[length]) return (int)i;
    return -1;
}

void report_case_steps(const struct report *r, struct report_case *c, const char *names)
{
    free(c->step);
    c->step = calloc(strlen(names) + 1, sizeof *c->step);
    if (!c->step) abort();
    c->n_step = 0;
    for (names += strspn(names, " "); *names; names += strspn(names, " ")) {
        size_t length = strcspn(names, " ");
        int row = row_of(r, names, length);
        if (row >= 0) c->step[c->n_step++] = row;
        names += length;
    }
}

static void within_add(struct report *r, const struct report_case *c, int row, bool has, bool ran)
{
    struct report_within made = {.row = row}, *w = NULL;
    char dtypes[24], name[64];

    if (!report_parts(c->id, made.op, dtypes, name)) return;
    for (size_t i = 0; i < r->n_within && !w; i++)
        if (r->within[i].row == row && !strcmp(r->within[i].op, made.op)) w = &r->within[i];
    if (!w) {
        r->within = realloc(r->within, (r->n_within + 1) * sizeof *w);
        if (!r->within) abort();
        w = &r->within[r->n_within++];
        *w = made;
    }
    w->has |= has;
    w->ran |= ran;
}

void report_find_within(struct report *r, bool (*requests)(const struct report_case *c))
{
    const uint32_t bit = 1u << ROW_WITHIN;

    r->n_within = 0;
    for (size_t i = 0; i < r->n; i++) {
        const struct report_case *c = &r->at[i];
        if (!c->selected) continue;
        if (c->row >= 0 && c->facts & bit) within_add(r, c, c->row, requests(c), c->executed);
        for (size_t s = 0; s < c->n_step; s++) within_add(r, c, c->step[s], true, true);
    }
    for (size_t i = 0; i < r->n_within; i++) {
        struct report_row *row = &r->row[r->within[i].row];
        if (!r->within[i].has) continue;
        row->has |= bit;
        row->ran |= bit;
    }
    for (size_t i = 0; i < r->n_within; i++)
        if (r->within[i].has && !r->within[i].ran) r->row[r->within[i].row].ran &= ~bit;
}
