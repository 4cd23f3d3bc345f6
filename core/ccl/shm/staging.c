/* SPDX-License-Identifier: Apache-2.0 */
/* staging.c: runs calls on memory that the host cannot address, by staging the data through pinned
 * memory, chunk by chunk, in two slots. While the host works on one chunk, the device copies the
 * next one in and the previous one out. The copies are work of the app's stream; fences after them
 * show when a slot may be reused. The memory used by a call is bounded, however large its tensors
 * are.
 *
 * A chunk has whole pieces of each part, so that ranks whose memory the host can address use the
 * same pieces. If there is no pinned memory, or none is left, ordinary host memory is used, and
 * copies to and from it block. */
#include "../comm.h"

#include <inttypes.h>
#include <stdlib.h>

enum { LIMIT = 1 << 20, SLOTS = 2 }; /* LIMIT: bytes of a slot, for src and for dst */

/* The part that src or dst has in a call. */
struct side {
    struct bp_tensor *tensor; /* NULL: no data on this rank */
    uint32_t parts;
    const int64_t *counts; /* elements of each part; NULL: all have c->count */
    uint64_t at;           /* offset in a slot */
};

struct bp_staging {
    struct bp_stream *stream;
    const struct bp_collective *c;
    struct side src, dst;
    uint64_t limit;
    uint64_t room, per;                 /* bytes of a piece; pieces per chunk, 0: not begun */
    uint64_t chunk, slot;               /* bytes of a part's chunk, and of a slot */
    uint64_t n_piece, n_chunk;          /* of the largest part */
    uint64_t requested;                     /* chunks of src whose copy has been submitted */
    uint64_t read[SLOTS], wrote[SLOTS]; /* the stream's last work on a slot; 0: none */
    struct bp_buffer *pinned;           /* memory of the slots; NULL: ordinary memory */
    char *host;                         /* address of the slots; owned if `pinned` is NULL */
};

static uint64_t part_bytes(const struct bp_staging *s, const struct side *side, uint32_t part)
{
    return (side->counts ? (uint64_t)side->counts[part] : s->c->count) * s->c->width;
}

static uint64_t largest_part(const struct bp_staging *s, const struct side *side)
{
    uint64_t most = 0;

    for (uint32_t i = 0; side->tensor && i < side->parts; i++) {
        uint64_t bytes = part_bytes(s, side, i);
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* Reports the failure to the other ranks, which wait for this one. */
static enum bp_status staging_fail(struct bp_shm_rank *b, const struct bp_staging *s,
                                   enum bp_status status)
{
    return bp_comm_failure_publish(&b->failure, status, "has no data of %s for %s",
                                   s->stream->device->name, bp_comm_call_name(s->c->call));
}

/* A stream that is a host queue uses no pinned memory, because the host can address the memory
 * behind it. */
static enum bp_status allocate_slots(struct bp_staging *s, uint64_t size)
{
    struct bp_device *device = s->stream->device;

    if (!s->stream->timeline->queue &&
        bp_buffer_allocate(device, s->stream->timeline, BP_SPACE_PINNED, size, &s->pinned) == BP_OK)
        s->host = bp_buffer_host_address(s->pinned);
    if (s->pinned && s->host) return BP_OK;
    if (s->pinned) bp_buffer_release(s->pinned);
    s->pinned = NULL;
    s->host = bp_core_alloc(device->core, size, 64);
    if (s->host) return BP_OK;
    return bp_error(BP_ERR_MEMORY, "no host memory for %" PRIu64 " bytes of staging", size);
}

static uint64_t slots_of(const struct bp_staging *s)
{
    return s->slot * (s->n_chunk > 1 ? SLOTS : 1);
}

static enum bp_status staging_layout(struct bp_staging *s, uint64_t room)
{
    uint64_t src = largest_part(s, &s->src), dst = largest_part(s, &s->dst),
             most = src > dst ? src : dst;
    uint64_t parts = s->src.parts > s->dst.parts ? s->src.parts : s->dst.parts;

    s->room = room;
    s->per = s->limit / (parts * room);
    if (!s->per) s->per = 1;
    s->n_piece = (most + room - 1) / room;
    s->n_chunk = (s->n_piece + s->per - 1) / s->per;
    s->chunk = ((s->n_chunk > 1 ? s->per * room : most) + 63) & ~UINT64_C(63);
    s->dst.at = src ? s->src.parts * s->chunk : 0;
    s->slot = s->dst.at + (dst ? s->dst.parts * s->chunk : 0);
    return s->slot ? allocate_slots(s, slots_of(s)) : BP_OK;
}

/* Copies between a tensor, from byte `at` on, and the slots. out: from the tensor. */
static enum bp_status copy_part(struct bp_staging *s, struct bp_tensor *t, uint64_t at,
                                uint64_t slot, uint64_t size, bool out)
{
    struct bp_buffer *pinned = s->pinned;
    void *there = (void *)((uintptr_t)t->view.data + at), *here;

    if (!pinned)
        return out ? bp_copy_out(s->stream, t, at, s->host + slot, size)
                   : bp_copy_in(s->stream, t, at, s->host + slot, size);
    here = (void *)((uintptr_t)pinned->memory.data + slot);
    if (out)
        return bp_memory_copy(s->stream, BP_COPY_WITHIN,
                              &(struct bp_copy){pinned->memory.handle, here, t->view.memory, there,
                                                size},
                              pinned, t->buffer);
    return bp_memory_copy(s->stream, BP_COPY_WITHIN,
                          &(struct bp_copy){t->view.memory, there, pinned->memory.handle, here,
                                            size},
                          t->buffer, pinned);
}

/* Submits the copies of chunk `number` of all parts. *out_number: the last of them. */
static enum bp_status copy_chunk(struct bp_staging *s, const struct side *side, uint64_t number,
                                 bool out, uint64_t *out_number)
{
    uint64_t from = number * s->per * s->room, most = s->per * s->room, begin = 0;
    uint64_t slot = number % SLOTS * s->slot + side->at;

    for (uint32_t i = 0; i < side->parts; i++) {
        uint64_t part = part_bytes(s, side, i), at = begin + from;
        uint64_t size = part <= from ? 0 : part - from < most ? part - from : most;
        begin += part;
        if (!size) continue;
        TRY(copy_part(s, side->tensor, at, slot + i * s->chunk, size, out));
    }
    *out_number = atomic_load(&s->stream->timeline->last);
    if (!s->pinned) return BP_OK; /* an unpinned copy no longer uses the slot */
    return bp_timeline_record_fence(s->stream->timeline, *out_number);
}

static enum bp_status wait_work(struct bp_staging *s, uint64_t number)
{
    struct bp_timeline *timeline = s->stream->timeline;
    struct bp_deadline until;
    enum bp_status status;

    if (!number || !s->pinned) return BP_OK;
    until = bp_deadline_of(timeline->device);
    status = bp_timeline_wait(timeline, number, &until);
    return status ? bp_timeline_report(timeline, number, status) : BP_OK;
}

/* Submits the copies of src's chunks up to `number`, as far as they exist. */
static enum bp_status begin_reads(struct bp_staging *s, uint64_t number)
{
    for (; s->src.tensor && s->requested <= number && s->requested < s->n_chunk; s->requested++)
        TRY(copy_chunk(s, &s->src, s->requested, true, &s->read[s->requested % SLOTS]));
    return BP_OK;
}

/* Without pinned memory each copy blocks, so only the chunk that is needed is copied; with it, the
 * next chunk is copied in the meantime. */
static enum bp_status wait_chunk(struct bp_staging *s, uint64_t number)
{
    TRY(begin_reads(s, s->pinned ? number + 1 : number));
    TRY(wait_work(s, s->read[number % SLOTS]));
    return wait_work(s, s->wrote[number % SLOTS]);
}

enum bp_status bp_staging_wait(struct bp_staging *s, struct bp_shm_rank *b, uint64_t room,
                               uint64_t k)
{
    enum bp_status status = s->per ? BP_OK : staging_layout(s, room);

    if (status == BP_OK && k < s->n_piece && k % s->per == 0)
        status = wait_chunk(s, k / s->per);
    return status ? staging_fail(b, s, status) : BP_OK;
}

enum bp_status bp_staging_flush(struct bp_staging *s, struct bp_shm_rank *b, uint64_t k)
{
    uint64_t number = k / s->per;
    enum bp_status status;

    if (!s->dst.tensor || k >= s->n_piece) return BP_OK;
    if ((k + 1) % s->per && k + 1 < s->n_piece) return BP_OK;
    status = copy_chunk(s, &s->dst, number, false, &s->wrote[number % SLOTS]);
    return status ? staging_fail(b, s, status) : BP_OK;
}

static char *staging_piece(const struct bp_staging *s, const struct side *side, uint32_t part,
                           uint64_t k)
{
    if (!side->tensor || k >= s->n_piece) return NULL;
    return s->host + k / s->per % SLOTS * s->slot + side->at + part * s->chunk +
           k % s->per * s->room;
}

const char *bp_staging_src(const struct bp_staging *s, uint32_t part, uint64_t k)
{
    return staging_piece(s, &s->src, part, k);
}

char *bp_staging_dst(const struct bp_staging *s, uint32_t part, uint64_t k)
{
    return staging_piece(s, &s->dst, part, k);
}

static bool has_parts(uint32_t call, bool src)
{
    const struct bp_call_traits *f = &bp_call_traits_of[call];

    return f->ragged || (src ? f->src_parts : f->dst_parts);
}

static struct side staging_side_of(const struct bp_collective *c, struct bp_tensor *t,
                                   uint32_t size, bool src)
{
    return (struct side){.tensor = t && t->view.count ? t : NULL,
                         .parts = has_parts(c->call, src) ? size : 1,
                         .counts = c->call != BP_COMM_ALL_TO_ALL_RAGGED ? NULL
                                   : src                                ? c->src_counts
                                                                        : c->dst_counts};
}

enum bp_status bp_staging_create(struct bp_stream *stream, struct bp_comm_step *steps, uint32_t n,
                                 uint32_t size, struct bp_staging **out_staging)
{
    struct bp_staging *s = calloc(n, sizeof *s);

    if (!s) return bp_error(BP_ERR_MEMORY, "no memory for a collective call");
    for (uint32_t i = 0; i < n; i++) {
        struct bp_collective *c = &steps[i].c;
        s[i].stream = stream;
        s[i].c = c;
        s[i].limit = LIMIT / n;
        s[i].src = staging_side_of(c, steps[i].src, size, true);
        s[i].dst = staging_side_of(c, steps[i].dst, size, false);
        c->staging = &s[i];
    }
    *out_staging = s;
    return BP_OK;
}

void bp_staging_destroy(struct bp_staging *s, uint32_t n)
{
    for (uint32_t i = 0; s && i < n; i++) {
        if (s[i].pinned) bp_buffer_release(s[i].pinned);
        else if (s[i].host)
            bp_core_free(s[i].stream->device->core, s[i].host, slots_of(&s[i]));
    }
    free(s);
}

/* Between hosts, messages need whole buffers: tensors are copied to ordinary host memory, and
 * back. */
static uint64_t tensor_bytes(const struct bp_tensor *t)
{
    return t ? (uint64_t)t->view.count * (bp_dtype_bits(t->view.dtype) / 8) : 0;
}

static enum bp_status allocate_copy(struct bp_core *core, const struct bp_tensor *t, void **out)
{
    uint64_t bytes = tensor_bytes(t);

    if (!bytes) return BP_OK;
    *out = bp_core_alloc(core, bytes, 64);
    if (*out) return BP_OK;
    return bp_error(BP_ERR_MEMORY, "no host memory for %" PRIu64 " bytes of a collective call",
                    bytes);
}

static enum bp_status read_step(struct bp_stream *stream, struct bp_comm_step *step)
{
    struct bp_core *core = stream->device->core;
    void *src = NULL, *dst = NULL;
    enum bp_status status = allocate_copy(core, step->src, &src);

    step->c.src = src;
    if (status == BP_OK) status = allocate_copy(core, step->dst, &dst);
    step->c.dst = dst;
    if (status || !src) return status;
    return bp_tensor_read(stream, step->src, src, tensor_bytes(step->src));
}

enum bp_status bp_net_staging_read(struct bp_shm_rank *b, struct bp_stream *stream,
                                   struct bp_comm_step *steps, uint32_t n)
{
    enum bp_status status = BP_OK;

    for (uint32_t i = 0; i < n && status == BP_OK; i++) status = read_step(stream, &steps[i]);
    if (status == BP_OK) return BP_OK;
    return bp_comm_failure_publish(&b->failure, status, "has no data of %s for %s",
                                   stream->device->name, bp_comm_call_name(steps->c.call));
}

enum bp_status bp_net_staging_write(struct bp_stream *stream, const struct bp_comm_step *steps,
                                    uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (steps[i].c.dst)
            TRY(bp_tensor_write(stream, steps[i].dst, steps[i].c.dst,
                                tensor_bytes(steps[i].dst)));
    return BP_OK;
}

void bp_net_staging_release(struct bp_core *core, struct bp_comm_step *steps, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct bp_collective *c = &steps[i].c;
        if (c->src) bp_core_free(core, (void *)c->src, tensor_bytes(steps[i].src));
        if (c->dst) bp_core_free(core, c->dst, tensor_bytes(steps[i].dst));
        c->src = c->dst = NULL;
    }
}
