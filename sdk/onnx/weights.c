/* SPDX-License-Identifier: Apache-2.0 */
/* weights.c: loads initialisers, and computes the values that depend on them alone, before a model
 * has inputs. */
#include "resolve.h"
#include "row.h"
#include <stdlib.h>
#include <string.h>

/* The axis of a matrix that the node sums over, for its input number i; rank: the input is no
 * matrix of MatMul or Gemm. */
static uint32_t summed_axis(const struct onnx_node *node, uint32_t i, uint32_t rank)
{
    const char *op = onnx_text(node->proto->op_type);
    const Onnx__AttributeProto *transposed = onnx_attr(node, i ? "transB" : "transA");

    if (i > 1 || rank < 2) return rank;
    if (!strcmp(op, "MatMul")) return i ? rank - 2 : rank - 1;
    return strcmp(op, "Gemm") ? rank : i == (transposed && transposed->i);
}

int64_t onnx_fan_in(const struct bp_model *model, uint32_t slot, uint32_t rank,
                    const int64_t *shape)
{
    int64_t fan_in = 1;

    for (uint32_t n = 0; n < model->body.n_node; n++) {
        const struct onnx_node *node = &model->body.node[n];
        for (uint32_t i = 0; i < node->n_in; i++) {
            uint32_t axis = node->in[i] == slot ? summed_axis(node, i, rank) : rank;
            if (axis < rank) return shape[axis];
        }
    }
    for (uint32_t i = 1; i < rank; i++) fan_in *= shape[i];
    return fan_in;
}

/* Ends the use of a weight's data, after it has been written to the device. */
static void weights_forget(struct bp_model *model, uint32_t slot)
{
    Onnx__TensorProto *t = (Onnx__TensorProto *)model->weight[slot].tensor; /* changes only here */

    if (t) onnx_return_data(model, t);
}

static enum bp_status weights_load(struct onnx_run *run, uint32_t slot)
{
    struct bp_model *model = run->model;
    const struct onnx_weight *w = &model->weight[slot];
    struct onnx_value **to = &model->constant[slot];
    struct bp_tensor *t = NULL;

    if (!w->tensor && !w->sparse) return BP_OK;
    if (w->tensor) TRY(onnx_constant_find(model, w->tensor, &t));
    if (t) TRY(onnx_value_tensor(run, t, false, to));
    else if (w->tensor) {
        TRY(onnx_tensor_value(run, w->tensor, true, to));
        model->place[slot] = model->loaded;
        if (onnx_is_borrowed(model, w->tensor->raw_data.data)) weights_forget(model, slot);
    } else {
        TRY(onnx_sparse_tensor(run, w->sparse, &t));
        TRY(onnx_value_tensor(run, t, false, to));
    }
    if (w->tensor) model->use.given += onnx_info((*to)->tensor).bytes;
    model->n_weight++;
    model->weight_bytes += onnx_info((*to)->tensor).bytes;
    return BP_OK;
}

static bool is_known(const struct bp_model *model, const struct onnx_node *node)
{
    if (node->n_body || onnx_is_random(node->row)) return false;
    for (uint32_t i = 0; i < node->n_in; i++)
        if (node->in[i] != ONNX_NO_SLOT && !model->constant[node->in[i]]) return false;
    return true;
}

/* Checks that a node may run at load. An attribute with a constant is a weight of the file and is
 * not limited. */
static enum bp_status check_bytes(struct onnx_run *run, const struct onnx_node *node)
{
    if (!strcmp(onnx_text(node->proto->op_type), "Constant")) return BP_OK;
    if (onnx_check_fold(run, onnx_node_bytes(run, node)) == BP_OK) return BP_OK;
    return onnx_node_error(BP_ERR_MEMORY, node, "%s", bp_error_message());
}

/* Runs all nodes whose inputs are known, once. A node of a sub-graph that fails is left for the
 * run, because the sub-graph may never run. */
static enum bp_status weights_fold(struct onnx_run *run, const struct onnx_body *body,
                                   bool is_inner)
{
    for (uint32_t n = 0; n < body->n_node; n++) {
        struct onnx_node *node = &body->node[n];
        enum bp_status status;
        for (uint32_t i = 0; i < node->n_body; i++) TRY(weights_fold(run, &node->body[i], true));
        if (!is_known(run->model, node)) continue;
        status = check_bytes(run, node);
        if (status == BP_OK) status = onnx_walk_node(run, node);
        if (status && !is_inner) return status;
        node->is_folded = status == BP_OK;
    }
    return BP_OK;
}

/* Frees the data of Constant nodes that have been computed. Nodes of a function stay: other calls
 * of it may compute them again. */
static void weights_forget_constants(struct bp_model *model)
{
    for (uint32_t n = 0; n < model->body.n_node; n++) {
        const struct onnx_node *node = &model->body.node[n];
        if (!node->is_folded || node->caller) continue;
        if (strcmp(onnx_text(node->proto->op_type), "Constant")) continue;
        for (size_t i = 0; i < node->proto->n_attribute; i++)
            if (node->proto->attribute[i]->t) onnx_return_data(model, node->proto->attribute[i]->t);
    }
}

enum bp_status onnx_freeze(const struct onnx_value *value)
{
    if (!value || value->symbolic) return BP_OK;
    for (size_t i = 0; i < value->n_item; i++) TRY(onnx_freeze(value->item[i]));
    /* A view of weights that are frozen already does not know it: it was made before. */
    return value->tensor ? bp_tensor_freeze(value->tensor) : BP_OK;
}

enum bp_status onnx_weights(struct bp_model *model)
{
    struct onnx_run run = {.model = model, .stream = model->stream, .use = &model->use};

    model->constant = calloc(model->n_slot + 1, sizeof *model->constant);
    model->place = calloc(model->n_slot + 1, sizeof *model->place);
    if (!model->constant || !model->place) return onnx_no_memory();
    for (uint32_t slot = 0; slot < model->n_slot; slot++)
        if (!model->weight[slot].sparse) TRY(weights_load(&run, slot));
    /* Sparse weights are loaded last: they become larger than in the file, and the bytes of the
     * other weights set the limit. */
    for (uint32_t slot = 0; slot < model->n_slot; slot++)
        if (model->weight[slot].sparse) TRY(weights_load(&run, slot));
    /* Calls of a function have the same weights, each in its own slot. */
    for (uint32_t slot = 0; slot < model->n_slot; slot++) weights_forget(model, slot);
    TRY(onnx_reload_viewed(model));
    run.slot = model->constant;
    TRY(weights_fold(&run, &model->body, false));
    weights_forget_constants(model);
    TRY(bp_stream_synchronize(model->stream));
    TRY(onnx_share_folded(model));
    for (uint32_t slot = 0; slot < model->n_slot; slot++)
        TRY(onnx_freeze(model->constant[slot]));
    return onnx_reload_weights(model);
}
