/* SPDX-License-Identifier: Apache-2.0 */
/* plugin_accepts.c: calls a plugin's accepts for a match of its pattern. The plugin sees the match
 * as a graph of its own: the nodes of the match and all values that they read and compute. */
#include "plugin_match.h"

#include "../base/activity.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    VALUES = BP_WANT_VALUES + BP_REST_MAX + BP_WANT_NODES * 4,
    NAME = 120
};

struct seen {
    struct bp_ir *ir;
    uint32_t number[VALUES]; /* of the IR, of each value of the graph */
    struct bp_data_value value[VALUES];
    struct bp_data_node node[BP_WANT_NODES];
    char name[VALUES][NAME];
    uint32_t *operand; /* owned: lists of the nodes */
    uint32_t in[VALUES], out[VALUES], n_value, n_in, n_out, n_operand;
};

static void seen_name(struct seen *s, uint32_t i)
{
    const struct bp_ir_value *value = &s->ir->value[s->number[i]];
    const char *node = value->kind == BP_VALUE_RESULT ? s->ir->node[value->node].call.name : NULL;

    if (node && value->output) snprintf(s->name[i], NAME, "%.100s.%u", node, value->output);
    else if (node) snprintf(s->name[i], NAME, "%.100s", node);
    else snprintf(s->name[i], NAME, "%s_%u", value->constant ? "constant" : "input", s->number[i]);
}

static void seen_constant(struct bp_data_value *to, const struct bp_ir *ir, uint32_t v)
{
    const struct bp_tensor *t = ir->value[v].constant;

    to->stride = t->view.flags & BP_VIEW_STRIDED ? t->view.stride : NULL;
    if (!bp_ir_is_frozen(ir, v)) {
        to->flags |= BP_DATA_STATE;
        return;
    }
    to->flags |= BP_DATA_FROZEN;
    to->data = t->view.data;
    to->memory = t->view.memory;
    to->bytes = bp_view_span(&t->view);
    to->id = bp_tensor_constant(t).id;
    ir->value[v].read = true;
}

/* The number of a value of the IR in the graph, to which it is added at its first use. */
static uint32_t seen_value(struct seen *s, uint32_t v)
{
    struct bp_data_value *to;
    const struct bp_view *view;

    if (v == BP_NO_VALUE) return BP_DATA_NONE;
    v = bp_ir_same(s->ir, v);
    for (uint32_t i = 0; i < s->n_value; i++)
        if (s->number[i] == v) return i;
    if (s->n_value == VALUES) return BP_DATA_NONE;
    to = &s->value[s->n_value];
    view = &s->ir->value[v].type->view;
    s->number[s->n_value] = v;
    seen_name(s, s->n_value);
    *to = (struct bp_data_value){.name = s->name[s->n_value],
                                 .shape = view->shape,
                                 .dtype = view->dtype,
                                 .rank = view->rank,
                                 .node = BP_DATA_NONE};
    if (s->ir->value[v].constant) seen_constant(to, s->ir, v);
    return s->n_value++;
}

static void seen_node(struct seen *s, uint32_t i, uint32_t n)
{
    const struct bp_node *node = &s->ir->node[n].call;
    uint32_t *list = s->operand + s->n_operand;

    s->n_operand += node->n_in + node->n_out;
    for (uint32_t k = 0; k < node->n_in + node->n_out; k++) {
        list[k] = seen_value(s, node->in[k]); /* outputs follow the inputs */
        if (k < node->n_in || list[k] == BP_DATA_NONE) continue;
        s->value[list[k]].node = i;
        s->value[list[k]].output = k - node->n_in;
    }
    s->node[i] = (struct bp_data_node){.name = node->name,
                                       .op = node->row->info.name,
                                       .info = &node->row->info,
                                       .attrs = node->attrs,
                                       .in = list,
                                       .out = list + node->n_in,
                                       .in_at = node->in_at,
                                       .out_at = node->out_at,
                                       .n_in = node->n_in,
                                       .n_out = node->n_out,
                                       .source = BP_DATA_NONE};
}

/* Values that no node computes are inputs, and values that the pattern replaces are outputs. */
static void seen_ends(struct seen *s, const struct bp_plugin_pattern *p,
                      const struct bp_plugin_match *m)
{
    for (uint32_t i = 0; i < s->n_value; i++) {
        if (s->value[i].node != BP_DATA_NONE || s->value[i].flags & BP_DATA_FROZEN) continue;
        s->value[i].flags |= BP_DATA_INPUT;
        s->in[s->n_in++] = i;
    }
    for (uint32_t i = 0; i < p->row.n_out; i++) {
        uint32_t v = seen_value(s, m->value[p->row.out[i]]);
        s->value[v].flags |= BP_DATA_OUTPUT;
        s->out[s->n_out++] = v;
    }
}

static bool seen_call(struct seen *s, const struct bp_plugin_pattern *p,
                     const struct bp_plugin_match *m, const uint32_t *node, uint32_t n_node,
                     void *const *attrs)
{
    struct bp_graph_data graph = {.size = sizeof graph,
                                  .value = s->value,
                                  .node = s->node,
                                  .n_value = s->n_value,
                                  .value_stride = sizeof *s->value,
                                  .n_node = n_node,
                                  .node_stride = sizeof *s->node,
                                  .in = s->in,
                                  .out = s->out,
                                  .n_in = s->n_in,
                                  .n_out = s->n_out,
                                  .device = s->ir->device->index};
    uint32_t value[BP_WANT_VALUES], number[BP_WANT_NODES], rest[BP_REST_MAX];
    struct bp_match match = {.size = sizeof match,
                             .graph = &graph,
                             .node = number,
                             .value = value,
                             .rest = rest,
                             .n_node = p->row.n_node,
                             .n_value = p->row.n_value,
                             .n_rest = m->n_rest,
                             .device = s->ir->device->index,
                             .allow = s->ir->allow,
                             .n_attrs = p->row.n_give,
                             .attrs = attrs};
    enum bp_status status;

    for (uint32_t i = 0; i < p->row.n_value; i++) value[i] = seen_value(s, m->value[i]);
    for (uint32_t i = 0; i < m->n_rest; i++) rest[i] = seen_value(s, m->rest[i]);
    for (uint32_t i = 0; i < p->row.n_node; i++) {
        number[i] = BP_DATA_NONE;
        for (uint32_t k = 0; k < n_node; k++)
            if (node[k] == m->node[i]) number[i] = k;
    }
    bp_error_enter();
    status = bp_error_leave(p->row.accepts(p->entry->self, &match), p->entry->plugin.name,
                            "accepts");
    return status == BP_OK;
}

bool bp_plugin_match_accepted(struct bp_ir *ir, const struct bp_plugin_pattern *p,
                              const struct bp_plugin_match *m, const uint32_t *node,
                              uint32_t n_node, void *const *attrs)
{
    uint32_t operands = 0;
    bool good;
    struct seen *s;

    if (!p->row.accepts) return true;
    ir->shaped = true;
    for (uint32_t i = 0; i < n_node; i++)
        operands += ir->node[node[i]].call.n_in + ir->node[node[i]].call.n_out;
    s = calloc(1, sizeof *s);
    if (!s) return false;
    s->ir = ir;
    s->operand = malloc((operands + 1) * sizeof *s->operand);
    good = s->operand != NULL;
    for (uint32_t i = 0; good && i < n_node; i++) seen_node(s, i, node[i]);
    if (good) seen_ends(s, p, m);
    good = good && s->n_value < VALUES && seen_call(s, p, m, node, n_node, attrs);
    free(s->operand);
    free(s);
    return good;
}
