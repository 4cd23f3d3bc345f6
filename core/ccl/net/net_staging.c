/* SPDX-License-Identifier: Apache-2.0 */
/* net_staging.c: calls between hosts on memory that the host does not reach. */
#include "../comm.h"

#include <inttypes.h>

static uint64_t bytes_of(const struct bp_tensor *t)
{
    return t ? (uint64_t)t->view.count * (bp_dtype_bits(t->view.dtype) / 8) : 0;
}

static enum bp_status take(struct bp_core *core, const struct bp_tensor *t, void **out)
{
    uint64_t bytes = bytes_of(t);

    if (!bytes) return BP_OK;
    *out = bp_core_allocate(core, bytes, 64);
    if (*out) return BP_OK;
    return bp_error(BP_ERR_MEMORY, "no host memory for %" PRIu64 " bytes of a collective call",
                    bytes);
}

static enum bp_status read(struct bp_stream *stream, struct bp_comm_step *step)
{
    struct bp_core *core = stream->device->core;
    void *src = NULL, *dst = NULL;
    enum bp_status status = take(core, step->src, &src);

    step->c.src = src;
    if (status == BP_OK) status = take(core, step->dst, &dst);
    step->c.dst = dst;
    if (status || !src) return status;
    return bp_tensor_read(stream, step->src, src, bytes_of(step->src));
}

enum bp_status bp_whole_read(struct bp_board *b, struct bp_stream *stream,
                             struct bp_comm_step *steps, uint32_t n)
{
    enum bp_status status = BP_OK;

    for (uint32_t i = 0; i < n && status == BP_OK; i++) status = read(stream, &steps[i]);
    if (status == BP_OK) return BP_OK;
    return bp_board_confess(b, status, "has no data of %s for %s", stream->device->name,
                            bp_comm_call_name(steps->c.call));
}

enum bp_status bp_whole_write(struct bp_stream *stream, const struct bp_comm_step *steps,
                              uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (steps[i].c.dst)
            TRY(bp_tensor_write(stream, steps[i].dst, steps[i].c.dst, bytes_of(steps[i].dst)));
    return BP_OK;
}

void bp_whole_release(struct bp_core *core, struct bp_comm_step *steps, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct bp_collective *c = &steps[i].c;
        if (c->src) bp_core_release(core, (void *)c->src, bytes_of(steps[i].src));
        if (c->dst) bp_core_release(core, c->dst, bytes_of(steps[i].dst));
        c->src = c->dst = NULL;
    }
}
