/* SPDX-License-Identifier: Apache-2.0 */
/* device.c: reports the devices that OpenVINO finds, by the library's names. */
#include "openvino.h"

#include <sched.h>
#include <string.h>

enum bp_status openvino_find_devices(struct openvino *self)
{
    struct ov_devices found;

    TRY(OV(self, ov_core_get_available_devices, self->core, &found));
    for (size_t i = 0; i < found.count && self->n_device < OPENVINO_DEVICES; i++)
        if (strlen(found.name[i]) < OPENVINO_NAME)
            strcpy(self->device[self->n_device++], found.name[i]);
    self->call->ov_available_devices_free(&found);
    return BP_OK;
}

bool openvino_is_cpu(const struct openvino *self, uint32_t device)
{
    return !strncmp(self->device[device], "CPU", 3);
}

enum bp_status openvino_device_count(void *p, uint32_t *out_count)
{
    const struct openvino *self = p;

    *out_count = self->n_device;
    return BP_OK;
}

static uint32_t device_units(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof set, &set) ? 0 : (uint32_t)CPU_COUNT(&set);
}

enum bp_status openvino_device_properties(void *p, uint32_t device,
                                          struct bp_device_properties *out)
{
    struct openvino *self = p;
    char *name = NULL;

    if (self->call->ov_core_get_property(self->core, self->device[device], "FULL_DEVICE_NAME",
                                         &name))
        name = NULL;
    snprintf(out->name, sizeof out->name, "%s", name ? name : self->device[device]);
    if (name) self->call->ov_free(name);
    snprintf(out->driver, sizeof out->driver, "OpenVINO %s, %s", self->version,
             self->device[device]);
    BP_SET(out, dtypes, BP_MASK_ANY | BP_MASK_F8);
    BP_SET(out, alignment, 64);
    BP_SET(out, flags, BP_DEVICE_INLINE | BP_DEVICE_HOST_VISIBLE | BP_DEVICE_GRAPH_ONLY);
    BP_SET(out, dlpack_type, 1); /* host memory */
    if (openvino_is_cpu(self, device)) BP_SET(out, units, device_units());
    return BP_OK;
}
