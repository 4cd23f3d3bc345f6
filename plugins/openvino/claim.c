/* SPDX-License-Identifier: Apache-2.0 */
/* claim.c: claims the nodes of a graph that OpenVINO can express, and states why it leaves the
 * others out. */
#include "engine.h"

#include <kit/claim.h>

_Static_assert(OPENVINO_RANK == (int)KIT_CLAIM_RANK, "the axes of a value");

static const char *refuses_flags(uint32_t flags)
{
    if (flags & BP_DATA_RANDOM) return "the library draws other random numbers";
    if (flags & BP_DATA_UPDATE) return "an update in place";
    return kit_claim_flags(flags);
}

static const char *refuses_value(const struct bp_data_value *v, uint64_t dtypes)
{
    if (!kit_claim_has_dtype(v, dtypes)) return "a dtype for which the library has other rules";
    return kit_claim_value(v, false);
}

const char *openvino_refuses(const struct ov_node *n)
{
    const struct bp_data_node *node = n->node;
    const struct ov_op *op = openvino_op_find(node->op);
    const char *why = op ? refuses_flags(node->flags) : "an operator that the plugin does not know";

    if (why) return why;
    if (kit_claim_has_attribute_tensor(node)) return "a tensor supplies an attribute";
    if (node->n_in > OPENVINO_PARTS) return "more than 256 inputs";
    for (uint32_t i = 0; i < node->n_in && !why; i++)
        if (ov_in(n, i)) why = refuses_value(ov_in(n, i), op->dtypes);
    if (!why) why = refuses_value(ov_out(n), op->dtypes);
    if (!why && op->refuses) why = op->refuses(n);
    return why;
}

/* Whether a node computes in bf16, or converts to it. Rows that only move elements have integers
 * too. */
static bool computes_bf16(const struct ov_node *n, const struct ov_op *op)
{
    bool moves = op->dtypes & BP_M(I8), casts = op->write == ov_write_cast;

    for (uint32_t i = 0; i < n->node->n_in && !moves; i++)
        if (ov_in(n, i) && ov_in(n, i)->dtype == BP_BF16) return true;
    return (!moves || casts) && ov_out(n)->dtype == BP_BF16;
}

/* Why a node needs fast math, or NULL. */
static const char *refuses_exact(const struct ov_node *n)
{
    const struct ov_op *op = openvino_op_find(n->node->op);

    if (op->lossy && !op->exact)
        return "the library loses accuracy, which only BP_ALLOW=fast-math allows";
    return computes_bf16(n, op)
               ? "the library loses denormal numbers of bf16, which only BP_ALLOW=fast-math allows"
               : NULL;
}

enum bp_status openvino_claim(void *self, const struct bp_graph_data *graph, struct bp_claim *out)
{
    bool fast = BP_HAS(out, flags) && out->flags & BP_ENGINE_FAST_MATH;

    (void)self;
    for (uint32_t i = 0; i < graph->n_node; i++) {
        struct ov_node n = {.graph = graph, .node = openvino_node(graph, i), .group = out->group};
        const char *why;
        n.attrs = n.node->attrs;
        why = openvino_refuses(&n);
        if (!why && !fast) why = refuses_exact(&n);
        out->reason[i] = why;
        out->group[i] = !why;
        if (!why) out->n_group = 1;
    }
    return BP_OK;
}
