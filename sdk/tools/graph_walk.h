/* SPDX-License-Identifier: Apache-2.0 */
/* graph_walk.h: a graph that is run node by node, by who watches the stream. */
#ifndef BP_TOOLS_GRAPH_WALK_H
#define BP_TOOLS_GRAPH_WALK_H

#include <backplane/backplane.h>

struct graph_walk {
    struct bp_graph *graph;
    struct bp_stream *stream;
    struct bp_tensor **value; /* of the graph, a reference each where made is set */
    uint32_t *last;           /* the node that reads it last */
    uint8_t *made;
    uint32_t n_value, n_node;
};

/* in: the graph's inputs, which stay the caller's. */
enum bp_status graph_walk_init(struct graph_walk *walk, struct bp_graph *graph,
                               struct bp_stream *stream, struct bp_tensor *const *in, size_t n_in);
void graph_walk_finish(struct graph_walk *walk);

/* Number node, after all before it, as a call on the stream. name: set before the call. */
enum bp_status graph_walk_run(struct graph_walk *walk, uint32_t node, const char **name);

#endif
