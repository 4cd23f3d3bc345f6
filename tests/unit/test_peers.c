/* SPDX-License-Identifier: Apache-2.0 */
/* test_peers.c: tests copies between two devices of one plugin: the plugin makes them, without a
 * wait of the host, in order with all work of both devices. */
#include "stream_kit.h"

#define PEERS HOSTILE_DIR "/bp_gated_peers.so"

/* Two devices, a stream of each and a second one of the first device; two floats on each. */
struct peers {
    struct bp_core *core;
    struct bp_device *from, *to;
    struct bp_stream *a, *other, *b;
    struct bp_tensor *x, *y;
    struct fake *gate;
};

static const float first[2] = {1, 2}, second[2] = {3, 4};

static struct peers peers_init(const char *variable, const char *value)
{
    struct peers p = {.core = core_with(variable, value)};
    uint32_t index;

    OK(bp_core_load_path(p.core, PEERS, &index));
    OK(bp_device_create_at(p.core, index, 0, &p.from));
    OK(bp_device_create_at(p.core, index, 1, &p.to));
    OK(bp_stream_create(p.from, &p.a));
    OK(bp_stream_create(p.from, &p.other));
    OK(bp_stream_create(p.to, &p.b));
    p.x = floats_at(p.from, 2);
    p.y = floats_at(p.to, 2);
    p.gate = fake_of(PEERS);
    cr_assert_not_null(p.gate);
    p.gate->result(FAKE_copy_peer, 0, NULL);
    return p;
}

static void peers_finish(struct peers *p)
{
    p->gate->open();
    p->gate->hold(0);
    bp_tensor_destroy(p->x);
    bp_tensor_destroy(p->y);
    bp_stream_destroy(p->a);
    bp_stream_destroy(p->other);
    bp_stream_destroy(p->b);
    bp_device_destroy(p->to);
    bp_device_destroy(p->from);
    bp_core_destroy(p->core);
}

static void expect_values(struct bp_stream *stream, struct bp_tensor *t, const float *expected)
{
    float got[2];

    OK(bp_tensor_read(stream, t, got, sizeof got));
    cr_assert(got[0] == expected[0] && got[1] == expected[1], "%g %g, expected %g %g",
              (double)got[0], (double)got[1], (double)expected[0], (double)expected[1]);
}

/* The copy gets the data that a stream of the source's device wrote before, and not the data that
 * any stream writes later; with waits denied, and with a wait for each launch. */
static void in_order(const char *variable, const char *value, bool held)
{
    struct peers p = peers_init(variable, value);

    if (held) p.gate->hold(1);
    OK(bp_tensor_write(p.a, p.x, first, sizeof first));
    OK(bp_tensor_copy(p.b, p.y, p.x));
    OK(bp_tensor_write(p.other, p.x, second, sizeof second));
    p.gate->open();
    p.gate->hold(0);
    expect_values(p.b, p.y, first);
    expect_values(p.other, p.x, second);
    cr_assert_eq(bp_device_peer_copies(p.to), 1);
    cr_assert_eq(bp_device_peer_copies(p.from), 0);
    for (uint32_t i = 0; i < BP_BLOCK_COUNT; i++) {
        cr_assert_eq(bp_device_blocked(p.from, i), 0, "reason %u", i);
        cr_assert_eq(bp_device_blocked(p.to, i), 0, "reason %u", i);
    }
    peers_finish(&p);
}

Test(peers, copies_are_in_order, .timeout = 60)
{
    in_order(NULL, NULL, true);
    in_order("BP_BLOCK", "deny", true);
    in_order("BP_SYNC", "launch", false);
}

/* The write behind the copy waits, although only the copy is held. */
Test(peers, later_work_waits, .timeout = 60)
{
    struct peers p = peers_init(NULL, NULL);
    uint64_t before;

    OK(bp_tensor_write(p.a, p.x, first, sizeof first));
    OK(bp_stream_synchronize(p.a));
    before = p.gate->ended();
    p.gate->hold(1);
    OK(bp_tensor_copy(p.b, p.y, p.x));
    p.gate->hold(0);
    OK(bp_tensor_write(p.other, p.x, second, sizeof second));
    OK(bp_tensor_write(p.a, p.x, second, sizeof second));
    usleep(50000);
    cr_assert_eq(p.gate->ended(), before, "something did not wait for the copy");
    p.gate->open();
    expect_values(p.b, p.y, first);
    peers_finish(&p);
}

/* Earlier work of the target's stream has ended when the copy begins. */
Test(peers, earlier_work_of_the_target, .timeout = 60)
{
    struct peers p = peers_init(NULL, NULL);
    struct bp_tensor *z = floats_at(p.to, 2);

    OK(bp_tensor_write(p.a, p.x, first, sizeof first));
    OK(bp_tensor_write(p.b, p.y, second, sizeof second));
    OK(bp_stream_synchronize(p.b));
    OK(bp_stream_synchronize(p.a));
    p.gate->hold(1);
    OK(bp_tensor_copy(p.b, z, p.y));
    p.gate->hold(0);
    OK(bp_tensor_copy(p.b, p.y, p.x));
    usleep(20000);
    p.gate->open();
    expect_values(p.b, z, second);
    expect_values(p.b, p.y, first);
    bp_tensor_destroy(z);
    peers_finish(&p);
}

/* The stream is created while the copy is held. */
Test(peers, streams_that_come_later, .timeout = 60)
{
    struct peers p = peers_init(NULL, NULL);
    struct bp_stream *late;

    OK(bp_tensor_write(p.a, p.x, first, sizeof first));
    OK(bp_stream_synchronize(p.a));
    p.gate->hold(1);
    OK(bp_tensor_copy(p.b, p.y, p.x));
    p.gate->hold(0);
    OK(bp_stream_create(p.from, &late));
    OK(bp_tensor_write(late, p.x, second, sizeof second));
    usleep(20000);
    p.gate->open();
    expect_values(p.b, p.y, first);
    expect_values(late, p.x, second);
    bp_stream_destroy(late);
    peers_finish(&p);
}

/* Memory that is freed while the copy is held is not reused by another stream of the target. */
Test(peers, memory_that_is_given_back, .timeout = 60)
{
    struct peers p = peers_init(NULL, NULL);
    struct bp_tensor *y = floats_at(p.to, 2), *more[8];
    struct bp_stream *other;

    OK(bp_stream_create(p.to, &other));
    OK(bp_tensor_write(p.a, p.x, first, sizeof first));
    OK(bp_stream_synchronize(p.a));
    p.gate->hold(1);
    OK(bp_tensor_copy(p.b, y, p.x));
    p.gate->hold(0);
    bp_tensor_destroy(y);
    for (int i = 0; i < 8; i++) {
        more[i] = floats_at(p.to, 2);
        OK(bp_tensor_write(other, more[i], second, sizeof second));
    }
    usleep(20000);
    p.gate->open();
    OK(bp_stream_synchronize(p.b));
    for (int i = 0; i < 8; i++) {
        expect_values(other, more[i], second);
        bp_tensor_destroy(more[i]);
    }
    bp_stream_destroy(other);
    peers_finish(&p);
}

/* The source's memory is returned to the driver only after it has been read. */
Test(peers, memory_that_is_trimmed, .timeout = 60)
{
    struct bp_memory_stats before = {.size = sizeof before}, after = {.size = sizeof after};
    struct peers p = peers_init(NULL, NULL);
    struct bp_tensor *x = floats_at(p.from, 4 << 20), *y = floats_at(p.to, 4 << 20);

    OK(bp_stream_synchronize(p.a));
    p.gate->hold(1);
    OK(bp_tensor_copy(p.b, y, x));
    p.gate->hold(0);
    OK(bp_device_memory(p.from, &before));
    bp_tensor_destroy(x);
    OK(bp_device_memory(p.from, &after));
    cr_assert_eq(after.pending, before.pending + (UINT64_C(16) << 20), "%llu bytes are pending",
                 (unsigned long long)after.pending);
    p.gate->open();
    bp_tensor_destroy(y);
    peers_finish(&p);
}

/* Strided tensors are copied run by run; if the runs are too many and too short, the copy is staged
 * through host memory. */
Test(peers, layouts, .timeout = 60)
{
    struct peers p = peers_init(NULL, NULL);
    enum { N = 128 };
    float host[N * N], got[N * N];
    struct bp_tensor *x, *y, *transposed;

    for (int i = 0; i < N * N; i++) host[i] = (float)i;
    OK(bp_tensor_create(p.from, BP_F32, 2, SHAPE(8, 8), &x));
    OK(bp_tensor_create(p.to, BP_F32, 2, SHAPE(8, 8), &y));
    OK(bp_tensor_write(p.a, x, host, 8 * 8 * sizeof *host));
    OK(bp_tensor_transpose(x, (const int64_t[]){1, 0}, &transposed));
    OK(bp_tensor_copy(p.b, y, transposed));
    OK(bp_tensor_read(p.b, y, got, 8 * 8 * sizeof *got));
    for (int i = 0; i < 64; i++) cr_assert_eq(got[i], host[i % 8 * 8 + i / 8]);
    cr_assert_eq(bp_device_peer_copies(p.to), 1);
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    bp_tensor_destroy(transposed);
    OK(bp_tensor_create(p.from, BP_F32, 2, SHAPE(N, N), &x));
    OK(bp_tensor_create(p.to, BP_F32, 2, SHAPE(N, N), &y));
    OK(bp_tensor_write(p.a, x, host, sizeof host));
    OK(bp_tensor_transpose(x, (const int64_t[]){1, 0}, &transposed));
    OK(bp_tensor_copy(p.b, y, transposed));
    OK(bp_tensor_read(p.b, y, got, sizeof got));
    for (int i = 0; i < N * N; i++) cr_assert_eq(got[i], host[i % N * N + i / N]);
    cr_assert_eq(bp_device_peer_copies(p.to), 1);
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    bp_tensor_destroy(transposed);
    peers_finish(&p);
}

/* If the plugin cannot copy between the devices and reports this, the copy is staged through host
 * memory, which waits and is counted. */
Test(peers, not_between_these, .timeout = 60)
{
    struct peers p = peers_init(NULL, NULL);

    OK(bp_tensor_write(p.a, p.x, first, sizeof first));
    p.gate->result(FAKE_copy_peer, BP_ERR_UNSUPPORTED, NULL);
    OK(bp_tensor_copy(p.b, p.y, p.x));
    expect_values(p.b, p.y, first);
    cr_assert_eq(bp_device_peer_copies(p.to), 0);
    cr_assert_eq(bp_device_blocked(p.from, BP_BLOCK_COPY), 1);
    p.gate->result(FAKE_copy_peer, BP_ERR_DEVICE, "no copy for you");
    FAILS(BP_ERR_DEVICE, "no copy for you", bp_tensor_copy(p.b, p.y, p.x));
    p.gate->result(FAKE_copy_peer, 0, NULL);
    OK(bp_tensor_copy(p.b, p.y, p.x));
    cr_assert_eq(bp_device_peer_copies(p.to), 1);
    peers_finish(&p);
}

/* Both devices are destroyed while they still work. */
Test(peers, ends_at_once, .timeout = 60)
{
    for (int i = 0; i < 20; i++) {
        struct peers p = peers_init(NULL, NULL);
        OK(bp_tensor_write(p.a, p.x, first, sizeof first));
        OK(bp_tensor_copy(p.b, p.y, p.x));
        OK(bp_tensor_copy(p.a, p.x, p.y));
        peers_finish(&p);
    }
}
