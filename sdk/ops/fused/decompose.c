/* SPDX-License-Identifier: Apache-2.0 */
/* decompose.c: decomposes `fused` into a call of the operator of each instruction. */
#include <call/compose.h>
#include <call/shape.h>

#include <backplane/attrs.h>
#include <backplane/fused.h>

/* Calls the operator of one instruction. at: the tensor in each place. */
static struct bp_tensor *fused_call(struct bp_compose *c, const struct bp_fused_step *step,
                                    struct bp_tensor *const *at)
{
    const struct bp_opdef *row = bp_opdef_find(step->op);
    struct bp_tensor *in[BP_FUSED_FROM];
    uint64_t attrs[512 / 8];
    size_t n = 0;

    for (; n < BP_FUSED_FROM && step->from[n] != BP_FUSED_NONE; n++) in[n] = at[step->from[n]];
    if (row->info.n_attr) memcpy(attrs, row->info.defaults, row->info.attrs_size);
    for (uint32_t k = 0; k < row->info.n_attr; k++) {
        const struct bp_attr *a = &row->info.attr[k];
        int64_t integer = a->kind == BP_ATTR_F64 ? 0 : (int64_t)step->number[k];
        memcpy((char *)attrs + a->offset,
               a->kind == BP_ATTR_F64 ? (const void *)&step->number[k] : &integer, 8);
    }
    return bp_compose(c, (enum bp_row_number)(row - bp_opdef), row->info.n_attr ? attrs : NULL, in,
                      n);
}

/* An instruction whose operands are all smaller than the results gives a smaller result. */
static struct bp_tensor *fused_expand(struct bp_compose *c, struct bp_tensor *y,
                                      const struct bp_type *all)
{
    struct bp_expand_attrs attrs = {.size = sizeof attrs, .shape = {all->shape, all->rank}};

    if (c->status || (y->view.rank == all->rank &&
                      !memcmp(y->shape, all->shape, all->rank * sizeof *all->shape)))
        return y;
    return MAKE(c, expand, &attrs, y);
}

enum bp_status bp_decompose_fused(struct bp_decomposition *e)
{
    struct bp_dims code = ((const struct bp_fused_attrs *)e->attrs)->code;
    struct bp_tensor *at[BP_FUSED_PLACES] = {NULL};
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_type all = {.rank = 0};

    for (uint32_t i = 0; i < bp_fused_n_in(code.at); i++) {
        at[BP_FUSED_X + i] = e->in[i];
        bp_shape_join(&all, &e->in[i]->view);
    }
    for (uint32_t i = 0; i < bp_fused_n_step(code.n) && c.status == BP_OK; i++) {
        struct bp_fused_step step;
        bp_fused_get(code.at, i, &step);
        at[step.to] = fused_call(&c, &step, at);
    }
    for (uint32_t i = 0; i < bp_fused_n_out(code.at); i++)
        if (e->want >> i & 1)
            bp_compose_keep(&c, fused_expand(&c, at[BP_FUSED_Y + i], &all), &e->out[i]);
    return bp_compose_end(&c);
}
