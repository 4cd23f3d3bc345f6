/* SPDX-License-Identifier: Apache-2.0 */
/* memory_use.c: tests copies between tensors and devices, statistics, exhaustion, and many blocks
 * at the same time. */
#include "suites.h"
#include <ops/common/cases_random.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t some_type(struct check *c)
{
    return c->fixture->properties.dtypes >> BP_F32 & 1 ? BP_F32 : BP_U8;
}

static bool use_make(struct check *c, struct bp_device *device, uint32_t dtype, int64_t n,
                     struct bp_tensor **out)
{
    return check_ok(c, bp_tensor_create(device, dtype, 1, &n, out), "bp_tensor_create");
}

static void use_fill(unsigned char *bytes, uint64_t size, uint64_t seed)
{
    struct random r = {seed * 77 + 5};

    for (uint64_t i = 0; i < size; i++) bytes[i] = (unsigned char)(random_bits(&r) >> 20);
}

static bool use_put(struct check *c, struct bp_stream *stream, struct bp_tensor *t, uint64_t size,
                    uint64_t seed)
{
    unsigned char *bytes = malloc(size + 1);
    bool ok;

    if (!bytes) abort();
    use_fill(bytes, size, seed);
    ok = check_ok(c, bp_tensor_write(stream, t, bytes, size), "bp_tensor_write");
    free(bytes);
    return ok;
}

static bool use_holds(struct check *c, struct bp_stream *stream, struct bp_tensor *t, uint64_t size,
                      uint64_t seed, const char *what)
{
    unsigned char *got = malloc(size + 1), *want = malloc(size + 1);
    bool ok;

    if (!got || !want) abort();
    use_fill(want, size, seed);
    memset(got, 0, size);
    ok = check_ok(c, bp_tensor_read(stream, t, got, size), "bp_tensor_read");
    for (uint64_t i = 0; ok && i < size; i++)
        ok = check_that(c, got[i] == want[i],
                        "%s: byte %" PRIu64 " of %" PRIu64 " is 0x%02x, expected 0x%02x", what, i,
                        size, got[i], want[i]);
    free(got);
    free(want);
    return ok;
}

static void copy_sizes(struct check *c, const int64_t *arg)
{
    static const int64_t sizes[] = {0, 1, 3, 17, 64, 257, 4096, 65537, 1 << 20};
    uint32_t dtype = some_type(c), width = num_type(dtype)->size;

    (void)arg;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct bp_tensor *a = NULL, *b = NULL;
        struct bp_stream *s = c->fixture->stream;
        uint64_t size = (uint64_t)sizes[i] * width;
        if (use_make(c, c->fixture->device, dtype, sizes[i], &a) &&
            use_make(c, c->fixture->device, dtype, sizes[i], &b) && use_put(c, s, a, size, i) &&
            use_put(c, s, b, size, i + 100) &&
            check_ok(c, bp_tensor_copy(s, b, a), "bp_tensor_copy") &&
            use_holds(c, s, b, size, i, "the copy"))
            use_holds(c, s, a, size, i, "the source");
        bp_tensor_destroy(a);
        bp_tensor_destroy(b);
    }
}

/* A copy between parts of one allocation changes no bytes outside its target. */
static void copy_views(struct check *c, const int64_t *arg)
{
    uint32_t dtype = some_type(c), width = num_type(dtype)->size;
    struct bp_tensor *base = NULL, *low = NULL, *high = NULL;
    struct bp_stream *s = c->fixture->stream;
    int64_t n = 31, one = 1;
    unsigned char *want = malloc(100 * width), *got = malloc(100 * width);

    (void)arg;
    if (!want || !got) abort();
    use_fill(want, 100 * width, 8);
    if (use_make(c, c->fixture->device, dtype, 100, &base) && use_put(c, s, base, 100 * width, 8) &&
        check_ok(c, bp_tensor_view(base, 3, 1, &n, &one, &low), "bp_tensor_view") &&
        check_ok(c, bp_tensor_view(base, 51, 1, &n, &one, &high), "bp_tensor_view") &&
        check_ok(c, bp_tensor_copy(s, high, low), "bp_tensor_copy between views") &&
        check_ok(c, bp_tensor_read(s, base, got, 100 * width), "bp_tensor_read")) {
        memcpy(want + 51 * width, want + 3 * width, 31 * width);
        check_that(c, !memcmp(got, want, 100 * width),
                   "a copy between two parts of a tensor gave wrong bytes");
    }
    bp_tensor_destroy(low);
    bp_tensor_destroy(high);
    bp_tensor_destroy(base);
    free(want);
    free(got);
}

static void copy_refused(struct check *c, const int64_t *arg)
{
    uint32_t dtype = some_type(c);
    struct bp_tensor *a = NULL, *b = NULL;

    (void)arg;
    if (use_make(c, c->fixture->device, dtype, 4, &a) &&
        use_make(c, c->fixture->device, dtype, 5, &b)) {
        check_fails(c, bp_tensor_copy(c->fixture->stream, a, b), BP_ERR_INVALID,
                    "bp_tensor_copy of another shape");
        check_fails(c, bp_tensor_copy(c->fixture->stream, a, NULL), BP_ERR_INVALID,
                    "bp_tensor_copy from NULL");
        check_fails(c, bp_tensor_copy(NULL, a, a), BP_ERR_INVALID,
                    "bp_tensor_copy without a stream");
    }
    bp_tensor_destroy(a);
    bp_tensor_destroy(b);
}

/* The next device of the same plugin, or the previous one. NULL: the plugin has no other device. */
static struct bp_device *use_neighbour(const struct check *c)
{
    const char *name = bp_device_name(c->fixture->device), *colon = strrchr(name, ':');
    long number = strtol(colon + 1, NULL, 10);
    struct bp_device *device;
    char other[96];

    for (int step = 1; step >= -1; step -= 2) {
        snprintf(other, sizeof other, "%.*s:%ld", (int)(colon - name), name, number + step);
        if (number + step >= 0 && !bp_device_create(c->fixture->core, other, &device))
            return device;
    }
    return NULL;
}

/* Copies to another device of the plugin and back, without waiting where the plugin itself copies.
 * Data written before a copy are copied, data written behind it are not. */
static void copy_peer(struct check *c, const int64_t *arg)
{
    struct bp_device *other = use_neighbour(c);
    struct bp_tensor *here = NULL, *there = NULL, *back = NULL;
    struct bp_stream *stream = NULL, *s = c->fixture->stream;
    uint32_t dtype = some_type(c);
    uint64_t size = 70001 * num_type(dtype)->size;

    (void)arg;
    if (!other) {
        check_skip(c, "the plugin has one device");
        return;
    }
    if (check_ok(c, bp_stream_create(other, &stream), "bp_stream_create on the other device") &&
        use_make(c, c->fixture->device, dtype, 70001, &here) &&
        use_make(c, other, dtype, 70001, &there) &&
        use_make(c, c->fixture->device, dtype, 70001, &back) && use_put(c, s, here, size, 1) &&
        check_ok(c, bp_tensor_copy(stream, there, here), "bp_tensor_copy to the other device") &&
        use_put(c, s, here, size, 2) &&
        check_ok(c, bp_tensor_copy(s, back, there), "bp_tensor_copy from the other device") &&
        use_put(c, stream, there, size, 3) && use_holds(c, s, back, size, 1, "back from there") &&
        use_holds(c, s, here, size, 2, "here"))
        use_holds(c, stream, there, size, 3, "on the other device");
    bp_tensor_destroy(here);
    bp_tensor_destroy(there);
    bp_tensor_destroy(back);
    bp_stream_destroy(stream);
    bp_device_destroy(other);
}

/* Copies to cpu:0 and back. */
static void copy_host(struct check *c, const int64_t *arg)
{
    struct bp_device *host = NULL;
    struct bp_tensor *here = NULL, *there = NULL, *back = NULL;
    struct bp_stream *stream = NULL, *s = c->fixture->stream;
    uint32_t dtype = some_type(c);
    uint64_t size = 4099 * num_type(dtype)->size;

    (void)arg;
    if (bp_device_create(c->fixture->core, "cpu:0", &host)) {
        check_skip(c, "there is no cpu:0 to copy to: %s", bp_error_message());
        return;
    }
    if (host == c->fixture->device) check_skip(c, "this is cpu:0 itself");
    else if (check_ok(c, bp_stream_create(host, &stream), "bp_stream_create on cpu:0") &&
             use_make(c, c->fixture->device, dtype, 4099, &here) &&
             use_make(c, host, dtype, 4099, &there) &&
             use_make(c, c->fixture->device, dtype, 4099, &back) && use_put(c, s, here, size, 1) &&
             check_ok(c, bp_tensor_copy(stream, there, here), "bp_tensor_copy to cpu:0") &&
             use_holds(c, stream, there, size, 1, "on cpu:0") &&
             check_ok(c, bp_tensor_copy(s, back, there), "bp_tensor_copy from cpu:0"))
        use_holds(c, s, back, size, 1, "back from cpu:0");
    bp_tensor_destroy(here);
    bp_tensor_destroy(there);
    bp_tensor_destroy(back);
    bp_stream_destroy(stream);
    bp_device_destroy(host);
}

/* Synchronizes first, so that no memory is pending and memory that was freed before is not
 * counted. */
static bool use_stats(struct check *c, struct bp_memory_stats *out)
{
    *out = (struct bp_memory_stats){.size = sizeof *out};
    return check_ok(c, bp_device_synchronize(c->fixture->device), "bp_device_synchronize") &&
           check_ok(c, bp_device_memory(c->fixture->device, out), "bp_device_memory");
}

static void use_statistics(struct check *c, const int64_t *arg)
{
    struct bp_memory_stats before, during, after;
    struct bp_tensor *tensor[8] = {0};
    uint32_t dtype = some_type(c);
    uint64_t requested = 0;

    (void)arg;
    if (!check_ok(c, bp_device_synchronize(c->fixture->device), "bp_device_synchronize") ||
        !use_stats(c, &before))
        return;
    for (int i = 0; i < 8; i++) {
        if (!use_make(c, c->fixture->device, dtype, 100000 * (i + 1), &tensor[i])) return;
        requested += 100000u * (unsigned)(i + 1) * num_type(dtype)->size;
    }
    if (use_stats(c, &during)) {
        check_that(c, during.allocated >= before.allocated + requested,
                   "8 tensors of %" PRIu64 " bytes in all: allocated was %" PRIu64 ", is %" PRIu64,
                   requested, before.allocated, during.allocated);
        check_that(c, during.allocations >= before.allocations + 8,
                   "8 tensors: allocations was %" PRIu64 ", is %" PRIu64, before.allocations,
                   during.allocations);
        check_that(c, during.peak >= during.allocated,
                   "peak is %" PRIu64 ", below the %" PRIu64 " allocated now", during.peak,
                   during.allocated);
        check_that(c, !during.device_total || during.device_free <= during.device_total,
                   "device_free is %" PRIu64 ", more than the device_total of %" PRIu64,
                   during.device_free, during.device_total);
        check_that(c,
                   during.reserved ==
                       during.allocated + during.rounding + during.pending + during.free,
                   "reserved is %" PRIu64 ", but allocated %" PRIu64 " + rounding %" PRIu64
                   " + pending %" PRIu64 " + free %" PRIu64 " is something else",
                   during.reserved, during.allocated, during.rounding, during.pending,
                   during.free);
    }
    for (int i = 0; i < 8; i++) bp_tensor_destroy(tensor[i]);
    if (!check_ok(c, bp_device_synchronize(c->fixture->device), "bp_device_synchronize") ||
        !use_stats(c, &after))
        return;
    check_that(c, after.allocated == before.allocated,
               "after all tensors were destroyed: allocated is %" PRIu64 ", expected the %" PRIu64
               " of before",
               after.allocated, before.allocated);
    check_that(c, after.peak >= during.allocated,
               "peak is %" PRIu64 ", but %" PRIu64 " were allocated", after.peak, during.allocated);
}

static bool has_number(const char *text)
{
    return strpbrk(text, "123456789") != NULL;
}

/* Requests more memory than exists: the call fails with an error that states numbers, and the
 * device still works. */
static void use_exhaustion(struct check *c, const int64_t *arg)
{
    uint64_t bytes = UINT64_C(1) << 50;
    uint32_t dtype = some_type(c);
    struct bp_tensor *absurd = NULL, *small = NULL;
    struct bp_memory_stats before, after;
    int64_t n = (int64_t)(bytes / num_type(dtype)->size);

    (void)arg;
    if (!use_stats(c, &before) || !use_make(c, c->fixture->device, dtype, 1000, &small) ||
        !use_put(c, c->fixture->stream, small, 1000 * num_type(dtype)->size, 3))
        return;
    for (int i = 0; i < 3; i++)
        if (!check_fails(c, bp_tensor_create(c->fixture->device, dtype, 1, &n, &absurd),
                         BP_ERR_MEMORY, "bp_tensor_create of 2^50 bytes"))
            break;
    check_that(c, has_number(bp_error_message()),
               "the message does not say how much was asked: '%s'", bp_error_message());
    check_that(c, !absurd, "a failed bp_tensor_create wrote its out parameter");
    use_holds(c, c->fixture->stream, small, 1000 * num_type(dtype)->size, 3,
              "a tensor made before the failure");
    bp_tensor_destroy(absurd);
    bp_tensor_destroy(small);
    if (check_ok(c, bp_device_synchronize(c->fixture->device), "bp_device_synchronize") &&
        use_stats(c, &after))
        check_that(c, after.allocated == before.allocated,
                   "after failures: allocated is %" PRIu64 ", expected %" PRIu64, after.allocated,
                   before.allocated);
}

enum {
    BLOCKS = 500
};

static bool block_make(struct check *c, struct bp_tensor **out, uint64_t *size, uint64_t seed)
{
    struct random r = {seed};
    uint32_t dtype = some_type(c);
    int64_t n = 1 + (int64_t)random_below(&r, seed % 10 ? 3000 : 40000);

    *size = (uint64_t)n * num_type(dtype)->size;
    return use_make(c, c->fixture->device, dtype, n, out) &&
           use_put(c, c->fixture->stream, *out, *size, seed);
}

static void many_blocks(struct check *c, const int64_t *arg)
{
    static struct bp_tensor *block[BLOCKS];
    static uint64_t size[BLOCKS], seed[BLOCKS];
    bool ok = true;

    (void)arg;
    memset(block, 0, sizeof block);
    for (uint64_t i = 0; ok && i < BLOCKS; i++)
        ok = block_make(c, &block[i], &size[i], seed[i] = i + 1);
    for (uint64_t round = 0; ok && round < 3; round++) {
        for (uint64_t i = round; i < BLOCKS; i += 3) {
            bp_tensor_destroy(block[i]);
            block[i] = NULL;
        }
        for (uint64_t i = round; ok && i < BLOCKS; i += 3)
            ok = block_make(c, &block[i], &size[i], seed[i] = i + 1000 * (round + 1));
        for (int i = 0; ok && i < BLOCKS; i++)
            ok = use_holds(c, c->fixture->stream, block[i], size[i], seed[i],
                           "one of 500 live blocks");
    }
    for (int i = 0; i < BLOCKS; i++) bp_tensor_destroy(block[i]);
}

/* Allocating and freeing repeatedly uses no memory up. */
static void use_churn(struct check *c, const int64_t *arg)
{
    uint32_t dtype = some_type(c);
    struct bp_memory_stats before, after;

    (void)arg;
    if (!use_stats(c, &before)) return;
    for (int i = 0; i < 3000; i++) {
        struct bp_tensor *t = NULL;
        if (!use_make(c, c->fixture->device, dtype, 1 + i * 37 % 5000, &t)) return;
        bp_tensor_destroy(t);
    }
    if (check_ok(c, bp_device_synchronize(c->fixture->device), "bp_device_synchronize") &&
        use_stats(c, &after))
        check_that(c, after.allocated == before.allocated,
                   "after 3000 tensors came and went: allocated is %" PRIu64 ", expected %" PRIu64,
                   after.allocated, before.allocated);
}

/* Creates and destroys a tensor, and returns its memory to the plugin. */
static bool reuse_round(struct check *c, uint32_t dtype, uint64_t size, uint64_t round)
{
    int64_t n = (int64_t)(size / num_type(dtype)->size);
    struct bp_device *device = c->fixture->device;
    struct bp_tensor *t = NULL;
    enum bp_status status = bp_tensor_create(device, dtype, 1, &n, &t);

    if (round && status == BP_ERR_MEMORY)
        return check_that(c, false,
                          "a tensor of %" PRIu64 " bytes was created and destroyed %" PRIu64
                          " times, and its memory was returned to the plugin each time; now the "
                          "device is out of memory: memory_free leaks. %s",
                          size, round, bp_error_message());
    if (!check_ok(c, status, "bp_tensor_create")) return false;
    bp_tensor_destroy(t);
    return check_ok(c, bp_device_synchronize(device), "bp_device_synchronize") &&
           check_ok(c, bp_device_trim(device), "bp_device_trim");
}

/* Allocates and frees more memory in total than exists: freed memory can be allocated again, also
 * from the plugin. */
static void use_reuse(struct check *c, const int64_t *arg)
{
    enum { ROUNDS_LEAST = 16, ROUNDS_MOST = 512 };
    uint64_t memory = c->fixture->properties.memory, size = memory ? memory / 4 : 64 << 20, rounds;
    uint32_t dtype = some_type(c);

    (void)arg;
    if (size > 1 << 30) size = 1 << 30;
    if (c->fixture->properties.max_alloc && size > c->fixture->properties.max_alloc)
        size = c->fixture->properties.max_alloc;
    rounds = memory / size + 2;
    if (rounds < ROUNDS_LEAST) rounds = ROUNDS_LEAST;
    if (rounds > ROUNDS_MOST) rounds = ROUNDS_MOST;
    for (uint64_t i = 0; i < rounds; i++)
        if (!reuse_round(c, dtype, size, i)) return;
}

static void zero_sized(struct check *c, const int64_t *arg)
{
    struct bp_memory_stats before, after;
    struct bp_tensor *t = NULL, *u = NULL;
    uint32_t dtype = some_type(c);

    (void)arg;
    if (!use_stats(c, &before) || !use_make(c, c->fixture->device, dtype, 0, &t) ||
        !use_make(c, c->fixture->device, dtype, 0, &u))
        return;
    check_ok(c, bp_tensor_write(c->fixture->stream, t, NULL, 0), "bp_tensor_write of nothing");
    check_ok(c, bp_tensor_read(c->fixture->stream, t, NULL, 0), "bp_tensor_read of nothing");
    check_ok(c, bp_tensor_copy(c->fixture->stream, t, u), "bp_tensor_copy of nothing");
    bp_tensor_destroy(t);
    bp_tensor_destroy(u);
    if (use_stats(c, &after))
        check_that(c, after.allocated == before.allocated, "tensors of size 0 left memory behind");
}

const struct check_case suite_memory_use[] = {
    {"copy/sizes", copy_sizes},       {"copy/views", copy_views},
    {"copy/refused", copy_refused},   {"copy/host", copy_host},
    {"copy/peer", copy_peer},
    {"use/statistics", use_statistics},   {"use/exhaustion", use_exhaustion},
    {"use/many-blocks", many_blocks}, {"use/churn", use_churn},
    {"use/reuse", use_reuse},
    {"use/zero-sized", zero_sized},   {NULL, NULL},
};
