/* SPDX-License-Identifier: Apache-2.0 */
/* pass_reuse.c: shares computations of the forward with gradients. The gradient of an operator
 * without a rule of its own records the decomposition of the operator again. Where such a part of a
 * decomposition is in the graph, the operator itself is replaced by its decomposition, so that the
 * part is computed once. */
#include "passes.h"

#include <backplane/ops.h>

#include <stdlib.h>
#include <string.h>

/* ---- operators whose parts are in the graph ---- */

/* A decomposition that was recorded, compared with the nodes of the IR. */
struct parts {
    const struct bp_ir *ir;
    const struct bp_node_table *table;
    const struct bp_graph *graph;
    uint32_t *value; /* of each value of the graph: the equal value of the IR, or BP_NO_VALUE */
    uint32_t found;  /* nodes of the IR that compute a part, apart from views */
    bool has_product; /* one of them is a product or a convolution */
};

static bool is_product(const struct bp_opdef *row)
{
    return row == &bp_opdef[BP_ROW_matmul] || row == &bp_opdef[BP_ROW_conv];
}

/* Finds the node of the IR that computes what a node of the decomposition does. */
static void part_find(struct parts *p, const struct bp_node *part)
{
    uint32_t in[BP_FLAT_MAX], at, n;
    struct bp_node node = *part;

    if (!bp_ir_is_pure(part)) return;
    for (uint32_t i = 0; i < part->n_in; i++) {
        in[i] = part->in[i] == BP_NO_VALUE ? BP_NO_VALUE : p->value[part->in[i]];
        if (part->in[i] != BP_NO_VALUE && in[i] == BP_NO_VALUE) return;
    }
    node.in = in;
    n = bp_node_table_find(p->ir, p->table, &node, &at);
    if (n == BP_NO_VALUE) return;
    for (uint32_t i = 0; i < part->n_out; i++)
        if (part->out[i] != BP_NO_VALUE) p->value[part->out[i]] = p->ir->node[n].call.out[i];
    p->found += !part->row->is_view;
    p->has_product |= is_product(part->row);
}

static enum bp_status parts_find(struct parts *p, const struct bp_node *node)
{
    const struct bp_graph *g = p->graph;
    uint32_t input = 0;

    p->value = malloc((g->n_value + 1) * sizeof *p->value);
    if (!p->value) return bp_error(BP_ERR_MEMORY, "no host memory to compile a program");
    for (uint32_t v = 0; v < g->n_value; v++) p->value[v] = BP_NO_VALUE;
    for (uint32_t i = 0; i < node->n_in; i++)
        if (node->in[i] != BP_NO_VALUE)
            p->value[g->input[input++]] = bp_ir_same(p->ir, node->in[i]);
    for (uint32_t n = 0; n < g->n_node; n++) part_find(p, &g->node[n]);
    free(p->value);
    return BP_OK;
}

/* Whether the device has a kernel for a node. */
static enum bp_status has_kernel(const struct bp_ir *ir, const struct bp_node *node, bool *out)
{
    struct bp_invocation *inv = malloc(sizeof *inv);

    if (!inv) return bp_error(BP_ERR_MEMORY, "no host memory to compile a program");
    bp_ir_invocation(ir, node, inv);
    *out = bp_select_has(inv, 0);
    free(inv);
    return BP_OK;
}

/* Whether replacing a node by its decomposition saves work: the device has no kernel for it, or a
 * product of it is computed anyway. */
static enum bp_status has_parts(struct bp_ir *ir, const struct bp_node_table *table,
                                const struct bp_node *node, const struct bp_view *const *in,
                                bool *out)
{
    struct parts p = {.ir = ir, .table = table};
    uint32_t value[BP_PORT_MAX];
    struct bp_graph *graph;
    enum bp_status status;
    bool kernel = false;

    *out = false;
    TRY(bp_ir_take_graph(ir, &graph));
    status = bp_graph_trace_decomposed(graph, node->row, node->attrs, in, node->n_in,
                                       bp_wants_flat(node->row, node->want, node->n_out), value);
    p.graph = graph;
    if (status == BP_OK) status = parts_find(&p, node);
    bp_ir_return_graph(ir, graph);
    if (status == BP_OK && p.found && !p.has_product) status = has_kernel(ir, node, &kernel);
    *out = p.found && !kernel;
    return status;
}

/* The pure nodes that have a value as first input, as a list for each value. */
struct first_readers {
    uint32_t *of;   /* for each value: a node, or BP_NO_VALUE */
    uint32_t *next; /* for each node: the next node of its list */
    bool any_reads_nothing;
};

static uint32_t first_input(const struct bp_ir *ir, const struct bp_node *node)
{
    for (uint32_t i = 0; i < node->n_in; i++)
        if (node->in[i] != BP_NO_VALUE) return bp_ir_same(ir, node->in[i]);
    return BP_NO_VALUE;
}

static void first_readers_finish(struct first_readers *r)
{
    free(r->of);
    *r = (struct first_readers){0};
}

static enum bp_status first_readers_init(struct first_readers *r, const struct bp_ir *ir)
{
    *r = (struct first_readers){.of = malloc((ir->n_value + ir->n_node + 1) * sizeof *r->of)};
    if (!r->of) return bp_error(BP_ERR_MEMORY, "no host memory to compile a program");
    r->next = r->of + ir->n_value;
    for (uint32_t v = 0; v < ir->n_value; v++) r->of[v] = BP_NO_VALUE;
    for (uint32_t n = ir->first; n != BP_NO_VALUE; n = ir->node[n].next) {
        uint32_t v = first_input(ir, &ir->node[n].call);
        if (!bp_ir_is_pure(&ir->node[n].call)) continue;
        if (v == BP_NO_VALUE) {
            r->any_reads_nothing = true;
            continue;
        }
        r->next[n] = r->of[v];
        r->of[v] = n;
    }
    return BP_OK;
}

static bool reads_only(const struct bp_ir *ir, const struct bp_node *reader,
                       const struct bp_node *node)
{
    for (uint32_t i = 0; i < reader->n_in; i++) {
        bool found = reader->in[i] == BP_NO_VALUE;
        for (uint32_t k = 0; k < node->n_in && !found; k++)
            found = node->in[k] != BP_NO_VALUE &&
                    bp_ir_same(ir, node->in[k]) == bp_ir_same(ir, reader->in[i]);
        if (!found) return false;
    }
    return true;
}

/* Whether the graph may have a part of a node's decomposition. The first part of one reads nothing
 * but inputs of the node. A value with many readers is not searched: true. */
static bool may_have_parts(const struct bp_ir *ir, const struct first_readers *readers, uint32_t n)
{
    const struct bp_node *node = &ir->node[n].call;
    uint32_t left = 64;

    if (readers->any_reads_nothing) return true;
    for (uint32_t i = 0; i < node->n_in; i++) {
        uint32_t m = node->in[i] == BP_NO_VALUE ? BP_NO_VALUE
                                                : readers->of[bp_ir_same(ir, node->in[i])];
        for (; m != BP_NO_VALUE; m = readers->next[m])
            if (!left-- || (m != n && reads_only(ir, &ir->node[m].call, node))) return true;
    }
    return false;
}

/* Nodes that a pass made are what later passes want. */
static bool may_expand(const struct bp_ir_node *node)
{
    return node->call.row->decompose && !node->made && !node->call.kernel &&
           bp_ir_is_pure(&node->call) && !node->call.row->is_view;
}

static void take_views(const struct bp_ir *ir, const struct bp_node *node,
                       const struct bp_view **in)
{
    for (uint32_t i = 0; i < node->n_in; i++)
        in[i] = node->in[i] == BP_NO_VALUE
                    ? NULL
                    : &ir->value[bp_ir_same(ir, node->in[i])].type->view;
}

static enum bp_status expand_node(struct bp_compilation *c, const struct bp_node_table *table,
                                  struct first_readers *readers, uint32_t n)
{
    struct bp_ir *ir = c->ir;
    const struct bp_view *in[BP_FLAT_MAX];
    bool expands, forwards;

    take_views(ir, &ir->node[n].call, in);
    TRY(has_parts(ir, table, &ir->node[n].call, in, &expands));
    if (!expands) return BP_OK;
    TRY(bp_ir_expand(ir, n, in, &forwards));
    c->changes++;
    if (!forwards) return BP_OK;
    bp_ir_resolve(ir);
    first_readers_finish(readers);
    return first_readers_init(readers, ir);
}

/* Finds the first node from n on that may be replaced; BP_NO_VALUE: there is none. */
static uint32_t find_candidate(const struct bp_ir *ir, const struct first_readers *readers,
                               uint32_t n)
{
    while (n != BP_NO_VALUE && !(may_expand(&ir->node[n]) && may_have_parts(ir, readers, n)))
        n = ir->node[n].next;
    return n;
}

/* Fills a table with the pure nodes. */
static enum bp_status table_fill(const struct bp_ir *ir, struct bp_node_table *table)
{
    uint32_t at;

    TRY(bp_node_table_init(ir, table));
    for (uint32_t n = ir->first; n != BP_NO_VALUE; n = ir->node[n].next)
        if (bp_ir_is_pure(&ir->node[n].call) &&
            bp_node_table_find(ir, table, &ir->node[n].call, &at) == BP_NO_VALUE)
            table->slot[at] = n;
    return BP_OK;
}

static enum bp_status expand_nodes(struct bp_compilation *c)
{
    struct bp_ir *ir = c->ir;
    struct bp_node_table table = {0};
    struct first_readers readers;
    enum bp_status status = first_readers_init(&readers, ir);
    uint32_t n = status ? BP_NO_VALUE : find_candidate(ir, &readers, ir->first), next;

    if (n != BP_NO_VALUE) status = table_fill(ir, &table);
    for (; n != BP_NO_VALUE && status == BP_OK; n = next) {
        next = ir->node[n].next;
        status = expand_node(c, &table, &readers, n);
        if (status == BP_OK) next = find_candidate(ir, &readers, next);
    }
    bp_node_table_finish(&table);
    first_readers_finish(&readers);
    return status;
}

/* ---- pooling ---- */

/* Whether two nodes pool the same windows of one image: max_pool, and max_pool_with_index, whose
 * attributes begin with those of max_pool. */
static bool same_windows(const struct bp_ir *ir, const struct bp_node *pool,
                         const struct bp_node *with)
{
    size_t skip = sizeof(size_t);

    return with->row == &bp_opdef[BP_ROW_max_pool_with_index] && !with->kernel &&
           bp_ir_same(ir, with->in[0]) == bp_ir_same(ir, pool->in[0]) &&
           !memcmp((const char *)with->attrs + skip, (const char *)pool->attrs + skip,
                   sizeof(struct bp_max_pool_attrs) - skip);
}

/* Takes the result of max_pool from max_pool_with_index, which gradients record. */
static void reuse_pool(struct bp_compilation *c, uint32_t n)
{
    struct bp_ir *ir = c->ir;
    const struct bp_node *pool = &ir->node[n].call;
    uint32_t later = ir->node[n].next, y = pool->out[0];

    while (later != BP_NO_VALUE && !same_windows(ir, pool, &ir->node[later].call))
        later = ir->node[later].next;
    if (later == BP_NO_VALUE || !bp_ir_is_stable(ir, bp_ir_same(ir, pool->in[0])) ||
        ir->node[later].call.out[0] == BP_NO_VALUE ||
        !bp_value_may_become(ir, y, ir->node[later].call.out[0]))
        return;
    bp_ir_move_before(ir, later, n);
    bp_ir_forward(ir, y, ir->node[later].call.out[0]);
    bp_ir_add_sources(ir, later, n);
    bp_ir_kill(ir, n);
    c->changes++;
}

static void reuse_pools(struct bp_compilation *c)
{
    struct bp_ir *ir = c->ir;

    for (uint32_t n = ir->first, next; n != BP_NO_VALUE; n = next) {
        const struct bp_node *node = &ir->node[n].call;
        next = ir->node[n].next;
        if (node->row == &bp_opdef[BP_ROW_max_pool] && !node->kernel) reuse_pool(c, n);
    }
}

enum bp_status bp_pass_reuse(struct bp_compilation *c)
{
    struct bp_ir *ir = c->ir;
    uint32_t before = c->changes;
    enum bp_status status;

    reuse_pools(c);
    bp_ir_resolve(ir);
    status = expand_nodes(c);
    if (status == BP_OK && c->changes != before) status = bp_pass_clean(c);
    return status;
}
