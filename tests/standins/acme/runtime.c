/* SPDX-License-Identifier: Apache-2.0 */
/* runtime.c: implements Acme's devices, memory, copies, streams and events. */
#include "acme_standin.h"
#include <stdio.h>
#include <string.h>

struct base_vendor acme_vendor = {.name = "acme", .illegal = ACME_ILLEGAL};
static bool opened;
static _Thread_local int current;

int acme_enter_release(const char *name, struct base_device **out)
{
    int code = base_enter(name);

    if (!code && !opened) code = base_misuse(ACME_WRONG, "%s: acmeInit was not called", name);
    *out = &acme_vendor.device[current];
    return code;
}

int acme_enter(const char *name, struct base_device **out)
{
    int code = acme_enter_release(name, out);

    return code ? code : (*out)->sticky;
}

int acme_leave(int code)
{
    switch (code) {
    case BASE_NO_MEMORY: code = ACME_NO_MEMORY; break;
    case BASE_PENDING: code = ACME_NOT_READY; break;
    case BASE_ILLEGAL: code = ACME_ILLEGAL; break;
    default: code = code < 0 ? ACME_WRONG : code;
    }
    return base_leave(code);
}

ACME_API int acmeInit(void);
int acmeInit(void)
{
    int code = base_enter("acmeInit");
    bool first = !code && !opened;

    if (!code) opened = true;
    base_leave(0);
    if (first) base_vendor_open(&acme_vendor);
    return code;
}

ACME_API int acmeDeviceCount(int *out);
int acmeDeviceCount(int *out)
{
    struct base_device *device;
    int code = acme_enter_release("acmeDeviceCount", &device);

    if (!code) *out = acme_vendor.n_device;
    return acme_leave(code);
}

ACME_API int acmeDeviceName(int device, char *out, size_t size);
int acmeDeviceName(int number, char *out, size_t size)
{
    struct base_device *device;
    int code = acme_enter_release("acmeDeviceName", &device);

    if (!code && (number < 0 || number >= acme_vendor.n_device)) code = ACME_NO_DEVICE;
    if (!code) snprintf(out, size, "Acme A%d", 100 + number);
    return acme_leave(code);
}

ACME_API int acmeGetDevice(int *out);
int acmeGetDevice(int *out)
{
    struct base_device *device;
    int code = acme_enter_release("acmeGetDevice", &device);

    if (!code) *out = current;
    return acme_leave(code);
}

ACME_API int acmeSetDevice(int number);
int acmeSetDevice(int number)
{
    struct base_device *device;
    int code = acme_enter_release("acmeSetDevice", &device);

    if (!code && (number < 0 || number >= acme_vendor.n_device)) code = ACME_NO_DEVICE;
    if (!code) current = number;
    return acme_leave(code);
}

static int room_allocate(const char *name, enum base_place place, void **out, size_t size)
{
    struct base_device *device;
    int code = acme_enter(name, &device);

    if (!code) code = base_allocate(device, place, size, 0, 64, out);
    return acme_leave(code);
}

static int room_free(const char *name, enum base_place place, void *memory)
{
    struct base_device *device;
    int code = acme_enter_release(name, &device);
    struct base_range range = base_find(memory);

    if (!code && range.place == place && range.device != device)
        code = base_misuse(ACME_WRONG, "%s: the memory is of device %d", name,
                           range.device->number);
    if (!code && base_free(memory, place))
        code = base_misuse(ACME_WRONG, "%s: %p is not such memory", name, memory);
    return acme_leave(code);
}

ACME_API int acmeMalloc(void **out, size_t size);
int acmeMalloc(void **out, size_t size)
{
    return room_allocate("acmeMalloc", BASE_DEVICE, out, size);
}

ACME_API int acmeFree(void *memory);
int acmeFree(void *memory)
{
    return room_free("acmeFree", BASE_DEVICE, memory);
}

ACME_API int acmeHostMalloc(void **out, size_t size);
int acmeHostMalloc(void **out, size_t size)
{
    return room_allocate("acmeHostMalloc", BASE_PINNED, out, size);
}

ACME_API int acmeHostFree(void *memory);
int acmeHostFree(void *memory)
{
    return room_free("acmeHostFree", BASE_PINNED, memory);
}

ACME_API int acmeMemoryInfo(size_t *out_free, size_t *out_total);
int acmeMemoryInfo(size_t *out_free, size_t *out_total)
{
    struct base_device *device;
    int code = acme_enter("acmeMemoryInfo", &device);

    if (!code) {
        *out_free = device->total - device->used;
        *out_total = device->total;
    }
    return acme_leave(code);
}

/* ---- copies ---- */

struct copy {
    struct base_device *device;
    void *to;
    const void *from;
    size_t size;
    int kind; /* 1: to the device, 2: to the host, 3: within the device */
};

static int copy_run(void *data, int code)
{
    const struct copy *c = data;
    void *to = c->to;
    const void *from = c->from;

    if (code) return code;
    if (c->kind != 2) to = base_reach_unlocked(c->device, to, c->size);
    if (c->kind != 1) from = base_reach_unlocked(c->device, from, c->size);
    if (!to || !from) return ACME_ILLEGAL;
    memmove(to, from, c->size);
    return 0;
}

/* One side of a copy: memory of the device, or of the host. */
static int copy_check(const struct copy *c, const void *address, bool on_device)
{
    struct base_range range = base_find(address);

    if ((range.place == BASE_DEVICE) != on_device || range.place == BASE_FREED)
        return base_misuse(ACME_WRONG, "acmeCopyAsync: %p is not memory of the %s", address,
                           on_device ? "device" : "host");
    if (on_device && (range.device != c->device || range.room < c->size))
        return base_misuse(ACME_WRONG, "acmeCopyAsync: %zu bytes at %p are not on device %d",
                           c->size, address, c->device->number);
    return 0;
}

int acme_stream_check(void *stream, const struct base_device *device)
{
    if (base_stream_is(stream) && base_stream_device(stream) == device) return 0;
    return base_misuse(ACME_WRONG, "%p is not a stream of device %d", stream, device->number);
}

ACME_API int acmeCopyAsync(void *to, const void *from, size_t size, int kind, void *stream);
int acmeCopyAsync(void *to, const void *from, size_t size, int kind, void *stream)
{
    static const struct base_work work = {.run = copy_run};
    struct copy c = {NULL, to, from, size, kind};
    int code = acme_enter("acmeCopyAsync", &c.device);

    if (!code) code = acme_stream_check(stream, c.device);
    if (!code && (kind < 1 || kind > 3)) code = base_misuse(ACME_WRONG, "no kind %d", kind);
    if (!code) code = copy_check(&c, to, kind != 2);
    if (!code) code = copy_check(&c, from, kind != 1);
    if (!code && size) code = base_submit(stream, &work, &c, sizeof c);
    return acme_leave(code);
}

/* ---- streams and events ---- */

ACME_API int acmeStreamCreate(void **out);
int acmeStreamCreate(void **out)
{
    struct base_device *device;
    int code = acme_enter("acmeStreamCreate", &device);

    if (!code) *out = base_stream_create(device, device);
    return acme_leave(code ? code : *out ? 0 : ACME_NO_MEMORY);
}

ACME_API int acmeStreamDestroy(void *stream);
int acmeStreamDestroy(void *stream)
{
    struct base_device *device;
    int code = acme_enter_release("acmeStreamDestroy", &device);

    if (!code) code = acme_stream_check(stream, device);
    if (!code) base_stream_destroy(stream);
    return acme_leave(code);
}

ACME_API int acmeStreamSynchronize(void *stream);
int acmeStreamSynchronize(void *stream)
{
    struct base_device *device;
    int code = acme_enter("acmeStreamSynchronize", &device);

    if (!code) code = acme_stream_check(stream, device);
    if (!code) code = base_stream_wait(stream, -1);
    return acme_leave(code);
}

static int event_check(void *event, const struct base_device *device)
{
    if (base_event_is(event) && (!device || base_event_device(event) == device)) return 0;
    return base_misuse(ACME_WRONG, "%p is not an event of the device", event);
}

ACME_API int acmeStreamWaitEvent(void *stream, void *event);
int acmeStreamWaitEvent(void *stream, void *event)
{
    struct base_device *device;
    int code = acme_enter("acmeStreamWaitEvent", &device);

    if (!code) code = acme_stream_check(stream, device);
    if (!code) code = event_check(event, NULL); /* of any device */
    if (!code) code = base_stream_wait_event(stream, event);
    return acme_leave(code);
}

ACME_API int acmeEventCreate(void **out);
int acmeEventCreate(void **out)
{
    struct base_device *device;
    int code = acme_enter("acmeEventCreate", &device);

    if (!code) *out = base_event_create(device, device, 0);
    return acme_leave(code ? code : *out ? 0 : ACME_NO_MEMORY);
}

ACME_API int acmeEventDestroy(void *event);
int acmeEventDestroy(void *event)
{
    struct base_device *device;
    int code = acme_enter_release("acmeEventDestroy", &device);

    if (!code) code = event_check(event, device);
    if (!code) base_event_destroy(event);
    return acme_leave(code);
}

ACME_API int acmeEventRecord(void *event, void *stream);
int acmeEventRecord(void *event, void *stream)
{
    struct base_device *device;
    int code = acme_enter("acmeEventRecord", &device);

    if (!code) code = acme_stream_check(stream, device);
    if (!code) code = event_check(event, device);
    if (!code) code = base_event_record(event, stream);
    return acme_leave(code);
}

ACME_API int acmeEventQuery(void *event);
int acmeEventQuery(void *event)
{
    struct base_device *device;
    int code = acme_enter("acmeEventQuery", &device);

    if (!code) code = event_check(event, device);
    if (!code) code = base_event_query(event);
    return acme_leave(code);
}

ACME_API const char *acmeErrorText(int code);
const char *acmeErrorText(int code)
{
    static const struct {
        int code;
        const char *text;
    } texts[] = {{ACME_WRONG, "wrong argument"},  {ACME_NO_MEMORY, "no memory"},
                 {ACME_NO_DEVICE, "no device"},   {ACME_NOT_READY, "not ready"},
                 {ACME_ILLEGAL, "wrong address"}, {ACME_FAILED, "work failed"},
                 {35, "the driver is too old"}};

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].code == code) return texts[i].text;
    return NULL;
}
