/* SPDX-License-Identifier: Apache-2.0 */
/* device.h: opens a device by name, and reports its properties. */
#ifndef BP_DEVICE_H
#define BP_DEVICE_H

#include <backplane/api.h>
#include <backplane/core.h>
#include <backplane/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

struct bp_device;

/* Opens a device: "cpu:0", or "cpu" for index 0. Loads the plugin of that kind: of the plugins that
 * have devices, the one of highest priority; its devices are the devices of the kind. Opening a
 * device twice returns the same device.
 *
 * BP_ERR_NOT_FOUND: there is no plugin of this kind, or no such index; the message lists the kinds
 * that exist. BP_ERR_ABSENT, BP_ERR_PLUGIN: there is a plugin, and the message states why it cannot
 * be used. */
BP_API enum bp_status bp_device_create(struct bp_core *core, const char *name,
                                       struct bp_device **out_device);

/* Opens device number `device` of the plugin with index `plugin`: for tools that test one
 * plugin. */
BP_API enum bp_status bp_device_create_at(struct bp_core *core, uint32_t plugin, uint32_t device,
                                          struct bp_device **out_device);
BP_API void bp_device_destroy(struct bp_device *device);

/* Returns the name, "cpu:0"; "" if device is NULL or no device. */
BP_API const char *bp_device_name(struct bp_device *device);

/* Returns the core in which the device was opened, without a new reference; NULL for no device. */
BP_API struct bp_core *bp_device_core(struct bp_device *device);

/* Fills *out with the properties of the device. Set out->size before the call. */
BP_API enum bp_status bp_device_get_properties(struct bp_device *device,
                                               struct bp_device_properties *out);

/* Waits for all work on all streams of the device. Returns a failure of that work; since the stream
 * that failed is not known, all streams of the device return this failure from then on. */
BP_API enum bp_status bp_device_synchronize(struct bp_device *device);

/* bp_device_synchronize with a limit: waits for timeout_ns at most (UINT64_MAX: no limit), whatever
 * BP_WAIT_TIMEOUT says. BP_ERR_TIMEOUT: the work had not ended; it continues. */
BP_API enum bp_status bp_device_synchronize_for(struct bp_device *device, uint64_t timeout_ns);

/* The features that the plugin does not implement and that the core supplies instead. Bits of enum
 * bp_emulated. */
enum bp_emulated {
    BP_EMULATED_STREAMS = 1,     /* all streams share the device's one order of work */
    BP_EMULATED_EVENTS = 2,      /* a wait for an event waits for the whole stream of the event */
    BP_EMULATED_STREAM_WAIT = 4, /* the host waits in place of the stream */
    BP_EMULATED_MEMORY_INFO = 8, /* free memory is computed from the core's own count */
    BP_EMULATED_RECORDING = 16,  /* programs (program.h) run node by node; not set for inline
                                    devices, where a recording would save no time */
    BP_EMULATED_COLLECTIVES = 32, /* collectives (comm.h) pass through host memory; not set for
                                     inline devices, whose collectives run on the host anyway */
};
BP_API uint32_t bp_device_emulated(struct bp_device *device);

/* Returns unused memory to the driver: segments that are entirely free, and whose work is known to
 * have ended or is found to have ended now. The call does not wait for work, but the driver may. */
BP_API enum bp_status bp_device_trim(struct bp_device *device);

#ifdef __cplusplus
}
#endif

#endif
