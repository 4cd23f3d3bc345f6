/* SPDX-License-Identifier: Apache-2.0 */
/* comm.h: collectives: calls that several ranks make together, each with a device of its own.
 *
 * A rank is a process or a thread; a communicator joins them. All ranks make the same calls on it,
 * in one order, with the same dtype, count, reduction and root; who does not is found out, and
 * named to all. Sends and receives are between two ranks, in order for each pair and direction.
 *
 * What all calls below share:
 *   stream     of the communicator's device. The call is work of that stream, like an operator: it
 *              waits for what was given to the stream before, and on an asynchronous one it returns
 *              before it is done. A failure is then the stream's.
 *   tensors    on that device, row-major without gaps, of any shape: elements count, in their
 *              order. They must not share memory, but where a comment says so.
 *   deadline   a call that other ranks do not join, or do not end, within the timeout of the
 *              communicator fails with BP_ERR_TIMEOUT, and the message names the ranks that did not
 *              come, what they did last, and its number. A rank to which nothing comes in a call,
 *              as a broadcast's root, may end it before others begin it: what is wrong with it
 *              then fails a later call.
 *   failures   BP_ERR_PEER: a rank has died, or has given the communicator up; BP_ERR_INVALID: a
 *              rank made another call. The first failure that a rank finds is that of all ranks: it
 *              ends what they wait for, all later calls answer it, and what calls under way wrote
 *              is undefined. Destroy the communicator then; those who are left can make a new one.
 *   results    bit by bit the same on all ranks, and from run to run.
 *   zero       elements are a call like any other.
 *   threads    calls on one communicator are ordered by the caller. */
#ifndef BP_COMM_H
#define BP_COMM_H

#include <backplane/api.h>
#include <backplane/ccl.h>
#include <backplane/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

struct bp_comm;

/* Names a communicator to be: text that one rank makes and the others are given, by any means. It
 * holds the address of a store in the process that made it, which has to live until all have
 * created theirs. */
struct bp_comm_id { /* hot */
    char text[192];
};
/* The store is at 127.0.0.1, for ranks on one machine; BP_STORE_HOST names another address. */
BP_API enum bp_status bp_comm_id_create(struct bp_comm_id *out_id);

/* What the launcher's environment says (store.h): rank and number of ranks of this process, and an
 * id that all of them get. The n-th call gives the n-th id: all ranks call it equally often. */
BP_API enum bp_status bp_comm_id_of_job(struct bp_comm_id *out_id, uint32_t *out_rank,
                                        uint32_t *out_size);

/* Joins as rank of size ranks, with a device; waits until all have come. Its timeout, for this call
 * too, is BP_CCL_TIMEOUT in seconds, or 300 s.
 *
 * BP_ERR_TIMEOUT: the message names the ranks that did not come. BP_ERR_INVALID: two ranks have one
 * number, a number is not below size, or ranks say different sizes. All ranks that wait are told
 * so, and the id is used up. */
BP_API enum bp_status bp_comm_create(struct bp_device *device, const struct bp_comm_id *id,
                                     uint32_t rank, uint32_t size, struct bp_comm **out_comm);

/* A new communicator of those ranks that give the same color, numbered by key, then by their rank
 * here. All ranks call it. color -1: not for this one, *out_comm is NULL. */
BP_API enum bp_status bp_comm_split(struct bp_comm *comm, int64_t color, int64_t key,
                                    struct bp_comm **out_comm);

/* Waits for no other rank. Calls that were given to streams are done all the same. */
BP_API void bp_comm_destroy(struct bp_comm *comm);

/* Gives the communicator up for all ranks: calls under way, on any thread and rank, fail with
 * BP_ERR_PEER, as later ones do. */
BP_API enum bp_status bp_comm_abort(struct bp_comm *comm);

/* BP_OK, or the failure that the communicator's calls answer; looks for ranks that have died, and
 * waits for nothing. */
BP_API enum bp_status bp_comm_error(struct bp_comm *comm);

/* 0 for no communicator. */
BP_API uint32_t bp_comm_rank(struct bp_comm *comm);
BP_API uint32_t bp_comm_size(struct bp_comm *comm);

/* The timeout of calls from now on: each may have its own. UINT64_MAX: none. */
BP_API enum bp_status bp_comm_set_timeout(struct bp_comm *comm, uint64_t timeout_ns);

/* dst = the reduction (enum bp_reduction) of all ranks' src. dst has as many elements as src, and
 * may be src. */
BP_API enum bp_status bp_comm_all_reduce(struct bp_comm *comm, struct bp_stream *stream,
                                         struct bp_tensor *src, struct bp_tensor *dst,
                                         enum bp_reduction reduction);
/* The same for root only: the others' dst is not used, and may be NULL. */
BP_API enum bp_status bp_comm_reduce(struct bp_comm *comm, struct bp_stream *stream,
                                     struct bp_tensor *src, struct bp_tensor *dst,
                                     enum bp_reduction reduction, uint32_t root);
/* Everybody's dst = root's src. Others' src is not used, and may be NULL; root's may be its dst. */
BP_API enum bp_status bp_comm_broadcast(struct bp_comm *comm, struct bp_stream *stream,
                                        struct bp_tensor *src, struct bp_tensor *dst,
                                        uint32_t root);
/* dst = all ranks' src, one after the other. src may be the rank's part of dst. */
BP_API enum bp_status bp_comm_all_gather(struct bp_comm *comm, struct bp_stream *stream,
                                         struct bp_tensor *src, struct bp_tensor *dst);
/* dst = the rank's part of the reduction of all ranks' src, which has one part for each rank. dst
 * may be the rank's part of src. */
BP_API enum bp_status bp_comm_reduce_scatter(struct bp_comm *comm, struct bp_stream *stream,
                                             struct bp_tensor *src, struct bp_tensor *dst,
                                             enum bp_reduction reduction);
/* Part j of dst = part of rank j's src that is for this rank. Both have one part for each rank. */
BP_API enum bp_status bp_comm_all_to_all(struct bp_comm *comm, struct bp_stream *stream,
                                         struct bp_tensor *src, struct bp_tensor *dst);
/* The same with parts of any length: src_counts[j] elements of src go to rank j, dst_counts[j]
 * elements of dst come from it; one entry for each rank. Parts follow each other; together they are
 * the whole tensor. */
BP_API enum bp_status bp_comm_all_to_all_ragged(struct bp_comm *comm, struct bp_stream *stream,
                                                struct bp_tensor *src, const int64_t *src_counts,
                                                struct bp_tensor *dst, const int64_t *dst_counts);
/* Root's dst = all ranks' src, one after the other. Others' dst is not used, and may be NULL;
 * root's src may be its part of dst. */
BP_API enum bp_status bp_comm_gather(struct bp_comm *comm, struct bp_stream *stream,
                                     struct bp_tensor *src, struct bp_tensor *dst, uint32_t root);
/* dst = the rank's part of root's src. Others' src is not used, and may be NULL; root's dst may be
 * its part of src. */
BP_API enum bp_status bp_comm_scatter(struct bp_comm *comm, struct bp_stream *stream,
                                      struct bp_tensor *src, struct bp_tensor *dst, uint32_t root);
/* src to rank to; dst from rank from. Dtype and count are the same on both sides. A send may wait
 * for its receive. */
BP_API enum bp_status bp_comm_send(struct bp_comm *comm, struct bp_stream *stream,
                                   struct bp_tensor *src, uint32_t to);
BP_API enum bp_status bp_comm_recv(struct bp_comm *comm, struct bp_stream *stream,
                                   struct bp_tensor *dst, uint32_t from);
/* Everybody comes before anybody goes. */
BP_API enum bp_status bp_comm_barrier(struct bp_comm *comm, struct bp_stream *stream);

/* Sends and receives between them are begun together at the end, so that none waits for another
 * before it: the way to exchange. All are for the one stream. Other calls are refused between them.
 */
BP_API enum bp_status bp_comm_group_begin(struct bp_comm *comm, struct bp_stream *stream);
BP_API enum bp_status bp_comm_group_end(struct bp_comm *comm);

/* The calls, as the table of algorithms and messages name them. X(NAME, name). */
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

/* How a call (enum bp_comm_call) of so many bytes on each rank would be done on this communicator:
 * the row of the table of algorithms that fits, such as "segments by mapped memory". NULL: no such
 * call. */
BP_API const char *bp_comm_algorithm(struct bp_comm *comm, enum bp_comm_call call, uint64_t bytes);

#ifdef __cplusplus
}
#endif

#endif
