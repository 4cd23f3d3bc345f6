/* SPDX-License-Identifier: Apache-2.0 */
/* transport.c: the table of transports. What each does for a collective is a row of its bp_movers.
 */
#include "transport.h"

#include "native/native.h"

static enum bp_status shm_collective(void *self, const struct bp_collective *c)
{
    return bp_collective_run(self, c);
}

static enum bp_status shm_p2p(void *self, const struct bp_collective *first, uint32_t n,
                              size_t stride)
{
    return bp_pairs_run(self, first, n, stride);
}

static enum bp_status shm_health(void *self)
{
    return bp_board_check(self);
}

static void shm_destroy(void *self)
{
    bp_board_leave(self);
}

static enum bp_status net_collective(void *self, const struct bp_collective *c)
{
    return bp_hosts_collective(self, c);
}

static enum bp_status net_p2p(void *self, const struct bp_collective *first, uint32_t n,
                              size_t stride)
{
    return bp_hosts_p2p(self, first, n, stride);
}

static enum bp_status net_health(void *self)
{
    struct bp_hosts *h = self;

    TRY(bp_hosts_hear(h));
    return bp_board_check(h->board);
}

static void net_destroy(void *self)
{
    bp_hosts_destroy(self);
}

static void native_destroy(void *self)
{
    bp_native_free(self);
}

const struct bp_transport bp_transports[BP_TRANSPORT_COUNT] = {
    [BP_TRANSPORT_SHM] = {.name = "shm", .collective = shm_collective, .p2p = shm_p2p,
                          .health = shm_health, .destroy = shm_destroy},
    [BP_TRANSPORT_NET] = {.name = "net", .collective = net_collective, .p2p = net_p2p,
                          .whole = true, .health = net_health, .destroy = net_destroy},
    [BP_TRANSPORT_NATIVE] = {.name = "native", .submit = bp_native_submit,
                             .destroy = native_destroy},
};
