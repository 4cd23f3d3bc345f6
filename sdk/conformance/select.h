/* SPDX-License-Identifier: Apache-2.0 */
/* select.h: decides which cases are selected. The code that makes the list of cases calls it too,
 * so that cases that no filter selects are not made. */
#ifndef BP_CONFORM_SELECT_H
#define BP_CONFORM_SELECT_H

#include <stdbool.h>
#include <stddef.h>

/* The suites. X(NAME, name), in the order in which they run. */
#define CONFORM_SUITES(X) \
    X(PLUGIN, plugin) \
    X(RUNTIME, runtime) X(MEMORY, memory) X(KERNEL, kernel) X(GRADIENT, gradient) X(CCL, ccl) \
    X(PASS, pass) X(GRAPH, graph) X(STRESS, stress) X(ONNX, onnx)
enum suite {
#define X(NAME, name) SUITE_##NAME,
    CONFORM_SUITES(X)
#undef X
    SUITE_COUNT,
};
const char *suite_name(enum suite suite);

struct selection {
    const char *suites;         /* "plugin,kernel"; NULL: all but stress */
    /* Glob patterns for case ids. At least one pattern must match, and none of those behind a
     * '!'. */
    const char *const *filters;
    size_t n_filters; /* 0: all ids match */
    bool quick;       /* only cases of a quick run, and notes, which are no cases */
};

/* Whether the suite is selected by its name. */
bool selection_has(const struct selection *s, enum suite suite);

/* Whether id matches the filters. True if there are no filters. */
bool selection_fits(const struct selection *s, const char *id);

/* Whether a filter may match an id that equals the stem, or that begins with the stem and a '/' or
 * '@'. */
bool selection_reaches(const struct selection *s, const char *stem);

#endif
