/* SPDX-License-Identifier: Apache-2.0 */
/* list.h: all cases of a device, in an order that is the same in every process. The list is made of
 * units, which follow each other: cases that need no kernel, the suite stress, collectives, those
 * of a kernel row, those of an operator without a row, those of rows as steps of an operator, the
 * gradients of an operator. A process that
 * runs cases of one unit makes that one only. */
#ifndef BP_CONFORM_LIST_H
#define BP_CONFORM_LIST_H

#include "check.h"
#include <ops/common/cases.h>
#include "select.h"

struct listed {
    char id[CASE_ID];
    enum suite suite;
    int unit, at; /* number at of that unit's cases */
    int row; /* of a kernel case: number in rows; else -1 */
    bool quick;
    check_fn *run; /* of all suites but kernel, gradient and onnx */
    int64_t arg[2];
    /* Its gradient is, in that suite, the order: 1 or 2. NULL: there is nothing to run, outcome and
     * message say why. */
    struct kernel_case *kernel;
    const struct kernel_case **of_twice; /* own */
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
    struct place *place; /* with the device, and the seed of extents that are drawn */
    const struct selection *wanted;
    bool left_out[SUITE_COUNT]; /* whether there are units that were not made, for no case of them
                                   can be wanted */
};

enum { LIST_ALL = -1 };

/* All units, or one. Those after the first only where cases of them may be wanted; one that is made
 * is whole, so that its cases have the same numbers in every process. Without a device only the
 * suite `plugin`, which comes first in both. The list keeps place. */
void list_init(struct list *list, struct place *place, int unit, const struct selection *wanted);

void list_finish(struct list *list);

#endif
