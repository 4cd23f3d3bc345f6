/* SPDX-License-Identifier: Apache-2.0 */
/* store.c: implements the client of a store, and the public functions of client and server. */
#include "store.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

struct bp_store {
    uint32_t magic;
    int fd; /* -1: the connection is lost */
    uint64_t grace_ns;
    pthread_mutex_t lock;           /* one request at a time */
    struct bp_store_server *server; /* if this process serves the store; or NULL */
    char address[BP_STORE_ADDRESS_MAX];
};

/* The server replies at the latest at a GET's deadline. A later reply means that the server is
 * stopped or cut off. */
static const uint64_t usual_grace_ns = BP_STORE_GRACE_NS;
enum { GREETINGS = 100 }; /* attempts to greet the server */

void bp_store_rank_key(char key[BP_STORE_KEY_MAX], const char *name, const char *what,
                       uint32_t rank)
{
    snprintf(key, BP_STORE_KEY_MAX, "%s/%s%u", name, what, rank);
}

void bp_store_set_grace(struct bp_store *store, uint64_t grace_ns)
{
    store->grace_ns = grace_ns;
}

static uint64_t reply_deadline(const struct bp_store *store, uint64_t timeout_ns)
{
    bool never = timeout_ns > UINT64_MAX - store->grace_ns;

    return bp_clock_after(never ? UINT64_MAX : timeout_ns + store->grace_ns);
}

static bool store_is(const struct bp_store *store)
{
    return bp_magic_is(store ? store->magic : 0, BP_MAGIC_STORE);
}

static void write_address(struct bp_store *store, const struct bp_store_endpoint *endpoint)
{
    bool brackets = strchr(endpoint->host, ':');

    snprintf(store->address, sizeof store->address, "%s%s%s:%s/%s", brackets ? "[" : "",
             endpoint->host, brackets ? "]" : "", endpoint->port, endpoint->token);
}

static enum bp_status store_report_gone(struct bp_store *store, const char *why)
{
    if (store->fd >= 0) close(store->fd);
    store->fd = -1;
    return bp_error(BP_ERR_PEER,
                    "the store at %.*s is gone (%s): the process that served it has ended, or "
                    "cannot be reached",
                    (int)strcspn(store->address, "/"), store->address, why);
}

static const char closed[] = "it closed the connection";

static enum bp_status store_transfer(struct bp_store *store, bool out, void *bytes, size_t size,
                                     uint64_t deadline)
{
    char *at = bytes;

    while (size) {
        ssize_t n = out ? send(store->fd, at, size, MSG_NOSIGNAL) : recv(store->fd, at, size, 0);
        if (n > 0) {
            at += n;
            size -= (size_t)n;
            continue;
        }
        if (n == 0) return store_report_gone(store, closed);
        if (errno == EINTR) continue;
        if (errno != EAGAIN && errno != EWOULDBLOCK)
            return store_report_gone(store, strerror(errno));
        if (bp_socket_wait(store->fd, out ? POLLOUT : POLLIN, deadline) <= 0)
            return store_report_gone(store, "it does not answer");
    }
    return BP_OK;
}

/* Receives a reply, and as much of its value as fits into room. */
static enum bp_status receive_reply(struct bp_store *store, uint64_t deadline, void *value,
                                    uint64_t room, struct bp_store_reply *out)
{
    struct bp_store_reply r;
    char rest[4096];
    size_t size, kept;

    TRY(store_transfer(store, false, &r, sizeof r, deadline));
    r.status = le32toh(r.status);
    r.number = le64toh(r.number);
    size = r.value_size = le32toh(r.value_size);
    if (size > BP_STORE_VALUE_MAX) return store_report_gone(store, "it sends what no store sends");
    kept = size < room ? size : room;
    TRY(store_transfer(store, false, value, kept, deadline));
    for (size -= kept; size;) {
        size_t part = size < sizeof rest ? size : sizeof rest;
        TRY(store_transfer(store, false, rest, part, deadline));
        size -= part;
    }
    *out = r;
    return BP_OK;
}

static enum bp_status store_request(struct bp_store *store, struct bp_store_request r,
                                    const char *key, const void *value, uint64_t timeout_ns,
                                    void *out_value, uint64_t room, struct bp_store_reply *out)
{
    size_t key_size = strlen(key), size = sizeof r + key_size + r.value_size;
    uint64_t deadline;
    char *request = malloc(size);
    enum bp_status status;

    if (!request) return bp_error(BP_ERR_MEMORY, "no memory for a request to a store");
    r.verb = htole16(r.verb);
    r.key_size = htole16((uint16_t)key_size);
    r.number = htole64(r.number);
    memcpy(request + sizeof r, key, key_size);
    if (r.value_size) memcpy(request + sizeof r + key_size, value, r.value_size);
    r.value_size = htole32(r.value_size);
    memcpy(request, &r, sizeof r);
    pthread_mutex_lock(&store->lock);
    deadline = reply_deadline(store, timeout_ns);
    status = store->fd < 0 ? store_report_gone(store, "as an earlier call found")
                           : store_transfer(store, true, request, size, deadline);
    if (status == BP_OK) status = receive_reply(store, deadline, out_value, room, out);
    pthread_mutex_unlock(&store->lock);
    free(request);
    return status;
}

static enum bp_status store_check_key(const char *call, struct bp_store *store, const char *key)
{
    if (!store_is(store)) return bp_not_a_for(call, "store");
    if (!key || !*key || strlen(key) > BP_STORE_KEY_MAX)
        return bp_error(BP_ERR_INVALID, "%s: key is %s: expected 1 to %d characters", call,
                        !key ? "NULL" : !*key ? "empty" : "too long", BP_STORE_KEY_MAX);
    return BP_OK;
}

/* Converts the server's reply to a status with a message. A reply for lack of room has the
 * limit. */
static enum bp_status store_check_reply(const char *call, const char *key,
                                        const struct bp_store_reply *reply)
{
    enum bp_status status = (enum bp_status)reply->status;

    if (status == BP_OK) return BP_OK;
    if (status == BP_ERR_MEMORY && reply->number)
        return bp_error(status,
                        "%s: the store is full, and %s was not set: keys and values take %" PRIu64
                        " MiB at most; a key that is set again takes the place of its old value",
                        call, key, reply->number >> 20);
    if (status == BP_ERR_INVALID && reply->number)
        return bp_error(status,
                        "%s: %s has no room for this beside what connections leave there when they "
                        "end: a value has at most %" PRIu64 " bytes",
                        call, key, reply->number);
    return bp_error(status, "%s: the store answers for %s: %s", call, key, bp_status_text(status));
}

enum bp_status bp_store_set(struct bp_store *store, const char *key, const void *value,
                            uint64_t size)
{
    struct bp_store_request r = {.verb = BP_STORE_SET, .value_size = (uint32_t)size};
    struct bp_store_reply reply;

    TRY(store_check_key("bp_store_set", store, key));
    if (size > BP_STORE_VALUE_MAX)
        return bp_error(BP_ERR_INVALID,
                        "bp_store_set: size is %" PRIu64 ", but a value has at most %d bytes", size,
                        BP_STORE_VALUE_MAX);
    if (size && !value) return bp_error(BP_ERR_INVALID, "bp_store_set: value is NULL");
    TRY(store_request(store, r, key, value, 0, NULL, 0, &reply));
    return store_check_reply("bp_store_set", key, &reply);
}

enum bp_status bp_store_get(struct bp_store *store, const char *key, uint64_t timeout_ns,
                            void *value, uint64_t size, uint64_t *out_size)
{
    struct bp_store_request r = {.verb = BP_STORE_GET, .number = timeout_ns};
    struct bp_store_reply reply;

    TRY(store_check_key("bp_store_get", store, key));
    if (!out_size) return bp_error(BP_ERR_INVALID, "bp_store_get: out_size is NULL");
    if (size && !value) return bp_error(BP_ERR_INVALID, "bp_store_get: value is NULL");
    TRY(store_request(store, r, key, NULL, timeout_ns, value, size, &reply));
    if (reply.status == BP_ERR_TIMEOUT)
        return bp_error(BP_ERR_TIMEOUT, "bp_store_get: nobody set %s within %.3g s", key,
                        (double)timeout_ns / 1e9);
    TRY(store_check_reply("bp_store_get", key, &reply));
    *out_size = reply.value_size;
    return BP_OK;
}

enum bp_status bp_store_add(struct bp_store *store, const char *key, int64_t amount,
                            int64_t *out_value)
{
    struct bp_store_request r = {.verb = BP_STORE_ADD, .number = (uint64_t)amount};
    struct bp_store_reply reply;

    TRY(store_check_key("bp_store_add", store, key));
    if (!out_value) return bp_error(BP_ERR_INVALID, "bp_store_add: out_value is NULL");
    TRY(store_request(store, r, key, NULL, 0, NULL, 0, &reply));
    if (reply.status == BP_ERR_INVALID && !reply.number)
        return bp_error(BP_ERR_INVALID, "bp_store_add: %s has a value that is no number", key);
    TRY(store_check_reply("bp_store_add", key, &reply));
    *out_value = (int64_t)reply.number;
    return BP_OK;
}

enum bp_status bp_store_will(struct bp_store *store, const char *key, const void *value,
                             uint64_t size)
{
    struct bp_store_request r = {.verb = BP_STORE_WILL, .value_size = (uint32_t)size};
    struct bp_store_reply reply;

    TRY(store_request(store, r, key, value, 0, NULL, 0, &reply));
    return store_check_reply("a will", key, &reply);
}

/* Counts the callers. The last caller of a round sets a key of this round, for which the others
 * wait. */
enum bp_status bp_store_barrier(struct bp_store *store, const char *key, uint32_t count,
                                uint64_t timeout_ns)
{
    char round[BP_STORE_KEY_MAX + 1];
    uint64_t unused;
    int64_t n, now;
    enum bp_status status;

    TRY(store_check_key("bp_store_barrier", store, key));
    if (!count) return bp_error(BP_ERR_INVALID, "bp_store_barrier: count is 0");
    if (strlen(key) > BP_STORE_KEY_MAX - 24)
        return bp_error(BP_ERR_INVALID, "bp_store_barrier: key is too long: at most %d characters",
                        BP_STORE_KEY_MAX - 24);
    TRY(bp_store_add(store, key, 1, &n));
    snprintf(round, sizeof round, "%s/%" PRId64, key, (n - 1) / count);
    if (n % count == 0) return bp_store_set(store, round, NULL, 0);
    status = bp_store_get(store, round, timeout_ns, NULL, 0, &unused);
    if (status == BP_ERR_TIMEOUT && bp_store_add(store, key, 0, &now) == BP_OK)
        bp_error_write("bp_store_barrier: %" PRId64 " of %u came to %s within %.3g s",
                       now - (n - 1) / count * count, count, key, (double)timeout_ns / 1e9);
    return status;
}

/* Connects to the first address of the endpoint that accepts. Returns a socket, or -1. */
static int connect_any(const struct bp_store_endpoint *endpoint, uint64_t deadline,
                       const char **out_why)
{
    struct addrinfo *list;
    int why = bp_address_resolve(endpoint, 0, deadline, &list), fd = -1, on = 1;

    if (why) {
        *out_why = gai_strerror(why);
        return -1;
    }
    for (struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
        socklen_t size = sizeof why;
        why = 0;
        fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0 || (connect(fd, a->ai_addr, a->ai_addrlen) && errno != EINPROGRESS)) why = errno;
        else if (bp_socket_wait(fd, POLLOUT, deadline) <= 0) why = ETIMEDOUT;
        else getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &size);
        if (why && fd >= 0) close(fd);
        if (why) fd = -1;
    }
    freeaddrinfo(list);
    if (fd >= 0) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    else *out_why = strerror(why);
    return fd;
}

/* Tries to connect until the server accepts, or until the deadline. */
static enum bp_status connect_until(struct bp_store *store,
                                    const struct bp_store_endpoint *endpoint, uint64_t deadline,
                                    uint64_t timeout_ns)
{
    struct timespec pause = {0, 1000000};
    const char *why = "";

    while ((store->fd = connect_any(endpoint, deadline, &why)) < 0) {
        if (!bp_time_left(deadline))
            return bp_error(BP_ERR_TIMEOUT, "nobody answers at the store %s:%s within %.3g s: %s",
                            endpoint->host, endpoint->port, (double)timeout_ns / 1e9, why);
        nanosleep(&pause, NULL);
        if (pause.tv_nsec < 100000000) pause.tv_nsec *= 2;
    }
    return BP_OK;
}

static enum bp_status send_greeting(struct bp_store *store,
                                    const struct bp_store_endpoint *endpoint, uint64_t deadline,
                                    uint32_t *out_reply)
{
    struct bp_store_greeting greeting = {.magic = ""};
    struct bp_store_reply reply;

    memcpy(greeting.magic, BP_STORE_MAGIC, sizeof greeting.magic);
    memcpy(greeting.token, endpoint->token, strlen(endpoint->token));
    TRY(store_transfer(store, true, &greeting, sizeof greeting, deadline));
    TRY(receive_reply(store, deadline, NULL, 0, &reply));
    *out_reply = reply.status;
    return BP_OK;
}

/* A store with very many connections may close a new connection before it has received the token.
 * The connection is therefore attempted several times. */
static enum bp_status connect_store(struct bp_store *store,
                                    const struct bp_store_endpoint *endpoint, uint64_t timeout_ns)
{
    uint64_t deadline = bp_clock_after(timeout_ns);
    struct timespec pause = {0, 1000000};
    enum bp_status status;
    uint32_t reply = 0;

    for (int tries = 0;; tries++) {
        TRY(connect_until(store, endpoint, deadline, timeout_ns));
        status = send_greeting(store, endpoint, deadline, &reply);
        if (!status || tries == GREETINGS || !bp_time_left(deadline)) break;
        nanosleep(&pause, NULL);
        if (pause.tv_nsec < 50000000) pause.tv_nsec *= 2;
    }
    if (status && !bp_time_left(deadline))
        return bp_error(BP_ERR_TIMEOUT,
                        "the store at %s:%s does not answer within %.3g s: the process that "
                        "serves it is stopped, or has no descriptors left",
                        endpoint->host, endpoint->port, (double)timeout_ns / 1e9);
    TRY(status);
    if (reply == BP_ERR_BUSY)
        return bp_error(BP_ERR_BUSY,
                        "the store at %s:%s has as many connections as it may have: raise the "
                        "limit of descriptors (ulimit -n) of the process that serves it",
                        endpoint->host, endpoint->port);
    if (reply)
        return bp_error(BP_ERR_INVALID,
                        "the store at %s:%s refused the token: it is another job's, or the token "
                        "is misspelt",
                        endpoint->host, endpoint->port);
    return BP_OK;
}

static enum bp_status store_open(const struct bp_store_endpoint *endpoint,
                                 struct bp_store_server *server, uint64_t timeout_ns,
                                 struct bp_store **out_store)
{
    struct bp_store *store = bp_handle_alloc(sizeof *store);
    enum bp_status status;

    if (!store) {
        bp_store_server_destroy(server);
        return bp_error(BP_ERR_MEMORY, "no memory for a store");
    }
    store->fd = -1;
    store->grace_ns = usual_grace_ns;
    store->server = server;
    store->magic = bp_magic(BP_MAGIC_STORE);
    pthread_mutex_init(&store->lock, NULL);
    write_address(store, endpoint);
    status = connect_store(store, endpoint, timeout_ns);
    if (status) bp_store_free(store);
    else *out_store = store;
    return status;
}

enum bp_status bp_store_serve(const char *host, struct bp_store **out_store)
{
    struct bp_store_server *server;
    struct bp_store_endpoint endpoint;

    if (!out_store) return bp_error(BP_ERR_INVALID, "bp_store_serve: out_store is NULL");
    if (bp_process_is_stopping()) return bp_error_stopped();
    if (!bp_store_parse(host ? host : "127.0.0.1", &endpoint))
        return bp_error(BP_ERR_INVALID,
                        "bp_store_serve: host is '%.100s': expected HOST, HOST:PORT or "
                        "HOST:PORT/TOKEN, a token of %d to %d characters",
                        host, BP_STORE_TOKEN_MIN, BP_STORE_TOKEN);
    TRY(bp_store_server_create(&endpoint, &server));
    return store_open(&endpoint, server, usual_grace_ns, out_store);
}

enum bp_status bp_store_create(const char *address, uint64_t timeout_ns,
                               struct bp_store **out_store)
{
    struct bp_store_endpoint endpoint;

    if (!address) return bp_error(BP_ERR_INVALID, "bp_store_create: address is NULL");
    if (!out_store) return bp_error(BP_ERR_INVALID, "bp_store_create: out_store is NULL");
    if (bp_process_is_stopping()) return bp_error_stopped();
    if (!bp_store_parse(address, &endpoint) || !*endpoint.port || !*endpoint.token)
        return bp_error(BP_ERR_INVALID,
                        "bp_store_create: address is '%.100s': expected HOST:PORT/TOKEN", address);
    return store_open(&endpoint, NULL, timeout_ns, out_store);
}

void bp_store_free(struct bp_store *store)
{
    if (!store) return;
    store->magic = 0;
    if (store->fd >= 0) close(store->fd);
    bp_store_server_destroy(store->server);
    pthread_mutex_destroy(&store->lock);
    free(store);
}

void bp_store_destroy(struct bp_store *store)
{
    if (store_is(store)) bp_store_free(store);
}

const char *bp_store_address(struct bp_store *store)
{
    return store_is(store) ? store->address : "";
}

/* A forked child does not serve its parent's store, so it creates its own. */
enum bp_status bp_store_own(struct bp_store **out_store)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct bp_store *own;
    static pid_t served_by;
    enum bp_status status = BP_OK;

    pthread_mutex_lock(&lock);
    if (!own || served_by != getpid()) {
        const char *host = bp_env_get("BP_STORE_HOST");
        status = bp_store_serve(host && *host ? host : NULL, &own);
        if (status == BP_OK) served_by = getpid();
    }
    *out_store = own;
    pthread_mutex_unlock(&lock);
    return status;
}

enum bp_status bp_store_announce(struct bp_store *store, const char *name)
{
    return bp_store_server_announce(store->server, name, store->address);
}
