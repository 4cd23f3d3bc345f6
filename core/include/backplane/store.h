/* SPDX-License-Identifier: Apache-2.0 */
/* store.h: serves and uses a small store of named values over TCP, by which the ranks of a job find
 * each other. One process serves it. This header also reads the job's description that a launcher
 * puts into the environment.
 *
 * A store is identified by its address, "HOST:PORT/TOKEN". The token is a secret of the job: the
 * store refuses clients that do not know it. Data is sent without encryption. */
#ifndef BP_STORE_H
#define BP_STORE_H

#include <backplane/api.h>

#ifdef __cplusplus
extern "C" {
#endif

struct bp_store;

/* Limits of a store: bytes of a key, of a value, and of an address including its terminating 0. */
enum { BP_STORE_KEY_MAX = 255, BP_STORE_VALUE_MAX = 1 << 20, BP_STORE_ADDRESS_MAX = 128 };

/* Serves a store on a thread of this process; the handle is also a client of it. The store ends
 * when the handle is destroyed. host: the name or number by which the other processes reach this
 * machine; NULL: 127.0.0.1, for processes on the same machine. The kernel chooses the port, unless
 * host ends in ":PORT". The token is new random text, unless "/TOKEN" follows.
 *
 * BP_ERR_BUSY: the requested port is in use. BP_ERR_NOT_FOUND: this machine has no such address. */
BP_API enum bp_status bp_store_serve(const char *host, struct bp_store **out_store);

/* Connects to a store. The store need not exist yet: the call tries again for timeout_ns.
 *
 * BP_ERR_INVALID: the text is no address, or the store refused the token. BP_ERR_TIMEOUT: no store
 * replied at that address. BP_ERR_BUSY: the store has as many connections as the limit of
 * descriptors of its process allows. */
BP_API enum bp_status bp_store_create(const char *address, uint64_t timeout_ns,
                                      struct bp_store **out_store);
BP_API void bp_store_destroy(struct bp_store *store);

/* Returns the address to which other processes connect. "" for no store. */
BP_API const char *bp_store_address(struct bp_store *store);

/* Sets the value of a key: size bytes. Every caller that waits for the key receives the value.
 * BP_ERR_MEMORY: the store is full; keys and values take 256 MiB at most.
 *
 * This call and the calls below run one after the other on one handle: a call that waits for a key
 * therefore blocks other threads that use the same handle. BP_ERR_PEER: the store no longer exists;
 * the handle cannot be used any more. */
BP_API enum bp_status bp_store_set(struct bp_store *store, const char *key, const void *value,
                                   uint64_t size);

/* Gets the value of a key, and waits for timeout_ns at most until a process sets it. *out_size is
 * the length of the value; at most size bytes of it are written to value.
 *
 * BP_ERR_TIMEOUT: no process has set the key in time. */
BP_API enum bp_status bp_store_get(struct bp_store *store, const char *key, uint64_t timeout_ns,
                                   void *value, uint64_t size, uint64_t *out_size);

/* Adds amount to the number under a key; a new key begins at 0. *out_value is the sum. bp_store_get
 * returns the number as the 8 bytes of an int64_t.
 *
 * BP_ERR_INVALID: the key has a value of another length. */
BP_API enum bp_status bp_store_add(struct bp_store *store, const char *key, int64_t amount,
                                   int64_t *out_value);

/* Waits until count callers have called it with this key. The same key may be used again
 * afterwards.
 *
 * BP_ERR_TIMEOUT: the message states how many callers came. */
BP_API enum bp_status bp_store_barrier(struct bp_store *store, const char *key, uint32_t count,
                                       uint64_t timeout_ns);

/* The description of this process's job, from the environment. The first of these lines whose
 * variables are set is used:
 *
 *     BP_RANK, BP_WORLD_SIZE, BP_STORE              `bp launch`, or set by hand
 *     OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE    Open MPI
 *     SLURM_PROCID, SLURM_NTASKS                    Slurm
 *
 * With the last two lines and without BP_STORE, rank 0 serves the store and the other ranks find
 * it, as long as all ranks run on one machine. */
struct bp_job { /* output struct: set size before the call */
    size_t size;
    uint32_t rank, ranks;
    const char *launcher; /* "bp", "openmpi", "slurm" */
    const char *store;    /* BP_STORE, or "" */
};

/* Fills *out with the description of the job. BP_ERR_NOT_FOUND: no launcher has started this
 * process. BP_ERR_INVALID: the description is contradictory or malformed. */
BP_API enum bp_status bp_job_find(struct bp_job *out);

#ifdef __cplusplus
}
#endif

#endif
