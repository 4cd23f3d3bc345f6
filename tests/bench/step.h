/* SPDX-License-Identifier: Apache-2.0 */
/* step.h: counts what a piece of code executes, instruction by instruction: no sampling, no
 * counters of the machine, the same figure on every run. On x86-64 with Linux. */
#ifndef STEP_H
#define STEP_H

#include <stdbool.h>

struct step_counts {
    long instructions;
    long locked; /* atomic read-modify-writes: a LOCK prefix, or an exchange with memory */
};

/* Whether this machine and this build can count. */
bool step_can(void);

/* Runs body(ctx), which makes no system call, on the calling thread, one instruction at a time. Not
 * from two threads at once. */
struct step_counts step_count(void (*body)(void *ctx), void *ctx);

#endif
