/* SPDX-License-Identifier: Apache-2.0 */
/* watch.c: reports on standard error in which call of which plugin a command waits. A timer
 * interrupts the main thread each second. The handler calls only functions that are safe in a
 * signal handler, and snprintf with texts and integers, which takes no locks and allocates no
 * memory. */
#include "tools.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

enum { FIRST = 5, EVERY = 30 }; /* seconds */

static struct {
    const char *command;
    struct bp_activity seen; /* the lasting call when it was first seen */
    uint64_t began_ns;
    uint64_t next; /* seconds after which it is reported again */
} watch;

static uint64_t watch_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Whether this is the same call as before: it has the same name and start. The start of a launch is
 * unknown; instead `what` contains its number. */
static bool is_same(const struct bp_activity *a, uint64_t began_ns)
{
    const struct bp_activity *seen = &watch.seen;
    uint64_t apart = began_ns > watch.began_ns ? began_ns - watch.began_ns
                                               : watch.began_ns - began_ns;

    return seen->step == a->step && seen->thread == a->thread && !strcmp(seen->what, a->what) &&
           !strcmp(seen->plugin, a->plugin) &&
           (!a->elapsed_ns || apart < 100000000);
}

static void watch_report(const struct bp_activity *a, uint64_t seconds)
{
    char line[512];
    int n = snprintf(line, sizeof line,
                     "%sbp %s: still in %s of %s (%llu s%s%s): %s; `bp doctor %s` says more\n",
                     isatty(STDERR_FILENO) ? "\r\033[K" : "", watch.command, a->word, a->plugin,
                     (unsigned long long)seconds, *a->what ? "; " : "", a->what, a->text,
                     a->plugin);

    if (n > 0 && write(STDERR_FILENO, line, (size_t)n < sizeof line ? (size_t)n : sizeof line) < 0)
        watch.next = UINT64_MAX; /* standard error is closed */
}

static void watch_look(int number)
{
    struct bp_activity a = {.size = sizeof a};
    int error = errno;
    uint64_t now = watch_now_ns(), began, seconds;

    (void)number;
    if (bp_activity_find(0, &a) || bp_activity_launch(&a)) {
        began = now - a.elapsed_ns;
        if (!is_same(&a, began)) {
            watch.seen = a;
            watch.began_ns = began;
            watch.next = FIRST;
        }
        seconds = (now - watch.began_ns) / 1000000000;
        if (seconds >= watch.next) {
            watch.next = (seconds / EVERY + 1) * EVERY;
            watch_report(&a, seconds);
        }
    } else {
        watch.seen.word = NULL;
        watch.seen.step = BP_ACTIVITY_COUNT;
    }
    errno = error;
}

void bp_watch_begin(const char *command)
{
    struct sigaction action = {.sa_handler = watch_look, .sa_flags = SA_RESTART};
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGALRM};
    const struct itimerspec each_second = {{1, 0}, {1, 0}};
    timer_t timer;

    watch.command = command;
    watch.seen.step = BP_ACTIVITY_COUNT;
    event.sigev_notify_thread_id = gettid();
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGALRM, &action, NULL) || timer_create(CLOCK_MONOTONIC, &event, &timer)) return;
    timer_settime(timer, 0, &each_second, NULL);
}
