/* SPDX-License-Identifier: Apache-2.0 */
/* rendezvous.h: how the ranks of one communicator find each other by a store, and tell each other
 * there that it cannot be made. */
#ifndef BP_RENDEZVOUS_PRIVATE_H
#define BP_RENDEZVOUS_PRIVATE_H

#include "store.h"

enum {
    BP_COMM_MAX_RANKS = 256,        /* of a communicator, at most */
    BP_RENDEZVOUS_LIBRARY = 96,     /* bytes of the text that names a device's library */
    BP_FAILURE_POLL_NS = 100000000, /* between two looks of a waiting rank at the others */
};

/* A rank of a communicator that is being made. */
struct bp_rendezvous {
    struct bp_store *store;
    const char *name; /* of the communicator */
    uint32_t rank, size;
};

/* What ranks say of themselves when they meet. */
struct bp_host_topology {
    uint32_t host_of[BP_COMM_MAX_RANKS]; /* hosts are in the order of their first ranks */
    int32_t pid[BP_COMM_MAX_RANKS];
    uint32_t n_host, n_local, local, leader; /* leader: of this rank's host */
};

/* BP_CCL_TIMEOUT, or the usual time. */
uint64_t bp_rendezvous_timeout(void);
/* "HOST:PORT/TOKEN/NAME", taken apart; false: it is no id. */
bool bp_comm_id_parse(const struct bp_comm_id *id, char *address, size_t size,
                      const char **out_name);

/* Takes the rank's number, which no other process may have. */
enum bp_status bp_rendezvous_claim(const struct bp_rendezvous *m);
/* Says what this rank is, and hears that of all others. library: of its device; or "". *out_native:
 * all have the same library; else why says which do not, if any has one. */
enum bp_status bp_rendezvous_exchange(const struct bp_rendezvous *m, const char *library,
                                      uint64_t deadline, uint64_t timeout_ns,
                                      struct bp_host_topology *out_topology, bool *out_native,
                                      char *why, size_t size);
/* This process cannot be a rank of the communicator of that name, as its message says: those that
 * may wait for it there are told. Returns status and message as they were. */
enum bp_status bp_rendezvous_refuse(const char *address, const char *name, uint64_t timeout_ns,
                                    enum bp_status status);
/* Waits for what a rank says under a key (bp_store_rank_key), so many bytes, until the deadline, or
 * until the communicator has failed, or the rank's process has died, if it is one of this host
 * (pid; else 0). BP_ERR_TIMEOUT: the caller names who is late. */
enum bp_status bp_rendezvous_wait(struct bp_store *store, const char *name, const char *what,
                                  uint32_t rank, int32_t pid, uint64_t deadline, void *out,
                                  uint64_t bytes);
/* Of n ranks those who have not said it: "rank 3", "ranks 1, 4". Returns text. */
const char *bp_rendezvous_list_missing(struct bp_store *store, const char *name, const char *what,
                                       uint32_t n, char *text, size_t size);
/* Whether a process has ended, or ends within so many milliseconds; a zombie has ended. */
bool bp_process_has_died(int32_t pid, int timeout_ms);

/* The failure of a communicator, as the store keeps it under NAME/failed. */
struct bp_store_failure {
    uint32_t status, zero;
    char text[1500];
};

/* "NAME/WHAT": what ranks of a communicator have in common. */
void bp_store_comm_key(const char *name, char key[BP_STORE_KEY_MAX], const char *what);
/* Its value, of so many bytes. */
enum bp_status bp_store_comm_get(struct bp_store *store, const char *name, const char *what,
                                 uint64_t timeout_ns, void *value, uint64_t bytes);
/* Makes a failure the communicator's, or, if it is not the first, gives the first. false: the store
 * is gone. */
bool bp_store_failure_publish(struct bp_store *store, const char *name, uint32_t *status,
                              char *text, size_t size);
/* The first failure of a communicator, on however many hosts, while it is made: this thread's
 * message is told to all others of that name, or, if it is not the first, becomes the first one's,
 * whose status is answered. */
enum bp_status bp_store_failure_report(struct bp_store *store, const char *name,
                                       enum bp_status status);
/* BP_OK: there is none so far, or (wait) for a moment more. */
enum bp_status bp_store_failure_poll(struct bp_store *store, const char *name, bool wait);
/* What another process says that a failure is; BP_ERR_INTERNAL if there is no such status. */
enum bp_status bp_status_of_number(uint32_t status);

#endif
