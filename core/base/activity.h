/* SPDX-License-Identifier: Apache-2.0 */
/* activity.h: notes in which call of a plugin each thread is: backplane/activity.h reads it. A note
 * costs some 200 ns (a system call for the thread's number, the clock, stores): it stands around
 * what may take long or kill the process, not around launches that come back at once. */
#ifndef BP_ACTIVITY_PRIVATE_H
#define BP_ACTIVITY_PRIVATE_H

#include <backplane/activity.h>

/* Around a call of a plugin: the thread that begins one ends it. They may be nested. what may be
 * NULL. Both names are copied, and cut at 63 bytes. The answer is for bp_activity_end; where more
 * calls are under way in the process than are noted, this one is not. */
uint32_t bp_activity_begin(enum bp_activity_step step, const char *plugin, const char *what);
void bp_activity_end(uint32_t note);

/* In a forked child: threads of the parent are not there. */
void bp_activity_after_fork(void);

#endif
