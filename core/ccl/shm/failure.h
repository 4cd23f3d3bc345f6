/* SPDX-License-Identifier: Apache-2.0 */
/* failure.h: declares the failure of a communicator, which all of its transports share: one rank
 * finds the failure, and all ranks report it. */
#ifndef BP_COMM_FAILURE_PRIVATE_H
#define BP_COMM_FAILURE_PRIVATE_H

#include "shm_segment.h"

struct bp_comm_failure {
    struct bp_shm_header *header; /* where the ranks of this machine read the failure */
    struct bp_shm_segment *segment;
    uint32_t rank; /* this rank: its local rank here, its global rank in `number` */
    uint32_t number;
    /* Called before a failure is published on this machine. If another host has already published a
     * failure, replaces status and text by that one. NULL: there are no other hosts. */
    void (*share)(void *ctx, uint32_t *status, char *text, size_t size);
    void *ctx;
};

static inline bool bp_comm_has_failed(const struct bp_comm_failure *f)
{
    return atomic_load_explicit(&f->header->failed, memory_order_relaxed) != 0;
}
/* Makes this the failure of all ranks, unless the communicator has failed already. Returns the
 * communicator's failure. */
enum bp_status bp_comm_fail(struct bp_comm_failure *f, enum bp_status status, const char *format,
                            ...) __attribute__((format(printf, 3, 4)));
/* This rank has failed with this thread's message, and the other ranks would wait for it. Publishes
 * "rank N", the formatted words and the message to the other ranks. Returns status, and leaves this
 * thread's message unchanged. */
enum bp_status bp_comm_failure_publish(struct bp_comm_failure *f, enum bp_status status,
                                       const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Sets this thread's message to the failure of the communicator, and returns its status. */
enum bp_status bp_comm_failure_report(struct bp_comm_failure *f);

#endif
