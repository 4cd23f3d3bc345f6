/* SPDX-License-Identifier: Apache-2.0 */
/* engine_ops.c: writes the nodes of a group as a model of ONNX, opset 13. */
#include "engine.h"

#include <stdlib.h>
#include <string.h>

enum {
    GRAPH_NODE = 1,
    GRAPH_NAME = 2,
    GRAPH_CONSTANT = 5,
    GRAPH_IN = 11,
    GRAPH_OUT = 12
};
enum {
    NODE_IN = 1,
    NODE_OUT = 2,
    NODE_TYPE = 4
};
enum {
    TENSOR_DIM = 1,
    TENSOR_TYPE = 2,
    TENSOR_NAME = 8,
    TENSOR_RAW = 9
};
enum {
    IR_VERSION = 8,
    OPSET = 13
};

static const struct bp_data_value *node_in(const struct npu_node *n, uint32_t i)
{
    return i < n->node->n_in && n->node->in[i] != BP_DATA_NONE ? npu_value(n->graph, n->node->in[i])
                                                               : NULL;
}

static const struct bp_data_value *node_out(const struct npu_node *n)
{
    return npu_value(n->graph, n->node->out[0]);
}

static void node_value_name(char out[NPU_VALUE_NAME], uint32_t value)
{
    snprintf(out, NPU_VALUE_NAME, "v%u", value);
}

static void node_port(struct npu_onnx *to, uint32_t field, uint32_t value)
{
    char name[NPU_VALUE_NAME] = "";

    if (value != BP_DATA_NONE) node_value_name(name, value);
    npu_onnx_text(to, field, name);
}

/* Adds a constant of i64 to the graph. */
static void node_constant(struct npu_onnx *graph, const char *name, const int64_t *at, int64_t n)
{
    struct npu_onnx tensor = {.n = 0};

    npu_onnx_int(&tensor, TENSOR_DIM, n);
    npu_onnx_int(&tensor, TENSOR_TYPE, npu_onnx_type(BP_I64));
    npu_onnx_text(&tensor, TENSOR_NAME, name);
    npu_onnx_bytes(&tensor, TENSOR_RAW, at, (size_t)n * sizeof *at);
    npu_onnx_message(graph, GRAPH_CONSTANT, &tensor);
}

static const char *write_plain(struct npu_node *n)
{
    (void)n;
    return NULL;
}

static const char *write_matmul(struct npu_node *n)
{
    const struct bp_matmul_attrs *a = n->node->attrs;

    if (!a->transpose_a && !a->transpose_b) return NULL;
    if (node_in(n, 0)->rank != 2 || node_in(n, 1)->rank != 2)
        return "lists of matrices that are transposed";
    if (!n->to) return NULL;
    n->type = "Gemm";
    npu_onnx_attr_int(n->to, "transA", a->transpose_a);
    npu_onnx_attr_int(n->to, "transB", a->transpose_b);
    return NULL;
}

static const char *write_softmax(struct npu_node *n)
{
    const struct bp_softmax_attrs *a = n->node->attrs;

    if (n->to) npu_onnx_attr_int(n->to, "axis", a->axis);
    return NULL;
}

static const char *write_leaky_relu(struct npu_node *n)
{
    const struct bp_leaky_relu_attrs *a = n->node->attrs;

    if (n->to) npu_onnx_attr_float(n->to, "alpha", a->slope);
    return NULL;
}

/* The window of convolutions and pools: ONNX has the pads of all axes before those behind them. */
static void node_window(struct npu_node *n, const int64_t *stride, const int64_t *dilation,
                        const int64_t *pad)
{
    uint32_t spatial = node_in(n, 0)->rank - 2;
    int64_t pads[6];

    for (uint32_t i = 0; i < spatial; i++) {
        pads[i] = pad[i];
        pads[spatial + i] = pad[3 + i];
    }
    npu_onnx_attr_ints(n->to, "strides", stride, spatial);
    if (dilation) npu_onnx_attr_ints(n->to, "dilations", dilation, spatial);
    npu_onnx_attr_ints(n->to, "pads", pads, 2 * (size_t)spatial);
}

static const char *write_conv(struct npu_node *n)
{
    const struct bp_conv_attrs *a = n->node->attrs;

    if (!n->to) return NULL;
    node_window(n, a->stride, a->dilation, a->pad);
    npu_onnx_attr_int(n->to, "group", a->groups);
    return NULL;
}

static const char *write_max_pool(struct npu_node *n)
{
    const struct bp_max_pool_attrs *a = n->node->attrs;

    if (a->adaptive || a->ceil_mode) return "a window that changes, or is not whole";
    if (!n->to) return NULL;
    node_window(n, a->stride, a->dilation, a->pad);
    npu_onnx_attr_ints(n->to, "kernel_shape", a->window, node_in(n, 0)->rank - 2);
    return NULL;
}

static const char *write_avg_pool(struct npu_node *n)
{
    const struct bp_avg_pool_attrs *a = n->node->attrs;

    if (a->adaptive || a->ceil_mode) return "a window that changes, or is not whole";
    if (a->divisor != 0) return "a divisor of its own";
    for (int i = 0; i < 3; i++)
        if (a->dilation[i] != 1) return "a mean with gaps";
    if (!n->to) return NULL;
    node_window(n, a->stride, NULL, a->pad);
    npu_onnx_attr_ints(n->to, "kernel_shape", a->window, node_in(n, 0)->rank - 2);
    npu_onnx_attr_int(n->to, "count_include_pad", a->include_pad);
    return NULL;
}

static const char *write_global_avg_pool(struct npu_node *n)
{
    const struct bp_global_avg_pool_attrs *a = n->node->attrs;

    return a->flat ? "a mean without its axes" : NULL;
}

static const char *write_batch_norm(struct npu_node *n)
{
    const struct bp_batch_norm_attrs *a = n->node->attrs;

    if (!node_in(n, 1) || !node_in(n, 2)) return "no scale or no bias";
    if (n->to) npu_onnx_attr_float(n->to, "epsilon", a->epsilon);
    return NULL;
}

static const char *write_concat(struct npu_node *n)
{
    const struct bp_concat_attrs *a = n->node->attrs;

    if (n->to) npu_onnx_attr_int(n->to, "axis", a->axis);
    return NULL;
}

static const char *write_transpose(struct npu_node *n)
{
    const struct bp_transpose_attrs *a = n->node->attrs;

    if (n->to && a->perm.n) npu_onnx_attr_ints(n->to, "perm", a->perm.at, (size_t)a->perm.n);
    return NULL;
}

/* The shape of the result is a second input. */
static const char *write_shape(struct npu_node *n)
{
    char name[NPU_VALUE_NAME];

    if (!n->to) return NULL;
    snprintf(name, sizeof name, "shape%u", n->number);
    npu_onnx_text(n->to, NODE_IN, name);
    node_constant(n->model, name, node_out(n)->shape, node_out(n)->rank);
    return NULL;
}

const struct npu_engine_op npu_engine_ops[NPU_ENGINE_OPS] = {
#define EOP(op, onnx, function) {.known = {BP_OPROW(op)}, .type = onnx, .write = write_##function},
#include "engine_ops.def"
};

const struct npu_engine_op *npu_engine_op_find(const char *op)
{
    for (int i = 0; i < NPU_ENGINE_OPS; i++)
        if (!strcmp(npu_engine_ops[i].known.op, op)) return &npu_engine_ops[i];
    return NULL;
}

static const char *value_refuses(const struct bp_data_value *v)
{
    if (v->dtype != BP_F32 && v->dtype != BP_F16) return "a dtype other than f32 and f16";
    if (v->layout || v->stride) return "strides of its own";
    if (v->flags & BP_DATA_SHAPE_ONLY) return "a value without contents";
    for (uint32_t a = 0; a < v->rank; a++)
        if (v->shape[a] <= 0) return "an empty tensor, or an extent that is not known";
    return v->rank > 8 ? "more than 8 axes" : NULL;
}

const char *npu_engine_refuses(const struct bp_graph_data *graph, const struct bp_data_node *node)
{
    struct npu_node n = {.graph = graph, .node = node};
    const struct npu_engine_op *op = npu_engine_op_find(node->op);
    const char *why = op ? NULL : "an operator that the plugin does not write";

    if (why) return why;
    if (node->flags) return "the node updates memory, draws numbers, or belongs to the core";
    for (uint32_t p = 0; p < node->info->n_in; p++)
        for (uint32_t i = node->in_at[p]; i < node->in_at[p + 1]; i++)
            if (node->info->in[p].kind == BP_PORT_HOST && node->in[i] != BP_DATA_NONE)
                return "a tensor supplies an attribute";
    for (uint32_t i = 0; i < node->n_in && !why; i++)
        if (node_in(&n, i)) why = value_refuses(node_in(&n, i));
    if (!why) why = value_refuses(node_out(&n));
    return why ? why : op->write(&n);
}

static void model_node(const struct bp_graph_data *graph, uint32_t number, struct npu_onnx *to)
{
    const struct bp_data_node *node = BP_ROW(struct bp_data_node, graph->node, graph->node_stride,
                                             number);
    const struct npu_engine_op *op = npu_engine_op_find(node->op);
    struct npu_onnx message = {.n = 0};
    struct npu_node n = {graph, node, &message, to, number, op->type};
    uint32_t n_in = node->n_in;

    while (n_in && node->in[n_in - 1] == BP_DATA_NONE) n_in--;
    for (uint32_t i = 0; i < n_in; i++) node_port(&message, NODE_IN, node->in[i]);
    node_port(&message, NODE_OUT, node->out[0]);
    op->write(&n);
    npu_onnx_text(&message, NODE_TYPE, n.type);
    npu_onnx_message(to, GRAPH_NODE, &message);
}

/* An input or output with its type. */
static void model_port(const struct bp_graph_data *graph, uint32_t value, uint32_t field,
                       struct npu_onnx *to)
{
    const struct bp_data_value *v = npu_value(graph, value);
    struct npu_onnx port = {.n = 0}, type = {.n = 0}, tensor = {.n = 0}, shape = {.n = 0};

    for (uint32_t a = 0; a < v->rank; a++) {
        struct npu_onnx dim = {.n = 0};
        npu_onnx_int(&dim, 1, v->shape[a]);
        npu_onnx_message(&shape, 1, &dim);
    }
    npu_onnx_int(&tensor, 1, npu_onnx_type(v->dtype));
    npu_onnx_message(&tensor, 2, &shape);
    npu_onnx_message(&type, 1, &tensor);
    node_port(&port, 1, value);
    npu_onnx_message(&port, 2, &type);
    npu_onnx_message(to, field, &port);
}

/* The contents of a constant are on the device. */
static enum bp_status model_constant(struct npu_device *device, const struct bp_graph_data *graph,
                                     uint32_t value, struct npu_onnx *to)
{
    const struct bp_data_value *v = npu_value(graph, value);
    struct npu_onnx tensor = {.n = 0};
    void *copy = malloc(v->bytes);
    enum bp_status status;

    if (!copy) return bp_fail(device->npu->host, BP_ERR_MEMORY, "npu: no memory for a constant");
    status = NPU_CALL(device, aclrtMemcpy, copy, v->bytes, v->data, v->bytes, NPU_DEVICE_TO_HOST);
    for (uint32_t a = 0; a < v->rank; a++) npu_onnx_int(&tensor, TENSOR_DIM, v->shape[a]);
    npu_onnx_int(&tensor, TENSOR_TYPE, npu_onnx_type(v->dtype));
    node_port(&tensor, TENSOR_NAME, value);
    npu_onnx_bytes(&tensor, TENSOR_RAW, copy, v->bytes);
    npu_onnx_message(to, GRAPH_CONSTANT, &tensor);
    free(copy);
    return status;
}

enum bp_status npu_engine_model(struct npu_device *device, const struct bp_graph_data *graph,
                                struct npu_onnx *out)
{
    struct npu_onnx body = {.n = 0}, opset = {.n = 0};
    enum bp_status status = BP_OK;

    for (uint32_t i = 0; i < graph->n_node; i++) model_node(graph, i, &body);
    npu_onnx_text(&body, GRAPH_NAME, "group");
    for (uint32_t i = 0; i < graph->n_value && !status; i++)
        if (npu_value(graph, i)->flags & BP_DATA_FROZEN)
            status = model_constant(device, graph, i, &body);
    for (uint32_t i = 0; i < graph->n_in; i++) model_port(graph, graph->in[i], GRAPH_IN, &body);
    for (uint32_t i = 0; i < graph->n_out; i++) model_port(graph, graph->out[i], GRAPH_OUT, &body);
    npu_onnx_int(out, 1, IR_VERSION);
    npu_onnx_message(out, 7, &body);
    npu_onnx_text(&opset, 1, "");
    npu_onnx_int(&opset, 2, OPSET);
    npu_onnx_message(out, 8, &opset);
    if (!status && out->failed)
        status = bp_fail(device->npu->host, BP_ERR_MEMORY,
                         "npu: a group is too large for a model of 2 GiB, or there is no memory");
    return status;
}
