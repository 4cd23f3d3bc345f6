/* SPDX-License-Identifier: Apache-2.0 */
/* folded.c: keeps the constants that the compiler computed as long as programs use them. */
#include "folded.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct folded {
    struct folded *next;
    const struct bp_device *device;
    struct bp_folded_key key;
    struct bp_tensor *tensor; /* a reference */
    uint32_t users, unread; /* unread: of the users, those that do not read the contents again */
    bool empty;             /* the contents were freed */
};

enum { DISCARD_MIN = 65536 }; /* bytes; the contents of smaller constants stay */

static pthread_mutex_t folded_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list */
static struct folded *folded_list;

static bool same_key(const struct bp_folded_key *a, const struct bp_folded_key *b)
{
    return a->n == b->n && !memcmp(a->bytes, b->bytes, a->n);
}

struct bp_tensor *bp_folded_find(const struct bp_device *device, const struct bp_folded_key *key,
                                 bool *out_empty)
{
    struct bp_tensor *found = NULL;

    if (!key->bytes) return NULL;
    pthread_mutex_lock(&folded_lock);
    for (struct folded *f = folded_list; f && !found; f = f->next) {
        if (f->device != device || !same_key(&f->key, key)) continue;
        f->users++;
        found = bp_tensor_retain(f->tensor);
        *out_empty = f->empty;
    }
    pthread_mutex_unlock(&folded_lock);
    return found;
}

void bp_folded_keep(const struct bp_device *device, const struct bp_folded_key *key,
                    struct bp_tensor *tensor)
{
    struct folded *f = key->bytes ? malloc(sizeof *f + key->n) : NULL;

    if (!f) return;
    *f = (struct folded){.device = device,
                         .key = {(char *)(f + 1), key->n},
                         .users = 1,
                         .tensor = bp_tensor_retain(tensor)};
    memcpy(f->key.bytes, key->bytes, key->n);
    pthread_mutex_lock(&folded_lock);
    f->next = folded_list;
    folded_list = f;
    pthread_mutex_unlock(&folded_lock);
}

/* Returns the entry of a tensor, or NULL. The caller holds the lock. */
static struct folded *folded_of(const struct bp_tensor *tensor)
{
    struct folded *f = folded_list;

    while (f && f->tensor != tensor) f = f->next;
    return f;
}

bool bp_folded_add_user(const struct bp_tensor *tensor)
{
    struct folded *f;
    bool readable;

    pthread_mutex_lock(&folded_lock);
    f = folded_of(tensor);
    readable = !f || !f->empty;
    if (f && readable) f->users++;
    pthread_mutex_unlock(&folded_lock);
    return readable;
}

static uint64_t folded_bytes(const struct bp_tensor *t)
{
    if (t->view.layout) return t->buffer->size;
    return (uint64_t)t->view.count * (bp_dtype_bits(t->view.dtype) / 8);
}

bool bp_folded_fill(struct bp_tensor *tensor, const struct bp_tensor *from)
{
    const struct bp_view *to = &tensor->view;
    struct folded *f;

    if (from->view.flags & BP_VIEW_STRIDED || from->view.dtype != to->dtype ||
        from->view.count != to->count || from->view.layout != to->layout ||
        folded_bytes(from) != folded_bytes(tensor))
        return false;
    pthread_mutex_lock(&folded_lock);
    f = folded_of(tensor);
    if (f && f->empty) {
        memcpy(to->data, from->view.data, folded_bytes(from));
        f->empty = false;
    }
    pthread_mutex_unlock(&folded_lock);
    return true;
}

/* Whether the users are the only ones that can read the memory, which holds the elements in order.
 * Each user has a reference to the tensor, and so has the list. */
static bool may_empty(const struct folded *f)
{
    struct bp_tensor *t = f->tensor;

    return !f->empty && f->unread == f->users && folded_bytes(t) >= DISCARD_MIN &&
           !(t->view.flags & BP_VIEW_STRIDED) && atomic_load(&t->refs) == f->users + 1 &&
           atomic_load(&t->buffer->refs) == 1 && !t->buffer->source;
}

bool bp_folded_end_reads(const struct bp_tensor *tensor)
{
    struct folded *f;

    pthread_mutex_lock(&folded_lock);
    f = folded_of(tensor);
    if (f) {
        f->unread++;
        if (may_empty(f))
            f->empty = bp_buffer_discard(tensor->buffer, tensor->offset, folded_bytes(tensor));
    }
    pthread_mutex_unlock(&folded_lock);
    return f != NULL;
}

void bp_folded_release(const struct bp_tensor *tensor, bool unread)
{
    struct folded *ended = NULL;

    pthread_mutex_lock(&folded_lock);
    for (struct folded **at = &folded_list; *at; at = &(*at)->next) {
        struct folded *f = *at;
        if (f->tensor != tensor) continue;
        f->unread -= unread;
        if (!--f->users) {
            *at = f->next;
            ended = f;
        }
        break;
    }
    pthread_mutex_unlock(&folded_lock);
    if (!ended) return;
    bp_tensor_destroy(ended->tensor); /* frees memory, so not under the lock */
    free(ended);
}
