/* SPDX-License-Identifier: Apache-2.0 */
/* roi_align.h: divides the workspace of roi_align.c. */
#ifndef CPU_ROI_ALIGN_H
#define CPU_ROI_ALIGN_H

#include <stdint.h>

/* Channels that are computed with the same tables: an item of work is a region and so many
 * channels. */
enum { ROI_CHANNELS = 128 };

/* The most weights of an axis: the bins of a region are side by side, and each has up to 2 elements
 * more than it reaches over, and up to 2 because of rounding. */
static inline int64_t roi_weights(int64_t in, int64_t out)
{
    return in + 4 * out + 4;
}

/* Each part of the items has scratch memory of `part` bytes: for each axis the weights (8 bytes),
 * their positions (8) and the first weight of each bin; the sums of one bin (8) and the marks of
 * its elements (8); a line of an image (8). */
struct roi_room {
    int64_t part, parts, bytes;
};

static inline struct roi_room roi_room_of(const int64_t in[2], int64_t out0, int64_t out1,
                                          int64_t regions, uint32_t width)
{
    enum { EACH = 4 }; /* parts for each thread */
    int64_t most = in[0] > in[1] ? in[0] : in[1];
    struct roi_room r = {.parts = EACH * (int64_t)(width ? width : 1)};

    if (regions < 1) r.parts = 0;
    r.part = 8 * (2 * (roi_weights(in[0], out0) + roi_weights(in[1], out1)) + out0 + out1 + 2 +
                  2 * most + in[1]);
    r.part = (r.part + 63) / 64 * 64;
    r.bytes = r.parts * r.part;
    return r;
}

#endif
