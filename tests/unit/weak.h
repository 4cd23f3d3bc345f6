/* SPDX-License-Identifier: Apache-2.0 */
/* weak.h: opens the weak devices of the tests, whose kernels take less than an app may pass, beside
 * the cpu, which computes the expected results. Included by one source file of a program. */
#ifndef BP_TEST_WEAK_H
#define BP_TEST_WEAK_H

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
    X(CAPTURES, "weak_captures", 0) \
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

static inline struct fixture weak_open(struct bp_core *core, struct bp_device *device,
                                       uint32_t flags)
{
    struct fixture f = {core, device, NULL, NULL};

    OK(bp_stream_create_with(device, flags, &f.stream));
    f.scope = bp_stream_scope(f.stream);
    return f;
}

static inline struct pair pair_with(int place, const char *variable, const char *value)
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

static inline struct pair pair_init(int place)
{
    return pair_with(place, NULL, NULL);
}

static inline void weak_close(struct pair *p)
{
    bp_stream_destroy(p->cpu.stream);
    bp_device_destroy(p->cpu.device);
    fixture_finish(&p->weak);
}

/* A tensor on both devices, with the same contents. */
struct both {
    struct bp_tensor *weak, *cpu;
};

static inline void both_destroy(struct both b)
{
    bp_tensor_destroy(b.weak);
    bp_tensor_destroy(b.cpu);
}

static inline uint64_t weak_bytes(struct bp_tensor *t)
{
    struct bp_tensor_info info = {.size = sizeof info};

    OK(bp_tensor_get_info(t, &info));
    return info.bytes;
}

/* Makes tensors of finite numbers, which differ from their neighbours; of truth values for bool. */
static inline struct both both_of(struct pair *p, uint32_t dtype, uint32_t rank,
                                  const int64_t *shape)
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
static inline void expect_same(struct pair *p, struct both b, const char *what)
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

static inline uint64_t weak_fallbacks(struct bp_device *device, const char *op, uint32_t kind,
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

/* Makes a tensor of i64 on both devices. */
static inline struct both indices_of(struct pair *p, int64_t n, const int64_t *values)
{
    return (struct both){tensor_of(&p->weak, BP_I64, 1, SHAPE(n), values),
                         tensor_of(&p->cpu, BP_I64, 1, SHAPE(n), values)};
}

#endif
