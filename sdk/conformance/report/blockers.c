/* SPDX-License-Identifier: Apache-2.0 */
/* blockers.c: counts, over all models, the missing features that keep models from running. */
#include "report.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void blockers_count(struct report_blocker *all, size_t *n, const char *name, size_t length)
{
    char own[REPORT_BLOCKER];
    size_t k = 0;

    snprintf(own, sizeof own, "%.*s", (int)length, name);
    while (k < *n && strcmp(all[k].name, own)) k++;
    if (k == *n) memcpy(all[(*n)++].name, own, sizeof own);
    all[k].models++;
}

static int by_models(const void *a, const void *b)
{
    const struct report_blocker *x = a, *y = b;

    return x->models != y->models ? (x->models < y->models) - (x->models > y->models)
                                  : strcmp(x->name, y->name);
}

/* The features that a model lacks, if it is unsupported; else "". */
static const char *missing_of(const struct report_case *c)
{
    return c->selected && c->outcome == OUTCOME_UNSUPPORTED && c->missing ? c->missing : "";
}

size_t report_blockers(const struct report *r, struct report_blocker **out)
{
    size_t n = 0, names = 0;
    struct report_blocker *all;

    for (size_t i = 0; i < r->n; i++)
        for (const char *at = missing_of(&r->at[i]); *at; at += *at == '\n', names++)
            at += strcspn(at, "\n");
    all = calloc(names + 1, sizeof *all);
    if (!all) abort();
    for (size_t i = 0; i < r->n; i++) {
        for (const char *at = missing_of(&r->at[i]); *at; at += *at == '\n') {
            size_t length = strcspn(at, "\n");
            blockers_count(all, &n, at, length);
            at += length;
        }
    }
    qsort(all, n, sizeof *all, by_models);
    *out = all;
    return n;
}
