/* SPDX-License-Identifier: Apache-2.0 */
/* store.h: what the client and the server of a store say to each other.
 *
 * The client begins with a greeting, and gets a reply; then each request gets a reply, one at a
 * time. Numbers are little-endian. */
#ifndef BP_STORE_PRIVATE_H
#define BP_STORE_PRIVATE_H

#include "../core.h"
#include <time.h>

enum { BP_STORE_TOKEN = 32, BP_STORE_TOKEN_MIN = 8 }; /* characters */

struct bp_store_greeting {
    char word[8]; /* BP_STORE_WORD */
    char token[BP_STORE_TOKEN];
};
#define BP_STORE_WORD "bpstore1"

enum bp_store_verb { BP_STORE_SET = 1, BP_STORE_GET = 2, BP_STORE_ADD = 3, BP_STORE_WILL = 4 };

struct bp_store_request { /* key and value follow */
    uint16_t verb, key_size;
    uint32_t value_size;
    uint64_t number; /* GET: how long to wait, in ns; ADD: the amount */
};

struct bp_store_reply { /* the value follows */
    uint32_t status, value_size;
    uint64_t number; /* ADD: the sum */
};

/* An address, taken apart. */
struct bp_store_place {
    char host[64], port[8], token[BP_STORE_TOKEN + 1];
};

/* "HOST[:PORT][/TOKEN]"; an IPv6 number stands in brackets if a port follows. false: it is none. */
bool bp_store_parse(const char *address, struct bp_store_place *out);

struct bp_store_server;

/* Listens, and begins the thread. Fills in the port and the token that place leaves open. */
enum bp_status bp_store_server_create(struct bp_store_place *place,
                                      struct bp_store_server **out_server);
void bp_store_server_destroy(struct bp_store_server *server);

/* From now on whoever connects to the abstract local socket of this name, as the same user, is told
 * the text. BP_ERR_BUSY: another process has the name. Once only. */
enum bp_status bp_store_server_announce(struct bp_store_server *server, const char *name,
                                        const char *text);

/* The store that this process serves for communicators; made by the first call, it lasts as long as
 * the process. Not to be destroyed. */
enum bp_status bp_store_own(struct bp_store **out_store);
enum bp_status bp_store_announce(struct bp_store *store, const char *name);
/* How long after a deadline the store may answer before it counts as gone; usually 10 s. */
void bp_store_set_grace(struct bp_store *store, uint64_t grace_ns);
/* The address that is announced under a name. BP_ERR_TIMEOUT. */
enum bp_status bp_store_seek(const char *name, uint64_t timeout_ns, char *out_address, size_t size);

/* When the store's connection to this handle ends, the value is put behind what the key has by
 * then: so a process that dies says so. size 0: no will any more. A later one takes its place. */
enum bp_status bp_store_will(struct bp_store *store, const char *key, const void *value,
                             uint64_t size);

/* What rank has to say of a communicator: "NAME/WHATRANK". */
void bp_store_key(char key[BP_STORE_KEY_MAX], const char *name, const char *what, uint32_t rank);

uint64_t bp_clock_ns(void); /* monotonic */
static inline struct timespec bp_timespec(uint64_t ns)
{
    return (struct timespec){(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
}
/* The moment that is timeout_ns away; UINT64_MAX stays. */
static inline uint64_t bp_deadline(uint64_t timeout_ns)
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
