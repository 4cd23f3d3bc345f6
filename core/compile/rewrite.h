/* SPDX-License-Identifier: Apache-2.0 */
/* rewrite.h: declares how passes replace nodes: the replacement is recorded as calls of operators,
 * which infer and check its types, and takes the place of the nodes. */
#ifndef BP_REWRITE_H
#define BP_REWRITE_H

#include "ir.h"

enum {
    BP_REWRITE_IN = 64,
    BP_REWRITE_NODES = 64
};

struct bp_rewrite {
    struct bp_ir *ir;
    struct bp_graph *graph;              /* of the replacement */
    struct bp_tensor *in[BP_REWRITE_IN]; /* its inputs */
    uint32_t value[BP_REWRITE_IN];       /* the IR's values for them */
    uint32_t n_in;
    uint32_t node[BP_REWRITE_NODES]; /* nodes to replace, in the order of execution */
    uint32_t n_node;
};

/* Begins the replacement of the n_node nodes of `node`, in the order of execution. */
enum bp_status bp_rewrite_begin(struct bp_rewrite *rw, struct bp_ir *ir, const uint32_t *node,
                                uint32_t n_node);

/* Returns the symbolic tensor for a value of the IR; BP_NO_VALUE: NULL. The tensor belongs to the
 * rewrite. */
enum bp_status bp_rewrite_in(struct bp_rewrite *rw, uint32_t value, struct bp_tensor **out_in);

/* The scope in which the replacement's calls are made. */
static inline struct bp_scope *bp_rewrite_scope(struct bp_rewrite *rw)
{
    return &rw->graph->scope;
}

/* Replaces the nodes: `result`, a symbolic tensor that this call takes over, becomes `value`, a
 * result of the last node. BP_ERR_INTERNAL: their types differ. The rewrite ends, also after a
 * failure, which leaves the IR as it was. */
enum bp_status bp_rewrite_end(struct bp_rewrite *rw, struct bp_tensor *result, uint32_t value);

/* Inserts the recorded nodes before node `before` (BP_NO_VALUE: at the end) and replaces none; they
 * are named after the nodes of bp_rewrite_begin. `result`, a symbolic tensor that this call takes
 * over, is a result of the last recorded call. *out_value: the IR's value for it, which nothing
 * reads. The rewrite ends, also after a failure. */
enum bp_status bp_rewrite_insert(struct bp_rewrite *rw, struct bp_tensor *result, uint32_t before,
                                 uint32_t *out_value);
/* As bp_rewrite_end, for n results that become `value`, results of any of the nodes. No node but
 * these may stand between the reader of a result and the last of the nodes. */
enum bp_status bp_rewrite_end_all(struct bp_rewrite *rw, struct bp_tensor *const *result,
                                  const uint32_t *value, uint32_t n);

/* Ends a rewrite without an effect. */
void bp_rewrite_cancel(struct bp_rewrite *rw);

/* Names each node of a replacement after the n nodes that it replaces: "conv_3+relu_5". */
enum bp_status bp_rewrite_name(const struct bp_ir *ir, struct bp_graph *graph, const uint32_t *node,
                               uint32_t n);

/* rewrite_check.c. bp_rewrite_may_move: whether a node may run later: neither its results nor what
 * it reads change. bp_rewrite_args: divides a flat list into the declared inputs: a group gets what
 * the others leave. bp_rewrite_is_view: whether a value of the replacement lies in memory of an
 * input. bp_rewrite_runs: whether the device runs each node of the replacement; those with a
 * decomposition run in any case. */
bool bp_rewrite_may_move(const struct bp_ir *ir, const struct bp_node *node);
void bp_rewrite_args(const struct bp_opdef *row, struct bp_tensor *const *flat, uint32_t n,
                     struct bp_arg *arg);
bool bp_rewrite_is_view(const struct bp_graph *graph, uint32_t value);
bool bp_rewrite_runs(const struct bp_ir *ir, const struct bp_graph *graph);

/* Reads the elements of a frozen constant of f32, f64, f16, bf16, i32 or i64 as doubles. false: it
 * is no such constant, it has more than `most` elements, or it cannot be read. */
bool bp_ir_read(const struct bp_ir *ir, uint32_t value, int64_t most, double *out);
/* As bp_ir_read, for a constant whose elements all equal the first one, which becomes *out. false
 * also if they do not, or if there are none. */
bool bp_ir_read_alike(const struct bp_ir *ir, uint32_t value, int64_t most, double *out);

#endif
