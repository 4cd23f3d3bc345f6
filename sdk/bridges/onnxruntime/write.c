/* SPDX-License-Identifier: Apache-2.0 */
/* write.c: writes a graph of ONNX Runtime as a model in ONNX's format. Large initializers get their
 * types only: the model takes their memory as tensors. */
#include "write.h"

#include <stdlib.h>
#include <string.h>

/* A list of values of a graph. */
struct values {
    const struct ort_value_info **at;
    size_t n;
};
static struct ort_status *values_make(struct values *v, size_t n)
{
    *v = (struct values){calloc(n + 1, sizeof(void *)), n};
    return v->at ? NULL : ort_no_memory();
}

static struct ort_status *write_body(struct ort_writing *w, struct ort_proto *out,
                                     const struct ort_graph *graph, bool is_inner);

static struct ort_status *write_bodies(struct ort_writing *w, struct ort_proto *node,
                                       const struct ort_node *from)
{
    const struct ort_graph *graph[8];
    const char *name[8];
    size_t n = 0;

    TRY(ort.node_n_body(from, &n));
    if (n > 8) return ort_error(ORT_NOT_IMPLEMENTED, "Backplane: a node has %zu sub-graphs", n);
    if (n) TRY(ort.node_body(from, graph, n, name));
    for (size_t i = 0; i < n; i++) {
        struct ort_proto attr = {0}, body = {0};
        struct ort_status *status = write_body(w, &body, graph[i], true);
        if (status) {
            ort_proto_finish(&body);
            return status;
        }
        ort_proto_text(&attr, ATTR_NAME, name[i]);
        ort_proto_number(&attr, ATTR_TYPE, ATTR_TYPE_GRAPH);
        ort_proto_message(&attr, ATTR_GRAPH, &body);
        ort_proto_message(node, NODE_ATTR, &attr);
    }
    return NULL;
}

static struct ort_status *write_attrs(struct ort_proto *out, const struct ort_node *node)
{
    struct ort_status *status;
    const struct ort_attr **attr;
    size_t n = 0;

    TRY(ort.node_n_attr(node, &n));
    attr = calloc(n + 1, sizeof *attr);
    if (!attr) return ort_no_memory();
    status = n ? ort.node_attr(node, attr, n) : NULL;
    for (size_t i = 0; i < n && !status; i++) status = ort_write_attr(out, attr[i]);
    free(attr);
    return status;
}

/* Writes the names of values; absent ones are "". With ORT_WRITE_TYPES also the types of outputs,
 * to the graph. */
static struct ort_status *write_names(struct ort_proto *node, uint32_t field,
                                      const struct values *v, struct ort_proto *graph)
{
    for (size_t i = 0; i < v->n; i++) {
        const char *name = "";
        if (v->at[i]) TRY(ort.value_info_name(v->at[i], &name));
        ort_proto_text(node, field, name);
        if (graph && *name) TRY(ort_write_value(graph, GRAPH_VALUE, v->at[i]));
    }
    return NULL;
}

static struct ort_status *write_ports(const struct ort_writing *w, struct ort_proto *out,
                                      const struct ort_node *node, struct ort_proto *graph)
{
    struct ort_status *status;
    struct values in = {0}, result = {0};
    size_t n_in = 0, n_out = 0;

    TRY(ort.node_n_input(node, &n_in));
    TRY(ort.node_n_output(node, &n_out));
    TRY(values_make(&in, n_in));
    status = values_make(&result, n_out);
    if (!status && n_in) status = ort.node_input(node, in.at, n_in);
    if (!status && n_out) status = ort.node_output(node, result.at, n_out);
    if (!status) status = write_names(out, 1, &in, NULL);
    if (!status)
        status = write_names(out, 2, &result, w->flags & ORT_WRITE_TYPES ? graph : NULL);
    free(in.at);
    free(result.at);
    return status;
}

/* Writes a node. A node with something that cannot be written gets an attribute that no operator
 * has, if only the types are wanted: so the library refuses it. */
static struct ort_status *write_node(struct ort_writing *w, struct ort_proto *graph,
                                     const struct ort_node *from)
{
    struct ort_proto node = {0};
    struct ort_status *status;
    const char *name, *op, *domain;

    TRY(ort.node_name(from, &name));
    TRY(ort.node_operator(from, &op));
    TRY(ort.node_domain(from, &domain));
    status = write_ports(w, &node, from, graph);
    ort_proto_text(&node, 3, name);
    ort_proto_text(&node, 4, op);
    if (*domain) ort_proto_text(&node, 7, domain);
    if (!status) {
        status = write_attrs(&node, from);
        if (!status) status = write_bodies(w, &node, from);
        if (status && w->flags & ORT_WRITE_TYPES) {
            struct ort_proto unknown = {0};
            ort_forget(status);
            status = NULL;
            ort_proto_text(&unknown, ATTR_NAME, "that cannot be read");
            ort_proto_number(&unknown, ATTR_INT, 0);
            ort_proto_number(&unknown, ATTR_TYPE, ATTR_TYPE_INT);
            ort_proto_message(&node, NODE_ATTR, &unknown);
        }
    }
    if (status) ort_proto_finish(&node);
    else ort_proto_message(graph, GRAPH_NODE, &node);
    return status;
}

static struct ort_status *write_nodes(struct ort_writing *w, struct ort_proto *out,
                                      const struct ort_graph *graph)
{
    const struct ort_node **node;
    struct ort_status *status;
    size_t n = 0;

    TRY(ort.graph_n_node(graph, &n));
    node = calloc(n + 1, sizeof *node);
    if (!node) return ort_no_memory();
    status = n ? ort.graph_node(graph, node, n) : NULL;
    for (size_t i = 0; i < n && !status; i++) status = write_node(w, out, node[i]);
    free(node);
    return status;
}

/* --- graphs --- */

/* Writes a constant. Its data stays where it is, if it is large. */
static struct ort_status *write_constant(struct ort_writing *w, struct ort_proto *graph,
                                         const struct ort_value_info *info, const char *name,
                                         const struct ort_value *value, bool is_inner)
{
    struct ort_weight t = {.input = UINT32_MAX}, *grown;
    struct ort_proto tensor = {0};
    bool has_data;

    TRY(ort_read_value(value, &t));
    has_data = w->flags & ORT_WRITE_ALL || is_inner || t.bytes < ORT_WEIGHT_MIN;
    if (!has_data) {
        if (!(w->n_weight & (w->n_weight - 1))) {
            grown = realloc(w->weight, (2 * w->n_weight + 1) * sizeof *grown);
            if (!grown) return ort_no_memory();
            w->weight = grown;
        }
        t.name = strdup(name);
        if (!t.name) return ort_no_memory();
        w->weight[w->n_weight++] = t;
        TRY(ort_weight_find_file(w->graph, info, &w->weight[w->n_weight - 1]));
    }
    ort_write_tensor(&tensor, name, &t, has_data);
    ort_proto_message(graph, GRAPH_INITIALIZER, &tensor);
    return NULL;
}

/* Writes the initializers that are constant; others are inputs of the graph too. */
static struct ort_status *write_initializers(struct ort_writing *w, struct ort_proto *out,
                                             const struct values *v, bool is_inner)
{
    for (size_t i = 0; i < v->n; i++) {
        const struct ort_value *value = NULL;
        bool is_constant = false;
        const char *name;
        TRY(ort.value_info_is_constant(v->at[i], &is_constant));
        if (!is_constant) continue;
        TRY(ort.value_info_name(v->at[i], &name));
        if (w->flags & ORT_WRITE_TYPES) {
            TRY(ort_write_value(out, GRAPH_VALUE, v->at[i]));
            continue;
        }
        TRY(ort.value_info_initializer(v->at[i], &value));
        if (!value) continue;
        TRY(write_constant(w, out, v->at[i], name, value, is_inner));
    }
    return NULL;
}

/* Writes inputs or outputs. An input that is a constant is none. A constant of an outer graph is
 * not among the initializers of this graph, and is written here. */
static struct ort_status *write_list(struct ort_writing *w, struct ort_proto *out, uint32_t field,
                                     const struct values *v, bool is_inner)
{
    for (size_t i = 0; i < v->n; i++) {
        const struct values one = {v->at + i, 1};
        bool is_constant = false, is_outer = false;
        if (field == GRAPH_INPUT) TRY(ort.value_info_is_constant(v->at[i], &is_constant));
        if (is_constant) TRY(ort.value_info_is_outer(v->at[i], &is_outer));
        if (is_outer) TRY(write_initializers(w, out, &one, is_inner));
        else if (!is_constant) TRY(ort_write_value(out, field, v->at[i]));
    }
    return NULL;
}

static struct ort_status *graph_values(const struct ort_graph *graph, uint32_t field,
                                       struct values *out)
{
    struct ort_status *status = NULL;
    size_t n = 0;

    if (field == GRAPH_INPUT) TRY(ort.graph_n_input(graph, &n));
    else if (field == GRAPH_OUTPUT) TRY(ort.graph_n_output(graph, &n));
    else TRY(ort.graph_n_initializer(graph, &n));
    TRY(values_make(out, n));
    if (n && field == GRAPH_INPUT) status = ort.graph_input(graph, out->at, n);
    else if (n && field == GRAPH_OUTPUT) status = ort.graph_output(graph, out->at, n);
    else if (n) status = ort.graph_initializer(graph, out->at, n);
    if (status) free(out->at);
    return status;
}

static struct ort_status *write_body(struct ort_writing *w, struct ort_proto *out,
                                     const struct ort_graph *graph, bool is_inner)
{
    static const uint8_t fields[] = {GRAPH_INITIALIZER, GRAPH_INPUT, GRAPH_OUTPUT};
    struct ort_status *status = write_nodes(w, out, graph);
    struct values v;

    ort_proto_text(out, GRAPH_NAME, "graph");
    for (size_t i = 0; i < sizeof fields && !status; i++) {
        status = graph_values(graph, fields[i], &v);
        if (status) break;
        status = fields[i] == GRAPH_INITIALIZER ? write_initializers(w, out, &v, is_inner)
                                                : write_list(w, out, fields[i], &v, is_inner);
        free(v.at);
    }
    return status;
}

static struct ort_status *write_opsets(struct ort_proto *model, const struct ort_graph *graph)
{
    struct ort_status *status;
    const char **domain;
    int64_t *version;
    size_t n = 0;

    TRY(ort.graph_n_opset(graph, &n));
    domain = calloc(n + 1, sizeof *domain + sizeof *version);
    if (!domain) return ort_no_memory();
    version = (int64_t *)(domain + n + 1);
    status = n ? ort.graph_opset(graph, domain, version, n) : NULL;
    for (size_t i = 0; i < n && !status; i++) {
        struct ort_proto opset = {0};
        ort_proto_text(&opset, OPSET_DOMAIN, domain[i]);
        ort_proto_number(&opset, OPSET_VERSION, version[i]);
        ort_proto_message(model, MODEL_OPSET, &opset);
    }
    free(domain);
    return status;
}

/* Writes the types of a node's inputs, and of the values that its sub-graphs use. */
static struct ort_status *write_input_types(struct ort_proto *out, const struct ort_node *node)
{
    struct ort_status *status;
    struct values in = {0};
    size_t n_in = 0, n_implicit = 0;

    TRY(ort.node_n_input(node, &n_in));
    TRY(ort.node_n_implicit(node, &n_implicit));
    TRY(values_make(&in, n_in + n_implicit));
    status = n_in ? ort.node_input(node, in.at, n_in) : NULL;
    if (!status && n_implicit) status = ort.node_implicit(node, in.at + n_in, n_implicit);
    for (size_t i = 0; i < in.n && !status; i++)
        if (in.at[i]) status = ort_write_value(out, GRAPH_VALUE, in.at[i]);
    free(in.at);
    return status;
}

struct ort_status *ort_write_alone(struct ort_writing *w, const struct ort_graph *graph,
                                   const struct ort_node *node)
{
    struct ort_proto out = {0};
    struct ort_status *status = write_node(w, &out, node);

    if (!status) status = write_input_types(&out, node);

    ort_proto_message(&w->model, MODEL_GRAPH, &out);
    if (!status) status = write_opsets(&w->model, graph);
    if (!status && w->model.failed) status = ort_no_memory();
    return status;
}

struct ort_status *ort_write_graph(struct ort_writing *w, const struct ort_graph *graph)
{
    struct ort_proto out = {0};
    struct ort_status *status;
    int64_t ir = 0;

    w->graph = graph;
    TRY(ort.graph_ir(graph, &ir));
    ort_proto_number(&w->model, MODEL_IR, ir);
    status = write_body(w, &out, graph, false);
    ort_proto_message(&w->model, MODEL_GRAPH, &out);
    if (!status) status = write_opsets(&w->model, graph);
    if (!status && w->model.failed) status = ort_no_memory();
    return status;
}

void ort_writing_finish(struct ort_writing *w)
{
    for (size_t i = 0; i < w->n_weight; i++) {
        free(w->weight[i].name);
        free(w->weight[i].file);
    }
    free(w->weight);
    ort_proto_finish(&w->model);
    w->weight = NULL;
    w->n_weight = 0;
}
