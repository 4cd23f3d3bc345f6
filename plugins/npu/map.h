/* SPDX-License-Identifier: Apache-2.0 */
/* map.h: declares maps along one axis: each result is made of a few elements of that axis, which a
 * constant table names. Pools, their gradients and resizing are such maps, where the vendor has no
 * function for them. */
#ifndef NPU_MAP_H
#define NPU_MAP_H

#include "compose.h"

enum {
    NPU_MAP_MOST = 1 << 20, /* entries of a table */
    NPU_MAP_TAPS = 512      /* elements of one result */
};

/* Result j is made of `taps` elements: index[j taps + t], t from 0 on. The index n stands for the
 * number `behind`, as if it lay behind the axis. */
struct npu_map {
    int64_t n, results, taps;
    double behind;
    int64_t *index;
    float *weight; /* NULL: all are 1 */
};

/* Returns false if there is no memory, or if the table is too large. npu_map_finish is allowed
 * then. */
bool npu_map_init(struct npu_map *map, int64_t n, int64_t results, int64_t taps, bool weighted);
void npu_map_finish(struct npu_map *map);
/* The map by which a gradient goes back: n and results exchanged. */
bool npu_map_transpose(struct npu_map *out, const struct npu_map *map);

enum npu_map_of {
    NPU_MAP_SUM,
    NPU_MAP_MOST_OF
}; /* the sum, the largest element */

/* x, contiguous, with the results in place of an axis. The steps copy the tables: each constant
 * belongs to the plan. */
struct kit_arg npu_map_apply(struct kit_build *b, const struct npu_map *map, struct kit_arg x,
                             uint32_t axis, enum npu_map_of of);

#endif
