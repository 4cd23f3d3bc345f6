/* SPDX-License-Identifier: Apache-2.0 */
/* lazy.h: the launches of lazy.c, which lazy_rows.c makes; a device without rows has none. */
#ifndef LAZY_H
#define LAZY_H

#include <backplane/kernel.h>
#include <backplane/plugin.h>
#include <stdbool.h>

struct lazy_launch;

/* lazy.c: a copy of a launch is run later, and is lazy.c's then. */
enum bp_status lazy_give(const struct bp_launch *launch, struct lazy_launch *copy);
/* Runs all that the launch's stream has to do. */
void lazy_catch_up(const struct bp_launch *launch);
const struct bp_host *lazy_host(void *self);

#ifdef LAZY_ROWS
#define LAZY_NAME "late"
#define LAZY_DTYPES (BP_M(F32) | BP_M(I32) | BP_M(U8))
#define LAZY_KERNELS &lazy_kernels

extern const struct bp_kernels lazy_kernels;

/* Whether LAZY_BREAK is this. */
bool lazy_breaks(const char *how);

/* Answers the failure of the work. */
enum bp_status lazy_launch_run(struct lazy_launch *launch);
void lazy_launch_destroy(struct lazy_launch *launch);
#else
#define LAZY_NAME "lazy"
#define LAZY_DTYPES BP_MASK_ANY
#define LAZY_KERNELS NULL

static inline bool lazy_breaks(const char *how)
{
    (void)how;
    return false;
}

static inline enum bp_status lazy_launch_run(struct lazy_launch *launch)
{
    (void)launch;
    return BP_OK;
}

static inline void lazy_launch_destroy(struct lazy_launch *launch)
{
    (void)launch;
}
#endif

#endif
