/* SPDX-License-Identifier: Apache-2.0 */
/* handle.c: knows the handles of the stand-ins: a table of the living ones by address, and the last
 * destroyed ones, whose memory is not reused yet. */
#include "internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BUCKETS = 4096
};

struct handle {
    struct handle *next;
    const char *kind;
    uint64_t number; /* in the order of creation */
    _Alignas(16) unsigned char data[];
};
static struct handle *bucket[BUCKETS];
static struct handle *destroyed[BASE_KEEP]; /* a ring */
static size_t n_destroyed;
static size_t live;
static uint64_t created;

static struct handle **handle_bucket(const void *data)
{
    uintptr_t at = (uintptr_t)data >> 4;

    return &bucket[(at ^ at >> 12) % BUCKETS];
}

static struct handle **handle_find(const void *data)
{
    struct handle **h = handle_bucket(data);

    while (*h && (*h)->data != data) h = &(*h)->next;
    return h;
}

void *base_handle_create(const char *kind, size_t size)
{
    struct handle *h = calloc(1, sizeof *h + size), **at;

    if (!h) return NULL;
    h->kind = kind;
    h->number = ++created;
    at = handle_bucket(h->data);
    h->next = *at;
    *at = h;
    live++;
    return h->data;
}

bool base_handle_is(const void *data, const char *kind)
{
    const struct handle *h = data ? *handle_find(data) : NULL;

    return h && h->kind == kind;
}

bool base_handle_was(const void *data)
{
    for (size_t i = 0; i < BASE_KEEP; i++)
        if (data && destroyed[i] && destroyed[i]->data == data) return true;
    return false;
}

void base_handle_destroy(void *data)
{
    struct handle **at = handle_find(data), *h = *at;

    if (!h) return;
    *at = h->next;
    live--;
    if (!base.keep) {
        free(h);
        return;
    }
    at = &destroyed[n_destroyed++ % (base.keep < BASE_KEEP ? base.keep : BASE_KEEP)];
    free(*at);
    *at = h;
}

void *base_handle_find(const char *kind, bool (*accepts)(const void *, void *), void *self)
{
    struct handle *found = NULL;

    for (size_t i = 0; i < BUCKETS; i++)
        for (struct handle *h = bucket[i]; h; h = h->next)
            if (h->kind == kind && (!found || h->number > found->number) && accepts(h->data, self))
                found = h;
    return found ? found->data : NULL;
}

size_t base_handles_live(void)
{
    return live;
}

void base_handles_print(void)
{
    for (size_t i = 0; i < BUCKETS; i++)
        for (const struct handle *h = bucket[i]; h; h = h->next)
            fprintf(stderr, "stand-in: handle %llu, %s, is not released\n",
                    (unsigned long long)h->number, h->kind);
}

/* So that a checker of leaks finds only what the app has left. */
__attribute__((destructor)) static void handles_finish(void)
{
    for (size_t i = 0; i < BASE_KEEP; i++) free(destroyed[i]);
    memset(destroyed, 0, sizeof destroyed);
}
