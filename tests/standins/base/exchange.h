/* SPDX-License-Identifier: Apache-2.0 */
/* exchange.h: declares communicators for stand-ins of libraries of collectives, on the streams of
 * the base. simulator/ranks.h explains how ranks exchange data. A call whose arguments differ
 * between ranks waits until its communicator is destroyed, and sets the communicator's error. */
#ifndef STANDINS_EXCHANGE_H
#define STANDINS_EXCHANGE_H

#include "base.h"
#include "simulator/ranks.h"

/* Combines n elements: to = to (reduction) from. */
typedef void base_combine(void *to, const void *from, uint64_t n, int type, int reduction);

/* Writes an id of RANKS_ID_SIZE bytes, for all ranks of one communicator. Returns 0 or
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
                              const struct ranks_op *op, int n);

#endif
