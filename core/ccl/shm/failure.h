/* SPDX-License-Identifier: Apache-2.0 */
/* failure.h: the failure of a communicator, which all of its transports share: found by one rank,
 * told to all. */
#ifndef BP_COMM_FAILURE_PRIVATE_H
#define BP_COMM_FAILURE_PRIVATE_H

#include "shm_segment.h"

struct bp_comm_failure {
    struct bp_shm_header *header; /* where the ranks of this machine read it */
    struct bp_shm_segment *segment;
    uint32_t rank; /* this one, there, and as the app numbers it */
    uint32_t number;
    /* Before a failure is told here: that of another host, if there is one already. NULL: there are
     * no other hosts. */
    void (*share)(void *ctx, uint32_t *status, char *text, size_t size);
    void *ctx;
};

static inline bool bp_comm_has_failed(const struct bp_comm_failure *f)
{
    return atomic_load_explicit(&f->header->failed, memory_order_relaxed) != 0;
}
/* The failure of all ranks is this one, unless there is one already; that is answered. */
enum bp_status bp_comm_fail(struct bp_comm_failure *f, enum bp_status status, const char *format,
                            ...) __attribute__((format(printf, 3, 4)));
/* What this thread's message says has failed here, and the others would wait for it: they are told
 * "rank N", the words and the message. Returns status and message as they were. */
enum bp_status bp_comm_failure_publish(struct bp_comm_failure *f, enum bp_status status,
                                       const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The failure of all, as this thread's message. */
enum bp_status bp_comm_failure_report(struct bp_comm_failure *f);

#endif
