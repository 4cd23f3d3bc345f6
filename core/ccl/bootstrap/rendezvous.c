/* SPDX-License-Identifier: Apache-2.0 */
/* rendezvous.c: creates ids of communicators, and lets the ranks of a new communicator find each
 * other through the store. */
#include "rendezvous.h"

#include "../../base/number.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The message that each rank publishes about itself. */
struct hello {
    uint32_t size;
    int32_t pid;
    char host[120];
    char native[BP_RENDEZVOUS_LIBRARY]; /* the library of its device; or "" */
};

/* A process that cannot be a rank spends at most this time on reporting that. */
static const uint64_t refuse_ns = 5000000000;
static const uint64_t publish_ns = 300000000; /* for the first failure to be readable */

static const uint64_t usual_timeout_ns = UINT64_C(300000000000);

bool bp_rendezvous_read_timeout(const char *text, uint64_t *out_ns)
{
    char *end;
    double seconds = bp_number_parse(text, &end);

    if (end == text || *end || !(seconds > 0 && seconds < 1e9)) return false;
    *out_ns = (uint64_t)(seconds * 1e9);
    return true;
}

uint64_t bp_rendezvous_timeout(void)
{
    const char *text = bp_env_get("BP_CCL_TIMEOUT");
    uint64_t ns = usual_timeout_ns;

    if (text) (void)bp_rendezvous_read_timeout(text, &ns);
    return ns;
}

static void write_id(struct bp_comm_id *id, const char *address, const char *name)
{
    memset(id, 0, sizeof *id);
    snprintf(id->text, sizeof id->text, "%.120s/%.60s", address, name);
}

enum bp_status bp_comm_id_create(struct bp_comm_id *out_id)
{
    struct bp_store *store;
    uint64_t number;
    char name[24];

    if (!out_id) return bp_error(BP_ERR_INVALID, "bp_comm_id_create: out_id is NULL");
    if (bp_process_is_stopping()) return bp_error_stopped();
    TRY(bp_store_own(&store));
    if (getrandom(&number, sizeof number, 0) != sizeof number)
        return bp_error(BP_ERR_INTERNAL, "bp_comm_id_create: no random numbers");
    snprintf(name, sizeof name, "%016" PRIx64, number);
    write_id(out_id, bp_store_address(store), name);
    return BP_OK;
}

/* Makes a name that all ranks of this job on this machine, and no others, compute alike, from
 * variables that the launcher sets. */
static bool job_name(const char *launcher, char *name, size_t size)
{
    static const char *const variables[] = {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid",
                                            "SLURM_JOB_ID"};
    const char *step = bp_env_get("SLURM_STEP_ID"), *job = NULL;

    for (size_t i = 0; i < sizeof variables / sizeof *variables && !job; i++)
        job = bp_env_get(variables[i]);
    if (!job) return false;
    snprintf(name, size, "backplane/%u/%s/%.40s/%.10s", (unsigned)geteuid(), launcher, job,
             step ? step : "");
    return true;
}

/* Finds the job's store. If the launcher provides none, rank 0 serves a store and announces its
 * address. */
static enum bp_status find_store(const struct bp_job *job, uint64_t deadline, uint64_t timeout_ns,
                                 char *address, size_t size)
{
    struct bp_store *store;
    char name[96];

    if (*job->store) {
        struct bp_store_endpoint endpoint;
        if (!bp_store_parse(job->store, &endpoint) || !*endpoint.port || !*endpoint.token)
            return bp_error(BP_ERR_INVALID,
                            "bp_comm_id_of_job: BP_STORE=%.80s: expected HOST:PORT/TOKEN, as "
                            "bp launch sets it and bp_store_address returns it",
                            job->store);
        snprintf(address, size, "%s", job->store);
        return BP_OK;
    }
    if (!job_name(job->launcher, name, sizeof name))
        return bp_error(BP_ERR_NOT_FOUND,
                        "bp_comm_id_of_job: the ranks have no store in common: set BP_STORE, or "
                        "start them with bp launch");
    if (job->rank) return bp_store_discover(name, deadline, timeout_ns, address, size);
    TRY(bp_store_own(&store));
    snprintf(address, size, "%s", bp_store_address(store));
    return bp_store_announce(store, name);
}

/* The store of a job is looked up once; a thread that waits for another thread's lookup has the
 * same deadline. An invalid rank number is reported to the other ranks if the store's address is
 * known. */
enum bp_status bp_comm_id_of_job(struct bp_comm_id *out_id, uint32_t *out_rank, uint32_t *out_size)
{
    uint64_t timeout_ns = bp_rendezvous_timeout(), deadline = bp_clock_after(timeout_ns);
    const char *known = bp_env_get("BP_STORE");
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static char address[BP_STORE_ADDRESS_MAX];
    static uint32_t n;
    struct bp_job job = {.size = sizeof job};
    enum bp_status status = BP_OK;
    char name[24];

    if (!out_id || !out_rank || !out_size)
        return bp_error(BP_ERR_INVALID,
                        "bp_comm_id_of_job: out_id, out_rank or out_size is NULL");
    if (bp_process_is_stopping()) return bp_error_stopped();
    status = bp_job_find(&job);
    if (status == BP_ERR_INVALID && known)
        return bp_rendezvous_refuse(known, "job0", timeout_ns, status);
    TRY(status);
    pthread_mutex_lock(&lock);
    if (!*address || *job.store)
        status = find_store(&job, deadline, timeout_ns, address, sizeof address);
    if (status == BP_OK) snprintf(name, sizeof name, "job%u", n++);
    if (status == BP_OK) write_id(out_id, address, name);
    pthread_mutex_unlock(&lock);
    TRY(status);
    *out_rank = job.rank;
    *out_size = job.ranks;
    return BP_OK;
}

bool bp_comm_id_parse(const struct bp_comm_id *id, char *address, size_t size,
                      const char **out_name)
{
    const char *slash = memchr(id->text, 0, sizeof id->text) ? strrchr(id->text, '/') : NULL;
    struct bp_store_endpoint endpoint;

    if (!slash || !slash[1] || (size_t)(slash - id->text) >= size) return false;
    memcpy(address, id->text, (size_t)(slash - id->text));
    address[slash - id->text] = 0;
    *out_name = slash + 1;
    return bp_store_parse(address, &endpoint) && *endpoint.port && *endpoint.token;
}

enum bp_status bp_status_of_number(uint32_t status)
{
    switch (status) {
#define X(name, number, text) case number:
        BP_STATUSES(X)
#undef X
        return status ? (enum bp_status)status : BP_ERR_INTERNAL;
    default: return BP_ERR_INTERNAL;
    }
}

void bp_store_comm_key(const char *name, char key[BP_STORE_KEY_MAX], const char *what)
{
    snprintf(key, BP_STORE_KEY_MAX, "%s/%s", name, what);
}

enum bp_status bp_store_comm_get(struct bp_store *store, const char *name, const char *what,
                                 uint64_t timeout_ns, void *value, uint64_t bytes)
{
    char key[BP_STORE_KEY_MAX];
    uint64_t size;

    bp_store_comm_key(name, key, what);
    TRY(bp_store_get(store, key, timeout_ns, value, bytes, &size));
    return size == bytes ? BP_OK : BP_ERR_INVALID;
}

bool bp_store_failure_publish(struct bp_store *store, const char *name, uint32_t *status,
                              char *text, size_t size)
{
    struct bp_store_failure f = {.status = *status}, first;
    char key[BP_STORE_KEY_MAX];
    int64_t n;

    bp_store_comm_key(name, key, "failures");
    if (bp_store_add(store, key, 1, &n)) return false;
    snprintf(f.text, sizeof f.text, "%s", text);
    bp_store_comm_key(name, key, "failed");
    if (n == 1) return bp_store_set(store, key, &f, sizeof f) == BP_OK;
    if (bp_store_comm_get(store, name, "failed", publish_ns, &first, sizeof first)) return true;
    *status = bp_status_of_number(first.status);
    snprintf(text, size, "%.1499s", first.text);
    return true;
}

enum bp_status bp_store_failure_report(struct bp_store *store, const char *name,
                                       enum bp_status status)
{
    uint32_t first = status;
    char text[1500];

    snprintf(text, sizeof text, "%s", bp_error_message());
    bp_store_failure_publish(store, name, &first, text, sizeof text);
    return bp_error((enum bp_status)first, "%s", text);
}

enum bp_status bp_store_failure_poll(struct bp_store *store, const char *name, bool wait)
{
    struct bp_store_failure f;

    if (bp_store_comm_get(store, name, "failed", wait ? publish_ns : 0, &f, sizeof f)) return BP_OK;
    return bp_error(bp_status_of_number(f.status), "%.1499s", f.text);
}

/* Describes the host. Ranks with equal texts can share memory: they run on one machine, in the same
 * namespaces, as one user. */
static void describe_host(char *text, size_t size)
{
    char boot[40] = "";
    struct stat net = {0}, pids = {0};
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");

    if (file && !fgets(boot, sizeof boot, file)) *boot = 0;
    if (file) fclose(file);
    boot[strcspn(boot, "\n")] = 0;
    stat("/proc/self/ns/net", &net);
    stat("/proc/self/ns/pid", &pids);
    snprintf(text, size, "%s/%" PRIu64 "/%" PRIu64 "/%u", boot, (uint64_t)net.st_ino,
             (uint64_t)pids.st_ino, (unsigned)geteuid());
}

/* The process that has published itself as this rank, or 0; *out_size: the number of ranks that it
 * published. */
static int32_t find_rank(struct bp_store *store, const char *name, uint32_t rank,
                         uint64_t timeout_ns, uint32_t *out_size)
{
    char key[BP_STORE_KEY_MAX];
    struct hello hello;
    uint64_t size;

    bp_store_rank_key(key, name, "hello", rank);
    if (bp_store_get(store, key, timeout_ns, &hello, sizeof hello, &size) || size != sizeof hello)
        return 0;
    *out_size = hello.size;
    return hello.pid;
}

/* Whether all ranks have met, so that no rank waits for another any more. */
static bool have_all_come(struct bp_store *store, const char *name)
{
    uint32_t size = 0, other;

    if (!find_rank(store, name, 0, 0, &size) || size > BP_COMM_MAX_RANKS) return false;
    for (uint32_t i = 1; i < size; i++)
        if (!find_rank(store, name, i, 0, &other)) return false;
    return true;
}

enum bp_status bp_rendezvous_refuse(const char *address, const char *name, uint64_t timeout_ns,
                                    enum bp_status status)
{
    struct bp_store *store;
    char text[500];

    snprintf(text, sizeof text, "%s", bp_error_message());
    if (bp_store_create(address, timeout_ns < refuse_ns ? timeout_ns : refuse_ns, &store) ==
        BP_OK) {
        bool met = have_all_come(store, name);
        bp_error_write("%s", text);
        if (!met) bp_store_failure_report(store, name, status);
        bp_store_free(store);
    }
    return bp_error(status, "%s", text);
}

/* If two processes have the same rank, the second one reports a failure to all ranks, unless the
 * ranks have already met without it. */
enum bp_status bp_rendezvous_claim(const struct bp_rendezvous *m)
{
    char key[BP_STORE_KEY_MAX], text[400];
    uint32_t unused;
    int64_t n;
    bool met;

    bp_store_rank_key(key, m->name, "claim", m->rank);
    TRY(bp_store_add(m->store, key, 1, &n));
    if (n == 1) return BP_OK;
    snprintf(text, sizeof text,
             "bp_comm_create: rank %u is there twice, as process %d and as process %d: each rank "
             "has a number of its own, and an id is used once",
             m->rank,
             (int)find_rank(m->store, m->name, m->rank, BP_FAILURE_POLL_NS, &unused),
             (int)getpid());
    met = have_all_come(m->store, m->name);
    bp_error_write("%s", text);
    return met ? BP_ERR_INVALID : bp_store_failure_report(m->store, m->name, BP_ERR_INVALID);
}

bool bp_process_has_died(int32_t pid, int timeout_ms)
{
    struct pollfd p = {(int)syscall(SYS_pidfd_open, pid, 0), POLLIN, 0};
    bool died = p.fd >= 0 ? poll(&p, 1, timeout_ms) == 1 : errno == ESRCH;

    if (p.fd >= 0) close(p.fd);
    return died;
}

enum bp_status bp_rendezvous_wait(struct bp_store *store, const char *name, const char *what,
                                  uint32_t rank, int32_t pid, uint64_t deadline, void *out,
                                  uint64_t bytes)
{
    char key[BP_STORE_KEY_MAX];
    enum bp_status status;
    uint64_t size;

    bp_store_rank_key(key, name, what, rank);
    for (;;) {
        uint64_t left = bp_time_left(deadline);
        status = bp_store_get(store, key, left < BP_FAILURE_POLL_NS ? left : BP_FAILURE_POLL_NS,
                              out, bytes, &size);
        if (status == BP_OK && size != bytes)
            return bp_error(BP_ERR_INVALID, "bp_comm_create: rank %u is of another version", rank);
        if (status != BP_ERR_TIMEOUT) return status;
        TRY(bp_store_failure_poll(store, name, false));
        if (pid && bp_process_has_died(pid, 0))
            return bp_error(BP_ERR_PEER, "bp_comm_create: rank %u (process %d) has died", rank,
                            pid);
        if (!left) return status;
    }
}

const char *bp_rendezvous_list_missing(struct bp_store *store, const char *name, const char *what,
                                       uint32_t n, char *text, size_t size)
{
    char key[BP_STORE_KEY_MAX], list[400] = "";
    uint32_t missing = 0;
    uint64_t unused;
    size_t used = 0;

    for (uint32_t i = 0; i < n && used + 16 < sizeof list; i++) {
        bp_store_rank_key(key, name, what, i);
        if (bp_store_get(store, key, 0, NULL, 0, &unused) != BP_ERR_TIMEOUT) continue;
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%u", missing++ ? ", " : "", i);
    }
    snprintf(text, size, "rank%s %s", missing > 1 ? "s" : "", list);
    return text;
}

static enum bp_status check_hello(const struct bp_rendezvous *m, const struct hello *other,
                                  uint32_t rank)
{
    if (other->size == m->size) return BP_OK;
    return bp_error(BP_ERR_INVALID,
                    "bp_comm_create: rank %u says there are %u ranks, rank %u says %u", rank,
                    other->size, m->rank, m->size);
}

/* Whether all ranks have the same library; only then they use it. */
static bool find_common_library(const struct bp_rendezvous *m, const struct hello *all, char *why,
                                size_t size)
{
    const struct hello *own = &all[m->rank];

    if (!*own->native) return false;
    for (uint32_t i = 0; i < m->size; i++) {
        const char *other = all[i].native;
        if (!strncmp(own->native, other, sizeof own->native)) continue;
        snprintf(why, size, "this rank has %s, rank %u has %.*s", own->native, i,
                 (int)sizeof own->native, *other ? other : "no library of its device");
        return false;
    }
    return true;
}

/* Numbers the hosts in the order of their first ranks, which are their leaders. */
static void fill_topology(const struct bp_rendezvous *m, const struct hello *all,
                          struct bp_host_topology *out)
{
    uint32_t leader[BP_COMM_MAX_RANKS] = {0};

    *out = (struct bp_host_topology){.n_host = 0};
    for (uint32_t i = 0; i < m->size; i++) {
        uint32_t host = 0;
        while (host < out->n_host && strncmp(all[leader[host]].host, all[i].host,
                                             sizeof all[i].host))
            host++;
        if (host == out->n_host) leader[out->n_host++] = i;
        out->host_of[i] = host;
        out->pid[i] = all[i].pid;
    }
    out->leader = leader[out->host_of[m->rank]];
    for (uint32_t i = 0; i < m->size; i++) {
        if (out->host_of[i] != out->host_of[m->rank]) continue;
        out->local += i < m->rank;
        out->n_local++;
    }
}

/* Reads the messages of all ranks. */
static enum bp_status read_hellos(const struct bp_rendezvous *m, uint64_t deadline,
                                  uint64_t timeout_ns, struct hello *all)
{
    char list[400];

    for (uint32_t i = 0; i < m->size; i++) {
        enum bp_status status = bp_rendezvous_wait(m->store, m->name, "hello", i, 0, deadline,
                                                   &all[i], sizeof all[i]);
        if (status == BP_ERR_TIMEOUT)
            return bp_error(
                status,
                "bp_comm_create: %s of %u did not come within %.3g s "
                "(BP_CCL_TIMEOUT)",
                bp_rendezvous_list_missing(m->store, m->name, "hello", m->size, list, sizeof list),
                m->size, (double)timeout_ns / 1e9);
        TRY(status);
        TRY(check_hello(m, &all[i], i));
    }
    return BP_OK;
}

enum bp_status bp_rendezvous_exchange(const struct bp_rendezvous *m, const char *library,
                                      uint64_t deadline, uint64_t timeout_ns,
                                      struct bp_host_topology *out_topology, bool *out_native,
                                      char *why, size_t size)
{
    struct hello own = {.size = m->size, .pid = getpid()}, *all;
    char key[BP_STORE_KEY_MAX];
    enum bp_status status;

    describe_host(own.host, sizeof own.host);
    snprintf(own.native, sizeof own.native, "%s", library);
    bp_store_rank_key(key, m->name, "hello", m->rank);
    TRY(bp_store_set(m->store, key, &own, sizeof own));
    all = malloc(m->size * sizeof *all);
    if (!all) return bp_error(BP_ERR_MEMORY, "bp_comm_create: no memory");
    status = read_hellos(m, deadline, timeout_ns, all);
    if (status == BP_OK) {
        fill_topology(m, all, out_topology);
        *out_native = find_common_library(m, all, why, size);
    }
    free(all);
    return status;
}
