/* SPDX-License-Identifier: Apache-2.0 */
/* model.c: writes a group of nodes as a model of OpenVINO: a parameter for each input that nodes
 * read, the nodes, a result for each output. */
#include "engine.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The state while a model is written. */
struct writing {
    struct openvino *self;
    const struct bp_graph_data *graph;
    struct ov_engine *engine;
    struct ir *ir;
    struct ir_ref *ref, *wide; /* of each value */
    bool *is_read;             /* of each value: a node reads it, other than an i64 that is cast */
    bool *is_cast;             /* of each value: an i64 that a node casts */
    uint32_t *from; /* of each value that is an input or a constant with other extents: its number
                       there; else BP_DATA_NONE */
};

static const struct bp_data_value *writing_value(const struct writing *w, uint32_t number)
{
    return BP_ROW(struct bp_data_value, w->graph->value, w->graph->value_stride, number);
}

static uint64_t value_count(const struct bp_data_value *v)
{
    uint64_t count = 1;

    for (uint32_t a = 0; a < v->rank; a++) count *= (uint64_t)v->shape[a];
    return count;
}

static struct ov_tensor_type tensor_type(const struct bp_data_value *v, uint32_t at)
{
    struct ov_tensor_type type = {
        .at = at, .dtype = v->dtype, .rank = v->rank, .count = value_count(v)};

    memcpy(type.extent, v->shape, v->rank * sizeof *v->shape);
    return type;
}

static void find_readers(struct writing *w)
{
    for (uint32_t i = 0; i < w->graph->n_node; i++) {
        const struct bp_data_node *node = openvino_node(w->graph, i);
        for (uint32_t k = 0; k < node->n_in; k++) {
            uint32_t v = node->in[k];
            if (v == BP_DATA_NONE) continue;
            if (writing_value(w, v)->dtype == BP_I64 && !strcmp(node->op, "cast"))
                w->is_cast[v] = true;
            else w->is_read[v] = true;
        }
    }
    for (uint32_t i = 0; i < w->graph->n_out; i++) w->is_read[w->graph->out[i]] = true;
}

static void write_inputs(struct writing *w)
{
    struct ov_engine *e = w->engine;

    for (uint32_t i = 0; i < w->graph->n_in; i++) {
        uint32_t number = w->graph->in[i];
        const struct bp_data_value *v = writing_value(w, number);
        if (w->is_read[number]) {
            e->in[e->n_in++] = tensor_type(v, i);
            w->ref[number] = ir_parameter(w->ir, v->dtype, v->rank, v->shape);
        }
        if (w->is_cast[number]) {
            e->in[e->n_in] = tensor_type(v, i);
            e->in[e->n_in].dtype = BP_F32;
            e->in[e->n_in++].widened = true;
            w->wide[number] = ir_parameter(w->ir, BP_F32, v->rank, v->shape);
        }
    }
    for (uint32_t i = 0; i < w->graph->n_value; i++)
        w->from[i] = writing_value(w, i)->node == BP_DATA_NONE ? i : BP_DATA_NONE;
    for (uint32_t i = 0; i < w->graph->n_value; i++)
        if (w->is_read[i] && writing_value(w, i)->flags & BP_DATA_FROZEN)
            w->ref[i] = ir_constant(w->ir, writing_value(w, i));
}

static int64_t index_at(const struct bp_data_value *v, uint64_t i)
{
    int64_t at = v->stride ? 0 : (int64_t)i;

    for (uint32_t a = v->rank; v->stride && a--; i /= (uint64_t)v->shape[a])
        at += (int64_t)(i % (uint64_t)v->shape[a]) * v->stride[a];
    return v->dtype == BP_I64 ? ((const int64_t *)v->data)[at] : ((const int32_t *)v->data)[at];
}

/* Indices of a constant are checked now: a failure returns the group to kernels, whose launches
 * report the index. */
static enum bp_status check_constant(const struct writing *w, const struct bp_data_value *v,
                                     int64_t extent, const char *node)
{
    for (uint64_t i = 0, n = value_count(v); i < n; i++) {
        int64_t index = index_at(v, i);
        if (index < -extent || index >= extent)
            return bp_fail(w->self->host, BP_ERR_UNSUPPORTED,
                           "openvino: %s: index %" PRId64 " is outside of extent %" PRId64, node,
                           index, extent);
    }
    return BP_OK;
}

/* Notes the indices of a gather, which must be of an input or a constant. */
static enum bp_status note_index(struct writing *w, const struct ov_node *n)
{
    const struct bp_data_value *x = ov_in(n, 0), *index = ov_in(n, 1);
    int64_t axis, extent;

    memcpy(&axis, (const char *)n->attrs + n->node->info->attr[0].offset, sizeof axis);
    extent = x->shape[ov_axis(axis, x->rank)];
    if (index->flags & BP_DATA_FROZEN) return check_constant(w, index, extent, n->node->name);
    for (uint32_t i = 0; i < w->graph->n_in; i++)
        if (w->graph->in[i] == n->node->in[1]) {
            w->engine->index[w->engine->n_index++] = (struct ov_index){i, index->dtype, extent};
            return BP_OK;
        }
    return bp_fail(w->self->host, BP_ERR_UNSUPPORTED,
                   "openvino: %s: a node of the group computes the indices", n->node->name);
}

/* Notes a value that has the elements of another one: a reshape, or no layer at all. */
static void note_same(struct writing *w, const struct bp_data_node *node)
{
    struct ir_ref x = w->ref[node->in[0]], y = w->ref[node->out[0]];

    if (openvino_op_find(node->op)->write == ov_write_reshape ||
        (x.layer == y.layer && x.port == y.port))
        w->from[node->out[0]] = w->from[node->in[0]];
}

static enum bp_status write_nodes(struct writing *w)
{
    for (uint32_t i = 0; i < w->graph->n_node; i++) {
        struct ov_node n = {.graph = w->graph,
                            .node = openvino_node(w->graph, i),
                            .ir = w->ir,
                            .ref = w->ref,
                            .wide = w->wide,
                            .exact = !w->engine->fast};
        const char *why;
        n.attrs = n.node->attrs;
        why = openvino_refuses(&n);
        if (why)
            return bp_fail(w->self->host, BP_ERR_UNSUPPORTED, "openvino: %s: %s", n.node->name,
                           why);
        if (!strcmp(n.node->op, "gather")) TRY(note_index(w, &n));
        openvino_write(&n);
        note_same(w, n.node);
    }
    return BP_OK;
}

static enum bp_status write_output(struct writing *w, uint32_t i)
{
    uint32_t number = w->graph->out[i], from = w->from[number];
    const struct bp_data_value *v = writing_value(w, number);

    if (from == BP_DATA_NONE) {
        w->engine->out[w->engine->n_out++] = tensor_type(v, i);
        ir_result(w->ir, w->ref[number]);
        return BP_OK;
    }
    for (uint32_t k = 0; k < w->graph->n_in; k++)
        if (w->graph->in[k] == from) {
            w->engine->copy[w->engine->n_copy++] = (struct ov_copy){
                k, i, value_count(v) * ir_bits(v->dtype) / 8};
            return BP_OK;
        }
    return bp_fail(w->self->host, BP_ERR_UNSUPPORTED, "openvino: output %s is a constant", v->name);
}

static enum bp_status write_outputs(struct writing *w)
{
    for (uint32_t i = 0; i < w->graph->n_out; i++) TRY(write_output(w, i));
    if (w->engine->n_out) return BP_OK;
    return bp_fail(w->self->host, BP_ERR_UNSUPPORTED, "openvino: the group computes nothing");
}

enum bp_status openvino_write_model(struct openvino *self, const struct bp_graph_data *graph,
                                    struct ov_engine *engine, struct ir *ir)
{
    size_t n = graph->n_value + 1;
    struct writing w = {.self = self,
                        .graph = graph,
                        .engine = engine,
                        .ir = ir,
                        .ref = calloc(n, sizeof *w.ref),
                        .wide = calloc(n, sizeof *w.wide),
                        .is_read = calloc(n, 1),
                        .is_cast = calloc(n, 1),
                        .from = calloc(n, sizeof *w.from)};
    enum bp_status status;

    if (w.ref && w.wide && w.is_read && w.is_cast && w.from) {
        find_readers(&w);
        write_inputs(&w);
        status = write_nodes(&w);
        if (!status) status = write_outputs(&w);
    } else {
        status = bp_fail(self->host, BP_ERR_MEMORY, "openvino: no memory for %zu values", n);
    }
    free(w.ref);
    free(w.wide);
    free(w.is_read);
    free(w.is_cast);
    free(w.from);
    return status;
}

/* Numbers of types differ between versions of the library: they are read from a model with an input
 * of each type. */
enum bp_status openvino_find_types(struct openvino *self)
{
    const int64_t one = 1;
    const char *text;
    size_t length;
    struct ov_model *model = NULL;
    struct ov_output_const_port *port;
    struct ir ir;
    enum bp_status status;

    TRY(ir_begin(&ir, self->host));
    for (uint32_t t = 0; t < OPENVINO_TYPES; t++)
        if (ir_type(t)) ir_result(&ir, ir_parameter(&ir, t, 1, &one));
    status = ir_end(&ir, &text, &length);
    if (!status)
        status = OV(self, ov_core_read_model_from_memory_buffer, self->core, text, length, NULL,
                    &model);
    for (uint32_t t = 0, i = 0; t < OPENVINO_TYPES && !status; t++) {
        if (!ir_type(t)) continue;
        status = OV(self, ov_model_const_input_by_index, model, i++, &port);
        if (status) break;
        status = OV(self, ov_port_get_element_type, port, &self->type[t]);
        self->call->ov_output_const_port_free(port);
    }
    if (model) self->call->ov_model_free(model);
    ir_finish(&ir);
    return status;
}
