/* SPDX-License-Identifier: Apache-2.0 */
/* transpose.h: copies tensors whose innermost axis in the destination is not the innermost axis in
 * the source. */
#ifndef CPU_TRANSPOSE_H
#define CPU_TRANSPOSE_H

#include "walk.h"
#include <stdbool.h>

/* Copies elements of `size` bytes in tiles from view 1 to view 0, which must not overlap. walk:
 * sorted by view 0 and collapsed. Returns false, and copies nothing, if the views have another
 * layout or the tiles would be small. */
bool cpu_transpose(const struct walk *walk, const struct bp_launch *launch, void *to,
                   const void *from, int size);

/* transpose_planes.c: the same where view 0 has groups of at most 7 elements that follow each other
 * without gaps, and each element of a group lies in another plane of view 1; or the reverse. */
bool cpu_transpose_planes(const struct walk *walk, const struct bp_launch *launch, void *to,
                          const void *from, int size);

/* transpose_few.c: moves n groups of `few` elements (2 to 7) to planes or from planes, whose
 * distance is `plane` elements. */
typedef void cpu_transpose_few(void *to, const void *from, int64_t plane, int64_t n, int few);

/* transpose_tile.c: copies a tile of elements of 1, 2, 4 or 8 bytes: element r of row c of `to`
 * becomes element c of row r of `from`. Steps are distances of rows in elements. next: the number
 * of elements after the tile's columns that are needed soon, which the function prefetches from
 * each row. */
typedef void cpu_transpose_tile(void *to, int64_t to_step, const void *from, int64_t from_step,
                                int64_t rows, int64_t columns, int64_t next);

/* The same with streaming stores (stream_store.h); rows of `to` begin at cache lines. fetched: the
 * rows of both are so far apart that the hardware prefetcher does not follow them, so the function
 * prefetches them. */
typedef void cpu_transpose_lines(void *to, int64_t to_step, const void *from, int64_t from_step,
                                 int64_t rows, int64_t columns, int fetched);

#endif
