/* SPDX-License-Identifier: Apache-2.0 */
/* source.c: frees the contents of frozen buffers that nothing reads, and lets their owners write
 * them again before something does. */
#include "source.h"
#include "../plugin/entry.h"

#include <stdlib.h>
#include <string.h>

enum {
    SOURCE_MIN = 65536, /* bytes; the contents of smaller buffers stay */
    BINS = 256          /* a power of two */
};

struct bp_source {
    struct bp_buffer_source head;
    struct bp_source *next;   /* in its bin */
    struct bp_buffer *buffer; /* which has the source; no reference */
    uint64_t id;              /* of the buffer */
    uint64_t offset, bytes;
    pthread_mutex_t lock;         /* guards the members below; held while the owner writes */
    struct bp_source_owner owner; /* write NULL: released; the contents stay */
    uint32_t users, unread; /* unread: of the users, those that do not read the contents again */
    uint32_t restores;
    bool empty; /* the contents are freed */
};

static pthread_mutex_t bins_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the bins; taken alone */
static struct bp_source *bins[BINS];

static struct bp_source *source_of(const struct bp_buffer *buffer)
{
    return (struct bp_source *)buffer->source; /* its first member */
}

static struct bp_source **source_bin(uint64_t id)
{
    return &bins[id % BINS];
}

/* Ends the owner's part. The lock is held, or no other thread knows the source. Returns the owner,
 * whose release the caller calls without the lock. */
static struct bp_source_owner source_take_owner(struct bp_source *s)
{
    struct bp_source_owner owner = s->owner;

    s->owner = (struct bp_source_owner){NULL, NULL, NULL};
    return owner;
}

static void owner_release(const struct bp_source_owner *owner)
{
    if (owner->release) owner->release(owner->ctx);
}

static void source_destroy(struct bp_buffer *buffer)
{
    struct bp_source *s = source_of(buffer), **at = source_bin(s->id);
    struct bp_source_owner owner = source_take_owner(s);

    pthread_mutex_lock(&bins_lock);
    while (*at != s) at = &(*at)->next;
    *at = s->next;
    pthread_mutex_unlock(&bins_lock);
    buffer->source = NULL;
    pthread_mutex_destroy(&s->lock);
    free(s);
    owner_release(&owner);
}

static bool may_have_source(const struct bp_buffer *buffer, uint64_t bytes)
{
    const struct bp_device *device = buffer->device;

    return bytes >= SOURCE_MIN && !buffer->source && buffer->pool && buffer->block.n &&
           device->is_inline && device->host_visible && device->entry->runtime.memory_discard &&
           atomic_load(&buffer->refs) == 1;
}

bool bp_source_create(struct bp_buffer *buffer, uint64_t offset, uint64_t bytes,
                      const struct bp_source_owner *owner)
{
    struct bp_source *s = may_have_source(buffer, bytes) ? malloc(sizeof *s) : NULL;
    struct bp_source **bin = source_bin(buffer->id);

    if (!s) return false;
    *s = (struct bp_source){.head = {source_destroy},
                            .buffer = buffer,
                            .id = buffer->id,
                            .offset = offset,
                            .bytes = bytes,
                            .owner = *owner};
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_lock(&bins_lock);
    s->next = *bin;
    *bin = s;
    pthread_mutex_unlock(&bins_lock);
    buffer->source = &s->head;
    bp_host_set_reader(bp_source_fill_number);
    return true;
}

/* Writes the contents again if they are freed. Called with the lock. */
static enum bp_status source_write(struct bp_source *s)
{
    enum bp_status status;
    char *before;

    if (!s->empty) return BP_OK;
    before = strdup(bp_error_message());
    bp_error_write("the function of its source gave no reason");
    status = s->owner.write(s->owner.ctx, (char *)s->buffer->memory.data + s->offset, s->bytes);
    if (status) { /* it must not look like a row that declines a call */
        if (status == BP_ERR_UNSUPPORTED || status == BP_ERR_NO_KERNEL) status = BP_ERR_INVALID;
        status = bp_error_more(status,
                               "the contents of a constant were freed, and could not be "
                               "written again: %s",
                               bp_error_message());
    } else {
        s->empty = false;
        s->restores++;
        bp_error_write("%s", before ? before : "");
    }
    free(before);
    return status;
}

/* Called with the lock. */
static void source_drop_if_unread(struct bp_source *s)
{
    if (s->empty || !s->owner.write || s->unread != s->users) return;
    s->empty = bp_buffer_discard(s->buffer, s->offset, s->bytes);
}

void bp_source_use(struct bp_buffer *buffer)
{
    struct bp_source *s = source_of(buffer);

    pthread_mutex_lock(&s->lock);
    s->users++;
    pthread_mutex_unlock(&s->lock);
}

enum bp_status bp_source_fill(struct bp_buffer *buffer)
{
    struct bp_source *s = source_of(buffer);
    enum bp_status status;

    pthread_mutex_lock(&s->lock);
    status = source_write(s);
    pthread_mutex_unlock(&s->lock);
    return status;
}

void bp_source_end_reads(struct bp_buffer *buffer)
{
    struct bp_source *s = source_of(buffer);

    pthread_mutex_lock(&s->lock);
    s->unread++;
    source_drop_if_unread(s);
    pthread_mutex_unlock(&s->lock);
}

void bp_source_release(struct bp_buffer *buffer, bool unread)
{
    struct bp_source *s = source_of(buffer);

    pthread_mutex_lock(&s->lock);
    s->users--;
    s->unread -= unread;
    pthread_mutex_unlock(&s->lock);
}

enum bp_status bp_source_hold(struct bp_buffer *buffer)
{
    struct bp_source *s = source_of(buffer);
    enum bp_status status;

    pthread_mutex_lock(&s->lock);
    status = source_write(s);
    if (status == BP_OK) s->users++;
    pthread_mutex_unlock(&s->lock);
    return status;
}

enum bp_status bp_source_keep(struct bp_buffer *buffer)
{
    struct bp_source *s = source_of(buffer);
    struct bp_source_owner owner = {0};
    enum bp_status status;

    pthread_mutex_lock(&s->lock);
    status = source_write(s);
    if (status == BP_OK) owner = source_take_owner(s);
    pthread_mutex_unlock(&s->lock);
    owner_release(&owner);
    return status;
}

/* The user keeps the buffer and so its source alive, so that the lock of the bins may be dropped
 * before the owner writes. */
enum bp_status bp_source_fill_number(uint64_t id)
{
    struct bp_source *s;

    pthread_mutex_lock(&bins_lock);
    for (s = *source_bin(id); s && s->id != id;) s = s->next;
    pthread_mutex_unlock(&bins_lock);
    return s ? bp_source_fill(s->buffer) : BP_OK;
}

void bp_source_describe(struct bp_buffer *buffer, bool *out_kept, bool *out_dropped,
                        uint32_t *out_restores)
{
    struct bp_source *s = source_of(buffer);

    pthread_mutex_lock(&s->lock);
    *out_kept = !s->owner.write;
    *out_dropped = s->empty;
    *out_restores = s->restores;
    pthread_mutex_unlock(&s->lock);
}
