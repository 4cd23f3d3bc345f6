/* SPDX-License-Identifier: Apache-2.0 */
/* test_odd.c: tests ranks that make other calls than the rest: all ranks must report those ranks,
 * and no data may pass between different calls. Each rank is a process. */
#include "failing.h"

/* Rank 1 makes another call. Of 3 ranks or more it is the minority; of 2, both calls are named. */
static void make_other_call(uint32_t rank, uint32_t size, void *ctx)
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
        OK(bp_comm_error(comm)); /* the other communicator still works */
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
    run(2, make_other_call, UINT32_MAX);
    run(5, make_other_call, UINT32_MAX);
}

/* Whether a rank may have received the data of its own call, which failed later: the root of a
 * broadcast or a scatter made the same call, and the rank noticed rank 1's call afterwards. */
static bool is_of_same_call(int call, uint32_t rank, uint32_t root, struct bp_tensor *to_one)
{
    bool sends = call % CALLS == 1 || call % CALLS == 7;

    return sends && rank != 1 && root != 1 && is_filled(to_one, call % CALLS == 1 ? 1 : 2);
}

/* Rank 1 makes another call, or has another root: no dst may receive data of other calls. A rank
 * that receives no data need not wait; then its next call fails. */
static void check_data(uint32_t rank, uint32_t size, void *ctx)
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
        OK(bp_comm_barrier(comm, stream)); /* all have ended that barrier */
        fill(one, 1), fill(all, 2), fill(to_one, 3), fill(to_all, 3);
        status = call_number(each, call, one, all, to_one, to_all, root);
        CHECK(!status || is_filled(to_one, 3) || is_of_same_call(call, rank, root, to_one),
              "round %d: bytes came for one", i);
        CHECK(!status || is_filled(to_all, 3), "round %d: bytes came for all", i);
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
    run(2, check_data, UINT32_MAX);
    run(3, check_data, UINT32_MAX);
}

int main(int argc, char **argv)
{
    static const struct kit_case cases[] = {
        {"other_calls_are_named", other_calls_are_named},
        {"data_of_other_calls_is_not_taken", data_of_other_calls_is_not_taken},
    };

    return KIT_CASES(cases, argc, argv);
}
