/* SPDX-License-Identifier: Apache-2.0 */
/* device.c: reports how many devices the plugin has, and their properties. Read next: memory.c. */
#include "template.h"

/* A real plugin queries its driver. 0 is a valid count: this machine has no such device. */
enum bp_status template_device_count(void *self, uint32_t *out_count)
{
    *out_count = 1;
    return BP_OK;
}

/* Work is done later than its call, and the host cannot access the memory: no flag says else. */
enum bp_status template_device_properties(void *self, uint32_t device,
                                          struct bp_device_properties *out)
{
    snprintf(out->name, sizeof out->name, "template device %u", device);
    snprintf(out->driver, sizeof out->driver, "none: host memory");
    BP_SET(out, memory, TEMPLATE_MEMORY);
    BP_SET(out, dtypes, BP_MASK_ANY | BP_MASK_F8);
    BP_SET(out, alignment, TEMPLATE_ALIGNMENT);
    /*+ handles: BP_SET(out, flags, BP_DEVICE_HANDLES); */
    /*+ graph: BP_SET(out, flags, BP_DEVICE_GRAPH_ONLY); */
    return BP_OK;
}
