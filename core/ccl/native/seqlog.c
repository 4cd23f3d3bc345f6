/* SPDX-License-Identifier: Apache-2.0 */
/* seqlog.c: logs in shared memory the calls, and the transfers between two ranks, that ranks submit
 * to their devices. Ranks do not wait for each other's records: a rank that logs a call later
 * compares it with the records of earlier ranks. A rank is at most BP_SEQLOG_ENTRIES calls ahead of
 * the last rank. Each side counts its own transfers, and keeps the records of the last ones. */
#include "native.h"

#include <inttypes.h>
#include <unistd.h>

static struct bp_seqlog_entry *entry_of(const struct bp_shm_rank *b, uint32_t rank, uint64_t number)
{
    return &b->ranks[rank].seqlog[number % BP_SEQLOG_ENTRIES];
}

static bool is_same_entry(const struct bp_shm_rank *b, uint32_t one, uint32_t other,
                          uint64_t number)
{
    const struct bp_seqlog_entry *x = entry_of(b, one, number), *y = entry_of(b, other, number);

    return atomic_load(&x->signature) == atomic_load(&y->signature) &&
           atomic_load(&x->count) == atomic_load(&y->count);
}

static bool has_posted(const struct bp_shm_rank *b, uint32_t rank, uint64_t number)
{
    return atomic_load(&b->ranks[rank].posted) >= number;
}

static uint32_t count_entry_votes(const struct bp_shm_rank *b, uint32_t rank, uint64_t number)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < b->n; i++)
        n += has_posted(b, i, number) && is_same_entry(b, i, rank, number);
    return n;
}

static enum bp_status report_odd(struct bp_shm_rank *b, uint32_t other, uint64_t number)
{
    bool own = count_entry_votes(b, b->rank, number) < count_entry_votes(b, other, number);
    uint32_t odd = own ? b->rank : other, usual = own ? other : b->rank;
    const struct bp_seqlog_entry *x = entry_of(b, odd, number), *y = entry_of(b, usual, number);
    char one[200], two[200];

    return bp_comm_fail(
        &b->failure, BP_ERR_INVALID,
        "sequence %" PRIu64 ": rank %u calls %s, but rank %u calls %s: all ranks "
        "make the same calls in the same order",
        number, bp_shm_global_rank(b, odd),
        bp_signature_text(atomic_load(&x->signature), atomic_load(&x->count), one, sizeof one),
        bp_shm_global_rank(b, usual),
        bp_signature_text(atomic_load(&y->signature), atomic_load(&y->count), two, sizeof two));
}

/* The ranks in the minority are at fault, so the other ranks have a moment to log the call. */
static enum bp_status report_entry_mismatch(struct bp_shm_rank *b, uint32_t other, uint64_t number)
{
    uint64_t deadline = bp_clock_after(50000000);

    for (uint32_t i = 0; i < b->n; i++)
        while (!has_posted(b, i, number) && bp_time_left(deadline) &&
               !bp_comm_has_failed(&b->failure))
            usleep(1000);
    return report_odd(b, other, number);
}

enum bp_status bp_seqlog_wait(struct bp_shm_rank *b, uint64_t number)
{
    enum bp_status status = BP_OK;

    b->seqlog.waits_for_entry = number;
    for (uint32_t i = 0; i < b->n && status == BP_OK; i++)
        status = bp_shm_word_wait(b, &b->ranks[i].posted, number, i);
    b->seqlog.waits_for_entry = 0;
    return status;
}

/* The place of an earlier record may be overwritten when all ranks have logged, and so compared,
 * that call. */
enum bp_status bp_seqlog_record(struct bp_shm_rank *b, const struct bp_collective *c,
                                uint64_t *out_number)
{
    uint64_t number = atomic_load(&b->me->posted) + 1;
    struct bp_seqlog_entry *own = entry_of(b, b->rank, number);

    if (bp_comm_has_failed(&b->failure)) return bp_comm_failure_report(&b->failure);
    b->waiter.deadline = 0;
    b->waiter.timeout_ns = c->timeout_ns;
    if (number > BP_SEQLOG_ENTRIES) TRY(bp_seqlog_wait(b, number - BP_SEQLOG_ENTRIES + 1));
    atomic_store(&own->signature, bp_call_signature(c->call, c->dtype, c->reduction, c->root));
    atomic_store(&own->count, c->count);
    bp_shm_word_publish(b, &b->me->posted, number);
    for (uint32_t i = 0; i < b->n; i++)
        if (has_posted(b, i, number) && !is_same_entry(b, i, b->rank, number))
            return report_entry_mismatch(b, i, number);
    *out_number = number;
    return BP_OK;
}

static struct bp_shm_channel *channel_of(const struct bp_shm_rank *b, uint32_t rank, bool send)
{
    return send ? bp_shm_channel(b->segment, b->rank, rank)
                : bp_shm_channel(b->segment, rank, b->rank);
}

static uint64_t parts_by(const struct bp_shm_channel *p, bool send)
{
    return atomic_load(send ? &p->sent : &p->received);
}

static struct bp_seqlog_entry *part_entry(struct bp_shm_channel *p, bool send, uint64_t number)
{
    return &(send ? p->sends : p->recvs)[number % BP_P2PLOG_ENTRIES];
}

bool bp_p2plog_is_matched(const struct bp_shm_rank *b, const struct bp_p2p_part *parts)
{
    return parts_by(channel_of(b, parts->rank, parts->send), !parts->send) >= parts->number;
}

enum bp_status bp_p2p_signature_check(struct bp_shm_rank *b, uint32_t from, uint32_t to,
                                      const struct bp_p2p_signature *sent,
                                      const struct bp_p2p_signature *received)
{
    uint32_t dtype = sent->signature >> 8 & 0xff, expected = received->signature >> 8 & 0xff;
    bool ragged = (sent->signature & 0xff) == BP_COMM_ALL_TO_ALL_RAGGED;
    bool both = (sent->signature & 0xff) == (received->signature & 0xff);

    if (sent->signature == received->signature && sent->count == received->count) return BP_OK;
    return bp_comm_fail(
        &b->failure, BP_ERR_INVALID,
        "%srank %u sends %" PRIu64 " %s%s to rank %u, which expects %" PRIu64 " %s%s",
        ragged && both ? "in all_to_all_ragged " : "", from, sent->count, bp_dtype_name(dtype),
        ragged && !both ? " in all_to_all_ragged" : "", to, received->count,
        bp_dtype_name(expected), !ragged && !both ? " in all_to_all_ragged" : "");
}

/* Reads the other side's record of a transfer. false: the other side has not logged it, or no
 * longer keeps it. */
static bool read_other(struct bp_shm_channel *p, bool send, uint64_t number,
                       struct bp_p2p_signature *out)
{
    struct bp_seqlog_entry *entry = part_entry(p, send, number);

    if (parts_by(p, send) < number) return false;
    *out = (struct bp_p2p_signature){atomic_load(&entry->signature), atomic_load(&entry->count)};
    return parts_by(p, send) < number + BP_P2PLOG_ENTRIES - 1; /* the next may be half written */
}

struct bp_p2p_signature bp_p2p_signature_of(const struct bp_collective *c, uint64_t count)
{
    uint32_t call = c->call == BP_COMM_ALL_TO_ALL_RAGGED ? c->call : BP_COMM_SEND;

    return (struct bp_p2p_signature){bp_call_signature(call, c->dtype, 0, 0), count};
}

/* Each side logs its own record before it reads the other side's, so at least one of the two sides
 * sees both. */
enum bp_status bp_p2plog_record(struct bp_shm_rank *b, const struct bp_collective *c, uint32_t rank,
                                bool send, uint64_t count, struct bp_p2p_part *out_part)
{
    struct bp_p2p_signature own = bp_p2p_signature_of(c, count), other;
    struct bp_shm_channel *p = channel_of(b, rank, send);
    uint64_t number = parts_by(p, send) + 1;
    struct bp_seqlog_entry *entry = part_entry(p, send, number);
    uint32_t us = bp_shm_global_rank(b, b->rank), them = bp_shm_global_rank(b, rank);

    atomic_store(&entry->signature, own.signature);
    atomic_store(&entry->count, own.count);
    atomic_store(send ? &p->sent : &p->received, number);
    *out_part = (struct bp_p2p_part){rank, send, false, number};
    if (!read_other(p, !send, number, &other)) return BP_OK;
    return send ? bp_p2p_signature_check(b, us, them, &own, &other)
                : bp_p2p_signature_check(b, them, us, &other, &own);
}

enum bp_status bp_seqlog_report_timeout(struct bp_shm_rank *b, uint64_t number, uint64_t signature,
                                        uint64_t count, uint64_t timeout_ns)
{
    struct bp_rank_list late = {.n = 0};
    const char *why = "did not come";

    for (int pass = 0; pass < 2 && !late.n; pass++) {
        if (pass) why = "came, but does not go on";
        for (uint32_t i = 0; i < b->n; i++) {
            const struct bp_shm_rank_state *r = &b->ranks[i];
            if (i != b->rank && atomic_load(pass ? &r->completed : &r->posted) < number)
                bp_rank_list_add(b, &late, i);
        }
    }
    return bp_shm_report_timeout_of(b, signature, count, timeout_ns,
                                    late.n ? late.text : "its device", why);
}

/* Whether one of the transfers is with the rank; unmet: and the rank has not logged its side. */
static bool is_among(const struct bp_shm_rank *b, const struct bp_p2p_part *parts, uint32_t n,
                     uint32_t rank, bool unmet)
{
    for (uint32_t i = 0; i < n; i++)
        if (!parts[i].remote && parts[i].rank == rank &&
            !(unmet && bp_p2plog_is_matched(b, &parts[i])))
            return true;
    return false;
}

bool bp_seqlog_is_behind(const struct bp_shm_rank *b, uint64_t number)
{
    for (uint32_t i = 0; i < b->n; i++)
        if (atomic_load(&b->ranks[i].posted) < number) return true;
    return false;
}

bool bp_p2plog_is_behind(const struct bp_shm_rank *b, const struct bp_p2p_part *parts, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!parts[i].remote && !bp_p2plog_is_matched(b, &parts[i])) return true;
    return false;
}

enum bp_status bp_p2plog_report_timeout(struct bp_shm_rank *b, const struct bp_p2p_part *parts,
                                        uint32_t n, uint64_t signature, uint64_t count,
                                        uint64_t timeout_ns)
{
    struct bp_rank_list late = {.n = 0};
    const char *why = "did not";

    for (int pass = 0; pass < 2 && !late.n; pass++) {
        if (pass) why = "came, but does not go on";
        for (uint32_t i = 0; i < b->n; i++)
            if (i != b->rank && is_among(b, parts, n, i, !pass)) bp_rank_list_add(b, &late, i);
    }
    return bp_shm_report_timeout_of(b, signature, count, timeout_ns,
                                    late.n ? late.text : "its device", why);
}

enum bp_status bp_join_report_timeout(struct bp_shm_rank *b, const uint32_t *before,
                                      const char *remote, uint64_t timeout_ns)
{
    struct bp_rank_list late = {.n = 0};

    for (uint32_t i = 0; i < b->n; i++) {
        uint32_t now = atomic_load(&b->ranks[i].joins);
        if (i != b->rank && now == before[i] && now < BP_JOIN_ENDED) bp_rank_list_add(b, &late, i);
    }
    return bp_comm_fail(&b->failure, BP_ERR_TIMEOUT,
                        "rank %u waited %.3g s in bp_comm_create: %s%s",
                        bp_shm_global_rank(b, b->rank), (double)timeout_ns / 1e9,
                        late.n    ? late.text
                        : *remote ? remote
                                  : "all ranks are there, but the library of their devices does "
                                    "not join them",
                        late.n || *remote ? " came, but does not go on" : "");
}

void bp_native_report_timeout(struct bp_shm_rank *b, const struct bp_native_work *f)
{
    if (f->sequence)
        bp_seqlog_report_timeout(b, f->sequence, f->signature, f->count, f->timeout_ns);
    else bp_p2plog_report_timeout(b, f->parts, f->n_part, f->signature, f->count, f->timeout_ns);
}
