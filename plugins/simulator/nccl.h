/* SPDX-License-Identifier: Apache-2.0 */
/* nccl.h: declares the communicators of the stand-in for NCCL, and the shared file by which ranks
 * find each other's buffers. */
#ifndef SIM_NCCL_H
#define SIM_NCCL_H

#include "gpu/nccl.h"
#include "sim.h"
#include <stdatomic.h>

enum { SIM_NCCL_RANKS = 16 };
enum { SIM_NCCL_SYSTEM = 2, SIM_NCCL_INVALID = 4, SIM_NCCL_REMOTE = 6 };

/* The address of a rank's buffer in the rank's process. */
struct sim_nccl_buffer {
    uint64_t address, bytes;
};

struct sim_nccl_shared {
    _Atomic int joined, failed;
    struct sim_nccl_rank {
        _Atomic int pid;
        _Atomic uint64_t begun, ended; /* number of collective calls */
        struct sim_nccl_buffer src;    /* the source buffer of the call that has begun */
        _Atomic uint32_t readers;      /* ranks of its process that are reading its buffers */
        _Atomic bool gone;             /* it has ended a call that was aborted */
    } rank[SIM_NCCL_RANKS];
    struct sim_nccl_pair {
        _Atomic uint64_t sent, taken;
        struct sim_nccl_buffer src;    /* the buffer that was sent last */
    } pair[SIM_NCCL_RANKS][SIM_NCCL_RANKS]; /* [sender][receiver] */
};

/* The state of a non-blocking communicator (`asks`), which changes to the next state when it has
 * been polled `left` times. */
enum sim_nccl_state {
    SIM_NCCL_READY,
    SIM_NCCL_JOINING,
    SIM_NCCL_GIVING,
    SIM_NCCL_FINALIZING,
    SIM_NCCL_FINALIZED,
};

struct sim_nccl {
    int magic, rank, n;
    bool polls;
    enum sim_nccl_state state;
    int left, fd;           /* fd: the shared file, for the rank that closes it; or -1 */
    struct sim_nccl_op *op; /* n_op calls to be enqueued in `stream` */
    int n_op;
    void *stream;
    int refs;               /* the caller's reference, and one for each work item; under the lock */
    atomic_bool aborted;
    _Atomic int error;      /* error of a call under way */
    uint64_t given, done;   /* number of work items; under the lock */
    uint64_t calls;         /* number of collective calls that have run */
    struct sim_nccl_shared *shared;
};
/* Releases a reference to the communicator. Under the lock. */
void sim_nccl_drop(struct sim_nccl *comm);

enum sim_nccl_call {
    SIM_NCCL_ALL_REDUCE,
    SIM_NCCL_REDUCE,
    SIM_NCCL_BROADCAST,
    SIM_NCCL_ALL_GATHER,
    SIM_NCCL_REDUCE_SCATTER,
    SIM_NCCL_SEND,
    SIM_NCCL_RECV,
};

struct sim_nccl_op {
    enum sim_nccl_call call;
    int type, reduction, peer; /* or the root */
    size_t count;
    const void *src;
    void *dst;
    uint64_t number; /* for a send: its number in the pair, once it has been sent; otherwise 0 */
    bool done;
};

/* One collective call, or any number of sends and receives. */
struct sim_nccl_work {
    struct sim_nccl *comm;
    struct sim_nccl_op *op; /* n operations, owned by the work item */
    int n;
    uint64_t number;
};
/* exchange.c: runs a work item, as sim_submit requires. */
int sim_nccl_run(void *work, int code);

#endif
