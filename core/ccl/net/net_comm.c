/* SPDX-License-Identifier: Apache-2.0 */
/* net_comm.c: creates and destroys the state of a communicator whose ranks are on several hosts.
 * Also finds the network module in the plugin folders and opens it once per process, without
 * changes to the process's signal handlers. */
#include "net_comm.h"

#include "../../plugin/loader.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char *const folders[] = {"", "ucx/"}; /* in an install, and in the build */
#define LIBRARY "bp_net_ucx.so"
#define ADVICE \
    "ranks on several hosts need UCX: Debian's libucx0, and a Backplane built with libucx-dev"

/* Returns the path of the module in this directory; NULL: the file does not exist. */
static char *find_in(const char *directory)
{
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        char *path;
        if (asprintf(&path, "%s/%s" LIBRARY, directory, folders[i]) < 0) return NULL;
        if (!access(path, F_OK)) {
            char *whole = realpath(path, NULL);
            free(path);
            return whole;
        }
        free(path);
    }
    return NULL;
}

static char *find_library(void)
{
    const char *list = bp_env_get("BP_PLUGIN_PATH");
    char *own = bp_path_of_core(), *beside = own ? bp_path_join(own, "backplane") : NULL,
         *found = NULL;

    while (list && *list && !found) {
        size_t length = strcspn(list, ":");
        char *word = *list == '/' ? strndup(list, length) : NULL;
        if (word) found = find_in(word);
        free(word);
        list += length + (list[length] == ':');
    }
    if (!found && beside) found = find_in(beside);
    free(beside);
    free(own);
    return found;
}

/* UCX installs its own signal handlers when it is loaded; the app's handlers are restored here. */
static void restore_signals(const struct sigaction *before)
{
    for (int i = 1; i < NSIG; i++) {
        struct sigaction now;
        Dl_info info;
        if (sigaction(i, NULL, &now) || now.sa_handler == before[i].sa_handler) continue;
        if (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN) continue;
        if (dladdr((void *)(uintptr_t)now.sa_handler, &info) && info.dli_fname &&
            strstr(info.dli_fname, "/libuc"))
            sigaction(i, &before[i], NULL);
    }
}

static void *open_quietly(const char *path, bool *out_opened, char **out_why)
{
    struct sigaction before[NSIG];
    void *symbol;

    for (int i = 1; i < NSIG; i++)
        if (sigaction(i, NULL, &before[i])) before[i].sa_handler = SIG_DFL;
    symbol = bp_library_open_symbol(path, "bp_net_get", out_opened, out_why);
    restore_signals(before);
    return symbol;
}

static enum bp_status open_module(const struct bp_net **out_net)
{
    const struct bp_net *(*get)(uint32_t);
    struct bp_refusal refusal = {0};
    char *path = find_library(), *why = NULL;
    enum bp_status status = BP_OK;
    struct stat file;
    bool opened = false;
    void *symbol = NULL;

    if (!path)
        return bp_error(BP_ERR_NOT_FOUND, "bp_comm_create: there is no " LIBRARY ": " ADVICE);
    if (!bp_trust_check(path, &file, &refusal))
        status = bp_error(BP_ERR_UNSUPPORTED, "bp_comm_create: %s",
                          refusal.text ? refusal.text : path);
    else
        symbol = open_quietly(path, &opened, &why);
    *(void **)&get = symbol;
    if (!status && !opened)
        status = bp_error(BP_ERR_NOT_FOUND, "bp_comm_create: %s; " ADVICE, why ? why : path);
    else if (!status && (!symbol || !(*out_net = get(BP_NET_VERSION))))
        status = bp_error(BP_ERR_UNSUPPORTED, "bp_comm_create: %s is of another version", path);
    free(refusal.text);
    free(path);
    free(why);
    return status;
}

static enum bp_status open_net(const struct bp_net **out_net)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static const struct bp_net *net;
    enum bp_status status = BP_OK;

    pthread_mutex_lock(&lock);
    if (!net) status = open_module(&net);
    if (status == BP_OK) *out_net = net;
    pthread_mutex_unlock(&lock);
    return status;
}

static const uint64_t store_grace_ns = 1000000000; /* short: a host may be cut off from the store */
static const uint64_t moment_ns = 400000000;

/* The network address that a rank publishes for the ranks of other hosts. */
struct net_address {
    uint64_t size;
    char bytes[BP_NET_ADDRESS_MAX];
};

static void read_topology(struct bp_net_comm *h, const struct bp_host_topology *topology)
{
    uint32_t count[BP_COMM_MAX_RANKS] = {0};

    h->n_host = topology->n_host;
    h->host = topology->host_of[h->rank];
    for (uint32_t i = 0; i < h->size; i++) {
        struct bp_net_rank *r = &h->ranks[i];
        r->host = topology->host_of[i];
        r->local = count[r->host]++;
        r->pid = topology->pid[i];
        if (!r->local) h->leaders[r->host] = i;
    }
}

static struct bp_net_comm *net_comm_alloc(uint32_t rank, uint32_t size)
{
    struct bp_net_comm *h = calloc(1, sizeof *h);

    if (!h) return NULL;
    h->rank = rank;
    h->size = size;
    h->number = UINT64_MAX; /* so that the first call, run_barrier's, has number 0 */
    h->ranks = calloc(size, sizeof *h->ranks);
    h->leaders = calloc(size, sizeof *h->leaders);
    h->eager_buffers = malloc((size_t)size * BP_NET_EAGER_BYTES);
    if (h->ranks && h->leaders && h->eager_buffers) return h;
    bp_net_comm_destroy(h);
    return NULL;
}

static enum bp_status open_worker(struct bp_net_comm *h, struct net_address *net_address)
{
    char why[BP_NET_WHY] = "";
    enum bp_status status;

    TRY(open_net(&h->net));
    status = h->net->create(&h->worker, why);
    if (status == BP_OK)
        status = h->net->address(h->worker, net_address->bytes, &net_address->size);
    if (status)
        return bp_error(status, "bp_comm_create: rank %u cannot reach other hosts by %s: %s",
                        h->rank, h->net->name, why);
    return BP_OK;
}

static enum bp_status publish_address(struct bp_net_comm *h)
{
    struct net_address *net_address = calloc(1, sizeof *net_address);
    char key[BP_STORE_KEY_MAX];
    enum bp_status status = net_address ? open_worker(h, net_address)
                                        : bp_error(BP_ERR_MEMORY, "bp_comm_create: no memory");

    bp_store_rank_key(key, h->name, "net", h->rank);
    if (status == BP_OK) status = bp_store_set(h->store, key, net_address, sizeof *net_address);
    free(net_address);
    return status;
}

static enum bp_status connect_to(struct bp_net_comm *h, uint32_t rank,
                                 const struct net_address *net_address)
{
    char why[BP_NET_WHY] = "";
    enum bp_status status;

    if (net_address->size > sizeof net_address->bytes)
        return bp_error(BP_ERR_INVALID, "bp_comm_create: rank %u is of another version", rank);
    status = h->net->connect(h->worker, net_address->bytes, net_address->size, &h->ranks[rank].peer,
                             why);
    if (status)
        return bp_error(status, "bp_comm_create: rank %u cannot reach rank %u by %s: %s", h->rank,
                        rank, h->net->name, why);
    return BP_OK;
}

/* A rank whose host waits for one of its own ranks has no address yet. That host reports the rank
 * at fault; waiting a moment longer lets its report arrive first. */
static enum bp_status connect_all(struct bp_net_comm *h, uint64_t deadline)
{
    struct net_address *net_address = malloc(sizeof *net_address);
    enum bp_status status = net_address ? BP_OK
                                        : bp_error(BP_ERR_MEMORY, "bp_comm_create: no memory");
    uint64_t late = deadline > UINT64_MAX - moment_ns ? deadline : deadline + moment_ns;
    char list[400];

    for (uint32_t i = 0; i < h->size && status == BP_OK; i++) {
        if (bp_net_is_local(h, i)) continue;
        status = bp_rendezvous_wait(h->store, h->name, "net", i, 0, late, net_address,
                                    sizeof *net_address);
        if (status == BP_ERR_TIMEOUT)
            status = bp_error(
                status, "bp_comm_create: %s came, but does not go on",
                bp_rendezvous_list_missing(h->store, h->name, "net", h->size, list, sizeof list));
        if (status == BP_OK) status = connect_to(h, i, net_address);
    }
    free(net_address);
    return status;
}

/* Exchanges an empty message with each rank of the other hosts. UCX 1.13 may terminate the process
 * if a connection is closed that is not yet established, which can happen after a failure. */
static enum bp_status open_connections(struct bp_net_comm *h, uint64_t deadline)
{
    struct bp_collective *c = calloc(2 * (size_t)h->size, sizeof *c);
    enum bp_status status;
    uint32_t n = 0;

    if (!c)
        return bp_comm_fail(&h->shm->failure, BP_ERR_MEMORY, "rank %u has no memory", h->rank);
    for (uint32_t i = 0; i < 2 * h->size; i++) {
        bool sends = i < h->size;
        uint32_t other = i % h->size;
        if (!bp_net_is_local(h, other))
            c[n++] = (struct bp_collective){.call = sends ? BP_COMM_SEND : BP_COMM_RECV,
                                            .dtype = BP_U8, .root = other, .width = 1,
                                            .timeout_ns = bp_time_left(deadline)};
    }
    status = bp_net_p2p(h, c, n, sizeof *c);
    free(c);
    return status;
}

/* Runs a barrier, and establishes all connections. */
static enum bp_status run_barrier(struct bp_net_comm *h, uint64_t deadline)
{
    struct bp_collective c = {.call = BP_COMM_BARRIER, .width = 1,
                              .timeout_ns = bp_time_left(deadline)};

    TRY(bp_net_collective(h, &c));
    TRY(open_connections(h, deadline));
    h->connected = true;
    return BP_OK;
}

/* Publishes the failure that this rank has found, or another rank before it, to all ranks before
 * the connections are closed. */
static enum bp_status net_comm_fail(struct bp_net_comm *h, enum bp_status status)
{
    char why[1000];

    snprintf(why, sizeof why, "%s", bp_error_message());
    if (!h->store) h->store_gone = true;
    return bp_comm_fail(&h->shm->failure, status, "%s (said by rank %u)", why, h->rank);
}

enum bp_status bp_net_comm_create(const struct bp_host_topology *topology, struct bp_shm_rank *shm,
                                  const char *address, const char *name, uint32_t rank,
                                  uint32_t size, uint64_t timeout_ns, struct bp_net_comm **out_net)
{
    uint64_t deadline = bp_clock_after(timeout_ns);
    struct bp_net_comm *h = net_comm_alloc(rank, size);
    enum bp_status status;

    if (!h) return bp_error(BP_ERR_MEMORY, "bp_comm_create: no memory");
    snprintf(h->name, sizeof h->name, "%s", name);
    h->shm = shm;
    bp_net_comm_attach(h, bp_net_p2p_progress);
    read_topology(h, topology);
    status = bp_store_create(address, timeout_ns, &h->store);
    if (status == BP_OK) bp_store_set_grace(h->store, store_grace_ns);
    if (status == BP_OK) status = publish_address(h);
    if (status == BP_OK) status = connect_all(h, deadline);
    if (status) status = net_comm_fail(h, status);
    else status = run_barrier(h, deadline);
    if (status) {
        bp_net_comm_detach(h);
        bp_net_comm_destroy(h);
        return status;
    }
    *out_net = h;
    return BP_OK;
}

void bp_net_comm_destroy(struct bp_net_comm *h)
{
    if (!h) return;
    if (h->worker) h->net->destroy(h->worker);
    bp_store_free(h->store);
    for (uint32_t i = 0; i < h->room; i++) free(h->requests[i]);
    free(h->requests);
    free(h->ranks);
    free(h->leaders);
    free(h->eager_buffers);
    free(h->exchanges);
    free(h->scratch);
    free(h);
}
