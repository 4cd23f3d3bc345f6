/* SPDX-License-Identifier: Apache-2.0 */
/* test_child.c: tests the child runner: each way in which a child can end, its limits, its report
 * and its environment. The children are shell scripts. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "child.h"

#define SECOND UINT64_C(1000000000)

/* Runs script with a deadline of 20 s, unless child sets another. */
static struct bp_child_result child_run(const char *script, struct bp_child child)
{
    const char *argv[] = {"/bin/sh", "-c", script, NULL};
    struct bp_child_result result;

    child.argv = argv;
    if (!child.timeout_ns) child.timeout_ns = 20 * SECOND;
    bp_child_run(&child, &result);
    return result;
}

static void expect_end(struct bp_child_result *result, enum bp_child_end end, int code,
                       const char *text)
{
    char description[200];

    bp_child_describe(result, description, sizeof description);
    cr_expect_eq(result->end, end, "%s", description);
    cr_expect_eq(result->code, code, "code %d: %s", result->code, description);
    cr_expect(!strncmp(description, text, strlen(text)), "%s", description);
}

Test(child, exit_status_and_output)
{
    struct bp_child_result result = child_run("echo one; echo two >&2; echo three; exit 3",
                                              (struct bp_child){0});

    expect_end(&result, BP_CHILD_EXITED, 3, "exit status 3");
    cr_expect_str_eq(result.output, "one\ntwo\nthree\n");
    cr_expect_eq(result.output_size, 14);
    cr_expect(result.seconds > 0 && result.seconds < 20);
    bp_child_finish(&result);
}

Test(child, silence_is_an_empty_string)
{
    struct bp_child_result result = child_run("exit 0", (struct bp_child){0});

    expect_end(&result, BP_CHILD_EXITED, 0, "exit status 0");
    cr_assert_not_null(result.output);
    cr_expect_str_empty(result.output);
    bp_child_finish(&result);
    bp_child_finish(&result); /* a second call has no effect */
}

Test(child, signal)
{
    struct bp_child_result result = child_run("kill -SEGV $$", (struct bp_child){0});

    expect_end(&result, BP_CHILD_SIGNALLED, SIGSEGV, "killed by signal 11 (Segmentation fault)");
    bp_child_finish(&result);
}

Test(child, missing_program)
{
    const char *argv[] = {"/no/such/program", NULL};
    struct bp_child child = {.argv = argv};
    struct bp_child_result result;

    bp_child_run(&child, &result);
    expect_end(&result, BP_CHILD_NOT_RUN, ENOENT, "could not be run: No such file or directory");
    cr_expect_str_empty(result.output);
    bp_child_finish(&result);
}

Test(child, deadline)
{
    struct bp_child_result result = child_run("echo before; exec sleep 100",
                                              (struct bp_child){.timeout_ns = SECOND / 2});

    expect_end(&result, BP_CHILD_TIMEOUT, 0, "no end after 0.");
    cr_expect(result.seconds >= 0.5 && result.seconds < 10, "%f s", result.seconds);
    cr_expect_str_eq(result.output, "before\n");
    bp_child_finish(&result);
}

/* Runs in this program when it is the child of the next test: moves to its parent's process
 * group. */
__attribute__((constructor)) static void leave_the_group(void)
{
    if (!getenv("BP_TEST_LEAVE")) return;
    printf("%d %d\n", setpgid(0, getpgid(getppid())), (int)getpid());
    fflush(stdout);
    sleep(100);
    _exit(0);
}

Test(child, deadline_of_a_child_that_left_its_group)
{
    const char *const env[] = {"BP_TEST_LEAVE=1", NULL};
    char *self = realpath("/proc/self/exe", NULL);
    const char *argv[] = {self, NULL};
    struct bp_child child = {.argv = argv, .env = env, .timeout_ns = SECOND};
    struct bp_child_result result;
    int moved = -1, pid = 0;

    bp_child_run(&child, &result);
    cr_assert_eq(sscanf(result.output, "%d %d", &moved, &pid), 2, "%s", result.output);
    cr_assert_eq(moved, 0, "it could not leave");
    expect_end(&result, BP_CHILD_TIMEOUT, 0, "no end after 1.");
    cr_expect(result.seconds < 5, "%f s", result.seconds);
    cr_expect(kill(pid, 0) && errno == ESRCH, "process %d was not reaped", pid);
    kill(pid, SIGKILL);
    bp_child_finish(&result);
    free(self);
}

Test(child, deadline_of_a_stopped_child)
{
    struct bp_child_result result = child_run("kill -STOP $$",
                                              (struct bp_child){.timeout_ns = SECOND / 2});

    expect_end(&result, BP_CHILD_TIMEOUT, 0, "no end after 0.");
    bp_child_finish(&result);
}

Test(child, endless_output)
{
    struct bp_child_result result =
        child_run("while :; do echo 0123456789; done", (struct bp_child){.output_max = 100000});

    expect_end(&result, BP_CHILD_OUTPUT, 0, "wrote too much (stopped after 100000 bytes");
    cr_expect_eq(result.output_size, 100000);
    cr_expect_eq(strlen(result.output), 100000);
    bp_child_finish(&result);
}

Test(child, too_much_output_of_a_child_that_ends_by_itself)
{
    struct bp_child_result result = child_run("echo 0123456789",
                                              (struct bp_child){.output_max = 10});

    expect_end(&result, BP_CHILD_OUTPUT, 0, "wrote too much");
    cr_expect_str_eq(result.output, "0123456789");
    bp_child_finish(&result);

    result = child_run("echo 0123456789", (struct bp_child){.output_max = 11});
    expect_end(&result, BP_CHILD_EXITED, 0, "exit status 0");
    bp_child_finish(&result);
}

Test(child, output_without_a_limit)
{
    struct bp_child_result result = child_run("head -c 3000000 /dev/zero | tr '\\0' x",
                                              (struct bp_child){.output_max = SIZE_MAX});

    expect_end(&result, BP_CHILD_EXITED, 0, "exit status 0");
    cr_expect_eq(result.output_size, 3000000, "%zu bytes", result.output_size);
    cr_expect_eq(strlen(result.output), 3000000);
    bp_child_finish(&result);
}

Test(child, processor_time)
{
    struct bp_child_result result = child_run("while :; do :; done", (struct bp_child){.cpu_s = 1});

    expect_end(&result, BP_CHILD_TIMEOUT, SIGXCPU, "out of processor time");
    bp_child_finish(&result);
}

/* At the hard limit the kernel sends SIGKILL, which must not be reported as a crash. */
Test(child, processor_time_of_a_child_that_ignores_its_signal)
{
    struct bp_child_result result = child_run("trap '' XCPU; while :; do :; done",
                                              (struct bp_child){.cpu_s = 1});

    expect_end(&result, BP_CHILD_TIMEOUT, SIGXCPU, "out of processor time");
    bp_child_finish(&result);
}

static bool is_alive(pid_t pid)
{
    char path[40], state = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");

    if (!file) return false;
    if (fscanf(file, "%*d %*s %c", &state) != 1) state = 0;
    fclose(file);
    return state && state != 'Z' && state != 'X';
}

/* Waits until a killed process has exited, which takes some time. */
static bool is_gone(pid_t pid)
{
    const struct timespec pause = {0, 10 * 1000 * 1000};

    for (int i = 0; i < 500 && is_alive(pid); i++) nanosleep(&pause, NULL);
    return !is_alive(pid);
}

Test(child, grandchild_holds_the_pipe)
{
    struct bp_child_result result = child_run("sleep 100 & echo $!", (struct bp_child){0});
    pid_t grandchild = (pid_t)atoi(result.output);

    expect_end(&result, BP_CHILD_EXITED, 0, "exit status 0");
    cr_expect(result.seconds < 10, "%f s", result.seconds);
    cr_assert_gt(grandchild, 0);
    cr_expect(is_gone(grandchild), "process %d lives on", (int)grandchild);
    bp_child_finish(&result);
}

/* The daemon has another session, and its parent has ended long ago. */
Test(child, a_daemon_is_ended_and_named)
{
    struct bp_child_result result =
        child_run("(setsid sh -c 'echo $$; exec sleep 1000' &) ; sleep 0.3", (struct bp_child){0});
    pid_t daemon_ = (pid_t)atoi(result.output);

    expect_end(&result, BP_CHILD_EXITED, 0, "exit status 0");
    cr_assert_gt(daemon_, 0);
    cr_expect_eq(result.left, 1, "%u are left", result.left);
    cr_expect_str_eq(result.left_name, "sleep");
    cr_expect(is_gone(daemon_), "process %d lives on", (int)daemon_);
    bp_child_finish(&result);
}

Test(child, processes_that_end_soon_after_it_are_no_daemons)
{
    struct bp_child_result result = child_run("(setsid sleep 0.05 &)", (struct bp_child){0});

    expect_end(&result, BP_CHILD_EXITED, 0, "exit status 0");
    cr_expect_eq(result.left, 0, "%u are left: %s", result.left, result.left_name);
    bp_child_finish(&result);
}

Test(child, deadline_ends_daemons)
{
    struct bp_child_result result = child_run(
        "(setsid sh -c 'echo $$; exec sleep 1000' &) ; sleep 100",
        (struct bp_child){.timeout_ns = SECOND / 2});
    pid_t daemon_ = (pid_t)atoi(result.output);

    expect_end(&result, BP_CHILD_TIMEOUT, 0, "no end after");
    cr_assert_gt(daemon_, 0);
    cr_expect(is_gone(daemon_), "process %d lives on", (int)daemon_);
    bp_child_finish(&result);
}

/* Waits until a file holds a number, and returns it. */
static pid_t read_pid(const char *path)
{
    const struct timespec pause = {0, 10 * 1000 * 1000};

    for (int i = 0; i < 3000; i++) {
        FILE *file = fopen(path, "r");
        int pid = 0;
        if (file && fscanf(file, "%d\n", &pid) != 1) pid = 0;
        if (file) fclose(file);
        if (pid > 0) return (pid_t)pid;
        nanosleep(&pause, NULL);
    }
    return 0;
}

/* The children are a shell that ignores all signals that it can ignore, a process of its group, and
 * a daemon. */
Test(child, a_killed_caller_takes_all_along)
{
    char base[] = "/tmp/bp-child-XXXXXX", script[600], path[3][64];
    pid_t pid[3], caller;

    cr_assert(mkdtemp(base));
    for (int i = 0; i < 3; i++) snprintf(path[i], sizeof path[i], "%s/%d", base, i);
    snprintf(script, sizeof script,
             "trap '' HUP INT TERM QUIT; (setsid sh -c 'echo $$ >%s; exec sleep 1000' &); "
             "sleep 1000 & echo $! >%s; echo $$ >%s; while :; do sleep 1000; done",
             path[0], path[1], path[2]);
    caller = fork();
    cr_assert_geq(caller, 0);
    if (!caller) {
        child_run(script, (struct bp_child){.timeout_ns = 1000 * SECOND});
        _exit(0);
    }
    for (int i = 0; i < 3; i++) cr_assert((pid[i] = read_pid(path[i])) > 0, "no process %d", i);
    for (int i = 0; i < 3; i++) cr_expect(is_alive(pid[i]));
    kill(caller, SIGKILL);
    for (int i = 0; i < 3; i++) {
        cr_expect(is_gone(pid[i]), "process %d of the script lives on", i);
        kill(pid[i], SIGKILL);
        unlink(path[i]);
    }
    rmdir(base);
}

Test(child, a_lack_of_descriptors_is_reported)
{
    const struct rlimit few = {6, 6};
    struct bp_child_result result;

    for (int fd = 3; fd < 6; fd++) open("/dev/null", O_RDONLY | O_CLOEXEC);
    setrlimit(RLIMIT_NOFILE, &few);
    result = child_run("exit 0", (struct bp_child){0});
    expect_end(&result, BP_CHILD_NOT_RUN, EMFILE, "could not be run: Too many open files");
    bp_child_finish(&result);
}

Test(child, deadline_ends_grandchildren)
{
    struct bp_child_result result =
        child_run("sleep 100 & echo $!; wait", (struct bp_child){.timeout_ns = SECOND / 2});
    pid_t grandchild = (pid_t)atoi(result.output);

    expect_end(&result, BP_CHILD_TIMEOUT, 0, "no end after");
    cr_assert_gt(grandchild, 0);
    cr_expect(is_gone(grandchild), "process %d lives on", (int)grandchild);
    bp_child_finish(&result);
}

/* Collects report lines: how many, the length of the longest, and the last one. */
struct report {
    size_t n, longest;
    char last[64];
};
static void child_take_line(void *ctx, const char *line)
{
    struct report *report = ctx;
    size_t length = strlen(line);

    report->n++;
    if (length > report->longest) report->longest = length;
    snprintf(report->last, sizeof report->last, "%.63s", line);
}

Test(child, report_lines)
{
    struct report report = {0};
    struct bp_child_result result = child_run(
        "echo out; printf 'a\\n\\nbc\\nno newline' >&3",
        (struct bp_child){.report = child_take_line, .ctx = &report});

    expect_end(&result, BP_CHILD_EXITED, 0, "exit status 0");
    cr_expect_str_eq(result.output, "out\n");
    cr_expect_eq(report.n, 4, "%zu lines", report.n);
    cr_expect_str_eq(report.last, "no newline");
    bp_child_finish(&result);
}

Test(child, report_line_of_a_million_bytes)
{
    struct report report = {0};
    struct bp_child_result result = child_run(
        "head -c 1000000 /dev/zero | tr '\\0' x >&3; echo >&3; echo end >&3",
        (struct bp_child){.report = child_take_line, .ctx = &report});

    expect_end(&result, BP_CHILD_EXITED, 0, "exit status 0");
    cr_expect_eq(report.n, 2, "%zu lines", report.n);
    cr_expect_eq(report.longest, 1000000, "%zu bytes", report.longest);
    cr_expect_str_eq(report.last, "end");
    bp_child_finish(&result);
}

Test(child, many_report_lines_come_whole)
{
    struct report report = {0};
    struct bp_child_result result = child_run(
        "seq 100000 >&3", (struct bp_child){.report = child_take_line, .ctx = &report});

    expect_end(&result, BP_CHILD_EXITED, 0, "exit status 0");
    cr_expect_eq(report.n, 100000, "%zu lines", report.n);
    cr_expect_str_eq(report.last, "100000");
    bp_child_finish(&result);
}

Test(child, endless_report_line)
{
    struct report report = {0};
    struct bp_child_result result = child_run(
        "tr '\\0' x </dev/zero >&3", (struct bp_child){.report = child_take_line, .ctx = &report});

    expect_end(&result, BP_CHILD_OUTPUT, 0, "wrote too much");
    bp_child_finish(&result);
}

Test(child, a_crash_keeps_earlier_reports)
{
    struct report report = {0};
    struct bp_child_result result = child_run(
        "echo started >&3; kill -ABRT $$",
        (struct bp_child){.report = child_take_line, .ctx = &report});

    expect_end(&result, BP_CHILD_SIGNALLED, SIGABRT, "killed by signal 6 (Aborted)");
    cr_expect_str_eq(report.last, "started");
    bp_child_finish(&result);
}

Test(child, without_report_the_descriptor_is_closed)
{
    struct bp_child_result result = child_run("ls /proc/$$/fd; exit 0", (struct bp_child){0});

    cr_expect_str_eq(result.output, "0\n1\n2\n");
    bp_child_finish(&result);
}

Test(child, other_descriptors_and_input_are_not_inherited)
{
    struct report report = {0};
    int leaked = open("/dev/null", O_RDONLY); /* without O_CLOEXEC */
    int far = fcntl(leaked, F_DUPFD, 40);
    struct bp_child_result result = child_run(
        "ls /proc/$$/fd; wc -c", (struct bp_child){.report = child_take_line, .ctx = &report});

    cr_assert_geq(far, 40);
    cr_expect_str_eq(result.output, "0\n1\n2\n3\n0\n");
    bp_child_finish(&result);
    close(leaked);
    close(far);
}

/* With few open descriptors, pipes would get the numbers 0 to 3. */
Test(child, caller_without_standard_descriptors)
{
    struct report report = {0};
    int saved[3];

    for (int i = 0; i < 3; i++) {
        saved[i] = fcntl(i, F_DUPFD_CLOEXEC, 50);
        close(i);
    }
    struct bp_child_result result = child_run(
        "echo out; echo err >&2; echo line >&3",
        (struct bp_child){.report = child_take_line, .ctx = &report});
    for (int i = 0; i < 3; i++) {
        dup2(saved[i], i);
        close(saved[i]);
    }
    expect_end(&result, BP_CHILD_EXITED, 0, "exit status 0");
    cr_expect_str_eq(result.output, "out\nerr\n");
    cr_expect_str_eq(report.last, "line");
    bp_child_finish(&result);
}

Test(child, environment)
{
    const char *const env[] = {"BP_TEST_NEW=1", "BP_TEST_OLD=after", NULL};
    setenv("BP_TEST_OLD", "before", 1);
    setenv("BP_TEST_OLDER", "kept", 1);
    struct bp_child_result result = child_run(
        "echo $BP_TEST_NEW $BP_TEST_OLD $BP_TEST_OLDER; "
        "tr '\\0' '\\n' </proc/$$/environ | grep -c '^BP_TEST_OLD='",
        (struct bp_child){.env = env});

    cr_expect_str_eq(result.output, "1 after kept\n1\n");
    cr_expect_str_eq(getenv("BP_TEST_OLD"), "before");
    bp_child_finish(&result);
}

Test(child, signals_are_as_at_login)
{
    sigset_t block;
    sigemptyset(&block);
    sigaddset(&block, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &block, NULL);
    signal(SIGPIPE, SIG_IGN);
    struct bp_child_result result = child_run("kill -PIPE $$; exit 1", (struct bp_child){0});

    expect_end(&result, BP_CHILD_SIGNALLED, SIGPIPE, "killed by signal 13");
    bp_child_finish(&result);
    result = child_run("kill -TERM $$; exit 1", (struct bp_child){0});
    expect_end(&result, BP_CHILD_SIGNALLED, SIGTERM, "killed by signal 15");
    bp_child_finish(&result);
}

Test(child, no_core_file_is_allowed)
{
    struct rlimit core;

    getrlimit(RLIMIT_CORE, &core);
    core.rlim_cur = core.rlim_max; /* as much as this machine allows */
    setrlimit(RLIMIT_CORE, &core);
    struct bp_child_result result = child_run("sleep 0.2; ulimit -c", (struct bp_child){0});

    cr_expect_str_eq(result.output, "0\n");
    bp_child_finish(&result);
}

static void *run_ten(void *ctx)
{
    for (int i = 0; i < 10; i++) {
        struct report report = {0};
        struct bp_child_result result = child_run(
            "echo $$; echo $$ >&3; exit 7",
            (struct bp_child){.report = child_take_line, .ctx = &report});
        if (result.end == BP_CHILD_EXITED && result.code == 7 && report.n == 1 &&
            (pid_t)atoi(report.last) == (pid_t)atoi(result.output))
            ++*(int *)ctx;
        bp_child_finish(&result);
    }
    return NULL;
}

Test(child, several_threads_at_once)
{
    pthread_t thread[4];
    int good[4] = {0};

    for (int i = 0; i < 4; i++)
        cr_assert_eq(pthread_create(&thread[i], NULL, run_ten, &good[i]), 0);
    for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < 4; i++) cr_expect_eq(good[i], 10, "thread %d: %d of 10", i, good[i]);
}

static int open_descriptors(void)
{
    int n = 0;

    for (int fd = 0; fd < 1000; fd++) n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

Test(child, nothing_is_left_open)
{
    struct report report = {0};
    const char *argv[] = {"/no/such/program", NULL};
    struct bp_child missing = {.argv = argv, .report = child_take_line, .ctx = &report};
    struct bp_child_result result;
    int before = open_descriptors();

    for (int i = 0; i < 3; i++) {
        result = child_run("exit 0", (struct bp_child){.report = child_take_line, .ctx = &report});
        bp_child_finish(&result);
        bp_child_run(&missing, &result);
        bp_child_finish(&result);
    }
    cr_expect_eq(open_descriptors(), before);
}
