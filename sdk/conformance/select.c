/* SPDX-License-Identifier: Apache-2.0 */
/* select.c: matches suites and case ids against the options that select cases. */
#include "select.h"
#include <fnmatch.h>
#include <string.h>

const char *suite_name(enum suite suite)
{
    static const char *const name[] = {
#define X(NAME, name) #name,
        CONFORM_SUITES(X)
#undef X
    };
    return name[suite];
}

bool selection_has(const struct selection *s, enum suite suite)
{
    const char *name = suite_name(suite);
    size_t n = strlen(name);

    if (!s->suites) return suite != SUITE_STRESS;
    for (const char *at = s->suites; *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == n && !strncmp(at, name, n)) return true;
    return false;
}

/* Whether a filter excludes the ids that it matches. */
static bool select_excludes(const char *filter)
{
    return *filter == '!';
}

bool selection_fits(const struct selection *s, const char *id)
{
    bool fits = true, any = false;

    for (size_t i = 0; i < s->n_filters; i++) {
        const char *filter = s->filters[i];
        bool out = select_excludes(filter), same = !fnmatch(filter + out, id, FNM_NOESCAPE);
        if (out && same) return false;
        if (!out) fits = any = any || same;
    }
    return fits;
}

/* Every id that a glob matches begins with the characters in front of the glob's first wildcard. */
static bool select_reaches(const char *filter, const char *stem)
{
    size_t fixed = strcspn(filter, "*?["), n = strlen(stem);

    if (fixed <= n) return !strncmp(filter, stem, fixed);
    return !strncmp(filter, stem, n) && (filter[n] == '/' || filter[n] == '@');
}

bool selection_reaches(const struct selection *s, const char *stem)
{
    bool all = true;

    for (size_t i = 0; i < s->n_filters; i++) {
        if (select_excludes(s->filters[i])) continue;
        if (select_reaches(s->filters[i], stem)) return true;
        all = false;
    }
    return all;
}
