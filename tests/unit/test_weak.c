/* SPDX-License-Identifier: Apache-2.0 */
/* test_weak.c: tests a device whose kernels take dense tensors of one shape only and 32-bit
 * indices, and that has no kernel for assign. Each result must be that of the cpu, without another
 * device: BP_FALLBACK=deny. */
#include "../devices/fake.h"
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>

/* Kinds of weak devices. X(NAME, library, flags of the stream). */
#define PLACES(X) \
    X(INLINE, "weak", BP_STREAM_INLINE) X(QUEUED, "weak", BP_STREAM_ASYNC) \
    X(OFFSETS, "weak_offsets", BP_STREAM_INLINE) \
    X(QUEUED_OFFSETS, "weak_offsets", BP_STREAM_ASYNC) \
    X(LATE, "weak_late", 0) X(LATE_OFFSETS, "weak_late_offsets", 0) \
    X(CASTS, "weak_casts", BP_STREAM_INLINE)

enum {
#define X(NAME, library, flags) NAME,
    PLACES(X)
#undef X
    PLACE_COUNT
};
static const struct {
    const char *name, *library;
    uint32_t flags;
} places[] = {
#define X(NAME, library, flags) {#NAME, library, flags},
    PLACES(X)
#undef X
};

/* The weak device, and the cpu that computes what is expected. */
struct pair {
    const char *name;
    struct fake *fake;
    struct fixture weak, cpu;
};

static struct fixture weak_open(struct bp_core *core, struct bp_device *device, uint32_t flags)
{
    struct fixture f = {core, device, NULL, NULL};

    OK(bp_stream_create_with(device, flags, &f.stream));
    f.scope = bp_stream_scope(f.stream);
    return f;
}

static struct pair pair_with(int place, const char *variable, const char *value)
{
    struct bp_device *weak, *cpu;
    char path[4096];
    struct bp_core *core;
    uint32_t index;

    setenv("BP_FALLBACK", "deny", 1);
    setenv("BP_LOG", "error", 1);
    if (variable) setenv(variable, value, 1);
    OK(bp_core_create(NULL, &core));
    snprintf(path, sizeof path, HOSTILE_DIR "/bp_%s.so", places[place].library);
    OK(bp_core_load_path(core, path, &index));
    OK(bp_device_create_at(core, index, 0, &weak));
    OK(bp_device_create(core, "cpu:0", &cpu));
    return (struct pair){places[place].name, fake_of(path),
                         weak_open(core, weak, places[place].flags),
                         weak_open(core, cpu, BP_STREAM_INLINE)};
}

static struct pair pair_init(int place)
{
    return pair_with(place, NULL, NULL);
}

static void weak_close(struct pair *p)
{
    bp_stream_destroy(p->cpu.stream);
    bp_device_destroy(p->cpu.device);
    fixture_finish(&p->weak);
}

/* A tensor on both devices, with the same contents. */
struct both {
    struct bp_tensor *weak, *cpu;
};

static void both_destroy(struct both b)
{
    bp_tensor_destroy(b.weak);
    bp_tensor_destroy(b.cpu);
}

static uint64_t weak_bytes(struct bp_tensor *t)
{
    struct bp_tensor_info info = {.size = sizeof info};

    OK(bp_tensor_get_info(t, &info));
    return info.bytes;
}

/* Makes tensors of finite numbers, which differ from their neighbours; of truth values for bool. */
static struct both both_of(struct pair *p, uint32_t dtype, uint32_t rank, const int64_t *shape)
{
    struct both b = {tensor_of(&p->weak, dtype, rank, shape, NULL),
                     tensor_of(&p->cpu, dtype, rank, shape, NULL)};
    uint64_t bytes = weak_bytes(b.weak);
    unsigned char *data = malloc(bytes + 1);

    for (uint64_t i = 0; i < bytes; i++)
        data[i] = dtype == BP_BOOL ? i * 7 % 3 == 0 : (unsigned char)(i % 251 % 60);
    for (uint64_t i = 0; dtype == BP_F32 && i < bytes / 4; i++)
        ((float *)data)[i] = (float)i - (float)bytes / 8;
    OK(bp_tensor_write(p->weak.stream, b.weak, data, bytes));
    OK(bp_tensor_write(p->cpu.stream, b.cpu, data, bytes));
    free(data);
    return b;
}

/* Asserts that both tensors have the same elements. Destroys them. */
static void expect_same(struct pair *p, struct both b, const char *what)
{
    uint64_t bytes = weak_bytes(b.cpu);
    unsigned char *got = malloc(bytes + 1), *expected = malloc(bytes + 1);

    cr_assert_eq(weak_bytes(b.weak), bytes);
    OK(bp_tensor_read(p->weak.stream, b.weak, got, bytes));
    OK(bp_tensor_read(p->cpu.stream, b.cpu, expected, bytes));
    for (uint64_t i = 0; i < bytes; i++)
        cr_assert_eq(got[i], expected[i], "%s, %s: byte %llu is %d, expected %d", p->name, what,
                     (unsigned long long)i, got[i], expected[i]);
    free(got);
    free(expected);
    both_destroy(b);
}

/* Views of a tensor of shape 4 6 5 2. X(NAME, a call on `base` that makes *out). */
#define LAYOUTS(X) \
    X(dense, bp_tensor_slice(base, 0, 0, INT64_MAX, 1, out)) \
    X(reversed, bp_tensor_transpose(base, NULL, out)) \
    X(channels_last, bp_tensor_transpose(base, SHAPE(0, 3, 1, 2), out)) \
    X(swapped, bp_tensor_transpose(base, SHAPE(0, 1, 3, 2), out)) \
    X(gaps, bp_tensor_slice(base, 2, 1, INT64_MAX, 2, out)) \
    X(inner_gaps, bp_tensor_slice(base, 3, 1, 2, 1, out)) \
    X(rows, bp_tensor_slice(base, 1, 2, 5, 1, out)) \
    X(repeated, bp_tensor_view(base, 3, 3, SHAPE(7, 3, 4), SHAPE(0, 1, 0), out)) \
    X(scalar, bp_tensor_view(base, 5, 0, NULL, NULL, out)) \
    X(repeated_scalar, bp_tensor_view(base, 5, 2, SHAPE(9, 5), SHAPE(0, 0), out)) \
    X(overlapping, bp_tensor_view(base, 0, 2, SHAPE(6, 4), SHAPE(2, 1), out)) \
    X(empty, bp_tensor_slice(base, 1, 3, 3, 1, out))

#define X(NAME, call) \
    static void layout_##NAME(struct bp_tensor *base, struct bp_tensor **out) \
    { \
        OK(call); \
    }
LAYOUTS(X)
#undef X
static const struct layout {
    const char *name;
    void (*make)(struct bp_tensor *base, struct bp_tensor **out);
} layouts[] = {
#define X(NAME, call) {#NAME, layout_##NAME},
    LAYOUTS(X)
#undef X
};
enum { LAYOUT_COUNT = sizeof layouts / sizeof *layouts };

static struct both view_of(struct pair *p, uint32_t dtype, const struct layout *layout)
{
    struct both base = both_of(p, dtype, 4, SHAPE(4, 6, 5, 2)), view;

    layout->make(base.weak, &view.weak);
    layout->make(base.cpu, &view.cpu);
    both_destroy(base);
    return view;
}

static uint64_t weak_fallbacks(struct bp_device *device, const char *op, uint32_t kind,
                               struct bp_fallback_info *out)
{
    struct bp_fallback_info info = {.size = sizeof info};

    for (uint32_t i = 0; i < bp_device_fallbacks(device); i++) {
        OK(bp_device_fallback(device, i, &info));
        if (strcmp(info.op, op) || info.kind != kind) continue;
        if (out) *out = info;
        return info.calls;
    }
    return 0;
}

Test(weak, copies_any_layout)
{
    static const uint32_t dtypes[] = {BP_F32, BP_F16, BP_I64, BP_BOOL};

    for (int place = 0; place < PLACE_COUNT; place++) {
        struct pair p = pair_init(place);
        for (size_t i = 0; i < 4 * LAYOUT_COUNT; i++) {
            struct both x = view_of(&p, dtypes[i / LAYOUT_COUNT], &layouts[i % LAYOUT_COUNT]), y;
            OK(bp_op_assign(p.weak.scope, x.weak, &y.weak));
            OK(bp_op_assign(p.cpu.scope, x.cpu, &y.cpu));
            expect_same(&p, y, layouts[i % LAYOUT_COUNT].name);
            both_destroy(x);
        }
        weak_close(&p);
    }
}

Test(weak, runs_a_dense_kernel_on_any_layout)
{
    for (int place = 0; place < PLACE_COUNT; place++) {
        struct pair p = pair_init(place);
        for (size_t i = 0; i < LAYOUT_COUNT; i++) {
            struct both x = view_of(&p, BP_F32, &layouts[i]), y;
            OK(bp_op_relu(p.weak.scope, x.weak, &y.weak));
            OK(bp_op_relu(p.cpu.scope, x.cpu, &y.cpu));
            expect_same(&p, y, layouts[i].name);
            both_destroy(x);
        }
        weak_close(&p);
    }
}

/* The bytes between the elements of the output stay. */
Test(weak, writes_strided_outputs)
{
    for (int place = 0; place < PLACE_COUNT; place++) {
        struct pair p = pair_init(place);
        for (size_t i = 0; i < LAYOUT_COUNT; i++) {
            struct both base = both_of(&p, BP_F32, 4, SHAPE(4, 6, 5, 2)), y;
            struct both x = view_of(&p, BP_F32, &layouts[i]);
            struct bp_arg weak = {&x.weak, 1}, cpu = {&x.cpu, 1};
            struct bp_call call = {.size = sizeof call, .op = "relu", .in = &weak, .n_in = 1};
            layouts[i].make(base.weak, &y.weak);
            layouts[i].make(base.cpu, &y.cpu);
            if (strstr("repeated repeated_scalar overlapping", layouts[i].name)) {
                both_destroy(y);
                y = (struct both){NULL, NULL};
            }
            OK(bp_call_run(p.weak.scope, &call, &y.weak, 1, NULL));
            call.in = &cpu;
            OK(bp_call_run(p.cpu.scope, &call, &y.cpu, 1, NULL));
            expect_same(&p, y, layouts[i].name);
            expect_same(&p, base, layouts[i].name);
            both_destroy(x);
        }
        weak_close(&p);
    }
}

/* 420,000 runs of one element go through host memory, except where the host may not wait. */
Test(weak, copies_many_short_runs)
{
    for (int place = 0; place < PLACE_COUNT; place++) {
        struct pair p = pair_init(place);
        struct both x = both_of(&p, BP_F32, 2, SHAPE(600, 700)), t, y;
        uint64_t before = p.fake->copies;

        OK(bp_tensor_transpose(x.weak, NULL, &t.weak));
        OK(bp_tensor_transpose(x.cpu, NULL, &t.cpu));
        OK(bp_op_relu(p.weak.scope, t.weak, &y.weak));
        OK(bp_op_relu(p.cpu.scope, t.cpu, &y.cpu));
        expect_same(&p, y, "relu");
        if (!(places[place].flags & BP_STREAM_ASYNC)) cr_assert_eq(p.fake->copies, before);
        cr_assert_eq(bp_device_blocked(p.weak.device, BP_BLOCK_COPY),
                     place == LATE || place == LATE_OFFSETS, "%s", p.name);
        both_destroy(t);
        both_destroy(x);
        weak_close(&p);
    }
}

/* With BP_BLOCK=deny a copy by way of the host is refused before anything is done. */
Test(weak, refuses_copies_that_wait)
{
    struct pair p = pair_with(LATE, "BP_BLOCK", "deny");
    struct both x = both_of(&p, BP_F32, 2, SHAPE(600, 700)), t;
    struct both few = both_of(&p, BP_F32, 2, SHAPE(6, 7));
    struct bp_tensor *y, *dense = tensor_of(&p.weak, BP_F32, 2, SHAPE(700, 600), NULL);
    struct bp_arg in = {&dense, 1};
    struct bp_call call = {.size = sizeof call, .op = "relu", .in = &in, .n_in = 1};
    uint64_t before = p.fake->copies;

    OK(bp_tensor_transpose(x.weak, NULL, &t.weak));
    FAILS(BP_ERR_BLOCKED, "BP_BLOCK", bp_op_relu(p.weak.scope, t.weak, &y));
    cr_assert_eq(p.fake->copies, before);
    y = t.weak; /* the copy is behind the kernel, which must not run either */
    OK(bp_stream_synchronize(p.weak.stream));
    before = p.fake->ended();
    FAILS(BP_ERR_BLOCKED, "BP_BLOCK", bp_call_run(p.weak.scope, &call, &y, 1, NULL));
    OK(bp_stream_synchronize(p.weak.stream));
    cr_assert_eq(p.fake->ended(), before);
    before = p.fake->copies;
    bp_tensor_destroy(t.weak);
    OK(bp_tensor_transpose(few.weak, NULL, &t.weak));
    OK(bp_op_relu(p.weak.scope, t.weak, &y));
    cr_assert_eq(p.fake->copies, before + 42);
    bp_tensor_destroy(y);
    bp_tensor_destroy(dense);
    bp_tensor_destroy(t.weak);
    both_destroy(x);
    both_destroy(few);
    weak_close(&p);
}

/* Makes a tensor of i64 on both devices. */
static struct both indices_of(struct pair *p, int64_t n, const int64_t *values)
{
    return (struct both){tensor_of(&p->weak, BP_I64, 1, SHAPE(n), values),
                         tensor_of(&p->cpu, BP_I64, 1, SHAPE(n), values)};
}

Test(weak, takes_indices_of_64_bits)
{
    for (int place = 0; place < PLACE_COUNT; place++) {
        struct pair p = pair_init(place);
        struct both x = both_of(&p, BP_F16, 3, SHAPE(3, 5, 2)), xt, y, every, index;
        struct bp_gather_attrs a = bp_gather_defaults();
        struct bp_fallback_info info = {.size = sizeof info};

        a.axis = 1;
        index = indices_of(&p, 6, (const int64_t[]){4, 99, -5, 99, 0, 99});
        OK(bp_tensor_slice(index.weak, 0, 0, INT64_MAX, 2, &every.weak));
        OK(bp_tensor_slice(index.cpu, 0, 0, INT64_MAX, 2, &every.cpu));
        OK(bp_tensor_transpose(x.weak, NULL, &xt.weak));
        OK(bp_tensor_transpose(x.cpu, NULL, &xt.cpu));
        OK(bp_op_gather(p.weak.scope, xt.weak, every.weak, &a, &y.weak));
        OK(bp_op_gather(p.cpu.scope, xt.cpu, every.cpu, &a, &y.cpu));
        expect_same(&p, y, "gather");
        cr_assert_eq(weak_fallbacks(p.weak.device, "gather", BP_FALLBACK_INDEX, &info),
                     place == CASTS ? 2 : 1);
        cr_assert_eq(info.bytes, place == CASTS ? 3 * 8 + 3 * 4 : 3 * 4);
        cr_assert_eq(bp_device_blocked(p.weak.device, BP_BLOCK_COPY),
                     places[place].flags != BP_STREAM_INLINE, "%s", p.name);
        both_destroy(every);
        both_destroy(index);
        both_destroy(xt);
        both_destroy(x);
        weak_close(&p);
    }
}

/* The low 32 bits of each value are a valid index. */
Test(weak, reports_indices_beyond_32_bits)
{
    static const int64_t bad[] = {(INT64_C(1) << 32) + 1, -(INT64_C(1) << 32) + 1, INT64_MIN,
                                  INT64_MAX - 0xfffffffe, INT64_C(1) << 31, 5, -6};

    for (int place = 0; place < PLACE_COUNT; place++)
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
            struct pair p = pair_init(place);
            struct both x = both_of(&p, BP_F32, 1, SHAPE(5)), index = indices_of(&p, 1, &bad[i]);
            struct bp_tensor *y = NULL;
            enum bp_status status = bp_op_gather(p.weak.scope, x.weak, index.weak, NULL, &y);
            if (status == BP_OK) status = bp_stream_synchronize(p.weak.stream);
            cr_assert_eq(status, BP_ERR_FAULT, "%s, %lld: %s", p.name, (long long)bad[i],
                         bp_error_message());
            cr_assert(strstr(bp_error_message(), "gather"), "%s", bp_error_message());
            bp_tensor_destroy(y);
            both_destroy(index);
            both_destroy(x);
            weak_close(&p);
        }
}
