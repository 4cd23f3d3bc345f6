/* SPDX-License-Identifier: Apache-2.0 */
/* net_failure.c: the failure of a communicator that is on several hosts. The first one is kept in
 * the store, and each host's board gets it from there: by who waits on that host, or fails later.
 *
 * Who is late is best known on its own host. So a rank whose time is up asks, in the store, and
 * gives the others a moment to answer before it names whom it has waited for. */
#include "net_comm.h"

#include <inttypes.h>
#include <stdio.h>

static const uint64_t watch_ns = 100000000;  /* between two looks at the store */
static const uint64_t leader_ns = 400000000; /* a moment, of leaders */
static const uint64_t other_ns = 800000000;  /* of others, which lets leaders come first */
static const uint64_t local_ns = 1200000000; /* for a leader to say who is late elsewhere */
static const uint64_t lost_ns = 500000000;   /* as others of that host may say more */

/* A store that is gone is not asked again. */
static bool net_failure_get(struct bp_hosts *h, const char *what, void *value, uint64_t bytes)
{
    enum bp_status status = h->gone ? BP_ERR_PEER
                                    : bp_fault_get(h->store, h->name, what, 0, value, bytes);

    if (status == BP_ERR_PEER) h->gone = true;
    return status == BP_OK;
}

static void net_failure_share(void *ctx, uint32_t *status, char *text, size_t size)
{
    struct bp_hosts *h = ctx;

    if (!h->gone && !bp_fault_share(h->store, h->name, status, text, size)) h->gone = true;
}

/* Somebody's time is up in this call or a later one: who is missing here is named now. */
static enum bp_status answer_ask(struct bp_hosts *h)
{
    uint64_t number;

    if (h->waits || !bp_board_is_held_up(h->board)) return BP_OK;
    if (!net_failure_get(h, "asked", &number, sizeof number) || number < h->number) return BP_OK;
    return bp_board_late(h->board, BP_BOARD_ANY);
}

/* Ranks of this host have all made the same call; so have those of the other. What it says may be
 * of a call in which this rank did not wait for it. */
static enum bp_status fail_odd(struct bp_hosts *h, const struct bp_hosts_head *head, uint32_t rank)
{
    uint64_t number = head->what >> 32;
    const struct bp_hosts_head *own = &h->past[number % BP_HOSTS_PAST];
    char mine[200], other[200];

    if (own->what >> 32 != number) own = &h->past[h->number % BP_HOSTS_PAST];
    return bp_comm_fail(
        &h->board->failure, BP_ERR_INVALID,
        "sequence %" PRIu64 ": rank %u calls %s, but rank %u calls %s, on another "
        "host, its sequence %" PRIu64 ": all ranks make the same calls in the same order",
        own->what >> 32, h->rank, bp_what_text(own->what, own->count, mine, sizeof mine), rank,
        bp_what_text(head->what, head->count, other, sizeof other), number);
}

enum bp_status bp_hosts_compare_head(struct bp_hosts *h, uint32_t rank,
                                     const struct bp_hosts_head *head)
{
    bool same = head->what == h->own.what && head->count == h->own.count;

    return same ? BP_OK : fail_odd(h, head, rank);
}

enum bp_status bp_hosts_hear(struct bp_hosts *h)
{
    uint64_t now = bp_clock_ns();
    struct bp_fault f;

    if (now - atomic_load(&h->watched) < watch_ns || h->gone) return BP_OK;
    atomic_store(&h->watched, now);
    if (net_failure_get(h, "failed", &f, sizeof f))
        return bp_comm_fail(&h->board->failure, bp_status_heard(f.status), "%.1499s", f.text);
    return BP_OK;
}

/* Two may wait for each other, in calls in which only the other would say something: who waits for
 * long says in the store for which call, and compares. */
static enum bp_status compare_waits(struct bp_hosts *h)
{
    struct bp_hosts_head other;
    char word[20], key[BP_STORE_KEY_MAX];

    snprintf(word, sizeof word, "call/%u", h->rank);
    bp_fault_key(h->name, key, word);
    if (h->told != h->number && !h->gone && !bp_store_set(h->store, key, &h->own, sizeof h->own))
        h->told = h->number;
    for (uint32_t i = 0; i < h->n_op; i++) {
        uint32_t rank = h->ops[i]->rank;
        if (!h->ops[i]->recv || h->ops[i]->net.done) continue;
        snprintf(word, sizeof word, "call/%u", rank);
        if (net_failure_get(h, word, &other, sizeof other) && other.what >> 32 == h->number)
            TRY(bp_hosts_compare_head(h, rank, &other));
    }
    return BP_OK;
}

enum bp_status bp_hosts_watch(struct bp_hosts *h)
{
    uint64_t before = atomic_load(&h->watched);

    TRY(bp_hosts_hear(h));
    if (atomic_load(&h->watched) == before) return BP_OK;
    return h->little && h->waits ? compare_waits(h) : answer_ask(h);
}

static const char *own_text(const struct bp_hosts *h, char *text, size_t size)
{
    char what[200];

    if (h->pair && h->made) return bp_pair_text(h->pair, h->pair->root, text, size);
    if (!h->made) snprintf(text, size, "bp_comm_create");
    else
        snprintf(text, size, "%s, sequence %" PRIu64,
                 bp_what_text(h->own.what, h->own.count, what, sizeof what), h->number);
    return text;
}

static void rank_text(const struct bp_hosts *h, uint32_t rank, char *text, size_t size)
{
    const struct bp_hosts_rank *r = &h->at[rank];
    char what[200];
    int used = snprintf(text, size, "rank %u (process %d, on another host)", rank, r->pid);

    if (r->said_number)
        snprintf(text + used, size - (size_t)used, ", whose last call was %s, sequence %" PRIu64,
                 bp_what_text(r->said.what, r->said.count, what, sizeof what), r->said_number);
}

/* Those whose messages have not come, each once. */
static uint32_t list_missing(const struct bp_hosts *h, char *list, size_t size)
{
    uint32_t named = 0;
    size_t used = 0;

    for (uint32_t i = 0; i < h->size && used + 400 < size; i++) {
        bool missing = false;
        char who[400];
        for (uint32_t j = 0; j < h->n_op; j++)
            missing = missing || (h->ops[j]->rank == i && !h->ops[j]->net.done);
        if (!missing) continue;
        rank_text(h, i, who, sizeof who);
        used += (size_t)snprintf(list + used, size - used, "%s%s", named++ ? "; " : "", who);
    }
    if (!named) snprintf(list, size, "the other side");
    return named;
}

/* Time is up for other hosts. */
static enum bp_status late_afar(struct bp_hosts *h, uint64_t late_ns)
{
    bool came = !h->pair && h->agreed;
    char own[250], list[1000], key[BP_STORE_KEY_MAX];
    uint64_t asked;

    bp_fault_key(h->name, key, "asked");
    if (!h->gone && (!net_failure_get(h, "asked", &asked, sizeof asked) || asked < h->number))
        bp_store_set(h->store, key, &h->number, sizeof h->number);
    if (late_ns < (bp_hosts_leads(h) ? leader_ns : other_ns)) return BP_OK;
    list_missing(h, list, sizeof list);
    return bp_comm_fail(&h->board->failure, BP_ERR_TIMEOUT, "rank %u waited %.3g s in %s: %s %s",
                        h->rank, (double)h->board->waiter.timeout_ns / 1e9,
                        own_text(h, own, sizeof own), list,
                        h->pair ? "did not"
                        : came  ? "came, but does not go on"
                                : "did not come");
}

/* Who waits for its leader, which waits for other hosts, lets it speak first. */
static enum bp_status net_failure_late(void *ctx, uint32_t of, uint64_t late_ns)
{
    struct bp_hosts *h = ctx;
    bool held_up = h->board->p2p.pair || bp_board_is_held_up(h->board);

    if (h->waits) return late_afar(h, late_ns);
    return held_up || late_ns > local_ns ? bp_board_late(h->board, of) : BP_OK;
}

static enum bp_status net_failure_look(void *ctx)
{
    return bp_hosts_watch(ctx);
}

void bp_hosts_watch_board(struct bp_hosts *h, enum bp_status (*move)(void *, bool *))
{
    h->progress = (struct bp_progress){
        .ctx = h, .move = move, .look = net_failure_look, .late = net_failure_late};
    h->board->waiter.progress = &h->progress;
    h->board->failure.ctx = h;
    h->board->failure.share = net_failure_share;
}

void bp_hosts_leave_board(struct bp_hosts *h)
{
    h->board->waiter.progress = NULL;
    h->board->failure.share = NULL;
}

enum bp_status bp_hosts_lost(struct bp_hosts *h, uint32_t rank)
{
    struct bp_hosts_rank *r = &h->at[rank];
    const char *why = h->net->peer_lost(r->peer);
    char who[400], own[250];

    if (!r->lost_ns) r->lost_ns = bp_clock_ns();
    TRY(bp_hosts_watch(h));
    if (bp_clock_ns() - r->lost_ns < lost_ns) return BP_OK;
    rank_text(h, rank, who, sizeof who);
    return bp_comm_fail(&h->board->failure, BP_ERR_PEER,
                        "%s, has died, or cannot be reached (%s); rank %u missed it in %s", who,
                        why ? why : "a message was not taken", h->rank,
                        own_text(h, own, sizeof own));
}
