/* SPDX-License-Identifier: Apache-2.0 */
/* exchange.c: runs collectives on streams of the base, by simulator/ranks.h. */
#include "exchange.h"
#include "internal.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct base_comm {
    struct comm_state *state;
};
/* The part of a communicator that work in progress needs after its end. */
struct comm_state {
    struct ranks_comm ranks;
    struct ranks_rules rules;
    struct base_device *device;
    int refs;
    uint64_t given, done;
};
const char base_comm_kind[] = "communicator";

struct exchange_work {
    struct comm_state *comm;
    struct ranks_op *op;
    int n;
    uint64_t number; /* 0: recorded, in no order */
};

int base_exchange_id(void *out)
{
    return ranks_id(out) ? BASE_OK : BASE_NO_MEMORY;
}

static void state_drop(struct comm_state *comm)
{
    if (--comm->refs) return;
    ranks_close(&comm->ranks);
    free(comm);
}

/* Waits until all ranks are there. The lock is released meanwhile. */
static int state_meet(struct comm_state *comm, int ms)
{
    int waits = 0;

    ranks_arrive(&comm->ranks);
    base_unlock();
    while (!ranks_have_arrived(&comm->ranks) && waits++ < ms * 10) base_sleep(100);
    base_lock();
    return ranks_have_arrived(&comm->ranks) ? BASE_OK : BASE_TIMEOUT;
}

/* Creates the state of a rank that all other ranks have met. */
static int state_create(const void *id, int n, int rank, int ms, struct base_device *device,
                        base_combine *combine, struct comm_state **out)
{
    struct comm_state *made = calloc(1, sizeof *made);
    int code;

    if (!made) return BASE_NO_MEMORY;
    made->rules = (struct ranks_rules){.combine = combine,
                                       .compares = true,
                                       .differs = BASE_BAD,
                                       .unreadable = BASE_ILLEGAL,
                                       .gone = BASE_ILLEGAL};
    made->device = device;
    made->refs = 1;
    if (!ranks_open(&made->ranks, id, n, rank, &made->rules)) {
        free(made);
        return BASE_BAD;
    }
    code = state_meet(made, ms);
    if (!code && rank == 0 && ranks_id_file(id) >= 0) close(ranks_id_file(id));
    if (code) state_drop(made);
    else *out = made;
    return code;
}

int base_comm_join(const void *id, int n, int rank, int ms, struct base_device *device,
                   base_combine *combine, struct base_comm **out)
{
    struct comm_state *state = NULL;
    struct base_comm *comm;
    int code = state_create(id, n, rank, ms, device, combine, &state);

    if (code) return code;
    comm = base_handle_create(base_comm_kind, sizeof *comm);
    if (!comm) {
        state_drop(state);
        return BASE_NO_MEMORY;
    }
    comm->state = state;
    *out = comm;
    return BASE_OK;
}

int base_comm_rank(const struct base_comm *comm)
{
    return comm->state->ranks.rank;
}

int base_comm_ranks(const struct base_comm *comm)
{
    return comm->state->ranks.n;
}

struct base_device *base_comm_device(const struct base_comm *comm)
{
    return comm->state->device;
}

int base_comm_error(const struct base_comm *comm)
{
    return atomic_load(&comm->state->ranks.error);
}

void base_comm_destroy(struct base_comm *comm)
{
    atomic_store(&comm->state->ranks.aborted, true);
    state_drop(comm->state);
    base_handle_destroy(comm);
}

static void *exchange_reach(const void *device, const void *buffer, size_t bytes)
{
    return base_reach(device, buffer, bytes);
}

/* Waits until it is the turn of this work in its communicator. Under the lock, which is released
 * meanwhile. */
static void exchange_wait(const struct exchange_work *work)
{
    while (work->number && work->comm->done + 1 != work->number &&
           !atomic_load(&work->comm->ranks.aborted)) {
        base_unlock();
        base_sleep(50);
        base_lock();
    }
}

/* A recorded work item runs more than once: its operations are copied. */
static int exchange_run(void *data, int code)
{
    const struct exchange_work *work = data;
    struct comm_state *comm = work->comm;
    struct ranks_op *op;

    base_lock();
    op = malloc((size_t)work->n * sizeof *op);
    if (op) memcpy(op, work->op, (size_t)work->n * sizeof *op);
    else code = BASE_ILLEGAL;
    for (int i = 0; i < work->n && !code; i++)
        if (!ranks_reach(&comm->ranks, &op[i], exchange_reach, comm->device)) code = BASE_ILLEGAL;
    if (code < 0) base_misuse(0, "a buffer of a collective is not memory of the device");
    if (!code) exchange_wait(work);
    base_unlock();
    if (!code && !atomic_load(&comm->ranks.aborted)) ranks_run(&comm->ranks, op, work->n);
    base_lock();
    if (work->number && comm->done < work->number) comm->done = work->number;
    base_unlock();
    free(op);
    return code;
}

static void exchange_drop(void *data)
{
    struct exchange_work *work = data;

    state_drop(work->comm);
    free(work->op);
}

static const struct base_work exchange_work = {exchange_run, exchange_drop};

int base_comm_submit(struct base_comm *handle, struct base_stream *stream,
                     const struct ranks_op *op, int n)
{
    struct comm_state *comm = handle->state;
    struct exchange_work work = {.comm = comm, .n = n};

    work.op = malloc((size_t)n * sizeof *op);
    if (!work.op) return BASE_NO_MEMORY;
    memcpy(work.op, op, (size_t)n * sizeof *op);
    if (base_capture_state(stream) == BASE_CAPTURE_NONE) work.number = ++comm->given;
    comm->refs++;
    return base_submit(stream, &exchange_work, &work, sizeof work);
}
