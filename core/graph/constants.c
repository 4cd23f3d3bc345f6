/* SPDX-License-Identifier: Apache-2.0 */
/* constants.c: finds the value of a graph's constant by its tensor, with a hash table with open
 * addressing, so that recording many constants does not take time by the square of their number. */
#include "graph.h"

#include <stdlib.h>

/* An entry of the table; tensor: the value has the reference; NULL: the entry is free. */
struct bp_constant_entry {
    const struct bp_tensor *tensor;
    uint32_t value;
};

static uint32_t constant_first(const struct bp_graph *graph, const struct bp_tensor *tensor)
{
    return (uint32_t)((uintptr_t)tensor * UINT64_C(0x9E3779B97F4A7C15) >> 32) &
           (graph->room_constant - 1);
}

/* Returns the place of a constant, or the free place where it belongs. The table has one. */
static uint32_t constant_place(const struct bp_graph *graph, const struct bp_tensor *tensor)
{
    uint32_t at = constant_first(graph, tensor);

    while (graph->constant[at].tensor && graph->constant[at].tensor != tensor)
        at = (at + 1) & (graph->room_constant - 1);
    return at;
}

bool bp_graph_find_constant(const struct bp_graph *graph, const struct bp_tensor *tensor,
                            uint32_t *out_value)
{
    uint32_t at = graph->n_constant ? constant_place(graph, tensor) : 0;

    if (!graph->n_constant || !graph->constant[at].tensor) return false;
    *out_value = graph->constant[at].value;
    return true;
}

/* Makes room for one more constant. At most half of the table is in use. */
static bool constant_room(struct bp_graph *graph)
{
    struct bp_constant_entry *old = graph->constant;
    uint32_t n = graph->room_constant, room = n ? 2 * n : 32;

    if (2 * graph->n_constant < n) return true;
    graph->constant = calloc(room, sizeof *graph->constant);
    if (!graph->constant) {
        graph->constant = old;
        return false;
    }
    graph->room_constant = room;
    for (uint32_t i = 0; i < n; i++)
        if (old[i].tensor) graph->constant[constant_place(graph, old[i].tensor)] = old[i];
    free(old);
    return true;
}

enum bp_status bp_graph_note_constant(struct bp_graph *graph, uint32_t value)
{
    const struct bp_tensor *tensor = graph->value[value].constant;

    if (!constant_room(graph))
        return bp_error(BP_ERR_MEMORY, "no memory for a constant of a graph");
    graph->constant[constant_place(graph, tensor)] = (struct bp_constant_entry){tensor, value};
    graph->n_constant++;
    return BP_OK;
}

/* Entries behind the free place move up if they were placed there only because that place was in
 * use. */
void bp_graph_drop_constant(struct bp_graph *graph, const struct bp_tensor *tensor)
{
    uint32_t mask = graph->room_constant - 1, at, next;

    if (!graph->n_constant) return;
    at = constant_place(graph, tensor);
    if (!graph->constant[at].tensor) return;
    graph->n_constant--;
    for (next = (at + 1) & mask; graph->constant[next].tensor; next = (next + 1) & mask) {
        uint32_t first = constant_first(graph, graph->constant[next].tensor);
        if (((next - first) & mask) < ((next - at) & mask)) continue;
        graph->constant[at] = graph->constant[next];
        at = next;
    }
    graph->constant[at].tensor = NULL;
}

void bp_graph_forget_constants(struct bp_graph *graph)
{
    free(graph->constant);
    graph->constant = NULL;
    graph->n_constant = graph->room_constant = 0;
}
