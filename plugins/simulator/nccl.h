/* SPDX-License-Identifier: Apache-2.0 */
/* nccl.h: what the files of the stand-in for NCCL share: its communicators, and the file by which
 * ranks find each other's buffers. */
#ifndef SIM_NCCL_H
#define SIM_NCCL_H

#include "gpu/nccl.h"
#include "sim.h"
#include <stdatomic.h>

enum { SIM_NCCL_RANKS = 16 };
enum { SIM_NCCL_SYSTEM = 2, SIM_NCCL_INVALID = 4, SIM_NCCL_REMOTE = 6 };

/* Where a buffer of a rank is, in its process. */
struct sim_nccl_buffer {
    uint64_t address, bytes;
};

struct sim_nccl_shared {
    _Atomic int joined, failed;
    struct sim_nccl_rank {
        _Atomic int pid;
        _Atomic uint64_t begun, ended; /* collective calls */
        struct sim_nccl_buffer src;    /* of that which has begun */
    } rank[SIM_NCCL_RANKS];
    struct sim_nccl_pair {
        _Atomic uint64_t sent, taken;
        struct sim_nccl_buffer src;    /* of that which was sent last */
    } pair[SIM_NCCL_RANKS][SIM_NCCL_RANKS]; /* from, to */
};

/* What one that does not wait (asks) does until it has been asked `left` times. */
enum sim_nccl_state {
    SIM_NCCL_READY,
    SIM_NCCL_JOINING,
    SIM_NCCL_GIVING,
    SIM_NCCL_FINALIZING,
    SIM_NCCL_FINALIZED,
};

struct sim_nccl {
    int magic, rank, n;
    bool asks;
    enum sim_nccl_state state;
    int left, fd;           /* fd: of the file, for the rank that closes it; or -1 */
    struct sim_nccl_op *op; /* n_op of them, to be given to stream */
    int n_op;
    void *stream;
    int refs;               /* the caller's, and one for each piece of work; under the lock */
    atomic_bool aborted;
    _Atomic int error;      /* of a call under way */
    uint64_t given, done;   /* pieces of work; under the lock */
    uint64_t calls;         /* collective ones that were run */
    struct sim_nccl_shared *shared;
};
/* Under the lock. */
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
    int type, reduction, peer; /* or root */
    size_t count;
    const void *src;
    void *dst;
    uint64_t number; /* of a send: of its pair, once it has been sent; else 0 */
    bool done;
};

/* One collective call, or any number of sends and receives. */
struct sim_nccl_work {
    struct sim_nccl *comm;
    struct sim_nccl_op *op; /* n of them, its own */
    int n;
    uint64_t number;
};
/* exchange.c: as sim_submit has it. */
int sim_nccl_run(void *work, int code);

#endif
