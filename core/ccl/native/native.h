/* SPDX-License-Identifier: Apache-2.0 */
/* native.h: communicators whose ranks' devices talk to each other by themselves, by the library of
 * their plugin (interface 3, backplane/ccl.h). Calls are work of the stream, and nobody waits for
 * them here: a thread watches those under way, and ends them when a rank does not come or dies. */
#ifndef BP_NATIVE_PRIVATE_H
#define BP_NATIVE_PRIVATE_H

#include "../comm.h"

/* seqlog.c: what ranks note of calls, and of parts, that they give to their devices. */

/* A part that was given to the device: the other rank, and its number among those. */
struct bp_p2p_part {
    uint32_t rank;   /* remote: of another host, as the app numbers ranks */
    bool send, remote;
    uint64_t number; /* 0: it is not known how far the other is */
};

/* Says what this rank gives to its device, and compares: *out_number of the post. Waits
 * for ranks that are many calls behind, only. */
enum bp_status bp_seqlog_record(struct bp_shm_rank *b, const struct bp_collective *c,
                                uint64_t *out_number);
/* Waits until all have posted so many. */
enum bp_status bp_seqlog_wait(struct bp_shm_rank *b, uint64_t number);

/* The same of a part that goes to a rank, or comes from it: a send, a receive, or what
 * all_to_all_ragged has for one rank. Nobody is waited for. Compared with the other side's, if that
 * was given before and is no more than BP_P2PLOG_ENTRIES ago. */
enum bp_status bp_p2plog_record(struct bp_shm_rank *b, const struct bp_collective *c, uint32_t rank,
                                bool send, uint64_t count, struct bp_p2p_part *out_part);
/* What one side says, of so many elements of c; whether both say the same, by the numbers that the
 * app knows ranks by. */
struct bp_p2p_signature bp_p2p_signature_of(const struct bp_collective *c, uint64_t count);
enum bp_status bp_p2p_signature_check(struct bp_shm_rank *b, uint32_t from, uint32_t to,
                                      const struct bp_p2p_signature *sent,
                                      const struct bp_p2p_signature *received);
/* Whether the other rank has given its side of it. */
bool bp_p2plog_is_matched(const struct bp_shm_rank *b, const struct bp_p2p_part *part);

/* Time is up for a call that was posted, on any thread; for n sends and receives that were given to
 * the device together, of which signature and count are of the first. */
enum bp_status bp_seqlog_report_timeout(struct bp_shm_rank *b, uint64_t number, uint64_t signature,
                                        uint64_t count, uint64_t timeout_ns);
enum bp_status bp_p2plog_report_timeout(struct bp_shm_rank *b, const struct bp_p2p_part *parts,
                                        uint32_t n, uint64_t signature, uint64_t count,
                                        uint64_t timeout_ns);
/* Whether a rank here has not posted so many, or not given its side of one of those. */
bool bp_seqlog_is_behind(const struct bp_shm_rank *b, uint64_t number);
bool bp_p2plog_is_behind(const struct bp_shm_rank *b, const struct bp_p2p_part *parts, uint32_t n);
/* Time is up for ranks that their library joins; before: what they said of that a while ago;
 * remote: ranks of other hosts to be named, or "". */
enum bp_status bp_join_report_timeout(struct bp_shm_rank *b, const uint32_t *before,
                                      const char *remote, uint64_t timeout_ns);

/* A call that was given to the device and is not known to have ended. */
struct bp_native_work {
    struct bp_timeline *timeline;
    uint64_t number;           /* of its work */
    uint64_t sequence;         /* of its post; 0: sends and receives */
    struct bp_p2p_part *parts; /* these, n_part of them, its own; or NULL */
    uint32_t n_part;
    uint64_t signature, count;
    uint64_t began;    /* when it was its turn on the stream; 0: not yet */
    uint64_t timeout_ns;
    bool submitted;
};

struct bp_native {
    struct bp_comm *comm;
    void (*release)(struct bp_comm *comm); /* of the reference that the watchdog has */
    const struct bp_ccl *ccl;
    void *self, *raw;      /* the plugin's instance, and its communicator */
    pthread_mutex_t call;  /* held while raw is given something, and while it is aborted */
    pthread_mutex_t lock;  /* of all below */
    pthread_cond_t moved;
    pthread_t thread;
    struct bp_native_work *pending; /* in the order of the calls */
    uint32_t n, room;
    struct bp_native_work late_work; /* which time is up for, and other hosts may be to blame */
    bool is_late;
    uint64_t dead_since;   /* a rank was found dead that a call may need; 0: none */
    bool closing;
    _Atomic bool aborted;
};

/* What each rank says of having joined. */
struct bp_native_result {
    uint32_t status, zero;
    char why[200];
};

/* What rank 0 brings to all: how it came to the id of the communicator to be, and the id. */
struct bp_native_id {
    struct bp_native_result result;
    _Alignas(16) uint8_t bytes[BP_CCL_ID_MAX]; /* as many as bp_native_id_size says */
};

/* Bytes of an id of a plugin's. */
static inline uint64_t bp_native_id_size(const struct bp_ccl *ccl)
{
    return ccl->unique_id_long ? ccl->id_size : sizeof(struct bp_ccl_id);
}

/* native.c. What a rank says of its device's library: ranks that say the same use it together. "":
 * it has none; why: of use to a reader. */
void bp_native_describe(const struct bp_device *device, char text[BP_RENDEZVOUS_LIBRARY], char *why,
                        size_t size);
/* Joins the ranks of comm, all of which said the same. Where one of them cannot, none is: comm->why
 * says why, and comm->native stays NULL. release: gives back a reference to comm. */
enum bp_status bp_native_create(struct bp_comm *comm, uint64_t timeout_ns,
                                void (*release)(struct bp_comm *comm));
/* native_join.c. A status, with this thread's message. */
void bp_native_result_set(struct bp_native_result *result, enum bp_status status);
/* Has the library join this rank. *out says whether it did, or another says that it
 * did not; not BP_OK: the communicator has failed, as a rank died or none got any further until the
 * deadline. *out_raw only if both are well. */
enum bp_status bp_native_join(struct bp_comm *comm, const void *id, uint64_t deadline,
                              void **out_raw, struct bp_native_result *out);
/* bp_transport's submit. */
enum bp_status bp_native_submit(struct bp_comm *comm, struct bp_stream *stream,
                                const struct bp_comm_step *steps, uint32_t n, bool *out_done);
/* The app gives comm back. */
void bp_native_close(struct bp_native *native);
void bp_native_destroy(struct bp_native *native);

/* watchdog.c. Begins the thread, which has a reference to the communicator. */
enum bp_status bp_watchdog_begin(struct bp_native *native);
/* A call is about to be given to the device, and the work is the watchdog's; it has been, or, not
 * after all. */
enum bp_status bp_watchdog_push(struct bp_native *native, const struct bp_native_work *work);
/* Waits until this call is no more than BP_REMOTE_CALLS after the first that has not ended. */
enum bp_status bp_watchdog_wait(struct bp_native *native, uint64_t sequence);
/* There may be something to say to other hosts. */
void bp_watchdog_wake(struct bp_native *native);
void bp_watchdog_confirm(struct bp_native *native, uint64_t number, bool submitted);
/* seqlog.c. Time is up for a call, and those to blame are of this host. */
void bp_native_report_timeout(struct bp_shm_rank *b, const struct bp_native_work *f);

/* What the ranks of a native communicator know of those on other hosts. Nobody waits for the
 * others' word in a native call, so what each rank calls is said in the store, ten times a second
 * while there is something to say: by the watchdog, which reads what others say there. So calls
 * that differ, ranks that have died, and who is missing when time is up are found between hosts
 * too. */
enum {
    BP_REMOTE_CALLS = 256, /* calls that a rank keeps for others to compare */
    BP_REMOTE_PEERS = 32,  /* ranks of other hosts whose parts are compared; of more they are not */
    BP_REMOTE_PARTS = 32,  /* parts in each direction that are kept */
};

/* A call; sum: of it and all before. */
struct bp_remote_call {
    uint64_t signature, count, sum;
};

/* Parts to and from another rank, by their numbers, modulo. */
struct bp_remote_peer {
    uint32_t rank, zero;
    uint64_t sent, received;
    struct bp_p2p_signature sends[BP_REMOTE_PARTS], recvs[BP_REMOTE_PARTS];
};

/* What a rank says, of which n_peer peers are there. */
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
    pthread_mutex_t lock; /* of own, and changed */
    struct bp_remote_state own;
    uint64_t changed;     /* times */
    /* Of the thread that watches, or of that which makes the communicator, before. */
    uint64_t published;        /* changed, when it was last said */
    uint64_t next_poll_ns;     /* when it may look again */
    uint64_t store_gone_since; /* the store was found gone; 0: it is there */
    uint32_t next_rank;        /* whose state is read next */
    uint32_t polls_left;       /* looks after the last call in which states are read all the same */
    uint64_t *dead_since;      /* of each rank; 0: not known to be */
    uint32_t *joins;           /* of each rank: what it last said of being joined */
    struct bp_remote_state other, copy;
};

/* remote.c. Of a communicator on several hosts. */
enum bp_status bp_remote_create(struct bp_comm *comm, struct bp_remote **out_remote);
/* Waits for nobody; the others know then that this rank has not died. */
void bp_remote_destroy(struct bp_remote *remote);
/* A call was posted, as this number. */
void bp_remote_record_call(struct bp_remote *remote, const struct bp_collective *c,
                           uint64_t number);
/* A part goes to a rank, or comes from it: the number is 0 where it is not compared. */
struct bp_p2p_part bp_remote_record_part(struct bp_remote *remote, const struct bp_collective *c,
                                         uint32_t rank, bool send, uint64_t count);
/* Whether there is something to say that was not said, or to hear of calls that have ended. */
bool bp_remote_has_pending(struct bp_remote *remote);
void bp_remote_publish(struct bp_remote *remote);
/* What a rank says, in remote->other; NULL: nothing so far, or the store is gone. */
struct bp_remote_state *bp_remote_fetch(struct bp_remote *remote, uint32_t rank);
/* A rank's parts with another, in its state; NULL: there are none. */
struct bp_remote_peer *bp_remote_peer_find(struct bp_remote_state *state, uint32_t rank);
/* Says and hears, if it is time to. oldest: the first call that is under way; or NULL. What is
 * wrong is the communicator's failure. */
void bp_remote_poll(struct bp_remote *remote, const struct bp_native_work *oldest);

/* Ranks of other hosts that have died, and that a call needs; call: what this
 * rank is in. NULL oldest: all are needed. */
enum bp_status bp_remote_check_dead(struct bp_remote *remote, const struct bp_native_work *oldest);
/* Time is up, and nobody of this host is behind. */
void bp_remote_report_timeout(struct bp_remote *remote, const struct bp_native_work *work);
/* While ranks are joined by their library: this one says that it waits there; those of other hosts
 * that have not said so since the last call of the second one are put into the text, which is empty
 * if there are none. */
void bp_remote_publish_joins(struct bp_remote *remote);
void bp_remote_find_stuck(struct bp_remote *remote, char *text, size_t size);

#endif
