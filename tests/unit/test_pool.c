/* SPDX-License-Identifier: Apache-2.0 */
/* test_pool.c: tests memory through the app API: which pool serves an allocation, the messages when
 * memory runs out, which memory is returned to the driver, and sharing with other processes.
 * test_pool_model.c tests the rules under random load. */
#include "fixture.h"

#include "../devices/fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((uint64_t)1 << 20)

/* Opens a device whose work ends on command; limit NULL: no limit. */
static struct fake *open_fake(const char *library, const char *limit, uint64_t budget,
                              struct fixture *f)
{
    char path[4096];
    struct fake *fake;
    uint32_t index;

    if (limit) setenv("BP_MEM_LIMIT", limit, 1);
    snprintf(path, sizeof path, "%s/%s", HOSTILE_DIR, library);
    fake = fake_open(path);
    cr_assert_not_null(fake);
    fake->budget = budget;
    OK(bp_core_create(NULL, &f->core));
    OK(bp_core_load_path(f->core, path, &index));
    OK(bp_device_create_at(f->core, index, 0, &f->device));
    OK(bp_stream_create(f->device, &f->stream));
    f->scope = bp_stream_scope(f->stream);
    return fake;
}

static struct bp_memory_stats stats_of(struct fixture *f)
{
    struct bp_memory_stats s = {.size = sizeof s};

    OK(bp_device_memory(f->device, &s));
    cr_assert_eq(s.reserved, s.allocated + s.rounding + s.pending + s.free);
    return s;
}

static struct bp_buffer *pool_take(struct fixture *f, struct bp_stream *stream, uint64_t size)
{
    struct bp_buffer *buffer = NULL;

    OK(bp_buffer_create(f->device, stream, BP_SPACE_DEVICE, size, &buffer));
    return buffer;
}

static char *pool_at(struct bp_buffer *buffer)
{
    struct bp_buffer_info info = {.size = sizeof info};

    OK(bp_buffer_get_info(buffer, &info));
    return info.data;
}

/* Submits work on a stream that uses two tensors: a copy. */
static void work_on(struct bp_stream *stream, struct bp_tensor *t, struct bp_tensor *u)
{
    OK(bp_tensor_copy(stream, t, u));
}

Test(pool, one_size_comes_from_one_chunk)
{
    struct fixture f = fixture_init();
    struct bp_buffer *a = pool_take(&f, f.stream, 4096), *b;
    struct bp_memory_stats s = stats_of(&f), t;
    char *first = pool_at(a);

    cr_assert_eq(s.segments, 1);
    cr_assert_eq(s.reserved, 2 * MIB);
    cr_assert_eq(s.from_segments, 1);
    for (int i = 0; i < 1000; i++) {
        bp_buffer_destroy(a);
        a = pool_take(&f, f.stream, 4096);
        cr_assert_eq(pool_at(a), first);
    }
    b = pool_take(&f, f.stream, 4096);
    cr_assert_neq(pool_at(b), first);
    t = stats_of(&f);
    cr_assert_eq(t.segments_ever, 1);
    cr_assert_eq(t.allocations, 1002);
    cr_assert_eq(t.hits, 1001);
    cr_assert_eq(t.live, 2);
    cr_assert_eq(t.peak, 8192);
    cr_assert_eq(t.largest_free, 2 * MIB - 8192);
    bp_buffer_destroy(a);
    bp_buffer_destroy(b);
    fixture_finish(&f);
}

Test(pool, chunks_grow_and_large_ones_are_exact)
{
    struct fixture f = fixture_init();
    struct bp_buffer *s[200], *large;
    uint64_t reserved;

    for (int i = 0; i < 200; i++) s[i] = pool_take(&f, f.stream, MIB / 2);
    cr_assert_eq(stats_of(&f).segments_ever, 7, "2, 2, 4, 8, 16, 32 and 64 MiB for 100, not %d",
                 (int)stats_of(&f).segments_ever);
    reserved = stats_of(&f).reserved;
    cr_assert_eq(reserved, 128 * MIB);
    large = pool_take(&f, NULL, 100 * MIB + 1);
    cr_assert_eq(stats_of(&f).reserved - reserved, 102 * MIB, "in steps of 2 MiB");
    for (int i = 0; i < 200; i++) bp_buffer_destroy(s[i]);
    bp_buffer_destroy(large);
    cr_assert_eq(stats_of(&f).free, reserved + 102 * MIB);
    OK(bp_device_trim(f.device));
    cr_assert_eq(stats_of(&f).reserved, 0);
    cr_assert_eq(stats_of(&f).peak_reserved, reserved + 102 * MIB);
    fixture_finish(&f);
}

Test(pool, requested_and_taken_bytes)
{
    struct fixture f = fixture_init();
    struct bp_buffer *none = pool_take(&f, f.stream, 0), *one = pool_take(&f, f.stream, 1),
                      *huge = NULL;
    struct bp_buffer_info info = {.size = sizeof info};

    OK(bp_buffer_get_info(none, &info));
    cr_assert(!info.data && !info.handle && !info.host && info.bytes == 0);
    OK(bp_buffer_get_info(one, &info));
    cr_assert(info.host == info.data && info.bytes == 1 && (uintptr_t)info.data % 64 == 0);
    cr_assert_eq(stats_of(&f).allocated, 1);
    cr_assert_eq(stats_of(&f).rounding, 63);
    cr_assert_eq(stats_of(&f).live, 2);
    for (int shift = 40; shift < 64; shift++) {
        uint64_t size = UINT64_C(1) << shift;
        FAILS(BP_ERR_MEMORY, "asked for",
              bp_buffer_create(f.device, f.stream, BP_SPACE_DEVICE, size - (size >> 12), &huge));
        FAILS(BP_ERR_MEMORY, "asked for",
              bp_buffer_create(f.device, NULL, BP_SPACE_DEVICE, UINT64_MAX - (shift - 40), &huge));
    }
    cr_assert_null(huge);
    bp_buffer_destroy(none);
    bp_buffer_destroy(one);
    fixture_finish(&f);
}

Test(pool, wrong_arguments)
{
    struct fixture f = fixture_init(), g;
    struct bp_buffer *s = NULL;
    struct bp_buffer_info info = {.size = sizeof info};
    struct bp_pool_stats pool = {.size = sizeof pool};
    uint64_t offset;
    int32_t fd;

    open_fake("bp_paced.so", NULL, 8 * MIB, &g);
    FAILS(BP_ERR_INVALID, "device", bp_buffer_create(NULL, f.stream, 0, 1, &s));
    FAILS(BP_ERR_INVALID, "stream of paced:0", bp_buffer_create(f.device, g.stream, 0, 1, &s));
    FAILS(BP_ERR_INVALID, "stream",
          bp_buffer_create(f.device, (struct bp_stream *)(void *)f.device, 0, 1, &s));
    FAILS(BP_ERR_INVALID, "space 3", bp_buffer_create(f.device, NULL, 3, 1, &s));
    FAILS(BP_ERR_INVALID, "out_buffer", bp_buffer_create(f.device, NULL, 0, 1, NULL));
    FAILS(BP_ERR_INVALID, "buffer", bp_buffer_get_info(NULL, &info));
    FAILS(BP_ERR_INVALID, "buffer", bp_buffer_export(NULL, &fd, &offset));
    FAILS(BP_ERR_INVALID, "buffer",
          bp_buffer_get_info((struct bp_buffer *)(void *)f.device, &info));
    FAILS(BP_ERR_INVALID, "no pool 99", bp_device_pool(f.device, 99, &pool));
    FAILS(BP_ERR_INVALID, "device", bp_device_pool(NULL, 0, &pool));
    FAILS(BP_ERR_INVALID, "device", bp_device_trim(NULL));
    cr_assert_eq(bp_device_pools(NULL), 0);
    cr_assert_null(s);
    bp_buffer_destroy(NULL);
    s = pool_take(&g, NULL, 64);
    FAILS(BP_ERR_UNSUPPORTED, "cannot map", bp_buffer_export(s, &fd, &offset));
    FAILS(BP_ERR_INVALID, "out_fd", bp_buffer_export(s, NULL, &offset));
    bp_buffer_destroy(s);
    fixture_finish(&f);
    fixture_finish(&g);
}

/* Memory that an asynchronous stream frees can be reused by this stream immediately, and by others
 * when its work has ended. */
Test(pool, memory_of_a_stream_is_reused_in_its_order)
{
    struct fixture f;
    struct fake *fake = open_fake("bp_paced.so", NULL, 4 * MIB, &f);
    struct bp_buffer *a = pool_take(&f, f.stream, 2 * MIB - 512), *b;
    struct bp_tensor *t = tensor_of(&f, BP_U8, 1, SHAPE(64), NULL),
                     *u = tensor_of(&f, BP_U8, 1, SHAPE(64), NULL);
    struct bp_stream *other;
    char *first = pool_at(a);

    OK(bp_stream_create(f.device, &other));
    work_on(f.stream, t, u);
    bp_buffer_destroy(a);
    cr_assert_eq(stats_of(&f).pending, 0);
    a = pool_take(&f, f.stream, 2 * MIB - 512);
    cr_assert_eq(pool_at(a), first, "no wait within the stream");
    bp_buffer_destroy(a);
    b = pool_take(&f, other, 2 * MIB - 512);
    cr_assert_eq(pool_at(b), first, "there is no other left");
    cr_assert_eq(stats_of(&f).stolen, 1, "behind a wait of the device's");
    cr_assert_eq(bp_device_blocked(f.device, BP_BLOCK_MEMORY), 0, "and none of the host's");
    bp_buffer_destroy(b);
    bp_tensor_destroy(t);
    bp_tensor_destroy(u);
    cr_assert_eq(fake->broken, 0);
    bp_stream_destroy(other);
    OK(bp_device_synchronize(f.device));
    fixture_finish(&f);
}

/* Leaves two freed tensors that belong to no stream, and that a copy on the stream still uses. */
static void leave_pending(struct fixture *f)
{
    struct bp_tensor *t = tensor_of(f, BP_U8, 1, SHAPE(1000000), NULL),
                     *u = tensor_of(f, BP_U8, 1, SHAPE(1000000), NULL);

    work_on(f->stream, t, u);
    bp_tensor_destroy(t);
    bp_tensor_destroy(u);
    cr_assert_eq(stats_of(f).pending, 2 * 1000192);
}

Test(pool, pending_memory_is_polled_for_not_waited_for)
{
    struct fixture f;
    struct bp_buffer *a, *b;

    open_fake("bp_paced.so", NULL, 64 * MIB, &f);
    leave_pending(&f);
    a = pool_take(&f, NULL, 2000000); /* needs a new segment */
    cr_assert_eq(stats_of(&f).pending, 2 * 1000192);
    OK(bp_stream_synchronize(f.stream));
    cr_assert_eq(stats_of(&f).pending, 0);
    b = pool_take(&f, NULL, 2000000);
    cr_assert_eq(stats_of(&f).segments_ever, 2);
    bp_buffer_destroy(a);
    bp_buffer_destroy(b);
    cr_assert_eq(bp_device_blocked(f.device, BP_BLOCK_MEMORY), 0);
    fixture_finish(&f);
}

Test(pool, exhaustion_waits_as_its_last_resort)
{
    struct fixture f;
    struct fake *fake = open_fake("bp_paced.so", NULL, 3 * MIB, &f);
    struct bp_buffer *a;

    leave_pending(&f);
    a = pool_take(&f, NULL, 2000000);
    cr_assert_eq(stats_of(&f).after_wait, 1);
    cr_assert_eq(bp_device_blocked(f.device, BP_BLOCK_MEMORY), 1);
    cr_assert_eq(fake->broken, 0);
    bp_buffer_destroy(a);
    fixture_finish(&f);
}

Test(pool, exhaustion_does_not_wait_where_that_is_denied)
{
    struct bp_buffer *a = NULL;
    struct fixture f;

    setenv("BP_BLOCK", "deny", 1);
    open_fake("bp_paced.so", NULL, 3 * MIB, &f);
    leave_pending(&f);
    FAILS(BP_ERR_BLOCKED, "memory is exhausted",
          bp_buffer_create(f.device, NULL, BP_SPACE_DEVICE, 2000000, &a));
    cr_assert_null(a);
    cr_assert_eq(stats_of(&f).pending, 2 * 1000192);
    OK(bp_device_synchronize(f.device));
    a = pool_take(&f, NULL, 2000000);
    bp_buffer_destroy(a);
    fixture_finish(&f);
}

Test(pool, free_chunks_go_back_before_memory_is_short)
{
    struct fixture f;
    struct fake *fake = open_fake("bp_paced.so", NULL, 8 * MIB, &f);
    struct bp_buffer *a = pool_take(&f, f.stream, 3 * MIB), *b = pool_take(&f, NULL, 3 * MIB);

    bp_buffer_destroy(a);
    bp_buffer_destroy(b);
    cr_assert_eq(fake->used, 8 * MIB);
    a = pool_take(&f, f.stream, 7 * MIB);
    cr_assert_eq(stats_of(&f).after_release, 1);
    cr_assert_eq(fake->segments, 3);
    bp_buffer_destroy(a);
    fixture_finish(&f);
}

Test(pool, out_of_memory_lists_the_owners)
{
    struct bp_buffer *a, *b, *c, *none = NULL;
    struct bp_stream *other;
    struct fixture f;

    open_fake("bp_paced.so", "8M", 64 * MIB, &f);
    OK(bp_stream_create(f.device, &other));
    a = pool_take(&f, f.stream, 3 * MIB);
    b = pool_take(&f, other, MIB);
    c = pool_take(&f, NULL, 1900000);
    cr_assert_eq(stats_of(&f).limit, 8 * MIB);
    FAILS(BP_ERR_MEMORY,
          "paced:0: out of memory: asked for 5242880 bytes; allocated 6094304, pending 0, free ",
          bp_buffer_create(f.device, f.stream, BP_SPACE_DEVICE, 5 * MIB, &none));
    cr_assert(strstr(bp_error_message(), "of BP_MEM_LIMIT=8388608"), "%s", bp_error_message());
    cr_assert(strstr(bp_error_message(), "stream 1 has "), "%s", bp_error_message());
    cr_assert(strstr(bp_error_message(), "stream 2 has "), "%s", bp_error_message());
    cr_assert(strstr(bp_error_message(), "no stream has "), "%s", bp_error_message());
    cr_assert_eq(bp_stream_number(f.stream), 1);
    cr_assert_eq(bp_stream_number(other), 2);
    cr_assert_null(none);
    cr_assert_eq(stats_of(&f).failures, 1);
    cr_assert_leq(stats_of(&f).reserved, 8 * MIB);
    FAILS(BP_ERR_MEMORY, "asked for 9437184 bytes",
          bp_buffer_create(f.device, NULL, BP_SPACE_DEVICE, 9 * MIB, &none));
    bp_buffer_destroy(a);
    bp_buffer_destroy(b);
    bp_buffer_destroy(c);
    a = pool_take(&f, other, 7 * MIB); /* all free segments must be returned for it */
    bp_buffer_destroy(a);
    bp_stream_destroy(other);
    fixture_finish(&f);
}

Test(pool, every_stream_and_space_has_its_figures)
{
    struct fixture f = fixture_init();
    struct bp_buffer *a = pool_take(&f, f.stream, 1000), *b = pool_take(&f, NULL, 500), *c = NULL;
    struct bp_pool_stats s = {.size = sizeof s};
    uint32_t seen = 0;

    OK(bp_buffer_create(f.device, f.stream, BP_SPACE_PINNED, 300, &c));
    for (uint32_t i = 0; i < bp_device_pools(f.device); i++) {
        OK(bp_device_pool(f.device, i, &s));
        cr_assert_eq(s.reserved, s.allocated + s.rounding + s.pending + s.free);
        if (s.stream == bp_stream_number(f.stream) && !s.space) seen += s.allocated == 1000;
        if (!s.stream && !s.space) seen += 10 * (s.allocated == 500);
        if (!s.stream && s.space == BP_SPACE_PINNED) seen += 100 * (s.allocated == 300);
    }
    cr_assert_eq(seen, 111);
    bp_buffer_destroy(a);
    bp_buffer_destroy(b);
    bp_buffer_destroy(c);
    fixture_finish(&f);
}

/* The memory of a destroyed stream is available to all. */
Test(pool, memory_of_a_stream_that_is_gone_is_used_again)
{
    struct fixture f;
    struct fake *fake = open_fake("bp_paced.so", NULL, 64 * MIB, &f);

    for (int i = 0; i < 50; i++) {
        struct bp_stream *s;
        struct bp_buffer *a;
        OK(bp_stream_create(f.device, &s));
        a = pool_take(&f, s, 100000);
        bp_stream_destroy(s);
        bp_buffer_destroy(a);
        a = pool_take(&f, i % 2 ? NULL : f.stream, 100000);
        bp_buffer_destroy(a);
    }
    cr_assert_leq(fake->segments, 3);
    fixture_finish(&f);
}

/* Buffers keep their device alive; opening it again returns the same device. */
Test(pool, buffers_keep_their_device)
{
    struct fixture f;
    struct fake *fake = open_fake("bp_paced.so", NULL, 64 * MIB, &f);
    struct bp_buffer *a = pool_take(&f, f.stream, 5), *b = pool_take(&f, NULL, 6);
    struct bp_buffer_info info = {.size = sizeof info};
    struct bp_device *again;

    fixture_finish(&f);
    cr_assert_gt(fake->used, 0);
    OK(bp_buffer_get_info(a, &info));
    cr_assert_eq(info.device, f.device);
    cr_assert_str_eq(bp_device_name(info.device), "paced:0");
    OK(bp_stream_create(info.device, &f.stream));
    again = bp_stream_device(f.stream);
    cr_assert_eq(again, f.device);
    bp_buffer_destroy(a);
    bp_stream_destroy(f.stream);
    cr_assert_gt(fake->used, 0);
    bp_buffer_destroy(b);
    cr_assert_eq(fake->used, 0, "the device has ended");
}

/* The child and this process see each other's writes. */
static int child_sees(int fd, uint64_t offset, char expected, char result)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), start = offset / page * page;
    char *map = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)start);

    if (map == MAP_FAILED || map[offset - start] != expected) return 1;
    map[offset - start + 1] = result;
    return 0;
}

Test(pool, another_process_maps_the_memory)
{
    struct fixture f = fixture_init();
    struct bp_buffer *before = pool_take(&f, f.stream, 777), *s = pool_take(&f, f.stream, 1000);
    struct bp_buffer_info info = {.size = sizeof info};
    uint64_t offset;
    volatile char *data;
    int status, copy;
    int32_t fd;

    OK(bp_buffer_export(s, &fd, &offset));
    OK(bp_buffer_get_info(s, &info));
    data = info.host;
    data[0] = 42;
    copy = dup(fd); /* as if received over a socket */
    if (!fork()) {
        fixture_finish(&f); /* the child drops its mapping and maps the file */
        _exit(child_sees(copy, offset, 42, 43));
    }
    cr_assert(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    cr_assert_eq(data[1], 43);
    cr_assert_neq(ftruncate(copy, 0), 0, "nobody can pull the memory away");
    close(copy);
    bp_buffer_destroy(s);
    bp_buffer_destroy(before);
    fixture_finish(&f);
}

static void *app_allocate(void *ctx, size_t size, size_t alignment)
{
    void *memory;

    *(uint64_t *)ctx += size;
    return posix_memalign(&memory, alignment < 8 ? 8 : alignment, size) ? NULL : memory;
}

static void app_release(void *ctx, void *memory, size_t size)
{
    *(uint64_t *)ctx -= size;
    free(memory);
}

/* An app with an allocator is called for all host memory; this memory cannot be mapped by other
 * processes. */
Test(pool, memory_of_the_app_is_not_a_file)
{
    uint64_t bytes = 0, before, offset;
    struct bp_allocator allocator = {&bytes, app_allocate, app_release};
    struct bp_core_options options = {.size = sizeof options, .allocator = &allocator};
    struct bp_buffer *s;
    struct fixture f = {0};
    int32_t fd;

    OK(bp_core_create(&options, &f.core));
    OK(bp_device_create(f.core, "cpu", &f.device));
    before = bytes;
    s = pool_take(&f, NULL, 3 * MIB);
    cr_assert_geq(bytes - before, 4 * MIB);
    FAILS(BP_ERR_UNSUPPORTED, "app's allocator", bp_buffer_export(s, &fd, &offset));
    bp_buffer_destroy(s);
    fixture_finish(&f);
    cr_assert_eq(bytes, 0);
}

#if defined(__SANITIZE_ADDRESS__)
/* Tests whether a child that reads byte `at` dies. */
static bool pool_dies(volatile char *data, long byte)
{
    int status;

    fflush(NULL);
    if (!fork()) {
        (void)data[byte];
        _exit(0);
    }
    cr_assert(wait(&status) > 0);
    return !WIFEXITED(status) || WEXITSTATUS(status);
}

Test(pool, memory_that_is_nobodys_is_poisoned)
{
    struct fixture f = fixture_init();
    struct bp_buffer *a = pool_take(&f, f.stream, 1001), *b = pool_take(&f, f.stream, 64);
    volatile char *data = pool_at(a), *next = pool_at(b);

    cr_assert_not(pool_dies(data, 0));
    cr_assert_not(pool_dies(data, 1000));
    cr_assert(pool_dies(data, 1001), "past its end");
    cr_assert(pool_dies(next, 64), "past the end of what has no rounding");
    bp_buffer_destroy(a);
    cr_assert(pool_dies(data, 0), "given back");
    cr_assert_not(pool_dies(next, 0));
    a = pool_take(&f, f.stream, 10);
    cr_assert_not(pool_dies((volatile char *)pool_at(a), 9));
    bp_buffer_destroy(a);
    bp_buffer_destroy(b);
    fixture_finish(&f);
}
#endif
