/* SPDX-License-Identifier: Apache-2.0 */
/* read.c: reads the file of a profiler (format.h) through a mapping: bp_profile_open checks each
 * number of the file, orders the events by an index, and copies the names. */
#include "../base/base.h"
#include "convert.h"
#include "format.h"

#include <backplane/profile.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    READ_SLACK_NS = 1000000, /* that a converted time may lie outside the recording */
    READ_DIGIT = 11,         /* bits of a digit of the sort */
};
static const uint64_t read_longest = 1ull << 53; /* of a recording: 104 days, in nanoseconds */

struct read_thread {
    uint32_t thread, name;
};

/* An event while the events are sorted. */
struct read_entry {
    uint32_t low, high, record; /* begin, in two halves; the number of the record in the file */
};

struct bp_profile {
    uint32_t magic;
    uint32_t per_chunk, chunks, header_bytes, chunk_bytes, record_bytes;
    const unsigned char *map;
    size_t map_bytes;
    uint32_t *used; /* of each chunk, when the file was opened: it may still grow */
    char *text;     /* copies of all names, each ends with 0 */
    uint64_t n_text, room_text;
    uint32_t *name; /* name number i begins at text[name[i]]; 0: there is no such name */
    uint32_t n_name;
    struct read_thread *thread;
    uint32_t n_thread, room_thread;
    struct bp_clock_points clocks;
    uint32_t *order; /* record numbers, ordered by begin */
    uint64_t n_event, limit, longest_end, misdated;
    struct bp_profile_info info;
    char command[BP_PROFILE_COMMAND];
};

static bool profile_is(const struct bp_profile *profile)
{
    return bp_magic_is(profile ? profile->magic : 0, BP_MAGIC_PROFILE);
}

const char *bp_profile_kind_name(uint32_t kind)
{
    switch (kind) {
#define X(NAME, number, word) \
    case number: return #word;
        BP_RECORDS(X)
        BP_PROFILE_EVENTS(X)
#undef X
    default: return "other";
    }
}

/* ---- the file ---- */

static enum bp_status read_refused(const char *path, const char *why)
{
    return bp_error(BP_ERR_INVALID, "bp_profile_open: %s %s", path, why);
}

static enum bp_status read_map(struct bp_profile *p, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), code = errno;
    struct stat s;
    void *map;

    if (fd < 0)
        return bp_error(code == ENOENT || code == ENOTDIR ? BP_ERR_NOT_FOUND : BP_ERR_INVALID,
                        "bp_profile_open: %s cannot be opened: %s", path, strerror(code));
    if (fstat(fd, &s) || !S_ISREG(s.st_mode) || s.st_size < (off_t)sizeof p->map) {
        close(fd);
        return read_refused(path, "is empty or no regular file");
    }
    map = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_SHARED, fd, 0);
    code = errno;
    close(fd);
    if (map == MAP_FAILED)
        return bp_error(BP_ERR_INVALID, "bp_profile_open: %s cannot be mapped: %s", path,
                        strerror(code));
    p->map = map;
    p->map_bytes = (size_t)s.st_size;
    return BP_OK;
}

static enum bp_status read_header(struct bp_profile *p, const char *path)
{
    const struct bp_profile_header *h = (const void *)p->map;
    uint64_t chunks;

    if (p->map_bytes < sizeof h->magic || memcmp(h->magic, BP_PROFILE_MAGIC, sizeof h->magic - 1))
        return read_refused(path, "is no profile");
    if (p->map_bytes < sizeof *h) return read_refused(path, "ends in its header");
    if (h->version != BP_PROFILE_VERSION)
        return bp_error(BP_ERR_INVALID,
                        "bp_profile_open: %s has version %u of the format, this library reads %d",
                        path, h->version, BP_PROFILE_VERSION);
    p->header_bytes = h->header_bytes;
    p->chunk_bytes = h->chunk_bytes;
    p->record_bytes = h->record_bytes;
    if (p->header_bytes < sizeof *h || p->header_bytes > 1u << 20 || p->header_bytes % 64 ||
        p->chunk_bytes < 4096 || p->chunk_bytes > 1u << 30 || p->chunk_bytes % 64 ||
        p->record_bytes < sizeof(struct bp_profile_record) || p->record_bytes > 4096 ||
        p->record_bytes % 8)
        return read_refused(path, "has a damaged header");
    p->per_chunk = (p->chunk_bytes - (uint32_t)sizeof(struct bp_profile_chunk)) / p->record_bytes;
    chunks = p->map_bytes <= p->header_bytes
                 ? 0
                 : (p->map_bytes - p->header_bytes + p->chunk_bytes - 1) / p->chunk_bytes;
    if (!p->per_chunk || chunks > UINT32_MAX / p->per_chunk)
        return read_refused(path, "has more events than can be read");
    p->chunks = (uint32_t)chunks;
    memcpy(p->command, h->command, sizeof p->command - 1);
    p->info = (struct bp_profile_info){
        .size = sizeof p->info,
        .command = p->command,
        .start_unix_ns = h->start_unix_ns,
        .lost = atomic_load(&h->lost),
        .late = atomic_load(&h->late),
        .process = h->process,
        .is_finished = atomic_load(&h->finished) == 1,
    };
    p->info.length_ns = p->info.is_finished ? atomic_load(&h->length_ns) : 0;
    if (p->info.length_ns > read_longest) return read_refused(path, "has a damaged header");
    return BP_OK;
}

/* Chunk number index, and how many bytes of the file it has; NULL: the file ends before it. */
static const struct bp_profile_chunk *read_chunk(const struct bp_profile *p, uint32_t index,
                                                 size_t *out_bytes)
{
    size_t at = p->header_bytes + (size_t)index * p->chunk_bytes, left = p->map_bytes - at;

    if (at + sizeof(struct bp_profile_chunk) > p->map_bytes) return NULL;
    *out_bytes = left < p->chunk_bytes ? left : p->chunk_bytes;
    return (const void *)(p->map + at);
}

/* Stores how much of each chunk of a kind is counted and is in the file. */
static void chunks_count(struct bp_profile *p, uint32_t kind, size_t unit)
{
    for (uint32_t i = 0; i < p->chunks; i++) {
        size_t bytes;
        const struct bp_profile_chunk *chunk = read_chunk(p, i, &bytes);
        if (!chunk || chunk->kind != kind) continue;
        uint32_t used = atomic_load_explicit(&chunk->used, memory_order_acquire);
        size_t most = (bytes - sizeof *chunk) / unit;
        p->used[i] = used < most ? used : (uint32_t)most;
    }
}

/* A record is counted after its names, so a file that grows has the names of the records that were
 * counted first. */
static enum bp_status read_used(struct bp_profile *p)
{
    p->used = calloc(p->chunks + 1ull, sizeof *p->used);
    if (!p->used) return bp_error(BP_ERR_MEMORY, "bp_profile_open: no host memory");
    chunks_count(p, BP_PROFILE_CHUNK_RECORDS, p->record_bytes);
    chunks_count(p, BP_PROFILE_CHUNK_NAMES, 1);
    return BP_OK;
}

/* The chunk with this index if it has records, and their number. */
static const struct bp_profile_chunk *chunk_of_records(const struct bp_profile *p, uint32_t index,
                                                       uint32_t *out_n)
{
    size_t bytes;
    const struct bp_profile_chunk *chunk = read_chunk(p, index, &bytes);
    bool good = chunk && chunk->kind == BP_PROFILE_CHUNK_RECORDS && p->used[index] <= p->per_chunk;

    *out_n = good ? p->used[index] : 0;
    return good ? chunk : NULL;
}

static const struct bp_profile_record *chunk_record(const struct bp_profile *p,
                                                    const struct bp_profile_chunk *chunk,
                                                    uint32_t slot)
{
    return (const void *)((const char *)(chunk + 1) + (size_t)slot * p->record_bytes);
}

/* ---- names and threads ---- */

/* Calls `take` for each name of the file. */
static void names_each(struct bp_profile *p, void (*take)(struct bp_profile *p, uint32_t number,
                                                          const char *text, uint32_t length))
{
    for (uint32_t i = 0; i < p->chunks; i++) {
        size_t bytes;
        const struct bp_profile_chunk *chunk = read_chunk(p, i, &bytes);
        if (!chunk || chunk->kind != BP_PROFILE_CHUNK_NAMES) continue;
        const unsigned char *at = (const void *)(chunk + 1);
        size_t left = p->used[i];
        while (left >= sizeof(struct bp_profile_name)) {
            struct bp_profile_name name;
            memcpy(&name, at, sizeof name);
            size_t n = sizeof name + ((size_t)name.length + 7) / 8 * 8;
            if (sizeof name + (size_t)name.length > left) break;
            take(p, name.number, (const char *)at + sizeof name, name.length);
            if (n >= left) break;
            at += n;
            left -= n;
        }
    }
}

static void name_count(struct bp_profile *p, uint32_t number, const char *text, uint32_t length)
{
    (void)number, (void)text;
    p->n_name++;
    p->room_text += length + 1ull;
}

/* Numbers are given without gaps: a number that exceeds the count of names is damaged. */
static void name_copy(struct bp_profile *p, uint32_t number, const char *text, uint32_t length)
{
    if (!number || number > p->n_name || p->name[number]) return;
    if (length + 1ull > p->room_text - p->n_text) return;
    memcpy(p->text + p->n_text, text, length);
    p->name[number] = (uint32_t)p->n_text;
    p->n_text += length + 1ull;
}

static enum bp_status read_names(struct bp_profile *p, const char *path)
{
    p->n_text = p->room_text = 1; /* text[0] is the empty name */
    names_each(p, name_count);
    if (p->room_text > UINT32_MAX) return read_refused(path, "has more names than can be read");
    p->text = calloc(p->room_text, 1);
    p->name = calloc(p->n_name + 1ull, sizeof *p->name);
    if (!p->text || !p->name)
        return bp_error(BP_ERR_MEMORY, "bp_profile_open: no host memory for the names");
    names_each(p, name_copy);
    return BP_OK;
}

static const char *name_text(const struct bp_profile *p, uint32_t number)
{
    return number <= p->n_name ? p->text + p->name[number] : "";
}

static bool thread_add(struct bp_profile *p, uint32_t thread, uint32_t name)
{
    for (uint32_t i = p->n_thread; i-- > 0;)
        if (p->thread[i].thread == thread) return true;
    if (p->n_thread == p->room_thread) {
        uint32_t room = 2 * p->room_thread + 16;
        struct read_thread *grown = realloc(p->thread, room * sizeof *grown);
        if (!grown) return false;
        p->thread = grown;
        p->room_thread = room;
    }
    p->thread[p->n_thread++] = (struct read_thread){thread, name};
    return true;
}

/* ---- events ---- */

/* The times of a record. False: it has none, or they lie outside the recording. */
static bool record_times(const struct bp_profile *p, const struct bp_profile_record *r,
                         uint64_t *out_begin, uint64_t *out_end)
{
    int64_t begin = (int64_t)r->begin, end = (int64_t)r->end;

    if (r->flags & BP_PROFILE_RAW_CLOCK) {
        if (r->begin > r->end || !bp_clock_convert(&p->clocks, r->device, r->begin, &begin) ||
            !bp_clock_convert(&p->clocks, r->device, r->end, &end))
            return false;
    }
    if (end < begin) return false;
    if (begin < -READ_SLACK_NS || end < 0) return false;
    if (begin < 0) begin = 0;
    *out_begin = (uint64_t)begin;
    *out_end = (uint64_t)end;
    if (*out_begin > p->limit || *out_end > p->limit + READ_SLACK_NS) return false;
    if (*out_end > p->limit) *out_end = p->limit;
    return true;
}

/* The last time that an event may have. A file that is not finished has no length: its events lie
 * between its start and now. */
static uint64_t read_limit(const struct bp_profile *p)
{
    const uint64_t hour = 3600ull * 1000000000, start = p->info.start_unix_ns;
    struct timespec now;
    uint64_t ns;

    if (p->info.is_finished) return p->info.length_ns;
    clock_gettime(CLOCK_REALTIME, &now);
    ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    return ns > start && ns - start < read_longest - hour ? ns - start + hour : read_longest;
}

/* Finds the threads, the points of clocks, and the number of records. */
static enum bp_status read_chunks(struct bp_profile *p, uint64_t *out_records)
{
    for (uint32_t i = 0; i < p->chunks; i++) {
        uint32_t n;
        const struct bp_profile_chunk *chunk = chunk_of_records(p, i, &n);
        bool good = !n || !chunk->thread || thread_add(p, chunk->thread, chunk->thread_name);
        for (uint32_t slot = 0; good && slot < n; slot++) {
            const struct bp_profile_record *r = chunk_record(p, chunk, slot);
            if (r->kind == BP_PROFILE_KIND_CLOCK && r->begin <= read_longest)
                good = bp_clock_add(&p->clocks,
                                    (struct bp_clock_point){r->device, r->begin, r->end});
        }
        if (!good) return bp_error(BP_ERR_MEMORY, "bp_profile_open: no host memory");
        *out_records += n;
    }
    bp_clock_order(&p->clocks);
    return BP_OK;
}

static void read_entries(struct bp_profile *p, struct read_entry *entry)
{
    for (uint32_t i = 0; i < p->chunks; i++) {
        uint32_t n;
        const struct bp_profile_chunk *chunk = chunk_of_records(p, i, &n);
        for (uint32_t slot = 0; slot < n; slot++) {
            const struct bp_profile_record *r = chunk_record(p, chunk, slot);
            uint64_t begin, end;
            if (!r->kind || r->kind == BP_PROFILE_KIND_CLOCK) continue;
            if (!record_times(p, r, &begin, &end)) {
                p->misdated++;
                continue;
            }
            if (end > p->longest_end) p->longest_end = end;
            entry[p->n_event++] = (struct read_entry){(uint32_t)begin, (uint32_t)(begin >> 32),
                                                      i * p->per_chunk + slot};
        }
    }
}

static uint32_t entry_digit(const struct read_entry *entry, int shift)
{
    return (uint32_t)(((uint64_t)entry->high << 32 | entry->low) >> shift) &
           ((1 << READ_DIGIT) - 1);
}

/* Sorts the entries by begin, digit by digit; entries with equal times keep their order. Returns
 * the one of the two arrays that has the result. */
static struct read_entry *sort_entries(struct read_entry *from, struct read_entry *to, uint64_t n,
                                       uint64_t longest)
{
    for (int shift = 0; shift < 64 && longest >> shift; shift += READ_DIGIT) {
        uint64_t place[1 << READ_DIGIT] = {0}, sum = 0;
        struct read_entry *swap = from;
        for (uint64_t i = 0; i < n; i++) place[entry_digit(&from[i], shift)]++;
        for (uint32_t d = 0; d < 1 << READ_DIGIT; d++) {
            uint64_t count = place[d];
            place[d] = sum;
            sum += count;
        }
        for (uint64_t i = 0; i < n; i++) to[place[entry_digit(&from[i], shift)]++] = from[i];
        from = to;
        to = swap;
    }
    return from;
}

/* Of two events that begin together, the longer one encloses the other and comes first. */
static int tie_compare(const void *a, const void *b, void *profile)
{
    const struct bp_profile *p = profile;
    uint64_t end[2] = {0, 0};

    for (int i = 0; i < 2; i++) {
        uint32_t number = *(const uint32_t *)(i ? b : a), n;
        uint64_t begin;
        const struct bp_profile_chunk *chunk = chunk_of_records(p, number / p->per_chunk, &n);
        record_times(p, chunk_record(p, chunk, number % p->per_chunk), &begin, &end[i]);
    }
    if (end[0] != end[1]) return end[0] > end[1] ? -1 : 1;
    return *(const uint32_t *)a < *(const uint32_t *)b ? -1 : 1;
}

static void order_events(struct bp_profile *p, const struct read_entry *sorted)
{
    uint64_t first = 0; /* of the events that begin with this one */

    for (uint64_t i = 0; i < p->n_event; i++) {
        bool ends = i + 1 == p->n_event || sorted[i].low != sorted[i + 1].low ||
                    sorted[i].high != sorted[i + 1].high;
        p->order[i] = sorted[i].record;
        if (!ends) continue;
        if (i > first) qsort_r(p->order + first, i + 1 - first, sizeof *p->order, tie_compare, p);
        first = i + 1;
    }
}

static enum bp_status read_events(struct bp_profile *p)
{
    uint64_t n = 0;
    struct read_entry *entry, *other, *sorted;

    TRY(read_chunks(p, &n));
    entry = malloc((n + 1) * sizeof *entry);
    other = malloc((n + 1) * sizeof *other);
    p->order = malloc((n + 1) * sizeof *p->order);
    if (entry && other && p->order) {
        read_entries(p, entry);
        sorted = sort_entries(entry, other, p->n_event, p->longest_end);
        order_events(p, sorted);
    }
    free(entry);
    free(other);
    if (!entry || !other || !p->order)
        return bp_error(BP_ERR_MEMORY, "bp_profile_open: no host memory for %llu events",
                        (unsigned long long)n);
    p->info.misdated = p->misdated;
    if (!p->info.is_finished) p->info.length_ns = p->longest_end;
    return BP_OK;
}

/* ---- calls of the app ---- */

static void profile_free(struct bp_profile *p)
{
    if (p->map) munmap((void *)(uintptr_t)p->map, p->map_bytes);
    free(p->used);
    free(p->text);
    free(p->name);
    free(p->thread);
    free(p->clocks.at);
    free(p->order);
    p->magic = 0;
    free(p);
}

enum bp_status bp_profile_open(const char *path, struct bp_profile **out_profile)
{
    struct bp_profile *p;
    enum bp_status status;

    if (!path || !out_profile)
        return bp_error(BP_ERR_INVALID, "bp_profile_open: path or out_profile is NULL");
    p = calloc(1, sizeof *p);
    if (!p) return bp_error(BP_ERR_MEMORY, "bp_profile_open: no host memory");
    status = read_map(p, path);
    if (!status) status = read_header(p, path);
    if (!status) status = read_used(p);
    if (!status) status = read_names(p, path);
    if (!status) {
        p->limit = read_limit(p);
        status = read_events(p);
    }
    if (status) {
        profile_free(p);
        return status;
    }
    p->magic = bp_magic(BP_MAGIC_PROFILE);
    *out_profile = p;
    return BP_OK;
}

uint64_t bp_profile_events(struct bp_profile *profile)
{
    return profile_is(profile) ? profile->n_event : 0;
}

enum bp_status bp_profile_get_event(struct bp_profile *profile, uint64_t index,
                                    struct bp_profile_event *out)
{
    const struct bp_profile_chunk *chunk;
    const struct bp_profile_record *r;
    struct bp_profile_event full = {.size = sizeof full};
    uint32_t number;
    size_t bytes;

    if (!profile_is(profile)) return bp_not_a("profile");
    if (index >= profile->n_event)
        return bp_error(BP_ERR_INVALID,
                        "bp_profile_get_event: there are %llu events, and no number %llu",
                        (unsigned long long)profile->n_event, (unsigned long long)index);
    number = profile->order[index];
    chunk = read_chunk(profile, number / profile->per_chunk, &bytes);
    r = chunk_record(profile, chunk, number % profile->per_chunk);
    record_times(profile, r, &full.begin_ns, &full.end_ns);
    full.kind = r->kind;
    full.name = name_text(profile, r->name);
    full.kernel = name_text(profile, r->kernel);
    full.node = name_text(profile, r->node);
    full.shapes = name_text(profile, r->shapes);
    full.device = name_text(profile, r->device);
    full.stream = r->stream;
    full.thread = chunk->thread;
    full.queue = r->queue;
    full.bytes = r->bytes;
    if (r->kind == BP_PROFILE_ALLOCATE || r->kind == BP_PROFILE_FREE) full.total = r->tag;
    else full.tag = r->tag;
    full.on_device = r->flags & BP_PROFILE_ON_DEVICE ? 1 : 0;
    return bp_info_fill(out, &full, sizeof full);
}

enum bp_status bp_profile_get_info(struct bp_profile *profile, struct bp_profile_info *out)
{
    if (!profile_is(profile)) return bp_not_a("profile");
    return bp_info_fill(out, &profile->info, sizeof profile->info);
}

const char *bp_profile_thread_name(struct bp_profile *profile, uint32_t thread)
{
    for (uint32_t i = 0; profile_is(profile) && i < profile->n_thread; i++)
        if (profile->thread[i].thread == thread) return name_text(profile, profile->thread[i].name);
    return "";
}

void bp_profile_destroy(struct bp_profile *profile)
{
    if (profile_is(profile)) profile_free(profile);
}
