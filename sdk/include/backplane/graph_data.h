/* SPDX-License-Identifier: Apache-2.0 */
/* graph_data.h: defines graphs of operators as flat arrays, which the core gives to engines
 * (engine.h) and to rewriting passes (passes.h). (<backplane/graph.h> belongs to the app.)
 *
 * A graph has values and nodes, and each is named by its index. No callback is needed to read a
 * graph, so that a plugin can send one to another process: operators and attributes have names.
 * Arrays of rows are stepped through by their stride, never by sizeof: BP_ROW. Unless a comment
 * states otherwise, all that a graph points to is constant and valid until the callback that got
 * the graph returns. */
#ifndef BP_GRAPH_DATA_H
#define BP_GRAPH_DATA_H

#include <backplane/op.h>
#include <backplane/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* In place of the number of a value: an optional input or output that is absent. In place of the
 * number of a node: none. */
#define BP_DATA_NONE UINT32_MAX

/* The address of row i of an array of rows with this stride, as a pointer of this type. */
#define BP_ROW(type, first, stride, i) \
    ((const type *)(const void *)((const char *)(first) + (size_t)(stride) * (i)))

enum bp_data_value_flags {
    BP_DATA_INPUT = 1,  /* an input of the graph */
    BP_DATA_OUTPUT = 2, /* an output of the graph; an input or a constant may be one too */
    BP_DATA_FROZEN = 4, /* a constant whose contents never change: data and id are set */
    BP_DATA_STATE = 8,  /* memory that the app, or a node of the graph, may change between runs or
                           during one: a parameter that is not frozen, or an updated input */
    BP_DATA_SHAPE_ONLY = 16, /* only the type is known and needed: nodes read no element of it */
    BP_DATA_RETURNED = 32,   /* a result in whose memory an output lies: an output, or a value of
                                which one is a view. It must not become a view of another value */
};

/* A value: an input of the graph, a constant, or a result of a node. */
struct bp_data_value { /* rows */
    const char *name;      /* for messages, as those of nodes: a result is named after its node */
    const int64_t *shape;  /* rank extents; an extent below 0 is symbol -1 - extent */
    const int64_t *stride; /* of constants, in elements, as bp_view.stride; NULL: contiguous in
                              row-major order */

    /* Of a frozen constant: the contents, as the members of bp_view with these names. On a device
     * that is not BP_DEVICE_HOST_VISIBLE the host must not read them; the plugin copies them.
     * bytes: from the first element to the end of the last. id: a number that identifies this
     * memory with these contents in this process for ever, as bp_prep.constant; 0: unknown. */
    const void *data;
    const void *memory;
    uint64_t bytes, id;

    uint32_t dtype, rank;
    uint32_t layout; /* as bp_view.layout: 0 */
    uint32_t flags;  /* enum bp_data_value_flags */
    uint32_t node;   /* of a result: the node, else BP_DATA_NONE */
    uint32_t output; /* of a result: its number among the node's outputs */
};

enum bp_data_node_flags {
    BP_DATA_RANDOM = 1, /* draws random numbers */
    BP_DATA_UPDATE = 2, /* updates an input in place: that of each output port of kind
                           BP_PORT_UPDATE; the output need not be present */
    BP_DATA_BOUND = 4,  /* extents of its results depend on data */
    BP_DATA_PINNED = 8, /* the app demands a certain kernel of the device */
    BP_DATA_FIXED = 16, /* belongs to the core or to another engine: it must stay as it is */
};

/* A node: one call of an operator. */
struct bp_data_node { /* rows */
    const char *name; /* as in the app's graph; nodes that the core made may share one */
    const char *op;   /* the operator's own name, not an alias */

    /* The operator, and the attribute struct at the full length that info states; attrs is NULL if
     * there is none. A reader that knows a shorter struct refuses a tail that is not zero bytes
     * (op.h); the core does so for the operators that an engine lists as known. */
    const struct bp_opinfo *info;
    const void *attrs;

    /* Numbers of values, in declared order, variadic groups flat; BP_DATA_NONE: absent. in_at,
     * out_at: index of the first value of each declared port; one more entry than ports. */
    const uint32_t *in, *out;
    const uint16_t *in_at, *out_at;
    uint32_t n_in, n_out;
    uint32_t flags;  /* enum bp_data_node_flags */
    uint32_t source; /* number of a node of the app's graph that this node computes or replaces;
                        BP_DATA_NONE: none */
};

/* An extent that is not one number. Reserved: graphs have no symbols yet. */
struct bp_data_symbol { /* rows */
    const char *name;
    int64_t min, usual, max, step;
};

/* A graph. Nodes are in an order in which they can run. */
struct bp_graph_data { /* parameters */
    size_t size;
    const struct bp_data_value *value;
    const struct bp_data_node *node;
    const struct bp_data_symbol *symbol;
    size_t n_value, value_stride, n_node, node_stride, n_symbol, symbol_stride;

    /* Numbers of the values that a run gets, and of those that it must produce, in order. Constants
     * that are not frozen are not among the inputs of the app's graph, but of a group's graph. */
    const uint32_t *in, *out;
    uint32_t n_in, n_out;

    /* Pairs of nodes, first and second, n_before of them: the first must run before the second,
     * because one of them updates memory that the other reads or updates. Order that follows from
     * results is not listed. */
    const uint32_t *before;
    uint32_t n_before;
    uint32_t device; /* the device of the plugin for which the graph is compiled */

    /* Identifies the graph: types, operators, attributes and links, and identities of neither names
     * nor contents of constants. Equal in each process for equal graphs of one version of the
     * core. */
    uint8_t hash[32];
};

#ifdef __cplusplus
}
#endif

#endif
