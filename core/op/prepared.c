/* SPDX-License-Identifier: Apache-2.0 */
/* prepared.c: a call made ready, and its launch. */
#include "op.h"

#include <stdlib.h>
#include <string.h>

struct bp_prepared {
    struct bp_pending pending; /* first: a plan goes when its launches have ended */
    uint32_t magic;
    uint32_t n_in, n_out;
    struct bp_device *device; /* a reference */
    const struct bp_op_row *row;
    const struct bp_kernel *kernel;
    struct bp_plan plan;
    void *attrs;              /* own */
    uint16_t in_at[BP_PORT_MAX + 1], out_at[BP_PORT_MAX + 1];
    struct bp_typed_view *type; /* n_in inputs, then n_out outputs; rank ABSENT: left out */
};
enum { ABSENT = 255 };

static bool prepared_is(const struct bp_prepared *p)
{
    return bp_is(p ? p->magic : 0, BP_MAGIC_PREPARED);
}

/* Types of all ports; outputs as given, or dense. */
static void fill_types(struct bp_prepared *p, const struct bp_site *site)
{
    for (uint32_t i = 0; i < p->n_in; i++) {
        if (site->in[i]) bp_typed_view_init(&p->type[i], site->in[i]);
        else p->type[i].view.rank = ABSENT;
    }
    for (uint32_t i = 0; i < p->n_out; i++) {
        struct bp_typed_view *type = &p->type[p->n_in + i];
        if (!(site->want >> i & 1)) type->view.rank = ABSENT;
        else if (site->given[i]) bp_typed_view_init(type, site->given[i]);
        else bp_typed_view_dense(type, &site->out[i]);
    }
}

static struct bp_prepared *allocate(const struct bp_site *site)
{
    size_t n = site->n_in + site->n_out;
    struct bp_prepared *p = calloc(1, sizeof *p);

    if (p) p->type = calloc(n ? n : 1, sizeof *p->type);
    if (p && p->type) return p;
    free(p);
    bp_error_write("%s: no memory to prepare it", site->row->info.name);
    return NULL;
}

static void give_back(struct bp_pending *pending);

/* Takes the site's attributes on success. */
enum bp_status bp_prepared_make(struct bp_site *site, struct bp_prepared **out_prepared)
{
    struct bp_prepared *p = allocate(site);
    const struct bp_view *out[BP_PORT_MAX];
    struct bp_choice choice;
    enum bp_status status;

    if (!p) return BP_ERR_MEMORY;
    p->n_in = site->n_in;
    p->n_out = site->n_out;
    fill_types(p, site);
    for (uint32_t i = 0; i < p->n_out; i++)
        out[i] = site->want >> i & 1 ? &p->type[p->n_in + i].view : NULL;
    status = bp_select(site, out, &choice);
    if (status) {
        free(p->type);
        free(p);
        return status;
    }
    p->magic = bp_magic(BP_MAGIC_PREPARED);
    p->pending.release = give_back;
    p->device = site->device;
    bp_device_retain(p->device);
    p->row = site->row;
    p->kernel = choice.kernel;
    p->plan = choice.plan;
    p->attrs = site->attrs;
    site->attrs = NULL;
    memcpy(p->in_at, site->in_at, sizeof p->in_at);
    memcpy(p->out_at, site->out_at, sizeof p->out_at);
    *out_prepared = p;
    return BP_OK;
}

/* The device of a call is that of its first tensor, for a call without tensors the given one. */
enum bp_status bp_prepared_create(struct bp_device *device, const struct bp_call *call,
                                  struct bp_prepared **out_prepared)
{
    const struct bp_opinfo *op;
    struct bp_site site;
    enum bp_status status;

    if (!bp_device_is(device)) return bp_not_a("device");
    if (!out_prepared) return bp_error(BP_ERR_INVALID, "bp_prepared_create: out_prepared is NULL");
    op = call && call->op ? bp_opinfo_find(call->op) : NULL;
    TRY(bp_site_init(&site, device, call, NULL, op ? op->n_out : 0));
    status = bp_prepared_make(&site, out_prepared);
    bp_site_finish(&site);
    return status;
}

static void give_back(struct bp_pending *pending)
{
    struct bp_prepared *p = (struct bp_prepared *)pending;
    struct bp_plugin_entry *entry = p->device->entry;

    if (p->plan.plan && p->kernel->plan_destroy)
        p->kernel->plan_destroy(entry->self, bp_kernel_own(entry, p->kernel), p->plan.plan);
    free(p->attrs);
    free(p->type);
    free(p);
}

void bp_prepared_destroy(struct bp_prepared *p)
{
    struct bp_device *device;

    if (!prepared_is(p)) return;
    device = p->device;
    p->magic = 0;
    bp_pending_release(device, &p->pending);
    bp_device_release(device);
}

const char *bp_prepared_kernel(struct bp_prepared *prepared)
{
    return prepared_is(prepared) ? prepared->kernel->name : "";
}

enum bp_status bp_prepared_output(struct bp_prepared *prepared, uint32_t index,
                                  struct bp_tensor_info *out)
{
    struct bp_tensor_info info = {.size = sizeof info};
    const struct bp_view *v;

    if (!prepared_is(prepared)) return bp_not_a("prepared call");
    if (index >= prepared->n_out)
        return bp_error(BP_ERR_INVALID, "%s: there is no output %u", prepared->row->info.name,
                        index);
    v = &prepared->type[prepared->n_in + index].view;
    info.device = prepared->device;
    info.shape = v->shape;
    info.stride = v->stride;
    info.count = v->count;
    info.bytes = (uint64_t)v->count * (bp_dtype_bits(v->dtype) / 8);
    info.dtype = v->dtype;
    info.rank = v->rank;
    info.contiguous = !(v->flags & BP_VIEW_STRIDED);
    return bp_answer(out, &info, sizeof info);
}

static bool same_extents(uint32_t rank, const int64_t *a, const int64_t *b)
{
    for (uint32_t i = 0; i < rank; i++)
        if (a[i] != b[i]) return false;
    return true;
}

static bool same_type(const struct bp_view *a, const struct bp_view *b)
{
    return a->dtype == b->dtype && a->rank == b->rank && a->flags == b->flags &&
           a->layout == b->layout && same_extents(a->rank, a->shape, b->shape) &&
           (!(a->flags & BP_VIEW_STRIDED) || same_extents(a->rank, a->stride, b->stride));
}

/* Tensors against the prepared types; their views. */
static enum bp_status take(const struct bp_prepared *p, const char *what,
                           const struct bp_typed_view *type, struct bp_tensor *const *tensor,
                           size_t n, const struct bp_view **out_view)
{
    const char *op = p->row->info.name;

    for (size_t i = 0; i < n; i++) {
        const struct bp_view *expected = &type[i].view;
        struct bp_tensor *t = tensor[i];
        out_view[i] = NULL;
        if (!t && expected->rank == ABSENT) continue;
        if (!bp_tensor_is(t) && bp_was_stale()) return bp_not_a_for(op, "tensor");
        if (!bp_tensor_is(t) || expected->rank == ABSENT)
            return bp_error(BP_ERR_INVALID, "%s: %s %zu: expected %s", op, what, i,
                            expected->rank == ABSENT ? "NULL, as it was prepared" : "a tensor");
        if (t->device != p->device)
            return bp_error(BP_ERR_INVALID, "%s: %s %zu is on %s, prepared for %s", op, what, i,
                            t->device->name, p->device->name);
        if (!same_type(&t->view, expected)) {
            char got[BP_TYPE_TEXT], want[BP_TYPE_TEXT];
            return bp_error(
                BP_ERR_INVALID, "%s: %s %zu is %s%s, prepared for %s%s", op, what, i,
                bp_type_text(t->view.dtype, t->view.rank, t->shape, got, sizeof got),
                t->view.flags & BP_VIEW_STRIDED ? " strided" : "",
                bp_type_text(expected->dtype, expected->rank, expected->shape, want, sizeof want),
                expected->flags & BP_VIEW_STRIDED ? " strided" : "");
        }
        out_view[i] = &t->view;
    }
    return BP_OK;
}

static bool overlap(const struct bp_tensor *a, const struct bp_tensor *b)
{
    return a->storage == b->storage && a->view.count && b->view.count &&
           a->offset < b->offset + bp_tensor_span(b) && b->offset < a->offset + bp_tensor_span(a);
}

/* An output may be, exactly, the input that the row lets it share; else memory of outputs is their
 * own. */
static enum bp_status check_output(const struct bp_prepared *p, struct bp_tensor *const *in,
                                   struct bp_tensor *const *out, uint32_t o)
{
    const struct bp_opinfo *op = &p->row->info;
    int share = op->out[o].share;

    if (out[o]->view.flags & BP_VIEW_STRIDED && bp_view_overlaps_itself(&out[o]->view))
        return bp_error(BP_ERR_INVALID,
                        "%s: output %s may overlap itself: its strides repeat or interleave",
                        op->name, op->out[o].name);
    for (uint32_t i = 0; i < p->n_in; i++) {
        if (!in[i] || !overlap(in[i], out[o])) continue;
        if (share >= 0 && i == p->in_at[share] && in[i]->offset == out[o]->offset &&
            same_type(&in[i]->view, &out[o]->view) && p->kernel->flags & BP_KERNEL_IN_PLACE)
            continue;
        return bp_error(BP_ERR_INVALID, "%s: output %s overlaps input %u in memory%s", op->name,
                        op->out[o].name, i,
                        share >= 0 ? "; it may only be the same view as the input that it may share"
                                   : "");
    }
    for (uint32_t i = 0; i < o; i++)
        if (out[i] && overlap(out[i], out[o]))
            return bp_error(BP_ERR_INVALID, "%s: outputs %s and %s overlap in memory", op->name,
                            op->out[i].name, op->out[o].name);
    return BP_OK;
}

/* What a launch used is used until it has ended: tensors, workspace, the plan itself. */
static void note(struct bp_prepared *p, struct bp_stream *stream, uint64_t number,
                 struct bp_tensor *const *in, struct bp_tensor *const *out)
{
    struct bp_timeline *timeline = stream->timeline;
    bool noted;

    if (timeline->now) return;
    for (uint32_t i = 0; i < p->n_in; i++)
        if (in[i]) bp_storage_use(in[i]->storage, timeline, number);
    for (uint32_t i = 0; i < p->n_out; i++)
        if (out[i]) bp_storage_use(out[i]->storage, timeline, number);
    pthread_mutex_lock(&p->device->lock);
    noted = bp_users_add(&p->pending.users, timeline, number);
    pthread_mutex_unlock(&p->device->lock);
    if (!noted) bp_timeline_wait(timeline, number, UINT64_MAX);
}

/* Plans that want more than the device's alignment get it by a larger block (not on handles). */
static uint64_t workspace_bytes(const struct bp_prepared *p)
{
    uint64_t alignment = p->plan.workspace_alignment;

    return p->plan.workspace + (alignment > p->device->alignment ? alignment : 0);
}

static void *workspace_data(const struct bp_prepared *p, const struct bp_storage *workspace)
{
    uintptr_t alignment = p->plan.workspace_alignment, data = (uintptr_t)workspace->memory.data;

    return (void *)(alignment > 1 ? (data + alignment - 1) & ~(alignment - 1) : data);
}

/* The launch of a call; on a stream with a queue it is copied into that. */
static enum bp_status launch(const struct bp_prepared *p, struct bp_stream *stream, uint64_t number,
                             const struct bp_view *const *in, const struct bp_view *const *out,
                             const void *attrs, struct bp_storage *workspace)
{
    struct bp_plugin_entry *entry = p->device->entry;
    struct bp_launch l = {
        .self = entry->self,
        .kernel = bp_kernel_own(entry, p->kernel),
        .plan = p->plan.plan,
        .in = in,
        .out = out,
        .in_at = p->in_at,
        .out_at = p->out_at,
        .n_in = p->n_in,
        .n_out = p->n_out,
        .attrs = attrs,
        .workspace = workspace ? workspace_data(p, workspace) : NULL,
        .workspace_memory = workspace ? workspace->memory.handle : NULL,
        .workspace_size = p->plan.workspace,
        .stream = stream->timeline->stream,
        .device = p->device->index,
        .width = p->device->core->width,
        .tag = number,
    };

    if (bp_stopping()) return bp_stopped();
    if (stream->timeline->queue)
        return bp_launch_queue(stream->timeline, &l, p->kernel, p->row, entry->plugin.name);
    bp_error_enter();
    return bp_device_leave(p->device, p->kernel->launch(&l), p->kernel->name);
}

static enum bp_status check_run(struct bp_prepared *p, struct bp_stream *stream,
                                struct bp_tensor *const *in, size_t n_in,
                                struct bp_tensor *const *out, size_t n_out)
{
    if (!prepared_is(p)) return bp_not_a_for("bp_prepared_run", "prepared call");
    if (!bp_stream_is(stream)) return bp_not_a_for("bp_prepared_run", "stream");
    if (stream->device != p->device)
        return bp_error(BP_ERR_INVALID, "%s: prepared for %s, the stream is of %s",
                        p->row->info.name, p->device->name, stream->device->name);
    if (n_in != p->n_in || n_out != p->n_out || (n_in && !in) || (n_out && !out))
        return bp_error(BP_ERR_INVALID, "%s: %zu inputs and %zu outputs given, %u and %u prepared",
                        p->row->info.name, n_in, n_out, p->n_in, p->n_out);
    return bp_stream_check(stream);
}

enum bp_status bp_prepared_run(struct bp_prepared *p, struct bp_stream *stream,
                               struct bp_tensor *const *in, size_t n_in,
                               struct bp_tensor *const *out, size_t n_out, const void *attrs)
{
    const struct bp_view *in_view[BP_FLAT_MAX], *out_view[BP_PORT_MAX];
    struct bp_storage *workspace = NULL;
    void *current = NULL;
    enum bp_status status;
    uint64_t number;

    TRY(check_run(p, stream, in, n_in, out, n_out));
    TRY(take(p, "input", p->type, in, n_in, in_view));
    TRY(take(p, "output", p->type + n_in, out, n_out, out_view));
    for (uint32_t i = 0; i < n_out; i++)
        if (out[i]) TRY(check_output(p, in, out, i));
    if (attrs) {
        TRY(bp_attrs_copy(&p->row->info, attrs, &current));
        status = bp_attrs_check_run(&p->row->info, p->attrs, current);
        if (status) goto free_attrs;
    }
    status = p->plan.workspace
                 ? bp_storage_create(p->device, stream->timeline, BP_SPACE_DEVICE,
                                     workspace_bytes(p), &workspace)
                 : BP_OK;
    if (status) goto free_attrs;
    number = bp_work_begin(stream->timeline, p->row->info.name);
    status = launch(p, stream, number, in_view, out_view, attrs ? current : p->attrs, workspace);
    if (status && stream->timeline->queue) {
        bp_work_drop(stream->timeline, number);
    } else {
        note(p, stream, number, in, out);
        bp_work_end(stream->timeline, number);
        if (status == BP_OK && stream->synchronous) status = bp_stream_drain(stream);
    }
    if (workspace) bp_storage_release(workspace);
free_attrs:
    free(current);
    return status;
}
