/* SPDX-License-Identifier: Apache-2.0 */
/* test_meet.c: ranks that find each other although another rank is stopped, has a wrong number, or
 * although another user takes the name under which rank 0 announces its store. */
#include "failing.h"

#include <errno.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { NOBODY = 65534 };
static pid_t own_pid; /* of the program, in its children too */

/* The environment of a rank that Open MPI has started, without a store. Returns the name under
 * which rank 0 announces its own. */
static const char *become(uint32_t rank, uint32_t ranks, const char *seconds_to_wait)
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

/* Forks; in the child an alarm ends what hangs. */
static pid_t spawn(void)
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

static void expect_end(pid_t pid, const char *who)
{
    int status;

    CHECK(waitpid(pid, &status, 0) == pid, "%s", who);
    CHECK(WIFEXITED(status) && !WEXITSTATUS(status), "%s ended with status %#x", who,
          (unsigned)status);
}

/* A rank 0 of a job, which has announced its store, and its id. */
static pid_t begin_job(uint32_t ranks, struct bp_comm_id *out_id)
{
    int ends[2];
    pid_t pid;

    CHECK(!pipe(ends), "no pipe");
    pid = spawn();
    if (!pid) {
        uint32_t rank, size;
        become(0, ranks, "10");
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
    pid = spawn();
    if (!pid) {
        struct bp_comm *comm = NULL;
        uint32_t rank, size;
        char word[60];
        become(1, 2, "1");
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

/* Binds a name as another user, and takes no connections: so who connects waits, or (full) finds
 * no room. */
static pid_t squat(const char *name, bool full)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
    int ends[2];
    pid_t pid;
    char c = 0;

    CHECK(!pipe(ends), "no pipe");
    memcpy(at.sun_path + 1, name, strlen(name));
    pid = spawn();
    if (!pid) {
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        CHECK(!setgid(NOBODY) && !setuid(NOBODY), "another user");
        CHECK(!bind(fd, (struct sockaddr *)&at, size), "%s: %s", name, strerror(errno));
        CHECK(!listen(fd, full ? 0 : 100), "listen");
        if (full) {
            int own = socket(AF_UNIX, SOCK_STREAM, 0);
            CHECK(!connect(own, (struct sockaddr *)&at, size), "connect");
        }
        CHECK(write(ends[1], &c, 1) == 1, "pipe");
        for (;;) pause();
    }
    CHECK(read(ends[0], &c, 1) == 1, "no stranger");
    close(ends[0]);
    close(ends[1]);
    return pid;
}

static void meet_in_job(uint32_t rank, uint32_t size, void *ctx)
{
    struct bp_comm_id id;
    uint32_t own, all;

    (void)ctx;
    become(rank, size, "30");
    if (rank == 0) usleep(100000); /* the others look for it before it is there */
    OK(bp_comm_id_of_job(&id, &own, &all));
    CHECK(own == rank && all == size, "%u of %u", own, all);
    struct bp_comm *comm = join(&id, rank, size);
    OK(bp_comm_barrier(comm, stream));
    close_all(comm);
}

static bool skip_unless_root(void)
{
    return geteuid() != 0;
}

static void strangers_cannot_take_the_name(void)
{
    for (int full = 0; full < 2; full++) {
        pid_t stranger = squat(become(0, 3, "30"), full);
        kit_processes(3, meet_in_job, NULL, UINT32_MAX, NULL);
        kill(stranger, SIGKILL);
        waitpid(stranger, NULL, 0);
    }
}

/* Without a rank 0 the message says whose the name is. */
static void strangers_are_named(void)
{
    pid_t stranger = squat(become(1, 2, "0.3"), false), pid = spawn();

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
    pid_t first = begin_job(2, &id), pid = spawn();

    if (!pid) {
        uint32_t rank, size;
        char word[60];
        snprintf(word, sizeof word, "process %d ", (int)first);
        become(0, 2, "10");
        FAILS(BP_ERR_BUSY, word, bp_comm_id_of_job(&id, &rank, &size));
        _exit(0);
    }
    expect_end(pid, "the second rank 0");
    end_job(first);
}

int main(int argc, char **argv)
{
    static const struct kit_case cases[] = {
        {"a_stopped_rank_0_is_named", a_stopped_rank_0_is_named},
        {"two_ranks_0_of_a_job", two_ranks_0_of_a_job},
        {"strangers_cannot_take_the_name", strangers_cannot_take_the_name, skip_unless_root},
        {"strangers_are_named", strangers_are_named, skip_unless_root},
    };

    own_pid = getpid();
    return KIT_CASES(cases, argc, argv);
}
