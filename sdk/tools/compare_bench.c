/* SPDX-License-Identifier: Apache-2.0 */
/* compare_bench.c: compares two reports of `bp bench`. A row counts as changed only if its spreads
 * in the two reports have no common point, and its medians differ by more than the least
 * difference. */
#include "compare_reports.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    NAME = 160
};

/* A row of a report: a figure, or its ratio of times if it has a reference. */
struct figure {
    char name[NAME];
    const char *unit, *reference;
    double value, reference_value; /* as printed; reference_value 0: none */
    double middle, low, high;      /* of the number that is compared: the median and the spread */
    bool is_ratio;                 /* the number is the ratio of times */
};

static bool take_number(const cJSON *row, const char *key, double *out)
{
    *out = bp_json_number(row, key);
    return !isnan(*out);
}

/* The spread: the middle half of the pairs and the medians of the repeats. */
static bool figure_spread(struct figure *f, const cJSON *row)
{
    const cJSON *repeats = cJSON_GetObjectItemCaseSensitive(row, f->is_ratio ? "ratio_repeats"
                                                                             : "repeats"),
                *one;

    if (!take_number(row, f->is_ratio ? "ratio" : "value", &f->middle) ||
        !take_number(row, f->is_ratio ? "ratio_low" : "low", &f->low) ||
        !take_number(row, f->is_ratio ? "ratio_high" : "high", &f->high) ||
        !(f->low <= f->middle && f->middle <= f->high) || !cJSON_IsArray(repeats) ||
        !cJSON_GetArraySize(repeats))
        return false;
    cJSON_ArrayForEach(one, repeats)
    {
        if (!cJSON_IsNumber(one)) return false;
        f->low = fmin(f->low, one->valuedouble);
        f->high = fmax(f->high, one->valuedouble);
    }
    return true;
}

static bool figure_take(struct figure *f, const cJSON *row)
{
    const char *name = bp_json_get(row, "name");
    double threads;

    *f = (struct figure){.unit = bp_json_get(row, "unit"),
                         .reference = bp_json_get(row, "reference")};
    if (!*name || !take_number(row, "threads", &threads) || !take_number(row, "value", &f->value))
        return false;
    /* The same row of another number of threads is another figure. */
    snprintf(f->name, sizeof f->name, "%s, %.0f thread%s", name, threads, threads > 1 ? "s" : "");
    f->is_ratio = *f->reference != 0;
    if (!take_number(row, "reference_value", &f->reference_value)) f->reference_value = 0;
    return figure_spread(f, row);
}

/* Takes all rows of a report. NULL: it is not of this form. */
static struct figure *figures_take(const cJSON *json, size_t *out_n)
{
    const cJSON *results = cJSON_GetObjectItemCaseSensitive(json, "results"), *row;
    struct figure *f;
    bool good = cJSON_IsArray(results);
    size_t n = 0;

    f = calloc((size_t)cJSON_GetArraySize(results) + 1, sizeof *f);
    if (!f) abort();
    cJSON_ArrayForEach(row, results)
    {
        good = good && figure_take(&f[n], row);
        for (size_t i = 0; good && i < n; i++) good = strcmp(f[i].name, f[n].name) != 0;
        n++;
    }
    *out_n = n;
    if (good) return f;
    free(f);
    return NULL;
}

static const struct figure *figure_find(const struct figure *f, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(f[i].name, name)) return &f[i];
    return NULL;
}

/* Whether more of the number is slower: times, and ratios of times. */
static bool more_is_slower(const struct figure *f)
{
    return f->is_ratio || !strcmp(f->unit, "ns");
}

static void bench_figure(struct compare *c, const struct figure *a, const struct figure *b)
{
    double change = (b->middle - a->middle) / fabs(a->middle);
    bool apart = b->low > a->high || b->high < a->low;
    char ratio[100] = "", reference[100] = "";

    if (strcmp(a->unit, b->unit) || strcmp(a->reference, b->reference)) {
        compare_add(c, COMPARE_GONE, a->name,
                    "%.4g %s beside '%s'; the row has another meaning now", a->value, a->unit,
                    a->reference);
        compare_add(c, COMPARE_NEW, b->name, "%.4g %s beside '%s'", b->value, b->unit,
                    b->reference);
        return;
    }
    if (!apart || !(fabs(change) > c->least)) {
        c->same++;
        return;
    }
    if (a->is_ratio)
        snprintf(ratio, sizeof ratio, "; times over those of %.40s: %.3f, now %.3f", a->reference,
                 a->middle, b->middle);
    if (a->reference_value > 0 && fabs(b->reference_value / a->reference_value - 1) > 0.1)
        snprintf(reference, sizeof reference, "; the reference itself: %.4g, now %.4g",
                 a->reference_value, b->reference_value);
    compare_add(c, (change > 0) == more_is_slower(a) ? COMPARE_REGRESSION : COMPARE_IMPROVEMENT,
                b->name,
                "%.4g %s, now %.4g (%+.1f %% %s, spread %.4g to %.4g, now %.4g to %.4g)%s%s",
                a->value, a->unit, b->value, 100 * change, a->is_ratio ? "of the ratio" : "",
                a->low, a->high, b->low, b->high, ratio, reference);
}

int compare_bench(struct compare *c, const cJSON *json_a, const cJSON *json_b, char *out_why,
                  size_t size)
{
    size_t n_a = 0, n_b = 0;
    struct figure *a = figures_take(json_a, &n_a), *b = a ? figures_take(json_b, &n_b) : NULL;
    int wrong = !a ? 1 : !b ? 2 : 0;

    if (wrong)
        snprintf(out_why, size,
                 "expected results that have a name each, threads, value, low, high and repeats: "
                 "measure again with this version");
    if (!wrong && strcmp(bp_json_get(json_a, "machine"), bp_json_get(json_b, "machine")))
        compare_note(c, "the machines differ: %s, now %s", bp_json_get(json_a, "machine"),
                     bp_json_get(json_b, "machine"));
    for (size_t i = 0; !wrong && i < n_b; i++) {
        const struct figure *before = figure_find(a, n_a, b[i].name);
        if (before) bench_figure(c, before, &b[i]);
        else compare_add(c, COMPARE_NEW, b[i].name, "%.4g %s", b[i].value, b[i].unit);
    }
    for (size_t i = 0; !wrong && i < n_a; i++)
        if (!figure_find(b, n_b, a[i].name))
            compare_add(c, COMPARE_GONE, a[i].name, "was %.4g %s", a[i].value, a[i].unit);
    free(a);
    free(b);
    return wrong;
}
