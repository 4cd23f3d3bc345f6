/* SPDX-License-Identifier: Apache-2.0 */
/* shm_rank.h: declares a rank of a communicator among the ranks of its machine: its part of the
 * shared-memory segment, and its private state. */
#ifndef BP_SHM_RANK_PRIVATE_H
#define BP_SHM_RANK_PRIVATE_H

#include "failure.h"
#include "peer_map.h"
#include "waiter.h"

struct bp_collective; /* collective.h */

/* State of collective calls. */
struct bp_shm_calls {
    uint64_t sequence; /* of the last call */
    uint64_t history;  /* of all calls: bp_history_extend */
    uint64_t ended;    /* calls that all ranks have ended, as far as this rank knows */
    /* While this rank waits for others to begin an earlier call: how many calls before its own call
     * that one is; else 0. */
    uint64_t lag;
    uint64_t pieces; /* pieces put into windows: me->step */
    /* Calls with fewer bytes use call slots, or windows; 0: this call never does. */
    uint64_t inline_bytes[BP_COMM_CALL_COUNT], window_bytes[BP_COMM_CALL_COUNT];
};

/* State of sends and receives. */
struct bp_shm_p2p {
    uint64_t *sent, *consumed;           /* cells of messages to and from each rank */
    uint64_t *acked;                     /* cells to each rank that it is known to have consumed */
    const struct bp_collective *waiting; /* the call that waits; or NULL */
};

/* State of calls that devices run by themselves (native/seqlog.c). */
struct bp_shm_seqlog {
    bool used;               /* calls are logged */
    uint64_t waits_for_entry; /* the logged call that this rank waits for now; or 0 */
};

struct bp_shm_rank {
    struct bp_shm_segment *segment;
    struct bp_shm_rank_state *ranks, *me; /* of all ranks on this machine; its own */
    uint32_t rank, n;
    const uint32_t *global_ranks; /* by local rank; NULL: global ranks equal local ranks */
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

/* Attaches this rank to the segment of fd, and waits, at most timeout_ns, until all n ranks have
 * attached. Takes ownership of fd. global_ranks: the app's number of each local rank; not copied;
 * NULL: both numbers are equal. */
enum bp_status bp_shm_rank_create(int fd, uint32_t rank, uint32_t n, const uint32_t *global_ranks,
                                  uint64_t timeout_ns, struct bp_shm_rank **out_rank);
/* Does not wait for other ranks. */
void bp_shm_rank_destroy(struct bp_shm_rank *rank);

/* Sets a word of this rank, and wakes the ranks that wait for it. */
static inline void bp_shm_word_publish(struct bp_shm_rank *b, _Atomic uint64_t *word,
                                       uint64_t value)
{
    const struct bp_waiter *w = &b->waiter;

    /* The store must be visible before this rank reads `sleepers`. If asymmetric_fence is set, a
     * rank that goes to sleep enforces this order, and a release store suffices here. */
    if (w->asymmetric_fence) atomic_store_explicit(word, value, memory_order_release);
    else atomic_store_explicit(word, value, memory_order_seq_cst);
    atomic_signal_fence(memory_order_seq_cst);
    if (__builtin_expect(atomic_load_explicit(w->sleepers, memory_order_relaxed) != 0, 0))
        bp_shm_segment_wake(b->segment, b->rank);
}

/* failure.c. A list of ranks as text; ranks that do not fit are left out. */
struct bp_rank_list {
    char text[1200];
    size_t used;
    uint32_t n;
};
/* Adds "rank 2 (process 17), whose last call was broadcast of 4 f32 with root 0, sequence 6". */
void bp_rank_list_add(const struct bp_shm_rank *b, struct bp_rank_list *names, uint32_t rank);
/* Reports that rank `other` has made different calls than this rank, up to a sequence number: finds
 * the first call that differs and the ranks in the minority. */
enum bp_status bp_shm_report_mismatch(struct bp_shm_rank *b, uint32_t other, uint64_t sequence);
/* Whether a rank here has not begun the call that this rank is in. */
bool bp_shm_has_missing_rank(const struct bp_shm_rank *b);
/* Reports a timeout of a wait for a word of a rank, or of BP_RANK_ANY. */
enum bp_status bp_shm_report_timeout(struct bp_shm_rank *b, uint32_t of);
/* Reports a timeout in a call. late: text that names the ranks at fault; why: text that states
 * their fault. */
enum bp_status bp_shm_report_timeout_of(struct bp_shm_rank *b, uint64_t signature, uint64_t count,
                                        uint64_t timeout_ns, const char *late, const char *why);
enum bp_status bp_shm_report_death(struct bp_shm_rank *b, uint32_t rank);

#endif
