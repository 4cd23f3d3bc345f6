/* SPDX-License-Identifier: Apache-2.0 */
/* launch.c: `bp launch`: runs a command N times as the ranks of a job, and serves the store through
 * which they find each other. */
#include "tools.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RANKS_MAX = 1024, LINE = 8192, GRACE_MS = 2000 };

/* One output pipe of a rank, with the text that is no complete line yet. */
struct pipe_end {
    int fd; /* -1: closed */
    size_t n;
    char line[LINE];
};

struct rank {
    pid_t pid;  /* also the id of its process group; 0: it has ended */
    int status; /* exit status, or 128 plus the number of the signal */
    struct pipe_end out[2];
};

struct launch {
    struct rank *rank;
    int n, running, open;
    int signals;      /* a signalfd */
    int code;         /* exit status of the first rank that failed */
    bool ending;      /* SIGTERM was sent to the other ranks */
    struct timespec killing; /* when they are killed */
    bool plain;              /* output without a prefix */
    const char *json;        /* path of the report; or NULL */
};

/* Runs between fork and exec. Only functions that are safe in a signal handler may be called,
 * because the store has a thread. */
static void become_rank(pid_t parent, const int pipes[2][2], char **argv, char **env)
{
    sigset_t none;

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* also if bp itself is killed */
    if (getppid() != parent) _exit(127);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    dup2(pipes[0][1], STDOUT_FILENO);
    dup2(pipes[1][1], STDERR_FILENO);
    execvpe(argv[0], argv, env);
    dprintf(STDERR_FILENO, "bp launch: %s: %s\n", argv[0], strerror(errno));
    _exit(errno == ENOENT ? 127 : 126);
}

static char **make_env(int rank, int n, const char *store)
{
    size_t count = 0, kept = 0;
    char **env;

    while (environ[count]) count++;
    env = calloc(count + 4, sizeof *env);
    if (!env) return NULL;
    for (size_t i = 0; i < count; i++)
        if (strncmp(environ[i], "BP_RANK=", 8) && strncmp(environ[i], "BP_WORLD_SIZE=", 14) &&
            strncmp(environ[i], "BP_STORE=", 9))
            env[kept++] = environ[i];
    env[kept++] = bp_text_format("BP_RANK=%d", rank);
    env[kept++] = bp_text_format("BP_WORLD_SIZE=%d", n);
    env[kept++] = bp_text_format("BP_STORE=%s", store);
    return env;
}

static void free_env(char **env)
{
    size_t n = 0;

    while (env[n]) n++;
    for (size_t i = n - 3; i < n; i++) free(env[i]);
    free(env);
}

static bool launch_start(struct launch *l, int index, const char *store, char **argv)
{
    struct rank *r = &l->rank[index];
    int pipes[2][2] = {{-1, -1}, {-1, -1}};
    pid_t self = getpid();
    char **env = make_env(index, l->n, store);

    if (!env || pipe2(pipes[0], O_CLOEXEC) || pipe2(pipes[1], O_CLOEXEC) || (r->pid = fork()) < 0) {
        bp_complain("launch", "rank %d cannot be started: %s", index, strerror(errno));
        r->pid = 0;
        return false;
    }
    if (!r->pid) become_rank(self, (const int(*)[2])pipes, argv, env);
    setpgid(r->pid, r->pid); /* called in both processes, because either may run first */
    for (int i = 0; i < 2; i++) {
        close(pipes[i][1]);
        r->out[i] = (struct pipe_end){.fd = pipes[i][0]};
        fcntl(r->out[i].fd, F_SETFL, O_NONBLOCK);
        l->open++;
    }
    l->running++;
    free_env(env);
    return true;
}

static void signal_all(const struct launch *l, int signal)
{
    for (int i = 0; i < l->n; i++)
        if (l->rank[i].pid) kill(-l->rank[i].pid, signal);
}

static void end_all(struct launch *l)
{
    if (l->ending) return;
    l->ending = true;
    clock_gettime(CLOCK_MONOTONIC, &l->killing);
    l->killing.tv_sec += GRACE_MS / 1000;
    signal_all(l, SIGTERM);
}

static void print_line(const struct launch *l, int rank, int which, const char *text, size_t n)
{
    FILE *to = which ? stderr : stdout;

    if (!l->plain) fprintf(to, "[%d] ", rank);
    fwrite(text, 1, n, to);
    fputc('\n', to);
    fflush(to);
}

/* Reads and prints whole lines; a line longer than LINE is printed in several lines. */
static void read_output(struct launch *l, int rank, int which)
{
    struct pipe_end *p = &l->rank[rank].out[which];
    ssize_t n = read(p->fd, p->line + p->n, LINE - p->n);
    char *begin = p->line, *end;

    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) {
        if (p->n) print_line(l, rank, which, p->line, p->n);
        close(p->fd);
        p->fd = -1;
        l->open--;
        return;
    }
    p->n += (size_t)n;
    while ((end = memchr(begin, '\n', p->n))) {
        print_line(l, rank, which, begin, (size_t)(end - begin));
        p->n -= (size_t)(end + 1 - begin);
        begin = end + 1;
    }
    if (p->n == LINE) {
        print_line(l, rank, which, begin, p->n);
        p->n = 0;
    }
    memmove(p->line, begin, p->n);
}

/* The first failure decides the exit status. A rank that fails after it received a signal to end
 * does not count. */
static void note_end(struct launch *l, int rank, int status)
{
    bool failed = !WIFEXITED(status) || WEXITSTATUS(status);
    pid_t group = l->rank[rank].pid;

    l->rank[rank].pid = 0;
    l->rank[rank].status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    l->running--;
    kill(-group, SIGKILL); /* processes that the rank left in its group */
    if (!failed || l->ending) return;
    l->code = l->rank[rank].status;
    if (WIFEXITED(status))
        bp_complain("launch", "rank %d ended with exit status %d", rank, l->code);
    else
        bp_complain("launch", "rank %d was killed by signal %d (%s)", rank, WTERMSIG(status),
                    strsignal(WTERMSIG(status)));
    end_all(l);
}

static void launch_reap(struct launch *l)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        for (int i = 0; i < l->n; i++)
            if (l->rank[i].pid == pid) note_end(l, i, status);
}

static void take_signal(struct launch *l)
{
    struct signalfd_siginfo info;

    if (read(l->signals, &info, sizeof info) != sizeof info || info.ssi_signo == SIGCHLD) return;
    if (!l->code) l->code = 128 + (int)info.ssi_signo;
    if (l->ending) signal_all(l, SIGKILL); /* the second signal kills */
    signal_all(l, (int)info.ssi_signo);
    end_all(l);
}

/* Returns the milliseconds until the ranks must be killed, and kills them when the time is over.
 * -1: they need not be killed. */
static int until_kill(const struct launch *l)
{
    struct timespec now;
    long ms;

    if (!l->ending) return -1;
    clock_gettime(CLOCK_MONOTONIC, &now);
    ms = (l->killing.tv_sec - now.tv_sec) * 1000 + (l->killing.tv_nsec - now.tv_nsec) / 1000000;
    if (ms > 0) return (int)ms + 1;
    signal_all(l, SIGKILL);
    return 100;
}

/* Does not wait for output pipes that descendants outside a rank's process group hold open. */
static void launch_watch(struct launch *l)
{
    struct pollfd *p = calloc(1 + 2 * (size_t)l->n, sizeof *p);

    if (!p) abort();
    while (l->running || l->open) {
        int timeout = l->running ? until_kill(l) : 200, ready;
        p[0] = (struct pollfd){l->signals, POLLIN, 0};
        for (int i = 0; i < 2 * l->n; i++)
            p[1 + i] = (struct pollfd){l->rank[i / 2].out[i % 2].fd, POLLIN, 0};
        ready = poll(p, 1 + 2 * (nfds_t)l->n, timeout);
        for (int i = 0; i < 2 * l->n && ready > 0; i++)
            if (p[1 + i].revents) read_output(l, i / 2, i % 2);
        if (ready > 0 && p[0].revents) take_signal(l);
        launch_reap(l);
        if (!ready && !l->running) break;
    }
    free(p);
}

/* Writes {"status", "ranks": [status of each]}. */
static void write_report(struct launch *l)
{
    FILE *file = strcmp(l->json, "-") ? fopen(l->json, "w") : stdout;
    cJSON *report = cJSON_CreateObject(), *ranks = cJSON_AddArrayToObject(report, "ranks");
    char *text;

    cJSON_AddNumberToObject(report, "status", l->code);
    for (int i = 0; i < l->n; i++)
        cJSON_AddItemToArray(ranks, cJSON_CreateNumber(l->rank[i].status));
    text = cJSON_Print(report);
    if (file) fprintf(file, "%s\n", text);
    else {
        bp_complain("launch", "%s cannot be written: %s", l->json, strerror(errno));
        if (!l->code) l->code = BP_EXIT_BROKEN;
    }
    if (file && file != stdout) fclose(file);
    cJSON_free(text);
    cJSON_Delete(report);
}

/* Called while the process has no other thread. */
static void hold_signals(struct launch *l)
{
    static const int forwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    for (size_t i = 0; i < sizeof forwarded / sizeof *forwarded; i++) sigaddset(&set, forwarded[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    l->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int run_ranks(struct launch *l, struct bp_store *store, char **argv)
{
    l->rank = calloc((size_t)l->n, sizeof *l->rank);
    if (l->signals < 0 || !l->rank) {
        bp_complain("launch", "out of memory or descriptors");
        return BP_EXIT_BROKEN;
    }
    for (int i = 0; i < l->n; i++) l->rank[i].out[0].fd = l->rank[i].out[1].fd = -1;
    for (int i = 0; i < l->n && !l->code; i++)
        if (!launch_start(l, i, bp_store_address(store), argv)) {
            l->code = BP_EXIT_BROKEN;
            end_all(l);
        }
    launch_watch(l);
    if (l->json) write_report(l);
    for (int i = 0; i < 2 * l->n; i++)
        if (l->rank[i / 2].out[i % 2].fd >= 0) close(l->rank[i / 2].out[i % 2].fd);
    close(l->signals);
    free(l->rank);
    return l->code;
}

int bp_cmd_launch(int argc, char **argv)
{
    struct launch l = {.n = 0};
    const char *host = NULL, *words[1];
    double ranks = 0;
    const struct bp_option options[] = {
        {"ranks", 'n', BP_OPTION_WHOLE, "N", "how many ranks to start", &ranks, 1, RANKS_MAX},
        {"store", 0, BP_OPTION_TEXT, "HOST[:PORT]",
         "where the store listens (default: 127.0.0.1, and a port that is free)", &host},
        {"json", 0, BP_OPTION_OUTPUT, "FILE", "write how each rank ended; - is standard output",
         &l.json},
        {"plain", 0, BP_OPTION_FLAG, NULL, "write output without [RANK] in front", &l.plain},
        {0},
    };
    const struct bp_usage usage = {
        .command = "launch",
        .words = "CMD",
        .min_words = 1,
        .max_words = 1,
        .about = "Runs CMD, with its arguments, as the N ranks of a job. Each gets BP_RANK, "
                 "BP_WORLD_SIZE and BP_STORE in its environment. When one fails the others are "
                 "ended, and its exit status is the answer (128 and the signal, if one killed it).",
        .options = options,
    };
    struct bp_store *store;
    enum bp_status served;
    int own = 1, status;

    /* Options of CMD belong to CMD: bp's own options end before the first other word. */
    while (own < argc && argv[own][0] == '-' && strcmp(argv[own], "--"))
        own += (!strcmp(argv[own], "-n") || !strcmp(argv[own], "--ranks") ||
                !strcmp(argv[own], "--store") || !strcmp(argv[own], "--json")) + 1;
    if (own < argc && !strcmp(argv[own], "--")) own++;
    status = bp_options_parse(&usage, own < argc ? own + 1 : argc, argv, words);
    if (status != BP_OPTIONS_GOOD) return status;
    if (!ranks) {
        bp_complain("launch", "-n N is missing, the number of ranks: bp launch -n 2 %s", *words);
        return BP_EXIT_USAGE;
    }
    hold_signals(&l);
    served = bp_store_serve(host, &store);
    if (served) {
        bp_complain("launch", "%s%s", host ? "--store: " : "", bp_error_message());
        return served == BP_ERR_INVALID ? BP_EXIT_USAGE : BP_EXIT_BROKEN;
    }
    l.n = (int)ranks;
    status = run_ranks(&l, store, argv + own);
    bp_store_destroy(store);
    return status;
}
