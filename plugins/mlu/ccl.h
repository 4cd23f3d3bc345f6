/* SPDX-License-Identifier: Apache-2.0 */
/* ccl.h: declares how the plugin joins ranks by CNCL. CNCL makes all communicators of a process in
 * one call, with one id, and ends them together; Backplane joins one rank after the other. So the
 * ranks of a process first meet: meet.c finds out how many ranks of the communicator are in this
 * process, and clique.c collects them, makes the call, and ends the communicators. */
#ifndef MLU_CCL_H
#define MLU_CCL_H

#include "mlu.h"

/* CNCL's struct cnclCliqueId. */
struct cncl_clique_id {
    char data[128];
    uint64_t hash;
};

/* An id of a communicator as Backplane passes it to all ranks: CNCL's, and the address at which the
 * ranks meet. */
struct mlu_id {
    struct cncl_clique_id clique;
    uint8_t token[32]; /* proves that a caller has the id */
    uint16_t port;
    char host[94];
};
_Static_assert(sizeof(struct mlu_id) == 264, "no padding: ids are compared as bytes");

struct cncl_calls {
#define CALL(result, name, parameters) result(*name) parameters;
#include "cncl.def"
};
extern const struct cncl_calls *const mlu_cncl; /* valid once the library is open */

enum {
    CNCL_SUCCESS = 0,
    CNCL_IN_PROGRESS = 0x06
};

/* Traces a call of CNCL, and writes the message if it has failed. device NULL: none. */
enum bp_status mlu_ccl_check(const struct mlu *self, const struct mlu_device *device,
                             const char *function, int code);

/* meet.c: the meeting of the ranks of one id, which a thread of the instance that makes the id
 * serves over TCP, at the address BP_STORE_HOST (127.0.0.1), like the core's store. */
enum bp_status mlu_meeting_open(struct mlu *self, struct mlu_id *id);
/* Waits until all ranks are there; out_here: how many of them are in this process. */
enum bp_status mlu_meeting_attend(struct mlu *self, const struct mlu_id *id, uint32_t rank,
                                  uint32_t n_rank, uint32_t *out_here);
/* Ends the meetings of an instance. */
void mlu_meetings_finish(struct mlu *self);

/* clique.c: the communicators of one id in this process. */
struct mlu_comm {
    void *raw;
    struct mlu_device *device;
    struct mlu_clique *clique;
    uint32_t rank;
    uint32_t at; /* its number among the ranks of this process */
};
/* Joins a rank, after the other ranks of this process, of which there are `here`, have called. */
enum bp_status mlu_clique_join(struct mlu_device *device, const struct mlu_id *id, uint32_t rank,
                               uint32_t n_rank, uint32_t here, struct mlu_comm *out);
/* Ends a rank's communicator. The last rank of the process ends all of them. */
void mlu_clique_leave(struct mlu_comm *comm);
/* Begins to abort a rank's communicator; any thread, also while others use it. */
void mlu_clique_abort(struct mlu_comm *comm);
bool mlu_clique_is_aborted(const struct mlu_comm *comm);
/* CNCL's asynchronous error of a communicator; CNCL_SUCCESS after an abort. */
int mlu_clique_error(const struct mlu_comm *comm);

extern const struct bp_ccl mlu_ccl;

#endif
