/* SPDX-License-Identifier: Apache-2.0 */
/* guard_pages.h: host memory between inaccessible pages, so that a read outside a tensor ends the
 * process with a fault. */
#ifndef BP_CONFORM_GUARD_PAGES_H
#define BP_CONFORM_GUARD_PAGES_H

#include <backplane/backplane.h>
#include <stdbool.h>

/* Creates a tensor of n elements over new memory on a device whose memory is the host's (DLPack
 * device 1). at_end: the tensor's last byte is directly in front of inaccessible pages; otherwise
 * its first byte is directly behind such pages. The memory is freed when the tensor is destroyed.
 * Returns NULL if the device or the dtype does not support such memory. */
struct bp_tensor *guard_pages_tensor(struct bp_device *device, uint32_t dtype, int64_t n,
                                     bool at_end);

#endif
