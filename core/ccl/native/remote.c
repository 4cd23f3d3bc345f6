/* SPDX-License-Identifier: Apache-2.0 */
/* remote.c: what a rank of a native communicator says to those on other hosts, by the store, and
 * what they say, compared; and which of their ranks is at fault when a native call cannot end, or
 * when ranks are not joined by their library. */
#include "native.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { READS = 4 }; /* words of others, in one look */

static void remote_key_of(const struct bp_far *far, uint32_t rank, char key[BP_STORE_KEY_MAX])
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
    owes = (far->changed != far->said || far->left) && !far->h->gone &&
           !bp_comm_has_failed(&far->b->failure);
    pthread_mutex_unlock(&far->lock);
    return owes;
}

static size_t remote_size_of(const struct bp_far_word *word)
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
    memcpy(&far->copy, &far->own, remote_size_of(&far->own));
    pthread_mutex_unlock(&far->lock);
    remote_key_of(far, far->comm->rank, key);
    if (bp_store_set(far->h->store, key, &far->copy, remote_size_of(&far->copy)) == BP_ERR_PEER)
        far->h->gone = true;
}

struct bp_far_word *bp_far_hear(struct bp_far *far, uint32_t rank)
{
    struct bp_far_word *word = &far->other;
    char key[BP_STORE_KEY_MAX];
    enum bp_status status;
    uint64_t size;

    if (far->h->gone) return NULL;
    remote_key_of(far, rank, key);
    status = bp_store_get(far->h->store, key, 0, word, sizeof *word, &size);
    if (status == BP_ERR_PEER) far->h->gone = true;
    if (status || size < offsetof(struct bp_far_word, pair) || word->n_pair > BP_FAR_PAIRS ||
        size != remote_size_of(word))
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
        bp_comm_fail(&far->b->failure, BP_ERR_INVALID,
                     "before sequence %" PRIu64 " rank %u and rank %u, on another host, made "
                     "different calls: all ranks make the same calls in the same order",
                     number, far->comm->rank, rank);
    else
        bp_comm_fail(&far->b->failure, BP_ERR_INVALID,
                     "sequence %" PRIu64 ": rank %u calls %s, but rank %u calls %s, on another "
                     "host: all ranks make the same calls in the same order",
                     number, far->comm->rank, bp_what_text(x.what, x.count, own, sizeof own), rank,
                     bp_what_text(y.what, y.count, other, sizeof other));
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
        if (bp_comm_has_failed(&far->b->failure) || !bp_far_hear(far, rank)) continue;
        compare_posts(far, rank);
        if (!bp_comm_has_failed(&far->b->failure)) compare_parts(far, rank);
    }
}

static const uint64_t grace_ns = 500000000; /* who ended all it was in may go before others end */

/* "rank 2 (process 17, on another host), whose last call was ..."; word: what it says, or NULL. */
static const char *rank_text(const struct bp_far *far, uint32_t rank,
                             const struct bp_far_word *word, char *text, size_t size)
{
    uint64_t posted = word ? word->posted : 0;
    const struct bp_far_post *post = word ? &word->post[posted % BP_FAR_POSTS] : NULL;
    char call[200];
    int used = snprintf(text, size, "rank %u (process %d, on another host), ", rank,
                        far->h->at[rank].pid);

    if (!posted) snprintf(text + used, size - (size_t)used, "which has made no call");
    else
        snprintf(text + used, size - (size_t)used, "whose last call was %s, sequence %" PRIu64,
                 bp_what_text(post->what, post->count, call, sizeof call), posted);
    return text;
}

static bool is_with(const struct bp_flight *f, uint32_t rank)
{
    for (uint32_t i = 0; i < f->n_given; i++)
        if (f->given[i].far && f->given[i].rank == rank) return true;
    return false;
}

/* A rank that has died, and that the call still needs; not before its grace is over. */
static bool is_missed(struct bp_far *far, const struct bp_flight *oldest, uint32_t rank)
{
    const struct bp_far_word *word;
    uint64_t now = bp_clock_ns();

    if (!far->dead_since[rank] || bp_hosts_is_here(far->h, rank)) return false;
    if (!oldest) return true;
    if (!oldest->began || now - oldest->began < grace_ns || now - far->dead_since[rank] < grace_ns)
        return false;
    if (!oldest->sequence) return is_with(oldest, rank);
    word = bp_far_hear(far, rank);
    return !word || word->settled < oldest->sequence;
}

static enum bp_status fail_missed(struct bp_far *far, const struct bp_flight *oldest, uint32_t rank)
{
    char who[400], own[200] = "bp_comm_create";

    rank_text(far, rank, bp_far_hear(far, rank), who, sizeof who);
    if (oldest) bp_what_text(oldest->what, oldest->count, own, sizeof own);
    return bp_comm_fail(&far->b->failure, BP_ERR_PEER, "%s, has died; rank %u missed it in %s", who,
                        far->comm->rank, own);
}

/* Others cannot be asked any more, and what a call of all ranks waits for is not known. */
static enum bp_status look_at_store(struct bp_far *far, const struct bp_flight *oldest)
{
    uint64_t now = bp_clock_ns();
    char own[200];

    if (!far->gone_since) far->gone_since = now;
    if (!oldest || !oldest->sequence || !oldest->began || now - oldest->began < 2 * grace_ns ||
        now - far->gone_since < 2 * grace_ns)
        return BP_OK;
    return bp_comm_fail(&far->b->failure, BP_ERR_PEER,
                        "the store by which hosts hear of each other is gone: the process that "
                        "served it has ended, or cannot be reached; rank %u missed it in %s",
                        far->comm->rank,
                        bp_what_text(oldest->what, oldest->count, own, sizeof own));
}

/* Who died stands under one key, one after the other, since the store does the wills. */
enum bp_status bp_far_look_for_dead(struct bp_far *far, const struct bp_flight *oldest)
{
    uint32_t dead[2 * BP_BOARD_RANKS];
    char key[BP_STORE_KEY_MAX];
    enum bp_status status;
    uint64_t size = 0;

    if (far->h->gone) return look_at_store(far, oldest);
    bp_store_key(key, far->comm->name, "died", 0);
    status = bp_store_get(far->h->store, key, 0, dead, sizeof dead, &size);
    if (status == BP_ERR_PEER) far->h->gone = true;
    if (status) return BP_OK;
    for (size_t i = 0; i < size / sizeof *dead && i < sizeof dead / sizeof *dead; i++)
        if (dead[i] < far->h->size && !far->dead_since[dead[i]])
            far->dead_since[dead[i]] = bp_clock_ns();
    for (uint32_t i = 0; i < far->h->size; i++)
        if (is_missed(far, oldest, i)) return fail_missed(far, oldest, i);
    return BP_OK;
}

/* Whether a rank has not given its side of what the call waits for. */
static bool is_owing(const struct bp_far *far, const struct bp_flight *f, uint32_t rank,
                     struct bp_far_word *word)
{
    const struct bp_far_pair *p = word ? bp_far_pair_with(word, far->comm->rank) : NULL;

    for (uint32_t i = 0; i < f->n_given; i++) {
        const struct bp_board_given *g = &f->given[i];
        uint64_t done = !p ? 0 : g->send ? p->took : p->gave;
        if (g->far && g->rank == rank && g->number && done < g->number) return true;
    }
    return false;
}

/* came: who has begun the call, too, and has not ended it. */
static bool is_behind(const struct bp_far *far, const struct bp_flight *f, uint32_t rank,
                      struct bp_far_word *word, bool came)
{
    if (f->sequence) return !word || (came ? word->settled : word->posted) < f->sequence;
    return came ? is_with(f, rank) : is_owing(far, f, rank, word);
}

static uint32_t name_behind(struct bp_far *far, const struct bp_flight *f, bool came, char *list,
                            size_t size)
{
    uint32_t n = 0;
    size_t used = 0;

    for (uint32_t i = 0; i < far->h->size && used + 400 < size; i++) {
        struct bp_far_word *word;
        char who[400];
        if (bp_hosts_is_here(far->h, i)) continue;
        word = bp_far_hear(far, i);
        if (!is_behind(far, f, i, word, came)) continue;
        used += (size_t)snprintf(list + used, size - used, "%s%s", n++ ? "; " : "",
                                 rank_text(far, i, word, who, sizeof who));
    }
    return n;
}

void bp_far_late(struct bp_far *far, const struct bp_flight *f)
{
    char list[1200] = "";
    const char *why = f->sequence ? "did not come" : "did not";

    if (!far->h->gone && !name_behind(far, f, false, list, sizeof list)) {
        why = "came, but does not go on";
        name_behind(far, f, true, list, sizeof list);
    }
    if (bp_comm_has_failed(&far->b->failure)) return;
    if (*list) bp_board_late_by(far->b, f->what, f->count, f->timeout_ns, list, why);
    else bp_flight_late(far->b, f);
}

void bp_far_say_joins(struct bp_far *far)
{
    uint32_t joins = atomic_load(&far->b->me->joins);
    char key[BP_STORE_KEY_MAX];

    bp_store_key(key, far->comm->name, "joins", far->comm->rank);
    bp_store_set(far->h->store, key, &joins, sizeof joins);
}

void bp_far_find_stuck(struct bp_far *far, char *text, size_t size)
{
    size_t used = 0;

    *text = 0;
    for (uint32_t i = 0; i < far->h->size && used + 400 < size; i++) {
        uint32_t joins = 0;
        char key[BP_STORE_KEY_MAX], who[400];
        uint64_t unused;
        if (bp_hosts_is_here(far->h, i)) continue;
        bp_store_key(key, far->comm->name, "joins", i);
        if (bp_store_get(far->h->store, key, 0, &joins, sizeof joins, &unused)) joins = 0;
        if (joins == far->joins[i] && joins < BP_BOARD_JOINED)
            used += (size_t)snprintf(text + used, size - used, "%s%s", used ? "; " : "",
                                     rank_text(far, i, NULL, who, sizeof who));
        far->joins[i] = joins;
    }
}

void bp_far_look(struct bp_far *far, const struct bp_flight *oldest)
{
    uint64_t now = bp_clock_ns();

    if (now < far->next || bp_comm_has_failed(&far->b->failure)) return;
    far->next = now + BP_MEET_LOOK_NS;
    if (bp_hosts_hear(far->h)) return;
    if (!oldest && !bp_far_owes(far)) return;
    if (!far->h->gone) bp_far_say(far);
    if (oldest && bp_far_look_for_dead(far, oldest)) return;
    if (far->left && !oldest) far->left--;
    compare_some(far);
}
