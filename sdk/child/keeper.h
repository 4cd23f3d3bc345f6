/* SPDX-License-Identifier: Apache-2.0 */
/* keeper.h: starts the keeper, a process between the caller and the child. The keeper is the parent
 * of the child, and adopts every process that the child leaves behind, in any session or group. It
 * ends them all when the child has ended, on a SIGTERM, and when the thread that started the keeper
 * has ended, even by a SIGKILL of its process. */
#ifndef BP_CHILD_KEEPER_H
#define BP_CHILD_KEEPER_H

#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

/* The child that the keeper starts. */
struct keeper_order {
    const char *const *argv;
    char *const *env;
    int out_fd, report_fd; /* the child's ends of the pipes; report_fd -1: none */
    uint64_t cpu_s;        /* 0: no limit */
};

/* Messages that the keeper writes to news_fd, at most once each. */
enum keeper_word {
    KEEPER_STARTED, /* pid */
    KEEPER_REFUSED, /* code: errno; nothing follows */
    KEEPER_ENDED,   /* code: wait status; usage; left: survivors, name: of one of them */
    KEEPER_OVER,    /* all processes have ended */
};
struct keeper_news {
    uint32_t word; /* enum keeper_word */
    int32_t code;
    pid_t pid;
    uint32_t left;
    char name[32];
    struct rusage usage;
};

/* Starts a keeper. Returns its pid, which the caller must reap, or -1 with errno set. Its messages
 * arrive on news_fd, each in one read. The keeper closes all its other descriptors. */
pid_t keeper_start(const struct keeper_order *order, int news_fd);

#endif
