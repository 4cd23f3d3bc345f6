/* SPDX-License-Identifier: Apache-2.0 */
/* test_large.c: tests calls of more than 2^31 bytes, and of more than 2^31 elements. Each needs 5
 * GB of memory, so they run only with LARGE_TESTS in the environment.
 *
 *     test_large [processes] : ranks are threads, or processes */
#include "rank.h"

static bool processes;
static const int64_t over = (INT64_C(1) << 31) + 4099;

static void *create_mapped(struct rank *r, uint32_t dtype, int64_t n, struct bp_tensor **out)
{
    void *data;

    OK(bp_tensor_create(r->device, dtype, 1, &n, out));
    OK(bp_tensor_map(*out, &data));
    return data;
}

/* Differs between element i and the element that an index without its upper half would address. */
static uint8_t value_of(uint32_t rank, int64_t i)
{
    return (uint8_t)(i * 31 + (i >> 20) * 7 + (i >> 31) + rank * 5);
}

static void expect_bytes(const char *what, const uint8_t *data, int64_t n, uint32_t of)
{
    for (int64_t i = 0; i < n; i++)
        CHECK(data[i] == value_of(of, i), "%s, element %lld: %u, expected %u", what, (long long)i,
              data[i], value_of(of, i));
}

static void reduces_bytes(uint32_t rank, uint32_t size, void *id)
{
    struct rank r = rank_join("cpu:0", rank, size, id);
    struct bp_tensor *x;
    uint8_t *data = create_mapped(&r, BP_U8, over, &x);

    for (int64_t i = 0; i < over; i++) data[i] = value_of(rank, i);
    OK(bp_comm_all_reduce(r.comm, r.stream, x, x, BP_REDUCE_SUM));
    for (int64_t i = 0; i < over; i++) {
        uint8_t want = (uint8_t)(value_of(0, i) + value_of(1, i));
        CHECK(data[i] == want, "element %lld: %u, expected %u", (long long)i, data[i], want);
    }
    bp_tensor_destroy(x);
    rank_close(&r);
}

/* Whole numbers up to 127; their sums, up to 254, are exact in bf16. */
static uint16_t bf16_value_of(uint32_t rank, int64_t i)
{
    union {
        float f;
        uint32_t u;
    } word = {.f = (float)(value_of(rank, i) >> 1)};

    return (uint16_t)(word.u >> 16);
}

static void reduces_bf16(uint32_t rank, uint32_t size, void *id)
{
    struct rank r = rank_join("cpu:0", rank, size, id);
    int64_t n = over / 2;
    struct bp_tensor *x;
    uint16_t *data = create_mapped(&r, BP_BF16, n, &x);

    for (int64_t i = 0; i < n; i++) data[i] = bf16_value_of(rank, i);
    OK(bp_comm_all_reduce(r.comm, r.stream, x, x, BP_REDUCE_SUM));
    for (int64_t i = 0; i < n; i++) {
        union {
            float f;
            uint32_t u;
        } want = {.f = (float)((value_of(0, i) >> 1) + (value_of(1, i) >> 1))};
        CHECK(data[i] == want.u >> 16, "element %lld: %#x, expected %#x", (long long)i, data[i],
              want.u >> 16);
    }
    bp_tensor_destroy(x);
    rank_close(&r);
}

/* Parts of more than 2^30 bytes: the last one begins near 2^30, and ends behind 2^31. */
static void gathers_bytes(uint32_t rank, uint32_t size, void *id)
{
    struct rank r = rank_join("cpu:0", rank, size, id);
    int64_t n = over / 2 + 7;
    struct bp_tensor *all, *own;
    uint8_t *data = create_mapped(&r, BP_U8, n * size, &all);

    own = rank_view(all, rank * n, n);
    for (int64_t i = 0; i < n; i++) data[rank * n + i] = value_of(rank, i);
    OK(bp_comm_all_gather(r.comm, r.stream, own, all));
    for (uint32_t j = 0; j < size; j++) expect_bytes("all_gather", data + j * n, n, j);
    bp_tensor_destroy(own);
    bp_tensor_destroy(all);
    rank_close(&r);
}

static void sends_bytes(uint32_t rank, uint32_t size, void *id)
{
    struct rank r = rank_join("cpu:0", rank, size, id);
    struct bp_tensor *x;
    uint8_t *data = create_mapped(&r, BP_U8, over, &x);

    if (!rank)
        for (int64_t i = 0; i < over; i++) data[i] = value_of(0, i);
    OK(rank ? bp_comm_recv(r.comm, r.stream, x, 0) : bp_comm_send(r.comm, r.stream, x, 1));
    expect_bytes("recv", data, over, 0);
    bp_tensor_destroy(x);
    rank_close(&r);
}

static void run_large(void (*fn)(uint32_t, uint32_t, void *))
{
    struct bp_comm_id id;

    OK(bp_comm_id_create(&id));
    if (processes) kit_processes_for(300, 2, fn, &id, UINT32_MAX, NULL);
    else kit_threads(2, fn, &id);
}

static void all_reduce_of_2_31_elements(void)
{
    run_large(reduces_bytes);
}

static void all_reduce_of_2_31_bytes(void)
{
    run_large(reduces_bf16);
}

static void all_gather_of_2_31_elements(void)
{
    run_large(gathers_bytes);
}

static void send_of_2_31_elements(void)
{
    run_large(sends_bytes);
}

/* Bytes of memory that are available. */
static double available_bytes(void)
{
    FILE *file = fopen("/proc/meminfo", "re");
    char line[128];
    double kib = 0;

    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %lf", &kib) == 1) break;
    if (file) fclose(file);
    return kib * 1024;
}

int main(int argc, char **argv)
{
    static const struct kit_case cases[] = {
        {"all_reduce_of_2_31_elements", all_reduce_of_2_31_elements},
        {"all_reduce_of_2_31_bytes", all_reduce_of_2_31_bytes},
        {"all_gather_of_2_31_elements", all_gather_of_2_31_elements},
        {"send_of_2_31_elements", send_of_2_31_elements},
    };

    processes = argc > 1 && !strcmp(argv[1], "processes");
    if (!getenv("LARGE_TESTS") || available_bytes() < 6e9) {
        printf("ok 1 - over_2_31 # SKIP 6 GB of memory, and LARGE_TESTS in the environment\n");
        printf("1..1\n");
        return 0;
    }
    return KIT_CASES(cases, argc - processes, argv + processes);
}
