/* SPDX-License-Identifier: Apache-2.0 */
/* blockers.c: what keeps models from running, and how many: from the messages of models that are
 * unsupported, a line for each thing that is missing. */
#include "report.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char MISSING[] = "missing: ";

/* "operator NAME of opset 3": the name. "NAME: what of it": the name. "element type 8 (string) [x]"
 * and "opset 24, 1 to 23 are known": the first part. */
static void name_line(const char *line, size_t n, char out[REPORT_BLOCKER])
{
    static const char *const ends[] = {" of opset ", ": ", " [", ", "};
    size_t before = n > 9 && !strncmp(line, "operator ", 9) ? 9 : 0, length = n;

    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const char *end = memmem(line, n, ends[i], strlen(ends[i]));
        if (end && (size_t)(end - line) < length) length = (size_t)(end - line);
    }
    snprintf(out, REPORT_BLOCKER, "%.*s", (int)(length - before), line + before);
}

static void count(struct report_blocker *all, size_t *n, size_t model, const char *name)
{
    size_t k = 0;

    if (!*name || !strcmp(name, "...")) return;
    while (k < *n && strcmp(all[k].name, name)) k++;
    if (k == *n) {
        all = &all[(*n)++];
        snprintf(all->name, sizeof all->name, "%s", name);
        all->models = 0;
    } else all = &all[k];
    if (all->models && all->last == model) return; /* several lines of one model */
    all->models++;
    all->last = model;
}

static int by_models(const void *a, const void *b)
{
    const struct report_blocker *x = a, *y = b;

    return x->models != y->models ? (x->models < y->models) - (x->models > y->models)
                                  : strcmp(x->name, y->name);
}

size_t report_blockers(const struct report *r, struct report_blocker **out)
{
    size_t n = 0, lines = 0;
    char name[REPORT_BLOCKER];
    struct report_blocker *all;

    for (int write = 0; write < 2; write++) { /* counts lines, then their names */
        all = write ? calloc(lines + 1, sizeof *all) : NULL;
        if (write && !all) abort();
        for (size_t i = 0; i < r->n; i++) {
            const struct report_case *c = &r->at[i];
            const char *at = c->selected && c->outcome == OUTCOME_UNSUPPORTED && c->message
                                 ? strstr(c->message, MISSING) : NULL;
            for (at = at ? at + strlen(MISSING) : NULL; at && *at; at += *at == '\n') {
                size_t length = strcspn(at, "\n");
                if (write) {
                    name_line(at, length, name);
                    count(all, &n, i, name);
                } else lines++;
                at += length;
            }
        }
    }
    qsort(all, n, sizeof *all, by_models);
    *out = all;
    return n;
}
