/* SPDX-License-Identifier: Apache-2.0 */
/* ccl.h: interface 3 of a plugin: collectives between devices of its kind.
 *
 * A communicator joins a device of each of several processes or threads, its ranks. What NCCL and
 * RCCL have maps onto it call by call. A plugin without it is not left out: the core then brings
 * data through host memory.
 *
 * Order: a call is work of the stream that it is given, and of the communicator in the order of the
 * calls, which is the same on all ranks. It returns when the work is submitted. The core calls a
 * communicator from one thread at a time, but for comm_abort and comm_error.
 *
 * BP_ERR_UNSUPPORTED, without a message, from all_reduce, reduce and reduce_scatter: not of this
 * dtype by this reduction, in any such call of any rank. Nothing was submitted; the core then goes
 * by way of host memory. All other calls are given bytes (BP_U8). */
#ifndef BP_CCL_H
#define BP_CCL_H

#include <backplane/status.h>
#include <backplane/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How elements of ranks become one. Numbers are part of the ABI. X(NAME, name, number).
 *
 * Integers wrap. Of bool, sum and max are "or", product and min "and"; there is no average. The
 * average of integers is the wrapped sum, divided and rounded towards zero. Complex numbers have no
 * min and max. f16, bf16 and the f8 are computed in f32 and rounded once; sums, products and
 * averages by a plugin may be rounded each time. A NaN among the elements makes the result of min
 * and max one. */
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

/* Names a communicator to be: made by one rank, brought to all by the core. Of a plugin that has
 * id_size: the first bytes of an id of that many. */
struct bp_ccl_id { /* hot */
    uint8_t bytes[128];
};
enum {
    BP_CCL_ID_MAX = 8192 /* bytes of an id */
};

/* One call of one rank. Buffers are dense, as handle and address (see bp_copy in runtime.h), and
 * all ranks agree on dtype, count, reduction and root. count: elements of the part that one rank
 * has, of what each comment below says. */
struct bp_ccl_call { /* hot */
    void *src_memory, *dst_memory;
    const void *src;
    void *dst;
    uint64_t count;
    uint32_t dtype;
    uint32_t reduction; /* enum bp_reduction */
    uint32_t root;      /* or the peer of send and recv */
    uint32_t zero;      /* 0 */
};

struct bp_ccl { /* table */
    size_t size;

    /* Required; unique_id where there is no unique_id_long. */

    enum bp_status (*unique_id)(void *self, struct bp_ccl_id *out);

    /* Joins rank of n_rank, with device. Returns when all ranks have called it. On a thread of its
     * own, which the core leaves behind where a rank does not come in time. */
    enum bp_status (*comm_create)(void *self, uint32_t device, const struct bp_ccl_id *id,
                                  uint32_t rank, uint32_t n_rank, void **out_comm);
    /* Its work has ended. Other ranks may destroy theirs later. */
    void (*comm_destroy)(void *self, void *comm);
    /* Ends work that is under way, which fails, and the communicator; any thread, at any time. */
    void (*comm_abort)(void *self, void *comm);
    /* BP_OK, or why the communicator is of no use any more. Waits for nothing. */
    enum bp_status (*comm_error)(void *self, void *comm);

    /* src and dst have count elements. dst may be src. */
    enum bp_status (*all_reduce)(void *self, void *comm, void *stream,
                                 const struct bp_ccl_call *call);
    /* The same; dst counts on the root only. */
    enum bp_status (*reduce)(void *self, void *comm, void *stream, const struct bp_ccl_call *call);
    /* count elements of the root's src to everybody's dst. src counts on the root only. */
    enum bp_status (*broadcast)(void *self, void *comm, void *stream,
                                const struct bp_ccl_call *call);
    /* src has count elements, dst n_rank times as many. src may be the rank's part of dst. */
    enum bp_status (*all_gather)(void *self, void *comm, void *stream,
                                 const struct bp_ccl_call *call);
    /* dst has count elements, src n_rank times as many. dst may be the rank's part of src. */
    enum bp_status (*reduce_scatter)(void *self, void *comm, void *stream,
                                     const struct bp_ccl_call *call);
    /* count elements of src to rank root; from rank root to dst. */
    enum bp_status (*send)(void *self, void *comm, void *stream, const struct bp_ccl_call *call);
    enum bp_status (*recv)(void *self, void *comm, void *stream, const struct bp_ccl_call *call);

    /* Calls between them are submitted together: no send waits for the recv before it. */
    enum bp_status (*group_begin)(void *self);
    enum bp_status (*group_end)(void *self);

    /* Optional. NULL: the core makes a group of sends and receives of it. */

    /* src and dst have n_rank parts of count elements: part i of src goes to rank i. */
    enum bp_status (*all_to_all)(void *self, void *comm, void *stream,
                                 const struct bp_ccl_call *call);

    /* A number of the library that does it: ranks whose plugins or numbers differ are not joined by
     * it. BP_ERR_UNSUPPORTED: there is no library, and why. NULL: the plugin's version says all. */
    enum bp_status (*version)(void *self, uint32_t *out_version);

    /* As comm_create, but waits for no other rank: comm_joined says when all are joined, and until
     * then nothing but comm_abort and comm_destroy is done with the communicator.
     * BP_ERR_UNSUPPORTED, without a message: the library can only wait, and comm_create is called.
     * NULL: the same. */
    enum bp_status (*comm_begin)(void *self, uint32_t device, const struct bp_ccl_id *id,
                                 uint32_t rank, uint32_t n_rank, void **out_comm);
    /* BP_OK: all ranks are joined; BP_ERR_TIMEOUT, without a message: not yet; or why they cannot
     * be. Waits for nothing. There where comm_begin is. */
    enum bp_status (*comm_joined)(void *self, void *comm);

    /* Since ABI 0.3, for ids that are longer, or shorter, than struct bp_ccl_id. id_size: bytes of
     * an id, 1 to BP_CCL_ID_MAX; unique_id_long fills them, aligned as by malloc, and is called in
     * place of unique_id. comm_create and comm_begin are given as many at id. Ranks whose sizes
     * differ are not joined by the library. Both 0: ids are struct bp_ccl_id. */
    uint64_t id_size;
    enum bp_status (*unique_id_long)(void *self, void *out_id);
};

#ifdef __cplusplus
}
#endif

#endif
