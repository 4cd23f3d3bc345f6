/* SPDX-License-Identifier: Apache-2.0 */
/* engine_rows.c: adds kernel rows to a plugin whose devices have BP_DEVICE_GRAPH_ONLY: one for each
 * operator that its engine knows. */
#include "../compile/engine_call.h"
#include "loader.h"

#include <stdlib.h>
#include <string.h>

/* The flag is one of all devices, or of none, which is checked when a device is opened. A device
 * that fails to report here is reported then, too. */
static bool is_graph_only(const struct bp_plugin_entry *entry)
{
    struct bp_device_properties p = {.size = sizeof p};
    enum bp_status status;

    bp_error_enter();
    status = entry->runtime.device_properties(entry->self, 0, &p);
    bp_error_leave(status, entry->plugin.name, "device_properties");
    return status == BP_OK && p.flags & BP_DEVICE_GRAPH_ONLY;
}

/* Returns the operator of a row of the engine; NULL: no calls of it can be compiled, or an earlier
 * row has it. */
static const struct bp_opdef *known_op(const struct bp_engines *engines, size_t i,
                                       const struct bp_engine_call_row *row, uint32_t n,
                                       struct bp_engine_op *out_known)
{
    size_t size = engines->known_stride < sizeof *out_known ? engines->known_stride
                                                            : sizeof *out_known;
    const struct bp_opdef *op;

    *out_known = (struct bp_engine_op){0};
    memcpy(out_known, (const char *)engines->known + i * engines->known_stride, size);
    op = bp_opdef_find(out_known->op);
    if (!op || strcmp(op->info.name, out_known->op) || !bp_engine_call_may_have(op)) return NULL;
    for (uint32_t k = 0; k < n; k++)
        if (row[k].op == op) return NULL;
    return op;
}

static bool rows_grow(void *list, size_t count, size_t size)
{
    void *more = realloc(*(void **)list, count * size);

    if (more) *(void **)list = more;
    return more;
}

bool bp_engine_rows_add(struct bp_load *load)
{
    struct bp_plugin_entry *entry = load->entry;
    const struct bp_engines *engines = &entry->engines;
    uint32_t n = entry->n_kernel, more = 0;
    struct bp_engine_op known;
    size_t all;

    if (!engines->claim || !is_graph_only(entry)) return true;
    entry->graph_only = true;
    entry->call_row = calloc(engines->n_known, sizeof *entry->call_row);
    if (!entry->call_row) return bp_no_memory(&load->why, entry->manifest.library);
    for (size_t i = 0; i < engines->n_known; i++) {
        const struct bp_opdef *op = known_op(engines, i, entry->call_row, more, &known);
        if (op) bp_engine_call_row_init(&entry->call_row[more++], entry, &known, op);
        entry->n_call_row = more;
    }
    all = (size_t)n + more + 1;
    if (!rows_grow(&entry->kernel, all, sizeof *entry->kernel) ||
        !rows_grow(&entry->kernel_row, all, sizeof *entry->kernel_row) ||
        !rows_grow(&entry->kernel_reason, all, sizeof *entry->kernel_reason))
        return bp_no_memory(&load->why, entry->manifest.library);
    for (uint32_t i = 0; i < more; i++) {
        entry->kernel[n + i] = entry->call_row[i].kernel;
        entry->kernel_row[n + i] = &entry->call_row[i].kernel;
        entry->kernel_reason[n + i] = NULL;
    }
    entry->n_kernel = entry->n_own = n + more;
    return true;
}
