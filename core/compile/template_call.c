/* SPDX-License-Identifier: Apache-2.0 */
/* template_call.c: prepares the calls of programs that are made from a template. */
#include "lower.h"
#include "templates.h"

#include <stdlib.h>

enum bp_status bp_template_no_memory(void)
{
    return bp_error(BP_ERR_MEMORY, "no host memory for a template");
}

/* Whether a prepared call is the one that would be prepared for inputs of these types. */
static bool call_fits(const struct bp_prepared *p, const struct bp_invocation *inv)
{
    if (p->row != inv->row || p->n_in != inv->n_in || p->want != inv->want) return false;
    if (p->n_out == 1 && bp_view_has_gaps(&p->type[p->n_in].view))
        return false; /* its result is a slice of a join */
    for (uint32_t i = 0; i < p->n_out; i++)
        if (inv->given[i] ? p->type[p->n_in + i].view.layout != inv->given[i]->layout
                          : p->type[p->n_in + i].view.layout)
            return false;
    for (uint32_t i = 0; i < p->n_in; i++) {
        const struct bp_view *type = &p->type[i].view;
        if ((type->rank == BP_ABSENT) != !inv->in[i]) return false;
        if (inv->in[i] && !bp_same_type(type, inv->in[i])) return false;
        if (p->bound && (p->constant[i].id != inv->constant[i].id ||
                         p->constant[i].offset != inv->constant[i].offset))
            return false;
    }
    return true;
}

enum bp_status bp_template_call(const struct bp_ir *ir, uint32_t node, struct bp_invocation *inv,
                                struct bp_prepared **out_prepared)
{
    const struct bp_template *t = ir->of;
    struct bp_prepared *p = t && !t->of_ir.node[node] ? t->prepared[node] : NULL;

    if (!p || inv->row->updates || !call_fits(p, inv)) return bp_prepared_make(inv, out_prepared);
    free(inv->attrs);
    bp_prepared_retain(p);
    *out_prepared = p;
    return BP_OK;
}
