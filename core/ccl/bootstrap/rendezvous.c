/* SPDX-License-Identifier: Apache-2.0 */
/* rendezvous.c: the ranks of a new communicator find each other by the store, and then those of
 * each host the board that they share. */
#include "../native/native.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* What each rank says of itself. */
struct hello {
    uint32_t size;
    int32_t pid;
    char host[120];
    char native[BP_NATIVE_TEXT]; /* the library of its device; or "" */
};

/* Who cannot be a rank spends no more time on saying so. */
static const uint64_t refuse_ns = 5000000000;

/* Ranks with the same text can share memory: one machine, seen as one, and one user. */
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

/* The process that is a rank already, or 0; and how many ranks it says there are. */
static int32_t find_rank(struct bp_store *store, const char *name, uint32_t rank,
                         uint64_t timeout_ns, uint32_t *out_size)
{
    char key[BP_STORE_KEY_MAX];
    struct hello hello;
    uint64_t size;

    bp_store_key(key, name, "hello", rank);
    if (bp_store_get(store, key, timeout_ns, &hello, sizeof hello, &size) || size != sizeof hello)
        return 0;
    *out_size = hello.size;
    return hello.pid;
}

/* Whether all ranks have come: then nobody waits for one. */
static bool have_all_met(struct bp_store *store, const char *name)
{
    uint32_t size = 0, other;

    if (!find_rank(store, name, 0, 0, &size) || size > BP_BOARD_RANKS) return false;
    for (uint32_t i = 1; i < size; i++)
        if (!find_rank(store, name, i, 0, &other)) return false;
    return true;
}

enum bp_status bp_meet_refuse(const char *address, const char *name, uint64_t timeout_ns,
                              enum bp_status status)
{
    struct bp_store *store;
    char text[500];

    snprintf(text, sizeof text, "%s", bp_error_message());
    if (bp_store_create(address, timeout_ns < refuse_ns ? timeout_ns : refuse_ns, &store) ==
        BP_OK) {
        bool met = have_all_met(store, name);
        bp_error_write("%s", text);
        if (!met) bp_fault_answer(store, name, status);
        bp_store_destroy(store);
    }
    return bp_error(status, "%s", text);
}

/* Two ranks of one number: the second tells all, unless they have met without it. */
static enum bp_status claim(struct bp_comm *comm)
{
    char key[BP_STORE_KEY_MAX], text[400];
    uint32_t unused;
    int64_t n;
    bool met;

    bp_store_key(key, comm->name, "claim", comm->rank);
    TRY(bp_store_add(comm->store, key, 1, &n));
    if (n == 1) return BP_OK;
    snprintf(text, sizeof text,
             "bp_comm_create: rank %u is there twice, as process %d and as process %d: each rank "
             "has a number of its own, and an id is used once",
             comm->rank,
             (int)find_rank(comm->store, comm->name, comm->rank, BP_MEET_LOOK_NS, &unused),
             (int)getpid());
    met = have_all_met(comm->store, comm->name);
    bp_error_write("%s", text);
    return met ? BP_ERR_INVALID : bp_fault_answer(comm->store, comm->name, BP_ERR_INVALID);
}

enum bp_status bp_meet_hear(struct bp_store *store, const char *name, const char *what,
                            uint32_t rank, int32_t pid, uint64_t deadline, void *out,
                            uint64_t bytes)
{
    char key[BP_STORE_KEY_MAX];
    enum bp_status status;
    uint64_t size;

    bp_store_key(key, name, what, rank);
    for (;;) {
        uint64_t left = bp_time_left(deadline);
        status = bp_store_get(store, key, left < BP_MEET_LOOK_NS ? left : BP_MEET_LOOK_NS, out,
                              bytes, &size);
        if (status == BP_OK && size != bytes)
            return bp_error(BP_ERR_INVALID, "bp_comm_create: rank %u is of another version", rank);
        if (status != BP_ERR_TIMEOUT) return status;
        TRY(bp_fault_hear(store, name, false));
        if (pid && bp_board_has_died(pid, 0))
            return bp_error(BP_ERR_PEER, "bp_comm_create: rank %u (process %d) has died", rank,
                            pid);
        if (!left) return status;
    }
}

const char *bp_meet_missing(struct bp_store *store, const char *name, const char *what, uint32_t n,
                            char *text, size_t size)
{
    char key[BP_STORE_KEY_MAX], list[400] = "";
    uint32_t missing = 0;
    uint64_t unused;
    size_t used = 0;

    for (uint32_t i = 0; i < n && used + 16 < sizeof list; i++) {
        bp_store_key(key, name, what, i);
        if (bp_store_get(store, key, 0, NULL, 0, &unused) != BP_ERR_TIMEOUT) continue;
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%u", missing++ ? ", " : "", i);
    }
    snprintf(text, size, "rank%s %s", missing > 1 ? "s" : "", list);
    return text;
}

static enum bp_status check_hello(const struct bp_comm *comm, const struct hello *other,
                                  uint32_t rank)
{
    if (other->size == comm->size) return BP_OK;
    return bp_error(BP_ERR_INVALID,
                    "bp_comm_create: rank %u says there are %u ranks, rank %u says %u", rank,
                    other->size, comm->rank, comm->size);
}

/* Ranks use a library if all have the same. */
static bool agree_on_library(struct bp_comm *comm, const struct hello *all)
{
    const struct hello *own = &all[comm->rank];

    if (!*own->native) return false;
    for (uint32_t i = 0; i < comm->size; i++) {
        const char *other = all[i].native;
        if (!strncmp(own->native, other, sizeof own->native)) continue;
        snprintf(comm->why, sizeof comm->why, "this rank has %s, rank %u has %.*s", own->native, i,
                 (int)sizeof own->native, *other ? other : "no library of its device");
        return false;
    }
    return true;
}

/* Hosts are numbered in the order of their first ranks, who lead them. */
static void plan_hosts(const struct bp_comm *comm, const struct hello *all,
                       struct bp_hosts_plan *out)
{
    uint32_t leader[BP_BOARD_RANKS] = {0};

    *out = (struct bp_hosts_plan){.n_host = 0};
    for (uint32_t i = 0; i < comm->size; i++) {
        uint32_t host = 0;
        while (host < out->n_host && strncmp(all[leader[host]].host, all[i].host,
                                             sizeof all[i].host))
            host++;
        if (host == out->n_host) leader[out->n_host++] = i;
        out->host_of[i] = host;
        out->pid[i] = all[i].pid;
    }
    out->leader = leader[out->host_of[comm->rank]];
    for (uint32_t i = 0; i < comm->size; i++) {
        if (out->host_of[i] != out->host_of[comm->rank]) continue;
        out->local += i < comm->rank;
        out->n_local++;
    }
}

/* Reads what all say. */
static enum bp_status hear(struct bp_comm *comm, uint64_t deadline, uint64_t timeout_ns,
                           struct bp_hosts_plan *out_plan, bool *out_native)
{
    struct hello *all = malloc(comm->size * sizeof *all);
    char list[400];
    enum bp_status status = all ? BP_OK : bp_error(BP_ERR_MEMORY, "bp_comm_create: no memory");

    for (uint32_t i = 0; i < comm->size && status == BP_OK; i++) {
        status = bp_meet_hear(comm->store, comm->name, "hello", i, 0, deadline, &all[i],
                              sizeof all[i]);
        if (status == BP_ERR_TIMEOUT)
            status = bp_error(status,
                              "bp_comm_create: %s of %u did not come within %.3g s "
                              "(BP_CCL_TIMEOUT)",
                              bp_meet_missing(comm->store, comm->name, "hello", comm->size, list,
                                              sizeof list),
                              comm->size, (double)timeout_ns / 1e9);
        if (status == BP_OK) status = check_hello(comm, &all[i], i);
    }
    if (status == BP_OK) {
        plan_hosts(comm, all, out_plan);
        *out_native = agree_on_library(comm, all);
    }
    free(all);
    return status;
}

/* A leader that lives has a reason not to wait for this rank, and tells it. */
static enum bp_status open_board(struct bp_comm *comm, const struct bp_hosts_plan *plan,
                                 uint64_t deadline, int *out_fd)
{
    struct bp_board_file file;
    enum bp_status status;

    status = bp_meet_hear(comm->store, comm->name, "board", plan->leader, plan->pid[plan->leader],
                          deadline, &file, sizeof file);
    if (status == BP_ERR_TIMEOUT)
        return bp_error(status, "bp_comm_create: rank %u came, but does not go on", plan->leader);
    TRY(status);
    status = bp_board_open(&file, plan->leader, out_fd);
    if (status != BP_ERR_PEER) return status;
    TRY(bp_fault_hear(comm->store, comm->name, true));
    return bp_board_open(&file, plan->leader, out_fd); /* its message */
}

/* The leader of each host makes the board, and the others open it. */
static enum bp_status find_board(struct bp_comm *comm, const struct bp_hosts_plan *plan,
                                 uint64_t deadline, int *out_fd)
{
    int32_t pids[BP_BOARD_RANKS];
    struct bp_board_file file;
    char key[BP_STORE_KEY_MAX];
    enum bp_status status;
    uint32_t n = 0;

    if (plan->leader != comm->rank) return open_board(comm, plan, deadline, out_fd);
    for (uint32_t i = 0; i < comm->size; i++)
        if (plan->host_of[i] == plan->host_of[comm->rank]) pids[n++] = plan->pid[i];
    TRY(bp_board_make(n, pids, out_fd, &file));
    bp_store_key(key, comm->name, "board", plan->leader);
    status = bp_store_set(comm->store, key, &file, sizeof file);
    if (status) close(*out_fd);
    return status;
}

/* What the ranks here are called by the app. */
static enum bp_status number_ranks(struct bp_comm *comm, const struct bp_hosts_plan *plan)
{
    uint32_t n = 0;

    comm->numbers = malloc(plan->n_local * sizeof *comm->numbers);
    if (!comm->numbers) return bp_error(BP_ERR_MEMORY, "bp_comm_create: no memory");
    for (uint32_t i = 0; i < comm->size; i++)
        if (plan->host_of[i] == plan->host_of[comm->rank]) comm->numbers[n++] = i;
    return BP_OK;
}

static enum bp_status meet(struct bp_comm *comm, uint64_t timeout_ns)
{
    uint64_t deadline = bp_deadline(timeout_ns);
    struct hello own = {.size = comm->size, .pid = getpid()};
    struct bp_hosts_plan plan;
    char key[BP_STORE_KEY_MAX];
    bool native;
    int fd;

    describe_host(own.host, sizeof own.host);
    bp_native_describe(comm->device, own.native, comm->why, sizeof comm->why);
    bp_store_key(key, comm->name, "hello", comm->rank);
    TRY(bp_store_set(comm->store, key, &own, sizeof own));
    TRY(hear(comm, deadline, timeout_ns, &plan, &native));
    if (plan.n_host > 1) TRY(number_ranks(comm, &plan));
    TRY(find_board(comm, &plan, deadline, &fd));
    TRY(bp_board_join(fd, plan.local, plan.n_local, comm->numbers, bp_time_left(deadline),
                      &comm->board));
    if (plan.n_host > 1)
        TRY(bp_hosts_create(&plan, comm->board, comm->address, comm->name, comm->rank, comm->size,
                            bp_time_left(deadline), &comm->hosts));
    return native ? bp_native_create(comm, bp_time_left(deadline)) : BP_OK;
}

/* Whatever goes wrong on a rank, the others wait for it: they hear of it, and all answer what was
 * first. So nobody is blamed who only waited. */
enum bp_status bp_comm_meet(struct bp_comm *comm, uint64_t timeout_ns)
{
    enum bp_status status;

    TRY(claim(comm));
    status = meet(comm, timeout_ns);
    return status ? bp_fault_answer(comm->store, comm->name, status) : BP_OK;
}
