/* SPDX-License-Identifier: Apache-2.0 */
/* names.c: gives each text of a recording a number, and writes it to the file once. */
#include "profile.h"

#include <stdlib.h>

/* Further texts are all "...", so that an app that makes up names does not fill memory. */
enum {
    NAMES_MAX = 1 << 20,
    LENGTH_MAX = 4096,
    ROOM_FIRST = 1024
};

static uint32_t text_hash(const char *text, size_t length)
{
    uint32_t h = 2166136261u; /* FNV-1a */

    for (size_t i = 0; i < length; i++) h = (h ^ (unsigned char)text[i]) * 16777619u;
    return h;
}

enum bp_status bp_profile_names_init(struct bp_profile_names *names)
{
    *names = (struct bp_profile_names){.room = ROOM_FIRST};
    names->table = calloc(names->room, sizeof *names->table);
    if (!names->table) return bp_error(BP_ERR_MEMORY, "no host memory for a profiler");
    pthread_mutex_init(&names->lock, NULL);
    return BP_OK;
}

static void names_grow(struct bp_profile_names *names)
{
    uint32_t room = names->room * 4;
    struct bp_profile_text **table = calloc(room, sizeof *table);

    if (!table) return;
    for (uint32_t i = 0; i < names->room; i++)
        for (struct bp_profile_text *t = names->table[i], *next; t; t = next) {
            next = t->next;
            t->next = table[t->hash % room];
            table[t->hash % room] = t;
        }
    free(names->table);
    names->table = table;
    names->room = room;
}

static bool names_write(struct bp_profile_names *names, struct bp_profile_file *file,
                        const struct bp_profile_text *text)
{
    struct bp_profile_name head = {text->number, text->length};
    uint32_t bytes = (uint32_t)(sizeof head + text->length + 7) & ~7u, used;
    char *at;

    if (!names->chunk || atomic_load_explicit(&names->chunk->used, memory_order_relaxed) + bytes >
                             BP_PROFILE_CHUNK - sizeof *names->chunk) {
        bp_profile_chunk_release(names->chunk);
        names->chunk = bp_profile_file_chunk(file, BP_PROFILE_CHUNK_NAMES, 0, 0);
        if (!names->chunk) return false;
    }
    used = atomic_load_explicit(&names->chunk->used, memory_order_relaxed);
    at = (char *)(names->chunk + 1) + used;
    memcpy(at, &head, sizeof head);
    memcpy(at + sizeof head, text->text, text->length);
    atomic_store_explicit(&names->chunk->used, used + bytes, memory_order_release);
    return true;
}

static struct bp_profile_text *names_add(struct bp_profile_names *names,
                                         struct bp_profile_file *file, const char *text,
                                         size_t length, uint32_t hash)
{
    struct bp_profile_text *t = malloc(sizeof *t + length + 1);

    if (!t) return NULL;
    t->number = names->n + 1;
    t->hash = hash;
    t->length = (uint32_t)length;
    memcpy(t->text, text, length);
    t->text[length] = 0;
    if (!names_write(names, file, t)) {
        free(t);
        return NULL;
    }
    if (names->n++ >= names->room) names_grow(names);
    t->next = names->table[hash % names->room];
    names->table[hash % names->room] = t;
    return t;
}

const struct bp_profile_text *bp_profile_names_find(struct bp_profile_names *names,
                                                    struct bp_profile_file *file, const char *text)
{
    size_t length = strnlen(text, LENGTH_MAX);
    uint32_t hash = text_hash(text, length);
    struct bp_profile_text *t;

    pthread_mutex_lock(&names->lock);
    for (int attempt = 0; attempt < 2; attempt++) {
        for (t = names->table[hash % names->room]; t; t = t->next)
            if (t->hash == hash && t->length == length && !memcmp(t->text, text, length)) break;
        if (t || names->n < NAMES_MAX) break;
        text = "...";
        length = 3;
        hash = text_hash(text, length);
    }
    if (!t) t = names_add(names, file, text, length, hash);
    pthread_mutex_unlock(&names->lock);
    return t;
}

void bp_profile_names_finish(struct bp_profile_names *names)
{
    for (uint32_t i = 0; i < names->room; i++)
        for (struct bp_profile_text *t = names->table[i], *next; t; t = next) {
            next = t->next;
            free(t);
        }
    free(names->table);
    bp_profile_chunk_release(names->chunk);
    pthread_mutex_destroy(&names->lock);
}
