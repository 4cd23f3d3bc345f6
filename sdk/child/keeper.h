/* SPDX-License-Identifier: Apache-2.0 */
/* keeper.h: a process between the caller and the child. It is the parent of the child, and becomes
 * that of every process which the child leaves behind, whatever session or group that went to; so
 * it can end them all, and does: when the child has ended, when it is told to (SIGTERM), and when
 * the thread that started it has ended, even by a SIGKILL of its process. */
#ifndef BP_CHILD_KEEPER_H
#define BP_CHILD_KEEPER_H

#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

/* What the keeper is to start. */
struct keeper_order {
    const char *const *argv;
    char *const *env;
    int out_fd, report_fd; /* the child's ends; report_fd -1: none */
    uint64_t cpu_s;        /* 0: no limit */
};

/* What it says on its descriptor, at most once each. */
enum keeper_word {
    KEEPER_STARTED, /* pid */
    KEEPER_REFUSED, /* code: errno; nothing follows */
    KEEPER_ENDED,   /* code: wait status; usage; left: processes that lived on, name: one of them */
    KEEPER_OVER,    /* none of them is left */
};
struct keeper_news {
    uint32_t word; /* enum keeper_word */
    int32_t code;
    pid_t pid;
    uint32_t left;
    char name[32];
    struct rusage usage;
};

/* Starts one, and answers its process, which is the caller's to reap; news come on news_fd, each in
 * one read. -1: see errno. It closes every other descriptor of its own. */
pid_t keeper_start(const struct keeper_order *order, int news_fd);

#endif
