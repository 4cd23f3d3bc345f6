/* SPDX-License-Identifier: Apache-2.0 */
/* ranks.h: declares how ranks exchange data, for the stand-ins for libraries of collectives. Ranks
 * are threads and processes of one machine, in any network namespaces. Each rank publishes the
 * addresses of its buffers in a file that all ranks map, and reads the buffers of the others. A
 * call that other ranks do not make waits until its communicator is aborted. */
#ifndef SIM_RANKS_H
#define SIM_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    RANKS_MOST = 16,
    RANKS_ID_SIZE = 32
};

enum ranks_call {
    RANKS_ALL_REDUCE,
    RANKS_REDUCE,
    RANKS_BROADCAST,
    RANKS_ALL_GATHER,
    RANKS_REDUCE_SCATTER,
    RANKS_ALL_TO_ALL,
    RANKS_BARRIER,
    RANKS_SEND,
    RANKS_RECV
};

/* One operation. `count` elements of `width` bytes are those of one rank: its source in all-gather,
 * its result in reduce-scatter, the elements for each rank in all-to-all. */
struct ranks_op {
    enum ranks_call call;
    const void *src;
    void *dst;
    uint64_t count;
    size_t width;
    int type, reduction, peer; /* the vendor's numbers; peer: or the root */
};

/* How a vendor's library computes, and the errors that it reports for a call that cannot end. An
 * error of 0 is not reported: the call only waits. */
struct ranks_rules {
    /* to = to (reduction) from, for n elements. */
    void (*combine)(void *to, const void *from, uint64_t n, int type, int reduction);
    /* Called when the elements of all ranks are combined; may be NULL. */
    void (*finish)(void *to, uint64_t n, int type, int reduction, int ranks);
    bool compares;  /* a call whose arguments differ between ranks is an error */
    int differs;    /* the arguments, or the sizes of buffers, differ between ranks */
    int unreadable; /* the process of another rank cannot be read */
    int gone;       /* another rank of this process has ended a call that was aborted */
};

struct ranks_shared;
struct ranks_mapped;

/* A rank's part of a communicator. */
struct ranks_comm {
    const struct ranks_rules *rules;
    struct ranks_mapped *mapped;
    struct ranks_shared *shared;
    int rank, n;
    uint64_t calls;       /* collective calls that have run */
    _Atomic bool aborted; /* calls under way end, without results */
    _Atomic int error;    /* of a call under way */
};

/* Writes an id of RANKS_ID_SIZE bytes for all ranks of one communicator; false: no memory. The
 * second function returns the id's file in the process that made the id, -1 in others. The caller
 * closes the file when the ranks have arrived. */
bool ranks_id(void *out);
int ranks_id_file(const void *id);
/* Maps the id's file for a rank; false: no such id, rank or number of ranks. ranks_close releases
 * it. Both under a lock of the caller. */
bool ranks_open(struct ranks_comm *out, const void *id, int n, int rank,
                const struct ranks_rules *rules);
void ranks_close(struct ranks_comm *comm);
/* Reports to the other ranks that this rank is there, or that it will not come. */
void ranks_arrive(struct ranks_comm *comm);
void ranks_fail(struct ranks_comm *comm);
bool ranks_have_arrived(const struct ranks_comm *comm);
bool ranks_have_failed(const struct ranks_comm *comm);

/* Replaces the buffers of an operation by what reach(self, buffer, bytes) returns for them; false:
 * one is NULL. */
bool ranks_reach(const struct ranks_comm *comm, struct ranks_op *op,
                 void *(*reach)(const void *self, const void *buffer, size_t bytes),
                 const void *self);
/* Runs one collective operation, or n sends and receives together. Buffers are memory of the host.
 * Source and destination may be the same buffer. Without the lock; one call at a time. */
void ranks_run(struct ranks_comm *comm, const struct ranks_op *op, int n);

#endif
