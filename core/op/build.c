/* SPDX-License-Identifier: Apache-2.0 */
/* build.c: finds the steps of a call: a kernel of the device; else the same kernel between copies
 * that make tensors dense; else other operators; else another dtype. */
#include "build.h"

#include <backplane/attrs.h>
#include <backplane/ops.h>

#include <stdlib.h>
#include <string.h>

/* The attributes of a step other than the call itself: a view's copy may be of its kind. */
static enum bp_status own_attrs(const struct bp_builder *b, const struct bp_site *site,
                                struct bp_step *step)
{
    bool itself = b->kind == BP_FALLBACK_NONE && site->row == b->p->row;

    if (itself || !site->attrs) return BP_OK;
    return bp_attrs_copy(&site->row->info, site->attrs, &step->attrs);
}

static enum bp_status add_launch(struct bp_builder *b, const struct bp_site *site,
                                 const struct bp_operand *in, const struct bp_operand *out,
                                 const struct bp_choice *choice)
{
    struct bp_plugin_entry *entry = site->device->entry;
    const struct bp_kernel *k = choice->kernel;
    struct bp_step *step = NULL;
    enum bp_status status = bp_build_step(b, site, in, out, &step);

    if (status) {
        if (choice->plan.plan && k->plan_destroy)
            k->plan_destroy(entry->self, bp_kernel_own(entry, k), choice->plan.plan);
        return status;
    }
    step->kernel = k;
    step->plan = choice->plan;
    b->p->plan_bytes += choice->plan.bytes;
    TRY(own_attrs(b, site, step));
    bp_build_launch(step, site);
    return BP_OK;
}

/* A step of one input and one output: assign, or cast to the output's dtype. */
enum bp_status bp_build_convert(struct bp_builder *b, const struct bp_site *of,
                                struct bp_operand from, struct bp_operand to, uint32_t kind)
{
    const struct bp_view *x = bp_build_view_of(b->p, from), *y = bp_build_view_of(b->p, to);
    struct bp_cast_attrs cast = *(const struct bp_cast_attrs *)bp_op_row[BP_ROW_cast].info.defaults;
    struct bp_site *site = calloc(1, sizeof *site);
    uint32_t before = b->kind;
    enum bp_status status;
    bool same = x->dtype == y->dtype;

    if (!site) return bp_build_no_memory(of);
    cast.to = y->dtype;
    site->row = &bp_op_row[same ? BP_ROW_assign : BP_ROW_cast];
    site->device = of->device;
    site->attrs = same ? NULL : &cast;
    site->in_at[1] = site->out_at[1] = 1;
    site->n_in = site->n_out = site->want = 1;
    bp_build_inputs(b, site, &from);
    site->dtype[BP_VAR_T] = x->dtype;
    site->dtype[BP_VAR_U] = y->dtype;
    site->bound = same ? 1 << BP_VAR_T : 1 << BP_VAR_T | 1 << BP_VAR_U;
    b->kind = kind;
    status = bp_build(b, site, &from, &to);
    b->kind = before;
    free(site);
    return status;
}

/* Ways that keep the meaning but not the dtype or the device are for the policy to allow. A
 * conversion is a step of such a way: it is not itself made of conversions of its kind, nor a
 * change of layout of conversions to another dtype, or they would lead back to each other. */
static enum bp_status build_otherwise(struct bp_builder *b, const struct bp_site *site,
                                      const struct bp_operand *in, const struct bp_operand *out,
                                      const struct bp_view *const *out_view)
{
    bool converts = b->kind == BP_FALLBACK_LAYOUT || b->kind == BP_FALLBACK_DTYPE;
    enum bp_status status = BP_ERR_NO_KERNEL;

    if (b->kind != BP_FALLBACK_LAYOUT && bp_build_changes(site, out_view, false))
        status = bp_build_between(b, site, in, out, false);
    if (bp_build_leads_nowhere(status) && site->row->expand)
        status = bp_build_expand(b, site, in, out);
    if (!bp_build_leads_nowhere(status) || b->p->device->core->fallback == BP_POLICY_DENY)
        return status;
    if (!converts && bp_build_changes(site, out_view, true) &&
        !bp_build_names_dtype(&site->row->info))
        status = bp_build_between(b, site, in, out, true);
    return status;
}

static enum bp_status build_kernel(struct bp_builder *b, const struct bp_site *site,
                                   const struct bp_operand *in, const struct bp_operand *out,
                                   const struct bp_view *const *out_view)
{
    struct bp_choice choice;

    TRY(bp_select(site, out_view, &choice));
    return add_launch(b, site, in, out, &choice);
}

/* Where nothing leads there, the answer is that of the first way. */
enum bp_status bp_build(struct bp_builder *b, const struct bp_site *site,
                        const struct bp_operand *in, const struct bp_operand *out)
{
    const struct bp_view *out_view[BP_FLAT_MAX];
    bool is_view = site->row->is_view;
    struct bp_first_way first;
    enum bp_status status;

    if (site->expand) return bp_build_expand(b, site, in, out);
    for (uint32_t i = 0; i < site->n_out; i++) out_view[i] = bp_build_view_of(b->p, out[i]);
    status = is_view ? bp_build_view(b, site, in, out) : build_kernel(b, site, in, out, out_view);
    if (!bp_build_leads_nowhere(status) || site->kernel) return status;
    first = bp_build_first(status);
    if (!is_view) status = build_otherwise(b, site, in, out, out_view);
    return bp_build_answer(&first, status);
}
