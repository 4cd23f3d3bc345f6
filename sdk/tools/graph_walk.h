/* SPDX-License-Identifier: Apache-2.0 */
/* graph_walk.h: runs a graph node by node, for commands that watch each call on the stream. */
#ifndef BP_TOOLS_GRAPH_WALK_H
#define BP_TOOLS_GRAPH_WALK_H

#include <backplane/backplane.h>

struct graph_walk {
    struct bp_graph *graph;
    struct bp_stream *stream;
    struct bp_tensor **value; /* values of the graph; a reference is held where made is set */
    uint32_t *last;           /* for each value, the last node that reads it */
    uint8_t *made;
    uint32_t n_value, n_node;
};

/* in: the graph's inputs, which the caller continues to own. */
enum bp_status graph_walk_init(struct graph_walk *walk, struct bp_graph *graph,
                               struct bp_stream *stream, struct bp_tensor *const *in, size_t n_in);
void graph_walk_finish(struct graph_walk *walk);

/* Runs number `node` as a call on the stream. All nodes before it must have run. *name: set to the
 * node's name before the call. */
enum bp_status graph_walk_run(struct graph_walk *walk, uint32_t node, const char **name);

#endif
