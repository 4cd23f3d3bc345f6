/* SPDX-License-Identifier: Apache-2.0 */
/* ir.h: declares the intermediate representation (IR) of the compiler: a copy of a graph that
 * passes rewrite before it is lowered to a schedule. The graph itself stays as it was recorded.
 *
 * Nodes are in a list whose order is an order of execution. An edit adds values and nodes and marks
 * nodes as dead; numbers of values and nodes never change. */
#ifndef BP_IR_H
#define BP_IR_H

#include "../graph/graph.h"

#include <stdio.h>

/* The kind of a value without memory: it stands for a type, as input of nodes that read nothing
 * else of a value. Other kinds: enum bp_value_kind. */
enum { BP_VALUE_SHAPE = 3 };

struct bp_ir_value {
    struct bp_typed_view *type; /* owned; dense, or in a layout of the plugin (view.layout) */
    uint32_t kind;              /* enum bp_value_kind, or BP_VALUE_SHAPE */
    uint32_t node, output;      /* of a result: the node and its output */
    uint32_t input;             /* of an input: its number */
    uint32_t uses;              /* inputs of living nodes, and outputs, that are this value */
    uint32_t same;              /* the value that replaces this one; its own number: none does */
    uint32_t root;              /* the value whose memory it is a view of or updates; its own
                                   number: it has its own memory */
    bool updated;               /* of a root: a node updates its memory */
    bool returned;              /* of a root: an output of the graph lies in its memory */
    bool folded;                /* a constant that the compiler computed: see folded.h */
    bool sourced;               /* a constant whose contents may be freed: see source.h */
    bool unread;                /* a folded or sourced constant that launches do not read */
    bool read;                  /* passes have read the contents of the constant */
    struct bp_tensor *constant; /* a reference */
};

struct bp_prepared; /* call/prepared.h */
struct bp_ir_node {
    struct bp_node call;     /* owns its attributes, lists and names, as in a graph */
    uint32_t previous, next; /* in the order of execution; BP_NO_VALUE: none */
    bool dead;
    bool made; /* by a pass */
    uint64_t random_at; /* of a random node: the blocks of random numbers that the recorded nodes
                           before it draw */
    const char **source; /* owned: the names of the recorded nodes that this node replaces; the
                            recorded nodes own the texts. Empty: its own name only */
    uint32_t n_source;
    char *prefer; /* owned: the kernel row to try first, or NULL */
    struct bp_prepared *prepared; /* of a node that an engine runs (engine.h): a reference to its
                                     call; else NULL */
};

/* The work of a pass. */
struct bp_ir_pass {
    uint32_t changes; /* nodes that it removed or replaced */
    uint32_t nodes;   /* living nodes after it */
    bool ran;         /* false: BP_PASSES leaves it out */
};
enum { BP_IR_PASSES = 88 }; /* the most passes, of the core and of one plugin */

struct bp_template;      /* templates.h */
struct bp_engine_report; /* engine.h */
struct bp_engine_donors;
struct bp_cancel;
struct bp_ir {
    struct bp_device *device; /* its owner keeps it alive */
    struct bp_ir_value *value;
    struct bp_ir_node *node;
    uint32_t *input, *output; /* numbers of values */
    uint32_t n_value, n_node, n_input, n_output, room_value, room_node;
    uint32_t first, last; /* nodes */
    uint32_t living;      /* nodes that are not dead */
    uint32_t recorded;    /* nodes of the graph */
    uint32_t allow;       /* enum bp_allow, for the choice of kernels */
    uint64_t random_blocks; /* blocks of random numbers that the recorded nodes draw together */
    struct bp_graph *lent; /* an empty graph for the next replacement, or NULL: bp_ir_take_graph */
    bool edited;          /* since bp_ir_resolve, by a function of ir_edit.c */
    bool shaped;          /* a plugin's pattern looked at extents: for others it may do otherwise */
    bool *dense; /* of each output: it was row-major when a pass chose layouts, so that lowering
                    copies it if it is not; NULL: outputs stay as they are computed */
    struct bp_ir_pass pass[BP_IR_PASSES]; /* of each pass of passes.c */
    struct bp_engine_report *engines; /* owned; NULL: the device has no engine */
    const struct bp_cancel *cancel; /* cancel.h, during a compilation; or NULL */
    const struct bp_engine_donors *donors; /* until the passes have run: groups of another program;
                                              or NULL */
    struct bp_template *of; /* a reference: the template from which this was made, to which all
                               types, attributes, lists and texts belong that are equal there; NULL:
                               all are owned */
};

/* Copies a graph. */
enum bp_status bp_ir_create(const struct bp_graph *graph, struct bp_device *device,
                            struct bp_ir **out_ir);
void bp_ir_destroy(struct bp_ir *ir);
/* Makes a value the user of a constant. Takes over the reference. */
void bp_ir_set_constant(struct bp_ir_value *value, struct bp_tensor *constant);
/* Drops the reference to a constant that the program does not read any more. */
void bp_ir_forget_constant(struct bp_ir_value *value);
/* Drops the references to constants. The representation can be described and destroyed only. */
void bp_ir_drop_constants(struct bp_ir *ir);
/* Frees the graph that bp_ir_return_graph keeps. */
void bp_ir_drop_graph(struct bp_ir *ir);

/* Fills an invocation for a node, except its inputs and its kernel. The attributes still belong to
 * the node. Outputs in a layout are given. */
void bp_ir_invocation(const struct bp_ir *ir, const struct bp_node *node,
                      struct bp_invocation *inv);

/* ir_edit.c. bp_ir_kill marks a node as dead: it reads nothing any more. Its results must have no
 * uses, or become results of other nodes. */
void bp_ir_kill(struct bp_ir *ir, uint32_t node);

/* Makes a node read another value of the same type as input i of its flat list. */
void bp_ir_set_input(struct bp_ir *ir, uint32_t node, uint32_t i, uint32_t value);

/* Replaces all uses of a value by another one of the same type. */
void bp_ir_forward(struct bp_ir *ir, uint32_t value, uint32_t by);

/* Moves a node before another one in the order of execution. */
void bp_ir_move_before(struct bp_ir *ir, uint32_t node, uint32_t before);

/* Makes a list of all living nodes the order of execution. */
void bp_ir_set_order(struct bp_ir *ir, const uint32_t *node, uint32_t n);

/* Inserts the nodes of a graph that was recorded for this purpose before node `before`
 * (BP_NO_VALUE: at the end), and kills the n_kill nodes of `kill`. in: the IR's value for each
 * input of the graph. out: the IR's value that each output of the graph replaces, which killed
 * nodes produced. The graph gives its nodes away and must be destroyed. Types must agree, which the
 * caller has checked. The IR does not change if it fails. */
enum bp_status bp_ir_splice(struct bp_ir *ir, struct bp_graph *graph, uint32_t before,
                            const uint32_t *in, const uint32_t *out, const uint32_t *kill,
                            uint32_t n_kill);

/* Inserts a node that computes the results of the n_kill nodes of `kill`, which are killed, before
 * the first of them: they are contiguous in the order of execution. The node takes over the lists
 * and the name of `call`, and the reference to `prepared`. The IR does not change if it fails. */
enum bp_status bp_ir_replace(struct bp_ir *ir, const struct bp_node *call,
                             struct bp_prepared *prepared, const uint32_t *kill, uint32_t n_kill);

/* Returns an empty graph without a core, in which a pass records nodes. bp_ir_return_graph: the IR
 * keeps the graph for the next call, so that not each replacement allocates one; all tensors of the
 * graph have been destroyed. */
enum bp_status bp_ir_take_graph(struct bp_ir *ir, struct bp_graph **out_graph);
void bp_ir_return_graph(struct bp_ir *ir, struct bp_graph *graph);

/* Replaces a node by its decomposition for inputs of these types; the row has one. *out_forwards: a
 * result is an input or a view of one, so that bp_ir_resolve must be called. */
enum bp_status bp_ir_expand(struct bp_ir *ir, uint32_t node, const struct bp_view *const *in,
                            bool *out_forwards);

/* Replaces forwarded values everywhere by those that replace them, and finds the roots. Each pass
 * ends with it. */
void bp_ir_resolve(struct bp_ir *ir);

/* Finds the roots of all values, and which of them are updated or returned. */
void bp_ir_find_roots(struct bp_ir *ir);
/* Finds those of the results of one node, whose inputs have theirs. */
void bp_ir_find_roots_of(struct bp_ir *ir, uint32_t node);

/* The value that replaces value v, or v itself. */
static inline uint32_t bp_ir_same(const struct bp_ir *ir, uint32_t v)
{
    while (ir->value[v].same != v) v = ir->value[v].same;
    return v;
}

/* Whether the memory of a value never changes while the program runs, so that readers may move. */
static inline bool bp_ir_is_stable(const struct bp_ir *ir, uint32_t v)
{
    return !ir->value[ir->value[v].root].updated;
}

/* Whether the contents of a value are known when the graph is compiled. */
static inline bool bp_ir_is_frozen(const struct bp_ir *ir, uint32_t v)
{
    const struct bp_tensor *t = ir->value[v].constant;

    return t && t->view.flags & BP_VIEW_CONSTANT;
}

/* Whether an input or output of a node is in a layout of the plugin. */
static inline bool bp_ir_has_layouts(const struct bp_ir *ir, const struct bp_node *node)
{
    for (uint32_t i = 0; i < node->n_in; i++)
        if (node->in[i] != BP_NO_VALUE && ir->value[bp_ir_same(ir, node->in[i])].type->view.layout)
            return true;
    for (uint32_t i = 0; i < node->n_out; i++)
        if (node->out[i] != BP_NO_VALUE && ir->value[node->out[i]].type->view.layout) return true;
    return false;
}

/* Whether a node only computes its results from its inputs: it updates nothing and draws no random
 * numbers, and its results' extents do not depend on data. */
extern struct bp_opdef bp_engine_row; /* engine.h: two such nodes are never equal */
static inline bool bp_ir_is_pure(const struct bp_node *node)
{
    return !node->row->random && !node->row->updates && !node->row->bound &&
           node->row != &bp_engine_row;
}

/* ir_source.c: which nodes of the graph a node of the IR replaces, for reports. Lists that there is
 * no memory for stay as they were. bp_ir_add_sources adds those of node `from` to those of `to`. */
void bp_ir_add_sources(struct bp_ir *ir, uint32_t to, uint32_t from);
/* Returns the list of a node, which has at least one name. */
const char *const *bp_ir_sources(const struct bp_ir *ir, uint32_t node, uint32_t *out_n);

/* ir_verify.c: checks the representation: BP_ERR_INTERNAL, with what is wrong. */
enum bp_status bp_ir_verify(const struct bp_ir *ir);

/* ir_text.c: writes the representation as text, one node a line, or as a graph for Graphviz. */
void bp_ir_print(const struct bp_ir *ir, FILE *to);
void bp_ir_print_dot(const struct bp_ir *ir, FILE *to);

#endif
