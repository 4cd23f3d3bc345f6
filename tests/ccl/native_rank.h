/* SPDX-License-Identifier: Apache-2.0 */
/* native_rank.h: declares ranks on the simulator with native collectives, for tests. */
#ifndef BP_TEST_CCL_NATIVE_RANK_H
#define BP_TEST_CCL_NATIVE_RANK_H

#include "rank.h"

#include <time.h>

enum { N = 1000, NO_RANK = UINT32_MAX };

static bool forks; /* ranks are processes, not threads */

static inline const char *algorithm_of(struct rank *r)
{
    return bp_comm_algorithm(r->comm, BP_COMM_ALL_REDUCE, 4 * N);
}

static inline struct rank join_native(uint32_t rank, uint32_t size, const struct bp_comm_id *id)
{
    struct rank r = rank_join("sim:0", rank, size, id);

    CHECK(!strcmp(algorithm_of(&r), "native"), "%s", algorithm_of(&r));
    return r;
}

static inline double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Creates a tensor whose elements have one value. */
static inline struct bp_tensor *filled(struct rank *r, int64_t n, float value)
{
    float *data = malloc((size_t)n * sizeof *data);

    for (int64_t i = 0; i < n; i++) data[i] = value;
    return rank_write(r, n, data);
}

static inline void expect(struct rank *r, const char *what, struct bp_tensor *t, int64_t n,
                          float value)
{
    float *data = rank_read(r, t, n);

    for (int64_t i = 0; i < n; i++)
        CHECK(data[i] == value, "%s: element %lld is %g, expected %g", what, (long long)i,
              (double)data[i], (double)value);
    free(data);
}

/* The number of ranks for a test: 4 if KIT_HOSTS has four hosts (two hosts with two ranks each),
 * else n. */
static inline uint32_t ranks(uint32_t n)
{
    const char *hosts = getenv("KIT_HOSTS");
    uint32_t commas = 0;

    for (; hosts && *hosts; hosts++) commas += *hosts == ',';
    return commas == 3 ? 4 : n;
}

/* Whether a rank is on another host than rank 0. */
static inline bool is_remote(uint32_t rank)
{
    const char *first = getenv("KIT_HOSTS"), *at = first;

    for (uint32_t i = 0; at && i < rank; i++) {
        at += strcspn(at, ",");
        at = *at ? at + 1 : first;
    }
    return at && (strcspn(at, ",") != strcspn(first, ",") ||
                  strncmp(at, first, strcspn(first, ",")));
}

static inline void run(uint32_t size, void (*fn)(uint32_t, uint32_t, void *), uint32_t spared)
{
    struct bp_comm_id id[2];

    OK(bp_comm_id_create(&id[0]));
    OK(bp_comm_id_create(&id[1]));
    if (forks) kit_processes(size, fn, id, spared, NULL);
    else kit_threads(size, fn, id);
}

/* Waits for the communicator's failure. Between hosts it arrives a moment later. */
static inline void await_failure(struct rank *r)
{
    double begin = seconds();

    while (bp_comm_error(r->comm) == BP_OK && seconds() - begin < 5) usleep(1000);
    CHECK(seconds() - begin < 3, "told after %g s", seconds() - begin);
}

/* Checks that the stream's wait and the communicator report the failure, within most seconds. */
static inline void expect_failure(struct rank *r, enum bp_status status, const char *word,
                                  double most)
{
    double begin = seconds();

    FAILS(status, word, bp_stream_synchronize(r->stream));
    CHECK(seconds() - begin < most, "told after %g s", seconds() - begin);
    FAILS(status, word, bp_comm_error(r->comm));
}

#endif
