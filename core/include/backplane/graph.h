/* SPDX-License-Identifier: Apache-2.0 */
/* graph.h: a graph records operator calls instead of running them: the same calls, with the graph's
 * scope in place of a stream's. Their tensors are symbolic: they have a dtype and a shape, and no
 * memory. A graph belongs to no device; it runs on any. */
#ifndef BP_GRAPH_H
#define BP_GRAPH_H

#include <backplane/api.h>
#include <backplane/call.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

struct bp_graph;

/* One thread records at a time; a graph that is complete may run on several at once. One that has
 * programs (program.h) does not change: each call that would change it is refused (BP_ERR_INVALID).
 * A symbolic tensor keeps its graph alive. */
BP_API enum bp_status bp_graph_create(struct bp_core *core, struct bp_graph **out_graph);
BP_API void bp_graph_destroy(struct bp_graph *graph);

/* The graph as a place for operator calls: they are recorded. NULL for no graph. */
BP_API struct bp_scope *bp_graph_scope(struct bp_graph *graph);

/* A new input, which each run is given. name: unique in the graph, or NULL: one is made. A real
 * tensor that is given to a recorded call becomes a constant; the graph then keeps it alive.
 *
 * Where an input of an operator gives an attribute (`bp_op_reshape(scope, x, shape, ...)`), a real
 * tensor is read while the call is recorded, and its values become the node's attribute: what is
 * written to the tensor later does not change the graph, which does not keep it. No stream orders
 * that reading: it waits for all work of the tensor's device, and returns a failure of that work (a
 * wait of BP_BLOCK_HOST_VALUE, counted unless the device is inline and its work has ended). A
 * symbolic tensor is refused there (BP_ERR_UNSUPPORTED): shapes follow from its value. */
BP_API enum bp_status bp_graph_input(struct bp_graph *graph, const char *name, enum bp_dtype dtype,
                                     uint32_t rank, const int64_t *shape,
                                     struct bp_tensor **out_tensor);

/* A value of the graph is the next output of it, under a name (NULL: it keeps the one it has). */
BP_API enum bp_status bp_graph_output(struct bp_graph *graph, struct bp_tensor *tensor,
                                      const char *name);

/* Names a value, and the node that makes it. Without it a node is called by its operator and its
 * number, "conv_3", and its first result as the node. BP_ERR_INVALID: the name is taken. */
BP_API enum bp_status bp_graph_name(struct bp_graph *graph, struct bp_tensor *tensor,
                                    const char *name);

/* Runs the graph on stream, node by node in the order of recording. in: one tensor for each input,
 * of its dtype and shape. out: one entry for each output: NULL, and a new tensor is made, or a
 * tensor that is written; it may lie in memory of inputs, which the graph reads first, but not
 * overlap another output. A made one is a new reference, to be destroyed: to the input itself
 * where the output is an input, to memory of an input where it is a view of one. A failure names
 * the node; one that a native stream finds later names launches by their operators. Constants lie
 * on the stream's device. */
BP_API enum bp_status bp_graph_run(struct bp_graph *graph, struct bp_stream *stream,
                                   struct bp_tensor *const *in, size_t n_in,
                                   struct bp_tensor **out, size_t n_out);

/* The gradients of a recorded graph, recorded: with L = the sum of dy[i] y[i] over all elements and
 * all i, out_dx[i] is dL/dx[i]. y: n_y values of the graph. dy: for each a tensor of its dtype and
 * shape, symbolic, or real (a constant of the graph then), or NULL: zero. x: n_x values, inputs and
 * results alike, or real tensors that the graph has been given. out_dx: n_x entries, each set to a
 * symbolic tensor, to be destroyed, or to NULL where the gradient is zero; two may be one tensor,
 * and one may be that of a dy.
 *
 * The graph is not run: nodes are appended to it, made of the operators' gradient rules, and they
 * are recorded calls like any other. So gradients of gradients are another call. Values that are
 * neither floats nor complex (indices, masks, counts) do not change with x: no gradient goes
 * through them.
 *
 * BP_ERR_UNSUPPORTED: an operator between an x and a y has no gradient; the message names the node.
 * BP_ERR_INVALID: the arguments, or a value that is needed is written over by a recorded update
 * (bp_op_sgd): ask for gradients before that is recorded. After a failure nodes that were appended
 * before it may stay; nobody reads them. */
BP_API enum bp_status bp_graph_gradient(struct bp_graph *graph, struct bp_tensor *const *y,
                                        struct bp_tensor *const *dy, size_t n_y,
                                        struct bp_tensor *const *x, size_t n_x,
                                        struct bp_tensor **out_dx);

struct bp_graph_info { /* answer: set size before the call */
    size_t size;
    uint32_t values, nodes, inputs, outputs;
};
BP_API enum bp_status bp_graph_get_info(struct bp_graph *graph, struct bp_graph_info *out);

/* Value and node number index. What is pointed to lives as long as the graph, and until the next
 * call is recorded. */
struct bp_value_info { /* answer: set size before the call */
    size_t size;
    const char *name;
    const int64_t *shape;
    uint32_t dtype, rank;
    uint32_t kind; /* 0: an input, 1: a constant, 2: the result of a node */
    uint32_t node; /* that makes it, or UINT32_MAX */
    struct bp_tensor *constant; /* of a constant, or NULL; no reference is taken */
};
BP_API enum bp_status bp_graph_value(struct bp_graph *graph, uint32_t index,
                                     struct bp_value_info *out);

struct bp_node_info { /* answer: set size before the call */
    size_t size;
    const char *name, *op;
    const void *attrs;        /* the operator's attribute struct; NULL if it has none */
    const uint32_t *in, *out; /* values, flat in declared order; UINT32_MAX where absent */
    uint32_t n_in, n_out;
    const char *kernel; /* the only kernel row that will do (bp_call); NULL: the best */
};
BP_API enum bp_status bp_graph_node(struct bp_graph *graph, uint32_t index,
                                    struct bp_node_info *out);

/* An operator that a call decomposes into. */
struct bp_part { /* answer; size is set */
    size_t size;
    const struct bp_opinfo *op;
    uint32_t dtype[BP_VAR_COUNT]; /* of each type variable that bound has */
    uint32_t bound;               /* bit of each type variable that has a dtype */
    uint32_t zero;                /* 0 */
};

/* Whether the part is taken apart too, where it is defined in other operators. */
typedef bool bp_part_visitor(void *ctx, const struct bp_part *part);

/* Has visitor(ctx, part) called for each operator that a call decomposes into
 * (BP_FALLBACK_DECOMPOSE), in the order in which they would run, on the thread that calls; those
 * that a part is taken apart into come right behind it. No device is asked, nothing runs, and
 * nothing is recorded on graph. call: its tensors are values of graph, which have dtypes and
 * shapes, or real ones. want: n_want entries as in bp_call_run; NULL and 0: all outputs. Copies are
 * parts, assign: of a result that is an input, another output or a view, and where strides do not
 * allow a view. Those for kernels that take dense tensors only are none, for that is the device's
 * to know. What the visitor is given is valid until it returns.
 *
 * BP_ERR_INVALID: something about the arguments; the operator is not defined in others. */
BP_API enum bp_status bp_graph_decompose(struct bp_graph *graph, const struct bp_call *call,
                                         const uint8_t *want, size_t n_want,
                                         bp_part_visitor *visitor, void *ctx);

#ifdef __cplusplus
}
#endif

#endif
