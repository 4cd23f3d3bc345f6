/* SPDX-License-Identifier: Apache-2.0 */
/* fake_misdeeds.c: does harm to the fake plugin's own process, at the step that the script
 * names. */
#include "fake_parts.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Starts a process in another session that never ends by itself. */
static void begin_daemon(void)
{
    if (fork()) return;
    setsid();
    if (fork()) _exit(0);
    for (int fd = 0; fd < 1024; fd++) close(fd);
    for (;;) pause();
}

static void misdeeds_ignore(int number)
{
    (void)number;
}

/* Hangs until SIGKILL or SIGALRM; all other signals are ignored. */
static void misdeeds_hang(void)
{
    for (int i = 1; i < NSIG; i++)
        if (i != SIGALRM) signal(i, misdeeds_ignore);
    for (;;) pause();
}

static void write_for_ever(void)
{
    while (puts("I have much to say and no end in mind.") >= 0 && !fflush(stdout)) {}
    abort(); /* the reader has closed the pipe */
}

static void misdeed_at(const char *step)
{
    int *volatile nowhere = (int *)(uintptr_t)8; /* no sanitizer traps it first */

    if (!fake_has(step)) return;
    if (fake_is(step, "exit")) _exit(0);
    if (fake_is(step, "end")) exit(0);
    if (fake_is(step, "crash")) *nowhere = 1;
    if (fake_is(step, "abort")) abort();
    if (fake_is(step, "raise")) raise(SIGUSR1);
    if (fake_is(step, "fork")) fork(); /* both processes continue */
    for (int i = 0; i < 5 && fake_is(step, "forks"); i++) fork();
    if (fake_is(step, "daemon")) begin_daemon();
    if (fake_is(step, "hang")) misdeeds_hang();
    while (fake_is(step, "pause")) pause();
    if (fake_is(step, "babble")) write_for_ever();
    if (fake_is(step, "print")) puts("the fake was here");
    if (fake_is(step, "forge")) dprintf(3, "nonsense\n{\"plugin\": 7}\n{\"step\":");
}

void fake_step(const char *step)
{
    if (fake_is("every", "raise")) raise(SIGUSR1);
    misdeed_at(step);
}

static void misdeeds_end(void)
{
    misdeed_at("atexit");
}

void fake_step_open(void)
{
    if (fake_has("atexit")) atexit(misdeeds_end);
    fake_step("open");
}

static void __attribute__((destructor)) close_library(void)
{
    misdeed_at("close");
}
