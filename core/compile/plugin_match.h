/* SPDX-License-Identifier: Apache-2.0 */
/* plugin_match.h: declares matches of the patterns of plugins (backplane/passes.h), and the pass
 * that replaces them. */
#ifndef BP_PLUGIN_MATCH_H
#define BP_PLUGIN_MATCH_H

#include "ir.h"

#include "../plugin/entry.h"
#include "../plugin/patterns.h"

enum {
    BP_REST_MAX = 64 /* tensors of BP_REST */
};

/* The nodes and values of a match, as numbers of the IR. */
struct bp_plugin_match {
    uint32_t value[BP_WANT_VALUES]; /* BP_NO_VALUE: not bound */
    uint32_t node[BP_WANT_NODES];   /* BP_NO_VALUE: skipped */
    uint32_t rest[BP_REST_MAX], n_rest;
};

/* plugin_match.c: finds a match whose last node is n, or the node before it if the last one is
 * optional. The match is closed: only values that the result computes have readers outside. */
bool bp_plugin_match_find(struct bp_ir *ir, const struct bp_plugin_pattern *p, uint32_t n,
                          struct bp_plugin_match *out);

/* plugin_attrs.c: whether the attributes of a node pass the tests, apart from BP_TEST_SAME, and the
 * others have their defaults. */
bool bp_want_attrs_hold(const struct bp_ir *ir, const struct bp_want_node *want,
                        const struct bp_node *node);
/* Whether all tests BP_TEST_SAME hold. */
bool bp_want_same_hold(const struct bp_ir *ir, const struct bp_plugin_pattern *p,
                       const struct bp_plugin_match *m);
/* Fills the attribute struct of node g of the result, which has room for attrs_size bytes. Its
 * lists belong to the pattern or to nodes of the match. */
void bp_give_attrs_fill(const struct bp_ir *ir, const struct bp_plugin_pattern *p, uint32_t g,
                        const struct bp_plugin_match *m, void *attrs);

/* plugin_accepts.c: calls the plugin's accepts for the match, which has these nodes in the order of
 * execution. attrs: of each node of the result; the plugin may change them. */
bool bp_plugin_match_accepted(struct bp_ir *ir, const struct bp_plugin_pattern *p,
                              const struct bp_plugin_match *m, const uint32_t *node,
                              uint32_t n_node, void *const *attrs);

#endif
