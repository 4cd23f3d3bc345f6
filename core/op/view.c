/* SPDX-License-Identifier: Apache-2.0 */
/* view.c: operators that make a view: no kernel runs, a new tensor shares the input's memory. */
#include "build.h"

#include <backplane/ops.h>
#include <stdlib.h>

/* Where the strides of the input do not allow the view, a dense copy of it is viewed. */
static enum bp_status view_copy(struct bp_stream *stream, const struct bp_op_row *row,
                                const struct bp_call *call, struct bp_tensor *base,
                                struct bp_tensor **result)
{
    struct bp_tensor *dense;
    struct bp_arg in[BP_PORT_MAX];
    struct bp_call again = *call;
    enum bp_status status;

    TRY(bp_op_assign(&stream->scope, base, &dense));
    for (size_t i = 0; i < call->n_in && i < BP_PORT_MAX; i++) in[i] = call->in[i];
    in[row->info.out[0].share] = (struct bp_arg){&dense, 1};
    again.in = in;
    status = bp_run_view(stream, row, &again, NULL, 1, result);
    bp_tensor_destroy(dense);
    return status;
}

enum bp_status bp_run_view(struct bp_stream *stream, const struct bp_op_row *row,
                           const struct bp_call *call, const uint8_t *want, size_t n_want,
                           struct bp_tensor **result)
{
    struct bp_tensor *base;
    struct bp_site site;
    enum bp_status status;

    TRY(bp_site_init(&site, stream->device, NULL, call, want, n_want));
    base = call->in[row->info.out[0].share].at[0];
    if (site.view_copies) status = view_copy(stream, row, call, base, result);
    else
        status = bp_tensor_view(base, site.view_offset, site.out[0].rank, site.out[0].shape,
                                site.view_stride, &result[0]);
    bp_site_finish(&site);
    return status;
}

static bool shapes_fit(const struct bp_site *site, const struct bp_view *out)
{
    return out && out->rank == site->out[0].rank;
}

/* Inside other steps: the place of the output becomes a view of the input's place. Where that
 * cannot be, or the output is a tensor of the call, elements are copied. */
enum bp_status bp_build_view(struct bp_builder *b, const struct bp_site *site,
                             const struct bp_operand *in, const struct bp_operand *out)
{
    uint32_t share = site->in_at[site->row->info.out[0].share];
    struct bp_operand base = in[share], view = out[0];
    struct bp_site *again = malloc(sizeof *again);
    struct bp_temp *temp;
    enum bp_status status = again ? BP_OK : bp_build_no_memory(site);

    if (status) return status;
    *again = *site; /* inferred anew: the strides of places are known here only */
    again->in[share] = bp_build_view_of(b->p, base);
    again->view_copies = false;
    status = site->row->infer(again);
    if (status == BP_OK && again->view_copies) {
        const struct bp_view *v = bp_build_view_of(b->p, base);
        status = bp_build_dense(b, site, v, v->dtype, &view);
        if (status == BP_OK) status = bp_build_convert(b, site, base, view, BP_FALLBACK_LAYOUT);
        base = view;
        again->in[share] = bp_build_view_of(b->p, base);
        again->view_copies = false;
        view = out[0];
        if (status == BP_OK) status = site->row->infer(again);
    }
    if (status == BP_OK && !shapes_fit(again, bp_build_view_of(b->p, out[0])))
        status = bp_error(BP_ERR_INTERNAL, "%s: its view changed its rank", site->row->info.name);
    if (status == BP_OK && out[0].kind != BP_OPERAND_TEMP)
        status = bp_build_dense(b, site, bp_build_view_of(b->p, out[0]),
                                bp_build_view_of(b->p, base)->dtype, &view);
    if (status == BP_OK) {
        struct bp_typed_view *type = &b->p->temp[view.index]->type;
        temp = b->p->temp[view.index];
        temp->of = base;
        temp->bytes = 0;
        temp->offset = (uint64_t)again->view_offset * (bp_dtype_bits(type->view.dtype) / 8);
        memcpy(type->stride, again->view_stride, sizeof type->stride);
        type->view.flags =
            bp_is_contiguous(type->view.rank, type->shape, type->stride) ? 0 : BP_VIEW_STRIDED;
        if (out[0].kind != BP_OPERAND_TEMP)
            status = bp_build_convert(b, site, view, out[0], b->kind);
    }
    free(again);
    return status;
}
