/* SPDX-License-Identifier: Apache-2.0 */
/* edits.h: declares the result of a plugin's rewrite (backplane/passes.h): edits of a graph, which
 * the core records and checks before it applies all of them or none. */
#ifndef BP_COMPILE_EDITS_H
#define BP_COMPILE_EDITS_H

#include "graph_data.h"

#include <backplane/passes.h>

/* An edit that was recorded. Numbers of values and nodes are those of the flat arrays, unless they
 * are of `graph`. */
struct bp_edit_made {
    struct bp_graph *graph; /* the new nodes; its outputs are the values that replace others */
    uint32_t *in;           /* for each input of the graph: the value */
    uint32_t *value;        /* for each output of the graph: the value that it replaces */
    uint32_t *kill;
    uint32_t n_kill, n_value;
    uint32_t first; /* the number of its first new node among those of the result */
};

/* An result. */
struct bp_edits_made {
    struct bp_ir *ir;
    const struct bp_graph_copy *copy;
    struct bp_edit_made *edit;
    uint32_t n_edit, room_edit, n_added;
    uint32_t *killer; /* of each node: the number of the edit that removes it, from 1; 0: none */
    uint32_t *by;     /* of each value: the number of the edit that replaces it, from 1; 0: none */
    uint32_t *result; /* of each value that is replaced: the value of the edit's graph */
    bool refused;     /* an edit was wrong, or there was no memory */
    char *why;        /* owned: the message then, or NULL */
};

enum bp_status bp_edits_init(struct bp_edits_made *e, struct bp_ir *ir,
                             const struct bp_graph_copy *copy);
void bp_edits_finish(struct bp_edits_made *e);

/* edits.c: records an edit and checks all that does not depend on other edits. ctx: the result. */
enum bp_status bp_edits_add(void *ctx, const struct bp_edit *edit);

/* edits_order.c: finds an order of execution of all nodes that stay, and of the new ones: numbers
 * of nodes, new ones from n_node. *out_order, of *out_n, is the caller's. A failure has a message:
 * no node computes a value that is read, or nodes depend on their own results. */
enum bp_status bp_edits_order(const struct bp_edits_made *e, uint32_t **out_order, uint32_t *out_n);

#endif
