/* SPDX-License-Identifier: Apache-2.0 */
/* graph.h: declares graphs inside the core: recorded calls (nodes), their values, and the backward
 * sweep for gradients. */
#ifndef BP_GRAPH_PRIVATE_H
#define BP_GRAPH_PRIVATE_H

#include "../schema/op.h"

enum { BP_NO_VALUE = UINT32_MAX };

enum bp_value_kind { BP_VALUE_INPUT = 0, BP_VALUE_CONSTANT = 1, BP_VALUE_RESULT = 2 };

struct bp_value {
    struct bp_typed_view *type; /* dense; allocated separately, so that symbolic tensors may point
                                   to it */
    char *name;                 /* owned, unique in the graph; NULL in a graph without a core */
    uint32_t kind;              /* enum bp_value_kind */
    uint32_t node, output;      /* of a result: the node and its output */
    struct bp_tensor *constant; /* a reference */
};

struct bp_node {
    const struct bp_opdef *row;
    void *attrs;                  /* owned, or NULL */
    char *name;                   /* owned, unique in the graph; NULL in a graph without a core */
    char *kernel;                 /* owned: the only kernel row to use; NULL: the best one */
    uint32_t *in, *out;           /* numbers of values; BP_NO_VALUE: absent */
    uint32_t n_in, n_out, want;
    uint32_t dtype[BP_VAR_COUNT], bound; /* as in bp_invocation */
    uint16_t in_at[BP_PORT_MAX + 1], out_at[BP_PORT_MAX + 1];
};

struct bp_graph {
    struct bp_scope scope; /* first: a graph is found by its scope */
    _Atomic uint32_t refs; /* references: the app's, and one for each symbolic tensor */
    struct bp_core *core;  /* a reference; NULL: a short-lived graph inside the core */
    struct bp_value *value;
    struct bp_node *node;
    uint32_t *input, *output; /* numbers of values, in the order of creation */
    uint32_t n_value, n_node, n_input, n_output;
    uint32_t room_value, room_node, room_input, room_output;
    struct bp_name_entry *name; /* the names of its values, if it has a core: names.c */
    uint32_t n_name, room_name;
    struct bp_constant_entry *constant; /* its tensors with their values: constants.c */
    uint32_t n_constant, room_constant;
    _Atomic uint32_t programs; /* programs of this graph: while there are any, the graph does not
                                  change */
    struct bp_graph *lender; /* a reference: the graph to which all types, names, attributes and
                                lists belong that are equal there; NULL: all are owned */
};

static inline bool bp_graph_is(const struct bp_graph *graph)
{
    return bp_magic_is(graph ? graph->scope.magic : 0, BP_MAGIC_GRAPH);
}

/* Creates a graph without a core, for decompositions. */
enum bp_status bp_graph_make(struct bp_graph **out_graph);
/* Returns an error if the graph has programs and so must not change. `what`: the call or
 * operator. */
enum bp_status bp_graph_check_open(const char *what, const struct bp_graph *graph);
void bp_graph_retain(struct bp_graph *graph);
void bp_graph_release(struct bp_graph *graph);
/* Removes all values and nodes of a graph without a core, and keeps its lists for the next ones.
 * false: tensors of the graph are left, so that the graph stays as it is. */
bool bp_graph_clear(struct bp_graph *graph);
/* Makes a copy, which never changes and which borrows what it can. Its types and attributes may be
 * replaced by allocated ones before others see it. */
enum bp_status bp_graph_borrow(struct bp_graph *lender, struct bp_graph **out_graph);
/* Creates the symbolic tensor of a value; the tensor has a reference to the graph. */
enum bp_status bp_graph_symbol(struct bp_graph *graph, uint32_t value,
                               struct bp_tensor **out_tensor);

enum { BP_GRAPH_NAME = 96 }; /* bytes of a name that the core generates */

/* names.c: names of values are unique. A graph without a core has none, because no app sees them.
 * bp_graph_give_name: sets a copy of name, which is not in use, as the name of v. Only a graph with
 * a core may be passed. */
bool bp_graph_has_name(const struct bp_graph *graph, const char *name);
enum bp_status bp_graph_give_name(struct bp_graph *graph, struct bp_value *v, const char *name);
void bp_graph_drop_name(struct bp_graph *graph, struct bp_value *v);
void bp_graph_forget_names(struct bp_graph *graph);
/* Generates a name such as "conv_3" from a word and a number; if it is in use, with a higher
 * number. */
void bp_graph_own_name(const struct bp_graph *graph, const char *what, uint32_t number,
                       char text[BP_GRAPH_NAME]);

/* constants.c: finds the value of a constant by its tensor. bp_graph_note_constant adds the value,
 * whose tensor is set; bp_graph_drop_constant forgets the value. */
bool bp_graph_find_constant(const struct bp_graph *graph, const struct bp_tensor *tensor,
                            uint32_t *out_value);
enum bp_status bp_graph_note_constant(struct bp_graph *graph, uint32_t value);
void bp_graph_drop_constant(struct bp_graph *graph, const struct bp_tensor *tensor);
void bp_graph_forget_constants(struct bp_graph *graph);

/* call/trace.c: adds an input value, and creates a symbolic tensor for it. */
enum bp_status bp_graph_add_input(struct bp_graph *graph, const char *name,
                                  const struct bp_type *type, struct bp_tensor **out_tensor);

/* Records a call of an operator as a node: the results are symbolic tensors, NULL if not wanted. */
enum bp_status bp_graph_trace(struct bp_graph *graph, const struct bp_opdef *row,
                              const struct bp_call *call, struct bp_tensor **out, size_t n_out,
                              const uint8_t *want);

/* Makes a value an output of the graph. */
enum bp_status bp_graph_add_result(struct bp_graph *graph, uint32_t value);

/* Lets a node return the optional output i, which its call left out: adds the value. */
enum bp_status bp_graph_add_output(struct bp_graph *graph, uint32_t node, uint32_t i);

/* Returns the value that a symbolic tensor represents; a real tensor becomes a constant. */
enum bp_status bp_graph_value_of(struct bp_graph *graph, struct bp_tensor *tensor,
                                 uint32_t *out_value);

/* Records the decomposition of an operator, on new inputs: one for each of the n_in views that is
 * not NULL, in order. want: bit of each output; out_value: the values of the outputs. */
enum bp_status bp_graph_trace_decomposed(struct bp_graph *graph, const struct bp_opdef *row,
                                         const void *attrs, const struct bp_view *const *in,
                                         uint32_t n_in, uint32_t want, uint32_t *out_value);

/* execute.c. bp_graph_check: checks whether a graph can run with these tensors. bp_graph_execute:
 * runs it with tensors that were checked. */
enum bp_status bp_graph_check(const char *call, const struct bp_graph *graph,
                              struct bp_tensor *const *in, size_t n_in,
                              struct bp_tensor *const *out, size_t n_out);
enum bp_status bp_graph_execute(const struct bp_graph *graph, struct bp_stream *stream,
                                struct bp_tensor *const *in, struct bp_tensor **out);

/* Fills the arguments of a node's call; in: its inputs as a flat list. */
static inline void bp_node_args(const struct bp_node *node, struct bp_tensor *const *in,
                                struct bp_arg *out_args)
{
    for (uint32_t p = 0; p < node->row->info.n_in; p++)
        out_args[p] = (struct bp_arg){in + node->in_at[p],
                                      (size_t)(node->in_at[p + 1] - node->in_at[p])};
}

/* Whether a node reads only the shape and dtype of input i of its flat list. */
static inline bool bp_node_reads_shape(const struct bp_node *node, uint32_t i)
{
    return bp_reads_shape(node->row, node->in_at, i);
}

/* autodiff/call_gradient.c: a backward sweep over a graph. Each value of the graph has a tensor,
 * and the gradient of a value is the sum of the gradients that its reading nodes contribute. The
 * tensors belong to `scope`: to a stream, or to a graph, which may be this one. The arrays have one
 * element for each value of the graph: */
struct bp_sweep {
    struct bp_scope *scope;
    struct bp_graph *graph;
    struct bp_tensor **value; /* a reference, or NULL: no visited node needs it */
    struct bp_tensor **d;     /* its gradient so far: a reference, or NULL: zero */
    bool *wanted;             /* it depends on a value whose gradient is requested */
};

/* A node as a call on the tensors of its values. */
struct bp_node_call {
    struct bp_tensor *in[BP_FLAT_MAX], *out[BP_FLAT_MAX], *dy[BP_FLAT_MAX], *dx[BP_FLAT_MAX];
    uint8_t want[BP_FLAT_MAX], want_out[BP_FLAT_MAX];
    struct bp_arg arg[BP_PORT_MAX];
    struct bp_call call;
};

/* Allocates arrays for the values that the graph has now. If it fails, the arrays are NULL. */
enum bp_status bp_sweep_init(struct bp_sweep *sweep, struct bp_scope *scope,
                             struct bp_graph *graph);
void bp_sweep_finish(struct bp_sweep *sweep, uint32_t n_value);
void bp_sweep_call(const struct bp_sweep *sweep, const struct bp_node *node,
                   struct bp_node_call *out_call);

/* Adds a gradient to that of a value, and takes over the reference (NULL: zero). */
enum bp_status bp_sweep_add(struct bp_sweep *sweep, uint32_t value, struct bp_tensor *d);

/* Processes one node: adds the gradients of its inputs, computed from those of its results. Does
 * nothing if no result has a gradient, or if no input needs one. */
enum bp_status bp_sweep_node(struct bp_sweep *sweep, const struct bp_node *node,
                             struct bp_node_call *room);

/* Whether a value can have a gradient: it is float or complex. */
bool bp_value_is_smooth(const struct bp_graph *graph, uint32_t value);

/* Fills an invocation for a node on a device, except its inputs and the types of its outputs. The
 * attributes still belong to the node. bp_invocation_set_type sets the type of output i.
 * bp_node_invocation does both for a node of a graph. */
void bp_invocation_of_node(const struct bp_node *node, struct bp_device *device,
                           struct bp_invocation *inv);
void bp_invocation_set_type(struct bp_invocation *inv, uint32_t i,
                            const struct bp_typed_view *type);
void bp_node_invocation(const struct bp_graph *graph, const struct bp_node *node,
                        struct bp_device *device, struct bp_invocation *inv);

#endif
