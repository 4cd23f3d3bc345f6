/* SPDX-License-Identifier: Apache-2.0 */
/* graph.h: recorded calls inside the core: values and nodes. */
#ifndef BP_GRAPH_PRIVATE_H
#define BP_GRAPH_PRIVATE_H

#include "../schema/op.h"

enum { BP_NO_VALUE = UINT32_MAX };

enum bp_value_kind { BP_VALUE_INPUT = 0, BP_VALUE_CONSTANT = 1, BP_VALUE_RESULT = 2 };

struct bp_value {
    struct bp_typed_view *type; /* dense; one block, so that symbolic tensors may point to it */
    char *name;                 /* own, unique in the graph */
    uint32_t kind;              /* enum bp_value_kind */
    uint32_t node, output;      /* of a result: who makes it */
    struct bp_tensor *constant; /* a reference */
};

struct bp_node {
    const struct bp_opdef *row;
    void *attrs;                  /* own, or NULL */
    char *name;                   /* own, unique in the graph */
    char *kernel;                 /* own: the only row that will do; NULL: the best */
    uint32_t *in, *out;           /* values; BP_NO_VALUE: absent */
    uint32_t n_in, n_out, want;
    uint32_t dtype[BP_VAR_COUNT], bound; /* as in bp_invocation */
    uint16_t in_at[BP_PORT_MAX + 1], out_at[BP_PORT_MAX + 1];
};

struct bp_graph {
    struct bp_scope scope; /* first: a graph is found by its scope */
    _Atomic uint32_t refs; /* the app's, and one for each symbolic tensor */
    struct bp_core *core;  /* a reference; NULL: a short-lived graph of the core's own */
    struct bp_value *value;
    struct bp_node *node;
    uint32_t *input, *output; /* values, in the order of their making */
    uint32_t n_value, n_node, n_input, n_output;
    uint32_t room_value, room_node, room_input, room_output;
    void *names; /* of its values, where it has a core; a tree of tsearch */
    _Atomic uint32_t programs; /* made of it: while there are any, nothing of it changes */
};

static inline bool bp_graph_is(const struct bp_graph *graph)
{
    return bp_magic_is(graph ? graph->scope.magic : 0, BP_MAGIC_GRAPH);
}

/* A graph without a core: for expansions. */
enum bp_status bp_graph_make(struct bp_graph **out_graph);
/* Refuses what would change a graph that has programs. what: the call or operator. */
enum bp_status bp_graph_check_open(const char *what, const struct bp_graph *graph);
void bp_graph_retain(struct bp_graph *graph);
void bp_graph_release(struct bp_graph *graph);
/* The symbolic tensor of a value, which has a reference to the graph. */
enum bp_status bp_graph_symbol(struct bp_graph *graph, uint32_t value,
                               struct bp_tensor **out_tensor);

/* names.c: the names of values are different ones, but in a graph without a core, where nobody sees
 * them. give: a copy of name, which is not taken, in place of the one that v has. */
bool bp_graph_has_name(const struct bp_graph *graph, const char *name);
enum bp_status bp_graph_give_name(struct bp_graph *graph, struct bp_value *v, const char *name);
void bp_graph_drop_name(struct bp_graph *graph, struct bp_value *v);
void bp_graph_forget_names(struct bp_graph *graph);

/* op/record.c: a new value with a symbolic tensor for it. */
enum bp_status bp_graph_add_input(struct bp_graph *graph, const char *name,
                                  const struct bp_type *type, struct bp_tensor **out_tensor);

/* A call becomes a node: results are symbolic tensors, NULL where not wanted. */
enum bp_status bp_graph_trace(struct bp_graph *graph, const struct bp_call *call,
                              struct bp_tensor **out, size_t n_out, const uint8_t *want);

/* The value that a tensor stands for; a real tensor becomes a constant. */
enum bp_status bp_graph_value_of(struct bp_graph *graph, struct bp_tensor *tensor,
                                 uint32_t *out_value);

/* Records what an operator is defined in, on new inputs: one for each of n_in views that is not
 * NULL, in order. want: bit of each output; out_value: their values. */
enum bp_status bp_graph_trace_decomposed(struct bp_graph *graph, const struct bp_opdef *row,
                                         const void *attrs, const struct bp_view *const *in,
                                         uint32_t n_in, uint32_t want, uint32_t *out_value);

/* execute.c. Whether a graph can be run with these tensors; and a run with ones that were checked.
 */
enum bp_status bp_graph_check(const char *call, const struct bp_graph *graph,
                              struct bp_tensor *const *in, size_t n_in,
                              struct bp_tensor *const *out, size_t n_out);
enum bp_status bp_graph_execute(const struct bp_graph *graph, struct bp_stream *stream,
                                struct bp_tensor *const *in, struct bp_tensor **out);

/* The arguments of a node's call: in are its inputs, flat. */
static inline void bp_node_args(const struct bp_node *node, struct bp_tensor *const *in,
                                struct bp_arg *out_args)
{
    for (uint32_t p = 0; p < node->row->info.n_in; p++)
        out_args[p] = (struct bp_arg){in + node->in_at[p],
                                      (size_t)(node->in_at[p + 1] - node->in_at[p])};
}

/* op/gradient.c: a graph gone through backwards, where each of its values has a tensor, and the
 * gradient of a value is the sum of what its readers give back. The tensors are of scope: a
 * stream's, or of a graph, this one too. Of each value of graph: */
struct bp_sweep {
    struct bp_scope *scope;
    struct bp_graph *graph;
    struct bp_tensor **value; /* a reference, or NULL: no node that is looked at has it */
    struct bp_tensor **d;     /* its gradient so far: a reference, or NULL: zero */
    bool *wanted;             /* something whose gradient is asked for is behind it */
};

/* A node as a call on the tensors of its values. */
struct bp_node_call {
    struct bp_tensor *in[BP_FLAT_MAX], *out[BP_FLAT_MAX], *dy[BP_FLAT_MAX], *dx[BP_FLAT_MAX];
    uint8_t want[BP_FLAT_MAX], want_out[BP_FLAT_MAX];
    struct bp_arg arg[BP_PORT_MAX];
    struct bp_call call;
};

/* Room for the values that the graph has; the lists are NULL and zero where it fails. */
enum bp_status bp_sweep_init(struct bp_sweep *sweep, struct bp_scope *scope,
                             struct bp_graph *graph);
void bp_sweep_finish(struct bp_sweep *sweep, uint32_t n_value);
void bp_sweep_call(const struct bp_sweep *sweep, const struct bp_node *node,
                   struct bp_node_call *out_call);

/* Adds a gradient, whose reference it takes (NULL: zero), to that of a value. */
enum bp_status bp_sweep_add(struct bp_sweep *sweep, uint32_t value, struct bp_tensor *d);

/* One node: gives the gradients of its results back to its inputs. Nothing where none came, or
 * nothing behind it is wanted. */
enum bp_status bp_sweep_node(struct bp_sweep *sweep, const struct bp_node *node,
                             struct bp_node_call *room);

/* Whether a value has gradients. */
bool bp_value_is_smooth(const struct bp_graph *graph, uint32_t value);

/* Fills a site for a node on a device, but for its inputs. Its attributes stay the node's. */
void bp_node_invocation(const struct bp_graph *graph, const struct bp_node *node,
                        struct bp_device *device, struct bp_invocation *site);

#endif
