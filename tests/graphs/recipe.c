/* SPDX-License-Identifier: Apache-2.0 */
/* recipe.c: records a node of a recipe in a graph, prints recipes, and finds what they contain. */
#include "graphs.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *const fuzz_traits[FUZZ_TRAITS] = {
    "a view",          "a second reader",    "a gradient",
    "a chain",         "an update",          "random numbers",
    "a conv",          "a matmul",           "half types",
    "special numbers", "extents out of data"};

bool fuzz_node_is_update(const struct fuzz_node *node)
{
    for (uint32_t i = 0; node->op && i < node->op->n_out; i++)
        if (node->op->out[i].kind == BP_PORT_UPDATE) return true;
    return false;
}

bool fuzz_has_updates(const struct fuzz_recipe *r)
{
    for (uint32_t n = 0; n < r->n_node; n++)
        if (!r->node[n].dropped && fuzz_node_is_update(&r->node[n])) return true;
    return false;
}

/* ---- recording ---- */

/* Replaces a gradient of zero by zeros. */
static enum bp_status record_zeros(struct bp_scope *scope, struct bp_tensor *x,
                                   struct bp_tensor **out)
{
    const struct bp_arg arg = {&x, 1};
    const struct bp_call call = {.size = sizeof call, .op = "full_like", .in = &arg, .n_in = 1};

    return bp_call_run(scope, &call, out, 1, NULL);
}

static enum bp_status record_gradient(struct bp_graph *graph, const struct fuzz_node *node,
                                      struct bp_tensor **in, struct bp_tensor **symbol)
{
    struct bp_tensor *dx[FUZZ_FLAT] = {0}, **x = in + 2 * (size_t)node->n_y;
    enum bp_status status;

    status = bp_graph_gradient(graph, in, in + node->n_y, node->n_y, x, node->n_out, dx);
    for (uint32_t i = 0; i < node->n_out && status == BP_OK; i++)
        if (!dx[i]) status = record_zeros(bp_graph_scope(graph), x[i], &dx[i]);
    for (uint32_t i = 0; i < node->n_out; i++)
        if (status == BP_OK) symbol[node->out[i]] = dx[i];
        else bp_tensor_destroy(dx[i]);
    return status;
}

enum bp_status fuzz_record(struct bp_graph *graph, const struct fuzz_node *node,
                           struct bp_tensor **symbol)
{
    struct bp_tensor *in[FUZZ_FLAT], *out[FUZZ_FLAT] = {0};
    struct bp_arg arg[FUZZ_PORTS];
    struct bp_call call = {.size = sizeof call, .in = arg};
    enum bp_status status;
    uint32_t at = 0;

    for (uint32_t i = 0; i < node->n_in; i++)
        in[i] = node->in[i] == FUZZ_ABSENT ? NULL : symbol[node->in[i]];
    if (!node->op) return record_gradient(graph, node, in, symbol);
    for (uint32_t p = 0; p < node->op->n_in; p++) {
        arg[p] = (struct bp_arg){in + at, node->count[p]};
        at += node->count[p];
    }
    call.op = node->op->name;
    call.n_in = node->op->n_in;
    call.attrs = node->op->attrs_size ? node->attrs : NULL;
    status = bp_call_run(bp_graph_scope(graph), &call, out, node->n_out, NULL);
    for (uint32_t i = 0; i < node->n_out; i++)
        if (status == BP_OK) symbol[node->out[i]] = out[i];
    return status;
}

/* ---- printing ---- */

static void print_type(const struct fuzz_value *v)
{
    printf("%s", bp_dtype_name((enum bp_dtype)v->dtype));
    for (uint32_t i = 0; i < v->rank; i++) printf("%c%" PRId64, i ? 'x' : ' ', v->shape[i]);
    if (!v->rank) printf(" scalar");
}

static void print_attr(const struct fuzz_node *node, const struct bp_attr *attr)
{
    const char *field = (const char *)node->attrs + attr->offset;
    const int64_t *at = (const int64_t *)field;
    int64_t n = attr->count;
    double number;

    if (attr->kind == BP_ATTR_F64) {
        memcpy(&number, field, sizeof number);
        if (number != attr->value) printf(" %s=%g", attr->name, number);
        return;
    }
    if (attr->kind == BP_ATTR_DIMS) {
        const struct bp_dims *dims = (const struct bp_dims *)field;
        at = dims->at;
        n = dims->n;
        if (!n) return;
    } else {
        bool same = true;
        for (int64_t i = 0; i < n; i++) same = same && (double)at[i] == attr->value;
        if (same) return;
    }
    printf(" %s=", attr->name);
    for (int64_t i = 0; i < n; i++) printf("%s%" PRId64, i ? "," : "", at[i]);
}

static void print_node(const struct fuzz_recipe *r, const struct fuzz_node *node)
{
    for (uint32_t i = 0; i < node->n_out; i++) {
        printf("%s%%%u ", i ? ", " : "  ", node->out[i]);
        print_type(&r->value[node->out[i]]);
    }
    printf(" = %s(", node->op ? node->op->name : "gradient");
    for (uint32_t i = 0; i < node->n_in; i++)
        if (node->in[i] == FUZZ_ABSENT) printf("%s-", i ? ", " : "");
        else printf("%s%%%u", i ? ", " : "", node->in[i]);
    printf(")");
    for (uint32_t i = 0; node->op && i < node->op->n_attr; i++)
        print_attr(node, &node->op->attr[i]);
    if (!node->op) printf(" of %u values", node->n_y);
    printf("\n");
}

void fuzz_print(const struct fuzz_recipe *r)
{
    static const char *const data[] = {"plain", "weight", "positive", "index", "special", "rate"};

    printf("graph of seed %" PRIu64 ":\n", r->seed);
    for (uint32_t v = 0; v < r->n_value; v++) {
        const struct fuzz_value *value = &r->value[v];
        if (value->kind == FUZZ_RESULT || (!value->readers && !value->is_output)) continue;
        printf("  %%%u ", v);
        print_type(value);
        printf(" = %s%s%s, %s numbers", value->frozen ? "frozen " : "",
               value->strided ? "strided " : "", value->kind == FUZZ_INPUT ? "input" : "constant",
               data[value->data]);
        if (value->base != FUZZ_ABSENT) printf(", the transposed view of %%%u", value->base);
        printf("\n");
    }
    for (uint32_t n = 0; n < r->n_node; n++)
        if (!r->node[n].dropped) print_node(r, &r->node[n]);
    printf("  outputs:");
    for (uint32_t o = 0; o < r->n_output; o++) printf(" %%%u", r->output[o]);
    printf("\n");
}

/* ---- what a recipe contains ---- */

void fuzz_count_readers(struct fuzz_recipe *r)
{
    for (uint32_t v = 0; v < r->n_value; v++) {
        r->value[v].readers = 0;
        r->value[v].is_output = false;
    }
    for (uint32_t n = 0; n < r->n_node; n++)
        for (uint32_t i = 0; i < r->node[n].n_in && !r->node[n].dropped; i++)
            if (r->node[n].in[i] != FUZZ_ABSENT) r->value[r->node[n].in[i]].readers++;
    for (uint32_t o = 0; o < r->n_output; o++) r->value[r->output[o]].is_output = true;
}

/* Whether an operator may be part of a group that a pass fuses. */
static bool is_fusible(const struct bp_opinfo *op)
{
    static const char *const names[] = {
        "add",    "sub",     "mul",   "div",        "maximum",      "minimum", "relu",
        "tanh",   "sigmoid", "scale", "clip",       "leaky_relu",   "abs",     "neg",
        "square", "silu",    "gelu",  "hard_swish", "hard_sigmoid", "elu",     "mish",
        "exp",    "sqrt",    "where", "cast",       "batch_norm",   "erf"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i], op->name)) return true;
    return false;
}

static bool is_product(const struct bp_opinfo *op)
{
    return !strcmp(op->name, "conv") || !strcmp(op->name, "matmul") || !strcmp(op->name, "linear");
}

/* Whether the node's result goes to one fusible node, which is then set. */
static bool has_fusible_reader(const struct fuzz_recipe *r, const struct fuzz_node *node)
{
    const struct fuzz_value *v = &r->value[node->out[0]];

    if (v->readers != 1 || v->is_output) return false;
    for (uint32_t n = 0; n < r->n_node; n++)
        for (uint32_t i = 0; i < r->node[n].n_in; i++)
            if (r->node[n].in[i] == node->out[0]) return r->node[n].op && is_fusible(r->node[n].op);
    return false;
}

static void find_node_traits(struct fuzz_recipe *r, const struct fuzz_node *node)
{
    if (!node->op) {
        r->has[FUZZ_HAS_GRADIENT] = true;
        return;
    }
    if (node->op->flags & BP_OP_VIEW) r->has[FUZZ_HAS_VIEW] = true;
    if (node->op->flags & BP_OP_BOUND) r->has[FUZZ_HAS_BOUND] = true;
    if (node->op->flags & BP_OP_RANDOM) r->has[FUZZ_HAS_RANDOM] = true;
    if (fuzz_node_is_update(node)) r->has[FUZZ_HAS_UPDATE] = true;
    if (!strcmp(node->op->name, "conv")) r->has[FUZZ_HAS_CONV] = true;
    if (!strcmp(node->op->name, "matmul")) r->has[FUZZ_HAS_MATMUL] = true;
    if ((is_fusible(node->op) || is_product(node->op)) && has_fusible_reader(r, node))
        r->has[FUZZ_HAS_CHAIN] = true;
}

void fuzz_find_traits(struct fuzz_recipe *r)
{
    fuzz_count_readers(r);
    memset(r->has, 0, sizeof r->has);
    for (uint32_t n = 0; n < r->n_node; n++) find_node_traits(r, &r->node[n]);
    for (uint32_t v = 0; v < r->n_value; v++) {
        const struct fuzz_value *value = &r->value[v];
        if (value->kind == FUZZ_RESULT && value->readers + value->is_output > 1)
            r->has[FUZZ_HAS_SECOND_READER] = true;
        if (value->dtype == BP_F16 || value->dtype == BP_BF16) r->has[FUZZ_HAS_HALF] = true;
        if (value->kind != FUZZ_RESULT && value->data == FUZZ_SPECIAL)
            r->has[FUZZ_HAS_SPECIAL] = true;
    }
}
