/* SPDX-License-Identifier: Apache-2.0 */
/* counted.c: wraps the cpu plugin as a device whose memory the host may not access, so that the
 * core must call a copy callback for all data to and from the device. Counts the copied bytes. It
 * has all kernels of the cpu plugin. */
#include "counted.h"
#include <backplane/plugin.h>
#include <backplane/runtime.h>
#include <dlfcn.h>

__attribute__((visibility("default"))) struct counted counted;

static struct bp_plugin plugin;
static struct bp_runtime runtime;
static const struct bp_runtime *cpu;

static enum bp_status counted_device_properties(void *self, uint32_t device,
                                                struct bp_device_properties *out)
{
    enum bp_status status = cpu->device_properties(self, device, out);

    out->flags &= ~(uint32_t)BP_DEVICE_HOST_VISIBLE;
    out->dlpack_type = 0;
    return status;
}

static enum bp_status counted_copy_in(void *self, uint32_t device, void *stream,
                                      const struct bp_copy *copy)
{
    counted.in += copy->size;
    return cpu->copy_in(self, device, stream, copy);
}

static enum bp_status copy_out(void *self, uint32_t device, void *stream,
                               const struct bp_copy *copy)
{
    counted.out += copy->size;
    return cpu->copy_out(self, device, stream, copy);
}

const struct bp_plugin *bp_plugin_get(void)
{
    void *library = dlopen(CPU_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    const struct bp_plugin *(*get)(void);

    if (!library) return NULL;
    *(void **)&get = dlsym(library, "bp_plugin_get");
    plugin = *get();
    cpu = plugin.runtime;
    runtime = *cpu;
    runtime.device_properties = counted_device_properties;
    runtime.copy_in = counted_copy_in;
    runtime.copy_out = copy_out;
    plugin.name = plugin.kind = "counted";
    plugin.runtime = &runtime;
    return &plugin;
}
