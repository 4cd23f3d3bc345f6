/* SPDX-License-Identifier: Apache-2.0 */
/* device.c: reports how many devices the plugin has, and their properties. Read next: memory.c. */
#include "template.h"

/* A real plugin queries its driver. 0 is a valid count: this machine has no such device. */
enum bp_status template_device_count(void *self, uint32_t *out_count)
{
    *out_count = 1;
    return BP_OK;
}

/* BP_DEVICE_HANDLES: where other devices have an address, this one has the number of bytes from the
 * beginning of an allocation, and the handle of that allocation. BP_DEVICE_INLINE is not set: work
 * is done later than its call. */
enum bp_status template_device_properties(void *self, uint32_t device,
                                          struct bp_device_properties *out)
{
    snprintf(out->name, sizeof out->name, "template device %u", device);
    snprintf(out->driver, sizeof out->driver, "none: host memory");
    BP_SET(out, memory, TEMPLATE_MEMORY);
    BP_SET(out, dtypes, BP_MASK_ANY | BP_MASK_F8);
    BP_SET(out, alignment, TEMPLATE_ALIGNMENT);
    BP_SET(out, flags, BP_DEVICE_HANDLES);
    return BP_OK;
}
