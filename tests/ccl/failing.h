/* SPDX-License-Identifier: Apache-2.0 */
/* failing.h: declares ranks for tests of failures: processes with one device each, checks of the
 * failure, and calls by number. */
#ifndef BP_TEST_CCL_FAILING_H
#define BP_TEST_CCL_FAILING_H

#include "kit.h"

#include <time.h>

static struct bp_core *core;
static struct bp_device *device;
static struct bp_stream *stream;

struct ids {
    struct bp_comm_id first, second;
    uint32_t victim;
    unsigned seed;
};

static inline double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static inline struct bp_comm *join(const struct bp_comm_id *id, uint32_t rank, uint32_t size)
{
    struct bp_comm *comm;

    if (!core) {
        OK(bp_core_create(NULL, &core));
        OK(bp_device_create(core, "cpu:0", &device));
        OK(bp_stream_create(device, &stream));
    }
    OK(bp_comm_create(device, id, rank, size, &comm));
    return comm;
}

static inline void close_all(struct bp_comm *comm)
{
    bp_comm_destroy(comm);
    bp_stream_destroy(stream);
    bp_device_destroy(device);
    bp_core_destroy(core);
}

static inline struct bp_tensor *make(uint32_t dtype, int64_t n)
{
    struct bp_tensor *t;
    struct bp_tensor_info info = {.size = sizeof info};

    OK(bp_tensor_create(device, dtype, 1, &n, &t));
    OK(bp_tensor_get_info(t, &info));
    if (n) memset(info.data, 0, info.bytes);
    return t;
}

/* Sets all bytes of a tensor. */
static inline void fill(struct bp_tensor *t, int value)
{
    struct bp_tensor_info info = {.size = sizeof info};

    OK(bp_tensor_get_info(t, &info));
    memset(info.data, value, info.bytes);
}

static inline bool is_filled(struct bp_tensor *t, int value)
{
    struct bp_tensor_info info = {.size = sizeof info};
    const unsigned char *data;

    OK(bp_tensor_get_info(t, &info));
    data = info.data;
    return !info.bytes || (data[0] == value && !memcmp(data, data + 1, info.bytes - 1));
}

/* Checks the status, and that the message contains both words; then that later calls report the
 * same failure without waiting. */
static inline void expect_failure(struct bp_comm *comm, enum bp_status got, enum bp_status want,
                                  const char *word, const char *other)
{
    double begin = seconds();

    CHECK(got == want, "%s: %s", bp_status_name(got), got ? bp_error_message() : "no failure");
    CHECK(strstr(bp_error_message(), word) && strstr(bp_error_message(), other),
          "'%s' does not say '%s' and '%s'", bp_error_message(), word, other);
    CHECK(bp_comm_error(comm) == want, "bp_comm_error");
    CHECK(bp_comm_barrier(comm, stream) == want, "a later call");
    CHECK(strstr(bp_error_message(), word), "'%s'", bp_error_message());
    CHECK(seconds() - begin < 1, "a later call waits");
}

/* Waits until the other ranks have failed, for a rank that must arrive too late for them. A fixed
 * sleep would be too short if the other ranks start late. */
static inline void await_failure(struct bp_comm *comm)
{
    double begin = seconds();

    while (bp_comm_error(comm) == BP_OK && seconds() - begin < 20) usleep(1000);
}

static inline void run(uint32_t size, void (*fn)(uint32_t, uint32_t, void *), uint32_t spared)
{
    struct ids ids;

    OK(bp_comm_id_create(&ids.first));
    OK(bp_comm_id_create(&ids.second));
    kit_processes(size, fn, &ids, spared, NULL);
}
/* Makes a call by number, with the tensors of one part or of all parts. root is used by the calls
 * that have one. */
enum { CALLS = 9 };
static inline enum bp_status call_number(struct bp_comm *comm, int call, struct bp_tensor *one,
                                         struct bp_tensor *all, struct bp_tensor *to_one,
                                         struct bp_tensor *to_all, uint32_t root)
{
    switch (call % CALLS) {
    case 0: return bp_comm_all_reduce(comm, stream, one, to_one, BP_REDUCE_SUM);
    case 1: return bp_comm_broadcast(comm, stream, one, to_one, root);
    case 2: return bp_comm_all_to_all(comm, stream, all, to_all);
    case 3: return bp_comm_reduce(comm, stream, one, to_one, BP_REDUCE_MAX, root);
    case 4: return bp_comm_all_gather(comm, stream, one, to_all);
    case 5: return bp_comm_reduce_scatter(comm, stream, all, to_one, BP_REDUCE_SUM);
    case 6: return bp_comm_gather(comm, stream, one, to_all, root);
    case 7: return bp_comm_scatter(comm, stream, all, to_one, root);
    default: return bp_comm_barrier(comm, stream);
    }
}

#endif
