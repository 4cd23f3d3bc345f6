/* SPDX-License-Identifier: Apache-2.0 */
/* nccl.h: declares the communicators of the stand-in for NCCL. */
#ifndef SIM_NCCL_H
#define SIM_NCCL_H

#include "gpu/nccl.h"
#include "ranks.h"
#include "sim.h"
#include <stdatomic.h>

enum { SIM_NCCL_SYSTEM = 2, SIM_NCCL_INVALID = 4, SIM_NCCL_REMOTE = 6 };

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
    int magic;
    bool polls;
    enum sim_nccl_state state;
    int left, fd;        /* fd: the shared file, for the rank that closes it; or -1 */
    struct ranks_op *op; /* n_op calls to be enqueued in `stream` */
    int n_op;
    void *stream;
    int refs;             /* the caller's reference, and one for each work item; under the lock */
    uint64_t given, done; /* number of work items; under the lock */
    struct ranks_comm ranks;
};
/* Releases a reference to the communicator. Under the lock. */
void sim_nccl_drop(struct sim_nccl *comm);

/* One collective call, or any number of sends and receives. */
struct sim_nccl_work {
    struct sim_nccl *comm;
    struct ranks_op *op; /* n operations, owned by the work item */
    int n;
    uint64_t number;
};
/* exchange.c: the bytes of an element; how NCCL computes and what it reports; and runs a work item,
 * as sim_submit requires. */
size_t sim_nccl_width(int type);
extern const struct ranks_rules sim_nccl_rules;
int sim_nccl_run(void *work, int code);

#endif
