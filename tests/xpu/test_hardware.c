/* SPDX-License-Identifier: Apache-2.0 */
/* test_hardware.c: tests the UUID and the PCI address that xpu reports of a device, for drivers
 * with and without the extensions for these. Prints TAP. */
#include "xpu.h"
#include <stdio.h>
#include <string.h>

static const char *extensions;

static cl_int device_info(cl_device_id id, cl_device_info what, size_t size, void *out,
                          size_t *out_size)
{
    static const cl_uint place[4] = {0x10, 0x65, 0x1f, 3};
    const void *value = what == 0x106a ? (const void *)"one piece of it!" : place;

    (void)id;
    if (what == CL_DEVICE_EXTENSIONS) {
        if (out_size) *out_size = strlen(extensions) + 1;
        if (out) snprintf(out, size, "%s", extensions);
    } else if (what == 0x106a || what == 0x410f) {
        if (size != 16) return CL_INVALID_VALUE;
        memcpy(out, value, size);
    } else {
        memset(out, 0, size);
    }
    return CL_SUCCESS;
}

static int cases, failed;

static void hardware_expect(const char *name, const char *given, size_t size, const char *uuid,
                            const char *pci)
{
    static const char none[16];
    const struct xpu_calls call = {.clGetDeviceInfo = device_info};
    struct xpu_device device = {.has_f64 = true};
    struct xpu self = {.call = &call, .device = &device, .n_device = 1};
    struct bp_device_properties p = {.size = size};
    bool good;

    extensions = given;
    device.self = &self;
    good = xpu_device_properties(&self, 0, &p) == BP_OK &&
           !memcmp(p.uuid, uuid ? uuid : none, sizeof p.uuid) && !strcmp(p.pci, pci) && !*p.arch;
    failed += !good;
    printf("%s %d - %s\n", good ? "ok" : "not ok", ++cases, name);
}

int main(void)
{
    const size_t whole = sizeof(struct bp_device_properties);

    hardware_expect("both", "cl_khr_fp64 cl_khr_device_uuid cl_khr_pci_bus_info", whole,
                    "one piece of it!", "0010:65:1f.3");
    hardware_expect("a UUID alone", "cl_khr_device_uuid", whole, "one piece of it!", "");
    hardware_expect("a place alone", "cl_khr_pci_bus_info cl_khr_fp64", whole, NULL,
                    "0010:65:1f.3");
    hardware_expect("neither", "cl_khr_fp64", whole, NULL, "");
    hardware_expect("an older core", "cl_khr_device_uuid cl_khr_pci_bus_info",
                    offsetof(struct bp_device_properties, uuid), NULL, "");
    printf("1..%d\n", cases);
    return failed != 0;
}
