/* SPDX-License-Identifier: Apache-2.0 */
/* compare_profile.c: compares two profiles, as `bp trace --json` and `bp profile --json` write
 * them. The time of one call counts, by operator, kernel, node, range and call of the host. The
 * noise is the spread of the calls of a row: of calls of different sizes it is wide, so that the
 * comparison is careful. */
#include "compare_reports.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    PROFILE_CALLS = 5, /* the spread of fewer calls says nothing about noise */
    PROFILE_NAMED = 3  /* rows that a note names */
};

struct profile_row {
    char *name; /* "op matmul" */
    double calls, median, low, high;
};
struct profile_rows {
    struct profile_row *at;
    size_t n;
};

static bool profile_number(const cJSON *row, const char *key, double *out)
{
    *out = bp_json_number(row, key);
    return *out >= 0;
}

static bool profile_take_row(struct profile_row *r, const cJSON *row)
{
    const char *by = bp_json_get(row, "by"), *name = bp_json_get(row, "name");
    double least, most, spread;

    if (!*by || !profile_number(row, "calls", &r->calls) ||
        !profile_number(row, "median_ns", &r->median) || !profile_number(row, "min_ns", &least) ||
        !profile_number(row, "max_ns", &most) || !profile_number(row, "spread_ns", &spread) ||
        !(least <= r->median && r->median <= most))
        return false;
    /* The middle half of the calls has the length `spread` and contains the median, wherever the
     * median lies in it. */
    r->low = fmax(least, r->median - spread);
    r->high = fmin(most, r->median + spread);
    r->name = bp_text_format("%s %s", by, name);
    return true;
}

static int profile_order(const void *a, const void *b)
{
    return strcmp(((const struct profile_row *)a)->name, ((const struct profile_row *)b)->name);
}

static void profile_rows_finish(struct profile_rows *rows)
{
    for (size_t i = 0; i < rows->n; i++) free(rows->at[i].name);
    free(rows->at);
}

/* Takes the rows of a profile, sorted by name, but those by thread, whose names have the numbers of
 * the threads. False: it is not of this form. */
static bool profile_rows_take(struct profile_rows *rows, const cJSON *json)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(json, "rows"), *row;
    bool good = cJSON_IsArray(list);

    *rows = (struct profile_rows){calloc((size_t)cJSON_GetArraySize(list) + 1, sizeof *rows->at),
                                  0};
    if (!rows->at) abort();
    cJSON_ArrayForEach(row, list)
    {
        if (!strcmp(bp_json_get(row, "by"), "thread")) continue;
        if (!(good = good && profile_take_row(&rows->at[rows->n], row))) break;
        rows->n++;
    }
    if (rows->n) qsort(rows->at, rows->n, sizeof *rows->at, profile_order);
    return good;
}

static const struct profile_row *profile_find(const struct profile_rows *rows,
                                              const struct profile_row *like)
{
    return rows->n ? bsearch(like, rows->at, rows->n, sizeof *like, profile_order) : NULL;
}

static void profile_row(struct compare *c, const struct profile_row *a, const struct profile_row *b)
{
    double change = b->median / a->median - 1;
    bool apart = b->low > a->high || b->high < a->low;

    if (fmin(a->calls, b->calls) < PROFILE_CALLS || !apart || !(fabs(change) > c->least)) {
        c->same++;
        return;
    }
    compare_add(c, b->median > a->median ? COMPARE_REGRESSION : COMPARE_IMPROVEMENT, b->name,
                "%.4g us a call, now %.4g (%+.1f %%, spread %.4g to %.4g, now %.4g to %.4g); %.0f "
                "calls, now %.0f",
                a->median / 1e3, b->median / 1e3, 100 * change, a->low / 1e3, a->high / 1e3,
                b->low / 1e3, b->high / 1e3, a->calls, b->calls);
}

/* Notes the number of rows with another number of calls, and the first of them. */
static void profile_note_calls(struct compare *c, const struct profile_rows *a,
                               const struct profile_rows *b)
{
    size_t n = 0, few = 0;
    char *named = strdup("");

    for (size_t i = 0; i < b->n; i++) {
        const struct profile_row *now = &b->at[i], *before = profile_find(a, now);
        char *longer;
        if (!before) continue;
        few += fmin(before->calls, now->calls) < PROFILE_CALLS;
        if (before->calls == now->calls || n++ >= PROFILE_NAMED) continue;
        longer = bp_text_format("%s; %s: %.0f, now %.0f", named, now->name, before->calls,
                                now->calls);
        free(named);
        named = longer;
    }
    if (n) compare_note(c, "rows with another number of calls: %zu%s", n, named);
    if (few)
        compare_note(c,
                     "rows of fewer than %d calls, whose noise is unknown and which are not "
                     "judged: %zu",
                     PROFILE_CALLS, few);
    free(named);
}

/* A profile without events of this kind was recorded in another way. */
static void profile_note_lost(struct compare *c, const cJSON *json, const char *which)
{
    double lost = 0;

    if (profile_number(json, "lost", &lost) && lost > 0)
        compare_note(c, "%s profile lacks %.0f events, which were lost", which, lost);
    if (cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(json, "finished")))
        compare_note(c, "%s profile has no end: its process was killed", which);
}

int compare_profile(struct compare *c, const cJSON *json_a, const cJSON *json_b, char *out_why,
                    size_t size)
{
    struct profile_rows a, b = {0};
    int wrong = !profile_rows_take(&a, json_a) ? 1 : !profile_rows_take(&b, json_b) ? 2 : 0;

    if (wrong)
        snprintf(out_why, size,
                 "expected rows that have by, name, calls, min_ns, median_ns, max_ns and spread_ns "
                 "each: write the JSON again with this version");
    for (int i = 0; !wrong && i < 2; i++)
        profile_note_lost(c, i ? json_b : json_a, i ? "the later" : "the earlier");
    if (!wrong) profile_note_calls(c, &a, &b);
    for (size_t i = 0; !wrong && i < b.n; i++) {
        const struct profile_row *before = profile_find(&a, &b.at[i]);
        if (before) profile_row(c, before, &b.at[i]);
        else
            compare_add(c, COMPARE_NEW, b.at[i].name, "%.0f calls of %.4g us", b.at[i].calls,
                        b.at[i].median / 1e3);
    }
    for (size_t i = 0; !wrong && i < a.n; i++)
        if (!profile_find(&b, &a.at[i]))
            compare_add(c, COMPARE_GONE, a.at[i].name, "was %.0f calls of %.4g us", a.at[i].calls,
                        a.at[i].median / 1e3);
    profile_rows_finish(&a);
    profile_rows_finish(&b);
    return wrong;
}
