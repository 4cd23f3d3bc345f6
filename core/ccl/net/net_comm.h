/* SPDX-License-Identifier: Apache-2.0 */
/* net_comm.h: declares communicators whose ranks are on several hosts. The ranks of one host share
 * memory, in which they have local numbers; messages between hosts use a network module (net.h).
 *
 * In each collective call the ranks of a host meet in their shared memory. The first rank of the
 * host, its leader, then sends a header with the call to the leaders of the other hosts. So all
 * ranks notice calls that differ, as on one host. Data travels at the same time, from any rank to
 * any rank.
 *
 * The store keeps the first failure of the communicator; waiting ranks poll the store for it. */
#ifndef BP_NET_COMM_PRIVATE_H
#define BP_NET_COMM_PRIVATE_H

#include "../collective.h"

#include <backplane/net.h>

enum {
    BP_NET_EAGER_ALL_BYTES = 4096,   /* data behind a header that is sent to all other hosts */
    BP_NET_EAGER_BYTES = 32 << 10,   /* data behind a header at most */
    BP_NET_UNACKED_BYTES = 32 << 10, /* a call with more data ends with an ack */
    BP_NET_HISTORY = 128,            /* calls that are remembered; more than a rank is ahead */
    BP_NET_REDUCE_BYTES = 256 << 10, /* data that is reduced at a time */
};

/* The header of a message: the call that a leader is in, or that a sender makes. `bytes` bytes of
 * data may follow. */
struct bp_net_header {
    uint64_t signature, count, bytes;
};

/* One direction of messages between two ranks that the receiver reads at a later time. The receiver
 * acknowledges them from time to time. Both sides count alike, so both know which message ends with
 * an ack. */
struct bp_net_flow {
    uint64_t bytes, acks; /* bytes since the last ack; acks so far */
    uint32_t n;
};

/* A message of the current call that is being sent or received. */
struct bp_net_request {
    struct bp_net_op net; /* the first member */
    struct bp_net_message message;
    uint32_t rank; /* the other rank */
    bool recv, lax;
};

/* The state of another rank. */
struct bp_net_rank {
    uint32_t host, local; /* its host, by the order of leaders; its local rank there */
    int32_t pid;
    void *peer;                          /* on other hosts, once connected */
    uint64_t lost_ns;                    /* when its connection was found lost, or 0 */
    uint64_t sent, received;             /* messages of sends and receives */
    uint64_t sent_bytes, received_bytes; /* of the current call's parts */
    uint64_t headers_out, headers_in;    /* sent to a leader, and received from a leader */
    struct bp_net_flow out, in;          /* of headers in calls whose sender does not wait */
    struct bp_net_flow p2p_out, p2p_in;  /* of messages of sends and receives */
    uint64_t p2p_ack;                    /* the last ack of sends that this rank awaited */
    struct bp_net_header header;         /* a leader's: receives the next header */
    struct bp_net_header last_header;    /* the last header received */
    uint64_t last_number;
};

struct bp_net_comm {
    const struct bp_net *net;
    void *worker;
    struct bp_shm_rank *shm;
    struct bp_progress progress; /* callbacks for the waits of shm */
    /* A separate connection, because the communicator's may be blocked in a call. */
    struct bp_store *store;
    char name[96];
    uint32_t rank, size, n_host, host;
    struct bp_net_rank *ranks;
    uint32_t *leaders;       /* the global rank of each host's leader */
    _Atomic bool store_gone; /* the connection to the store is lost */
    bool waits_remote;       /* waits for other hosts, not for ranks of this host */
    bool announced, agreed;  /* of this call: headers are in flight; have been compared */
    bool connected;          /* connections to all ranks exist */
    bool eager;              /* of this call: see is_eager in net_collective.c */
    uint64_t published;      /* number of the call last published in the store */
    uint32_t first_header;   /* the first request that receives a header */
    /* The send or receive with another host that is in progress; or NULL. */
    const struct bp_collective *waiting;
    struct bp_net_exchange *exchanges; /* of this call; memory is reused by the next */
    uint32_t n_exchange, exchange_room;
    uint64_t number;          /* number of collective calls so far */
    struct bp_net_header own; /* the header of the current call, equal on all ranks */
    /* Headers of recent collective calls, by number, modulo. */
    struct bp_net_header history[BP_NET_HISTORY];
    _Atomic uint64_t polled_ns;       /* when the store was last polled, in ns */
    uint64_t checked_ns;              /* when leaders' connections were last checked */
    struct bp_net_request **requests; /* of this call; memory is reused by the next */
    uint32_t n_request, room;
    char *scratch;
    uint64_t scratch_bytes;
    char *eager_buffers; /* for data behind headers: received from each host, sent by this one */
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
/* net_failure.c. bp_net_failure_poll looks in the store, at most every 100 ms, for a failure of
 * other hosts; any thread may call it. bp_net_wait_poll is for a wait in a call: it also compares
 * calls, or reports missing ranks if another host has requested that. */
enum bp_status bp_net_failure_poll(struct bp_net_comm *h);
enum bp_status bp_net_wait_poll(struct bp_net_comm *h);
/* After bp_net_comm_attach, waits in shared memory poll for failures of other hosts and call
 * progress to move messages (bp_progress), and failures of shm are published to other hosts.
 * bp_net_comm_detach ends that. */
void bp_net_comm_attach(struct bp_net_comm *h, enum bp_status (*progress)(void *, bool *));
void bp_net_comm_detach(struct bp_net_comm *h);
/* Reports the loss of a connection that a call needs. BP_OK: other ranks still have time to publish
 * the cause. */
enum bp_status bp_net_report_lost(struct bp_net_comm *h, uint32_t rank);
/* Compares a rank's header with this rank's call. BP_OK, or the failure that the calls differ. */
enum bp_status bp_net_header_check(struct bp_net_comm *h, uint32_t rank,
                                   const struct bp_net_header *header);

/* net_message.c: messages between hosts. The kinds of messages: */
enum bp_net_kind {
    BP_NET_KIND_HEADER = 1, /* of leaders, numbered from one leader to the other */
    BP_NET_KIND_DATA,       /* data of collective calls */
    BP_NET_KIND_SEND,       /* the header of a send, with data that fits behind it */
    BP_NET_KIND_BULK,       /* data of a send that does not fit */
    BP_NET_KIND_CALL_ACK,   /* empty: all data of this call has been received */
    BP_NET_KIND_SEND_ACK,   /* empty: sends up to this ack have been received */
    BP_NET_KIND_HEADER_ACK, /* empty: headers up to this ack have been received */
};
static inline uint64_t bp_net_tag(enum bp_net_kind kind, uint32_t from, uint64_t number)
{
    return (uint64_t)kind << 56 | (uint64_t)from << 48 | (number & UINT64_C(0xffffffffffff));
}
/* Starts to send or receive a message. lax: a failure of the message is not a failure of the call.
 * NULL: out of memory, and the call has failed. */
struct bp_net_request *bp_net_send(struct bp_net_comm *h, uint32_t to, uint64_t tag,
                                   const void *data, uint64_t bytes, bool lax);
struct bp_net_request *bp_net_recv(struct bp_net_comm *h, uint32_t from, uint64_t tag, void *data,
                                   uint64_t bytes);
/* Start to send or receive a message with a header. Data behind a received header is written to
 * data only if the header equals `want`. The headers must remain valid until the request is
 * done. */
struct bp_net_request *bp_net_send_headed(struct bp_net_comm *h, uint32_t to, uint64_t tag,
                                          struct bp_net_header *header, const void *data, bool lax);
struct bp_net_request *bp_net_recv_headed(struct bp_net_comm *h, uint32_t from, uint64_t tag,
                                          struct bp_net_header *header,
                                          const struct bp_net_header *want, void *data);
/* One round of a wait for messages: makes progress, or spins and later sleeps. BP_OK, or the
 * failure of the communicator. */
enum bp_status bp_net_backoff(struct bp_net_comm *h, uint32_t *round);
/* Whether a request is done. Another status than BP_OK: it failed, and other ranks had time to
 * publish the cause. */
enum bp_status bp_net_request_check(struct bp_net_comm *h, const struct bp_net_request *request,
                                    bool *out_done);
/* Counts a message of a flow. true: the message ends with an ack. */
bool bp_net_flow_count(struct bp_net_flow *flow, uint64_t bytes);
/* After a failure: cancels all requests. */
void bp_net_requests_abandon(struct bp_net_comm *h);
/* NULL: out of memory, and the call has failed. */
void *bp_net_scratch(struct bp_net_comm *h, uint64_t bytes);

/* Starts to send and receive the leaders' headers. bytes: size of the data behind this host's
 * header. */
enum bp_status bp_net_agree_begin(struct bp_net_comm *h, uint64_t bytes);
/* Waits until all ranks are known to make the same call: a leader until it has the other leaders'
 * headers, another rank until its leader publishes that. Returns immediately if that is known
 * already. */
enum bp_status bp_net_agree_wait(struct bp_net_comm *h);
/* A buffer of BP_NET_EAGER_BYTES for data behind a header: received from another host, or, for this
 * host, sent to all. */
void *bp_net_eager_buffer(struct bp_net_comm *h, uint32_t host);
/* Sends this call's header to a host, with header.bytes bytes of data, or none if data is NULL. */
enum bp_status bp_net_header_send(struct bp_net_comm *h, uint32_t host, const void *data);
/* Starts to receive the next header of a host. Data behind the header is written to data if data is
 * not NULL and the header equals this rank's. NULL: out of memory, and the call has failed. */
struct bp_net_request *bp_net_header_recv(struct bp_net_comm *h, uint32_t host, void *data);
/* Waits for the header, and compares it with this rank's call. */
enum bp_status bp_net_header_wait(struct bp_net_comm *h, uint32_t host,
                                  const struct bp_net_request *request);
/* Once all headers have arrived: checks from time to time whether another leader has failed or
 * aborted since. */
enum bp_status bp_net_lost_poll(struct bp_net_comm *h);

/* net_p2p.c: a list of transfers of parts between ranks. Those to ranks of this host run in shared
 * memory when the list is run. Each pair of ranks lists the same transfers in the same order; both
 * skip empty ones. The list keeps its first failure. Sends to other hosts start immediately.
 * Receives first wait until all ranks are known to make this call, so sends should be listed
 * first. */
struct bp_net_transfer {
    struct bp_net_comm *h;
    const struct bp_collective *call;
    struct bp_collective *local; /* sends and receives in shared memory */
    uint32_t n_local, room;
    enum bp_status status;
};
void bp_net_transfer_send(struct bp_net_transfer *m, uint32_t to, const void *data, uint64_t bytes);
void bp_net_transfer_recv(struct bp_net_transfer *m, uint32_t from, void *data, uint64_t bytes);
/* bp_net_transfer_run completes the transfers on this host, while those to other hosts continue;
 * the list is empty afterwards. bp_net_transfer_finish frees the list. */
enum bp_status bp_net_transfer_run(struct bp_net_transfer *m);
void bp_net_transfer_finish(struct bp_net_transfer *m);
/* Waits for the requests `from` to `to` - 1 of this call. */
enum bp_status bp_net_requests_wait(struct bp_net_comm *h, uint32_t from, uint32_t to);
/* Waits for all requests, and, after much data, for an ack of the other side. The ack is needed
 * because the data of a "done" message may still be on this host until the next call of progress,
 * and the app may not call again for a long time. */
enum bp_status bp_net_requests_flush(struct bp_net_comm *h);
/* Runs a part of a call among the ranks of this host, in shared memory. root: a local rank. */
enum bp_status bp_net_local_run(struct bp_net_comm *h, const struct bp_collective *c, uint32_t call,
                                uint32_t root, const void *src, void *dst);

/* Runs n sends and receives, some of them with other hosts. */
enum bp_status bp_net_p2p_run(struct bp_net_comm *h, const struct bp_collective *first, uint32_t n,
                              size_t stride);
/* Moves messages while a rank waits in shared memory (bp_progress). ctx: the struct bp_net_comm. */
enum bp_status bp_net_p2p_progress(void *ctx, bool *out_moved);

/* net_reduce.c: data of the calls that reduce. work: a struct bp_net_transfer. */
enum bp_status bp_net_all_reduce(void *work, const struct bp_collective *c);
enum bp_status bp_net_reduce(void *work, const struct bp_collective *c);
enum bp_status bp_net_reduce_scatter(void *work, const struct bp_collective *c);
/* Whether the ranks of a host may be reduced before their result is sent: not where that would
 * round twice. */
bool bp_net_has_partial(const struct bp_net_comm *h, const struct bp_collective *c);
/* Reduces n sources to dst, which may be one of them. tmp: memory of the same size. */
void bp_net_combine(const struct bp_net_comm *h, const struct bp_collective *c, void *dst,
                    const void *const *src, uint32_t n, uint64_t bytes, void *tmp);

/* net_collective.c. Run one collective call, or n sends and receives, each struct stride bytes
 * after the one before. self: a struct bp_net_comm (bp_transport). */
enum bp_status bp_net_collective(void *self, const struct bp_collective *c);
enum bp_status bp_net_p2p(void *self, const struct bp_collective *first, uint32_t n, size_t stride);

#endif
