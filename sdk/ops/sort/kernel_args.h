/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_args.h: numbers of the kernels of kernel.h, which launches work out. */
#ifndef BP_KERNELS_ORDER_ARGS_H
#define BP_KERNELS_ORDER_ARGS_H

#include "../../dialect/dialect.h"

/* A value as what it is sorted by, and where it was along its line. */
struct sort_pair {
    u64 key;
    i64 at;
};

enum { SORT_PART = 1024, SORT_RUN = 16, PICK_MOST = 16 };

/* Entries that share their numbers: names of one struct. */

/* Lines of extent elements of [outer, extent, inner]: those from number first on, whose pairs lie
 * one after the other. down: the largest first. */
struct sort_args {
    i64 first, extent, inner, down;
};
#define sort_load_args sort_args
#define sort_parts_args sort_args

/* Sorted runs of width become runs of twice that. */
struct sort_merge_args {
    i64 extent, width;
};

/* Of each line the sorted values from number skip on, take of them. */
struct sort_write_args {
    i64 first, extent, inner, skip, take;
};
struct mode_args {
    i64 first, extent, inner;
};
struct pick_args {
    i64 extent, inner, down, skip, take;
};

/* n pairs in parts of `part`. */
struct unique_args {
    i64 n, part, parts;
};
#define unique_count_args unique_args
#define unique_scan_args unique_args
#define unique_write_args unique_args

/* m values for each line of n sorted ones; shared: one line serves all. */
struct search_args {
    i64 n, m, shared, right, wide;
};

struct shard_args {
    i64 count, size, shard, ignored;
};

/* n values in parts of `part`; data: the range is in memory. */
struct histogram_args {
    i64 n, part, parts, bins, data;
    host_real low, high;
};
#define histogram_range_args histogram_args
#define histogram_count_args histogram_args
#define histogram_add_args histogram_args

/* What the four numbers of a box are: two corners, the first below the second; two opposite ones;
 * the centre and the extents. */
enum { NMS_CORNERS, NMS_OPPOSITE, NMS_CENTRE };

/* Lines of scores of n boxes, from number first on: `classes` of them for each batch of boxes. */
struct nms_args {
    i64 first, n, most, classes, form;
    host_real threshold, score;
};
struct nms_write_args {
    i64 most, classes;
};

#endif
