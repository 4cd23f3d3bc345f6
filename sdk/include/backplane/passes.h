/* SPDX-License-Identifier: Apache-2.0 */
/* passes.h: defines interface 5 of a plugin: patterns, small graphs of operators that the compiler
 * of programs replaces by other ones, which may have operators of the plugin itself; and rewrite,
 * a pass of the plugin itself, which sees a whole graph.
 *
 * A pattern is data: values, nodes that read and compute them (the part to find), and nodes of the
 * result. The core does the work: it finds matches, checks that the replacement is allowed, and
 * replaces them. A plugin cannot skip these checks:
 *   - values that the result does not compute have no reader outside the match, and are no output
 *     of the graph; no node outside the match lies on a path between two nodes of the match;
 *   - nothing updates the values of the match; its nodes draw no random numbers, have no extents
 *     that depend on data, and are not bound to a kernel that the app named;
 *   - the result has the dtypes and shapes of the values that it replaces;
 *   - the device runs the result: a row of its kernels accepts each node whose operator has no
 *     decomposition.
 * A match that fails a check stays as it is.
 *
 * The core checks each pattern when it loads the plugin. A pattern that is wrong is not used, and
 * neither is one with an operator that this version of the core lacks; `bp passes DEVICE` says why.
 * The plugin and its other patterns work.
 *
 * Each pattern is a pass of its own, PLUGIN.PATTERN: BP_PASSES=-PLUGIN.PATTERN leaves it out, and
 * BP_VALIDATE=passes-values compares the results of programs with and without it. The recorded
 * graph stays as it was: `bp run --verify` compares with it, and gradients are those of the
 * recorded operators. */
#ifndef BP_PASSES_H
#define BP_PASSES_H

#include <backplane/graph_data.h>
#include <backplane/kernel.h>

#ifdef __cplusplus
extern "C" {
#endif

/* In the int16_t lists of inputs and outputs, in place of the index of a value. */
enum bp_pattern_index {
    BP_NO_INDEX = -1, /* an optional tensor that is absent; of a found node: an output that nothing
                         reads */
    BP_REST = -2,     /* last in a list of inputs: all further tensors, any number of them. One node
                         to find may have it; nodes of the result then receive them */
};

enum bp_want_flags {
    BP_WANT_CONSTANT = 1,   /* a constant of the graph */
    BP_WANT_FROZEN = 2,     /* a constant whose contents never change */
    BP_WANT_ONE = 4,        /* has one element */
    BP_WANT_ALIKE = 8,      /* frozen, and all elements are equal; none is NaN */
    BP_WANT_RANGE = 16,     /* frozen, and each element is from least to most */
    BP_WANT_LIKE = 32,      /* has the shape of value `like` */
    BP_WANT_NOT_OUTPUT = 64 /* is no output of the graph */
};

/* A value of the part to find. The core reads constants of up to 4096 elements, of f32, f64, f16,
 * bf16, i32 and i64; larger ones do not match BP_WANT_ALIKE and BP_WANT_RANGE. */
struct bp_want_value {  /* rows */
    uint64_t dtypes;    /* mask; 0: any */
    double least, most; /* of BP_WANT_RANGE; they may be equal */
    double within;      /* relative to least and most: least - within * |least| is in range */
    uint32_t flags;     /* enum bp_want_flags */
    int16_t like;
    uint8_t rank_min, rank_max; /* both 0: any rank */
};

enum bp_test {
    BP_TEST_IS = 0,    /* equals value, within `within` relative to it */
    BP_TEST_NOT = 1,   /* differs from it */
    BP_TEST_LEAST = 2, /* is at least value */
    BP_TEST_MOST = 3,  /* is at most value */
    BP_TEST_SAME = 4,  /* equals the attribute `other` of node `of`, which is not skipped */
    BP_TEST_LIST = 5, /* of DIMS and INTS: is list. Numbers below 0 in the attribute and in the list
                          count from the rank of the node's first input, as axes do */
    BP_TEST_ANY = 6,  /* any value */
};

/* A test of an attribute of a node to find. Several may have one name. An attribute without a test
 * must have its default value, so that a pattern does not lose an attribute that it ignores. An
 * integer attribute whose name begins with "axis" counts from the rank of the node's first input
 * if it, or value, is below 0. */
struct bp_want_attr { /* rows */
    const char *name, *other;
    const int64_t *list;
    uint64_t n_list;
    double value, within;
    uint32_t test; /* enum bp_test */
    int32_t of;
};

enum bp_want_node_flags {
    BP_NODE_OPTIONAL = 1, /* may be absent: its only output is then its first input. Its other
                             inputs are then not bound */
    BP_NODE_ANY_ORDER = 2 /* its inputs, at most 4, match in any order. The two inputs of add, mul,
                             maximum and minimum do without the flag */
};

/* A node to find. Inputs that the list lacks must be absent. */
struct bp_want_node { /* rows */
    const char *op; /* the operator's name; "add|sub": one of up to 4 operators, of which those that
                       the core lacks are ignored if one is left */
    const int16_t *in, *out; /* indices of values, in declared order, variadic groups flat */
    const struct bp_want_attr *attr;
    uint32_t n_in, n_out, n_attr;
    uint32_t attr_stride; /* sizeof(struct bp_want_attr) of the plugin's headers */
    uint32_t flags;       /* enum bp_want_node_flags */
    uint32_t zero;        /* 0 */
};

enum bp_give_from {
    BP_GIVE_NUMBER = 0,  /* value */
    BP_GIVE_ATTR = 1,    /* value + factor * attribute `other` of the found node `of`; for DIMS and
                            INTS that attribute itself. value, if the node was skipped (for DIMS and
                            INTS: the default value) */
    BP_GIVE_ELEMENT = 2, /* value + factor * the first element of value `of`, which has
                            BP_WANT_ALIKE */
    BP_GIVE_LIST = 3,    /* of DIMS and INTS: list */
};

/* An attribute of a node of the result. Attributes that no row names have their default values. */
struct bp_give_attr { /* rows */
    const char *name, *other;
    const int64_t *list;
    uint64_t n_list;
    double value, factor; /* factor 0 counts as 1 */
    uint32_t from;        /* enum bp_give_from */
    int32_t of;
};

/* A node of the result. in: values of the part to find that none of its nodes computes, or
 * n_value + k for value k between nodes of the result. out: values of bp_pattern.out, or
 * n_value + k. The operator draws no random numbers and updates nothing. */
struct bp_give_node { /* rows */
    const char *op;
    const int16_t *in, *out;
    const struct bp_give_attr *attr;
    uint32_t n_in, n_out, n_attr;
    uint32_t attr_stride; /* sizeof(struct bp_give_attr) of the plugin's headers */
};

/* A match, as accepts sees it. Everything is valid during the call. */
struct bp_match { /* parameters */
    size_t size;

    /* The nodes of the match, in an order that can run, and their values. */
    const struct bp_graph_data *graph;
    /* Numbers in graph: of each node and value of the pattern. BP_DATA_NONE: a node that was
     * skipped, a value that only such nodes have. rest: the tensors of BP_REST. */
    const uint32_t *node, *value, *rest;
    uint32_t n_node, n_value, n_rest;

    uint32_t device;
    uint32_t allow; /* enum bp_allow: what the app allows */
    uint32_t n_attrs;
    /* The attribute structs of the n_attrs nodes of the result, filled; NULL for a node without
     * attributes. accepts may change attributes that are no lists. */
    void *const *attrs;
};

/* A pattern: at most 64 values, 32 nodes to find, 16 nodes in the result and as many values between
 * these; 16 rows for the attributes of a node. All that it points to is constant data. */
struct bp_pattern {   /* rows */
    const char *name; /* unique in the plugin: letters, digits, '_', '.', '-', 63 at most */
    const struct bp_want_value *value;
    const struct bp_want_node *node; /* each after those whose results it reads. The last one
                                        computes a value of `out`; each is connected with it by
                                        values */
    const struct bp_give_node *give; /* in order, too */
    const int16_t *out;              /* the values that the result computes; nodes outside the match
                                        may read them */

    /* Returns whether the plugin wants this match: BP_OK, or BP_ERR_UNSUPPORTED without a message.
     * Called before the result is checked. Pure: equal matches have equal results. NULL: always. */
    enum bp_status (*accepts)(void *self, const struct bp_match *match);

    /* When the pattern is tried: those with higher priority first, among equal ones those with more
     * nodes. The core's own passes have priorities from 100 (the first) down to 0; `bp passes`
     * prints them. Above 90, a pattern sees the operators that the app recorded; at 65 also those
     * that the core has recognised (gelu, layer_norm, attention), and norms are part of
     * convolutions; below 10, it sees the nodes that all other passes have left. */
    int32_t priority;
    uint32_t allow; /* enum bp_allow: the app must allow all of these */
    uint32_t n_value, value_stride;
    uint32_t n_node, node_stride;
    uint32_t n_give, give_stride;
    uint32_t n_out, n_between;
};

/* ---- rewrite ---- */

/* A new node. It draws no random numbers, updates nothing, and the extents of its results do not
 * depend on data. */
struct bp_edit_node { /* rows */
    const char *op;
    /* Values, as in struct bp_data_node: in declared order, variadic groups flat, BP_DATA_NONE:
     * absent. The graph's n_value + k: the value k between new nodes of this edit, which one node
     * before computes. out: values of this edit's removed nodes, or n_value + k. */
    const uint32_t *in, *out;
    const void *attrs; /* the operator's struct with its size set; NULL: the default values */
    uint32_t n_in, n_out;
};

/* An edit: nodes that are removed, and new nodes that compute their results. Each result of a
 * removed node is computed by a new node or equals another value, unless only nodes that the same
 * result removes read it. */
struct bp_edit { /* parameters */
    size_t size;
    const uint32_t *kill; /* nodes to remove; at least one */
    const struct bp_edit_node *node; /* in an order of execution */
    const uint32_t *same; /* pairs: a result of a removed node, and the value that takes its place,
                             of the graph or n_value + k */
    uint32_t n_kill, n_node, node_stride, n_same, n_between;
    uint32_t zero; /* 0 */
};

/* The result of rewrite. */
struct bp_edits { /* parameters */
    size_t size;
    void *ctx;
    uint32_t allow; /* enum bp_allow: what the app allows */
    uint32_t zero;  /* 0 */

    /* Adds an edit to the result. The core copies all of it. A failure has a message, and the whole
     * result is then refused, whatever rewrite returns. All numbers are those of the graph that
     * rewrite got: edits do not change it. */
    enum bp_status (*add)(void *ctx, const struct bp_edit *edit);
};

struct bp_passes { /* table */
    size_t size;
    const struct bp_pattern *first;
    size_t count,
        stride; /* at most 64; stride: sizeof(struct bp_pattern) of the plugin's headers */

    /* A pass of the plugin, PLUGIN.rewrite: it gets the graph and adds edits, none if there is
     * nothing to change. It is called again with the changed graph, until it adds none, or 8 times.
     * The core checks the result as a whole, and refuses all of it, with a line in the log, if a
     * number is wrong, a type changes, the new order has a cycle, no kernel takes a new node, or if
     * an edit removes or new nodes read what must stay: nodes with flags of enum
     * bp_data_node_flags, memory that the graph updates. Equal graphs must have equal results; the
     * pass may run on several threads at once. A failure changes nothing. NULL: patterns only. */
    enum bp_status (*rewrite)(void *self, const struct bp_graph_data *graph,
                              const struct bp_edits *edits);
    int32_t rewrite_priority; /* as bp_pattern.priority; behind patterns of the same priority */
    uint32_t rewrite_allow;   /* enum bp_allow: the app must allow all of these */
};

#ifdef __cplusplus
}
#endif

#endif
