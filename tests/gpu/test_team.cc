/* SPDX-License-Identifier: Apache-2.0 */
/* test_team.cc: tests reductions and scans over the lanes of a team (dialect/team.h) in the form
 * for lanes that exchange registers. Threads are the lanes here; the threads of a group of 32 wait
 * for each other when they exchange, and no other threads wait. Each lane must get the bits that
 * the tree in memory gives, in several rounds in the same memory. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef int64_t i64;
typedef uint32_t u32;
enum { MAX_LANES = 256, ROUNDS = 4 };
static thread_local i64 lane_number;
static pthread_barrier_t all, group[MAX_LANES / 32];
#define KFN static inline
#define LOCAL
#define LANE lane_number
#define UNROLL
#define BARRIER() barrier()
#define LANES_EXCHANGE

/* The last lanes are delayed after the barrier. */
static void barrier()
{
    pthread_barrier_wait(&all);
    if (LANE >= MAX_LANES - 32) usleep(5000);
}

static uint64_t exchanged[MAX_LANES][2];

/* Returns the value of the lane with that number in this lane's group of 32. */
template <typename T> static T of_lane(T x, i64 number)
{
    pthread_barrier_wait(&group[LANE / 32]);
    memcpy(exchanged[LANE], &x, sizeof x);
    pthread_barrier_wait(&group[LANE / 32]);
    memcpy(&x, exchanged[LANE / 32 * 32 + number], sizeof x);
    return x;
}
template <int MASK, typename T> static T lane_xor(T x)
{
    return of_lane(x, LANE % 32 ^ MASK);
}
template <typename T> static T lane_first(T x)
{
    return of_lane(x, 0);
}
#include <dialect/team.h>
TEAM_JOIN(sum, float, a + b)
TEAM_JOIN(largest, float, a > b ? a : b)
TEAM_JOIN(last, i64, op ? b : a)

/* A function that maps x to factor x + term: the order of two functions matters. */
struct step {
    uint64_t factor, term;
};
static step both(step a, step b)
{
    return {b.factor * a.factor, b.factor * a.term + b.term};
}
TEAM_SCAN(steps, step, both(a, b))
TEAM_SCAN(added, float, op ? a + b : b + a)

static step step_of(i64 round, i64 lane)
{
    return {(uint64_t)(2 * lane + 2 * round + 3), (uint64_t)(lane * 7919 + round)};
}

/* Composes the steps of a team one after another, up to lane. */
static step steps_before(i64 round, i64 lane)
{
    step s = {1, 0};

    for (i64 i = 0; i < lane; i++) s = both(s, step_of(round, i));
    return s;
}

static bool same(step a, step b)
{
    return a.factor == b.factor && a.term == b.term;
}

static float value(i64 round, i64 lane)
{
    static const float odd[] = {0.0f, -0.0f, __builtin_nanf(""), 3e38f, 1e-40f};

    if (round == 3) return odd[(lane * 7 + 3) % 5];
    return (float)((lane * 7919 + round * 104729) % 10007) / 977 - 5;
}

/* Computes the tree in memory, by one thread. */
template <typename T, typename F> static T tree(T *s, F join)
{
    for (int width = MAX_LANES / 2; width; width /= 2)
        for (int i = 0; i < width; i++) s[i] = join(s[i], s[i + width]);
    return s[0];
}

alignas(16) static float scratch[4 * MAX_LANES];
static int wrong[MAX_LANES];

/* Whole numbers add up exactly in any order, and a scan excludes the lane's own number. */
static int wrong_scan(i64 round)
{
    step all_steps, before = steps(0, step_of(round, LANE), {1, 0}, scratch, &all_steps);
    float sum_of_all, lower = added(1, (float)(LANE + 1), 0.0f, scratch, &sum_of_all);

    return !same(before, steps_before(round, LANE)) +
           !same(all_steps, steps_before(round, MAX_LANES)) +
           (lower != (float)(LANE * (LANE + 1) / 2)) +
           (sum_of_all != (float)(MAX_LANES * (MAX_LANES + 1) / 2));
}

static void *lane(void *number)
{
    LANE = (i64)(intptr_t)number;
    for (i64 round = 0; round < ROUNDS; round++) {
        float a[MAX_LANES], b[MAX_LANES], v = value(round, LANE), s, m;
        for (int i = 0; i < MAX_LANES; i++) a[i] = b[i] = value(round, i);
        s = sum(0, v, scratch);
        m = largest(0, v, scratch);
        float sum_of_all = tree(a, [](float x, float y) { return x + y; });
        float largest_of_all = tree(b, [](float x, float y) { return x > y ? x : y; });
        wrong[LANE] += memcmp(&s, &sum_of_all, sizeof s) && (s == s || sum_of_all == sum_of_all);
        wrong[LANE] += memcmp(&m, &largest_of_all, sizeof m) != 0;
        wrong[LANE] += last(0, LANE << 33, scratch) != 0;
        wrong[LANE] += last(1, LANE << 33, scratch) != (i64)(MAX_LANES - 1) << 33;
        wrong[LANE] += wrong_scan(round);
    }
    return NULL;
}

int main()
{
    pthread_t thread[MAX_LANES];
    int bad = 0;

    pthread_barrier_init(&all, NULL, MAX_LANES);
    for (auto &one : group) pthread_barrier_init(&one, NULL, 32);
    for (intptr_t i = 0; i < MAX_LANES; i++) pthread_create(&thread[i], NULL, lane, (void *)i);
    for (int i = 0; i < MAX_LANES; i++) {
        pthread_join(thread[i], NULL);
        bad += wrong[i];
    }
    printf("1..1\n%s 1 - every lane has the bits of the tree in memory, and the scan's\n", bad ? "not ok" : "ok");
    return bad != 0;
}
