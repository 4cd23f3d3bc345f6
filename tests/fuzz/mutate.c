/* SPDX-License-Identifier: Apache-2.0 */
/* mutate.c: drives a fuzzer without libFuzzer: FUZZER [SECONDS [SEED]]. It mutates the seeds and
 * earlier mutations. It does not measure coverage, but works in every build, and repeats the same
 * inputs for the same seed. */
#include "fuzz.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    POOL = 64,
    MAX = 1 << 17
};

static struct {
    uint8_t *data;
    size_t size;
} pool[POOL];
static uint64_t state;

static uint64_t next_random(void)
{
    state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t x = state;
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static size_t mutate_below(size_t n)
{
    return n ? (size_t)(next_random() % n) : 0;
}

/* Makes one change to size bytes in a buffer of MAX. Returns the new size. */
static size_t mutate_bytes(uint8_t *data, size_t size)
{
    static const char *const words[] = {"\"",      "{",    "}",     "[",  "]",  ",", ":",
                                        "\\u0000", "null", "1e308", "-1", "..", "/", "\n"};
    size_t at = mutate_below(size + 1), n;
    const char *word;

    switch (mutate_below(6)) {
    case 0: /* another byte */
        if (at < size) data[at] = (uint8_t)next_random();
        return size;
    case 1: /* another bit */
        if (at < size) data[at] ^= (uint8_t)(1u << mutate_below(8));
        return size;
    case 2: /* a part is removed */
        n = mutate_below(size - at + 1);
        memmove(data + at, data + at + n, size - at - n);
        return size - n;
    case 3: /* a part is repeated */
        n = mutate_below(size - at + 1);
        if (size + n > MAX) return size;
        memmove(data + at + n, data + at, size - at);
        return size + n;
    case 4: /* a word of the language is inserted */
        word = words[mutate_below(sizeof words / sizeof *words)];
        n = strlen(word);
        if (size + n > MAX) return size;
        memmove(data + at + n, data + at, size - at);
        memcpy(data + at, word, n);
        return size + n;
    default: /* the end is removed */ return mutate_below(8) ? size : at;
    }
}

static void mutate_run(const uint8_t *data, size_t size)
{
    uint8_t *exact = malloc(size ? size
                                 : 1); /* of exact size, so that a sanitizer notices an overrun */

    if (!exact) abort();
    memcpy(exact, data, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 2;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1, runs = 0;
    struct timespec start, now;
    static uint8_t data[MAX];
    size_t filled = 0;

    state = seed;
    for (; bp_fuzz_seeds[filled] && filled < POOL; filled++) {
        pool[filled].size = strlen(bp_fuzz_seeds[filled]);
        pool[filled].data = malloc(pool[filled].size + 1);
        if (!pool[filled].data) abort();
        memcpy(pool[filled].data, bp_fuzz_seeds[filled], pool[filled].size);
        mutate_run(pool[filled].data, pool[filled].size);
    }
    for (size_t seeds = filled; filled < POOL; filled++) {
        pool[filled].size = pool[filled % seeds].size;
        pool[filled].data = malloc(pool[filled].size + 1);
        if (!pool[filled].data) abort();
        memcpy(pool[filled].data, pool[filled % seeds].data, pool[filled].size);
    }
    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        for (int i = 0; i < 1000; i++, runs++) {
            size_t from = mutate_below(filled), size = pool[from].size;
            memcpy(data, pool[from].data, size);
            for (size_t n = 1 + mutate_below(4); n; n--) size = mutate_bytes(data, size);
            mutate_run(data, size);
            if (mutate_below(100)) continue;
            /* Keeps some mutations as a basis for later ones; the first half of the pool is never
             * replaced. */
            from = POOL / 2 + mutate_below(POOL / 2);
            free(pool[from].data);
            pool[from].data = malloc(size + 1);
            if (!pool[from].data) abort();
            memcpy(pool[from].data, data, size);
            pool[from].size = size;
        }
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((double)(now.tv_sec - start.tv_sec) + 1e-9 * (double)(now.tv_nsec - start.tv_nsec) <
             seconds);
    for (size_t i = 0; i < filled; i++) free(pool[i].data);
    printf("%llu inputs from seed %llu\n", (unsigned long long)runs, (unsigned long long)seed);
    return 0;
}
