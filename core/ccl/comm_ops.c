/* SPDX-License-Identifier: Apache-2.0 */
/* comm_ops.c: implements the app's calls of a communicator: checks their arguments by the table
 * bp_call_traits_of, and submits them. */
#include "comm.h"
#include "../memory/source.h"

#include <inttypes.h>
#include <stdlib.h>

static enum bp_status comm_check_target(const char *call, struct bp_comm *comm,
                                        struct bp_stream *stream, bool pair)
{
    if (!bp_comm_is(comm)) return bp_not_a_for(call, "communicator");
    if (!bp_stream_is(stream)) return bp_not_a_for(call, "stream");
    bp_deferred_check(comm->device, false);
    if (stream->device != comm->device)
        return bp_error(BP_ERR_INVALID, "%s: the stream is of %s%s, the communicator of %s", call,
                        stream->device->name, bp_device_qualifier(stream->device, comm->device),
                        comm->device->name);
    if (comm->group && !pair)
        return bp_error(BP_ERR_INVALID,
                        "%s: a group is open, which takes sends and receives only: end it first",
                        call);
    if (comm->group && comm->group != stream)
        return bp_error(BP_ERR_INVALID, "%s: the open group is for another stream", call);
    return bp_stream_check(stream);
}

static enum bp_status comm_check_tensor(const char *call, const char *what,
                                        const struct bp_comm *comm, const struct bp_tensor *t)
{
    if (!bp_tensor_is(t)) return bp_not_a_tensor(call, t);
    if (t->device != comm->device)
        return bp_error(BP_ERR_INVALID, "%s: %s is on %s%s, the communicator's device is %s", call,
                        what, t->device->name, bp_device_qualifier(t->device, comm->device),
                        comm->device->name);
    if (t->view.flags & BP_VIEW_STRIDED)
        return bp_error(BP_ERR_INVALID,
                        "%s: %s is not row-major without gaps: copy it to such a tensor first "
                        "(bp_tensor_copy)",
                        call, what);
    return bp_buffer_keep_contents(t->buffer);
}

static uint64_t width_of(const struct bp_tensor *t)
{
    return bp_dtype_bits(t->view.dtype) / 8;
}

/* Counts the elements of one rank's part. */
static enum bp_status count_part(const char *call, const char *what, const struct bp_comm *comm,
                                 const struct bp_tensor *t, bool parts, uint64_t *out_count)
{
    uint64_t count = (uint64_t)t->view.count;

    if (parts && count % comm->size)
        return bp_error(BP_ERR_INVALID,
                        "%s: %s has %" PRIu64 " elements, which is no multiple of the %u ranks",
                        call, what, count, comm->size);
    *out_count = parts ? count / comm->size : count;
    return BP_OK;
}

/* Where src and dst share memory, the smaller one must be this rank's part of the larger one. */
static enum bp_status check_overlap(const struct bp_call_traits *f, const struct bp_comm *comm,
                                    const struct bp_tensor *src, const struct bp_tensor *dst,
                                    uint64_t bytes)
{
    uint64_t src_at = src->offset + (f->src_parts ? comm->rank * bytes : 0);
    uint64_t dst_at = dst->offset + (f->dst_parts ? comm->rank * bytes : 0);

    if (src->buffer != dst->buffer || (f->in_place && src_at == dst_at)) return BP_OK;
    if (!bp_tensors_overlap(src, dst)) return BP_OK; /* checked last: slower than a small call */
    return bp_error(BP_ERR_INVALID, "%s: src and dst share memory, and not as the call allows",
                    f->call);
}

/* Checks a call's tensors. A tensor that this rank does not use is ignored. */
static enum bp_status check_tensors(const struct bp_call_traits *f, const struct bp_comm *comm,
                                    struct bp_comm_step *step, bool uses_src, bool uses_dst)
{
    uint64_t src_count = 0, dst_count = 0;

    if (!uses_src) step->src = NULL;
    else {
        TRY(comm_check_tensor(f->call, "src", comm, step->src));
        TRY(count_part(f->call, "src", comm, step->src, f->src_parts, &src_count));
    }
    if (!uses_dst) step->dst = NULL;
    else {
        TRY(comm_check_tensor(f->call, "dst", comm, step->dst));
        TRY(bp_tensor_check_write(f->call, "", step->dst));
        TRY(count_part(f->call, "dst", comm, step->dst, f->dst_parts, &dst_count));
    }
    if (uses_src && uses_dst) {
        if (step->src->view.dtype != step->dst->view.dtype)
            return bp_error(BP_ERR_INVALID, "%s: src is %s, dst is %s: expected equal dtypes",
                            f->call, bp_dtype_name(step->src->view.dtype),
                            bp_dtype_name(step->dst->view.dtype));
        if (src_count != dst_count)
            return bp_error(BP_ERR_INVALID,
                            "%s: the part of one rank has %" PRIu64 " elements in src, and %" PRIu64
                            " in dst",
                            f->call, src_count, dst_count);
        TRY(check_overlap(f, comm, step->src, step->dst, src_count * width_of(step->src)));
    }
    step->c.count = uses_src ? src_count : dst_count;
    step->c.dtype = (uses_src ? step->src : step->dst)->view.dtype;
    step->c.width = bp_dtype_bits(step->c.dtype) / 8;
    return BP_OK;
}

/* Submits a call: any but the barrier, all_to_all_ragged, send and receive. */
static enum bp_status submit_collective(uint32_t call, struct bp_comm *comm,
                                        struct bp_stream *stream, struct bp_tensor *src,
                                        struct bp_tensor *dst, uint32_t reduction, uint32_t root)
{
    const struct bp_call_traits *f = &bp_call_traits_of[call];
    struct bp_comm_step step = {.c = {.call = call, .reduction = reduction, .root = root},
                                .src = src, .dst = dst};

    TRY(comm_check_target(f->call, comm, stream, false));
    if (root >= comm->size)
        return bp_error(BP_ERR_INVALID, "%s: root is %u, but there are %u ranks", f->call, root,
                        comm->size);
    TRY(check_tensors(f, comm, &step, !f->src_at_root || comm->rank == root,
                      !f->dst_at_root || comm->rank == root));
    if (f->reduces && reduction >= BP_REDUCTION_COUNT)
        return bp_error(BP_ERR_INVALID, "%s: reduction is %u, which is none", f->call, reduction);
    if (f->reduces && !bp_ccl_reduces(step.c.dtype, reduction))
        return bp_error(BP_ERR_UNSUPPORTED, "%s: %s has no such reduction (ccl.h)", f->call,
                        bp_dtype_name(step.c.dtype));
    return bp_comm_submit(comm, stream, &step, 1);
}

enum bp_status bp_comm_all_reduce(struct bp_comm *comm, struct bp_stream *stream,
                                  struct bp_tensor *src, struct bp_tensor *dst,
                                  enum bp_reduction reduction)
{
    return submit_collective(BP_COMM_ALL_REDUCE, comm, stream, src, dst, reduction, 0);
}

enum bp_status bp_comm_reduce(struct bp_comm *comm, struct bp_stream *stream, struct bp_tensor *src,
                              struct bp_tensor *dst, enum bp_reduction reduction, uint32_t root)
{
    return submit_collective(BP_COMM_REDUCE, comm, stream, src, dst, reduction, root);
}

enum bp_status bp_comm_broadcast(struct bp_comm *comm, struct bp_stream *stream,
                                 struct bp_tensor *src, struct bp_tensor *dst, uint32_t root)
{
    return submit_collective(BP_COMM_BROADCAST, comm, stream, src, dst, 0, root);
}

enum bp_status bp_comm_all_gather(struct bp_comm *comm, struct bp_stream *stream,
                                  struct bp_tensor *src, struct bp_tensor *dst)
{
    return submit_collective(BP_COMM_ALL_GATHER, comm, stream, src, dst, 0, 0);
}

enum bp_status bp_comm_reduce_scatter(struct bp_comm *comm, struct bp_stream *stream,
                                      struct bp_tensor *src, struct bp_tensor *dst,
                                      enum bp_reduction reduction)
{
    return submit_collective(BP_COMM_REDUCE_SCATTER, comm, stream, src, dst, reduction, 0);
}

enum bp_status bp_comm_all_to_all(struct bp_comm *comm, struct bp_stream *stream,
                                  struct bp_tensor *src, struct bp_tensor *dst)
{
    return submit_collective(BP_COMM_ALL_TO_ALL, comm, stream, src, dst, 0, 0);
}

enum bp_status bp_comm_gather(struct bp_comm *comm, struct bp_stream *stream, struct bp_tensor *src,
                              struct bp_tensor *dst, uint32_t root)
{
    return submit_collective(BP_COMM_GATHER, comm, stream, src, dst, 0, root);
}

enum bp_status bp_comm_scatter(struct bp_comm *comm, struct bp_stream *stream,
                               struct bp_tensor *src, struct bp_tensor *dst, uint32_t root)
{
    return submit_collective(BP_COMM_SCATTER, comm, stream, src, dst, 0, root);
}

enum bp_status bp_comm_barrier(struct bp_comm *comm, struct bp_stream *stream)
{
    struct bp_comm_step step = {.c = {.call = BP_COMM_BARRIER, .width = 1}};

    TRY(comm_check_target("bp_comm_barrier", comm, stream, false));
    return bp_comm_submit(comm, stream, &step, 1);
}

static enum bp_status check_counts(const char *what, const struct bp_comm *comm,
                                   const struct bp_tensor *t, const int64_t *counts)
{
    uint64_t sum = 0;

    if (!counts)
        return bp_error(BP_ERR_INVALID, "bp_comm_all_to_all_ragged: %s_counts is NULL", what);
    for (uint32_t i = 0; i < comm->size; i++) {
        if (counts[i] < 0 || counts[i] > t->view.count)
            return bp_error(BP_ERR_INVALID,
                            "bp_comm_all_to_all_ragged: %s_counts[%u] is %" PRId64
                            ", but the tensor has %" PRId64 " elements",
                            what, i, counts[i], t->view.count);
        sum += (uint64_t)counts[i];
    }
    if (sum == (uint64_t)t->view.count) return BP_OK;
    return bp_error(BP_ERR_INVALID,
                    "bp_comm_all_to_all_ragged: %s_counts are %" PRIu64
                    " in all, but the tensor has %" PRId64 " elements",
                    what, sum, t->view.count);
}

enum bp_status bp_comm_all_to_all_ragged(struct bp_comm *comm, struct bp_stream *stream,
                                         struct bp_tensor *src, const int64_t *src_counts,
                                         struct bp_tensor *dst, const int64_t *dst_counts)
{
    struct bp_comm_step step = {.c = {.call = BP_COMM_ALL_TO_ALL_RAGGED, .src_counts = src_counts,
                                      .dst_counts = dst_counts},
                                .src = src, .dst = dst};
    const char *call = "bp_comm_all_to_all_ragged";

    TRY(comm_check_target(call, comm, stream, false));
    TRY(comm_check_tensor(call, "src", comm, src));
    TRY(comm_check_tensor(call, "dst", comm, dst));
    TRY(bp_tensor_check_write(call, "", dst));
    TRY(check_counts("src", comm, src, src_counts));
    TRY(check_counts("dst", comm, dst, dst_counts));
    if (src->view.dtype != dst->view.dtype)
        return bp_error(BP_ERR_INVALID, "%s: src is %s, dst is %s: expected equal dtypes", call,
                        bp_dtype_name(src->view.dtype), bp_dtype_name(dst->view.dtype));
    TRY(check_overlap(&bp_call_traits_of[BP_COMM_ALL_TO_ALL_RAGGED], comm, src, dst, 0));
    step.c.dtype = src->view.dtype;
    step.c.width = bp_dtype_bits(step.c.dtype) / 8;
    return bp_comm_submit(comm, stream, &step, 1);
}

static enum bp_status add_to_group(struct bp_comm *comm, const struct bp_comm_step *step)
{
    if (comm->n_step == comm->room) {
        uint32_t room = comm->room ? 2 * comm->room : 8;
        struct bp_comm_step *more = realloc(comm->steps, room * sizeof *more);
        if (!more) return bp_error(BP_ERR_MEMORY, "bp_comm: no memory for a group");
        comm->steps = more;
        comm->room = room;
    }
    comm->steps[comm->n_step] = *step;
    if (step->src) bp_tensor_retain(step->src);
    if (step->dst) bp_tensor_retain(step->dst);
    comm->n_step++;
    return BP_OK;
}

static enum bp_status submit_p2p(uint32_t call, struct bp_comm *comm, struct bp_stream *stream,
                                 struct bp_tensor *t, uint32_t other)
{
    bool send = call == BP_COMM_SEND;
    struct bp_comm_step step = {.c = {.call = call, .root = other}, .src = send ? t : NULL,
                                .dst = send ? NULL : t};
    const struct bp_call_traits *f = &bp_call_traits_of[call];

    TRY(comm_check_target(f->call, comm, stream, true));
    if (other >= comm->size)
        return bp_error(BP_ERR_INVALID, "%s: the other rank is %u, but there are %u ranks", f->call,
                        other, comm->size);
    TRY(check_tensors(f, comm, &step, send, !send));
    return comm->group ? add_to_group(comm, &step) : bp_comm_submit(comm, stream, &step, 1);
}

enum bp_status bp_comm_send(struct bp_comm *comm, struct bp_stream *stream, struct bp_tensor *src,
                            uint32_t to)
{
    return submit_p2p(BP_COMM_SEND, comm, stream, src, to);
}

enum bp_status bp_comm_recv(struct bp_comm *comm, struct bp_stream *stream, struct bp_tensor *dst,
                            uint32_t from)
{
    return submit_p2p(BP_COMM_RECV, comm, stream, dst, from);
}

enum bp_status bp_comm_group_begin(struct bp_comm *comm, struct bp_stream *stream)
{
    TRY(comm_check_target("bp_comm_group_begin", comm, stream, false));
    comm->group = stream;
    return BP_OK;
}

enum bp_status bp_comm_group_end(struct bp_comm *comm)
{
    struct bp_stream *stream;
    enum bp_status status = BP_OK;

    if (!bp_comm_is(comm)) return bp_not_a("communicator");
    stream = comm->group;
    if (!stream)
        return bp_error(BP_ERR_INVALID,
                        "bp_comm_group_end: no group is open: begin one (bp_comm_group_begin)");
    comm->group = NULL;
    if (comm->n_step) status = bp_comm_submit(comm, stream, comm->steps, comm->n_step);
    for (uint32_t i = 0; i < comm->n_step; i++) {
        bp_tensor_destroy(comm->steps[i].src);
        bp_tensor_destroy(comm->steps[i].dst);
    }
    comm->n_step = 0;
    return status;
}
