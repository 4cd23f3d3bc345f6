/* SPDX-License-Identifier: Apache-2.0 */
/* failure.c: the failure of a communicator: found by one rank, told to all by the shared memory. */
#include "failure.h"

#include <sched.h>
#include <stdio.h>

enum bp_status bp_comm_answer(struct bp_comm_failure *f)
{
    const struct bp_board_header *h = f->header;
    uint64_t deadline = bp_deadline(f->share ? 5000000000 : 200000000);

    while (atomic_load(&h->failed) != 2 && bp_time_left(deadline)) sched_yield();
    if (atomic_load(&h->failed) != 2)
        return bp_error(BP_ERR_PEER, "a rank died while it wrote why the communicator failed");
    return bp_error(bp_status_heard(h->status), "%.*s", (int)sizeof h->text - 1, h->text);
}

enum bp_status bp_comm_fail(struct bp_comm_failure *f, enum bp_status status, const char *format,
                            ...)
{
    struct bp_board_header *h = f->header;
    uint32_t none = 0;
    va_list args;

    if (!atomic_compare_exchange_strong(&h->failed, &none, 1)) return bp_comm_answer(f);
    va_start(args, format);
    vsnprintf(h->text, sizeof h->text, format, args);
    va_end(args);
    h->status = status;
    if (f->share) f->share(f->ctx, &h->status, h->text, sizeof h->text);
    atomic_store(&h->failed, 2);
    bp_segment_wake(f->segment, f->rank);
    return bp_comm_answer(f);
}

enum bp_status bp_comm_confess(struct bp_comm_failure *f, enum bp_status status,
                               const char *format, ...)
{
    char words[200], why[800];
    va_list args;

    snprintf(why, sizeof why, "%s", bp_error_message());
    va_start(args, format);
    vsnprintf(words, sizeof words, format, args);
    va_end(args);
    bp_comm_fail(f, BP_ERR_PEER, "rank %u %s: %s", f->number, words, why);
    return bp_error(status, "%s", why);
}
