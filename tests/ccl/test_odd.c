/* SPDX-License-Identifier: Apache-2.0 */
/* test_odd.c: ranks that make other calls than the rest: they are named to all, and no bytes of
 * theirs are taken, nor theirs of others. Each rank is a process. */
#include "failing.h"

static void fill(struct bp_tensor *t, int value)
{
    struct bp_tensor_info info = {.size = sizeof info};

    OK(bp_tensor_info(t, &info));
    memset(info.data, value, info.bytes);
}

static bool is_filled(struct bp_tensor *t, int value)
{
    struct bp_tensor_info info = {.size = sizeof info};
    const unsigned char *data;

    OK(bp_tensor_info(t, &info));
    data = info.data;
    return !info.bytes || (data[0] == value && !memcmp(data, data + 1, info.bytes - 1));
}

/* Rank 1 makes another call; size: 1 of 3 is odd, of 2 both are named. */
static void odd(uint32_t rank, uint32_t size, void *ctx)
{
    const struct ids *ids = ctx;
    struct bp_comm *comm = join(&ids->first, rank, size);
    struct bp_tensor *x = make(BP_F32, 1024), *y = make(BP_F32, 100000), *z = make(BP_F64, 1024);
    const char *want[] = {"rank 1 calls broadcast of 1024 f32 with root 0",
                          "rank 1 calls all_reduce sum of 100000 f32",
                          "rank 1 calls all_reduce sum of 1024 f64",
                          "rank 1 calls all_reduce max of 1024 f32"};

    for (int i = 0; i < 4; i++) {
        struct bp_comm *each;
        enum bp_status status;
        OK(bp_comm_split(comm, 0, 0, &each));
        OK(bp_comm_all_reduce(each, stream, y, y, BP_REDUCE_SUM));
        if (rank != 1) status = bp_comm_all_reduce(each, stream, x, x, BP_REDUCE_SUM);
        else if (i == 0) status = bp_comm_broadcast(each, stream, x, x, 0);
        else if (i == 1) status = bp_comm_all_reduce(each, stream, y, y, BP_REDUCE_SUM);
        else if (i == 2) status = bp_comm_all_reduce(each, stream, z, z, BP_REDUCE_SUM);
        else status = bp_comm_all_reduce(each, stream, x, x, BP_REDUCE_MAX);
        expect_failure(each, status, BP_ERR_INVALID, size > 2 ? want[i] : "rank 1 ", "sequence 2");
        OK(bp_comm_error(comm)); /* the other communicator is as good as before */
        OK(bp_comm_barrier(comm, stream));
        bp_comm_destroy(each);
    }
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    bp_tensor_destroy(z);
    close_all(comm);
}

static void other_calls_are_named(void)
{
    run(2, odd, UINT32_MAX);
    run(5, odd, UINT32_MAX);
}

/* Rank 1 makes another call, or has another root: nobody's dst gets what the others sent. Who gets
 * nothing need not wait, and then it is the next call that fails. */
static void odd_data(uint32_t rank, uint32_t size, void *ctx)
{
    static const int64_t counts[] = {4, 2000, 50000}, other[] = {1, 4};
    const struct ids *ids = ctx;
    struct bp_comm *comm = join(&ids->first, rank, size);

    for (int i = 0; i < 3 * 2 * CALLS; i++) {
        int64_t n = counts[i % 3];
        int call = i / 6 + (rank == 1 ? (int)other[i / 3 % 2] : 0);
        uint32_t root = (uint32_t)i % size;
        struct bp_tensor *one = make(BP_F32, n), *all = make(BP_F32, n * size);
        struct bp_tensor *to_one = make(BP_F32, n), *to_all = make(BP_F32, n * size);
        struct bp_comm *each;
        enum bp_status status;
        OK(bp_comm_split(comm, 0, 0, &each));
        OK(bp_comm_barrier(each, stream));
        OK(bp_comm_barrier(comm, stream)); /* all have ended that one */
        fill(one, 1), fill(all, 2), fill(to_one, 3), fill(to_all, 3);
        status = call_number(each, call, one, all, to_one, to_all, root);
        CHECK(!status || (is_filled(to_one, 3) && is_filled(to_all, 3)), "round %d: bytes came", i);
        if (!status) status = bp_comm_barrier(each, stream);
        expect_failure(each, status, BP_ERR_INVALID, "rank 1 calls ", "sequence 2:");
        bp_comm_destroy(each);
        OK(bp_comm_barrier(comm, stream));
        bp_tensor_destroy(one), bp_tensor_destroy(all);
        bp_tensor_destroy(to_one), bp_tensor_destroy(to_all);
    }
    close_all(comm);
}

static void data_of_other_calls_is_not_taken(void)
{
    run(2, odd_data, UINT32_MAX);
    run(3, odd_data, UINT32_MAX);
}

/* Between hosts a root does not wait for who sleeps, unless it is many calls ahead; what it sent
 * comes in order. Of one that makes another call it hears later. */
static void ahead(uint32_t rank, uint32_t size, void *ctx)
{
    const struct ids *ids = ctx;
    struct bp_comm *comm = join(&ids->first, rank, size);
    struct bp_tensor *x = make(BP_F32, 4), *y = make(BP_F32, 4);
    double begin = seconds();
    enum bp_status status = BP_OK;

    OK(bp_comm_set_timeout(comm, 5ull * SECOND));
    if (rank == 1) usleep(500000);
    for (int i = 0; i < 300; i++) {
        fill(x, i % 100);
        OK(bp_comm_broadcast(comm, stream, x, y, 0));
        CHECK(is_filled(y, i % 100), "broadcast %d", i);
        if (i == 20) CHECK(rank || seconds() - begin < 0.3, "%g s", seconds() - begin);
    }
    CHECK(seconds() - begin > 0.45, "%g s: all before the other has begun", seconds() - begin);
    for (int i = 0; i < 300 && !status; i++)
        status = rank == 1 && i == 5 ? bp_comm_gather(comm, stream, x, NULL, 0)
                                     : bp_comm_broadcast(comm, stream, x, y, 0);
    expect_failure(comm, status, BP_ERR_INVALID, "rank 1 calls ", "sequence 306:");
    CHECK(seconds() - begin < 3, "%g s", seconds() - begin);
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    close_all(comm);
}

static void a_root_is_ahead(void)
{
    if (getenv("KIT_HOSTS")) run(2, ahead, UINT32_MAX);
}

int main(int argc, char **argv)
{
    static const struct kit_case cases[] = {
        {"other_calls_are_named", other_calls_are_named},
        {"data_of_other_calls_is_not_taken", data_of_other_calls_is_not_taken},
        {"a_root_is_ahead", a_root_is_ahead},
    };

    return KIT_CASES(cases, argc, argv);
}
