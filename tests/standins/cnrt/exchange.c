/* SPDX-License-Identifier: Apache-2.0 */
/* exchange.c: runs collectives of CNCL. Each is a set of messages between ranks; what a rank has
 * received is then reduced, in the order of ranks. Messages travel in parts through boxes of the
 * shared file: a box holds one part until its receiver has taken it. */
#include "../base/rows.h"
#include "cncl.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    POLL_US = 20,
    HANG_MS = 500
};

uint32_t cncl_dtype(int type)
{
    switch (type) {
    case CNCL_HALF: return BP_F16;
    case CNCL_BF16: return BP_BF16;
    case CNCL_FLOAT: return BP_F32;
    case CNCL_INT8: return BP_I8;
    case CNCL_INT16: return BP_I16;
    case CNCL_INT32: return BP_I32;
    case CNCL_INT64: return BP_I64;
    case CNCL_UINT8: return BP_U8;
    case CNCL_UINT16: return BP_U16;
    case CNCL_UINT32: return BP_U32;
    default: return BP_U64;
    }
}

size_t cncl_bytes(int type)
{
    switch (type) {
    case CNCL_INT8:
    case CNCL_UINT8: return 1;
    case CNCL_HALF:
    case CNCL_BF16:
    case CNCL_INT16:
    case CNCL_UINT16: return 2;
    case CNCL_FLOAT:
    case CNCL_INT32:
    case CNCL_UINT32: return 4;
    case CNCL_INT64:
    case CNCL_UINT64: return 8;
    default: return 0;
    }
}

size_t cncl_reads(const struct cncl_comm *comm, const struct cncl_op *op)
{
    size_t bytes = op->count * cncl_bytes(op->type);

    switch (op->call) {
    case CNCL_RECV: return 0;
    case CNCL_BROADCAST: return comm->rank == op->peer ? bytes : 0;
    case CNCL_REDUCE_SCATTER:
    case CNCL_ALL_TO_ALL: return bytes * (size_t)comm->n;
    default: return bytes;
    }
}

size_t cncl_writes(const struct cncl_comm *comm, const struct cncl_op *op)
{
    size_t bytes = op->count * cncl_bytes(op->type);

    switch (op->call) {
    case CNCL_SEND: return 0;
    case CNCL_REDUCE: return comm->rank == op->peer ? bytes : 0;
    case CNCL_ALL_GATHER:
    case CNCL_ALL_TO_ALL: return bytes * (size_t)comm->n;
    default: return bytes;
    }
}

/* A message that is on its way; sent, or received. */
struct message {
    int peer;
    bool sent;
    char *at;
    size_t left;
    struct cncl_header header;
};

/* An operation that runs: its buffers in memory of the host, what is received for a reduction. */
struct running {
    const struct cncl_op *op;
    char *src, *dst, *received; /* received: a part for each rank */
    size_t bytes;
};

struct exchange {
    struct cncl_comm *comm;
    struct running *running;
    struct message *message;
    int n, n_message;
};

static bool op_is_pair(const struct cncl_op *op)
{
    return op->call == CNCL_SEND || op->call == CNCL_RECV;
}

static struct cncl_header op_header(const struct cncl_op *op)
{
    bool pair = op_is_pair(op);

    return (struct cncl_header){pair ? CNCL_SEND : op->call, op->type, op->reduction,
                                pair ? 0 : op->peer, op->count};
}

static void message_add(struct exchange *x, const struct running *r, int peer, bool sent, char *at)
{
    struct message m = {.peer = peer, .sent = sent, .at = at, .left = r->bytes};

    m.header = op_header(r->op);
    x->message[x->n_message++] = m;
}

/* The messages of this rank with another one. */
static void message_add_peer(struct exchange *x, const struct running *r, int peer)
{
    int rank = x->comm->rank, root = r->op->peer;
    char *theirs = r->received ? r->received + r->bytes * (size_t)peer : NULL;

    switch (r->op->call) {
    case CNCL_BROADCAST:
        if (rank == root) message_add(x, r, peer, true, r->src);
        else if (peer == root) message_add(x, r, peer, false, r->dst);
        return;
    case CNCL_ALL_GATHER:
        message_add(x, r, peer, true, r->src);
        message_add(x, r, peer, false, r->dst + r->bytes * (size_t)peer);
        return;
    case CNCL_REDUCE:
        if (rank == root) message_add(x, r, peer, false, theirs);
        else if (peer == root) message_add(x, r, peer, true, r->src);
        return;
    case CNCL_ALL_REDUCE:
        message_add(x, r, peer, true, r->src);
        message_add(x, r, peer, false, theirs);
        return;
    case CNCL_REDUCE_SCATTER:
        message_add(x, r, peer, true, r->src + r->bytes * (size_t)peer);
        message_add(x, r, peer, false, theirs);
        return;
    case CNCL_ALL_TO_ALL:
        message_add(x, r, peer, true, r->src + r->bytes * (size_t)peer);
        message_add(x, r, peer, false, r->dst + r->bytes * (size_t)peer);
        return;
    case CNCL_SEND:
        if (peer == root) message_add(x, r, peer, true, r->src);
        return;
    case CNCL_RECV:
        if (peer == root) message_add(x, r, peer, false, r->dst);
        return;
    }
}

/* Moves a part of a message if its box allows it. Returns whether it moved; *code becomes an error
 * if the other rank made another call. */
static bool message_move(struct cncl_comm *comm, struct message *m, int *code)
{
    struct cncl_box *box = m->sent ? &comm->shared->box[comm->rank][m->peer]
                                   : &comm->shared->box[m->peer][comm->rank];
    size_t part;

    if (atomic_load(&box->full) == m->sent) return false;
    if (m->sent) {
        part = m->left < sizeof box->data ? m->left : sizeof box->data;
        memcpy(box->data, m->at, part);
        box->bytes = (uint32_t)part;
        box->header = m->header;
    } else {
        part = box->bytes;
        if (memcmp(&box->header, &m->header, sizeof m->header) || part > m->left) {
            atomic_store(&comm->shared->broken, 1);
            *code = CNCL_ASYNC;
            return false;
        }
        memcpy(m->at, box->data, part);
    }
    atomic_store(&box->full, m->sent);
    m->at += part;
    m->left -= part;
    return true;
}

/* Moves the first message that has not ended of each peer and direction. */
static bool exchange_step(struct exchange *x, bool *done, int *code)
{
    bool moved = false, busy[CNCL_RANKS][2] = {{false}};

    *done = true;
    for (int i = 0; i < x->n_message; i++) {
        struct message *m = &x->message[i];
        if (!m->left) continue;
        *done = false;
        if (busy[m->peer][m->sent]) continue;
        busy[m->peer][m->sent] = true;
        moved |= message_move(x->comm, m, code);
    }
    return moved;
}

static int exchange_run(struct exchange *x)
{
    bool done = false;
    int code = 0;

    while (!done && !code) {
        bool moved = exchange_step(x, &done, &code);
        if (atomic_load(&x->comm->aborted) || atomic_load(&x->comm->shared->broken))
            code = CNCL_ASYNC;
        if (!moved && !done) usleep(POLL_US);
    }
    return code;
}

static int running_reduce(const struct cncl_comm *comm, const struct running *r)
{
    static const char *const ops[] = {"add", "mul", "maximum", "minimum"};
    uint32_t dtype = cncl_dtype(r->op->type);
    int64_t count = (int64_t)r->op->count;
    size_t own = r->op->call == CNCL_REDUCE_SCATTER ? r->bytes * (size_t)comm->rank : 0;
    struct base_tensor sum = base_tensor_of(r->received, dtype, 1, &count), next;
    struct base_call call = {.op = ops[r->op->reduction],
                             .type = {dtype, BASE_ABSENT, BASE_ABSENT, BASE_ABSENT},
                             .n_in = 2,
                             .n_out = 1,
                             .in = {&sum, &next},
                             .out = {&sum}};

    memcpy(r->received + r->bytes * (size_t)comm->rank, r->src + own, r->bytes);
    for (int rank = 1; rank < comm->n; rank++) {
        next = base_tensor_of(r->received + r->bytes * (size_t)rank, dtype, 1, &count);
        if (base_compute(&call)) return CNCL_INTERNAL;
    }
    memcpy(r->dst, r->received, r->bytes);
    return 0;
}

/* Copies the own part of a rank, or reduces the parts that it has received. */
static int running_end(const struct cncl_comm *comm, const struct running *r)
{
    char *own = r->dst ? r->dst + r->bytes * (size_t)comm->rank : NULL;

    if (r->received) return running_reduce(comm, r);
    if (r->op->call == CNCL_BROADCAST && comm->rank == r->op->peer && r->src != r->dst)
        memcpy(r->dst, r->src, r->bytes);
    if (r->op->call == CNCL_ALL_GATHER && own != r->src) memcpy(own, r->src, r->bytes);
    if (r->op->call == CNCL_ALL_TO_ALL)
        memcpy(own, r->src + r->bytes * (size_t)comm->rank, r->bytes);
    return 0;
}

static int running_init(struct running *r, const struct cncl_comm *comm, const struct cncl_op *op)
{
    size_t reads = cncl_reads(comm, op), writes = cncl_writes(comm, op);
    bool reduces = op->call == CNCL_ALL_REDUCE || op->call == CNCL_REDUCE_SCATTER ||
                   (op->call == CNCL_REDUCE && comm->rank == op->peer);

    *r = (struct running){.op = op, .bytes = op->count * cncl_bytes(op->type)};
    if (reads) r->src = base_reach_unlocked(comm->device, op->src, reads);
    if (writes) r->dst = base_reach_unlocked(comm->device, op->dst, writes);
    if ((reads && !r->src) || (writes && !r->dst)) return CNCL_RUNTIME;
    if (reduces) r->received = malloc(r->bytes * (size_t)comm->n);
    return reduces && !r->received ? CNCL_SYSTEM : 0;
}

/* Waits until all ranks have entered the collective, and compares their calls. */
static int exchange_enter(struct cncl_comm *comm, const struct cncl_op *op)
{
    struct cncl_shared *shared = comm->shared;
    struct cncl_header mine = op_header(op);
    uint64_t number = ++comm->entered;

    shared->entry[comm->rank][number % 2] = mine;
    atomic_store(&shared->entered[comm->rank], number);
    for (int peer = 0; peer < comm->n; peer++) {
        while (atomic_load(&shared->entered[peer]) < number) {
            if (atomic_load(&comm->aborted) || atomic_load(&shared->broken)) return CNCL_ASYNC;
            usleep(POLL_US);
        }
        if (memcmp(&shared->entry[peer][number % 2], &mine, sizeof mine)) {
            atomic_store(&shared->broken, 1);
            return CNCL_ASYNC;
        }
    }
    return 0;
}

/* Work of ranks whose calls differ would not end in the real library. */
static void exchange_hang(struct cncl_comm *comm)
{
    atomic_store(&comm->error, CNCL_ASYNC);
    for (int i = 0; i < HANG_MS && !atomic_load(&comm->aborted); i++) usleep(1000);
}

static int exchange_ops(struct exchange *x, const struct cncl_op *op)
{
    int code = 0;

    if (x->n == 1 && op->count && !op_is_pair(op)) code = exchange_enter(x->comm, op);
    for (int i = 0; i < x->n && !code; i++) {
        if (op[i].count == 0) continue;
        code = running_init(&x->running[i], x->comm, &op[i]);
        for (int peer = 0; peer < x->comm->n && !code; peer++)
            if (peer != x->comm->rank) message_add_peer(x, &x->running[i], peer);
    }
    if (!code) code = exchange_run(x);
    for (int i = 0; i < x->n && !code; i++)
        if (op[i].count) code = running_end(x->comm, &x->running[i]);
    return code;
}

int cncl_exchange(struct cncl_comm *comm, const struct cncl_op *op, int n)
{
    struct exchange x = {.comm = comm, .n = n};
    int code = CNCL_SYSTEM;

    x.running = calloc((size_t)n, sizeof *x.running);
    x.message = calloc((size_t)n * 2 * CNCL_RANKS, sizeof *x.message);
    if (x.running && x.message) code = exchange_ops(&x, op);
    for (int i = 0; x.running && i < n; i++) free(x.running[i].received);
    free(x.running);
    free(x.message);
    if (code == CNCL_ASYNC) exchange_hang(comm);
    return code;
}
