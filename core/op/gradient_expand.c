/* SPDX-License-Identifier: Apache-2.0 */
/* gradient_expand.c: differentiates an operator that is defined in others: its expansion is
 * recorded, computed again, and gone through backwards (reverse accumulation: the gradient of a
 * value is the sum of what its readers give back). */
#include "../graph/graph.h"
#include "op.h"

#include <backplane/ops.h>
#include <stdlib.h>
#include <string.h>

struct sweep {
    struct bp_grad *grad;
    struct bp_graph *graph;
    struct bp_tensor **value, **d; /* of each value: a reference each, or NULL */
    bool *wanted;                  /* of each value: a wanted input is behind it */
};

/* A node as a call on the values that were computed. */
struct node_call {
    struct bp_tensor *in[BP_FLAT_MAX], *out[BP_FLAT_MAX], *dy[BP_FLAT_MAX], *dx[BP_FLAT_MAX];
    uint8_t want[BP_FLAT_MAX], want_out[BP_FLAT_MAX];
    struct bp_arg arg[BP_PORT_MAX];
    struct bp_call call;
};

static void make_call(const struct sweep *s, const struct bp_node *node, struct node_call *c)
{
    const struct bp_opinfo *op = &node->row->info;

    memset(c, 0, sizeof *c);
    for (uint32_t i = 0; i < node->n_in; i++) {
        if (node->in[i] == BP_NO_VALUE) continue;
        c->in[i] = s->value[node->in[i]];
        c->want[i] = s->wanted[node->in[i]];
    }
    for (uint32_t i = 0; i < node->n_out; i++) {
        if (node->out[i] == BP_NO_VALUE) continue;
        c->out[i] = s->value[node->out[i]];
        c->dy[i] = s->d[node->out[i]];
        c->want_out[i] = 1;
    }
    bp_node_args(node, c->in, c->arg);
    c->call = (struct bp_call){.size = sizeof c->call, .op = op->name, .in = c->arg,
                               .n_in = op->n_in, .attrs = node->attrs};
}

static enum bp_status forward(struct sweep *s, struct node_call *c)
{
    for (uint32_t n = 0; n < s->graph->n_node; n++) {
        const struct bp_node *node = &s->graph->node[n];
        bool any = false;
        make_call(s, node, c);
        for (uint32_t i = 0; i < node->n_in; i++) any |= c->want[i];
        TRY(bp_call_run(s->grad->scope, &c->call, c->out, node->n_out, c->want_out));
        for (uint32_t i = 0; i < node->n_out; i++) {
            if (node->out[i] == BP_NO_VALUE) continue;
            s->value[node->out[i]] = c->out[i];
            s->wanted[node->out[i]] = any;
        }
    }
    return BP_OK;
}

/* Adds a gradient, whose reference it takes, to that of a value. */
static enum bp_status accumulate(struct sweep *s, uint32_t value, struct bp_tensor *d)
{
    struct bp_tensor *sum = d;
    enum bp_status status = BP_OK;

    if (!d) return BP_OK;
    if (s->d[value]) {
        status = bp_op_add(s->grad->scope, s->d[value], d, &sum);
        bp_tensor_destroy(d);
        if (status) return status;
        bp_tensor_destroy(s->d[value]);
    }
    s->d[value] = sum;
    return BP_OK;
}

static enum bp_status backward(struct sweep *s, struct node_call *c)
{
    for (uint32_t n = s->graph->n_node; n-- > 0;) {
        const struct bp_node *node = &s->graph->node[n];
        bool any_dy = false, any_want = false;
        enum bp_status status = BP_OK;
        make_call(s, node, c);
        for (uint32_t i = 0; i < node->n_out; i++) any_dy |= c->dy[i] != NULL;
        for (uint32_t i = 0; i < node->n_in; i++) any_want |= c->want[i];
        if (!any_dy || !any_want) continue;
        TRY(bp_call_gradient(s->grad->scope, &c->call, c->out, c->dy, node->n_out, c->want, c->dx,
                             node->n_in));
        for (uint32_t i = 0; i < node->n_in; i++) {
            if (status) bp_tensor_destroy(c->dx[i]);
            else if (c->want[i]) status = accumulate(s, node->in[i], c->dx[i]);
        }
        TRY(status);
    }
    return BP_OK;
}

static enum bp_status run(struct sweep *s, const uint32_t *out_value)
{
    struct bp_grad *g = s->grad;
    struct node_call *c = malloc(sizeof *c);
    enum bp_status status = c ? BP_OK : bp_error(BP_ERR_MEMORY, "no memory for a gradient");
    uint32_t value = 0;

    for (uint32_t i = 0; i < g->n_in; i++) {
        if (!g->in[i]) continue;
        s->value[value] = bp_tensor_retain(g->in[i]);
        s->wanted[value++] = g->want[i];
    }
    if (status == BP_OK) status = forward(s, c);
    for (uint32_t i = 0; i < g->row->info.n_out && status == BP_OK; i++)
        if (g->dy[i]) status = accumulate(s, out_value[i], bp_tensor_retain(g->dy[i]));
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
    struct sweep s = {.grad = grad};
    uint32_t out_value[BP_PORT_MAX], want = 0;
    enum bp_status status;

    for (uint32_t i = 0; i < grad->row->info.n_out; i++) want |= (uint32_t)!!grad->out[i] << i;
    TRY(bp_graph_make(&s.graph));
    status = bp_graph_expand(s.graph, grad->row, grad->attrs, bp_tensor_views(grad->in),
                             grad->n_in, want, out_value);
    if (status == BP_OK) {
        uint32_t n = s.graph->n_value + 1;
        s.value = calloc(n, sizeof *s.value);
        s.d = calloc(n, sizeof *s.d);
        s.wanted = calloc(n, sizeof *s.wanted);
        status = s.value && s.d && s.wanted ? run(&s, out_value)
                                            : bp_error(BP_ERR_MEMORY, "no memory for a gradient");
    }
    for (uint32_t v = 0; v < s.graph->n_value; v++) {
        if (s.value) bp_tensor_destroy(s.value[v]);
        if (s.d) bp_tensor_destroy(s.d[v]);
    }
    free(s.value);
    free(s.d);
    free(s.wanted);
    bp_graph_release(s.graph);
    return status;
}
