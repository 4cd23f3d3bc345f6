/* SPDX-License-Identifier: Apache-2.0 */
/* constants.c: finds the value of a graph's constant by its tensor, with a tree, so that recording
 * many constants does not take time by the square of their number. */
#include "graph.h"

#include <search.h>
#include <stdlib.h>

struct graph_constant {
    const struct bp_tensor *tensor; /* the value has the reference */
    uint32_t value;
};

static int constant_compare(const void *a, const void *b)
{
    const struct graph_constant *x = a, *y = b;

    return x->tensor < y->tensor ? -1 : x->tensor > y->tensor;
}

bool bp_graph_find_constant(const struct bp_graph *graph, const struct bp_tensor *tensor,
                            uint32_t *out_value)
{
    const struct graph_constant key = {tensor, 0};
    struct graph_constant *const *found = tfind(&key, &graph->constants, constant_compare);

    if (found) *out_value = (*found)->value;
    return found != NULL;
}

enum bp_status bp_graph_note_constant(struct bp_graph *graph, uint32_t value)
{
    struct graph_constant *own = malloc(sizeof *own);

    if (own) *own = (struct graph_constant){graph->value[value].constant, value};
    if (own && tsearch(own, &graph->constants, constant_compare)) return BP_OK;
    free(own);
    return bp_error(BP_ERR_MEMORY, "no memory for a constant of a graph");
}

void bp_graph_drop_constant(struct bp_graph *graph, const struct bp_tensor *tensor)
{
    const struct graph_constant key = {tensor, 0};
    struct graph_constant *const *found = tfind(&key, &graph->constants, constant_compare);
    struct graph_constant *own = found ? *found : NULL;

    if (own) tdelete(&key, &graph->constants, constant_compare);
    free(own);
}

void bp_graph_forget_constants(struct bp_graph *graph)
{
    tdestroy(graph->constants, free);
    graph->constants = NULL;
}
