/* SPDX-License-Identifier: Apache-2.0 */
/* engine_info.c: the operator of nodes that engines run, and the flags, types and reports of
 * engines. */
#include "engine.h"

#include <stdlib.h>
#include <string.h>

/* Types are those of the values: the compiler has inferred them from the nodes of the group. */
static enum bp_status engine_infer(struct bp_invocation *inv)
{
    (void)inv;
    return BP_OK;
}

static const struct bp_port engine_in[] = {
    {.name = "in", .kind = BP_PORT_VAR, .share = -1, .doc = "the values that the group reads"}};
static const struct bp_port engine_out[] = {
    {.name = "out", .kind = BP_PORT_VAROUT, .share = -1, .doc = "the results read elsewhere"}};

struct bp_opdef bp_engine_row = {
    .info = {.name = "engine",
             .doc = "computes a group of nodes that an engine has compiled",
             .in = engine_in,
             .out = engine_out,
             .n_in = 1,
             .n_out = 1},
    .infer = engine_infer,
    .has_groups = true,
    .varies = true,
};

static uint32_t math_flags(uint32_t allow)
{
    return allow & BP_ALLOW_FAST_MATH ? BP_ENGINE_FAST_MATH : BP_ENGINE_DETERMINISTIC;
}

uint32_t bp_engine_flags_of_call(uint32_t allow)
{
    return BP_ENGINE_CALL | math_flags(allow);
}

uint32_t bp_engine_flags_of(const struct bp_ir *ir)
{
    uint32_t flags = math_flags(ir->allow);

    for (uint32_t v = 0; v < ir->n_value; v++)
        if (ir->value[v].updated) return flags | BP_ENGINE_TRAIN;
    return flags;
}

void bp_engine_find_updates(struct bp_ir *ir, uint32_t n)
{
    const struct bp_node *node = &ir->node[n].call;
    const struct bp_engine_code *code = bp_engine_code_of(ir->node[n].prepared);

    for (uint32_t i = 0; code->updates && i < code->n_in; i++)
        if (code->updates[i])
            ir->value[ir->value[bp_ir_same(ir, node->in[i])].root].updated = true;
}

void bp_engine_strides(struct bp_typed_view *to, const struct bp_view *of, uint32_t layout)
{
    struct bp_type type = {.dtype = of->dtype, .rank = of->rank};
    int64_t step = 1;

    memcpy(type.shape, of->shape, of->rank * sizeof *of->shape);
    bp_typed_view_dense(to, &type);
    if (layout != BP_ENGINE_CHANNELS_LAST) return;
    for (uint32_t k = 0; k < of->rank; k++) {
        uint32_t axis = !k ? 1 : k + 1u < of->rank ? of->rank - k : 0;
        to->stride[axis] = step;
        step *= of->shape[axis] ? of->shape[axis] : 1;
    }
    if (!bp_strides_are_contiguous(of->rank, to->shape, to->stride))
        to->view.flags |= BP_VIEW_STRIDED;
}

void bp_engine_type(const struct bp_prepared *p, uint32_t o, struct bp_typed_view *type)
{
    bp_engine_strides(type, &p->type[p->n_in + o].view, bp_engine_code_of(p)->out_layout[o]);
}

void bp_engine_report_destroy(struct bp_engine_report *r)
{
    if (!r) return;
    for (uint32_t g = 0; g < r->n_group; g++) {
        free(r->group[g].name);
        free(r->group[g].text);
        free(r->group[g].replaced);
        free(r->group[g].in);
    }
    free(r->group);
    free(r->left);
    free(r->failure);
    free(r);
}
