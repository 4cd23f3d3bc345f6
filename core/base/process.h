/* SPDX-License-Identifier: Apache-2.0 */
/* process.h: declares state of the whole process: generations of handles, which a fork or shutdown
 * makes invalid, and the steps of a shutdown.
 *
 * A shutdown has two steps. First the intake stops: every public call that uses or creates a handle
 * is refused. Then the calls in progress are waited for. Nothing is freed. */
#ifndef BP_PROCESS_PRIVATE_H
#define BP_PROCESS_PRIVATE_H

#include <backplane/status.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct bp_core;

/* Added to the magic word of every new handle. A fork increases it in the child, and a shutdown
 * sets BP_STOPPED, so that no handle created before matches any more. The check of a handle costs
 * no extra time for this. */
enum { BP_STOPPED = 0x100, BP_FORKED = 0x200 };
extern _Atomic uint32_t bp_generation __attribute__((visibility("hidden")));

static inline uint32_t bp_generation_now(void)
{
    return atomic_load_explicit(&bp_generation, memory_order_relaxed);
}

/* The part of the generation that changes only by a fork: for calls that reach the core without a
 * handle. */
static inline uint32_t bp_generation_made(void)
{
    return bp_generation_now() & ~(uint32_t)BP_STOPPED;
}

/* The magic word of a new handle of a kind (enum bp_magic). A handle that is created while the
 * intake stops is refused like all others. */
static inline uint32_t bp_magic(uint32_t kind)
{
    return kind + bp_generation_made();
}

/* Whether the magic word of a handle (0: the handle is NULL) is that of a kind. If not, the reason
 * is stored on this thread for bp_not_a. */
bool bp_magic_is_not(uint32_t magic, uint32_t kind);
static inline bool bp_magic_is(uint32_t magic, uint32_t kind)
{
    return magic == kind + bp_generation_now() || bp_magic_is_not(magic, kind);
}
/* Whether the last handle that bp_magic_is rejected on this thread was of the expected kind, but
 * from before a fork or shutdown. */
bool bp_handle_was_stale(void);
/* The same for the last rejected handle that was not NULL. A call on that handle may have returned
 * NULL, which the app then passed on. */
bool bp_handle_was_last_stale(void);

/* Whether the intake has stopped. A launch or copy checks this after bp_work_begin, and if true
 * does not call the plugin. Either the launch sees the stop here, or the thread that stops the
 * intake sees the launch as begun. */
static inline bool bp_process_is_stopping(void)
{
    atomic_signal_fence(memory_order_seq_cst);
    return bp_generation_now() & BP_STOPPED;
}
/* Returns BP_ERR_SHUTDOWN, with its message. */
enum bp_status bp_error_stopped(void);
/* Stops the intake. When it returns, launches and copies that did not see the stop are visible as
 * begun. */
void bp_process_stop(void);

/* When it returns, each thread sees what this one wrote before, or this one sees what that thread
 * wrote before its next read: a fence of all threads, so that they need none. */
void bp_process_barrier(void);

/* Called by a thread that, because the intake has stopped, does not free an object: the object
 * stays reachable, so that leak checkers do not report it. */
void bp_process_abandon(const void *object);

/* Whether the process is in exit(): workers start no further task, and threads that wait for one
 * stop waiting. */
bool bp_process_is_exiting(void);
/* Marks the process as being in exit(). Returns whether it was marked before. */
bool bp_process_begin_exit(void);

/* Enclose activities, other than launches and copies, in which a plugin must not be when its
 * process ends: preparing plans, opening and closing. bp_process_busy_begin returns BP_ERR_SHUTDOWN
 * once the intake has stopped. They may be nested. */
enum bp_status bp_process_busy_begin(void);
void bp_process_busy_end(void);
/* Whether another thread is in such an activity. */
bool bp_process_is_busy(void);

/* Registers a handler that runs at exit(), possibly several times. Called once, before the first
 * core is created. */
void bp_exit_register(void (*handler)(void));
/* Registers the core's handler for exit() again, so that it runs before handlers that a library
 * registered while a plan was built. row identifies the plan's kernel row (the plugin's own row, or
 * any other constant address). Called after each plan is built; most calls cost one look-up. */
void bp_exit_reregister(const void *row);

/* Adds a core to the list of cores, in which it stays until its end. BP_ERR_SHUTDOWN: the intake
 * has stopped. */
enum bp_status bp_process_add_core(struct bp_core *core);
/* Drops a reference; true: it was the last one, and the core was removed from the list. */
bool bp_process_release_core(struct bp_core *core);
/* Calls visit for each core until one call returns true; returns whether one did. No core ends
 * meanwhile. With wait false a signal handler may call it: if another thread holds the list, it
 * returns false without a call of visit. */
bool bp_process_visit_cores(bool wait, bool (*visit)(struct bp_core *core, void *ctx), void *ctx);

/* Runs fn(arg) on a new detached thread. false: no thread could be created. */
bool bp_thread_create_detached(void *(*fn)(void *), void *arg);

/* To be called in a forked child: the list of cores becomes empty, and no handle of the parent is
 * valid. */
void bp_process_after_fork(void);

#endif
