/* SPDX-License-Identifier: Apache-2.0 */
/* test_template.c: tests the promises of the template on the plugin alone.
 *
 *   test_template PLUGIN.so */
#include "harness.h"
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#define SHAPE(...) ((const int64_t[]){__VA_ARGS__, -1})
static const int64_t scalar[] = {-1};
static const struct bp_plugin *plugin;

/* --- memory that the host cannot reach --- */

static void host_reads(struct harness *h)
{
    struct tensor t;

    tensor_init(&t, h, SHAPE(4));
    (void)*(volatile float *)t.view.data;
}

static void host_writes(struct harness *h)
{
    struct tensor t;

    tensor_init(&t, h, SHAPE(4));
    *(volatile float *)t.view.data = 1;
}

static void host_reads_all(struct harness *h)
{
    struct tensor t;

    tensor_init(&t, h, SHAPE(1 << 20));
    (void)((volatile float *)t.view.data)[(1 << 20) - 1];
}

/* out states four elements (one alignment) more than it has; the input repeats one element. */
static void kernel_overruns(struct harness *h)
{
    struct tensor out, one;

    tensor_init(&out, h, SHAPE(1000));
    tensor_init(&one, h, SHAPE(1));
    out.shape[0] = out.view.count = 1004;
    harness_launch(h, "template_add_f32", NULL, &out, &one, &one);
    h->runtime->synchronize(h->self, 0, NULL);
}

static void kernel_fits(struct harness *h)
{
    struct tensor out, one;

    tensor_init(&out, h, SHAPE(1000));
    tensor_init(&one, h, SHAPE(1));
    harness_launch(h, "template_add_f32", NULL, &out, &one, &one);
    h->runtime->synchronize(h->self, 0, NULL);
}

static void copy_overruns(struct harness *h)
{
    static const float zeros[1004];
    struct tensor t;

    tensor_init(&t, h, SHAPE(1000));
    t.view.count = 1004;
    tensor_write(&t, h, zeros);
}

static void uses_after_free(struct harness *h)
{
    struct tensor t, one;

    tensor_init(&t, h, SHAPE(1 << 20));
    tensor_init(&one, h, SHAPE(1));
    harness_launch(h, "template_add_f32", NULL, &t, &one, &one);
    tensor_finish(&t, h); /* before its work is done, which breaks the rules */
    h->runtime->synchronize(h->self, 0, NULL);
}

static void template_faults(struct harness *h)
{
    (void)h;
    CHECK(harness_death(plugin, host_reads) == SIGSEGV);
    CHECK(harness_death(plugin, host_writes) == SIGSEGV);
    CHECK(harness_death(plugin, host_reads_all) == SIGSEGV);
    CHECK(harness_death(plugin, kernel_overruns) == SIGSEGV);
    CHECK(harness_death(plugin, kernel_fits) == 0);
    CHECK(harness_death(plugin, copy_overruns) == SIGSEGV);
    CHECK(harness_death(plugin, uses_after_free) == SIGSEGV);
}

/* --- the tables --- */

static void template_tables(struct harness *h)
{
    const struct bp_runtime *r = h->runtime;
    struct bp_device_properties p = {.size = sizeof p};
    uint32_t count = 0;

    CHECK(plugin->abi_major == BP_ABI_MAJOR && !strcmp(plugin->name, "template"));
    CHECK(r->device_count && r->device_properties && r->memory_allocate && r->memory_free &&
          r->copy_in && r->copy_out && r->copy_within && r->synchronize);
    CHECK(r->event_create && r->event_destroy && r->event_record && r->event_query &&
          r->event_wait);
    CHECK(!r->stream_create && !r->stream_destroy && !r->stream_wait && !r->memory_info);
    CHECK(plugin->kernels->count == 2);
    CHECK(r->device_count(h->self, &count) == BP_OK && count == 1);
    CHECK(r->device_properties(h->self, 0, &p) == BP_OK && p.flags == 0 && p.memory > 0 &&
          p.name[0]);
}

static void rank_is_limited(struct harness *h)
{
    const struct bp_kernel *row = h->plugin->kernels->first;
    struct bp_view view = {.rank = 8}, *views[] = {&view};
    struct bp_prep prep = {
        .size = sizeof prep, .out = (const struct bp_view *const *)views, .n_out = 1};

    CHECK(row->accepts(h->self, &prep) == BP_OK);
    view.rank = 9;
    CHECK(row->accepts(h->self, &prep) == BP_ERR_UNSUPPORTED && harness_message()[0] == 0);
}

/* --- allocation --- */

static enum bp_status template_allocate(struct harness *h, uint32_t space, uint64_t size,
                                        struct bp_memory *out)
{
    return h->runtime->memory_allocate(h->self, 0, space, size, out);
}

static void template_allocations(struct harness *h)
{
    struct bp_memory part[8], more = {NULL, NULL}, odd;
    const uint64_t eighth = 32 << 20;

    for (int i = 0; i < 8; i++)
        CHECK(template_allocate(h, BP_SPACE_DEVICE, eighth, &part[i]) == BP_OK);
    CHECK(template_allocate(h, BP_SPACE_DEVICE, 1, &more) == BP_ERR_MEMORY &&
          strstr(harness_message(), " 1 bytes"));
    h->runtime->memory_free(h->self, 0, BP_SPACE_DEVICE, &part[7]);
    CHECK(template_allocate(h, BP_SPACE_DEVICE, eighth + 1, &more) == BP_ERR_MEMORY);
    CHECK(template_allocate(h, BP_SPACE_DEVICE, UINT64_MAX, &more) == BP_ERR_MEMORY);
    CHECK(template_allocate(h, BP_SPACE_PINNED, 16, &more) == BP_ERR_UNSUPPORTED &&
          harness_message()[0]);
    CHECK(!more.handle && !more.data);
    for (uint64_t size = 1; size < 20000; size = size * 3 + 1) {
        CHECK(template_allocate(h, BP_SPACE_DEVICE, size, &odd) == BP_OK &&
              (uintptr_t)odd.data % 16 == 0);
        h->runtime->memory_free(h->self, 0, BP_SPACE_DEVICE, &odd);
    }
    CHECK(template_allocate(h, BP_SPACE_DEVICE, eighth, &part[7]) == BP_OK);
    for (int i = 0; i < 8; i++) h->runtime->memory_free(h->self, 0, BP_SPACE_DEVICE, &part[i]);
}

static void no_host_memory(struct harness *h)
{
    void *event = &plugin, *self = &plugin;

    h->no_memory = true;
    CHECK(h->runtime->event_create(h->self, 0, &event) == BP_ERR_MEMORY && event == &plugin);
    CHECK(h->plugin->create(&h->host, &self) == BP_ERR_MEMORY && self == &plugin &&
          harness_message()[0]);
}

/* --- order and lateness --- */

static void template_events(struct harness *h)
{
    const struct bp_runtime *r = h->runtime;
    const float one = 1;
    struct tensor t;
    void *event;
    float got;

    tensor_init(&t, h, scalar);
    tensor_write(&t, h, &one);
    CHECK(r->event_create(h->self, 0, &event) == BP_OK);
    for (int i = 0; i < 5; i++)
        CHECK(harness_launch(h, "template_add_f32", NULL, &t, &t, &t) == BP_OK);
    CHECK(r->event_record(h->self, 0, NULL, event) == BP_OK);
    harness_clear();
    CHECK(r->event_query(h->self, 0, event) == BP_ERR_NOT_READY && harness_message()[0] == 0);
    CHECK(r->event_wait(h->self, 0, event, 0) == BP_ERR_TIMEOUT && harness_message()[0]);
    CHECK(r->event_wait(h->self, 0, event, UINT64_MAX) == BP_OK);
    CHECK(r->event_query(h->self, 0, event) == BP_OK);
    CHECK(harness_launch(h, "template_add_f32", NULL, &t, &t, &t) == BP_OK);
    CHECK(r->event_query(h->self, 0, event) ==
          BP_OK); /* work after the event does not count */
    CHECK(r->event_record(h->self, 0, NULL, event) == BP_OK);
    while (r->event_query(h->self, 0, event) == BP_ERR_NOT_READY) continue; /* polling is enough */
    tensor_read(&t, h, &got);
    CHECK(got == 64);
    r->event_destroy(h->self, 0, event);
    tensor_finish(&t, h);
}

/* More jobs than the queue holds, all different, each on the result of the job before: element i of
 * b is element i of a, and twice that is element i + 1 of a. */
static void queue_is_ordered(struct harness *h)
{
    float start[100] = {1}, got[100];
    struct tensor a, b;

    tensor_init(&a, h, SHAPE(100));
    tensor_init(&b, h, SHAPE(100));
    tensor_write(&a, h, start);
    for (int i = 0; i < 99; i++) {
        struct tensor from = b, to = a;
        struct bp_copy copy = {b.memory.handle, (float *)b.view.data + i, a.memory.handle,
                               (float *)a.view.data + i, 4};
        CHECK(h->runtime->copy_within(h->self, 0, NULL, &copy) == BP_OK);
        memset(&copy, 0xee, sizeof copy);
        __asm__ volatile("" : : "r"(&copy) : "memory");
        from.view.data = (float *)b.view.data + i;
        to.view.data = (float *)a.view.data + i + 1;
        from.shape[0] = to.shape[0] = from.view.count = to.view.count = 1;
        CHECK(harness_launch(h, "template_add_f32", NULL, &to, &from, &from) == BP_OK);
    }
    CHECK(h->runtime->synchronize(h->self, 0, NULL) == BP_OK);
    tensor_read(&a, h, got);
    for (int i = 0; i < 100; i++) CHECK(got[i] == ldexpf(1, i));
    tensor_finish(&a, h);
    tensor_finish(&b, h);
}

/* --- kernels --- */

static void add_broadcasts(struct harness *h)
{
    float x[6] = {0, 1, 2, 3, 4, 5}, y[2] = {10, 20}, got[12];
    struct tensor tx, ty, out;

    tensor_init(&tx, h, SHAPE(2, 1, 3)); /* read as 3 x 1 x 2, transposed */
    tensor_init(&ty, h, SHAPE(2, 1));
    tensor_init(&out, h, SHAPE(3, 2, 2));
    tensor_write(&tx, h, x);
    tensor_write(&ty, h, y);
    memcpy(tx.shape, SHAPE(3, 1, 2), 3 * sizeof(int64_t));
    memcpy(tx.stride, SHAPE(1, 77, 3), 3 * sizeof(int64_t));
    CHECK(harness_launch(h, "template_add_f32", NULL, &out, &tx, &ty) == BP_OK);
    tensor_read(&out, h, got);
    for (int i = 0; i < 12; i++) CHECK(got[i] == x[i / 4 + i % 2 * 3] + y[i / 2 % 2]);
    tensor_finish(&tx, h);
    tensor_finish(&ty, h);
    tensor_finish(&out, h);
}

static void empty_is_nothing(struct harness *h)
{
    struct bp_softmax_attrs attrs = {.size = sizeof attrs, .axis = -1};
    struct tensor empty, one;

    tensor_init(&empty, h, SHAPE(3, 0));
    tensor_init(&one, h, SHAPE(1));
    CHECK(harness_launch(h, "template_add_f32", NULL, &empty, &empty, &one) == BP_OK);
    CHECK(harness_launch(h, "template_softmax_f32", &attrs, &empty, &empty, NULL) == BP_OK);
    CHECK(h->runtime->synchronize(h->self, 0, NULL) == BP_OK);
    tensor_finish(&one, h);
}

/* Softmax along each axis of 3 x 4 x 5, into new memory and in place; large values must not
 * overflow. */
static void softmax_along(struct harness *h, int64_t axis, bool in_place)
{
    const int64_t extent[] = {3, 4, 5}, step[] = {20, 5, 1}, n = extent[(axis + 3) % 3],
                  s = step[(axis + 3) % 3];
    struct bp_softmax_attrs attrs = {.size = sizeof attrs, .axis = axis};
    struct tensor tx, ty;
    float x[60], y[60];

    for (int i = 0; i < 60; i++) x[i] = (float)(i * 37 % 60) * 3 - 90;
    tensor_init(&tx, h, SHAPE(3, 4, 5));
    tensor_init(&ty, h, SHAPE(3, 4, 5));
    tensor_write(&tx, h, x);
    CHECK(harness_launch(h, "template_softmax_f32", &attrs, in_place ? &tx : &ty, &tx, NULL) ==
          BP_OK);
    tensor_read(in_place ? &tx : &ty, h, y);
    for (int64_t i = 0; i < 60; i++) {
        int64_t first = i - i / s % n * s;
        double sum = 0;
        for (int64_t k = 0; k < n; k++) sum += exp((double)x[first + k * s] - x[i]);
        CHECK(fabs(y[i] - 1 / sum) <= 1e-7 / sum + 1e-44);
    }
    tensor_finish(&tx, h);
    tensor_finish(&ty, h);
}

static void softmax_of_each_axis(struct harness *h)
{
    for (int64_t axis = -3; axis < 3; axis++) softmax_along(h, axis, axis % 2 == 0);
}

/* --- threads --- */

static void *use_device(void *harness)
{
    struct harness *h = harness;

    for (int round = 0; round < 20; round++) {
        softmax_along(h, round % 3, round % 2);
        add_broadcasts(h);
        queue_is_ordered(h);
        template_allocations(h);
    }
    return NULL;
}

/* As use_device, but the threads share one device: without allocations, which fill its memory. */
static void *share_device(void *harness)
{
    struct harness *h = harness;

    for (int round = 0; round < 20; round++) {
        softmax_along(h, round % 3, round % 2);
        add_broadcasts(h);
        queue_is_ordered(h);
    }
    return NULL;
}

static void threads_share(struct harness *h)
{
    pthread_t thread[4];

    for (int i = 0; i < 4; i++) CHECK(pthread_create(&thread[i], NULL, share_device, h) == 0);
    for (int i = 0; i < 4; i++) CHECK(pthread_join(thread[i], NULL) == 0);
}

static void instances_are_apart(struct harness *h)
{
    struct harness other;
    pthread_t thread;

    harness_init(&other, plugin);
    CHECK(pthread_create(&thread, NULL, use_device, &other) == 0);
    use_device(h);
    CHECK(pthread_join(thread, NULL) == 0);
    harness_finish(&other);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: test_template PLUGIN.so\n");
        return 2;
    }
    plugin = harness_open(argv[1]);
    harness_test("the host cannot touch memory, and nothing leaves it", template_faults, plugin);
    harness_test("tables have what the template has", template_tables, plugin);
    harness_test("rows refuse too many axes", rank_is_limited, plugin);
    harness_test("memory comes to its end, and back", template_allocations, plugin);
    harness_test("no host memory is an error", no_host_memory, plugin);
    harness_test("events are reached late, and once", template_events, plugin);
    harness_test("work is done in order, from copies of its arguments", queue_is_ordered, plugin);
    harness_test("add broadcasts and takes strides", add_broadcasts, plugin);
    harness_test("empty tensors are no work", empty_is_nothing, plugin);
    harness_test("softmax takes any axis, in place too", softmax_of_each_axis, plugin);
    harness_test("threads share a device", threads_share, plugin);
    harness_test("instances do not meet", instances_are_apart, plugin);
    return harness_end();
}
