/* SPDX-License-Identifier: Apache-2.0 */
/* fallback.h: declares the counters of calls that ran by a fallback, and finds the device that runs
 * calls for devices without a kernel. */
#ifndef BP_FALLBACK_H
#define BP_FALLBACK_H

#include "prepared.h"

/* Finds the device that runs the calls which `device` cannot run, and returns a reference to it. It
 * is inline, and the host can access its memory. BP_ERR_UNSUPPORTED: there is none, or `device` is
 * it. */
enum bp_status bp_fallback_find(struct bp_device *device, struct bp_device **out_host);

/* The policy for calls of this thread on devices of a core: enum bp_policy. */
uint32_t bp_fallback_policy(const struct bp_core *core);
/* Fails if the policy denies a step of this kind, for an operator of a call that was prepared under
 * another policy. */
enum bp_status bp_fallback_check(struct bp_device *device, const struct bp_opdef *row,
                                 uint32_t kind);

/* Counts one run of a call with fallback steps of a kind. The first one of an operator and kind is
 * logged if the policy is to warn. */
void bp_fallback_count(struct bp_device *device, const struct bp_opdef *row, uint32_t kind,
                       uint64_t bytes, uint64_t nanoseconds);

/* Stores why no kernel of the device runs a call of this operator, and the name of the device that
 * runs the call instead (NULL: the device itself). The first reason and name of an operator stay.
 * */
void bp_fallback_explain(struct bp_device *device, const struct bp_opdef *row, const char *where,
                         const char *why);
void bp_fallback_finish(struct bp_device *device);

#endif
