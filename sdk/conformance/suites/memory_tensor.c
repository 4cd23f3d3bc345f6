/* SPDX-License-Identifier: Apache-2.0 */
/* memory_tensor.c: checks that reads return the data that was written: sizes, dtypes, neighbours,
 * views. */
#include "suites.h"
#include <ops/common/cases_random.h>
#include <stdlib.h>
#include <string.h>

static uint32_t f32_or_bytes(struct check *c)
{
    return c->fixture->properties.dtypes >> BP_F32 & 1 ? BP_F32 : BP_U8;
}

static bool tensor_create(struct check *c, uint32_t dtype, int64_t n, struct bp_tensor **out)
{
    return check_ok(c, bp_tensor_create(c->fixture->device, dtype, 1, &n, out), "bp_tensor_create");
}

static void *random_bytes(uint64_t size, uint64_t seed)
{
    unsigned char *bytes = malloc(size + 8);
    struct random r = {seed};

    if (!bytes) abort();
    for (uint64_t i = 0; i < size; i += 8) {
        uint64_t bits = random_bits(&r);
        memcpy(bytes + i, &bits, 8);
    }
    return bytes;
}

static bool tensor_equal(struct check *c, const void *got, const void *want, uint64_t size,
                         const char *what)
{
    const unsigned char *a = got, *b = want;

    for (uint64_t i = 0; i < size; i++)
        if (a[i] != b[i])
            return check_that(c, false, "%s: byte %llu of %llu is 0x%02x, expected 0x%02x", what,
                              (unsigned long long)i, (unsigned long long)size, a[i], b[i]);
    return true;
}

static bool tensor_put(struct check *c, struct bp_tensor *t, const void *bytes, uint64_t size)
{
    return check_ok(c, bp_tensor_write(c->fixture->stream, t, bytes, size), "bp_tensor_write");
}

static bool tensor_holds(struct check *c, struct bp_tensor *t, const void *want, uint64_t size,
                         const char *what)
{
    unsigned char *got = malloc(size + 1);
    bool ok;

    if (!got) abort();
    memset(got, 0x99, size + 1);
    ok = check_ok(c, bp_tensor_read(c->fixture->stream, t, got, size), "bp_tensor_read") &&
         tensor_equal(c, got, want, size, what) &&
         check_that(c, got[size] == 0x99,
                    "%s: bp_tensor_read wrote past the end of the host memory", what);
    free(got);
    return ok;
}

void memory_roundtrip(struct check *c, const int64_t *arg)
{
    uint32_t dtype = (uint32_t)arg[0];
    int64_t n = arg[1];
    uint64_t size = (uint64_t)n * num_type(dtype)->size;
    struct bp_tensor *before = NULL, *tensor = NULL, *after = NULL;
    void *bytes = random_bytes(size, (uint64_t)n + dtype), *side = random_bytes(64, dtype);
    int64_t few = 64 / num_type(dtype)->size;

    if (!(c->fixture->properties.dtypes >> dtype & 1)) {
        check_unsupported(c, "the device does not hold %s", bp_dtype_name(dtype));
    } else if (tensor_create(c, dtype, few, &before) && tensor_create(c, dtype, n, &tensor) &&
               tensor_create(c, dtype, few, &after) && tensor_put(c, before, side, 64) &&
               tensor_put(c, after, side, 64) && tensor_put(c, tensor, bytes, size) &&
               tensor_holds(c, tensor, bytes, size, "the tensor") &&
               tensor_holds(c, before, side, 64, "the tensor made before it")) {
        tensor_holds(c, after, side, 64, "the tensor made after it");
    }
    bp_tensor_destroy(before);
    bp_tensor_destroy(tensor);
    bp_tensor_destroy(after);
    free(bytes);
    free(side);
}

static void tensor_large(struct check *c, const int64_t *arg)
{
    const struct bp_device_properties *p = &c->fixture->properties;
    uint64_t size = 64 << 20, limit = p->max_alloc ? p->max_alloc : UINT64_MAX;
    struct bp_tensor *tensor = NULL;
    void *bytes;

    (void)arg;
    if (p->memory && p->memory / 4 < limit) limit = p->memory / 4;
    if (size > limit) size = limit / 4096 * 4096;
    bytes = random_bytes(size, 1);
    if (tensor_create(c, f32_or_bytes(c), (int64_t)(size / num_type(f32_or_bytes(c))->size),
                      &tensor) &&
        tensor_put(c, tensor, bytes, size))
        tensor_holds(c, tensor, bytes, size, "64 MiB");
    bp_tensor_destroy(tensor);
    free(bytes);
}

static void tensor_shapes(struct check *c, const int64_t *arg)
{
    static const int64_t shape[][BP_RANK_MAX] = {
        {0}, {3, 0, 2}, {1, 1, 1, 1, 1, 1, 1, 1}, {2, 3, 1, 2, 1, 3, 1, 2}, {7, 5}};
    static const uint32_t rank[] = {0, 3, 8, 8, 2};

    (void)arg;
    for (int i = 0; i < 5; i++) {
        struct bp_tensor *tensor = NULL;
        struct bp_tensor_info info = {.size = sizeof info};
        uint32_t dtype = f32_or_bytes(c);
        int64_t count = 1;
        void *bytes;
        for (uint32_t k = 0; k < rank[i]; k++) count *= shape[i][k];
        if (!check_ok(c,
                      bp_tensor_create(c->fixture->device, dtype, rank[i],
                                       rank[i] ? shape[i] : NULL, &tensor),
                      "bp_tensor_create") ||
            !check_ok(c, bp_tensor_get_info(tensor, &info), "bp_tensor_get_info"))
            return;
        check_that(
            c,
            info.rank == rank[i] && info.dtype == dtype && info.count == count &&
                info.contiguous == 1 && info.bytes == (uint64_t)count * num_type(dtype)->size &&
                info.device == c->fixture->device,
            "bp_tensor_get_info of shape %d: rank %u, count %lld, bytes %llu, contiguous %u", i,
            info.rank, (long long)info.count, (unsigned long long)info.bytes, info.contiguous);
        bytes = random_bytes(info.bytes, 9);
        if (tensor_put(c, tensor, bytes, info.bytes))
            tensor_holds(c, tensor, bytes, info.bytes, "a shape");
        free(bytes);
        bp_tensor_destroy(tensor);
    }
}

static void tensor_alignment(struct check *c, const int64_t *arg)
{
    struct bp_tensor *tensor[40] = {0};
    uint64_t align = c->fixture->properties.alignment;

    (void)arg;
    if (!(c->fixture->properties.flags & BP_DEVICE_HOST_VISIBLE)) {
        check_unsupported(c, "the host does not see the device's addresses");
        return;
    }
    for (int i = 0; i < 40; i++) {
        struct bp_tensor_info info = {.size = sizeof info};
        if (!tensor_create(c, f32_or_bytes(c), 1 + i * i, &tensor[i]) ||
            !check_ok(c, bp_tensor_get_info(tensor[i], &info), "bp_tensor_get_info"))
            break;
        check_that(c, info.data && !((uintptr_t)info.data & (align - 1)),
                   "an allocation lies at %p, not a multiple of the alignment of %llu that the "
                   "device states",
                   info.data, (unsigned long long)align);
    }
    for (int i = 0; i < 40; i++) bp_tensor_destroy(tensor[i]);
}

enum {
    ROWS = 9,
    COLUMNS = 7
};

/* Views of a matrix of ROWS x COLUMNS with numbers 0, 1, 2, ... */
static void tensor_views(struct check *c, const int64_t *arg)
{
    static const struct {
        int64_t offset, shape[3], stride[3];
        uint32_t rank;
    } view[] = {
        {0, {ROWS, COLUMNS}, {COLUMNS, 1}, 2},
        {COLUMNS, {3, COLUMNS}, {COLUMNS, 1}, 2},
        {1, {5}, {1}, 1},
        {0, {COLUMNS, ROWS}, {1, COLUMNS}, 2},
        {2, {ROWS, 2}, {COLUMNS, 3}, 2},
        {4, {6, COLUMNS - 4}, {0, 1}, 2},
        {ROWS * COLUMNS - 1, {1}, {1}, 1},
        {0, {2, 3, 2}, {3 * COLUMNS, 1, COLUMNS}, 3},
        {62, {0}, {0}, 0},
    };
    struct bp_tensor *base = NULL, *t;
    int32_t numbers[ROWS * COLUMNS], want[ROWS * COLUMNS * 2];

    (void)arg;
    for (int i = 0; i < ROWS * COLUMNS; i++) numbers[i] = i;
    if (!(c->fixture->properties.dtypes >> BP_I32 & 1)) {
        check_unsupported(c, "the device does not hold i32");
        return;
    }
    if (!tensor_create(c, BP_I32, ROWS * COLUMNS, &base) ||
        !tensor_put(c, base, numbers, sizeof numbers))
        return;
    for (size_t v = 0; v < sizeof view / sizeof *view; v++) {
        int64_t at[3] = {0}, n = 0;
        do {
            want[n] = (int32_t)view[v].offset;
            for (uint32_t i = 0; i < view[v].rank; i++)
                want[n] += (int32_t)(at[i] * view[v].stride[i]);
            n++;
        } while (ref_next((int)view[v].rank, view[v].shape, at));
        if (!check_ok(c,
                      bp_tensor_view(base, view[v].offset, view[v].rank, view[v].shape,
                                     view[v].stride, &t),
                      "bp_tensor_view"))
            break;
        tensor_holds(c, t, want, (uint64_t)n * 4, "a view");
        bp_tensor_destroy(t);
    }
    bp_tensor_destroy(base);
}

static void view_write(struct check *c, const int64_t *arg)
{
    struct bp_tensor *base = NULL, *view = NULL;
    unsigned char bytes[ROWS * COLUMNS * 4], part[ROWS * 2 * 4];
    int64_t shape[2] = {ROWS, 2}, stride[2] = {COLUMNS, 3};

    (void)arg;
    memset(bytes, 0x11, sizeof bytes);
    for (size_t i = 0; i < sizeof part; i++) part[i] = (unsigned char)(i + 100);
    if (!(c->fixture->properties.dtypes >> BP_I32 & 1))
        check_unsupported(c, "the device does not hold i32");
    else if (tensor_create(c, BP_I32, ROWS * COLUMNS, &base) &&
             tensor_put(c, base, bytes, sizeof bytes) &&
             check_ok(c, bp_tensor_view(base, 2, 2, shape, stride, &view), "bp_tensor_view") &&
             tensor_put(c, view, part, sizeof part) &&
             tensor_holds(c, view, part, sizeof part, "the view")) {
        for (int r = 0; r < ROWS; r++)
            for (int k = 0; k < 2; k++)
                memcpy(bytes + (2 + r * COLUMNS + k * 3) * 4, part + (r * 2 + k) * 4, 4);
        tensor_holds(c, base, bytes, sizeof bytes, "what lies around the view");
    }
    bp_tensor_destroy(view);
    bp_tensor_destroy(base);
}

static void view_lives(struct check *c, const int64_t *arg)
{
    struct bp_tensor *base = NULL, *view = NULL, *inner = NULL, *other = NULL;
    uint32_t dtype = f32_or_bytes(c);
    int64_t shape = 50, stride = 1;
    uint32_t width = num_type(dtype)->size;
    unsigned char *bytes = random_bytes(100 * width, 3), *noise = random_bytes(100 * width, 4);

    (void)arg;
    if (tensor_create(c, dtype, 100, &base) && tensor_put(c, base, bytes, 100 * width) &&
        check_ok(c, bp_tensor_view(base, 10, 1, &shape, &stride, &view), "bp_tensor_view")) {
        bp_tensor_destroy(base);
        base = NULL;
        if (tensor_create(c, dtype, 100, &other)) tensor_put(c, other, noise, 100 * width);
        tensor_holds(c, view, bytes + 10 * width, 50 * width, "a view whose base was destroyed");
        shape = 20;
        if (check_ok(c, bp_tensor_view(view, 5, 1, &shape, &stride, &inner),
                     "bp_tensor_view of a view"))
            tensor_holds(c, inner, bytes + 15 * width, 20 * width, "a view of a view");
    }
    bp_tensor_destroy(base);
    bp_tensor_destroy(view);
    bp_tensor_destroy(inner);
    bp_tensor_destroy(other);
    free(bytes);
    free(noise);
}

static void view_refused(struct check *c, const int64_t *arg)
{
    static const struct {
        int64_t offset, shape, stride;
        const char *what;
    } bad[] = {{1, 100, 1, "one past the end"},          {0, 51, 2, "a stride past the end"},
               {-1, 1, 1, "a negative offset"},          {0, -1, 1, "a negative extent"},
               {0, 2, -1, "a negative stride"},          {INT64_MAX, 2, 1, "offset 2^63-1"},
               {0, INT64_MAX, INT64_MAX, "an overflow"}, {100, 1, 1, "behind the end"}};
    struct bp_tensor *base = NULL, *view = NULL;

    (void)arg;
    if (tensor_create(c, f32_or_bytes(c), 100, &base))
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
            check_fails(
                c, bp_tensor_view(base, bad[i].offset, 1, &bad[i].shape, &bad[i].stride, &view),
                BP_ERR_INVALID, bad[i].what);
    check_that(c, !view, "a failed bp_tensor_view wrote its out parameter");
    bp_tensor_destroy(base);
}

static void create_refused(struct check *c, const int64_t *arg)
{
    const int64_t negative[] = {3, -1}, huge[] = {INT64_C(1) << 32, INT64_C(1) << 32},
                  many[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    uint32_t dtype = f32_or_bytes(c);
    struct bp_tensor *t = NULL;
    struct bp_device *device = c->fixture->device;
    unsigned char byte = 0;

    (void)arg;
    check_fails(c, bp_tensor_create(NULL, dtype, 0, NULL, &t), BP_ERR_INVALID,
                "bp_tensor_create without a device");
    check_fails(c, bp_tensor_create(device, dtype, 0, NULL, NULL), BP_ERR_INVALID,
                "bp_tensor_create without out");
    check_fails(c, bp_tensor_create(device, dtype, 2, NULL, &t), BP_ERR_INVALID,
                "bp_tensor_create without a shape");
    check_fails(c, bp_tensor_create(device, dtype, 2, negative, &t), BP_ERR_INVALID,
                "bp_tensor_create of extent -1");
    check_fails(c, bp_tensor_create(device, dtype, 2, huge, &t), BP_ERR_INVALID,
                "bp_tensor_create of 2^64 elements");
    check_fails(c, bp_tensor_create(device, dtype, 9, many, &t), BP_ERR_INVALID,
                "bp_tensor_create of rank 9");
    check_fails(c, bp_tensor_create(device, 77, 0, NULL, &t), BP_ERR_INVALID,
                "bp_tensor_create of dtype 77");
    check_that(c, !t, "a failed bp_tensor_create wrote its out parameter");
    if (!tensor_create(c, dtype, 4, &t)) return;
    check_fails(c, bp_tensor_write(c->fixture->stream, t, &byte, 1), BP_ERR_INVALID,
                "bp_tensor_write of another size");
    check_fails(c, bp_tensor_read(c->fixture->stream, t, NULL, 4 * num_type(dtype)->size),
                BP_ERR_INVALID, "bp_tensor_read into NULL");
    check_fails(c, bp_tensor_write(NULL, t, &byte, 1), BP_ERR_INVALID,
                "bp_tensor_write without a stream");
    check_fails(c, bp_tensor_read(c->fixture->stream, NULL, &byte, 1), BP_ERR_INVALID,
                "bp_tensor_read without a tensor");
    bp_tensor_destroy(t);
}

const struct check_case suite_memory_tensor[] = {
    {"tensor/large", tensor_large},
    {"tensor/shapes", tensor_shapes},
    {"tensor/alignment", tensor_alignment},
    {"tensor/refused", create_refused},
    {"view/read", tensor_views},
    {"view/write", view_write},
    {"view/outlives-base", view_lives},
    {"view/refused", view_refused},
    {NULL, NULL},
};
