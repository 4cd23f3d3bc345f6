/* SPDX-License-Identifier: Apache-2.0 */
/* process.h: what concerns the process as a whole: handles from before a fork, and the way out.
 *
 * The way out has two steps. Intake stops: every public call that takes a handle or makes one is
 * refused. Then what is under way is waited for. Nothing is freed. */
#ifndef BP_PROCESS_PRIVATE_H
#define BP_PROCESS_PRIVATE_H

#include <backplane/status.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct bp_core;

/* Added to the magic word of a handle. A fork raises it in the child, a stop sets BP_STOPPED: no
 * handle made before fits any more, and no check costs more than before. */
enum { BP_STOPPED = 0x100, BP_FORKED = 0x200 };
extern _Atomic uint32_t bp_generation __attribute__((visibility("hidden")));

static inline uint32_t bp_generation_now(void)
{
    return atomic_load_explicit(&bp_generation, memory_order_relaxed);
}

/* What differs in a forked child, and only there: for what reaches the core without a handle. */
static inline uint32_t bp_generation_made(void)
{
    return bp_generation_now() & ~(uint32_t)BP_STOPPED;
}

/* What a new handle of a kind (enum bp_magic) gets as its magic. A handle that is being made while
 * intake stops is refused as all others are. */
static inline uint32_t bp_magic(uint32_t kind)
{
    return kind + bp_generation_made();
}

/* Whether the magic of a handle (0: there is none) is that of a kind; if not, the reason is kept on
 * this thread for bp_not_a. */
bool bp_magic_is_not(uint32_t magic, uint32_t kind);
static inline bool bp_magic_is(uint32_t magic, uint32_t kind)
{
    return magic == kind + bp_generation_now() || bp_magic_is_not(magic, kind);
}
/* Whether the last handle that bp_magic_is refused on this thread was one of the kind, but from
 * before a fork or a stop. */
bool bp_handle_was_stale(void);
/* The same of the last one that was not NULL: what was asked of that may have answered NULL. */
bool bp_handle_was_last_stale(void);

/* Whether intake has stopped. A launch or copy asks after bp_work_begin, and if so does not call
 * the plugin: either it sees the stop here, or who stops sees its work begun. */
static inline bool bp_process_is_stopping(void)
{
    atomic_signal_fence(memory_order_seq_cst);
    return bp_generation_now() & BP_STOPPED;
}
/* The answer then: BP_ERR_SHUTDOWN, with its message. */
enum bp_status bp_error_stopped(void);
/* Stops intake. When it returns, launches and copies that did not see the stop are seen to be
 * under way. */
void bp_process_stop(void);

/* A thread that gives up because intake has stopped calls this for an object that it would have
 * freed: the object stays reachable, so that leak checkers do not report it. */
void bp_process_abandon(const void *object);

/* Whether the process is in exit(): workers begin no further task, and who waits for one gives up.
 */
bool bp_process_is_exiting(void);
/* From now on it is. Whether it was already. */
bool bp_process_begin_exit(void);

/* Around what a plugin must not be in when its process ends, other than launches and copies:
 * preparing plans, opening and closing. Begin refuses with BP_ERR_SHUTDOWN once intake has stopped.
 * They may be nested. */
enum bp_status bp_process_busy_begin(void);
void bp_process_busy_end(void);
/* Whether another thread is between the two. */
bool bp_process_is_busy(void);

/* handler is called at exit(), perhaps several times. Once, before the first core. */
void bp_exit_register(void (*handler)(void));
/* A library may have registered handlers for exit() while a plan of row (the plugin's own row, or
 * any other constant address) was built: registers the core's again, so that it runs before them.
 * To be called after each; most calls cost a look-up. */
void bp_exit_reregister(const void *row);

/* Every core is known here from its making to its end. Refuses with BP_ERR_SHUTDOWN. */
enum bp_status bp_process_add_core(struct bp_core *core);
/* Gives a reference back; true if it was the last, and the core is not known any more. */
bool bp_process_release_core(struct bp_core *core);
/* Calls visit for each of them, none of which ends meanwhile, until it answers true, and answers
 * whether it did. Without wait a signal handler may call it: false, and no call of visit, where
 * another thread has the list. */
bool bp_process_visit_cores(bool wait, bool (*visit)(struct bp_core *core, void *ctx), void *ctx);

/* Runs fn(arg) on a thread of its own, which nobody waits for. false: there is no thread. */
bool bp_thread_create_detached(void *(*fn)(void *), void *arg);

/* In a forked child: no core is known, no handle fits. */
void bp_process_after_fork(void);

#endif
