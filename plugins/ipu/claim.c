/* SPDX-License-Identifier: Apache-2.0 */
/* claim.c: claims the nodes of a graph that the shim can express, and states why it leaves the
 * others out. */
#include "engine.h"

#include <kit/claim.h>

_Static_assert(BP_IPU_RANK == (int)KIT_CLAIM_RANK, "the axes of a value");

/* Whether the shim has an operator for the update. */
static bool is_known_update(const struct ipu_op *op)
{
    return op->op == BP_IPU_OP_sgd || op->op == BP_IPU_OP_momentum || op->op == BP_IPU_OP_adam ||
           op->op == BP_IPU_OP_cache_write;
}

static const char *refuses_flags(uint32_t flags)
{
    if (flags & BP_DATA_RANDOM) return "Poplar draws other random numbers";
    return kit_claim_flags(flags);
}

/* adam still computes the powers of its betas if its parameters are empty. */
static bool is_step_of_nothing(const struct ipu_node *n, const struct ipu_op *op)
{
    return op->op == BP_IPU_OP_adam && ipu_is_empty(ipu_in(n, 0));
}

static const char *refuses_value(const struct bp_data_value *v, uint64_t dtypes, bool may_be_empty)
{
    if (!kit_claim_has_dtype(v, dtypes)) return "a dtype that PopLibs does not compute";
    return kit_claim_value(v, may_be_empty);
}

const char *ipu_refuses(const struct ipu_node *n)
{
    const struct bp_data_node *node = n->node;
    const struct ipu_op *op = ipu_op_find(node->op);
    const char *why = op ? refuses_flags(node->flags) : "an operator that the plugin does not know";
    bool may_be_empty, is_nothing;
    double value;

    if (why) return why;
    if (ipu_updates(n) && !is_known_update(op)) return "an update in place";
    is_nothing = is_step_of_nothing(n, op);
    may_be_empty = op->op == BP_IPU_OP_concat || op->op == BP_IPU_OP_cache_write || is_nothing ||
                   ipu_op_of_nothing(n, &value);
    if (kit_claim_has_attribute_tensor(node)) return "a tensor supplies an attribute";
    for (uint32_t i = 0; i < node->n_in && !why; i++) {
        uint64_t dtypes = op->dtypes | (ipu_op_takes_i64(op, i) ? BP_M(I64) | BP_M(I32) : 0);
        if (op->op == BP_IPU_OP_where && i == 0) dtypes = BP_M(BOOL);
        if (ipu_in(n, i)) why = refuses_value(ipu_in(n, i), dtypes, may_be_empty);
    }
    if (!why) why = refuses_value(ipu_out(n), op->dtypes | BP_M(BOOL), is_nothing);
    if (!why && op->refuses) why = op->refuses(n);
    for (uint32_t i = 1; !why && i < ipu_results(n); i++)
        why = refuses_value(ipu_result(n, i), op->dtypes | BP_M(BOOL), is_nothing);
    return why;
}

enum bp_status ipu_claim(void *self, const struct bp_graph_data *graph, struct bp_claim *out)
{
    (void)self;
    for (uint32_t i = 0; i < graph->n_node; i++) {
        struct ipu_node n = {.graph = graph, .node = ipu_node_at(graph, i), .group = out->group};
        n.attrs = n.node->attrs;
        out->reason[i] = ipu_refuses(&n);
        out->group[i] = !out->reason[i];
        if (out->group[i]) out->n_group = 1;
    }
    return BP_OK;
}
