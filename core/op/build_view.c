/* SPDX-License-Identifier: Apache-2.0 */
/* build_view.c: operators that make views between the steps of a call: places become views. */
#include "build.h"

#include <stdlib.h>

/* Infers anew: the strides of places are known here only. Where they do not allow the views, base
 * becomes a dense copy. */
static enum bp_status infer_on(struct bp_builder *b, struct bp_site *site, uint32_t share,
                               struct bp_operand *base)
{
    const struct bp_view *v = bp_build_view_of(b->p, *base);
    struct bp_operand from = *base;

    site->in[share] = v;
    site->view_copies = false;
    TRY(site->row->infer(site));
    if (!site->view_copies) return BP_OK;
    TRY(bp_build_dense(b, site, v, v->dtype, base));
    TRY(bp_build_convert(b, site, from, *base, BP_FALLBACK_LAYOUT));
    site->in[share] = bp_build_view_of(b->p, *base);
    site->view_copies = false;
    return site->row->infer(site);
}

/* Output number i: its place becomes a view of base's; a tensor of the call gets a copy of that. */
static enum bp_status place_view(struct bp_builder *b, const struct bp_site *site, uint32_t i,
                                 struct bp_operand base, struct bp_operand out)
{
    const struct bp_view *like = bp_build_view_of(b->p, out), *of;
    struct bp_operand view = out;
    struct bp_typed_view *type;
    struct bp_temp *temp;

    if (!like || like->rank != site->out[i].rank)
        return bp_error(BP_ERR_INTERNAL, "%s: its view changed its rank", site->row->info.name);
    if (out.kind != BP_OPERAND_TEMP)
        TRY(bp_build_dense(b, site, like, bp_build_view_of(b->p, base)->dtype, &view));
    temp = b->p->temp[view.index];
    type = &temp->type;
    temp->of = base;
    temp->bytes = 0;
    temp->offset = (uint64_t)site->view_offset[i] * (bp_dtype_bits(type->view.dtype) / 8);
    memcpy(type->stride, site->view_stride, sizeof type->stride);
    type->view.flags =
        bp_is_contiguous(type->view.rank, type->shape, type->stride) ? 0 : BP_VIEW_STRIDED;
    of = bp_build_view_of(b->p, base);
    if (of->flags & BP_VIEW_CONSTANT) {
        type->view.flags |= BP_VIEW_CONSTANT;
        type->view.data = (void *)((uintptr_t)of->data + temp->offset);
        type->view.memory = of->memory;
        type->view.space = of->space;
    }
    return out.kind == BP_OPERAND_TEMP ? BP_OK : bp_build_convert(b, site, view, out, b->kind);
}

enum bp_status bp_build_view(struct bp_builder *b, const struct bp_site *site,
                             const struct bp_operand *in, const struct bp_operand *out)
{
    uint32_t share = site->in_at[site->row->info.out[0].share];
    struct bp_operand base = in[share];
    struct bp_site *own = malloc(sizeof *own);
    enum bp_status status;

    if (!own) return bp_build_no_memory(site);
    *own = *site;
    status = infer_on(b, own, share, &base);
    for (uint32_t i = 0; i < own->n_out && status == BP_OK; i++)
        status = place_view(b, own, i, base, out[i]);
    free(own);
    return status;
}
