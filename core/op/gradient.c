/* SPDX-License-Identifier: Apache-2.0 */
/* gradient.c: the gradients of one call, by its row's rule. */
#include "op.h"

#include <string.h>

/* Results and their gradients are of the types that the forward gives. */
static enum bp_status check_result(const struct bp_site *site, const char *what, uint32_t i,
                                   const struct bp_tensor *t)
{
    const struct bp_type *type = &site->out[i];
    const char *op = site->row->info.name;
    char got[BP_TYPE_TEXT], expected[BP_TYPE_TEXT];

    if (!bp_tensor_is(t))
        return bp_error(BP_ERR_INVALID, "%s: %s[%u]: expected a tensor", op, what, i);
    if (t->device != site->device)
        return bp_error(BP_ERR_INVALID, "%s: %s[%u] is on %s, expected %s", op, what, i,
                        t->device->name, site->device->name);
    if (t->view.dtype == type->dtype && t->view.rank == type->rank &&
        !memcmp(t->shape, type->shape, type->rank * sizeof *type->shape))
        return BP_OK;
    return bp_error(BP_ERR_INVALID, "%s: %s[%u] is %s, expected %s", op, what, i,
                    bp_type_text(t->view.dtype, t->view.rank, t->shape, got, sizeof got),
                    bp_type_text(type->dtype, type->rank, type->shape, expected, sizeof expected));
}

static enum bp_status check_arguments(const struct bp_site *site, struct bp_tensor *const *out,
                                      struct bp_tensor *const *dy, const uint8_t *want, size_t n_dx)
{
    const struct bp_opinfo *op = &site->row->info;
    bool any = false;

    if (n_dx != site->n_in)
        return bp_error(BP_ERR_INVALID, "%s: room for %zu gradients, the call has %u inputs",
                        op->name, n_dx, site->n_in);
    for (uint32_t i = 0; i < site->n_out; i++) {
        if (!out[i] && op->out[i].kind == BP_PORT_OPTOUT && !dy[i]) continue;
        TRY(check_result(site, "out", i, out[i]));
        if (dy[i]) TRY(check_result(site, "dy", i, dy[i]));
        any |= dy[i] != NULL;
    }
    for (uint32_t i = 0; i < site->n_in; i++)
        if (want[i] && !site->in[i])
            return bp_error(BP_ERR_INVALID, "%s: want[%u] is set, but that input is absent",
                            op->name, i);
    if (!any)
        return bp_error(BP_ERR_INVALID, "%s: every dy is NULL: all gradients are zero", op->name);
    if (!site->row->grad) return bp_error(BP_ERR_UNSUPPORTED, "%s: it has no gradient", op->name);
    return BP_OK;
}

static enum bp_status apply(struct bp_scope *scope, struct bp_site *site,
                            const struct bp_call *call, struct bp_tensor *const *out,
                            struct bp_tensor *const *dy, const uint8_t *want,
                            struct bp_tensor **out_dx)
{
    struct bp_tensor *in[BP_FLAT_MAX], *dx[BP_FLAT_MAX] = {NULL};
    struct bp_grad grad = {scope, site->row, site->attrs, in, out, dy, want, dx};
    enum bp_status status;

    bp_site_flatten(site, call, in);
    status = site->row->grad(&grad);
    for (uint32_t i = 0; i < site->n_in; i++) {
        if (status) bp_tensor_destroy(dx[i]);
        else if (want[i]) out_dx[i] = dx[i];
    }
    return status;
}

enum bp_status bp_call_gradient(struct bp_scope *scope, const struct bp_call *call,
                                struct bp_tensor *const *out, struct bp_tensor *const *dy,
                                size_t n_out, const uint8_t *want, struct bp_tensor **out_dx,
                                size_t n_dx)
{
    struct bp_stream *stream;
    struct bp_site site;
    enum bp_status status;

    TRY(bp_scope_stream(scope, &stream));
    if (!out || !dy || !want || !out_dx)
        return bp_error(BP_ERR_INVALID, "bp_call_gradient: out, dy, want or out_dx is NULL");
    TRY(bp_site_init(&site, stream->device, call, NULL, n_out));
    status = check_arguments(&site, out, dy, want, n_dx);
    if (status == BP_OK) status = apply(scope, &site, call, out, dy, want, out_dx);
    bp_site_finish(&site);
    return status;
}
