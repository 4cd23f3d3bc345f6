/* SPDX-License-Identifier: Apache-2.0 */
/* plugin_accepts.c: calls a plugin's accepts for a match of its pattern. The plugin sees the match
 * as a graph of its own: the nodes of the match and all values that they read and compute. */
#include "graph_data.h"
#include "plugin_match.h"

#include "../base/activity.h"

/* A match and the graph of its nodes. */
struct seen {
    struct bp_ir *ir;
    const struct bp_plugin_pattern *p;
    const struct bp_plugin_match *m;
    const struct bp_graph_copy *graph;
};

/* The number of a value of the IR in the graph. */
static uint32_t seen_value(const struct seen *s, uint32_t v)
{
    if (v == BP_NO_VALUE) return BP_DATA_NONE;
    v = bp_ir_same(s->ir, v);
    for (uint32_t i = 0; i < s->graph->n_value; i++)
        if (s->graph->value_of[i] == v) return i;
    return BP_DATA_NONE;
}

static uint32_t seen_node(const struct seen *s, uint32_t n)
{
    for (uint32_t i = 0; i < s->graph->n_node; i++)
        if (s->graph->node_of[i] == n) return i;
    return BP_DATA_NONE;
}

/* The plugin may look at each extent, and at each constant. */
static void seen_mark(const struct seen *s)
{
    s->ir->shaped = true;
    for (uint32_t i = 0; i < s->graph->n_value; i++)
        if (bp_ir_is_frozen(s->ir, s->graph->value_of[i]))
            s->ir->value[s->graph->value_of[i]].read = true;
}

static bool seen_call(const struct seen *s, void *const *attrs)
{
    uint32_t value[BP_WANT_VALUES], number[BP_WANT_NODES], rest[BP_REST_MAX];
    struct bp_match match = {.size = sizeof match,
                             .graph = &s->graph->data,
                             .node = number,
                             .value = value,
                             .rest = rest,
                             .n_node = s->p->row.n_node,
                             .n_value = s->p->row.n_value,
                             .n_rest = s->m->n_rest,
                             .device = s->ir->device->index,
                             .allow = s->ir->allow,
                             .n_attrs = s->p->row.n_give,
                             .attrs = attrs};
    enum bp_status status;

    for (uint32_t i = 0; i < match.n_value; i++) value[i] = seen_value(s, s->m->value[i]);
    for (uint32_t i = 0; i < match.n_rest; i++) rest[i] = seen_value(s, s->m->rest[i]);
    for (uint32_t i = 0; i < match.n_node; i++) number[i] = seen_node(s, s->m->node[i]);
    bp_error_enter();
    status = bp_error_leave(s->p->row.accepts(s->p->entry->self, &match), s->p->entry->plugin.name,
                            "accepts");
    return status == BP_OK;
}

bool bp_plugin_match_accepted(struct bp_ir *ir, const struct bp_plugin_pattern *p,
                              const struct bp_plugin_match *m, const uint32_t *node,
                              uint32_t n_node, void *const *attrs)
{
    struct seen s = {.ir = ir, .p = p, .m = m};
    struct bp_graph_copy *graph;
    bool good;

    if (!p->row.accepts) return true;
    if (bp_graph_copy_create(ir, node, n_node, &graph)) return false;
    s.graph = graph;
    seen_mark(&s);
    good = seen_call(&s, attrs);
    bp_graph_copy_destroy(graph);
    return good;
}
