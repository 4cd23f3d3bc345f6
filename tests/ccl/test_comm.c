/* SPDX-License-Identifier: Apache-2.0 */
/* test_comm.c: tests communicators of threads or processes: every call, dtype and reduction, many
 * sizes and numbers of ranks, groups and splits. Results are compared with results computed here;
 * several communicators are used at once. */
#include "kit.h"
#include "repeated.h"

#include <math.h>

static struct bp_core *core;
static struct bp_device *device;
static bool processes;

/* One rank: a communicator and a stream. */
struct rank {
    struct bp_comm *comm;
    struct bp_stream *stream;
    uint32_t rank, size;
};

static struct rank join_rank(const struct bp_comm_id *id, uint32_t rank, uint32_t size)
{
    struct rank r = {.rank = rank, .size = size};

    OK(bp_comm_create(device, id, rank, size, &r.comm));
    OK(bp_stream_create(device, &r.stream));
    return r;
}

static void close_rank(struct rank *r)
{
    bp_stream_destroy(r->stream);
    bp_comm_destroy(r->comm);
}

static struct bp_tensor *rank_tensor(uint32_t dtype, int64_t n)
{
    struct bp_tensor *t;

    OK(bp_tensor_create(device, dtype, 1, &n, &t));
    return t;
}

static void *rank_map(struct bp_tensor *t)
{
    void *data;

    OK(bp_tensor_map(t, &data));
    return data;
}

/* Element i of rank r's buffer: a small whole number, exact in every dtype used. The values repeat
 * with a period, and so do their sums. */
enum { PERIOD = 5, BLOCK = 200 * PERIOD };
static uint32_t value_of(uint32_t rank, int64_t i)
{
    return (uint32_t)((rank * 7 + (uint64_t)i * 3) % PERIOD + 1);
}

static void set_element(uint32_t dtype, void *data, int64_t i, uint32_t v)
{
    switch (dtype) {
    case BP_F32: ((float *)data)[i] = (float)v; break;
    case BP_F64: ((double *)data)[i] = (double)v; break;
    case BP_I64: ((int64_t *)data)[i] = v; break;
    case BP_I32: ((int32_t *)data)[i] = (int32_t)v; break;
    case BP_U8: ((uint8_t *)data)[i] = (uint8_t)v; break;
    default: CHECK(0, "dtype");
    }
}

static double get_element(uint32_t dtype, const void *data, int64_t i)
{
    switch (dtype) {
    case BP_F32: return ((const float *)data)[i];
    case BP_F64: return ((const double *)data)[i];
    case BP_I64: return (double)((const int64_t *)data)[i];
    case BP_I32: return ((const int32_t *)data)[i];
    case BP_U8: return ((const uint8_t *)data)[i];
    default: return NAN;
    }
}

static size_t comm_bytes_of(uint32_t dtype, int64_t n)
{
    return (size_t)n * bp_dtype_bits(dtype) / 8;
}

static void fill_tensor(struct bp_tensor *t, uint32_t dtype, int64_t n, uint32_t rank, int64_t from)
{
    double block[BLOCK];

    for (int64_t i = 0; i < n && i < BLOCK; i++)
        set_element(dtype, block, i, value_of(rank, from + i));
    if (n)
        repeated_write(rank_map(t), comm_bytes_of(dtype, n), block, comm_bytes_of(dtype, BLOCK));
}

static void expect_elements(struct rank *r, const char *what, struct bp_tensor *t, uint32_t dtype,
                            int64_t n, int64_t from,
                            double (*fn)(uint32_t size, int64_t i, uint32_t rank), uint32_t rank)
{
    const void *data = n ? rank_map(t) : NULL;
    double block[BLOCK];
    size_t same;

    for (int64_t i = 0; i < n && i < BLOCK; i++)
        set_element(dtype, block, i, (uint32_t)fn(r->size, from + i, rank));
    same = repeated_compare(data, comm_bytes_of(dtype, n), block, comm_bytes_of(dtype, BLOCK));
    for (int64_t i = (int64_t)(same / comm_bytes_of(dtype, 1)); i < n; i++) {
        double want = fn(r->size, from + i, rank), got = get_element(dtype, data, i);
        CHECK(got == want, "%s: rank %u of %u, element %lld of %lld: %g, expected %g", what,
              r->rank, r->size, (long long)i, (long long)n, got, want);
    }
}

static double sum_of_ranks(uint32_t size, int64_t i, uint32_t rank)
{
    double sum = 0;

    (void)rank;
    for (uint32_t j = 0; j < size; j++) sum += value_of(j, i);
    return sum;
}

static double max_of(uint32_t size, int64_t i, uint32_t rank)
{
    double max = 0;

    (void)rank;
    for (uint32_t j = 0; j < size; j++) max = fmax(max, value_of(j, i));
    return max;
}

static double of_rank(uint32_t size, int64_t i, uint32_t rank)
{
    (void)size;
    return value_of(rank, i);
}

static void check_reduce(struct rank *r, uint32_t dtype, int64_t n)
{
    uint32_t root = (uint32_t)n % r->size;
    struct bp_tensor *x = rank_tensor(dtype, n), *y = rank_tensor(dtype, n);

    fill_tensor(x, dtype, n, r->rank, 0);
    OK(bp_comm_all_reduce(r->comm, r->stream, x, y, BP_REDUCE_SUM));
    expect_elements(r, "all_reduce", y, dtype, n, 0, sum_of_ranks, 0);
    expect_elements(r, "all_reduce's src", x, dtype, n, 0, of_rank, r->rank);
    OK(bp_comm_all_reduce(r->comm, r->stream, x, y, BP_REDUCE_MAX));
    expect_elements(r, "all_reduce max", y, dtype, n, 0, max_of, 0);
    OK(bp_comm_reduce(r->comm, r->stream, x, r->rank == root ? y : NULL, BP_REDUCE_SUM, root));
    if (r->rank == root) expect_elements(r, "reduce", y, dtype, n, 0, sum_of_ranks, 0);
    OK(bp_comm_all_reduce(r->comm, r->stream, x, x, BP_REDUCE_SUM));
    expect_elements(r, "all_reduce in place", x, dtype, n, 0, sum_of_ranks, 0);
    fill_tensor(x, dtype, n, r->rank, 0);
    OK(bp_comm_reduce(r->comm, r->stream, x, r->rank == root ? x : NULL, BP_REDUCE_SUM, root));
    if (r->rank == root) expect_elements(r, "reduce in place", x, dtype, n, 0, sum_of_ranks, 0);
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
}

static void check_broadcast(struct rank *r, uint32_t dtype, int64_t n)
{
    uint32_t root = (uint32_t)(n + 1) % r->size;
    struct bp_tensor *x = rank_tensor(dtype, n), *y = rank_tensor(dtype, n);

    fill_tensor(x, dtype, n, r->rank, 0);
    OK(bp_comm_broadcast(r->comm, r->stream, r->rank == root ? x : NULL, y, root));
    expect_elements(r, "broadcast", y, dtype, n, 0, of_rank, root);
    OK(bp_comm_broadcast(r->comm, r->stream, x, x, root));
    expect_elements(r, "broadcast in place", x, dtype, n, 0, of_rank, root);
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
}

static void expect_parts(struct rank *r, const char *what, struct bp_tensor *t, uint32_t dtype,
                         int64_t n)
{
    for (uint32_t j = 0; j < r->size; j++) {
        int64_t one = 1;
        struct bp_tensor *view;
        OK(bp_tensor_view(t, j * n, 1, &n, &one, &view));
        expect_elements(r, what, view, dtype, n, 0, of_rank, j);
        bp_tensor_destroy(view);
    }
}

static struct bp_tensor *comm_view_of(struct bp_tensor *t, int64_t at, int64_t n)
{
    int64_t one = 1;
    struct bp_tensor *view;

    OK(bp_tensor_view(t, at, 1, &n, &one, &view));
    return view;
}

static void check_gather(struct rank *r, uint32_t dtype, int64_t n)
{
    uint32_t root = (uint32_t)(n + 2) % r->size;
    struct bp_tensor *x = rank_tensor(dtype, n), *y = rank_tensor(dtype, n * r->size), *own;

    fill_tensor(x, dtype, n, r->rank, 0);
    OK(bp_comm_all_gather(r->comm, r->stream, x, y));
    expect_parts(r, "all_gather", y, dtype, n);
    fill_tensor(y, dtype, n * r->size, 9, 1);
    OK(bp_comm_gather(r->comm, r->stream, x, r->rank == root ? y : NULL, root));
    if (r->rank == root) expect_parts(r, "gather", y, dtype, n);
    own = comm_view_of(y, r->rank * n, n);
    fill_tensor(own, dtype, n, r->rank, 0);
    OK(bp_comm_all_gather(r->comm, r->stream, own, y));
    expect_parts(r, "all_gather in place", y, dtype, n);
    OK(bp_comm_scatter(r->comm, r->stream, y, x, root));
    expect_elements(r, "scatter", x, dtype, n, 0, of_rank, r->rank);
    bp_tensor_destroy(own);
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
}

static void check_scatter(struct rank *r, uint32_t dtype, int64_t n)
{
    struct bp_tensor *x = rank_tensor(dtype, n * r->size), *y = rank_tensor(dtype, n), *own;

    fill_tensor(x, dtype, n * r->size, r->rank, 0);
    OK(bp_comm_reduce_scatter(r->comm, r->stream, x, y, BP_REDUCE_SUM));
    expect_elements(r, "reduce_scatter", y, dtype, n, r->rank * n, sum_of_ranks, 0);
    own = comm_view_of(x, r->rank * n, n);
    OK(bp_comm_reduce_scatter(r->comm, r->stream, x, own, BP_REDUCE_SUM));
    expect_elements(r, "reduce_scatter in place", own, dtype, n, r->rank * n, sum_of_ranks, 0);
    bp_tensor_destroy(own);
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
}

/* Part j of rank r's result is part r of rank j's source: the transpose. */
static void check_all_to_all(struct rank *r, uint32_t dtype, int64_t n)
{
    struct bp_tensor *x = rank_tensor(dtype, n * r->size), *y = rank_tensor(dtype, n * r->size),
                     *view;

    fill_tensor(x, dtype, n * r->size, r->rank, 0);
    OK(bp_comm_all_to_all(r->comm, r->stream, x, y));
    for (uint32_t j = 0; j < r->size; j++) {
        view = comm_view_of(y, j * n, n);
        expect_elements(r, "all_to_all", view, dtype, n, r->rank * n, of_rank, j);
        bp_tensor_destroy(view);
    }
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
}

/* Rank i sends (i + 2 j) % 4 times n elements to rank j, so that some parts are empty. */
static int64_t ragged_count(uint32_t i, uint32_t j, int64_t n)
{
    return (int64_t)((i + 2 * j) % 4) * n;
}

static void check_ragged(struct rank *r, uint32_t dtype, int64_t n)
{
    int64_t out[64], in[64], out_sum = 0, in_sum = 0;
    struct bp_tensor *x, *y, *view;

    for (uint32_t j = 0; j < r->size; j++) {
        out_sum += out[j] = ragged_count(r->rank, j, n);
        in_sum += in[j] = ragged_count(j, r->rank, n);
    }
    x = rank_tensor(dtype, out_sum);
    y = rank_tensor(dtype, in_sum);
    fill_tensor(x, dtype, out_sum, r->rank, 0);
    OK(bp_comm_all_to_all_ragged(r->comm, r->stream, x, out, y, in));
    in_sum = 0;
    for (uint32_t j = 0; j < r->size; j++) {
        int64_t from = 0;
        for (uint32_t k = 0; k < r->rank; k++) from += ragged_count(j, k, n);
        view = comm_view_of(y, in_sum, in[j]);
        expect_elements(r, "all_to_all_ragged", view, dtype, in[j], from, of_rank, j);
        bp_tensor_destroy(view);
        in_sum += in[j];
    }
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
}

static void check_p2p(struct rank *r, uint32_t dtype, int64_t n)
{
    uint32_t next = (r->rank + 1) % r->size, before = (r->rank + r->size - 1) % r->size;
    struct bp_tensor *x = rank_tensor(dtype, n), *y = rank_tensor(dtype, n),
                     *z = rank_tensor(dtype, n);

    fill_tensor(x, dtype, n, r->rank, 0);
    OK(bp_comm_group_begin(r->comm, r->stream)); /* two in each direction, to check their order */
    OK(bp_comm_send(r->comm, r->stream, x, next));
    OK(bp_comm_send(r->comm, r->stream, x, before));
    OK(bp_comm_recv(r->comm, r->stream, y, before));
    OK(bp_comm_recv(r->comm, r->stream, z, next));
    OK(bp_comm_group_end(r->comm));
    expect_elements(r, "recv", y, dtype, n, 0, of_rank, before);
    expect_elements(r, "recv", z, dtype, n, 0, of_rank, next);
    if (r->size > 1 && r->rank < 2) {
        if (r->rank) OK(bp_comm_recv(r->comm, r->stream, y, 0));
        else OK(bp_comm_send(r->comm, r->stream, x, 1));
        expect_elements(r, "recv alone", r->rank ? y : x, dtype, n, 0, of_rank, 0);
    }
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    bp_tensor_destroy(z);
}

static void all_calls(struct rank *r, uint32_t dtype, int64_t n)
{
    check_reduce(r, dtype, n);
    check_broadcast(r, dtype, n);
    check_gather(r, dtype, n);
    check_scatter(r, dtype, n);
    check_all_to_all(r, dtype, n);
    check_ragged(r, dtype, n);
    check_p2p(r, dtype, n);
    OK(bp_comm_barrier(r->comm, r->stream));
}

static void every_size(uint32_t rank, uint32_t size, void *id)
{
    static const int64_t counts[] = {0, 1, 3, 10, 11, 64, 1000, 4097, 33333};
    struct rank r = join_rank(id, rank, size);

    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) all_calls(&r, BP_F32, counts[i]);
    all_calls(&r, BP_F64, 300001);
    all_calls(&r, BP_I64, 70000);
    all_calls(&r, BP_I32, 5);
    all_calls(&r, BP_U8, 100003);
    close_rank(&r);
}

static void comm_open_device(void)
{
    OK(bp_core_create(NULL, &core));
    OK(bp_device_create(core, "cpu:0", &device));
}

static void close_device(void)
{
    bp_device_destroy(device);
    bp_core_destroy(core);
}

struct work {
    void (*fn)(uint32_t rank, uint32_t size, void *id);
    struct bp_comm_id id;
};

static void be_process(uint32_t rank, uint32_t size, void *ctx)
{
    struct work *w = ctx;

    comm_open_device();
    w->fn(rank, size, &w->id);
    close_device();
}

/* Runs fn on ranks that are threads of this process, or processes. */
static void run_on_ranks(uint32_t size, void (*fn)(uint32_t, uint32_t, void *))
{
    struct work w = {.fn = fn};

    OK(bp_comm_id_create(&w.id));
    if (processes) {
        kit_processes(size, be_process, &w, UINT32_MAX, NULL);
        return;
    }
    comm_open_device();
    kit_threads(size, fn, &w.id);
    close_device();
}

static void calls_of_many_sizes(void)
{
#ifdef __SANITIZE_THREAD__ /* ThreadSanitizer makes comparing a byte as slow as sending one */
    static const uint32_t sizes[] = {2, 3, 8};
#else
    static const uint32_t sizes[] = {1, 2, 3, 4, 7, 8};
#endif

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) run_on_ranks(sizes[i], every_size);
}

/* The expected result of a reduction, computed in double on values that each dtype holds
 * exactly. */
static double want_reduced(uint32_t reduction, double a, double b)
{
    switch (reduction) {
    case BP_REDUCE_PRODUCT: return a * b;
    case BP_REDUCE_MIN: return fmin(a, b);
    case BP_REDUCE_MAX: return fmax(a, b);
    case BP_REDUCE_AVERAGE: return (a + b) / 2;
    default: return a + b;
    }
}

struct kind {
    uint32_t dtype, width;
    double one[2]; /* of rank 0 and rank 1 */
    unsigned char bytes[2][8];
};

static void some_bytes(const struct kind *k, uint32_t rank, int64_t n, unsigned char *data)
{
    for (int64_t i = 0; i < n; i++) memcpy(data + i * k->width, k->bytes[rank], k->width);
}

static double decode_element(const struct kind *k, const unsigned char *b)
{
    uint16_t h = 0;
    int e;

    memcpy(&h, b, k->width);
    switch (k->dtype) {
    case BP_BOOL:
    case BP_U8: return *b;
    case BP_I8: return (int8_t)*b;
    case BP_I16: return (int16_t)h;
    case BP_U16: return h;
    case BP_F16: e = h >> 10 & 31; return ldexp((h & 1023) + (e ? 1024 : 0), (e ? e : 1) - 25);
    case BP_BF16: e = h >> 7 & 255; return ldexp((h & 127) + (e ? 128 : 0), (e ? e : 1) - 134);
    case BP_F8E4M3: e = *b >> 3 & 15; return ldexp((*b & 7) + (e ? 8 : 0), (e ? e : 1) - 10);
    case BP_F8E5M2: e = *b >> 2 & 31; return ldexp((*b & 3) + (e ? 4 : 0), (e ? e : 1) - 17);
    case BP_F8E8M0: return ldexp(1, *b - 127);
    case BP_F8E4M3FNUZ: e = *b >> 3 & 15; return ldexp((*b & 7) + (e ? 8 : 0), (e ? e : 1) - 11);
    case BP_F8E5M2FNUZ: e = *b >> 2 & 31; return ldexp((*b & 3) + (e ? 4 : 0), (e ? e : 1) - 18);
    default: return NAN;
    }
}

static void every_dtype(uint32_t rank, uint32_t size, void *id)
{
    static const struct kind kinds[] = {
        {BP_BOOL, 1, {1, 0}, {{1}, {0}}},           {BP_I8, 1, {-3, 5}, {{0xfd}, {5}}},
        {BP_U8, 1, {3, 6}, {{3}, {6}}},             {BP_I16, 2, {-4, 6}, {{0xfc, 0xff}, {6}}},
        {BP_U16, 2, {4, 6}, {{4}, {6}}},            {BP_F16, 2, {1.5, 2}, {{0, 0x3e}, {0, 0x40}}},
        {BP_BF16, 2, {1.5, 2}, {{0xc0, 0x3f}, {0, 0x40}}},
        {BP_F8E4M3, 1, {1.5, 2}, {{0x3c}, {0x40}}}, {BP_F8E5M2, 1, {1.5, 2}, {{0x3e}, {0x40}}},
        {BP_F8E8M0, 1, {0.5, 1}, {{0x7e}, {0x7f}}},
        {BP_F8E4M3FNUZ, 1, {1.5, 2}, {{0x44}, {0x48}}},
        {BP_F8E5M2FNUZ, 1, {1.5, 2}, {{0x42}, {0x44}}},
    };
    struct rank r = join_rank(id, rank, size);
    int64_t n = 700;

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        for (uint32_t op = 0; op < BP_REDUCTION_COUNT; op++) {
            const struct kind *k = &kinds[i];
            struct bp_tensor *x = rank_tensor(k->dtype, n);
            double want = want_reduced(op, k->one[0], k->one[1]), got;
            if (k->dtype == BP_BOOL) want = op == BP_REDUCE_SUM || op == BP_REDUCE_MAX;
            if (k->dtype == BP_F8E8M0 && op == BP_REDUCE_SUM) want = 2; /* 1.5 is a tie */
            if (k->dtype == BP_F8E8M0 && op == BP_REDUCE_AVERAGE) want = 1;
            if (k->dtype <= BP_U64) want = trunc(want);
            some_bytes(k, rank, n, rank_map(x));
            if (k->dtype == BP_BOOL && op == BP_REDUCE_AVERAGE) {
                FAILS(BP_ERR_UNSUPPORTED, "no such reduction",
                      bp_comm_all_reduce(r.comm, r.stream, x, x, op));
            } else {
                OK(bp_comm_all_reduce(r.comm, r.stream, x, x, op));
                got = decode_element(k, rank_map(x));
                if (k->dtype == BP_I8 && op == BP_REDUCE_PRODUCT) got = (int8_t)got;
                if (k->dtype == BP_I16) got = (int16_t)got;
                CHECK(got == want, "%s, reduction %u: %g, expected %g", bp_dtype_name(k->dtype), op,
                      got, want);
                got = decode_element(k, (unsigned char *)rank_map(x) + (n - 1) * k->width);
                CHECK(got == want, "%s, reduction %u, last: %g", bp_dtype_name(k->dtype), op, got);
            }
            bp_tensor_destroy(x);
        }
    close_rank(&r);
}

static void dtypes_and_reductions(void)
{
    run_on_ranks(2, every_dtype);
}

/* Small float types are added in f32: 2048 + 1 + 1 in f16 is 2050, not 2048. */
static void adds_in_f32(uint32_t rank, uint32_t size, void *id)
{
    struct rank r = join_rank(id, rank, size);
    struct bp_tensor *x = rank_tensor(BP_F16, 3);
    uint16_t *h = rank_map(x);

    for (int i = 0; i < 3; i++) h[i] = rank ? 0x3c00 : 0x6800;
    OK(bp_comm_all_reduce(r.comm, r.stream, x, x, BP_REDUCE_SUM));
    h = rank_map(x);
    CHECK(h[0] == 0x6801 && h[2] == 0x6801, "%04x", h[0]);
    bp_tensor_destroy(x);
    close_rank(&r);
}

static void f16_is_summed_in_f32(void)
{
    run_on_ranks(3, adds_in_f32);
}

static void check_split(uint32_t rank, uint32_t size, void *id)
{
    struct rank r = join_rank(id, rank, size), half = r;
    struct bp_comm *none = (void *)&half;

    OK(bp_comm_split(r.comm, rank % 2, -(int64_t)rank, &half.comm));
    half.rank = bp_comm_rank(half.comm);
    half.size = bp_comm_size(half.comm);
    CHECK(half.size == (size + 1 - rank % 2) / 2, "%u", half.size);
    CHECK(half.rank == half.size - 1 - rank / 2, "%u of %u: %u", rank, half.size, half.rank);
    for (int i = 0; i < 3; i++) { /* calls of both alternate */
        all_calls(&half, BP_F32, 100);
        all_calls(&r, BP_I32, 100);
    }
    OK(bp_comm_split(half.comm, half.rank == 0 ? 0 : -1, 0, &none));
    CHECK(half.rank == 0 ? bp_comm_size(none) == 1 : !none, "a communicator of one");
    bp_comm_destroy(none);
    bp_comm_destroy(half.comm);
    close_rank(&r);
}

static void communicators_are_split(void)
{
    run_on_ranks(5, check_split);
}

/* Calls on two asynchronous streams in turn must run in one order. */
static void check_queued(uint32_t rank, uint32_t size, void *id)
{
    struct rank r = join_rank(id, rank, size);
    struct bp_stream *streams[2];
    struct bp_tensor *x[40];

    for (int i = 0; i < 2; i++)
        OK(bp_stream_create_with(device, BP_STREAM_ASYNC, &streams[i]));
    for (int i = 0; i < 40; i++) {
        x[i] = rank_tensor(BP_F32, 1000 + 1000 * i);
        fill_tensor(x[i], BP_F32, 1000 + 1000 * i, rank, i);
    }
    OK(bp_comm_barrier(r.comm, r.stream)); /* bp_tensor_map waits for all work of the device */
    for (int i = 0; i < 40; i++)
        OK(bp_comm_all_reduce(r.comm, streams[i % 2], x[i], x[i], BP_REDUCE_SUM));
    bp_comm_destroy(r.comm);
    for (int i = 0; i < 2; i++) OK(bp_stream_synchronize(streams[i]));
    for (int i = 0; i < 40; i++) {
        expect_elements(&r, "later", x[i], BP_F32, 1000 + 1000 * i, i, sum_of_ranks, 0);
        bp_tensor_destroy(x[i]);
    }
    for (int i = 0; i < 2; i++) bp_stream_destroy(streams[i]);
    bp_stream_destroy(r.stream);
}

static void streams_with_queues(void)
{
    run_on_ranks(4, check_queued);
}

/* The app's signal handlers must remain installed, whatever libraries are loaded. */
static void keeps_signals(uint32_t rank, uint32_t size, void *id)
{
    struct sigaction before[NSIG], now;
    struct rank r;

    memset(before, 0, sizeof before);
    for (int i = 1; i < NSIG; i++) sigaction(i, NULL, &before[i]);
    r = join_rank(id, rank, size);
    all_calls(&r, BP_F32, 10);
    for (int i = 1; i < NSIG; i++) {
        if (sigaction(i, NULL, &now)) continue;
        CHECK(now.sa_handler == before[i].sa_handler, "signal %d: the handler", i);
        CHECK(!((now.sa_flags ^ before[i].sa_flags) & (SA_SIGINFO | SA_ONSTACK | SA_RESTART)),
              "signal %d: the flags", i);
    }
    close_rank(&r);
}

static void signals_are_left_alone(void)
{
    if (processes) run_on_ranks(2, keeps_signals);
}

/* The number of files of device memory that are mapped in this process, its own and those of other
 * ranks. */
static int count_files(void)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512];
    int n = 0;

    while (maps && fgets(line, sizeof line, maps)) n += strstr(line, "memfd:backplane ") != NULL;
    if (maps) fclose(maps);
    return n;
}

/* The other ranks must not keep memory that a rank has freed. */
static void gives_back(uint32_t rank, uint32_t size, void *id)
{
    struct rank r = join_rank(id, rank, size);
    int files;

    for (int i = 0; i < 12; i++) {
        struct bp_tensor *x = rank_tensor(BP_F32, 1000000);
        OK(bp_comm_all_reduce(r.comm, r.stream, x, x, BP_REDUCE_SUM));
        bp_tensor_destroy(x);
        OK(bp_device_trim(device));
        OK(bp_comm_barrier(r.comm, r.stream));
    }
    files = count_files();
    CHECK(files < 2 * (int)size + 2, "%d files are mapped", files);
    close_rank(&r);
}

static void memory_is_given_back(void)
{
    run_on_ranks(3, gives_back);
}

int main(int argc, char **argv)
{
    static const struct kit_case cases[] = {
        {"calls_of_many_sizes", calls_of_many_sizes},
        {"dtypes_and_reductions", dtypes_and_reductions},
        {"f16_is_summed_in_f32", f16_is_summed_in_f32},
        {"communicators_are_split", communicators_are_split},
        {"streams_with_queues", streams_with_queues},
        {"memory_is_given_back", memory_is_given_back},
        {"signals_are_left_alone", signals_are_left_alone},
    };

    processes = argc > 1 && !strcmp(argv[1], "processes");
    return KIT_CASES(cases, argc - processes, argv + processes);
}
