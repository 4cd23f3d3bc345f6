/* SPDX-License-Identifier: Apache-2.0 */
/* graph_data.h: declares copies of the compiler's representation (IR), or of a part of it, as flat
 * arrays for plugins (backplane/graph_data.h). */
#ifndef BP_COMPILE_GRAPH_DATA_H
#define BP_COMPILE_GRAPH_DATA_H

#include "ir.h"

#include <backplane/graph_data.h>

struct bp_data_value_copy;
struct bp_data_node_copy;

/* A copy. It does not depend on the IR, and keeps the contents of the frozen constants in
 * memory. */
struct bp_graph_copy {
    struct bp_graph_data data;
    uint32_t *value_of; /* of each value: its number in the IR */
    uint32_t *node_of;  /* of each node: its number in the IR */

    struct bp_data_value_copy *value; /* the rows of data, and what they point to: owned */
    struct bp_data_node_copy *node;
    uint32_t *list;   /* of values: those of the nodes, then in, then out */
    uint32_t *before; /* pairs of nodes */
    uint32_t n_value, n_node, room_before;
};

/* Copies the n nodes of a list that is in an order of execution, as a graph of its own: its inputs
 * are the values that the nodes read and do not make, apart from frozen constants; its outputs are
 * the results that other nodes or the app read. nodes NULL: copies the whole IR, with its inputs
 * and outputs; then each value must stand for itself: bp_ir_resolve was called. */
enum bp_status bp_graph_copy_create(const struct bp_ir *ir, const uint32_t *nodes, uint32_t n,
                                    struct bp_graph_copy **out_copy);

/* Makes the graph of a call: one node, whose inputs are all inputs of the graph, also frozen
 * constants, and whose outputs are all outputs of the graph. */
enum bp_status bp_graph_copy_of_call(const struct bp_opdef *row, const struct bp_prep *prep,
                                     struct bp_graph_copy **out_copy);
/* Whether the graphs of two calls of one operator agree in all but names. */
bool bp_graph_copy_same_call(const struct bp_graph_copy *a, const struct bp_graph_copy *b);
void bp_graph_copy_destroy(struct bp_graph_copy *copy);

#endif
