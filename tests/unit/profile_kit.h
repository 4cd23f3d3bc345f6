/* SPDX-License-Identifier: Apache-2.0 */
/* profile_kit.h: builds the image of a profiler's file (core/profile/format.h) for tests.
 *
 * The file lies in memory. A file system such as ext4 starts to write a file to its disk when it is
 * closed after it was made empty and written again, and making it empty once more waits for that:
 * a test that writes thousands of images would last as long as the disk needs. */
#ifndef PROFILE_KIT_H
#define PROFILE_KIT_H

#include "../../core/profile/format.h"

#include <backplane/backplane.h>
#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct image {
    unsigned char *bytes;
    uint32_t chunk_bytes, chunks, names; /* names: the chunk that takes the next name */
    uint32_t n_name;
    int fd;
    char path[64]; /* of the file in memory */
};

static inline size_t image_size(const struct image *f)
{
    return BP_PROFILE_HEADER + (size_t)f->chunks * f->chunk_bytes;
}

static inline struct bp_profile_header *image_header(const struct image *f)
{
    return (void *)f->bytes;
}

static inline struct bp_profile_chunk *image_chunk(const struct image *f, uint32_t index)
{
    return (void *)(f->bytes + BP_PROFILE_HEADER + (size_t)index * f->chunk_bytes);
}

/* Returns the index of a new chunk. */
static inline uint32_t image_add(struct image *f, uint32_t kind, uint32_t thread, uint32_t name)
{
    f->bytes = realloc(f->bytes, image_size(f) + f->chunk_bytes);
    memset(f->bytes + image_size(f), 0, f->chunk_bytes);
    f->chunks++;
    *image_chunk(f, f->chunks - 1) = (struct bp_profile_chunk){
        .kind = kind, .thread = thread, .thread_name = name};
    return f->chunks - 1;
}

/* length_ns 0: not finished. */
static inline void image_begin(struct image *f, uint32_t chunk_bytes, uint64_t length_ns)
{
    *f = (struct image){.chunk_bytes = chunk_bytes};
    f->bytes = calloc(1, BP_PROFILE_HEADER);
    *image_header(f) = (struct bp_profile_header){.magic = BP_PROFILE_MAGIC,
                                                  .version = BP_PROFILE_VERSION,
                                                  .header_bytes = BP_PROFILE_HEADER,
                                                  .chunk_bytes = chunk_bytes,
                                                  .record_bytes = sizeof(struct bp_profile_record),
                                                  .process = 77,
                                                  .finished = length_ns != 0,
                                                  .length_ns = length_ns,
                                                  .start_ns = 5,
                                                  .lost = 3,
                                                  .late = 4,
                                                  .start_unix_ns = 1700000000000000000,
                                                  .command = "app --fast"};
    f->names = image_add(f, BP_PROFILE_CHUNK_NAMES, 0, 0);
    f->fd = memfd_create("image", MFD_CLOEXEC);
    cr_assert(f->fd >= 0);
    snprintf(f->path, sizeof f->path, "/proc/%d/fd/%d", (int)getpid(), f->fd);
}

static inline uint32_t image_name(struct image *f, const char *text)
{
    struct bp_profile_name name = {++f->n_name, (uint32_t)strlen(text)};
    uint32_t bytes = (uint32_t)sizeof name + (name.length + 7) / 8 * 8;
    struct bp_profile_chunk *c = image_chunk(f, f->names);

    if (c->used + bytes + sizeof *c > f->chunk_bytes) {
        f->names = image_add(f, BP_PROFILE_CHUNK_NAMES, 0, 0);
        c = image_chunk(f, f->names);
    }
    memcpy((char *)(c + 1) + c->used, &name, sizeof name);
    memcpy((char *)(c + 1) + c->used + sizeof name, text, name.length);
    c->used += bytes;
    return name.number;
}

static inline struct bp_profile_record *image_record(struct image *f, uint32_t chunk,
                                                     struct bp_profile_record record)
{
    struct bp_profile_chunk *c = image_chunk(f, chunk);
    struct bp_profile_record *to = (struct bp_profile_record *)(c + 1) + c->used++;

    cr_assert((char *)(to + 1) <= (char *)c + f->chunk_bytes);
    *to = record;
    return to;
}

static inline void image_write(const struct image *f, size_t bytes)
{
    cr_assert(!ftruncate(f->fd, 0) && pwrite(f->fd, f->bytes, bytes, 0) == (ssize_t)bytes);
}

static inline void image_end(struct image *f)
{
    close(f->fd);
    free(f->bytes);
}

#endif
