/* SPDX-License-Identifier: Apache-2.0 */
/* step.h: counts the instructions that a function executes, one by one: without sampling and
 * hardware counters, so that each run returns the same counts. For x86-64 with Linux. */
#ifndef STEP_H
#define STEP_H

#include <stdbool.h>

struct step_counts {
    long instructions;
    long locked; /* atomic read-modify-writes: a LOCK prefix, or an exchange with memory */
};

/* Whether this machine and this build can count. */
bool step_can(void);

/* Runs body(ctx) on the calling thread, one instruction at a time; body must not make a system
 * call. Two threads must not call this at the same time. */
struct step_counts step_count(void (*body)(void *ctx), void *ctx);

#endif
