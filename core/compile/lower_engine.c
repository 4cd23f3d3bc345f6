/* SPDX-License-Identifier: Apache-2.0 */
/* lower_engine.c: lowers the nodes that engines run: one launch each, with inputs and outputs in
 * the layouts that the engine wants. */
#include "engine.h"
#include "lower.h"

#include <string.h>

/* Whether elements lie alike: strides of axes with one index do not matter. */
static bool same_layout(const struct bp_view *a, const struct bp_view *b)
{
    for (uint32_t k = 0; k < a->rank; k++)
        if (a->shape[k] > 1 && a->stride[k] != b->stride[k]) return false;
    return true;
}

/* Converts input i if it is not in the layout that the engine wants. */
static enum bp_status engine_input(struct bp_lowering *l, const struct bp_engine_code *code,
                                   uint32_t i)
{
    const struct bp_view *x = &l->schedule->value[l->in[i]]->type.view;
    struct bp_typed_view wanted;
    uint32_t copy;

    if (code->in_layout[i] == BP_ENGINE_ANY) return BP_OK;
    bp_engine_strides(&wanted, x, code->in_layout[i]);
    if (!x->count || same_layout(x, &wanted.view)) return BP_OK;
    TRY(bp_lower_add_value(l, &wanted.view, &copy));
    TRY(bp_lower_assign(l, l->in[i], copy));
    l->in[i] = copy;
    return BP_OK;
}

/* Gives output o its type, and the memory of an input where engine and lifetimes allow it. */
static void engine_output(struct bp_lowering *l, const struct bp_engine_code *code, uint32_t o,
                          const struct bp_node *node)
{
    struct bp_scheduled_value *value = l->schedule->value[l->out[o]];
    int32_t input = code->may_share[o];
    struct bp_typed_view type;

    bp_engine_strides(&type, &value->type.view, code->out_layout[o]);
    bp_lower_set_type(l->schedule, value, &type.view);
    if (input >= 0 && bp_lower_may_place(l, node, (uint32_t)input, o, l->out))
        bp_lower_set_view(l->schedule, l->out[o], l->in[input], 0);
}

enum bp_status bp_lower_engine(struct bp_lowering *l, const struct bp_node *node)
{
    struct bp_prepared *p = l->schedule->ir->node[l->node].prepared;
    const struct bp_engine_code *code = bp_engine_code_of(p);

    for (uint32_t i = 0; i < node->n_in; i++) TRY(engine_input(l, code, i));
    for (uint32_t o = 0; o < node->n_out; o++) engine_output(l, code, o, node);
    for (uint32_t i = 0; code->updates && i < node->n_in; i++)
        if (code->updates[i])
            l->schedule->value[l->schedule->value[l->in[i]]->root]->written = true;
    for (uint32_t i = 0; code->keeps && i < node->n_in; i++) {
        const struct bp_scheduled_value *value = l->schedule->value[l->in[i]];
        if (!code->keeps[i]) continue;
        TRY(bp_state_add(bp_engine_code_of(p), i, l->schedule->ir->value[value->index].constant));
        l->schedule->n_kept++;
    }
    l->schedule->n_engine++;
    if (code->engines->flags & BP_ENGINE_UPDATES) l->schedule->n_content += node->n_in;
    l->tuned = false;
    return bp_lower_add_call(l, p, l->in, l->out);
}
