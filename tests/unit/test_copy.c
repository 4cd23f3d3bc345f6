/* SPDX-License-Identifier: Apache-2.0 */
/* test_copy.c: tests write, read and copy of tensors with any strides, on and between devices whose
 * memory the host can and cannot access. A model of each memory as bytes is changed element by
 * element, by bp_tensor_get_info. The whole memories are compared, so bytes between elements count
 * too. */
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

static uint64_t seed = 77;

static int64_t copy_below(int64_t n)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (int64_t)((seed >> 33) % (uint64_t)n);
}

/* A device, one of several of one core. */
struct place {
    struct fixture f;
    struct bp_tensor *base; /* SIZE bytes */
    unsigned char *model;
};
enum {
    SIZE = 1 << 18,
    CPU = 0,
    TEMPLATE_DEVICE,
    FAILING,
    QUEUE,         /* cpu, with a queue */
    PARTIAL_QUEUE, /* partial, whose memory the host does not access, with a queue */
    PLACES
};

static void place_init(struct place *p, struct bp_core *core, const char *library, uint32_t flags)
{
    uint32_t index;

    p->f.core = core;
    if (library) {
        OK(bp_core_load_path(core, library, &index));
        OK(bp_device_create_at(core, index, 0, &p->f.device));
    } else {
        OK(bp_device_create(core, "cpu", &p->f.device));
    }
    OK(bp_stream_create_with(p->f.device, flags, &p->f.stream));
    p->model = malloc(SIZE);
    cr_assert_not_null(p->model);
    for (int i = 0; i < SIZE; i++) p->model[i] = (unsigned char)(copy_below(256));
    p->base = tensor_of(&p->f, BP_U8, 1, SHAPE(SIZE), p->model);
}

static void place_finish(struct place *p)
{
    bp_tensor_destroy(p->base);
    bp_stream_destroy(p->f.stream);
    bp_device_destroy(p->f.device);
    free(p->model);
}

static struct bp_core *places_init(struct place *place)
{
    struct bp_core *core;

    OK(bp_core_create(NULL, &core));
    place_init(&place[CPU], core, NULL, 0);
    place_init(&place[TEMPLATE_DEVICE], core, TEMPLATE, 0);
    place_init(&place[FAILING], core, HOSTILE_DIR "/bp_faulty.so", 0);
    place_init(&place[QUEUE], core, NULL, BP_STREAM_ASYNC);
    place_init(&place[PARTIAL_QUEUE], core, HOSTILE_DIR "/bp_partial.so", BP_STREAM_ASYNC);
    return core;
}

static void places_finish(struct bp_core *core, struct place *place)
{
    for (int i = 0; i < PLACES; i++) place_finish(&place[i]);
    bp_core_destroy(core);
}

static void expect_model(struct place *p, const char *what)
{
    static unsigned char got[SIZE];

    OK(bp_tensor_read(p->f.stream, p->base, got, SIZE));
    for (int i = 0; i < SIZE; i++)
        cr_assert_eq(got[i], p->model[i], "%s, %s: byte %d is %02x, expected %02x", what,
                     bp_device_name(p->f.device), i, got[i], p->model[i]);
}

/* The offset in the base's memory of element number n of a view, in row-major order. */
static uint64_t byte_of(const struct bp_tensor_info *info, int64_t n)
{
    int64_t at = 0;

    for (uint32_t i = info->rank; i-- > 0; n /= info->shape[i])
        at += n % info->shape[i] * info->stride[i];
    return info->offset + (uint64_t)at * (info->bytes / (uint64_t)info->count);
}

/* The base is a U8 tensor. A view with wider elements has one more axis, of bytes, which is
 * innermost. */
struct layout {
    uint32_t rank;
    int64_t shape[BP_RANK_MAX], stride[BP_RANK_MAX], offset;
};

static struct layout some_layout(uint32_t rank, const int64_t *shape, int64_t width)
{
    struct layout l = {.rank = rank};
    uint32_t order[BP_RANK_MAX];
    int64_t step = width << (copy_below(3) == 0);

    for (uint32_t i = 0; i < rank; i++) {
        uint32_t at = copy_below(2) ? i : (uint32_t)copy_below(i + 1);
        order[i] = order[at];
        order[at] = i;
        l.shape[i] = shape[i];
    }
    for (uint32_t i = rank; i-- > 0;) {
        l.stride[order[i]] = step;
        step *= shape[order[i]] + (copy_below(4) == 0);
    }
    cr_assert_leq(step, SIZE / 2);
    l.offset = copy_below(copy_below(2) ? 64 : (SIZE - step) / width) * width;
    l.shape[l.rank] = width;
    l.stride[l.rank++] = 1;
    return l;
}

static struct bp_tensor *copy_view_of(struct place *p, const struct layout *l)
{
    struct bp_tensor *t;

    OK(bp_tensor_view(p->base, l->offset, l->rank, l->shape, l->stride, &t));
    return t;
}

/* Returns shapes of few long runs, of many short ones, with all orders of axes and widths of 1 to
 * 16 bytes. It avoids copies of 13, 17 and 19 bytes, at which faulty fails. */
static uint32_t some_shape(int64_t *out_shape)
{
    uint32_t rank = (uint32_t)copy_below(5);

    for (uint32_t i = 0; i < rank; i++) {
        out_shape[i] = 1 + copy_below(rank < 3 ? 40 : 7);
        if (out_shape[i] == 13 || out_shape[i] == 17 || out_shape[i] == 19) out_shape[i]--;
    }
    return rank;
}

static void write_and_read(struct place *p)
{
    static unsigned char data[SIZE], got[SIZE];

    for (int k = 0; k < 200; k++) {
        int64_t shape[BP_RANK_MAX], width = INT64_C(1) << copy_below(5);
        uint32_t rank = some_shape(shape);
        struct layout l = some_layout(rank, shape, width);
        struct bp_tensor *t = copy_view_of(p, &l);
        struct bp_tensor_info info = {.size = sizeof info};
        OK(bp_tensor_get_info(t, &info));
        for (int64_t n = 0; n < info.count; n++) {
            data[n] = (unsigned char)copy_below(256);
            p->model[byte_of(&info, n)] = data[n];
        }
        OK(bp_tensor_write(p->f.stream, t, data, info.bytes));
        memset(got, 0, info.bytes);
        OK(bp_tensor_read(p->f.stream, t, got, info.bytes));
        cr_assert(!memcmp(got, data, info.bytes));
        bp_tensor_destroy(t);
    }
    expect_model(p, "after writes");
}

Test(copy, write_and_read_any_strides)
{
    struct place place[PLACES];
    struct bp_core *core = places_init(place);

    for (int i = 0; i < PLACES; i++) write_and_read(&place[i]);
    places_finish(core, place);
}

static bool share_bytes(const struct bp_tensor_info *a, const struct bp_tensor_info *b)
{
    static unsigned char mark[SIZE];
    bool found = false;

    for (int64_t n = 0; n < a->count; n++) mark[byte_of(a, n)] = 1;
    for (int64_t n = 0; n < b->count; n++) found |= mark[byte_of(b, n)];
    for (int64_t n = 0; n < a->count; n++) mark[byte_of(a, n)] = 0;
    return found;
}

/* Makes one copy between random views; returns whether the copy was possible. */
static bool copy_once(struct place *to, struct place *from)
{
    int64_t shape[BP_RANK_MAX], width = INT64_C(1) << copy_below(5);
    uint32_t rank = some_shape(shape);
    struct layout dl = some_layout(rank, shape, width), sl = some_layout(rank, shape, width);
    struct bp_tensor *dst, *src;
    struct bp_tensor_info d = {.size = sizeof d}, s = d;
    bool refused;

    if (rank && copy_below(4) == 0) sl.stride[copy_below(rank)] = 0;
    dst = copy_view_of(to, &dl);
    src = copy_view_of(from, &sl);
    OK(bp_tensor_get_info(dst, &d));
    OK(bp_tensor_get_info(src, &s));
    refused = to == from && share_bytes(&d, &s);
    if (refused) {
        FAILS(BP_ERR_INVALID, "overlap", bp_tensor_copy(to->f.stream, dst, src));
    } else {
        for (int64_t n = 0; n < d.count; n++)
            to->model[byte_of(&d, n)] = from->model[byte_of(&s, n)];
        OK(bp_tensor_copy(to->f.stream, dst, src));
    }
    bp_tensor_destroy(dst);
    bp_tensor_destroy(src);
    return !refused;
}

Test(copy, any_strides_between_any_two_devices)
{
    struct place place[PLACES];
    struct bp_core *core = places_init(place);

    for (int to = 0; to < PLACES; to++)
        for (int from = 0; from < PLACES; from++) {
            int done = 0, k = 0;
            for (; k < 80; k++) done += copy_once(&place[to], &place[from]);
            expect_model(&place[to], "after copies");
            expect_model(&place[from], "the source");
            cr_assert(done > 30 && (to == from) == (done < k), "%d of %d copies", done, k);
        }
    places_finish(core, place);
}

/* Tests wider dtypes, whose elements are no single bytes. */
Test(copy, transposed_matrix_of_each_width)
{
    const uint32_t dtypes[] = {BP_BOOL, BP_F16, BP_F32, BP_C64, BP_C128};
    struct fixture f = fixture_init();
    static unsigned char data[70 * 90 * 16], got[sizeof data];

    for (int k = 0; k < 5; k++) {
        size_t width = (size_t)1 << k;
        struct bp_tensor *a, *b, *t;
        for (size_t i = 0; i < 70 * 90 * width; i++) data[i] = (unsigned char)copy_below(2);
        a = tensor_of(&f, dtypes[k], 2, SHAPE(70, 90), data);
        OK(bp_tensor_create(f.device, dtypes[k], 2, SHAPE(90, 70), &b));
        OK(bp_tensor_transpose(a, NULL, &t));
        OK(bp_tensor_copy(f.stream, b, t));
        OK(bp_tensor_read(f.stream, b, got, 70 * 90 * width));
        for (size_t i = 0; i < 70; i++)
            for (size_t j = 0; j < 90; j++)
                cr_assert(!memcmp(got + (j * 70 + i) * width, data + (i * 90 + j) * width, width));
        bp_tensor_destroy(a);
        bp_tensor_destroy(b);
        bp_tensor_destroy(t);
    }
    fixture_finish(&f);
}

Test(copy, parts_of_one_tensor)
{
    struct fixture f = fixture_init();
    struct bp_tensor *t = tensor_of(&f, BP_I32, 2, SHAPE(2, 4),
                                    (const int32_t[]){1, 2, 3, 4, 5, 6, 7, 8}),
                     *left, *right, *middle, *again;

    OK(bp_tensor_slice(t, 1, 0, 2, 1, &left));
    OK(bp_tensor_slice(t, 1, 2, 4, 1, &right));
    OK(bp_tensor_slice(t, 1, 1, 3, 1, &middle));
    OK(bp_tensor_slice(t, 1, 0, 2, 1, &again));
    OK(bp_tensor_copy(f.stream, left, right)); /* their spans overlap, their elements do not */
    OK(bp_tensor_copy(f.stream, left, again));
    expect_bytes(&f, t, (const int32_t[]){3, 4, 3, 4, 7, 8, 7, 8}, 32);
    FAILS(BP_ERR_INVALID, "overlap", bp_tensor_copy(f.stream, left, middle));
    bp_tensor_destroy(t);
    bp_tensor_destroy(left);
    bp_tensor_destroy(right);
    bp_tensor_destroy(middle);
    bp_tensor_destroy(again);
    fixture_finish(&f);
}

Test(copy, contiguous_to_and_from_a_device)
{
    const int64_t n = (40 << 20) + 13;
    struct fixture f;
    struct place place[PLACES];
    struct bp_core *core = places_init(place);
    unsigned char *data = malloc((size_t)n), *got = malloc((size_t)n);
    struct bp_tensor *a, *b, *c;

    cr_assert(data && got);
    for (int64_t i = 0; i < n; i++) data[i] = (unsigned char)(i ^ i >> 12);
    f = place[TEMPLATE_DEVICE].f;
    a = tensor_of(&place[CPU].f, BP_U8, 1, &n, data);
    b = tensor_of(&f, BP_U8, 1, &n, NULL);
    c = tensor_of(&f, BP_U8, 1, &n, NULL);
    OK(bp_tensor_copy(f.stream, b, a));
    OK(bp_tensor_copy(f.stream, c, b));
    OK(bp_tensor_read(f.stream, c, got, (uint64_t)n));
    cr_assert(!memcmp(got, data, (size_t)n));
    memset(got, 0, (size_t)n);
    OK(bp_tensor_write(place[CPU].f.stream, a, got, (uint64_t)n));
    OK(bp_tensor_copy(place[CPU].f.stream, a, b));
    OK(bp_tensor_read(place[CPU].f.stream, a, got, (uint64_t)n));
    cr_assert(!memcmp(got, data, (size_t)n));
    bp_tensor_destroy(a);
    bp_tensor_destroy(b);
    bp_tensor_destroy(c);
    free(data);
    free(got);
    places_finish(core, place);
}

/* Copies from a device that the host cannot access to another one, with more bytes than one staging
 * buffer in host memory holds. */
Test(copy, between_devices_that_the_host_cannot_touch)
{
    const int64_t sizes[] = {700000, (40 << 20) + 13};
    struct place place[PLACES];
    struct bp_core *core = places_init(place), *other;
    struct bp_device *twin;
    uint32_t index;

    OK(bp_core_create(NULL, &other)); /* has a separate template device */
    OK(bp_core_load_path(other, TEMPLATE, &index));
    OK(bp_device_create_at(other, index, 0, &twin));
    for (int k = 0; k < 2; k++) {
        struct fixture from = place[k ? TEMPLATE_DEVICE : FAILING].f, to = {.device = twin};
        unsigned char *data = malloc((size_t)sizes[k]), *got = malloc((size_t)sizes[k]);
        struct bp_tensor *a, *b;
        cr_assert(data && got);
        for (int64_t i = 0; i < sizes[k]; i++) data[i] = (unsigned char)(i ^ i >> 12 ^ i >> 20);
        OK(bp_stream_create(twin, &to.stream));
        a = tensor_of(&from, BP_U8, 1, &sizes[k], data);
        b = tensor_of(&to, BP_U8, 1, &sizes[k], NULL);
        OK(bp_tensor_copy(to.stream, b, a));
        OK(bp_tensor_read(to.stream, b, got, (uint64_t)sizes[k]));
        cr_assert(!memcmp(got, data, (size_t)sizes[k]));
        bp_tensor_destroy(a);
        bp_tensor_destroy(b);
        bp_stream_destroy(to.stream);
        free(data);
        free(got);
    }
    bp_device_destroy(twin);
    bp_core_destroy(other);
    places_finish(core, place);
}

/* Creates a tensor of 9 GiB of addresses, of which only a few pages are touched. */
static struct bp_tensor *copy_huge(struct fixture *f, unsigned char **out_memory)
{
    static struct bp_dlpack_legacy lent;
    static int64_t shape = INT64_C(9) << 30;
    struct bp_tensor *t;

    *out_memory = mmap(NULL, (size_t)shape, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    cr_assert_neq(*out_memory, MAP_FAILED);
    lent.tensor = (struct bp_dlpack_tensor){.data = *out_memory,
                                            .device = {1, 0},
                                            .ndim = 1,
                                            .dtype = {BP_DLPACK_UINT, 8, 1},
                                            .shape = &shape};
    OK(bp_tensor_from_dlpack_legacy(f->device, &lent, &t));
    return t;
}

Test(copy, elements_beyond_2_31)
{
    struct fixture f = fixture_init();
    const int64_t step = (INT64_C(1) << 32) + 5;
    unsigned char *memory;
    struct bp_tensor *t = copy_huge(&f, &memory), *far, *farther, *pair;

    OK(bp_tensor_slice(t, 0, 7, INT64_MAX, step, &far)); /* 7, step + 7, 2 step + 7 */
    OK(bp_tensor_write(f.stream, far, "abc", 3));
    cr_assert(memory[7] == 'a' && memory[step + 7] == 'b' && memory[2 * step + 7] == 'c');
    OK(bp_tensor_slice(t, 0, 8, INT64_MAX, step, &farther));
    OK(bp_tensor_copy(f.stream, farther, far));
    expect_bytes(&f, farther, "abc", 3);
    cr_assert_eq(memory[2 * step + 8], 'c');
    OK(bp_tensor_view(t, 7, 2, SHAPE(3, 2), SHAPE(step, 1), &pair));
    expect_bytes(&f, pair, "aabbcc", 6);
    OK(bp_tensor_write(f.stream, pair, "ABCDEF", 6));
    cr_assert(!memcmp(memory + 2 * step + 7, "EF", 2) && !memory[2 * step + 9]);
    bp_tensor_destroy(t);
    bp_tensor_destroy(far);
    bp_tensor_destroy(farther);
    bp_tensor_destroy(pair);
    munmap(memory, (size_t)9 << 30);
    fixture_finish(&f);
}

static uint64_t copy_available(void)
{
    FILE *file = fopen("/proc/meminfo", "r");
    unsigned long long kib = 0;
    char line[128];

    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %llu", &kib) == 1) break;
    if (file) fclose(file);
    return kib << 10;
}

/* Copies more than 2^31 elements, which are every second byte, and back. */
Test(copy, over_2_31_elements, .timeout = 300)
{
    const int64_t n = (INT64_C(1) << 31) + 3;
    struct fixture f;
    struct bp_tensor *a, *odd, *b;
    struct bp_tensor_info info = {.size = sizeof info};
    unsigned char *memory;
    void *data;

    if (!getenv("LARGE_TESTS") || copy_available() < UINT64_C(8) << 30)
        cr_skip_test("8 GiB of memory, and LARGE_TESTS in the environment");
    f = fixture_init();
    a = copy_huge(&f, &memory); /* zeros, apart from the bytes set here */
    for (int64_t i = 0; i < n; i += 999983) memory[2 * i + 1] = (unsigned char)(i % 251 + 1);
    OK(bp_tensor_slice(a, 0, 1, 2 * n, 2, &odd));
    OK(bp_tensor_create(f.device, BP_U8, 1, &n, &b));
    OK(bp_tensor_get_info(odd, &info));
    cr_assert_eq(info.count, n);
    OK(bp_tensor_copy(f.stream, b, odd));
    OK(bp_tensor_map(b, &data));
    for (int64_t i = 0; i < n; i++)
        if (((unsigned char *)data)[i] != (i % 999983 ? 0 : i % 251 + 1))
            cr_assert_fail("element %lld is wrong", (long long)i);
    bp_tensor_destroy(a);
    bp_tensor_destroy(odd);
    bp_tensor_destroy(b);
    munmap(memory, (size_t)9 << 30);
    fixture_finish(&f);
}
