/* SPDX-License-Identifier: Apache-2.0 */
/* crash.c: for commands that run plugins in their own process: before a signal ends the process,
 * prints one line that names the plugin. The process ends in the same way as without this
 * handler. */
#include "tools.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS, SIGTRAP};
enum { SIGNALS = sizeof signals / sizeof *signals, STACK = 64 << 10 };
static struct sigaction before[SIGNALS];
static char command_name[32];
static bool ending;

/* A line that is being built, only by functions that are safe in a signal handler. */
struct line {
    char text[600];
    size_t used;
};

static void crash_add(struct line *line, const char *text)
{
    size_t n = strlen(text), room = sizeof line->text - line->used;

    if (n > room) n = room;
    memcpy(line->text + line->used, text, n);
    line->used += n;
}

static void add_number(struct line *line, int number)
{
    char digits[12] = "";
    size_t at = sizeof digits - 1;

    do digits[--at] = (char)('0' + number % 10);
    while ((number /= 10) && at);
    crash_add(line, digits + at);
}

static void add_place(struct line *line)
{
    struct bp_activity a = {.size = sizeof a};
    bool own = bp_activity_find((uint32_t)gettid(), &a);

    if (!own && !bp_activity_find(0, &a)) {
        crash_add(line,
                  ending ? ", as the process ended: in an exit handler or a destructor of a library"
                         : ", not while a plugin was loaded or closed");
        crash_add(line, "; to see where: gdb --args bp ");
        crash_add(line, command_name);
        crash_add(line, " ...");
        return;
    }
    crash_add(line, own ? " in " : ", while another thread was in ");
    crash_add(line, a.word);
    if (*a.what) {
        crash_add(line, " (");
        crash_add(line, a.what);
        crash_add(line, ")");
    }
    crash_add(line, " of plugin ");
    crash_add(line, a.plugin);
    crash_add(line, "; bp doctor ");
    crash_add(line, a.plugin);
    crash_add(line, " says more");
}

/* Restores the actions that the signals had before. A fault then occurs again; a signal that was
 * sent is sent again. */
static void on_crash(int number, siginfo_t *info, void *context)
{
    struct line line = {.used = 0};
    const char *name = sigdescr_np(number);

    (void)context;
    crash_add(&line, "bp ");
    crash_add(&line, command_name);
    crash_add(&line, ": killed by signal ");
    add_number(&line, number);
    crash_add(&line, " (");
    crash_add(&line, name ? name : "no name");
    crash_add(&line, ")");
    add_place(&line);
    crash_add(&line, "\n");
    if (write(STDERR_FILENO, line.text, line.used) < 0) line.used = 0;
    for (int i = 0; i < SIGNALS; i++) sigaction(signals[i], &before[i], NULL);
    if (info->si_code <= 0) raise(number);
}

void bp_crash_watch(const char *command)
{
    static char stack[STACK]; /* a handler cannot run on a stack that has overflowed */
    const stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_sigaction = on_crash, .sa_flags = SA_SIGINFO | SA_ONSTACK};

    snprintf(command_name, sizeof command_name, "%s", command);
    sigemptyset(&action.sa_mask);
    if (sigaltstack(&other, NULL)) action.sa_flags &= ~SA_ONSTACK;
    for (int i = 0; i < SIGNALS; i++) sigaction(signals[i], &action, &before[i]);
}

void bp_crash_ending(void)
{
    ending = true;
}
