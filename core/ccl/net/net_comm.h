/* SPDX-License-Identifier: Apache-2.0 */
/* net_comm.h: communicators whose ranks are on several hosts. Those of one host share a board, on
 * which they have numbers of their own; between hosts messages go by a network module (net.h).
 *
 * In each collective call the ranks of a host meet on their board, and then the first of them, its
 * leader, tells the leaders of the other hosts which call it is: so calls that differ are found by
 * all, as on one host. Data goes at the same time, from any rank to any.
 *
 * Failures are told by the store, where the first one is kept: whoever waits looks there. */
#ifndef BP_NET_COMM_PRIVATE_H
#define BP_NET_COMM_PRIVATE_H

#include "../collective.h"

#include <backplane/net.h>

enum {
    BP_HOSTS_EAGER = 4096,      /* bytes that go behind a head to all others */
    BP_HOSTS_LITTLE = 32 << 10, /* bytes that go behind a head at most */
    BP_HOSTS_UNSAID = 32 << 10, /* bytes that systems' buffers take, twice */
    BP_HOSTS_PAST = 128,        /* calls that are remembered: more than a rank is ahead */
    BP_HOSTS_PIECE = 256 << 10, /* bytes of what is reduced at a time */
};

/* Which call a leader, or the sender of a message, is in; bytes may follow. */
struct bp_hosts_head {
    uint64_t what, count, bytes;
};

/* Messages one way between two ranks that are taken at some later time: now and then the other side
 * says that it has them. Both sides count alike. */
struct bp_hosts_flow {
    uint64_t bytes, marks; /* since the last mark; marks so far */
    uint32_t n;
};

/* A message that is under way, of this call. */
struct bp_hosts_op {
    struct bp_net_op net; /* first */
    struct bp_net_message message;
    uint32_t rank;        /* the other */
    bool recv, lax;
};

/* Another rank. */
struct bp_hosts_rank {
    uint32_t host, local;      /* which host, in the order of their leaders; its number there */
    int32_t pid;
    void *peer;                /* on other hosts, once connected */
    uint64_t lost_ns;          /* when that was seen, or 0 */
    uint64_t sent, taken;      /* messages of sends and receives */
    uint64_t gave, took;       /* bytes of parts, in this call */
    uint64_t heads_out, heads_in;      /* of leaders */
    struct bp_hosts_flow out, in;      /* of heads that nobody waits for */
    struct bp_hosts_flow pair_out, pair_in; /* of sends and receives */
    uint64_t pair_mark;                /* of those that it has taken, the last that was heard of */
    struct bp_hosts_head head, said; /* of a leader: where the next comes to; the last */
    uint64_t said_number;
};

struct bp_hosts {
    const struct bp_net *net;
    void *worker;
    struct bp_shm_rank *board;
    struct bp_progress progress; /* the board's */
    struct bp_store *store; /* a connection of its own: calls may wait in the communicator's */
    char name[96];
    uint32_t rank, size, n_host, host;
    struct bp_hosts_rank *at;
    uint32_t *leaders;           /* of each host, in this order */
    _Atomic bool gone;           /* the store is */
    bool waits;                  /* this rank waits for other hosts, not for its board */
    bool announced, agreed;      /* of this call: heads are under way; have been compared */
    bool made;                   /* all ranks have been reached */
    bool little;                 /* of this call: see net_collective.c */
    uint64_t told;               /* the call that the store was last told, by its number */
    uint32_t first_head;         /* operation, of those that are received */
    const struct bp_collective *pair; /* the send or receive to another host that waits; or NULL */
    struct bp_hosts_exchange *pairs;  /* of this call; kept for the next */
    uint32_t n_pair, pair_room;
    uint64_t number;             /* of collective calls */
    struct bp_hosts_head own;    /* of the call that is under way: what all say of it */
    struct bp_hosts_head past[BP_HOSTS_PAST]; /* collective calls, by their numbers */
    _Atomic uint64_t watched;    /* when the store was last asked, in ns */
    uint64_t looked;             /* when leaders were last seen to be there */
    struct bp_hosts_op **ops;    /* of this call; kept for the next */
    uint32_t n_op, room;
    char *scratch;
    uint64_t scratch_bytes;
    char *extra;                 /* what follows heads, from each host, and to all from this one */
};

/* net_comm.c */
enum bp_status bp_hosts_create(const struct bp_hosts_plan *plan, struct bp_shm_rank *board,
                               const char *address, const char *name, uint32_t rank, uint32_t size,
                               uint64_t timeout_ns, struct bp_hosts **out_hosts);
void bp_hosts_destroy(struct bp_hosts *h);
static inline bool bp_hosts_is_here(const struct bp_hosts *h, uint32_t rank)
{
    return h->at[rank].host == h->host;
}
static inline bool bp_hosts_leads(const struct bp_hosts *h)
{
    return h->leaders[h->host] == h->rank;
}

static inline bool bp_hosts_progress(struct bp_hosts *h)
{
    return h->net->progress(h->worker) != 0;
}
/* net_failure.c. Looks, once in a while, whether others have failed: any thread. watch: from a wait
 * of a call, also whether others ask who is late. */
enum bp_status bp_hosts_hear(struct bp_hosts *h);
enum bp_status bp_hosts_watch(struct bp_hosts *h);
/* From now on waits on the board look for failures of other hosts, with this to move what is under
 * way (bp_progress), and failures of the board are told there; and not any more. */
void bp_hosts_watch_board(struct bp_hosts *h, enum bp_status (*move)(void *, bool *));
void bp_hosts_leave_board(struct bp_hosts *h);
/* A connection is lost that a call needs. BP_OK: others are given a moment more to say whose fault
 * it is. */
enum bp_status bp_hosts_lost(struct bp_hosts *h, uint32_t rank);
/* The header of a rank, of the call that this one is in: BP_OK, or the calls differ. */
enum bp_status bp_hosts_compare_head(struct bp_hosts *h, uint32_t rank,
                                     const struct bp_hosts_head *head);

/* net_message.c: messages between hosts. */
enum bp_hosts_kind {
    BP_HOSTS_HEAD = 1, /* of leaders, by their number from one to the other */
    BP_HOSTS_DATA,     /* parts */
    BP_HOSTS_PAIR,     /* the head of a send, with what fits behind it */
    BP_HOSTS_BULK,     /* what did not */
    BP_HOSTS_SAID,     /* empty: all of this call has come */
    BP_HOSTS_TAKEN,    /* empty: sends up to this mark have come */
    BP_HOSTS_HAD,      /* empty: heads up to this mark have come */
};
static inline uint64_t bp_hosts_tag(enum bp_hosts_kind kind, uint32_t from, uint64_t number)
{
    return (uint64_t)kind << 56 | (uint64_t)from << 48 | (number & UINT64_C(0xffffffffffff));
}
/* Begins one. lax: its failure is not one of the call. NULL: no memory, and the call has failed. */
struct bp_hosts_op *bp_hosts_send(struct bp_hosts *h, uint32_t to, uint64_t tag, const void *data,
                                  uint64_t bytes, bool lax);
struct bp_hosts_op *bp_hosts_recv(struct bp_hosts *h, uint32_t from, uint64_t tag, void *data,
                                  uint64_t bytes);
/* The same of messages with a head. What follows the one that is wanted comes to data, and nothing
 * else does. Heads are kept until the operation is done. */
struct bp_hosts_op *bp_hosts_send_headed(struct bp_hosts *h, uint32_t to, uint64_t tag,
                                         struct bp_hosts_head *head, const void *data, bool lax);
struct bp_hosts_op *bp_hosts_recv_headed(struct bp_hosts *h, uint32_t from, uint64_t tag,
                                         struct bp_hosts_head *head,
                                         const struct bp_hosts_head *want, void *data);
/* One round of waiting, when nothing has moved: BP_OK, or the failure of the communicator. */
enum bp_status bp_hosts_idle(struct bp_hosts *h, uint32_t *round);
/* Whether an operation is done; not BP_OK: it failed, and others were given time to say why. */
enum bp_status bp_hosts_check(struct bp_hosts *h, const struct bp_hosts_op *op, bool *out_done);
/* One more message of a flow. true: it ends with a mark. */
bool bp_hosts_count(struct bp_hosts_flow *flow, uint64_t bytes);
/* After a failure: nothing is under way any more. */
void bp_hosts_abandon(struct bp_hosts *h);
/* NULL: no memory, and the call has failed. */
void *bp_hosts_scratch(struct bp_hosts *h, uint64_t bytes);

/* The leaders' heads, sent and compared. bytes: of what stands behind this host's. */
enum bp_status bp_hosts_announce(struct bp_hosts *h, uint64_t bytes);
/* All make the same call: of leaders when the others' heads have come, of the others when their
 * leader says so. At once if that is known. */
enum bp_status bp_hosts_agree(struct bp_hosts *h);
/* Room for BP_HOSTS_LITTLE bytes behind a host's head: those that come, or of this one those that
 * go to all. */
void *bp_hosts_extra(struct bp_hosts *h, uint32_t host);
/* The head goes to a host, and as much data as it says, or none if that is NULL. */
enum bp_status bp_hosts_say(struct bp_hosts *h, uint32_t host, const void *data);
/* The next head of a host. What follows it comes to data, if that is not NULL and the head is this
 * rank's own. NULL: no memory, and the call has failed. */
struct bp_hosts_op *bp_hosts_listen(struct bp_hosts *h, uint32_t host, void *data);
/* Waits for it, and compares what it says. */
enum bp_status bp_hosts_compare(struct bp_hosts *h, uint32_t host, const struct bp_hosts_op *op);
/* Now and then, when all have come: whether one has given the communicator up since. */
enum bp_status bp_hosts_hear_of_lost(struct bp_hosts *h);

/* net_p2p.c: parts from rank to rank, of which some are on this host: those go by the board,
 * when the list ends. Each pair of ranks lists the same moves in the same order; empty ones are
 * passed over by both. The first failure stays, and is the list's. To other hosts they go at once;
 * nothing is taken before all are known to make this call: what is given is listed first. */
struct bp_hosts_moves {
    struct bp_hosts *h;
    const struct bp_collective *call;
    struct bp_collective *local; /* sends and receives on the board */
    uint32_t n_local, room;
    enum bp_status status;
};
void bp_hosts_give(struct bp_hosts_moves *m, uint32_t to, const void *data, uint64_t bytes);
void bp_hosts_take(struct bp_hosts_moves *m, uint32_t from, void *data, uint64_t bytes);
/* Those on this host are done; the others go on. The list is empty again. */
enum bp_status bp_hosts_moves_run(struct bp_hosts_moves *m);
void bp_hosts_moves_finish(struct bp_hosts_moves *m);
/* Waits for operations of this call: from number `from` to the one before `to`. */
enum bp_status bp_hosts_await(struct bp_hosts *h, uint32_t from, uint32_t to);
/* Waits for all, and, if that was much, until the other side says that it has come: a message that
 * is "done" may still lie here until the next call of progress, and the app may do something else
 * for long. */
enum bp_status bp_hosts_settle(struct bp_hosts *h);
/* A part of a call between the ranks of this host, by the board; root: its number there. */
enum bp_status bp_hosts_local(struct bp_hosts *h, const struct bp_collective *c, uint32_t call,
                              uint32_t root, const void *src, void *dst);

/* Sends and receives, of which some go to other hosts. */
enum bp_status bp_hosts_pairs(struct bp_hosts *h, const struct bp_collective *first, uint32_t n,
                              size_t stride);
/* While a rank waits on the board (ctx: its bp_hosts): see bp_progress. */
enum bp_status bp_hosts_pairs_move(void *ctx, bool *out_moved);

/* net_reduce.c: the data of calls that reduce; work: a struct bp_hosts_moves. */
enum bp_status bp_hosts_all_reduce(void *work, const struct bp_collective *c);
enum bp_status bp_hosts_reduce(void *work, const struct bp_collective *c);
enum bp_status bp_hosts_reduce_scatter(void *work, const struct bp_collective *c);
/* Whether sums of some ranks may stand for them: not where that would round twice. */
bool bp_hosts_has_partial(const struct bp_hosts *h, const struct bp_collective *c);
/* dst, which may be one of the sources, = their reduction; tmp: as large. */
void bp_hosts_combine(const struct bp_hosts *h, const struct bp_collective *c, void *dst,
                      const void *const *src, uint32_t n, uint64_t bytes, void *tmp);

/* net_collective.c. One collective call, or n sends and receives, each stride bytes after the one
 * before; self: a struct bp_hosts (bp_transport). */
enum bp_status bp_hosts_collective(void *self, const struct bp_collective *c);
enum bp_status bp_hosts_p2p(void *self, const struct bp_collective *first, uint32_t n,
                            size_t stride);

#endif
