/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_move.h: copies elements between any strides, for one size of elements (elem.h). */
#ifndef BP_OPS_COPY_KERNEL_MOVE_H
#define BP_OPS_COPY_KERNEL_MOVE_H

#include "../../dialect/walk.h"

struct move_args {
    struct walk_by_value walk;
};

#ifdef ELEM
#include "../../dialect/run.h"

KFN int move_is_even(const struct move_args *a, GLOBAL elem *y, GLOBAL const elem *x)
{
    return RUN_EVEN(&a->walk, 0, y) && RUN_EVEN(&a->walk, 1, x);
}

/* x may be NULL, which means zeros. */
RUN_FN void move_run(const struct move_args *a, struct walk_run r, GLOBAL elem *y,
                     GLOBAL const elem *x)
{
    elem zero = elem_put(acc_zero());
    RUN_IN_OR(elem, p, 1, x, zero);
    RUN_OUT(elem, w, 0, y);

    (void)a;
    RUN_EACH(w, RUN_OR(p, zero))
    RUN_END(elem, w, 0, y);
}
ENTRY_RUNS_2(move, elem, const elem)
#endif

#endif
