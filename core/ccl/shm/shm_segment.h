/* SPDX-License-Identifier: Apache-2.0 */
/* shm_segment.h: what the ranks of a communicator on one machine share: a file in memory that all
 * of them map. On it each rank says which call it is in, so that who is missing, or makes another
 * call, is known to all; and through it, or by what it says of where buffers lie, data goes.
 *
 * A word on the board is written by one rank and only grows; others wait for it. Whoever waits
 * longer than a moment sleeps, and says so.
 *
 * A rank waits for those that it gets something from. In most calls that is all: when one ends, all
 * have begun it, and are done with what was written for the one before; so of windows, and places,
 * which no others use, two are enough. Where little goes one way (shm_collective.c) who gets
 * nothing waits for nobody, and may be some calls ahead: entries, and room beside them, are as
 * many. */
#ifndef BP_SHM_SEGMENT_PRIVATE_H
#define BP_SHM_SEGMENT_PRIVATE_H

#include "../../base/base.h"
#include "../bootstrap/rendezvous.h"

enum {
    BP_BOARD_INLINE = 40,        /* bytes that travel in an entry */
    BP_BOARD_AHEAD = 56,         /* calls that a rank may be ahead of another */
    BP_BOARD_ENTRIES = 128,      /* more than twice as many, for both to look back */
    BP_BOARD_LITTLE = 16 << 10,  /* bytes that go with an entry */
    BP_BOARD_WINDOW = 128 << 10, /* bytes of one of a rank's two windows */
    BP_BOARD_SLOT = 32 << 10,    /* bytes of a message, or of a piece of one: two have room */
    BP_BOARD_UNIT = 2 << 10,     /* bytes of the units in which they lie */
    BP_BOARD_UNITS = 2 * BP_BOARD_SLOT / BP_BOARD_UNIT,
};
#define BP_BOARD_ANY UINT32_MAX        /* instead of a rank: whichever */
#define BP_BOARD_JOINED (UINT32_MAX / 2) /* it has been joined, or not */

/* A call that a rank is in, or was in: one line that others read, and one that they read only to
 * say what differs. */
struct bp_board_entry {
    _Alignas(128) _Atomic uint64_t sequence;
    uint64_t history; /* of what and count of this call and all before: see bp_history */
    unsigned char data[BP_BOARD_INLINE];
    _Alignas(64) uint64_t what, count; /* see bp_what */
};
_Static_assert(offsetof(struct bp_board_entry, data) + BP_BOARD_INLINE <= 64, "a line");
_Static_assert(2 * BP_BOARD_AHEAD + 2 <= BP_BOARD_ENTRIES, "entries are there when compared");

/* What must be the same on all ranks, as one word: enum bp_comm_call, dtype, reduction, root; and,
 * where ranks are on several hosts, in the upper half the number of the call. */
static inline uint64_t bp_what(uint32_t call, uint32_t dtype, uint32_t reduction, uint32_t root)
{
    return call | (uint64_t)(dtype & 0xff) << 8 | (uint64_t)(reduction & 0xff) << 16 |
           (uint64_t)(root & 0xff) << 24;
}

/* A call more: ranks whose histories are alike have made the same calls. Of two that differ in one
 * call they differ, whatever that is, and after it as long as calls are the same. */
static inline uint64_t bp_history(uint64_t before, uint64_t what, uint64_t count)
{
    uint64_t h = (before ^ what) * UINT64_C(0x9e3779b97f4a7c15);

    h ^= h >> 32;
    return (h ^ count) * UINT64_C(0xd6e8feb86659fd93);
}

/* Whether a call computes with elements; all others move bytes. */
static inline bool bp_call_reduces(uint32_t call)
{
    return call == BP_COMM_ALL_REDUCE || call == BP_COMM_REDUCE || call == BP_COMM_REDUCE_SCATTER;
}

/* Where a buffer lies, for others: its address, and, where its memory is a file, the file. */
struct bp_where {
    uint64_t address;
    uint64_t device, inode, offset;
    int32_t fd; /* of the rank's process; -1: no file */
    uint32_t staged; /* 1: nobody else reaches it, it comes by a stage */
};

/* How ranks can reach each other's buffers. */
enum bp_way {
    BP_WAY_MAP = 1,    /* files mapped, or the same process */
    BP_WAY_VM = 2,     /* process_vm_readv and _writev */
    BP_WAY_STAGED = 4, /* windows on the board */
};

/* A call that a rank gives to its device: bp_what, count. */
struct bp_board_post {
    _Atomic uint64_t what, count;
};
enum { BP_BOARD_POSTS = 64, BP_BOARD_GIVEN = 256 };

struct bp_board_rank {
    struct bp_board_entry entry[BP_BOARD_ENTRIES]; /* by the sequence number, modulo */
    _Alignas(64) _Atomic uint64_t step;  /* pieces put into windows, over all calls */
    _Alignas(64) _Atomic uint64_t done;  /* calls that it has ended, and reads nobody's buffers */
    _Atomic uint64_t agreed;             /* calls that all hosts make alike: of their leader */
    _Alignas(64) _Atomic uint32_t bell;  /* it sleeps on it */
    _Atomic uint32_t asleep;
    _Atomic uint32_t waits_for;          /* a rank, plus one; 0: none. ANY is 0 here too */
    _Alignas(64) _Atomic uint64_t ready; /* 1: it has come; 2: it has said how it reaches others */
    _Atomic uint32_t left;               /* it has destroyed its communicator */
    _Atomic uint32_t released;           /* pieces of memory that it gave back */
    _Atomic uint32_t joins;              /* grows while it is being joined by its library */
    int32_t pid; /* there from the beginning; all below, once it is ready */
    int32_t fd;
    uint32_t ways, light;
    uint64_t mark, mark_at;              /* a number that nobody else has, for others to read */
    struct {
        _Alignas(128) struct bp_where src, dst;
    } where[2]; /* of the call, by the parity of its sequence number */
    _Alignas(64) _Atomic uint64_t posted;  /* collective calls that it gave to its device */
    _Atomic uint64_t settled;              /* of these, that it knows to have ended */
    struct bp_board_post post[BP_BOARD_POSTS]; /* by their numbers, modulo */
};

/* What one side says of a part that goes from rank to rank by their devices. */
struct bp_board_part {
    uint64_t what, count; /* bp_what of a call, alike for sends and receives; elements */
};

/* What one rank has sent to another, or a piece of that: a line, and a unit or more, of which this
 * is the first. */
struct bp_board_message {
    _Alignas(64) _Atomic uint64_t number; /* of that unit, over all messages */
    uint32_t dtype, way;                  /* enum bp_way; 0: in the units, or here if it fits */
    uint64_t count;
    union {
        struct bp_where where;
        unsigned char data[BP_BOARD_INLINE];
    };
};
_Static_assert(sizeof(struct bp_board_message) == 64, "a line");

/* One direction between two ranks. */
struct bp_board_pair {
    struct bp_board_message message[BP_BOARD_UNITS]; /* by their numbers, modulo */
    _Alignas(64) _Atomic uint64_t taken;             /* units */
    _Atomic uint64_t gave, took; /* parts that one sends, and the other receives, by devices */
    struct bp_board_post gives[BP_BOARD_GIVEN], takes[BP_BOARD_GIVEN]; /* by number, modulo */
};

struct bp_board_header {
    uint64_t magic;
    uint32_t n;
    _Atomic uint32_t sleepers;
    _Atomic uint32_t failed; /* 0, 1: being written, 2: status and text are the failure of all */
    uint32_t status;
    char text[1500];
};

/* A file of a process, by its pid, descriptor and inode. */
struct bp_board_file {
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
    struct bp_board_header *header;
    struct bp_board_rank *at; /* of all ranks */
};

/* Room of a rank: behind an entry; a window, by the number of a piece; how many elements of a
 * ragged call it has for each rank. */
char *bp_board_little(const struct bp_shm_segment *s, uint32_t rank, uint64_t sequence);
char *bp_board_window(const struct bp_shm_segment *s, uint32_t rank, uint64_t piece);
uint64_t *bp_board_counts(const struct bp_shm_segment *s, uint32_t rank, uint64_t sequence);
/* One direction between two ranks, and a unit of it. */
struct bp_board_pair *bp_board_pair(const struct bp_shm_segment *s, uint32_t from, uint32_t to);
char *bp_board_unit(const struct bp_shm_segment *s, uint32_t from, uint32_t to, uint64_t number);

/* A descriptor of a file that another process has open as fd; a negative errno. */
int bp_open_file_of(int pid, int fd, uint64_t device, uint64_t inode);
/* The first rank of a machine makes it for n ranks, which are these processes; the others open it.
 */
enum bp_status bp_board_make(uint32_t n, const int32_t *pids, int *out_fd,
                             struct bp_board_file *out_file);
enum bp_status bp_board_open(const struct bp_board_file *file, uint32_t of, int *out_fd);
/* NULL: no memory, or the file is not that of n ranks. */
struct bp_shm_segment *bp_segment_map(int fd, uint32_t n);
void bp_segment_unmap(struct bp_shm_segment *segment);
/* Wakes ranks that sleep until `rank` has set a word; after a failure all that sleep. */
void bp_segment_wake(const struct bp_shm_segment *s, uint32_t rank);

#endif
