/* SPDX-License-Identifier: Apache-2.0 */
/* convert_layout.c: converts tensors to layouts of plugins. */
#include "kernel_layout.h"
#include "prepared.h"

#include <stdlib.h>
#include <string.h>

void bp_layout_invocation(struct bp_device *device, const struct bp_view *from,
                          const struct bp_view *to, struct bp_invocation *inv)
{
    bp_invocation_init_unary(inv, &bp_opdef[BP_ROW_assign], device);
    inv->in[0] = from;
    inv->out[0] = (struct bp_type){.dtype = to->dtype, .rank = to->rank};
    memcpy(inv->out[0].shape, to->shape, to->rank * sizeof *to->shape);
    inv->given[0] = to;
    inv->dtype[BP_VAR_T] = to->dtype;
    inv->bound = 1 << BP_VAR_T;
}

/* Creates a tensor in a layout, a buffer of its own. */
static enum bp_status layout_tensor(struct bp_stream *stream, const struct bp_typed_view *type,
                                    struct bp_tensor **out_tensor)
{
    struct bp_extents extents = {.rank = type->view.rank};
    struct bp_buffer *buffer;
    enum bp_status status;
    uint64_t bytes;

    memcpy(extents.shape, type->shape, sizeof extents.shape);
    memcpy(extents.stride, type->stride, sizeof extents.stride);
    TRY(bp_layout_bytes(stream->device, &type->view, &bytes));
    TRY(bp_buffer_allocate(stream->device, stream->timeline, BP_SPACE_DEVICE, bytes, &buffer));
    status = bp_tensor_create_inside(buffer, type->view.dtype, &extents, 0, out_tensor);
    if (status) bp_buffer_release(buffer);
    else (*out_tensor)->view.layout = type->view.layout;
    return status;
}

static enum bp_status layout_run(struct bp_stream *stream, struct bp_prepared *p,
                                 struct bp_tensor *from, struct bp_tensor *to)
{
    struct bp_holds holds = {.n = 0};
    struct bp_run run = {0};
    enum bp_status status = bp_holds_add(&holds, &from, 1);

    if (status == BP_OK) status = bp_prepared_launch(p, stream, &from, &to, &run);
    bp_holds_end(&holds);
    return status;
}

enum bp_status bp_layout_convert(struct bp_stream *stream, struct bp_tensor *from, uint32_t layout,
                                 struct bp_tensor **out_tensor)
{
    struct bp_type type = {.dtype = from->view.dtype, .rank = from->view.rank};
    struct bp_invocation *inv = malloc(sizeof *inv);
    struct bp_tensor *to = NULL;
    struct bp_prepared *p = NULL;
    struct bp_typed_view like;
    enum bp_status status;

    if (!inv) return bp_error(BP_ERR_MEMORY, "no host memory to convert a tensor");
    memcpy(type.shape, from->shape, type.rank * sizeof *type.shape);
    bp_typed_view_dense(&like, &type);
    like.view.layout = (uint16_t)layout;
    bp_layout_invocation(stream->device, &from->view, &like.view, inv);
    status = layout_tensor(stream, &like, &to);
    if (status == BP_OK) status = bp_prepared_make(inv, &p);
    if (status == BP_OK) status = layout_run(stream, p, from, to);
    if (p) bp_prepared_release(p);
    free(inv);
    if (status) bp_tensor_destroy(to);
    else *out_tensor = to;
    return status;
}
