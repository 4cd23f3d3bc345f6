/* SPDX-License-Identifier: Apache-2.0 */
/* remote.c: what a rank of a native communicator says to those on other hosts, by the store, and
 * what they say, compared. */
#include "remote.h"

#include <inttypes.h>
#include <stdlib.h>

enum { READS = 4 }; /* words of others, in one look */

static void key_of(const struct bp_far *far, uint32_t rank, char key[BP_STORE_KEY_MAX])
{
    bp_store_key(key, far->comm->name, "word", rank);
}

static enum bp_status leave_will(struct bp_far *far, bool any)
{
    char key[BP_STORE_KEY_MAX];

    bp_store_key(key, far->comm->name, "died", 0);
    return bp_store_will(far->h->store, key, &far->comm->rank, any ? sizeof far->comm->rank : 0);
}

enum bp_status bp_far_create(struct bp_comm *comm, struct bp_far **out_far)
{
    struct bp_far *far = calloc(1, sizeof *far);
    enum bp_status status;

    if (!far) return bp_error(BP_ERR_MEMORY, "bp_comm_create: no memory");
    far->comm = comm;
    far->h = comm->hosts;
    far->b = comm->board;
    pthread_mutex_init(&far->lock, NULL);
    far->dead_since = calloc(comm->size, sizeof *far->dead_since);
    far->joins = calloc(comm->size, sizeof *far->joins);
    status = far->dead_since && far->joins ? leave_will(far, true)
                                           : bp_error(BP_ERR_MEMORY, "bp_comm_create: no memory");
    if (status) bp_far_destroy(far);
    else *out_far = far;
    return status;
}

void bp_far_destroy(struct bp_far *far)
{
    if (!far) return;
    if (!far->h->gone) leave_will(far, false);
    pthread_mutex_destroy(&far->lock);
    free(far->dead_since);
    free(far->joins);
    free(far);
}

static struct bp_far_post *post_of(struct bp_far_word *word, uint64_t number)
{
    return &word->post[number % BP_FAR_POSTS];
}

void bp_far_post(struct bp_far *far, const struct bp_collective *c, uint64_t number)
{
    uint64_t what = bp_what(c->call, c->dtype, c->reduction, c->root), sum;

    pthread_mutex_lock(&far->lock);
    sum = post_of(&far->own, number - 1)->sum;
    sum = (sum ^ what) * 0x9e3779b97f4a7c15;
    sum = (sum ^ sum >> 32 ^ c->count) * 0x9e3779b97f4a7c15;
    *post_of(&far->own, number) = (struct bp_far_post){what, c->count, sum};
    far->own.posted = number;
    far->changed++;
    pthread_mutex_unlock(&far->lock);
}

struct bp_far_pair *bp_far_pair_with(struct bp_far_word *word, uint32_t rank)
{
    for (uint32_t i = 0; i < word->n_pair; i++)
        if (word->pair[i].rank == rank) return &word->pair[i];
    return NULL;
}

static struct bp_far_pair *make_pair(struct bp_far_word *word, uint32_t rank)
{
    struct bp_far_pair *p = bp_far_pair_with(word, rank);

    if (p || word->n_pair == BP_FAR_PAIRS) return p;
    p = &word->pair[word->n_pair++];
    p->rank = rank;
    return p;
}

struct bp_board_given bp_far_give(struct bp_far *far, const struct bp_collective *c, uint32_t rank,
                                  bool send, uint64_t count)
{
    struct bp_board_given given = {.rank = rank, .send = send, .far = true};
    struct bp_far_pair *p;

    pthread_mutex_lock(&far->lock);
    p = make_pair(&far->own, rank);
    if (p) {
        given.number = send ? ++p->gave : ++p->took;
        (send ? p->gives : p->takes)[given.number % BP_FAR_PARTS] = bp_part_of(c, count);
        far->changed++;
    }
    pthread_mutex_unlock(&far->lock);
    return given;
}

bool bp_far_owes(struct bp_far *far)
{
    bool owes;

    pthread_mutex_lock(&far->lock);
    owes = (far->changed != far->said || far->left) && !far->h->gone && !bp_board_failed(far->b);
    pthread_mutex_unlock(&far->lock);
    return owes;
}

static size_t size_of(const struct bp_far_word *word)
{
    return offsetof(struct bp_far_word, pair) + word->n_pair * sizeof *word->pair;
}

void bp_far_say(struct bp_far *far)
{
    char key[BP_STORE_KEY_MAX];

    pthread_mutex_lock(&far->lock);
    if (far->said != far->changed) far->left = 2 + far->h->size / READS;
    far->own.settled = atomic_load(&far->b->me->settled);
    far->said = far->changed;
    memcpy(&far->copy, &far->own, size_of(&far->own));
    pthread_mutex_unlock(&far->lock);
    key_of(far, far->comm->rank, key);
    if (bp_store_set(far->h->store, key, &far->copy, size_of(&far->copy)) == BP_ERR_PEER)
        far->h->gone = true;
}

struct bp_far_word *bp_far_hear(struct bp_far *far, uint32_t rank)
{
    struct bp_far_word *word = &far->other;
    char key[BP_STORE_KEY_MAX];
    enum bp_status status;
    uint64_t size;

    if (far->h->gone) return NULL;
    key_of(far, rank, key);
    status = bp_store_get(far->h->store, key, 0, word, sizeof *word, &size);
    if (status == BP_ERR_PEER) far->h->gone = true;
    if (status || size < offsetof(struct bp_far_word, pair) || word->n_pair > BP_FAR_PAIRS ||
        size != size_of(word))
        return NULL;
    return word;
}

/* The first call that both keep and that differs; 0: there is none. Under the lock. */
static uint64_t find_odd(struct bp_far *far)
{
    uint64_t us = far->own.posted, them = far->other.posted, most = us > them ? us : them;
    uint64_t least = us < them ? us : them;

    for (uint64_t i = most < BP_FAR_POSTS ? 1 : most - BP_FAR_POSTS + 1; i <= least; i++) {
        const struct bp_far_post *x = post_of(&far->own, i), *y = post_of(&far->other, i);
        if (x->what != y->what || x->count != y->count || x->sum != y->sum) return i;
    }
    return 0;
}

static void compare_posts(struct bp_far *far, uint32_t rank)
{
    struct bp_far_post x = {0}, y = {0};
    char own[200], other[200];
    uint64_t number;

    pthread_mutex_lock(&far->lock);
    number = find_odd(far);
    x = *post_of(&far->own, number);
    y = *post_of(&far->other, number);
    pthread_mutex_unlock(&far->lock);
    if (!number) return;
    if (x.what == y.what && x.count == y.count)
        bp_board_fail(far->b, BP_ERR_INVALID,
                      "before sequence %" PRIu64 " rank %u and rank %u, on another host, made "
                      "different calls: all ranks make the same calls in the same order",
                      number, far->comm->rank, rank);
    else
        bp_board_fail(far->b, BP_ERR_INVALID,
                      "sequence %" PRIu64 ": rank %u calls %s, but rank %u calls %s, on another "
                      "host: all ranks make the same calls in the same order",
                      number, far->comm->rank, bp_what_text(x.what, x.count, own, sizeof own),
                      rank, bp_what_text(y.what, y.count, other, sizeof other));
}

/* Parts that one side gave and the other took, as far as both keep them: the first that differs.
 * Under the lock. */
static bool find_odd_part(uint64_t gave, const struct bp_board_part *gives, uint64_t took,
                          const struct bp_board_part *takes, struct bp_board_part out[2])
{
    uint64_t most = gave > took ? gave : took, least = gave < took ? gave : took;

    for (uint64_t i = most < BP_FAR_PARTS ? 1 : most - BP_FAR_PARTS + 1; i <= least; i++) {
        out[0] = gives[i % BP_FAR_PARTS];
        out[1] = takes[i % BP_FAR_PARTS];
        if (out[0].what != out[1].what || out[0].count != out[1].count) return true;
    }
    return false;
}

static void compare_parts(struct bp_far *far, uint32_t rank)
{
    uint32_t us = far->comm->rank;
    const struct bp_far_pair *x, *y = bp_far_pair_with(&far->other, us);
    struct bp_board_part there[2], back[2];
    bool odd_there = false, odd_back = false;

    pthread_mutex_lock(&far->lock);
    x = bp_far_pair_with(&far->own, rank);
    if (x && y) {
        odd_there = find_odd_part(x->gave, x->gives, y->took, y->takes, there);
        odd_back = find_odd_part(y->gave, y->gives, x->took, x->takes, back);
    }
    pthread_mutex_unlock(&far->lock);
    if (odd_there) bp_part_compare(far->b, us, rank, &there[0], &there[1]);
    else if (odd_back) bp_part_compare(far->b, rank, us, &back[0], &back[1]);
}

/* Others' words by turns, some in each look. */
static void compare_some(struct bp_far *far)
{
    for (uint32_t i = 0, read = 0; i < far->h->size && read < READS; i++) {
        uint32_t rank = far->turn++ % far->h->size;
        if (bp_hosts_is_here(far->h, rank)) continue;
        read++;
        if (bp_board_failed(far->b) || !bp_far_hear(far, rank)) continue;
        compare_posts(far, rank);
        if (!bp_board_failed(far->b)) compare_parts(far, rank);
    }
}

void bp_far_look(struct bp_far *far, const struct bp_flight *oldest)
{
    uint64_t now = bp_clock_ns();

    if (now < far->next || bp_board_failed(far->b)) return;
    far->next = now + BP_MEET_LOOK_NS;
    if (bp_hosts_hear(far->h)) return;
    if (!oldest && !bp_far_owes(far)) return;
    if (!far->h->gone) bp_far_say(far);
    if (oldest && bp_far_look_for_dead(far, oldest)) return;
    if (far->left && !oldest) far->left--;
    compare_some(far);
}
