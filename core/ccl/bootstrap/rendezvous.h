/* SPDX-License-Identifier: Apache-2.0 */
/* rendezvous.h: declares how the ranks of a new communicator find each other through a store, and
 * how they report there that the communicator cannot be created. */
#ifndef BP_RENDEZVOUS_PRIVATE_H
#define BP_RENDEZVOUS_PRIVATE_H

#include "store.h"

enum {
    BP_COMM_MAX_RANKS = 256,        /* ranks of one communicator at most */
    BP_RENDEZVOUS_LIBRARY = 96,     /* size of the text that names a device's library */
    BP_FAILURE_POLL_NS = 100000000, /* interval at which a waiting rank looks for failures */
};

/* A rank of a communicator that is being created. */
struct bp_rendezvous {
    struct bp_store *store;
    const char *name; /* name of the communicator */
    uint32_t rank, size;
};

/* The hosts and processes of all ranks, from the messages that the ranks exchange at the
 * rendezvous. */
struct bp_host_topology {
    uint32_t host_of[BP_COMM_MAX_RANKS]; /* hosts in the order of their first ranks */
    int32_t pid[BP_COMM_MAX_RANKS];
    uint32_t n_host, n_local, local, leader; /* leader: first rank of this rank's host */
};

/* Reads the text of BP_CCL_TIMEOUT. false: it is no number of seconds above 0. */
bool bp_rendezvous_read_timeout(const char *text, uint64_t *out_ns);
/* The timeout: BP_CCL_TIMEOUT, or the default. */
uint64_t bp_rendezvous_timeout(void);
/* Splits "HOST:PORT/TOKEN/NAME". false: this is no valid id. */
bool bp_comm_id_parse(const struct bp_comm_id *id, char *address, size_t size,
                      const char **out_name);

/* Claims the rank's number, which no other process may use. */
enum bp_status bp_rendezvous_claim(const struct bp_rendezvous *m);
/* Publishes this rank's process, host and library, and reads those of all ranks. library: of its
 * device; or "". *out_native: all ranks have the same library; otherwise `why` names a rank with
 * another library, if this rank has one. */
enum bp_status bp_rendezvous_exchange(const struct bp_rendezvous *m, const char *library,
                                      uint64_t deadline, uint64_t timeout_ns,
                                      struct bp_host_topology *out_topology, bool *out_native,
                                      char *why, size_t size);
/* Reports that this process cannot be a rank of the communicator of that name, with this thread's
 * message, to ranks that may be waiting for it in the store. Returns status, and leaves the message
 * unchanged. */
enum bp_status bp_rendezvous_refuse(const char *address, const char *name, uint64_t timeout_ns,
                                    enum bp_status status);
/* Waits until a rank has set the value of `bytes` bytes of a key (bp_store_rank_key). Ends at the
 * deadline, if the communicator has failed, or if the rank's process has died. pid: the process if
 * it is on this host, else 0. BP_ERR_TIMEOUT has no message of its own: the caller names the late
 * ranks. */
enum bp_status bp_rendezvous_wait(struct bp_store *store, const char *name, const char *what,
                                  uint32_t rank, int32_t pid, uint64_t deadline, void *out,
                                  uint64_t bytes);
/* Lists those of n ranks that have not set the key: "rank 3", "ranks 1, 4". Returns text. */
const char *bp_rendezvous_list_missing(struct bp_store *store, const char *name, const char *what,
                                       uint32_t n, char *text, size_t size);
/* Whether a process has ended, or ends within timeout_ms milliseconds. A zombie has ended. */
bool bp_process_has_died(int32_t pid, int timeout_ms);

/* The failure of a communicator, as stored under NAME/failed. */
struct bp_store_failure {
    uint32_t status, zero;
    char text[1500];
};

/* The key "NAME/WHAT" of a value that the ranks of a communicator share. */
void bp_store_comm_key(const char *name, char key[BP_STORE_KEY_MAX], const char *what);
/* Reads the value of that key, which must have `bytes` bytes. */
enum bp_status bp_store_comm_get(struct bp_store *store, const char *name, const char *what,
                                 uint64_t timeout_ns, void *value, uint64_t bytes);
/* Publishes a failure of the communicator. If another failure was published before, replaces status
 * and text by the first one. false: the store is gone. */
bool bp_store_failure_publish(struct bp_store *store, const char *name, uint32_t *status,
                              char *text, size_t size);
/* While a communicator is being created, on one or several hosts: publishes this thread's message
 * as the communicator's failure. If another failure was published before, that one becomes this
 * thread's message. Returns the status of the first failure. */
enum bp_status bp_store_failure_report(struct bp_store *store, const char *name,
                                       enum bp_status status);
/* Looks for a failure of the communicator. BP_OK: there is none so far; with wait, none within a
 * moment. */
enum bp_status bp_store_failure_poll(struct bp_store *store, const char *name, bool wait);
/* The status of a number that another process has published; BP_ERR_INTERNAL if the number is no
 * status. */
enum bp_status bp_status_of_number(uint32_t status);

#endif
