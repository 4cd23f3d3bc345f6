/* SPDX-License-Identifier: Apache-2.0 */
/* memory_order.c: checks that freed memory is not reused before the work that uses it has ended,
 * and is reused immediately where stream order allows it. Gates hold back work; the data then show
 * a reuse that was too early.
 *
 * In each case, held work copies tensor 0 to tensor 1. Tensor 0 is destroyed, a new tensor is
 * created, and work that is not held writes to it. */
#include "suites.h"
#include "async_fixture.h"
#include <string.h>

/* Streams. `HOME` is the owning stream, of the kind that the case states; the others are
 * asynchronous. */
enum { OWNER, USER, OTHER, THIRD };
enum { OLD, COPY, NEW, KEEPER, MORE, FILLER = WORK_TENSORS - 1 };
enum { RUN = WORK_EVENTS - 1 }; /* the event behind work of a stream that must run now */
/* From 1 MiB on the allocator looks for memory of other streams. A queue accepts writes of up to
 * that size without waiting. */
enum { SMALL = 65536, LARGE = 1 << 20 };

static bool order_begin(struct work *w, struct check *c, int64_t kind, const char *limit)
{
    if (!work_init_own(w, c, limit) || !work_stream(w, OWNER, kind)) return false;
    for (int i = USER; i <= THIRD; i++)
        if (!work_stream(w, i, BP_STREAM_ASYNC)) return false;
    return true;
}

/* Creates the target of the copy. For a large copy, a filler takes the rest of the segment, so that
 * no other large tensor fits in. */
static bool make_copy(struct work *w, uint64_t bytes)
{
    return work_tensor(w, COPY, WORK_HOST, bytes) &&
           (bytes < LARGE / 2 ||
            work_tensor(w, FILLER, WORK_HOST, 2 * LARGE - SMALL - bytes));
}

/* Creates OLD, owned by stream `home`, with seed 1, and copies it on a stream that is held. */
static bool order_use(struct work *w, int owner, int user, uint64_t bytes)
{
    return work_tensor(w, OLD, owner, bytes) && (w->tensor[COPY] || make_copy(w, bytes)) &&
           work_fill(w, OWNER, OLD, 1) && work_sync(w, OWNER) && work_shut(w, user) &&
           work_copy(w, user, COPY, OLD);
}

/* Waits until the stream's work is done, unless it may wait for held work; then waits as long as it
 * would need. */
static bool let_run(struct work *w, int stream)
{
    bool firm = false;

    for (int i = 0; i < WORK_STREAMS; i++) firm = firm || w->gate[i].firm;
    if (!firm) return work_sync(w, stream);
    return work_record(w, RUN, stream) && (work_pause(w, RUN), true);
}

/* Creates a new tensor owned by `home` and writes seed 9 to it on stream `writer`. */
static bool order_overtake(struct work *w, int owner, int writer, uint64_t bytes)
{
    return work_tensor(w, NEW, owner, bytes) && work_fill(w, writer, NEW, 9) && let_run(w, writer);
}

static void order_finish(struct work *w, int held, int writer)
{
    work_open(w, held);
    if (work_holds(w, held, COPY, 1, "memory that was given back while work used it"))
        work_holds(w, writer, NEW, 9, "memory that was taken");
}

static bool is_pending(struct work *w, int held, uint64_t bytes)
{
    struct bp_memory_stats s;

    return work_stats(w, &s) &&
           check_that(w->c, !work_held(w, held) || s.pending >= bytes,
                      "pending is %u, but work that is held uses %u bytes that were given back",
                      (unsigned)s.pending, (unsigned)bytes);
}

static bool is_not_pending(struct work *w, const char *why)
{
    struct bp_memory_stats s;

    return work_stats(w, &s) && check_that(w->c, !s.pending, "pending is %u, expected 0: %s",
                                           (unsigned)s.pending, why);
}

static void order_user(struct check *c, const int64_t *arg)
{
    struct work w;

    if (order_begin(&w, c, arg[0], NULL) && order_use(&w, OWNER, USER, SMALL)) {
        work_drop(&w, OLD);
        if (order_overtake(&w, OWNER, OWNER, SMALL)) order_finish(&w, USER, OWNER);
    }
    work_finish(&w);
}

static void user_queried(struct check *c, const int64_t *arg)
{
    struct work w;

    if (order_begin(&w, c, arg[0], NULL) && order_use(&w, OWNER, USER, SMALL)) {
        work_drop(&w, OLD);
        if (is_pending(&w, USER, SMALL) && order_overtake(&w, OWNER, OWNER, SMALL))
            order_finish(&w, USER, OWNER);
    }
    work_finish(&w);
}

/* The memory is used twice by the same stream; only the last use is held. */
static void user_again(struct check *c, const int64_t *arg)
{
    struct work w;

    if (order_begin(&w, c, arg[0], NULL) && work_tensor(&w, OLD, OWNER, SMALL) &&
        work_tensor(&w, COPY, WORK_HOST, SMALL) && work_fill(&w, OWNER, OLD, 1) &&
        work_sync(&w, OWNER) && work_copy(&w, USER, COPY, OLD) && work_sync(&w, USER) &&
        work_shut(&w, USER) && work_copy(&w, USER, COPY, OLD)) {
        work_drop(&w, OLD);
        if (order_overtake(&w, OWNER, OWNER, SMALL)) order_finish(&w, USER, OWNER);
    }
    work_finish(&w);
}

/* The memory is used by a launch. */
static void order_launched(struct check *c, const int64_t *arg)
{
    struct bp_tensor *old = NULL, *new = NULL, *sum = NULL;
    struct work w;

    if (!work_adds(c)) return;
    if (order_begin(&w, c, arg[0], NULL)) {
        int64_t n = SMALL / 4;
        if (work_floats(&w, OWNER, n, &old) && work_put(&w, OWNER, old, 1, 0) &&
            work_sync(&w, OWNER) && work_shut(&w, USER) && work_launch(&w, USER, old, old, &sum)) {
            bp_tensor_destroy(old);
            old = NULL;
            if (work_floats(&w, OWNER, n, &new) && work_put(&w, OWNER, new, 0, 9) &&
                let_run(&w, OWNER)) {
                work_open(&w, USER);
                if (work_has(&w, USER, sum, 2, 0, "the sum of a tensor that went meanwhile"))
                    work_has(&w, OWNER, new, 0, 9, "memory that was taken");
            }
        }
    }
    bp_tensor_destroy(old);
    bp_tensor_destroy(new);
    bp_tensor_destroy(sum);
    work_finish(&w);
}

/* More streams use the memory than the allocator keeps a list of; the last one is held longest. */
static void order_users(struct check *c, const int64_t *arg)
{
    enum { FIRST = USER, LAST = WORK_STREAMS - 1 };
    struct work w;
    bool ok = order_begin(&w, c, arg[0], NULL) && work_tensor(&w, OLD, OWNER, SMALL) &&
              work_fill(&w, OWNER, OLD, 1) && work_sync(&w, OWNER);

    for (int i = FIRST; ok && i <= LAST; i++)
        ok = (w.stream[i] || work_stream(&w, i, BP_STREAM_ASYNC)) && work_shut(&w, i) &&
             work_tensor(&w, MORE + i, WORK_HOST, SMALL) && work_copy(&w, i, MORE + i, OLD);
    work_drop(&w, OLD);
    for (int i = FIRST; i < LAST; i++) work_open(&w, i);
    for (int i = FIRST; ok && i < LAST; i++) ok = work_sync(&w, i);
    ok = ok && order_overtake(&w, OWNER, OWNER, SMALL);
    work_open(&w, LAST);
    for (int i = FIRST; ok && i <= LAST; i++) ok = work_holds(&w, i, MORE + i, 1, "a user's copy");
    work_finish(&w);
}

/* Memory without an owning stream may be used by the host immediately. */
static void order_host(struct check *c, const int64_t *arg)
{
    struct work w;

    if (order_begin(&w, c, arg[0], NULL) && order_use(&w, WORK_HOST, USER, SMALL)) {
        work_drop(&w, OLD);
        if (order_overtake(&w, WORK_HOST, OWNER, SMALL)) order_finish(&w, USER, OWNER);
    }
    work_finish(&w);
}

/* Work of the owning stream does not prevent reuse on the owning stream, which is in order, but it
 * prevents reuse on other streams. */
static void order_other(struct check *c, const int64_t *arg)
{
    struct work w;

    /* The copy is created first. Otherwise it would lie beside the old tensor, which must be alone
     * in its segment. */
    if (order_begin(&w, c, arg[0], NULL) && make_copy(&w, LARGE) &&
        order_use(&w, OWNER, OWNER, LARGE)) {
        work_drop(&w, OLD);
        if (order_overtake(&w, OTHER, OTHER, LARGE)) order_finish(&w, OWNER, OTHER);
    }
    work_finish(&w);
}

static void other_part(struct check *c, const int64_t *arg)
{
    struct work w;

    if (order_begin(&w, c, arg[0], NULL) && work_tensor(&w, KEEPER, OWNER, SMALL) &&
        order_use(&w, OWNER, OWNER, LARGE)) {
        work_drop(&w, OLD);
        if (order_overtake(&w, OTHER, OTHER, LARGE)) order_finish(&w, OWNER, OTHER);
    }
    work_finish(&w);
}

/* Two neighbouring blocks are merged; only the work on the later one is held. */
static void order_merged(struct check *c, const int64_t *arg)
{
    enum { HALF = 640 << 10 };
    struct work w;

    if (order_begin(&w, c, arg[0], NULL) && work_tensor(&w, MORE, OWNER, HALF) &&
        work_tensor(&w, OLD, OWNER, HALF) && work_tensor(&w, KEEPER, OWNER, SMALL) &&
        make_copy(&w, HALF) && work_fill(&w, OWNER, OLD, 1) && work_sync(&w, OWNER)) {
        work_drop(&w, MORE);
        if (work_shut(&w, OWNER) && work_copy(&w, OWNER, COPY, OLD)) {
            work_drop(&w, OLD);
            if (order_overtake(&w, OTHER, OTHER, LARGE)) order_finish(&w, OWNER, OTHER);
        }
    }
    work_finish(&w);
}

static void remainder_(struct check *c, const int64_t *arg)
{
    enum { BYTES = 1536 << 10, PART = 480 << 10 };
    struct work w;

    if (order_begin(&w, c, arg[0], NULL) && work_tensor(&w, OLD, OWNER, BYTES) &&
        work_tensor(&w, KEEPER, OWNER, SMALL) && make_copy(&w, BYTES) &&
        work_fill(&w, OWNER, OLD, 1) && work_sync(&w, OWNER) && work_shut(&w, OWNER) &&
        work_copy(&w, OWNER, COPY, OLD)) {
        work_drop(&w, OLD);
        if (work_tensor(&w, MORE, OWNER, PART) && order_overtake(&w, OTHER, OTHER, LARGE))
            order_finish(&w, OWNER, OTHER);
    }
    work_finish(&w);
}

/* Lets the owning stream wait for the user. The memory is then immediately free for the owning
 * stream, but not for others. */
static bool wait_for_user(struct work *w)
{
    return work_record(w, 0, USER) && work_wait_held(w, OWNER, 0, USER);
}

static void order_waited(struct check *c, const int64_t *arg)
{
    struct work w;

    if (order_begin(&w, c, arg[0], NULL) && work_tensor(&w, KEEPER, OWNER, SMALL) &&
        order_use(&w, OWNER, USER, LARGE) && wait_for_user(&w)) {
        work_drop(&w, OLD);
        if (order_overtake(&w, OTHER, OTHER, LARGE)) order_finish(&w, USER, OTHER);
    }
    work_finish(&w);
}

static void waited_twice(struct check *c, const int64_t *arg)
{
    struct work w;

    if (order_begin(&w, c, arg[0], NULL) && work_tensor(&w, KEEPER, OWNER, SMALL) &&
        order_use(&w, OWNER, USER, LARGE) && wait_for_user(&w)) {
        work_drop(&w, OLD);
        if (work_tensor(&w, MORE, OWNER, LARGE)) {
            work_drop(&w, MORE);
            if (order_overtake(&w, OTHER, OTHER, LARGE)) order_finish(&w, USER, OTHER);
        }
    }
    work_finish(&w);
}

/* The owning stream waits for a third stream, which waits for the user only after that point. */
static void waited_too_far(struct check *c, const int64_t *arg)
{
    struct work w;

    if (order_begin(&w, c, arg[0], NULL) && order_use(&w, OWNER, USER, SMALL) &&
        work_tensor(&w, MORE, WORK_HOST, SMALL) && work_shut(&w, THIRD) &&
        work_fill(&w, THIRD, MORE, 2) && work_record(&w, 1, THIRD) && work_record(&w, 0, USER) &&
        work_wait(&w, THIRD, 0) && work_wait_held(&w, OWNER, 1, THIRD)) {
        work_drop(&w, OLD);
        if (work_tensor(&w, NEW, OWNER, SMALL) && work_fill(&w, OWNER, NEW, 9)) {
            work_open(&w, THIRD);
            if (let_run(&w, OWNER)) order_finish(&w, USER, OWNER);
        }
    }
    work_finish(&w);
}

/* The owning stream waits for work of the user before the use. That use waits for a third
 * stream. */
static void waited_too_early(struct check *c, const int64_t *arg)
{
    struct work w;

    if (order_begin(&w, c, arg[0], NULL) && work_tensor(&w, OLD, OWNER, SMALL) &&
        work_tensor(&w, COPY, WORK_HOST, SMALL) && work_tensor(&w, MORE, WORK_HOST, SMALL) &&
        work_fill(&w, OWNER, OLD, 1) && work_sync(&w, OWNER) && work_shut(&w, THIRD) &&
        work_record(&w, 1, THIRD) && work_shut(&w, USER) && work_fill(&w, USER, MORE, 2) &&
        work_record(&w, 0, USER) && work_wait(&w, USER, 1) && work_copy(&w, USER, COPY, OLD) &&
        work_wait_held(&w, OWNER, 0, USER)) {
        work_drop(&w, OLD);
        if (work_tensor(&w, NEW, OWNER, SMALL) && work_fill(&w, OWNER, NEW, 9)) {
            work_open(&w, USER);
            let_run(&w, OWNER);
            work_open(&w, THIRD);
            order_finish(&w, USER, OWNER);
        }
    }
    work_finish(&w);
}

static void order_borrowed(struct check *c, const int64_t *arg)
{
    struct bp_memory_stats s;
    struct work w;

    if (order_begin(&w, c, arg[0], NULL) && work_tensor(&w, MORE, OWNER, LARGE) &&
        work_tensor(&w, KEEPER, OWNER, SMALL)) {
        work_drop(&w, MORE);
        if (order_use(&w, OTHER, OTHER, LARGE) && work_stats(&w, &s) &&
            check_that(c, s.from_others == 1, "%u allocations came from another stream, expected 1",
                       (unsigned)s.from_others)) {
            work_drop(&w, OLD);
            if (order_overtake(&w, OWNER, OWNER, LARGE)) order_finish(&w, OTHER, OWNER);
        }
    }
    work_finish(&w);
}

/* No other memory is left: the work of the stream that takes the block waits for that of the owning
 * stream; the host does not wait. */
static void order_stolen(struct check *c, const int64_t *arg)
{
    enum { BYTES = 256 << 10 };
    struct work w;

    if (order_begin(&w, c, arg[0], "704K") && order_use(&w, OWNER, OWNER, BYTES)) {
        work_drop(&w, OLD);
        if (order_overtake(&w, OTHER, OTHER, BYTES)) order_finish(&w, OWNER, OTHER);
    }
    work_finish(&w);
}

static bool has_space(struct work *w, uint32_t space)
{
    struct bp_buffer *buffer = NULL;
    enum bp_status status = bp_buffer_create(w->device, NULL, space, 64, &buffer);

    if (status == BP_ERR_UNSUPPORTED)
        check_unsupported(w->c, "the device has no memory of space %u", space);
    else check_ok(w->c, status, "bp_buffer_create");
    bp_buffer_destroy(buffer);
    return status == BP_OK;
}

static bool write_by_host(struct work *w, int tensor, int seed)
{
    struct bp_tensor_info info = {.size = sizeof info};

    if (!check_ok(w->c, bp_tensor_get_info(w->tensor[tensor], &info), "bp_tensor_get_info") ||
        !check_that(w->c, info.data != NULL, "the host has no address for pinned memory"))
        return false;
    work_bytes(info.data, w->bytes[tensor], seed);
    return true;
}

/* The host writes to memory directly after allocating it, whatever the streams do. */
static void of_the_host(struct check *c, const int64_t *arg, uint32_t space)
{
    struct work w;

    if (order_begin(&w, c, arg[0], NULL) && has_space(&w, space) &&
        work_tensor_in(&w, OLD, OWNER, SMALL, space) && work_tensor(&w, COPY, WORK_HOST, SMALL) &&
        write_by_host(&w, OLD, 1) && work_shut(&w, OWNER) && work_copy(&w, OWNER, COPY, OLD)) {
        work_drop(&w, OLD);
        if (work_tensor_in(&w, NEW, OWNER, SMALL, space) && write_by_host(&w, NEW, 9))
            order_finish(&w, OWNER, OWNER);
    }
    work_finish(&w);
}

static void order_pinned(struct check *c, const int64_t *arg)
{
    of_the_host(c, arg, BP_SPACE_PINNED);
}

static void order_managed(struct check *c, const int64_t *arg)
{
    of_the_host(c, arg, BP_SPACE_MANAGED);
}

/* The owning stream waits for the user and is destroyed; a new stream does not wait. */
static void order_destroyed(struct check *c, const int64_t *arg)
{
    struct work w;

    if (order_begin(&w, c, arg[0], NULL) && order_use(&w, OWNER, USER, SMALL) &&
        wait_for_user(&w)) {
        work_drop(&w, OLD);
        work_leave(&w, OWNER);
        if (work_stream(&w, OWNER, arg[0]) && order_overtake(&w, OWNER, OWNER, SMALL))
            order_finish(&w, USER, OWNER);
    }
    work_finish(&w);
}

/* The stream that used the memory reuses it in its own order. */
static void at_once(struct check *c, const int64_t *arg)
{
    struct bp_memory_stats before, after;
    struct work w;

    if (order_begin(&w, c, arg[0], NULL) && order_use(&w, OWNER, OWNER, SMALL) &&
        work_stats(&w, &before)) {
        work_drop(&w, OLD);
        if (is_not_pending(&w, "only its own stream uses it") &&
            order_overtake(&w, OWNER, OWNER, SMALL) && work_stats(&w, &after)) {
            check_that(c, after.reserved == before.reserved && after.hits == before.hits + 1,
                       "a stream did not get its own memory again, which it had given back");
            order_finish(&w, OWNER, OWNER);
        }
    }
    work_finish(&w);
}

/* Streams that share one order of work share memory without waits, so that the core knows no waits
 * between them. */
static bool knows_waits(const struct work *w)
{
    return w->c->fixture->properties.flags & BP_DEVICE_INLINE ||
           !(bp_device_emulated(w->device) & BP_EMULATED_STREAMS);
}

static void after_wait(struct check *c, const int64_t *arg)
{
    struct work w;

    if (order_begin(&w, c, arg[0], NULL) && order_use(&w, OWNER, USER, SMALL) &&
        wait_for_user(&w)) {
        work_drop(&w, OLD);
        if (!knows_waits(&w) || is_not_pending(&w, "its stream comes after the user"))
            if (order_overtake(&w, OWNER, OWNER, SMALL)) order_finish(&w, USER, OWNER);
    }
    work_finish(&w);
}

static void after_waits(struct check *c, const int64_t *arg)
{
    struct work w;

    if (order_begin(&w, c, arg[0], NULL) && order_use(&w, OWNER, USER, SMALL) &&
        work_tensor(&w, MORE, WORK_HOST, SMALL) && work_record(&w, 0, USER) &&
        work_wait(&w, THIRD, 0) && work_fill(&w, THIRD, MORE, 2) && work_record(&w, 1, THIRD) &&
        work_wait_held(&w, OWNER, 1, USER)) {
        work_drop(&w, OLD);
        if (!knows_waits(&w) || is_not_pending(&w, "its stream comes after one behind the user"))
            if (order_overtake(&w, OWNER, OWNER, SMALL)) order_finish(&w, USER, OWNER);
    }
    work_finish(&w);
}

static void after_end(struct check *c, const int64_t *arg)
{
    struct bp_memory_stats before, after;
    struct work w;

    if (order_begin(&w, c, arg[0], NULL) && order_use(&w, OWNER, USER, SMALL)) {
        work_drop(&w, OLD);
        if (is_pending(&w, USER, SMALL)) {
            work_open(&w, USER);
            if (work_sync(&w, USER) && is_not_pending(&w, "its user was waited for") &&
                work_stats(&w, &before) && order_overtake(&w, OWNER, OWNER, SMALL) &&
                work_stats(&w, &after)) {
                check_that(c, after.reserved == before.reserved, "more memory was reserved");
                order_finish(&w, USER, OWNER);
            }
        }
    }
    work_finish(&w);
}

const struct check_kinds suite_memory_order[] = {
    {"reuse/user", order_user, 1},
    {"reuse/user-asked", user_queried, 1},
    {"reuse/user-again", user_again, 1},
    {"reuse/launched", order_launched, 1},
    {"reuse/users", order_users, 1},
    {"reuse/host", order_host, 1},
    {"reuse/other", order_other, 1},
    {"reuse/other-part", other_part, 1},
    {"reuse/merged", order_merged, 1},
    {"reuse/remainder", remainder_, 1},
    {"reuse/waited", order_waited, 1},
    {"reuse/waited-twice", waited_twice, 1},
    {"reuse/waited-too-far", waited_too_far, 1},
    {"reuse/waited-too-early", waited_too_early, 1},
    {"reuse/borrowed", order_borrowed, 1},
    {"reuse/stolen", order_stolen, 1},
    {"reuse/pinned", order_pinned, 1},
    {"reuse/managed", order_managed, 1},
    {"reuse/destroyed", order_destroyed, 1},
    {"reuse/at-once", at_once, 1},
    {"reuse/after-wait", after_wait, 1},
    {"reuse/after-waits", after_waits, 1},
    {"reuse/after-end", after_end, 1},
    {NULL, NULL, 0},
};
