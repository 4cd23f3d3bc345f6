/* SPDX-License-Identifier: Apache-2.0 */
/* key.c: builds the cache key of a compiled program: a text with all that the program depends on,
 * its sources, options, the device, the driver and the platform. */
#include "sources.h"
#include "xpu.h"

#include <string.h>

static void append_device(struct program_key *key, const struct xpu_device *d, cl_device_info what)
{
    const struct xpu_calls *call = d->self->call;
    char value[2048] = "";
    size_t size = 0;

    if (call->clGetDeviceInfo(d->id, what, sizeof value, value, &size) != CL_SUCCESS) size = 0;
    program_key_add(key, value, size < sizeof value ? size : sizeof value);
}

static void append_platform(struct program_key *key, const struct xpu_device *d,
                            cl_platform_info what)
{
    const struct xpu_calls *call = d->self->call;
    char value[2048] = "";
    size_t size = 0;

    if (call->clGetPlatformInfo(d->platform, what, sizeof value, value, &size) != CL_SUCCESS)
        size = 0;
    program_key_add(key, value, size < sizeof value ? size : sizeof value);
}

/* Appends the driver's UUID (cl_khr_device_uuid), which distinguishes builds of a driver with equal
 * versions. The device's own UUID is not part of the key: devices of the same name share
 * programs. */
static void append_uuid(struct program_key *key, const struct xpu_device *d)
{
    enum { DRIVER_UUID = 0x106b };
    unsigned char uuid[16] = {0};

    if (!xpu_device_extends(d, "cl_khr_device_uuid") ||
        d->self->call->clGetDeviceInfo(d->id, DRIVER_UUID, sizeof uuid, uuid, NULL) != CL_SUCCESS)
        return;
    key->size += (uint32_t)snprintf(key->text + key->size, sizeof key->text - key->size, " | ");
    for (size_t i = 0; i < sizeof uuid; i++)
        key->size += (uint32_t)snprintf(key->text + key->size, sizeof key->text - key->size,
                                        "%02x", uuid[i]);
}

struct program_key xpu_cache_key(const struct xpu_device *d, const struct portable_source *source,
                             const char *options)
{
    static const cl_device_info what[] = {CL_DEVICE_NAME, CL_DEVICE_VERSION, CL_DRIVER_VERSION,
                                          CL_DEVICE_VENDOR};
    struct program_key key = {0};
    uint64_t text = PORTABLE_HASH_BEGIN, again = ~PORTABLE_HASH_BEGIN;

    for (uint32_t i = 0; i < source->n; i++) {
        text = portable_hash(text, source->line[i], strlen(source->line[i]));
        again = portable_hash(again, source->line[i], strlen(source->line[i]));
    }
    key.size = (uint32_t)snprintf(key.text, sizeof key.text, "%016llx%016llx %s",
                                  (unsigned long long)text, (unsigned long long)again, options);
    for (size_t i = 0; i < sizeof what / sizeof *what; i++) append_device(&key, d, what[i]);
    append_platform(&key, d, CL_PLATFORM_NAME);
    append_platform(&key, d, CL_PLATFORM_VERSION);
    append_uuid(&key, d);
    return key;
}
