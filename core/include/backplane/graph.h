/* SPDX-License-Identifier: Apache-2.0 */
/* graph.h: records operator calls in a graph instead of running them. The calls are the same ones,
 * with the graph's scope in place of a stream's scope. Tensors of a graph are symbolic: they have a
 * dtype and a shape, but no memory. A graph belongs to no device; it can run on any device. */
#ifndef BP_GRAPH_H
#define BP_GRAPH_H

#include <backplane/api.h>
#include <backplane/call.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

struct bp_graph;

/* Creates an empty graph. One thread records at a time; a complete graph may run on several threads
 * at the same time. A graph that has programs (program.h) cannot change: each call that would
 * change it is refused (BP_ERR_INVALID). A symbolic tensor keeps its graph alive. */
BP_API enum bp_status bp_graph_create(struct bp_core *core, struct bp_graph **out_graph);
BP_API void bp_graph_destroy(struct bp_graph *graph);

/* Returns the graph as a target of operator calls: the graph records them. NULL for no graph. */
BP_API struct bp_scope *bp_graph_scope(struct bp_graph *graph);

/* Adds an input to the graph; each run passes a tensor for it. name: unique in the graph; NULL: the
 * graph makes a name. If a recorded call gets a real tensor, that tensor becomes a constant of the
 * graph, and the graph keeps it alive.
 *
 * If an input of an operator supplies an attribute (`bp_op_reshape(scope, x, shape, ...)`), a real
 * tensor is read while the call is recorded, and its values become the node's attribute: later
 * writes to the tensor do not change the graph, and the graph does not keep the tensor. No stream
 * orders this read: the call waits for all work of the tensor's device, and returns a failure of
 * that work (a wait of BP_BLOCK_HOST_VALUE, which is counted unless the device is inline and its
 * work has ended). A symbolic tensor is refused there (BP_ERR_UNSUPPORTED), because shapes depend
 * on its value. */
BP_API enum bp_status bp_graph_input(struct bp_graph *graph, const char *name, enum bp_dtype dtype,
                                     uint32_t rank, const int64_t *shape,
                                     struct bp_tensor **out_tensor);

/* Makes a value of the graph its next output, under a name (NULL: the value keeps its name). */
BP_API enum bp_status bp_graph_output(struct bp_graph *graph, struct bp_tensor *tensor,
                                      const char *name);

/* Names a value, and the node that computes it. Without this call a node is named after its
 * operator and its number, "conv_3", and its first result has the name of the node. BP_ERR_INVALID:
 * another value has the name. */
BP_API enum bp_status bp_graph_name(struct bp_graph *graph, struct bp_tensor *tensor,
                                    const char *name);

/* Runs the graph on stream, node by node in the order of recording. in: one tensor for each input,
 * of its dtype and shape. out: one entry for each output: NULL, and the call makes a new tensor, or
 * a tensor that the call writes. That tensor may share memory with inputs, which the graph reads
 * first, but must not overlap another output. A tensor that the call makes is a new reference,
 * which the caller destroys: a reference to the input itself if the output is an input, to memory
 * of an input if the output is a view of that input. A failure names the node; a failure that an
 * asynchronous stream finds later names launches by their operators. Constants must lie on the
 * stream's device. */
BP_API enum bp_status bp_graph_run(struct bp_graph *graph, struct bp_stream *stream,
                                   struct bp_tensor *const *in, size_t n_in,
                                   struct bp_tensor **out, size_t n_out);

/* Records the gradients of a recorded graph: with L = the sum of dy[i] y[i] over all elements and
 * all i, out_dx[i] is dL/dx[i]. y: n_y values of the graph. dy: for each of them a tensor of its
 * dtype and shape, either symbolic or real (a constant of the graph then), or NULL: zero. x: n_x
 * values, inputs and results alike, or real tensors that calls of the graph have used. out_dx: n_x
 * entries; each is set to a symbolic tensor, which the caller destroys, or to NULL if the gradient
 * is zero. Two entries may be the same tensor, and an entry may be the tensor of a dy.
 *
 * The graph does not run: nodes are appended to it, made by the operators' gradient rules, and
 * these nodes are recorded calls like any other. Gradients of gradients are therefore another call.
 * Nodes between an x and a y may return more of their operators' optional outputs afterwards: those
 * that gradient rules read, such as the statistics of norms.
 * Values that are neither floats nor complex (indices, masks, counts) do not change with x: no
 * gradient passes through them.
 *
 * BP_ERR_UNSUPPORTED: an operator between an x and a y has no gradient; the message names the node.
 * BP_ERR_INVALID: an argument is wrong, or a recorded update (bp_op_sgd) overwrites a value that
 * the gradients need: call this function before the update is recorded. After a failure, nodes that
 * were appended before it may remain; no other node reads them. */
BP_API enum bp_status bp_graph_gradient(struct bp_graph *graph, struct bp_tensor *const *y,
                                        struct bp_tensor *const *dy, size_t n_y,
                                        struct bp_tensor *const *x, size_t n_x,
                                        struct bp_tensor **out_dx);

struct bp_graph_info { /* output struct: set size before the call */
    size_t size;
    uint32_t values, nodes, inputs, outputs;
};
BP_API enum bp_status bp_graph_get_info(struct bp_graph *graph, struct bp_graph_info *out);

/* Describe the value and the node with number index. Pointers in *out are valid as long as the
 * graph lives, and until the next call is recorded. */
struct bp_value_info { /* output struct: set size before the call */
    size_t size;
    const char *name;
    const int64_t *shape;
    uint32_t dtype, rank;
    uint32_t kind; /* 0: an input, 1: a constant, 2: the result of a node */
    uint32_t node; /* the node that computes the value, or UINT32_MAX */
    struct bp_tensor *constant; /* the tensor of a constant, or NULL; no reference is taken */
    uint32_t output; /* the first output of the graph that is this value, or UINT32_MAX */
    uint32_t zero;   /* 0 */
};
BP_API enum bp_status bp_graph_value(struct bp_graph *graph, uint32_t index,
                                     struct bp_value_info *out);

/* Returns the symbolic tensor of output number index. The caller destroys it. */
BP_API enum bp_status bp_graph_output_symbol(struct bp_graph *graph, uint32_t index,
                                             struct bp_tensor **out_tensor);

struct bp_node_info { /* output struct: set size before the call */
    size_t size;
    const char *name, *op;
    const void *attrs;        /* the operator's attribute struct; NULL if it has none */
    const uint32_t *in, *out; /* value numbers, flat in declared order; UINT32_MAX if absent */
    uint32_t n_in, n_out;
    const char *kernel; /* the only kernel row that may run it (see bp_call); NULL: the best */
};
BP_API enum bp_status bp_graph_node(struct bp_graph *graph, uint32_t index,
                                    struct bp_node_info *out);

/* One operator of the decomposition of a call. */
struct bp_part { /* output struct; the library sets size */
    size_t size;
    const struct bp_opinfo *op;
    uint32_t dtype[BP_VAR_COUNT]; /* the dtype of each type variable that bound names */
    uint32_t bound;               /* bit of each type variable that has a dtype */
    uint32_t zero;                /* 0 */
};

/* Receives one part. Returns true if the part is to be decomposed too, in case its operator is
 * defined in other operators. */
typedef bool bp_part_visitor(void *ctx, const struct bp_part *part);

/* Calls visitor(ctx, part) for each operator into which a call decomposes (BP_FALLBACK_DECOMPOSE),
 * in the order in which these would run, on the calling thread; the operators into which a part is
 * decomposed follow immediately after that part. The function queries no device, runs nothing, and
 * records nothing on graph. call: its tensors are values of graph, which have dtypes and shapes, or
 * real tensors. want: n_want entries as in bp_call_run; NULL and 0: all outputs. Some copies are
 * parts, with the operator assign: a copy of a result that is an input, another output or a view,
 * and a copy of strides that do not allow a view. Copies for kernels that accept only dense tensors
 * are not parts, because only the device knows whether they are needed. The visitor's arguments are
 * valid until it returns.
 *
 * BP_ERR_INVALID: an argument is wrong, or the operator is not defined in other operators. */
BP_API enum bp_status bp_graph_decompose(struct bp_graph *graph, const struct bp_call *call,
                                         const uint8_t *want, size_t n_want,
                                         bp_part_visitor *visitor, void *ctx);

#ifdef __cplusplus
}
#endif

#endif
