/* SPDX-License-Identifier: Apache-2.0 */
/* seqlog.c: what ranks note in the shared memory of the calls, and of the parts from rank to rank,
 * that they give to their devices. Nobody waits for the others' notes: whoever comes later compares
 * with those who came before. A rank is no more than BP_BOARD_POSTS calls ahead of the last. Of
 * parts each side counts its own, and keeps what the last ones are. */
#include "native.h"

#include <inttypes.h>
#include <unistd.h>

static struct bp_board_post *post_of(const struct bp_shm_rank *b, uint32_t rank, uint64_t number)
{
    return &b->at[rank].post[number % BP_BOARD_POSTS];
}

static bool seqlog_same(const struct bp_shm_rank *b, uint32_t one, uint32_t other, uint64_t number)
{
    const struct bp_board_post *x = post_of(b, one, number), *y = post_of(b, other, number);

    return atomic_load(&x->what) == atomic_load(&y->what) &&
           atomic_load(&x->count) == atomic_load(&y->count);
}

static bool has_posted(const struct bp_shm_rank *b, uint32_t rank, uint64_t number)
{
    return atomic_load(&b->at[rank].posted) >= number;
}

static uint32_t seqlog_votes(const struct bp_shm_rank *b, uint32_t rank, uint64_t number)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < b->n; i++)
        n += has_posted(b, i, number) && seqlog_same(b, i, rank, number);
    return n;
}

static enum bp_status name_odd(struct bp_shm_rank *b, uint32_t other, uint64_t number)
{
    bool own = seqlog_votes(b, b->rank, number) < seqlog_votes(b, other, number);
    uint32_t odd = own ? b->rank : other, usual = own ? other : b->rank;
    const struct bp_board_post *x = post_of(b, odd, number), *y = post_of(b, usual, number);
    char one[200], two[200];

    return bp_comm_fail(
        &b->failure, BP_ERR_INVALID,
        "sequence %" PRIu64 ": rank %u calls %s, but rank %u calls %s: all ranks "
        "make the same calls in the same order",
        number, bp_board_number(b, odd),
        bp_what_text(atomic_load(&x->what), atomic_load(&x->count), one, sizeof one),
        bp_board_number(b, usual),
        bp_what_text(atomic_load(&y->what), atomic_load(&y->count), two, sizeof two));
}

/* The fewer are odd: the others are given a moment to come. */
static enum bp_status seqlog_mismatch(struct bp_shm_rank *b, uint32_t other, uint64_t number)
{
    uint64_t deadline = bp_deadline(50000000);

    for (uint32_t i = 0; i < b->n; i++)
        while (!has_posted(b, i, number) && bp_time_left(deadline) &&
               !bp_comm_has_failed(&b->failure))
            usleep(1000);
    return name_odd(b, other, number);
}

enum bp_status bp_board_await_posts(struct bp_shm_rank *b, uint64_t number)
{
    enum bp_status status = BP_OK;

    b->posts.needs = number;
    for (uint32_t i = 0; i < b->n && status == BP_OK; i++)
        status = bp_board_wait(b, &b->at[i].posted, number, i);
    b->posts.needs = 0;
    return status;
}

/* A post's place is free when all have made, and so compared, the call that it was for. */
enum bp_status bp_board_post(struct bp_shm_rank *b, const struct bp_collective *c,
                             uint64_t *out_number)
{
    uint64_t number = atomic_load(&b->me->posted) + 1;
    struct bp_board_post *own = post_of(b, b->rank, number);

    if (bp_comm_has_failed(&b->failure)) return bp_comm_answer(&b->failure);
    b->waiter.deadline = 0;
    b->waiter.timeout_ns = c->timeout_ns;
    if (number > BP_BOARD_POSTS) TRY(bp_board_await_posts(b, number - BP_BOARD_POSTS + 1));
    atomic_store(&own->what, bp_what(c->call, c->dtype, c->reduction, c->root));
    atomic_store(&own->count, c->count);
    bp_board_set(b, &b->me->posted, number);
    for (uint32_t i = 0; i < b->n; i++)
        if (has_posted(b, i, number) && !seqlog_same(b, i, b->rank, number))
            return seqlog_mismatch(b, i, number);
    *out_number = number;
    return BP_OK;
}

static struct bp_board_pair *pair_of(const struct bp_shm_rank *b, uint32_t rank, bool send)
{
    return send ? bp_board_pair(b->segment, b->rank, rank)
                : bp_board_pair(b->segment, rank, b->rank);
}

static uint64_t given_by(const struct bp_board_pair *p, bool send)
{
    return atomic_load(send ? &p->gave : &p->took);
}

static struct bp_board_post *said_by(struct bp_board_pair *p, bool send, uint64_t number)
{
    return &(send ? p->gives : p->takes)[number % BP_BOARD_GIVEN];
}

bool bp_board_is_met(const struct bp_shm_rank *b, const struct bp_board_given *given)
{
    return given_by(pair_of(b, given->rank, given->send), !given->send) >= given->number;
}

enum bp_status bp_part_compare(struct bp_shm_rank *b, uint32_t from, uint32_t to,
                               const struct bp_board_part *sent, const struct bp_board_part *taken)
{
    uint32_t dtype = sent->what >> 8 & 0xff, expected = taken->what >> 8 & 0xff;
    bool ragged = (sent->what & 0xff) == BP_COMM_ALL_TO_ALL_RAGGED;
    bool both = (sent->what & 0xff) == (taken->what & 0xff);

    if (sent->what == taken->what && sent->count == taken->count) return BP_OK;
    return bp_comm_fail(
        &b->failure, BP_ERR_INVALID,
        "%srank %u sends %" PRIu64 " %s%s to rank %u, which expects %" PRIu64 " %s%s",
        ragged && both ? "in all_to_all_ragged " : "", from, sent->count, bp_dtype_name(dtype),
        ragged && !both ? " in all_to_all_ragged" : "", to, taken->count, bp_dtype_name(expected),
        !ragged && !both ? " in all_to_all_ragged" : "");
}

/* What the other side says of the part of this number; false: it has not, or keeps it no more. */
static bool read_other(struct bp_board_pair *p, bool send, uint64_t number,
                       struct bp_board_part *out)
{
    struct bp_board_post *said = said_by(p, send, number);

    if (given_by(p, send) < number) return false;
    *out = (struct bp_board_part){atomic_load(&said->what), atomic_load(&said->count)};
    return given_by(p, send) < number + BP_BOARD_GIVEN - 1; /* the next may be being written */
}

struct bp_board_part bp_part_of(const struct bp_collective *c, uint64_t count)
{
    uint32_t call = c->call == BP_COMM_ALL_TO_ALL_RAGGED ? c->call : BP_COMM_SEND;

    return (struct bp_board_part){bp_what(call, c->dtype, 0, 0), count};
}

/* Each side says its own before it looks at the other's: so one of the two sees both. */
enum bp_status bp_board_give(struct bp_shm_rank *b, const struct bp_collective *c, uint32_t rank,
                             bool send, uint64_t count, struct bp_board_given *out_given)
{
    struct bp_board_part own = bp_part_of(c, count), other;
    struct bp_board_pair *p = pair_of(b, rank, send);
    uint64_t number = given_by(p, send) + 1;
    struct bp_board_post *said = said_by(p, send, number);
    uint32_t us = bp_board_number(b, b->rank), them = bp_board_number(b, rank);

    atomic_store(&said->what, own.what);
    atomic_store(&said->count, own.count);
    atomic_store(send ? &p->gave : &p->took, number);
    *out_given = (struct bp_board_given){rank, send, false, number};
    if (!read_other(p, !send, number, &other)) return BP_OK;
    return send ? bp_part_compare(b, us, them, &own, &other)
                : bp_part_compare(b, them, us, &other, &own);
}

enum bp_status bp_board_late_post(struct bp_shm_rank *b, uint64_t number, uint64_t what,
                                  uint64_t count, uint64_t timeout_ns)
{
    struct bp_names late = {.n = 0};
    const char *why = "did not come";

    for (int pass = 0; pass < 2 && !late.n; pass++) {
        if (pass) why = "came, but does not go on";
        for (uint32_t i = 0; i < b->n; i++) {
            const struct bp_board_rank *r = &b->at[i];
            if (i != b->rank && atomic_load(pass ? &r->settled : &r->posted) < number)
                bp_names_add(b, &late, i);
        }
    }
    return bp_board_late_by(b, what, count, timeout_ns, late.n ? late.text : "its device", why);
}

/* Whether one of them is with rank; unmet: and the rank has not given its side. */
static bool is_among(const struct bp_shm_rank *b, const struct bp_board_given *given, uint32_t n,
                     uint32_t rank, bool unmet)
{
    for (uint32_t i = 0; i < n; i++)
        if (!given[i].far && given[i].rank == rank && !(unmet && bp_board_is_met(b, &given[i])))
            return true;
    return false;
}

bool bp_board_is_post_due(const struct bp_shm_rank *b, uint64_t number)
{
    for (uint32_t i = 0; i < b->n; i++)
        if (atomic_load(&b->at[i].posted) < number) return true;
    return false;
}

bool bp_board_is_given_due(const struct bp_shm_rank *b, const struct bp_board_given *given,
                           uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!given[i].far && !bp_board_is_met(b, &given[i])) return true;
    return false;
}

enum bp_status bp_board_late_given(struct bp_shm_rank *b, const struct bp_board_given *given,
                                   uint32_t n, uint64_t what, uint64_t count, uint64_t timeout_ns)
{
    struct bp_names late = {.n = 0};
    const char *why = "did not";

    for (int pass = 0; pass < 2 && !late.n; pass++) {
        if (pass) why = "came, but does not go on";
        for (uint32_t i = 0; i < b->n; i++)
            if (i != b->rank && is_among(b, given, n, i, !pass)) bp_names_add(b, &late, i);
    }
    return bp_board_late_by(b, what, count, timeout_ns, late.n ? late.text : "its device", why);
}

enum bp_status bp_board_late_join(struct bp_shm_rank *b, const uint32_t *before, const char *far,
                                  uint64_t timeout_ns)
{
    struct bp_names late = {.n = 0};

    for (uint32_t i = 0; i < b->n; i++) {
        uint32_t now = atomic_load(&b->at[i].joins);
        if (i != b->rank && now == before[i] && now < BP_BOARD_JOINED) bp_names_add(b, &late, i);
    }
    return bp_comm_fail(&b->failure, BP_ERR_TIMEOUT,
                        "rank %u waited %.3g s in bp_comm_create: %s%s",
                        bp_board_number(b, b->rank), (double)timeout_ns / 1e9,
                        late.n ? late.text
                        : *far ? far
                               : "all ranks are there, but the library of their devices does not "
                                 "join them",
                        late.n || *far ? " came, but does not go on" : "");
}

void bp_flight_late(struct bp_shm_rank *b, const struct bp_flight *f)
{
    if (f->sequence) bp_board_late_post(b, f->sequence, f->what, f->count, f->timeout_ns);
    else bp_board_late_given(b, f->given, f->n_given, f->what, f->count, f->timeout_ns);
}
