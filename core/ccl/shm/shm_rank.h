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
    uint64_t history;  /* of all: bp_history_extend */
    uint64_t ended;    /* calls that all have ended, as far as this rank knows */
    uint64_t lag;      /* it waits for who has not begun a call so many before its own */
    uint64_t pieces;   /* as me->step */
    /* Less than that goes in call slots, and in windows: 0 for calls that do not. */
    uint64_t inline_bytes[BP_COMM_CALL_COUNT], window_bytes[BP_COMM_CALL_COUNT];
};

/* Of sends and receives. */
struct bp_shm_p2p {
    uint64_t *sent, *consumed;           /* cells of messages to and from each rank */
    uint64_t *acked;                     /* of those to it, that it is known to have taken */
    const struct bp_collective *waiting; /* the one that waits; or NULL */
};

/* Of calls that devices do by themselves (native/seqlog.c). */
struct bp_shm_seqlog {
    bool used;               /* calls are posted */
    uint64_t waits_for_post; /* posts that it waits for now; or 0 */
};

struct bp_shm_rank {
    struct bp_shm_segment *segment;
    struct bp_shm_rank_state *ranks, *me; /* places: of all ranks; its own */
    uint32_t rank, n;
    const uint32_t *global_ranks; /* of all ranks here, as the app knows them; NULL: the same */
    struct bp_comm_failure failure;
    struct bp_waiter waiter;
    struct bp_peer_map peers;
    struct bp_shm_calls calls;
    struct bp_shm_p2p p2p;
    struct bp_shm_seqlog seqlog;
};

static inline struct bp_shm_call_slot *bp_shm_call_slot(const struct bp_shm_rank *b, uint32_t rank,
                                                        uint64_t sequence)
{
    return &b->ranks[rank].call_slots[sequence % BP_SHM_CALL_SLOTS];
}
static inline uint32_t bp_shm_global_rank(const struct bp_shm_rank *b, uint32_t rank)
{
    return b->global_ranks ? b->global_ranks[rank] : rank;
}

/* Takes its place in the memory, and waits until all have, until timeout_ns: takes fd.
 * global_ranks: of the n ranks, as the app knows them, kept; NULL: the same. */
enum bp_status bp_shm_rank_create(int fd, uint32_t rank, uint32_t n, const uint32_t *global_ranks,
                                  uint64_t timeout_ns, struct bp_shm_rank **out_rank);
/* Waits for nobody. */
void bp_shm_rank_destroy(struct bp_shm_rank *rank);

/* Sets a word of its own, and wakes who waits for it. */
static inline void bp_shm_word_publish(struct bp_shm_rank *b, _Atomic uint64_t *word,
                                       uint64_t value)
{
    const struct bp_waiter *w = &b->waiter;

    /* Before the look at who sleeps: who goes to sleep sees to that, if it can. */
    if (w->asymmetric_fence) atomic_store_explicit(word, value, memory_order_release);
    else atomic_store_explicit(word, value, memory_order_seq_cst);
    atomic_signal_fence(memory_order_seq_cst);
    if (__builtin_expect(atomic_load_explicit(w->sleepers, memory_order_relaxed) != 0, 0))
        bp_shm_segment_wake(b->segment, b->rank);
}

/* failure.c. Ranks, one after the other, as far as there is room. */
struct bp_rank_list {
    char text[1200];
    size_t used;
    uint32_t n;
};
/* "rank 2 (process 17), whose last call was broadcast of 4 f32 with root 0, sequence 6". */
void bp_rank_list_add(const struct bp_shm_rank *b, struct bp_rank_list *names, uint32_t rank);
/* A rank has made other calls than this one, up to a sequence number: where they differ first, and
 * which ranks are odd. */
enum bp_status bp_shm_report_mismatch(struct bp_shm_rank *b, uint32_t other, uint64_t sequence);
/* Whether a rank here has not begun the call that this one is in. */
bool bp_shm_has_missing_rank(const struct bp_shm_rank *b);
/* Time is up, and a word of a rank (or BP_RANK_ANY) was waited for. */
enum bp_status bp_shm_report_timeout(struct bp_shm_rank *b, uint32_t of);
/* Time is up in a call: late: the ranks that are to blame, as text; why: what they did. */
enum bp_status bp_shm_report_timeout_of(struct bp_shm_rank *b, uint64_t signature, uint64_t count,
                                        uint64_t timeout_ns, const char *late, const char *why);
enum bp_status bp_shm_report_death(struct bp_shm_rank *b, uint32_t rank);

#endif
