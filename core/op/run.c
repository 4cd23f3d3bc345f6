/* SPDX-License-Identifier: Apache-2.0 */
/* run.c: eager calls: prepare, make outputs, run. */
#include "op.h"

#include <string.h>

enum bp_status bp_scope_stream(struct bp_scope *scope, struct bp_stream **out_stream)
{
    if (!bp_is(scope ? scope->magic : 0, BP_MAGIC_STREAM))
        return bp_was_stale() ? bp_not_a_for("the operator call", "scope")
                              : bp_error(BP_ERR_INVALID,
                        "expected a scope (bp_stream_scope), got NULL or something else");
    *out_stream = (struct bp_stream *)scope;
    return BP_OK;
}

/* An output that the caller gives is of the inferred type; its strides are its own. */
static enum bp_status check_given(struct bp_site *site, struct bp_tensor *const *out)
{
    const struct bp_opinfo *op = &site->row->info;

    for (uint32_t i = 0; i < op->n_out; i++) {
        const struct bp_type *type = &site->out[i];
        const struct bp_tensor *t = out[i];
        char got[BP_TYPE_TEXT], expected[BP_TYPE_TEXT];
        int share = op->out[i].share;
        if (!t) continue;
        if (!bp_tensor_is(t) && bp_was_stale()) return bp_not_a_for(op->name, "tensor");
        if (!bp_tensor_is(t))
            return bp_error(BP_ERR_INVALID, "%s: output %s: expected NULL or a tensor", op->name,
                            op->out[i].name);
        if (t->device != site->device)
            return bp_error(BP_ERR_INVALID, "%s: output %s is on %s, the call goes to %s", op->name,
                            op->out[i].name, t->device->name, site->device->name);
        if (t->view.dtype != type->dtype || t->view.rank != type->rank ||
            memcmp(t->shape, type->shape, type->rank * sizeof *type->shape))
            return bp_error(
                BP_ERR_INVALID, "%s: output %s is %s, expected %s", op->name, op->out[i].name,
                bp_type_text(t->view.dtype, t->view.rank, t->shape, got, sizeof got),
                bp_type_text(type->dtype, type->rank, type->shape, expected, sizeof expected));
        site->given[i] = &t->view;
        if (share >= 0 && bp_site_in(site, (uint32_t)share) && t->view.count &&
            bp_site_in(site, (uint32_t)share)->data == t->view.data &&
            bp_site_in(site, (uint32_t)share)->memory == t->view.memory)
            site->in_place = true;
    }
    return BP_OK;
}

static void destroy_made(struct bp_tensor **result, struct bp_tensor *const *given, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!given[i]) bp_tensor_destroy(result[i]);
}

/* Fills result with the given tensors, and new ones for the others that are wanted. */
static enum bp_status make_outputs(const struct bp_site *site, struct bp_timeline *home,
                                   struct bp_tensor *const *given, struct bp_tensor **result)
{
    for (uint32_t i = 0; i < site->n_out; i++) {
        enum bp_status status = BP_OK;
        result[i] = given[i];
        if (!given[i] && site->want >> i & 1)
            status = bp_tensor_make(site->device, home, &site->out[i], &result[i]);
        if (status) {
            destroy_made(result, given, i);
            return status;
        }
    }
    return BP_OK;
}

static enum bp_status run_site(struct bp_site *site, struct bp_stream *stream,
                               const struct bp_call *call, struct bp_tensor *const *given,
                               struct bp_tensor **result)
{
    struct bp_tensor *flat[BP_FLAT_MAX];
    struct bp_prepared *prepared;
    enum bp_status status;

    TRY(check_given(site, given));
    TRY(bp_prepared_make(site, &prepared));
    status = make_outputs(site, stream->timeline, given, result);
    if (status == BP_OK) {
        bp_site_flatten(site, call, flat);
        status = bp_prepared_run(prepared, stream, flat, site->n_in, result, site->n_out, NULL);
        if (status) destroy_made(result, given, site->n_out);
    }
    bp_prepared_destroy(prepared);
    return status;
}

enum bp_status bp_call_run(struct bp_scope *scope, const struct bp_call *call,
                           struct bp_tensor **out, size_t n_out, const uint8_t *want)
{
    struct bp_tensor *given[BP_PORT_MAX] = {NULL}, *result[BP_PORT_MAX] = {NULL};
    struct bp_stream *stream;
    struct bp_site site;
    enum bp_status status;

    TRY(bp_scope_stream(scope, &stream));
    if (n_out && !out) return bp_error(BP_ERR_INVALID, "bp_call_run: out is NULL");
    TRY(bp_site_init(&site, stream->device, call, want, n_out));
    for (size_t i = 0; i < n_out; i++) given[i] = site.want >> i & 1 ? out[i] : NULL;
    status = run_site(&site, stream, call, given, result);
    bp_site_finish(&site);
    if (status) return status;
    for (size_t i = 0; i < n_out; i++)
        if (result[i]) out[i] = result[i];
    return BP_OK;
}

enum bp_status bp_call_typed(struct bp_scope *scope, enum bp_row_number row,
                             const struct bp_arg *in, size_t n_in, const void *attrs,
                             struct bp_tensor **const *out, size_t n_out)
{
    struct bp_call call = {.size = sizeof call,
                           .op = bp_op_row[row].info.name,
                           .in = in,
                           .n_in = n_in,
                           .attrs = attrs};
    struct bp_tensor *result[BP_PORT_MAX] = {NULL};
    uint8_t want[BP_PORT_MAX] = {0};

    for (size_t i = 0; i < n_out; i++) want[i] = out[i] != NULL;
    TRY(bp_call_run(scope, &call, result, n_out, want));
    for (size_t i = 0; i < n_out; i++)
        if (out[i]) *out[i] = result[i];
    return BP_OK;
}
