/* SPDX-License-Identifier: Apache-2.0 */
/* view.c: runs operators that make views: no kernel runs, and the new tensors share the input's
 * memory. */
#include "../schema/op.h"

static enum bp_status make_views(const struct bp_invocation *inv, struct bp_tensor *base,
                                 struct bp_tensor **result)
{
    for (uint32_t i = 0; i < inv->n_out; i++) {
        const struct bp_type *type = &inv->out[i];
        enum bp_status status = bp_tensor_view(base, inv->view_offset[i], type->rank, type->shape,
                                               inv->view_stride, &result[i]);
        if (!status) continue;
        while (i-- > 0) bp_tensor_destroy(result[i]);
        return status;
    }
    return BP_OK;
}

enum bp_status bp_call_view(struct bp_stream *stream, const struct bp_opdef *row,
                            const struct bp_call *call, const uint8_t *want, size_t n_want,
                            struct bp_tensor **result, bool *out_copies)
{
    struct bp_invocation inv;
    enum bp_status status = BP_OK;

    TRY(bp_invocation_init(&inv, stream->device, NULL, call, want, n_want));
    if (!inv.view_copies)
        status = make_views(&inv, call->in[row->info.out[0].share].at[0], result);
    *out_copies = inv.view_copies;
    bp_invocation_finish(&inv);
    return status;
}
