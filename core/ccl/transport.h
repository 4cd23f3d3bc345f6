/* SPDX-License-Identifier: Apache-2.0 */
/* transport.h: how calls get from rank to rank. A communicator has one transport by host memory, on
 * one machine or between hosts; where its devices have a library, that is asked first. */
#ifndef BP_TRANSPORT_PRIVATE_H
#define BP_TRANSPORT_PRIVATE_H

#include "collective.h"

struct bp_comm;
struct bp_comm_step;
struct bp_stream;

/* self: a rank's end of the transport. */
struct bp_transport {
    const char *name;
    /* By host memory: one collective call; n sends and receives at once, each stride bytes after
     * the one before. A failure is that of the communicator. */
    enum bp_status (*collective)(void *self, const struct bp_collective *c);
    enum bp_status (*p2p)(void *self, const struct bp_collective *first, uint32_t n, size_t stride);
    /* It sees whole buffers: data of other memory does not come piece by piece. */
    bool whole_buffers;
    /* By devices: gives the steps to the stream. Not *out_done: it does not do such, on no rank. */
    enum bp_status (*submit)(struct bp_comm *comm, struct bp_stream *stream,
                             const struct bp_comm_step *steps, uint32_t n, bool *out_done);
    /* BP_OK, or the failure of the communicator; NULL: another transport knows. */
    enum bp_status (*health)(void *self);
    void (*destroy)(void *self); /* waits for nobody; NULL is fine */
};

/* transport.c */
enum bp_transport_kind {
    BP_TRANSPORT_SHM,    /* shm/: memory that ranks on one machine share */
    BP_TRANSPORT_NET,    /* net/: a network module, and shm/ on each host */
    BP_TRANSPORT_NATIVE, /* native/: the library of a plugin */
    BP_TRANSPORT_COUNT
};
extern const struct bp_transport bp_transports[BP_TRANSPORT_COUNT];

#endif
