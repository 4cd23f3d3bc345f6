/* SPDX-License-Identifier: Apache-2.0 */
/* keeper.c: implements the keeper process. It is forked from a process that may have threads and
 * does not execute another program, so it calls only async-signal-safe functions. */
#include "keeper.h"
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    LISTED = 256,   /* processes that are listed at a time */
    GRACE_MS = 500, /* for processes that the child leaves behind to end by themselves */
    STEP_MS = 10,
};

struct keeper {
    int news_fd;
    pid_t child; /* 0: reaped */
    struct keeper_news end;
};

static void keeper_send(const struct keeper *keeper, const struct keeper_news *news)
{
    while (write(keeper->news_fd, news, sizeof *news) < 0 && errno == EINTR) continue;
}

/* Closes all descriptors but one; that one is closed on exec. */
static void close_others(int kept)
{
    if (kept > 0) close_range(0, (unsigned)kept - 1, 0);
    close_range((unsigned)kept + 1, ~0u, 0);
}

/* Duplicates a descriptor to a number above those that the child receives. */
static int move_up(int fd)
{
    return fd < 0 ? fd : fcntl(fd, F_DUPFD_CLOEXEC, BP_CHILD_REPORT + 1);
}

static bool place_files(const struct keeper_order *order)
{
    int out = move_up(order->out_fd), report = move_up(order->report_fd), null;

    if (out < 0 || (order->report_fd >= 0 && report < 0)) return false;
    close(0);
    null = open("/dev/null", O_RDONLY);
    if (null < 0 || (null && dup2(null, 0) < 0)) return false;
    if (dup2(out, 1) < 0 || dup2(out, 2) < 0) return false;
    if (report >= 0 && dup2(report, BP_CHILD_REPORT) < 0) return false;
    if (close_range(report >= 0 ? BP_CHILD_REPORT + 1 : BP_CHILD_REPORT, ~0u,
                    CLOSE_RANGE_CLOEXEC)) {
        /* Kernels before 5.11 do not have CLOSE_RANGE_CLOEXEC. */
        for (int fd = report >= 0 ? BP_CHILD_REPORT + 1 : BP_CHILD_REPORT; fd < 65536; fd++)
            fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
    return true;
}

/* Disables core files, limits the processor time, and resets signals as at login. */
static void place_limits(const struct keeper_order *order)
{
    const struct rlimit core = {0, 0}, cpu = {order->cpu_s, order->cpu_s + 1};
    sigset_t none;

    setrlimit(RLIMIT_CORE, &core);
    if (order->cpu_s) setrlimit(RLIMIT_CPU, &cpu);
    for (int i = 1; i < NSIG; i++) signal(i, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Runs in the child until it executes the command. The child shares the keeper's memory (vfork). */
static void become_child(const struct keeper_order *order, pid_t keeper, volatile int *failed)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != keeper) _exit(127);
    if (place_files(order)) {
        place_limits(order);
        execve(order->argv[0], (char *const *)order->argv, order->env);
    }
    *failed = errno ? errno : EINVAL;
    _exit(127);
}

/* Returns 0, or errno. */
static int start_child(struct keeper *keeper, const struct keeper_order *order)
{
    pid_t self = getpid(), child;
    volatile int failed = 0;

    child = vfork();
    if (!child) become_child(order, self, &failed);
    if (child < 0) return errno;
    if (failed) {
        while (waitpid(child, NULL, 0) < 0 && errno == EINTR) continue;
        return failed;
    }
    keeper->child = child;
    return 0;
}

/* Reads this process's children from the kernel's list: "12 34 ". Returns how many, at most
 * LISTED. */
static int list_children(pid_t *out)
{
    char text[LISTED * 8];
    int fd = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC), n = 0;
    ssize_t size = fd < 0 ? -1 : read(fd, text, sizeof text);
    pid_t pid = 0;

    if (fd >= 0) close(fd);
    for (ssize_t i = 0; i < size && n < LISTED; i++) {
        if (text[i] >= '0' && text[i] <= '9') pid = pid * 10 + (text[i] - '0');
        else if (pid) {
            out[n++] = pid;
            pid = 0;
        }
    }
    return n;
}

/* Reads a process's name from /proc/PID/comm, which has no parentheses around it. */
static void read_name(pid_t pid, char *name, size_t size)
{
    char path[32] = "/proc/", digits[12];
    int n = 0, fd;
    size_t at = strlen(path);
    ssize_t got;

    for (pid_t rest = pid; rest; rest /= 10) digits[n++] = (char)('0' + rest % 10);
    while (n) path[at++] = digits[--n];
    memcpy(path + at, "/comm", sizeof "/comm");
    fd = open(path, O_RDONLY | O_CLOEXEC);
    got = fd < 0 ? 0 : read(fd, name, size - 1);
    if (fd >= 0) close(fd);
    if (got < 0) got = 0;
    if (got && name[got - 1] == '\n') got--;
    name[got] = 0;
}

/* Reaps processes that have ended, and keeps the child's result. Returns whether any process is
 * left. */
static bool keeper_reap(struct keeper *keeper)
{
    struct rusage usage;
    int status;
    pid_t pid;

    while ((pid = wait4(-1, &status, WNOHANG, &usage)) > 0) {
        if (pid != keeper->child) continue;
        keeper->end.code = status;
        keeper->end.usage = usage;
        keeper->child = 0;
    }
    return pid == 0;
}

static void wait_ms(const sigset_t *set, long ms)
{
    const struct timespec t = {ms / 1000, ms % 1000 * 1000000};

    sigtimedwait(set, NULL, &t);
}

/* Kills all processes, and those that they leave behind. A process that is stuck in a driver
 * remains until the driver returns; the caller waits for a limited time only. */
static void end_all(struct keeper *keeper, pid_t group)
{
    pid_t list[LISTED];
    sigset_t ended;

    sigemptyset(&ended);
    sigaddset(&ended, SIGCHLD);
    do {
        int n = list_children(list);
        kill(-group, SIGKILL); /* without a list in /proc, the only ones found */
        if (keeper->child) kill(keeper->child, SIGKILL);
        for (int i = 0; i < n; i++) kill(list[i], SIGKILL);
        wait_ms(&ended, STEP_MS);
    } while (keeper_reap(keeper));
}

/* The child has ended. Helper processes that notice this have a moment to end by themselves. The
 * processes that are left after that would run for ever; they are counted. */
static void count_left(struct keeper *keeper, const sigset_t *set)
{
    pid_t list[LISTED];

    for (int ms = 0; ms < GRACE_MS && keeper_reap(keeper); ms += STEP_MS) wait_ms(set, STEP_MS);
    if (!keeper_reap(keeper)) return;
    keeper->end.left = (uint32_t)list_children(list);
    if (keeper->end.left) read_name(list[0], keeper->end.name, sizeof keeper->end.name);
}

static void keeper_keep(struct keeper *keeper, const struct keeper_order *order)
{
    struct keeper_news news = {.word = KEEPER_STARTED};
    bool reported = false;
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    news.code = start_child(keeper, order);
    news.pid = keeper->child;
    if (news.code) news.word = KEEPER_REFUSED;
    close_others(keeper->news_fd); /* including the child's ends of pipes */
    keeper_send(keeper, &news);
    if (news.code) return;
    while (keeper->child && !reported) {
        siginfo_t info = {0};
        if (sigwaitinfo(&set, &info) == SIGTERM) reported = true;
        keeper_reap(keeper);
    }
    keeper->end.word = KEEPER_ENDED;
    if (!reported) count_left(keeper, &set);
    if (!reported) keeper_send(keeper, &keeper->end); /* ending the others may block */
    end_all(keeper, news.pid);
    if (reported) keeper_send(keeper, &keeper->end);
    news.word = KEEPER_OVER;
    keeper_send(keeper, &news);
}

pid_t keeper_start(const struct keeper_order *order, int news_fd)
{
    struct keeper keeper = {.news_fd = news_fd};
    sigset_t all, before;
    pid_t self = getpid(), pid;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before); /* no handler of the caller runs in it */
    pid = _Fork();
    if (!pid) {
        setpgid(0, 0);
        signal(SIGCHLD, SIG_DFL);
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        prctl(PR_SET_CHILD_SUBREAPER, 1);
        prctl(PR_SET_NAME, "bp keeper");
        if (getppid() == self) keeper_keep(&keeper, order);
        _exit(0);
    }
    error = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return pid;
}
