/* SPDX-License-Identifier: Apache-2.0 */
/* hip.c: implements the functions in which HIP's runtime differs from the simulator's. A context is
 * a device number; each thread has a current one, at first device 0. A grid has less than 2^32
 * lanes. */
#include "standin.h"
#include <stdio.h>

const struct standin standin = {
    .library = "libamdhip64.so.5", .end = (void *)3, .most = UINT64_C(1) << 32};

enum {
    DEVICES = sizeof sim.device / sizeof *sim.device
};
static void *context[DEVICES]; /* contexts that have been retained */

int standin_driver_version(int *out)
{
    *out = 50221153;
    return SIM_SUCCESS;
}

/* HIP returns the text; the simulator writes it to an output parameter. */
const char *standin_error_text(int code)
{
    const char *text = NULL;

    sim_error_text(code, &text);
    return text;
}

/* Writes the last member of the struct, as in HIP 5: the architecture, with features that targets
 * need not name. */
int standin_device_description(void *out, int device)
{
    int code = sim_device_description(out, device);

    if (!code) snprintf((char *)out + 536, 64, "%s:sramecc+:xnack-", standin_arch());
    return code;
}

/* 63 is the number of compute units; 24 is managed memory, 9 managed memory at any time. */
int standin_device_attribute(int *out, int attribute, int device)
{
    if (attribute == 63) return sim_device_attribute(out, 1, device);
    if (attribute == 24 || attribute == 9)
        return sim_device_attribute(out, attribute == 24 ? 4 : 5, device);
    return standin_refuse(SIM_INVALID_VALUE, "no attribute %d is known here", attribute);
}

int standin_context_set(int device)
{
    if (device < 0 || device >= sim.n_device) return SIM_INVALID_DEVICE;
    return sim_context_set(&sim.device[device]);
}

int standin_context_get(int *out)
{
    void *current = NULL;
    int code = sim_context_get(&current);

    if (!code && !current) code = sim_context_set(current = sim.device);
    if (!code) *out = (int)((struct sim_device *)current - sim.device);
    return code;
}

int standin_context_retain(void **out, int device)
{
    int code = sim_context_retain(out, device);

    if (!code) __atomic_store_n(&context[device], *out, __ATOMIC_RELEASE);
    return code;
}

/* The context of a device, or NULL. */
static void *context_of(int device)
{
    return device >= 0 && device < DEVICES ? __atomic_load_n(&context[device], __ATOMIC_ACQUIRE)
                                           : NULL;
}

int standin_peer_enable(int peer, unsigned flags)
{
    return context_of(peer) ? sim_peer_enable(context_of(peer), flags) : SIM_INVALID_DEVICE;
}

int standin_copy_peer(void *dst, int to, const void *src, int from, size_t size, void *stream)
{
    if (!context_of(to) || !context_of(from)) return SIM_INVALID_DEVICE;
    return sim_copy_peer(dst, context_of(to), src, context_of(from), size, stream);
}
