/* SPDX-License-Identifier: Apache-2.0 */
/* test_bridge.c: tests the memory and the tensors of bridges. BP_TEST_DEVICE selects the device;
 * default: cpu:0. */
#include "../unit/fixture.h"
#include <bridge.h>

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

struct bridged {
    struct fixture f;
    struct bridge_memory *memory;
    struct bridge_wraps wraps;
};

static struct bridged bridged_init(void)
{
    const char *name = getenv("BP_TEST_DEVICE");
    struct bridged b = {.memory = NULL};

    OK(bp_core_create(NULL, &b.f.core));
    OK(bp_device_create(b.f.core, name ? name : "cpu:0", &b.f.device));
    OK(bp_stream_create(b.f.device, &b.f.stream));
    b.f.scope = bp_stream_scope(b.f.stream);
    OK(bridge_memory_create(b.f.device, &b.memory));
    OK(bridge_wraps_init(&b.wraps, b.memory));
    return b;
}

static void bridged_finish(struct bridged *b)
{
    bridge_wraps_finish(&b->wraps);
    bridge_memory_destroy(b->memory);
    fixture_finish(&b->f);
}

static char *bridged_allocate(struct bridged *b, uint64_t size)
{
    void *at = NULL;

    OK(bridge_memory_allocate(b->memory, b->f.stream, size, &at));
    cr_assert(at);
    return at;
}

static struct bp_tensor *bridged_tensor(struct bridged *b, const void *at, int64_t n)
{
    struct bp_tensor *t = NULL;

    OK(bridge_wrap(&b->wraps, at, BP_F32, 1, &n, &t));
    return t;
}

static void bridged_add(struct bridged *b, struct bp_tensor *x, struct bp_tensor *y,
                        struct bp_tensor *z)
{
    struct bp_arg in[2] = {{&x, 1}, {&y, 1}};
    struct bp_call call = {.size = sizeof call, .op = "add", .in = in, .n_in = 2};

    OK(bp_call_run(b->f.scope, &call, &z, 1, NULL));
}

Test(bridge, computes_at_addresses_inside_an_allocation)
{
    struct bridged b = bridged_init();
    char *a = bridged_allocate(&b, 4096), *other = bridged_allocate(&b, 256);
    struct bp_tensor *x = bridged_tensor(&b, a + 64, 4), *y = bridged_tensor(&b, a + 1024, 4),
                     *z = bridged_tensor(&b, other + 128, 4);
    float got[4];

    cr_assert(x != y && y != z, "tensors of one round are separate");
    OK(bp_tensor_write(b.f.stream, x, F32(1, 2, 3, 4), 16));
    OK(bp_tensor_write(b.f.stream, y, F32(10, 20, 30, 40), 16));
    bridged_add(&b, x, y, z);
    OK(bp_tensor_read(b.f.stream, z, got, 16));
    cr_assert_arr_eq(got, F32(11, 22, 33, 44), 16);
    bridge_wraps_begin(&b.wraps);
    cr_assert_eq(bridged_tensor(&b, other + 128, 4), x, "the next round uses the tensors again");
    OK(bp_tensor_read(b.f.stream, x, got, 16));
    cr_assert_arr_eq(got, F32(11, 22, 33, 44), 16, "at the memory of the new address");
    bridge_memory_free(b.memory, a);
    bridge_memory_free(b.memory, other);
    bridged_finish(&b);
}

Test(bridge, finds_only_what_is_allocated)
{
    struct bridged b = bridged_init();
    bool host = bridge_memory_is_host(b.memory);
    char *at[3] = {bridged_allocate(&b, 100), bridged_allocate(&b, 0), bridged_allocate(&b, 100)};
    struct bridge_place place;
    struct bridge_usage usage = bridge_memory_usage(b.memory);
    static float mine[4];

    cr_assert(usage.bytes == 200 && usage.allocations == 3);
    OK(bridge_memory_find(b.memory, at[0] + 40, 60, &place));
    cr_assert_eq(place.offset, 40);
    cr_assert_eq(bridge_memory_find(b.memory, at[0] + 40, 61, &place),
                 host ? BP_OK : BP_ERR_NOT_FOUND);
    cr_assert_eq(bridge_memory_find(b.memory, mine, 16, &place), host ? BP_OK : BP_ERR_NOT_FOUND);
    cr_assert_eq(bridge_memory_find(b.memory, NULL, 16, &place), BP_ERR_NOT_FOUND);
    bridge_memory_free(b.memory, at[0]);
    cr_assert_eq(bridge_memory_find(b.memory, at[0] + 40, 60, &place),
                 host ? BP_OK : BP_ERR_NOT_FOUND);
    OK(bridge_memory_find(b.memory, at[2], 100, &place));
    cr_assert_eq(place.offset, 0);
    bridge_memory_free(b.memory, NULL);
    usage = bridge_memory_usage(b.memory);
    cr_assert(usage.bytes == 100 && usage.peak == 200);
    bridged_finish(&b); /* frees the other two */
}

/* Bytes that the device has allocated. */
static uint64_t bridged_bytes(const struct bridged *b)
{
    struct bp_memory_stats stats = {.size = sizeof stats};

    OK(bp_device_memory(b->f.device, &stats));
    return stats.allocated;
}

Test(bridge, ended_rounds_hold_no_memory_that_was_freed)
{
    struct bridged b = bridged_init();
    uint64_t before = bridged_bytes(&b);
    static _Alignas(16) float mine[4];
    struct bp_tensor *kept = NULL;

    for (int round = 0; round < 3; round++) {
        char *a = bridged_allocate(&b, 1 << 20);
        bridge_wraps_begin(&b.wraps);
        bridged_add(&b, bridged_tensor(&b, a, 1000), bridged_tensor(&b, a + 4000, 1000),
                    bridged_tensor(&b, a + 8000, 1000));
        if (bridge_memory_is_host(b.memory)) {
            struct bp_tensor *t = bridged_tensor(&b, mine, 4);
            cr_assert(!kept || kept == t, "a tensor over the host's memory stays");
            kept = t;
        }
        bridge_memory_free(b.memory, a);
        cr_assert_geq(bridged_bytes(&b), before + (1 << 20), "the round still uses the memory");
        bridge_wraps_end(&b.wraps);
        cr_assert_eq(bridged_bytes(&b), before);
    }
    bridged_finish(&b);
}

/* Memory of the framework itself is read and written in place on a device that can. */
Test(bridge, memory_of_the_host_is_used_in_place)
{
    struct bridged b = bridged_init();
    _Alignas(16) float x[4] = {1, 2, 3, 4}, z[4];

    if (bridge_memory_is_host(b.memory)) {
        bridged_add(&b, bridged_tensor(&b, x, 4), bridged_tensor(&b, x, 4),
                    bridged_tensor(&b, z, 4));
        cr_assert_arr_eq(z, F32(2, 4, 6, 8), 16);
    }
    bridged_finish(&b);
}

/* An address of device memory that the host must not use faults at once. */
Test(bridge, an_access_by_the_host_faults)
{
    struct bridged b = bridged_init();
    volatile char *at = bridged_allocate(&b, 64);
    int status = 0;
    pid_t child;

    if (!bridge_memory_is_host(b.memory)) {
        child = fork();
        if (!child) {
            signal(SIGSEGV, SIG_DFL);
            (void)at[8];
            _exit(0);
        }
        cr_assert_eq(waitpid(child, &status, 0), child);
        cr_assert(status, "the read did not fault");
    }
    bridged_finish(&b);
}

Test(bridge, keeps_no_more_tensors_than_it_has_room_for)
{
    struct bridged b = bridged_init();
    char *a = bridged_allocate(&b, 4096);

    for (int64_t n = 1; n < 1000; n++) {
        bridge_wraps_begin(&b.wraps);
        cr_assert(bridged_tensor(&b, a, n) != bridged_tensor(&b, a, n));
    }
    cr_assert_eq(b.wraps.n_entry, BRIDGE_WRAPS);
    bridge_wraps_begin(&b.wraps);
    for (int i = 0; i < 2 * BRIDGE_WRAPS; i++) (void)bridged_tensor(&b, a, 1);
    cr_assert_eq(b.wraps.n_entry, 2 * BRIDGE_WRAPS, "one round holds as many as it needs");
    bridge_memory_free(b.memory, a);
    bridged_finish(&b);
}

Test(bridge, refuses_what_no_tensor_can_be)
{
    struct bridged b = bridged_init();
    char *a = bridged_allocate(&b, 64);
    const int64_t none[2] = {0, 3}, huge[BP_RANK_MAX + 1] = {INT64_MAX / 2, 4};
    char *nothing = NULL;
    struct bp_tensor_info info = {.size = sizeof info};
    struct bp_tensor *t = NULL;

    cr_assert_neq(bridge_wrap(&b.wraps, a + 2, BP_F32, 1, SHAPE(2), &t), BP_OK, "misaligned");
    cr_assert_neq(bridge_wrap(&b.wraps, a, BP_F32, 2, huge, &t), BP_OK);
    OK(bp_error_set(BP_OK, "of an earlier failure"));
    cr_assert_eq(bridge_wrap(&b.wraps, a, BP_F32, BP_RANK_MAX + 1, huge, &t), BP_ERR_UNSUPPORTED);
    cr_assert(strstr(bp_error_message(), "axes"), "%s", bp_error_message());
    cr_assert_eq(bridge_memory_allocate(b.memory, NULL, UINT64_MAX, (void **)&nothing),
                 BP_ERR_MEMORY);
    cr_assert(strstr(bp_error_message(), "memory"), "%s", bp_error_message());
    cr_assert_eq(t, NULL);
    OK(bridge_wrap(&b.wraps, NULL, BP_F32, 2, none, &t));
    OK(bp_tensor_get_info(t, &info));
    cr_assert(info.count == 0 && info.shape[1] == 3);
    bridge_memory_free(b.memory, a);
    bridged_finish(&b);
}

struct worker {
    struct bridge_memory *memory;
    struct bp_stream *stream;
};

static void *allocate_often(void *arg)
{
    const struct worker *w = arg;
    struct bridge_place place;

    for (int i = 0; i < 2000; i++) {
        void *at[4] = {NULL};
        for (int k = 0; k < 4; k++) OK(bridge_memory_allocate(w->memory, NULL, 64, &at[k]));
        for (int k = 0; k < 4; k++)
            OK(bridge_memory_find(w->memory, (char *)at[k] + 8, 8, &place));
        for (int k = 0; k < 4; k++) bridge_memory_free(w->memory, at[k]);
    }
    return NULL;
}

Test(bridge, threads_share_the_memory)
{
    struct bridged b = bridged_init();
    struct worker w = {b.memory, b.f.stream};
    pthread_t thread[4];

    for (int i = 0; i < 4; i++)
        cr_assert_eq(pthread_create(&thread[i], NULL, allocate_often, &w), 0);
    for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
    cr_assert_eq(bridge_memory_usage(b.memory).bytes, 0);
    bridged_finish(&b);
}

Test(bridge, types_have_the_numbers_of_onnx)
{
    cr_assert_eq(bridge_dtype_of_onnx(1), BP_F32);
    cr_assert_eq(bridge_dtype_of_onnx(16), BP_BF16);
    cr_assert_eq(bridge_dtype_of_onnx(8), UINT32_MAX, "strings");
    cr_assert_eq(bridge_dtype_of_onnx(-1), UINT32_MAX);
    for (int64_t n = 0; n < 64; n++)
        if (bridge_dtype_of_onnx(n) != UINT32_MAX)
            cr_assert_eq(bridge_dtype_to_onnx(bridge_dtype_of_onnx(n)), n);
    cr_assert_eq(bridge_fault_of(BP_OK), BRIDGE_FAULT_NONE);
    cr_assert_eq(bridge_fault_of(BP_ERR_DEVICE_LOST), BRIDGE_FAULT_DEVICE);
    cr_assert_eq(bridge_fault_of(BP_ERR_INTERNAL), BRIDGE_FAULT_OTHER);
}
