/* SPDX-License-Identifier: Apache-2.0 */
/* team.c: runs tasks on the thread team that the plugin's kernels and the libraries share:
 * libgomp's team.
 *
 * gcc's ThreadSanitizer does not see libgomp's synchronisation and reports false races, so a build
 * with ThreadSanitizer starts threads here instead. So does a compiler whose OpenMP is not libgomp:
 * a second OpenMP runtime besides the libraries' one would be a second team. The build sets
 * CPU_TEAM_OPENMP. */
#include "cpu.h"
#include <stdatomic.h>

#if defined(__SANITIZE_THREAD__)
#undef CPU_TEAM_OPENMP
#endif

/* With fewer additions a team costs more than it saves: waking a team takes 3 to 50 us. */
static const double work_alone = 65536;

uint32_t cpu_width_choose(uint32_t most, double work)
{
    return work < work_alone ? 1 : most;
}

uint32_t cpu_team_width(const struct bp_launch *launch, double work)
{
    return cpu_width_choose(launch->width, work);
}

/* Two threads are faster than one from 2^19 terms on, which take one thread 4 us if the tensors are
 * in the caches. A product with few terms for each element waits for memory like an addition, which
 * moves three floats. */
double cpu_product_work(double terms, double bytes)
{
    const double terms_of_addition = 8, bytes_of_addition = 12;
    double computes = terms / terms_of_addition, moves = bytes / bytes_of_addition;

    return computes > moves ? computes : moves;
}

/* Each thread begins with its own share of consecutive tasks, and then takes the remaining tasks of
 * other shares. So a late thread delays no other thread, and a thread finds in its caches the data
 * that it wrote in an earlier call. When tasks were assigned one by one, layer_norm of 65536x64
 * took as long on two processors as on one. */
enum { SHARES = 64, LINE = 64 };

struct share {
    _Alignas(LINE) _Atomic int64_t next;
    int64_t end;
};

struct team {
    void (*task)(void *arg, int64_t i);
    void *arg;
    int shares;
    struct share share[SHARES];
};

static void team_share(struct team *team, int64_t n, uint32_t width)
{
    int64_t begin = 0;

    team->shares = width < SHARES ? (int)width : SHARES;
    for (int i = 0; i < team->shares; i++) {
        int64_t end = begin + n / team->shares + (i < n % team->shares);
        atomic_init(&team->share[i].next, begin);
        team->share[i].end = begin = end;
    }
}

static void team_work(struct team *team, int number)
{
    for (int k = 0; k < team->shares; k++) {
        struct share *share = &team->share[(number + k) % team->shares];
        for (int64_t i; (i = atomic_fetch_add_explicit(&share->next, 1, memory_order_relaxed)) <
                        share->end;)
            team->task(team->arg, i);
    }
}

#ifdef CPU_TEAM_OPENMP
#include <omp.h>

void cpu_team_run(void (*task)(void *arg, int64_t i), void *arg, int64_t n, uint32_t width)
{
    struct team team = {.task = task, .arg = arg};

    if (width < 2 || n < 2) {
        for (int64_t i = 0; i < n; i++) task(arg, i);
        return;
    }
    if (width > n) width = (uint32_t)n;
    team_share(&team, n, width);
#pragma omp parallel num_threads((int)width)
    team_work(&team, omp_get_thread_num());
}

static void team_set(struct cpu_team_setting now, struct cpu_team_setting wanted)
{
    if (now.width != wanted.width) omp_set_num_threads(wanted.width);
    if (now.dynamic != wanted.dynamic) omp_set_dynamic(wanted.dynamic);
}

struct cpu_team_setting cpu_team_begin(int width)
{
    struct cpu_team_setting before = {omp_get_max_threads(), omp_get_dynamic()};
    int limit = omp_get_thread_limit();

    team_set(before, (struct cpu_team_setting){width < limit ? width : limit, 0});
    return before;
}

void cpu_team_end(struct cpu_team_setting before)
{
    team_set((struct cpu_team_setting){omp_get_max_threads(), omp_get_dynamic()}, before);
}

#else
#include <pthread.h>

struct member {
    pthread_t thread;
    struct team *team;
    int number;
};

static void *member_run(void *p)
{
    struct member *member = p;

    team_work(member->team, member->number);
    return NULL;
}

void cpu_team_run(void (*task)(void *arg, int64_t i), void *arg, int64_t n, uint32_t width)
{
    struct team team = {.task = task, .arg = arg};
    struct member member[SHARES];
    int started = 1;

    if (width > n) width = (uint32_t)n;
    team_share(&team, n, width ? width : 1);
    for (; started < team.shares; started++) {
        member[started] = (struct member){.team = &team, .number = started};
        if (pthread_create(&member[started].thread, NULL, member_run, &member[started]))
            break; /* the caller runs the remaining tasks */
    }
    team_work(&team, 0);
    while (started > 1) pthread_join(member[--started].thread, NULL);
}

struct cpu_team_setting cpu_team_begin(int width)
{
    return (struct cpu_team_setting){width, 0}; /* libraries use the width of the process */
}

void cpu_team_end(struct cpu_team_setting before)
{
    (void)before;
}
#endif
