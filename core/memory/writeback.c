/* SPDX-License-Identifier: Apache-2.0 */
/* writeback.c: remembers which engine has newer contents than the memory of a buffer, and gets them
 * before something reads or writes that memory.
 *
 * The notes of a buffer are created before an engine first keeps its contents, and stay until the
 * buffer has no references, so that readers need no lock to find them. */
#include "writeback.h"

#include <stdlib.h>
#include <string.h>

struct bp_writeback {
    pthread_mutex_t lock;     /* guards the members below; taken alone */
    struct bp_keeper *keeper; /* a reference; NULL: the memory has the contents, or they are lost */
    uint64_t first, end;      /* the bytes of the buffer in which the kept values lie */
    uint32_t writing;         /* calls that write all of the contents now */
    enum bp_status lost;      /* why the contents are lost; BP_OK: they are not */
    char *why;                /* the message, or NULL */
};

static struct bp_writeback *writeback_of(struct bp_buffer *buffer)
{
    return atomic_load_explicit(&buffer->writeback, memory_order_acquire);
}

enum bp_status bp_writeback_create(struct bp_buffer *buffer)
{
    struct bp_writeback *made, *none = NULL;

    if (writeback_of(buffer)) return BP_OK;
    made = calloc(1, sizeof *made);
    if (!made) return bp_error(BP_ERR_MEMORY, "no host memory to note what an engine keeps");
    pthread_mutex_init(&made->lock, NULL);
    if (atomic_compare_exchange_strong(&buffer->writeback, &none, made)) return BP_OK;
    pthread_mutex_destroy(&made->lock);
    free(made);
    return BP_OK;
}

/* Called with the lock. */
static bool writeback_is_pending(const struct bp_writeback *w)
{
    return w->keeper || w->lost || w->writing;
}

void bp_writeback_destroy(struct bp_buffer *buffer)
{
    struct bp_writeback *w = writeback_of(buffer);

    if (!w) return;
    if (writeback_is_pending(w)) atomic_fetch_sub(&buffer->device->n_writebacks, 1);
    if (w->keeper) w->keeper->release(w->keeper);
    pthread_mutex_destroy(&w->lock);
    free(w->why);
    free(w);
    atomic_store_explicit(&buffer->writeback, NULL, memory_order_relaxed);
}

void bp_writeback_set(struct bp_buffer *buffer, struct bp_keeper *keeper, uint64_t first,
                      uint64_t end)
{
    struct bp_writeback *w = writeback_of(buffer);
    struct bp_keeper *before;

    pthread_mutex_lock(&w->lock);
    before = w->keeper;
    if (before == keeper) {
        if (first < w->first) w->first = first;
        if (end > w->end) w->end = end;
    } else {
        if (!writeback_is_pending(w)) atomic_fetch_add(&buffer->device->n_writebacks, 1);
        keeper->retain(keeper);
        w->keeper = keeper;
        w->first = first;
        w->end = end;
        w->lost = BP_OK;
    }
    pthread_mutex_unlock(&w->lock);
    if (before && before != keeper) before->release(before); /* two programs update it at once */
}

bool bp_writeback_is(struct bp_buffer *buffer, const struct bp_keeper *keeper)
{
    struct bp_writeback *w = writeback_of(buffer);
    bool is;

    if (!w) return false;
    pthread_mutex_lock(&w->lock);
    is = w->keeper == keeper;
    pthread_mutex_unlock(&w->lock);
    return is;
}

static bool writeback_has_keeper(struct bp_writeback *w)
{
    bool has;

    pthread_mutex_lock(&w->lock);
    has = w->keeper != NULL;
    pthread_mutex_unlock(&w->lock);
    return has;
}

bool bp_writeback_is_pending(struct bp_buffer *buffer)
{
    struct bp_writeback *w = writeback_of(buffer);
    bool is;

    if (!w) return false;
    pthread_mutex_lock(&w->lock);
    is = writeback_is_pending(w);
    pthread_mutex_unlock(&w->lock);
    return is;
}

/* Returns the keeper with a reference, or NULL: then the status says whether the contents are
 * lost. */
static struct bp_keeper *writeback_find(struct bp_writeback *w, enum bp_status *out_status)
{
    struct bp_keeper *keeper;

    pthread_mutex_lock(&w->lock);
    keeper = w->keeper;
    if (keeper) keeper->retain(keeper);
    *out_status = BP_OK;
    if (!keeper && w->lost)
        *out_status = bp_error(w->lost, "the contents of the tensor are lost: %s",
                               w->why ? w->why : "there was no memory for the reason");
    pthread_mutex_unlock(&w->lock);
    return keeper;
}

/* Whether the engine still has the values after this failure. */
static bool is_of_wait(enum bp_status status)
{
    return bp_status_is_of_wait(status) || status == BP_ERR_SHUTDOWN || status == BP_ERR_BLOCKED;
}

/* Notes that the keeper has given, or has lost, the contents. lost BP_OK: given. The reference of
 * the buffer is dropped. */
static void writeback_leave(struct bp_buffer *buffer, struct bp_keeper *keeper, enum bp_status lost,
                       const char *why)
{
    struct bp_writeback *w = writeback_of(buffer);
    char *text = why ? strdup(why) : NULL;

    pthread_mutex_lock(&w->lock);
    w->keeper = NULL;
    w->lost = lost;
    free(w->why);
    w->why = text;
    if (!writeback_is_pending(w)) atomic_fetch_sub(&buffer->device->n_writebacks, 1);
    pthread_mutex_unlock(&w->lock);
    keeper->release(keeper);
}

/* Takes the contents from the keeper. *out_done false: another thread did, and the caller looks
 * again. */
static enum bp_status writeback_take(struct bp_buffer *buffer, struct bp_keeper *keeper,
                                     bool forget, bool *out_done)
{
    enum bp_status status = keeper->begin(keeper);

    *out_done = true;
    if (status) return status;
    *out_done = bp_writeback_is(buffer, keeper);
    if (*out_done) {
        status = keeper->give(keeper, buffer, forget);
        if (status == BP_OK) writeback_leave(buffer, keeper, BP_OK, NULL);
        else if (!is_of_wait(status)) writeback_leave(buffer, keeper, status, bp_error_message());
    }
    keeper->end(keeper);
    return status;
}

static enum bp_status writeback_get(struct bp_buffer *buffer, bool forget)
{
    struct bp_writeback *w = writeback_of(buffer);
    struct bp_keeper *keeper;
    enum bp_status status = BP_OK;
    bool done = false;

    while (w && !done) {
        keeper = writeback_find(w, &status);
        if (!keeper) return status;
        status = writeback_take(buffer, keeper, forget, &done);
        keeper->release(keeper);
    }
    return status;
}

enum bp_status bp_writeback_settle(struct bp_buffer *buffer)
{
    return writeback_get(buffer, false);
}

/* Whether the contents are away, and lie in these bytes. */
static bool writeback_is_covered(struct bp_writeback *w, uint64_t offset, uint64_t bytes)
{
    bool covered;

    pthread_mutex_lock(&w->lock);
    covered = writeback_is_pending(w) && offset <= w->first && offset + bytes >= w->end;
    pthread_mutex_unlock(&w->lock);
    return covered;
}

static void writing_begin(struct bp_buffer *buffer)
{
    struct bp_writeback *w = writeback_of(buffer);

    pthread_mutex_lock(&w->lock);
    if (!writeback_is_pending(w)) atomic_fetch_add(&buffer->device->n_writebacks, 1);
    w->writing++;
    pthread_mutex_unlock(&w->lock);
}

enum bp_status bp_writeback_overwrite(struct bp_buffer *buffer, uint64_t offset, uint64_t bytes,
                                      bool *out_began)
{
    struct bp_writeback *w = writeback_of(buffer);
    enum bp_status status;

    *out_began = false;
    if (!w) return BP_OK;
    if (!writeback_is_covered(w, offset, bytes)) return bp_writeback_settle(buffer);
    writing_begin(buffer);
    status = writeback_get(buffer, true);
    if (status && writeback_has_keeper(w)) { /* the engine still has them */
        bp_writeback_end_overwrite(buffer, true);
        return status;
    }
    *out_began = true; /* contents that are lost, now or before, are of no interest */
    return BP_OK;
}

void bp_writeback_end_overwrite(struct bp_buffer *buffer, bool written)
{
    struct bp_writeback *w = writeback_of(buffer);

    pthread_mutex_lock(&w->lock);
    w->writing--;
    if (!w->keeper) {
        free(w->why);
        w->lost = written ? BP_OK : BP_ERR_INVALID;
        w->why = written ? NULL : strdup("a call that was to write all of them has failed");
    }
    if (!writeback_is_pending(w)) atomic_fetch_sub(&buffer->device->n_writebacks, 1);
    pthread_mutex_unlock(&w->lock);
}
