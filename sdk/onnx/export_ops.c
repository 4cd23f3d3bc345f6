/* SPDX-License-Identifier: Apache-2.0 */
/* export_ops.c: writes operators of Backplane as nodes of ONNX operators. */
#include "export.h"
#include "ops.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct export_value *export_ops_ints(struct export_value *room, const int64_t *list,
                                                  size_t n)
{
    *room = (struct export_value){.type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS,
                                  .list = list, .n = n};
    return room;
}

static const struct export_value *export_ops_integer(struct export_value *room, int64_t number)
{
    *room = (struct export_value){.type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT,
                                  .number = number};
    return room;
}

static const struct export_value *export_ops_real(struct export_value *room, double number)
{
    *room = (struct export_value){.type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT,
                                  .real = number};
    return room;
}

static Onnx__NodeProto *with_inputs(struct export *e, const char *op,
                                    const struct bp_node_info *from)
{
    Onnx__NodeProto *node = export_node(e, op, from);
    uint32_t n = from->n_in;

    while (n && from->in[n - 1] == UINT32_MAX) n--; /* absent inputs at the end are left out */
    for (uint32_t i = 0; node && i < n; i++) export_input(e, node, export_name(e, from->in[i]));
    return e->status ? NULL : node;
}

/* The number of spatial axes of input 0. */
static size_t export_ops_spatial(struct export *e, const struct bp_node_info *from)
{
    struct bp_value_info info = {.size = sizeof info};

    e->status = bp_graph_value(e->graph, from->in[0], &info);
    return e->status ? 0 : info.rank - 2;
}

static void put_window(struct export *e, Onnx__NodeProto *node, size_t axes, const int64_t *stride,
                       const int64_t *dilation, const int64_t *pad)
{
    struct export_value room;
    int64_t pads[6];

    for (size_t i = 0; i < axes; i++) {
        pads[i] = pad[i];
        pads[axes + i] = pad[3 + i];
    }
    export_attribute(e, node, "strides", export_ops_ints(&room, stride, axes));
    export_attribute(e, node, "dilations", export_ops_ints(&room, dilation, axes));
    export_attribute(e, node, "pads", export_ops_ints(&room, pads, 2 * axes));
}

static void export_conv(struct export *e, const struct bp_node_info *from)
{
    const struct bp_conv_attrs *a = from->attrs;
    Onnx__NodeProto *node = with_inputs(e, "Conv", from);
    struct export_value room;

    if (!node) return;
    put_window(e, node, export_ops_spatial(e, from), a->stride, a->dilation, a->pad);
    export_attribute(e, node, "group", export_ops_integer(&room, a->groups));
}

static void export_max_pool(struct export *e, const struct bp_node_info *from)
{
    const struct bp_max_pool_attrs *a = from->attrs;
    Onnx__NodeProto *node = a->adaptive ? NULL : with_inputs(e, "MaxPool", from);
    struct export_value room;
    size_t axes = export_ops_spatial(e, from);

    if (a->adaptive) e->status = onnx_error(BP_ERR_UNSUPPORTED, "adaptive pools have no operator");
    if (!node) return;
    put_window(e, node, axes, a->stride, a->dilation, a->pad);
    export_attribute(e, node, "kernel_shape", export_ops_ints(&room, a->window, axes));
    export_attribute(e, node, "ceil_mode", export_ops_integer(&room, a->ceil_mode));
}

/* The extents are an input in ONNX: an initialiser that is written for this node. */
static void export_reshape(struct export *e, const struct bp_node_info *from)
{
    const struct bp_reshape_attrs *a = from->attrs;
    Onnx__NodeProto *node = export_node(e, "Reshape", from);
    Onnx__TensorProto *shape;
    char name[160];

    if (!node) return;
    snprintf(name, sizeof name, "%.140s.shape", from->name);
    shape = export_tensor(e, name, BP_I64, 1, &a->shape.n, (uint64_t)a->shape.n * 8);
    if (!shape) return;
    if (a->shape.n) memcpy(shape->raw_data.data, a->shape.at, (size_t)a->shape.n * 8);
    export_input(e, node, export_name(e, from->in[0]));
    export_input(e, node, name);
}

static void export_addmm(struct export *e, const struct bp_node_info *from)
{
    const struct bp_addmm_attrs *a = from->attrs;
    Onnx__NodeProto *node = export_node(e, "Gemm", from);
    struct export_value room;

    if (!node) return;
    for (int i = 1; i <= 3; i++) export_input(e, node, export_name(e, from->in[i % 3]));
    export_attribute(e, node, "alpha", export_ops_real(&room, a->alpha));
    export_attribute(e, node, "beta", export_ops_real(&room, a->beta));
}

static void export_layer_norm(struct export *e, const struct bp_node_info *from)
{
    const struct bp_layer_norm_attrs *a = from->attrs;
    Onnx__NodeProto *node = with_inputs(e, "LayerNormalization", from);
    struct export_value room;

    if (!node) return;
    export_attribute(e, node, "axis", export_ops_integer(&room, a->axis));
    export_attribute(e, node, "epsilon", export_ops_real(&room, a->epsilon));
}

static void export_batch_norm(struct export *e, const struct bp_node_info *from)
{
    const struct bp_batch_norm_attrs *a = from->attrs;
    Onnx__NodeProto *node = with_inputs(e, "BatchNormalization", from);
    struct export_value room;

    if (node) export_attribute(e, node, "epsilon", export_ops_real(&room, a->epsilon));
}

static void export_matmul(struct export *e, const struct bp_node_info *from)
{
    const struct bp_matmul_attrs *a = from->attrs;

    if (a->transpose_a || a->transpose_b)
        e->status = onnx_error(BP_ERR_UNSUPPORTED, "MatMul transposes neither side");
    else with_inputs(e, "MatMul", from);
}

static void export_softmax(struct export *e, const struct bp_node_info *from)
{
    const struct bp_softmax_attrs *a = from->attrs;
    Onnx__NodeProto *node = with_inputs(e, "Softmax", from);
    struct export_value room;

    if (node) export_attribute(e, node, "axis", export_ops_integer(&room, a->axis));
}

static void export_transpose(struct export *e, const struct bp_node_info *from)
{
    const struct bp_transpose_attrs *a = from->attrs;
    Onnx__NodeProto *node = with_inputs(e, "Transpose", from);
    struct export_value room;

    if (node && a->perm.n)
        export_attribute(e, node, "perm", export_ops_ints(&room, a->perm.at, (size_t)a->perm.n));
}

static const struct {
    const char *op;
    void (*export)(struct export *e, const struct bp_node_info *from);
} by_code[] = {
    {"addmm", export_addmm},         {"batch_norm", export_batch_norm},
    {"conv", export_conv},           {"layer_norm", export_layer_norm},
    {"matmul", export_matmul},       {"max_pool", export_max_pool},
    {"reshape", export_reshape},     {"softmax", export_softmax},
    {"transpose", export_transpose},
};

/* Finds the row of an operator that has no attributes, or whose attributes have their defaults:
 * ONNX has the same operator under another name. */
static const struct onnx_row *plain_row(const struct bp_node_info *node)
{
    const struct bp_opinfo *info = bp_opinfo_find(node->op);
    bool plain = info && (!info->n_attr || !memcmp(node->attrs, info->defaults, info->attrs_size));
    size_t n;
    const struct onnx_row *row = onnx_rows(&n);

    for (size_t i = 0; i < n && plain; i++)
        if (!strcmp(row[i].op, node->op) && row[i].since <= 17 &&
            (!row[i].emit || row[i].emit == onnx_binary || row[i].emit == onnx_div))
            return &row[i];
    return NULL;
}

void export_operator(struct export *e, const struct bp_node_info *node)
{
    const struct onnx_row *row;

    for (size_t i = 0; i < sizeof by_code / sizeof *by_code; i++)
        if (!strcmp(by_code[i].op, node->op)) {
            by_code[i].export(e, node);
            return;
        }
    row = plain_row(node);
    if (row) with_inputs(e, row->name, node);
    else e->status = onnx_error(BP_ERR_UNSUPPORTED, "it is not known how ONNX writes it");
}
