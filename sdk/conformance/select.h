/* SPDX-License-Identifier: Apache-2.0 */
/* select.h: which cases are wanted. What makes the list asks too, so that cases nobody wants are
 * not made. */
#ifndef BP_CONFORM_SELECT_H
#define BP_CONFORM_SELECT_H

#include <stdbool.h>
#include <stddef.h>

/* What a device is tested for. X(NAME, name) in the order in which they run. */
#define CONFORM_SUITES(X) \
    X(PLUGIN, plugin) \
    X(RUNTIME, runtime) X(MEMORY, memory) X(KERNEL, kernel) X(GRADIENT, gradient) X(CCL, ccl) \
    X(STRESS, stress) X(ONNX, onnx)
enum suite {
#define X(NAME, name) SUITE_##NAME,
    CONFORM_SUITES(X)
#undef X
    SUITE_COUNT,
};
const char *suite_name(enum suite suite);

struct selection {
    const char *suites;         /* "plugin,kernel"; NULL: all but stress */
    const char *const *filters; /* globs on ids; one of them must fit, and none of those
                                   behind a '!' */
    size_t n_filters;           /* 0: all fit */
    bool quick;                 /* only cases of a quick run, and lines that are no cases */
};

/* Whether a suite is wanted, by name. */
bool selection_has(const struct selection *s, enum suite suite);

/* Whether an id fits a filter, if there are any. */
bool selection_fits(const struct selection *s, const char *id);

/* Whether an id may fit that is the stem, or the stem and more after a '/' or '@'. */
bool selection_reaches(const struct selection *s, const char *stem);

#endif
