/* SPDX-License-Identifier: Apache-2.0 */
/* device.h: a device, opened by name. */
#ifndef BP_DEVICE_H
#define BP_DEVICE_H

#include <backplane/api.h>
#include <backplane/core.h>
#include <backplane/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

struct bp_device;

/* Opens a device: "cpu:0", or "cpu" for its index 0. Loads the plugin of that kind: the one of
 * highest priority that has devices; its devices are those of the kind. A device opened twice is
 * one.
 *
 * BP_ERR_NOT_FOUND: no plugin of this kind, or no such index; the message lists the kinds there
 * are. BP_ERR_ABSENT, BP_ERR_PLUGIN: there is one, and the message says why it cannot be used. */
BP_API enum bp_status bp_device_create(struct bp_core *core, const char *name,
                                       struct bp_device **out_device);

/* Opens device number device of plugin index: for tools that test one plugin. */
BP_API enum bp_status bp_device_create_at(struct bp_core *core, uint32_t plugin, uint32_t device,
                                          struct bp_device **out_device);
BP_API void bp_device_destroy(struct bp_device *device);

/* "cpu:0". "" for no device. */
BP_API const char *bp_device_name(struct bp_device *device);

/* The core that it was opened in; no reference is taken. NULL for no device. */
BP_API struct bp_core *bp_device_core(struct bp_device *device);

/* Set out->size before the call. */
BP_API enum bp_status bp_device_get_properties(struct bp_device *device,
                                               struct bp_device_properties *out);

/* Waits for all work on all streams of the device. A failure of that work is returned; since it is
 * not known whose it was, all streams of the device answer it from then on. */
BP_API enum bp_status bp_device_synchronize(struct bp_device *device);

/* What the plugin leaves out and the core supplies. Bits of enum bp_emulated. */
enum bp_emulated {
    BP_EMULATED_STREAMS = 1,     /* streams share the device's one order */
    BP_EMULATED_EVENTS = 2,      /* waiting for an event waits for its stream */
    BP_EMULATED_STREAM_WAIT = 4, /* the host waits */
    BP_EMULATED_MEMORY_INFO = 8, /* own count */
    BP_EMULATED_RECORDING = 16,  /* programs (program.h) run node by node; not said of devices that
                                    work inline, where nothing would be saved */
    BP_EMULATED_COLLECTIVES = 32, /* collectives (comm.h) go by way of host memory; not said of
                                     devices that work inline, where they are the host's */
};
BP_API uint32_t bp_device_emulated(struct bp_device *device);

/* Gives memory that nobody uses back to the driver: chunks that are free as a whole, and whose work
 * is known to have ended or found to. Waits for no work, but the driver may. */
BP_API enum bp_status bp_device_trim(struct bp_device *device);

#ifdef __cplusplus
}
#endif

#endif
