/* SPDX-License-Identifier: Apache-2.0 */
/* native_join.c: a library joins its ranks in a call that returns when all have made it, and that
 * nothing ends. So a thread makes the call, and who waits for it can leave it behind: for good, if
 * need be, with what it holds. */
#include "far.h"

#include <stdlib.h>
#include <unistd.h>

/* The call. Freed by who is the last to leave it: the thread, or who waits. */
struct entry {
    struct bp_device *device; /* a reference */
    struct bp_ccl_id id;
    uint32_t rank, size;
    pthread_t thread;
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t ended;
    bool done, left;
    void *raw;
    struct bp_native_word word;
};

static void free_entry(struct entry *e)
{
    bp_device_release(e->device);
    pthread_mutex_destroy(&e->lock);
    pthread_cond_destroy(&e->ended);
    free(e);
}

/* Nobody wants what was joined. */
static void drop(struct entry *e)
{
    const struct bp_plugin_entry *plugin = e->device->entry;

    if (e->raw) {
        plugin->ccl.comm_abort(plugin->self, e->raw);
        plugin->ccl.comm_destroy(plugin->self, e->raw);
    }
    free_entry(e);
}

static void *enter(void *arg)
{
    struct entry *e = arg;
    const struct bp_plugin_entry *plugin = e->device->entry;
    struct bp_native_word word = {.zero = 0};
    enum bp_status status;
    void *raw = NULL;
    bool left;

    bp_error_enter();
    status = plugin->ccl.comm_create(plugin->self, e->device->index, &e->id, e->rank, e->size,
                                     &raw);
    bp_native_say(&word, bp_error_leave(status, e->device->name, "comm_create"));
    pthread_mutex_lock(&e->lock);
    e->raw = status ? NULL : raw;
    e->word = word;
    e->done = true;
    left = e->left;
    pthread_cond_signal(&e->ended);
    pthread_mutex_unlock(&e->lock);
    if (left && bp_stopping()) bp_process_abandon(e);
    else if (left) drop(e);
    return NULL;
}

static enum bp_status begin(struct bp_comm *comm, const struct bp_ccl_id *id, struct entry **out)
{
    struct entry *e = calloc(1, sizeof *e);

    if (!e) return bp_error(BP_ERR_MEMORY, "bp_comm_create: no memory");
    e->device = comm->device;
    bp_device_retain(e->device);
    e->id = *id;
    e->rank = comm->rank;
    e->size = comm->size;
    pthread_mutex_init(&e->lock, NULL);
    bp_cond_init(&e->ended);
    if (!pthread_create(&e->thread, NULL, enter, e)) {
        *out = e;
        return BP_OK;
    }
    free_entry(e);
    return bp_error(BP_ERR_INTERNAL, "bp_comm_create: no thread to join %s's library",
                    comm->device->name);
}

/* Whether it ends in time. */
static bool await(struct entry *e, uint64_t ns)
{
    uint64_t until = bp_clock_ns() + ns;
    struct timespec t = bp_timespec(until);
    int late = 0;
    bool done;

    pthread_mutex_lock(&e->lock);
    while (!e->done && !late) late = pthread_cond_timedwait(&e->ended, &e->lock, &t);
    done = e->done;
    pthread_mutex_unlock(&e->lock);
    return done;
}

/* Whether it is still under way: then the thread frees it. */
static bool leave(struct entry *e)
{
    bool done;

    pthread_mutex_lock(&e->lock);
    done = e->done;
    e->left = !done;
    pthread_mutex_unlock(&e->lock);
    if (done) pthread_join(e->thread, NULL);
    else pthread_detach(e->thread);
    return !done;
}

/* Ranks that wait say so again and again, in this time too. */
static enum bp_status name_late(struct bp_comm *comm)
{
    struct bp_board *b = comm->board;
    uint32_t before[BP_BOARD_RANKS];
    char far[1000] = "";

    for (uint32_t i = 0; i < b->n; i++) before[i] = atomic_load(&b->at[i].joins);
    if (comm->far) bp_far_find_stuck(comm->far, far, sizeof far);
    for (int i = 0; i < 10; i++) {
        usleep(50000);
        atomic_fetch_add(&b->me->joins, 1);
        if (comm->far) bp_far_say_joins(comm->far);
    }
    if (comm->far) bp_far_find_stuck(comm->far, far, sizeof far);
    return bp_board_late_join(b, before, far, comm->timeout_ns);
}

/* BP_OK: nothing is wrong with the communicator; but another rank may say that it is not joined. */
static enum bp_status look(struct bp_comm *comm, uint64_t deadline, struct bp_native_word *out)
{
    struct bp_native_word word;
    char key[BP_STORE_KEY_MAX];
    uint64_t size;

    atomic_fetch_add(&comm->board->me->joins, 1);
    TRY(bp_board_check(comm->board));
    TRY(bp_fault_hear(comm->store, comm->name, false));
    if (comm->far) {
        bp_far_say_joins(comm->far);
        TRY(bp_far_look_for_dead(comm->far, NULL));
    }
    bp_store_key(key, comm->name, "unjoined", 0);
    if (bp_store_get(comm->store, key, 0, &word, sizeof word, &size) == BP_OK &&
        size == sizeof word)
        *out = word;
    return out->status || bp_time_left(deadline) ? BP_OK : name_late(comm);
}

enum bp_status bp_native_join(struct bp_comm *comm, const struct bp_ccl_id *id, uint64_t deadline,
                              void **out_raw, struct bp_native_word *out)
{
    struct bp_native_word other = {.zero = 0};
    enum bp_status status = BP_OK;
    struct entry *e;

    atomic_fetch_add(&comm->board->me->joins, 1);
    TRY(begin(comm, id, &e));
    while (!await(e, BP_MEET_LOOK_NS) && status == BP_OK && !other.status)
        status = look(comm, deadline, &other);
    if (leave(e)) {
        *out = other;
        return status;
    }
    atomic_store(&comm->board->me->joins, BP_BOARD_JOINED);
    if (comm->far) bp_far_say_joins(comm->far);
    *out = e->word;
    if (status == BP_OK) {
        *out_raw = e->raw;
        e->raw = NULL;
    }
    drop(e);
    return status;
}
