/* SPDX-License-Identifier: Apache-2.0 */
/* pattern_build.h: makes graphs from the rows of a plugin's pattern (backplane/passes.h): such that
 * the pattern matches, and such that one of its tests fails. */
#ifndef BP_CONFORM_PATTERN_BUILD_H
#define BP_CONFORM_PATTERN_BUILD_H

#include "../check.h"
#include <backplane/passes.h>

enum {
    BUILD_VALUES = 64,
    BUILD_NODES = 32,
    BUILD_WORDS = 64,
    BUILD_RANKS = 4
};

/* The tests that a near miss breaks. */
enum build_near {
    NEAR_NOTHING,
    NEAR_CONSTANT, /* a constant is an input of the graph */
    NEAR_FROZEN,   /* a frozen constant is one that may change */
    NEAR_ONE,      /* a value of one element has more */
    NEAR_ALIKE,    /* the elements of a constant differ */
    NEAR_BELOW,    /* an element is below its range */
    NEAR_ABOVE,
    NEAR_DTYPE,  /* a value has a dtype that is not in its mask */
    NEAR_RANK,   /* a value has one axis more than it may */
    NEAR_READER, /* the app reads a value that the result does not compute */
    NEAR_ATTR,   /* a test of an attribute fails: number `row` of the node */
    NEAR_OTHER,  /* an attribute without a test, number `row` of the operator, is not the default */
    NEAR_COUNT
};

/* A choice of everything that the pattern leaves open. */
struct build_choice {
    uint32_t dtype;
    uint32_t ranks; /* a number: of each value that no node computes, a digit of base BUILD_RANKS */
    uint32_t alternative; /* of operators */
    uint32_t variant;     /* of numbers in ranges, and of attributes of any value */
    bool skips;           /* optional nodes are absent */
    uint32_t seed;        /* of the order of nodes; 0: that of the pattern */
    enum build_near near;
    uint32_t at, row; /* the value or the node that the near miss breaks */
};

/* A graph from a pattern. */
struct build {
    struct check *c;
    const struct bp_pattern *p;
    struct build_choice choice;
    struct bp_graph *graph;
    struct bp_tensor *value[BUILD_VALUES];    /* symbolic, or constants */
    struct bp_tensor *rest[2];                /* of BP_REST */
    bool own[BUILD_VALUES];                   /* value is a reference that the build owns */
    uint64_t words[BUILD_NODES][BUILD_WORDS]; /* the attributes of each node */
    uint32_t free[BUILD_VALUES], n_free;      /* values that no node computes */
    uint64_t made;                            /* a bit for each value that a node computes */
    bool broken;                              /* the near miss was made */
};

/* Records the graph. false: the choice does not fit, because an operator refuses it, or because
 * there is no such near miss; this is no failure of the case. The caller calls build_finish. */
bool build_make(struct build *b, struct check *c, const struct bp_pattern *p,
                const struct build_choice *choice);
void build_finish(struct build *b);

/* Finds a choice of ranks by which a graph can be recorded, and makes the graph. */
bool build_find(struct build *b, struct check *c, const struct bp_pattern *p,
                struct build_choice *choice);

const struct bp_want_value *build_value(const struct bp_pattern *p, uint32_t v);
const struct bp_want_node *build_node(const struct bp_pattern *p, uint32_t n);
const struct bp_want_attr *build_attr(const struct bp_want_node *node, uint32_t i);
/* The operator of a node: one of its alternatives that this core has. NULL: there is none. */
const struct bp_opinfo *build_op(const struct bp_want_node *node, uint32_t alternative);

#endif
