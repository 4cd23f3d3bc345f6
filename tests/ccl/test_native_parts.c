/* SPDX-License-Identifier: Apache-2.0 */
/* test_native_parts.c: tests native calls whose part sizes, dtypes or roots differ between ranks.
 * The library alone would wait for ever, or accept wrong bytes; the differing ranks must be
 * reported, with the call of each.
 *
 *     test_native_parts threads|processes [WORD] */
#include "native_rank.h"

/* The rank that calls first; the other one calls later. */
static uint32_t first;

static struct bp_tensor *of_type(struct rank *r, uint32_t dtype, int64_t n)
{
    struct bp_tensor *t;

    OK(bp_tensor_create(r->device, dtype, 1, &n, &t));
    return t;
}

/* The later rank reports the mismatch in its call, the other one in its stream's wait; both do so
 * within a moment. */
static void expect_reported(struct rank *r, enum bp_status status, const char *words)
{
    CHECK(status == BP_OK || status == BP_ERR_INVALID, "%s: %s", bp_status_name(status),
          bp_error_message());
    await_failure(r);
    FAILS(BP_ERR_INVALID, words, bp_comm_error(r->comm));
    (void)bp_stream_synchronize(r->stream);
}

static void take_turns(struct rank *r)
{
    OK(bp_stream_synchronize(r->stream));
    OK(bp_comm_barrier(r->comm, r->stream));
    if (r->rank != first) usleep(150000);
}

static void in_both_orders(uint32_t size, void (*fn)(uint32_t, uint32_t, void *))
{
    for (first = 0; first < 2; first++) run(size, fn, NO_RANK);
}

static void send_less(uint32_t rank, uint32_t size, void *id)
{
    struct rank r = join_native(rank, size, id);
    struct bp_tensor *x = filled(&r, N, 1), *half = rank_view(x, 0, N / 2);

    if (rank) OK(bp_comm_send(r.comm, r.stream, x, 0)); /* a correct one precedes */
    else OK(bp_comm_recv(r.comm, r.stream, x, 1));
    take_turns(&r);
    expect_reported(
        &r, rank ? bp_comm_send(r.comm, r.stream, half, 0) : bp_comm_recv(r.comm, r.stream, x, 1),
        "rank 1 sends 500 f32 to rank 0, which expects 1000 f32");
    bp_tensor_destroy(half);
    bp_tensor_destroy(x);
    rank_close(&r);
}

static void counts_of_pairs(void)
{
    in_both_orders(2, send_less);
}

/* The sizes in bytes are equal. */
static void send_others(uint32_t rank, uint32_t size, void *id)
{
    struct rank r = join_native(rank, size, id);
    struct bp_tensor *x = of_type(&r, rank ? BP_I32 : BP_F32, N);

    take_turns(&r);
    expect_reported(
        &r, rank ? bp_comm_send(r.comm, r.stream, x, 0) : bp_comm_recv(r.comm, r.stream, x, 1),
        "rank 1 sends 1000 i32 to rank 0, which expects 1000 f32");
    bp_tensor_destroy(x);
    rank_close(&r);
}

static void dtypes_of_pairs(void)
{
    in_both_orders(2, send_others);
}

/* Empty messages are compared too. */
static void send_nothing(uint32_t rank, uint32_t size, void *id)
{
    struct rank r = join_native(rank, size, id);
    struct bp_tensor *x = filled(&r, N, 1), *none = of_type(&r, BP_F32, 0);

    if (rank) OK(bp_comm_send(r.comm, r.stream, none, 0));
    else OK(bp_comm_recv(r.comm, r.stream, none, 1));
    take_turns(&r);
    expect_reported(
        &r, rank ? bp_comm_send(r.comm, r.stream, none, 0) : bp_comm_recv(r.comm, r.stream, x, 1),
        "rank 1 sends 0 f32 to rank 0, which expects 1000 f32");
    bp_tensor_destroy(none);
    bp_tensor_destroy(x);
    rank_close(&r);
}

static void empty_messages(void)
{
    in_both_orders(2, send_nothing);
}

/* One transfer near the begin of a long group differs. It must be found as long as its record is
 * kept: of the last 256 transfers, or of the last 32 between hosts. */
static void send_many(uint32_t rank, uint32_t size, void *id)
{
    struct rank r = join_native(rank, size, id);
    struct bp_tensor *x = filled(&r, N, 1), *half = rank_view(x, 0, N / 2);
    int many = getenv("KIT_HOSTS") ? 30 : 250, odd = 3;
    enum bp_status status;

    take_turns(&r);
    OK(bp_comm_group_begin(r.comm, r.stream));
    for (int i = 0; i < many; i++)
        OK(rank ? bp_comm_send(r.comm, r.stream, x, 0)
                : bp_comm_recv(r.comm, r.stream, i == odd ? half : x, 1));
    status = bp_comm_group_end(r.comm);
    expect_reported(&r, status, "rank 1 sends 1000 f32 to rank 0, which expects 500 f32");
    bp_tensor_destroy(half);
    bp_tensor_destroy(x);
    rank_close(&r);
}

static void one_of_a_group(void)
{
    in_both_orders(2, send_many);
}

/* Rank 0 expects from rank 1 another number than rank 1 sends; all other pairs agree. */
static void differ_in_parts(uint32_t rank, uint32_t size, void *id)
{
    struct rank r = join_native(rank, size, id);
    int64_t to[3] = {4, 4, 4}, from[3] = {4, 4, 4};
    struct bp_tensor *x, *y;

    if (rank == 0) from[1] = 5;
    x = filled(&r, 12, 1);
    y = filled(&r, rank ? 12 : 13, 0);
    take_turns(&r);
    expect_reported(&r, bp_comm_all_to_all_ragged(r.comm, r.stream, x, to, y, from),
                    "in all_to_all_ragged rank 1 sends 4 f32 to rank 0, which expects 5 f32");
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    rank_close(&r);
}

static void ragged_counts(void)
{
    in_both_orders(3, differ_in_parts);
}

/* Rank 1 sends nothing to any rank, and rank 0 expects data. */
static void have_nothing(uint32_t rank, uint32_t size, void *id)
{
    struct rank r = join_native(rank, size, id);
    int64_t none[2] = {0, 0}, some[2] = {0, 7};
    struct bp_tensor *x = of_type(&r, BP_F32, 0), *y = of_type(&r, BP_F32, rank ? 0 : 7);

    take_turns(&r);
    expect_reported(&r, bp_comm_all_to_all_ragged(r.comm, r.stream, x, none, y, rank ? none : some),
                    "in all_to_all_ragged rank 1 sends 0 f32 to rank 0, which expects 7 f32");
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    rank_close(&r);
}

static void ragged_counts_of_nothing(void)
{
    in_both_orders(2, have_nothing);
}

/* dtype and root must agree although the library receives the data as bytes. */
static void differ_in_dtype(uint32_t rank, uint32_t size, void *id)
{
    struct rank r = join_native(rank, size, id);
    uint32_t dtype = rank == 1 ? BP_I32 : BP_F32;
    struct bp_tensor *x = of_type(&r, dtype, N), *all = of_type(&r, dtype, N * (int64_t)size);

    take_turns(&r);
    expect_reported(&r, bp_comm_all_gather(r.comm, r.stream, x, all),
                    "rank 1 calls all_gather of 1000 i32");
    bp_tensor_destroy(x);
    bp_tensor_destroy(all);
    rank_close(&r);
}

static void differ_in_root(uint32_t rank, uint32_t size, void *id)
{
    struct rank r = join_native(rank, size, id);
    struct bp_tensor *x = filled(&r, N, 1), *all = filled(&r, N * (int64_t)size, 1);

    take_turns(&r);
    expect_reported(&r, bp_comm_gather(r.comm, r.stream, x, all, rank == 1),
                    "rank 1 calls gather of 1000 f32 with root 1");
    bp_tensor_destroy(x);
    bp_tensor_destroy(all);
    rank_close(&r);
}

static void dtypes_and_roots(void)
{
    in_both_orders(3, differ_in_dtype);
    in_both_orders(3, differ_in_root);
}

int main(int argc, char **argv)
{
    static const struct kit_case cases[] = {
        {"counts_of_pairs", counts_of_pairs},
        {"dtypes_of_pairs", dtypes_of_pairs},
        {"empty_messages", empty_messages},
        {"one_of_a_group", one_of_a_group},
        {"ragged_counts", ragged_counts},
        {"ragged_counts_of_nothing", ragged_counts_of_nothing},
        {"dtypes_and_roots", dtypes_and_roots},
    };

    CHECK(argc > 1, "threads or processes?");
    forks = !strcmp(argv[1], "processes");
    return kit_run(cases, sizeof cases / sizeof *cases, argc > 2 ? argv[2] : NULL);
}
