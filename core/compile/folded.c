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
    uint32_t users;
};

static pthread_mutex_t folded_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list */
static struct folded *folded_list;

static bool same_key(const struct bp_folded_key *a, const struct bp_folded_key *b)
{
    return a->n == b->n && !memcmp(a->bytes, b->bytes, a->n);
}

struct bp_tensor *bp_folded_find(const struct bp_device *device, const struct bp_folded_key *key)
{
    struct bp_tensor *found = NULL;

    if (!key->bytes) return NULL;
    pthread_mutex_lock(&folded_lock);
    for (struct folded *f = folded_list; f && !found; f = f->next) {
        if (f->device != device || !same_key(&f->key, key)) continue;
        f->users++;
        found = bp_tensor_retain(f->tensor);
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

void bp_folded_release(const struct bp_tensor *tensor)
{
    struct folded *ended = NULL;

    pthread_mutex_lock(&folded_lock);
    for (struct folded **at = &folded_list; *at; at = &(*at)->next) {
        struct folded *f = *at;
        if (f->tensor != tensor) continue;
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
