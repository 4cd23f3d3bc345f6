/* SPDX-License-Identifier: Apache-2.0 */
/* team.c: the one team of threads, shared by own kernels and libraries: that of libgomp.
 *
 * gcc's ThreadSanitizer does not see libgomp's synchronisation and reports false races, so a
 * build for it starts threads of its own here; so does a compiler whose OpenMP is not libgomp,
 * for a second OpenMP beside that of the libraries would be a second team. CPU_TEAM_OPENMP is
 * set by the build. */
#include "cpu.h"

#if defined(__SANITIZE_THREAD__)
#undef CPU_TEAM_OPENMP
#endif

/* Below this many additions a team costs more than it brings: waking one takes 3 to 50 us. */
static const double work_alone = 65536;

uint32_t cpu_team_width(const struct bp_launch *launch, double work)
{
    return work < work_alone ? 1 : launch->width;
}

#ifdef CPU_TEAM_OPENMP
#include <omp.h>

void cpu_team_run(void (*task)(void *arg, int64_t i), void *arg, int64_t n, uint32_t width)
{
    if (width < 2 || n < 2) {
        for (int64_t i = 0; i < n; i++) task(arg, i);
        return;
    }
    if (width > n) width = (uint32_t)n;
#pragma omp parallel for num_threads((int)width) schedule(dynamic, 1)
    for (int64_t i = 0; i < n; i++) task(arg, i);
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
#include <stdatomic.h>

enum { TEAM_MAX = 64 };

struct team {
    void (*task)(void *arg, int64_t i);
    void *arg;
    int64_t n;
    _Atomic int64_t next;
};

static void *team_member(void *p)
{
    struct team *team = p;

    for (int64_t i; (i = atomic_fetch_add(&team->next, 1)) < team->n;) team->task(team->arg, i);
    return NULL;
}

void cpu_team_run(void (*task)(void *arg, int64_t i), void *arg, int64_t n, uint32_t width)
{
    struct team team = {.task = task, .arg = arg, .n = n};
    pthread_t member[TEAM_MAX];
    uint32_t started = 0;

    if (width > n) width = (uint32_t)n;
    while (started + 1 < width && started < TEAM_MAX) {
        if (pthread_create(&member[started], NULL, team_member, &team))
            break; /* the caller does the rest */
        started++;
    }
    team_member(&team);
    while (started) pthread_join(member[--started], NULL);
}

struct cpu_team_setting cpu_team_begin(int width)
{
    return (struct cpu_team_setting){width, 0}; /* libraries run at the width of the process */
}

void cpu_team_end(struct cpu_team_setting before)
{
    (void)before;
}
#endif
