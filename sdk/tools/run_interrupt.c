/* SPDX-License-Identifier: Apache-2.0 */
/* run_interrupt.c: while `bp run` compiles a program, the first Ctrl-C cancels the compilation, and
 * the run goes node by node; the next one ends the process, as does the first one at any other
 * time. A handler of SIGINT only wakes a thread, which may take locks. The signal is not blocked,
 * so that processes that a plugin starts still end by it. */
#include "run_model.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <unistd.h>

static struct {
    pthread_mutex_t lock;
    struct bp_program *program; /* the one that runs use; or NULL */
    sem_t presses;
    bool cancelled; /* used by the thread alone */
} interrupt = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void interrupt_handle(int signal)
{
    (void)signal;
    sem_post(&interrupt.presses);
}

static void interrupt_end(void)
{
    signal(SIGINT, SIG_DFL);
    kill(getpid(), SIGINT);
}

/* Whether a compilation was going on, which now ends. */
static bool interrupt_cancel(void)
{
    bool cancelled;

    pthread_mutex_lock(&interrupt.lock);
    cancelled = interrupt.program && !bp_program_cancel(interrupt.program);
    pthread_mutex_unlock(&interrupt.lock);
    return cancelled;
}

static void *interrupt_wait(void *unused)
{
    for (;;) {
        while (sem_wait(&interrupt.presses)) continue; /* interrupted */
        if (interrupt.cancelled || !interrupt_cancel()) interrupt_end();
        interrupt.cancelled = true;
        bp_complain(run_command, "Ctrl-C: the compilation is cancelled, and the model runs node by "
                                 "node; Ctrl-C again ends the command");
    }
    return unused;
}

void run_interrupt_begin(void)
{
    struct sigaction action = {.sa_handler = interrupt_handle, .sa_flags = SA_RESTART}, before;
    pthread_t thread;

    if (sigaction(SIGINT, NULL, &before) || before.sa_handler != SIG_DFL) return;
    if (sem_init(&interrupt.presses, 0, 0) || pthread_create(&thread, NULL, interrupt_wait, NULL))
        return;
    pthread_detach(thread);
    sigaction(SIGINT, &action, NULL);
}

void run_interrupt_set(struct bp_program *program)
{
    pthread_mutex_lock(&interrupt.lock);
    interrupt.program = program;
    pthread_mutex_unlock(&interrupt.lock);
}
