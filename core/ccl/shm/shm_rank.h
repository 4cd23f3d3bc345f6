/* SPDX-License-Identifier: Apache-2.0 */
/* shm_rank.h: a rank of a communicator among those on its machine: its place in the shared memory,
 * and what it alone knows. */
#ifndef BP_SHM_RANK_PRIVATE_H
#define BP_SHM_RANK_PRIVATE_H

#include "failure.h"
#include "peer_map.h"
#include "waiter.h"

struct bp_collective; /* collective.h */

/* Of collective calls. */
struct bp_shm_calls {
    uint64_t sequence; /* of the last one */
    uint64_t history;  /* of all: bp_history */
    uint64_t ended;    /* calls that all have ended, as far as this rank knows */
    uint64_t lag;      /* it waits for who has not begun a call so many before its own */
    uint64_t pieces;   /* as me->step */
    /* Less than that goes in entries, and in windows: 0 for calls that do not. */
    uint64_t inline_bytes[BP_COMM_CALL_COUNT], window_bytes[BP_COMM_CALL_COUNT];
};

/* Of sends and receives. */
struct bp_shm_p2p {
    uint64_t *sent, *taken; /* units of messages to and from each rank */
    uint64_t *gone;         /* of those to it, that it is known to have taken */
    const struct bp_collective *pair; /* the one that waits; or NULL */
};

/* Of calls that devices do by themselves (native/seqlog.c). */
struct bp_shm_posts {
    bool used;      /* calls are posted */
    uint64_t needs; /* posts that it waits for now; or 0 */
};

struct bp_shm_rank {
    struct bp_shm_segment *segment;
    struct bp_board_rank *at, *me; /* places: of all ranks; its own */
    uint32_t rank, n;
    const uint32_t *numbers; /* of all ranks here, as the app knows them; NULL: the same */
    struct bp_comm_failure failure;
    struct bp_waiter waiter;
    struct bp_peers peers;
    struct bp_shm_calls calls;
    struct bp_shm_p2p p2p;
    struct bp_shm_posts posts;
};

static inline struct bp_board_entry *bp_board_entry(const struct bp_shm_rank *b, uint32_t rank,
                                                    uint64_t sequence)
{
    return &b->at[rank].entry[sequence % BP_BOARD_ENTRIES];
}
static inline uint32_t bp_board_number(const struct bp_shm_rank *b, uint32_t rank)
{
    return b->numbers ? b->numbers[rank] : rank;
}

/* Takes its place in the memory, and waits until all have, until timeout_ns: takes fd. numbers: of
 * the n ranks, as the app knows them, kept; NULL: the same. */
enum bp_status bp_board_join(int fd, uint32_t rank, uint32_t n, const uint32_t *numbers,
                             uint64_t timeout_ns, struct bp_shm_rank **out_board);
/* Waits for nobody. */
void bp_board_leave(struct bp_shm_rank *board);

/* Sets a word of its own, and wakes who waits for it. */
static inline void bp_board_set(struct bp_shm_rank *b, _Atomic uint64_t *word, uint64_t value)
{
    const struct bp_waiter *w = &b->waiter;

    /* Before the look at who sleeps: who goes to sleep sees to that, if it can. */
    if (w->light) atomic_store_explicit(word, value, memory_order_release);
    else atomic_store_explicit(word, value, memory_order_seq_cst);
    atomic_signal_fence(memory_order_seq_cst);
    if (__builtin_expect(atomic_load_explicit(w->sleepers, memory_order_relaxed) != 0, 0))
        bp_segment_wake(b->segment, b->rank);
}

/* failure.c. Ranks, one after the other, as far as there is room. */
struct bp_names {
    char text[1200];
    size_t used;
    uint32_t n;
};
/* "rank 2 (process 17), whose last call was broadcast of 4 f32 with root 0, sequence 6". */
void bp_names_add(const struct bp_shm_rank *b, struct bp_names *names, uint32_t rank);
/* A rank has made other calls than this one, up to a sequence number: where they differ first, and
 * which ranks are odd. */
enum bp_status bp_board_mismatch(struct bp_shm_rank *b, uint32_t other, uint64_t sequence);
/* Whether a rank here has not begun the call that this one is in. */
bool bp_board_is_held_up(const struct bp_shm_rank *b);
/* Time is up, and a word of a rank (or BP_BOARD_ANY) was waited for. */
enum bp_status bp_board_late(struct bp_shm_rank *b, uint32_t of);
/* Time is up in a call: late: the ranks that are to blame, as text; why: what they did. */
enum bp_status bp_board_late_by(struct bp_shm_rank *b, uint64_t what, uint64_t count,
                                uint64_t timeout_ns, const char *late, const char *why);
enum bp_status bp_board_died(struct bp_shm_rank *b, uint32_t rank);

#endif
