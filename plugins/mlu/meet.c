/* SPDX-License-Identifier: Apache-2.0 */
/* meet.c: lets the ranks of a new communicator meet, so that each process knows how many of them it
 * has; see ccl.h. Rank 0's process serves: each rank connects and sends the id's token and a number
 * of its process; when all ranks are there, each gets the count of its process. */
#include "ccl.h"
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    RANKS = 4096,
    LIMIT_S = 600, /* of a meeting; all ranks know each other when the id is made */
    HELLO_S = 5,   /* for a caller's message */
    REPLY_S = 1,
};

/* A rank's message, to a server that may have another byte order only on other machines. */
struct meet_hello {
    uint8_t token[32];
    uint8_t process[16];
    uint32_t rank, n_rank;
};

struct mlu_meetings {
    pthread_mutex_t lock;
    struct meeting *first;
    int stop; /* an eventfd that ends the servers */
};

struct meeting {
    struct meeting *next;
    struct mlu_id id;
    int listener, stop;
    pthread_t thread;
    uint32_t n, n_rank;
    struct meet_hello *hello;
    int *caller;
};

static enum bp_status meet_fail(const struct mlu *self, const char *what, int error)
{
    char text[128] = "";

    return bp_fail(self->host, BP_ERR_DEVICE, "mlu: ranks of a communicator cannot meet: %s: %s",
                   what, strerror_r(error, text, sizeof text));
}

/* Limits the waits of a socket. */
static void meet_limit(int fd, int seconds)
{
    const struct timeval limit = {.tv_sec = seconds};

    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

static bool meet_receive(int fd, void *out, size_t size)
{
    size_t got = 0;

    while (got < size) {
        ssize_t n = recv(fd, (char *)out + got, size - got, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        got += (size_t)n;
    }
    return true;
}

static bool meet_send(int fd, const void *data, size_t size)
{
    return send(fd, data, size, MSG_NOSIGNAL) == (ssize_t)size;
}

/* Whether a caller's message is right: another rank number, and the same number of ranks. */
static bool meeting_admits(const struct meeting *m, const struct meet_hello *hello)
{
    uint8_t differs = 0;

    for (size_t i = 0; i < sizeof hello->token; i++) differs |= hello->token[i] ^ m->id.token[i];
    if (differs || !hello->n_rank || hello->n_rank > RANKS || hello->rank >= hello->n_rank ||
        (m->n && hello->n_rank != m->n_rank))
        return false;
    for (uint32_t i = 0; i < m->n; i++)
        if (m->hello[i].rank == hello->rank) return false;
    return true;
}

static void meeting_accept(struct meeting *m)
{
    struct meet_hello hello, *hellos;
    int fd = accept4(m->listener, NULL, NULL, SOCK_CLOEXEC), *callers;

    if (fd < 0) return;
    meet_limit(fd, HELLO_S);
    if (!meet_receive(fd, &hello, sizeof hello) || !meeting_admits(m, &hello)) {
        close(fd);
        return;
    }
    hellos = realloc(m->hello, hello.n_rank * sizeof *hellos);
    if (hellos) m->hello = hellos;
    callers = realloc(m->caller, hello.n_rank * sizeof *callers);
    if (callers) m->caller = callers;
    if (!hellos || !callers) {
        close(fd);
        return;
    }
    m->n_rank = hello.n_rank;
    m->hello[m->n] = hello;
    m->caller[m->n++] = fd;
}

/* Sends to each rank how many ranks have its process number. */
static void meeting_reply(struct meeting *m)
{
    for (uint32_t i = 0; i < m->n; i++) {
        uint32_t here = 0;
        for (uint32_t j = 0; j < m->n; j++)
            here += !memcmp(m->hello[i].process, m->hello[j].process, sizeof m->hello[i].process);
        meet_limit(m->caller[i], REPLY_S);
        meet_send(m->caller[i], &here, sizeof here);
    }
}

static void *meeting_serve(void *p)
{
    struct meeting *m = p;
    uint64_t end = kit_now_ns() + (uint64_t)LIMIT_S * 1000000000;
    struct pollfd fd[2] = {{.fd = m->stop, .events = POLLIN},
                           {.fd = m->listener, .events = POLLIN}};

    while (!m->n || m->n < m->n_rank) {
        int n = poll(fd, 2, 1000);
        if ((n > 0 && fd[0].revents) || kit_now_ns() > end) break;
        if (n > 0 && fd[1].revents) meeting_accept(m);
    }
    if (m->n && m->n == m->n_rank) meeting_reply(m);
    for (uint32_t i = 0; i < m->n; i++) close(m->caller[i]);
    m->n = 0;
    close(m->listener);
    return NULL;
}

/* Finds an address: of the host to bind, or of the meeting to connect to. */
static struct addrinfo *meet_resolve(const char *host, uint16_t port)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char service[8];

    snprintf(service, sizeof service, "%u", port);
    return getaddrinfo(host, service, &hints, &found) ? NULL : found;
}

/* The address at which other processes reach this one, as the core's store has it. */
static const char *meet_host(void)
{
    const char *given = secure_getenv("BP_STORE_HOST");

    return given && *given ? given : "127.0.0.1";
}

static enum bp_status meeting_listen(struct mlu *self, struct meeting *m)
{
    struct sockaddr_storage bound;
    socklen_t size = sizeof bound;
    struct addrinfo *at = meet_resolve(m->id.host, 0);
    int error = 0;

    if (!at) return meet_fail(self, m->id.host, EADDRNOTAVAIL);
    m->listener = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (m->listener < 0 || bind(m->listener, at->ai_addr, at->ai_addrlen) ||
        listen(m->listener, SOMAXCONN) ||
        getsockname(m->listener, (struct sockaddr *)&bound, &size))
        error = errno;
    freeaddrinfo(at);
    if (error) return meet_fail(self, m->id.host, error);
    /* The port is at the same place in both families. */
    m->id.port = ntohs(((const struct sockaddr_in *)(const void *)&bound)->sin_port);
    return BP_OK;
}

static void meeting_free(struct meeting *m)
{
    free(m->hello);
    free(m->caller);
    free(m);
}

/* Under no lock: the core makes ids in several threads. */
static struct mlu_meetings *meetings_of(struct mlu *self)
{
    static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
    struct mlu_meetings *all;

    pthread_mutex_lock(&making);
    all = self->meetings;
    if (!all && (all = calloc(1, sizeof *all))) {
        pthread_mutex_init(&all->lock, NULL);
        all->stop = eventfd(0, EFD_CLOEXEC);
        self->meetings = all;
    }
    pthread_mutex_unlock(&making);
    return all;
}

static enum bp_status meeting_begin(struct mlu *self, struct mlu_meetings *all, struct meeting *m)
{
    int error;

    TRY(meeting_listen(self, m));
    m->stop = all->stop;
    error = pthread_create(&m->thread, NULL, meeting_serve, m);
    if (error) return meet_fail(self, "no thread", error);
    pthread_mutex_lock(&all->lock);
    m->next = all->first;
    all->first = m;
    pthread_mutex_unlock(&all->lock);
    return BP_OK;
}

enum bp_status mlu_meeting_open(struct mlu *self, struct mlu_id *id)
{
    struct mlu_meetings *all = meetings_of(self);
    struct meeting *m = calloc(1, sizeof *m);
    enum bp_status status;

    if (!all || !m) {
        free(m);
        return bp_fail(self->host, BP_ERR_MEMORY, "mlu: no memory for a meeting of ranks");
    }
    m->listener = -1;
    m->id = *id;
    snprintf(m->id.host, sizeof m->id.host, "%s", meet_host());
    if (getrandom(m->id.token, sizeof m->id.token, 0) != sizeof m->id.token)
        status = meet_fail(self, "no random numbers", errno);
    else status = meeting_begin(self, all, m);
    if (status == BP_OK) {
        *id = m->id;
        return BP_OK;
    }
    if (m->listener >= 0) close(m->listener);
    meeting_free(m);
    return status;
}

void mlu_meetings_finish(struct mlu *self)
{
    struct mlu_meetings *all = self->meetings;
    struct meeting *next;
    uint64_t one = 1;

    if (!all) return;
    if (write(all->stop, &one, sizeof one) != sizeof one) abort(); /* an eventfd takes it */
    for (struct meeting *m = all->first; m; m = next) {
        next = m->next;
        pthread_join(m->thread, NULL);
        meeting_free(m);
    }
    close(all->stop);
    pthread_mutex_destroy(&all->lock);
    free(all);
}

/* A number of this process, which a forked child does not share. */
static bool meet_process(uint8_t out[16])
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static uint8_t random[12];
    static bool made;
    int32_t pid = (int32_t)getpid();
    bool good;

    pthread_mutex_lock(&lock);
    if (!made) made = getrandom(random, sizeof random, 0) == sizeof random;
    good = made;
    memcpy(out, random, sizeof random);
    memcpy(out + sizeof random, &pid, sizeof pid);
    pthread_mutex_unlock(&lock);
    return good;
}

static int meet_connect(const struct mlu_id *id)
{
    struct addrinfo *found = meet_resolve(id->host, id->port);
    int fd = -1;

    for (struct addrinfo *at = found; at && fd < 0; at = at->ai_next) {
        fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0) continue;
        meet_limit(fd, LIMIT_S);
        if (!connect(fd, at->ai_addr, at->ai_addrlen)) break;
        close(fd);
        fd = -1;
    }
    if (found) freeaddrinfo(found);
    return fd;
}

enum bp_status mlu_meeting_attend(struct mlu *self, const struct mlu_id *id, uint32_t rank,
                                  uint32_t n_rank, uint32_t *out_here)
{
    struct meet_hello hello = {.rank = rank, .n_rank = n_rank};
    uint32_t here = 0;
    bool good;
    int fd;

    if (n_rank == 1) {
        *out_here = 1;
        return BP_OK;
    }
    memcpy(hello.token, id->token, sizeof hello.token);
    if (!meet_process(hello.process)) return meet_fail(self, "no random numbers", errno);
    fd = meet_connect(id);
    if (fd < 0)
        return bp_fail(self->host, BP_ERR_DEVICE,
                       "mlu: rank %u cannot reach rank 0's process at %s:%u (BP_STORE_HOST of "
                       "that process): %s",
                       rank, id->host, id->port, strerror(errno));
    good = meet_send(fd, &hello, sizeof hello) && meet_receive(fd, &here, sizeof here) && here > 0;
    close(fd);
    if (!good)
        return bp_fail(self->host, BP_ERR_DEVICE,
                       "mlu: rank %u has not met the other ranks: rank 0's process has ended the "
                       "meeting, or a rank did not come",
                       rank);
    *out_here = here;
    return BP_OK;
}
