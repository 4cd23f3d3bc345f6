/* SPDX-License-Identifier: Apache-2.0 */
/* exchange.h: declares communicators for stand-ins of libraries of collectives. Ranks are threads
 * and processes of one machine. Each rank publishes the addresses of its buffers in a file that all
 * ranks map, and reads the buffers of the others. A call that other ranks do not make waits until
 * its communicator is destroyed, and so does one whose arguments differ between ranks, which also
 * sets the communicator's error. */
#ifndef STANDINS_EXCHANGE_H
#define STANDINS_EXCHANGE_H

#include "base.h"

enum {
    BASE_RANKS = 16,
    BASE_ID_SIZE = 32
};

enum base_exchange_call {
    BASE_ALL_REDUCE,
    BASE_REDUCE,
    BASE_BROADCAST,
    BASE_ALL_GATHER,
    BASE_REDUCE_SCATTER,
    BASE_ALL_TO_ALL,
    BASE_BARRIER,
    BASE_SEND,
    BASE_RECV
};

/* One operation. `count` elements of `width` bytes are those of one rank: what a rank sends in
 * all-gather, what it receives in reduce-scatter, what goes to each rank in all-to-all. */
struct base_exchange_op {
    enum base_exchange_call call;
    const void *src; /* addresses of the device, or of pinned memory */
    void *dst;
    uint64_t count;
    size_t width;
    int type, reduction, peer; /* the vendor's numbers; peer: or the root */
};

/* Combines n elements: to = to (reduction) from. */
typedef void base_combine(void *to, const void *from, uint64_t n, int type, int reduction);

/* Writes an id of BASE_ID_SIZE bytes, for all ranks of one communicator. Returns 0 or
 * BASE_NO_MEMORY. Under the lock. */
BASE_API int base_exchange_id(void *out);

struct base_comm;
extern BASE_API const char base_comm_kind[];

/* Joins a communicator; waits for the other ranks, at most `ms`. The lock is released meanwhile.
 * BASE_BAD: no such id, rank or number of ranks; BASE_TIMEOUT. Under the lock. */
BASE_API int base_comm_join(const void *id, int n, int rank, int ms, struct base_device *device,
                            base_combine *combine, struct base_comm **out);
BASE_API int base_comm_rank(const struct base_comm *comm);
BASE_API int base_comm_ranks(const struct base_comm *comm);
BASE_API struct base_device *base_comm_device(const struct base_comm *comm);
/* The error of a call in progress: 0; BASE_BAD: ranks differ; BASE_ILLEGAL: a rank is gone. */
BASE_API int base_comm_error(const struct base_comm *comm);
/* Ends calls in progress, without results. Under the lock. */
BASE_API void base_comm_destroy(struct base_comm *comm);
/* Enqueues one collective operation, or n sends and receives that run together. Operations of one
 * communicator run in the order of these calls. Under the lock. */
BASE_API int base_comm_submit(struct base_comm *comm, struct base_stream *stream,
                              const struct base_exchange_op *op, int n);

#endif
