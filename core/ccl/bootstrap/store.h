/* SPDX-License-Identifier: Apache-2.0 */
/* store.h: what the client and the server of a store say to each other.
 *
 * The client begins with a greeting, and gets a reply; then each request gets a reply, one at a
 * time. Numbers are little-endian. */
#ifndef BP_STORE_PRIVATE_H
#define BP_STORE_PRIVATE_H

#include "../../base/base.h"
#include <time.h>

enum { BP_STORE_TOKEN = 32, BP_STORE_TOKEN_MIN = 8 }; /* characters */

struct bp_store_greeting {
    char magic[8]; /* BP_STORE_MAGIC */
    char token[BP_STORE_TOKEN];
};
#define BP_STORE_MAGIC "bpstore1"

enum bp_store_verb { BP_STORE_SET = 1, BP_STORE_GET = 2, BP_STORE_ADD = 3, BP_STORE_WILL = 4 };

struct bp_store_request { /* key and value follow */
    uint16_t verb, key_size;
    uint32_t value_size;
    uint64_t number; /* GET: how long to wait, in ns; ADD: the amount */
};

struct bp_store_reply { /* the value follows */
    uint32_t status, value_size;
    uint64_t number; /* ADD: the sum; where there is no room, how much there is in all */
};

/* An address, taken apart. */
struct bp_store_endpoint {
    char host[64], port[8], token[BP_STORE_TOKEN + 1];
};

/* "HOST[:PORT][/TOKEN]"; an IPv6 number stands in brackets if a port follows. false: it is none. */
bool bp_store_parse(const char *address, struct bp_store_endpoint *out);

enum { BP_STORE_BUCKETS = 256, BP_STORE_BYTES_MAX = 256 << 20 };

struct bp_store_entry {
    struct bp_store_entry *next;
    char *key;
    void *value;
    uint32_t size;
};

/* store_values.c. All zero: empty. */
struct bp_store_values {
    struct bp_store_entry *bucket[BP_STORE_BUCKETS];
    uint64_t bytes; /* that these take, and what else is counted with them: BP_STORE_BYTES_MAX at
                       most */
};

/* NULL: the key has no value. */
const struct bp_store_entry *bp_store_values_find(const struct bp_store_values *values,
                                                  const char *key);
/* Bytes that a value takes, with its key; whether there are as many, in place of what the key has.
 */
uint64_t bp_store_values_cost(const char *key, uint32_t size);
bool bp_store_values_fit(const struct bp_store_values *values, const char *key, uint32_t size);
/* BP_ERR_MEMORY, without a message. */
enum bp_status bp_store_values_set(struct bp_store_values *values, const char *key,
                                   const void *value, uint32_t size);
void bp_store_values_finish(struct bp_store_values *values);

struct bp_store_server;

/* Listens, and begins the thread. Fills in the port and the token that endpoint leaves open. */
enum bp_status bp_store_server_create(struct bp_store_endpoint *endpoint,
                                      struct bp_store_server **out_server);
void bp_store_server_destroy(struct bp_store_server *server);

/* From now on processes of the same user that look for this name by bp_store_discover are told the
 * text. BP_ERR_BUSY: another process of this user has the name. Once only. */
enum bp_status bp_store_server_announce(struct bp_store_server *server, const char *name,
                                        const char *text);

/* The store that this process serves for communicators; made by the first call, it lasts as long as
 * the process. Not to be destroyed. */
enum bp_status bp_store_own(struct bp_store **out_store);
enum bp_status bp_store_announce(struct bp_store *store, const char *name);
/* How long after a deadline the store may answer before it counts as gone; usually this. */
#define BP_STORE_GRACE_NS UINT64_C(10000000000)
void bp_store_set_grace(struct bp_store *store, uint64_t grace_ns);

/* discovery.c. The addresses of an endpoint, as getaddrinfo gives them for a stream socket; flags:
 * its AI_PASSIVE, or 0. EAI_AGAIN: they were not known by the deadline, or BP_RESOLVE_NS from
 * now. */
#define BP_RESOLVE_NS UINT64_C(20000000000)
struct addrinfo;
int bp_address_resolve(const struct bp_store_endpoint *endpoint, int flags, uint64_t deadline,
                       struct addrinfo **out_list);

/* Listens at an abstract local socket of this name, or, if another user has it, of a
 * longer one. */
enum bp_status bp_announcement_listen(const char *name, int *out_fd);
/* The address that a process of this user announces under a name, until a deadline; timeout_ns is
 * what the message says of that. BP_ERR_TIMEOUT. */
enum bp_status bp_store_discover(const char *name, uint64_t deadline, uint64_t timeout_ns,
                                 char *out_address, size_t size);
/* Waits until the socket is ready for events of poll. 0: the deadline has passed; -1: an error. */
int bp_socket_wait(int fd, short events, uint64_t deadline);

/* When the store's connection to this handle ends, the value is put behind what the key has by
 * then: so a process that dies says so. size 0: no will any more. A later one takes its place. */
enum bp_status bp_store_will(struct bp_store *store, const char *key, const void *value,
                             uint64_t size);

/* What rank has to say of a communicator: "NAME/WHATRANK". */
void bp_store_rank_key(char key[BP_STORE_KEY_MAX], const char *name, const char *what,
                       uint32_t rank);

uint64_t bp_clock_ns(void); /* monotonic */
static inline struct timespec bp_timespec(uint64_t ns)
{
    return (struct timespec){(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
}
/* The moment that is timeout_ns away; UINT64_MAX stays. */
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
