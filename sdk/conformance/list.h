/* SPDX-License-Identifier: Apache-2.0 */
/* list.h: the list of all cases of a device, in an order that is the same in every process. The
 * list consists of consecutive units: the cases that need no kernel, the suite stress, the
 * collectives, the cases of each kernel row, the cases of each operator without a row, the cases in
 * which rows are steps of operators, the gradients of each operator, and the cases of patterns and
 * engines. A process that runs cases of one unit makes only that unit. */
#ifndef BP_CONFORM_LIST_H
#define BP_CONFORM_LIST_H

#include "check.h"
#include <ops/common/cases.h>
#include "select.h"

struct listed {
    char id[CASE_ID];
    enum suite suite;
    int unit, at; /* the case is number `at` of unit `unit` */
    int row;      /* for a kernel case: index of its kernel row in list->row; else -1 */
    bool quick;
    check_fn *run; /* runs the case, unless it is a kernel case */
    int64_t arg[2];
    /* For a kernel case: of the suites kernel and gradient, and most of the suite stress. In the
     * suite gradient, kernel->gradient is the order: 1 or 2. If run and kernel are both NULL, there
     * is nothing to run, and outcome and message give the result. */
    struct kernel_case *kernel;
    const struct kernel_case **of_twice; /* owned by the list */
    enum outcome outcome;
    char *message; /* owned by the list */
    uint64_t hash; /* hash of a kernel or gradient case's id before a number was added */
};

struct list_row {
    const char *name, *op;
    bool usable;
    bool in_programs; /* only programs use it: it has layouts of the plugin */
};

struct list {
    struct listed *at;
    size_t n, room;
    struct list_row *row;
    size_t n_row;
    int unit, only; /* the unit that is being made, and the one that is wanted */
    size_t first;   /* index of the first case of the current unit */
    struct fixture *fixture; /* has the device, and the seed of drawn extents */
    const struct selection *wanted;
    /* Whether units of the suite were not made because no filter can match any of their cases. */
    bool left_out[SUITE_COUNT];
};

enum { LIST_ALL = -1 };

/* Makes all units, or one. With LIST_ALL, units after the first are made only if a filter may match
 * one of their cases. A unit is always made completely, so that its cases have the same numbers in
 * every process. Without a device, the list has only the suite `plugin`, which is the beginning of
 * the list with a device too. place must outlive the list. */
void list_init(struct list *list, struct fixture *fixture, int unit,
               const struct selection *wanted);

void list_finish(struct list *list);

#endif
