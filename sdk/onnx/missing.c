/* SPDX-License-Identifier: Apache-2.0 */
/* missing.c: what a model needs that is not there; and what is. */
#include "resolve.h"
#include "row.h"
#include <stdio.h>

/* The first thing that is missing. */
struct search {
    char *text;
    size_t size;
    const Onnx__ModelProto *model;
};

static bool found(const struct search *s)
{
    return *s->text;
}

static void look_at_type(const struct search *s, int32_t elem_type, const char *where)
{
    if (!elem_type || onnx_dtype(elem_type) != ONNX_NO_DTYPE || found(s)) return;
    snprintf(s->text, s->size, "%.80s: element type %d%s", where, elem_type,
             elem_type == 8 ? " (string)" : "");
}

static void look_at_port(const struct search *s, const Onnx__TypeProto *type, const char *where)
{
    if (!type || found(s)) return;
    switch (type->value_case) {
    case ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE:
        look_at_type(s, type->tensor_type->elem_type, where);
        return;
    case ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE:
        look_at_port(s, type->sequence_type->elem_type, where);
        return;
    case ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE:
        look_at_port(s, type->optional_type->elem_type, where);
        return;
    case ONNX__TYPE_PROTO__VALUE__NOT_SET: return;
    default: snprintf(s->text, s->size, "%.80s: a type that is no tensor, sequence or optional",
                      where);
    }
}

static void look_at_graph(const struct search *s, const Onnx__GraphProto *graph);

static void look_at_node(const struct search *s, const Onnx__NodeProto *node,
                         Onnx__OperatorSetIdProto *const *import, size_t n_import)
{
    const char *domain = onnx_text(node->domain), *op = onnx_text(node->op_type);

    for (size_t i = 0; i < node->n_attribute; i++) {
        const Onnx__AttributeProto *a = node->attribute[i];
        if (a->g) look_at_graph(s, a->g);
        if (a->t) look_at_type(s, a->t->data_type, op);
    }
    if (found(s) || onnx_is_function(s->model, node) || onnx_custom_op(node) ||
        onnx_row_find(onnx_domain(domain), op, onnx_version(import, n_import, domain)))
        return;
    snprintf(s->text, s->size, "operator %.60s%s%.60s of opset %lld", domain, *domain ? "." : "",
             op, (long long)onnx_version(import, n_import, domain));
}

static void look_at_graph(const struct search *s, const Onnx__GraphProto *graph)
{
    for (size_t i = 0; i < graph->n_input; i++)
        look_at_port(s, graph->input[i]->type, onnx_text(graph->input[i]->name));
    for (size_t i = 0; i < graph->n_output; i++)
        look_at_port(s, graph->output[i]->type, onnx_text(graph->output[i]->name));
    for (size_t i = 0; i < graph->n_initializer; i++)
        look_at_type(s, graph->initializer[i]->data_type, onnx_text(graph->initializer[i]->name));
    for (size_t i = 0; i < graph->n_node; i++)
        look_at_node(s, graph->node[i], s->model->opset_import, s->model->n_opset_import);
}

enum bp_status bp_model_missing(const char *path, char *out_text, size_t size)
{
    struct search s = {out_text, size, NULL};
    Onnx__ModelProto *model = NULL;
    enum bp_status status;
    size_t bytes;
    void *data;

    if (!path || !out_text || !size)
        return onnx_error(BP_ERR_INVALID, "bp_model_missing: path or out_text is NULL, or size 0");
    TRY(onnx_file_map(path, &data, &bytes));
    status = onnx_unpack(&onnx__model_proto__descriptor, data, bytes, path, &model);
    onnx_file_unmap(data, bytes);
    if (status) return status;
    *out_text = 0;
    s.model = model;
    if (model->graph) look_at_graph(&s, model->graph);
    for (size_t f = 0; f < model->n_functions; f++)
        for (size_t i = 0; i < model->functions[f]->n_node; i++)
            look_at_node(&s, model->functions[f]->node[i], model->functions[f]->opset_import,
                         model->functions[f]->n_opset_import);
    onnx__model_proto__free_unpacked(model, NULL);
    return BP_OK;
}

enum bp_status bp_model_row(uint32_t index, struct bp_model_row *out)
{
    size_t n;
    const struct onnx_row *row = onnx_rows(&n);

    if (!out) return onnx_error(BP_ERR_INVALID, "bp_model_row: out is NULL");
    if (index >= n) return onnx_error(BP_ERR_NOT_FOUND, "bp_model_row: there are %zu rows", n);
    *out = (struct bp_model_row){row[index].name, row[index].op, row[index].since,
                                 !row[index].emit, 0};
    return BP_OK;
}
