/* SPDX-License-Identifier: Apache-2.0 */
/* failure.c: publishes the failure that one rank finds to all ranks through the shared memory, and
 * writes the messages of ranks on one machine. A message names the ranks that are missing, not a
 * neighbour that waits for them. */
#include "../collective.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

enum bp_status bp_comm_failure_report(struct bp_comm_failure *f)
{
    const struct bp_shm_header *h = f->header;
    uint64_t deadline = bp_clock_after(f->share ? 5000000000 : 200000000);

    while (atomic_load(&h->failed) != 2 && bp_time_left(deadline)) sched_yield();
    if (atomic_load(&h->failed) != 2)
        return bp_error(BP_ERR_PEER, "a rank died while it wrote why the communicator failed");
    return bp_error(bp_status_of_number(h->status), "%.*s", (int)sizeof h->text - 1, h->text);
}

enum bp_status bp_comm_fail(struct bp_comm_failure *f, enum bp_status status, const char *format,
                            ...)
{
    struct bp_shm_header *h = f->header;
    uint32_t none = 0;
    va_list args;

    if (!atomic_compare_exchange_strong(&h->failed, &none, 1)) return bp_comm_failure_report(f);
    va_start(args, format);
    vsnprintf(h->text, sizeof h->text, format, args);
    va_end(args);
    h->status = status;
    if (f->share) f->share(f->ctx, &h->status, h->text, sizeof h->text);
    atomic_store(&h->failed, 2);
    bp_shm_segment_wake(f->segment, f->rank);
    return bp_comm_failure_report(f);
}

enum bp_status bp_comm_failure_publish(struct bp_comm_failure *f, enum bp_status status,
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

enum { TEXT = 200 };

/* The call that a rank is in, or was in last: the slot with the highest sequence number. */
static const struct bp_shm_call_slot *last_slot(const struct bp_shm_rank *b, uint32_t rank,
                                                uint64_t *out_sequence)
{
    const struct bp_shm_call_slot *last = b->ranks[rank].call_slots;

    *out_sequence = atomic_load(&last->sequence);
    for (uint32_t i = 1; i < BP_SHM_CALL_SLOTS; i++) {
        uint64_t sequence = atomic_load(&b->ranks[rank].call_slots[i].sequence);
        if (sequence <= *out_sequence) continue;
        *out_sequence = sequence;
        last = &b->ranks[rank].call_slots[i];
    }
    return last;
}

/* The number of a call for messages. A call between hosts has several sequence numbers on this
 * machine, and one number for all hosts in its signature. */
static uint64_t sequence_of(uint64_t signature, uint64_t sequence)
{
    return signature >> 32 ? signature >> 32 : sequence;
}

/* The call that a rank is in, or was in last; taken from the sequence log where calls are
 * logged. */
static void last_call(const struct bp_shm_rank *b, uint32_t rank, uint64_t *out_sequence,
                      uint64_t *out_signature, uint64_t *out_count)
{
    uint64_t posted = atomic_load(&b->ranks[rank].posted);
    const struct bp_seqlog_entry *logged = &b->ranks[rank].seqlog[posted % BP_SEQLOG_ENTRIES];
    const struct bp_shm_call_slot *e = last_slot(b, rank, out_sequence);

    *out_signature = b->seqlog.used ? atomic_load(&logged->signature) : e->signature;
    *out_count = b->seqlog.used ? atomic_load(&logged->count) : e->count;
    if (b->seqlog.used) *out_sequence = posted;
}

/* Formats "rank 2 (process 17), whose last call was broadcast of 4 f32 with root 0, sequence 6". */
static void rank_text(const struct bp_shm_rank *b, uint32_t rank, char *text, size_t size)
{
    uint64_t sequence, signature, count;
    char call[TEXT];

    last_call(b, rank, &sequence, &signature, &count);
    if (!sequence)
        snprintf(text, size, "rank %u (process %d), which has made no call",
                 bp_shm_global_rank(b, rank), b->peers.pid[rank]);
    else
        snprintf(text, size, "rank %u (process %d), whose last call was %s, sequence %" PRIu64,
                 bp_shm_global_rank(b, rank), b->peers.pid[rank],
                 bp_signature_text(signature, count, call, sizeof call),
                 sequence_of(signature, sequence));
}

static bool is_joining(const struct bp_shm_rank *b)
{
    uint32_t joins = atomic_load(&b->me->joins);

    return joins && joins < BP_JOIN_ENDED;
}

/* Formats the call that this rank is in. */
static const char *own_text(const struct bp_shm_rank *b, char *text, size_t size)
{
    uint64_t sequence, last, count;
    char signature[TEXT];

    last_call(b, b->rank, &sequence, &last, &count);
    if (atomic_load(&b->me->ready) < 2 || is_joining(b)) return "bp_comm_create";
    if (b->p2p.waiting)
        return bp_p2p_text(b->p2p.waiting, bp_shm_global_rank(b, b->p2p.waiting->root), text, size);
    if (!sequence) return "its first call";
    snprintf(text, size, "%s, sequence %" PRIu64,
             bp_signature_text(last, count, signature, sizeof signature),
             sequence_of(last, sequence));
    return text;
}

enum bp_status bp_shm_report_death(struct bp_shm_rank *b, uint32_t rank)
{
    char own[TEXT], name[2 * TEXT];

    rank_text(b, rank, name, sizeof name);
    return bp_comm_fail(&b->failure, BP_ERR_PEER, "%s, has died; rank %u missed it in %s", name,
                        bp_shm_global_rank(b, b->rank), own_text(b, own, sizeof own));
}

/* Whether a rank holds up the call that this rank is in, because it has not begun it. */
static bool is_behind(const struct bp_shm_rank *b, uint32_t rank)
{
    uint64_t number = bp_shm_call_slot(b, b->rank, b->calls.sequence)->signature >> 32, sequence;
    const struct bp_shm_call_slot *e;

    if (atomic_load(&b->me->ready) < 2)
        return atomic_load(&b->ranks[rank].ready) < atomic_load(&b->me->ready);
    if (b->seqlog.waits_for_entry)
        return atomic_load(&b->ranks[rank].posted) < b->seqlog.waits_for_entry;
    e = last_slot(b, rank, &sequence);
    if (number) return !sequence || e->signature >> 32 < number;
    return sequence + b->calls.lag < b->calls.sequence;
}

bool bp_shm_has_missing_rank(const struct bp_shm_rank *b)
{
    for (uint32_t i = 0; i < b->n; i++)
        if (i != b->rank && is_behind(b, i)) return true;
    return false;
}

/* The rank at the end of the chain of waiting ranks that begins at `of`: a rank that itself waits
 * for another one is not at fault. */
static uint32_t end_of_chain(const struct bp_shm_rank *b, uint32_t of)
{
    for (uint32_t i = 0; i < b->n; i++) {
        uint32_t next = atomic_load(&b->ranks[of].waits_for);
        if (!next || next > b->n || next - 1 == b->rank) break;
        of = next - 1;
    }
    return of;
}

void bp_rank_list_add(const struct bp_shm_rank *b, struct bp_rank_list *names, uint32_t rank)
{
    char name[2 * TEXT];

    if (names->used + sizeof name >= sizeof names->text) return;
    rank_text(b, rank, name, sizeof name);
    names->used += (size_t)snprintf(names->text + names->used, sizeof names->text - names->used,
                                    "%s%s", names->n++ ? "; " : "", name);
}

/* Names the ranks that have not begun the call, if possible those that do not wait for others. If
 * all have begun the call, names the rank whose word was waited for. */
enum bp_status bp_shm_report_timeout(struct bp_shm_rank *b, uint32_t of)
{
    struct bp_rank_list late = {.n = 0};
    char own[TEXT];
    const char *why = "did not come";

    if (of >= b->n) of = b->rank;
    if (b->p2p.waiting) of = end_of_chain(b, of);
    for (int pass = 0; pass < 2 && !late.n && !b->p2p.waiting; pass++)
        for (uint32_t i = 0; i < b->n; i++)
            if (i != b->rank && is_behind(b, i) && (pass || !atomic_load(&b->ranks[i].waits_for)))
                bp_rank_list_add(b, &late, i);
    if (!late.n) {
        why = b->p2p.waiting ? "did not" : "came, but does not go on";
        bp_rank_list_add(b, &late, of);
    }
    return bp_comm_fail(&b->failure, BP_ERR_TIMEOUT, "rank %u waited %.3g s in %s: %s %s",
                        bp_shm_global_rank(b, b->rank), (double)b->waiter.timeout_ns / 1e9,
                        own_text(b, own, sizeof own), late.text, why);
}

enum bp_status bp_shm_report_timeout_of(struct bp_shm_rank *b, uint64_t signature, uint64_t count,
                                        uint64_t timeout_ns, const char *late, const char *why)
{
    char own[TEXT];

    return bp_comm_fail(&b->failure, BP_ERR_TIMEOUT, "rank %u waited %.3g s in %s: %s %s",
                        bp_shm_global_rank(b, b->rank), (double)timeout_ns / 1e9,
                        bp_signature_text(signature, count, own, sizeof own), late, why);
}

static bool is_same_call(const struct bp_shm_call_slot *a, const struct bp_shm_call_slot *b)
{
    return a->signature == b->signature && a->count == b->count;
}

/* The number of ranks that have made the same call as `rank`. */
static uint32_t count_votes(const struct bp_shm_rank *b, uint32_t rank, uint64_t sequence)
{
    const struct bp_shm_call_slot *e = bp_shm_call_slot(b, rank, sequence);
    uint32_t n = 0;

    for (uint32_t i = 0; i < b->n; i++) {
        const struct bp_shm_call_slot *other = bp_shm_call_slot(b, i, sequence);
        n += atomic_load(&other->sequence) == sequence && is_same_call(e, other);
    }
    return n;
}

/* The first call, up to sequence, that two ranks did not make alike. */
static uint64_t first_difference(const struct bp_shm_rank *b, uint32_t other, uint64_t sequence)
{
    uint64_t from = sequence > BP_SHM_MAX_AHEAD ? sequence - BP_SHM_MAX_AHEAD : 1;

    while (from < sequence &&
           is_same_call(bp_shm_call_slot(b, other, from), bp_shm_call_slot(b, b->rank, from)))
        from++;
    return from;
}

/* Waits a moment for the other ranks to begin the call, so that the majority is known and the
 * message names the minority. */
enum bp_status bp_shm_report_mismatch(struct bp_shm_rank *b, uint32_t other, uint64_t up_to)
{
    uint64_t sequence = first_difference(b, other, up_to), deadline = bp_clock_after(50000000);
    char usual[TEXT], odd[TEXT], list[1000] = "";
    uint32_t best = 0, most = 0;
    size_t used = 0;

    for (uint32_t i = 0; i < b->n; i++)
        while (atomic_load(&bp_shm_call_slot(b, i, sequence)->sequence) < sequence &&
               bp_time_left(deadline) && !bp_comm_has_failed(&b->failure))
            usleep(1000);
    for (uint32_t i = 0; i < b->n; i++)
        if (atomic_load(&bp_shm_call_slot(b, i, sequence)->sequence) == sequence &&
            count_votes(b, i, sequence) > most) {
            most = count_votes(b, i, sequence);
            best = i;
        }
    for (uint32_t i = 0; i < b->n && used + 2 * TEXT < sizeof list; i++) {
        const struct bp_shm_call_slot *e = bp_shm_call_slot(b, i, sequence);
        if (atomic_load(&e->sequence) != sequence ||
            is_same_call(e, bp_shm_call_slot(b, best, sequence)))
            continue;
        used += (size_t)snprintf(list + used, sizeof list - used, "%srank %u calls %s",
                                 used ? ", " : "", bp_shm_global_rank(b, i),
                                 bp_signature_text(e->signature, e->count, odd, sizeof odd));
    }
    const struct bp_shm_call_slot *e = bp_shm_call_slot(b, best, sequence);
    return bp_comm_fail(&b->failure, BP_ERR_INVALID,
                        "sequence %" PRIu64 ": %s, but rank %u%s %s: all ranks make the same "
                        "calls in the same order",
                        sequence_of(e->signature, sequence), list, bp_shm_global_rank(b, best),
                        most > 1 ? " and others call" : " calls",
                        bp_signature_text(e->signature, e->count, usual, sizeof usual));
}
