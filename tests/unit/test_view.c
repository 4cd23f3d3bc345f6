/* SPDX-License-Identifier: Apache-2.0 */
/* test_view.c: tests views, strides and memory spaces that an app chooses, freezing, and host
 * access. */
#include "fixture.h"

#include <stdlib.h>

static struct bp_tensor_info view_info_of(struct bp_tensor *t)
{
    struct bp_tensor_info info = {.size = sizeof info};

    OK(bp_tensor_get_info(t, &info));
    return info;
}

/* Opens an asynchronous device whose memory the host cannot access. */
static struct fixture open_path(const char *library)
{
    struct fixture f;
    uint32_t index;

    OK(bp_core_create(NULL, &f.core));
    OK(bp_core_load_path(f.core, library, &index));
    OK(bp_device_create_at(f.core, index, 0, &f.device));
    OK(bp_stream_create(f.device, &f.stream));
    f.scope = bp_stream_scope(f.stream);
    return f;
}

static struct fixture open_template(void)
{
    return open_path(TEMPLATE);
}

static struct fixture open_fixture(void)
{
    return open_path(HOSTILE_DIR "/bp_faulty.so"); /* the host can access all its spaces */
}

static void chain_of_views(struct fixture f)
{
    const int32_t numbers[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    struct bp_tensor *t = tensor_of(&f, BP_I32, 1, SHAPE(12), numbers), *m, *s, *c, *e, *flat;

    OK(bp_tensor_reshape(t, 2, SHAPE(3, -1), &m));
    OK(bp_tensor_slice(m, 1, -3, INT64_MAX, 2, &s)); /* columns 1 and 3 */
    expect_bytes(&f, s, (const int32_t[]){1, 3, 5, 7, 9, 11}, 24);
    OK(bp_tensor_transpose(s, NULL, &c));
    expect_bytes(&f, c, (const int32_t[]){1, 5, 9, 3, 7, 11}, 24);
    cr_assert_eq(view_info_of(c).offset, 4);
    cr_assert_eq(view_info_of(c).buffer, view_info_of(t).buffer);
    FAILS(BP_ERR_UNSUPPORTED, "copy", bp_tensor_reshape(c, 1, SHAPE(6), &flat));
    OK(bp_tensor_slice(c, 0, 1, 2, 1, &flat));
    OK(bp_tensor_expand(flat, 3, SHAPE(2, -1, 3), &e));
    bp_tensor_destroy(t);
    bp_tensor_destroy(m);
    bp_tensor_destroy(s);
    bp_tensor_destroy(c);
    FAILS(BP_ERR_INVALID, "only extents of 1", bp_tensor_expand(flat, 2, SHAPE(1, 6), &m));
    expect_bytes(&f, e, (const int32_t[]){3, 7, 11, 3, 7, 11}, 24);
    FAILS(BP_ERR_INVALID, "may overlap itself", bp_tensor_write(f.stream, e, numbers, 24));
    bp_tensor_destroy(e);
    bp_tensor_destroy(flat);
    fixture_finish(&f);
}

Test(view, views_of_views)
{
    chain_of_views(fixture_init());
    chain_of_views(open_template());
}

Test(view, of_one_and_of_nothing)
{
    struct fixture f = fixture_init();
    struct bp_tensor *one = tensor_of(&f, BP_F64, 0, NULL, F64(2.5)), *empty, *a, *b, *c, *d;

    OK(bp_tensor_expand(one, 2, SHAPE(2, 1), &a));
    expect_bytes(&f, a, F64(2.5, 2.5), 16);
    OK(bp_tensor_transpose(one, NULL, &b));
    OK(bp_tensor_reshape(b, 3, SHAPE(1, 1, 1), &c));
    OK(bp_tensor_reshape(c, 0, NULL, &d));
    expect_bytes(&f, d, F64(2.5), 8);
    bp_tensor_destroy(a);
    bp_tensor_destroy(b);
    bp_tensor_destroy(c);
    OK(bp_tensor_slice(a = tensor_of(&f, BP_F32, 2, SHAPE(4, 5), NULL), 0, 3, 3, 1, &empty));
    cr_assert(view_info_of(empty).count == 0 && !view_info_of(empty).data &&
              view_info_of(empty).contiguous);
    OK(bp_tensor_reshape(empty, 3, SHAPE(5, 0, 9), &b));
    OK(bp_tensor_expand(empty, 3, SHAPE(7, 0, 5), &c));
    cr_assert_eq(view_info_of(c).count, 0);
    OK(bp_tensor_copy(f.stream, empty, empty));
    bp_tensor_destroy(a);
    bp_tensor_destroy(b);
    bp_tensor_destroy(c);
    bp_tensor_destroy(d);
    bp_tensor_destroy(empty);
    bp_tensor_destroy(one);
    fixture_finish(&f);
}

/* One element represents 2^33: index arithmetic is done in 64 bits. */
Test(view, over_2_31_elements)
{
    struct fixture f = fixture_init();
    const int64_t n = INT64_C(1) << 32;
    struct bp_tensor *t = tensor_of(&f, BP_U8, 2, SHAPE(1, 2), "ab"), *e, *flat, *s, *huge = NULL;

    OK(bp_tensor_expand(t, 2, SHAPE(n, 2), &e));
    cr_assert_eq(view_info_of(e).count, 2 * n);
    cr_assert_eq(view_info_of(e).bytes, (uint64_t)(2 * n));
    OK(bp_tensor_slice(e, 0, n - 3, INT64_MAX, 2, &s));
    expect_bytes(&f, s, "abab", 4);
    OK(bp_tensor_reshape(e, 3, SHAPE(n / 4, -1, 2), &flat));
    cr_assert_eq(view_info_of(flat).shape[1], 4);
    FAILS(BP_ERR_INVALID, "more bytes than 63 bits", bp_tensor_expand(t, 3, SHAPE(n, n, 2), &huge));
    cr_assert_null(huge);
    bp_tensor_destroy(t);
    bp_tensor_destroy(e);
    bp_tensor_destroy(s);
    bp_tensor_destroy(flat);
    fixture_finish(&f);
}

Test(view, refuses_missing_axes)
{
    struct fixture f = fixture_init();
    struct bp_tensor *t = tensor_of(&f, BP_F32, 1, SHAPE(4), NULL), *out = NULL;
    struct bp_tensor *stream = (struct bp_tensor *)f.stream;

    FAILS(BP_ERR_INVALID, "bp_tensor_reshape: expected a tensor",
          bp_tensor_reshape(NULL, 0, NULL, &out));
    FAILS(BP_ERR_INVALID, "bp_tensor_slice: expected a tensor",
          bp_tensor_slice(stream, 0, 0, 1, 1, &out));
    FAILS(BP_ERR_INVALID, "bp_tensor_transpose: out_tensor is NULL",
          bp_tensor_transpose(t, NULL, NULL));
    FAILS(BP_ERR_INVALID, "bp_tensor_expand: shape is NULL", bp_tensor_expand(t, 1, NULL, &out));
    FAILS(BP_ERR_INVALID, "rank is 9", bp_tensor_reshape(t, 9, SHAPE(0), &out));
    FAILS(BP_ERR_INVALID, "[5] does not hold the 4", bp_tensor_reshape(t, 1, SHAPE(5), &out));
    FAILS(BP_ERR_INVALID, "tensor", bp_tensor_freeze(NULL));
    FAILS(BP_ERR_INVALID, "out_data is NULL", bp_tensor_map(t, NULL));
    cr_assert_null(out);
    bp_tensor_destroy(t);
    fixture_finish(&f);
}

Test(create_with, channels_last)
{
    struct fixture f = fixture_init();
    /* N C H W = 2 3 2 2; in memory N H W C */
    const struct bp_tensor_options o = {.size = sizeof o,
                                        .dtype = BP_I32,
                                        .rank = 4,
                                        .shape = SHAPE(2, 3, 2, 2),
                                        .stride = SHAPE(12, 1, 6, 3),
                                        .stream = f.stream};
    struct bp_tensor *t;
    int32_t data[24], got[24];
    void *memory;

    for (int i = 0; i < 24; i++) data[i] = i;
    OK(bp_tensor_create_with(f.device, &o, &t));
    cr_assert(!view_info_of(t).contiguous && view_info_of(t).space == BP_SPACE_DEVICE);
    OK(bp_tensor_write(f.stream, t, data, sizeof data));
    OK(bp_tensor_read(f.stream, t, got, sizeof got));
    cr_assert(!memcmp(got, data, sizeof data));
    OK(bp_tensor_map(t, &memory));
    for (int n = 0; n < 2; n++)
        for (int c = 0; c < 3; c++)
            for (int hw = 0; hw < 4; hw++)
                cr_assert_eq(((int32_t *)memory)[n * 12 + hw * 3 + c], n * 12 + c * 4 + hw);
    bp_tensor_destroy(t);
    fixture_finish(&f);
}

/* The whole span is allocated, with its gaps. */
Test(create_with, gaps)
{
    struct fixture f = fixture_init();
    struct bp_tensor_options o = {.size = sizeof o,
                                  .dtype = BP_U8,
                                  .rank = 2,
                                  .shape = SHAPE(3, 2),
                                  .stride = SHAPE(1000, 400)};
    struct bp_memory_stats before = {.size = sizeof before}, with = before;
    struct bp_tensor *t, *last;

    OK(bp_device_memory(f.device, &before));
    OK(bp_tensor_create_with(f.device, &o, &t));
    OK(bp_device_memory(f.device, &with));
    cr_assert_geq(with.allocated - before.allocated, 2401);
    OK(bp_tensor_view(t, 2400, 1, SHAPE(1), SHAPE(1), &last));
    FAILS(BP_ERR_INVALID, "ends after 2401", bp_tensor_view(t, 2401, 1, SHAPE(1), SHAPE(1), &last));
    bp_tensor_destroy(last);
    bp_tensor_destroy(t);
    fixture_finish(&f);
}

Test(create_with, refuses)
{
    struct fixture f = fixture_init(), other = open_template();
    struct bp_tensor_options o = {
        .size = sizeof o, .dtype = BP_F32, .rank = 2, .shape = SHAPE(2, 3)};
    struct bp_tensor *t = NULL;

    FAILS(BP_ERR_INVALID, "options or", bp_tensor_create_with(f.device, NULL, &t));
    o.size = 4;
    FAILS(BP_ERR_INVALID, "options->size", bp_tensor_create_with(f.device, &o, &t));
    o.size = sizeof o;
    o.stride = SHAPE(1, 1);
    FAILS(BP_ERR_INVALID, "one place to two", bp_tensor_create_with(f.device, &o, &t));
    o.stride = SHAPE(0, 1);
    FAILS(BP_ERR_INVALID, "one place to two", bp_tensor_create_with(f.device, &o, &t));
    o.stride = SHAPE(-3, 1);
    FAILS(BP_ERR_INVALID, "stride 0 is -3", bp_tensor_create_with(f.device, &o, &t));
    o.stride = SHAPE(INT64_MAX, 1);
    FAILS(BP_ERR_INVALID, "63 bits", bp_tensor_create_with(f.device, &o, &t));
    o.stride = SHAPE(INT64_MAX - 2, 1);
    FAILS(BP_ERR_INVALID, "63 bits", bp_tensor_create_with(f.device, &o, &t));
    o.stride = NULL;
    o.space = 3;
    FAILS(BP_ERR_INVALID, "3 is no memory space", bp_tensor_create_with(f.device, &o, &t));
    o.space = BP_SPACE_MANAGED;
    FAILS(BP_ERR_UNSUPPORTED, "no space 2", bp_tensor_create_with(other.device, &o, &t));
    o.space = BP_SPACE_PINNED;
    FAILS(BP_ERR_UNSUPPORTED, "no space 1", bp_tensor_create_with(other.device, &o, &t));
    o.space = 0;
    o.stream = other.stream;
    FAILS(BP_ERR_INVALID, "the stream is of template:0", bp_tensor_create_with(f.device, &o, &t));
    o.stream = (struct bp_stream *)f.core;
    FAILS(BP_ERR_INVALID, "expected a stream", bp_tensor_create_with(f.device, &o, &t));
    o.stream = NULL;
    o.shape = NULL;
    FAILS(BP_ERR_INVALID, "shape is NULL", bp_tensor_create_with(f.device, &o, &t));
    cr_assert_null(t);
    fixture_finish(&other);
    fixture_finish(&f);
}

static void view_pinned(struct fixture f, uint32_t space)
{
    const struct bp_tensor_options o = {
        .size = sizeof o, .dtype = BP_F32, .rank = 1, .shape = SHAPE(3), .space = space};
    struct bp_tensor *p, *t = tensor_of(&f, BP_F32, 1, SHAPE(3), F32(7, 8, 9)), *sum = NULL, *view;
    void *data;

    OK(bp_tensor_create_with(f.device, &o, &p));
    cr_assert_eq(view_info_of(p).space, space);
    cr_assert_not_null(view_info_of(p).data);
    OK(bp_tensor_map(p, &data));
    memcpy(data, F32(1, 2, 3), 12);
    OK(bp_op_add(f.scope, p, t, &sum));
    expect_bytes(&f, sum, F32(8, 10, 12), 12);
    OK(bp_tensor_copy(f.stream, p, t)); /* still pending when map is called */
    OK(bp_tensor_slice(p, 0, 1, 3, 1, &view));
    cr_assert_eq(view_info_of(view).space, space);
    OK(bp_tensor_map(view, &data));
    cr_assert(((float *)data)[0] == 8 && ((float *)data)[1] == 9);
    bp_tensor_destroy(p);
    bp_tensor_destroy(t);
    bp_tensor_destroy(sum);
    bp_tensor_destroy(view);
    fixture_finish(&f);
}

Test(map, reaches_pinned_and_managed_memory)
{
    view_pinned(fixture_init(), BP_SPACE_PINNED);
    view_pinned(fixture_init(), BP_SPACE_MANAGED);
    view_pinned(open_fixture(), BP_SPACE_PINNED);
}

/* map returns the failure of the work that it waits for: the device fails after 13 bytes. */
Test(map, waits_for_the_device)
{
    struct fixture f = open_fixture();
    const struct bp_tensor_options o = {.size = sizeof o,
                                        .dtype = BP_U8,
                                        .rank = 1,
                                        .shape = SHAPE(13),
                                        .space = BP_SPACE_PINNED};
    struct bp_tensor *t;
    void *data = NULL;

    OK(bp_tensor_create_with(f.device, &o, &t));
    OK(bp_tensor_write(f.stream, t, "abcdefghijkl", 13));
    FAILS(BP_ERR_DEVICE, "told to fail", bp_tensor_map(t, &data));
    cr_assert_null(data);
    bp_tensor_destroy(t);
    fixture_finish(&f);
}

Test(map, refuses_memory_the_host_cannot_access)
{
    struct fixture f = open_template(), here = fixture_init();
    struct bp_tensor *t = tensor_of(&f, BP_F32, 1, SHAPE(3), NULL),
                     *empty = tensor_of(&here, BP_F32, 1, SHAPE(0), NULL);
    void *data = &f;

    FAILS(BP_ERR_UNSUPPORTED, "bp_tensor_read", bp_tensor_map(t, &data));
    cr_assert_eq(data, &f);
    cr_assert_null(view_info_of(t).data);
    OK(bp_tensor_map(empty, &data));
    cr_assert_null(data);
    bp_tensor_destroy(t);
    bp_tensor_destroy(empty);
    fixture_finish(&f);
    fixture_finish(&here);
}

Test(freeze, refuses_writes_through_every_view)
{
    struct fixture f = fixture_init();
    struct bp_tensor *t = tensor_of(&f, BP_F32, 1, SHAPE(4), F32(1, 2, 3, 4)), *before, *after,
                     *other = tensor_of(&f, BP_F32, 1, SHAPE(2), F32(8, 9));

    OK(bp_tensor_slice(t, 0, 0, 2, 1, &before));
    OK(bp_tensor_write(f.stream, before, F32(5, 6), 8));
    cr_assert_eq(view_info_of(t).frozen, 0);
    OK(bp_tensor_freeze(t));
    OK(bp_tensor_freeze(t));
    OK(bp_tensor_slice(t, 0, 2, 4, 1, &after));
    cr_assert(view_info_of(before).frozen && view_info_of(after).frozen && view_info_of(t).frozen);
    FAILS(BP_ERR_INVALID, "bp_tensor_write: the tensor's memory is frozen",
          bp_tensor_write(f.stream, before, F32(5, 6), 8));
    FAILS(BP_ERR_INVALID, "bp_tensor_copy: the tensor's memory is frozen",
          bp_tensor_copy(f.stream, after, other));
    OK(bp_tensor_copy(f.stream, other, after)); /* reading is allowed */
    expect_bytes(&f, other, F32(3, 4), 8);
    expect_bytes(&f, t, F32(5, 6, 3, 4), 16);
    bp_tensor_destroy(t);
    bp_tensor_destroy(before);
    bp_tensor_destroy(after);
    bp_tensor_destroy(other);
    fixture_finish(&f);
}

static void version_of_memory(struct fixture f)
{
    struct bp_tensor *t = tensor_of(&f, BP_U8, 1, SHAPE(8), NULL), *view,
                     *other = tensor_of(&f, BP_U8, 1, SHAPE(4), "abcd");
    uint64_t start = view_info_of(t).version, theirs = view_info_of(other).version;
    char got[8];

    cr_assert_neq(view_info_of(t).buffer, view_info_of(other).buffer);
    OK(bp_tensor_slice(t, 0, 0, 8, 2, &view));
    OK(bp_tensor_write(f.stream, view, "wxyz", 4));
    cr_assert_gt(view_info_of(t).version, start);
    start = view_info_of(t).version;
    OK(bp_tensor_copy(f.stream, view, other));
    cr_assert_gt(view_info_of(t).version, start);
    start = view_info_of(t).version;
    OK(bp_tensor_read(f.stream, t, got, 8));
    OK(bp_tensor_copy(f.stream, t, t));
    cr_assert_eq(view_info_of(t).version, start, "nothing was written");
    cr_assert_eq(view_info_of(other).version, theirs, "it was only read");
    bp_tensor_destroy(t);
    bp_tensor_destroy(view);
    bp_tensor_destroy(other);
    fixture_finish(&f);
}

Test(freeze, version_counts_writes)
{
    version_of_memory(fixture_init());
    version_of_memory(open_template());
}
