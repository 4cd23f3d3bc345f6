/* SPDX-License-Identifier: Apache-2.0 */
/* build_other.c: ways to run a call for which the device has no kernel as it stands. */
#include "../graph/graph.h"
#include "build.h"

#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 16 }; /* expansions in expansions: more is a circle */

/* Sites are large: the copy that a transformed call is built from lives on the heap. */
static struct bp_site *copy_site(const struct bp_site *site)
{
    struct bp_site *copy = malloc(sizeof *copy);

    if (copy) memcpy(copy, site, sizeof *copy);
    return copy;
}

/* A call between conversions. narrow: half types become f32; else strided tensors become dense. */
static bool changes(const struct bp_view *v, bool narrow)
{
    if (!v) return false;
    return narrow ? v->dtype == BP_F16 || v->dtype == BP_BF16 : v->flags & BP_VIEW_STRIDED;
}

static const struct bp_port *port_of(const struct bp_site *site, uint32_t i)
{
    return &site->row->info.out[bp_out_port(site->row, site->out_at, i)];
}

static enum bp_status build_between(struct bp_builder *b, struct bp_site *site,
                                    const struct bp_operand *in, const struct bp_operand *out,
                                    bool narrow)
{
    uint32_t kind = narrow ? BP_FALLBACK_DTYPE : BP_FALLBACK_LAYOUT, before = b->kind;
    struct bp_operand inner_in[BP_FLAT_MAX], inner_out[BP_FLAT_MAX];
    enum bp_status status;

    memcpy(inner_in, in, site->n_in * sizeof *in); /* those that do not change stay */
    memcpy(inner_out, out, site->n_out * sizeof *out);
    for (uint32_t i = 0; i < site->n_in; i++) {
        const struct bp_view *v = bp_build_view_of(b->p, in[i]);
        if (!changes(v, narrow)) continue;
        TRY(bp_build_dense(b, site, v, narrow ? BP_F32 : v->dtype, &inner_in[i]));
        TRY(bp_build_convert(b, site, in[i], inner_in[i], kind));
    }
    for (uint32_t i = 0; i < site->n_out; i++) {
        const struct bp_view *v = bp_build_view_of(b->p, out[i]);
        const struct bp_port *port = port_of(site, i);
        if (v && port->kind == BP_PORT_UPDATE && changes(v, narrow))
            inner_out[i] = inner_in[site->in_at[port->share]]; /* which has the contents */
        else if (v && (changes(v, narrow) || site->in_place))
            TRY(bp_build_dense(b, site, v, narrow && changes(v, true) ? BP_F32 : v->dtype,
                          &inner_out[i]));
    }
    bp_build_inputs(b, site, inner_in);
    for (uint32_t v = 0; narrow && v < BP_VAR_COUNT; v++)
        if (site->dtype[v] == BP_F16 || site->dtype[v] == BP_BF16) site->dtype[v] = BP_F32;
    site->in_place = false;
    status = bp_build(b, site, inner_in, inner_out);
    b->kind = before;
    TRY(status);
    for (uint32_t i = 0; i < site->n_out; i++)
        if (inner_out[i].kind != out[i].kind || inner_out[i].index != out[i].index)
            TRY(bp_build_convert(b, site, inner_out[i], out[i], kind));
    return BP_OK;
}

bool bp_build_changes(const struct bp_site *site, const struct bp_view *const *out, bool narrow)
{
    bool any = !narrow && site->in_place;

    for (uint32_t i = 0; i < site->n_in && !any; i++) any = changes(site->in[i], narrow);
    for (uint32_t i = 0; i < site->n_out && !any; i++) any = changes(out[i], narrow);
    return any;
}

/* A dtype that is an attribute says what the result is: it cannot be another. */
bool bp_build_names_dtype(const struct bp_opinfo *op)
{
    for (uint32_t i = 0; i < op->n_attr; i++)
        if (op->attr[i].kind == BP_ATTR_DTYPE) return true;
    return false;
}

enum bp_status bp_build_between(struct bp_builder *b, const struct bp_site *site,
                                  const struct bp_operand *in, const struct bp_operand *out,
                                  bool narrow)
{
    struct bp_build_mark here = {b->p->n_step, b->p->n_temp};
    struct bp_site *copy = copy_site(site);
    enum bp_status status;

    if (!copy) return bp_build_no_memory(site);
    status = build_between(b, copy, in, out, narrow);
    if (status) bp_build_go_back(b->p, here);
    free(copy);
    return status;
}

/* The place of each value of an expansion; inputs are the call's, results that are outputs of the
 * call are written there. */
static enum bp_status place_values(struct bp_builder *b, const struct bp_site *site,
                                   const struct bp_graph *graph, struct bp_operand *place)
{
    for (uint32_t v = 0; v < graph->n_value; v++) {
        if (graph->value[v].kind == BP_VALUE_CONSTANT)
            return bp_error(BP_ERR_INTERNAL, "%s: its expansion has a constant",
                            site->row->info.name);
        if (graph->value[v].kind == BP_VALUE_RESULT && place[v].kind == BP_OPERAND_NONE)
            TRY(bp_build_temp(b, site, graph->value[v].type, &place[v]));
    }
    return BP_OK;
}

static enum bp_status build_node(struct bp_builder *b, const struct bp_site *outer,
                                 const struct bp_graph *graph, const struct bp_node *node,
                                 const struct bp_operand *place)
{
    struct bp_operand in[BP_FLAT_MAX], out[BP_FLAT_MAX];
    struct bp_site *site = malloc(sizeof *site);
    enum bp_status status;

    if (!site) return bp_build_no_memory(outer);
    if (node->row->updates) { /* its output would not be its input */
        free(site);
        return bp_error(BP_ERR_INTERNAL, "%s: its expansion has an update, %s",
                        outer->row->info.name, node->row->info.name);
    }
    for (uint32_t i = 0; i < node->n_in; i++)
        in[i] = node->in[i] == BP_NO_VALUE ? (struct bp_operand){0} : place[node->in[i]];
    for (uint32_t i = 0; i < node->n_out; i++)
        out[i] = node->out[i] == BP_NO_VALUE ? (struct bp_operand){0} : place[node->out[i]];
    bp_node_site(graph, node, outer->device, site);
    site->prefer = outer->prefer;
    bp_build_inputs(b, site, in);
    status = bp_build(b, site, in, out);
    free(site);
    return status;
}

static enum bp_status build_recorded(struct bp_builder *b, const struct bp_site *site,
                                     const struct bp_graph *graph, const uint32_t *value,
                                     const struct bp_operand *in, const struct bp_operand *out)
{
    struct bp_operand *place = calloc(graph->n_value + 1, sizeof *place);
    bool copied[BP_PORT_MAX] = {false};
    enum bp_status status;

    if (!place) return bp_build_no_memory(site);
    for (uint32_t i = 0, input = 0; i < site->n_in; i++)
        if (site->in[i]) place[graph->input[input++]] = in[i];
    for (uint32_t i = 0; i < site->n_out; i++) {
        if (!(site->want >> i & 1)) continue;
        copied[i] = place[value[i]].kind != BP_OPERAND_NONE; /* an input, or another output */
        if (!copied[i]) place[value[i]] = out[i];
    }
    status = place_values(b, site, graph, place);
    for (uint32_t n = 0; n < graph->n_node && status == BP_OK; n++)
        status = build_node(b, site, graph, &graph->node[n], place);
    for (uint32_t i = 0; i < site->n_out && status == BP_OK; i++)
        if (copied[i])
            status = bp_build_convert(b, site, place[value[i]], out[i], BP_FALLBACK_EXPAND);
    free(place);
    return status;
}

enum bp_status bp_build_expand(struct bp_builder *b, const struct bp_site *site,
                                 const struct bp_operand *in, const struct bp_operand *out)
{
    struct bp_build_mark here = {b->p->n_step, b->p->n_temp};
    uint32_t value[BP_PORT_MAX], before = b->kind;
    struct bp_graph *graph;
    enum bp_status status;

    if (b->depth == DEPTH_MAX)
        return bp_error(BP_ERR_INTERNAL, "%s: its expansion leads back to itself",
                        site->row->info.name);
    TRY(bp_graph_make(&graph));
    status = bp_graph_expand(graph, site->row, site->attrs, site->in, site->n_in, site->want,
                             value);
    b->depth++;
    b->kind = BP_FALLBACK_EXPAND;
    if (status == BP_OK) status = build_recorded(b, site, graph, value, in, out);
    b->kind = before;
    b->depth--;
    bp_graph_release(graph);
    if (status) bp_build_go_back(b->p, here);
    return status;
}
