/* SPDX-License-Identifier: Apache-2.0 */
/* shm_segment.h: declares the shared-memory segment of the ranks of a communicator on one machine:
 * a file in memory that all of them map. Each rank writes into the segment which call it is in, so
 * that every rank can see which ranks are missing or make another call. Data travels through the
 * segment, or directly between buffers whose locations the segment holds.
 *
 * Each word of the segment is written by one rank and only grows; other ranks wait for it to grow.
 * A rank that waits longer than a moment sets `asleep`, and sleeps.
 *
 * A rank waits for the ranks from which it receives data. In most calls these are all ranks: when
 * such a call ends, every rank has begun it, and so has finished reading the data of the call
 * before. Therefore two windows (bounce buffers) and two locations per rank suffice. In a small
 * rooted call (broadcast, scatter, reduce or gather, shm_collective.c) a rank that receives no data
 * does not wait and can run up to BP_SHM_MAX_AHEAD calls ahead. Therefore the call slots and their
 * eager buffers are rings of BP_SHM_CALL_SLOTS. */
#ifndef BP_SHM_SEGMENT_PRIVATE_H
#define BP_SHM_SEGMENT_PRIVATE_H

#include "../../base/base.h"
#include "../bootstrap/rendezvous.h"

enum {
    BP_SHM_INLINE_BYTES = 40, /* data in a call slot */
    BP_SHM_MAX_AHEAD = 56,    /* calls that a rank may be ahead of another */
    /* More than twice BP_SHM_MAX_AHEAD, so that both ranks can compare older calls. */
    BP_SHM_CALL_SLOTS = 128,
    BP_SHM_EAGER_BYTES = 16 << 10,   /* data in the eager buffer of a call slot */
    BP_SHM_WINDOW_BYTES = 128 << 10, /* one of a rank's two windows */
    /* Largest message of a send, or piece of a larger message. The cells of a channel hold two. */
    BP_SHM_MESSAGE_BYTES = 32 << 10,
    BP_SHM_CELL_BYTES = 2 << 10, /* one cell; cells hold the data of messages */
    BP_SHM_CELLS = 2 * BP_SHM_MESSAGE_BYTES / BP_SHM_CELL_BYTES,
};
#define BP_RANK_ANY UINT32_MAX         /* in place of a rank: any rank */
#define BP_JOIN_ENDED (UINT32_MAX / 2) /* `joins` of a rank whose join has ended, or failed */

/* A call that a rank is in, or was in. Other ranks read the first cache line in every call, and the
 * second one only to report how two calls differ. */
struct bp_shm_call_slot {
    _Alignas(128) _Atomic uint64_t sequence;
    uint64_t history; /* of this call and all before: bp_history_extend */
    unsigned char data[BP_SHM_INLINE_BYTES];
    _Alignas(64) uint64_t signature, count; /* see bp_call_signature */
};
_Static_assert(offsetof(struct bp_shm_call_slot, data) + BP_SHM_INLINE_BYTES <= 64, "a line");
_Static_assert(2 * BP_SHM_MAX_AHEAD + 2 <= BP_SHM_CALL_SLOTS, "entries are there when compared");

/* The properties of a call that must be equal on all ranks, as one word: enum bp_comm_call, dtype,
 * reduction and root. Where the communicator spans several hosts, the upper half has the call's
 * number. */
static inline uint64_t bp_call_signature(uint32_t call, uint32_t dtype, uint32_t reduction,
                                         uint32_t root)
{
    return call | (uint64_t)(dtype & 0xff) << 8 | (uint64_t)(reduction & 0xff) << 16 |
           (uint64_t)(root & 0xff) << 24;
}

/* Extends the hash of a rank's call history by one call. Ranks whose histories are equal have made
 * the same calls. If two ranks with equal histories make calls that differ in the signature or in
 * the count, their histories differ (they can collide only if both differ), and remain different
 * while their further calls are equal. */
static inline uint64_t bp_history_extend(uint64_t before, uint64_t signature, uint64_t count)
{
    uint64_t h = (before ^ signature) * UINT64_C(0x9e3779b97f4a7c15);

    h ^= h >> 32;
    return (h ^ count) * UINT64_C(0xd6e8feb86659fd93);
}

/* Whether a call computes with elements. All other calls only move bytes. */
static inline bool bp_call_reduces(uint32_t call)
{
    return call == BP_COMM_ALL_REDUCE || call == BP_COMM_REDUCE || call == BP_COMM_REDUCE_SCATTER;
}

/* The location of a buffer, for other ranks: its address, and its file if its memory is a file. */
struct bp_buffer_location {
    uint64_t address;
    uint64_t device, inode, offset;
    int32_t fd;      /* descriptor in the rank's process; -1: no file */
    uint32_t staged; /* 1: out of reach for other ranks, the data is staged */
};

/* How ranks can access each other's buffers, as flags. */
enum bp_peer_access {
    BP_ACCESS_MAP = 1,    /* by mapped files, or within one process */
    BP_ACCESS_VM = 2,     /* by process_vm_readv and process_vm_writev */
    BP_ACCESS_STAGED = 4, /* through the windows of the segment */
};

/* The sequence log's record of a call that a rank submits to its device: bp_call_signature and
 * count. */
struct bp_seqlog_entry {
    _Atomic uint64_t signature, count;
};
enum { BP_SEQLOG_ENTRIES = 64, BP_P2PLOG_ENTRIES = 256 };

struct bp_shm_rank_state {
    struct bp_shm_call_slot call_slots[BP_SHM_CALL_SLOTS]; /* by sequence number, modulo */
    _Alignas(64) _Atomic uint64_t step;  /* pieces put into windows, over all calls */
    _Alignas(64) _Atomic uint64_t done;  /* calls ended: it reads no buffers for them any more */
    _Atomic uint64_t agreed;             /* calls that all hosts make alike; set by the leader */
    _Alignas(64) _Atomic uint32_t futex; /* the futex word on which the rank sleeps */
    _Atomic uint32_t asleep;
    _Atomic uint32_t waits_for;          /* the rank that it waits for + 1; 0: none, or any */
    _Alignas(64) _Atomic uint64_t ready; /* 1: segment mapped; 2: access_mask is set */
    _Atomic uint32_t left;               /* it has destroyed its communicator */
    _Atomic uint32_t released;           /* memory segments of its device that were freed */
    _Atomic uint32_t joins;              /* grows while its library joins it */
    /* Set when the segment is created. The members below are valid once `ready` is set. */
    int32_t pid;
    int32_t fd;
    uint32_t access_mask, asymmetric_fence;
    uint64_t probe, probe_address; /* a random number and its address, for a test read */
    struct {
        _Alignas(128) struct bp_buffer_location src, dst;
    } location[2];                        /* of its call, by the parity of the sequence number */
    _Alignas(64) _Atomic uint64_t posted; /* collective calls that it submitted to its device */
    _Atomic uint64_t completed;           /* of these, calls that it knows to have ended */
    /* By number, modulo. */
    struct bp_seqlog_entry seqlog[BP_SEQLOG_ENTRIES];
};

/* How one side describes a transfer that devices do between two ranks. */
struct bp_p2p_signature {
    uint64_t signature, count; /* bp_call_signature, equal for send and receive; elements */
};

/* A message of a send, or a piece of one. It occupies one cache line here and one or more cells, of
 * which `number` counts the first. */
struct bp_shm_message {
    _Alignas(64) _Atomic uint64_t number; /* of its first cell, counted over all messages */
    uint32_t dtype, access;               /* bp_peer_access; 0: the data is here or in cells */
    uint64_t count;
    union {
        struct bp_buffer_location location;
        unsigned char data[BP_SHM_INLINE_BYTES];
    };
};
_Static_assert(sizeof(struct bp_shm_message) == 64, "a line");

/* One direction of sends and receives between two ranks. */
struct bp_shm_channel {
    /* By the number of the cell, modulo. */
    struct bp_shm_message message[BP_SHM_CELLS];
    _Alignas(64) _Atomic uint64_t consumed; /* cells that the receiver has read */
    _Atomic uint64_t sent, received;        /* transfers by devices that each side has logged */
    /* The point-to-point logs of the two sides, by number, modulo. */
    struct bp_seqlog_entry sends[BP_P2PLOG_ENTRIES], recvs[BP_P2PLOG_ENTRIES];
};

struct bp_shm_header {
    uint64_t magic;
    uint32_t n;
    _Atomic uint32_t sleepers;
    _Atomic uint32_t failed; /* 0; 1: being written; 2: status and text are the failure of all */
    uint32_t status;
    char text[1500];
};

/* An open file of a process, by pid, descriptor and inode. */
struct bp_process_file {
    uint64_t device, inode;
    int32_t pid, fd;
};

/* The segment as this process has mapped it: one mapping per process, also if several of its
 * threads are ranks. */
struct bp_shm_segment {
    struct bp_shm_segment *next;
    uint64_t device, inode; /* of its file */
    uint32_t refs, n;       /* n: number of ranks */
    char *base;
    size_t size;
    struct bp_shm_header *header;
    struct bp_shm_rank_state *ranks; /* of all n ranks */
};

/* Buffers of a rank in the segment: the eager buffer of a call slot; the window of a piece, by its
 * number; the counts that it sends to each rank in a ragged call. */
char *bp_shm_eager_buffer(const struct bp_shm_segment *s, uint32_t rank, uint64_t sequence);
char *bp_shm_window(const struct bp_shm_segment *s, uint32_t rank, uint64_t piece);
uint64_t *bp_shm_counts(const struct bp_shm_segment *s, uint32_t rank, uint64_t sequence);
/* The channel of one direction between two ranks, and a cell of that channel. */
struct bp_shm_channel *bp_shm_channel(const struct bp_shm_segment *s, uint32_t from, uint32_t to);
char *bp_shm_cell(const struct bp_shm_segment *s, uint32_t from, uint32_t to, uint64_t number);

/* Opens a file that another process has open as fd. Returns a descriptor, or a negative errno. */
int bp_process_file_open(int pid, int fd, uint64_t device, uint64_t inode);
/* The first rank of a machine creates the segment for n ranks, whose processes are pids; the others
 * open it. of: the rank that created it. */
enum bp_status bp_shm_segment_create(uint32_t n, const int32_t *pids, int *out_fd,
                                     struct bp_process_file *out_file);
enum bp_status bp_shm_segment_open(const struct bp_process_file *file, uint32_t of, int *out_fd);
/* NULL: out of memory, or the file is not a segment of n ranks. */
struct bp_shm_segment *bp_shm_segment_map(int fd, uint32_t n);
void bp_shm_segment_unmap(struct bp_shm_segment *segment);
/* Wakes the ranks that sleep until `rank` has set a word; after a failure, all that sleep. */
void bp_shm_segment_wake(const struct bp_shm_segment *s, uint32_t rank);

#endif
