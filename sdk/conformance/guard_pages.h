/* SPDX-License-Identifier: Apache-2.0 */
/* guard_pages.h: host memory between pages that nobody may touch, so that a read outside ends the
 * process. */
#ifndef BP_CONFORM_GUARD_PAGES_H
#define BP_CONFORM_GUARD_PAGES_H

#include <backplane/backplane.h>
#include <stdbool.h>

/* A tensor of n elements over new memory on a device whose memory is the host's (DLPack device 1).
 * at_end: its last byte is the last one before forbidden pages; else its first byte is the first
 * one behind them. The memory goes when the tensor does. NULL: the device, or the dtype, does not
 * take such memory. */
struct bp_tensor *guard_pages_tensor(struct bp_device *device, uint32_t dtype, int64_t n,
                                     bool at_end);

#endif
