/* SPDX-License-Identifier: Apache-2.0 */
/* activity.h: records the plugin call in which each thread is, for readers of backplane/activity.h.
 * A note costs about 200 ns (a system call for the thread's id, the clock, stores). So notes cover
 * calls that may take long or crash the process, but not launches that return immediately. */
#ifndef BP_ACTIVITY_PRIVATE_H
#define BP_ACTIVITY_PRIVATE_H

#include <backplane/activity.h>

/* Enclose a call of a plugin: the thread that begins a note ends it. Notes may be nested. `what`
 * may be NULL. Both names are copied, and cut at 63 bytes. The result is for bp_activity_end. If
 * all notes of the process are in use, the call is not recorded. */
uint32_t bp_activity_begin(enum bp_activity_step step, const char *plugin, const char *what);
void bp_activity_end(uint32_t note);

/* To be called in a forked child: drops the notes of the parent's threads. */
void bp_activity_after_fork(void);

#endif
