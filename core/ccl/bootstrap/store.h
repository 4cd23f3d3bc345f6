/* SPDX-License-Identifier: Apache-2.0 */
/* store.h: declares the protocol between a client and the server of a store, and the functions of
 * both.
 *
 * The client sends a greeting and receives a reply; after that, each request receives a reply, one
 * at a time. Numbers are little-endian. */
#ifndef BP_STORE_PRIVATE_H
#define BP_STORE_PRIVATE_H

#include "../../base/base.h"
#include "../../base/clock.h"
#include <time.h>

enum { BP_STORE_TOKEN = 32, BP_STORE_TOKEN_MIN = 8 }; /* characters */

struct bp_store_greeting {
    char magic[8]; /* BP_STORE_MAGIC */
    char token[BP_STORE_TOKEN];
};
#define BP_STORE_MAGIC "bpstore1"

enum bp_store_verb { BP_STORE_SET = 1, BP_STORE_GET = 2, BP_STORE_ADD = 3, BP_STORE_WILL = 4 };

struct bp_store_request { /* followed by the key and the value */
    uint16_t verb, key_size;
    uint32_t value_size;
    uint64_t number; /* GET: timeout in ns; ADD: the amount */
};

struct bp_store_reply { /* followed by the value */
    uint32_t status, value_size;
    uint64_t number; /* ADD: the sum; on lack of room, the limit in bytes */
};

/* The parts of a store's address. */
struct bp_store_endpoint {
    char host[64], port[8], token[BP_STORE_TOKEN + 1];
};

/* Splits "HOST[:PORT][/TOKEN]". An IPv6 address is in brackets if a port follows. false:
 * invalid. */
bool bp_store_parse(const char *address, struct bp_store_endpoint *out);

enum { BP_STORE_BUCKETS = 256, BP_STORE_BYTES_MAX = 256 << 20 };

struct bp_store_entry {
    struct bp_store_entry *next;
    char *key;
    void *value;
    uint32_t size;
};

/* store_values.c: the keys and values of a store. A zeroed struct is an empty one. */
struct bp_store_values {
    struct bp_store_entry *bucket[BP_STORE_BUCKETS];
    /* Memory of the values and of the wills, BP_STORE_BYTES_MAX at most. */
    uint64_t bytes;
};

/* NULL: the key has no value. */
const struct bp_store_entry *bp_store_values_find(const struct bp_store_values *values,
                                                  const char *key);
/* The first function returns the memory that a value takes, with its key. The second returns
 * whether that much is available if the key's old value is replaced. */
uint64_t bp_store_values_cost(const char *key, uint32_t size);
bool bp_store_values_fit(const struct bp_store_values *values, const char *key, uint32_t size);
/* Returns BP_OK, or BP_ERR_MEMORY without a message. */
enum bp_status bp_store_values_set(struct bp_store_values *values, const char *key,
                                   const void *value, uint32_t size);
void bp_store_values_finish(struct bp_store_values *values);

struct bp_store_server;

/* Starts to listen, and starts the server thread. Fills in the port and the token if endpoint
 * leaves them open. */
enum bp_status bp_store_server_create(struct bp_store_endpoint *endpoint,
                                      struct bp_store_server **out_server);
void bp_store_server_destroy(struct bp_store_server *server);

/* From now on, bp_store_discover of this name returns the text to processes of the same user.
 * BP_ERR_BUSY: another process of this user has announced the name. May be called once per
 * server. */
enum bp_status bp_store_server_announce(struct bp_store_server *server, const char *name,
                                        const char *text);

/* Destroys a store, NULL is allowed, as bp_store_destroy does. Handles are not valid any more while
 * the process ends, and the last work of a communicator may still free its store then. */
void bp_store_free(struct bp_store *store);

/* The store that this process serves for communicators. The first call creates it; it exists until
 * the process ends, and must not be destroyed. */
enum bp_status bp_store_own(struct bp_store **out_store);
enum bp_status bp_store_announce(struct bp_store *store, const char *name);
/* How long after a request's deadline a store may reply before it counts as gone, by default. */
#define BP_STORE_GRACE_NS UINT64_C(10000000000)
void bp_store_set_grace(struct bp_store *store, uint64_t grace_ns);

/* discovery.c. Looks up the addresses of an endpoint for a stream socket by getaddrinfo. flags:
 * AI_PASSIVE or 0. EAI_AGAIN: no result by the deadline, or within BP_RESOLVE_NS. */
#define BP_RESOLVE_NS UINT64_C(20000000000)
struct addrinfo;
int bp_address_resolve(const struct bp_store_endpoint *endpoint, int flags, uint64_t deadline,
                       struct addrinfo **out_list);

/* Listens at an abstract local socket with this name, or with a longer name if another user has
 * taken it. */
enum bp_status bp_announcement_listen(const char *name, int *out_fd);
/* Finds the address that a process of this user announces under a name. timeout_ns: the waiting
 * time that the message of BP_ERR_TIMEOUT states. */
enum bp_status bp_store_discover(const char *name, uint64_t deadline, uint64_t timeout_ns,
                                 char *out_address, size_t size);
/* Waits for poll events of a socket. Returns 1 if it is ready, 0 if the deadline has passed, -1 on
 * an error. */
int bp_socket_wait(int fd, short events, uint64_t deadline);

/* Sets the will of this connection: when the connection ends, the server appends the value to the
 * key's value. So other processes notice that this process has died. size 0: removes the will. A
 * new will replaces the old one. */
enum bp_status bp_store_will(struct bp_store *store, const char *key, const void *value,
                             uint64_t size);

/* The key "NAME/WHATRANK" of a value that one rank of a communicator sets. */
void bp_store_rank_key(char key[BP_STORE_KEY_MAX], const char *name, const char *what,
                       uint32_t rank);

static inline struct timespec bp_timespec(uint64_t ns)
{
    return (struct timespec){(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
}
/* The time timeout_ns from now; UINT64_MAX remains UINT64_MAX. */
static inline uint64_t bp_clock_after(uint64_t timeout_ns)
{
    uint64_t now = bp_clock_ns();

    return timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns;
}
static inline uint64_t bp_time_left(uint64_t deadline)
{
    uint64_t now = bp_clock_ns();

    return deadline == UINT64_MAX ? UINT64_MAX : deadline > now ? deadline - now : 0;
}

#endif
