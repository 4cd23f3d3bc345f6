/* SPDX-License-Identifier: Apache-2.0 */
/* move.h: kernels that move elements and compute nothing: one row serves all dtypes, by their
 * size. */
#ifndef CPU_MOVE_H
#define CPU_MOVE_H

#include "walk.h"

/* Copies elements of size bytes. walk: view 0 is to, view 1 is from, as their axes lie; it is
 * reordered. The two share no memory. */
void cpu_move(struct walk *walk, const struct bp_launch *launch, void *to, const void *from,
              int size);

/* Copies n elements of size bytes (1, 2, 4, 8, 16), steps apart. */
void cpu_copy_elements(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n,
                       int64_t size);

#endif
