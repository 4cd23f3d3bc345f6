/* SPDX-License-Identifier: Apache-2.0 */
/* native.h: declares native collectives: the devices of the ranks exchange data by the library of
 * their plugin (interface 3, backplane/ccl.h). Calls are work of the stream, and the host does not
 * wait for other ranks. A watchdog thread observes the calls in progress, and aborts them if a rank
 * is missing or dies. */
#ifndef BP_NATIVE_PRIVATE_H
#define BP_NATIVE_PRIVATE_H

#include "../comm.h"

/* seqlog.c: logs in shared memory the calls, and the transfers between two ranks, that each rank
 * submits to its device. */

/* A transfer that was submitted to the device: the other rank, and the transfer's number among
 * those of one direction between the two. */
struct bp_p2p_part {
    uint32_t rank; /* if remote, of another host, the global rank; else local */
    bool send, remote;
    uint64_t number; /* 0: the other rank's progress is unknown */
};

/* Logs a call that this rank submits to its device, and compares it with the other ranks' calls of
 * the same number. *out_number: the number. Waits only for ranks that are BP_SEQLOG_ENTRIES calls
 * behind. */
enum bp_status bp_seqlog_record(struct bp_shm_rank *b, const struct bp_collective *c,
                                uint64_t *out_number);
/* Waits until all ranks have logged `number` calls. */
enum bp_status bp_seqlog_wait(struct bp_shm_rank *b, uint64_t number);

/* Logs a transfer to or from a rank: a send, a receive, or the part of all_to_all_ragged for one
 * rank. Does not wait. Compares it with the other side's record, if the other side has logged the
 * transfer already and at most BP_P2PLOG_ENTRIES transfers ago. */
enum bp_status bp_p2plog_record(struct bp_shm_rank *b, const struct bp_collective *c, uint32_t rank,
                                bool send, uint64_t count, struct bp_p2p_part *out_part);
/* The first function describes one side of a transfer of count elements of c. The second compares
 * the two sides, and reports a failure if they differ; from and to are global ranks. */
struct bp_p2p_signature bp_p2p_signature_of(const struct bp_collective *c, uint64_t count);
enum bp_status bp_p2p_signature_check(struct bp_shm_rank *b, uint32_t from, uint32_t to,
                                      const struct bp_p2p_signature *sent,
                                      const struct bp_p2p_signature *received);
/* Whether the other rank has logged its side of the transfer. */
bool bp_p2plog_is_matched(const struct bp_shm_rank *b, const struct bp_p2p_part *part);

/* Report a timeout; any thread may call them. The first is for a call that was logged. The second
 * is for n sends and receives that were submitted together; signature and count are those of the
 * first. */
enum bp_status bp_seqlog_report_timeout(struct bp_shm_rank *b, uint64_t number, uint64_t signature,
                                        uint64_t count, uint64_t timeout_ns);
enum bp_status bp_p2plog_report_timeout(struct bp_shm_rank *b, const struct bp_p2p_part *parts,
                                        uint32_t n, uint64_t signature, uint64_t count,
                                        uint64_t timeout_ns);
/* Whether a rank of this host has not logged `number` calls, or has not logged its side of one of
 * the transfers. */
bool bp_seqlog_is_behind(const struct bp_shm_rank *b, uint64_t number);
bool bp_p2plog_is_behind(const struct bp_shm_rank *b, const struct bp_p2p_part *parts, uint32_t n);
/* Reports a timeout while the library joins the ranks. before: each rank's `joins` a while ago; a
 * rank whose `joins` has not grown since is named. remote: text that names ranks of other hosts, or
 * "". */
enum bp_status bp_join_report_timeout(struct bp_shm_rank *b, const uint32_t *before,
                                      const char *remote, uint64_t timeout_ns);

/* A work item that was submitted to the device and is not known to have ended. */
struct bp_native_work {
    struct bp_timeline *timeline;
    uint64_t number;           /* its position on the timeline */
    uint64_t sequence;         /* its number in the sequence log; 0: sends and receives */
    struct bp_p2p_part *parts; /* n_part transfers, owned; NULL if a collective */
    uint32_t n_part;
    uint64_t signature, count;
    uint64_t began; /* when the work before it on the stream had ended; 0: not yet */
    uint64_t timeout_ns;
    bool submitted;
};

struct bp_native {
    struct bp_comm *comm;
    void (*release)(struct bp_comm *comm); /* releases the watchdog's reference to comm */
    const struct bp_ccl *ccl;
    void *self, *raw;     /* the plugin's instance, and its communicator */
    pthread_mutex_t call; /* held during calls with `raw`, and while it is aborted */
    pthread_mutex_t lock; /* of all members below */
    pthread_cond_t moved;
    pthread_t thread;
    struct bp_native_work *pending; /* in the order of the calls */
    uint32_t n, room;
    /* A call past its timeout for which ranks of other hosts may be at fault. */
    struct bp_native_work late_work;
    bool is_late;
    uint64_t dead_since; /* when a rank that a call may need was found dead; 0: none */
    bool closing;
    _Atomic bool aborted;
};

/* The result of a join, which each rank publishes. */
struct bp_native_result {
    uint32_t status, zero;
    char why[200];
};

/* The unique id that rank 0 publishes, and the result of making the id. */
struct bp_native_id {
    struct bp_native_result result;
    _Alignas(16) uint8_t bytes[BP_CCL_ID_MAX]; /* bp_native_id_size bytes of them */
};

/* The size of the ids of a plugin's library. */
static inline uint64_t bp_native_id_size(const struct bp_ccl *ccl)
{
    return ccl->unique_id_long ? ccl->id_size : sizeof(struct bp_ccl_id);
}

/* native.c. Describes the library of a rank's device. Ranks whose texts are equal use the library
 * together. "": the device has no library, or must not use it; why: the reason, for the user, if
 * there is one. */
void bp_native_describe(const struct bp_device *device, char text[BP_RENDEZVOUS_LIBRARY], char *why,
                        size_t size);
/* Has the library join the ranks of comm, all of which have the same text. If one rank cannot join,
 * no rank is joined: comm->why has the reason, and comm->native remains NULL. release: releases a
 * reference to comm. */
enum bp_status bp_native_create(struct bp_comm *comm, uint64_t timeout_ns,
                                void (*release)(struct bp_comm *comm));
/* native_join.c. Stores a status, with this thread's message. */
void bp_native_result_set(struct bp_native_result *result, enum bp_status status);
/* Has the library join this rank. *out: the result, which is a failure also if another rank could
 * not join. Returns another status than BP_OK if the communicator has failed, because a rank died
 * or no rank made progress until the deadline. Sets *out_raw only if both are BP_OK. */
enum bp_status bp_native_join(struct bp_comm *comm, const void *id, uint64_t deadline,
                              void **out_raw, struct bp_native_result *out);
/* The `submit` of bp_transport. */
enum bp_status bp_native_submit(struct bp_comm *comm, struct bp_stream *stream,
                                const struct bp_comm_step *steps, uint32_t n, bool *out_done);
/* The app destroys comm: the watchdog ends once all work has ended. */
void bp_native_close(struct bp_native *native);
void bp_native_destroy(struct bp_native *native);

/* watchdog.c. Starts the thread, which holds a reference to the communicator. */
enum bp_status bp_watchdog_begin(struct bp_native *native);
/* bp_watchdog_push is called before a call is submitted to the device, and takes ownership of the
 * work. bp_watchdog_confirm is called afterwards. If the library refused the call (not
 * `submitted`), it removes the work. */
enum bp_status bp_watchdog_push(struct bp_native *native, const struct bp_native_work *work);
/* Waits until `sequence` is at most BP_REMOTE_CALLS after the first call that has not ended. */
enum bp_status bp_watchdog_wait(struct bp_native *native, uint64_t sequence);
/* Wakes the thread, because there may be news to publish to other hosts. */
void bp_watchdog_wake(struct bp_native *native);
void bp_watchdog_confirm(struct bp_native *native, uint64_t number, bool submitted);
/* seqlog.c. Reports a timeout of a call for which ranks of this host are at fault. */
void bp_native_report_timeout(struct bp_shm_rank *b, const struct bp_native_work *f);

/* The exchange between hosts of native calls. A native call does not wait for messages of other
 * hosts. Instead each rank publishes its calls in the store, ten times a second while there is
 * news; the watchdog does so, and reads the other ranks' states there. So mismatched calls, dead
 * ranks, and the ranks that are missing at a timeout are found between hosts as well. */
enum {
    BP_REMOTE_CALLS = 256, /* calls that a rank keeps for others to compare */
    BP_REMOTE_PEERS = 32,  /* remote ranks whose transfers are compared; others' are not */
    BP_REMOTE_PARTS = 32,  /* transfers kept in each direction */
};

/* A call; sum: a hash of this call and all before it. */
struct bp_remote_call {
    uint64_t signature, count, sum;
};

/* The transfers to and from another rank, by their numbers, modulo. */
struct bp_remote_peer {
    uint32_t rank, zero;
    uint64_t sent, received;
    struct bp_p2p_signature sends[BP_REMOTE_PARTS], recvs[BP_REMOTE_PARTS];
};

/* The state that a rank publishes; only n_peer peers are transmitted. */
struct bp_remote_state {
    uint64_t posted, completed;
    struct bp_remote_call calls[BP_REMOTE_CALLS];
    uint32_t n_peer, zero;
    struct bp_remote_peer peers[BP_REMOTE_PEERS];
};

struct bp_remote {
    struct bp_comm *comm;
    struct bp_net_comm *h;
    struct bp_shm_rank *b;
    pthread_mutex_t lock; /* of `own` and `changed` */
    struct bp_remote_state own;
    uint64_t changed; /* how often `own` has changed */
    /* The members below belong to the watchdog thread, or, before it exists, to the thread that
     * creates the communicator. */
    uint64_t published;        /* the value of `changed` at the last publication */
    uint64_t next_poll_ns;     /* the earliest time of the next poll */
    uint64_t store_gone_since; /* when the store was found gone; 0: it exists */
    uint32_t next_rank;        /* the rank whose state is read next */
    uint32_t polls_left;       /* polls after the last call that still read states */
    uint64_t *dead_since;      /* of each rank: when found dead; 0: alive */
    uint32_t *joins;           /* of each rank: its `joins` when last read */
    struct bp_remote_state other, copy;
};

/* remote.c. Creates the exchange between the hosts of a communicator. */
enum bp_status bp_remote_create(struct bp_comm *comm, struct bp_remote **out_remote);
/* Does not wait. Withdraws the will from the store, so that other ranks know that this rank has not
 * died. */
void bp_remote_destroy(struct bp_remote *remote);
/* Records that this rank has logged call c, with this number. */
void bp_remote_record_call(struct bp_remote *remote, const struct bp_collective *c,
                           uint64_t number);
/* Records a transfer to or from a rank. The result's number is 0 if the transfer cannot be
 * compared. */
struct bp_p2p_part bp_remote_record_part(struct bp_remote *remote, const struct bp_collective *c,
                                         uint32_t rank, bool send, uint64_t count);
/* Whether there is unpublished news, or other ranks' states still have to be read for calls that
 * have ended. */
bool bp_remote_has_pending(struct bp_remote *remote);
void bp_remote_publish(struct bp_remote *remote);
/* Reads a rank's state into remote->other. NULL: the rank has published none yet, or the store is
 * gone. */
struct bp_remote_state *bp_remote_fetch(struct bp_remote *remote, uint32_t rank);
/* Finds the transfers with another rank in a rank's state. NULL: there are none. */
struct bp_remote_peer *bp_remote_peer_find(struct bp_remote_state *state, uint32_t rank);
/* Publishes this rank's state and compares the states of others, if the time for it has come.
 * oldest: the first call in progress, or NULL. A mismatch becomes the communicator's failure. */
void bp_remote_poll(struct bp_remote *remote, const struct bp_native_work *oldest);

/* Fails if a rank of another host has died and a call needs that rank. oldest: the first call in
 * progress; NULL: all ranks are needed. */
enum bp_status bp_remote_check_dead(struct bp_remote *remote, const struct bp_native_work *oldest);
/* Reports a timeout for which no rank of this host is at fault. */
void bp_remote_report_timeout(struct bp_remote *remote, const struct bp_native_work *work);
/* While the library joins the ranks: the first function publishes that this rank is waiting. The
 * second lists the ranks of other hosts that have not published so since its call before; the text
 * is empty if there are none. */
void bp_remote_publish_joins(struct bp_remote *remote);
void bp_remote_find_stuck(struct bp_remote *remote, char *text, size_t size);

#endif
