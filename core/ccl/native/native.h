/* SPDX-License-Identifier: Apache-2.0 */
/* native.h: communicators whose ranks' devices talk to each other by themselves, by the library of
 * their plugin (interface 3, backplane/ccl.h). Calls are work of the stream, and nobody waits for
 * them here: a thread watches those under way, and ends them when a rank does not come or dies. */
#ifndef BP_NATIVE_PRIVATE_H
#define BP_NATIVE_PRIVATE_H

#include "../comm.h"

/* A call that was given to the device and is not known to have ended. */
struct bp_flight {
    struct bp_timeline *timeline;
    uint64_t number;   /* of its work */
    uint64_t sequence; /* of its post; 0: sends and receives */
    struct bp_board_given *given; /* these, n_given of them, its own; or NULL */
    uint32_t n_given;
    uint64_t what, count;
    uint64_t began;    /* when it was its turn on the stream; 0: not yet */
    uint64_t timeout_ns;
    bool submitted;
};

struct bp_native {
    struct bp_comm *comm;
    const struct bp_ccl *ccl;
    void *self, *raw;      /* the plugin's instance, and its communicator */
    pthread_mutex_t call;  /* held while raw is given something, and while it is aborted */
    pthread_mutex_t lock;  /* of all below */
    pthread_cond_t moved;
    pthread_t thread;
    struct bp_flight *flight; /* in the order of the calls */
    uint32_t n, room;
    struct bp_flight late; /* which time is up for, and other hosts may be to blame */
    bool is_late;
    uint64_t dead_since;   /* a rank was found dead that a call may need; 0: none */
    bool closing;
    _Atomic bool aborted;
};

/* What each rank says of having joined. */
struct bp_native_word {
    uint32_t status, zero;
    char why[200];
};

/* What rank 0 brings to all: how it came to the id of the communicator to be, and the id. */
struct bp_native_id {
    struct bp_native_word word;
    _Alignas(16) uint8_t bytes[BP_CCL_ID_MAX]; /* as many as bp_native_id_size says */
};

/* Bytes of an id of a plugin's. */
static inline uint64_t bp_native_id_size(const struct bp_ccl *ccl)
{
    return ccl->unique_id_long ? ccl->id_size : sizeof(struct bp_ccl_id);
}

/* native.c. What a rank says of its device's library: ranks that say the same use it together. "":
 * it has none; why: of use to a reader. */
enum { BP_NATIVE_TEXT = 96 };
void bp_native_describe(const struct bp_device *device, char text[BP_NATIVE_TEXT], char *why,
                        size_t size);
/* Joins the ranks of comm, all of which said the same. Where one of them cannot, none is: comm->way
 * says why, and comm->native stays NULL. */
enum bp_status bp_native_create(struct bp_comm *comm, uint64_t timeout_ns);
/* A status, with this thread's message. */
void bp_native_say(struct bp_native_word *word, enum bp_status status);
/* native_join.c. Has the library join this rank. *out says whether it did, or another says that it
 * did not; not BP_OK: the communicator has failed, as a rank died or none got any further until the
 * deadline. *out_raw only if both are well. */
enum bp_status bp_native_join(struct bp_comm *comm, const void *id, uint64_t deadline,
                              void **out_raw, struct bp_native_word *out);
/* The app gives comm back. */
void bp_native_close(struct bp_native *native);
void bp_native_free(struct bp_native *native);

/* watchdog.c. Begins the thread, which has a reference to the communicator. */
enum bp_status bp_watch_begin(struct bp_native *native);
/* A call is about to be given to the device, and the flight is the watch's; it has been, or, not
 * after all. */
enum bp_status bp_watch_push(struct bp_native *native, const struct bp_flight *flight);
/* Waits until this call is no more than BP_FAR_POSTS after the first that has not ended. */
enum bp_status bp_watch_await(struct bp_native *native, uint64_t sequence);
/* There may be something to say to other hosts. */
void bp_watch_wake(struct bp_native *native);
void bp_watch_given(struct bp_native *native, uint64_t number, bool given);
/* Time is up for a call, and those to blame are of this host. */
void bp_watch_late(struct bp_board *b, const struct bp_flight *f);

#endif
