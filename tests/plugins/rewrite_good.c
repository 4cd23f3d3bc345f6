/* SPDX-License-Identifier: Apache-2.0 */
/* rewrite_good.c: a rewrite that is right: it names operators and attributes only, so that it also
 * runs in another process. */
#include "rewrite_good.h"

#include <backplane/attrs.h>

#include <stdlib.h>
#include <string.h>

enum {
    READS = BP_DATA_STATE | BP_DATA_SHAPE_ONLY
};

struct look {
    const struct bp_graph_data *graph;
    const struct bp_edits *edits;
    uint32_t *reads; /* of each value: its readers, the app is one too */
    char *taken;     /* of each node: an edit of this result has to do with it */
};

static const struct bp_data_value *look_value(const struct look *l, uint32_t v)
{
    return BP_ROW(struct bp_data_value, l->graph->value, l->graph->value_stride, v);
}

static const struct bp_data_node *look_node(const struct look *l, uint32_t n)
{
    return BP_ROW(struct bp_data_node, l->graph->node, l->graph->node_stride, n);
}

/* The node with this operator that computes value v, if an edit may remove it; else NULL. */
static const struct bp_data_node *look_producer(const struct look *l, uint32_t v, const char *op)
{
    uint32_t n = look_value(l, v)->node;
    const struct bp_data_node *node = n == BP_DATA_NONE ? NULL : look_node(l, n);

    if (!node || strcmp(node->op, op) || node->flags || l->taken[n]) return NULL;
    for (uint32_t i = 0; i < node->n_in; i++)
        if (look_value(l, node->in[i])->flags & READS) return NULL;
    return look_value(l, v)->flags & BP_DATA_STATE ? NULL : node;
}

/* Lists a node that computes v and that nothing but `reader` reads. */
static void look_kill(struct look *l, struct bp_edit *edit, uint32_t *kill, uint32_t reader,
                      uint32_t v)
{
    uint32_t inner = look_value(l, v)->node;

    edit->size = sizeof *edit;
    edit->kill = kill;
    l->taken[reader] = l->taken[inner] = 1;
    if (l->reads[v] == 1) kill[edit->n_kill++] = inner;
    kill[edit->n_kill++] = reader;
}

static enum bp_status look_neg(struct look *l, uint32_t n, const struct bp_data_node *node)
{
    const struct bp_data_node *inner = look_producer(l, node->in[0], "neg");
    struct bp_edit edit = {0};
    uint32_t kill[2], same[2];

    if (!inner || look_value(l, node->out[0])->flags & BP_DATA_RETURNED) return BP_OK;
    look_kill(l, &edit, kill, n, node->in[0]);
    same[0] = node->out[0];
    same[1] = inner->in[0];
    edit.same = same;
    edit.n_same = 1;
    return l->edits->add(l->edits->ctx, &edit);
}

/* Adds an edit with one new node. */
static enum bp_status look_one(struct look *l, uint32_t n, const struct bp_data_node *node,
                               uint32_t inner, struct bp_edit_node *row)
{
    struct bp_edit edit = {.node = row, .n_node = 1, .node_stride = sizeof *row};
    uint32_t kill[2];

    look_kill(l, &edit, kill, n, inner);
    row->out = node->out;
    row->n_out = 1;
    return l->edits->add(l->edits->ctx, &edit);
}

static enum bp_status look_sub(struct look *l, uint32_t n, const struct bp_data_node *node)
{
    const struct bp_data_node *inner = look_producer(l, node->in[1], "neg");
    const uint32_t in[] = {node->in[0], inner ? inner->in[0] : BP_DATA_NONE};
    struct bp_edit_node row = {.op = "add", .in = in, .n_in = 2};

    if (!inner || look_value(l, in[0])->flags & READS) return BP_OK;
    return look_one(l, n, node, node->in[1], &row);
}

/* An attribute, found by its name. */
static double look_number(const struct bp_data_node *node, const char *name)
{
    double number = 0;

    for (uint32_t i = 0; i < node->info->n_attr; i++)
        if (!strcmp(node->info->attr[i].name, name))
            memcpy(&number, (const char *)node->attrs + node->info->attr[i].offset, sizeof number);
    return number;
}

static enum bp_status look_scale(struct look *l, uint32_t n, const struct bp_data_node *node)
{
    const struct bp_data_node *inner = look_producer(l, node->in[0], "scale");
    struct bp_scale_attrs attrs = {.size = sizeof attrs};
    struct bp_edit_node row = {.op = "scale", .n_in = 1, .attrs = &attrs};

    if (!inner || look_number(inner, "bias") != 0 || look_number(node, "bias") != 0 ||
        look_value(l, node->out[0])->dtype != BP_F32)
        return BP_OK;
    attrs.factor = look_number(inner, "factor") * look_number(node, "factor");
    row.in = inner->in;
    return look_one(l, n, node, node->in[0], &row);
}

static enum bp_status look_at(struct look *l, uint32_t n)
{
    const struct bp_data_node *node = look_node(l, n);

    if (!node->n_out || node->out[0] == BP_DATA_NONE || l->taken[n] || node->flags ||
        look_value(l, node->out[0])->flags & BP_DATA_STATE)
        return BP_OK;
    if (!strcmp(node->op, "neg")) return look_neg(l, n, node);
    if (!strcmp(node->op, "sub")) return look_sub(l, n, node);
    return strcmp(node->op, "scale") ? BP_OK : look_scale(l, n, node);
}

enum bp_status rewrite_good(const struct bp_graph_data *graph, const struct bp_edits *edits)
{
    struct look l = {graph, edits, calloc(graph->n_value + 1, sizeof *l.reads),
                     calloc(graph->n_node + 1, 1)};
    enum bp_status status = l.reads && l.taken ? BP_OK : BP_ERR_MEMORY;

    for (uint32_t n = 0; !status && n < graph->n_node; n++)
        for (uint32_t i = 0; i < look_node(&l, n)->n_in; i++)
            if (look_node(&l, n)->in[i] != BP_DATA_NONE) l.reads[look_node(&l, n)->in[i]]++;
    for (uint32_t i = 0; !status && i < graph->n_out; i++) l.reads[graph->out[i]]++;
    for (uint32_t n = 0; !status && n < graph->n_node; n++) status = look_at(&l, n);
    free(l.reads);
    free(l.taken);
    return status;
}
