/* SPDX-License-Identifier: Apache-2.0 */
/* need.c: finds the nodes that a run may skip, because no output that the caller wants depends on
 * them. */
#include "onnx.h"
#include <stdlib.h>

/* Marks the slots that a node and its sub-graphs read. */
static void need_reads(const struct onnx_node *node, bool *needed)
{
    for (uint32_t i = 0; i < node->n_in; i++)
        if (node->in[i] != ONNX_NO_SLOT) needed[node->in[i]] = true;
    for (uint32_t b = 0; b < node->n_body; b++) {
        const struct onnx_body *body = &node->body[b];
        for (uint32_t n = 0; n < body->n_node; n++) need_reads(&body->node[n], needed);
        for (uint32_t i = 0; i < body->n_output; i++) needed[body->output[i]] = true;
    }
}

static bool need_node(const struct onnx_node *node, const bool *needed)
{
    for (uint32_t i = 0; i < node->n_out; i++)
        if (node->out[i] != ONNX_NO_SLOT && needed[node->out[i]]) return true;
    return false;
}

enum bp_status onnx_find_unneeded(const struct bp_model *model, const uint8_t *want,
                                  bool **out_skip)
{
    const struct onnx_body *body = &model->body;
    bool *needed = calloc(model->n_slot + 1, sizeof *needed);
    bool *skip = calloc(body->n_node + 1, sizeof *skip);

    if (!needed || !skip) {
        free(needed);
        free(skip);
        return onnx_no_memory();
    }
    for (uint32_t i = 0; i < body->n_output; i++)
        if (want[i]) needed[body->output[i]] = true;
    for (uint32_t n = body->n_node; n-- > 0;) {
        skip[n] = !need_node(&body->node[n], needed);
        if (!skip[n]) need_reads(&body->node[n], needed);
    }
    free(needed);
    *out_skip = skip;
    return BP_OK;
}
