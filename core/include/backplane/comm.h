/* SPDX-License-Identifier: Apache-2.0 */
/* comm.h: declares collectives: calls that several ranks make together, each with its own device.
 *
 * A rank is a process or a thread; a communicator joins ranks. All ranks make the same calls on the
 * communicator, in the same order, with the same dtype, count, reduction and root; the library
 * detects a rank that does not, and reports it by name to all ranks. A send and a receive are
 * between two ranks, in order for each pair and direction.
 *
 * Rules for all calls below:
 *   stream     a stream of the communicator's device. The call is work of that stream, like an
 *              operator: the call waits for work that was submitted to the stream before, and on an
 *              asynchronous stream it returns before the work is done. A failure of that work is
 *              then the stream's failure.
 *   tensors    lie on that device, row-major without gaps, of any shape: the call sees their
 *              elements in row-major order. src and dst must not share memory, except where a
 *              comment allows it.
 *   deadline   a call fails with BP_ERR_TIMEOUT if other ranks do not join it, or do not finish it,
 *              within the timeout of the communicator. The message names the ranks that did not
 *              come, the last call of each of them, and the number of the call. A rank that
 *              receives no data in a call, such as the root of a broadcast, may finish the call
 *              before other ranks begin it: an error in that call then fails a later call.
 *   failures   BP_ERR_PEER: a rank has died, or has aborted the communicator; BP_ERR_INVALID: a
 *              rank made a different call. The first failure that a rank finds becomes the failure
 *              of all ranks: it ends their waits, all later calls return it, and the results of
 *              calls in progress are undefined. Destroy the communicator then; the remaining ranks
 *              can create a new one.
 *   results    are bitwise identical on all ranks, and from run to run.
 *   zero       elements are allowed: the call is a call like any other.
 *   threads    the caller orders calls on one communicator. */
#ifndef BP_COMM_H
#define BP_COMM_H

#include <backplane/api.h>
#include <backplane/ccl.h>
#include <backplane/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

struct bp_comm;

/* Identifies a communicator that is to be created: one rank makes this text and passes it to the
 * other ranks by any means. The text contains the address of a store in the process that made it;
 * that process has to live until all ranks have created the communicator. */
struct bp_comm_id { /* hot */
    char text[192];
};
/* Makes an id. Its store is at 127.0.0.1, for ranks on one machine; BP_STORE_HOST names another
 * address. */
BP_API enum bp_status bp_comm_id_create(struct bp_comm_id *out_id);

/* Reads the launcher's environment (store.h): the rank of this process, the number of ranks, and an
 * id that is the same for all of them. The n-th call returns the n-th id of the job: all ranks call
 * it equally often. */
BP_API enum bp_status bp_comm_id_of_job(struct bp_comm_id *out_id, uint32_t *out_rank,
                                        uint32_t *out_size);

/* Joins the communicator of id as rank `rank` of `size` ranks, with a device; waits until all ranks
 * have joined. The timeout of the communicator, and of this call, is BP_CCL_TIMEOUT in seconds, or
 * 300 s.
 *
 * BP_ERR_TIMEOUT: the message names the ranks that did not join. BP_ERR_INVALID: two ranks have the
 * same number, a number is not below size, or ranks state different sizes. All ranks that wait
 * receive this failure, and the id cannot be used again. */
BP_API enum bp_status bp_comm_create(struct bp_device *device, const struct bp_comm_id *id,
                                     uint32_t rank, uint32_t size, struct bp_comm **out_comm);

/* Creates a new communicator of those ranks that pass the same color; they are numbered by key,
 * then by their rank in comm. All ranks of comm call it. color -1: this rank joins no new
 * communicator, and *out_comm is set to NULL. */
BP_API enum bp_status bp_comm_split(struct bp_comm *comm, int64_t color, int64_t key,
                                    struct bp_comm **out_comm);

/* Does not wait for any other rank. Calls that were submitted to streams are still completed. */
BP_API void bp_comm_destroy(struct bp_comm *comm);

/* Aborts the communicator for all ranks: calls in progress, on any thread and any rank, fail with
 * BP_ERR_PEER, and so do later calls. */
BP_API enum bp_status bp_comm_abort(struct bp_comm *comm);

/* Returns BP_OK, or the failure that the communicator's calls return. Checks whether a rank has
 * died, and does not wait. */
BP_API enum bp_status bp_comm_error(struct bp_comm *comm);

/* The number of this rank, and the number of ranks; 0 if comm is no communicator. */
BP_API uint32_t bp_comm_rank(struct bp_comm *comm);
BP_API uint32_t bp_comm_size(struct bp_comm *comm);

/* Sets the timeout of later calls; each call may have its own timeout. UINT64_MAX: no timeout. */
BP_API enum bp_status bp_comm_set_timeout(struct bp_comm *comm, uint64_t timeout_ns);

/* dst = the reduction (enum bp_reduction) of the src of all ranks. dst has as many elements as src,
 * and may be the same tensor as src. */
BP_API enum bp_status bp_comm_all_reduce(struct bp_comm *comm, struct bp_stream *stream,
                                         struct bp_tensor *src, struct bp_tensor *dst,
                                         enum bp_reduction reduction);
/* Like bp_comm_all_reduce, but only root gets the result: dst of other ranks is not used, and may
 * be NULL. */
BP_API enum bp_status bp_comm_reduce(struct bp_comm *comm, struct bp_stream *stream,
                                     struct bp_tensor *src, struct bp_tensor *dst,
                                     enum bp_reduction reduction, uint32_t root);
/* dst of every rank = src of root. src of other ranks is not used, and may be NULL; src of root may
 * be its dst. */
BP_API enum bp_status bp_comm_broadcast(struct bp_comm *comm, struct bp_stream *stream,
                                        struct bp_tensor *src, struct bp_tensor *dst,
                                        uint32_t root);
/* dst = the src of all ranks, concatenated in rank order. src may be this rank's part of dst. */
BP_API enum bp_status bp_comm_all_gather(struct bp_comm *comm, struct bp_stream *stream,
                                         struct bp_tensor *src, struct bp_tensor *dst);
/* dst = this rank's part of the reduction of the src of all ranks; src has one part for each rank.
 * dst may be this rank's part of src. */
BP_API enum bp_status bp_comm_reduce_scatter(struct bp_comm *comm, struct bp_stream *stream,
                                             struct bp_tensor *src, struct bp_tensor *dst,
                                             enum bp_reduction reduction);
/* Part j of dst = the part of rank j's src that is for this rank. src and dst have one part for
 * each rank. */
BP_API enum bp_status bp_comm_all_to_all(struct bp_comm *comm, struct bp_stream *stream,
                                         struct bp_tensor *src, struct bp_tensor *dst);
/* Like bp_comm_all_to_all with parts of any length: src_counts[j] elements of src go to rank j, and
 * dst_counts[j] elements of dst come from rank j; each array has one entry for each rank. Parts are
 * adjacent, in rank order; together they are the whole tensor. */
BP_API enum bp_status bp_comm_all_to_all_ragged(struct bp_comm *comm, struct bp_stream *stream,
                                                struct bp_tensor *src, const int64_t *src_counts,
                                                struct bp_tensor *dst, const int64_t *dst_counts);
/* dst of root = the src of all ranks, concatenated in rank order. dst of other ranks is not used,
 * and may be NULL; src of root may be its part of dst. */
BP_API enum bp_status bp_comm_gather(struct bp_comm *comm, struct bp_stream *stream,
                                     struct bp_tensor *src, struct bp_tensor *dst, uint32_t root);
/* dst = this rank's part of the src of root. src of other ranks is not used, and may be NULL; dst
 * of root may be its part of src. */
BP_API enum bp_status bp_comm_scatter(struct bp_comm *comm, struct bp_stream *stream,
                                      struct bp_tensor *src, struct bp_tensor *dst, uint32_t root);
/* bp_comm_send sends src to rank `to`; bp_comm_recv receives dst from rank `from`. Dtype and count
 * are the same on both sides. A send may wait for its receive. */
BP_API enum bp_status bp_comm_send(struct bp_comm *comm, struct bp_stream *stream,
                                   struct bp_tensor *src, uint32_t to);
BP_API enum bp_status bp_comm_recv(struct bp_comm *comm, struct bp_stream *stream,
                                   struct bp_tensor *dst, uint32_t from);
/* No rank finishes the barrier before every rank has called it. */
BP_API enum bp_status bp_comm_barrier(struct bp_comm *comm, struct bp_stream *stream);

/* Sends and receives between bp_comm_group_begin and bp_comm_group_end are started together at the
 * end, so that none of them waits for an earlier one of the group: use a group to exchange data.
 * All calls of a group are for one stream. Calls other than sends and receives are refused within a
 * group. */
BP_API enum bp_status bp_comm_group_begin(struct bp_comm *comm, struct bp_stream *stream);
BP_API enum bp_status bp_comm_group_end(struct bp_comm *comm);

/* The calls, by the names that the table of algorithms and messages use. X(NAME, name). */
#define BP_COMM_CALLS(X) \
    X(BARRIER, barrier) \
    X(ALL_REDUCE, all_reduce) \
    X(REDUCE, reduce) \
    X(BROADCAST, broadcast) \
    X(ALL_GATHER, all_gather) \
    X(REDUCE_SCATTER, reduce_scatter) \
    X(ALL_TO_ALL, all_to_all) \
    X(ALL_TO_ALL_RAGGED, all_to_all_ragged) \
    X(GATHER, gather) \
    X(SCATTER, scatter) \
    X(SEND, send) \
    X(RECV, recv)

enum bp_comm_call {
#define X(NAME, name) BP_COMM_##NAME,
    BP_COMM_CALLS(X)
#undef X
    BP_COMM_CALL_COUNT,
};

/* Returns the algorithm by which this communicator would run a call (enum bp_comm_call) with
 * `bytes` bytes on each rank: the matching row of the table of algorithms, such as "segments by
 * mapped memory". NULL: there is no such call. */
BP_API const char *bp_comm_algorithm(struct bp_comm *comm, enum bp_comm_call call, uint64_t bytes);

#ifdef __cplusplus
}
#endif

#endif
