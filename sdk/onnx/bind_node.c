/* SPDX-License-Identifier: Apache-2.0 */
/* bind_node.c: adds one recorded node to a graph that writes caches in place. Where the graph
 * serves every length of the past, values that grow have room for all places, and attention gets
 * the number of places that it may read. Other operators on such values are copied only if a place
 * of their result depends on the same place of their inputs. */
#include "bind_graph.h"
#include "row.h"
#include <stdlib.h>
#include <string.h>

enum {
    NODE_PORTS = 16,
    NODE_FLAT = 64
};

static bool node_is(const struct bp_node_info *node, const char *op)
{
    return !strcmp(node->op, op);
}

static enum bp_status node_refuse(const struct bp_node_info *node, const char *why)
{
    return onnx_error(BP_ERR_UNSUPPORTED, "%.80s (%.40s) %s", node->name, node->op, why);
}

/* Adds the node as it was recorded. */
static enum bp_status node_copy(struct build *b, const struct bp_node_info *node)
{
    const struct bp_opinfo *op = bp_opinfo_find(node->op);
    struct bp_tensor *in[NODE_FLAT], *out[NODE_FLAT] = {NULL};
    struct bp_arg arg[NODE_PORTS];
    uint8_t want[NODE_FLAT];
    struct bp_call call = {.size = sizeof call,
                           .op = node->op,
                           .in = arg,
                           .attrs = node->attrs,
                           .kernel = node->kernel};
    uint32_t at = 0;

    if (!op || op->n_in > NODE_PORTS || node->n_in > NODE_FLAT || node->n_out > NODE_FLAT)
        return node_refuse(node, "has too many inputs or outputs");
    for (uint32_t i = 0; i < node->n_in; i++) {
        in[i] = node->in[i] == UINT32_MAX ? NULL : b->value[node->in[i]].t;
        if (!in[i] && node->in[i] != UINT32_MAX)
            return node_refuse(node, "reads a cache or scores");
    }
    for (uint32_t port = 0; port < op->n_in; port++) {
        uint32_t n = op->in[port].kind == BP_PORT_VAR ? node->n_in + 1 - op->n_in : 1;
        arg[port] = (struct bp_arg){in + at, n};
        at += n;
    }
    call.n_in = op->n_in;
    for (uint32_t i = 0; i < node->n_out; i++) want[i] = node->out[i] != UINT32_MAX;
    TRY(bp_call_run(bp_graph_scope(b->to), &call, out, node->n_out, want));
    for (uint32_t i = 0; i < node->n_out; i++) {
        if (!want[i]) continue;
        b->value[node->out[i]].t = onnx_build_keep(b, out[i]);
        if (!b->value[node->out[i]].t) return onnx_no_memory();
    }
    return BP_OK;
}

static enum bp_status node_slice(struct build *b, struct bp_tensor *x, int64_t axis, int64_t end,
                                 struct bp_tensor **out)
{
    static const int64_t begin = 0;
    struct bp_slice_attrs a = bp_slice_defaults();

    a.starts = (struct bp_dims){&begin, 1};
    a.ends = (struct bp_dims){&end, 1};
    a.axes = (struct bp_dims){&axis, 1};
    return onnx_build_call(b, "slice", &a, 1, &x, out);
}

/* Adds a node that appends new places to a cache: writes them to the buffer. A graph for one length
 * then has a view of the places that exist. */
static enum bp_status node_append(struct build *b, const struct bp_node_info *node)
{
    uint32_t p = b->value[node->in[0]].past;
    const struct onnx_bind_pair *pair = &b->model->bind->pair[p];
    struct build_value *to = &b->value[node->out[0]];
    struct bp_cache_write_attrs write = bp_cache_write_defaults();
    struct bp_tensor *in[] = {pair->buffer, b->value[node->in[1]].t, b->position};

    if (b->written[p]) return node_refuse(node, "appends to a cache a second time");
    if (!in[1] || b->value[node->in[1]].axis != BUILD_NONE)
        return node_refuse(node, "appends a cache or scores");
    write.axis = pair->axis;
    TRY(onnx_build_call(b, "cache_write", &write, 3, in, &b->written[p]));
    to->written = p;
    to->t = b->written[p];
    if (b->any) return to->axis == pair->axis ? BP_OK : node_refuse(node, "does not grow");
    return node_slice(b, b->written[p], pair->axis, b->past + b->added, &to->t);
}

static bool node_appends(const struct build *b, const struct bp_node_info *node)
{
    const struct bp_concat_attrs *a = node->attrs;
    const struct onnx_bind_pair *pair;
    int64_t axis;

    if (!node_is(node, "concat") || node->n_in != 2 || b->value[node->in[0]].past == BUILD_NONE)
        return false;
    pair = &b->model->bind->pair[b->value[node->in[0]].past];
    axis = a->axis < 0 ? a->axis + onnx_build_value(b, 0, node->in[0]).rank : a->axis;
    return axis == pair->axis;
}

/* Gives the past as an input of other nodes: the places of the buffer in front of the new ones. */
static enum bp_status node_read_past(struct build *b, const struct bp_node_info *node)
{
    for (uint32_t i = 0; i < node->n_in; i++) {
        struct build_value *v = node->in[i] == UINT32_MAX ? NULL : &b->value[node->in[i]];
        const struct onnx_bind_pair *pair;
        if (!v || v->past == BUILD_NONE || v->t) continue;
        if (b->any) return node_refuse(node, "reads the past in another way");
        pair = &b->model->bind->pair[v->past];
        TRY(node_slice(b, b->written[v->past] ? b->written[v->past] : pair->buffer, pair->axis,
                       b->past, &v->t));
    }
    return BP_OK;
}

/* ---- values that grow ---- */

/* Whether each place of the results depends on the same place of the inputs. */
static bool node_is_by_place(const struct bp_node_info *node)
{
    static const char *const list[] = {
        "add",         "sub",        "mul",          "div",           "neg",         "where",
        "cast",        "assign",     "minimum",      "maximum",       "equal",       "not_equal",
        "less_than",   "less_equal", "greater_than", "greater_equal", "logical_and", "logical_or",
        "logical_not", "transpose",  "unsqueeze",    "squeeze",       "masked_fill"};

    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (node_is(node, list[i])) return true;
    return false;
}

/* Checks that a result has the recorded extents, and all places along the axis that grows. */
static enum bp_status node_check(const struct build *b, const struct bp_node_info *node)
{
    for (uint32_t i = 0; i < node->n_out; i++) {
        struct bp_value_info want;
        struct bp_tensor_info got;
        if (node->out[i] == UINT32_MAX) continue;
        want = onnx_build_value(b, 0, node->out[i]);
        got = onnx_info(b->value[node->out[i]].t);
        for (uint32_t k = 0; k < want.rank; k++)
            if (got.rank != want.rank ||
                got.shape[k] !=
                    (k == b->value[node->out[i]].axis ? b->model->bind->capacity : want.shape[k]))
                return node_refuse(node, "has other extents with room for all places");
    }
    return BP_OK;
}

/* The parts of an attention that nodes compose: softmax(scale q k^T + mask) v. */
struct node_attention {
    struct bp_tensor *q, *k, *v, *mask;
    double scale;
    bool causal;
};

/* Reads a constant of one f32. */
static bool node_number(const struct build *b, uint32_t v, double *out)
{
    struct bp_value_info info = onnx_build_value(b, 0, v);
    float number;

    if (info.kind != 1 || info.dtype != BP_F32 || onnx_info(info.constant).count != 1) return false;
    if (bp_tensor_read(b->stream, info.constant, &number, sizeof number)) return false;
    *out = (double)number;
    return true;
}

/* Exchanges the last two axes. */
static enum bp_status node_turn(struct build *b, struct bp_tensor *t, struct bp_tensor **out)
{
    int64_t perm[ONNX_RANK_MAX], rank = onnx_info(t).rank;
    struct bp_transpose_attrs a = bp_transpose_defaults();

    for (int64_t i = 0; i < rank; i++) perm[i] = i;
    perm[rank - 1] = rank - 2;
    perm[rank - 2] = rank - 1;
    a.perm = (struct bp_dims){perm, rank};
    return onnx_build_call(b, "transpose", &a, 1, &t, out);
}

/* Reads the product of queries and keys. */
static enum bp_status node_product(struct build *b, const struct bp_node_info *node,
                                   struct node_attention *a)
{
    const struct bp_matmul_attrs *attrs = node->attrs;

    a->q = b->value[node->in[0]].t;
    a->k = b->value[node->in[1]].t;
    if (!a->q || !a->k || onnx_info(a->q).rank < 3) return node_refuse(node, "has no heads");
    if (attrs->transpose_a) TRY(node_turn(b, a->q, &a->q));
    return attrs->transpose_b ? BP_OK : node_turn(b, a->k, &a->k);
}

/* Follows scores back to the product of queries and keys. A mask is added after the scale. */
static enum bp_status node_scores(struct build *b, uint32_t v, struct node_attention *a)
{
    a->scale = 1;
    for (bool scaled = false;;) {
        struct bp_value_info info = onnx_build_value(b, 0, v);
        struct bp_node_info node;
        uint32_t other;
        bool first;
        double number;
        if (info.kind != 2) return onnx_error(BP_ERR_UNSUPPORTED, "scores are no product");
        node = onnx_build_node(b, 0, info.node);
        if (node_is(&node, "matmul")) return node_product(b, &node, a);
        if (node.n_in != 2) return node_refuse(&node, "is no part of an attention");
        first = b->value[node.in[0]].scores;
        other = node.in[first];
        v = node.in[!first];
        if (node_is(&node, "add") && !scaled && !a->mask && b->value[other].t) {
            a->mask = b->value[other].t;
            continue;
        }
        scaled = true;
        if (!node_number(b, other, &number) || number == 0)
            return node_refuse(&node, "is no part of an attention");
        if (node_is(&node, "mul")) a->scale *= number;
        else if (node_is(&node, "div") && first) a->scale /= number;
        else return node_refuse(&node, "is no part of an attention");
    }
}

/* Reads the probabilities, the result of a softmax along the last axis. */
static enum bp_status node_softmax(struct build *b, uint32_t v, struct node_attention *a)
{
    struct bp_value_info info = onnx_build_value(b, 0, v);
    struct bp_node_info node = onnx_build_node(b, 0, info.node);
    const struct bp_softmax_attrs *softmax = node.attrs;
    const struct bp_masked_softmax_attrs *masked = node.attrs;

    if (node_is(&node, "softmax") &&
        (softmax->axis == -1 || softmax->axis == (int64_t)info.rank - 1))
        return node_scores(b, node.in[0], a);
    if (!node_is(&node, "masked_softmax")) return node_refuse(&node, "is no softmax");
    a->causal = masked->causal;
    if (node.n_in > 1 && node.in[1] != UINT32_MAX) {
        a->mask = b->value[node.in[1]].t;
        if (!a->mask) return node_refuse(&node, "has scores as mask");
    }
    return node_scores(b, node.in[0], a);
}

/* Makes the number of places that an attention reads: for each place of the axes of q before
 * heads. */
static enum bp_status node_length(struct build *b, struct bp_tensor *q, struct bp_tensor **out)
{
    struct bp_tensor_info info = onnx_info(q);
    struct bp_expand_attrs all = bp_expand_defaults();
    struct bp_tensor *t;

    TRY(onnx_build_number(b, b->added, &t));
    TRY(onnx_build_call(b, "add", NULL, 2, (struct bp_tensor *[]){b->position, t}, &t));
    all.shape = (struct bp_dims){info.shape, (int64_t)info.rank - 3};
    TRY(onnx_build_call(b, "expand", &all, 1, &t, &t));
    return onnx_build_call(b, "assign", NULL, 1, &t, out);
}

/* Adds an attention for the product of probabilities and values. */
static enum bp_status node_attend(struct build *b, const struct bp_node_info *node)
{
    const struct bp_matmul_attrs *plain = node->attrs;
    struct bp_attention_attrs attrs = bp_attention_defaults();
    struct node_attention a = {.v = b->value[node->in[1]].t};
    struct bp_tensor *length;

    if (plain->transpose_a || !a.v || !b->value[node->in[0]].scores)
        return node_refuse(node, "sums places in another way");
    if (plain->transpose_b) TRY(node_turn(b, a.v, &a.v));
    TRY(node_softmax(b, node->in[0], &a));
    TRY(node_length(b, a.q, &length));
    attrs.scale = a.scale;
    attrs.causal = a.causal;
    TRY(onnx_build_call(b, "attention", &attrs, 5,
                        (struct bp_tensor *[]){a.q, a.k, a.v, a.mask, length},
                        &b->value[node->out[0]].t));
    return node_check(b, node);
}

/* Adds a recorded attention. */
static enum bp_status node_attention(struct build *b, const struct bp_node_info *node)
{
    uint32_t last = onnx_build_value(b, 0, node->in[1]).rank - 1;
    struct bp_tensor *in[5] = {NULL};

    if (node->n_in > 4 && node->in[4] != UINT32_MAX)
        return node_refuse(node, "has a length of its own");
    for (uint32_t i = 0; i < 4 && i < node->n_in; i++) {
        if (node->in[i] == UINT32_MAX) continue;
        in[i] = b->value[node->in[i]].t;
        if (!in[i]) return node_refuse(node, "reads a cache or scores");
    }
    if (b->value[node->in[1]].axis != last - 1 || b->value[node->in[2]].axis != last - 1)
        return node_refuse(node, "does not attend to the places of a cache");
    TRY(node_length(b, in[0], &in[4]));
    TRY(onnx_build_call(b, "attention", node->attrs, 5, in, &b->value[node->out[0]].t));
    return node_check(b, node);
}

/* Adds a node with an input that grows. */
static enum bp_status node_grow(struct build *b, const struct bp_node_info *node, bool has_scores)
{
    uint32_t to = node->out[0];
    uint32_t last = onnx_build_value(b, 0, to).rank - 1;

    if (node_is(node, "attention")) return node_attention(b, node);
    if (node_is(node, "matmul") && b->value[to].axis == BUILD_NONE) return node_attend(b, node);
    if (node_is(node, "matmul") ||
        (has_scores &&
         (node_is_by_place(node) || node_is(node, "softmax") || node_is(node, "masked_softmax")))) {
        b->value[to].scores = true; /* the attention that uses the result looks at the node */
        return b->value[to].axis == last ? BP_OK : node_refuse(node, "multiplies places");
    }
    if (!node_is_by_place(node)) return node_refuse(node, "does not go place by place");
    TRY(node_copy(b, node));
    TRY(node_check(b, node));
    if (node_is(node, "assign")) b->value[to].written = b->value[node->in[0]].written;
    return BP_OK;
}

enum bp_status onnx_build_add(struct build *b, uint32_t n)
{
    struct bp_node_info node = onnx_build_node(b, 0, n);
    bool same = true, grows = false, scores = false;

    if (b->any) TRY(onnx_grow_node(b, n, &same));
    if (!same) return node_refuse(&node, "has attributes that depend on the length of the past");
    if (node_appends(b, &node)) return node_append(b, &node);
    TRY(node_read_past(b, &node));
    for (uint32_t i = 0; i < node.n_in; i++) {
        if (node.in[i] == UINT32_MAX) continue;
        grows = grows || b->value[node.in[i]].axis != BUILD_NONE;
        scores = scores || b->value[node.in[i]].scores;
    }
    if (grows && b->any) return node_grow(b, &node, scores);
    TRY(node_copy(b, &node));
    if (node_is(&node, "assign")) b->value[node.out[0]].written = b->value[node.in[0]].written;
    return b->any ? node_check(b, &node) : BP_OK;
}
