/* SPDX-License-Identifier: Apache-2.0 */
/* device.c: reports the one device "cpu:0": all processors of this machine that the process may
 * use. */
#include "cpu.h"
#include "library.h"
#include <sched.h>
#include <string.h>
#include <unistd.h>

enum bp_status cpu_device_count(void *self, uint32_t *out_count)
{
    (void)self;
    *out_count = 1;
    return BP_OK;
}

/* The processor's model as the Linux kernel names it. "CPU" on architectures whose /proc/cpuinfo
 * has no such line. */
static void device_name(char *name, size_t size)
{
    FILE *file = fopen("/proc/cpuinfo", "re");
    char line[256];

    snprintf(name, size, "CPU");
    if (!file) return;
    while (fgets(line, sizeof line, file)) {
        char *value = strchr(line, ':');
        if (strncmp(line, "model name", 10) || !value) continue;
        value += 1 + strspn(value + 1, " \t");
        value[strcspn(value, "\n")] = 0;
        snprintf(name, size, "%.*s", (int)size - 1, value);
        break;
    }
    fclose(file);
}

static uint32_t device_units(void)
{
    cpu_set_t set;

    if (!sched_getaffinity(0, sizeof set, &set)) return (uint32_t)CPU_COUNT(&set);
    long online = sysconf(_SC_NPROCESSORS_ONLN); /* cpu_set_t has fewer bits than there are
                                                    processors */
    return online > 0 ? (uint32_t)online : 1;
}

/* Names the version, oneDNN's file, whose name has its version, and the instruction set. */
static void driver_name(const struct cpu *self, char *out, size_t size)
{
    char dnnl[48] = "";

#ifdef CPU_DNNL
    if (cpu_dnnl_name(dnnl + 2, sizeof dnnl - 2)) memcpy(dnnl, ", ", 2);
#endif
    snprintf(out, size, "%s%s, kernels %s", CPU_VERSION, dnnl,
             cpu_isa_name[cpu_isa_built(self->isa)]);
}

enum bp_status cpu_device_properties(void *p, uint32_t device, struct bp_device_properties *out)
{
    struct cpu *self = p;
    uint64_t unused, total;

    cpu_memory_info(self, device, &unused, &total);
    device_name(out->name, sizeof out->name);
    driver_name(self, out->driver, sizeof out->driver);
    BP_SET(out, memory, total);
    BP_SET(out, dtypes, BP_MASK_ANY | BP_MASK_F8);
    BP_SET(out, alignment, 64);
    BP_SET(out, units, device_units());
    BP_SET(out, flags, BP_DEVICE_INLINE | BP_DEVICE_HOST_VISIBLE);
    BP_SET(out, dlpack_type, 1); /* host memory */
    return BP_OK;
}
