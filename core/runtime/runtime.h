/* SPDX-License-Identifier: Apache-2.0 */
/* runtime.h: what stands above all other parts of the core and puts them together. Below it they
 * know nothing of it but functions that it registers with them. */
#ifndef BP_RUNTIME_PRIVATE_H
#define BP_RUNTIME_PRIVATE_H

#include "../device/device.h"

/* Before the first core: from now on a fork and exit() are noticed. Costs nothing the next time. */
void bp_runtime_init(void);

/* bp_device_release for a reference that may be the last: that ends the device, unless its buffers
 * keep it. */
void bp_device_close(struct bp_device *device);

#endif
