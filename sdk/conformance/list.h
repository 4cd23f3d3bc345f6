/* SPDX-License-Identifier: Apache-2.0 */
/* list.h: all cases of a device, in an order that is the same in every process. The list is made of
 * units, which follow each other: cases that need no kernel, the suite stress, collectives, those
 * of a kernel row, those of an operator without a row, the gradients of an operator. A process that
 * runs cases of one unit makes that one only. */
#ifndef BP_CONFORM_LIST_H
#define BP_CONFORM_LIST_H

#include "check.h"
#include "kernel_case.h"

/* X(NAME, name) in the order in which they run. */
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

struct listed {
    char id[CASE_ID];
    enum suite suite;
    int unit;
    int row; /* of a kernel case: number in rows; else -1 */
    bool quick;
    check_fn *run; /* of all suites but kernel, gradient and onnx */
    int64_t arg[2];
    /* Its gradient is, in that suite, the order: 1 or 2. NULL: there is nothing to run, outcome and
     * message say why. */
    struct kernel_case *kernel;
    enum outcome outcome;
    char *message; /* own */
    uint64_t hash; /* of the id of a kernel's or gradient's case, before it got a number */
};

struct list_row {
    const char *name, *op;
    bool usable;
};

struct list {
    struct listed *at;
    size_t n, room;
    struct list_row *row;
    size_t n_row;
    int unit, only; /* the unit that is being made, and the one that is wanted */
    size_t first;   /* case of that unit */
    bool kernel, gradient, stress; /* whether these suites are wanted */
};

enum { LIST_ALL = -1 };

/* All cases, or those of one unit; of kernel and gradient only where `suites`, names with
 * commas between them, has them (NULL: all but stress, which is to be
 * named). With device NULL only the suite `plugin`, which comes first in both. */
void list_init(struct list *list, struct bp_device *device, int unit, const char *suites);
void list_finish(struct list *list);

#endif
