/* SPDX-License-Identifier: Apache-2.0 */
/* body.c: finds and runs graphs that are attributes of a node (branches and loop bodies). */
#include "body.h"
#include "../resolve.h"
#include <string.h>

enum { ROUNDS_MAX = 4096, RECORDED_MAX = 1 << 16 };

enum bp_status onnx_inner_find(const struct onnx_call *c, const char *name,
                               struct onnx_inner *out)
{
    const Onnx__NodeProto *proto = c->node->proto;
    uint32_t number = 0;

    for (size_t i = 0; i < proto->n_attribute; i++) {
        const Onnx__AttributeProto *a = proto->attribute[i];
        if (!a->g) continue;
        if (!strcmp(onnx_text(a->name), name) && number < c->node->n_body) {
            *out = (struct onnx_inner){&c->node->body[number], a->g};
            return BP_OK;
        }
        number++;
    }
    return onnx_error(BP_ERR_INVALID, "attribute %s is no graph", name);
}

/* Releases the values that the walk has left in slots, so that their memory is freed before the
 * model's last node. */
static void body_clear(struct onnx_run *run, const struct onnx_body *body)
{
    for (uint32_t i = 0; i < body->n_input; i++) onnx_forget(run, body->input[i]);
    for (uint32_t n = 0; n < body->n_node; n++)
        for (uint32_t i = 0; i < body->node[n].n_out; i++)
            onnx_forget(run, body->node[n].out[i]);
}

enum bp_status onnx_inner_run(struct onnx_call *c, const struct onnx_inner *inner,
                              struct onnx_value *const *in, struct onnx_value **out)
{
    const struct onnx_body *body = inner->body;
    struct onnx_run *run = c->run;
    uint32_t missing = 0;

    for (uint32_t i = 0; i < body->n_input; i++)
        onnx_set(run, body->input[i], onnx_value_retain(in[i]));
    TRY(onnx_walk(run, body));
    for (uint32_t i = 0; i < body->n_output; i++) missing += !run->slot[body->output[i]];
    if (missing)
        return onnx_error(BP_ERR_INVALID, "graph %.80s: %u outputs have no value",
                          onnx_text(inner->proto->name), missing);
    for (uint32_t i = 0; i < body->n_output; i++)
        out[i] = onnx_value_retain(run->slot[body->output[i]]);
    body_clear(run, body);
    return BP_OK;
}

enum bp_status onnx_inner_none(struct onnx_call *c, const struct onnx_inner *inner, uint32_t i,
                               int64_t axis, struct onnx_value **out)
{
    const Onnx__TypeProto *type = inner->proto->output[i]->type;
    bool is_tensor = type && type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    const Onnx__TensorShapeProto *declared = is_tensor ? type->tensor_type->shape : NULL;
    uint32_t dtype = is_tensor ? onnx_dtype(type->tensor_type->elem_type)
                               : ONNX_NO_DTYPE;
    size_t rank = declared ? declared->n_dim : 0, at = 0;
    int64_t shape[ONNX_RANK_MAX] = {0};
    struct bp_tensor *t;

    if (dtype == ONNX_NO_DTYPE || rank >= ONNX_RANK_MAX)
        return onnx_error(BP_ERR_UNSUPPORTED, "output %u of graph %.80s is never made, and its "
                          "type not declared", i, onnx_text(inner->proto->name));
    TRY(onnx_axis(axis, (int64_t)rank + 1, &axis));
    for (size_t k = 0; k < rank; k++) {
        const Onnx__TensorShapeProto__Dimension *d = declared->dim[k];
        at += at == (size_t)axis;
        if (d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE)
            shape[at] = d->dim_value > 0 ? d->dim_value : 0;
        at++;
    }
    TRY(bp_tensor_create(c->run->model->device, dtype, (uint32_t)rank + 1, shape, &t));
    return onnx_value_tensor(c->run, t, false, out);
}

enum bp_status onnx_check_unrolled(const struct onnx_call *c, int64_t rounds)
{
    struct bp_graph_info info = {.size = sizeof info};

    if (!c->run->graph) return BP_OK;
    TRY(bp_graph_get_info(c->run->graph, &info));
    if (rounds < ROUNDS_MAX && info.nodes < RECORDED_MAX) return BP_OK;
    return onnx_error(BP_ERR_UNSUPPORTED, "%lld rounds of a loop make a graph too large",
                      (long long)rounds);
}
