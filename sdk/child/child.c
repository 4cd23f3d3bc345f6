/* SPDX-License-Identifier: Apache-2.0 */
/* child.c: runs a child process. One loop waits for output, report lines, the deadline and messages
 * of the keeper. The keeper process is the parent of the child, and ends all processes that have to
 * end.
 *
 * Two limits are not used on purpose: RLIMIT_AS kills every program built with a sanitizer, and
 * RLIMIT_FSIZE also counts memory files, of which drivers map many gigabytes. */
#include "child.h"
#include "keeper.h"
#include "stream.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    OUTPUT_MAX = 1 << 20,
    KILL_WAIT_S = 10, /* for a killed process; one that is stuck in a driver is then left behind */
};

struct run {
    const struct bp_child *child;
    struct bp_child_result *result;
    struct bp_child_output output;
    struct bp_child_lines lines;
    int out_fd, report_fd, news_fd; /* this process's ends; -1: closed by the other side */
    pid_t keeper;
    pid_t pid;                /* of the child; 0: not started yet */
    uint64_t start, deadline; /* CLOCK_MONOTONIC; UINT64_MAX: none */
    bool killed;
    bool ended; /* the child has; `end` has its result */
    bool over;  /* all processes that it left behind have ended too */
    struct keeper_news end;
};

static uint64_t child_now_ns(void)
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

/* Creates a pipe whose read end does not block. Returns 0 or errno. */
static int pipe_create(int out_fd[2])
{
    if (pipe2(out_fd, O_CLOEXEC)) return errno;
    fcntl(out_fd[0], F_SETFL, O_NONBLOCK);
    return 0;
}

/* Whether one of the strings in set replaces entry ("NAME=value"). */
static bool env_replaced(const char *entry, const char *const *set)
{
    size_t n = strcspn(entry, "=");

    for (; *set; set++)
        if (!strncmp(entry, *set, n) && (*set)[n] == '=') return true;
    return false;
}

/* Copies this process's environment and adds set. The caller frees the array, but not its strings.
 * NULL: out of memory. */
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

static int child_start(struct run *run)
{
    int out[2] = {-1, -1}, report[2] = {-1, -1}, news[2] = {-1, -1};
    char **env = env_create(run->child->env);
    int error = env ? pipe_create(out) : ENOMEM;

    if (!error) error = pipe_create(news);
    if (!error && run->child->report) error = pipe_create(report);
    if (!error) {
        struct keeper_order order = {
            run->child->argv, env, out[1], report[1], run->child->cpu_s};
        run->keeper = keeper_start(&order, news[1]);
        if (run->keeper < 0) error = errno;
    }
    close_fd(&out[1]);
    close_fd(&report[1]);
    close_fd(&news[1]);
    free(env);
    run->out_fd = out[0];
    run->report_fd = report[0];
    run->news_fd = news[0];
    return error;
}

/* Has all processes killed, once, for the reason `end`. SIGCONT is needed if the keeper was
 * stopped. Output that was written until now is still read. */
static void child_stop(struct run *run, enum bp_child_end end)
{
    if (run->killed || run->ended) return;
    run->killed = true;
    run->result->end = end;
    run->deadline = child_now_ns() + KILL_WAIT_S * UINT64_C(1000000000);
    kill(run->keeper, SIGTERM);
    kill(run->keeper, SIGCONT);
}

/* Reads the keeper's messages. The end of its pipe is the end of the keeper. */
static void read_news(struct run *run)
{
    struct keeper_news news;
    ssize_t n;

    while (run->news_fd >= 0 && (n = read(run->news_fd, &news, sizeof news)) >= 0) {
        if (n < (ssize_t)sizeof news) {
            close_fd(&run->news_fd);
            break;
        }
        if (news.word == KEEPER_STARTED) run->pid = news.pid;
        if (news.word == KEEPER_ENDED || news.word == KEEPER_REFUSED) {
            run->end = news;
            run->ended = true;
        }
        run->over = run->over || news.word == KEEPER_OVER || news.word == KEEPER_REFUSED;
    }
}

/* Reads the output that is available in both pipes, at most about a mebibyte of each, because a
 * process that left the group may continue to write. False: too much output. */
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

static void wait_for_news(struct run *run)
{
    struct pollfd fd[] = {
        {run->out_fd, POLLIN, 0}, {run->report_fd, POLLIN, 0}, {run->news_fd, POLLIN, 0}};
    uint64_t now = child_now_ns();
    uint64_t left_ms = run->deadline <= now ? 0 : (run->deadline - now) / 1000000 + 1;

    poll(fd, 3, left_ms > 60000 ? 60000 : (int)left_ms);
}

/* Runs until all processes have ended, until the time for killed ones is over, or until the keeper
 * has ended. */
static void child_follow(struct run *run)
{
    while (run->news_fd >= 0 && !run->over) {
        wait_for_news(run);
        if (!read_pipes(run)) child_stop(run, BP_CHILD_OUTPUT);
        read_news(run);
        if (run->ended && !run->killed) {
            /* The keeper now kills the processes that the child left behind. */
            run->killed = true;
            run->deadline = child_now_ns() + KILL_WAIT_S * UINT64_C(1000000000);
        }
        if (child_now_ns() < run->deadline) continue;
        if (run->killed) break;
        child_stop(run, BP_CHILD_TIMEOUT);
    }
}

/* Ends the keeper. A process that is stuck is left to the system. */
static void end_keeper(struct run *run, int *out_status)
{
    if (!run->over && run->news_fd >= 0) kill(run->keeper, SIGKILL);
    while (waitpid(run->keeper, out_status, 0) < 0 && errno == EINTR) continue;
}

/* Fills in how the child ended. */
static void child_judge(struct run *run, int keeper_status)
{
    struct bp_child_result *result = run->result;
    const struct rusage *usage = &run->end.usage;
    uint64_t cpu_s = (uint64_t)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec);
    bool spent = run->child->cpu_s && cpu_s + 1 >= run->child->cpu_s;
    int status = run->ended ? run->end.code : keeper_status;

    if (result->end == BP_CHILD_TIMEOUT || result->end == BP_CHILD_OUTPUT) return;
    result->left = run->end.left;
    memcpy(result->left_name, run->end.name, sizeof result->left_name);
    if (run->ended && run->end.word == KEEPER_REFUSED) {
        result->end = BP_CHILD_NOT_RUN;
        result->code = run->end.code;
    } else if (WIFEXITED(status)) {
        result->end = BP_CHILD_EXITED;
        result->code = WEXITSTATUS(status);
    } else {
        result->end = BP_CHILD_SIGNALLED;
        result->code = WTERMSIG(status);
        if (result->code == SIGXCPU || (result->code == SIGKILL && spent)) {
            result->end = BP_CHILD_TIMEOUT;
            result->code = SIGXCPU;
        }
    }
}

void bp_child_run(const struct bp_child *child, struct bp_child_result *out_result)
{
    struct run run = {
        .child = child, .result = out_result, .out_fd = -1, .report_fd = -1, .news_fd = -1,
        .start = child_now_ns(), .deadline = UINT64_MAX,
    };

    memset(out_result, 0, sizeof *out_result);
    bp_child_output_init(&run.output, child->output_max ? child->output_max : OUTPUT_MAX);
    bp_child_lines_init(&run.lines, child->report, child->ctx);
    if (child->timeout_ns && child->timeout_ns < UINT64_MAX - run.start)
        run.deadline = run.start + child->timeout_ns;

    int error = child_start(&run);
    if (error) {
        out_result->end = BP_CHILD_NOT_RUN;
        out_result->code = error;
    } else {
        int status = 0;
        child_follow(&run);
        end_keeper(&run, &status);
        child_judge(&run, status);
        bool ended = out_result->end == BP_CHILD_EXITED || out_result->end == BP_CHILD_SIGNALLED;
        if (!read_pipes(&run) && ended) out_result->end = BP_CHILD_OUTPUT;
    }
    close_fd(&run.out_fd);
    close_fd(&run.report_fd);
    close_fd(&run.news_fd);
    bp_child_lines_finish(&run.lines);
    out_result->seconds = (double)(child_now_ns() - run.start) * 1e-9;
    out_result->output = bp_child_output_take(&run.output, &out_result->output_size);
}

void bp_child_finish(struct bp_child_result *result)
{
    bp_child_output_free(result->output);
    memset(result, 0, sizeof *result);
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
