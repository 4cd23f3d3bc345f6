/* SPDX-License-Identifier: Apache-2.0 */
/* child.c: the child runner. One loop waits for output, report lines, the end of the process and
 * the deadline together; whatever comes first, the process and its group are killed before the
 * process is reaped, so their number cannot have been given to anyone else.
 *
 * Two limits are left out on purpose: RLIMIT_AS kills every program built with a sanitizer, and
 * RLIMIT_FSIZE also counts memory files, of which drivers map many gigabytes. */
#include "child.h"
#include "stream.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    OUTPUT_MAX = 1 << 20,
    KILL_WAIT_S = 10, /* a killed process can be stuck in a driver: it is left behind then */
    NO_PIDFD_MS = 5,  /* how often we look where there is no pidfd_open */
};

struct run {
    const struct bp_child *child;
    struct bp_child_result *result;
    struct bp_child_output output;
    struct bp_child_lines lines;
    int out_fd, report_fd; /* our ends, -1 when closed by the other side */
    pid_t pid;
    int pidfd;             /* -1 where the kernel has none */
    uint64_t start, deadline; /* CLOCK_MONOTONIC; UINT64_MAX: none */
    bool killed, reaped;
};

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void close_fd(int *fd)
{
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

/* A pipe whose ends are 10 and above, out of the way of the descriptors that the child gets. */
static int pipe_create(int out_fd[2])
{
    int low[2];

    if (pipe2(low, O_CLOEXEC)) return errno;
    out_fd[0] = fcntl(low[0], F_DUPFD_CLOEXEC, 10);
    out_fd[1] = out_fd[0] < 0 ? -1 : fcntl(low[1], F_DUPFD_CLOEXEC, 10);
    int error = out_fd[1] < 0 ? errno : 0;
    close(low[0]);
    close(low[1]);
    if (error) {
        close_fd(&out_fd[0]);
        return error;
    }
    fcntl(out_fd[0], F_SETFL, O_NONBLOCK);
    return 0;
}

/* Whether entry ("NAME=value") is set anew by one of set. */
static bool env_replaced(const char *entry, const char *const *set)
{
    size_t n = strcspn(entry, "=");

    for (; *set; set++)
        if (!strncmp(entry, *set, n) && (*set)[n] == '=') return true;
    return false;
}

/* This process's environment with set on top; to be freed, its strings not. NULL: no memory. */
static char **env_create(const char *const *set)
{
    static const char *const nothing[] = {NULL};
    size_t n = 0, n_set = 0, k = 0;

    if (!set) set = nothing;
    while (environ && environ[n]) n++;
    while (set[n_set]) n_set++;
    char **env = malloc((n + n_set + 1) * sizeof *env);
    if (!env) return NULL;
    for (size_t i = 0; i < n; i++)
        if (!env_replaced(environ[i], set)) env[k++] = environ[i];
    for (size_t i = 0; i < n_set; i++) env[k++] = (char *)set[i];
    env[k] = NULL;
    return env;
}

/* Standard input is empty, output and error are one pipe, the report is another; all else is
 * closed. */
static int spawn_files(posix_spawn_file_actions_t *files, int out_fd, int report_fd)
{
    int error = posix_spawn_file_actions_addopen(files, 0, "/dev/null", O_RDONLY, 0);

    if (!error) error = posix_spawn_file_actions_adddup2(files, out_fd, 1);
    if (!error) error = posix_spawn_file_actions_adddup2(files, out_fd, 2);
    if (!error && report_fd >= 0)
        error = posix_spawn_file_actions_adddup2(files, report_fd, BP_CHILD_REPORT);
    int first = report_fd >= 0 ? BP_CHILD_REPORT + 1 : BP_CHILD_REPORT;
    if (!error) error = posix_spawn_file_actions_addclosefrom_np(files, first);
    return error;
}

static int spawn(struct run *run, int out_fd, int report_fd)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none, all;
    char **env = env_create(run->child->env);

    if (!env) return ENOMEM;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &all);
    posix_spawnattr_setflags(
        &attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawn_file_actions_init(&files);

    const char *const *argv = run->child->argv;
    int error = spawn_files(&files, out_fd, report_fd);
    if (!error) error = posix_spawn(&run->pid, argv[0], &files, &attr, (char *const *)argv, env);

    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attr);
    free(env);
    return error;
}

/* From outside, just after the start: a spawned process cannot be given limits before. A program
 * that crashes within its first instructions may still leave a core file; see bp_child_enter. */
static void set_limits(const struct run *run)
{
    const struct rlimit core = {0, 0};
    const struct rlimit cpu = {run->child->cpu_s, run->child->cpu_s + 1};

    prlimit(run->pid, RLIMIT_CORE, &core, NULL);
    if (run->child->cpu_s) prlimit(run->pid, RLIMIT_CPU, &cpu, NULL);
}

static int start(struct run *run)
{
    int out[2] = {-1, -1}, report[2] = {-1, -1};
    int error = pipe_create(out);

    if (!error && run->child->report) error = pipe_create(report);
    if (!error) error = spawn(run, out[1], report[1]);
    close_fd(&out[1]);
    close_fd(&report[1]);
    if (error) {
        close_fd(&out[0]);
        close_fd(&report[0]);
        return error;
    }
    run->out_fd = out[0];
    run->report_fd = report[0];
    run->pidfd = pidfd_open(run->pid, 0);
    set_limits(run);
    return 0;
}

/* Kills the group for the reason end, once, and the process: it may have gone over to another group
 * of its session, even to ours. What it wrote until now is still read. */
static void stop(struct run *run, enum bp_child_end end)
{
    if (run->killed) return;
    run->killed = true;
    run->result->end = end;
    run->deadline = now_ns() + KILL_WAIT_S * UINT64_C(1000000000);
    kill(-run->pid, SIGKILL);
    if (run->pidfd >= 0) pidfd_send_signal(run->pidfd, SIGKILL, NULL, 0);
    else kill(run->pid, SIGKILL);
}

/* Reads what has come on both pipes, at most about a mebibyte of each: a process that left the
 * group may go on writing. False: too much output. */
static bool read_pipes(struct run *run)
{
    char buffer[1 << 16];
    bool fits = true;

    for (int i = 0; i < 16 && run->out_fd >= 0; i++) {
        ssize_t n = read(run->out_fd, buffer, sizeof buffer);
        if (n < 0 && errno == EAGAIN) break;
        if (n > 0) fits = bp_child_output_add(&run->output, buffer, (size_t)n) && fits;
        else if (!n || errno != EINTR) close_fd(&run->out_fd);
    }
    for (int i = 0; i < 16 && run->report_fd >= 0; i++) {
        ssize_t n = read(run->report_fd, buffer, sizeof buffer);
        if (n < 0 && errno == EAGAIN) break;
        if (n > 0) fits = bp_child_lines_add(&run->lines, buffer, (size_t)n) && fits;
        else if (!n || errno != EINTR) close_fd(&run->report_fd);
    }
    return fits;
}

/* Whether the process has ended; it is not reaped by that. */
static bool has_ended(struct run *run)
{
    siginfo_t info = {0};

    if (waitid(P_PID, (id_t)run->pid, &info, WEXITED | WNOHANG | WNOWAIT)) return errno == ECHILD;
    return info.si_pid == run->pid;
}

static void wait_for_news(struct run *run)
{
    struct pollfd fd[] = {
        {run->out_fd, POLLIN, 0}, {run->report_fd, POLLIN, 0}, {run->pidfd, POLLIN, 0}};
    uint64_t now = now_ns();
    uint64_t left_ms = run->deadline <= now ? 0 : (run->deadline - now) / 1000000 + 1;
    int wait_ms = left_ms > 60000 ? 60000 : (int)left_ms;

    if (run->pidfd < 0 && wait_ms > NO_PIDFD_MS) wait_ms = NO_PIDFD_MS;
    poll(fd, 3, wait_ms);
}

/* Until the process has ended, or will not even though it was killed. */
static bool follow(struct run *run)
{
    while (!has_ended(run)) {
        wait_for_news(run);
        if (!read_pipes(run)) stop(run, BP_CHILD_OUTPUT);
        if (now_ns() < run->deadline) continue;
        if (run->killed) return has_ended(run);
        stop(run, BP_CHILD_TIMEOUT);
    }
    return true;
}

/* Ends the rest of the group, reaps the process, which has ended, and says how it did. */
static void reap(struct run *run)
{
    struct bp_child_result *result = run->result;
    struct rusage usage = {0};
    int status = 0;

    kill(-run->pid, SIGKILL);
    if (wait4(run->pid, &status, 0, &usage) != run->pid) {
        result->end = BP_CHILD_NOT_RUN; /* SIGCHLD is ignored here: how it ended cannot be known */
        result->code = ECHILD;
        return;
    }
    if (run->killed) return;
    if (WIFEXITED(status)) {
        result->end = BP_CHILD_EXITED;
        result->code = WEXITSTATUS(status);
        return;
    }
    uint64_t cpu_s = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec);
    bool spent = run->child->cpu_s && cpu_s + 1 >= run->child->cpu_s;
    result->code = WTERMSIG(status);
    result->end = BP_CHILD_SIGNALLED;
    if (result->code == SIGXCPU || (result->code == SIGKILL && spent)) {
        result->end = BP_CHILD_TIMEOUT;
        result->code = SIGXCPU;
    }
}

void bp_child_run(const struct bp_child *child, struct bp_child_result *out_result)
{
    struct run run = {
        .child = child, .result = out_result, .out_fd = -1, .report_fd = -1, .pidfd = -1,
        .start = now_ns(), .deadline = UINT64_MAX,
    };

    memset(out_result, 0, sizeof *out_result);
    bp_child_output_init(&run.output, child->output_max ? child->output_max : OUTPUT_MAX);
    bp_child_lines_init(&run.lines, child->report, child->ctx);
    if (child->timeout_ns && child->timeout_ns < UINT64_MAX - run.start)
        run.deadline = run.start + child->timeout_ns;

    int error = start(&run);
    if (error) {
        out_result->end = BP_CHILD_NOT_RUN;
        out_result->code = error;
    } else {
        if (follow(&run)) reap(&run);
        if (!read_pipes(&run) && !run.killed) out_result->end = BP_CHILD_OUTPUT;
        close_fd(&run.out_fd);
        close_fd(&run.report_fd);
        close_fd(&run.pidfd);
    }
    bp_child_lines_finish(&run.lines);
    out_result->seconds = (double)(now_ns() - run.start) * 1e-9;
    out_result->output = bp_child_output_take(&run.output, &out_result->output_size);
}

void bp_child_finish(struct bp_child_result *result)
{
    bp_child_output_free(result->output);
    memset(result, 0, sizeof *result);
}

void bp_child_enter(void)
{
    const struct rlimit core = {0, 0};

    setrlimit(RLIMIT_CORE, &core);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

void bp_child_describe(const struct bp_child_result *result, char *text, size_t size)
{
    const char *name;

    switch (result->end) {
    case BP_CHILD_EXITED:
        snprintf(text, size, "exit status %d", result->code);
        return;
    case BP_CHILD_SIGNALLED:
        name = sigdescr_np(result->code);
        snprintf(text, size, "killed by signal %d (%s)", result->code, name ? name : "no name");
        return;
    case BP_CHILD_TIMEOUT:
        if (result->code == SIGXCPU)
            snprintf(text, size, "out of processor time after %.1f s", result->seconds);
        else snprintf(text, size, "no end after %.1f s", result->seconds);
        return;
    case BP_CHILD_OUTPUT:
        snprintf(text, size, "wrote too much (stopped after %zu bytes of output)",
                 result->output_size);
        return;
    case BP_CHILD_NOT_RUN:
        name = strerrordesc_np(result->code);
        snprintf(text, size, "could not be run: %s", name ? name : "unknown error");
        return;
    }
    snprintf(text, size, "ended in an unknown way");
}
