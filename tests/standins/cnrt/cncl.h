/* SPDX-License-Identifier: Apache-2.0 */
/* cncl.h: declares the stand-in for Cambricon's library of collectives, libcncl.so. Ranks are
 * threads and processes of one machine. As in the real library
 *
 *   - the id of a clique has 136 bytes, and a process calls cnclInitComms once with it, for all of
 *     its ranks together;
 *   - a call that other ranks do not make waits without a limit, or until its communicator is
 *     aborted. No rank's part of a collective ends before all ranks have entered it. Ranks whose
 *     calls differ get an asynchronous error; their work ends when the communicator is aborted, or
 *     half a second later;
 *   - the communicators of a clique are freed together: cnclFreeComm waits for the others. The
 *     stand-in does not wait for ever: after BP_STANDIN_CNCL_LIMIT milliseconds (10000) the call is
 *     a misuse;
 *   - there is no f64, and no all-to-all in place. */
#ifndef STANDINS_CNCL_H
#define STANDINS_CNCL_H

#include "cnrt.h"
#include <stdatomic.h>

enum cncl_code {
    CNCL_OK = 0,
    CNCL_INTERNAL = 0x01,
    CNCL_UNSUPPORTED = 0x11,
    CNCL_NULL = 0x21,
    CNCL_INIT = 0x51,
    CNCL_NOT_INIT = 0x61,
    CNCL_SYSTEM = 0x02,
    CNCL_RUNTIME = 0x03,
    CNCL_IN_PROGRESS = 0x06, /* no error */
    CNCL_ASYNC = 0x16,
    CNCL_ASYNC_UNKNOWN = 0x26,
    CNCL_ARGUMENTS = 0x07
};

enum cncl_type {
    CNCL_HALF = 0x10,
    CNCL_BF16 = 0x11,
    CNCL_FLOAT = 0x12,
    CNCL_INT8 = 0x20,
    CNCL_INT16 = 0x21,
    CNCL_INT32 = 0x22,
    CNCL_INT64 = 0x23,
    CNCL_UINT8 = 0x30,
    CNCL_UINT16 = 0x31,
    CNCL_UINT32 = 0x32,
    CNCL_UINT64 = 0x33
};

enum cncl_reduction {
    CNCL_SUM,
    CNCL_PROD,
    CNCL_MAX,
    CNCL_MIN
};

enum {
    CNCL_ID_BYTES = 128,
    CNCL_RANKS = 8
};

struct cncl_clique_id {
    char data[CNCL_ID_BYTES];
    uint64_t hash;
};

#define CALL(result, name, parameters) BASE_API result name parameters;
#include "cncl.def"

/* The rest is shared by the files of libcncl.so. */

enum cncl_call {
    CNCL_BROADCAST = 1,
    CNCL_ALL_GATHER,
    CNCL_REDUCE,
    CNCL_ALL_REDUCE,
    CNCL_REDUCE_SCATTER,
    CNCL_ALL_TO_ALL,
    CNCL_SEND,
    CNCL_RECV
};

struct cncl_op {
    enum cncl_call call;
    const char *src;
    char *dst;
    size_t count;
    int type, reduction, peer; /* peer: of a send or receive, else the root */
};

/* The description of a message, by which ranks compare their calls; a send and its receive have the
 * same one. */
struct cncl_header {
    int32_t call, type, reduction, root;
    uint64_t count;
};

/* A message of one rank to another. */
struct cncl_box {
    _Atomic int full;
    uint32_t bytes;
    struct cncl_header header;
    char data[16384];
};

/* The file that all ranks of a clique map. */
struct cncl_shared {
    _Atomic int joined, failed, freed, broken;
    _Atomic int taken[CNCL_RANKS];               /* by rank */
    _Atomic uint64_t entered[CNCL_RANKS];        /* collectives that a rank has entered */
    struct cncl_header entry[CNCL_RANKS][2];     /* the last two of them */
    struct cncl_box box[CNCL_RANKS][CNCL_RANKS]; /* from, to */
};

struct cncl_comm {
    struct cncl_shared *shared;
    struct base_device *device;
    int rank, n;
    _Atomic bool aborted, running;
    _Atomic int error;
    uint64_t entered;             /* collectives, as in the shared file */
    _Atomic uint64_t given, done; /* the number of the last work enqueued and done */
    int refs;                     /* the handle, and work in queues. Under the lock of the base */
};

/* exchange.c: runs operations of a communicator, all at once, as the work of a queue. Returns 0 or
 * a code of enum cncl_code. */
int cncl_exchange(struct cncl_comm *comm, const struct cncl_op *op, int n);
size_t cncl_bytes(int type); /* 0: no such type */
uint32_t cncl_dtype(int type);
/* The bytes that an operation reads and writes. */
size_t cncl_reads(const struct cncl_comm *comm, const struct cncl_op *op);
size_t cncl_writes(const struct cncl_comm *comm, const struct cncl_op *op);

/* clique.c: one reference less. Under the lock of the base. */
void cncl_comm_release(struct cncl_comm *comm);
/* Returns a communicator's struct, or NULL with *code set. Under the lock of the base. */
struct cncl_comm *cncl_comm(void *comm, int *code);

#endif
