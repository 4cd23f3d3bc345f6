/* SPDX-License-Identifier: Apache-2.0 */
/* comm.h: declares the communicator object, and the functions that run its calls as work of a
 * stream. */
#ifndef BP_COMM_PRIVATE_H
#define BP_COMM_PRIVATE_H

#include "../tensor/tensor.h"
#include "net/net_comm.h"
#include "transport.h"

/* One call of a communicator with the tensors that it uses. A group is an array of steps that run
 * as one work item of a stream. */
struct bp_comm_step {
    struct bp_collective c;      /* the first member */
    struct bp_tensor *src, *dst; /* NULL: unused; references while in a queue or group */
};

/* The name of a work item that consists of n steps. */
static inline const char *bp_comm_steps_name(const struct bp_comm_step *steps, uint32_t n)
{
    return n > 1 ? "group" : bp_comm_call_name(steps->c.call);
}
/* The bytes of the tensors of the steps, one of each step. */
static inline uint64_t bp_comm_steps_bytes(const struct bp_comm_step *steps, uint32_t n)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < n; i++) {
        const struct bp_tensor *t = steps[i].src ? steps[i].src : steps[i].dst;
        if (t) bytes += (uint64_t)t->view.count * bp_dtype_bits(t->view.dtype) / 8;
    }
    return bytes;
}

struct bp_native; /* native.h */

struct bp_comm {
    uint32_t magic;
    _Atomic uint32_t refs; /* one of the app, and one for each work item in a queue */
    uint32_t rank, size;
    struct bp_device *device; /* a reference to it */
    struct bp_store *store;
    const struct bp_transport *transport; /* moves data through host memory */
    void *self;                           /* the transport's state of this rank: shm or net */
    struct bp_shm_rank *shm;              /* the ranks on this host */
    struct bp_net_comm *net;              /* if there are ranks on other hosts; or NULL */
    uint32_t *global_ranks;               /* by local rank on this host; NULL: as local */
    struct bp_remote *remote;             /* native calls between hosts (native.h); or NULL */
    struct bp_native *native;             /* the library of the devices runs the calls; or NULL */
    char why[320];                        /* why `native` is NULL, if the device has a library */
    char algorithm_text[400];             /* bp_comm_algorithm's result where calls are staged */
    char address[BP_STORE_ADDRESS_MAX], name[96];
    uint64_t timeout_ns;
    uint32_t splits;
    /* Counts the memory segments that the device frees. ctx NULL: not registered yet. */
    struct bp_segment_listener listener;

    /* Work items of one communicator run in the order of their submission, also across streams. */
    uint64_t n_submitted;
    _Atomic uint64_t ended;
    _Atomic uint32_t waiting; /* threads that wait for their turn */
    pthread_mutex_t lock;
    pthread_cond_t turn;

    struct bp_stream *group;    /* the stream of the open group; NULL: none is open */
    struct bp_comm_step *steps; /* of the open group */
    uint32_t n_step, room;
};

static inline bool bp_comm_is(const struct bp_comm *comm)
{
    return bp_magic_is(comm ? comm->magic : 0, BP_MAGIC_COMM);
}
void bp_comm_release(struct bp_comm *comm);

/* submit.c. Submits the steps to the stream as one work item: one collective call, or any number of
 * sends and receives. */
enum bp_status bp_comm_submit(struct bp_comm *comm, struct bp_stream *stream,
                              struct bp_comm_step *steps, uint32_t n);

/* staging.c. Prepares the steps so that their data travels through pinned memory, as work of the
 * stream, while their calls run. size: the number of ranks. */
enum bp_status bp_staging_create(struct bp_stream *stream, struct bp_comm_step *steps, uint32_t n,
                                 uint32_t size, struct bp_staging **out_staging);
void bp_staging_destroy(struct bp_staging *staging, uint32_t n);

/* Staging for the transport between hosts, whose messages need whole buffers. bp_net_staging_read
 * allocates ordinary host memory in place of the steps' tensors and copies the tensors' data into
 * that memory; a failure is reported to the other ranks. bp_net_staging_write copies the results
 * back to the tensors. bp_net_staging_release frees the host memory and must be called whatever the
 * other two returned. */
enum bp_status bp_net_staging_read(struct bp_shm_rank *b, struct bp_stream *stream,
                                   struct bp_comm_step *steps, uint32_t n);
enum bp_status bp_net_staging_write(struct bp_stream *stream, const struct bp_comm_step *steps,
                                    uint32_t n);
void bp_net_staging_release(struct bp_core *core, struct bp_comm_step *steps, uint32_t n);

#endif
