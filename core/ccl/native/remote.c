/* SPDX-License-Identifier: Apache-2.0 */
/* remote.c: publishes a native communicator's calls to ranks of other hosts through the store, and
 * compares the calls that they publish. Finds the rank of another host that is at fault when a
 * native call cannot end, or when the library cannot join the ranks. */
#include "native.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { READS = 4 }; /* states of other ranks read in one poll */

static void state_key(const struct bp_remote *remote, uint32_t rank, char key[BP_STORE_KEY_MAX])
{
    bp_store_rank_key(key, remote->comm->name, "word", rank);
}

static enum bp_status set_will(struct bp_remote *remote, bool any)
{
    char key[BP_STORE_KEY_MAX];

    bp_store_rank_key(key, remote->comm->name, "died", 0);
    return bp_store_will(remote->h->store, key, &remote->comm->rank,
                         any ? sizeof remote->comm->rank : 0);
}

enum bp_status bp_remote_create(struct bp_comm *comm, struct bp_remote **out_remote)
{
    struct bp_remote *remote = calloc(1, sizeof *remote);
    enum bp_status status;

    if (!remote) return bp_error(BP_ERR_MEMORY, "bp_comm_create: no memory");
    remote->comm = comm;
    remote->h = comm->net;
    remote->b = comm->shm;
    pthread_mutex_init(&remote->lock, NULL);
    remote->dead_since = calloc(comm->size, sizeof *remote->dead_since);
    remote->joins = calloc(comm->size, sizeof *remote->joins);
    status = remote->dead_since && remote->joins
                 ? set_will(remote, true)
                 : bp_error(BP_ERR_MEMORY, "bp_comm_create: no memory");
    if (status) bp_remote_destroy(remote);
    else *out_remote = remote;
    return status;
}

void bp_remote_destroy(struct bp_remote *remote)
{
    if (!remote) return;
    if (!remote->h->store_gone) set_will(remote, false);
    pthread_mutex_destroy(&remote->lock);
    free(remote->dead_since);
    free(remote->joins);
    free(remote);
}

static struct bp_remote_call *call_of(struct bp_remote_state *state, uint64_t number)
{
    return &state->calls[number % BP_REMOTE_CALLS];
}

void bp_remote_record_call(struct bp_remote *remote, const struct bp_collective *c, uint64_t number)
{
    uint64_t signature = bp_call_signature(c->call, c->dtype, c->reduction, c->root), sum;

    pthread_mutex_lock(&remote->lock);
    sum = call_of(&remote->own, number - 1)->sum;
    sum = (sum ^ signature) * 0x9e3779b97f4a7c15;
    sum = (sum ^ sum >> 32 ^ c->count) * 0x9e3779b97f4a7c15;
    *call_of(&remote->own, number) = (struct bp_remote_call){signature, c->count, sum};
    remote->own.posted = number;
    remote->changed++;
    pthread_mutex_unlock(&remote->lock);
}

struct bp_remote_peer *bp_remote_peer_find(struct bp_remote_state *state, uint32_t rank)
{
    for (uint32_t i = 0; i < state->n_peer; i++)
        if (state->peers[i].rank == rank) return &state->peers[i];
    return NULL;
}

static struct bp_remote_peer *add_peer(struct bp_remote_state *state, uint32_t rank)
{
    struct bp_remote_peer *p = bp_remote_peer_find(state, rank);

    if (p || state->n_peer == BP_REMOTE_PEERS) return p;
    p = &state->peers[state->n_peer++];
    p->rank = rank;
    return p;
}

struct bp_p2p_part bp_remote_record_part(struct bp_remote *remote, const struct bp_collective *c,
                                         uint32_t rank, bool send, uint64_t count)
{
    struct bp_p2p_part part = {.rank = rank, .send = send, .remote = true};
    struct bp_remote_peer *p;

    pthread_mutex_lock(&remote->lock);
    p = add_peer(&remote->own, rank);
    if (p) {
        part.number = send ? ++p->sent : ++p->received;
        (send ? p->sends : p->recvs)[part.number % BP_REMOTE_PARTS] = bp_p2p_signature_of(c, count);
        remote->changed++;
    }
    pthread_mutex_unlock(&remote->lock);
    return part;
}

bool bp_remote_has_pending(struct bp_remote *remote)
{
    bool pending;

    pthread_mutex_lock(&remote->lock);
    pending = (remote->changed != remote->published || remote->polls_left) &&
              !remote->h->store_gone && !bp_comm_has_failed(&remote->b->failure);
    pthread_mutex_unlock(&remote->lock);
    return pending;
}

static size_t state_bytes(const struct bp_remote_state *state)
{
    return offsetof(struct bp_remote_state, peers) + state->n_peer * sizeof *state->peers;
}

void bp_remote_publish(struct bp_remote *remote)
{
    char key[BP_STORE_KEY_MAX];

    pthread_mutex_lock(&remote->lock);
    if (remote->published != remote->changed) remote->polls_left = 2 + remote->h->size / READS;
    remote->own.completed = atomic_load(&remote->b->me->completed);
    remote->published = remote->changed;
    memcpy(&remote->copy, &remote->own, state_bytes(&remote->own));
    pthread_mutex_unlock(&remote->lock);
    state_key(remote, remote->comm->rank, key);
    if (bp_store_set(remote->h->store, key, &remote->copy, state_bytes(&remote->copy)) ==
        BP_ERR_PEER)
        remote->h->store_gone = true;
}

struct bp_remote_state *bp_remote_fetch(struct bp_remote *remote, uint32_t rank)
{
    struct bp_remote_state *state = &remote->other;
    char key[BP_STORE_KEY_MAX];
    enum bp_status status;
    uint64_t size;

    if (remote->h->store_gone) return NULL;
    state_key(remote, rank, key);
    status = bp_store_get(remote->h->store, key, 0, state, sizeof *state, &size);
    if (status == BP_ERR_PEER) remote->h->store_gone = true;
    if (status || size < offsetof(struct bp_remote_state, peers) ||
        state->n_peer > BP_REMOTE_PEERS || size != state_bytes(state))
        return NULL;
    return state;
}

/* The first call that both ranks keep and that differs; 0: there is none. Called with the lock
 * held. */
static uint64_t find_difference(struct bp_remote *remote)
{
    uint64_t us = remote->own.posted, them = remote->other.posted, most = us > them ? us : them;
    uint64_t least = us < them ? us : them;

    for (uint64_t i = most < BP_REMOTE_CALLS ? 1 : most - BP_REMOTE_CALLS + 1; i <= least; i++) {
        const struct bp_remote_call *x = call_of(&remote->own, i), *y = call_of(&remote->other, i);
        if (x->signature != y->signature || x->count != y->count || x->sum != y->sum) return i;
    }
    return 0;
}

static void compare_calls(struct bp_remote *remote, uint32_t rank)
{
    struct bp_remote_call x = {0}, y = {0};
    char own[200], other[200];
    uint64_t number;

    pthread_mutex_lock(&remote->lock);
    number = find_difference(remote);
    x = *call_of(&remote->own, number);
    y = *call_of(&remote->other, number);
    pthread_mutex_unlock(&remote->lock);
    if (!number) return;
    if (x.signature == y.signature && x.count == y.count)
        bp_comm_fail(&remote->b->failure, BP_ERR_INVALID,
                     "before sequence %" PRIu64 " rank %u and rank %u, on another host, made "
                     "different calls: all ranks make the same calls in the same order",
                     number, remote->comm->rank, rank);
    else
        bp_comm_fail(&remote->b->failure, BP_ERR_INVALID,
                     "sequence %" PRIu64 ": rank %u calls %s, but rank %u calls %s, on another "
                     "host: all ranks make the same calls in the same order",
                     number, remote->comm->rank,
                     bp_signature_text(x.signature, x.count, own, sizeof own), rank,
                     bp_signature_text(y.signature, y.count, other, sizeof other));
}

/* The first transfer that differs, among those that one side has sent, the other has received, and
 * both keep. Called with the lock held. */
static bool find_part_difference(uint64_t sent, const struct bp_p2p_signature *sends,
                                 uint64_t received, const struct bp_p2p_signature *recvs,
                                 struct bp_p2p_signature out[2])
{
    uint64_t most = sent > received ? sent : received, least = sent < received ? sent : received;

    for (uint64_t i = most < BP_REMOTE_PARTS ? 1 : most - BP_REMOTE_PARTS + 1; i <= least; i++) {
        out[0] = sends[i % BP_REMOTE_PARTS];
        out[1] = recvs[i % BP_REMOTE_PARTS];
        if (out[0].signature != out[1].signature || out[0].count != out[1].count) return true;
    }
    return false;
}

static void compare_parts(struct bp_remote *remote, uint32_t rank)
{
    uint32_t us = remote->comm->rank;
    const struct bp_remote_peer *x, *y = bp_remote_peer_find(&remote->other, us);
    struct bp_p2p_signature there[2], back[2];
    bool odd_there = false, odd_back = false;

    pthread_mutex_lock(&remote->lock);
    x = bp_remote_peer_find(&remote->own, rank);
    if (x && y) {
        odd_there = find_part_difference(x->sent, x->sends, y->received, y->recvs, there);
        odd_back = find_part_difference(y->sent, y->sends, x->received, x->recvs, back);
    }
    pthread_mutex_unlock(&remote->lock);
    if (odd_there) bp_p2p_signature_check(remote->b, us, rank, &there[0], &there[1]);
    else if (odd_back) bp_p2p_signature_check(remote->b, rank, us, &back[0], &back[1]);
}

/* Compares the states of the next ranks; a few in each poll, all ranks in rotation. */
static void compare_next(struct bp_remote *remote)
{
    for (uint32_t i = 0, read = 0; i < remote->h->size && read < READS; i++) {
        uint32_t rank = remote->next_rank++ % remote->h->size;
        if (bp_net_is_local(remote->h, rank)) continue;
        read++;
        if (bp_comm_has_failed(&remote->b->failure) || !bp_remote_fetch(remote, rank)) continue;
        compare_calls(remote, rank);
        if (!bp_comm_has_failed(&remote->b->failure)) compare_parts(remote, rank);
    }
}

/* A rank that has ended all its calls may exit this much before the others end. */
static const uint64_t grace_ns = 500000000;

/* Formats "rank 2 (process 17, on another host), whose last call was ..."; state: the rank's
 * published state, or NULL. */
static const char *rank_text(const struct bp_remote *remote, uint32_t rank,
                             const struct bp_remote_state *state, char *text, size_t size)
{
    uint64_t posted = state ? state->posted : 0;
    const struct bp_remote_call *last = state ? &state->calls[posted % BP_REMOTE_CALLS] : NULL;
    char call[200];
    int used = snprintf(text, size, "rank %u (process %d, on another host), ", rank,
                        remote->h->ranks[rank].pid);

    if (!posted) snprintf(text + used, size - (size_t)used, "which has made no call");
    else
        snprintf(text + used, size - (size_t)used, "whose last call was %s, sequence %" PRIu64,
                 bp_signature_text(last->signature, last->count, call, sizeof call), posted);
    return text;
}

static bool is_with(const struct bp_native_work *f, uint32_t rank)
{
    for (uint32_t i = 0; i < f->n_part; i++)
        if (f->parts[i].remote && f->parts[i].rank == rank) return true;
    return false;
}

/* Whether a rank has died that the call still needs; false until a grace period has passed. */
static bool is_missed(struct bp_remote *remote, const struct bp_native_work *oldest, uint32_t rank)
{
    const struct bp_remote_state *state;
    uint64_t now = bp_clock_ns();

    if (!remote->dead_since[rank] || bp_net_is_local(remote->h, rank)) return false;
    if (!oldest) return true;
    if (!oldest->began || now - oldest->began < grace_ns ||
        now - remote->dead_since[rank] < grace_ns)
        return false;
    if (!oldest->sequence) return is_with(oldest, rank);
    state = bp_remote_fetch(remote, rank);
    return !state || state->completed < oldest->sequence;
}

static enum bp_status fail_missed(struct bp_remote *remote, const struct bp_native_work *oldest,
                                  uint32_t rank)
{
    char name[400], own[200] = "bp_comm_create";

    rank_text(remote, rank, bp_remote_fetch(remote, rank), name, sizeof name);
    if (oldest) bp_signature_text(oldest->signature, oldest->count, own, sizeof own);
    return bp_comm_fail(&remote->b->failure, BP_ERR_PEER, "%s, has died; rank %u missed it in %s",
                        name, remote->comm->rank, own);
}

/* Without the store the other hosts' ranks are unreachable, and it is unknown for which rank a
 * collective call waits: the communicator fails after a grace period. */
static enum bp_status check_store(struct bp_remote *remote, const struct bp_native_work *oldest)
{
    uint64_t now = bp_clock_ns();
    char own[200];

    if (!remote->store_gone_since) remote->store_gone_since = now;
    if (!oldest || !oldest->sequence || !oldest->began || now - oldest->began < 2 * grace_ns ||
        now - remote->store_gone_since < 2 * grace_ns)
        return BP_OK;
    return bp_comm_fail(&remote->b->failure, BP_ERR_PEER,
                        "the store by which hosts hear of each other is gone: the process that "
                        "served it has ended, or cannot be reached; rank %u missed it in %s",
                        remote->comm->rank,
                        bp_signature_text(oldest->signature, oldest->count, own, sizeof own));
}

/* The dead ranks are the value of one key, one after the other, because the store appends each
 * will. */
enum bp_status bp_remote_check_dead(struct bp_remote *remote, const struct bp_native_work *oldest)
{
    uint32_t dead[2 * BP_COMM_MAX_RANKS];
    char key[BP_STORE_KEY_MAX];
    enum bp_status status;
    uint64_t size = 0;

    if (remote->h->store_gone) return check_store(remote, oldest);
    bp_store_rank_key(key, remote->comm->name, "died", 0);
    status = bp_store_get(remote->h->store, key, 0, dead, sizeof dead, &size);
    if (status == BP_ERR_PEER) remote->h->store_gone = true;
    if (status) return BP_OK;
    for (size_t i = 0; i < size / sizeof *dead && i < sizeof dead / sizeof *dead; i++)
        if (dead[i] < remote->h->size && !remote->dead_since[dead[i]])
            remote->dead_since[dead[i]] = bp_clock_ns();
    for (uint32_t i = 0; i < remote->h->size; i++)
        if (is_missed(remote, oldest, i)) return fail_missed(remote, oldest, i);
    return BP_OK;
}

/* Whether a rank has not logged its side of a transfer that the call waits for. */
static bool is_unmatched(const struct bp_remote *remote, const struct bp_native_work *f,
                         uint32_t rank, struct bp_remote_state *state)
{
    const struct bp_remote_peer *p = state ? bp_remote_peer_find(state, remote->comm->rank) : NULL;

    for (uint32_t i = 0; i < f->n_part; i++) {
        const struct bp_p2p_part *g = &f->parts[i];
        uint64_t done = !p ? 0 : g->send ? p->received : p->sent;
        if (g->remote && g->rank == rank && g->number && done < g->number) return true;
    }
    return false;
}

/* Whether a rank holds up the call: it has not begun it, or (came) has begun but not ended it. */
static bool is_behind(const struct bp_remote *remote, const struct bp_native_work *f, uint32_t rank,
                      struct bp_remote_state *state, bool came)
{
    if (f->sequence) return !state || (came ? state->completed : state->posted) < f->sequence;
    return came ? is_with(f, rank) : is_unmatched(remote, f, rank, state);
}

static uint32_t list_behind(struct bp_remote *remote, const struct bp_native_work *f, bool came,
                            char *list, size_t size)
{
    uint32_t n = 0;
    size_t used = 0;

    for (uint32_t i = 0; i < remote->h->size && used + 400 < size; i++) {
        struct bp_remote_state *state;
        char name[400];
        if (bp_net_is_local(remote->h, i)) continue;
        state = bp_remote_fetch(remote, i);
        if (!is_behind(remote, f, i, state, came)) continue;
        used += (size_t)snprintf(list + used, size - used, "%s%s", n++ ? "; " : "",
                                 rank_text(remote, i, state, name, sizeof name));
    }
    return n;
}

void bp_remote_report_timeout(struct bp_remote *remote, const struct bp_native_work *f)
{
    char list[1200] = "";
    const char *why = f->sequence ? "did not come" : "did not";

    if (!remote->h->store_gone && !list_behind(remote, f, false, list, sizeof list)) {
        why = "came, but does not go on";
        list_behind(remote, f, true, list, sizeof list);
    }
    if (bp_comm_has_failed(&remote->b->failure)) return;
    if (*list)
        bp_shm_report_timeout_of(remote->b, f->signature, f->count, f->timeout_ns, list, why);
    else bp_native_report_timeout(remote->b, f);
}

void bp_remote_publish_joins(struct bp_remote *remote)
{
    uint32_t joins = atomic_load(&remote->b->me->joins);
    char key[BP_STORE_KEY_MAX];

    bp_store_rank_key(key, remote->comm->name, "joins", remote->comm->rank);
    bp_store_set(remote->h->store, key, &joins, sizeof joins);
}

void bp_remote_find_stuck(struct bp_remote *remote, char *text, size_t size)
{
    size_t used = 0;

    *text = 0;
    for (uint32_t i = 0; i < remote->h->size && used + 400 < size; i++) {
        uint32_t joins = 0;
        char key[BP_STORE_KEY_MAX], name[400];
        uint64_t unused;
        if (bp_net_is_local(remote->h, i)) continue;
        bp_store_rank_key(key, remote->comm->name, "joins", i);
        if (bp_store_get(remote->h->store, key, 0, &joins, sizeof joins, &unused)) joins = 0;
        if (joins == remote->joins[i] && joins < BP_JOIN_ENDED)
            used += (size_t)snprintf(text + used, size - used, "%s%s", used ? "; " : "",
                                     rank_text(remote, i, NULL, name, sizeof name));
        remote->joins[i] = joins;
    }
}

void bp_remote_poll(struct bp_remote *remote, const struct bp_native_work *oldest)
{
    uint64_t now = bp_clock_ns();

    if (now < remote->next_poll_ns || bp_comm_has_failed(&remote->b->failure)) return;
    remote->next_poll_ns = now + BP_FAILURE_POLL_NS;
    if (bp_net_failure_poll(remote->h)) return;
    if (!oldest && !bp_remote_has_pending(remote)) return;
    if (!remote->h->store_gone) bp_remote_publish(remote);
    if (oldest && bp_remote_check_dead(remote, oldest)) return;
    if (remote->polls_left && !oldest) remote->polls_left--;
    compare_next(remote);
}
