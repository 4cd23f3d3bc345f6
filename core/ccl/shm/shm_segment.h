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
#ifndef BP_BOARD_PRIVATE_H
#define BP_BOARD_PRIVATE_H

#include "../../core.h"
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

/* A part that was given to the device: the other rank, and its number among those. */
struct bp_board_given {
    uint32_t rank;   /* far: of another host, as the app numbers ranks */
    bool send, far;
    uint64_t number; /* 0: it is not known how far the other is */
};

struct bp_board_header {
    uint64_t magic;
    uint32_t n;
    _Atomic uint32_t sleepers;
    _Atomic uint32_t failed; /* 0, 1: being written, 2: status and text are the failure of all */
    uint32_t status;
    char text[1500];
};

struct bp_collective; /* collective.h */
enum bp_board_process { BP_BOARD_OWN = -1, BP_BOARD_GONE = -2 }; /* of this process; not there */
struct bp_mapping; /* peer_map.c: a file of another rank, mapped */
struct bp_shared;  /* shm_segment.c: the board, mapped once a process */

/* A file of a process, by its pid, descriptor and inode. */
struct bp_board_file {
    uint64_t device, inode;
    int32_t pid, fd;
};
enum { BP_BOARD_FILES = 8 };

/* What goes on besides, while a rank waits for others on its machine. */
struct bp_progress {
    void *ctx;
    /* Moves what goes to and from other hosts; *out_moved is set if something has. */
    enum bp_status (*move)(void *ctx, bool *out_moved);
    /* Now and then: BP_OK, or the failure of the communicator. */
    enum bp_status (*look)(void *ctx);
    /* Time is up, so long ago, for a word of rank `of`. BP_OK: others are given a moment more. */
    enum bp_status (*late)(void *ctx, uint32_t of, uint64_t late_ns);
    /* Before a failure is told here: that of another host, if there is one already. */
    void (*share)(void *ctx, uint32_t *status, char *text, size_t size);
};

/* A rank's hold on the board. */
struct bp_board {
    struct bp_board_header *header;
    struct bp_board_rank *at, *me; /* of all ranks; its own */
    struct bp_shared *shared;
    uint32_t rank, n;
    const uint32_t *numbers; /* of all ranks here, as the app knows them; NULL: the same */
    const struct bp_progress *progress; /* where there are ranks on other hosts too; or NULL */
    uint32_t ways;      /* that all ranks have to each other */
    uint64_t spin_ns;   /* before it sleeps; 0: ranks share processors, and it yields instead */
    bool light;         /* who sleeps makes the others' stores seen: see waiter.c */
    /* Less than that goes in entries, and in windows: 0 for calls that do not. */
    uint64_t inline_bytes[BP_COMM_CALL_COUNT], window_bytes[BP_COMM_CALL_COUNT];
    bool posts;         /* calls are posted: devices do them by themselves */
    bool one_process;   /* all ranks are threads of this one, and may use that */
    uint64_t sequence;  /* of collective calls */
    uint64_t history;   /* of those: bp_history */
    uint64_t ended;     /* calls that all have ended, as far as this rank knows */
    uint64_t lag;       /* it waits for who has not begun a call so many before its own */
    uint64_t pieces;    /* as me->step */
    uint64_t *sent, *taken; /* units of messages to and from each rank */
    uint64_t *gone;         /* of those to it, that it is known to have taken */
    const struct bp_collective *pair; /* the send or receive that waits; or NULL */
    uint64_t timeout_ns, deadline; /* of the call that is under way; deadline 0: not looked yet */
    uint64_t needs;     /* posts that it waits for now; or 0 */
    uint64_t looked;    /* when ranks were last seen to live */
    int32_t *pid;       /* of all ranks: kept, for others can write what is on the board */
    int *pidfd;         /* or enum bp_board_process */
    struct bp_mapping *mappings;
    uint32_t released;  /* by all others, when mappings were last let go */
    struct bp_board_file files[BP_BOARD_FILES]; /* of this process's memory, seen of late */
    uint32_t n_file, files_as_of; /* me->released then */
    char *scratch;      /* BP_BOARD_SCRATCH for each rank, and one more; made by the first use */
};
enum { BP_BOARD_SCRATCH = 32 << 10 };

static inline struct bp_board_entry *bp_board_entry(const struct bp_board *b, uint32_t rank,
                                                    uint64_t sequence)
{
    return &b->at[rank].entry[sequence % BP_BOARD_ENTRIES];
}
char *bp_board_little(const struct bp_board *b, uint32_t rank, uint64_t sequence);
char *bp_board_window(const struct bp_board *b, uint32_t rank, uint64_t piece);
uint64_t *bp_board_counts(const struct bp_board *b, uint32_t rank, uint64_t sequence);
struct bp_board_pair *bp_board_pair(const struct bp_board *b, uint32_t from, uint32_t to);
char *bp_board_unit(const struct bp_board *b, uint32_t from, uint32_t to, uint64_t number);

/* shm_segment.c. What rank 0 makes, for n ranks that are these processes, and the others open. */
enum bp_status bp_board_make(uint32_t n, const int32_t *pids, int *out_fd,
                             struct bp_board_file *out_file);
enum bp_status bp_board_open(const struct bp_board_file *file, uint32_t of, int *out_fd);
/* Takes its place on it, and waits until all have, until timeout_ns: takes fd. numbers: of the n
 * ranks, as the app knows them, kept; NULL: the same. */
enum bp_status bp_board_join(int fd, uint32_t rank, uint32_t n, const uint32_t *numbers,
                             uint64_t timeout_ns, struct bp_board **out_board);
static inline uint32_t bp_board_number(const struct bp_board *b, uint32_t rank)
{
    return b->numbers ? b->numbers[rank] : rank;
}
/* Waits for nobody. */
void bp_board_leave(struct bp_board *board);

/* waiter.c. Whether this process, going to sleep, can make those of others that are ready for it
 * see that; makes this one ready. */
bool bp_board_prepare_sleep(void);
/* Sets a word of its own, and wakes who waits for it. */
void bp_board_wake(struct bp_board *b);
static inline void bp_board_set(struct bp_board *b, _Atomic uint64_t *word, uint64_t value)
{
    /* Before the look at who sleeps: who goes to sleep sees to that, if it can. */
    if (b->light) atomic_store_explicit(word, value, memory_order_release);
    else atomic_store_explicit(word, value, memory_order_seq_cst);
    atomic_signal_fence(memory_order_seq_cst);
    if (__builtin_expect(atomic_load_explicit(&b->header->sleepers, memory_order_relaxed) != 0, 0))
        bp_board_wake(b);
}

/* Fetches a line that is about to be written, so that others have let go of it by then. The
 * compiler's own prefetch for writing is one for reading, unless it is told of a processor. */
static inline void bp_fetch_to_write(const void *at)
{
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)at));
#else
    __builtin_prefetch(at, 1);
#endif
}

static inline void bp_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#else
    atomic_signal_fence(memory_order_seq_cst);
#endif
}

/* Waits until a word of a rank is at least value. */
enum bp_status bp_board_wait_slow(struct bp_board *b, const _Atomic uint64_t *word, uint64_t value,
                                  uint32_t of);
static inline enum bp_status bp_board_wait(struct bp_board *b, const _Atomic uint64_t *word,
                                           uint64_t value, uint32_t of)
{
    if (atomic_load_explicit(word, memory_order_acquire) >= value) return BP_OK;
    return bp_board_wait_slow(b, word, value, of);
}

/* One round of a wait for several words, one of them of rank `of`: *round counts the rounds in
 * which nothing happened. Once it sleeps it does so for a short while only. */
enum bp_status bp_board_idle(struct bp_board *b, uint32_t of, uint32_t *round);

/* BP_OK, or the failure of all; looks for ranks that have died. */
enum bp_status bp_board_check(struct bp_board *b);
/* Whether a rank's process has died, or does within timeout_ms: one that is being killed loses its
 * files and memory first. */
bool bp_board_is_dead(const struct bp_board *b, uint32_t rank, int timeout_ms);
static inline bool bp_board_failed(const struct bp_board *b)
{
    return atomic_load_explicit(&b->header->failed, memory_order_relaxed) != 0;
}

/* seqlog.c. Says what this rank gives to its device, and compares: *out_number of the post. Waits
 * for ranks that are many calls behind, only. */
enum bp_status bp_board_post(struct bp_board *b, const struct bp_collective *c,
                             uint64_t *out_number);
/* Waits until all have posted so many. */
enum bp_status bp_board_await_posts(struct bp_board *b, uint64_t number);

/* The same of a part that goes to a rank, or comes from it: a send, a receive, or what
 * all_to_all_ragged has for one rank. Nobody is waited for. Compared with the other side's, if that
 * was given before and is no more than BP_BOARD_GIVEN ago. */
enum bp_status bp_board_give(struct bp_board *b, const struct bp_collective *c, uint32_t rank,
                             bool send, uint64_t count, struct bp_board_given *out_given);
/* What one side says, of so many elements of c; whether both say the same, by the numbers that the
 * app knows ranks by. */
struct bp_board_part bp_part_of(const struct bp_collective *c, uint64_t count);
enum bp_status bp_part_compare(struct bp_board *b, uint32_t from, uint32_t to,
                               const struct bp_board_part *sent, const struct bp_board_part *taken);
/* Whether the other rank has given its side of it. */
bool bp_board_is_met(const struct bp_board *b, const struct bp_board_given *given);

/* failure.c. The failure of all ranks is this one, unless there is one already; that is answered.
 */
enum bp_status bp_board_fail(struct bp_board *b, enum bp_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* What this thread's message says has failed here, and the others would wait for it: they are told
 * "rank N", the words and the message. Returns status and message as they were. */
enum bp_status bp_board_confess(struct bp_board *b, enum bp_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The failure of all, as this thread's message. */
enum bp_status bp_board_answer(struct bp_board *b);
/* A rank has made other calls than this one, up to a sequence number: where they differ first, and
 * which ranks are odd. */
enum bp_status bp_board_mismatch(struct bp_board *b, uint32_t other, uint64_t sequence);
/* Whether a rank here has not begun the call that this one is in. */
bool bp_board_is_held_up(const struct bp_board *b);
/* Time is up, and a word of a rank (or BP_BOARD_ANY) was waited for. */
enum bp_status bp_board_late(struct bp_board *b, uint32_t of);
/* Time is up in a call: late: the ranks that are to blame, as text; why: what they did. */
enum bp_status bp_board_late_by(struct bp_board *b, uint64_t what, uint64_t count,
                                uint64_t timeout_ns, const char *late, const char *why);
/* Time is up for a call that was posted, on any thread; for n sends and receives that were given to
 * the device together, of which what and count are of the first. */
enum bp_status bp_board_late_post(struct bp_board *b, uint64_t number, uint64_t what,
                                  uint64_t count, uint64_t timeout_ns);
enum bp_status bp_board_late_given(struct bp_board *b, const struct bp_board_given *given,
                                   uint32_t n, uint64_t what, uint64_t count,
                                   uint64_t timeout_ns);
/* Whether a rank here has not posted so many, or not given its side of one of those. */
bool bp_board_is_post_due(const struct bp_board *b, uint64_t number);
bool bp_board_is_given_due(const struct bp_board *b, const struct bp_board_given *given,
                           uint32_t n);
/* Time is up for ranks that their library joins; before: what they said of that a while ago; far:
 * ranks of other hosts to be named, or "". */
enum bp_status bp_board_late_join(struct bp_board *b, const uint32_t *before, const char *far,
                                  uint64_t timeout_ns);
enum bp_status bp_board_died(struct bp_board *b, uint32_t rank);
/* "all_reduce sum of 1024 f32". Returns text. */
const char *bp_what_text(uint64_t what, uint64_t count, char *text, size_t size);
/* "recv of 1024 f32 from rank 3", of a send or receive. Returns text. */
const char *bp_pair_text(const struct bp_collective *c, uint32_t other, char *text, size_t size);
const char *bp_comm_call_name(uint32_t call);

#endif
