/* SPDX-License-Identifier: Apache-2.0 */
/* gradient_expand.c: differentiates an operator that is defined in others: its expansion is
 * recorded, computed again, and gone through backwards (reverse accumulation: the gradient of a
 * value is the sum of what its readers give back). */
#include "../graph/graph.h"
#include "op.h"

#include <backplane/ops.h>
#include <stdlib.h>
#include <string.h>

static enum bp_status forward(struct bp_sweep *s, struct bp_node_call *c)
{
    for (uint32_t n = 0; n < s->graph->n_node; n++) {
        const struct bp_node *node = &s->graph->node[n];
        bool any = false;
        bp_sweep_call(s, node, c);
        for (uint32_t i = 0; i < node->n_in; i++) any |= c->want[i];
        TRY(bp_call_run(s->scope, &c->call, c->out, node->n_out, c->want_out));
        for (uint32_t i = 0; i < node->n_out; i++) {
            if (node->out[i] == BP_NO_VALUE) continue;
            s->value[node->out[i]] = c->out[i];
            s->wanted[node->out[i]] = any;
        }
    }
    return BP_OK;
}

static enum bp_status backward(struct bp_sweep *s, struct bp_node_call *c)
{
    for (uint32_t n = s->graph->n_node; n-- > 0;) TRY(bp_sweep_node(s, &s->graph->node[n], c));
    return BP_OK;
}

static enum bp_status run(struct bp_sweep *s, struct bp_grad *g, const uint32_t *out_value)
{
    struct bp_node_call *c = malloc(sizeof *c);
    enum bp_status status = c ? BP_OK : bp_error(BP_ERR_MEMORY, "no memory for a gradient");
    uint32_t value = 0;

    for (uint32_t i = 0; i < g->n_in; i++) {
        if (!g->in[i]) continue;
        s->value[value] = bp_tensor_retain(g->in[i]);
        s->wanted[value++] = g->want[i];
    }
    if (status == BP_OK) status = forward(s, c);
    for (uint32_t i = 0; i < g->row->info.n_out && status == BP_OK; i++)
        if (g->dy[i]) status = bp_sweep_add(s, out_value[i], bp_tensor_retain(g->dy[i]));
    if (status == BP_OK) status = backward(s, c);
    value = 0;
    for (uint32_t i = 0; i < g->n_in; i++) {
        if (!g->in[i]) continue;
        if (g->want[i] && status == BP_OK && s->d[value])
            g->dx[i] = bp_tensor_retain(s->d[value]);
        value++;
    }
    free(c);
    return status;
}

enum bp_status bp_grad_expanded(struct bp_grad *grad)
{
    struct bp_sweep s = {0};
    struct bp_graph *graph;
    uint32_t out_value[BP_PORT_MAX], want = 0;
    enum bp_status status;

    for (uint32_t i = 0; i < grad->row->info.n_out; i++) want |= (uint32_t)!!grad->out[i] << i;
    TRY(bp_graph_make(&graph));
    status = bp_graph_expand(graph, grad->row, grad->attrs, bp_tensor_views(grad->in), grad->n_in,
                             want, out_value);
    if (status == BP_OK) status = bp_sweep_init(&s, grad->scope, graph);
    if (status == BP_OK) status = run(&s, grad, out_value);
    bp_sweep_finish(&s, graph->n_value);
    bp_graph_release(graph);
    return status;
}
