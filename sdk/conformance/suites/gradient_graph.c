/* SPDX-License-Identifier: Apache-2.0 */
/* gradient_graph.c: records cases of the suite `gradient` as graphs. The nodes show which kernel
 * rows the rules need; the graph also computes the second order. */
#include "gradient_run.h"
#include "parts.h"
#include <backplane/kernel.h>
#include <stdio.h>
#include <string.h>

static bool take_type(struct gradient_run *g, struct bp_tensor *t, struct numbers *out)
{
    struct bp_tensor_info info = {.size = sizeof info};

    if (!check_ok(g->r.c, bp_tensor_get_info(t, &info), "bp_tensor_get_info of a recorded result"))
        return false;
    if (info.dtype != BP_F64 && info.dtype != BP_C128) return true;
    out->is = true;
    out->dtype = info.dtype;
    out->n = info.count * (info.dtype == BP_C128 ? 2 : 1);
    out->rank = (int)info.rank;
    for (int i = 0; i < out->rank; i++) out->shape[i] = info.shape[i];
    return true;
}

static bool add_input(struct gradient_run *g, uint32_t dtype, int rank, const int64_t *shape,
                      struct bp_tensor **out)
{
    return check_ok(g->r.c, bp_graph_input(g->graph, NULL, dtype, (uint32_t)rank, shape, out),
                    "bp_graph_input");
}

/* Records the call with the arguments of the eager call, replaced by graph inputs except those that
 * give attributes. */
static bool record_call(struct gradient_run *g, struct bp_tensor **out)
{
    struct bp_arg arg[CASE_PORTS];
    struct bp_call call = g->r.call;

    for (int i = 0; i < g->r.made->n_in; i++) {
        const struct kernel_input *in = &g->r.made->in[i];
        if (in->present && !add_input(g, in->dtype, in->rank, in->shape, &g->s_in[i])) return false;
    }
    for (uint32_t p = 0; p < g->r.info->n_in; p++) {
        arg[p] = g->r.arg[p];
        if (g->r.info->in[p].kind != BP_PORT_HOST)
            arg[p].at = g->s_in + (g->r.arg[p].at - g->r.tensor);
    }
    call.in = arg;
    return gradient_ok(g, bp_call_run(bp_graph_scope(g->graph), &call, out, (size_t)g->n_out, NULL),
                       "recording the call");
}

/* Collects the tensors of those inputs or gradients that are variables, and their indices. */
static size_t graph_gather(const struct numbers *of, struct bp_tensor *const *from, int n,
                           struct bp_tensor **out, int *out_place)
{
    size_t used = 0;

    for (int i = 0; i < n; i++) {
        if (!of[i].is || !from[i]) continue;
        out_place[used] = i;
        out[used++] = from[i];
    }
    return used;
}

static bool record_first(struct gradient_run *g, struct bp_tensor *const *out)
{
    struct bp_tensor *x[CASE_PORTS], *dx[CASE_PORTS] = {NULL};
    int fixture[CASE_PORTS];
    size_t n_x = graph_gather(g->in, g->s_in, CASE_PORTS, x, fixture);
    bool any = false;

    for (int i = 0; i < g->n_out; i++) {
        if (g->r.made->fixed_out >> i & 1) continue;
        if (!take_type(g, out[i], &g->dy[i])) return false;
        if (!g->dy[i].is) continue;
        any = true;
        if (!add_input(g, g->dy[i].dtype, g->dy[i].rank, g->dy[i].shape, &g->s_dy[i])) return false;
    }
    if (!check_that(g->r.c, n_x && any, "it has no input, or no output, of f64 or c128"))
        return false;
    if (!gradient_ok(g,
                     bp_graph_gradient(g->graph, out, g->s_dy, (size_t)g->n_out, x, n_x, dx),
                     "bp_graph_gradient"))
        return false;
    for (size_t i = 0; i < n_x; i++) g->s_dx[fixture[i]] = dx[i];
    return true;
}

static bool record_second(struct gradient_run *g)
{
    struct bp_tensor *y[CASE_PORTS], *d[CASE_PORTS], *x[GRADIENT_VARIABLES];
    struct bp_tensor *ddx[GRADIENT_VARIABLES] = {NULL};
    int fixture[GRADIENT_VARIABLES];
    size_t n_y = graph_gather(g->in, g->s_dx, CASE_PORTS, y, fixture), n_in, n_x;

    for (size_t i = 0; i < n_y; i++) {
        struct numbers *v = &g->v[fixture[i]];
        if (!take_type(g, y[i], v)) return false;
        if (!add_input(g, v->dtype, v->rank, v->shape, &g->s_v[fixture[i]])) return false;
        d[i] = g->s_v[fixture[i]];
    }
    n_in = graph_gather(g->in, g->s_in, CASE_PORTS, x, fixture);
    n_x = n_in + graph_gather(g->dy, g->s_dy, REF_OUTPUTS, x + n_in, fixture + n_in);
    if (!gradient_ok(g, bp_graph_gradient(g->graph, y, d, n_y, x, n_x, ddx),
                     "bp_graph_gradient of gradients"))
        return false;
    for (size_t i = 0; i < n_x; i++)
        g->s_ddx[fixture[i] + (i < n_in ? 0 : CASE_PORTS)] = ddx[i];
    for (int i = 0; i < GRADIENT_VARIABLES; i++)
        if (g->s_ddx[i] && !check_ok(g->r.c, bp_graph_output(g->graph, g->s_ddx[i], NULL),
                                     "bp_graph_output"))
            return false;
    return true;
}

bool gradient_record(struct gradient_run *g)
{
    struct bp_tensor *out[REF_OUTPUTS] = {NULL};
    bool ok = check_ok(g->r.c, bp_graph_create(g->r.c->fixture->core, &g->graph),
                       "bp_graph_create") &&
              record_call(g, out) && record_first(g, out) &&
              (g->r.made->gradient < 2 || record_second(g));

    for (int i = 0; i < g->n_out; i++) bp_tensor_destroy(out[i]);
    return ok;
}

/* The declared port of entry i in a flat list of n entries. At most one port is variadic. */
static const struct bp_port *port_of(const struct bp_port *port, uint32_t n_port, uint32_t n,
                                     uint32_t i)
{
    for (uint32_t p = 0; p < n_port; p++) {
        bool many = port[p].kind == BP_PORT_VAR || port[p].kind == BP_PORT_VAROUT ||
                    port[p].kind == BP_PORT_VIEWS;
        uint32_t here = many ? n - (n_port - 1) : 1;
        if (i < here) return &port[p];
        i -= here;
    }
    return port;
}

/* Whether a kernel row supports the dtypes of all values of a node. */
static bool graph_fits(struct bp_graph *graph, const struct bp_node_info *node,
                       const struct bp_opinfo *op, const uint64_t *types)
{
    for (uint32_t i = 0; i < node->n_in + node->n_out; i++) {
        bool in = i < node->n_in;
        uint32_t v = in ? node->in[i] : node->out[i - node->n_in];
        const struct bp_port *port = in ? port_of(op->in, op->n_in, node->n_in, i)
                                        : port_of(op->out, op->n_out, node->n_out,
                                                  i - node->n_in);
        struct bp_value_info value = {.size = sizeof value};
        if (v == UINT32_MAX || bp_graph_value(graph, v, &value)) continue;
        if (!(types[port->var] >> value.dtype & 1)) return false;
    }
    return true;
}

/* Whether the device cannot run a node of the graph; text receives the reason. */
static bool lacks_row_for(struct gradient_run *g, const struct bp_node_info *node, char *text,
                          size_t size)
{
    const struct bp_opinfo *op = bp_opinfo_find(node->op);
    struct bp_device *device = g->r.c->fixture->device;

    if (op->flags & BP_OP_VIEW || !strcmp(op->name, "assign")) return false;
    for (uint32_t i = 0; i < bp_device_kernels(device); i++) {
        struct bp_kernel_info info = {.size = sizeof info};
        if (bp_device_kernel(device, i, &info) || *info.reason || strcmp(info.op, op->name))
            continue;
        if (graph_fits(g->graph, node, op, info.types)) return false;
    }
    if (op->flags & BP_OP_EXPAND)
        return parts_lack_node(g->r.c->fixture, g->graph, node, text, size);
    snprintf(text, size, "it needs %s for f64, for which the device has no row", op->name);
    return true;
}

bool gradient_is_held(struct gradient_run *g)
{
    struct bp_graph_info graph = {.size = sizeof graph};
    char text[160];

    if (parts_lack(g->r.c->fixture, g->r.made, text, sizeof text)) {
        check_unsupported(g->r.c, "%s", text);
        return false;
    }
    if (!check_ok(g->r.c, bp_graph_get_info(g->graph, &graph), "bp_graph_get_info")) return false;
    for (uint32_t i = 0; i < graph.nodes; i++) {
        struct bp_node_info node = {.size = sizeof node};
        if (!check_ok(g->r.c, bp_graph_node(g->graph, i, &node), "bp_graph_node")) return false;
        if (!lacks_row_for(g, &node, text, sizeof text)) continue;
        check_unsupported(g->r.c, "%s", text);
        return false;
    }
    return true;
}

bool gradient_run_second(struct gradient_run *g, struct bp_tensor **out)
{
    struct bp_tensor *in[GRADIENT_VARIABLES + CASE_PORTS], *made[GRADIENT_VARIABLES] = {NULL};
    size_t n_in = 0, n_out = 0, at = 0;

    for (int i = 0; i < CASE_PORTS; i++)
        if (g->s_in[i]) in[n_in++] = g->r.tensor[i];
    for (int i = 0; i < REF_OUTPUTS; i++)
        if (g->s_dy[i]) in[n_in++] = g->dy[i].tensor;
    for (int i = 0; i < CASE_PORTS; i++)
        if (g->s_v[i]) in[n_in++] = g->v[i].tensor;
    for (int i = 0; i < GRADIENT_VARIABLES; i++) n_out += g->s_ddx[i] != NULL;
    if (!gradient_ok(g, bp_graph_run(g->graph, g->r.c->fixture->stream, in, n_in, made, n_out),
                     "running the recorded gradient of the gradient"))
        return false;
    for (int i = 0; i < GRADIENT_VARIABLES; i++) out[i] = g->s_ddx[i] ? made[at++] : NULL;
    return true;
}

void gradient_forget(struct gradient_run *g)
{
    for (int i = 0; i < CASE_PORTS; i++) {
        bp_tensor_destroy(g->s_in[i]);
        bp_tensor_destroy(g->s_v[i]);
        bp_tensor_destroy(g->s_dx[i]);
    }
    for (int i = 0; i < REF_OUTPUTS; i++) bp_tensor_destroy(g->s_dy[i]);
    for (int i = 0; i < GRADIENT_VARIABLES; i++) bp_tensor_destroy(g->s_ddx[i]);
    bp_graph_destroy(g->graph);
}
