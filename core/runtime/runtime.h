/* SPDX-License-Identifier: Apache-2.0 */
/* runtime.h: declares the top layer of the core, which connects all other parts. The lower layers
 * call it only through functions that it registers with them. */
#ifndef BP_RUNTIME_PRIVATE_H
#define BP_RUNTIME_PRIVATE_H

#include "../device/device.h"

/* Called before the first core is created: installs the handlers for fork and exit(). Later calls
 * cost nothing. */
void bp_runtime_init(void);

/* Drops a reference to a device that may be the last one: then the device is destroyed, unless its
 * buffers keep it alive. */
void bp_device_close(struct bp_device *device);

/* Warns about environment variables whose names resemble those of the library. */
void bp_core_check_variables(struct bp_core *core);

#endif
