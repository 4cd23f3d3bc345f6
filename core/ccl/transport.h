/* SPDX-License-Identifier: Apache-2.0 */
/* transport.h: declares the interface of a transport, which carries calls from rank to rank. A
 * communicator has one transport through host memory, within one machine or between hosts. If its
 * devices have a collectives library, each call is offered to that native transport first. */
#ifndef BP_TRANSPORT_PRIVATE_H
#define BP_TRANSPORT_PRIVATE_H

#include "collective.h"

struct bp_comm;
struct bp_comm_step;
struct bp_stream;

/* The functions of a transport. self: the transport's state of one rank. */
struct bp_transport {
    const char *name;
    /* Through host memory: runs one collective call; runs n sends and receives concurrently, each
     * struct stride bytes after the one before. A failure becomes the failure of the
     * communicator. */
    enum bp_status (*collective)(void *self, const struct bp_collective *c);
    enum bp_status (*p2p)(void *self, const struct bp_collective *first, uint32_t n, size_t stride);
    /* The transport needs whole buffers in host memory: device memory cannot be staged piece by
     * piece. */
    bool whole_buffers;
    /* Through the devices: submits the steps to the stream. *out_done false: the transport does not
     * support these steps, on any rank. */
    enum bp_status (*submit)(struct bp_comm *comm, struct bp_stream *stream,
                             const struct bp_comm_step *steps, uint32_t n, bool *out_done);
    /* Returns BP_OK or the failure of the communicator. NULL: another transport checks that. */
    enum bp_status (*health)(void *self);
    void (*destroy)(void *self); /* does not wait for other ranks; NULL is allowed */
};

/* The table of transports, in transport.c. */
enum bp_transport_kind {
    BP_TRANSPORT_SHM,    /* shm/: memory that the ranks of one machine share */
    BP_TRANSPORT_NET,    /* net/: a network module between hosts, and shm/ within each host */
    BP_TRANSPORT_NATIVE, /* native/: the collectives library of a plugin */
    BP_TRANSPORT_COUNT
};
extern const struct bp_transport bp_transports[BP_TRANSPORT_COUNT];

#endif
