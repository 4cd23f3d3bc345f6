/* SPDX-License-Identifier: Apache-2.0 */
/* remote_failure.c: whose fault it is, among the ranks of other hosts, that a native call cannot
 * end, or that ranks are not joined by their library. */
#include "remote.h"

#include <inttypes.h>
#include <stdio.h>

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
    return bp_board_fail(far->b, BP_ERR_PEER, "%s, has died; rank %u missed it in %s", who,
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
    return bp_board_fail(far->b, BP_ERR_PEER,
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
    if (bp_board_failed(far->b)) return;
    if (*list) bp_board_late_by(far->b, f->what, f->count, f->timeout_ns, list, why);
    else bp_watch_late(far->b, f);
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
