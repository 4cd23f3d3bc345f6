/* SPDX-License-Identifier: Apache-2.0 */
/* mistakes_comm.c: tables of wrong calls of store.h and comm.h. */
#include "mistakes.h"

static uint64_t store_serve(const union value *a)
{
    return bp_store_serve(a[0].cp, a[1].p);
}

static uint64_t store_create(const union value *a)
{
    return bp_store_create(a[0].cp, a[1].u, a[2].p);
}

static uint64_t store_destroy(const union value *a)
{
    bp_store_destroy(a[0].p);
    return 0;
}

static uint64_t store_address(const union value *a)
{
    return (uintptr_t)bp_store_address(a[0].p);
}

static uint64_t store_set(const union value *a)
{
    return bp_store_set(a[0].p, a[1].cp, a[2].cp, a[3].u);
}

static uint64_t store_get(const union value *a)
{
    return bp_store_get(a[0].p, a[1].cp, a[2].u, a[3].p, a[4].u, a[5].p);
}

static uint64_t store_add(const union value *a)
{
    return bp_store_add(a[0].p, a[1].cp, a[2].i, a[3].p);
}

static uint64_t store_barrier(const union value *a)
{
    return bp_store_barrier(a[0].p, a[1].cp, (uint32_t)a[2].u, a[3].u);
}

static uint64_t job_find(const union value *a)
{
    return bp_job_find(a[0].p);
}

static uint64_t comm_id_create(const union value *a)
{
    return bp_comm_id_create(a[0].p);
}

static uint64_t comm_id_of_job(const union value *a)
{
    return bp_comm_id_of_job(a[0].p, a[1].p, a[2].p);
}

/* An id can be used once only: for the text "new", creates a separate id. */
static uint64_t comm_create(const union value *a)
{
    const struct bp_comm_id *id = a[1].cp;
    struct bp_comm_id own;

    if (id && !strcmp(id->text, "new")) {
        OK(bp_comm_id_create(&own));
        id = &own;
    }
    return bp_comm_create(a[0].p, id, (uint32_t)a[2].u, (uint32_t)a[3].u, a[4].p);
}

static uint64_t comm_split(const union value *a)
{
    return bp_comm_split(a[0].p, a[1].i, a[2].i, a[3].p);
}

static uint64_t comm_destroy(const union value *a)
{
    bp_comm_destroy(a[0].p);
    return 0;
}

static uint64_t comm_abort(const union value *a)
{
    return bp_comm_abort(a[0].p);
}

static uint64_t comm_error(const union value *a)
{
    return bp_comm_error(a[0].p);
}

static uint64_t comm_rank(const union value *a)
{
    return bp_comm_rank(a[0].p);
}

static uint64_t comm_size(const union value *a)
{
    return bp_comm_size(a[0].p);
}

static uint64_t comm_set_timeout(const union value *a)
{
    return bp_comm_set_timeout(a[0].p, a[1].u);
}

static uint64_t comm_algorithm(const union value *a)
{
    return (uintptr_t)bp_comm_algorithm(a[0].p, (uint32_t)a[1].u, a[2].u);
}

static uint64_t comm_barrier(const union value *a)
{
    return bp_comm_barrier(a[0].p, a[1].p);
}

static uint64_t comm_all_reduce(const union value *a)
{
    return bp_comm_all_reduce(a[0].p, a[1].p, a[2].p, a[3].p, (uint32_t)a[4].u);
}

static uint64_t comm_reduce(const union value *a)
{
    return bp_comm_reduce(a[0].p, a[1].p, a[2].p, a[3].p, (uint32_t)a[4].u, (uint32_t)a[5].u);
}

static uint64_t comm_broadcast(const union value *a)
{
    return bp_comm_broadcast(a[0].p, a[1].p, a[2].p, a[3].p, (uint32_t)a[4].u);
}

static uint64_t comm_all_gather(const union value *a)
{
    return bp_comm_all_gather(a[0].p, a[1].p, a[2].p, a[3].p);
}

static uint64_t comm_reduce_scatter(const union value *a)
{
    return bp_comm_reduce_scatter(a[0].p, a[1].p, a[2].p, a[3].p, (uint32_t)a[4].u);
}

static uint64_t comm_all_to_all(const union value *a)
{
    return bp_comm_all_to_all(a[0].p, a[1].p, a[2].p, a[3].p);
}

static uint64_t comm_gather(const union value *a)
{
    return bp_comm_gather(a[0].p, a[1].p, a[2].p, a[3].p, (uint32_t)a[4].u);
}

static uint64_t comm_scatter(const union value *a)
{
    return bp_comm_scatter(a[0].p, a[1].p, a[2].p, a[3].p, (uint32_t)a[4].u);
}

static uint64_t comm_ragged(const union value *a)
{
    return bp_comm_all_to_all_ragged(a[0].p, a[1].p, a[2].p, a[3].cp, a[4].p, a[5].cp);
}

/* Sends to itself, in a group: a send without a receive would wait. */
static uint64_t comm_exchange(const union value *a, const union value *receives)
{
    uint64_t status = bp_comm_group_begin(a[0].p, a[1].p), end;

    if (status) return receives ? bp_comm_recv(a[0].p, a[1].p, a[2].p, 0)
                                : bp_comm_send(a[0].p, a[1].p, a[2].p, 0);
    status = receives ? bp_comm_recv(a[0].p, a[1].p, a[2].p, (uint32_t)a[3].u)
                      : bp_comm_send(a[0].p, a[1].p, a[2].p, (uint32_t)a[3].u);
    if (!status)
        status = receives ? bp_comm_send(a[0].p, a[1].p, receives->p, 0)
                          : bp_comm_recv(a[0].p, a[1].p, a[4].p, 0);
    end = bp_comm_group_end(a[0].p);
    return status ? status : end;
}

static uint64_t comm_send(const union value *a)
{
    return comm_exchange(a, NULL);
}

static uint64_t comm_recv(const union value *a)
{
    return comm_exchange(a, &a[4]);
}

static uint64_t comm_group_begin(const union value *a)
{
    uint64_t status = bp_comm_group_begin(a[0].p, a[1].p);

    return status ? status : bp_comm_group_end(a[0].p);
}

static uint64_t comm_group_end(const union value *a)
{
    if (a[1].p) bp_comm_group_begin(a[0].p, a[1].p);
    return bp_comm_group_end(a[0].p);
}

enum { T_ADDRESS = T_OWN, T_LONG_KEY, T_FULL_KEY, T_DOOMED };

static const struct bp_comm_id new_id = {"new"}, no_id = {"no id"};
static const int64_t six = 6, seven = 7, five = 5;

#define COMM HANDLE(T_COMM), HANDLE(T_STREAM)
#define X HANDLE(T_TENSOR)
#define Y GIVEN(T_TENSOR, T_SPARE)
#define OTHER(thing_) {.kind = ARG_OPTIONAL, .good = thing_}

static const struct function functions[] = {
    {"bp_store_serve", store_serve, {OPTIONAL("127.0.0.1"), OUT_OF(T_STORE)}},
    {"bp_store_create", store_create,
     {POINTER_OWN(T_ADDRESS), NUMBER(UINT64_MAX), OUT_OF(T_STORE)}},
    {"bp_store_destroy", store_destroy, {HANDLE(T_STORE)}, RETURNS_NOTHING},
    {"bp_store_address", store_address, {HANDLE(T_STORE)}, RETURNS_EMPTY},
    {"bp_store_set", store_set, {HANDLE(T_STORE), POINTER("key"), POINTER("value"), NUMBER(5)}},
    {"bp_store_get", store_get,
     {HANDLE(T_STORE), POINTER("there"), NUMBER(0), OUT_OF(T_NONE), NUMBER(5), OUT_OF(T_NONE)}},
    {"bp_store_add", store_add, {HANDLE(T_STORE), POINTER("n"), NUMBER(1), OUT_OF(T_NONE)}},
    {"bp_store_barrier", store_barrier,
     {HANDLE(T_STORE), POINTER("meet"), NUMBER(1), NUMBER(UINT64_MAX)}},
    {"bp_comm_id_create", comm_id_create, {OUT_OF(T_NONE)}},
    {"bp_comm_id_of_job", comm_id_of_job, {OUT_OF(T_NONE), OUT_OF(T_NONE), OUT_OF(T_NONE)}},
    {"bp_comm_create", comm_create,
     {HANDLE(T_DEVICE), POINTER(&new_id), NUMBER(0), NUMBER(1), OUT_OF(T_COMM)}},
    {"bp_comm_split", comm_split, {HANDLE(T_COMM), NUMBER(0), NUMBER(0), OUT_OF(T_COMM)}},
    {"bp_comm_destroy", comm_destroy, {HANDLE(T_COMM)}, RETURNS_NOTHING},
    {"bp_comm_abort", comm_abort, {GIVEN(T_COMM, T_DOOMED)}},
    {"bp_comm_error", comm_error, {HANDLE(T_COMM)}},
    {"bp_comm_rank", comm_rank, {HANDLE(T_COMM)}, RETURNS_ZERO},
    {"bp_comm_size", comm_size, {HANDLE(T_COMM)}, RETURNS_ZERO},
    {"bp_comm_set_timeout", comm_set_timeout, {HANDLE(T_COMM), NUMBER(60000000000)}},
    {"bp_comm_algorithm", comm_algorithm,
     {HANDLE(T_COMM), NUMBER(BP_COMM_SEND), NUMBER(4)}, RETURNS_ZERO},
    {"bp_comm_all_reduce", comm_all_reduce, {COMM, X, Y, NUMBER(BP_REDUCE_SUM)}},
    {"bp_comm_reduce", comm_reduce, {COMM, X, Y, NUMBER(BP_REDUCE_MAX), NUMBER(0)}},
    {"bp_comm_broadcast", comm_broadcast, {COMM, X, Y, NUMBER(0)}},
    {"bp_comm_all_gather", comm_all_gather, {COMM, X, Y}},
    {"bp_comm_reduce_scatter", comm_reduce_scatter, {COMM, X, Y, NUMBER(BP_REDUCE_MIN)}},
    {"bp_comm_all_to_all", comm_all_to_all, {COMM, X, Y}},
    {"bp_comm_all_to_all_ragged", comm_ragged, {COMM, X, POINTER(&six), Y, POINTER(&six)}},
    {"bp_comm_gather", comm_gather, {COMM, X, Y, NUMBER(0)}},
    {"bp_comm_scatter", comm_scatter, {COMM, X, Y, NUMBER(0)}},
    {"bp_comm_send", comm_send, {COMM, X, NUMBER(0), OTHER(T_SPARE)}},
    {"bp_comm_recv", comm_recv, {COMM, Y, NUMBER(0), OTHER(T_TENSOR)}},
    {"bp_comm_barrier", comm_barrier, {COMM}},
    {"bp_comm_group_begin", comm_group_begin, {COMM}},
    {"bp_comm_group_end", comm_group_end,
     {HANDLE(T_COMM), {.kind = ARG_OPTIONAL, .good = T_STREAM}}},
    {"bp_job_find", job_find, {INFO(struct bp_job)}},
};

static const struct mistake mistakes[] = {
    {"bp_store_serve", "no host", BP_ERR_INVALID, "expected HOST", {PUT(1, "")}},
    {"bp_store_serve", "a short token", BP_ERR_INVALID, "8 to 32 characters",
     {PUT(1, "127.0.0.1/short")}},
    {"bp_store_create", "no port", BP_ERR_INVALID, "expected HOST:PORT/TOKEN",
     {PUT(1, "127.0.0.1/0123456789")}},
    {"bp_store_create", "a long token", BP_ERR_INVALID, "expected HOST:PORT/TOKEN",
     {PUT(1, "127.0.0.1:1/012345678901234567890123456789012")}},
    {"bp_store_create", "nobody is there", BP_ERR_TIMEOUT, "nobody answers",
     {PUT(1, "127.0.0.1:1/0123456789"), SET(2, 0)}},
    {"bp_store_set", "an empty key", BP_ERR_INVALID, "key is empty", {PUT(2, "")}},
    {"bp_store_set", "a long key", BP_ERR_INVALID, "key is too long", {USE(2, T_LONG_KEY)}},
    {"bp_store_set", "a long value", BP_ERR_INVALID, "at most 1048576 bytes",
     {SET(4, BP_STORE_VALUE_MAX + 1)}},
    {"bp_store_get", "an empty key", BP_ERR_INVALID, "key is empty", {PUT(2, "")}},
    {"bp_store_get", "a key that nobody set", BP_ERR_TIMEOUT, "nobody set missing",
     {PUT(2, "missing")}},
    {"bp_store_add", "an empty key", BP_ERR_INVALID, "key is empty", {PUT(2, "")}},
    {"bp_store_add", "a key of text", BP_ERR_INVALID, "a value that is no number",
     {PUT(2, "there")}},
    {"bp_store_barrier", "of nobody", BP_ERR_INVALID, "count is 0", {SET(3, 0)}},
    {"bp_store_barrier", "a key without room", BP_ERR_INVALID, "key is too long",
     {USE(2, T_FULL_KEY)}},
    {"bp_store_barrier", "of two", BP_ERR_TIMEOUT, "1 of 2 came",
     {PUT(2, "others"), SET(3, 2), SET(4, 0)}},
    {"bp_comm_create", "no id", BP_ERR_INVALID, "none that bp_comm_id_create", {PUT(2, &no_id)}},
    {"bp_comm_create", "of nobody", BP_ERR_INVALID, "size is 0", {SET(4, 0)}},
    {"bp_comm_create", "too many", BP_ERR_INVALID, "1 to 256 ranks", {SET(4, 257)}},
    {"bp_comm_create", "a rank too high", BP_ERR_INVALID, "rank is 1 of 1", {SET(3, 1)}},
    {"bp_comm_split", "a color that is none", BP_ERR_INVALID, "color is -2", {SET(2, -2)}},
    {"bp_comm_algorithm", "no call", BP_OK, "", {SET(2, BP_COMM_CALL_COUNT)}},
    {"bp_comm_all_reduce", "no reduction", BP_ERR_INVALID, "reduction is 5", {SET(5, 5)}},
    {"bp_comm_all_reduce", "other dtypes", BP_ERR_INVALID, "src is f32, dst is f64",
     {USE(4, T_DOUBLE)}},
    {"bp_comm_all_reduce", "other counts", BP_ERR_INVALID, "6 elements in src, and 4 in dst",
     {USE(4, T_SHORT)}},
    {"bp_comm_all_reduce", "a frozen dst", BP_ERR_INVALID, "frozen", {USE(4, T_FROZEN)}},
    {"bp_comm_all_reduce", "rows that are one", BP_ERR_INVALID, "src is not row-major",
     {USE(3, T_REPEATED)}},
    {"bp_comm_all_reduce", "a stream of another device", BP_ERR_INVALID, "the stream is of",
     {USE(2, T_OTHER_STREAM)}},
    {"bp_comm_all_reduce", "a tensor of another device", BP_ERR_INVALID, "src is on template:0",
     {USE(3, T_OTHER_TENSOR)}},
    {"bp_comm_all_to_all", "in place", BP_ERR_INVALID, "share memory", {USE(4, T_TENSOR)}},
    {"bp_comm_all_to_all_ragged", "too many", BP_ERR_INVALID, "src_counts[0] is 7",
     {PUT(4, &seven)}},
    {"bp_comm_all_to_all_ragged", "too few", BP_ERR_INVALID, "dst_counts are 5 in all",
     {PUT(6, &five)}},
    {"bp_comm_reduce", "no root", BP_ERR_INVALID, "root is 1", {SET(6, 1)}},
    {"bp_comm_broadcast", "no root", BP_ERR_INVALID, "root is 7", {SET(5, 7)}},
    {"bp_comm_send", "nobody", BP_ERR_INVALID, "the other rank is 1", {SET(4, 1)}},
    {"bp_comm_recv", "nobody", BP_ERR_INVALID, "the other rank is 9", {SET(4, 9)}},
    {"bp_comm_group_end", "none is open", BP_ERR_INVALID, "no group is open", {PUT(2, NULL)}},
};

static void comm_prepare(struct world *w)
{
    static char long_key[BP_STORE_KEY_MAX + 2];

    memset(long_key, 'k', BP_STORE_KEY_MAX + 1);
    w->thing[T_LONG_KEY].p = long_key;
    w->thing[T_FULL_KEY].p = long_key + 10;
    w->thing[T_ADDRESS].cp = bp_store_address(w->thing[T_STORE].p);
    OK(bp_store_set(w->thing[T_STORE].p, "there", "value", 5));
    setenv("BP_RANK", "0", 1);
    setenv("BP_WORLD_SIZE", "1", 1);
    setenv("BP_STORE", w->thing[T_ADDRESS].cp, 1);
    OK(bp_comm_split(w->thing[T_COMM].p, 0, 0, (struct bp_comm **)&w->thing[T_DOOMED].p));
}

static void comm_finish(struct world *w)
{
    bp_comm_destroy(w->thing[T_DOOMED].p);
}

const struct table mistakes_comm = {
    .function = functions,
    .n_function = COUNT(functions),
    .mistake = mistakes,
    .n_mistake = COUNT(mistakes),
    .prepare = comm_prepare,
    .finish = comm_finish,
};
