/* SPDX-License-Identifier: Apache-2.0 */
/* net_failure.c: shares the failure of a communicator between hosts. The store keeps the first
 * failure. Each host copies it to its shared memory: a rank of the host does so when it waits, or
 * when it fails later.
 *
 * Which rank is late is known best on its own host. A rank that times out therefore puts a request
 * into the store, and waits a moment for a host to name the late rank. Otherwise it names the rank
 * that it waited for. */
#include "net_comm.h"

#include <inttypes.h>
#include <stdio.h>

static const uint64_t watch_ns = 100000000;  /* between two polls of the store */
static const uint64_t leader_ns = 400000000; /* a leader waits this long for other reports */
static const uint64_t other_ns = 800000000;  /* other ranks: leaders report first */
static const uint64_t local_ns = 1200000000; /* for a leader to report late remote ranks */
static const uint64_t lost_ns = 500000000;   /* for ranks of a lost host to report the cause */

/* Reads a value of the communicator from the store. Once the store is lost, it is not read
 * again. */
static bool net_failure_get(struct bp_net_comm *h, const char *what, void *value, uint64_t bytes)
{
    enum bp_status status = h->store_gone
                                ? BP_ERR_PEER
                                : bp_store_comm_get(h->store, h->name, what, 0, value, bytes);

    if (status == BP_ERR_PEER) h->store_gone = true;
    return status == BP_OK;
}

static void net_failure_publish(void *ctx, uint32_t *status, char *text, size_t size)
{
    struct bp_net_comm *h = ctx;

    if (!h->store_gone && !bp_store_failure_publish(h->store, h->name, status, text, size))
        h->store_gone = true;
}

/* If a rank of another host has timed out in this call or a later one, reports the ranks that are
 * missing on this host. */
static enum bp_status report_if_requested(struct bp_net_comm *h)
{
    uint64_t number;

    if (h->waits_remote || !bp_shm_has_missing_rank(h->shm)) return BP_OK;
    if (!net_failure_get(h, "asked", &number, sizeof number) || number < h->number) return BP_OK;
    return bp_shm_report_timeout(h->shm, BP_RANK_ANY);
}

/* Reports calls that differ. The ranks of this host have all made the same call, and so have those
 * of the other host, so one rank of each is named. The header may belong to an earlier call, in
 * which this rank did not wait for the other one; then that call is taken from the history. */
static enum bp_status report_mismatch(struct bp_net_comm *h, const struct bp_net_header *header,
                                      uint32_t rank)
{
    uint64_t number = header->signature >> 32;
    const struct bp_net_header *own = &h->history[number % BP_NET_HISTORY];
    char mine[200], other[200];

    if (own->signature >> 32 != number) own = &h->history[h->number % BP_NET_HISTORY];
    return bp_comm_fail(
        &h->shm->failure, BP_ERR_INVALID,
        "sequence %" PRIu64 ": rank %u calls %s, but rank %u calls %s, on another "
        "host, its sequence %" PRIu64 ": all ranks make the same calls in the same order",
        own->signature >> 32, h->rank,
        bp_signature_text(own->signature, own->count, mine, sizeof mine), rank,
        bp_signature_text(header->signature, header->count, other, sizeof other), number);
}

enum bp_status bp_net_header_check(struct bp_net_comm *h, uint32_t rank,
                                   const struct bp_net_header *header)
{
    bool same = header->signature == h->own.signature && header->count == h->own.count;

    return same ? BP_OK : report_mismatch(h, header, rank);
}

enum bp_status bp_net_failure_poll(struct bp_net_comm *h)
{
    uint64_t now = bp_clock_ns();
    struct bp_store_failure f;

    if (now - atomic_load(&h->polled_ns) < watch_ns || h->store_gone) return BP_OK;
    atomic_store(&h->polled_ns, now);
    if (net_failure_get(h, "failed", &f, sizeof f))
        return bp_comm_fail(&h->shm->failure, bp_status_of_number(f.status), "%.1499s", f.text);
    return BP_OK;
}

/* Two ranks may wait for each other in different calls, each for a message that the other one's
 * call does not send. A rank that waits long therefore publishes its call in the store, and
 * compares it with the calls of the ranks that it waits for. */
static enum bp_status compare_waits(struct bp_net_comm *h)
{
    struct bp_net_header other;
    char word[20], key[BP_STORE_KEY_MAX];

    snprintf(word, sizeof word, "call/%u", h->rank);
    bp_store_comm_key(h->name, key, word);
    if (h->published != h->number && !h->store_gone &&
        !bp_store_set(h->store, key, &h->own, sizeof h->own))
        h->published = h->number;
    for (uint32_t i = 0; i < h->n_request; i++) {
        uint32_t rank = h->requests[i]->rank;
        if (!h->requests[i]->recv || h->requests[i]->net.done) continue;
        snprintf(word, sizeof word, "call/%u", rank);
        if (net_failure_get(h, word, &other, sizeof other) && other.signature >> 32 == h->number)
            TRY(bp_net_header_check(h, rank, &other));
    }
    return BP_OK;
}

enum bp_status bp_net_wait_poll(struct bp_net_comm *h)
{
    uint64_t before = atomic_load(&h->polled_ns);

    TRY(bp_net_failure_poll(h));
    if (atomic_load(&h->polled_ns) == before) return BP_OK;
    return h->eager && h->waits_remote ? compare_waits(h) : report_if_requested(h);
}

static const char *own_text(const struct bp_net_comm *h, char *text, size_t size)
{
    char what[200];

    if (h->waiting && h->connected) return bp_p2p_text(h->waiting, h->waiting->root, text, size);
    if (!h->connected) snprintf(text, size, "bp_comm_create");
    else
        snprintf(text, size, "%s, sequence %" PRIu64,
                 bp_signature_text(h->own.signature, h->own.count, what, sizeof what), h->number);
    return text;
}

static void rank_text(const struct bp_net_comm *h, uint32_t rank, char *text, size_t size)
{
    const struct bp_net_rank *r = &h->ranks[rank];
    char what[200];
    int used = snprintf(text, size, "rank %u (process %d, on another host)", rank, r->pid);

    if (r->last_number)
        snprintf(
            text + used, size - (size_t)used, ", whose last call was %s, sequence %" PRIu64,
            bp_signature_text(r->last_header.signature, r->last_header.count, what, sizeof what),
            r->last_number);
}

/* Lists the ranks whose messages have not arrived, each once. */
static uint32_t list_missing(const struct bp_net_comm *h, char *list, size_t size)
{
    uint32_t named = 0;
    size_t used = 0;

    for (uint32_t i = 0; i < h->size && used + 400 < size; i++) {
        bool missing = false;
        char name[400];
        for (uint32_t j = 0; j < h->n_request; j++)
            missing = missing || (h->requests[j]->rank == i && !h->requests[j]->net.done);
        if (!missing) continue;
        rank_text(h, i, name, sizeof name);
        used += (size_t)snprintf(list + used, size - used, "%s%s", named++ ? "; " : "", name);
    }
    if (!named) snprintf(list, size, "the other side");
    return named;
}

/* Handles a timeout of a wait for other hosts: requests a report, and after a moment names the
 * ranks that are missing. */
static enum bp_status report_remote_timeout(struct bp_net_comm *h, uint64_t late_ns)
{
    bool came = !h->waiting && h->agreed;
    char own[250], list[1000], key[BP_STORE_KEY_MAX];
    uint64_t requested;

    bp_store_comm_key(h->name, key, "asked");
    if (!h->store_gone &&
        (!net_failure_get(h, "asked", &requested, sizeof requested) || requested < h->number))
        bp_store_set(h->store, key, &h->number, sizeof h->number);
    if (late_ns < (bp_net_is_leader(h) ? leader_ns : other_ns)) return BP_OK;
    list_missing(h, list, sizeof list);
    return bp_comm_fail(&h->shm->failure, BP_ERR_TIMEOUT, "rank %u waited %.3g s in %s: %s %s",
                        h->rank, (double)h->shm->waiter.timeout_ns / 1e9,
                        own_text(h, own, sizeof own), list,
                        h->waiting ? "did not"
                        : came     ? "came, but does not go on"
                                   : "did not come");
}

/* Handles a timeout in shared memory. A rank that waits for its leader, while the leader waits for
 * other hosts, lets the leader report first. */
static enum bp_status net_failure_time_up(void *ctx, uint32_t of, uint64_t late_ns)
{
    struct bp_net_comm *h = ctx;
    bool held_up = h->shm->p2p.waiting || bp_shm_has_missing_rank(h->shm);

    if (h->waits_remote) return report_remote_timeout(h, late_ns);
    return held_up || late_ns > local_ns ? bp_shm_report_timeout(h->shm, of) : BP_OK;
}

static enum bp_status net_failure_poll(void *ctx)
{
    return bp_net_wait_poll(ctx);
}

void bp_net_comm_attach(struct bp_net_comm *h, enum bp_status (*progress)(void *, bool *))
{
    h->progress = (struct bp_progress){
        .ctx = h, .progress = progress, .poll = net_failure_poll, .time_up = net_failure_time_up};
    h->shm->waiter.progress = &h->progress;
    h->shm->failure.ctx = h;
    h->shm->failure.share = net_failure_publish;
}

void bp_net_comm_detach(struct bp_net_comm *h)
{
    h->shm->waiter.progress = NULL;
    h->shm->failure.share = NULL;
}

enum bp_status bp_net_report_lost(struct bp_net_comm *h, uint32_t rank)
{
    struct bp_net_rank *r = &h->ranks[rank];
    const char *why = h->net->peer_lost(r->peer);
    char name[400], own[250];

    if (!r->lost_ns) r->lost_ns = bp_clock_ns();
    TRY(bp_net_wait_poll(h));
    if (bp_clock_ns() - r->lost_ns < lost_ns) return BP_OK;
    rank_text(h, rank, name, sizeof name);
    return bp_comm_fail(&h->shm->failure, BP_ERR_PEER,
                        "%s, has died, or cannot be reached (%s); rank %u missed it in %s", name,
                        why ? why : "a message was not taken", h->rank,
                        own_text(h, own, sizeof own));
}
