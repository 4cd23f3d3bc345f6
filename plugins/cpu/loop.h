/* SPDX-License-Identifier: Apache-2.0 */
/* loop.h: runs elementwise operators. Each family has one loop for each operator, over contiguous
 * elements. Inputs that are broadcast or strided are first gathered into buffers, one block at a
 * time, and strided results are written from buffers. */
#ifndef CPU_LOOP_H
#define CPU_LOOP_H

#include "stream_store.h"
#include "walk.h"
#include <stdbool.h>

struct loop {
    /* Computes y[0] to y[n - 1]. y may be an input: each element is read before it is written. */
    void (*run)(const struct loop *loop, int64_t n, void *y, const void *const *x);
    int op; /* the number of the formula in the family */
    bool lines; /* run itself uses streaming stores where loop_nt requires them */

    /* Set by cpu_loop_run: view 0 is the result. */
    struct walk walk;
    char *first[WALK_VIEWS];
    int64_t size[WALK_VIEWS]; /* size of an element in bytes */
    int n_in;
    bool nt; /* the result is written with streaming stores; its elements are contiguous */
};

/* Whether `run`, if it supports this (loop->lines), writes the result at y with streaming stores; y
 * then begins a cache line. Otherwise y may be any address. */
static inline bool loop_nt(const struct loop *loop, const void *y)
{
    return loop->nt && (uintptr_t)y % NT_LINE == 0;
}

/* Runs the loop for all elements of a result and of n_in inputs (at most 3) that broadcast to the
 * result's shape. */
void cpu_loop_run(struct loop *loop, const struct bp_launch *launch, const struct bp_view *y,
                  const struct bp_view *const *x, int n_in);

#endif
