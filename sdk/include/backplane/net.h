/* SPDX-License-Identifier: Apache-2.0 */
/* net.h: how collectives get from one host to another: what a network module exports. It is no
 * plugin: it has no devices, and the core opens it only when the ranks of a communicator are on
 * several hosts. The library is called bp_net_NAME.so and lies where plugins lie.
 *
 * A worker belongs to one rank of one communicator. It is used by one thread at a time, not always
 * the same. Nothing waits: whoever wants an operation to end calls progress until it is done. */
#ifndef BP_NET_H
#define BP_NET_H

#include <backplane/status.h>
#include <backplane/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* In version 2 messages may have a head: send has another argument, and recv_headed is new. */
enum { BP_NET_VERSION = 2, BP_NET_ADDRESS_MAX = 4096, BP_NET_WHY = 200 };

/* A message that is under way. The caller keeps it, and the bytes, where they are until it is done;
 * the module writes to it in any of its functions. */
struct bp_net_op { /* hot */
    uint32_t done;   /* 1: it has ended, with status */
    uint32_t status; /* enum bp_status */
    uint64_t bytes;  /* that recv_headed has received, the head's too */
    void *request;   /* the module's */
};

/* A message whose first bytes may say what the others are. On its way it is one of head_bytes +
 * bytes, like any other. The caller keeps it like the operation. */
struct bp_net_message { /* hot */
    void *head, *data; /* sent from, not written to; or received to */
    uint64_t head_bytes, bytes;
    const void *want;   /* received: as many bytes as a head. NULL where it is sent */
    uint64_t module[4]; /* the module's */
};

struct bp_net { /* table */
    size_t size;
    const char *name;

    /* out_why: room for BP_NET_WHY characters, the reason of a failure. */
    enum bp_status (*create)(void **out_worker, char *out_why);
    /* Ends connections; messages that are not done end with a failure before. */
    void (*destroy)(void *worker);

    /* What other workers connect to, at most BP_NET_ADDRESS_MAX bytes: *out_size of them. */
    enum bp_status (*address)(void *worker, void *out_bytes, uint64_t *out_size);
    /* A peer lasts as long as the worker. It may be known only later that it cannot be reached. */
    enum bp_status (*connect)(void *worker, const void *bytes, uint64_t size, void **out_peer,
                              char *out_why);
    /* NULL, or why the peer is of no use any more: that stays. */
    const char *(*peer_lost)(void *peer);

    /* Messages of one tag between two workers arrive in order. A send is done when the bytes may be
     * written again. Of less than 256 bytes, or more than 40 KiB, what does not fit into the
     * system's buffers, 24 KiB at least, may need further progress to go on its way then. */
    void (*send)(void *peer, uint64_t tag, struct bp_net_message *message,
                 struct bp_net_op *out_op);
    /* From whomever, with exactly that tag. A longer message is a failure. */
    void (*recv)(void *worker, uint64_t tag, void *data, uint64_t bytes, struct bp_net_op *out_op);
    /* How much happened. */
    uint32_t (*progress)(void *worker);

    /* Ends every message that is under way with a failure: no byte of them is touched afterwards,
     * and the worker is only to be destroyed. n: operations that may not be done. */
    void (*abandon)(void *worker, struct bp_net_op *const *ops, uint32_t n);

    /* From whomever, with exactly that tag, of whatever length, with a head or not. The first bytes
     * come to head; what follows, up to bytes, to data, if the head is the one that is wanted, byte
     * by byte: else data is left alone, and what follows is dropped. */
    void (*recv_headed)(void *worker, uint64_t tag, struct bp_net_message *message,
                        struct bp_net_op *out_op);
};

/* The one function that a module exports. NULL: it does not have that version. */
const struct bp_net *bp_net_get(uint32_t version);

#ifdef __cplusplus
}
#endif

#endif
