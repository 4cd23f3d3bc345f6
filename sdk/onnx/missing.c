/* SPDX-License-Identifier: Apache-2.0 */
/* missing.c: lists everything that a model needs and this library lacks, and reads the rows of the
 * operator table. */
#include "resolve.h"
#include "row.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FAULTS_MAX = 64 }; /* of a node, that are reported */

/* The element type that the model declares for a name. */
struct typed_name {
    const char *name;
    int32_t elem_type;
};

/* A line of the report. */
struct missing_line {
    char *text;
    char where[84]; /* the place of the first use, or "" */
    uint32_t n;     /* uses */
};

/* A search, and the lines that it has found. */
struct search {
    struct missing_line *line;
    size_t n_line, room_line, bytes; /* bytes: of the texts */
    size_t size;              /* of the caller's text, which bounds the lines */
    bool full;                /* there were more lines, or no memory for them */
    const Onnx__ModelProto *model;
    struct typed_name *named; /* sorted; without names inside functions */
    size_t n_named, room;
    bool is_function;         /* nodes of a function are searched, whose names are local */
};

static struct missing_line *find_line(struct search *s, const char *text)
{
    for (size_t i = 0; i < s->n_line; i++)
        if (!strcmp(s->line[i].text, text)) return &s->line[i];
    return NULL;
}

/* Adds a line, if the caller's text may have room for it. */
static struct missing_line *new_line(struct search *s, const char *text)
{
    struct missing_line *grown;

    s->bytes += strlen(text) + 1;
    if (s->n_line && s->bytes > s->size) return NULL;
    if (s->n_line == s->room_line) {
        size_t room = s->room_line ? 2 * s->room_line : 16;
        grown = realloc(s->line, room * sizeof *grown);
        if (!grown) return NULL;
        s->line = grown;
        s->room_line = room;
    }
    s->line[s->n_line] = (struct missing_line){.text = strdup(text)};
    return s->line[s->n_line].text ? &s->line[s->n_line++] : NULL;
}

/* Counts a use of something that is missing. where: its place, for messages, or NULL. */
static void missing_add(struct search *s, const char *where, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void missing_add(struct search *s, const char *where, const char *format, ...)
{
    struct missing_line *line;
    char text[400];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    for (char *c = text; *c; c++)
        if (*c == '\n') *c = ' ';
    line = find_line(s, text);
    if (!line) {
        line = s->full ? NULL : new_line(s, text);
        if (line && where) snprintf(line->where, sizeof line->where, "%s", where);
        for (char *c = line ? line->where : ""; *c; c++)
            if (*c == '\n') *c = ' ';
    }
    if (line) line->n++;
    else s->full = true;
}

/* Appends a line to the caller's text. Returns false if there is no room for it. */
static bool write_line(const struct missing_line *line, char *out_text, size_t size)
{
    size_t used = strlen(out_text);
    bool placed = *line->where, counted = line->n > 1;
    char whole[540], uses[32] = "";

    if (counted) snprintf(uses, sizeof uses, "%s%u times", placed ? ", " : "", line->n);
    snprintf(whole, sizeof whole, "%s%s%s%s%s", line->text, placed || counted ? " [" : "",
             line->where, uses, placed || counted ? "]" : "");
    if (used && used + strlen(whole) + 2 > size) return false;
    snprintf(out_text + used, size - used, "%s%s", used ? "\n" : "", whole);
    return true;
}

/* Writes the lines, and frees them. */
static void write_lines(struct search *s, char *out_text, size_t size)
{
    bool fits = true;

    for (size_t i = 0; i < s->n_line; i++) {
        fits = fits && write_line(&s->line[i], out_text, size);
        free(s->line[i].text);
    }
    if (!fits || s->full) {
        size_t used = strlen(out_text);
        if (used + 5 <= size) memcpy(out_text + used, "\n...", 5);
    }
    free(s->line);
}

static void look_at_type(struct search *s, int32_t elem_type, const char *where)
{
    if (!elem_type || onnx_dtype(elem_type) != ONNX_NO_DTYPE) return;
    missing_add(s, where, "element type %d%s", elem_type, onnx_type_words(elem_type));
}

static void look_at_port(struct search *s, const Onnx__TypeProto *type, const char *where)
{
    if (!type) return;
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
    default: missing_add(s, where, "a type that is no tensor, sequence or optional");
    }
}

static int missing_by_name(const void *a, const void *b)
{
    return strcmp(((const struct typed_name *)a)->name, ((const struct typed_name *)b)->name);
}

/* Stores a name's type. If the host has no memory, the name stays without a type and is not
 * checked. */
static void name_type(struct search *s, const char *name, int32_t elem_type)
{
    if (s->n_named == s->room) {
        size_t room = s->room ? 2 * s->room : 64;
        struct typed_name *grown = realloc(s->named, room * sizeof *grown);
        if (!grown) return;
        s->named = grown;
        s->room = room;
    }
    s->named[s->n_named++] = (struct typed_name){onnx_text(name), elem_type};
}

static void name_ports(struct search *s, Onnx__ValueInfoProto *const *port, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (port[i]->type && port[i]->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE)
            name_type(s, port[i]->name, port[i]->type->tensor_type->elem_type);
}

static void name_types(struct search *s, const Onnx__GraphProto *graph)
{
    name_ports(s, graph->input, graph->n_input);
    name_ports(s, graph->output, graph->n_output);
    name_ports(s, graph->value_info, graph->n_value_info);
    for (size_t i = 0; i < graph->n_initializer; i++)
        name_type(s, graph->initializer[i]->name, graph->initializer[i]->data_type);
    for (size_t n = 0; n < graph->n_node; n++)
        for (size_t i = 0; i < graph->node[n]->n_attribute; i++)
            if (graph->node[n]->attribute[i]->g) name_types(s, graph->node[n]->attribute[i]->g);
}

/* Returns the dtype that the model declares for a name; ONNX_NO_DTYPE: none, or one that is no
 * dtype of Backplane. Names inside functions are local and have no types. */
static uint32_t type_of(const struct search *s, const char *name)
{
    const struct typed_name key = {.name = onnx_text(name)}, *found = NULL;

    if (s->n_named && !s->is_function)
        found = bsearch(&key, s->named, s->n_named, sizeof key, missing_by_name);
    return found ? onnx_dtype(found->elem_type) : ONNX_NO_DTYPE;
}

/* Reports inputs of a type that tensors may have, but that this operator does not take. */
static void look_at_inputs(struct search *s, const Onnx__NodeProto *node)
{
    const char *op = onnx_text(node->op_type);

    for (size_t i = 0; i < node->n_input; i++) {
        uint64_t held = onnx_held_types(op, i);
        uint32_t dtype = held == UINT64_MAX ? ONNX_NO_DTYPE : type_of(s, node->input[i]);
        if (dtype == ONNX_NO_DTYPE || held >> dtype & 1) continue;
        missing_add(s, NULL, "%.60s: input %zu is element type %d, %s", op, i,
                    onnx_elem_type(dtype), bp_dtype_name(dtype));
    }
}

/* The result of DequantizeLinear has the type of the scales, or another one that the node names.
 * With scales that are powers of two it may have any float type. */
static void look_at_scales(struct search *s, const struct onnx_node *node)
{
    const Onnx__AttributeProto *to = onnx_attr(node, "output_dtype");
    uint32_t dtype = to && to->i ? onnx_dtype((int32_t)to->i) : ONNX_NO_DTYPE, scale;

    if (strcmp(onnx_text(node->proto->op_type), "DequantizeLinear") || node->proto->n_input < 2)
        return;
    scale = type_of(s, node->proto->input[1]);
    if (dtype == ONNX_NO_DTYPE || scale == ONNX_NO_DTYPE || dtype == scale || scale == BP_F8E8M0)
        return;
    missing_add(s, NULL, "DequantizeLinear: output_dtype is %s, that of the scales, %s, is "
                "supported", bp_dtype_name(dtype), bp_dtype_name(scale));
}

/* Reports the errors that loading would report for a node of the table, without the node's name:
 * each run of the checks passes over one more of them. */
static void look_at_support(struct search *s, struct onnx_node *node)
{
    for (size_t n = 0; n < FAULTS_MAX; n++) {
        size_t skip = n;
        node->skip = &skip;
        if (!onnx_check_node(node) && !onnx_check_supported(node)) break;
        missing_add(s, NULL, "%s", bp_error_message());
    }
    node->skip = NULL;
}

static void look_at_graph(struct search *s, const Onnx__GraphProto *graph,
                          Onnx__OperatorSetIdProto *const *import, size_t n_import);

static void look_at_node(struct search *s, const Onnx__NodeProto *proto,
                         Onnx__OperatorSetIdProto *const *import, size_t n_import)
{
    const char *domain = onnx_text(proto->domain), *op = onnx_text(proto->op_type);
    int64_t opset = onnx_version(import, n_import, domain);
    struct onnx_node node = {.proto = proto, .opset = opset};

    for (size_t i = 0; i < proto->n_attribute; i++) {
        const Onnx__AttributeProto *a = proto->attribute[i];
        if (a->g) look_at_graph(s, a->g, import, n_import);
        if (a->t) look_at_type(s, a->t->data_type, op);
    }
    if (onnx_is_function(s->model, proto) || onnx_custom_op(proto)) return;
    if (!*onnx_domain(domain) && opset > ONNX_OPSET_MAX)
        node.opset = ONNX_OPSET_MAX; /* the opset has its own line: checked as if it were known */
    node.row = onnx_row_find(onnx_domain(domain), op, node.opset);
    if (node.row) {
        look_at_support(s, &node);
        look_at_inputs(s, proto);
        look_at_scales(s, &node);
    } else
        missing_add(s, NULL, "operator %.60s%s%.60s of opset %lld", domain, *domain ? "." : "", op,
                    (long long)opset);
}

static void look_at_graph(struct search *s, const Onnx__GraphProto *graph,
                          Onnx__OperatorSetIdProto *const *import, size_t n_import)
{
    for (size_t i = 0; i < graph->n_input; i++)
        look_at_port(s, graph->input[i]->type, onnx_text(graph->input[i]->name));
    for (size_t i = 0; i < graph->n_output; i++)
        look_at_port(s, graph->output[i]->type, onnx_text(graph->output[i]->name));
    for (size_t i = 0; i < graph->n_initializer; i++)
        look_at_type(s, graph->initializer[i]->data_type, onnx_text(graph->initializer[i]->name));
    for (size_t i = 0; i < graph->n_node; i++) look_at_node(s, graph->node[i], import, n_import);
}

static void look_at_import(struct search *s, Onnx__OperatorSetIdProto *const *import, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!*onnx_domain(onnx_text(import[i]->domain)) &&
            (import[i]->version < 1 || import[i]->version > ONNX_OPSET_MAX))
            missing_add(s, NULL, "opset %lld, 1 to %d are known", (long long)import[i]->version,
                        ONNX_OPSET_MAX);
}

static void look_at_model(struct search *s)
{
    const Onnx__ModelProto *model = s->model;

    look_at_import(s, model->opset_import, model->n_opset_import);
    for (size_t f = 0; f < model->n_functions; f++)
        look_at_import(s, model->functions[f]->opset_import, model->functions[f]->n_opset_import);
    if (model->graph) {
        name_types(s, model->graph);
        if (s->n_named) qsort(s->named, s->n_named, sizeof *s->named, missing_by_name);
        look_at_graph(s, model->graph, model->opset_import, model->n_opset_import);
    }
    s->is_function = true;
    for (size_t f = 0; f < model->n_functions; f++)
        for (size_t i = 0; i < model->functions[f]->n_node; i++)
            look_at_node(s, model->functions[f]->node[i], model->functions[f]->opset_import,
                         model->functions[f]->n_opset_import);
    free(s->named);
}

enum bp_status bp_model_missing(const char *path, char *out_text, size_t size)
{
    struct search s = {.size = size};
    Onnx__ModelProto *model = NULL;
    enum bp_status status;
    size_t bytes;
    void *data;

    if (!path || !out_text || !size)
        return onnx_error(BP_ERR_INVALID, "bp_model_missing: path or out_text is NULL, or size 0");
    TRY(onnx_file_map(path, &data, &bytes, NULL));
    status = onnx_unpack(&onnx__model_proto__descriptor, data, bytes, path, &model);
    onnx_file_unmap(data, bytes);
    if (status) return status;
    *out_text = 0;
    s.model = model;
    look_at_model(&s);
    write_lines(&s, out_text, size);
    onnx__model_proto__free_unpacked(model, NULL);
    return BP_OK;
}

/* Writes the first line to out_text, or "" if there is none, and forgets all lines. */
static void take_first(struct search *s, char *out_text, size_t size)
{
    snprintf(out_text, size, "%s", s->n_line ? s->line[0].text : s->full ? "no memory" : "");
    for (size_t i = 0; i < s->n_line; i++) free(s->line[i].text);
    s->n_line = 0;
    s->bytes = 0;
    s->full = false;
}

enum bp_status bp_model_missing_nodes(const void *data, size_t size, bp_model_lack *lack, void *ctx)
{
    struct search s = {.size = 4096};
    Onnx__ModelProto *model = NULL;
    char opset[80], text[400];

    if (!data || !lack)
        return onnx_error(BP_ERR_INVALID, "bp_model_missing_nodes: %s is NULL",
                          data ? "lack" : "data");
    TRY(onnx_unpack(&onnx__model_proto__descriptor, data, size, "model", &model));
    s.model = model;
    if (model->graph) name_types(&s, model->graph);
    if (s.n_named) qsort(s.named, s.n_named, sizeof *s.named, missing_by_name);
    look_at_import(&s, model->opset_import, model->n_opset_import);
    take_first(&s, opset, sizeof opset);
    for (size_t i = 0; model->graph && i < model->graph->n_node; i++) {
        const Onnx__NodeProto *node = model->graph->node[i];
        look_at_node(&s, node, model->opset_import, model->n_opset_import);
        take_first(&s, text, sizeof text);
        if (!*text && !*onnx_domain(onnx_text(node->domain)))
            snprintf(text, sizeof text, "%s", opset);
        if (*text) lack(ctx, i, text);
    }
    free(s.line);
    free(s.named);
    onnx__model_proto__free_unpacked(model, NULL);
    return BP_OK;
}

enum bp_status bp_model_get_row(uint32_t index, struct bp_model_row *out)
{
    size_t n;
    const struct onnx_row *row = onnx_rows(&n);

    if (!out) return onnx_error(BP_ERR_INVALID, "bp_model_get_row: out is NULL");
    if (index >= n) return onnx_error(BP_ERR_NOT_FOUND, "bp_model_get_row: there are %zu rows", n);
    *out = (struct bp_model_row){row[index].name, row[index].op, row[index].since,
                                 !row[index].emit, 0};
    return BP_OK;
}
