/* SPDX-License-Identifier: Apache-2.0 */
/* fixture.h: sets up the objects of unit tests of the app API: a core, a device (cpu:0 unless
 * another one is named) and a stream. */
#ifndef BP_TEST_FIXTURE_H
#define BP_TEST_FIXTURE_H

#include <backplane/backplane.h>
#include <criterion/criterion.h>
#include <string.h>

#define OK(call) cr_assert_eq((call), BP_OK, "%s: %s", #call, bp_error_message())

/* Asserts that the call fails with status, and that its message contains the word. */
#define FAILS(status, word, call) \
    do { \
        enum bp_status got_ = (call); \
        cr_assert_eq(got_, status, "%s: expected %s, got %s: %s", #call, bp_status_name(status), \
                     bp_status_name(got_), bp_error_message()); \
        cr_assert(strstr(bp_error_message(), word), "%s: '%s' does not say '%s'", #call, \
                  bp_error_message(), word); \
    } while (0)

struct fixture {
    struct bp_core *core;
    struct bp_device *device;
    struct bp_stream *stream;
    struct bp_scope *scope;
};

static inline struct fixture fixture_on(const char *device)
{
    struct fixture f;

    OK(bp_core_create(NULL, &f.core));
    OK(bp_device_create(f.core, device, &f.device));
    OK(bp_stream_create(f.device, &f.stream));
    f.scope = bp_stream_scope(f.stream);
    return f;
}

static inline struct fixture fixture_init(void)
{
    return fixture_on("cpu:0");
}

static inline void fixture_finish(struct fixture *f)
{
    bp_stream_destroy(f->stream);
    bp_device_destroy(f->device);
    bp_core_destroy(f->core);
}

/* Creates a tensor of dtype with the given bytes. */
static inline struct bp_tensor *tensor_of(struct fixture *f, uint32_t dtype, uint32_t rank,
                                          const int64_t *shape, const void *data)
{
    struct bp_tensor_info info = {.size = sizeof info};
    struct bp_tensor *t;

    OK(bp_tensor_create(f->device, dtype, rank, shape, &t));
    OK(bp_tensor_get_info(t, &info));
    if (data) OK(bp_tensor_write(f->stream, t, data, info.bytes));
    return t;
}

#define SHAPE(...) ((const int64_t[]){__VA_ARGS__})
#define F32(...) ((const float[]){__VA_ARGS__})
#define F64(...) ((const double[]){__VA_ARGS__})

/* Asserts that the tensor holds exactly these elements. */
static inline void expect_bytes(struct fixture *f, struct bp_tensor *t, const void *expected,
                                size_t size)
{
    struct bp_tensor_info info = {.size = sizeof info};
    unsigned char got[4096];

    OK(bp_tensor_get_info(t, &info));
    cr_assert_eq(info.bytes, size, "%llu bytes, expected %zu", (unsigned long long)info.bytes,
                 size);
    cr_assert(size <= sizeof got);
    OK(bp_tensor_read(f->stream, t, got, size));
    for (size_t i = 0; i < size; i++)
        cr_assert_eq(got[i], ((const unsigned char *)expected)[i], "byte %zu differs", i);
}

#endif
