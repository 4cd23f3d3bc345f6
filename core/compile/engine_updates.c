/* SPDX-License-Identifier: Apache-2.0 */
/* engine_updates.c: finds the memory that groups of engines may update: constants that only nodes
 * of one group use.
 *
 * An engine may follow the contents of such a constant from node to node, as if each update made a
 * new value. This is the same only if no node reads a view of the memory, or the result of an
 * update, after a later update. */
#include "engine.h"

#include "../plugin/entry.h"

#include <stdlib.h>
#include <string.h>

/* The facts about a value at a place in the order of the nodes. */
struct followed {
    uint32_t updates; /* of a root: how many nodes have updated its memory */
    uint32_t made;    /* of a value in that memory: the updates before and by its node */
    bool whole;       /* it is the result of an update, and no view */
};

struct following {
    const struct bp_ir *ir;
    struct followed *value;
    const char **why; /* of each root */
};

static enum bp_status updates_no_memory(void)
{
    return bp_error(BP_ERR_MEMORY, "no host memory to divide a graph among engines");
}

/* Why no group may update the memory of a root, apart from the order of its users; or NULL. */
static const char *root_obstacle(const struct bp_ir *ir, uint32_t root)
{
    const struct bp_ir_value *value = &ir->value[root];

    if (value->kind != BP_VALUE_CONSTANT || !value->constant || bp_ir_is_frozen(ir, root))
        return "it uses an input or a result that the graph updates";
    if (value->returned) return "an output lies in the memory that the graph updates";
    if (value->constant->view.flags & BP_VIEW_STRIDED)
        return "it uses strided memory that the graph updates";
    return NULL;
}

static void following_refuse(struct following *f, uint32_t root, const char *why)
{
    if (!f->why[root]) f->why[root] = why;
}

static void follow_reads(struct following *f, const struct bp_node *node)
{
    for (uint32_t i = 0; i < node->n_in; i++) {
        uint32_t v = node->in[i] == BP_NO_VALUE ? BP_NO_VALUE : bp_ir_same(f->ir, node->in[i]);
        uint32_t root = v == BP_NO_VALUE ? v : f->ir->value[v].root;
        if (v == root || !f->ir->value[root].updated) continue;
        if (f->value[v].made != f->value[root].updates)
            following_refuse(f, root, "a view of memory is read after the memory was updated");
    }
}

/* Whether an input of a node other than number i lies in the memory of a root. */
static bool reads_beside(const struct bp_ir *ir, const struct bp_node *node, uint32_t i,
                         uint32_t root)
{
    for (uint32_t k = 0; k < node->n_in; k++)
        if (k != i && node->in[k] != BP_NO_VALUE &&
            ir->value[bp_ir_same(ir, node->in[k])].root == root)
            return true;
    return false;
}

static void follow_updates(struct following *f, const struct bp_node *node)
{
    const struct bp_opinfo *op = &node->row->info;

    for (uint32_t p = 0; node->row->updates && p < op->n_out; p++) {
        uint32_t i = op->out[p].kind == BP_PORT_UPDATE ? node->in_at[op->out[p].share] : 0, v, root;
        if (op->out[p].kind != BP_PORT_UPDATE || node->in[i] == BP_NO_VALUE) continue;
        v = bp_ir_same(f->ir, node->in[i]);
        root = f->ir->value[v].root;
        if (v != root && !f->value[v].whole)
            following_refuse(f, root, "a view of the memory is updated");
        if (reads_beside(f->ir, node, i, root))
            following_refuse(f, root, "a node reads memory that it updates");
        f->value[root].updates++;
    }
}

static void follow_results(struct following *f, const struct bp_node *node)
{
    for (uint32_t o = 0; o < node->n_out; o++) {
        uint32_t v = node->out[o];
        if (v == BP_NO_VALUE || f->ir->value[v].root == v) continue;
        f->value[v].made = f->value[f->ir->value[v].root].updates;
        f->value[v].whole = node->row->updates;
    }
}

enum bp_status bp_updates_create(const struct bp_ir *ir, struct bp_updates *out_updates)
{
    struct following f = {.ir = ir,
                          .value = calloc(ir->n_value + 1u, sizeof *f.value),
                          .why = calloc(ir->n_value + 1u, sizeof *f.why)};

    if (!f.value || !f.why) {
        free(f.value);
        free(f.why);
        return updates_no_memory();
    }
    for (uint32_t v = 0; v < ir->n_value; v++)
        if (ir->value[v].root == v && ir->value[v].updated) f.why[v] = root_obstacle(ir, v);
    for (uint32_t n = ir->first; n != BP_NO_VALUE; n = ir->node[n].next) {
        follow_reads(&f, &ir->node[n].call);
        follow_updates(&f, &ir->node[n].call);
        follow_results(&f, &ir->node[n].call);
    }
    free(f.value);
    *out_updates = (struct bp_updates){f.why};
    return BP_OK;
}

void bp_updates_finish(struct bp_updates *updates)
{
    free(updates->why);
    updates->why = NULL;
}

/* ---- users of the memory ---- */

/* Calls visit for the root of each value in updated memory that a node of the IR uses. */
static void node_visit(const struct bp_ir *ir, uint32_t n, void (*visit)(void *ctx, uint32_t root),
                       void *ctx)
{
    const struct bp_node *node = &ir->node[n].call;

    for (uint32_t i = 0; i < node->n_in + node->n_out; i++) {
        uint32_t v = node->in[i]; /* outputs follow inputs */
        if (v != BP_NO_VALUE && !bp_ir_is_stable(ir, bp_ir_same(ir, v)))
            visit(ctx, ir->value[bp_ir_same(ir, v)].root);
    }
}

const char *bp_updates_refuse(const struct bp_updates *updates, const struct bp_ir *ir,
                              const struct bp_plugin_entry *entry, uint32_t n)
{
    const struct bp_node *node = &ir->node[n].call;
    bool may = entry->engines.flags & BP_ENGINE_UPDATES;

    if (node->row->updates && !may) return "it updates an input";
    for (uint32_t i = 0; i < node->n_in + node->n_out; i++) {
        uint32_t v = node->in[i];
        if (v == BP_NO_VALUE || bp_ir_is_stable(ir, bp_ir_same(ir, v))) continue;
        if (!may) return "it uses memory that the graph updates";
        if (updates->why[ir->value[bp_ir_same(ir, v)].root])
            return updates->why[ir->value[bp_ir_same(ir, v)].root];
    }
    return NULL;
}

/* The group of the nodes that use each root. */
enum {
    GROUP_UNKNOWN = 0, /* no node was visited yet; groups are numbered from 1, 1 + number */
    GROUP_SEVERAL = UINT32_MAX
};
struct grouping {
    uint32_t *group; /* of each root: 1 + the group, so that no group is 1 */
    uint32_t now;    /* 1 + the group of the node that is visited */
};

static void grouping_visit(void *ctx, uint32_t root)
{
    struct grouping *g = ctx;

    if (g->group[root] == GROUP_UNKNOWN) g->group[root] = g->now;
    else if (g->group[root] != g->now) g->group[root] = GROUP_SEVERAL;
}

struct dropping {
    const struct grouping *grouping;
    bool drops;
};

static void dropping_visit(void *ctx, uint32_t root)
{
    struct dropping *d = ctx;

    d->drops |= d->grouping->group[root] == GROUP_SEVERAL;
}

enum bp_status bp_updates_drop(const struct bp_ir *ir, struct bp_claimed *claimed,
                               bool *out_dropped)
{
    const struct bp_graph_copy *graph = claimed->graph;
    struct grouping g = {.group = calloc(ir->n_value + 1u, sizeof *g.group)};

    *out_dropped = false;
    if (!g.group) return updates_no_memory();
    for (uint32_t n = 0; n < graph->n_node; n++) {
        g.now = 1 + claimed->group[n];
        node_visit(ir, graph->node_of[n], grouping_visit, &g);
    }
    for (uint32_t n = 0; n < graph->n_node; n++) {
        struct dropping d = {&g, false};
        node_visit(ir, graph->node_of[n], dropping_visit, &d);
        if (!d.drops || !claimed->group[n]) continue;
        claimed->group[n] = 0;
        claimed->reason[n] = "it uses memory that the graph updates, as nodes outside its group do";
        *out_dropped = true;
    }
    free(g.group);
    return BP_OK;
}

enum bp_status bp_updates_check_list(const struct bp_ir *ir, const uint32_t *nodes, uint32_t n,
                                     bool *out_good)
{
    struct grouping g = {.group = calloc(ir->n_value + 1u, sizeof *g.group)};
    bool *inside = calloc(ir->n_node + 1u, sizeof *inside);

    *out_good = true;
    if (g.group && inside) {
        for (uint32_t i = 0; i < n; i++) inside[nodes[i]] = true;
        for (uint32_t i = ir->first; i != BP_NO_VALUE; i = ir->node[i].next) {
            g.now = 1 + inside[i];
            node_visit(ir, i, grouping_visit, &g);
        }
        for (uint32_t i = 0; i < n; i++) {
            struct dropping d = {&g, false};
            node_visit(ir, nodes[i], dropping_visit, &d);
            if (d.drops) *out_good = false;
        }
    }
    free(g.group);
    free(inside);
    return g.group && inside ? BP_OK : updates_no_memory();
}
