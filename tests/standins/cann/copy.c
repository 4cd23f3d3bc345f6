/* SPDX-License-Identifier: Apache-2.0 */
/* copy.c: implements memory and copies of the stand-in for CANN. */
#include "cann.h"
#include <string.h>

enum {
    HOST_HOST,
    HOST_DEVICE,
    DEVICE_HOST,
    DEVICE_DEVICE,
    BY_ADDRESS,
    INNER = 6,
    INTER = 7
};

int aclrtGetMemInfo(int what, size_t *available, size_t *total);
int aclrtMalloc(void **out, size_t size, int policy);
int aclrtFree(void *memory);
int aclrtMallocHost(void **out, size_t size);
int aclrtFreeHost(void *memory);
int aclrtHostRegister(void *memory, uint64_t size, int type, void **out);
int aclrtHostUnregister(void *memory);
int aclrtMemcpy(void *to, size_t most, const void *from, size_t count, int kind);
int aclrtMemcpyAsync(void *to, size_t most, const void *from, size_t count, int kind, void *stream);
int aclrtMemset(void *to, size_t most, int32_t value, size_t count);
int aclrtMemsetAsync(void *to, size_t most, int32_t value, size_t count, void *stream);

CANN_API int aclrtGetMemInfo(int what, size_t *available, size_t *total)
{
    struct cann_context *context;
    int code = cann_enter_context("aclrtGetMemInfo", &context);

    if (!code && (!available || !total || what < 0 || what > 5)) code = ACL_INVALID_PARAM;
    if (!code) {
        *total = what == 1 ? context->device->total : 0; /* all of it is HBM */
        *available = what == 1 ? context->device->total - context->device->used : 0;
    }
    return cann_leave(code);
}

/* 64-byte aligned; the size is rounded up to 32, and 32 bytes are added. */
CANN_API int aclrtMalloc(void **out, size_t size, int policy)
{
    struct cann_context *context;
    int code = cann_enter_context("aclrtMalloc", &context);
    size_t slack = (32 - size % 32) % 32 + 32;

    if (!code && (!out || !size)) code = base_refuse(ACL_INVALID_PARAM, "%zu bytes", size);
    if (!code && (policy < 0 || policy > 5))
        code = base_refuse(RT_MALLOC_TYPE, "policy %d", policy);
    if (!code) code = cann_code(base_allocate(context->device, BASE_DEVICE, size, slack, 64, out));
    return cann_leave(code);
}

static int memory_free(const char *name, void *memory, enum base_place place)
{
    struct cann_context *context;
    int code = cann_enter_release(name, &context);

    if (code) return cann_leave(code);
    if (!memory) return cann_leave(ACL_INVALID_PARAM);
    code = base_free(memory, place);
    if (code) code = base_misuse(RT_PARAM, "%p is not such memory, or freed before", memory);
    return cann_leave(code);
}

CANN_API int aclrtFree(void *memory)
{
    return memory_free("aclrtFree", memory, BASE_DEVICE);
}

CANN_API int aclrtMallocHost(void **out, size_t size)
{
    struct cann_context *context;
    int code = cann_enter_context("aclrtMallocHost", &context);

    if (!code && (!out || !size)) code = ACL_INVALID_PARAM;
    if (!code) code = cann_code(base_allocate(context->device, BASE_PINNED, size, 0, 64, out));
    return cann_leave(code);
}

CANN_API int aclrtFreeHost(void *memory)
{
    return memory_free("aclrtFreeHost", memory, BASE_PINNED);
}

CANN_API int aclrtHostRegister(void *memory, uint64_t size, int type, void **out)
{
    struct cann_context *context;
    int code = cann_enter_context("aclrtHostRegister", &context);

    if (!code && (type || !out)) code = ACL_INVALID_PARAM;
    if (!code) code = cann_code(base_pin(context->device, memory, size));
    if (!code) *out = memory;
    return cann_leave(code);
}

CANN_API int aclrtHostUnregister(void *memory)
{
    return memory_free("aclrtHostUnregister", memory, BASE_PINNED);
}

/* The host address of one side of a copy, if its place is as expected; else NULL. */
static void *copy_side(const struct base_device *device, const void *at, size_t count,
                       bool is_device)
{
    struct base_range r = base_find(at);

    if (is_device) return r.place == BASE_DEVICE ? base_reach(device, at, count) : NULL;
    if (r.place == BASE_HOST) return r.host;
    return r.place == BASE_PINNED && count <= r.room ? r.host : NULL;
}

/* Which sides of a copy are on the device; kind 4 finds them by the addresses. */
static void copy_sides(const struct cann_copy *copy, bool *to, bool *from)
{
    *to = copy->kind == HOST_DEVICE || copy->kind == DEVICE_DEVICE || copy->kind >= INNER;
    *from = copy->kind == DEVICE_HOST || copy->kind == DEVICE_DEVICE || copy->kind >= INNER;
    if (copy->kind != BY_ADDRESS) return;
    *to = base_find(copy->to).place == BASE_DEVICE;
    *from = base_find(copy->from).place == BASE_DEVICE;
}

/* Finds both sides on the host. Under the lock. */
static int copy_find(const struct cann_copy *copy, void **to, const void **from)
{
    bool to_device, from_device;

    copy_sides(copy, &to_device, &from_device);
    *to = copy_side(copy->device, copy->to, copy->count, to_device);
    *from = copy_side(copy->device, copy->from, copy->count, from_device);
    if (*to && *from) return 0;
    return base_misuse(
        RT_PARAM, "a copy of kind %d of %zu bytes from %p to %p: %s is no such memory", copy->kind,
        copy->count, copy->from, copy->to, *to ? "the source" : "the destination");
}

int cann_copy_run(const struct cann_copy *copy)
{
    const void *from;
    void *to;
    int code;

    base_lock();
    code = copy_find(copy, &to, &from);
    base_unlock();
    if (code) return RT_AICORE;
    memmove(to, from, copy->count);
    return 0;
}

static int copy_work_run(void *data, int code)
{
    return code ? code : cann_copy_run(data);
}

static const struct base_work copy_work = {copy_work_run, NULL};

/* Checks the arguments of a copy. Under the lock. */
static int copy_check(const struct cann_copy *copy, size_t most)
{
    const void *from;
    void *to;

    if (!copy->to || !copy->from) return base_refuse(ACL_INVALID_PARAM, "an address is NULL");
    if (most < copy->count)
        return base_refuse(ACL_INVALID_PARAM, "destMax is %zu, count %zu", most, copy->count);
    if (copy->kind < 0 || copy->kind > INTER || copy->kind == 5)
        return base_refuse(RT_PARAM, "kind %d", copy->kind);
    return copy_find(copy, &to, &from);
}

/* Does not wait for any stream. */
CANN_API int aclrtMemcpy(void *to, size_t most, const void *from, size_t count, int kind)
{
    struct cann_copy copy = {.to = to, .from = from, .count = count, .kind = kind};
    struct cann_context *context;
    int code = cann_enter_context("aclrtMemcpy", &context);

    if (!code) copy.device = context->device;
    if (!code) code = copy_check(&copy, most);
    if (!code && base_capture_forbids())
        code = base_refuse(RT_CAPTURE_MODE, "a synchronous copy while a stream is captured");
    if (code) return cann_leave(code);
    base_unlock();
    code = cann_copy_run(&copy);
    base_lock();
    return cann_leave(code ? RT_PARAM : 0);
}

/* Submits work that uses pageable memory, and waits until it is done. */
static int copy_pageable(struct base_stream *stream, const struct cann_copy *copy)
{
    int code;

    if (base_capture_state(stream) != BASE_CAPTURE_NONE) {
        base_stream_query(stream); /* makes the capture invalid */
        return base_refuse(RT_CAPTURE_MODE, "a copy of pageable memory in a captured stream");
    }
    if (base_capture_forbids())
        return base_refuse(RT_CAPTURE_MODE, "a copy of pageable memory while a stream is captured");
    code = base_submit(stream, &copy_work, copy, sizeof *copy);
    return code ? code : base_stream_wait(stream, -1);
}

CANN_API int aclrtMemcpyAsync(void *to, size_t most, const void *from, size_t count, int kind,
                              void *handle)
{
    struct cann_copy copy = {.to = to, .from = from, .count = count, .kind = kind};
    bool to_device, from_device, is_pageable;
    struct cann_context *context;
    struct base_stream *stream;
    int code = cann_enter_context("aclrtMemcpyAsync", &context);

    if (!code) copy.device = context->device;
    if (!code) code = copy_check(&copy, most);
    if (!code) code = cann_stream(context, handle, &stream);
    if (code) return cann_leave(code);
    copy_sides(&copy, &to_device, &from_device);
    if (!to_device && !from_device)
        return cann_leave(base_refuse(RT_NOT_SUPPORTED, "an asynchronous copy from host to host"));
    is_pageable = base_find(to).place == BASE_HOST || base_find(from).place == BASE_HOST;
    if (is_pageable) code = copy_pageable(stream, &copy);
    else code = base_submit(stream, &copy_work, &copy, sizeof copy);
    return cann_leave(cann_code(code));
}

struct fill {
    struct base_device *device;
    void *to;
    size_t count;
    int value;
};

static int fill_run(void *data, int code)
{
    const struct fill *fill = data;
    void *to;

    if (code) return code;
    base_lock();
    to = base_reach(fill->device, fill->to, fill->count);
    if (!to) code = base_misuse(RT_AICORE, "a fill of %p, %zu bytes", fill->to, fill->count);
    base_unlock();
    if (to) memset(to, fill->value, fill->count);
    return code;
}

static const struct base_work fill_work = {fill_run, NULL};

static int fill_check(const struct fill *fill, size_t most)
{
    if (!fill->to) return base_refuse(ACL_INVALID_PARAM, "the address is NULL");
    if (most < fill->count)
        return base_refuse(ACL_INVALID_PARAM, "maxCount is %zu, count %zu", most, fill->count);
    if (!base_reach(fill->device, fill->to, fill->count))
        return base_misuse(RT_PARAM, "a fill of %p, %zu bytes", fill->to, fill->count);
    return 0;
}

CANN_API int aclrtMemset(void *to, size_t most, int32_t value, size_t count)
{
    struct fill fill = {.to = to, .count = count, .value = value};
    struct cann_context *context;
    int code = cann_enter_context("aclrtMemset", &context);

    if (!code) fill.device = context->device;
    if (!code) code = fill_check(&fill, most);
    if (!code && base_capture_forbids())
        code = base_refuse(RT_CAPTURE_MODE, "a synchronous fill while a stream is captured");
    if (code) return cann_leave(code);
    base_unlock();
    code = fill_run(&fill, 0);
    base_lock();
    return cann_leave(code);
}

CANN_API int aclrtMemsetAsync(void *to, size_t most, int32_t value, size_t count, void *handle)
{
    struct fill fill = {.to = to, .count = count, .value = value};
    struct cann_context *context;
    struct base_stream *stream;
    int code = cann_enter_context("aclrtMemsetAsync", &context);

    if (!code) fill.device = context->device;
    if (!code) code = fill_check(&fill, most);
    if (!code) code = cann_stream(context, handle, &stream);
    if (!code) code = cann_code(base_submit(stream, &fill_work, &fill, sizeof fill));
    return cann_leave(code);
}
