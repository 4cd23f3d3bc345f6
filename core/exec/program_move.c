/* SPDX-License-Identifier: Apache-2.0 */
/* program_move.c: copies the elements of a tensor between the app and a program. */
#include "program.h"

#include <string.h>

enum bp_status bp_program_move(struct bp_stream *stream, struct bp_tensor *src,
                               struct bp_tensor **dst)
{
    struct bp_arg in = {&src, 1};
    struct bp_call call = {.size = sizeof call, .op = "assign", .in = &in, .n_in = 1};
    struct bp_type type = {.dtype = src->view.dtype, .rank = src->view.rank};
    bool strided = src->view.flags & BP_VIEW_STRIDED;
    enum bp_status status;

    if (strided || (*dst && (*dst)->view.flags & BP_VIEW_STRIDED))
        return bp_call_run(&stream->scope, &call, dst, 1, NULL);
    if (*dst) return bp_tensor_copy(stream, *dst, src);
    memcpy(type.shape, src->shape, sizeof type.shape);
    TRY(bp_tensor_create_typed(stream->device, stream->timeline, &type, dst));
    status = bp_tensor_copy(stream, *dst, src);
    if (!status) return BP_OK;
    bp_tensor_destroy(*dst);
    *dst = NULL;
    return status;
}
