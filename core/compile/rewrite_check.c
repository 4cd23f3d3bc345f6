/* SPDX-License-Identifier: Apache-2.0 */
/* rewrite_check.c: checks that replacements by plugins have to pass: whether the device runs them,
 * where their results lie, and which nodes may move. */
#include "rewrite.h"

#include "../call/prepared.h"

#include <stdlib.h>

bool bp_rewrite_may_move(const struct bp_ir *ir, const struct bp_node *node)
{
    if (!bp_ir_is_pure(node)) return false;
    for (uint32_t i = 0; i < node->n_in + node->n_out; i++) {
        uint32_t v = node->in[i]; /* outputs follow the inputs */
        if (v != BP_NO_VALUE && !bp_ir_is_stable(ir, bp_ir_same(ir, v))) return false;
    }
    return true;
}

void bp_rewrite_args(const struct bp_opdef *row, struct bp_tensor *const *flat, uint32_t n,
                     struct bp_arg *arg)
{
    uint32_t ports = row->info.n_in, at = 0;

    for (uint32_t i = 0; i < ports; i++) {
        bool is_group = row->info.in[i].kind == BP_PORT_VAR;
        uint32_t after = ports - 1 - i, left = n - at, take = left > 0;
        if (is_group) take = left > after ? left - after : 0;
        arg[i] = (struct bp_arg){flat + at, take};
        at += take;
    }
}

bool bp_rewrite_is_view(const struct bp_graph *g, uint32_t v)
{
    while (g->value[v].kind == BP_VALUE_RESULT) {
        const struct bp_node *node = &g->node[g->value[v].node];
        uint32_t port = bp_out_port(node->row, node->out_at, g->value[v].output);
        if (!node->row->is_view) return false;
        v = node->in[node->in_at[node->row->info.out[port].share]];
    }
    return true;
}

/* Whether a kernel of the device takes node n of the replacement. */
static bool device_takes(const struct bp_ir *ir, const struct bp_graph *g, uint32_t n,
                         struct bp_invocation *inv)
{
    const struct bp_node *node = &g->node[n];
    struct bp_prepared *p = NULL;
    bool good;

    bp_node_invocation(g, node, ir->device, inv);
    for (uint32_t i = 0; i < node->n_in; i++)
        if (node->in[i] != BP_NO_VALUE) inv->in[i] = &g->value[node->in[i]].type->view;
    inv->allow = ir->allow;
    inv->whole = true;
    inv->attrs = NULL;
    if (node->attrs && bp_attrs_clone(&node->row->info, node->attrs, &inv->attrs)) return false;
    good = bp_prepared_make(inv, &p) == BP_OK;
    if (good) bp_prepared_release(p);
    else free(inv->attrs);
    return good;
}

bool bp_rewrite_runs(const struct bp_ir *ir, const struct bp_graph *g)
{
    struct bp_invocation *inv = malloc(sizeof *inv);
    bool good = inv != NULL;

    for (uint32_t n = 0; n < g->n_node && good; n++) {
        const struct bp_opdef *row = g->node[n].row;
        good = row->decompose || row->is_view || device_takes(ir, g, n, inv);
    }
    free(inv);
    return good;
}
