/* SPDX-License-Identifier: Apache-2.0 */
/* p2plog.c: what two ranks say of the parts that their devices send each other: each side counts
 * them, and keeps what the last ones are. Whoever gives its side later compares. */
#include "../collective.h"

#include <inttypes.h>

static struct bp_board_pair *pair_of(const struct bp_board *b, uint32_t rank, bool send)
{
    return send ? bp_board_pair(b, b->rank, rank) : bp_board_pair(b, rank, b->rank);
}

static uint64_t given_by(const struct bp_board_pair *p, bool send)
{
    return atomic_load(send ? &p->gave : &p->took);
}

static struct bp_board_post *said_by(struct bp_board_pair *p, bool send, uint64_t number)
{
    return &(send ? p->gives : p->takes)[number % BP_BOARD_GIVEN];
}

bool bp_board_is_met(const struct bp_board *b, const struct bp_board_given *given)
{
    return given_by(pair_of(b, given->rank, given->send), !given->send) >= given->number;
}

enum bp_status bp_part_compare(struct bp_board *b, uint32_t from, uint32_t to,
                               const struct bp_board_part *sent, const struct bp_board_part *taken)
{
    uint32_t dtype = sent->what >> 8 & 0xff, expected = taken->what >> 8 & 0xff;
    bool ragged = (sent->what & 0xff) == BP_COMM_ALL_TO_ALL_RAGGED;
    bool both = (sent->what & 0xff) == (taken->what & 0xff);

    if (sent->what == taken->what && sent->count == taken->count) return BP_OK;
    return bp_board_fail(b, BP_ERR_INVALID,
                         "%srank %u sends %" PRIu64 " %s%s to rank %u, which expects %" PRIu64
                         " %s%s",
                         ragged && both ? "in all_to_all_ragged " : "", from, sent->count,
                         bp_dtype_name(dtype), ragged && !both ? " in all_to_all_ragged" : "", to,
                         taken->count, bp_dtype_name(expected),
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
enum bp_status bp_board_give(struct bp_board *b, const struct bp_collective *c, uint32_t rank,
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
