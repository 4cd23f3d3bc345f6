/* SPDX-License-Identifier: Apache-2.0 */
/* ccl.h: defines interface 3 of a plugin: collectives between devices of its kind.
 *
 * A communicator joins several processes or threads, its ranks, each with one device. The calls map
 * one to one onto those of NCCL and RCCL. Collectives also work on the devices of a plugin without
 * this interface: the core then moves the data through host memory.
 *
 * Order: a call is work of the stream that it gets, and work of the communicator in the order of
 * the calls, which is the same on all ranks. It returns when the work is submitted. The core calls
 * a communicator from one thread at a time, except for comm_abort and comm_error.
 *
 * BP_ERR_UNSUPPORTED, without a message, from all_reduce, reduce and reduce_scatter: the library
 * does not support this reduction of this dtype, in any call of these three, on any rank. Nothing
 * was submitted; the core then uses host memory. All other calls receive bytes (BP_U8). */
#ifndef BP_CCL_H
#define BP_CCL_H

#include <backplane/status.h>
#include <backplane/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The operations by which elements of all ranks are combined. Numbers are part of the ABI. X(NAME,
 * name, number).
 *
 * Integers wrap. For bool, sum and max are "or", product and min are "and"; there is no average.
 * The average of integers is the wrapped sum, divided and rounded towards zero. Complex numbers
 * have no min and max. f16, bf16 and the f8 types are computed in f32 and rounded once; a plugin
 * may round sums, products and averages after each step. If one of the elements is NaN, the result
 * of min and max is NaN. */
#define BP_REDUCTIONS(X) \
    X(SUM, sum, 0) \
    X(PRODUCT, product, 1) \
    X(MIN, min, 2) \
    X(MAX, max, 3) \
    X(AVERAGE, average, 4)

enum bp_reduction {
#define X(NAME, name, number) BP_REDUCE_##NAME = number,
    BP_REDUCTIONS(X)
#undef X
    BP_REDUCTION_COUNT,
};

/* Identifies a communicator that is to be created: one rank makes the id, and the core passes it to
 * all ranks. If a plugin sets id_size, this struct is the beginning of an id of that many bytes. */
struct bp_ccl_id { /* hot */
    uint8_t bytes[128];
};
enum {
    BP_CCL_ID_MAX = 8192 /* the most bytes of an id */
};

/* One call of one rank. Buffers are dense, given as handle and address (see bp_copy in runtime.h),
 * and all ranks agree on dtype, count, reduction and root. count: the number of elements of one
 * rank's part; the comment of each call below states of which buffer. */
struct bp_ccl_call { /* hot */
    void *src_memory, *dst_memory;
    const void *src;
    void *dst;
    uint64_t count;
    uint32_t dtype;
    uint32_t reduction; /* enum bp_reduction */
    uint32_t root;      /* the root rank; for send and recv the peer rank */
    uint32_t zero;      /* 0 */
};

struct bp_ccl { /* table */
    size_t size;

    /* The required callbacks; unique_id is required unless unique_id_long is set. */

    enum bp_status (*unique_id)(void *self, struct bp_ccl_id *out);

    /* Joins the communicator as rank `rank` of `n_rank` ranks, with device. Returns when all ranks
     * have called it. The core calls it on a separate thread, which the core abandons if a rank
     * does not join in time. */
    enum bp_status (*comm_create)(void *self, uint32_t device, const struct bp_ccl_id *id,
                                  uint32_t rank, uint32_t n_rank, void **out_comm);
    /* Destroys a communicator. Its work has ended. Other ranks may destroy their communicators
     * later. */
    void (*comm_destroy)(void *self, void *comm);
    /* Ends the communicator and its work in progress, which fails; any thread, at any time. */
    void (*comm_abort)(void *self, void *comm);
    /* Returns BP_OK, or the reason why the communicator cannot be used any more. Does not wait. */
    enum bp_status (*comm_error)(void *self, void *comm);

    /* src and dst have count elements each. dst may be src. */
    enum bp_status (*all_reduce)(void *self, void *comm, void *stream,
                                 const struct bp_ccl_call *call);
    /* Like all_reduce; only the root's dst is used. */
    enum bp_status (*reduce)(void *self, void *comm, void *stream, const struct bp_ccl_call *call);
    /* Copies count elements of the root's src to the dst of every rank. Only the root's src is
     * used. */
    enum bp_status (*broadcast)(void *self, void *comm, void *stream,
                                const struct bp_ccl_call *call);
    /* src has count elements, dst has n_rank times as many. src may be the rank's part of dst. */
    enum bp_status (*all_gather)(void *self, void *comm, void *stream,
                                 const struct bp_ccl_call *call);
    /* dst has count elements, src has n_rank times as many. dst may be the rank's part of src. */
    enum bp_status (*reduce_scatter)(void *self, void *comm, void *stream,
                                     const struct bp_ccl_call *call);
    /* send sends count elements of src to rank root; recv receives count elements from rank root
     * into dst. */
    enum bp_status (*send)(void *self, void *comm, void *stream, const struct bp_ccl_call *call);
    enum bp_status (*recv)(void *self, void *comm, void *stream, const struct bp_ccl_call *call);

    /* Calls between group_begin and group_end are submitted together: no send waits for a recv
     * before it. */
    enum bp_status (*group_begin)(void *self);
    enum bp_status (*group_end)(void *self);

    /* The optional callbacks. all_to_all NULL: the core uses a group of sends and receives
     * instead. */

    /* src and dst have n_rank parts of count elements each: part i of src goes to rank i. */
    enum bp_status (*all_to_all)(void *self, void *comm, void *stream,
                                 const struct bp_ccl_call *call);

    /* Returns a version number of the library that implements the collectives: the core does not
     * join ranks by the library if their plugins or these numbers differ. BP_ERR_UNSUPPORTED: there
     * is no library; the message states the reason. NULL: the plugin's version is sufficient. */
    enum bp_status (*version)(void *self, uint32_t *out_version);

    /* Like comm_create, but waits for no other rank: comm_joined reports when all ranks are joined,
     * and until then the core calls only comm_abort and comm_destroy with the communicator.
     * BP_ERR_UNSUPPORTED, without a message: the library can only join with a wait, and the core
     * calls comm_create. NULL: the core calls comm_create too. */
    enum bp_status (*comm_begin)(void *self, uint32_t device, const struct bp_ccl_id *id,
                                 uint32_t rank, uint32_t n_rank, void **out_comm);
    /* BP_OK: all ranks are joined; BP_ERR_TIMEOUT, without a message: not yet; any other status:
     * why they cannot be joined. Does not wait. Required if comm_begin is set. */
    enum bp_status (*comm_joined)(void *self, void *comm);

    /* Since ABI 0.3, for ids that are longer or shorter than struct bp_ccl_id. id_size: bytes of an
     * id, 1 to BP_CCL_ID_MAX; unique_id_long writes that many bytes, to memory aligned as by
     * malloc, and is called in place of unique_id. comm_create and comm_begin get as many bytes at
     * id. Ranks whose id sizes differ are not joined by the library. Both 0: ids are struct
     * bp_ccl_id. */
    uint64_t id_size;
    enum bp_status (*unique_id_long)(void *self, void *out_id);
};

#ifdef __cplusplus
}
#endif

#endif
