/* SPDX-License-Identifier: Apache-2.0 */
/* seqlog.c: what ranks say of calls that they give to their devices. Nobody waits for the others'
 * word: whoever comes later compares with those who came before, and a rank is no more than
 * BP_BOARD_POSTS calls ahead of the last. */
#include "../collective.h"

#include <inttypes.h>
#include <unistd.h>

static struct bp_board_post *post_of(const struct bp_board *b, uint32_t rank, uint64_t number)
{
    return &b->at[rank].post[number % BP_BOARD_POSTS];
}

static bool same(const struct bp_board *b, uint32_t one, uint32_t other, uint64_t number)
{
    const struct bp_board_post *x = post_of(b, one, number), *y = post_of(b, other, number);

    return atomic_load(&x->what) == atomic_load(&y->what) &&
           atomic_load(&x->count) == atomic_load(&y->count);
}

static bool has_posted(const struct bp_board *b, uint32_t rank, uint64_t number)
{
    return atomic_load(&b->at[rank].posted) >= number;
}

static uint32_t votes(const struct bp_board *b, uint32_t rank, uint64_t number)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < b->n; i++) n += has_posted(b, i, number) && same(b, i, rank, number);
    return n;
}

static enum bp_status name_odd(struct bp_board *b, uint32_t other, uint64_t number)
{
    bool own = votes(b, b->rank, number) < votes(b, other, number);
    uint32_t odd = own ? b->rank : other, usual = own ? other : b->rank;
    const struct bp_board_post *x = post_of(b, odd, number), *y = post_of(b, usual, number);
    char one[200], two[200];

    return bp_board_fail(b, BP_ERR_INVALID,
                         "sequence %" PRIu64 ": rank %u calls %s, but rank %u calls %s: all ranks "
                         "make the same calls in the same order",
                         number, bp_board_number(b, odd),
                         bp_what_text(atomic_load(&x->what), atomic_load(&x->count), one,
                                      sizeof one),
                         bp_board_number(b, usual),
                         bp_what_text(atomic_load(&y->what), atomic_load(&y->count), two,
                                      sizeof two));
}

/* The fewer are odd: the others are given a moment to come. */
static enum bp_status mismatch(struct bp_board *b, uint32_t other, uint64_t number)
{
    uint64_t deadline = bp_deadline(50000000);

    for (uint32_t i = 0; i < b->n; i++)
        while (!has_posted(b, i, number) && bp_time_left(deadline) && !bp_board_failed(b))
            usleep(1000);
    return name_odd(b, other, number);
}

enum bp_status bp_board_await_posts(struct bp_board *b, uint64_t number)
{
    enum bp_status status = BP_OK;

    b->needs = number;
    for (uint32_t i = 0; i < b->n && status == BP_OK; i++)
        status = bp_board_wait(b, &b->at[i].posted, number, i);
    b->needs = 0;
    return status;
}

/* A post's place is free when all have made, and so compared, the call that it was for. */
enum bp_status bp_board_post(struct bp_board *b, const struct bp_collective *c,
                             uint64_t *out_number)
{
    uint64_t number = atomic_load(&b->me->posted) + 1;
    struct bp_board_post *own = post_of(b, b->rank, number);

    if (bp_board_failed(b)) return bp_board_answer(b);
    b->deadline = 0;
    b->timeout_ns = c->timeout_ns;
    if (number > BP_BOARD_POSTS) TRY(bp_board_await_posts(b, number - BP_BOARD_POSTS + 1));
    atomic_store(&own->what, bp_what(c->call, c->dtype, c->reduction, c->root));
    atomic_store(&own->count, c->count);
    bp_board_set(b, &b->me->posted, number);
    for (uint32_t i = 0; i < b->n; i++)
        if (has_posted(b, i, number) && !same(b, i, b->rank, number))
            return mismatch(b, i, number);
    *out_number = number;
    return BP_OK;
}
