/* SPDX-License-Identifier: Apache-2.0 */
/* loop.h: operators that make each element from those at its place in the inputs. A family has one
 * loop an operator, over elements that lie side by side; inputs that are broadcast or lie otherwise
 * are brought together for it, a part at a time, and so are results. */
#ifndef CPU_LOOP_H
#define CPU_LOOP_H

#include "stream_store.h"
#include "walk.h"
#include <stdbool.h>

struct loop {
    /* Makes y[0] to y[n - 1]. y may be an input: each element is read before it is written. */
    void (*run)(const struct loop *loop, int64_t n, void *y, const void *const *x);
    int op; /* which formula of the family */
    bool lines; /* run itself stores past the caches, where loop_past says so */

    /* Set by cpu_loop_run: view 0 is the result. */
    struct walk walk;
    char *first[WALK_VIEWS];
    int64_t size[WALK_VIEWS]; /* of an element */
    int n_in;
    bool past; /* the result is stored past the caches; its elements lie side by side */
};

/* Whether run, if it can, stores past the caches what begins at y; else y may be anywhere. */
static inline bool loop_past(const struct loop *loop, const void *y)
{
    return loop->past && (uintptr_t)y % PAST_LINE == 0;
}

/* Runs it for all elements of a result and of n_in inputs (at most 3) that broadcast to it. */
void cpu_loop_run(struct loop *loop, const struct bp_launch *launch, const struct bp_view *y,
                  const struct bp_view *const *x, int n_in);

#endif
