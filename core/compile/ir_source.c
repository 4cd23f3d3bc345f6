/* SPDX-License-Identifier: Apache-2.0 */
/* ir_source.c: keeps the names of the recorded nodes that a node of the compiler's representation
 * replaces. */
#include "ir.h"

#include <stdlib.h>

const char *const *bp_ir_sources(const struct bp_ir *ir, uint32_t n, uint32_t *out_n)
{
    const struct bp_ir_node *node = &ir->node[n];

    *out_n = node->n_source ? node->n_source : 1;
    return node->n_source ? node->source : (const char *const *)&node->call.name;
}

static bool has_source(const struct bp_ir_node *node, const char *name)
{
    for (uint32_t i = 0; i < node->n_source; i++)
        if (node->source[i] == name) return true;
    return false;
}

void bp_ir_add_sources(struct bp_ir *ir, uint32_t to, uint32_t from)
{
    struct bp_ir_node *node = &ir->node[to];
    uint32_t n, own = !node->made && !node->n_source;
    const char *const *name = bp_ir_sources(ir, from, &n);
    const char **list = realloc(node->source, (node->n_source + own + n) * sizeof *list);

    if (!list) return;
    node->source = list;
    if (own) list[node->n_source++] = node->call.name;
    for (uint32_t i = 0; i < n; i++)
        if (!has_source(node, name[i])) list[node->n_source++] = name[i];
}
