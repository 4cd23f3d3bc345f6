/* SPDX-License-Identifier: Apache-2.0 */
/* announce.c: an abstract local socket by which rank 0 tells the ranks of its job on this machine
 * where its store is. Anybody may bind a name that can be guessed: so a
 * rank asks the kernel which user has the other end of its connection, and believes its own user
 * only; and where another user has the name, rank 0 takes a longer one, which nobody can know
 * before, and which the ranks find in the kernel's list of sockets. */
#include "store.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { DIGITS = 16 }; /* of a longer name: NAME, a slash, and these */
static const uint64_t patience_ns = 1000000000; /* with one process that does not answer */

static bool make_address(const char *name, struct sockaddr_un *out, socklen_t *out_size)
{
    size_t length = strlen(name);

    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (length > sizeof out->sun_path - 1) return false;
    memcpy(out->sun_path + 1, name, length);
    *out_size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
    return true;
}

/* A socket that listens at the name; a negative errno. */
static int listen_at(const char *name)
{
    struct sockaddr_un at;
    socklen_t size;
    int fd, why;

    if (!make_address(name, &at, &size)) return -ENAMETOOLONG;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return -errno;
    if (!bind(fd, (struct sockaddr *)&at, size) && !listen(fd, 1024)) return fd;
    why = errno;
    close(fd);
    return -why;
}

/* A connection to the process that listens there, without a wait, and which process that is; a
 * negative errno. */
static int connect_to(const char *name, struct ucred *out_who)
{
    socklen_t size, who_size = sizeof *out_who;
    struct sockaddr_un at;
    int fd, why;

    if (!make_address(name, &at, &size)) return -ENAMETOOLONG;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return -errno;
    if (!connect(fd, (struct sockaddr *)&at, size) &&
        !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, out_who, &who_size))
        return fd;
    why = errno;
    close(fd);
    return -why;
}

/* Whether a process of this user has the name. */
static bool is_own(const char *name, struct ucred *out_who)
{
    int fd = connect_to(name, out_who);

    if (fd < 0) return false;
    close(fd);
    return out_who->uid == geteuid();
}

enum bp_status bp_announce_open(const char *name, int *out_fd)
{
    struct ucred who;
    char longer[128];
    uint64_t number;
    int fd = listen_at(name);

    if (fd == -EADDRINUSE && is_own(name, &who))
        return bp_error(BP_ERR_BUSY,
                        "the store cannot be announced as %s: process %d has announced one there: "
                        "two processes are rank 0, or two jobs of one number run at once",
                        name, (int)who.pid);
    if (fd == -EADDRINUSE) {
        if (getrandom(&number, sizeof number, 0) != sizeof number)
            return bp_error(BP_ERR_INTERNAL, "no random numbers for the name of a store");
        snprintf(longer, sizeof longer, "%s/%016" PRIx64, name, number);
        fd = listen_at(longer);
    }
    if (fd < 0)
        return bp_error(BP_ERR_INTERNAL, "the store cannot be announced as %s: %s", name,
                        strerror(-fd));
    *out_fd = fd;
    return BP_OK;
}

/* A search for the text of rank 0, and the other processes that were met in it. */
struct search {
    char *address;
    size_t size;
    uint64_t deadline;
    bool taken;            /* somebody has the name, and no room for a connection */
    struct ucred stranger; /* pid 0 and uid 0: none has it */
    pid_t silent;          /* of this user, and does not answer; 0: none */
};

/* The text that is sent to those who connect to one name; so short that it comes whole. */
static bool hear_at(struct search *s, const char *name)
{
    uint64_t patience = bp_deadline(patience_ns);
    struct ucred who;
    int fd = connect_to(name, &who);
    ssize_t n = 0;

    s->taken = s->taken || fd == -EAGAIN;
    if (fd < 0) return false;
    if (who.uid != geteuid()) {
        s->stranger = who;
    } else if (bp_socket_await(fd, POLLIN, patience < s->deadline ? patience : s->deadline) <= 0) {
        s->silent = who.pid;
    } else {
        n = recv(fd, s->address, s->size - 1, 0);
    }
    close(fd);
    if (n <= 0) return false;
    s->address[n] = 0;
    return true;
}

/* The names that are longer, from the kernel's list. Lines end with a path; "@": it is abstract. */
static bool hear_at_longer(struct search *s, const char *name)
{
    FILE *list = fopen("/proc/net/unix", "re");
    size_t length = strlen(name), room = 0;
    bool heard = false;
    char *line = NULL;

    while (list && !heard && bp_time_left(s->deadline) && getline(&line, &room, list) > 0) {
        char *at = strstr(line, " @");
        if (!at || strncmp(at + 2, name, length) || at[2 + length] != '/') continue;
        at += 2;
        at[strcspn(at, "\n")] = 0;
        if (strlen(at) == length + 1 + DIGITS) heard = hear_at(s, at);
    }
    free(line);
    if (list) fclose(list);
    return heard;
}

static enum bp_status fail(const struct search *s, const char *name, uint64_t timeout_ns)
{
    double waited = (double)timeout_ns / 1e9;
    char why[200] = "";

    if (s->silent)
        return bp_error(BP_ERR_TIMEOUT,
                        "rank 0 (process %d) announced a store on this machine, but does not "
                        "answer within %.3g s (BP_CCL_TIMEOUT): it is stopped, or has no processor",
                        (int)s->silent, waited);
    if (s->stranger.pid || s->stranger.uid)
        snprintf(why, sizeof why, "; %s is held by process %d of user %u, who is not believed",
                 name, (int)s->stranger.pid, (unsigned)s->stranger.uid);
    else if (s->taken)
        snprintf(why, sizeof why, "; %s is held by a process that takes no connections", name);
    return bp_error(BP_ERR_TIMEOUT,
                    "rank 0 did not announce a store on this machine within %.3g s "
                    "(BP_CCL_TIMEOUT): if ranks run on several, give all of them the address of "
                    "one in BP_STORE%s",
                    waited, why);
}

enum bp_status bp_store_seek(const char *name, uint64_t deadline, uint64_t timeout_ns,
                             char *out_address, size_t size)
{
    struct search s = {.address = out_address, .size = size, .deadline = deadline};
    struct timespec pause = {0, 1000000};

    while (!hear_at(&s, name) && !hear_at_longer(&s, name)) {
        if (!bp_time_left(deadline)) return fail(&s, name, timeout_ns);
        nanosleep(&pause, NULL);
        if (pause.tv_nsec < 100000000) pause.tv_nsec *= 2;
    }
    return BP_OK;
}
