/* SPDX-License-Identifier: Apache-2.0 */
/* profiled.h: declares how the work of a device gets into profiles: by events of the threads that
 * run or submit it, and by records of the plugin. */
#ifndef BP_PROFILED_H
#define BP_PROFILED_H

#include "../profile/profile.h"
#include "device.h"

/* Enclose work `number` of a timeline, which the calling thread runs or submits to the plugin.
 * begin returns 0 if nothing is recorded; end is then not called. Of the event the caller sets
 * kind, bytes and texts: if the host runs the work (an inline stream, a stream's queue), it is an
 * event of that kind with the times of the device, otherwise one of BP_PROFILE_SUBMIT. */
uint64_t bp_work_profile_begin_now(struct bp_timeline *timeline, uint64_t number);
static inline uint64_t bp_work_profile_begin(struct bp_timeline *timeline, uint64_t number)
{
    return bp_profile_is_on() ? bp_work_profile_begin_now(timeline, number) : 0;
}
void bp_work_profile_end(struct bp_timeline *timeline, uint64_t number, uint64_t began,
                         struct bp_profile_put *event);

/* Records an event of the calling thread that concerns a device, such as a wait. timeline NULL: the
 * whole device. */
void bp_device_profile_put(struct bp_device *device, const struct bp_timeline *timeline,
                           uint16_t kind, const char *name, uint64_t began);

/* Connects a device to the recorder: init before another thread can find the device, open
 * afterwards, which may call the plugin, and finish before the device is freed. */
enum bp_status bp_device_profile_init(struct bp_device *device);
void bp_device_profile_open(struct bp_device *device);
void bp_device_profile_finish(struct bp_device *device); /* also without open and init */

#endif
