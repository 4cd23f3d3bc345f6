/* SPDX-License-Identifier: Apache-2.0 */
/* copy.c: simulates copies. Host memory, too, is only accessed when the work runs, never before. */
#include "sim.h"
#include <string.h>

struct copy {
    void *dst;
    const void *src;
    size_t size;
    bool dst_device, src_device; /* whether the address is one of the device */
};

/* The host memory of one side; NULL: invalid. On the host's side every host address is valid. */
static void *copy_side(const void *address, size_t size, bool of_device)
{
    if (of_device) return sim_reach(address, size);
    return sim_is_device_address(address) ? NULL : (void *)address;
}

static int run_copy(void *p, int code)
{
    const struct copy *copy = p;
    void *dst = copy_side(copy->dst, copy->size, copy->dst_device);
    const void *src = copy_side(copy->src, copy->size, copy->src_device);

    if (!code) code = sim_doomed(SIM_CALL_work);
    if (!code && (!dst || !src)) code = SIM_ILLEGAL_ADDRESS;
    if (code) return code;
    pthread_mutex_unlock(&sim.lock);
    memcpy(dst, src, copy->size);
    pthread_mutex_lock(&sim.lock);
    return SIM_SUCCESS;
}

static enum sim_work copy_work(enum sim_call call)
{
    return call == SIM_CALL_copy_in    ? SIM_WORK_COPY_IN
           : call == SIM_CALL_copy_out ? SIM_WORK_COPY_OUT
                                       : SIM_WORK_COPY_WITHIN;
}

static int copy_submit(enum sim_call call, void *stream, struct copy copy)
{
    struct sim_device *device;
    int code = sim_enter_context(call, &device);

    if (!code && (!copy_side(copy.dst, copy.size, copy.dst_device) ||
                  !copy_side(copy.src, copy.size, copy.src_device)))
        code = SIM_INVALID_VALUE;
    if (code) return sim_leave(code);
    sim_describe(copy_work(call), NULL, copy.size);
    return sim_leave(sim_submit(stream, run_copy, &copy, sizeof copy));
}

int sim_copy_in(void *dst, const void *src, size_t size, void *stream)
{
    return copy_submit(SIM_CALL_copy_in, stream, (struct copy){dst, src, size, true, false});
}

int sim_copy_out(void *dst, const void *src, size_t size, void *stream)
{
    return copy_submit(SIM_CALL_copy_out, stream, (struct copy){dst, src, size, false, true});
}

int sim_copy_within(void *dst, const void *src, size_t size, void *stream)
{
    return copy_submit(SIM_CALL_copy_within, stream, (struct copy){dst, src, size, true, true});
}

int sim_peer_possible(int *out, int device, int peer)
{
    int code = sim_enter(SIM_CALL_peer_possible);

    if (!code && (device < 0 || device >= sim.n_device || peer < 0 || peer >= sim.n_device))
        code = SIM_INVALID_DEVICE;
    if (!code) *out = device != peer;
    return sim_leave(code);
}

/* Like a real driver, it accepts one call for each pair of devices. */
int sim_peer_enable(void *context, unsigned flags)
{
    struct sim_device *device, *peer = context;
    int code = sim_enter_context(SIM_CALL_peer_enable, &device);
    unsigned bit;

    if (!code && (flags || !peer || !peer->refs || peer == device)) code = SIM_INVALID_VALUE;
    if (code) return sim_leave(code);
    bit = 1u << (peer - sim.device);
    code = device->peers & bit ? SIM_REACHED_ALREADY : SIM_SUCCESS;
    device->peers |= bit;
    return sim_leave(code);
}

int sim_copy_peer(void *dst, void *to, const void *src, void *from, size_t size, void *stream)
{
    struct sim_device *device;
    int code = sim_enter_context(SIM_CALL_copy_peer, &device);
    struct copy copy = {dst, src, size, true, true};

    if (!code && (!copy_side(dst, size, true) || !copy_side(src, size, true) ||
                  !sim_is_of(dst, to) || !sim_is_of(src, from)))
        code = SIM_INVALID_VALUE;
    if (code) return sim_leave(code);
    sim_describe(SIM_WORK_COPY_PEER, NULL, size);
    return sim_leave(sim_submit(stream, run_copy, &copy, sizeof copy));
}
