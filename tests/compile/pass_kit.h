/* SPDX-License-Identifier: Apache-2.0 */
/* pass_kit.h: runs passes of the compiler on graphs that were recorded from text, and compares
 * compiled programs with runs node by node. */
#ifndef BP_TEST_PASS_KIT_H
#define BP_TEST_PASS_KIT_H

#include "graph_text.h"

#include <compile/passes.h>

/* A pass on a graph: begin copies the graph. */
struct pass_run {
    struct bp_ir *ir;
    uint32_t changes;    /* of the passes so far */
    char ops[1024];      /* operators of the living nodes in their order, with spaces between */
    char *before, *text; /* the representation before the first pass, and now */
};

/* Copies a graph that text_record has recorded. */
void pass_begin(const struct text_graph *g, struct pass_run *run);
/* Runs a pass, and checks the representation and that the pass has nothing more to change. */
void pass_apply(struct pass_run *run, enum bp_status (*pass)(struct bp_compilation *c));
/* The same for bp_pass_plugin with a pattern of the plugin. */
void pass_apply_pattern(struct pass_run *run, enum bp_status (*pass)(struct bp_compilation *c),
                        struct bp_plugin_pattern *pattern);
/* The same for any pass. */
void pass_apply_to(struct pass_run *run, const struct bp_pass *pass);
void pass_finish(struct pass_run *run);
/* Asserts that a pass changed nothing. */
void pass_expect_same(const struct pass_run *run, const char *what);

/* Records a text in a new graph, runs a pass on it, and asserts that these operators are left.
 * Compares the values too if `terms` is not 0: see pass_check_values. */
void pass_expect(const char *text, enum bp_status (*pass)(struct bp_compilation *c),
                 const char *ops, double terms);

/* Asserts that a pass leaves the graph of a text as it is. */
void pass_expect_unchanged(const char *text, enum bp_status (*pass)(struct bp_compilation *c),
                           const char *what);

/* Asserts that a pass leaves the graph of a text as it is if any of its first n calls names the
 * kernel that has to run it. */
void pass_expect_pin_kept(const char *text, enum bp_status (*pass)(struct bp_compilation *c),
                          uint32_t n);

/* Whether an operator of ops is named so. */
bool pass_has(const char *ops, const char *op);

/* Asserts that the graph runs compiled, and that its outputs are those of a run node by node. Each
 * element may differ by `terms` roundings of its dtype, of numbers of magnitude 1 or its own: at
 * least the sum of the magnitudes of the terms that are added for it. */
void pass_check_values(struct text_graph *g, double terms);
/* The same, compared with a run node by node of another graph. */
void pass_check_values_of(struct text_graph *g, struct text_graph *of, double terms);

/* Writes the operators of a schedule's launches in their order, with spaces between. */
void pass_list_launches(const struct bp_schedule *s, char *text, size_t size);

/* Compiles the graph with all passes, and expects that its outputs are row-major. */
void pass_expect_dense(struct text_graph *g, const char *what);

#endif
