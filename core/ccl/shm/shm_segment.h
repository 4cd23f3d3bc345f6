/* SPDX-License-Identifier: Apache-2.0 */
/* shm_segment.h: what the ranks of a communicator on one machine share: a file in memory that all
 * of them map. On it each rank says which call it is in, so that who is missing, or makes another
 * call, is known to all; and through it, or by what it says of where buffers lie, data goes.
 *
 * A word of the segment is written by one rank and only grows; others wait for it. Whoever waits
 * longer than a moment sleeps, and says so.
 *
 * A rank waits for those that it gets something from. In most calls that is all: when one ends, all
 * have begun it, and are done with what was written for the one before; so of windows, and places,
 * which no others use, two are enough. Where little goes one way (shm_collective.c) who gets
 * nothing waits for nobody, and may be some calls ahead: call slots, and room beside them, are as
 * many. */
#ifndef BP_SHM_SEGMENT_PRIVATE_H
#define BP_SHM_SEGMENT_PRIVATE_H

#include "../../base/base.h"
#include "../bootstrap/rendezvous.h"

enum {
    BP_SHM_INLINE_BYTES = 40,        /* bytes that travel in a call slot */
    BP_SHM_MAX_AHEAD = 56,           /* calls that a rank may be ahead of another */
    BP_SHM_CALL_SLOTS = 128,         /* more than twice as many, for both to look back */
    BP_SHM_EAGER_BYTES = 16 << 10,   /* bytes that go with a call slot */
    BP_SHM_WINDOW_BYTES = 128 << 10, /* bytes of one of a rank's two windows */
    BP_SHM_MESSAGE_BYTES = 32 << 10, /* bytes of a message, or of a piece of one: two have room */
    BP_SHM_CELL_BYTES = 2 << 10,     /* bytes of the cells in which they lie */
    BP_SHM_CELLS = 2 * BP_SHM_MESSAGE_BYTES / BP_SHM_CELL_BYTES,
};
#define BP_RANK_ANY UINT32_MAX         /* instead of a rank: whichever */
#define BP_JOIN_ENDED (UINT32_MAX / 2) /* it has been joined, or not */

/* A call that a rank is in, or was in: one line that others read, and one that they read only to
 * say what differs. */
struct bp_shm_call_slot {
    _Alignas(128) _Atomic uint64_t sequence;
    uint64_t history; /* of this call and all before: see bp_history_extend */
    unsigned char data[BP_SHM_INLINE_BYTES];
    _Alignas(64) uint64_t signature, count; /* see bp_call_signature */
};
_Static_assert(offsetof(struct bp_shm_call_slot, data) + BP_SHM_INLINE_BYTES <= 64, "a line");
_Static_assert(2 * BP_SHM_MAX_AHEAD + 2 <= BP_SHM_CALL_SLOTS, "entries are there when compared");

/* What must be the same on all ranks, as one word: enum bp_comm_call, dtype, reduction, root; and,
 * where ranks are on several hosts, in the upper half the number of the call. */
static inline uint64_t bp_call_signature(uint32_t call, uint32_t dtype, uint32_t reduction,
                                         uint32_t root)
{
    return call | (uint64_t)(dtype & 0xff) << 8 | (uint64_t)(reduction & 0xff) << 16 |
           (uint64_t)(root & 0xff) << 24;
}

/* A call more: ranks whose histories are alike have made the same calls. Of two that differ in one
 * call they differ, whatever that is, and after it as long as calls are the same. */
static inline uint64_t bp_history_extend(uint64_t before, uint64_t signature, uint64_t count)
{
    uint64_t h = (before ^ signature) * UINT64_C(0x9e3779b97f4a7c15);

    h ^= h >> 32;
    return (h ^ count) * UINT64_C(0xd6e8feb86659fd93);
}

/* Whether a call computes with elements; all others move bytes. */
static inline bool bp_call_reduces(uint32_t call)
{
    return call == BP_COMM_ALL_REDUCE || call == BP_COMM_REDUCE || call == BP_COMM_REDUCE_SCATTER;
}

/* Where a buffer lies, for others: its address, and, where its memory is a file, the file. */
struct bp_buffer_location {
    uint64_t address;
    uint64_t device, inode, offset;
    int32_t fd;      /* of the rank's process; -1: no file */
    uint32_t staged; /* 1: nobody else reaches it, it comes by staging */
};

/* How ranks can reach each other's buffers. */
enum bp_peer_access {
    BP_ACCESS_MAP = 1,    /* files mapped, or the same process */
    BP_ACCESS_VM = 2,     /* process_vm_readv and _writev */
    BP_ACCESS_STAGED = 4, /* windows in the segment */
};

/* A call that a rank gives to its device: bp_call_signature, count. */
struct bp_seqlog_entry {
    _Atomic uint64_t signature, count;
};
enum { BP_SEQLOG_ENTRIES = 64, BP_P2PLOG_ENTRIES = 256 };

struct bp_shm_rank_state {
    struct bp_shm_call_slot call_slots[BP_SHM_CALL_SLOTS]; /* by the sequence number, modulo */
    _Alignas(64) _Atomic uint64_t step;    /* pieces put into windows, over all calls */
    _Alignas(64) _Atomic uint64_t done;    /* calls that it has ended, and reads nobody's buffers */
    _Atomic uint64_t agreed;               /* calls that all hosts make alike: of their leader */
    _Alignas(64) _Atomic uint32_t futex;   /* it sleeps on it */
    _Atomic uint32_t asleep;
    _Atomic uint32_t waits_for;          /* a rank, plus one; 0: none. ANY is 0 here too */
    _Alignas(64) _Atomic uint64_t ready; /* 1: it has come; 2: it has said how it reaches others */
    _Atomic uint32_t left;               /* it has destroyed its communicator */
    _Atomic uint32_t released;           /* pieces of memory that it gave back */
    _Atomic uint32_t joins;              /* grows while it is being joined by its library */
    int32_t pid; /* there from the beginning; all below, once it is ready */
    int32_t fd;
    uint32_t access_mask, asymmetric_fence;
    uint64_t probe, probe_address; /* a number that nobody else has, for others to read */
    struct {
        _Alignas(128) struct bp_buffer_location src, dst;
    } location[2];                        /* of the call, by the parity of its sequence number */
    _Alignas(64) _Atomic uint64_t posted; /* collective calls that it gave to its device */
    _Atomic uint64_t completed;           /* of these, that it knows to have ended */
    /* By their numbers, modulo. */
    struct bp_seqlog_entry seqlog[BP_SEQLOG_ENTRIES];
};

/* What one side says of a part that goes from rank to rank by their devices. */
struct bp_p2p_signature {
    uint64_t signature, count; /* bp_call_signature, alike for sends and receives; elements */
};

/* What one rank has sent to another, or a piece of that: a line, and a cell or more, of which this
 * is the first. */
struct bp_shm_message {
    _Alignas(64) _Atomic uint64_t number; /* of that cell, over all messages */
    uint32_t dtype, access;               /* bp_peer_access; 0: in the cells, or here if it fits */
    uint64_t count;
    union {
        struct bp_buffer_location location;
        unsigned char data[BP_SHM_INLINE_BYTES];
    };
};
_Static_assert(sizeof(struct bp_shm_message) == 64, "a line");

/* One direction between two ranks. */
struct bp_shm_channel {
    /* By their numbers, modulo. */
    struct bp_shm_message message[BP_SHM_CELLS];
    _Alignas(64) _Atomic uint64_t consumed; /* cells */
    _Atomic uint64_t sent, received;      /* parts by devices: that one sends, the other receives */
    /* Both by number, modulo. */
    struct bp_seqlog_entry sends[BP_P2PLOG_ENTRIES], recvs[BP_P2PLOG_ENTRIES];
};

struct bp_shm_header {
    uint64_t magic;
    uint32_t n;
    _Atomic uint32_t sleepers;
    _Atomic uint32_t failed; /* 0, 1: being written, 2: status and text are the failure of all */
    uint32_t status;
    char text[1500];
};

/* A file of a process, by its pid, descriptor and inode. */
struct bp_process_file {
    uint64_t device, inode;
    int32_t pid, fd;
};

/* The shared memory as this process has it mapped: once, also if several ranks are its threads. */
struct bp_shm_segment {
    struct bp_shm_segment *next;
    uint64_t device, inode; /* of its file */
    uint32_t refs, n;       /* n: ranks */
    char *base;
    size_t size;
    struct bp_shm_header *header;
    struct bp_shm_rank_state *ranks; /* of all ranks */
};

/* Room of a rank: behind a call slot; a window, by the number of a piece; how many elements of a
 * ragged call it has for each rank. */
char *bp_shm_eager_buffer(const struct bp_shm_segment *s, uint32_t rank, uint64_t sequence);
char *bp_shm_window(const struct bp_shm_segment *s, uint32_t rank, uint64_t piece);
uint64_t *bp_shm_counts(const struct bp_shm_segment *s, uint32_t rank, uint64_t sequence);
/* One direction between two ranks, and a cell of it. */
struct bp_shm_channel *bp_shm_channel(const struct bp_shm_segment *s, uint32_t from, uint32_t to);
char *bp_shm_cell(const struct bp_shm_segment *s, uint32_t from, uint32_t to, uint64_t number);

/* A descriptor of a file that another process has open as fd; a negative errno. */
int bp_process_file_open(int pid, int fd, uint64_t device, uint64_t inode);
/* The first rank of a machine makes it for n ranks, which are these processes; the others open it.
 */
enum bp_status bp_shm_segment_create(uint32_t n, const int32_t *pids, int *out_fd,
                                     struct bp_process_file *out_file);
enum bp_status bp_shm_segment_open(const struct bp_process_file *file, uint32_t of, int *out_fd);
/* NULL: no memory, or the file is not that of n ranks. */
struct bp_shm_segment *bp_shm_segment_map(int fd, uint32_t n);
void bp_shm_segment_unmap(struct bp_shm_segment *segment);
/* Wakes ranks that sleep until `rank` has set a word; after a failure all that sleep. */
void bp_shm_segment_wake(const struct bp_shm_segment *s, uint32_t rank);

#endif
