/* SPDX-License-Identifier: Apache-2.0 */
/* nms.h: divides the workspace of nms.c. */
#ifndef CPU_NMS_H
#define CPU_NMS_H

#include <stdint.h>

/* Offsets in bytes: the kept boxes, up to `most` for each line; the number of them for each line;
 * the scratch memory of each part of the lines, `part` bytes. */
struct nms_room {
    int64_t index, counts, scratch, part, parts, bytes;
};

/* n boxes. A launch may be narrower than the plan, which then has more parts than the launch
 * uses. */
static inline struct nms_room nms_room(int64_t lines, int64_t n, int64_t most, uint32_t width)
{
    enum { EACH = 4, LARGEST = 8 }; /* parts for each thread; bytes of a coordinate */
    struct nms_room r = {.parts = EACH * (int64_t)(width ? width : 1)};

    if (r.parts > lines) r.parts = lines;
    r.counts = 8 * lines * most;
    r.scratch = r.counts + 8 * lines;
    r.part = (16 * n + 5 * LARGEST * most + 63) / 64 * 64;
    r.bytes = r.scratch + r.parts * r.part;
    return r;
}

#endif
