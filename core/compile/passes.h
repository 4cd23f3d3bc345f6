/* SPDX-License-Identifier: Apache-2.0 */
/* passes.h: declares the passes of the compiler: functions that rewrite the IR. */
#ifndef BP_PASSES_PRIVATE_H
#define BP_PASSES_PRIVATE_H

#include "schedule.h"

/* The options of a compilation. */
struct bp_compile_options {
    bool no_passes;         /* nothing is rewritten, as by BP_PASSES=none */
    struct bp_tuner *tuner; /* tuner.h; NULL: kernel rows are chosen by priority */
    uint32_t allow;         /* enum bp_allow, beside that of the core */
    const struct bp_engine_donors *donors; /* engine.h; or NULL */
    const struct bp_cancel *cancel;        /* cancel.h; or NULL */
};

/* A graph that is being compiled. */
struct bp_compilation {
    struct bp_ir *ir;
    uint32_t changes; /* of the pass that runs: nodes that it removed or replaced */
    struct bp_plugin_pattern *pattern; /* of bp_pass_plugin, else NULL */
    struct bp_plugin_rewrite *rewrite; /* of bp_pass_rewrite, else NULL */
};

struct bp_pass {
    const char *name, *doc;
    /* A failure ends the compilation, and the program runs node by node. */
    enum bp_status (*run)(struct bp_compilation *c);
    int32_t priority;                  /* passes with higher ones run first */
    struct bp_plugin_pattern *pattern; /* of bp_pass_plugin: the pattern that it replaces */
    struct bp_plugin_rewrite *rewrite; /* of bp_pass_rewrite: the plugin's pass */
};

/* passes.c: the list of all passes, in the order in which they run. */
extern const struct bp_pass bp_pass_list[];
extern const uint32_t bp_pass_count;

/* The passes for programs of a device: those of the list, and the patterns and rewrites of its
 * plugin and of its add-ons, in the order in which they run. used: without patterns that cannot be
 * used. */
struct bp_pass_order {
    struct bp_pass pass[BP_IR_PASSES];
    uint32_t n;
};
void bp_passes_of(const struct bp_device *device, bool used, struct bp_pass_order *out);

/* Runs the first n passes of a list (bp_pass_list), except those that BP_PASSES leaves out. dumps:
 * writes the files for BP_DUMP_PASSES. */
enum bp_status bp_passes_run(struct bp_ir *ir, const struct bp_pass *list, uint32_t n, bool dumps);

/* Whether BP_PASSES leaves out a pass. */
bool bp_pass_is_left_out(const struct bp_pass *pass);

/* Compiles a graph for a device to a schedule. */
enum bp_status bp_compile(const struct bp_graph *graph, struct bp_device *device,
                          struct bp_schedule **out_schedule);
enum bp_status bp_compile_with(const struct bp_graph *graph, struct bp_device *device,
                               const struct bp_compile_options *options,
                               struct bp_schedule **out_schedule);

/* pass_clean.c: a hash table of nodes, with open addressing, by what they compute: the operator,
 * the attributes and the inputs. */
struct bp_node_table {
    uint32_t *slot;
    uint32_t mask;
};
enum bp_status bp_node_table_init(const struct bp_ir *ir, struct bp_node_table *table);
void bp_node_table_finish(struct bp_node_table *table);
/* Returns a node of the table that computes the same, or BP_NO_VALUE. *out_at: where such a node
 * belongs. */
uint32_t bp_node_table_find(const struct bp_ir *ir, const struct bp_node_table *table,
                            const struct bp_node *node, uint32_t *out_at);

/* Whether value v may be replaced by value `by`, which is equal when v is computed: neither changes
 * later, and outputs of the graph that are separate tensors stay separate. */
bool bp_value_may_become(const struct bp_ir *ir, uint32_t v, uint32_t by);

/* pass_fold.c: converts constants to the layouts of the plugin that nodes read them in. */
enum bp_status bp_fold_conversions(struct bp_compilation *c);

/* The passes; each one's file has its name. */
enum bp_status bp_pass_clean(struct bp_compilation *c);
enum bp_status bp_pass_reuse(struct bp_compilation *c);
enum bp_status bp_pass_recognise(struct bp_compilation *c);
enum bp_status bp_pass_attention(struct bp_compilation *c);
enum bp_status bp_pass_affine(struct bp_compilation *c);
enum bp_status bp_pass_fold(struct bp_compilation *c);
enum bp_status bp_pass_engine(struct bp_compilation *c);
enum bp_status bp_pass_product(struct bp_compilation *c);
enum bp_status bp_pass_epilogue(struct bp_compilation *c);
enum bp_status bp_pass_layout(struct bp_compilation *c);
enum bp_status bp_pass_norm(struct bp_compilation *c);
enum bp_status bp_pass_plugin(struct bp_compilation *c);
enum bp_status bp_pass_rewrite(struct bp_compilation *c);
enum bp_status bp_pass_fuse(struct bp_compilation *c);
enum bp_status bp_pass_format(struct bp_compilation *c);

#endif
