/* SPDX-License-Identifier: Apache-2.0 */
/* gradient_reads.c: finds of which tensors the gradient of a call reads the elements. The gradient
 * rule is recorded in a graph of its own; it reads the values that the recorded nodes have as
 * inputs. */
#include "../graph/graph.h"

#include <stdlib.h>

/* The tensors of the recorded gradient: values of the graph. */
struct sample {
    struct bp_graph *graph;
    struct bp_tensor *in[BP_FLAT_MAX], *out[BP_FLAT_MAX], *dy[BP_FLAT_MAX], *dx[BP_FLAT_MAX];
};

static struct sample *sample_create(void)
{
    struct sample *s = calloc(1, sizeof *s);

    if (s && bp_graph_make(&s->graph) == BP_OK) return s;
    free(s);
    return NULL;
}

static void sample_destroy(struct sample *s)
{
    for (uint32_t i = 0; i < BP_FLAT_MAX; i++) {
        bp_tensor_destroy(s->in[i]);
        bp_tensor_destroy(s->out[i]);
        bp_tensor_destroy(s->dy[i]);
        bp_tensor_destroy(s->dx[i]);
    }
    bp_graph_release(s->graph);
    free(s);
}

static bool has_gradient(uint32_t dtype)
{
    uint64_t mask = BP_MASK_FLOAT | BP_MASK_COMPLEX;

    return mask >> dtype & 1;
}

static enum bp_status sample_add_values(struct sample *s, const struct bp_invocation *inv)
{
    for (uint32_t i = 0; i < inv->n_in; i++)
        if (inv->in[i])
            TRY(bp_graph_input(s->graph, NULL, inv->in[i]->dtype, inv->in[i]->rank,
                               inv->in[i]->shape, &s->in[i]));
    for (uint32_t i = 0; i < inv->n_out; i++) {
        const struct bp_type *type = &inv->out[i];
        TRY(bp_graph_input(s->graph, NULL, type->dtype, type->rank, type->shape, &s->out[i]));
        if (has_gradient(type->dtype))
            TRY(bp_graph_input(s->graph, NULL, type->dtype, type->rank, type->shape, &s->dy[i]));
    }
    return BP_OK;
}

static enum bp_status sample_record(struct sample *s, const struct bp_invocation *inv,
                                    const uint8_t *want, size_t n_in)
{
    struct bp_arg arg[BP_PORT_MAX];
    struct bp_call call = {.size = sizeof call, .op = inv->row->info.name, .in = arg,
                           .n_in = inv->row->info.n_in, .attrs = inv->attrs};

    TRY(sample_add_values(s, inv));
    for (uint32_t port = 0; port < inv->row->info.n_in; port++)
        arg[port] = (struct bp_arg){s->in + inv->in_at[port],
                                    (size_t)(inv->in_at[port + 1] - inv->in_at[port])};
    return bp_call_gradient(&s->graph->scope, &call, s->out, s->dy, inv->n_out, want, s->dx, n_in);
}

/* Whether a node reads elements of the value, or a gradient is the value itself. */
static uint8_t sample_reads(const struct sample *s, const struct bp_tensor *t, uint32_t n_in)
{
    const struct bp_graph *g = s->graph;

    for (uint32_t n = 0; t && n < g->n_node; n++)
        for (uint32_t i = 0; i < g->node[n].n_in; i++)
            if (g->node[n].in[i] == t->value && !bp_node_reads_shape(&g->node[n], i)) return 1;
    for (uint32_t i = 0; t && i < n_in; i++)
        if (s->dx[i] && s->dx[i]->value == t->value) return 1;
    return 0;
}

/* Returns the device of the call's tensors, or their graph. */
static void reads_find_place(const struct bp_call *call, struct bp_device **out_device,
                             struct bp_graph **out_graph)
{
    *out_device = NULL;
    *out_graph = NULL;
    for (size_t port = 0; call->in && port < call->n_in; port++)
        for (size_t i = 0; call->in[port].at && i < call->in[port].n; i++) {
            const struct bp_tensor *t = call->in[port].at[i];
            if (bp_symbol_is(t)) *out_graph = t->graph;
            else if (bp_tensor_is(t)) *out_device = t->device;
            if (*out_graph) *out_device = NULL;
            if (*out_graph || *out_device) return;
        }
}

static enum bp_status reads_of(const struct bp_invocation *inv, const uint8_t *want,
                               uint8_t *out_in, size_t n_in, uint8_t *out_out, size_t n_out)
{
    struct sample *s = sample_create();
    enum bp_status status;

    if (!s) return bp_error(BP_ERR_MEMORY, "%s: no memory for a gradient", inv->row->info.name);
    status = sample_record(s, inv, want, n_in);
    for (uint32_t i = 0; status == BP_OK && i < n_in; i++)
        out_in[i] = sample_reads(s, s->in[i], (uint32_t)n_in);
    for (uint32_t i = 0; status == BP_OK && i < n_out; i++)
        out_out[i] = sample_reads(s, s->out[i], (uint32_t)n_in);
    sample_destroy(s);
    return status;
}

enum bp_status bp_call_gradient_reads(const struct bp_call *call, const uint8_t *want,
                                      uint8_t *out_in, size_t n_in, uint8_t *out_out, size_t n_out)
{
    const struct bp_opdef *row;
    struct bp_invocation inv;
    struct bp_device *device;
    struct bp_graph *graph;
    enum bp_status status;

    if (!want || !out_in || !out_out)
        return bp_error(BP_ERR_INVALID, "bp_call_gradient_reads: want, out_in or out_out is NULL");
    TRY(bp_call_check(call));
    row = bp_opdef_find(call->op);
    if (row) TRY(bp_host_refuse(row, call->in, call->n_in));
    reads_find_place(call, &device, &graph);
    if (!device && !graph)
        return bp_error(BP_ERR_INVALID, "bp_call_gradient_reads: the call has no tensor as input");
    TRY(bp_invocation_init(&inv, device, graph, call, NULL, n_out));
    status = n_in > inv.n_in || n_out > inv.n_out
                 ? bp_error(BP_ERR_INVALID,
                            "%s: room for %zu inputs and %zu outputs, the call has %u and %u",
                            inv.row->info.name, n_in, n_out, inv.n_in, inv.n_out)
                 : reads_of(&inv, want, out_in, n_in, out_out, n_out);
    bp_invocation_finish(&inv);
    return status;
}
