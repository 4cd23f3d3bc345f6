/* SPDX-License-Identifier: Apache-2.0 */
/* ir_verify.c: checks the compiler's representation, for BP_VALIDATE=passes. */
#include "ir.h"

#include "../call/prepared.h"

#include <stdlib.h>

struct verification {
    const struct bp_ir *ir;
    uint32_t *uses; /* of each value, counted */
    bool *written;  /* of each value: it exists at the place that is checked */
};

static enum bp_status verify_error(const struct bp_node *node, const char *what, uint32_t value)
{
    return bp_error(BP_ERR_INTERNAL, "node %s (%s): %s (value %u)", node->name,
                    node->row->info.name, what, value);
}

static enum bp_status verify_inputs(struct verification *check, const struct bp_node *node)
{
    for (uint32_t i = 0; i < node->n_in; i++) {
        uint32_t v = node->in[i];
        if (v == BP_NO_VALUE) continue;
        if (v >= check->ir->n_value) return verify_error(node, "reads no value", v);
        if (check->ir->value[v].same != v)
            return verify_error(node, "reads a value that was replaced", v);
        if (!check->written[v]) return verify_error(node, "reads a value before it is computed", v);
        if (check->ir->value[v].kind == BP_VALUE_SHAPE && !bp_node_reads_shape(node, i))
            return verify_error(node, "reads elements of a value that has only a type", v);
        check->uses[v]++;
    }
    return BP_OK;
}

static enum bp_status verify_outputs(struct verification *check, uint32_t n)
{
    const struct bp_node *node = &check->ir->node[n].call;

    for (uint32_t i = 0; i < node->n_out; i++) {
        uint32_t v = node->out[i];
        const struct bp_ir_value *value;
        if (v == BP_NO_VALUE) continue;
        if (v >= check->ir->n_value) return verify_error(node, "computes no value", v);
        value = &check->ir->value[v];
        if (value->kind != BP_VALUE_RESULT || value->node != n || value->output != i)
            return verify_error(node, "computes a value that says otherwise", v);
        if (check->written[v]) return verify_error(node, "computes a value again", v);
        if (value->type->view.layout && (value->root != v || value->updated || value->returned))
            return verify_error(node, "computes a value in a layout that others see", v);
        check->written[v] = true;
    }
    return BP_OK;
}

/* Infers the types of a node's results again and compares them with those of its values. */
static enum bp_status verify_types(const struct bp_ir *ir, const struct bp_node *node,
                                   struct bp_invocation *inv)
{
    if (node->row->bound) return BP_OK; /* values have the bounds */
    bp_ir_invocation(ir, node, inv);
    for (uint32_t i = 0; i < node->n_in; i++)
        if (node->in[i] != BP_NO_VALUE) inv->in[i] = &ir->value[node->in[i]].type->view;
    TRY(node->row->infer(inv));
    for (uint32_t i = 0; i < node->n_out; i++) {
        struct bp_typed_view type;
        if (node->out[i] == BP_NO_VALUE) continue;
        bp_typed_view_dense(&type, &inv->out[i]);
        type.view.layout = ir->value[node->out[i]].type->view.layout;
        if (!bp_same_type(&type.view, &ir->value[node->out[i]].type->view))
            return verify_error(node, "has a result of another type", node->out[i]);
    }
    return BP_OK;
}

static enum bp_status verify_list(struct verification *check, struct bp_invocation *inv)
{
    const struct bp_ir *ir = check->ir;
    uint32_t previous = BP_NO_VALUE, count = 0;

    for (uint32_t v = 0; v < ir->n_value; v++)
        check->written[v] = ir->value[v].kind == BP_VALUE_INPUT ||
                            ir->value[v].kind == BP_VALUE_SHAPE || ir->value[v].constant;
    for (uint32_t n = ir->first; n != BP_NO_VALUE; previous = n, n = ir->node[n].next) {
        const struct bp_ir_node *node = &ir->node[n];
        if (node->previous != previous || node->dead || ++count > ir->living)
            return bp_error(BP_ERR_INTERNAL, "node %s: the list of nodes is broken",
                            node->call.name);
        TRY(verify_inputs(check, &node->call));
        TRY(verify_types(ir, &node->call, inv));
        TRY(verify_outputs(check, n));
    }
    if (count != ir->living || ir->last != previous)
        return bp_error(BP_ERR_INTERNAL, "the list has %u nodes, %u are expected", count,
                        ir->living);
    return BP_OK;
}

static enum bp_status verify_uses(struct verification *check)
{
    const struct bp_ir *ir = check->ir;

    for (uint32_t o = 0; o < ir->n_output; o++) {
        uint32_t v = ir->output[o];
        if (!check->written[v])
            return bp_error(BP_ERR_INTERNAL, "output %u (value %u) is not computed", o, v);
        check->uses[v]++;
    }
    for (uint32_t v = 0; v < ir->n_value; v++)
        if (check->uses[v] != ir->value[v].uses)
            return bp_error(BP_ERR_INTERNAL, "value %u is read %u times, %u are noted", v,
                            check->uses[v], ir->value[v].uses);
    return BP_OK;
}

enum bp_status bp_ir_verify(const struct bp_ir *ir)
{
    struct verification check = {ir, calloc(ir->n_value + 1, sizeof(uint32_t)),
                                 calloc(ir->n_value + 1, sizeof(bool))};
    struct bp_invocation *inv = calloc(1, sizeof *inv);
    enum bp_status status = bp_error(BP_ERR_MEMORY, "no host memory to compile a program");

    if (check.uses && check.written && inv) {
        status = verify_list(&check, inv);
        if (status == BP_OK) status = verify_uses(&check);
    }
    free(check.uses);
    free(check.written);
    free(inv);
    return status;
}
