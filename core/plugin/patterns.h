/* SPDX-License-Identifier: Apache-2.0 */
/* patterns.h: declares the patterns of plugins (backplane/passes.h) in the form of this core's
 * version, with their operators found. */
#ifndef BP_PLUGIN_PATTERNS_H
#define BP_PLUGIN_PATTERNS_H

#include "../schema/op.h"
#include <backplane/passes.h>

enum {
    BP_WANT_VALUES = 64, /* the limits that passes.h states */
    BP_WANT_NODES = 32,
    BP_WANT_ROWS = 4,
    BP_WANT_ATTRS = 16,
    BP_GIVE_NODES = 16,
    BP_PLUGIN_PATTERNS = 64, /* of one plugin */
    BP_PERMUTED = 4          /* inputs in any order */
};

struct bp_plugin_pattern {
    struct bp_pattern row; /* its arrays are owned, and their strides are those of this core */
    struct bp_plugin_entry *entry;
    char *name;   /* owned: PLUGIN.PATTERN */
    char *reason; /* owned: why the pattern is not used; NULL: it is used */
    const struct bp_opdef *(*want)[BP_WANT_ROWS]; /* owned: the operators of each node to find, then
                                                     NULL */
    const struct bp_opdef **give;                 /* owned: of each node of the result */
    uint8_t order[BP_WANT_NODES]; /* the nodes to find in the order in which they are matched: the
                                     last one first, each connected with one before it */
    uint64_t made;                /* a bit for each value that a node to find computes */
    uint64_t given;               /* a bit for each value of row.out */
    _Atomic bool warned;          /* a match was refused, which the log has */
    _Atomic bool stopped; /* it matched its own result without end: it is not used any more */
};

/* The plugin's own pass. */
struct bp_plugin_rewrite {
    struct bp_plugin_entry *entry;
    enum bp_status (*run)(void *self, const struct bp_graph_data *graph,
                          const struct bp_edits *edits);
    char *name; /* owned: PLUGIN.rewrite */
    int32_t priority;
    uint32_t allow;
    _Atomic bool warned;  /* an result was refused, which the log has */
    _Atomic bool stopped; /* it changed its own result without end: it is not used any more */
};

/* patterns.c: copies a pattern of the plugin and checks it. stride: of the plugin's rows. A pattern
 * that is wrong gets a reason. false: out of memory. */
bool bp_plugin_pattern_init(struct bp_plugin_pattern *p, struct bp_plugin_entry *entry,
                            const struct bp_pattern *row, size_t stride);
void bp_plugin_pattern_finish(struct bp_plugin_pattern *p);

#endif
