/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_layout.c: compares the layouts of tensors with those that kernel rows take, and converts
 * tensors to layouts of plugins. */
#include "kernel_layout.h"

#include "prepared.h"

#include <stdlib.h>
#include <string.h>

uint32_t bp_in_port(const struct bp_opdef *row, const uint16_t *in_at, uint32_t i)
{
    uint32_t port = 0;

    while (port + 1 < row->info.n_in && in_at[port + 1] <= i) port++;
    return port;
}

bool bp_invocation_has_layouts(const struct bp_invocation *inv)
{
    for (uint32_t i = 0; i < inv->n_in; i++)
        if (inv->in[i] && inv->in[i]->layout) return true;
    for (uint32_t i = 0; i < inv->n_out; i++)
        if (inv->given[i] && inv->given[i]->layout) return true;
    return false;
}

bool bp_layouts_fit(const struct bp_invocation *inv, const struct bp_view *const *out,
                    const struct bp_kernel *k)
{
    for (uint32_t i = 0; i < inv->n_in; i++) {
        uint32_t port = bp_in_port(inv->row, inv->in_at, i);
        if (inv->in[i] && inv->in[i]->layout != bp_kernel_in_layout(k, port)) return false;
    }
    for (uint32_t i = 0; i < inv->n_out; i++) {
        uint32_t port = bp_out_port(inv->row, inv->out_at, i);
        if (out[i] && out[i]->layout != bp_kernel_out_layout(k, port)) return false;
    }
    return true;
}

const char *bp_layout_name(const struct bp_device *device, uint32_t layout)
{
    return layout && layout <= device->entry->n_layout ? device->entry->layout[layout - 1].name
                                                       : "";
}

enum bp_status bp_layout_bytes(const struct bp_device *device, const struct bp_view *view,
                               uint64_t *out_bytes)
{
    const struct bp_plugin_entry *entry = device->entry;
    enum bp_status status;
    uint64_t bytes = 0;

    if (!view->layout || view->layout > entry->n_layout || !entry->layout[view->layout - 1].bytes)
        return BP_ERR_UNSUPPORTED;
    bp_error_enter();
    status = entry->layout[view->layout - 1].bytes(entry->self, device->index, view, &bytes);
    if (status == BP_OK && !bytes) status = BP_ERR_UNSUPPORTED; /* empty tensors stay in strides */
    if (status == BP_OK) *out_bytes = bytes;
    return status == BP_OK || status == BP_ERR_UNSUPPORTED
               ? status
               : bp_error_leave(status, entry->plugin.name, "bytes");
}

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
