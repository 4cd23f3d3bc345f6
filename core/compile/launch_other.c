/* SPDX-License-Identifier: Apache-2.0 */
/* launch_other.c: runs the launches of a schedule that no kernel of its device runs: copies and
 * conversions of indices by the host, and calls on the fallback device. */
#include "schedule.h"

#include "../call/fallback.h"

#include <stdlib.h>
#include <string.h>

static void views_move(const struct bp_view *from, void *to, const int64_t *to_stride)
{
    struct bp_move move;

    if (!from->count) return;
    bp_move_init(&move, from->rank, from->shape, to_stride, from->stride,
                 bp_dtype_bits(from->dtype) / 8);
    bp_move_run(&move, to, from->data);
}

/* ---- indices ---- */

static void indices_convert(const struct bp_view *to, const struct bp_view *from)
{
    for (int64_t i = 0; i < from->count && to->dtype == BP_I64; i++)
        ((int64_t *)to->data)[i] = ((const int32_t *)from->data)[i];
    for (int64_t i = 0; i < from->count && to->dtype == BP_I32; i++) {
        int64_t wide = ((const int64_t *)from->data)[i];
        ((int32_t *)to->data)[i] = wide < INT32_MIN   ? INT32_MIN
                                   : wide > INT32_MAX ? INT32_MAX
                                                      : (int32_t)wide;
    }
}

/* ---- the fallback device ---- */

/* The tensors of a call on the fallback device. */
struct foreign {
    struct bp_stream *stream;
    struct bp_tensor *in[BP_FLAT_MAX], *out[BP_FLAT_MAX];
};

static enum bp_status foreign_copy_inputs(const struct bp_prepared *p, struct foreign *t,
                                          const struct bp_view *const *in)
{
    for (uint32_t i = 0; i < p->n_in; i++) {
        if (!in[i]) continue;
        TRY(bp_tensor_create_like(p->device, NULL, &p->type[i], &t->in[i]));
        if (!bp_reads_shape(p->row, p->in_at, i))
            views_move(in[i], t->in[i]->view.data, t->in[i]->stride);
    }
    for (uint32_t i = 0; i < p->n_out; i++) {
        const struct bp_port *port = bp_prepared_port(p, i);
        const struct bp_typed_view *type = &p->type[p->n_in + i];
        if (type->view.rank == BP_ABSENT) continue;
        if (port->kind == BP_PORT_UPDATE)
            t->out[i] = bp_tensor_retain(t->in[p->in_at[port->share]]);
        else TRY(bp_tensor_create_like(p->device, NULL, type, &t->out[i]));
    }
    return BP_OK;
}

static void foreign_copy_outputs(const struct bp_prepared *p, const struct foreign *t,
                                 const struct bp_view *const *out)
{
    for (uint32_t i = 0; i < p->n_out; i++)
        if (out[i] && t->out[i]) views_move(&t->out[i]->view, out[i]->data, out[i]->stride);
}

static void foreign_free(const struct bp_prepared *p, struct foreign *t)
{
    for (uint32_t i = 0; i < p->n_in; i++) bp_tensor_destroy(t->in[i]);
    for (uint32_t i = 0; i < p->n_out; i++) bp_tensor_destroy(t->out[i]);
    bp_stream_destroy(t->stream);
    free(t);
}

static enum bp_status foreign_launch(struct bp_prepared *p, const struct bp_launch *l)
{
    const struct bp_run run = {
        .attrs = l->attrs ? l->attrs : p->attrs, .seed = l->seed, .offset = l->offset};
    struct foreign *t = calloc(1, sizeof *t);
    enum bp_status status;

    if (!t) return bp_error(BP_ERR_MEMORY, "%s: no memory to run it elsewhere", p->row->info.name);
    status = bp_stream_create_with(p->device, BP_STREAM_INLINE, &t->stream);
    if (status == BP_OK) status = foreign_copy_inputs(p, t, l->in);
    if (status == BP_OK) status = bp_prepared_launch(p, t->stream, t->in, t->out, &run);
    if (status == BP_OK) foreign_copy_outputs(p, t, l->out);
    foreign_free(p, t);
    return status;
}

/* ---- all ---- */

static bool is_contiguous(const struct bp_view *view)
{
    return !(view->flags & BP_VIEW_STRIDED);
}

bool bp_launch_other_can(const struct bp_device *device, const struct bp_step *step,
                         const struct bp_view *in, const struct bp_view *out)
{
    if (!device->is_inline || !device->host_visible) return false;
    return step->fallback || !step->transform->indices || (is_contiguous(in) && is_contiguous(out));
}

enum bp_status bp_launch_other(struct bp_device *device, const struct bp_scheduled_launch *from,
                               const struct bp_launch *l)
{
    const struct bp_step *step = from->step;

    if (step->fallback) {
        TRY(bp_fallback_check(device, from->prepared->row, step->kind));
        return foreign_launch(step->fallback, l);
    }
    if (step->transform->indices) indices_convert(l->out[0], l->in[0]);
    else if (l->in[0]->data != l->out[0]->data)
        views_move(l->in[0], l->out[0]->data, l->out[0]->stride);
    return BP_OK;
}
