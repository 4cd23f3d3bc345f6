/* SPDX-License-Identifier: Apache-2.0 */
/* async_fixture.c: streams, events, tensors and gates of cases on order and on the allocator. */
#include "async_fixture.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    PILE = 48, /* copies in front of a gate; fewer than fill any queue */
    PILE_BYTES = 65536,
    /* A firm gate that stays shut for so long fails the case: a call waits for work for which it
     * must not wait. */
    PATIENCE_S = 10,
    /* Time for a call to return early if it does not wait for the held work. */
    OPEN_NS = 25000000,
    PAUSE_NS = 2000000, /* time for work that is not blocked to run */
    FIRM_PAUSES = 15,   /* repetitions of the pause if all gates are firm */
};

void work_init(struct work *w, struct check *c)
{
    memset(w, 0, sizeof *w);
    w->c = c;
    w->device = c->fixture->device;
}

/* Opens the same device of the same plugin. */
static enum bp_status open_again(struct work *w)
{
    const char *colon = strchr(bp_device_name(w->c->fixture->device), ':');
    uint32_t plugin, index = colon ? (uint32_t)strtoul(colon + 1, NULL, 10) : 0;
    enum bp_status status = bp_core_create(NULL, &w->core);

    if (!status) status = bp_core_load_path(w->core, w->c->fixture->library, &plugin);
    if (!status) status = bp_device_create_at(w->core, plugin, index, &w->device);
    return status;
}

bool work_init_own(struct work *w, struct check *c, const char *limit)
{
    const char *before = getenv("BP_MEM_LIMIT");
    char *old = before ? strdup(before) : NULL;
    enum bp_status status;

    work_init(w, c);
    w->device = NULL;
    if (limit) setenv("BP_MEM_LIMIT", limit, 1);
    else unsetenv("BP_MEM_LIMIT");
    status = open_again(w);
    if (old) setenv("BP_MEM_LIMIT", old, 1);
    else unsetenv("BP_MEM_LIMIT");
    free(old);
    return check_ok(c, status, "the device opened in a second core");
}

static void gate_finish(struct work *w, struct work_gate *gate)
{
    if (!gate->stream) return;
    bp_tensor_destroy(gate->pile[0]);
    bp_tensor_destroy(gate->pile[1]);
    bp_event_destroy(gate->behind);
    if (!gate->firm) return;
    pthread_mutex_lock(&gate->lock);
    gate->open = true;
    pthread_cond_broadcast(&gate->changed);
    while (!gate->left) pthread_cond_wait(&gate->changed, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
    check_that(w->c, !gate->late,
               "something waited for the work of a stream that it was not to wait for: what held "
               "the work was not let go for %d s", PATIENCE_S);
    pthread_cond_destroy(&gate->changed);
    pthread_mutex_destroy(&gate->lock);
}

void work_finish(struct work *w)
{
    if (w->opening) pthread_join(w->opener, NULL);
    for (int i = 0; i < WORK_STREAMS; i++) work_open(w, i);
    for (int i = 0; i < WORK_STREAMS; i++) gate_finish(w, &w->gate[i]);
    for (int i = 0; i < WORK_TENSORS; i++) bp_tensor_destroy(w->tensor[i]);
    for (int i = 0; i < WORK_EVENTS; i++) bp_event_destroy(w->event[i]);
    for (int i = 0; i < WORK_STREAMS; i++) bp_stream_destroy(w->stream[i]);
    if (!w->core) return;
    bp_device_destroy(w->device);
    bp_core_destroy(w->core);
}

bool work_stream(struct work *w, int stream, int64_t kind)
{
    return check_ok(w->c, bp_stream_create_with(w->device, (uint32_t)kind, &w->stream[stream]),
                    "bp_stream_create_with");
}

static uint32_t dtype_of(const struct work *w, int64_t *width)
{
    bool bytes = w->c->fixture->properties.dtypes >> BP_U8 & 1;

    *width = bytes ? 1 : 4;
    return bytes ? BP_U8 : BP_F32;
}

bool work_tensor_in(struct work *w, int tensor, int owner, uint64_t bytes, uint32_t space)
{
    int64_t width, n;
    struct bp_tensor_options o = {.size = sizeof o, .rank = 1, .space = space};

    o.dtype = dtype_of(w, &width);
    n = (int64_t)bytes / width;
    o.shape = &n;
    if (owner != WORK_HOST) o.stream = w->stream[owner];
    w->bytes[tensor] = bytes;
    return check_ok(w->c, bp_tensor_create_with(w->device, &o, &w->tensor[tensor]),
                    "bp_tensor_create_with");
}

bool work_tensor(struct work *w, int tensor, int owner, uint64_t bytes)
{
    return work_tensor_in(w, tensor, owner, bytes, BP_SPACE_DEVICE);
}

void work_drop(struct work *w, int tensor)
{
    bp_tensor_destroy(w->tensor[tensor]);
    w->tensor[tensor] = NULL;
}

void work_bytes(void *to, uint64_t size, int seed)
{
    uint64_t x = (uint64_t)seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    unsigned char *at = to;

    for (uint64_t i = 0; i + 8 <= size; i += 8) {
        x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        memcpy(at + i, &x, 8);
    }
}

static void *host_bytes(uint64_t size)
{
    void *bytes = malloc(size + 1);

    if (!bytes) abort();
    return bytes;
}

bool work_fill(struct work *w, int stream, int tensor, int seed)
{
    void *bytes = host_bytes(w->bytes[tensor]);
    enum bp_status status;

    work_bytes(bytes, w->bytes[tensor], seed);
    status = bp_tensor_write(w->stream[stream], w->tensor[tensor], bytes, w->bytes[tensor]);
    memset(bytes, 0xee, w->bytes[tensor]);
    free(bytes);
    return check_ok(w->c, status, "bp_tensor_write");
}

bool work_copy(struct work *w, int stream, int to, int from)
{
    return check_ok(w->c, bp_tensor_copy(w->stream[stream], w->tensor[to], w->tensor[from]),
                    "bp_tensor_copy");
}

static bool work_equal(struct work *w, const unsigned char *got, const unsigned char *want,
                       uint64_t size, const char *what)
{
    uint64_t i = 0;

    if (!memcmp(got, want, size)) return true;
    while (got[i] == want[i]) i++;
    return check_that(w->c, false,
                      "%s: byte %" PRIu64 " of %" PRIu64 " is 0x%02x, expected 0x%02x", what, i,
                      size, got[i], want[i]);
}

bool work_holds(struct work *w, int stream, int tensor, int seed, const char *what)
{
    uint64_t size = w->bytes[tensor];
    unsigned char *got = host_bytes(size), *want = host_bytes(size);
    bool ok;

    work_bytes(want, size, seed);
    memset(got, 0x99, size);
    ok = check_ok(w->c, bp_tensor_read(w->stream[stream], w->tensor[tensor], got, size),
                  "bp_tensor_read") &&
         work_equal(w, got, want, size, what);
    free(got);
    free(want);
    return ok;
}

bool work_record(struct work *w, int event, int stream)
{
    if (!w->event[event] && !check_ok(w->c, bp_event_create(w->device, &w->event[event]),
                                      "bp_event_create"))
        return false;
    return check_ok(w->c, bp_event_record(w->event[event], w->stream[stream]), "bp_event_record");
}

bool work_wait(struct work *w, int stream, int event)
{
    return check_ok(w->c, bp_stream_wait(w->stream[stream], w->event[event]), "bp_stream_wait");
}

bool work_sync(struct work *w, int stream)
{
    return check_ok(w->c, bp_stream_synchronize(w->stream[stream]), "bp_stream_synchronize");
}

static void work_hold(void *ctx, enum bp_status status)
{
    struct work_gate *gate = ctx;
    struct timespec until;
    int error = 0;

    (void)status;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    pthread_mutex_lock(&gate->lock);
    while (!gate->open && !error)
        error = pthread_cond_timedwait(&gate->changed, &gate->lock, &until);
    gate->late = !gate->open;
    gate->left = true;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->lock);
}

static bool pile_up(struct work *w, struct work_gate *gate)
{
    struct check *c = w->c;
    int64_t width;
    uint32_t dtype = dtype_of(w, &width);
    int64_t n = PILE_BYTES / width;
    struct bp_tensor_options o = {
        .size = sizeof o, .dtype = dtype, .rank = 1, .shape = &n, .stream = gate->stream};

    for (int i = 0; i < 2; i++)
        if (!check_ok(c, bp_tensor_create_with(w->device, &o, &gate->pile[i]),
                      "bp_tensor_create_with"))
            return false;
    for (int i = 0; i < PILE; i++)
        if (!check_ok(c, bp_tensor_copy(gate->stream, gate->pile[i & 1], gate->pile[~i & 1]),
                      "bp_tensor_copy"))
            return false;
    return check_ok(c, bp_event_create(w->device, &gate->behind), "bp_event_create") &&
           check_ok(c, bp_event_record(gate->behind, gate->stream), "bp_event_record");
}

bool work_shut(struct work *w, int stream)
{
    struct work_gate *gate = &w->gate[stream];
    enum bp_status status;

    if (bp_stream_get_flags(w->stream[stream]) == BP_STREAM_INLINE) return true;
    gate->stream = w->stream[stream];
    if (!(w->c->fixture->properties.flags & BP_DEVICE_INLINE)) return pile_up(w, gate);
    pthread_mutex_init(&gate->lock, NULL);
    pthread_cond_init(&gate->changed, NULL);
    status = bp_stream_callback(gate->stream, work_hold, gate);
    gate->firm = status == BP_OK;
    return check_ok(w->c, status, "bp_stream_callback");
}

bool work_held(struct work *w, int stream)
{
    struct work_gate *gate = &w->gate[stream];
    bool open;

    if (!gate->stream) return false;
    if (!gate->firm) return bp_event_query(gate->behind) == BP_ERR_NOT_READY;
    pthread_mutex_lock(&gate->lock);
    open = gate->open || gate->left;
    pthread_mutex_unlock(&gate->lock);
    return !open;
}

void work_open(struct work *w, int stream)
{
    struct work_gate *gate = &w->gate[stream];

    if (!gate->firm) return;
    pthread_mutex_lock(&gate->lock);
    gate->open = true;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->lock);
}

static void *open_some(void *arg)
{
    struct work *w = arg;
    struct timespec pause = {0, OPEN_NS};

    nanosleep(&pause, NULL);
    w->opened = true;
    for (int i = 0; i < WORK_STREAMS; i++)
        if (w->gates >> i & 1) work_open(w, i);
    return NULL;
}

bool work_open_soon(struct work *w, int streams)
{
    w->gates = streams;
    w->opened = false;
    w->opening = !pthread_create(&w->opener, NULL, open_some, w);
    return check_that(w->c, w->opening, "a thread could not be started");
}

bool work_was_opened(struct work *w, const char *call)
{
    bool opened = w->opened, firm = false;

    for (int i = 0; i < WORK_STREAMS; i++)
        firm = firm || (w->gates >> i & 1 && w->gate[i].firm);
    pthread_join(w->opener, NULL);
    w->opening = false;
    return check_that(w->c, opened || !firm,
                      "%s returned before the work that it waits for could begin", call);
}

static bool all_firm(const struct work *w)
{
    for (int i = 0; i < WORK_STREAMS; i++)
        if (w->gate[i].stream && !w->gate[i].firm) return false;
    return true;
}

void work_pause(struct work *w, int event)
{
    int tries = all_firm(w) ? FIRM_PAUSES : 1;

    for (int i = 0; i < tries && bp_event_query(w->event[event]) == BP_ERR_NOT_READY; i++)
        nanosleep(&(struct timespec){0, PAUSE_NS}, NULL);
}

bool work_is_behind(struct work *w, int event, int held, const char *what)
{
    enum bp_status status = bp_event_query(w->event[event]);

    return check_that(w->c, !work_held(w, held) || status == BP_ERR_NOT_READY,
                      "%s: bp_event_query answered %s, but what comes before the event has not "
                      "ended", what, bp_status_name(status));
}

bool work_wait_held(struct work *w, int stream, int event, int held)
{
    if (bp_stream_get_flags(w->stream[stream]) != BP_STREAM_INLINE)
        return work_wait(w, stream, event);
    return work_open_soon(w, 1 << held) && work_wait(w, stream, event) &&
           work_was_opened(w, "bp_stream_wait of an inline stream");
}

void work_leave(struct work *w, int stream)
{
    bp_stream_destroy(w->stream[stream]);
    w->stream[stream] = NULL;
}

static bool pools_add_up(struct work *w, const struct bp_memory_stats *sum)
{
    uint64_t reserved = 0, live = 0;

    for (uint32_t i = 0; i < bp_device_pools(w->device); i++) {
        struct bp_pool_stats s = {.size = sizeof s};
        if (!check_ok(w->c, bp_device_pool(w->device, i, &s), "bp_device_pool") ||
            !check_that(w->c, s.reserved == s.allocated + s.rounding + s.pending + s.free,
                        "pool %u: reserved is %" PRIu64 ", but allocated %" PRIu64
                        " + rounding %" PRIu64 " + pending %" PRIu64 " + free %" PRIu64
                        " is something else",
                        i, s.reserved, s.allocated, s.rounding, s.pending, s.free) ||
            !check_that(w->c, s.largest_free <= s.free && s.allocated <= s.peak,
                        "pool %u: largest_free %" PRIu64 " of free %" PRIu64 ", allocated %" PRIu64
                        " below a peak of %" PRIu64,
                        i, s.largest_free, s.free, s.allocated, s.peak))
            return false;
        reserved += s.reserved;
        live += s.live;
    }
    return check_that(w->c, reserved == sum->reserved && live == sum->live,
                      "the pools have %" PRIu64 " bytes and %" PRIu64 " live allocations, the "
                      "device %" PRIu64 " and %" PRIu64,
                      reserved, live, sum->reserved, sum->live);
}

bool work_stats(struct work *w, struct bp_memory_stats *out)
{
    struct bp_memory_stats s = {.size = sizeof s};
    uint64_t paths;

    if (!check_ok(w->c, bp_device_memory(w->device, &s), "bp_device_memory")) return false;
    paths = s.hits + s.from_common + s.from_others + s.from_segments + s.after_poll +
            s.after_release + s.after_pressure + s.stolen + s.after_wait;
    *out = s;
    return check_that(w->c, s.reserved == s.allocated + s.rounding + s.pending + s.free,
                      "reserved is %" PRIu64 ", but allocated %" PRIu64 " + rounding %" PRIu64
                      " + pending %" PRIu64 " + free %" PRIu64 " is something else",
                      s.reserved, s.allocated, s.rounding, s.pending, s.free) &&
           check_that(w->c, paths == s.allocations,
                      "%" PRIu64 " allocations, but %" PRIu64 " by the paths that they took",
                      s.allocations, paths) &&
           check_that(w->c, s.peak_reserved >= s.reserved && (!s.limit || s.reserved <= s.limit),
                      "reserved is %" PRIu64 ", its peak %" PRIu64 ", its limit %" PRIu64,
                      s.reserved, s.peak_reserved, s.limit) &&
           pools_add_up(w, &s);
}
