/* SPDX-License-Identifier: Apache-2.0 */
/* rogue.h: what a plugin may do to its process, told by the environment: ROGUE=STEP=MISDEED, with
 * steps open, entry, create, devices, device, launch, destroy, atexit, close. Without that the
 * plugin is sound. */
#ifndef BP_TEST_ROGUE_H
#define BP_TEST_ROGUE_H

#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* A process of its own, in another session, that never ends by itself. */
static void rogue_daemon(void)
{
    if (fork()) return;
    setsid();
    if (fork()) _exit(0);
    for (int fd = 0; fd < 1024; fd++) close(fd);
    for (;;) pause();
}

static void rogue_nothing(int number)
{
    (void)number;
}

static void rogue_do(const char *misdeed)
{
    int *volatile nowhere = (int *)(uintptr_t)8; /* no sanitizer tells of it first */

    if (!strcmp(misdeed, "exit")) _exit(0);
    if (!strcmp(misdeed, "crash")) *nowhere = 1;
    if (!strcmp(misdeed, "raise")) raise(SIGUSR1);
    if (!strcmp(misdeed, "fork")) fork(); /* both go on */
    if (!strcmp(misdeed, "forks"))
        for (int i = 0; i < 5; i++) fork();
    if (!strcmp(misdeed, "daemon")) rogue_daemon();
    if (!strcmp(misdeed, "hang")) {
        /* No signal but SIGKILL ends it. */
        for (int i = 1; i < NSIG; i++)
            if (i != SIGALRM) signal(i, rogue_nothing);
        for (;;) pause();
    }
}

static void rogue(const char *step)
{
    const char *said = getenv("ROGUE");
    size_t n = strlen(step);

    if (!said) return;
    if (!strcmp(said, "=raise")) raise(SIGUSR1);
    else if (!strncmp(said, step, n) && said[n] == '=') rogue_do(said + n + 1);
}

static void rogue_atexit(void)
{
    rogue("atexit");
}

static void __attribute__((constructor)) rogue_open(void)
{
    if (getenv("ROGUE")) atexit(rogue_atexit);
}

static void __attribute__((destructor)) rogue_close(void)
{
    rogue("close");
}

#endif
