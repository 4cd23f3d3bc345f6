/* SPDX-License-Identifier: Apache-2.0 */
/* view.c: operators that make views: no kernel runs, new tensors share the input's memory. */
#include "op.h"

#include <backplane/ops.h>

/* Where the strides of the input do not allow the view, a dense copy of it is viewed. */
static enum bp_status view_copy(struct bp_stream *stream, const struct bp_op_row *row,
                                const struct bp_call *call, const uint8_t *want, size_t n_want,
                                struct bp_tensor *base, struct bp_tensor **result)
{
    struct bp_tensor *dense;
    struct bp_arg in[BP_PORT_MAX];
    struct bp_call again = *call;
    enum bp_status status;

    TRY(bp_op_assign(&stream->scope, base, &dense));
    for (size_t i = 0; i < call->n_in && i < BP_PORT_MAX; i++) in[i] = call->in[i];
    in[row->info.out[0].share] = (struct bp_arg){&dense, 1};
    again.in = in;
    status = bp_run_view(stream, row, &again, want, n_want, result);
    bp_tensor_destroy(dense);
    return status;
}

static enum bp_status make_views(const struct bp_site *site, struct bp_tensor *base,
                                 struct bp_tensor **result)
{
    for (uint32_t i = 0; i < site->n_out; i++) {
        const struct bp_type *type = &site->out[i];
        enum bp_status status = bp_tensor_view(base, site->view_offset[i], type->rank, type->shape,
                                               site->view_stride, &result[i]);
        if (!status) continue;
        while (i-- > 0) bp_tensor_destroy(result[i]);
        return status;
    }
    return BP_OK;
}

enum bp_status bp_run_view(struct bp_stream *stream, const struct bp_op_row *row,
                           const struct bp_call *call, const uint8_t *want, size_t n_want,
                           struct bp_tensor **result)
{
    struct bp_tensor *base;
    struct bp_site site;
    enum bp_status status;

    TRY(bp_site_init(&site, stream->device, NULL, call, want, n_want));
    base = call->in[row->info.out[0].share].at[0];
    status = site.view_copies ? view_copy(stream, row, call, want, n_want, base, result)
                              : make_views(&site, base, result);
    bp_site_finish(&site);
    return status;
}
