/* SPDX-License-Identifier: Apache-2.0 */
/* compare_conform.c: compares two conformance reports by the outcomes of their cases. */
#include "compare_reports.h"

#include <earlier.h>
#include <string.h>

/* 0: passed; 1: not judged, or a known failure; 2: failed. A higher number is worse. */
static int outcome_rank(const struct earlier_case *c)
{
    if (c->outcome == OUTCOME_PASS) return 0;
    return outcome_is_bad(c->outcome) ? 2 : 1;
}

static void conform_case(struct compare *c, const struct earlier_case *a,
                         const struct earlier_case *b)
{
    int before = outcome_rank(a), after = outcome_rank(b);

    if (before == after) {
        c->same++;
        return;
    }
    compare_add(c, after > before ? COMPARE_REGRESSION : COMPARE_IMPROVEMENT, b->id,
                "%s, now %s%s%s", outcome_name(a->outcome), outcome_name(b->outcome),
                after > before && *b->message ? ": " : "", after > before ? b->message : "");
}

static void conform_level(struct compare *c, const struct earlier *a, const struct earlier *b)
{
    enum level before = level_find(a->level), after = level_find(b->level);

    /* A report of a part of the suite has no level. */
    if (before == LEVEL_COUNT || after == LEVEL_COUNT || before == after) return;
    if (before == LEVEL_NONE || after == LEVEL_NONE) return;
    compare_add(c, after < before ? COMPARE_REGRESSION : COMPARE_IMPROVEMENT, "level", "%s, now %s",
                a->level, b->level);
}

int compare_conform(struct compare *c, const cJSON *json_a, const cJSON *json_b, char *out_why,
                    size_t size)
{
    struct earlier a, b;

    if (!earlier_init(&a, json_a, out_why, size)) return 1;
    if (!earlier_init(&b, json_b, out_why, size)) {
        earlier_finish(&a);
        return 2;
    }
    if (a.seed != b.seed)
        compare_note(c, "the seeds differ (%.0f, now %.0f): so do the ids of some cases", a.seed,
                     b.seed);
    conform_level(c, &a, &b);
    for (size_t i = 0; i < b.n; i++) {
        const struct earlier_case *now = &b.at[i], *before = earlier_find(&a, now->id);
        if (before) conform_case(c, before, now);
        else if (outcome_rank(now) == 2)
            compare_add(c, COMPARE_REGRESSION, now->id, "new, and %s: %s",
                        outcome_name(now->outcome), now->message);
        else compare_add(c, COMPARE_NEW, now->id, "%s", outcome_name(now->outcome));
    }
    for (size_t i = 0; i < a.n; i++)
        if (!earlier_find(&b, a.at[i].id))
            compare_add(c, COMPARE_GONE, a.at[i].id, "was %s", outcome_name(a.at[i].outcome));
    earlier_finish(&a);
    earlier_finish(&b);
    return 0;
}
