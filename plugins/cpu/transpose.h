/* SPDX-License-Identifier: Apache-2.0 */
/* transpose.h: moves in which the innermost axis of the destination is not that of the source. */
#ifndef CPU_TURN_H
#define CPU_TURN_H

#include "walk.h"
#include <stdbool.h>

/* Copies elements of size bytes from the places of view 1 to those of view 0, which share no
 * memory, in tiles. walk: sorted by view 0 and collapsed. False, and nothing is done, where they
 * lie in another way, or where tiles would be small. */
bool cpu_turn(const struct walk *walk, const struct bp_launch *launch, void *to, const void *from,
              int size);

/* transpose_tile.c, for elements of 1, 2, 4 and 8 bytes: element r of row c of to becomes element c
 * of row r of from. Steps are those from row to row, in elements. Of each row, the next elements
 * after its columns are needed soon. */
typedef void cpu_turn_tile(void *to, int64_t to_step, const void *from, int64_t from_step,
                           int64_t rows, int64_t columns, int64_t next);

/* The same, stored past the caches (stream_store.h); rows of to begin lines there. fetched: rows
 * are so far apart, in both, that the machine does not fetch them by itself. */
typedef void cpu_turn_lines(void *to, int64_t to_step, const void *from, int64_t from_step,
                            int64_t rows, int64_t columns, int fetched);

#endif
