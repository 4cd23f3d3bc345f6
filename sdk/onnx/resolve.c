/* SPDX-License-Identifier: Apache-2.0 */
/* resolve.c: gives each name of a model a slot. Checks that each name is set once, inlines the
 * functions of the model where they are called, and finds the row of each node. */
#include "resolve.h"
#include "row.h"
#include <stdlib.h>
#include <string.h>

/* Limits of inlining: n functions that each call the next one twice make 2^n calls from n lines. */
enum { NODES_MAX = 1 << 20, CALLS_MAX = 1 << 14 };

const char *onnx_text(const char *text)
{
    return text ? text : "";
}

static bool is_standard(const char *domain)
{
    return !*onnx_text(domain) || !strcmp(domain, "ai.onnx");
}

const char *onnx_domain(const char *domain)
{
    return is_standard(domain) ? "" : domain;
}

int64_t onnx_version(Onnx__OperatorSetIdProto *const *import, size_t n, const char *domain)
{
    for (size_t i = 0; i < n; i++) {
        bool same = is_standard(domain) ? is_standard(import[i]->domain)
                                        : !strcmp(onnx_text(import[i]->domain), domain);
        if (same) return import[i]->version;
    }
    return 1;
}

int64_t onnx_opset(const struct bp_model *model)
{
    return onnx_version(model->proto->opset_import, model->proto->n_opset_import, "");
}

const Onnx__FunctionProto *onnx_is_function(const Onnx__ModelProto *model,
                                            const Onnx__NodeProto *node)
{
    for (size_t i = 0; i < model->n_functions; i++) {
        const Onnx__FunctionProto *f = model->functions[i];
        if (f->name && !strcmp(f->name, onnx_text(node->op_type)) &&
            !strcmp(onnx_text(f->domain), onnx_text(node->domain)))
            return f;
    }
    return NULL;
}

const char *onnx_node_name(const Onnx__NodeProto *node)
{
    if (node->name && *node->name) return node->name;
    for (size_t i = 0; i < node->n_output; i++)
        if (*onnx_text(node->output[i])) return node->output[i];
    return onnx_text(node->op_type);
}

const struct bp_opinfo *onnx_custom_op(const Onnx__NodeProto *node)
{
    char name[160];

    if (is_standard(node->domain)) return NULL;
    snprintf(name, sizeof name, "%s.%s", node->domain, onnx_text(node->op_type));
    return bp_opinfo_find(name);
}

/* The row of operators of other domains: operators of plugins, named DOMAIN.NAME. */
static const struct onnx_row custom_row = {"", 1, "", "", onnx_emit_custom};

static enum bp_status find_row(struct resolver *r, struct onnx_node *node)
{
    const Onnx__NodeProto *proto = node->proto;
    const char *op = onnx_text(proto->op_type), *domain = onnx_text(proto->domain);

    node->opset = onnx_version(r->import, r->n_import, domain);
    node->row = onnx_custom_op(proto) ? &custom_row
                                      : onnx_row_find(onnx_domain(domain), op, node->opset);
    if (node->row == &custom_row) return BP_OK;
    if (node->row) {
        TRY(onnx_check_node(node));
        return onnx_check_supported(node);
    }
    return onnx_error(BP_ERR_UNSUPPORTED, "node %.80s: operator %.60s%s%.60s of opset %lld is not "
                      "in the table (docs/onnx.md)", node->name, domain, *domain ? "." : "", op,
                      (long long)node->opset);
}

static enum bp_status read_inputs(struct resolver *r, struct onnx_node *node)
{
    const Onnx__NodeProto *proto = node->proto;

    for (size_t i = 0; i < proto->n_input; i++) {
        const char *name = onnx_text(proto->input[i]);
        node->in[i] = ONNX_NO_SLOT;
        if (!*name) continue;
        if (!onnx_scope_find(r->scope, name, &node->in[i]))
            return onnx_error(BP_ERR_INVALID, "node %.80s: input '%.80s' is made by nobody",
                              node->name, name);
    }
    return BP_OK;
}

static enum bp_status make_outputs(struct resolver *r, struct onnx_node *node)
{
    const Onnx__NodeProto *proto = node->proto;

    for (size_t i = 0; i < proto->n_output; i++) {
        const char *name = onnx_text(proto->output[i]);
        node->out[i] = ONNX_NO_SLOT;
        if (*name) TRY(onnx_scope_new(r, name, &node->out[i]));
    }
    return BP_OK;
}

static enum bp_status sub_graphs(struct resolver *r, struct onnx_node *node)
{
    const Onnx__NodeProto *proto = node->proto;
    uint32_t n = 0;

    for (size_t i = 0; i < proto->n_attribute; i++) n += proto->attribute[i]->g != NULL;
    if (!n) return BP_OK;
    node->body = calloc(n, sizeof *node->body);
    if (!node->body) return onnx_no_memory();
    for (size_t i = 0; i < proto->n_attribute; i++)
        if (proto->attribute[i]->g)
            TRY(onnx_resolve_graph(r, proto->attribute[i]->g, &node->body[node->n_body++]));
    return BP_OK;
}

static enum bp_status add_node(struct resolver *r, struct onnx_body *body,
                               const Onnx__NodeProto *proto)
{
    struct onnx_node *grown, *node;

    if (r->model->n_node == NODES_MAX)
        return onnx_error(BP_ERR_INVALID, "model: more than %d nodes", NODES_MAX);
    if (!(body->n_node & (body->n_node - 1))) {
        grown = realloc(body->node, (body->n_node ? 2 * body->n_node : 1) * sizeof *grown);
        if (!grown) return onnx_no_memory();
        body->node = grown;
    }
    node = &body->node[body->n_node];
    *node = (struct onnx_node){.proto = proto, .caller = r->caller, .name = onnx_node_name(proto),
                               .n_in = (uint32_t)proto->n_input,
                               .n_out = (uint32_t)proto->n_output};
    node->in = calloc(proto->n_input + proto->n_output + 1, sizeof *node->in);
    if (!node->in) return onnx_no_memory();
    node->out = node->in + proto->n_input;
    body->n_node++;
    r->model->n_node++;
    TRY(find_row(r, node));
    TRY(read_inputs(r, node));
    TRY(sub_graphs(r, node));
    return make_outputs(r, &body->node[body->n_node - 1]);
}

static enum bp_status resolve_nodes(struct resolver *r, struct onnx_body *body,
                                    Onnx__NodeProto *const *node, size_t n);

/* Binds the inputs of a function to the slots of the call's inputs. Its outputs become the outputs
 * of the call in the same way (give_results). */
static enum bp_status bind_function(struct resolver *r, const Onnx__FunctionProto *f,
                                    struct onnx_node *call, struct scope *outer)
{
    for (size_t i = 0; i < f->n_input; i++) {
        const char *given = i < call->proto->n_input ? onnx_text(call->proto->input[i]) : "";
        uint32_t slot = ONNX_NO_SLOT;
        if (*given && !onnx_scope_find(outer, given, &slot))
            return onnx_error(BP_ERR_INVALID, "node %.80s: input '%.80s' is made by nobody",
                              call->name, given);
        TRY(onnx_scope_bind(r->scope, onnx_text(f->input[i]), slot));
    }
    return BP_OK;
}

static enum bp_status give_results(struct resolver *r, const Onnx__FunctionProto *f,
                                   struct onnx_node *call, struct scope *outer)
{
    for (size_t i = 0; i < f->n_output && i < call->proto->n_output; i++) {
        const char *wanted = onnx_text(call->proto->output[i]);
        uint32_t slot;
        if (!*wanted) continue;
        if (!onnx_scope_find(r->scope, onnx_text(f->output[i]), &slot))
            return onnx_error(BP_ERR_INVALID, "function %.80s: output '%.80s' is made by nobody",
                              onnx_text(f->name), onnx_text(f->output[i]));
        TRY(onnx_scope_bind(outer, wanted, slot));
    }
    return BP_OK;
}

static enum bp_status inline_function(struct resolver *r, struct onnx_body *body,
                                      const Onnx__FunctionProto *f, const Onnx__NodeProto *proto)
{
    struct resolver inside = *r;
    struct scope scope = {0};
    struct onnx_node **kept, *call;
    enum bp_status status;

    if (r->depth == ONNX_DEPTH_MAX)
        return onnx_error(BP_ERR_INVALID, "function %.80s: functions call each other more than %d "
                          "deep", onnx_text(f->name), ONNX_DEPTH_MAX);
    if (r->model->n_call == CALLS_MAX)
        return onnx_error(BP_ERR_INVALID, "function %.80s: functions are called more than %d "
                          "times", onnx_text(f->name), CALLS_MAX);
    kept = realloc(r->model->call, (r->model->n_call + 1) * sizeof *kept);
    if (!kept) return onnx_no_memory();
    r->model->call = kept;
    call = calloc(1, sizeof *call); /* kept as long as the nodes that read its attributes */
    if (!call) return onnx_no_memory();
    kept[r->model->n_call++] = call;
    *call = (struct onnx_node){.proto = proto, .caller = r->caller, .name = onnx_node_name(proto),
                               .function = onnx_function_of(r->model, f)};
    inside.caller = call;
    inside.scope = &scope;
    inside.depth++;
    inside.import = f->opset_import;
    inside.n_import = f->n_opset_import;
    status = bind_function(&inside, f, call, r->scope);
    if (status == BP_OK) status = resolve_nodes(&inside, body, f->node, f->n_node);
    if (status == BP_OK) status = give_results(&inside, f, call, r->scope);
    onnx_scope_finish(&scope);
    r->owner = inside.owner;
    return status;
}

static enum bp_status resolve_nodes(struct resolver *r, struct onnx_body *body,
                                    Onnx__NodeProto *const *node, size_t n)
{
    size_t *order;
    enum bp_status status = onnx_order(r, node, n, &order);

    if (status) return status;
    for (size_t i = 0; i < n && status == BP_OK; i++) {
        const Onnx__NodeProto *next = node[order ? order[i] : i];
        const Onnx__FunctionProto *f = onnx_is_function(r->model->proto, next);
        status = f ? inline_function(r, body, f, next) : add_node(r, body, next);
    }
    free(order);
    return status;
}

/* Creates the slots of initialisers. An input of the graph with the name of an initialiser has its
 * value. */
static enum bp_status name_weights(struct resolver *r, const Onnx__GraphProto *graph)
{
    for (size_t i = 0; i < graph->n_initializer; i++)
        TRY(onnx_scope_weight(r, onnx_text(graph->initializer[i]->name), graph->initializer[i],
                              NULL));
    for (size_t i = 0; i < graph->n_sparse_initializer; i++) {
        const Onnx__SparseTensorProto *s = graph->sparse_initializer[i];
        TRY(onnx_scope_weight(r, s->values ? onnx_text(s->values->name) : "", NULL, s));
    }
    return BP_OK;
}

static enum bp_status name_inputs(struct resolver *r, const Onnx__GraphProto *graph,
                                  struct onnx_body *body)
{
    body->input = calloc(graph->n_input + 1, sizeof *body->input);
    body->declared = calloc(graph->n_input + 1, sizeof *body->declared);
    if (!body->input || !body->declared) return onnx_no_memory();
    for (size_t i = 0; i < graph->n_input; i++) {
        const char *name = onnx_text(graph->input[i]->name);
        uint32_t slot;
        if (r->depth == 1 && onnx_scope_is_weight(r, name)) continue;
        TRY(onnx_scope_new(r, name, &slot));
        body->declared[body->n_input] = graph->input[i];
        body->input[body->n_input++] = slot;
    }
    return BP_OK;
}

static enum bp_status name_outputs(struct resolver *r, const Onnx__GraphProto *graph,
                                   struct onnx_body *body)
{
    body->output = calloc(graph->n_output + 1, sizeof *body->output);
    if (!body->output) return onnx_no_memory();
    for (size_t i = 0; i < graph->n_output; i++) {
        const char *name = onnx_text(graph->output[i]->name);
        if (!onnx_scope_find(r->scope, name, &body->output[i]))
            return onnx_error(BP_ERR_INVALID, "graph %.80s: output '%.80s' is made by nobody",
                              onnx_text(graph->name), name);
        body->n_output++;
    }
    return BP_OK;
}

enum bp_status onnx_resolve_graph(struct resolver *r, const Onnx__GraphProto *graph,
                                  struct onnx_body *body)
{
    struct scope scope = {.outer = r->scope};
    struct resolver inside = *r;
    enum bp_status status;

    if (r->depth == ONNX_DEPTH_MAX)
        return onnx_error(BP_ERR_INVALID, "graph %.80s: graphs are inside each other more than %d "
                          "deep", onnx_text(graph->name), ONNX_DEPTH_MAX);
    inside.scope = &scope;
    inside.depth++;
    inside.body = body;
    status = name_weights(&inside, graph);
    if (status == BP_OK) status = name_inputs(&inside, graph, body);
    if (status == BP_OK) status = resolve_nodes(&inside, body, graph->node, graph->n_node);
    if (status == BP_OK) status = name_outputs(&inside, graph, body);
    if (status == BP_OK) status = onnx_find_dead(&inside, body);
    onnx_scope_finish(&scope);
    r->owner = inside.owner;
    return status;
}

/* Rejects later versions, because their changes of operators are not known here. */
static enum bp_status check_import(Onnx__OperatorSetIdProto *const *import, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (is_standard(import[i]->domain) &&
            (import[i]->version < 1 || import[i]->version > ONNX_OPSET_MAX))
            return onnx_error(BP_ERR_UNSUPPORTED, "model: opset %lld, 1 to %d are known",
                              (long long)import[i]->version, ONNX_OPSET_MAX);
    return BP_OK;
}

enum bp_status onnx_resolve(struct bp_model *model)
{
    struct resolver r = {.model = model, .import = model->proto->opset_import,
                         .n_import = model->proto->n_opset_import};
    enum bp_status status;

    if (!model->proto->graph) return onnx_error(BP_ERR_INVALID, "model: it has no graph");
    TRY(check_import(model->proto->opset_import, model->proto->n_opset_import));
    for (size_t i = 0; i < model->proto->n_functions; i++)
        TRY(check_import(model->proto->functions[i]->opset_import,
                         model->proto->functions[i]->n_opset_import));
    TRY(onnx_defaults(model));
    status = onnx_resolve_graph(&r, model->proto->graph, &model->body);
    free(r.owner);
    return status;
}

void onnx_body_finish(struct onnx_body *body)
{
    for (uint32_t n = 0; n < body->n_node; n++) {
        struct onnx_node *node = &body->node[n];
        for (uint32_t i = 0; i < node->n_body; i++) onnx_body_finish(&node->body[i]);
        free(node->body);
        free(node->dead);
        free(node->in);
    }
    free(body->node);
    free(body->input);
    free(body->declared);
    free(body->output);
    *body = (struct onnx_body){0};
}
