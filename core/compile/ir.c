/* SPDX-License-Identifier: Apache-2.0 */
/* ir.c: copies a graph to the compiler's representation, and frees it. */
#include "ir.h"

#include "engine.h"
#include "folded.h"
#include "templates.h"

#include "../memory/source.h"

#include "../call/prepared.h"

#include <stdlib.h>
#include <string.h>

static enum bp_status ir_no_memory(void)
{
    return bp_error(BP_ERR_MEMORY, "no host memory to compile a program");
}

static enum bp_status copy_value(struct bp_ir *ir, const struct bp_graph *g, uint32_t v)
{
    struct bp_ir_value *to = &ir->value[v];

    *to = (struct bp_ir_value){.type = malloc(sizeof *to->type),
                               .kind = g->value[v].kind,
                               .node = g->value[v].node,
                               .output = g->value[v].output,
                               .same = v,
                               .root = v};
    if (!to->type) return ir_no_memory();
    bp_typed_view_init(to->type, &g->value[v].type->view);
    if (g->value[v].constant) bp_ir_set_constant(to, bp_tensor_retain(g->value[v].constant));
    ir->n_value = v + 1;
    return BP_OK;
}

/* Copies what a node owns. The numbers of values stay the same. */
static enum bp_status copy_call(const struct bp_node *from, struct bp_node *to)
{
    size_t n = from->n_in + from->n_out;

    *to = *from;
    to->attrs = NULL;
    to->name = strdup(from->name);
    to->kernel = from->kernel ? strdup(from->kernel) : NULL;
    to->in = malloc((n + 1) * sizeof *to->in);
    to->out = to->in ? to->in + to->n_in : NULL;
    if (!to->name || !to->in || (from->kernel && !to->kernel)) return ir_no_memory();
    memcpy(to->in, from->in, n * sizeof *to->in);
    return from->attrs ? bp_attrs_clone(&from->row->info, from->attrs, &to->attrs) : BP_OK;
}

/* The blocks of random numbers that a node draws, as a call of its own would. */
static uint64_t random_blocks_of(const struct bp_ir *ir, const struct bp_node *node)
{
    uint64_t count = 0;

    for (uint32_t i = 0; node->row->random && i < node->n_out; i++) {
        uint64_t n = node->out[i] == BP_NO_VALUE
                         ? 0
                         : (uint64_t)ir->value[node->out[i]].type->view.count;
        if (n > count) count = n;
    }
    return (count + 3) / 4;
}

/* Random nodes get their numbers in the recorded order, so that these do not change when a pass
 * removes or moves a node. */
static enum bp_status copy_node(struct bp_ir *ir, const struct bp_graph *g, uint32_t n)
{
    struct bp_ir_node *to = &ir->node[n];

    *to = (struct bp_ir_node){.previous = n ? n - 1 : BP_NO_VALUE, .next = BP_NO_VALUE};
    ir->n_node = n + 1;
    TRY(copy_call(&g->node[n], &to->call));
    to->random_at = ir->random_blocks;
    ir->random_blocks += random_blocks_of(ir, &to->call);
    if (n) ir->node[n - 1].next = n;
    for (uint32_t i = 0; i < to->call.n_in; i++)
        if (to->call.in[i] != BP_NO_VALUE) ir->value[to->call.in[i]].uses++;
    return BP_OK;
}

/* Returns a value that has a type and nothing else: one for all equal types, so that nodes that
 * differ in it only are equal. There is room for it. */
static enum bp_status shape_value(struct bp_ir *ir, uint32_t first,
                                  const struct bp_typed_view *type, uint32_t *out_value)
{
    struct bp_ir_value *value = &ir->value[ir->n_value];

    for (uint32_t v = first; v < ir->n_value; v++)
        if (bp_same_type(&ir->value[v].type->view, &type->view)) {
            *out_value = v;
            return BP_OK;
        }
    *value = (struct bp_ir_value){.type = malloc(sizeof *value->type),
                                  .kind = BP_VALUE_SHAPE,
                                  .same = ir->n_value,
                                  .root = ir->n_value};
    if (!value->type) return ir_no_memory();
    bp_typed_view_init(value->type, &type->view);
    *out_value = ir->n_value++;
    return BP_OK;
}

/* Inputs that are read for their shape only become such values, so that they neither keep a result
 * alive nor order nodes. Frozen constants stay, so that nodes that read nothing else are folded. */
static enum bp_status forget_elements(struct bp_ir *ir)
{
    uint32_t first = ir->n_value;

    for (uint32_t n = 0; n < ir->n_node; n++) {
        struct bp_node *node = &ir->node[n].call;
        for (uint32_t i = 0; i < node->n_in; i++) {
            uint32_t v = node->in[i], shape;
            if (v == BP_NO_VALUE || !bp_node_reads_shape(node, i) || bp_ir_is_frozen(ir, v))
                continue;
            TRY(shape_value(ir, first, ir->value[v].type, &shape));
            ir->value[v].uses--;
            ir->value[shape].uses++;
            node->in[i] = shape;
        }
    }
    return BP_OK;
}

static uint32_t count_shape_inputs(const struct bp_graph *g)
{
    uint32_t count = 0;

    for (uint32_t n = 0; n < g->n_node; n++)
        for (uint32_t i = 0; i < g->node[n].n_in; i++)
            count += g->node[n].in[i] != BP_NO_VALUE && bp_node_reads_shape(&g->node[n], i);
    return count;
}

static enum bp_status copy_graph(struct bp_ir *ir, const struct bp_graph *g)
{
    ir->room_value = g->n_value + count_shape_inputs(g) + 1;
    ir->room_node = g->n_node + 1;
    ir->value = calloc(ir->room_value, sizeof *ir->value);
    ir->node = calloc(ir->room_node, sizeof *ir->node);
    ir->input = malloc((g->n_input + g->n_output + 1) * sizeof *ir->input);
    if (!ir->value || !ir->node || !ir->input) return ir_no_memory();
    ir->output = ir->input + g->n_input;
    ir->n_input = g->n_input;
    ir->n_output = g->n_output;
    for (uint32_t v = 0; v < g->n_value; v++) TRY(copy_value(ir, g, v));
    for (uint32_t n = 0; n < g->n_node; n++) TRY(copy_node(ir, g, n));
    for (uint32_t i = 0; i < g->n_input; i++) {
        ir->input[i] = g->input[i];
        ir->value[g->input[i]].input = i;
    }
    for (uint32_t o = 0; o < g->n_output; o++) {
        ir->output[o] = g->output[o];
        ir->value[g->output[o]].uses++;
    }
    ir->first = g->n_node ? 0 : BP_NO_VALUE;
    ir->last = g->n_node ? g->n_node - 1 : BP_NO_VALUE;
    ir->living = ir->recorded = g->n_node;
    TRY(forget_elements(ir));
    bp_ir_find_roots(ir);
    return BP_OK;
}

enum bp_status bp_ir_create(const struct bp_graph *graph, struct bp_device *device,
                            struct bp_ir **out_ir)
{
    struct bp_ir *ir = calloc(1, sizeof *ir);
    enum bp_status status;

    if (!ir) return ir_no_memory();
    ir->device = device;
    ir->allow = device->core->allow;
    status = copy_graph(ir, graph);
    if (status) bp_ir_destroy(ir);
    else *out_ir = ir;
    return status;
}

void bp_ir_set_constant(struct bp_ir_value *value, struct bp_tensor *constant)
{
    value->constant = constant;
    value->sourced = constant->buffer && constant->buffer->source;
    if (value->sourced) bp_source_use(constant->buffer);
}

static void drop_constant(struct bp_ir_value *value)
{
    if (value->folded) bp_folded_release(value->constant, value->unread);
    if (value->sourced) bp_source_release(value->constant->buffer, value->unread);
    bp_tensor_destroy(value->constant);
    value->folded = value->sourced = value->unread = false;
    value->constant = NULL;
}

void bp_ir_forget_constant(struct bp_ir_value *value)
{
    if (value->sourced && !value->unread) {
        bp_source_end_reads(value->constant->buffer);
        bp_source_release(value->constant->buffer, true);
        value->sourced = false;
    }
    drop_constant(value);
}

void bp_ir_drop_constants(struct bp_ir *ir)
{
    for (uint32_t v = 0; v < ir->n_value; v++) drop_constant(&ir->value[v]);
}

void bp_ir_drop_graph(struct bp_ir *ir)
{
    if (ir->lent) bp_graph_release(ir->lent);
    ir->lent = NULL;
}

static void node_free(const struct bp_ir *ir, uint32_t n)
{
    struct bp_ir_node *node = &ir->node[n];

    if (ir->of) {
        if (node->call.attrs != ir->of->ir->node[n].call.attrs) free(node->call.attrs);
        return;
    }
    free(node->call.attrs);
    free(node->call.name);
    free(node->call.kernel);
    free(node->call.in);
    free(node->source);
    free(node->prefer);
    if (node->prepared) bp_prepared_release(node->prepared);
}

void bp_ir_destroy(struct bp_ir *ir)
{
    if (!ir) return;
    for (uint32_t n = 0; n < ir->n_node; n++) node_free(ir, n);
    bp_ir_drop_constants(ir);
    bp_ir_drop_graph(ir);
    for (uint32_t v = 0; v < ir->n_value; v++)
        if (!ir->of || ir->value[v].type != ir->of->ir->value[v].type) free(ir->value[v].type);
    bp_engine_report_destroy(ir->engines);
    free(ir->dense);
    free(ir->value);
    free(ir->node);
    free(ir->input);
    if (ir->of) bp_template_release(ir->of);
    free(ir);
}

void bp_ir_invocation(const struct bp_ir *ir, const struct bp_node *node, struct bp_invocation *inv)
{
    bp_invocation_of_node(node, ir->device, inv);
    inv->allow = ir->allow;
    for (uint32_t i = 0; i < node->n_out; i++) {
        const struct bp_typed_view *type;
        if (node->out[i] == BP_NO_VALUE) continue;
        type = ir->value[node->out[i]].type;
        bp_invocation_set_type(inv, i, type);
        if (type->view.layout) inv->given[i] = &type->view;
    }
}

/* Whether output i of a node lies in the memory of one of its inputs. *out_input: which one. */
static bool shares_input(const struct bp_node *node, uint32_t i, uint32_t *out_input)
{
    const struct bp_opinfo *op = &node->row->info;
    uint32_t port = bp_out_port(node->row, node->out_at, i);

    if (!node->row->is_view && op->out[port].kind != BP_PORT_UPDATE) return false;
    *out_input = node->in[node->in_at[op->out[port].share]];
    return *out_input != BP_NO_VALUE;
}

void bp_ir_find_roots_of(struct bp_ir *ir, uint32_t n)
{
    const struct bp_node *node = &ir->node[n].call;
    uint32_t input;

    for (uint32_t i = 0; i < node->n_out; i++)
        if (node->out[i] != BP_NO_VALUE && shares_input(node, i, &input))
            ir->value[node->out[i]].root = ir->value[bp_ir_same(ir, input)].root;
    if (ir->node[n].prepared) bp_engine_find_updates(ir, n);
    for (uint32_t p = 0; node->row->updates && p < node->row->info.n_out; p++) {
        const struct bp_port *port = &node->row->info.out[p];
        if (port->kind != BP_PORT_UPDATE) continue;
        input = node->in[node->in_at[port->share]];
        if (input != BP_NO_VALUE) ir->value[ir->value[bp_ir_same(ir, input)].root].updated = true;
    }
}

void bp_ir_find_roots(struct bp_ir *ir)
{
    for (uint32_t v = 0; v < ir->n_value; v++) {
        ir->value[v].root = v;
        ir->value[v].updated = ir->value[v].returned = false;
    }
    for (uint32_t n = ir->first; n != BP_NO_VALUE; n = ir->node[n].next) bp_ir_find_roots_of(ir, n);
    for (uint32_t o = 0; o < ir->n_output; o++)
        ir->value[ir->value[bp_ir_same(ir, ir->output[o])].root].returned = true;
}
