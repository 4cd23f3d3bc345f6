/* SPDX-License-Identifier: Apache-2.0 */
/* check.c: checks the arguments of every operator call against the operator definition, and writes
 * all error messages about them, so that kernels need no checks. */
#include "../schema/op.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void bp_typed_view_init(struct bp_typed_view *tv, const struct bp_view *of)
{
    tv->view = *of;
    tv->view.data = NULL;
    tv->view.memory = NULL;
    memcpy(tv->shape, of->shape, of->rank * sizeof *of->shape);
    memcpy(tv->stride, of->stride, of->rank * sizeof *of->stride);
    tv->view.shape = tv->shape;
    tv->view.stride = tv->stride;
}

void bp_typed_view_dense(struct bp_typed_view *tv, const struct bp_type *type)
{
    int64_t count = 1;

    memcpy(tv->shape, type->shape, type->rank * sizeof *type->shape);
    bp_type_strides(type->rank, tv->shape, tv->stride);
    for (uint32_t i = 0; i < type->rank; i++) count *= type->shape[i];
    tv->view = (struct bp_view){.shape = tv->shape, .stride = tv->stride, .count = count,
                                .dtype = (uint8_t)type->dtype, .rank = (uint8_t)type->rank};
}

/* Writes the dtypes of a mask: "f32, f64". */
static const char *mask_text(uint64_t mask, char *text, size_t size)
{
    size_t used = 0;

    text[0] = 0;
    for (uint32_t d = 0; d < 64 && used < size; d++)
        if (mask >> d & 1)
            used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "",
                                     bp_dtype_name(d));
    return text;
}

/* A recorded call accepts values of its graph, and real tensors as constants. A call that runs
 * accepts tensors of its device. */
static enum bp_status check_place(const struct bp_invocation *inv, const struct bp_port *port,
                                  const struct bp_tensor *t)
{
    const char *op = inv->row->info.name;

    if (t->graph && t->graph != inv->graph)
        return bp_error(BP_ERR_INVALID,
                        "%s: input %s is a value of %s graph: %s", op, port->name,
                        inv->graph ? "another" : "a",
                        inv->graph ? "a call takes those of its own"
                                    : "run the graph, or give a tensor");
    if (inv->graph || inv->device == t->device) return BP_OK;
    return bp_error(BP_ERR_INVALID,
                    "%s: input %s is on %s%s, but the call goes to %s; copy it there "
                    "(bp_tensor_copy)",
                    op, port->name, t->device->name, bp_device_qualifier(t->device, inv->device),
                    inv->device->name);
}

/* Checks one tensor of an input port: handle, device and dtype. The first tensor of a type variable
 * binds the variable. */
static enum bp_status check_tensor(struct bp_invocation *inv, const struct bp_port *port,
                                   const struct bp_tensor *t)
{
    const struct bp_opinfo *op = &inv->row->info;
    uint32_t dtype = t->view.dtype;
    char text[160];

    TRY(check_place(inv, port, t));
    if (!(op->types[port->var] >> dtype & 1))
        return bp_error(BP_ERR_INVALID, "%s: input %s is %s, expected one of %s", op->name,
                        port->name, bp_dtype_name(dtype),
                        mask_text(op->types[port->var], text, sizeof text));
    if (inv->bound >> port->var & 1 && inv->dtype[port->var] != dtype)
        return bp_error(
            BP_ERR_INVALID,
            "%s: input %s is %s, expected %s as the inputs before it (bp_op_cast converts)",
            op->name, port->name, bp_dtype_name(dtype), bp_dtype_name(inv->dtype[port->var]));
    inv->bound |= 1u << port->var;
    inv->dtype[port->var] = dtype;
    return BP_OK;
}

/* Checks and stores the tensors of one port. */
static enum bp_status take_port(struct bp_invocation *inv, const struct bp_port *port,
                                const struct bp_arg *arg)
{
    const struct bp_opinfo *op = &inv->row->info;
    size_t n = arg ? arg->n : 0;

    if (n && !arg->at)
        return bp_error(BP_ERR_INVALID, "%s: input %s has %zu tensors at NULL", op->name,
                        port->name, n);
    if (port->kind != BP_PORT_VAR) {
        if (n > 1)
            return bp_error(BP_ERR_INVALID, "%s: input %s takes one tensor, got %zu", op->name,
                            port->name, n);
        if (n == 1 && !arg->at[0]) n = 0;
        if (!n && port->kind == BP_PORT_IN)
            return bp_error(BP_ERR_INVALID, "%s: input %s is NULL, but it is not optional",
                            op->name, port->name);
    }
    if (n + !n > BP_FLAT_MAX - inv->n_in) /* an absent tensor needs an entry too */
        return bp_error(BP_ERR_INVALID, "%s: more than %d input tensors", op->name, BP_FLAT_MAX);
    if (port->kind == BP_PORT_HOST) n = 0; /* its value was copied to the attributes before */
    if (!n && port->kind != BP_PORT_VAR) {
        inv->constant[inv->n_in] = (struct bp_constant){0};
        inv->in[inv->n_in++] = NULL;
        return BP_OK;
    }
    for (size_t i = 0; i < n; i++) {
        if (!bp_symbol_is(arg->at[i]) && !bp_tensor_is(arg->at[i]))
            return bp_handle_was_stale()
                       ? bp_not_a_for(op->name, "tensor")
                       : bp_error(BP_ERR_INVALID,
                                  "%s: input %s: expected a tensor, got NULL or something else",
                                  op->name, port->name);
        TRY(check_tensor(inv, port, arg->at[i]));
        inv->constant[inv->n_in] = bp_tensor_constant(arg->at[i]);
        inv->in[inv->n_in++] = &arg->at[i]->view;
    }
    return BP_OK;
}

static enum bp_status check_take_inputs(struct bp_invocation *inv, const struct bp_call *call)
{
    const struct bp_opinfo *op = &inv->row->info;

    if (call->n_in > op->n_in)
        return bp_error(BP_ERR_INVALID, "%s: %zu inputs given, %u declared", op->name, call->n_in,
                        op->n_in);
    if (call->n_in && !call->in) return bp_error(BP_ERR_INVALID, "%s: call->in is NULL", op->name);
    for (uint32_t i = 0; i < op->n_in; i++) {
        inv->in_at[i] = (uint16_t)inv->n_in;
        TRY(take_port(inv, &op->in[i], i < call->n_in ? &call->in[i] : NULL));
    }
    inv->in_at[op->n_in] = (uint16_t)inv->n_in;
    return BP_OK;
}

const uint8_t bp_want_all[1] = {1};

/* Whether an output updates an optional input that is absent. */
static bool updates_nothing(const struct bp_invocation *inv, uint32_t port)
{
    const struct bp_port *out = &inv->row->info.out[port];

    return out->kind == BP_PORT_UPDATE && !bp_invocation_in(inv, (uint32_t)out->share);
}

/* Sets site->want from n_want flags of the flat outputs; 0: the output is not wanted. */
static enum bp_status take_wants(struct bp_invocation *inv, const uint8_t *want, size_t n_want)
{
    const struct bp_opinfo *op = &inv->row->info;
    bool all = want == bp_want_all; /* that exist */

    if (all) {
        want = NULL;
        n_want = inv->n_out;
    }
    if (n_want > inv->n_out)
        return bp_error(BP_ERR_INVALID, "%s: %zu outputs asked for, %u %s", op->name, n_want,
                        inv->n_out, inv->row->varies ? "made" : "declared");
    for (uint32_t i = 0; i < inv->n_out; i++) {
        uint32_t port = bp_out_port(inv->row, inv->out_at, i);
        bool wanted = i < n_want && (!want || want[i]);
        uint8_t kind = op->out[port].kind;
        if (!wanted && bp_port_varies(&op->out[port]))
            return bp_error(BP_ERR_INVALID, "%s: output %s has %d tensors, all to be asked for",
                            op->name, op->out[port].name,
                            inv->out_at[port + 1] - inv->out_at[port]);
        if (!wanted && kind != BP_PORT_OPTOUT && kind != BP_PORT_UPDATE)
            return bp_error(BP_ERR_INVALID, "%s: output %s is not optional", op->name,
                            op->out[port].name);
        if (wanted && !(all && updates_nothing(inv, port))) inv->want |= 1u << port;
    }
    return BP_OK;
}

static enum bp_status check_updates(const struct bp_invocation *inv)
{
    const struct bp_opinfo *op = &inv->row->info;

    for (uint32_t port = 0; port < op->n_out; port++)
        if (inv->want >> port & 1 && updates_nothing(inv, port))
            return bp_error(BP_ERR_INVALID, "%s: output %s updates input %s, which is absent",
                            op->name, op->out[port].name, op->in[op->out[port].share].name);
    return BP_OK;
}

/* A rule of inference may leave the dtype to the port's type variable. The inferred shapes are
 * checked like those of an app. */
static enum bp_status check_infer(struct bp_invocation *inv)
{
    const struct bp_opinfo *op = &inv->row->info;
    int64_t count;
    uint64_t bytes;

    TRY(inv->row->infer(inv));
    for (uint32_t i = 0; i < inv->n_out; i++) {
        const struct bp_port *port = &op->out[bp_out_port(inv->row, inv->out_at, i)];
        TRY(bp_type_check(op->name, port->name, &inv->out[i], &count, &bytes));
        inv->bound |= 1u << port->var;
        inv->dtype[port->var] = inv->out[i].dtype;
    }
    return BP_OK;
}

enum bp_status bp_call_check(const struct bp_call *call)
{
    if (!call) return bp_error(BP_ERR_INVALID, "call is NULL");
    if (call->size < offsetof(struct bp_call, kernel) || call->size > 4096)
        return bp_error(BP_ERR_INVALID, "call->size is %zu: set it to sizeof(struct bp_call)",
                        call->size);
    if (!call->op) return bp_error(BP_ERR_INVALID, "call->op is NULL: expected an operator's name");
    return BP_OK;
}

/* Refuses a kernel's name for an operator that runs no kernel. */
static enum bp_status check_kernel(const struct bp_invocation *inv)
{
    const char *op = inv->row->info.name;

    if (inv->kernel && inv->row->is_view)
        return bp_error(BP_ERR_NOT_FOUND,
                        "%s: call->kernel is '%.64s', but it makes a view: no kernel runs", op,
                        inv->kernel);
    return BP_OK;
}

enum bp_status bp_invocation_init_row(struct bp_invocation *inv, const struct bp_opdef *row,
                                      struct bp_device *device, struct bp_graph *graph,
                                      const struct bp_call *call, const uint8_t *want,
                                      size_t n_want)
{
    enum bp_status status;

    inv->row = row;
    inv->device = device;
    inv->graph = graph;
    inv->view_copies = false;
    inv->attrs = NULL;
    inv->kernel = BP_HAS(call, kernel) ? call->kernel : NULL;
    inv->prefer = NULL;
    inv->allow = 0;
    inv->decompose = inv->whole = false;
    inv->in_place = false;
    inv->n_in = inv->n_out = inv->bound = inv->want = 0;
    memset(inv->dtype, 0, sizeof inv->dtype);
    TRY(check_kernel(inv));
    TRY(check_take_inputs(inv, call));
    TRY(bp_invocation_count(inv, 0));
    if (!inv->row->varies) TRY(take_wants(inv, want, n_want)); /* otherwise after inference */
    TRY(bp_attrs_copy(&inv->row->info, call->attrs, &inv->attrs));
    status = check_infer(inv);
    if (status == BP_OK && inv->row->varies) status = take_wants(inv, want, n_want);
    if (status == BP_OK) status = check_updates(inv);
    if (status) bp_invocation_finish(inv);
    return status;
}

enum bp_status bp_invocation_init(struct bp_invocation *inv, struct bp_device *device,
                                  struct bp_graph *graph, const struct bp_call *call,
                                  const uint8_t *want, size_t n_want)
{
    const struct bp_opdef *row;

    TRY(bp_call_check(call));
    row = bp_opdef_find(call->op);
    if (!row)
        return bp_error(BP_ERR_NOT_FOUND,
                        "operator '%.64s': there is none of this name (`bp ops` lists them)",
                        call->op);
    return bp_invocation_init_row(inv, row, device, graph, call, want, n_want);
}

void bp_invocation_flatten(const struct bp_invocation *inv, const struct bp_call *call,
                           struct bp_tensor **out_flat)
{
    const struct bp_opinfo *op = &inv->row->info;

    for (uint32_t port = 0; port < op->n_in; port++)
        for (uint32_t i = inv->in_at[port]; i < inv->in_at[port + 1]; i++)
            out_flat[i] = inv->in[i] ? call->in[port].at[i - inv->in_at[port]] : NULL;
}

void bp_invocation_finish(struct bp_invocation *inv)
{
    free(inv->attrs);
    inv->attrs = NULL;
}

enum bp_status bp_given_check(const struct bp_invocation *inv, const char *what,
                              const struct bp_tensor *t, const struct bp_type *type)
{
    const char *op = inv->row->info.name;
    char got[BP_TYPE_TEXT], expected[BP_TYPE_TEXT];

    if (!bp_tensor_is(t))
        return bp_handle_was_stale()
                   ? bp_not_a_for(op, "tensor")
                   : bp_error(BP_ERR_INVALID, "%s: %s: expected NULL or a tensor", op, what);
    if (t->device != inv->device)
        return bp_error(BP_ERR_INVALID, "%s: %s is on %s%s, the call goes to %s", op, what,
                        t->device->name, bp_device_qualifier(t->device, inv->device),
                        inv->device->name);
    if (t->view.dtype == type->dtype && t->view.rank == type->rank &&
        !memcmp(t->shape, type->shape, type->rank * sizeof *type->shape))
        return BP_OK;
    return bp_error(BP_ERR_INVALID, "%s: %s is %s, expected %s", op, what,
                    bp_type_text(t->view.dtype, t->view.rank, t->shape, got, sizeof got),
                    bp_type_text(type->dtype, type->rank, type->shape, expected, sizeof expected));
}

enum bp_status bp_invocation_set_outputs(struct bp_invocation *inv, struct bp_tensor *const *given)
{
    const struct bp_opinfo *op = &inv->row->info;
    char what[64];

    for (uint32_t i = 0; i < inv->n_out; i++) {
        const struct bp_tensor *t = given[i];
        uint32_t port = bp_out_port(inv->row, inv->out_at, i);
        bool may = op->out[port].kind != BP_PORT_UPDATE; /* an update output always is its input */
        int share = may ? op->out[port].share : -1;
        if (!t) continue;
        snprintf(what, sizeof what, "output %s", op->out[port].name);
        TRY(bp_given_check(inv, what, t, &inv->out[i]));
        inv->given[i] = &t->view;
        inv->want |= 1u << port;
        for (uint32_t k = 0; share >= 0 && k < inv->n_in; k++) {
            const struct bp_view *input = inv->in[k];
            if (k < inv->in_at[share] || k >= inv->in_at[share + 1] || !input) continue;
            if (t->view.count && input->data == t->view.data && input->memory == t->view.memory)
                inv->in_place = true;
        }
    }
    return BP_OK;
}
