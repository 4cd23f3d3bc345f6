/* SPDX-License-Identifier: Apache-2.0 */
/* deadline.h: until when the host waits for a device, and what is said when that is over. */
#ifndef BP_DEADLINE_H
#define BP_DEADLINE_H

#include "../base/base.h"

struct bp_device;
struct bp_timeline;

struct bp_deadline {
    uint64_t end;        /* ns of CLOCK_MONOTONIC; UINT64_MAX: none */
    uint64_t timeout_ns; /* how long after the wait began that is */
    const char *source;  /* the setting that it comes from; NULL: the call's own timeout */
};

/* For waits that must not end early: of threads that wait for nobody, or where no order would hold
 * without the wait. */
extern const struct bp_deadline bp_deadline_none;

/* From now on: of a call with a timeout of its own; of one without, as the core's option says. */
struct bp_deadline bp_deadline_after(uint64_t timeout_ns);
struct bp_deadline bp_deadline_of(const struct bp_device *device);

static inline bool bp_deadline_is_set(const struct bp_deadline *until)
{
    return until->end != UINT64_MAX;
}
/* ns from now; 0: it is over; UINT64_MAX: there is none. */
uint64_t bp_deadline_remaining(const struct bp_deadline *until);

/* Waits for cond (bp_cond_init), once. false: the deadline is over. */
bool bp_deadline_wait(pthread_cond_t *cond, pthread_mutex_t *lock,
                      const struct bp_deadline *until);

/* What was not over by then: the device, the stream, its launches up to number that are not known
 * to have ended. timeline NULL: of all streams of the device. */
void bp_deadline_describe(struct bp_device *device, const struct bp_timeline *timeline,
                          uint64_t number, const struct bp_deadline *until, char *text,
                          size_t size);

/* BP_ERR_TIMEOUT, with that as the message. */
enum bp_status bp_deadline_error(struct bp_device *device, const struct bp_timeline *timeline,
                                 uint64_t number, const struct bp_deadline *until);

/* A note of such a wait, for bp_activity_end. */
uint32_t bp_wait_activity_begin(struct bp_device *device, const struct bp_timeline *timeline,
                                uint64_t number);

/* Runs fn(ctx) on a thread of its own and waits for its end; its answer and its message.
 * BP_ERR_TIMEOUT, without a message, and *out_late: not before the deadline; it goes on.
 * BP_ERR_MEMORY with *out_begun false: fn is not called. */
enum bp_status bp_thread_run_until(enum bp_status (*fn)(void *ctx), void *ctx,
                                   const struct bp_deadline *until, bool *out_begun,
                                   bool *out_late);

#endif
