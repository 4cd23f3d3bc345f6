/* SPDX-License-Identifier: Apache-2.0 */
/* deadline.h: declares the deadlines of waits of the host, and the messages for waits that run out
 * of time. */
#ifndef BP_DEADLINE_H
#define BP_DEADLINE_H

#include "../base/base.h"

struct bp_device;
struct bp_timeline;

struct bp_deadline {
    uint64_t end;        /* ns of CLOCK_MONOTONIC; UINT64_MAX: none */
    uint64_t timeout_ns; /* from the begin of the wait to end */
    const char *source;  /* the setting that defines it; NULL: the call's own timeout */
};

/* For waits that must not end early: those of internal threads for which no caller waits, or those
 * without which an order of work would be lost. */
extern const struct bp_deadline bp_deadline_none;

/* Returns a deadline that begins now: for a call with its own timeout; for a call without one, by
 * the core's option. */
struct bp_deadline bp_deadline_after(uint64_t timeout_ns);
struct bp_deadline bp_deadline_of(const struct bp_device *device);

static inline bool bp_deadline_is_set(const struct bp_deadline *until)
{
    return until->end != UINT64_MAX;
}
/* ns from now; 0: the deadline has passed; UINT64_MAX: there is none. */
uint64_t bp_deadline_remaining(const struct bp_deadline *until);

/* Waits for cond (initialized by bp_cond_init) once. false: the deadline has passed. */
bool bp_deadline_wait(pthread_cond_t *cond, pthread_mutex_t *lock,
                      const struct bp_deadline *until);

/* Writes a text about the work that was not finished at the deadline: the device, the stream, and
 * its launches up to `number` that are not known to have ended. timeline NULL: all streams of the
 * device. */
void bp_deadline_describe(struct bp_device *device, const struct bp_timeline *timeline,
                          uint64_t number, const struct bp_deadline *until, char *text,
                          size_t size);

/* Returns BP_ERR_TIMEOUT, with the text of bp_deadline_describe as the message. */
enum bp_status bp_deadline_error(struct bp_device *device, const struct bp_timeline *timeline,
                                 uint64_t number, const struct bp_deadline *until);

/* Records the wait for this work as an activity, which bp_activity_end ends. */
uint32_t bp_wait_activity_begin(struct bp_device *device, const struct bp_timeline *timeline,
                                uint64_t number);

/* Runs fn(ctx) on a new thread, waits for its end, and returns its status and message.
 * BP_ERR_TIMEOUT without a message, and *out_late: the deadline passed, and fn continues to run.
 * BP_ERR_MEMORY with *out_begun false: fn was not called. */
enum bp_status bp_thread_run_until(enum bp_status (*fn)(void *ctx), void *ctx,
                                   const struct bp_deadline *until, bool *out_begun,
                                   bool *out_late);
/* The same, as if the deadline passed when stop(ctx) returns true, which is called about 100 times
 * a second while ctx is valid. */
enum bp_status bp_thread_run_unless(enum bp_status (*fn)(void *ctx), void *ctx,
                                    const struct bp_deadline *until, bool (*stop)(void *ctx),
                                    bool *out_begun, bool *out_late);

#endif
