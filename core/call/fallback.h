/* SPDX-License-Identifier: Apache-2.0 */
/* fallback.h: what ran otherwise than by a kernel of the call's own, counted. */
#ifndef BP_FALLBACK_H
#define BP_FALLBACK_H

#include "prepared.h"

/* The device that runs what another cannot, with a reference: inline, its memory in the host's
 * reach. BP_ERR_UNSUPPORTED: there is none, or device is it. */
enum bp_status bp_fallback_device(struct bp_device *device, struct bp_device **out_host);

/* Counts a run of a call that has steps of a kind; the first of an operator is logged if the policy
 * says so. */
void bp_fallback_count(struct bp_device *device, const struct bp_opdef *row, uint32_t kind,
                       uint64_t bytes, uint64_t nanoseconds);
void bp_fallback_finish(struct bp_device *device);

#endif
