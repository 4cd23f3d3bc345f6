/* SPDX-License-Identifier: Apache-2.0 */
/* store_server.c: serves a store in one thread, which polls its listening sockets and connections.
 * A connection's requests are processed only after a valid greeting, and their lengths are
 * bounded. */
#include "store.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    FIXED = 3,          /* fds polled before the connections */
    CONNECTIONS = 4096, /* at most, whatever the limit of descriptors */
    SPARE = 256,        /* descriptors left to the app; half of them, if there are few */
    SILENT = 64,        /* connections without a token at most */
    BATCH = 64,         /* connections accepted in one round */
    KEPT = 64 << 10,    /* bytes of a buffer that is kept for the next request */
};
static const uint64_t greeting_ns = 5000000000; /* a connection must send the token by then */
static const uint64_t wrong_ns = 1000000;       /* pause of accepting after each wrong token */
static const uint64_t pause_ns = 100000000;     /* pause of accepting without descriptors */

struct connection {
    int fd;
    bool greeted, waiting; /* waiting: in a GET, for key, until deadline */
    uint64_t deadline;     /* of the GET, or of the greeting */
    char *key;
    char *will_key, *will; /* appended when the connection ends; or NULL */
    uint32_t will_size;
    char *in, *out; /* received bytes to process; bytes to send */
    size_t in_size, in_room, out_size, out_at;
};

struct bp_store_server {
    pthread_t thread;
    pthread_mutex_t lock; /* of local and text */
    int wake, listener, local;
    int reserve;           /* a spare descriptor to close if there is no other; -1: in use */
    uint64_t closed_until; /* no accepts before this time; 0: accepting */
    char *text;            /* sent to clients of `local` */
    char token[BP_STORE_TOKEN];
    _Atomic bool ending;
    struct bp_store_values values;
    struct connection *connection;
    size_t n, room, greeted; /* greeted: connections with a valid token */
    struct pollfd *poll;
};

static void send_some(struct connection *c)
{
    while (c->out_at < c->out_size) {
        ssize_t n = send(c->fd, c->out + c->out_at, c->out_size - c->out_at, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
        if (n <= 0) {
            shutdown(c->fd, SHUT_RDWR); /* its end arrives as an event */
            break;
        }
        c->out_at += (size_t)n;
    }
    if (c->out_size > KEPT) {
        free(c->out);
        c->out = NULL;
    }
    c->out_at = c->out_size = 0;
}

/* Sends one reply; the client sends no further request before it has received this one. */
static void server_reply(struct connection *c, uint32_t status, uint64_t number, const void *value,
                         uint32_t size)
{
    struct bp_store_reply r = {htole32(status), htole32(size), htole64(number)};
    char *out = realloc(c->out, sizeof r + size);

    c->waiting = false;
    if (!out) {
        shutdown(c->fd, SHUT_RDWR);
        return;
    }
    c->out = out;
    memcpy(out, &r, sizeof r);
    if (size) memcpy(out + sizeof r, value, size);
    c->out_size = sizeof r + size;
    c->out_at = 0;
    send_some(c);
}

static void reply_waiting(struct bp_store_server *server, const char *key)
{
    for (size_t i = 0; i < server->n; i++) {
        struct connection *c = &server->connection[i];
        const struct bp_store_entry *e;
        if (!c->waiting || strcmp(c->key, key)) continue;
        e = bp_store_values_find(&server->values, key);
        server_reply(c, BP_OK, 0, e->value, e->size);
    }
}

/* The bytes that the wills of connections will append to a key; without the will of `except`, which
 * is being replaced. */
static uint64_t will_bytes(const struct bp_store_server *server, const char *key,
                           const struct connection *except)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < server->n; i++) {
        const struct connection *c = &server->connection[i];
        if (c->will && c != except && !strcmp(c->will_key, key)) bytes += c->will_size;
    }
    return bytes;
}

/* Whether a value, and the wills that will be appended to it, fit. If not, replies with the
 * reason. */
static bool has_room(struct bp_store_server *server, struct connection *c, const char *key,
                     uint32_t size)
{
    if (size + will_bytes(server, key, NULL) > BP_STORE_VALUE_MAX)
        server_reply(c, BP_ERR_INVALID, BP_STORE_VALUE_MAX, NULL, 0);
    else if (!bp_store_values_fit(&server->values, key, size))
        server_reply(c, BP_ERR_MEMORY, BP_STORE_BYTES_MAX, NULL, 0);
    else return true;
    return false;
}

static void server_set(struct bp_store_server *server, struct connection *c, const char *key,
                       const void *value, uint32_t size)
{
    enum bp_status status;

    if (!has_room(server, c, key, size)) return;
    status = bp_store_values_set(&server->values, key, value, size);
    server_reply(c, status, 0, NULL, 0);
    if (status == BP_OK) reply_waiting(server, key);
}

static void server_add(struct bp_store_server *server, struct connection *c, const char *key,
                       int64_t amount)
{
    const struct bp_store_entry *e = bp_store_values_find(&server->values, key);
    uint64_t sum = 0;
    enum bp_status status;

    if (e && e->size != sizeof sum) {
        server_reply(c, BP_ERR_INVALID, 0, NULL, 0);
        return;
    }
    if (!e && !has_room(server, c, key, sizeof sum)) return;
    if (e) memcpy(&sum, e->value, sizeof sum);
    sum += (uint64_t)amount;
    status = bp_store_values_set(&server->values, key, &sum, sizeof sum);
    server_reply(c, status, sum, NULL, 0);
    if (status == BP_OK) reply_waiting(server, key);
}

static void server_get(struct bp_store_server *server, struct connection *c, const char *key,
                       uint64_t timeout_ns)
{
    const struct bp_store_entry *e = bp_store_values_find(&server->values, key);

    if (e) {
        server_reply(c, BP_OK, 0, e->value, e->size);
        return;
    }
    free(c->key);
    c->key = strdup(key);
    c->deadline = bp_clock_after(timeout_ns);
    c->waiting = c->key;
    if (!c->key) server_reply(c, BP_ERR_MEMORY, 0, NULL, 0);
    else if (!timeout_ns) server_reply(c, BP_ERR_TIMEOUT, 0, NULL, 0);
}

static void drop_will(struct bp_store_server *server, struct connection *c)
{
    if (c->will) server->values.bytes -= bp_store_values_cost(c->will_key, c->will_size);
    free(c->will_key);
    free(c->will);
    c->will_key = c->will = NULL;
}

/* Sets a connection's will. Its room is reserved from now on, in the key's value and in memory. A
 * will without room is refused, and the earlier will remains. */
static void set_will(struct bp_store_server *server, struct connection *c, const char *key,
                     const char *value, uint32_t size)
{
    const struct bp_store_entry *e = bp_store_values_find(&server->values, key);
    uint64_t cost = bp_store_values_cost(key, size);
    uint64_t before = c->will ? bp_store_values_cost(c->will_key, c->will_size) : 0;
    char *copy, *name;

    if (size && (e ? e->size : 0) + will_bytes(server, key, c) + size > BP_STORE_VALUE_MAX) {
        server_reply(c, BP_ERR_INVALID, BP_STORE_VALUE_MAX, NULL, 0);
        return;
    }
    if (size && server->values.bytes - before + cost > BP_STORE_BYTES_MAX) {
        server_reply(c, BP_ERR_MEMORY, BP_STORE_BYTES_MAX, NULL, 0);
        return;
    }
    copy = size ? malloc(size) : NULL;
    name = size ? strdup(key) : NULL;
    if (size && (!copy || !name)) {
        free(copy);
        free(name);
        server_reply(c, BP_ERR_MEMORY, 0, NULL, 0);
        return;
    }
    drop_will(server, c);
    if (size) {
        memcpy(copy, value, size);
        c->will = copy;
        c->will_key = name;
        c->will_size = size;
        server->values.bytes += cost;
    }
    server_reply(c, BP_OK, 0, NULL, 0);
}

/* Appends the will of a closed connection to the value. The room for it was reserved. */
static void execute_will(struct bp_store_server *server, const struct connection *c)
{
    const struct bp_store_entry *e = bp_store_values_find(&server->values, c->will_key);
    size_t before = e ? e->size : 0, size = before + c->will_size;
    char *value = malloc(size);

    if (!value) return;
    if (before) memcpy(value, e->value, before);
    memcpy(value + before, c->will, c->will_size);
    if (bp_store_values_set(&server->values, c->will_key, value, (uint32_t)size) == BP_OK)
        reply_waiting(server, c->will_key);
    free(value);
}

/* Handles one request from the received bytes. false: the request is incomplete or invalid. */
static bool handle_request(struct bp_store_server *server, struct connection *c)
{
    struct bp_store_request r;
    char key[BP_STORE_KEY_MAX + 1];
    const char *value;
    size_t whole;

    if (c->waiting || c->in_size < sizeof r) return false;
    memcpy(&r, c->in, sizeof r);
    r.verb = le16toh(r.verb);
    r.key_size = le16toh(r.key_size);
    r.value_size = le32toh(r.value_size);
    r.number = le64toh(r.number);
    if (r.key_size > BP_STORE_KEY_MAX || r.value_size > BP_STORE_VALUE_MAX) {
        shutdown(c->fd, SHUT_RDWR);
        return false;
    }
    whole = sizeof r + r.key_size + r.value_size;
    if (c->in_size < whole) return false;
    memcpy(key, c->in + sizeof r, r.key_size);
    key[r.key_size] = 0;
    value = c->in + sizeof r + r.key_size;
    switch (r.verb) {
    case BP_STORE_SET: server_set(server, c, key, value, r.value_size); break;
    case BP_STORE_GET: server_get(server, c, key, r.number); break;
    case BP_STORE_WILL: set_will(server, c, key, value, r.value_size); break;
    case BP_STORE_ADD: server_add(server, c, key, (int64_t)r.number); break;
    default: server_reply(c, BP_ERR_UNSUPPORTED, 0, NULL, 0);
    }
    c->in_size -= whole;
    memmove(c->in, c->in + whole, c->in_size);
    return true;
}

/* The maximum number of connections; it leaves descriptors for the app's own files. A quarter of
 * them may be without a valid token. */
static size_t most_connections(void)
{
    struct rlimit limit = {1024, 1024};
    rlim_t n;

    getrlimit(RLIMIT_NOFILE, &limit);
    n = limit.rlim_cur / 2 < SPARE ? limit.rlim_cur - limit.rlim_cur / 2 : limit.rlim_cur - SPARE;
    return n < CONNECTIONS ? (size_t)n : CONNECTIONS;
}

static size_t most_silent(size_t most)
{
    return most / 4 < SILENT ? most / 4 + 1 : SILENT;
}

static void server_refuse(struct connection *c, enum bp_status status)
{
    server_reply(c, status, 0, NULL, 0);
    shutdown(c->fd, SHUT_RDWR);
}

/* After each wrong token, no connection is accepted for a moment. So tokens cannot be tried on many
 * connections in quick succession. */
static void pause_accepts(struct bp_store_server *server)
{
    uint64_t now = bp_clock_ns();

    server->closed_until = (server->closed_until > now ? server->closed_until : now) + wrong_ns;
}

/* Checks the token, in a time that does not depend on which bytes are wrong. */
static void check_greeting(struct bp_store_server *server, struct connection *c)
{
    struct bp_store_greeting g;
    size_t most = most_connections();
    unsigned char wrong = 0;

    if (c->in_size < sizeof g) return;
    memcpy(&g, c->in, sizeof g);
    for (size_t i = 0; i < BP_STORE_TOKEN; i++)
        wrong |= (unsigned char)(g.token[i] ^ server->token[i]);
    if (wrong || memcmp(g.magic, BP_STORE_MAGIC, sizeof g.magic)) {
        server_refuse(c, BP_ERR_INVALID);
        pause_accepts(server);
        return;
    }
    if (server->greeted >= most - most_silent(most)) {
        server_refuse(c, BP_ERR_BUSY);
        return;
    }
    c->greeted = true;
    server->greeted++;
    c->in_size -= sizeof g;
    memmove(c->in, c->in + sizeof g, c->in_size);
    server_reply(c, BP_OK, 0, NULL, 0);
}

/* false: the connection has ended. */
static bool server_receive(struct bp_store_server *server, struct connection *c)
{
    const size_t most = sizeof(struct bp_store_request) + BP_STORE_KEY_MAX + BP_STORE_VALUE_MAX;
    char part[16384];
    ssize_t n = recv(c->fd, part, sizeof part, 0);

    if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    if (n == 0 || c->in_size + (size_t)n > most) return false;
    if (!c->greeted && c->in_size + (size_t)n > sizeof(struct bp_store_greeting)) return false;
    if (c->in_size + (size_t)n > c->in_room) {
        size_t room = 2 * (c->in_size + (size_t)n);
        char *in = realloc(c->in, room);
        if (!in) return false;
        c->in = in;
        c->in_room = room;
    }
    memcpy(c->in + c->in_size, part, (size_t)n);
    c->in_size += (size_t)n;
    if (!c->greeted) check_greeting(server, c);
    while (c->greeted && handle_request(server, c)) {}
    if (!c->in_size && c->in_room > KEPT) {
        free(c->in);
        c->in = NULL;
        c->in_room = 0;
    }
    return true;
}

static void connection_close(struct bp_store_server *server, size_t i)
{
    struct connection c = server->connection[i];

    server->connection[i] = server->connection[--server->n];
    server->greeted -= c.greeted;
    if (c.will && !atomic_load(&server->ending)) execute_will(server, &c);
    drop_will(server, &c);
    close(c.fd);
    free(c.key);
    free(c.in);
    free(c.out);
}

static bool server_grow(struct bp_store_server *server)
{
    size_t room = server->room ? 2 * server->room : 16;
    struct connection *more = realloc(server->connection, room * sizeof *more);
    struct pollfd *poll;

    if (!more) return false;
    server->connection = more;
    poll = realloc(server->poll, (room + FIXED) * sizeof *poll);
    if (!poll) return false;
    server->poll = poll;
    server->room = room;
    return true;
}

/* Closes the connection that has been without a valid token for the longest time. false: all
 * connections have one. */
static bool close_oldest(struct bp_store_server *server)
{
    size_t oldest = SIZE_MAX;

    for (size_t i = 0; i < server->n; i++) {
        const struct connection *c = &server->connection[i];
        if (!c->greeted &&
            (oldest == SIZE_MAX || c->deadline < server->connection[oldest].deadline))
            oldest = i;
    }
    if (oldest == SIZE_MAX) return false;
    connection_close(server, oldest);
    return true;
}

static int accept_quietly(int listener)
{
    return accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

/* Accepts a connection; -1: there is none, or no descriptor for it. Without a descriptor accepting
 * pauses, because waiting clients would keep waking the thread. */
static int accept_any(struct bp_store_server *server, int listener)
{
    int fd = accept_quietly(listener);

    if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
        if (!close_oldest(server) && server->reserve >= 0) {
            close(server->reserve);
            server->reserve = -1;
        }
        fd = accept_quietly(listener);
    }
    if (fd < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR &&
        errno != ECONNABORTED)
        server->closed_until = bp_clock_after(pause_ns);
    return fd;
}

/* Accepts a connection, whose token usually has arrived already. false: there is none. */
static bool accept_one(struct bp_store_server *server)
{
    size_t most = most_connections();
    int fd = accept_any(server, server->listener), on = 1;

    if (fd < 0) return false;
    if (server->n - server->greeted >= most_silent(most)) close_oldest(server);
    if (server->n == server->room && !server_grow(server)) {
        close(fd);
        return false;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    server->connection[server->n++] =
        (struct connection){.fd = fd, .deadline = bp_clock_after(greeting_ns)};
    if (!server_receive(server, &server->connection[server->n - 1]))
        connection_close(server, server->n - 1);
    return true;
}

/* Sends the announced text to a client of the same user. The text is short enough to be sent in one
 * piece. */
static bool announce_one(struct bp_store_server *server)
{
    struct ucred peer = {0};
    socklen_t size = sizeof peer;
    int fd = accept_any(server, server->local);

    if (fd < 0) return false;
    if (!getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) && peer.uid == geteuid())
        send(fd, server->text, strlen(server->text), MSG_NOSIGNAL);
    close(fd);
    return true;
}

static bool is_accepting(struct bp_store_server *server)
{
    if (server->closed_until && server->closed_until <= bp_clock_ns()) server->closed_until = 0;
    return !server->closed_until;
}

/* Reopens the reserve as soon as a descriptor is available. */
static void open_reserve(struct bp_store_server *server)
{
    if (server->reserve < 0) server->reserve = fcntl(server->wake, F_DUPFD_CLOEXEC, 0);
}

/* Accepts a limited number of connections, so that existing connections do not wait. */
static void accept_ready(struct bp_store_server *server)
{
    bool come = server->poll[1].revents, request = server->poll[2].revents;

    for (int i = 0; i < BATCH && come && is_accepting(server); i++) come = accept_one(server);
    for (int i = 0; i < BATCH && request && is_accepting(server); i++)
        request = announce_one(server);
    open_reserve(server);
}

/* Returns the milliseconds until the first deadline, and handles deadlines that have passed. */
static int expire_deadlines(struct bp_store_server *server)
{
    uint64_t first = is_accepting(server) ? UINT64_MAX : server->closed_until, now = bp_clock_ns();

    for (size_t i = server->n; i-- > 0;) {
        struct connection *c = &server->connection[i];
        if ((c->greeted && !c->waiting) || c->deadline == UINT64_MAX) continue;
        if (c->deadline > now) first = c->deadline < first ? c->deadline : first;
        else if (c->waiting) server_reply(c, BP_ERR_TIMEOUT, 0, NULL, 0);
        else connection_close(server, i);
    }
    if (first == UINT64_MAX) return -1;
    if (first <= now) return 0;
    return first - now < 1000000000 ? (int)((first - now) / 1000000 + 1) : 1000;
}

static int fill_poll(struct bp_store_server *server)
{
    int timeout = expire_deadlines(server);
    bool open = !server->closed_until; /* while accepting is paused, listeners are not polled */

    server->poll[0] = (struct pollfd){server->wake, POLLIN, 0};
    server->poll[1] = (struct pollfd){open ? server->listener : -1, POLLIN, 0};
    pthread_mutex_lock(&server->lock);
    server->poll[2] = (struct pollfd){open ? server->local : -1, POLLIN, 0};
    pthread_mutex_unlock(&server->lock);
    for (size_t i = 0; i < server->n; i++) {
        const struct connection *c = &server->connection[i];
        short events = (short)(POLLIN | (c->out_size ? POLLOUT : 0));
        server->poll[FIXED + i] = (struct pollfd){c->fd, events, 0};
    }
    return timeout;
}

static void *server_thread(void *arg)
{
    struct bp_store_server *server = arg;
    uint64_t unused;

    while (!atomic_load(&server->ending)) {
        int timeout = fill_poll(server);
        size_t n = server->n;
        if (poll(server->poll, FIXED + n, timeout) <= 0) continue;
        if (server->poll[0].revents && read(server->wake, &unused, sizeof unused) < 0) continue;
        for (size_t i = n; i-- > 0;) { /* backwards: closing moves the last one here */
            struct connection *c = &server->connection[i];
            short events = server->poll[FIXED + i].revents;
            if (events & POLLOUT) send_some(c);
            if (events & (POLLIN | POLLHUP | POLLERR) && !server_receive(server, c))
                connection_close(server, i);
        }
        accept_ready(server);
    }
    return NULL;
}

/* Listens at the first possible address. -1: none; errno is that of the last attempt. */
static int listen_at(const struct addrinfo *list)
{
    int fd = -1, on = 1, why = EADDRNOTAVAIL;

    for (const struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd >= 0) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (fd >= 0 && !bind(fd, a->ai_addr, a->ai_addrlen) && !listen(fd, 1024)) break;
        why = errno;
        if (fd >= 0) close(fd);
        fd = -1;
    }
    errno = why;
    return fd;
}

static enum bp_status open_listener(struct bp_store_endpoint *endpoint, int *out_fd)
{
    struct sockaddr_storage own;
    socklen_t size = sizeof own;
    struct addrinfo *list;
    int fd, why = bp_address_resolve(endpoint, AI_PASSIVE, UINT64_MAX, &list);

    if (why)
        return bp_error(BP_ERR_NOT_FOUND, "bp_store_serve: %s: %s", endpoint->host,
                        gai_strerror(why));
    fd = listen_at(list);
    freeaddrinfo(list);
    if (fd < 0 && errno == EADDRINUSE)
        return bp_error(BP_ERR_BUSY,
                        "bp_store_serve: port %s of %s is in use: leave the port out, and the "
                        "kernel chooses one that is free",
                        endpoint->port, endpoint->host);
    if (fd < 0)
        return bp_error(BP_ERR_NOT_FOUND, "bp_store_serve: cannot listen at %s: %s", endpoint->host,
                        strerror(errno));
    if (getsockname(fd, (struct sockaddr *)&own, &size) ||
        getnameinfo((struct sockaddr *)&own, size, NULL, 0, endpoint->port, sizeof endpoint->port,
                    NI_NUMERICSERV)) {
        close(fd);
        return bp_error(BP_ERR_INTERNAL, "bp_store_serve: the port is not known");
    }
    *out_fd = fd;
    return BP_OK;
}

static enum bp_status make_token(char *token)
{
    unsigned char bytes[BP_STORE_TOKEN / 2];

    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return bp_error(BP_ERR_INTERNAL, "bp_store_serve: no random numbers for a token");
    for (size_t i = 0; i < sizeof bytes; i++) snprintf(token + 2 * i, 3, "%02x", bytes[i]);
    return BP_OK;
}

/* Blocks all signals in the server thread, so that the app's threads receive them. */
static bool begin_thread(struct bp_store_server *server)
{
    sigset_t all, before;
    bool begun;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    begun = !pthread_create(&server->thread, NULL, server_thread, server);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!begun) server->thread = 0;
    return begun;
}

void bp_store_server_destroy(struct bp_store_server *server)
{
    uint64_t one = 1;

    if (!server) return;
    atomic_store(&server->ending, true);
    if (server->thread) {
        while (write(server->wake, &one, sizeof one) < 0 && errno == EINTR) {}
        pthread_join(server->thread, NULL);
    }
    while (server->n) connection_close(server, server->n - 1);
    bp_store_values_finish(&server->values);
    if (server->reserve >= 0) close(server->reserve);
    if (server->wake >= 0) close(server->wake);
    if (server->listener >= 0) close(server->listener);
    if (server->local >= 0) close(server->local);
    pthread_mutex_destroy(&server->lock);
    free(server->text);
    free(server->connection);
    free(server->poll);
    free(server);
}

enum bp_status bp_store_server_create(struct bp_store_endpoint *endpoint,
                                      struct bp_store_server **out_server)
{
    struct bp_store_server *server;
    enum bp_status status;

    if (!*endpoint->token) TRY(make_token(endpoint->token));
    server = calloc(1, sizeof *server);
    if (!server) return bp_error(BP_ERR_MEMORY, "bp_store_serve: no memory");
    server->listener = server->local = server->reserve = -1;
    pthread_mutex_init(&server->lock, NULL);
    memcpy(server->token, endpoint->token, strlen(endpoint->token));
    server->wake = eventfd(0, EFD_CLOEXEC);
    open_reserve(server);
    status = open_listener(endpoint, &server->listener);
    if (status == BP_OK && (server->wake < 0 || !server_grow(server) || !begin_thread(server)))
        status = bp_error(BP_ERR_MEMORY, "bp_store_serve: no memory, descriptor or thread");
    if (status) bp_store_server_destroy(server);
    else *out_server = server;
    return status;
}

enum bp_status bp_store_server_announce(struct bp_store_server *server, const char *name,
                                        const char *text)
{
    char *copy = strdup(text);
    enum bp_status status = copy ? BP_OK : bp_error(BP_ERR_MEMORY, "no memory for a store");
    uint64_t one = 1;
    int fd = -1;

    if (status == BP_OK) status = bp_announcement_listen(name, &fd);
    if (status) {
        free(copy);
        return status;
    }
    pthread_mutex_lock(&server->lock);
    server->text = copy;
    server->local = fd;
    pthread_mutex_unlock(&server->lock);
    while (write(server->wake, &one, sizeof one) < 0 && errno == EINTR) {}
    return BP_OK;
}
