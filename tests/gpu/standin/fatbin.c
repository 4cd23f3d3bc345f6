/* SPDX-License-Identifier: Apache-2.0 */
/* fatbin.c: reads NVIDIA's fat binaries: a header, and parts, each of which is PTX or code for one
 * architecture. */
#include "standin.h"
#include <stdlib.h>
#include <string.h>

#define MAGIC UINT32_C(0xba55ed50)
enum {
    PTX = 1,
    CUBIN = 2,
    COMPRESSED = 0xa000
}; /* COMPRESSED: by either of two methods */

struct head {
    uint32_t magic;
    uint16_t version, size;
    uint64_t rest; /* bytes after the header */
};

struct part {
    uint16_t kind, version;
    uint32_t head; /* bytes of this header */
    uint64_t size; /* of the data after this header */
    uint32_t compressed, reserved;
    uint16_t minor, major;
    uint32_t arch; /* 80 for sm_80 */
    uint64_t name;
    uint64_t flags;
};

/* Rates a part for a device; 0: it does not fit. Code runs on devices of its generation that are
 * not older, PTX on all devices that are not older. The device takes code before PTX, and the
 * newest part of either. */
static unsigned fatbin_fitness(const struct part *part, unsigned arch)
{
    if (part->arch > arch) return 0;
    if (part->kind == CUBIN && part->arch / 10 == arch / 10) return part->arch + 1000;
    return part->kind == PTX ? part->arch : 0;
}

int standin_read(const void *image, struct standin_image *out)
{
    unsigned arch = (unsigned)atoi(standin_arch()), best = 0;
    const unsigned char *at = image, *end, *data = NULL;
    struct part part, taken = {0};
    struct head head;

    memcpy(&head, image, sizeof head);
    if (head.magic != MAGIC || head.version != 1 || head.size < sizeof head)
        return standin_refuse(SIM_INVALID_IMAGE, "an image is no fat binary");
    at += head.size;
    for (end = at + head.rest; (size_t)(end - at) >= sizeof part; at += part.head + part.size) {
        memcpy(&part, at, sizeof part);
        if (part.head < sizeof part || part.size > (size_t)(end - at) - part.head)
            return standin_refuse(SIM_INVALID_IMAGE, "a part of a fat binary is longer than it");
        if (fatbin_fitness(&part, arch) <= best) continue;
        best = fatbin_fitness(&part, arch);
        taken = part;
        data = at + part.head;
    }
    if (!data) return SIM_NO_IMAGE;
    if (taken.flags & COMPRESSED)
        return standin_refuse(SIM_INVALID_IMAGE, "an image is compressed, which only the driver "
                                                 "reads: build with -Dgpu_images=quick");
    return taken.kind == PTX ? standin_read_ptx((const char *)data, taken.size, out)
                             : standin_read_cubin(data, taken.size, out);
}
