/* SPDX-License-Identifier: Apache-2.0 */
/* memory_returned.c: checks that memory is returned to the system and to the device: after each
 * round of creating and destroying objects, as much memory is in use as before. */
#include "suites.h"
#include "async_fixture.h"
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

enum {
    ROUNDS = 3, /* measured rounds; one unmeasured round precedes them */
    /* Further rounds if the device had less free memory after each round: other processes may have
     * taken it. */
    MORE = 9,
    TENSORS = 8,
    BYTES = 1 << 20,
    EVENTS = 4000,
    STREAMS = 64,
    HOST_MEMORY = 1,              /* DLPack's number of host memory */
    MAPPED = TENSORS * BYTES / 2, /* bytes by which mapped memory may grow in each round */
    OF_EVENT = 8,                 /* bytes; a leak loses at least as many for each event */
    /* A plugin may keep less for each stream until it is destroyed. */
    OF_STREAM = 128
};

/* Exists if a sanitizer replaces the allocator of the process. */
size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

uint64_t heap_in_use(void)
{
    if (__sanitizer_get_current_allocated_bytes) return __sanitizer_get_current_allocated_bytes();
#if defined __GLIBC__ && __GLIBC_PREREQ(2, 33)
    struct mallinfo2 info = mallinfo2();

    return (uint64_t)info.uordblks + (uint64_t)info.hblkhd;
#else
    return 0;
#endif
}

/* Free bytes on the device. 0: the driver does not report them, or the memory is the machine's,
 * which other processes use too. */
static uint64_t device_free(struct bp_device *device)
{
    struct bp_device_properties p = {.size = sizeof p};
    struct bp_memory_stats s = {.size = sizeof s};

    if (bp_device_get_properties(device, &p) || p.dlpack_type == HOST_MEMORY) return 0;
    return bp_device_emulated(device) & BP_EMULATED_MEMORY_INFO || bp_device_memory(device, &s)
               ? 0
               : s.device_free;
}

/* Bytes that the process has mapped, by any of its libraries. 0: the number is not usable, because
 * a driver that reports its free memory, or a sanitizer's allocator, also keeps mappings for later
 * use. */
static uint64_t returned_mapped(struct bp_device *device)
{
    unsigned long long pages = 0;
    FILE *file = NULL;

    if (!__sanitizer_get_current_allocated_bytes && !device_free(device))
        file = fopen("/proc/self/statm", "r");
    if (!file) return 0;
    if (fscanf(file, "%llu", &pages) != 1) pages = 0;
    fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Number of open files of the process; objects of a driver may be files. */
static uint64_t files_open(void)
{
    DIR *folder = opendir("/proc/self/fd");
    uint64_t n = 0;

    while (folder && readdir(folder)) n++;
    if (folder) closedir(folder);
    return n;
}

/* Creates and destroys objects on a device. */
typedef bool round_fn(struct work *w);

static bool returned_by_tensors(struct work *w)
{
    bool ok = true;

    for (int i = 0; ok && i < TENSORS; i++) ok = work_tensor(w, i, WORK_HOST, BYTES);
    for (int i = 0; i < WORK_TENSORS; i++) work_drop(w, i);
    return ok && check_ok(w->c, bp_device_trim(w->device), "bp_device_trim");
}

static bool returned_by_events(struct work *w)
{
    struct bp_event **event = calloc(EVENTS, sizeof *event);
    bool ok = event && work_stream(w, 0, 0) && work_tensor(w, 0, 0, 64) && work_tensor(w, 1, 0, 64);

    /* Each event is recorded behind other work; otherwise two may share one event of the driver. */
    for (int i = 0; ok && i < EVENTS; i++)
        ok = work_copy(w, 0, i % 2, (i + 1) % 2) &&
             check_ok(w->c, bp_event_create(w->device, &event[i]), "bp_event_create") &&
             check_ok(w->c, bp_event_record(event[i], w->stream[0]), "bp_event_record");
    if (ok) ok = work_sync(w, 0);
    for (int i = 0; event && i < EVENTS; i++) bp_event_destroy(event[i]);
    free(event);
    work_drop(w, 0);
    work_drop(w, 1);
    work_leave(w, 0);
    return ok;
}

static bool returned_by_streams(struct work *w)
{
    bool ok = true;

    for (int i = 0; ok && i < STREAMS; i++) {
        ok = work_stream(w, i % WORK_STREAMS, 0) && work_sync(w, i % WORK_STREAMS);
        work_leave(w, i % WORK_STREAMS);
    }
    return ok;
}

/* The smallest growth in any of n rounds. */
struct growth {
    uint64_t heap, device, mapped, files;
    int n;
};

static uint64_t returned_rise(uint64_t from, uint64_t to)
{
    return to > from ? to - from : 0;
}

static uint64_t returned_less(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static bool returned_measure(struct work *w, round_fn *run, struct growth *least)
{
    *least = (struct growth){UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, 0};
    for (int i = 0; i <= ROUNDS || (least->device && i <= ROUNDS + MORE); i++) {
        uint64_t heap = heap_in_use(), free = device_free(w->device),
                 map = returned_mapped(w->device);
        uint64_t files = files_open();
        if (!run(w)) return false;
        if (!i) continue;
        least->n = i;
        least->heap = returned_less(least->heap, returned_rise(heap, heap_in_use()));
        least->device = returned_less(least->device, returned_rise(device_free(w->device), free));
        least->mapped = returned_less(least->mapped,
                                      returned_rise(map, returned_mapped(w->device)));
        least->files = returned_less(least->files, returned_rise(files, files_open()));
    }
    return true;
}

static void returned_judge(struct check *c, const struct growth *g, uint64_t allowed,
                           const char *what)
{
    check_that(c, g->heap <= allowed,
               "after each of %d rounds in which %s were made and destroyed the process had "
               "allocated %" PRIu64 " bytes more: the plugin does not free them",
               g->n, what, g->heap);
    check_that(c, g->device <= allowed,
               "after each of %d rounds in which %s were made and destroyed the device had %" PRIu64
               " free bytes less: the plugin does not free them",
               g->n, what, g->device);
    check_that(c, g->mapped <= MAPPED,
               "after each of %d rounds in which %s were made and destroyed the process had mapped "
               "%" PRIu64 " bytes more: the plugin does not unmap them",
               g->n, what, g->mapped);
    check_that(c, !g->files,
               "after each of %d rounds in which %s were made and destroyed the process had "
               "%" PRIu64 " more files open: the plugin does not close them",
               g->n, what, g->files);
}

static void returned_cases(struct check *c, round_fn *run, uint64_t allowed, const char *what)
{
    struct growth least;
    struct work w;

    work_init(&w, c);
    if (!heap_in_use() && !device_free(w.device) && !returned_mapped(w.device))
        check_skip(c, "neither the process's allocator nor the driver says how much is in use");
    else if (returned_measure(&w, run, &least)) returned_judge(c, &least, allowed, what);
    work_finish(&w);
}

static void returned_tensors(struct check *c, const int64_t *arg)
{
    (void)arg;
    returned_cases(c, returned_by_tensors, TENSORS * (uint64_t)BYTES / 2, "8 tensors of 1 MiB");
}

static void returned_events(struct check *c, const int64_t *arg)
{
    (void)arg;
    returned_cases(c, returned_by_events, EVENTS * (uint64_t)OF_EVENT, "4000 events");
}

static void returned_streams(struct check *c, const int64_t *arg)
{
    (void)arg;
    returned_cases(c, returned_by_streams, STREAMS * (uint64_t)OF_STREAM, "64 streams");
}

/* Opens the device in a core of its own, uses and closes it. */
static bool returned_by_device(struct work *w)
{
    struct work own;
    bool ok = work_init_own(&own, w->c, NULL) && returned_by_events(&own) &&
              returned_by_tensors(&own);

    work_finish(&own);
    return ok;
}

static void returned_device(struct check *c, const int64_t *arg)
{
    (void)arg;
    returned_cases(c, returned_by_device, EVENTS * (uint64_t)OF_EVENT,
                   "a device with 4000 events and 8 tensors");
}

const struct check_case suite_memory_returned[] = {
    {"returned/tensors", returned_tensors},
    {"returned/events", returned_events},
    {"returned/streams", returned_streams},
    {"returned/device", returned_device},
    {NULL, NULL},
};
