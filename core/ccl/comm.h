/* SPDX-License-Identifier: Apache-2.0 */
/* comm.h: communicators inside the core. */
#ifndef BP_COMM_PRIVATE_H
#define BP_COMM_PRIVATE_H

#include "../tensor/tensor.h"
#include "net/net_comm.h"
#include "transport.h"

/* A call with the tensors that it uses; of a group there are several in one piece of work. */
struct bp_comm_step {
    struct bp_collective c;       /* first */
    struct bp_tensor *src, *dst; /* references once it waits in a queue or group; or NULL */
};

/* Of a piece of work. */
static inline const char *bp_comm_steps_name(const struct bp_comm_step *steps, uint32_t n)
{
    return n > 1 ? "group" : bp_comm_call_name(steps->c.call);
}

struct bp_native; /* native.h */

struct bp_comm {
    uint32_t magic;
    _Atomic uint32_t refs; /* the app's, and one for each piece of work in a queue */
    uint32_t rank, size;
    struct bp_device *device; /* a reference */
    struct bp_store *store;
    const struct bp_transport *transport; /* by host memory */
    void *self;                           /* this rank's end of that: shm, or net */
    struct bp_shm_rank *shm;              /* of the ranks on this host */
    struct bp_net_comm *net;              /* where there are others; or NULL */
    uint32_t *global_ranks;               /* of the ranks on this host; or NULL */
    struct bp_remote *remote;             /* native.h: of native ones on several hosts; or NULL */
    struct bp_native *native;             /* the devices do it by themselves; or NULL, and */
    char why[320];                        /* why not, where they might */
    char algorithm_text[400];             /* what bp_comm_algorithm says where calls are staged */
    char address[BP_STORE_ADDRESS_MAX], name[96];
    uint64_t timeout_ns;
    uint32_t splits;
    struct bp_segment_listener listener; /* hears what the device gives back; ctx NULL: not yet */

    /* Pieces of work are done in the order in which they were given, whatever the streams. */
    uint64_t n_submitted;
    _Atomic uint64_t ended;
    _Atomic uint32_t waiting; /* threads, for their turn */
    pthread_mutex_t lock;
    pthread_cond_t turn;

    struct bp_stream *group; /* whose group is open; or NULL */
    struct bp_comm_step *steps; /* of the group */
    uint32_t n_step, room;
};

static inline bool bp_comm_is(const struct bp_comm *comm)
{
    return bp_magic_is(comm ? comm->magic : 0, BP_MAGIC_COMM);
}
void bp_comm_release(struct bp_comm *comm);

/* submit.c. Does the steps, one collective call or any number of sends and receives, as work of
 * the stream. */
enum bp_status bp_comm_submit(struct bp_comm *comm, struct bp_stream *stream,
                              struct bp_comm_step *steps, uint32_t n);

/* staging.c. Has the steps' data come by pinned memory, as work of the stream, while their calls
 * run. size: ranks. */
enum bp_status bp_staging_create(struct bp_stream *stream, struct bp_comm_step *steps, uint32_t n,
                                 uint32_t size, struct bp_staging **out_staging);
void bp_staging_destroy(struct bp_staging *staging, uint32_t n);

/* The same where messages go between hosts, which see whole buffers: ordinary host
 * memory in place of the steps' tensors, and their data in it; back; and the memory's end, which is
 * due whatever came before. Other ranks are told of a failure to read. */
enum bp_status bp_net_staging_read(struct bp_shm_rank *b, struct bp_stream *stream,
                                   struct bp_comm_step *steps, uint32_t n);
enum bp_status bp_net_staging_write(struct bp_stream *stream, const struct bp_comm_step *steps,
                                    uint32_t n);
void bp_net_staging_release(struct bp_core *core, struct bp_comm_step *steps, uint32_t n);

#endif
