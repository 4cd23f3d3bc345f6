/* SPDX-License-Identifier: Apache-2.0 */
/* dead.c: finds the last reader of each value, so that the memory of the value is freed early. */
#include "resolve.h"
#include <stdlib.h>

struct lives {
    const struct resolver *r;
    const struct onnx_body *body;
    uint32_t *last; /* by slot: the last node of body that reads it; ONNX_NO_SLOT: another body owns
                       the slot, or its value is kept */
};

static void dead_reads(struct lives *l, uint32_t slot, uint32_t node)
{
    if (slot != ONNX_NO_SLOT && l->r->owner[slot] == l->body) l->last[slot] = node;
}

/* Notes all reads of a node. The reads of its sub-graphs count as reads of the node of `body` that
 * contains them. */
static void node_reads(struct lives *l, const struct onnx_node *node, uint32_t number)
{
    for (uint32_t i = 0; i < node->n_in; i++) dead_reads(l, node->in[i], number);
    for (uint32_t b = 0; b < node->n_body; b++) {
        const struct onnx_body *body = &node->body[b];
        for (uint32_t n = 0; n < body->n_node; n++) node_reads(l, &body->node[n], number);
        for (uint32_t i = 0; i < body->n_output; i++) dead_reads(l, body->output[i], number);
    }
}

static enum bp_status give_lists(struct lives *l, struct onnx_body *body, uint32_t n_slot)
{
    for (uint32_t s = 0; s < n_slot; s++)
        if (l->last[s] != ONNX_NO_SLOT) body->node[l->last[s]].n_dead++;
    for (uint32_t n = 0; n < body->n_node; n++) {
        struct onnx_node *node = &body->node[n];
        if (!node->n_dead) continue;
        node->dead = calloc(node->n_dead, sizeof *node->dead);
        node->n_dead = 0;
        if (!node->dead) return onnx_no_memory();
    }
    for (uint32_t s = 0; s < n_slot; s++) {
        struct onnx_node *node;
        if (l->last[s] == ONNX_NO_SLOT) continue;
        node = &body->node[l->last[s]];
        node->dead[node->n_dead++] = s;
    }
    return BP_OK;
}

enum bp_status onnx_find_dead(const struct resolver *r, struct onnx_body *body)
{
    uint32_t n_slot = r->model->n_slot;
    struct lives l = {r, body, malloc((n_slot + 1) * sizeof *l.last)};
    enum bp_status status;

    if (!l.last) return onnx_no_memory();
    for (uint32_t s = 0; s < n_slot; s++) l.last[s] = ONNX_NO_SLOT;
    for (uint32_t n = 0; n < body->n_node; n++) {
        const struct onnx_node *node = &body->node[n];
        node_reads(&l, node, n);
        for (uint32_t i = 0; i < node->n_out; i++) dead_reads(&l, node->out[i], n);
    }
    for (uint32_t i = 0; i < body->n_output; i++) l.last[body->output[i]] = ONNX_NO_SLOT;
    status = give_lists(&l, body, n_slot);
    free(l.last);
    return status;
}
