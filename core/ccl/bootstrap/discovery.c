/* SPDX-License-Identifier: Apache-2.0 */
/* discovery.c: finds a rank's job by the variables of launchers, parses and resolves store
 * addresses, and lets the ranks of one machine find the store of rank 0 through an abstract local
 * socket. */
#include "store.h"

#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static const struct launcher {
    const char *name, *rank, *ranks;
} launchers[] = {
    {"bp", "BP_RANK", "BP_WORLD_SIZE"},
    {"openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"slurm", "SLURM_PROCID", "SLURM_NTASKS"},
};

static enum bp_status read_number(const char *name, uint32_t *out_number)
{
    const char *text = bp_env_get(name);
    char *end;
    unsigned long n;

    if (!text)
        return bp_error(BP_ERR_INVALID, "bp_job_find: %s is not set, but what belongs to it is",
                        name);
    errno = 0;
    n = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || n > 1 << 20)
        return bp_error(BP_ERR_INVALID, "bp_job_find: %s=%.40s: expected a number", name, text);
    *out_number = (uint32_t)n;
    return BP_OK;
}

enum bp_status bp_job_find(struct bp_job *out)
{
    struct bp_job job = {.size = sizeof job};
    const char *store = bp_env_get("BP_STORE");
    const struct launcher *end = launchers + sizeof launchers / sizeof *launchers, *l;

    for (l = launchers; l < end && !bp_env_get(l->rank) && !bp_env_get(l->ranks);) l++;
    if (l == end)
        return bp_error(BP_ERR_NOT_FOUND,
                        "bp_job_find: neither BP_RANK nor the variables of Open MPI or Slurm are "
                        "set: start the program with bp launch -n N PROGRAM");
    TRY(read_number(l->rank, &job.rank));
    TRY(read_number(l->ranks, &job.ranks));
    if (job.rank >= job.ranks)
        return bp_error(BP_ERR_INVALID, "bp_job_find: %s is %u, but %s is %u: ranks count from 0",
                        l->rank, job.rank, l->ranks, job.ranks);
    job.launcher = l->name;
    job.store = store ? store : "";
    return bp_info_fill_for("bp_job_find", out, &job, sizeof job);
}

bool bp_store_parse(const char *address, struct bp_store_endpoint *out)
{
    struct bp_store_endpoint endpoint = {.host = ""};
    const char *slash = strchr(address, '/'), *host = address, *port, *end;
    size_t length = slash ? (size_t)(slash - address) : strlen(address), n;

    if (slash && strlen(slash + 1) > BP_STORE_TOKEN) return false;
    if (slash) memcpy(endpoint.token, slash + 1, strlen(slash + 1));
    if (slash && strlen(endpoint.token) < BP_STORE_TOKEN_MIN) return false;
    end = address + length;
    if (*host == '[') {
        port = memchr(host++, ']', length);
        if (!port) return false;
        n = (size_t)(port - host);
        port++;
    } else {
        port = memchr(host, ':', length);
        if (!port) port = end;
        n = (size_t)(port - host);
    }
    if (!n || n >= sizeof endpoint.host) return false;
    memcpy(endpoint.host, host, n);
    if (port < end && (*port != ':' || end - port < 2 || end - port > 6)) return false;
    if (port < end) memcpy(endpoint.port, port + 1, (size_t)(end - port - 1));
    if (strspn(endpoint.port, "0123456789") != strlen(endpoint.port) || atoi(endpoint.port) > 65535)
        return false;
    *out = endpoint;
    return true;
}

/* A lookup by the system's resolver, which may take arbitrarily long. A thread therefore performs
 * the lookup, and the caller abandons the thread after a timeout. Freed by the thread or by the
 * caller, whichever leaves last. */
struct resolution {
    struct bp_store_endpoint endpoint;
    struct addrinfo hints;
    pthread_mutex_t lock; /* of all members below */
    pthread_cond_t ended;
    bool done, left;
    int why;
    struct addrinfo *list;
};

static int resolve_now(const struct bp_store_endpoint *endpoint, const struct addrinfo *hints,
                       struct addrinfo **out_list)
{
    return getaddrinfo(endpoint->host, *endpoint->port ? endpoint->port : "0", hints, out_list);
}

static void free_resolution(struct resolution *l)
{
    pthread_mutex_destroy(&l->lock);
    pthread_cond_destroy(&l->ended);
    free(l);
}

static void *resolve_thread(void *arg)
{
    struct addrinfo *list = NULL;
    struct resolution *l = arg;
    int why = resolve_now(&l->endpoint, &l->hints, &list);
    bool left;

    pthread_mutex_lock(&l->lock);
    l->why = why;
    l->list = why ? NULL : list;
    l->done = true;
    left = l->left;
    pthread_cond_signal(&l->ended);
    pthread_mutex_unlock(&l->lock);
    if (!left) return NULL;
    if (!why) freeaddrinfo(list);
    free_resolution(l);
    return NULL;
}

/* Starts the lookup thread with all signals blocked, so that the app's threads receive them. */
static struct resolution *begin_resolve(const struct bp_store_endpoint *endpoint,
                                        const struct addrinfo *hints)
{
    struct resolution *l = calloc(1, sizeof *l);
    sigset_t all, before;
    pthread_t thread;
    int late;

    if (!l) return NULL;
    l->endpoint = *endpoint;
    l->hints = *hints;
    pthread_mutex_init(&l->lock, NULL);
    bp_cond_init(&l->ended);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    late = pthread_create(&thread, NULL, resolve_thread, l);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!late) {
        pthread_detach(thread);
        return l;
    }
    free_resolution(l);
    return NULL;
}

int bp_address_resolve(const struct bp_store_endpoint *endpoint, int flags, uint64_t deadline,
                       struct addrinfo **out_list)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICHOST};
    uint64_t longest = bp_clock_after(BP_RESOLVE_NS);
    int why = resolve_now(endpoint, &hints, out_list), late = 0; /* numeric host: no lookup */
    struct timespec until = bp_timespec(deadline < longest ? deadline : longest);
    struct resolution *l;
    bool done;

    if (why != EAI_NONAME) return why;
    hints.ai_flags = flags;
    l = begin_resolve(endpoint, &hints);
    if (!l) return EAI_MEMORY;
    pthread_mutex_lock(&l->lock);
    while (!l->done && !late) late = pthread_cond_timedwait(&l->ended, &l->lock, &until);
    done = l->done;
    l->left = !done;
    why = done ? l->why : EAI_AGAIN;
    if (done && !why) *out_list = l->list;
    pthread_mutex_unlock(&l->lock);
    if (done) free_resolution(l);
    return why;
}

int bp_socket_wait(int fd, short events, uint64_t deadline)
{
    for (;;) {
        uint64_t left = bp_time_left(deadline);
        struct pollfd p = {fd, events, 0};
        int ms = left / 1000000 < 1000000 ? (int)(left / 1000000 + 1) : 1000000, n;
        if (!left) return 0;
        n = poll(&p, 1, ms);
        if (n > 0) return 1;
        if (n < 0 && errno != EINTR) return -1;
    }
}

/* Any process may bind a predictable name. Each rank therefore queries the kernel for the user at
 * the other end of its connection, and trusts only its own user. If another user has taken the
 * name, rank 0 takes a longer one with random digits, which ranks find in the kernel's list of
 * sockets. */
enum { DIGITS = 16 }; /* in a longer name: NAME, a slash, these digits */
static const uint64_t patience_ns = 1000000000; /* for one silent process */

static bool make_address(const char *name, struct sockaddr_un *out, socklen_t *out_size)
{
    size_t length = strlen(name);

    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (length > sizeof out->sun_path - 1) return false;
    memcpy(out->sun_path + 1, name, length);
    *out_size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
    return true;
}

/* Returns a socket that listens at the name, or a negative errno. */
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

/* Connects without waiting to the process that listens at the name, and finds that process's
 * identity. Returns a socket, or a negative errno. */
static int connect_to(const char *name, struct ucred *out_peer)
{
    socklen_t size, peer_size = sizeof *out_peer;
    struct sockaddr_un at;
    int fd, why;

    if (!make_address(name, &at, &size)) return -ENAMETOOLONG;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return -errno;
    if (!connect(fd, (struct sockaddr *)&at, size) &&
        !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, out_peer, &peer_size))
        return fd;
    why = errno;
    close(fd);
    return -why;
}

/* Whether a process of this user has bound the name. */
static bool is_own_user(const char *name, struct ucred *out_peer)
{
    int fd = connect_to(name, out_peer);

    if (fd < 0) return false;
    close(fd);
    return out_peer->uid == geteuid();
}

enum bp_status bp_announcement_listen(const char *name, int *out_fd)
{
    struct ucred peer;
    char longer[128];
    uint64_t number;
    int fd = listen_at(name);

    if (fd == -EADDRINUSE && is_own_user(name, &peer))
        return bp_error(BP_ERR_BUSY,
                        "the store cannot be announced as %s: process %d has announced one there: "
                        "two processes are rank 0, or two jobs of one number run at once",
                        name, (int)peer.pid);
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

/* A search for rank 0's announcement, and the other processes that were found in the search. */
struct search {
    char *address;
    size_t size;
    uint64_t deadline;
    bool taken;            /* a process has the name, but accepts no connections */
    struct ucred stranger; /* another user's process; pid 0 and uid 0: none */
    pid_t silent;          /* own user's process that sends no data; 0: none */
};

/* Reads the text that the process at the name sends to each client. The text is short enough to
 * arrive in one piece. */
static bool read_announcement(struct search *s, const char *name)
{
    uint64_t patience = bp_clock_after(patience_ns);
    struct ucred peer;
    int fd = connect_to(name, &peer);
    ssize_t n = 0;

    s->taken = s->taken || fd == -EAGAIN;
    if (fd < 0) return false;
    if (peer.uid != geteuid()) {
        s->stranger = peer;
    } else if (bp_socket_wait(fd, POLLIN, patience < s->deadline ? patience : s->deadline) <= 0) {
        s->silent = peer.pid;
    } else {
        n = recv(fd, s->address, s->size - 1, 0);
    }
    close(fd);
    if (n <= 0) return false;
    s->address[n] = 0;
    return true;
}

/* Tries the longer names in the kernel's list of sockets. A line ends with the path. An abstract
 * name has an "@" in front. */
static bool read_longer_name(struct search *s, const char *name)
{
    FILE *list = fopen("/proc/net/unix", "re");
    size_t length = strlen(name), room = 0;
    bool received = false;
    char *line = NULL;

    while (list && !received && bp_time_left(s->deadline) && getline(&line, &room, list) > 0) {
        char *at = strstr(line, " @");
        if (!at || strncmp(at + 2, name, length) || at[2 + length] != '/') continue;
        at += 2;
        at[strcspn(at, "\n")] = 0;
        if (strlen(at) == length + 1 + DIGITS) received = read_announcement(s, at);
    }
    free(line);
    if (list) fclose(list);
    return received;
}

static enum bp_status report_undiscovered(const struct search *s, const char *name,
                                          uint64_t timeout_ns)
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

enum bp_status bp_store_discover(const char *name, uint64_t deadline, uint64_t timeout_ns,
                                 char *out_address, size_t size)
{
    struct search s = {.address = out_address, .size = size, .deadline = deadline};
    struct timespec pause = {0, 1000000};

    while (!read_announcement(&s, name) && !read_longer_name(&s, name)) {
        if (!bp_time_left(deadline)) return report_undiscovered(&s, name, timeout_ns);
        nanosleep(&pause, NULL);
        if (pause.tv_nsec < 100000000) pause.tv_nsec *= 2;
    }
    return BP_OK;
}
