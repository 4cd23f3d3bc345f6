/* SPDX-License-Identifier: Apache-2.0 */
/* move.h: declares kernels that only copy elements. One kernel row serves all dtypes, by their
 * size. */
#ifndef CPU_MOVE_H
#define CPU_MOVE_H

#include "walk.h"

/* Copies elements of `size` bytes. walk: view 0 is `to` and view 1 is `from`; the function reorders
 * its axes. The two must not overlap. */
void cpu_move(struct walk *walk, const struct bp_launch *launch, void *to, const void *from,
              int size);

/* Copies n elements of `size` bytes (1, 2, 4, 8 or 16). The steps are strides in elements. */
void cpu_copy_elements(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n,
                       int64_t size);

#endif
