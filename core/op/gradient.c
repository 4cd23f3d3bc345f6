/* SPDX-License-Identifier: Apache-2.0 */
/* gradient.c: the gradients of one call, by its row's rule. */
#include "op.h"

#include <stdlib.h>
#include <string.h>

/* What extents depend on data is bounded only. */
static bool is_extent(const struct bp_site *site, const struct bp_type *type, uint32_t axis,
                      int64_t extent)
{
    return site->row->bound && axis == site->row->info.bound_axis ? extent <= type->shape[axis]
                                                                  : extent == type->shape[axis];
}

/* Results and their gradients are of the types that the forward gives. */
static enum bp_status check_result(const struct bp_site *site, const char *what, uint32_t i,
                                   const struct bp_tensor *t)
{
    const struct bp_type *type = &site->out[i];
    const char *op = site->row->info.name;
    char got[BP_TYPE_TEXT], expected[BP_TYPE_TEXT];
    bool same;

    if (!bp_symbol_is(t) && !bp_tensor_is(t))
        return bp_was_stale()
                   ? bp_not_a_for(op, "tensor")
                   : bp_error(BP_ERR_INVALID, "%s: %s[%u]: expected a tensor", op, what, i);
    if (site->graph ? t->graph && t->graph != site->graph : t->device != site->device)
        return bp_error(BP_ERR_INVALID, "%s: %s[%u] is on %s, expected %s", op, what, i,
                        t->device ? t->device->name : "a graph",
                        site->device ? site->device->name : "the graph of the call");
    same = t->view.dtype == type->dtype && t->view.rank == type->rank;
    for (uint32_t axis = 0; same && axis < type->rank; axis++)
        same = is_extent(site, type, axis, t->shape[axis]);
    if (same) return BP_OK;
    return bp_error(BP_ERR_INVALID, "%s: %s[%u] is %s, expected %s", op, what, i,
                    bp_type_text(t->view.dtype, t->view.rank, t->shape, got, sizeof got),
                    bp_type_text(type->dtype, type->rank, type->shape, expected, sizeof expected));
}

/* A call's gradient under way: the app's lists in full length, what it left out NULL. */
struct asked {
    struct bp_tensor *out[BP_FLAT_MAX], *dy[BP_FLAT_MAX];
    uint8_t want[BP_FLAT_MAX];
    bool any; /* a dy that is not zero */
};

static void take(struct asked *a, struct bp_tensor *const *out, struct bp_tensor *const *dy,
                 size_t n_out, const uint8_t *want, size_t n_dx)
{
    memset(a, 0, sizeof *a);
    for (size_t i = 0; i < n_out; i++) {
        a->out[i] = out[i];
        a->dy[i] = dy[i];
        a->any |= dy[i] != NULL;
    }
    memcpy(a->want, want, n_dx);
}

static enum bp_status check_asked(const struct bp_site *site, const struct asked *a)
{
    const struct bp_opinfo *op = &site->row->info;

    for (uint32_t i = 0; i < site->n_out; i++) {
        uint32_t port = bp_out_port(site->row, site->out_at, i);
        if (!a->out[i] && op->out[port].kind == BP_PORT_OPTOUT && !a->dy[i]) continue;
        TRY(check_result(site, "out", i, a->out[i]));
        if (a->dy[i]) TRY(check_result(site, "dy", i, a->dy[i]));
    }
    for (uint32_t i = 0; i < site->n_in; i++)
        if (a->want[i] && !site->in[i])
            return bp_error(BP_ERR_INVALID, "%s: want[%u] is set, but that input is absent",
                            op->name, i);
    if (!site->row->grad && !site->row->expand)
        return bp_error(BP_ERR_UNSUPPORTED, "%s: it has no gradient", op->name);
    return BP_OK;
}

static enum bp_status apply(struct bp_scope *scope, struct bp_site *site,
                            const struct bp_call *call, const struct asked *a,
                            struct bp_tensor **out_dx, size_t n_dx)
{
    struct bp_tensor *in[BP_FLAT_MAX], *dx[BP_FLAT_MAX] = {NULL};
    struct bp_grad grad = {scope, site->row, site->attrs, in, a->out, a->dy, a->want, dx,
                           site->n_in, site->n_out, bp_grad_expanded};
    enum bp_status status = BP_OK;

    bp_site_flatten(site, call, in);
    if (a->any) status = site->row->grad ? site->row->grad(&grad) : bp_grad_expanded(&grad);
    for (uint32_t i = 0; i < site->n_in; i++) {
        if (status) bp_tensor_destroy(dx[i]);
        else if (i < n_dx && a->want[i]) out_dx[i] = dx[i];
    }
    return status;
}

/* Inputs that the call left out at its end may be left out here too. */
static bool is_room(const struct bp_site *site, size_t n_dx)
{
    if (n_dx > site->n_in) return false;
    for (size_t i = n_dx; i < site->n_in; i++)
        if (site->in[i]) return false;
    return true;
}

/* A stream's device, or a graph. */
static enum bp_status place_of(struct bp_scope *scope, struct bp_device **out_device,
                               struct bp_graph **out_graph)
{
    *out_device = NULL;
    *out_graph = NULL;
    if (bp_scope_is(scope, BP_MAGIC_STREAM))
        *out_device = ((struct bp_stream *)scope)->device;
    else if (bp_scope_is(scope, BP_MAGIC_GRAPH)) *out_graph = (struct bp_graph *)scope;
    else if (!bp_scope_is(scope, BP_MAGIC_STREAM) && bp_was_stale())
        return bp_not_a_for("bp_call_gradient", "scope");
    else
        return bp_error(BP_ERR_INVALID, "bp_call_gradient: expected a scope (bp_stream_scope, "
                                        "bp_graph_scope), got NULL or something else");
    return BP_OK;
}

static enum bp_status gradient(struct bp_scope *scope, struct bp_device *device,
                               struct bp_graph *graph, const struct bp_call *call,
                               struct bp_tensor *const *out, struct bp_tensor *const *dy,
                               size_t n_out, const uint8_t *want, struct bp_tensor **out_dx,
                               size_t n_dx)
{
    struct asked asked;
    struct bp_site site;
    enum bp_status status;

    TRY(bp_site_init(&site, device, graph, call, NULL, n_out));
    if (!is_room(&site, n_dx)) {
        status = bp_error(BP_ERR_INVALID, "%s: room for %zu gradients, the call has %u inputs",
                          site.row->info.name, n_dx, site.n_in);
    } else {
        take(&asked, out, dy, n_out, want, n_dx);
        status = check_asked(&site, &asked);
        if (status == BP_OK) status = apply(scope, &site, call, &asked, out_dx, n_dx);
    }
    bp_site_finish(&site);
    return status;
}

enum bp_status bp_call_gradient(struct bp_scope *scope, const struct bp_call *call,
                                struct bp_tensor *const *out, struct bp_tensor *const *dy,
                                size_t n_out, const uint8_t *want, struct bp_tensor **out_dx,
                                size_t n_dx)
{
    const struct bp_op_row *row;
    struct bp_device *device;
    struct bp_graph *graph;
    struct bp_call filled;
    void *attrs = NULL;
    enum bp_status status;

    TRY(place_of(scope, &device, &graph));
    if (!out || !dy || !want || !out_dx)
        return bp_error(BP_ERR_INVALID, "bp_call_gradient: out, dy, want or out_dx is NULL");
    TRY(bp_call_check(call));
    row = bp_row_find(call->op);
    if (!row || !row->has_host)
        return gradient(scope, device, graph, call, out, dy, n_out, want, out_dx, n_dx);
    filled = (struct bp_call){.size = offsetof(struct bp_call, kernel), .op = call->op,
                              .in = call->in, .n_in = call->n_in, .attrs = call->attrs};
    TRY(bp_host_values(graph ? NULL : (struct bp_stream *)scope, row, call->in, call->n_in,
                       call->attrs, &attrs));
    if (attrs) filled.attrs = attrs;
    status = gradient(scope, device, graph, &filled, out, dy, n_out, want, out_dx, n_dx);
    free(attrs);
    return status;
}
