/* SPDX-License-Identifier: Apache-2.0 */
/* model.c: writes a group of nodes as a graph of the shim: inputs, weights with their contents, and
 * one node for each node. */
#include "engine.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The state while a graph is written. */
struct writing {
    struct ipu *self;
    const struct bp_graph_data *graph;
    struct ipu_model *model;
    /* Of each value: its tensor, and its tensor for each conversion of an i64; or BP_IPU_NONE. An
     * updated value has the tensor of the last update so far. */
    int32_t *tensor[IPU_FLOAT + 1];
    uint32_t *updated; /* of each value: the input in whose memory it lies as a result of updates */
};

static const uint32_t shim_types[] = {
    [BP_F32] = BP_IPU_F32 + 1,   [BP_F16] = BP_IPU_F16 + 1, [BP_I32] = BP_IPU_I32 + 1,
    [BP_BOOL] = BP_IPU_BOOL + 1, [BP_I8] = BP_IPU_I8 + 1,   [BP_U8] = BP_IPU_U8 + 1,
};

static uint32_t shim_type(uint32_t dtype, enum ipu_conversion conversion)
{
    if (conversion == IPU_FLOAT) return BP_IPU_F32;
    if (conversion != IPU_AS_IS) return BP_IPU_I32;
    return dtype < sizeof shim_types / sizeof *shim_types && shim_types[dtype]
               ? shim_types[dtype] - 1
               : BP_IPU_TYPES;
}

static uint64_t type_bytes(uint32_t type)
{
    return type == BP_IPU_F32 || type == BP_IPU_I32 ? 4 : type == BP_IPU_F16 ? 2 : 1;
}

static uint64_t value_count(const struct bp_data_value *v)
{
    uint64_t count = 1;

    for (uint32_t a = 0; a < v->rank; a++) count *= (uint64_t)v->shape[a];
    return count;
}

static int32_t tensor_add(struct writing *w, const struct bp_data_value *v,
                          enum ipu_conversion conversion, enum bp_ipu_kind kind)
{
    struct bp_ipu_tensor *t = &w->model->tensor[w->model->graph.n_tensor];

    *t = (struct bp_ipu_tensor){
        .type = shim_type(v->dtype, conversion), .rank = v->rank, .kind = kind};
    memcpy(t->shape, v->shape, v->rank * sizeof *v->shape);
    return (int32_t)w->model->graph.n_tensor++;
}

/* ---- constants ---- */

static uint64_t constant_place(const struct bp_data_value *v, uint64_t i)
{
    int64_t at = v->stride ? 0 : (int64_t)i;

    for (uint32_t a = v->rank; v->stride && a--; i /= (uint64_t)v->shape[a])
        at += (int64_t)(i % (uint64_t)v->shape[a]) * v->stride[a];
    return (uint64_t)at;
}

static int32_t i64_index(int64_t value)
{
    return value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : (int32_t)value;
}

/* Copies contents, which are valid during compile only; i64 is converted, as by runs. */
static void constant_copy(char *to, const struct bp_data_value *v, enum ipu_conversion conversion,
                          uint64_t bytes)
{
    uint64_t count = value_count(v);

    if (conversion == IPU_AS_IS && !v->stride) {
        memcpy(to, v->data, count * bytes);
        return;
    }
    for (uint64_t i = 0; i < count; i++) {
        uint64_t at = constant_place(v, i);
        if (conversion == IPU_AS_IS)
            memcpy(to + i * bytes, (const char *)v->data + at * bytes, bytes);
        else if (conversion == IPU_FLOAT) ((float *)to)[i] = (float)((const int64_t *)v->data)[at];
        else if (conversion == IPU_WRAP)
            ((int32_t *)to)[i] = (int32_t)((const int64_t *)v->data)[at];
        else ((int32_t *)to)[i] = i64_index(((const int64_t *)v->data)[at]);
    }
}

static enum bp_status constant_add(struct writing *w, const struct bp_data_value *v,
                                   enum ipu_conversion conversion, int32_t *out)
{
    struct ipu_model *m = w->model;
    uint64_t bytes = type_bytes(shim_type(v->dtype, conversion)), size = value_count(v) * bytes;
    char *data = malloc(size);

    if (!data)
        return bp_fail(w->self->host, BP_ERR_MEMORY,
                       "ipu: no memory for constant %s, %" PRIu64 " bytes", v->name, size);
    constant_copy(data, v, conversion, bytes);
    m->constant[m->n_constant++] = data;
    m->constant_bytes += size;
    *out = tensor_add(w, v, conversion, BP_IPU_WEIGHT);
    m->tensor[*out].data = data;
    return BP_OK;
}

/* ---- values ---- */

static bool is_input(const struct writing *w, uint32_t number, uint32_t *out_at)
{
    for (uint32_t i = 0; i < w->graph->n_in; i++)
        if (w->graph->in[i] == number) {
            *out_at = i;
            return true;
        }
    return false;
}

/* Finds the tensor of a value that a node or an output reads, and adds it for the first reader. */
static enum bp_status tensor_find(struct writing *w, uint32_t number,
                                  enum ipu_conversion conversion, int32_t *out)
{
    const struct bp_data_value *v = ipu_value(w->graph, number);
    struct ipu_model *m = w->model;
    int32_t *known = &w->tensor[conversion][number];
    uint32_t at;

    if (*known == BP_IPU_NONE && v->flags & BP_DATA_FROZEN) {
        TRY(constant_add(w, v, conversion, known));
    } else if (*known == BP_IPU_NONE && is_input(w, number, &at)) {
        bool stays = v->flags & BP_DATA_STATE && conversion == IPU_AS_IS;
        m->input[m->graph.n_in] = (struct ipu_input){at, conversion, value_count(v), number};
        m->after[m->graph.n_in] = BP_IPU_NONE;
        *known = tensor_add(w, v, conversion, stays ? BP_IPU_KEPT : BP_IPU_INPUT);
        m->in[m->graph.n_in++] = *known;
    }
    if (*known == BP_IPU_NONE)
        return bp_fail(w->self->host, BP_ERR_UNSUPPORTED, "ipu: no node makes %s", v->name);
    *out = *known;
    return BP_OK;
}

static enum ipu_conversion conversion_of(const struct ipu_op *op, const struct ipu_node *n,
                                         uint32_t i)
{
    if (ipu_in(n, i)->dtype != BP_I64) return IPU_AS_IS;
    if (op->op != BP_IPU_OP_cast) return IPU_INDEX;
    return ipu_out(n)->dtype == BP_F32 ? IPU_FLOAT : IPU_WRAP;
}

/* ---- nodes ---- */

static bool has_empty(const struct ipu_node *n)
{
    for (uint32_t i = 0; i < n->node->n_in; i++)
        if (ipu_in(n, i) && ipu_is_empty(ipu_in(n, i))) return true;
    return false;
}

/* A node updates an input, or the result of another update of it. Later nodes that read the
 * input read the new value. (In a graph of a call the result is an output, in the input's
 * memory.) */
static void node_update(struct writing *w, const struct ipu_node *n, uint32_t port, int32_t tensor)
{
    struct ipu_model *m = w->model;
    uint32_t value = n->node->in[n->node->in_at[n->node->info->out[port].share]];
    uint32_t result = n->node->out[n->node->out_at[port]], input = w->updated[value];

    if (!(ipu_value(w->graph, value)->flags & BP_DATA_STATE)) return;
    if (result != BP_DATA_NONE) w->updated[result] = input;
    w->tensor[IPU_AS_IS][input] = tensor;
    for (uint32_t i = 0; i < m->graph.n_in; i++)
        if (m->input[i].value == input && m->input[i].conversion == IPU_AS_IS) m->after[i] = tensor;
}

/* The results have tensors of their own, also those that nothing reads, because they may be the new
 * values of inputs. */
static void node_results(struct writing *w, const struct ipu_node *n, struct bp_ipu_node *to,
                         int32_t *out)
{
    const struct bp_data_node *node = n->node;

    to->out = out;
    to->n_out = ipu_results(n);
    for (uint32_t i = 0; i < to->n_out; i++) {
        out[i] = tensor_add(w, i ? ipu_result(n, i) : ipu_out(n), IPU_AS_IS, BP_IPU_RESULT);
        if (node->out[i] != BP_DATA_NONE) w->tensor[IPU_AS_IS][node->out[i]] = out[i];
    }
    for (uint32_t p = 0; ipu_updates(n) && p < node->info->n_out; p++)
        if (node->info->out[p].kind == BP_PORT_UPDATE && node->out_at[p] < to->n_out)
            node_update(w, n, p, out[node->out_at[p]]);
}

/* A step of adam with empty parameters: the powers of the betas, times the betas. */
static enum bp_status node_powers(struct writing *w, const struct ipu_node *n)
{
    struct ipu_model *m = w->model;
    struct bp_ipu_node adam = {.n_in = 0};

    ipu_op_find(n->node->op)->numbers(n, &adam);
    for (uint32_t i = 0; i < 2; i++) {
        struct bp_ipu_node *to = &m->node[m->graph.n_node++];
        int32_t *link = m->operand + m->n_operand;
        uint32_t port = 3 + i, in = n->node->in_at[n->node->info->out[port].share];
        uint32_t out = n->node->out[n->node->out_at[port]];
        *to = (struct bp_ipu_node){.op = BP_IPU_OP_scale,
                                   .n_in = 1,
                                   .n_out = 1,
                                   .n_number = BP_IPU_NUMBERS,
                                   .in = link,
                                   .out = link + 1,
                                   .real = {adam.real[i]},
                                   .name = n->node->name};
        m->n_operand += 2;
        TRY(tensor_find(w, n->node->in[in], IPU_AS_IS, &link[0]));
        link[1] = tensor_add(w, ipu_in(n, in), IPU_AS_IS, BP_IPU_RESULT);
        if (out != BP_DATA_NONE) w->tensor[IPU_AS_IS][out] = link[1];
        node_update(w, n, port, link[1]);
    }
    return BP_OK;
}

static enum bp_status node_add(struct writing *w, const struct ipu_node *n)
{
    const struct ipu_op *op = ipu_op_find(n->node->op);
    struct ipu_model *m = w->model;
    struct bp_ipu_node *to = &m->node[m->graph.n_node];
    int32_t *in = m->operand + m->n_operand;

    if (op->op == BP_IPU_OP_adam && ipu_is_empty(ipu_in(n, 0))) return node_powers(w, n);
    *to = (struct bp_ipu_node){.op = op->op, .in = in, .name = n->node->name};
    if (has_empty(n) && ipu_op_of_nothing(n, &to->real[0])) {
        to->op = BP_IPU_OP_fill;
    } else {
        uint32_t n_in = op->op == BP_IPU_OP_cache_write && has_empty(n) ? 1 : n->node->n_in;
        for (uint32_t i = 0; i < n_in; i++) {
            if (ipu_in(n, i) && ipu_is_empty(ipu_in(n, i))) continue; /* a part of concat */
            in[to->n_in] = BP_IPU_NONE;
            if (ipu_in(n, i))
                TRY(tensor_find(w, n->node->in[i], conversion_of(op, n, i), &in[to->n_in]));
            to->n_in++;
        }
        if (op->numbers) op->numbers(n, to);
    }
    to->n_number = BP_IPU_NUMBERS;
    node_results(w, n, to, in + to->n_in);
    m->n_operand += to->n_in + to->n_out;
    m->graph.n_node++;
    return BP_OK;
}

static enum bp_status writing_nodes(struct writing *w)
{
    for (uint32_t i = 0; i < w->graph->n_node; i++) {
        struct ipu_node n = {
            .graph = w->graph, .node = ipu_node_at(w->graph, i), .model = w->model};
        const char *why;
        n.attrs = n.node->attrs;
        why = ipu_refuses(&n);
        if (why)
            return bp_fail(w->self->host, BP_ERR_UNSUPPORTED, "ipu: %s: %s", n.node->name, why);
        TRY(node_add(w, &n));
    }
    for (uint32_t i = 0; i < w->graph->n_out; i++) {
        uint32_t at = w->model->graph.n_out;
        if (ipu_is_empty(ipu_value(w->graph, w->graph->out[i]))) continue;
        w->model->output[at] = i;
        TRY(tensor_find(w, w->graph->out[i], IPU_AS_IS, &w->model->out[at]));
        w->model->graph.n_out++;
    }
    return BP_OK;
}

static bool model_allocate(struct ipu_model *m, const struct bp_graph_data *graph)
{
    size_t operands = 1, values = graph->n_value * (IPU_FLOAT + 1) + 1;

    for (uint32_t i = 0; i < graph->n_node; i++) {
        const struct bp_data_node *node = ipu_node_at(graph, i);
        uint32_t results = node->n_out ? node->n_out : 1;
        operands += node->n_in + results + 4; /* of the nodes of node_powers */
        values += results;                    /* absent results have tensors too */
    }
    m->tensor = calloc(values, sizeof *m->tensor);
    m->node = calloc(2 * graph->n_node + 1u, sizeof *m->node);
    m->operand = calloc(operands, sizeof *m->operand);
    m->in = calloc(values, sizeof *m->in);
    m->after = calloc(values, sizeof *m->after);
    m->out = calloc(graph->n_out + 1, sizeof *m->out);
    m->output = calloc(graph->n_out + 1, sizeof *m->output);
    m->input = calloc(values, sizeof *m->input);
    m->constant = calloc(values, sizeof *m->constant);
    return m->tensor && m->node && m->operand && m->in && m->after && m->out && m->output &&
           m->input && m->constant;
}

enum bp_status ipu_model_init(struct ipu *self, const struct bp_graph_data *graph, bool fast,
                              struct ipu_model *model)
{
    size_t values = graph->n_value + 1;
    struct writing w = {.self = self, .graph = graph, .model = model};
    int32_t *tensors = malloc((IPU_FLOAT + 1) * values * sizeof *tensors);
    uint32_t *updated = malloc(values * sizeof *updated);
    enum bp_status status;

    *model = (struct ipu_model){.host = self->host, .graph = {.size = sizeof model->graph}};
    if (!tensors || !updated || !model_allocate(model, graph)) {
        free(tensors);
        free(updated);
        return bp_fail(self->host, BP_ERR_MEMORY, "ipu: no memory for %zu values", values);
    }
    for (size_t i = 0; i < (IPU_FLOAT + 1) * values; i++) tensors[i] = BP_IPU_NONE;
    for (uint32_t i = 0; i <= IPU_FLOAT; i++) w.tensor[i] = tensors + i * values;
    for (uint32_t i = 0; i < values; i++) updated[i] = i;
    w.updated = updated;
    status = writing_nodes(&w);
    free(tensors);
    free(updated);
    model->graph.tensor = model->tensor;
    model->graph.node = model->node;
    model->graph.in = model->in;
    model->graph.out = model->out;
    model->graph.after = model->after;
    model->graph.fast = fast;
    return status;
}

void ipu_model_finish(struct ipu_model *m)
{
    for (uint32_t i = 0; i < m->n_constant; i++) free(m->constant[i]);
    free(m->tensor);
    free(m->node);
    free(m->operand);
    free(m->in);
    free(m->after);
    free(m->out);
    free(m->output);
    free(m->input);
    free(m->constant);
}
