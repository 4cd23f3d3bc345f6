/* SPDX-License-Identifier: Apache-2.0 */
/* net.h: declares the functions by which a network module sends the data of collectives from host
 * to host. A module is no plugin: it has no devices, and the core opens it only when the ranks of a
 * communicator are on several hosts. The library is called bp_net_NAME.so and is searched where
 * plugins are searched.
 *
 * A worker belongs to one rank of one communicator. One thread at a time uses it, not always the
 * same thread. No function waits: a caller that needs an operation to end calls progress until the
 * operation is done. */
#ifndef BP_NET_H
#define BP_NET_H

#include <backplane/status.h>
#include <backplane/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* In version 2 a message may have a header: send has one more argument, and recv_headed is new. */
enum { BP_NET_VERSION = 2, BP_NET_ADDRESS_MAX = 4096, BP_NET_WHY = 200 };

/* A message that is being sent or received. The caller keeps this struct, and the bytes of the
 * message, at their addresses until the operation is done; the module may write to the struct in
 * any of its functions. */
struct bp_net_op { /* hot */
    uint32_t done;   /* 1: the operation has ended, with status */
    uint32_t status; /* enum bp_status */
    uint64_t bytes;  /* bytes that recv_headed has received, header included */
    void *request;   /* for the module */
};

/* A message with an optional header, whose bytes may describe the rest of the message. On the
 * network it is one message of head_bytes + bytes, like any other. The caller keeps the struct as
 * long as the operation. */
struct bp_net_message { /* hot */
    void *header, *data; /* the header and the other bytes: when sent, read only; when received,
                          written */
    uint64_t header_bytes, bytes;
    const void *want;   /* when received: the expected header, of head_bytes bytes. NULL when
                           sent */
    uint64_t module[4]; /* for the module */
};

struct bp_net { /* table */
    size_t size;
    const char *name;

    /* Creates a worker. out_why: room for BP_NET_WHY characters, for the reason of a failure. */
    enum bp_status (*create)(void **out_worker, char *out_why);
    /* Closes the worker's connections; messages that are not done fail before that. */
    void (*destroy)(void *worker);

    /* Writes the address to which other workers connect, at most BP_NET_ADDRESS_MAX bytes, and sets
     * *out_size to its length. */
    enum bp_status (*address)(void *worker, void *out_bytes, uint64_t *out_size);
    /* Connects to another worker. The peer lives as long as the worker. That the peer cannot be
     * reached may become known only later. */
    enum bp_status (*connect)(void *worker, const void *bytes, uint64_t size, void **out_peer,
                              char *out_why);
    /* Returns NULL, or the reason why the peer cannot be used any more; a lost peer stays lost. */
    const char *(*peer_lost)(void *peer);

    /* Sends a message. Messages of one tag between two workers arrive in order. A send is done when
     * the caller may write the bytes again. A message of 256 bytes to 40 KiB has then been handed
     * to the system completely. For a shorter or longer one, the part that does not fit into the
     * system's buffers (of at least 24 KiB) may need further calls of progress after the send is
     * done. */
    void (*send)(void *peer, uint64_t tag, struct bp_net_message *message,
                 struct bp_net_op *out_op);
    /* Receives a message from any peer, with exactly that tag. A longer message than `bytes` is a
     * failure. */
    void (*recv)(void *worker, uint64_t tag, void *data, uint64_t bytes, struct bp_net_op *out_op);
    /* Advances all operations of the worker. Returns how many events happened; 0: none. */
    uint32_t (*progress)(void *worker);

    /* Ends every message in progress with a failure: the module accesses none of their bytes
     * afterwards, and the only further call with the worker is destroy. ops: the n operations that
     * may not be done. */
    void (*abandon)(void *worker, struct bp_net_op *const *ops, uint32_t n);

    /* Receives a message from any peer, with exactly that tag, of any length, with or without a
     * header. The first bytes are written to head. If head then equals want, byte by byte, the
     * rest, up to `bytes`, is written to data; otherwise data is unchanged, and the rest is
     * dropped. */
    void (*recv_headed)(void *worker, uint64_t tag, struct bp_net_message *message,
                        struct bp_net_op *out_op);
};

/* The one function that a module exports. Returns NULL if the module does not support that
 * version. */
const struct bp_net *bp_net_get(uint32_t version);

#ifdef __cplusplus
}
#endif

#endif
