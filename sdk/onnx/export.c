/* SPDX-License-Identifier: Apache-2.0 */
/* export.c: writes a recorded graph as an ONNX model of opset 17. It uses the rows that only map
 * names in the reverse direction; export_ops.c has a few more operators. */
#include "export.h"
#include "resolve.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPSET = 17, IR_VERSION = 8 };

void *export_room(struct export *e, size_t size)
{
    void **kept = realloc(e->kept, (e->n_kept + 1) * sizeof *kept);
    void *room = kept ? calloc(1, size ? size : 1) : NULL;

    if (kept) e->kept = kept;
    if (!room) {
        e->status = onnx_no_memory();
        return NULL;
    }
    e->kept[e->n_kept++] = room;
    return room;
}

char *export_text(struct export *e, const char *text)
{
    char *copy = export_room(e, strlen(text) + 1);

    if (copy) strcpy(copy, text);
    return copy;
}

/* Appends a pointer to a list. */
static void export_append(struct export *e, void *list, size_t *n, void *item)
{
    void **grown, **old = *(void ***)list;

    if (!item || e->status) return;
    grown = export_room(e, (*n + 1) * sizeof *grown); /* the end frees all copies */
    if (!grown) return;
    if (*n) memcpy(grown, old, *n * sizeof *grown);
    grown[(*n)++] = item;
    *(void ***)list = grown;
}

const char *export_name(struct export *e, uint32_t value)
{
    struct bp_value_info info = {.size = sizeof info};

    if (value == UINT32_MAX) return "";
    if (!e->status) e->status = bp_graph_value(e->graph, value, &info);
    return e->status ? "" : info.name;
}

static Onnx__TypeProto *export_type_of(struct export *e, const struct bp_value_info *info)
{
    Onnx__TypeProto *type = export_room(e, sizeof *type);
    Onnx__TypeProto__Tensor *tensor = export_room(e, sizeof *tensor);
    Onnx__TensorShapeProto *shape = export_room(e, sizeof *shape);

    if (!type || !tensor || !shape) return NULL;
    onnx__type_proto__init(type);
    onnx__type_proto__tensor__init(tensor);
    onnx__tensor_shape_proto__init(shape);
    type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    type->tensor_type = tensor;
    tensor->has_elem_type = 1;
    tensor->elem_type = onnx_elem_type(info->dtype);
    tensor->shape = shape;
    for (uint32_t i = 0; i < info->rank; i++) {
        Onnx__TensorShapeProto__Dimension *d = export_room(e, sizeof *d);
        if (!d) return NULL;
        onnx__tensor_shape_proto__dimension__init(d);
        d->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        d->dim_value = info->shape[i];
        export_append(e, &shape->dim, &shape->n_dim, d);
    }
    return type;
}

static Onnx__ValueInfoProto *export_port(struct export *e, const struct bp_value_info *info)
{
    Onnx__ValueInfoProto *p = export_room(e, sizeof *p);

    if (!p) return NULL;
    onnx__value_info_proto__init(p);
    p->name = export_text(e, info->name);
    p->type = export_type_of(e, info);
    return p;
}

Onnx__TensorProto *export_tensor(struct export *e, const char *name, uint32_t dtype, uint32_t rank,
                                 const int64_t *shape, uint64_t bytes)
{
    Onnx__TensorProto *t = export_room(e, sizeof *t);

    if (!t) return NULL;
    onnx__tensor_proto__init(t);
    t->name = export_text(e, name);
    t->has_data_type = t->has_raw_data = 1;
    t->data_type = onnx_elem_type(dtype);
    t->n_dims = rank;
    t->dims = export_room(e, rank * sizeof *t->dims);
    t->raw_data.data = export_room(e, bytes);
    t->raw_data.len = bytes;
    if (e->status) return NULL;
    if (rank) memcpy(t->dims, shape, rank * sizeof *shape);
    export_append(e, &e->proto.initializer, &e->proto.n_initializer, t);
    return t;
}

static void add_constant(struct export *e, const struct bp_value_info *info)
{
    struct bp_tensor_info t = onnx_info(info->constant);
    Onnx__TensorProto *proto = export_tensor(e, info->name, t.dtype, t.rank, t.shape, t.bytes);

    if (proto && t.bytes)
        e->status = bp_tensor_read(e->stream, info->constant, proto->raw_data.data, t.bytes);
}

void export_attribute(struct export *e, Onnx__NodeProto *node, const char *name,
                      const struct export_value *value)
{
    Onnx__AttributeProto *a = export_room(e, sizeof *a);

    if (!a) return;
    onnx__attribute_proto__init(a);
    a->name = export_text(e, name);
    a->has_type = 1;
    a->type = value->type;
    if (value->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT) {
        a->has_f = 1;
        a->f = (float)value->real;
    } else if (value->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT) {
        a->has_i = 1;
        a->i = value->number;
    } else {
        a->n_ints = value->n;
        a->ints = export_room(e, value->n * sizeof *a->ints);
        if (a->ints && value->n) memcpy(a->ints, value->list, value->n * sizeof *a->ints);
    }
    export_append(e, &node->attribute, &node->n_attribute, a);
}

void export_input(struct export *e, Onnx__NodeProto *node, const char *name)
{
    export_append(e, &node->input, &node->n_input, export_text(e, name));
}

Onnx__NodeProto *export_node(struct export *e, const char *op, const struct bp_node_info *from)
{
    Onnx__NodeProto *node = export_room(e, sizeof *node);

    if (!node) return NULL;
    onnx__node_proto__init(node);
    node->op_type = export_text(e, op);
    node->name = export_text(e, from->name);
    for (uint32_t i = 0; i < from->n_out; i++)
        export_append(e, &node->output, &node->n_output,
                      export_text(e, export_name(e, from->out[i])));
    export_append(e, &e->proto.node, &e->proto.n_node, node);
    return e->status ? NULL : node;
}

static void add_node(struct export *e, uint32_t number)
{
    struct bp_node_info node = {.size = sizeof node};

    e->status = bp_graph_node(e->graph, number, &node);
    if (!e->status) export_operator(e, &node);
    if (e->status)
        onnx_error(e->status, "node %.80s (%.60s): %s", node.name, node.op, bp_error_message());
}

static void add_values(struct export *e, const struct bp_graph_info *all)
{
    for (uint32_t v = 0; v < all->values && !e->status; v++) {
        struct bp_value_info info = {.size = sizeof info};
        e->status = bp_graph_value(e->graph, v, &info);
        if (e->status) return;
        if (info.kind == 0)
            export_append(e, &e->proto.input, &e->proto.n_input, export_port(e, &info));
        if (info.kind == 1) add_constant(e, &info);
    }
    for (uint32_t i = 0; i < e->n_output && !e->status; i++) {
        struct bp_value_info info = {.size = sizeof info};
        e->status = bp_graph_value(e->graph, e->output[i], &info);
        if (!e->status)
            export_append(e, &e->proto.output, &e->proto.n_output, export_port(e, &info));
    }
}

static enum bp_status write_file(const Onnx__ModelProto *model, const char *path)
{
    size_t size = onnx__model_proto__get_packed_size(model);
    uint8_t *bytes = malloc(size + 1);
    FILE *file = bytes ? fopen(path, "wb") : NULL;
    bool ok = file != NULL;

    if (!bytes) return onnx_no_memory();
    if (ok) onnx__model_proto__pack(model, bytes);
    ok = ok && fwrite(bytes, 1, size, file) == size;
    ok = (!file || !fclose(file)) && ok;
    free(bytes);
    return ok ? BP_OK : onnx_error(BP_ERR_INVALID, "%.200s: %s", path, strerror(errno));
}

static enum bp_status finish_model(struct export *e, const char *path)
{
    Onnx__OperatorSetIdProto opset = ONNX__OPERATOR_SET_ID_PROTO__INIT, *opsets[] = {&opset};
    Onnx__ModelProto model = ONNX__MODEL_PROTO__INIT;

    opset.domain = (char *)"";
    opset.has_version = model.has_ir_version = 1;
    opset.version = OPSET;
    model.ir_version = IR_VERSION;
    model.producer_name = (char *)"backplane";
    model.n_opset_import = 1;
    model.opset_import = opsets;
    model.graph = &e->proto;
    e->proto.name = (char *)"graph";
    return write_file(&model, path);
}

enum bp_status bp_model_export(struct bp_graph *graph, const uint32_t *output, uint32_t n_output,
                               struct bp_stream *stream, const char *path)
{
    struct export e = {.graph = graph, .stream = stream, .output = output, .n_output = n_output};
    struct bp_graph_info all = {.size = sizeof all};

    if (!bp_graph_scope(graph) || !bp_stream_device(stream))
        return onnx_error(BP_ERR_INVALID, "bp_model_export: expected a graph and a stream");
    if (!path || (n_output && !output))
        return onnx_error(BP_ERR_INVALID, "bp_model_export: %s is NULL", path ? "output" : "path");
    TRY(bp_graph_get_info(graph, &all));
    onnx__graph_proto__init(&e.proto);
    add_values(&e, &all);
    for (uint32_t n = 0; n < all.nodes && !e.status; n++) add_node(&e, n);
    if (!e.status) e.status = finish_model(&e, path);
    for (size_t i = 0; i < e.n_kept; i++) free(e.kept[i]);
    free(e.kept);
    return e.status;
}
