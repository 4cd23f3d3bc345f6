/* SPDX-License-Identifier: Apache-2.0 */
/* edits.c: records the edits of a plugin's rewrite, and checks each. */
#include "edits.h"
#include "rewrite.h"

#include "../call/prepared.h"

#include <stdlib.h>
#include <string.h>

#define END(type, field) (offsetof(struct type, field) + sizeof((struct type *)0)->field)

enum {
    BETWEEN_MOST = 1 << 16,
    STRIDE_MOST = 4096,
    FIXED = BP_DATA_RANDOM | BP_DATA_UPDATE | BP_DATA_BOUND | BP_DATA_PINNED | BP_DATA_FIXED
};

/* An edit that is being recorded. */
struct editing {
    struct bp_edits_made *e;
    struct bp_edit row;
    struct bp_edit_made made;
    uint32_t number;           /* of the edit, from 1 */
    struct bp_tensor **symbol; /* owned: of each value of the graph, then of those between */
    uint32_t n_symbol, room_in, room_value;
};

static enum bp_status edits_no_memory(void)
{
    return bp_error(BP_ERR_MEMORY, "no host memory to compile a program");
}

enum bp_status bp_edits_init(struct bp_edits_made *e, struct bp_ir *ir,
                             const struct bp_graph_copy *copy)
{
    *e = (struct bp_edits_made){.ir = ir,
                                .copy = copy,
                                .killer = calloc(copy->n_node + 1u, sizeof *e->killer),
                                .by = calloc(copy->n_value + 1u, sizeof *e->by),
                                .result = calloc(copy->n_value + 1u, sizeof *e->result)};
    return e->killer && e->by && e->result ? BP_OK : edits_no_memory();
}

static void made_finish(struct bp_ir *ir, struct bp_edit_made *made)
{
    if (made->graph) bp_ir_return_graph(ir, made->graph);
    free(made->in);
    free(made->value);
    free(made->kill);
}

void bp_edits_finish(struct bp_edits_made *e)
{
    for (uint32_t i = 0; i < e->n_edit; i++) made_finish(e->ir, &e->edit[i]);
    free(e->edit);
    free(e->killer);
    free(e->by);
    free(e->result);
    free(e->why);
}

/* Makes room for one more number in a list. */
static enum bp_status editing_room(uint32_t **list, uint32_t n, uint32_t *room)
{
    uint32_t more = 2 * *room + 8, *grown;

    if (n < *room) return BP_OK;
    grown = realloc(*list, more * sizeof **list);
    if (!grown) return edits_no_memory();
    *list = grown;
    *room = more;
    return BP_OK;
}

static const struct bp_data_value *editing_value(const struct editing *x, uint32_t v)
{
    const struct bp_graph_data *d = &x->e->copy->data;

    return BP_ROW(struct bp_data_value, d->value, d->value_stride, v);
}

static const struct bp_data_node *editing_node(const struct editing *x, uint32_t n)
{
    const struct bp_graph_data *d = &x->e->copy->data;

    return BP_ROW(struct bp_data_node, d->node, d->node_stride, n);
}

/* ---- removed nodes ---- */

static enum bp_status editing_kill(struct editing *x, uint32_t n)
{
    const struct bp_graph_copy *copy = x->e->copy;
    const struct bp_data_node *node;

    if (n >= copy->n_node)
        return bp_error(BP_ERR_INVALID, "it removes node %u, the graph has %u", n, copy->n_node);
    node = editing_node(x, n);
    if (x->e->killer[n])
        return bp_error(BP_ERR_INVALID, "it removes node %s, which is removed already", node->name);
    if (node->flags & FIXED ||
        !bp_rewrite_may_move(x->e->ir, &x->e->ir->node[copy->node_of[n]].call))
        return bp_error(BP_ERR_INVALID, "it removes node %s, which must stay", node->name);
    x->e->killer[n] = x->number;
    x->made.kill[x->made.n_kill++] = n;
    return BP_OK;
}

static enum bp_status editing_kills(struct editing *x)
{
    if (!x->row.n_kill || !x->row.kill || x->row.n_kill > x->e->copy->n_node)
        return bp_error(BP_ERR_INVALID, "it removes %u nodes, expected 1 to %u", x->row.n_kill,
                        x->e->copy->n_node);
    x->made.kill = malloc(x->row.n_kill * sizeof *x->made.kill);
    if (!x->made.kill) return edits_no_memory();
    for (uint32_t i = 0; i < x->row.n_kill; i++) TRY(editing_kill(x, x->row.kill[i]));
    return BP_OK;
}

/* ---- new nodes ---- */

/* Finds the symbolic tensor of a value that a new node reads, or that replaces another. */
static enum bp_status editing_read(struct editing *x, uint32_t v, struct bp_tensor **out)
{
    const struct bp_graph_copy *copy = x->e->copy;
    struct bp_type type = {0};
    const struct bp_data_value *row;

    *out = NULL;
    if (v == BP_DATA_NONE) return BP_OK;
    if (v >= x->n_symbol)
        return bp_error(BP_ERR_INVALID, "it reads value %u, there are %u", v, x->n_symbol);
    *out = x->symbol[v];
    if (*out) return BP_OK;
    if (v >= copy->n_value)
        return bp_error(BP_ERR_INVALID, "it reads value %u before a new node computes it", v);
    row = editing_value(x, v);
    if (!bp_ir_is_stable(x->e->ir, copy->value_of[v]))
        return bp_error(BP_ERR_INVALID, "it reads %s, whose memory the graph updates", row->name);
    type.dtype = row->dtype;
    type.rank = row->rank;
    memcpy(type.shape, row->shape, row->rank * sizeof *row->shape);
    TRY(editing_room(&x->made.in, x->made.graph->n_input, &x->room_in));
    TRY(bp_graph_add_input(x->made.graph, NULL, &type, &x->symbol[v]));
    x->made.in[x->made.graph->n_input - 1] = v;
    *out = x->symbol[v];
    return BP_OK;
}

/* Makes a value of the edit's graph the one that replaces value v. */
static enum bp_status editing_replace(struct editing *x, uint32_t v, struct bp_tensor *with)
{
    const struct bp_data_value *row = v < x->e->copy->n_value ? editing_value(x, v) : NULL;
    struct bp_graph *g = x->made.graph;
    const struct bp_ir_value *old;
    uint32_t made;

    if (!row || row->node == BP_DATA_NONE || x->e->killer[row->node] != x->number)
        return bp_error(BP_ERR_INVALID,
                        "it replaces value %u, which no node computes that it removes", v);
    if (x->e->by[v])
        return bp_error(BP_ERR_INVALID, "it replaces %s, which is replaced already", row->name);
    old = &x->e->ir->value[x->e->copy->value_of[v]];
    TRY(bp_graph_value_of(g, with, &made));
    if (!bp_same_type(&g->value[made].type->view, &old->type->view))
        return bp_error(BP_ERR_INVALID, "it replaces %s by a value of another dtype or shape",
                        row->name);
    if (x->e->ir->value[old->root].returned && bp_rewrite_is_view(g, made))
        return bp_error(BP_ERR_INVALID, "it makes %s, which the app gets, a view of another value",
                        row->name);
    TRY(editing_room(&x->made.value, x->made.n_value, &x->room_value));
    TRY(bp_graph_add_result(g, made));
    x->made.value[x->made.n_value++] = v;
    x->e->by[v] = x->number;
    x->e->result[v] = made;
    return BP_OK;
}

/* Gives the results of a new node their places. Takes over the tensors. */
static enum bp_status editing_results(struct editing *x, const struct bp_edit_node *row,
                                      struct bp_tensor **out)
{
    enum bp_status status = BP_OK;

    for (uint32_t i = 0; i < row->n_out; i++) {
        uint32_t v = row->out[i];
        if (status == BP_OK && v != BP_DATA_NONE) {
            if (v >= x->n_symbol || (v >= x->e->copy->n_value && x->symbol[v])) {
                status = bp_error(BP_ERR_INVALID,
                                  "it computes value %u, which is none or computed already", v);
            } else if (v >= x->e->copy->n_value) {
                x->symbol[v] = out[i];
                out[i] = NULL;
            } else status = editing_replace(x, v, out[i]);
        }
        bp_tensor_destroy(out[i]);
    }
    return status;
}

static enum bp_status editing_row(const struct bp_edit_node *row, const struct bp_opdef **out)
{
    *out = row->op ? bp_opdef_find(row->op) : NULL;
    if (!*out)
        return bp_error(BP_ERR_INVALID, "this core has no operator %.60s",
                        row->op ? row->op : "(NULL)");
    if ((*out)->random || (*out)->updates || (*out)->bound)
        return bp_error(BP_ERR_INVALID,
                        "%s draws random numbers, updates an input or has extents that "
                        "depend on data",
                        row->op);
    if (row->n_in > BP_FLAT_MAX || row->n_out > BP_FLAT_MAX || (row->n_in && !row->in) ||
        !row->n_out || !row->out || (!(*out)->varies && row->n_out > (*out)->info.n_out) ||
        (!(*out)->has_groups && row->n_in > (*out)->info.n_in))
        return bp_error(BP_ERR_INVALID, "%s has %u inputs and %u outputs", row->op, row->n_in,
                        row->n_out);
    return BP_OK;
}

/* Whether a node reads only the shapes of values that have nothing else. */
static bool reads_what_exists(const struct editing *x, const struct bp_node *node)
{
    const struct bp_graph *g = x->made.graph;

    for (uint32_t i = 0; i < node->n_in; i++) {
        const struct bp_value *value = node->in[i] == BP_NO_VALUE ? NULL : &g->value[node->in[i]];
        uint32_t at = 0;
        if (!value || value->kind != BP_VALUE_INPUT) continue;
        while (g->input[at] != node->in[i]) at++;
        if (editing_value(x, x->made.in[at])->flags & BP_DATA_SHAPE_ONLY &&
            !bp_node_reads_shape(node, i))
            return false;
    }
    return true;
}

static enum bp_status editing_record(struct editing *x, const struct bp_edit_node *row)
{
    struct bp_tensor *flat[BP_FLAT_MAX], *out[BP_FLAT_MAX] = {NULL};
    struct bp_arg arg[BP_PORT_MAX];
    uint8_t want[BP_FLAT_MAX] = {0};
    const struct bp_opdef *op;
    struct bp_call call = {.size = sizeof call, .op = row->op, .in = arg, .attrs = row->attrs};

    TRY(editing_row(row, &op));
    call.n_in = op->info.n_in;
    for (uint32_t i = 0; i < row->n_in; i++) TRY(editing_read(x, row->in[i], &flat[i]));
    bp_rewrite_args(op, flat, row->n_in, arg);
    for (uint32_t i = 0; i < row->n_out; i++)
        want[i] = row->out[i] != BP_DATA_NONE ||
                  (!op->varies && op->info.out[i].kind != BP_PORT_OPTOUT);
    TRY(bp_graph_trace(x->made.graph, op, &call, out, row->n_out, want));
    TRY(editing_results(x, row, out));
    if (reads_what_exists(x, &x->made.graph->node[x->made.graph->n_node - 1])) return BP_OK;
    return bp_error(BP_ERR_INVALID, "%s reads elements of a value of which only the shape is known",
                    row->op);
}

static enum bp_status editing_nodes(struct editing *x)
{
    if (!x->row.n_node) return BP_OK;
    if (!x->row.node || x->row.node_stride < END(bp_edit_node, n_out) ||
        x->row.node_stride > STRIDE_MOST || x->row.node_stride % sizeof(void *))
        return bp_error(BP_ERR_INVALID,
                        "its new nodes cannot be walked: node is %s, node_stride %u",
                        x->row.node ? "set" : "NULL", x->row.node_stride);
    for (uint32_t n = 0; n < x->row.n_node; n++) {
        struct bp_edit_node row = {0};
        size_t size = x->row.node_stride < sizeof row ? x->row.node_stride : sizeof row;
        memcpy(&row, (const char *)x->row.node + (size_t)n * x->row.node_stride, size);
        TRY(editing_record(x, &row));
    }
    return BP_OK;
}

/* Results of removed nodes that equal other values. */
static enum bp_status editing_same(struct editing *x)
{
    if (x->row.n_same && !x->row.same) return bp_error(BP_ERR_INVALID, "same is NULL");
    for (uint32_t i = 0; i < x->row.n_same; i++) {
        uint32_t by = x->row.same[2 * i + 1];
        struct bp_tensor *with;
        TRY(editing_read(x, by, &with));
        if (!with)
            return bp_error(BP_ERR_INVALID, "it replaces value %u by no value", x->row.same[2 * i]);
        if (by < x->e->copy->n_value && editing_value(x, by)->flags & BP_DATA_SHAPE_ONLY)
            return bp_error(BP_ERR_INVALID,
                            "it replaces value %u by one of which only the shape is known",
                            x->row.same[2 * i]);
        TRY(editing_replace(x, x->row.same[2 * i], with));
    }
    return BP_OK;
}

/* ---- the edit ---- */

static enum bp_status editing_run(struct editing *x, const struct bp_edit *edit)
{
    if (edit->size < END(bp_edit, n_between))
        return bp_error(BP_ERR_INVALID, "its size is %zu, expected %zu", edit->size, sizeof *edit);
    memcpy(&x->row, edit, edit->size < sizeof x->row ? edit->size : sizeof x->row);
    if (x->row.n_between > BETWEEN_MOST)
        return bp_error(BP_ERR_INVALID,
                        "it has %u values between new nodes, at most %d are possible",
                        x->row.n_between, BETWEEN_MOST);
    x->n_symbol = x->e->copy->n_value + x->row.n_between;
    x->symbol = calloc(x->n_symbol + 1u, sizeof *x->symbol);
    if (!x->symbol) return edits_no_memory();
    TRY(editing_kills(x));
    TRY(bp_ir_take_graph(x->e->ir, &x->made.graph));
    TRY(editing_nodes(x));
    TRY(editing_same(x));
    if (bp_rewrite_runs(x->e->ir, x->made.graph)) return BP_OK;
    return bp_error(BP_ERR_INVALID, "no kernel of the device takes one of its new nodes");
}

/* Adds the edit to the result, which then owns it. */
static enum bp_status editing_keep(struct editing *x)
{
    struct bp_edits_made *e = x->e;

    if (e->n_edit == e->room_edit) {
        uint32_t room = 2 * e->room_edit + 8;
        struct bp_edit_made *grown = realloc(e->edit, room * sizeof *grown);
        if (!grown) return edits_no_memory();
        e->edit = grown;
        e->room_edit = room;
    }
    x->made.first = e->n_added;
    e->n_added += x->made.graph->n_node;
    e->edit[e->n_edit++] = x->made;
    return BP_OK;
}

enum bp_status bp_edits_add(void *ctx, const struct bp_edit *edit)
{
    struct bp_edits_made *e = ctx;
    struct editing x = {.e = e, .number = e->n_edit + 1};
    enum bp_status status;

    if (e->refused) return bp_error(BP_ERR_INVALID, "an edit before was wrong");
    status = edit ? editing_run(&x, edit) : bp_error(BP_ERR_INVALID, "edit is NULL");
    for (uint32_t v = 0; x.symbol && v < x.n_symbol; v++) bp_tensor_destroy(x.symbol[v]);
    free(x.symbol);
    if (status == BP_OK) status = editing_keep(&x);
    if (status == BP_OK) return BP_OK;
    e->refused = true;
    made_finish(e->ir, &x.made);
    status = bp_error_more(status, "edit %u: %s", x.number - 1, bp_error_message());
    e->why = strdup(bp_error_message());
    return status;
}
