/* SPDX-License-Identifier: Apache-2.0 */
/* stress_large.c: tests tensors of more than 2^31 elements, for which an index of 32 bits is too
 * small. Each element is checked: element i is byte_of(i). */
#include "suites.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Rows and columns are odd primes, so that no row or column ends at a power of two. */
static const int64_t rows = 65537, columns = 32771, count = 65537 * INT64_C(32771),
                     piece = INT64_C(64) << 20;

struct large {
    struct check *c;
    struct bp_stream *stream;
    struct bp_tensor *x, *y;
    unsigned char *bytes; /* a buffer of `piece` bytes */
};

static unsigned char byte_of(int64_t i)
{
    return (unsigned char)((uint64_t)i * UINT64_C(0x9e3779b97f4a7c15) >> 56);
}

/* Checks the dtypes and sizes that the device reports, and the memory that other programs have left
 * free. */
static bool has_room(struct check *c, uint64_t bytes)
{
    const struct bp_device_properties *p = &c->fixture->properties;
    struct bp_memory_stats s = {.size = sizeof s};

    if (!(p->dtypes >> BP_U8 & 1) || (p->max_alloc && p->max_alloc < (uint64_t)count) ||
        (p->memory && p->memory < bytes)) {
        check_unsupported(c, "it needs %" PRIu64 " bytes of u8, %" PRId64 " in one piece: the "
                          "device has %" PRIu64 ", of at most %" PRIu64, bytes, count, p->memory,
                          p->max_alloc);
        return false;
    }
    if (!bp_device_memory(c->fixture->device, &s) && s.device_free && s.device_free < bytes) {
        check_skip(c, "it needs %" PRIu64 " bytes, of which %" PRIu64 " are free", bytes,
                   s.device_free);
        return false;
    }
    return true;
}

static bool large_tensor(struct large *l, int64_t n, const int64_t *shape, uint32_t rank,
                         uint32_t dtype, struct bp_tensor **out)
{
    struct bp_tensor_options o = {.size = sizeof o, .dtype = dtype, .rank = rank,
                                  .shape = shape ? shape : &n, .stream = l->stream};

    return check_ok(l->c, bp_tensor_create_with(l->c->fixture->device, &o, out),
                    "bp_tensor_create_with");
}

/* A part of a tensor of one axis. */
static bool large_part(struct large *l, struct bp_tensor *t, int64_t from, int64_t to,
                       struct bp_tensor **out)
{
    return check_ok(l->c, bp_tensor_slice(t, 0, from, to, 1, out), "bp_tensor_slice");
}

static int64_t end_of(int64_t from)
{
    return count - from < piece ? count : from + piece;
}

static bool large_fill(struct large *l)
{
    for (int64_t from = 0; from < count; from = end_of(from)) {
        struct bp_tensor *view;
        enum bp_status status;
        int64_t to = end_of(from);
        if (!large_part(l, l->x, from, to, &view)) return false;
        for (int64_t i = from; i < to; i++) l->bytes[i - from] = byte_of(i);
        status = bp_tensor_write(l->stream, view, l->bytes, (uint64_t)(to - from));
        bp_tensor_destroy(view);
        if (!check_ok(l->c, status, "bp_tensor_write")) return false;
    }
    return true;
}

/* Checks that each element i of y is of(i). */
static bool large_holds(struct large *l, unsigned char (*of)(int64_t i), const char *what)
{
    for (int64_t from = 0; from < count; from = end_of(from)) {
        struct bp_tensor *view;
        enum bp_status status;
        int64_t to = end_of(from), i = from;
        if (!large_part(l, l->y, from, to, &view)) return false;
        status = bp_tensor_read(l->stream, view, l->bytes, (uint64_t)(to - from));
        bp_tensor_destroy(view);
        if (!check_ok(l->c, status, "bp_tensor_read")) return false;
        while (i < to && l->bytes[i - from] == of(i)) i++;
        if (!check_that(l->c, i == to, "%s: element %" PRId64 " of %" PRId64 " is %d, expected %d",
                        what, i, count, l->bytes[i < to ? i - from : 0], of(i)))
            return false;
    }
    return true;
}

static bool large_begin(struct large *l, struct check *c, const char *op, uint64_t tensors)
{
    *l = (struct large){.c = c};
    if (op && !kernel_has_row(c->fixture->device, op, BP_U8)) {
        check_unsupported(c, "the device has no row of %s for u8", op);
        return false;
    }
    if (!has_room(c, tensors * (uint64_t)count)) return false;
    l->bytes = malloc((size_t)piece);
    if (!l->bytes) abort();
    return check_ok(c, bp_stream_create(c->fixture->device, &l->stream), "bp_stream_create") &&
           large_tensor(l, count, NULL, 1, BP_U8, &l->x) && large_fill(l);
}

/* Destroys the tensors and returns their memory to the driver. */
static void large_finish(struct large *l)
{
    bp_tensor_destroy(l->x);
    bp_tensor_destroy(l->y);
    if (l->stream) bp_stream_synchronize(l->stream);
    bp_stream_destroy(l->stream);
    bp_device_trim(l->c->fixture->device);
    free(l->bytes);
}

static bool large_call(struct large *l, const char *op, struct bp_tensor **in, size_t n,
                       struct bp_tensor **out)
{
    struct bp_arg arg[2] = {{&in[0], 1}, {&in[1], 1}};
    struct bp_call made = {.size = sizeof made, .op = op, .in = arg, .n_in = n};

    return check_ok(l->c, bp_call_run(bp_stream_scope(l->stream), &made, out, 1, NULL),
                    "bp_call_run");
}

static void large_copy(struct check *c, const int64_t *arg)
{
    struct large l;

    (void)arg;
    if (large_begin(&l, c, NULL, 2) && large_tensor(&l, count, NULL, 1, BP_U8, &l.y) &&
        check_ok(c, bp_tensor_copy(l.stream, l.y, l.x), "bp_tensor_copy"))
        large_holds(&l, byte_of, "a copy");
    large_finish(&l);
}

static unsigned char large_twice(int64_t i)
{
    return (unsigned char)(2 * byte_of(i));
}

static void large_add(struct check *c, const int64_t *arg)
{
    struct large l;

    (void)arg;
    if (large_begin(&l, c, "add", 2) &&
        large_call(&l, "add", (struct bp_tensor *[]){l.x, l.x}, 2, &l.y))
        large_holds(&l, large_twice, "a sum");
    large_finish(&l);
}

/* Element i of the transposed matrix, in memory order, is element (i % rows, i / rows) of the
 * matrix. */
static unsigned char transposed_of(int64_t i)
{
    return byte_of(i % rows * columns + i / rows);
}

static void large_transpose(struct check *c, const int64_t *arg)
{
    struct bp_tensor *matrix = NULL, *view = NULL, *transposed = NULL;
    struct large l;

    (void)arg;
    if (large_begin(&l, c, NULL, 2) &&
        large_tensor(&l, 0, (const int64_t[]){columns, rows}, 2, BP_U8, &transposed) &&
        check_ok(c, bp_tensor_reshape(l.x, 2, (const int64_t[]){rows, columns}, &matrix),
                 "bp_tensor_reshape") &&
        check_ok(c, bp_tensor_transpose(matrix, NULL, &view), "bp_tensor_transpose") &&
        check_ok(c, bp_tensor_copy(l.stream, transposed, view),
                 "bp_tensor_copy of a turned matrix") &&
        check_ok(c, bp_tensor_reshape(transposed, 1, &count, &l.y), "bp_tensor_reshape"))
        large_holds(&l, transposed_of, "a turned matrix");
    bp_tensor_destroy(matrix);
    bp_tensor_destroy(view);
    bp_tensor_destroy(transposed);
    large_finish(&l);
}

/* Gathers a few elements, most of them at an index that does not fit into 32 bits. */
static void large_gather(struct check *c, const int64_t *arg)
{
    enum { N = 6 };
    const int64_t at[N] = {0, INT32_MAX, INT64_C(1) << 31, (INT64_C(1) << 31) + 77, count - 1, 5};
    struct bp_tensor *index = NULL, *out = NULL;
    unsigned char got[N] = {0};
    struct large l;

    (void)arg;
    if (large_begin(&l, c, "gather", 1) && large_tensor(&l, N, NULL, 1, BP_I64, &index) &&
        check_ok(c, bp_tensor_write(l.stream, index, at, sizeof at), "bp_tensor_write") &&
        large_call(&l, "gather", (struct bp_tensor *[]){l.x, index}, 2, &out) &&
        check_ok(c, bp_tensor_read(l.stream, out, got, sizeof got), "bp_tensor_read"))
        for (int i = 0; i < N; i++)
            check_that(c, got[i] == byte_of(at[i]), "element %" PRId64 " is %d, expected %d", at[i],
                       got[i], byte_of(at[i]));
    bp_tensor_destroy(index);
    bp_tensor_destroy(out);
    large_finish(&l);
}

/* All elements are equal except the last but one; its index is the result. */
static void large_argmax(struct check *c, const int64_t *arg)
{
    struct bp_tensor *out = NULL, *view = NULL;
    int64_t got = -1;
    struct large l;

    (void)arg;
    if (large_begin(&l, c, "argmax", 1) && large_part(&l, l.x, 0, count - 2, &view)) {
        bp_tensor_destroy(view);
        view = NULL;
        memset(l.bytes, 3, (size_t)piece);
        for (int64_t from = 0; c->result->outcome == OUTCOME_PASS && from < count;
             from = end_of(from)) {
            if (end_of(from) == count) l.bytes[count - 2 - from] = 9;
            if (!large_part(&l, l.x, from, end_of(from), &view)) break;
            check_ok(c, bp_tensor_write(l.stream, view, l.bytes, (uint64_t)(end_of(from) - from)),
                     "bp_tensor_write");
            bp_tensor_destroy(view);
        }
        if (c->result->outcome == OUTCOME_PASS && large_call(&l, "argmax", &l.x, 1, &out) &&
            check_ok(c, bp_tensor_read(l.stream, out, &got, sizeof got), "bp_tensor_read"))
            check_that(c, got == count - 2, "the largest is at %" PRId64 ", expected %" PRId64, got,
                       count - 2);
    }
    bp_tensor_destroy(out);
    large_finish(&l);
}

const struct check_case suite_stress_large[] = {
    {"large/copy", large_copy},     {"large/add", large_add},       {"large/turn", large_transpose},
    {"large/gather", large_gather}, {"large/argmax", large_argmax}, {NULL, NULL},
};
