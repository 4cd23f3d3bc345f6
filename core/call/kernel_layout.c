/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_layout.c: compares the layouts of tensors with those that kernel rows take, and returns
 * names and sizes of layouts of plugins. */
#include "kernel_layout.h"

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
