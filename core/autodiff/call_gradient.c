/* SPDX-License-Identifier: Apache-2.0 */
/* call_gradient.c: computes the gradients of one call by the gradient rule of its operator. Without
 * a rule, it uses the operator's decomposition: the calls of the decomposition are recorded,
 * computed again, and visited backwards (reverse accumulation: the gradient of a value is the sum
 * of the gradients that its readers contribute). The gradients of each of these calls are found in
 * the same way. */
#include "../call/shape.h"
#include "../graph/graph.h"

#include <backplane/ops.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whether an axis of a result may have an extent. A data-dependent extent is only known by its
 * upper bound. */
static bool is_extent(const struct bp_invocation *inv, const struct bp_type *type, uint32_t axis,
                      int64_t extent)
{
    return inv->row->bound && axis == inv->row->info.bound_axis ? extent <= type->shape[axis]
                                                                  : extent == type->shape[axis];
}

/* Checks that a result or its gradient has the type that the forward call infers. */
static enum bp_status check_result(const struct bp_invocation *inv, const char *what, uint32_t i,
                                   const struct bp_tensor *t)
{
    const struct bp_type *type = &inv->out[i];
    const char *op = inv->row->info.name;
    char got[BP_TYPE_TEXT], expected[BP_TYPE_TEXT];
    bool same;

    if (!bp_symbol_is(t) && !bp_tensor_is(t))
        return bp_handle_was_stale()
                   ? bp_not_a_for(op, "tensor")
                   : bp_error(BP_ERR_INVALID, "%s: %s[%u]: expected a tensor", op, what, i);
    if (inv->graph ? t->graph && t->graph != inv->graph : t->device != inv->device)
        return bp_error(BP_ERR_INVALID, "%s: %s[%u] is on %s, expected %s", op, what, i,
                        t->device ? t->device->name : "a graph",
                        inv->device ? inv->device->name : "the graph of the call");
    same = t->view.dtype == type->dtype && t->view.rank == type->rank;
    for (uint32_t axis = 0; same && axis < type->rank; axis++)
        same = is_extent(inv, type, axis, t->shape[axis]);
    if (same) return BP_OK;
    return bp_error(BP_ERR_INVALID, "%s: %s[%u] is %s, expected %s", op, what, i,
                    bp_type_text(t->view.dtype, t->view.rank, t->shape, got, sizeof got),
                    bp_type_text(type->dtype, type->rank, type->shape, expected, sizeof expected));
}

/* The arguments of one bp_call_gradient: the app's lists in full length; entries that the app left
 * out are NULL. */
struct request {
    struct bp_tensor *out[BP_FLAT_MAX], *dy[BP_FLAT_MAX];
    uint8_t want[BP_FLAT_MAX];
    bool any; /* at least one dy is not zero */
};

static void call_take(struct request *a, struct bp_tensor *const *out, struct bp_tensor *const *dy,
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

static enum bp_status check_request(const struct bp_invocation *inv, const struct request *a)
{
    const struct bp_opinfo *op = &inv->row->info;

    for (uint32_t i = 0; i < inv->n_out; i++) {
        uint32_t port = bp_out_port(inv->row, inv->out_at, i);
        if (!a->out[i] && op->out[port].kind == BP_PORT_OPTOUT && !a->dy[i]) continue;
        TRY(check_result(inv, "out", i, a->out[i]));
        if (a->dy[i]) TRY(check_result(inv, "dy", i, a->dy[i]));
    }
    for (uint32_t i = 0; i < inv->n_in; i++)
        if (a->want[i] && !inv->in[i])
            return bp_error(BP_ERR_INVALID, "%s: want[%u] is set, but that input is absent",
                            op->name, i);
    if (!inv->row->grad && !inv->row->decompose)
        return bp_error(BP_ERR_UNSUPPORTED, "%s: it has no gradient", op->name);
    return BP_OK;
}

/* Values of other dtypes are counts, indices and masks: a small change of an input does not change
 * them. */
bool bp_value_is_smooth(const struct bp_graph *graph, uint32_t value)
{
    uint64_t mask = BP_MASK_FLOAT | BP_MASK_COMPLEX;

    return mask >> graph->value[value].type->view.dtype & 1;
}

enum bp_status bp_sweep_init(struct bp_sweep *sweep, struct bp_scope *scope,
                             struct bp_graph *graph)
{
    uint32_t n = graph->n_value + 1;

    *sweep = (struct bp_sweep){scope, graph, calloc(n, sizeof *sweep->value),
                               calloc(n, sizeof *sweep->d), calloc(n, sizeof *sweep->wanted)};
    if (sweep->value && sweep->d && sweep->wanted) return BP_OK;
    bp_sweep_finish(sweep, 0);
    return bp_error(BP_ERR_MEMORY, "no memory for a gradient");
}

void bp_sweep_finish(struct bp_sweep *sweep, uint32_t n_value)
{
    for (uint32_t v = 0; sweep->value && v < n_value; v++) {
        bp_tensor_destroy(sweep->value[v]);
        bp_tensor_destroy(sweep->d[v]);
    }
    free(sweep->value);
    free(sweep->d);
    free(sweep->wanted);
    *sweep = (struct bp_sweep){0};
}

void bp_sweep_call(const struct bp_sweep *sweep, const struct bp_node *node,
                   struct bp_node_call *out_call)
{
    const struct bp_opinfo *op = &node->row->info;
    struct bp_node_call *c = out_call;

    memset(c, 0, sizeof *c);
    for (uint32_t i = 0; i < node->n_in; i++) {
        uint32_t v = node->in[i];
        if (v == BP_NO_VALUE) continue;
        c->in[i] = sweep->value[v];
        c->want[i] = sweep->wanted[v] && bp_value_is_smooth(sweep->graph, v);
    }
    for (uint32_t i = 0; i < node->n_out; i++) {
        if (node->out[i] == BP_NO_VALUE) continue;
        c->out[i] = sweep->value[node->out[i]];
        c->dy[i] = sweep->d[node->out[i]];
        c->want_out[i] = 1;
    }
    bp_node_args(node, c->in, c->arg);
    c->call = (struct bp_call){.size = sizeof c->call, .op = op->name, .in = c->arg,
                               .n_in = op->n_in, .attrs = node->attrs};
}

enum bp_status bp_sweep_add(struct bp_sweep *sweep, uint32_t value, struct bp_tensor *d)
{
    struct bp_tensor *sum = NULL;
    enum bp_status status;

    if (!d) return BP_OK;
    if (sweep->d[value]) {
        status = bp_op_add(sweep->scope, sweep->d[value], d, &sum);
        bp_tensor_destroy(d);
        if (status) return status;
        bp_tensor_destroy(sweep->d[value]);
    }
    sweep->d[value] = sum ? sum : d;
    return BP_OK;
}

enum bp_status bp_sweep_node(struct bp_sweep *sweep, const struct bp_node *node,
                             struct bp_node_call *room)
{
    struct bp_node_call *c = room;
    bool any_dy = false, any_want = false;
    enum bp_status status = BP_OK;

    bp_sweep_call(sweep, node, c);
    for (uint32_t i = 0; i < node->n_out; i++) any_dy |= c->dy[i] != NULL;
    for (uint32_t i = 0; i < node->n_in; i++) any_want |= c->want[i];
    if (!any_dy || !any_want) return BP_OK;
    TRY(bp_call_gradient(sweep->scope, &c->call, c->out, c->dy, node->n_out, c->want, c->dx,
                         node->n_in));
    for (uint32_t i = 0; i < node->n_in; i++) {
        if (status) bp_tensor_destroy(c->dx[i]);
        else if (c->want[i]) status = bp_sweep_add(sweep, node->in[i], c->dx[i]);
    }
    return status;
}

static enum bp_status call_forward(struct bp_sweep *s, struct bp_node_call *c)
{
    for (uint32_t n = 0; n < s->graph->n_node; n++) {
        const struct bp_node *node = &s->graph->node[n];
        bool any = false;
        bp_sweep_call(s, node, c);
        for (uint32_t i = 0; i < node->n_in; i++) any |= c->want[i];
        TRY(bp_call_run(s->scope, &c->call, c->out, node->n_out, c->want_out));
        for (uint32_t i = 0; i < node->n_out; i++) {
            if (node->out[i] == BP_NO_VALUE) continue;
            s->value[node->out[i]] = c->out[i];
            s->wanted[node->out[i]] = any;
        }
    }
    return BP_OK;
}

static enum bp_status call_backward(struct bp_sweep *s, struct bp_node_call *c)
{
    for (uint32_t n = s->graph->n_node; n-- > 0;) TRY(bp_sweep_node(s, &s->graph->node[n], c));
    return BP_OK;
}

static enum bp_status sweep_expanded(struct bp_sweep *s, struct bp_grad *g,
                                     const uint32_t *out_value)
{
    struct bp_node_call *c = malloc(sizeof *c);
    enum bp_status status = c ? BP_OK : bp_error(BP_ERR_MEMORY, "no memory for a gradient");
    uint32_t value = 0;

    for (uint32_t i = 0; i < g->n_in; i++) {
        if (!g->in[i]) continue;
        s->value[value] = bp_tensor_retain(g->in[i]);
        s->wanted[value++] = g->want[i];
    }
    if (status == BP_OK) status = call_forward(s, c);
    for (uint32_t i = 0; i < g->n_out && status == BP_OK; i++)
        if (g->dy[i]) status = bp_sweep_add(s, out_value[i], bp_tensor_retain(g->dy[i]));
    if (status == BP_OK) status = call_backward(s, c);
    value = 0;
    for (uint32_t i = 0; i < g->n_in; i++) {
        if (!g->in[i]) continue;
        if (g->want[i] && status == BP_OK && s->d[value])
            g->dx[i] = bp_tensor_retain(s->d[value]);
        value++;
    }
    free(c);
    return status;
}

static enum bp_status grad_expanded(struct bp_grad *grad)
{
    struct bp_sweep s = {0};
    struct bp_graph *graph;
    uint32_t out_value[BP_PORT_MAX], want = 0;
    enum bp_status status;

    for (uint32_t i = 0; i < grad->n_out; i++) want |= (uint32_t)!!grad->out[i] << i;
    TRY(bp_graph_make(&graph));
    status = bp_graph_trace_decomposed(graph, grad->row, grad->attrs, bp_tensor_views(grad->in),
                                       grad->n_in, want, out_value);
    if (status == BP_OK) status = bp_sweep_init(&s, grad->scope, graph);
    if (status == BP_OK) status = sweep_expanded(&s, grad, out_value);
    bp_sweep_finish(&s, graph->n_value);
    bp_graph_release(graph);
    return status;
}

/* Checks the tensors that the app gives for gradients. */
static enum bp_status check_given(const struct bp_invocation *inv, const struct request *a,
                                  struct bp_tensor *const *dx, size_t n_dx)
{
    const char *op = inv->row->info.name;
    char what[32];

    for (uint32_t i = 0; i < n_dx; i++) {
        const struct bp_view *x = inv->in[i];
        struct bp_type type = {0};
        if (!a->want[i] || !dx[i]) continue;
        if (inv->graph)
            return bp_error(BP_ERR_INVALID,
                            "%s: out_dx[%u]: expected NULL, as the scope is a graph", op, i);
        snprintf(what, sizeof what, "out_dx[%u]", i);
        type.dtype = x->dtype;
        bp_shape_copy(&type, x);
        TRY(bp_given_check(inv, what, dx[i], &type));
        TRY(bp_tensor_check_write(op, what, dx[i]));
        if (dx[i]->view.flags & BP_VIEW_STRIDED && bp_view_overlaps_itself(&dx[i]->view))
            return bp_error(BP_ERR_INVALID, "%s: %s: elements share memory", op, what);
        for (uint32_t j = 0; j < i; j++)
            if (a->want[j] && dx[j] && bp_tensors_overlap(dx[i], dx[j]))
                return bp_error(BP_ERR_INVALID, "%s: %s and out_dx[%u] share memory", op, what, j);
    }
    return BP_OK;
}

/* Copies each gradient that shares memory with a tensor of the app to be written: a gradient may be
 * dy itself, or a view of it. */
static enum bp_status call_separate(struct bp_scope *scope, const struct request *a,
                                    struct bp_tensor **dx, struct bp_tensor *const *given,
                                    size_t n_dx)
{
    for (size_t i = 0; i < n_dx; i++) {
        struct bp_tensor *own = NULL;
        bool shares = false;
        for (size_t j = 0; j < n_dx && dx[i] && a->want[i]; j++)
            shares |= a->want[j] && given[j] && bp_tensors_overlap(dx[i], given[j]);
        if (!shares) continue;
        TRY(bp_op_assign(scope, dx[i], &own));
        bp_tensor_destroy(dx[i]);
        dx[i] = own;
    }
    return BP_OK;
}

/* Writes a gradient, NULL for zero, into the app's tensor. */
static enum bp_status call_store(struct bp_scope *scope, struct bp_tensor *dx,
                                 struct bp_tensor *given)
{
    struct bp_zeros_attrs attrs = bp_zeros_defaults();
    struct bp_call zeros = {.size = sizeof zeros, .op = "zeros", .attrs = &attrs};

    if (dx) return bp_tensor_copy((struct bp_stream *)scope, given, dx);
    attrs.shape = (struct bp_dims){given->shape, given->view.rank};
    attrs.dtype = given->view.dtype;
    return bp_call_run(scope, &zeros, &given, 1, NULL);
}

static enum bp_status call_apply(struct bp_scope *scope, struct bp_invocation *inv,
                                 const struct bp_call *call, const struct request *a,
                                 struct bp_tensor **out_dx, size_t n_dx)
{
    struct bp_tensor *in[BP_FLAT_MAX], *dx[BP_FLAT_MAX] = {NULL};
    struct bp_grad grad = {scope, inv->row, inv->attrs, in, a->out, a->dy, a->want, dx,
                           inv->n_in, inv->n_out, grad_expanded};
    enum bp_status status = BP_OK;

    bp_invocation_flatten(inv, call, in);
    if (a->any) status = inv->row->grad ? inv->row->grad(&grad) : grad_expanded(&grad);
    if (status == BP_OK && !inv->graph) status = call_separate(scope, a, dx, out_dx, n_dx);
    for (uint32_t i = 0; i < n_dx && status == BP_OK; i++)
        if (a->want[i] && out_dx[i]) status = call_store(scope, dx[i], out_dx[i]);
    for (uint32_t i = 0; i < inv->n_in; i++) {
        if (status == BP_OK && i < n_dx && a->want[i] && !out_dx[i]) out_dx[i] = dx[i];
        else bp_tensor_destroy(dx[i]);
    }
    return status;
}

/* Whether the app's list has room for the gradients. It may omit inputs that the call omitted at
 * its end. */
static bool is_room(const struct bp_invocation *inv, size_t n_dx)
{
    if (n_dx > inv->n_in) return false;
    for (size_t i = n_dx; i < inv->n_in; i++)
        if (inv->in[i]) return false;
    return true;
}

/* Returns the device of a stream, or the graph. */
static enum bp_status call_place_of(struct bp_scope *scope, struct bp_device **out_device,
                                    struct bp_graph **out_graph)
{
    *out_device = NULL;
    *out_graph = NULL;
    if (bp_scope_is(scope, BP_MAGIC_STREAM))
        *out_device = ((struct bp_stream *)scope)->device;
    else if (bp_scope_is(scope, BP_MAGIC_GRAPH)) *out_graph = (struct bp_graph *)scope;
    else if (!bp_scope_is(scope, BP_MAGIC_STREAM) && bp_handle_was_stale())
        return bp_not_a_for("bp_call_gradient", "scope");
    else
        return bp_error(BP_ERR_INVALID, "bp_call_gradient: expected a scope (bp_stream_scope, "
                                        "bp_graph_scope), got NULL or something else");
    return BP_OK;
}

static enum bp_status call_differentiate(struct bp_scope *scope, struct bp_device *device,
                                         struct bp_graph *graph, const struct bp_call *call,
                                         struct bp_tensor *const *out, struct bp_tensor *const *dy,
                                         size_t n_out, const uint8_t *want,
                                         struct bp_tensor **out_dx, size_t n_dx)
{
    struct request request;
    struct bp_invocation inv;
    enum bp_status status;

    TRY(bp_invocation_init(&inv, device, graph, call, NULL, n_out));
    if (!is_room(&inv, n_dx)) {
        status = bp_error(BP_ERR_INVALID, "%s: room for %zu gradients, the call has %u inputs",
                          inv.row->info.name, n_dx, inv.n_in);
    } else {
        call_take(&request, out, dy, n_out, want, n_dx);
        status = check_request(&inv, &request);
        if (status == BP_OK) status = check_given(&inv, &request, out_dx, n_dx);
        if (status == BP_OK) status = call_apply(scope, &inv, call, &request, out_dx, n_dx);
    }
    bp_invocation_finish(&inv);
    return status;
}

enum bp_status bp_call_gradient(struct bp_scope *scope, const struct bp_call *call,
                                struct bp_tensor *const *out, struct bp_tensor *const *dy,
                                size_t n_out, const uint8_t *want, struct bp_tensor **out_dx,
                                size_t n_dx)
{
    const struct bp_opdef *row;
    struct bp_device *device;
    struct bp_graph *graph;
    struct bp_call filled;
    void *attrs = NULL;
    enum bp_status status;

    TRY(call_place_of(scope, &device, &graph));
    if (!out || !dy || !want || !out_dx)
        return bp_error(BP_ERR_INVALID, "bp_call_gradient: out, dy, want or out_dx is NULL");
    TRY(bp_call_check(call));
    row = bp_opdef_find(call->op);
    if (!row || !row->has_host)
        return call_differentiate(scope, device, graph, call, out, dy, n_out, want, out_dx, n_dx);
    filled = (struct bp_call){.size = offsetof(struct bp_call, kernel), .op = call->op,
                              .in = call->in, .n_in = call->n_in, .attrs = call->attrs};
    TRY(bp_host_values(graph ? NULL : (struct bp_stream *)scope, row, call->in, call->n_in,
                       call->attrs, &attrs));
    if (attrs) filled.attrs = attrs;
    status = call_differentiate(scope, device, graph, &filled, out, dy, n_out, want, out_dx, n_dx);
    free(attrs);
    return status;
}
