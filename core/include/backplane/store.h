/* SPDX-License-Identifier: Apache-2.0 */
/* store.h: how the ranks of a job find each other: a small store of named values over TCP, which
 * one process serves, and what a launcher says of the job in the environment.
 *
 * A store is known by its address, "HOST:PORT/TOKEN". The token is a secret of the job: whoever
 * does not know it is turned away. Nothing that is sent is encrypted. */
#ifndef BP_STORE_H
#define BP_STORE_H

#include <backplane/api.h>

#ifdef __cplusplus
extern "C" {
#endif

struct bp_store;

/* Limits of a store: bytes of a key, of a value, and of an address with its ending 0. */
enum { BP_STORE_KEY_MAX = 255, BP_STORE_VALUE_MAX = 1 << 20, BP_STORE_ADDRESS_MAX = 128 };

/* Serves a store on a thread of this process, and is a client of it. It ends when the handle is
 * destroyed. host: the name or number by which the others reach this machine; NULL: 127.0.0.1, for
 * others on the same one. The kernel chooses the port, unless host ends in ":PORT". The token is
 * new random text, unless "/TOKEN" follows.
 *
 * BP_ERR_BUSY: the port that was asked for is in use. BP_ERR_NOT_FOUND: this machine has no such
 * address. */
BP_API enum bp_status bp_store_serve(const char *host, struct bp_store **out_store);

/* Connects to a store. Nobody may be there yet: it is tried again for timeout_ns.
 *
 * BP_ERR_INVALID: the address is none, or the store refused the token. BP_ERR_TIMEOUT: nobody
 * answered there. BP_ERR_BUSY: the store has as many connections as the limit of descriptors of its
 * process allows. */
BP_API enum bp_status bp_store_create(const char *address, uint64_t timeout_ns,
                                      struct bp_store **out_store);
BP_API void bp_store_destroy(struct bp_store *store);

/* The address, for others to connect to. "" for no store. */
BP_API const char *bp_store_address(struct bp_store *store);

/* Sets the value of a key: size bytes. Whoever waits for the key gets it.
 * BP_ERR_MEMORY: the store is full; keys and values take 256 MiB at most.
 *
 * This and the calls below: one after the other on one handle, so that who waits for a key holds up
 * other threads that use the same handle. BP_ERR_PEER: the store is gone; the handle is of no use
 * any more. */
BP_API enum bp_status bp_store_set(struct bp_store *store, const char *key, const void *value,
                                   uint64_t size);

/* Gets the value of a key, and waits for timeout_ns at most until somebody sets it.
 * *out_size is its length, of which at most size bytes are written to value.
 *
 * BP_ERR_TIMEOUT: nobody has. */
BP_API enum bp_status bp_store_get(struct bp_store *store, const char *key, uint64_t timeout_ns,
                                   void *value, uint64_t size, uint64_t *out_size);

/* Adds to the number under a key, which is 0 before; *out_value is the sum. The value that others
 * get is the 8 bytes of an int64_t.
 *
 * BP_ERR_INVALID: the key has a value of another length. */
BP_API enum bp_status bp_store_add(struct bp_store *store, const char *key, int64_t amount,
                                   int64_t *out_value);

/* Waits until count callers have called it with this key. The same key may be used again.
 *
 * BP_ERR_TIMEOUT: the message says how many came. */
BP_API enum bp_status bp_store_barrier(struct bp_store *store, const char *key, uint32_t count,
                                       uint64_t timeout_ns);

/* What the environment says of this process's job. Read, in this order, what is there of
 *
 *     BP_RANK, BP_WORLD_SIZE, BP_STORE              `bp launch`, or by hand
 *     OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE    Open MPI
 *     SLURM_PROCID, SLURM_NTASKS                    Slurm
 *
 * With the last two, and no BP_STORE, rank 0 serves the store and the others find it, as long as
 * all run on one machine. */
struct bp_job { /* answer: set size before the call */
    size_t size;
    uint32_t rank, ranks;
    const char *launcher; /* "bp", "openmpi", "slurm" */
    const char *store;    /* BP_STORE, or "" */
};

/* BP_ERR_NOT_FOUND: no launcher has started this process. BP_ERR_INVALID: what it says cannot be.
 */
BP_API enum bp_status bp_job_find(struct bp_job *out);

#ifdef __cplusplus
}
#endif

#endif
