/* SPDX-License-Identifier: Apache-2.0 */
/* kit.h: declares helpers for the programs of this folder: checks that print the failure and end
 * the process, test cases as TAP lines, and ranks as threads or processes. The programs do not use
 * Criterion, so that they can run under ThreadSanitizer. */
#ifndef BP_TEST_CCL_KIT_H
#define BP_TEST_CCL_KIT_H

#include <backplane/backplane.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition, ...) \
    do { \
        if (!(condition)) { \
            printf("Bail out! %s:%d: %s: ", __FILE__, __LINE__, #condition); \
            printf(__VA_ARGS__); \
            printf("\n"); \
            fflush(stdout); \
            _exit(1); \
        } \
    } while (0)

#define OK(call) \
    do { \
        enum bp_status ok_ = (call); \
        CHECK(ok_ == BP_OK, "%s: %s", bp_status_name(ok_), bp_error_message()); \
    } while (0)

/* The call must fail with status, and a message that contains word. */
#define FAILS(status, word, call) \
    do { \
        enum bp_status got_ = (call); \
        CHECK(got_ == (status), "%s: %s", bp_status_name(got_), got_ ? bp_error_message() : ""); \
        CHECK(strstr(bp_error_message(), word), "'%s' does not say '%s'", bp_error_message(), \
              word); \
    } while (0)

struct kit_case {
    const char *name;
    void (*run)(void);
    bool (*skips)(void); /* whether it needs another user and cannot have one; or NULL */
};

/* Runs all cases, or those whose names contain word. */
static inline int kit_run(const struct kit_case *cases, size_t n, const char *word)
{
    size_t done = 0;

    for (size_t i = 0; i < n; i++) {
        if (word && !strstr(cases[i].name, word)) continue;
        if (cases[i].skips && cases[i].skips()) {
            printf("ok %zu - %s # SKIP this process cannot become another user\n", ++done,
                   cases[i].name);
            continue;
        }
        cases[i].run();
        printf("ok %zu - %s\n", ++done, cases[i].name);
        fflush(stdout);
    }
    printf("1..%zu\n", done);
    return done ? 0 : 1;
}

#define KIT_CASES(list, argc, argv) \
    kit_run(list, sizeof(list) / sizeof *(list), (argc) > 1 ? (argv)[1] : NULL)

/* Calls fn(rank, size, ctx) on size threads, and waits for them. */
struct kit_thread {
    void (*fn)(uint32_t rank, uint32_t size, void *ctx);
    uint32_t rank, size;
    void *ctx;
};

static inline void *kit_begin(void *arg)
{
    const struct kit_thread *t = arg;

    t->fn(t->rank, t->size, t->ctx);
    return NULL;
}

static inline void kit_threads(uint32_t size, void (*fn)(uint32_t, uint32_t, void *), void *ctx)
{
    struct kit_thread t[64];
    pthread_t thread[64];

    CHECK(size <= 64, "too many threads");
    for (uint32_t i = 0; i < size; i++) {
        t[i] = (struct kit_thread){fn, i, size, ctx};
        CHECK(!pthread_create(&thread[i], NULL, kit_begin, &t[i]), "no thread");
    }
    for (uint32_t i = 0; i < size; i++) pthread_join(thread[i], NULL);
}

/* Moves this process to the host of its rank, if KIT_HOSTS is set: a list of files of network
 * namespaces, separated by commas, which ranks use in rotation. */
static inline void kit_enter_host(uint32_t rank)
{
    const char *list = getenv("KIT_HOSTS"), *at = list;
    char path[200];
    int fd;

    if (!list) return;
    for (uint32_t i = 0; i < rank; i++) {
        at += strcspn(at, ",");
        at = *at ? at + 1 : list;
    }
    snprintf(path, sizeof path, "%.*s", (int)strcspn(at, ","), at);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0 && !setns(fd, CLONE_NEWNET), "%s", path);
    close(fd);
    /* Libraries look for network devices in /sys, which shows those of the namespace of its
     * mounter. hosts.py has made all mounts private, which is not possible from / in a chroot. */
    CHECK(!unshare(CLONE_NEWNS) && !mount("sysfs", "/sys", "sysfs", 0, NULL), "/sys");
}

/* Calls fn(rank, size, ctx) in size processes. The process `spared` (UINT32_MAX: none) may end in
 * any manner. If another one fails, the rest are killed; each process is killed after `seconds`.
 * after(pid, size, ctx), if not NULL, is called once all processes exist. */
static inline void kit_processes_for(unsigned seconds, uint32_t size,
                                     void (*fn)(uint32_t, uint32_t, void *), void *ctx,
                                     uint32_t spared, void (*after)(pid_t *, uint32_t, void *))
{
    pid_t pid[64], ended;
    int status;

    CHECK(size <= 64, "too many processes");
    fflush(stdout);
    for (uint32_t i = 0; i < size; i++) {
        pid[i] = fork();
        CHECK(pid[i] >= 0, "no process");
        if (pid[i]) continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(seconds);
        kit_enter_host(i);
        fn(i, size, ctx);
        _exit(0);
    }
    if (after) after(pid, size, ctx);
    for (uint32_t n = 0; n < size; n++) {
        ended = wait(&status);
        if (ended > 0 && WIFEXITED(status) && !WEXITSTATUS(status)) continue;
        if (spared < size && ended == pid[spared]) continue;
        for (uint32_t i = 0; i < size; i++)
            if (pid[i] != ended) kill(pid[i], SIGKILL);
        CHECK(0, "a rank ended with status %#x", (unsigned)status);
    }
}

static inline void kit_processes(uint32_t size, void (*fn)(uint32_t, uint32_t, void *), void *ctx,
                                 uint32_t spared, void (*after)(pid_t *, uint32_t, void *))
{
    kit_processes_for(60, size, fn, ctx, spared, after);
}

enum { SECOND = 1000000000 };

#endif
