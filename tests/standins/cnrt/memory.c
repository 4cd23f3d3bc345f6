/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c: implements memory and copies of CNRT. An asynchronous copy reads and writes pageable
 * memory of the host when the copy runs, which the real library may do earlier: a caller must keep
 * that memory. */
#include "cnrt.h"
#include <string.h>

enum {
    ALIGNMENT = 64
};

int cnrtMalloc(void **out, size_t size)
{
    struct base_device *device;
    int code = cnrt_enter_device("cnrtMalloc", &device);

    if (!code && !out) code = base_refuse(CNRT_ARGS, "NULL");
    if (!code && base_capture_forbids()) code = CNRT_CAPTURE_UNSUPPORTED;
    if (!code) code = base_allocate(device, BASE_DEVICE, size, 0, ALIGNMENT, out);
    return cnrt_leave(code);
}

int cnrtFree(void *memory)
{
    struct base_device *device;
    int code = cnrt_enter_release("cnrtFree", &device);

    if (!code && base_capture_forbids()) code = CNRT_CAPTURE_UNSUPPORTED;
    if (!code && memory && base_free(memory, BASE_DEVICE))
        code = base_misuse(CNRT_ARGS, "cnrtFree: %p is not memory of cnrtMalloc", memory);
    return cnrt_leave(code);
}

int cnrtHostMalloc(void **out, size_t size)
{
    struct base_device *device;
    int code = cnrt_enter_device("cnrtHostMalloc", &device);

    if (!code && !out) code = base_refuse(CNRT_ARGS, "NULL");
    if (!code && base_capture_forbids()) code = CNRT_CAPTURE_UNSUPPORTED;
    if (!code) code = base_allocate(device, BASE_PINNED, size, 0, ALIGNMENT, out);
    return cnrt_leave(code);
}

int cnrtFreeHost(void *memory)
{
    struct base_device *device;
    int code = cnrt_enter_release("cnrtFreeHost", &device);

    if (!code && memory && base_free(memory, BASE_PINNED))
        code = base_misuse(CNRT_ARGS, "cnrtFreeHost: %p is not memory of cnrtHostMalloc", memory);
    return cnrt_leave(code);
}

int cnrtMemGetInfo(size_t *out_free, size_t *out_total)
{
    struct base_device *device;
    int code = cnrt_enter_device("cnrtMemGetInfo", &device);

    if (!code && (!out_free || !out_total)) code = base_refuse(CNRT_ARGS, "NULL");
    if (code) return cnrt_leave(code);
    *out_free = device->total - device->used;
    *out_total = device->total;
    return cnrt_leave(0);
}

/* A copy, or with `set` a fill with a byte. */
struct copy {
    void *dst, *src;
    size_t size;
    struct base_device *to, *from; /* NULL: memory of the host */
    bool set;
    int value;
};

static void copy_bytes(const struct copy *c, void *dst, const void *src)
{
    if (c->set) memset(dst, c->value, c->size);
    else memmove(dst, src, c->size);
}

static int copy_run(void *data, int code)
{
    const struct copy *c = data;
    void *dst = c->dst, *src = c->src;

    if (code) return code;
    if (c->to) dst = base_reach_unlocked(c->to, dst, c->size);
    if (c->from) src = base_reach_unlocked(c->from, src, c->size);
    if (!dst || (!src && !c->set)) return CNRT_KERNEL_TRAP;
    copy_bytes(c, dst, src);
    return 0;
}

static const struct base_work copy_work = {.run = copy_run};

/* Checks one side of a copy: the address must be in device memory, or in memory of the host.
 * Returns 0 or a code; *device becomes NULL for the host. Under the lock. */
static int copy_side(const char *name, void *address, size_t size, bool on_device,
                     struct base_device **device)
{
    struct base_range range = base_find(address);

    if (range.place == BASE_FREED) return base_misuse(CNRT_ARGS, "%s: %p was freed", name, address);
    if ((range.place == BASE_DEVICE) != on_device)
        return base_refuse(CNRT_DIRECTION, "%s: %p is memory of the %s", name, address,
                           on_device ? "host" : "device");
    if (!on_device) {
        *device = NULL;
        return 0;
    }
    if (range.device != *device)
        return base_refuse(CNRT_OTHER_DEVICE, "%s: %p is memory of device %d", name, address,
                           range.device->number);
    if (range.room < size)
        return base_misuse(CNRT_ARGS, "%s: %zu bytes at %p, which has %zu", name, size, address,
                           range.room);
    return 0;
}

/* Whether the two sides of a copy are on a device: bit 0 the destination, bit 1 the source. */
static int copy_sides(const struct copy *c, int direction)
{
    static const int sides[] = {1, 3, 2, 0, 3};

    if (direction != CNRT_NO_DIRECTION) return sides[direction];
    return (base_find(c->dst).place == BASE_DEVICE) | (base_find(c->src).place == BASE_DEVICE) << 1;
}

static int copy_check(const char *name, struct copy *c, int direction)
{
    int code, sides;

    if (direction < 0 || direction > CNRT_NO_DIRECTION)
        return base_refuse(CNRT_ARGS, "%s: no direction %d", name, direction);
    if (!c->size) return 0;
    if (!c->dst || !c->src) return base_refuse(CNRT_ARGS, "%s: NULL", name);
    sides = copy_sides(c, direction);
    code = copy_side(name, c->dst, c->size, sides & 1, &c->to);
    return code ? code : copy_side(name, c->src, c->size, sides & 2, &c->from);
}

int cnrtMemcpy(void *dst, void *src, size_t size, int direction)
{
    struct base_device *device;
    int code = cnrt_enter_device("cnrtMemcpy", &device);
    struct copy c = {.dst = dst, .src = src, .size = size, .to = device, .from = device};

    if (!code && base_capture_forbids()) code = CNRT_CAPTURE_UNSUPPORTED;
    if (!code) code = copy_check("cnrtMemcpy", &c, direction);
    if (code || !size) return cnrt_leave(code);
    if (c.to) dst = base_reach(c.to, dst, size);
    if (c.from) src = base_reach(c.from, src, size);
    copy_bytes(&c, dst, src);
    return cnrt_leave(0);
}

static int copy_submit(const char *name, struct copy *c, void *queue, int direction)
{
    struct base_device *device;
    int code = cnrt_enter_device(name, &device);
    struct base_stream *stream = code ? NULL : cnrt_queue(queue, device, &code);

    if (!c->to) c->to = c->from = device;
    if (!code) code = copy_check(name, c, direction);
    if (!code && c->size) code = base_submit(stream, &copy_work, c, sizeof *c);
    return cnrt_leave(code);
}

int cnrtMemcpyAsync(void *dst, void *src, size_t size, void *queue, int direction)
{
    struct copy c = {.dst = dst, .src = src, .size = size};

    return copy_submit("cnrtMemcpyAsync", &c, queue, direction);
}

int cnrtMemcpyAsync_V2(void *dst, void *src, size_t size, void *queue, int direction)
{
    struct copy c = {.dst = dst, .src = src, .size = size};

    return copy_submit("cnrtMemcpyAsync_V2", &c, queue, direction);
}

int cnrtMemcpyAsync_V3(void *dst, void *src, size_t size, void *queue, int direction)
{
    struct copy c = {.dst = dst, .src = src, .size = size};

    return copy_submit("cnrtMemcpyAsync_V3", &c, queue, direction);
}

int cnrtMemcpyPeerAsync(void *dst, int dst_device, void *src, int src_device, size_t size,
                        void *queue)
{
    const char *name = "cnrtMemcpyPeerAsync";
    struct copy c = {.dst = dst, .src = src, .size = size};
    int n;

    base_lock();
    n = cnrt_vendor.n_device;
    base_unlock();
    if (dst_device >= 0 && dst_device < n) c.to = &cnrt_vendor.device[dst_device];
    if (src_device >= 0 && src_device < n) c.from = &cnrt_vendor.device[src_device];
    if (c.to && c.from) return copy_submit(name, &c, queue, CNRT_PEER_TO_PEER);
    n = cnrt_enter(name);
    return cnrt_leave(n ? n : base_refuse(CNRT_DEVICE_INVALID, "%s: no such device", name));
}

static int set_check(const char *name, struct copy *c, struct base_device *device)
{
    c->set = true;
    c->to = device;
    if (!c->size) return 0;
    if (!c->dst) return base_refuse(CNRT_ARGS, "%s: NULL", name);
    return copy_side(name, c->dst, c->size, true, &c->to);
}

int cnrtMemset(void *memory, int value, size_t size)
{
    struct base_device *device;
    int code = cnrt_enter_device("cnrtMemset", &device);
    struct copy c = {.dst = memory, .size = size, .value = value};

    if (!code && base_capture_forbids()) code = CNRT_CAPTURE_UNSUPPORTED;
    if (!code) code = set_check("cnrtMemset", &c, device);
    if (!code && size) memset(base_reach(device, memory, size), value, size);
    return cnrt_leave(code);
}

int cnrtMemsetAsync(void *memory, int value, size_t size, void *queue)
{
    struct base_device *device;
    int code = cnrt_enter_device("cnrtMemsetAsync", &device);
    struct base_stream *stream = code ? NULL : cnrt_queue(queue, device, &code);
    struct copy c = {.dst = memory, .size = size, .value = value};

    if (!code) code = set_check("cnrtMemsetAsync", &c, device);
    if (!code && size) code = base_submit(stream, &copy_work, &c, sizeof c);
    return cnrt_leave(code);
}

int cnrtMallocAsync(void **out, size_t size, void *queue)
{
    struct base_device *device;
    int code = cnrt_enter_device("cnrtMallocAsync", &device);
    struct base_stream *stream = code ? NULL : cnrt_queue(queue, device, &code);

    if (!code && !out) code = base_refuse(CNRT_ARGS, "NULL");
    if (!code && base_capture_state(stream)) code = CNRT_NOT_SUPPORTED;
    if (!code) code = base_allocate(device, BASE_DEVICE, size, 0, ALIGNMENT, out);
    return cnrt_leave(code);
}

static int free_run(void *data, int code)
{
    base_lock();
    if (base_free(*(void **)data, BASE_DEVICE))
        base_misuse(CNRT_ARGS, "cnrtFreeAsync: the memory was freed before");
    base_unlock();
    return code;
}

int cnrtFreeAsync(void *memory, void *queue)
{
    static const struct base_work work = {.run = free_run};
    struct base_device *device;
    int code = cnrt_enter_device("cnrtFreeAsync", &device);
    struct base_stream *stream = code ? NULL : cnrt_queue(queue, device, &code);

    if (!code && base_capture_state(stream)) code = CNRT_NOT_SUPPORTED;
    if (!code && (base_find(memory).place != BASE_DEVICE || !base_find(memory).is_start))
        code = base_misuse(CNRT_ARGS, "cnrtFreeAsync: %p is not memory of the device", memory);
    if (!code) code = base_submit(stream, &work, &memory, sizeof memory);
    return cnrt_leave(code);
}
