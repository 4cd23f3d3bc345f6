/* SPDX-License-Identifier: Apache-2.0 */
/* transport.c: the table of transports. What each does for a collective is a row of its bp_movers.
 */
#include "transport.h"

#include "native/native.h"

static enum bp_status shm_health(void *self)
{
    return bp_board_check(self);
}

static void shm_destroy(void *self)
{
    bp_board_leave(self);
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
    [BP_TRANSPORT_SHM] = {.name = "shm", .collective = bp_collective_run, .p2p = bp_pairs_run,
                          .health = shm_health, .destroy = shm_destroy},
    [BP_TRANSPORT_NET] = {.name = "net", .collective = bp_hosts_collective, .p2p = bp_hosts_p2p,
                          .whole = true, .health = net_health, .destroy = net_destroy},
    [BP_TRANSPORT_NATIVE] = {.name = "native", .submit = bp_native_submit,
                             .destroy = native_destroy},
};
