/* SPDX-License-Identifier: Apache-2.0 */
/* test_rendezvous.c: tests that ranks find each other although another rank is stopped or has a
 * wrong number, or another user takes the name under which rank 0 announces its store. */
#include "failing.h"

#include <errno.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { NO_RANK = 65534 };
static pid_t own_pid; /* of the program, in its children too */

/* Sets the environment of a rank that Open MPI has started, without a store. Returns the name under
 * which rank 0 announces its store. */
static const char *set_environment(uint32_t rank, uint32_t ranks, const char *seconds_to_wait)
{
    static char name[100], text[40];

    unsetenv("BP_RANK");
    unsetenv("BP_WORLD_SIZE");
    unsetenv("BP_STORE");
    snprintf(text, sizeof text, "test-%d-%u", (int)own_pid, (unsigned)ranks);
    setenv("PMIX_NAMESPACE", text, 1);
    snprintf(name, sizeof name, "backplane/%u/openmpi/%s/", (unsigned)geteuid(), text);
    snprintf(text, sizeof text, "%u", rank);
    setenv("OMPI_COMM_WORLD_RANK", text, 1);
    snprintf(text, sizeof text, "%u", ranks);
    setenv("OMPI_COMM_WORLD_SIZE", text, 1);
    unsetenv("SLURM_STEP_ID");
    setenv("BP_CCL_TIMEOUT", seconds_to_wait, 1);
    return name;
}

/* Forks a child with an alarm that ends it if it hangs. */
static pid_t fork_with_alarm(void)
{
    pid_t pid;

    fflush(stdout);
    pid = fork();
    CHECK(pid >= 0, "no process");
    if (pid) return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(50);
    return 0;
}

static void expect_end(pid_t pid, const char *name)
{
    int status;

    CHECK(waitpid(pid, &status, 0) == pid, "%s", name);
    CHECK(WIFEXITED(status) && !WEXITSTATUS(status), "%s ended with status %#x", name,
          (unsigned)status);
}

/* Starts a process that is rank 0 of a job and has announced its store. out_id: the job's id. */
static pid_t begin_job(uint32_t ranks, struct bp_comm_id *out_id)
{
    int ends[2];
    pid_t pid;

    CHECK(!pipe(ends), "no pipe");
    pid = fork_with_alarm();
    if (!pid) {
        uint32_t rank, size;
        set_environment(0, ranks, "10");
        OK(bp_comm_id_of_job(out_id, &rank, &size));
        CHECK(write(ends[1], out_id, sizeof *out_id) == sizeof *out_id, "no id");
        for (;;) pause();
    }
    CHECK(read(ends[0], out_id, sizeof *out_id) == sizeof *out_id, "no id");
    close(ends[0]);
    close(ends[1]);
    return pid;
}

static void end_job(pid_t pid)
{
    kill(pid, SIGKILL);
    CHECK(waitpid(pid, NULL, 0) == pid, "rank 0");
}

static void a_stopped_rank_0_is_named(void)
{
    struct bp_comm_id id;
    pid_t first = begin_job(2, &id), pid;

    kill(first, SIGSTOP);
    CHECK(waitpid(first, NULL, WUNTRACED) == first, "rank 0 does not stop");
    pid = fork_with_alarm();
    if (!pid) {
        struct bp_comm *comm = NULL;
        uint32_t rank, size;
        char word[60];
        set_environment(1, 2, "1");
        snprintf(word, sizeof word, "rank 0 (process %d) ", (int)first);
        FAILS(BP_ERR_TIMEOUT, word, bp_comm_id_of_job(&id, &rank, &size));
        CHECK(strstr(bp_error_message(), "1 s (BP_CCL_TIMEOUT)"), "%s", bp_error_message());
        OK(bp_core_create(NULL, &core));
        OK(bp_device_create(core, "cpu:0", &device));
        double begin = seconds();
        FAILS(BP_ERR_TIMEOUT, "does not answer within 1 s",
              bp_comm_create(device, &id, 1, 2, &comm));
        CHECK(seconds() - begin < 8, "%g s", seconds() - begin);
        bp_device_destroy(device);
        bp_core_destroy(core);
        _exit(0);
    }
    expect_end(pid, "rank 1");
    end_job(first);
}

/* Starts a process of another user that binds a name and accepts no connections. A client then
 * waits, or (full) finds no room in the queue. */
static pid_t bind_as_other_user(const char *name, bool full)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
    int ends[2];
    pid_t pid;
    char c = 0;

    CHECK(!pipe(ends), "no pipe");
    memcpy(at.sun_path + 1, name, strlen(name));
    pid = fork_with_alarm();
    if (!pid) {
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        CHECK(!setgid(NO_RANK) && !setuid(NO_RANK), "another user");
        CHECK(!bind(fd, (struct sockaddr *)&at, size), "%s: %s", name, strerror(errno));
        CHECK(!listen(fd, full ? 0 : 100), "listen");
        if (full) {
            int own = socket(AF_UNIX, SOCK_STREAM, 0);
            CHECK(!connect(own, (struct sockaddr *)&at, size), "connect");
        }
        CHECK(write(ends[1], &c, 1) == 1, "pipe");
        for (;;) pause();
    }
    close(ends[1]); /* so that the read ends if the child does */
    CHECK(read(ends[0], &c, 1) == 1, "no stranger");
    close(ends[0]);
    return pid;
}

static void create_in_job(uint32_t rank, uint32_t size, void *ctx)
{
    struct bp_comm_id id;
    uint32_t own, all;

    (void)ctx;
    set_environment(rank, size, "30");
    if (rank == 0) usleep(100000); /* the others look for the store before it exists */
    OK(bp_comm_id_of_job(&id, &own, &all));
    CHECK(own == rank && all == size, "%u of %u", own, all);
    struct bp_comm *comm = join(&id, rank, size);
    OK(bp_comm_barrier(comm, stream));
    close_all(comm);
}

/* Root in a container or in a user namespace may lack the capability, or the other user. */
static bool cannot_be_another_user(void)
{
    int status = -1;
    pid_t pid;

    if (geteuid() != 0) return true;
    pid = fork();
    CHECK(pid >= 0, "no process");
    if (!pid) _exit(setgid(NO_RANK) || setuid(NO_RANK));
    CHECK(waitpid(pid, &status, 0) == pid, "no child");
    return status != 0;
}

static void strangers_cannot_take_the_name(void)
{
    for (int full = 0; full < 2; full++) {
        pid_t stranger = bind_as_other_user(set_environment(0, 3, "30"), full);
        kit_processes(3, create_in_job, NULL, UINT32_MAX, NULL);
        kill(stranger, SIGKILL);
        waitpid(stranger, NULL, 0);
    }
}

/* Without a rank 0 the message names the owner of the name. */
static void strangers_are_named(void)
{
    pid_t stranger = bind_as_other_user(set_environment(1, 2, "0.3"), false),
          pid = fork_with_alarm();

    if (!pid) {
        struct bp_comm_id id;
        uint32_t rank, size;
        FAILS(BP_ERR_TIMEOUT, "of user 65534", bp_comm_id_of_job(&id, &rank, &size));
        _exit(0);
    }
    expect_end(pid, "rank 1");
    kill(stranger, SIGKILL);
    waitpid(stranger, NULL, 0);
}

static void two_ranks_0_of_a_job(void)
{
    struct bp_comm_id id;
    pid_t first = begin_job(2, &id), pid = fork_with_alarm();

    if (!pid) {
        uint32_t rank, size;
        char word[60];
        snprintf(word, sizeof word, "process %d ", (int)first);
        set_environment(0, 2, "10");
        FAILS(BP_ERR_BUSY, word, bp_comm_id_of_job(&id, &rank, &size));
        _exit(0);
    }
    expect_end(pid, "the second rank 0");
    end_job(first);
}

static void begin_rank(void)
{
    setenv("BP_CCL_TIMEOUT", "45", 1); /* longer than the alarm that ends a waiting rank */
    alarm(40);
    OK(bp_core_create(NULL, &core));
    OK(bp_device_create(core, "cpu:0", &device));
}

static void end_rank(void)
{
    bp_device_destroy(device);
    bp_core_destroy(core);
}

/* Of 4 ranks the last one claims to be rank 1. */
static void use_rank_twice(uint32_t rank, uint32_t size, void *ctx)
{
    const struct ids *ids = ctx;
    struct bp_comm *comm;

    begin_rank();
    FAILS(BP_ERR_INVALID, "rank 1 is there twice",
          bp_comm_create(device, &ids->first, rank == size - 1 ? 1 : rank, size, &comm));
    end_rank();
}

static void all_report_two_ranks_of_one_number(void)
{
    run(4, use_rank_twice, UINT32_MAX);
}

/* Of 3 ranks the last one claims to be rank 7, or that there are 300 ranks. */
static void use_wrong_number(uint32_t rank, uint32_t size, void *ctx)
{
    const struct ids *ids = ctx;
    struct bp_comm *comm;

    begin_rank();
    FAILS(BP_ERR_INVALID, "rank is 7 of 3",
          bp_comm_create(device, &ids->first, rank == size - 1 ? 7 : rank, size, &comm));
    FAILS(BP_ERR_INVALID, "size is 300",
          bp_comm_create(device, &ids->second, rank, rank == size - 1 ? 300 : size, &comm));
    end_rank();
}

static void all_report_an_impossible_number(void)
{
    run(3, use_wrong_number, UINT32_MAX);
}

/* A user has set BP_RANK=7 with BP_WORLD_SIZE=3. */
static void outside_job(uint32_t rank, uint32_t size, void *ctx)
{
    struct bp_comm_id id;
    struct bp_comm *comm;
    uint32_t own, all;
    char text[20];

    begin_rank();
    setenv("BP_STORE", ctx, 1);
    setenv("BP_WORLD_SIZE", "3", 1);
    snprintf(text, sizeof text, "%u", rank == size - 1 ? 7 : rank);
    setenv("BP_RANK", text, 1);
    if (rank == size - 1) {
        FAILS(BP_ERR_INVALID, "BP_RANK is 7", bp_comm_id_of_job(&id, &own, &all));
    } else {
        OK(bp_comm_id_of_job(&id, &own, &all));
        FAILS(BP_ERR_INVALID, "BP_RANK is 7", bp_comm_create(device, &id, own, all, &comm));
    }
    end_rank();
}

static void all_report_a_bad_environment(void)
{
    struct bp_store *store;
    char address[BP_STORE_ADDRESS_MAX];

    OK(bp_store_serve(NULL, &store));
    strcpy(address, bp_store_address(store));
    kit_processes(3, outside_job, address, UINT32_MAX, NULL);
    bp_store_destroy(store);
}

/* A wrong rank that comes after all ranks have met does not make them fail. */
static void late_one(uint32_t rank, uint32_t size, void *ctx)
{
    const struct ids *ids = ctx;
    char key[BP_STORE_KEY_MAX], address[BP_STORE_ADDRESS_MAX], *slash;
    struct bp_comm *comm = join(&ids->first, rank, size), *other = NULL;
    struct bp_store *store;
    uint64_t unused;

    OK(bp_comm_barrier(comm, stream));
    if (rank == 0) {
        FAILS(BP_ERR_INVALID, "rank 1 is there twice",
              bp_comm_create(device, &ids->first, 1, size, &other));
        FAILS(BP_ERR_INVALID, "rank is 9 of 2",
              bp_comm_create(device, &ids->first, 9, size, &other));
        snprintf(address, sizeof address, "%.*s", (int)sizeof address - 1, ids->first.text);
        slash = strrchr(address, '/');
        snprintf(key, sizeof key, "%.60s/failed", slash + 1);
        *slash = 0;
        OK(bp_store_create(address, 30ull * SECOND, &store));
        FAILS(BP_ERR_TIMEOUT, "failed", bp_store_get(store, key, 0, NULL, 0, &unused));
        bp_store_destroy(store);
    }
    OK(bp_comm_barrier(comm, stream));
    close_all(comm);
}

static void late_processes_harm_no_rank(void)
{
    run(2, late_one, UINT32_MAX);
}

int main(int argc, char **argv)
{
    static const struct kit_case cases[] = {
        {"a_stopped_rank_0_is_named", a_stopped_rank_0_is_named},
        {"two_ranks_0_of_a_job", two_ranks_0_of_a_job},
        {"all_report_two_ranks_of_one_number", all_report_two_ranks_of_one_number},
        {"all_report_an_impossible_number", all_report_an_impossible_number},
        {"all_report_a_bad_environment", all_report_a_bad_environment},
        {"late_processes_harm_no_rank", late_processes_harm_no_rank},
        {"strangers_cannot_take_the_name", strangers_cannot_take_the_name, cannot_be_another_user},
        {"strangers_are_named", strangers_are_named, cannot_be_another_user},
    };

    own_pid = getpid();
    return KIT_CASES(cases, argc, argv);
}
