/* SPDX-License-Identifier: Apache-2.0 */
/* transport.c: defines the table of transports. A transport's functions for the kinds of collective
 * calls are in its own bp_collective_table. */
#include "transport.h"

#include "native/native.h"

static enum bp_status shm_health(void *self)
{
    return bp_shm_rank_check(self);
}

static void shm_destroy(void *self)
{
    bp_shm_rank_destroy(self);
}

static enum bp_status net_health(void *self)
{
    struct bp_net_comm *h = self;

    TRY(bp_net_failure_poll(h));
    return bp_shm_rank_check(h->shm);
}

static void net_destroy(void *self)
{
    bp_net_comm_destroy(self);
}

static void native_destroy(void *self)
{
    bp_native_destroy(self);
}

const struct bp_transport bp_transports[BP_TRANSPORT_COUNT] = {
    [BP_TRANSPORT_SHM] = {.name = "shm", .collective = bp_shm_collective, .p2p = bp_shm_p2p_run,
                          .health = shm_health, .destroy = shm_destroy},
    [BP_TRANSPORT_NET] = {.name = "net", .collective = bp_net_collective, .p2p = bp_net_p2p,
                          .whole_buffers = true, .health = net_health, .destroy = net_destroy},
    [BP_TRANSPORT_NATIVE] = {.name = "native", .submit = bp_native_submit,
                             .destroy = native_destroy},
};
