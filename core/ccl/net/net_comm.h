/* SPDX-License-Identifier: Apache-2.0 */
/* net_comm.h: communicators whose ranks are on several hosts. Those of one host share memory, in
 * which they have numbers of their own; between hosts messages go by a network module (net.h).
 *
 * In each collective call the ranks of a host meet in their memory, and then the first of them, its
 * leader, tells the leaders of the other hosts which call it is: so calls that differ are found by
 * all, as on one host. Data goes at the same time, from any rank to any.
 *
 * Failures are told by the store, where the first one is kept: whoever waits looks there. */
#ifndef BP_NET_COMM_PRIVATE_H
#define BP_NET_COMM_PRIVATE_H

#include "../collective.h"

#include <backplane/net.h>

enum {
    BP_NET_EAGER_ALL_BYTES = 4096,   /* bytes that go behind a header to all others */
    BP_NET_EAGER_BYTES = 32 << 10,   /* bytes that go behind a header at most */
    BP_NET_UNACKED_BYTES = 32 << 10, /* bytes that systems' buffers take, twice */
    BP_NET_HISTORY = 128,            /* calls that are remembered: more than a rank is ahead */
    BP_NET_REDUCE_BYTES = 256 << 10, /* bytes of what is reduced at a time */
};

/* Which call a leader, or the sender of a message, is in; bytes may follow. */
struct bp_net_header {
    uint64_t signature, count, bytes;
};

/* Messages one way between two ranks that are taken at some later time: now and then the other side
 * says that it has them. Both sides count alike. */
struct bp_net_flow {
    uint64_t bytes, acks; /* since the last ack; acks so far */
    uint32_t n;
};

/* A message that is under way, of this call. */
struct bp_net_request {
    struct bp_net_op net; /* first */
    struct bp_net_message message;
    uint32_t rank;        /* the other */
    bool recv, lax;
};

/* Another rank. */
struct bp_net_rank {
    uint32_t host, local;      /* which host, in the order of their leaders; its number there */
    int32_t pid;
    void *peer;                          /* on other hosts, once connected */
    uint64_t lost_ns;                    /* when that was seen, or 0 */
    uint64_t sent, received;             /* messages of sends and receives */
    uint64_t sent_bytes, received_bytes; /* bytes of parts, in this call */
    uint64_t headers_out, headers_in;    /* of leaders */
    struct bp_net_flow out, in;          /* of headers that nobody waits for */
    struct bp_net_flow p2p_out, p2p_in;  /* of sends and receives */
    uint64_t p2p_ack;                    /* of those that it has taken, the last heard of */
    struct bp_net_header header;         /* of a leader: where the next comes to */
    struct bp_net_header last_header;    /* the last that came */
    uint64_t last_number;
};

struct bp_net_comm {
    const struct bp_net *net;
    void *worker;
    struct bp_shm_rank *shm;
    struct bp_progress progress; /* of the waits of shm */
    struct bp_store *store;      /* a connection of its own: calls may wait in the communicator's */
    char name[96];
    uint32_t rank, size, n_host, host;
    struct bp_net_rank *ranks;
    uint32_t *leaders;       /* of each host, in this order */
    _Atomic bool store_gone; /* the store is */
    bool waits_remote;       /* this rank waits for other hosts, not for its own */
    bool announced, agreed;  /* of this call: headers are under way; have been compared */
    bool connected;          /* all ranks have been reached */
    bool eager;              /* of this call: see net_collective.c */
    uint64_t published;      /* the call that the store was last told, by its number */
    uint32_t first_header;   /* operation, of those that are received */
    /* The send or receive to another host that waits; or NULL. */
    const struct bp_collective *waiting;
    struct bp_net_exchange *exchanges; /* of this call; kept for the next */
    uint32_t n_exchange, exchange_room;
    uint64_t number;          /* of collective calls */
    struct bp_net_header own; /* of the call that is under way: what all say of it */
    /* Collective calls, by their numbers. */
    struct bp_net_header history[BP_NET_HISTORY];
    _Atomic uint64_t polled_ns;       /* when the store was last asked, in ns */
    uint64_t checked_ns;              /* when leaders were last seen to be there */
    struct bp_net_request **requests; /* of this call; kept for the next */
    uint32_t n_request, room;
    char *scratch;
    uint64_t scratch_bytes;
    char *eager_buffers; /* what follows headers, from each host, and to all from this one */
};

/* net_comm.c */
enum bp_status bp_net_comm_create(const struct bp_host_topology *topology, struct bp_shm_rank *shm,
                                  const char *address, const char *name, uint32_t rank,
                                  uint32_t size, uint64_t timeout_ns, struct bp_net_comm **out_net);
void bp_net_comm_destroy(struct bp_net_comm *h);
static inline bool bp_net_is_local(const struct bp_net_comm *h, uint32_t rank)
{
    return h->ranks[rank].host == h->host;
}
static inline bool bp_net_is_leader(const struct bp_net_comm *h)
{
    return h->leaders[h->host] == h->rank;
}

static inline bool bp_net_progress(struct bp_net_comm *h)
{
    return h->net->progress(h->worker) != 0;
}
/* net_failure.c. Looks, once in a while, whether others have failed: any thread. bp_net_wait_poll:
 * from a wait of a call, also whether others ask who is late. */
enum bp_status bp_net_failure_poll(struct bp_net_comm *h);
enum bp_status bp_net_wait_poll(struct bp_net_comm *h);
/* From now on waits of shm look for failures of other hosts, with this to move what is under
 * way (bp_progress), and failures of shm are told there; and not any more. */
void bp_net_comm_attach(struct bp_net_comm *h, enum bp_status (*progress)(void *, bool *));
void bp_net_comm_detach(struct bp_net_comm *h);
/* A connection is lost that a call needs. BP_OK: others are given a moment more to say whose fault
 * it is. */
enum bp_status bp_net_report_lost(struct bp_net_comm *h, uint32_t rank);
/* The header of a rank, of the call that this one is in: BP_OK, or the calls differ. */
enum bp_status bp_net_header_check(struct bp_net_comm *h, uint32_t rank,
                                   const struct bp_net_header *header);

/* net_message.c: messages between hosts. */
enum bp_net_kind {
    BP_NET_KIND_HEADER = 1, /* of leaders, by their number from one to the other */
    BP_NET_KIND_DATA,       /* parts */
    BP_NET_KIND_SEND,       /* the header of a send, with what fits behind it */
    BP_NET_KIND_BULK,       /* what did not */
    BP_NET_KIND_CALL_ACK,   /* empty: all of this call has come */
    BP_NET_KIND_SEND_ACK,   /* empty: sends up to this ack have come */
    BP_NET_KIND_HEADER_ACK, /* empty: headers up to this ack have come */
};
static inline uint64_t bp_net_tag(enum bp_net_kind kind, uint32_t from, uint64_t number)
{
    return (uint64_t)kind << 56 | (uint64_t)from << 48 | (number & UINT64_C(0xffffffffffff));
}
/* Begins one. lax: its failure is not one of the call. NULL: no memory, and the call has failed. */
struct bp_net_request *bp_net_send(struct bp_net_comm *h, uint32_t to, uint64_t tag,
                                   const void *data, uint64_t bytes, bool lax);
struct bp_net_request *bp_net_recv(struct bp_net_comm *h, uint32_t from, uint64_t tag, void *data,
                                   uint64_t bytes);
/* The same of messages with a header. What follows the one that is wanted comes to data, and
 * nothing else does. Headers are kept until the operation is done. */
struct bp_net_request *bp_net_send_headed(struct bp_net_comm *h, uint32_t to, uint64_t tag,
                                          struct bp_net_header *header, const void *data, bool lax);
struct bp_net_request *bp_net_recv_headed(struct bp_net_comm *h, uint32_t from, uint64_t tag,
                                          struct bp_net_header *header,
                                          const struct bp_net_header *want, void *data);
/* One round of waiting, when nothing has moved: BP_OK, or the failure of the communicator. */
enum bp_status bp_net_backoff(struct bp_net_comm *h, uint32_t *round);
/* Whether an operation is done; not BP_OK: it failed, and others were given time to say why. */
enum bp_status bp_net_request_check(struct bp_net_comm *h, const struct bp_net_request *request,
                                    bool *out_done);
/* One more message of a flow. true: it ends with an ack. */
bool bp_net_flow_count(struct bp_net_flow *flow, uint64_t bytes);
/* After a failure: nothing is under way any more. */
void bp_net_requests_abandon(struct bp_net_comm *h);
/* NULL: no memory, and the call has failed. */
void *bp_net_scratch(struct bp_net_comm *h, uint64_t bytes);

/* The leaders' headers, sent and compared. bytes: of what stands behind this host's. */
enum bp_status bp_net_agree_begin(struct bp_net_comm *h, uint64_t bytes);
/* All make the same call: of leaders when the others' headers have come, of the others when their
 * leader says so. At once if that is known. */
enum bp_status bp_net_agree_wait(struct bp_net_comm *h);
/* Room for BP_NET_EAGER_BYTES bytes behind a host's header: those that come, or of this one those
 * that go to all. */
void *bp_net_eager_buffer(struct bp_net_comm *h, uint32_t host);
/* The header goes to a host, and as much data as it says, or none if that is NULL. */
enum bp_status bp_net_header_send(struct bp_net_comm *h, uint32_t host, const void *data);
/* The next header of a host. What follows it comes to data, if that is not NULL and the header is
 * this rank's own. NULL: no memory, and the call has failed. */
struct bp_net_request *bp_net_header_recv(struct bp_net_comm *h, uint32_t host, void *data);
/* Waits for it, and compares what it says. */
enum bp_status bp_net_header_wait(struct bp_net_comm *h, uint32_t host,
                                  const struct bp_net_request *request);
/* Now and then, when all have come: whether one has given the communicator up since. */
enum bp_status bp_net_lost_poll(struct bp_net_comm *h);

/* net_p2p.c: parts from rank to rank, of which some are on this host: those go by shared memory,
 * when the list ends. Each pair of ranks lists the same transfers in the same order; empty ones are
 * passed over by both. The first failure stays, and is the list's. To other hosts they go at once;
 * nothing is taken before all are known to make this call: what is given is listed first. */
struct bp_net_transfer {
    struct bp_net_comm *h;
    const struct bp_collective *call;
    struct bp_collective *local; /* sends and receives in shared memory */
    uint32_t n_local, room;
    enum bp_status status;
};
void bp_net_transfer_send(struct bp_net_transfer *m, uint32_t to, const void *data, uint64_t bytes);
void bp_net_transfer_recv(struct bp_net_transfer *m, uint32_t from, void *data, uint64_t bytes);
/* Those on this host are done; the others go on. The list is empty again. */
enum bp_status bp_net_transfer_run(struct bp_net_transfer *m);
void bp_net_transfer_finish(struct bp_net_transfer *m);
/* Waits for operations of this call: from number `from` to the one before `to`. */
enum bp_status bp_net_requests_wait(struct bp_net_comm *h, uint32_t from, uint32_t to);
/* Waits for all, and, if that was much, until the other side says that it has come: a message that
 * is "done" may still lie here until the next call of progress, and the app may do something else
 * for long. */
enum bp_status bp_net_requests_flush(struct bp_net_comm *h);
/* A part of a call between the ranks of this host, by shared memory; root: its number there. */
enum bp_status bp_net_local_run(struct bp_net_comm *h, const struct bp_collective *c, uint32_t call,
                                uint32_t root, const void *src, void *dst);

/* Sends and receives, of which some go to other hosts. */
enum bp_status bp_net_p2p_run(struct bp_net_comm *h, const struct bp_collective *first, uint32_t n,
                              size_t stride);
/* While a rank waits in shared memory (ctx: its bp_net_comm): see bp_progress. */
enum bp_status bp_net_p2p_progress(void *ctx, bool *out_moved);

/* net_reduce.c: the data of calls that reduce; work: a struct bp_net_transfer. */
enum bp_status bp_net_all_reduce(void *work, const struct bp_collective *c);
enum bp_status bp_net_reduce(void *work, const struct bp_collective *c);
enum bp_status bp_net_reduce_scatter(void *work, const struct bp_collective *c);
/* Whether sums of some ranks may stand for them: not where that would round twice. */
bool bp_net_has_partial(const struct bp_net_comm *h, const struct bp_collective *c);
/* dst, which may be one of the sources, = their reduction; tmp: as large. */
void bp_net_combine(const struct bp_net_comm *h, const struct bp_collective *c, void *dst,
                    const void *const *src, uint32_t n, uint64_t bytes, void *tmp);

/* net_collective.c. One collective call, or n sends and receives, each stride bytes after the one
 * before; self: a struct bp_net_comm (bp_transport). */
enum bp_status bp_net_collective(void *self, const struct bp_collective *c);
enum bp_status bp_net_p2p(void *self, const struct bp_collective *first, uint32_t n, size_t stride);

#endif
