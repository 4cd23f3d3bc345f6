/* SPDX-License-Identifier: Apache-2.0 */
/* engine_rows.c: adds kernel rows to a plugin whose devices have BP_DEVICE_GRAPH_ONLY: one for each
 * operator that its engine knows. */
#include "engine_rows.h"
#include "row_filter.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PRIORITY = -1000 /* kernels are better, where a device has both */
};

static const struct bp_engine_calls *_Atomic functions;
static _Thread_local char refusal[400];

void bp_engine_calls_set(const struct bp_engine_calls *calls)
{
    atomic_store(&functions, calls);
}

bool bp_engine_call_is(const struct bp_kernel *row)
{
    const struct bp_engine_calls *calls = atomic_load_explicit(&functions, memory_order_relaxed);

    return calls && row->prepare == calls->prepare;
}

void bp_engine_call_refuse(const char *reason)
{
    snprintf(refusal, sizeof refusal, "%s", reason);
}

const char *bp_engine_call_refusal(void)
{
    return refusal;
}

/* Whether calls of an operator can be compiled by an engine: it has a fixed number of results and
 * only computes them from its inputs. Views need no kernel. */
static bool op_may_have(const struct bp_engines *engines, const struct bp_opdef *op)
{
    bool updates = op->updates && !(engines->flags & BP_ENGINE_UPDATES);

    return !op->is_view && !updates && !op->random && !op->bound && !op->varies;
}

static uint32_t row_least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static void call_row_init(struct bp_engine_call_row *row, struct bp_plugin_entry *entry,
                          const struct bp_engine_op *known, const struct bp_opdef *op)
{
    const struct bp_engine_calls *calls = atomic_load(&functions);
    const struct bp_opinfo *info = &op->info;

    *row = (struct bp_engine_call_row){.entry = entry, .op = op};
    pthread_mutex_init(&row->lock, NULL);
    snprintf(row->name, sizeof row->name, "%.28s_engine_%.27s", entry->plugin.name, info->name);
    row->kernel = (struct bp_kernel){
        .op = info->name,
        .name = row->name,
        .flags = BP_KERNEL_NO_CAPTURE,
        .priority = PRIORITY,
        .attrs_size = row_least(known->attrs_size, info->attrs_size),
        .in_known = (uint16_t)row_least(known->in_known, info->n_in),
        .out_known = (uint16_t)row_least(known->out_known, info->n_out),
        .launch = op->has_run ? calls->launch_varied : calls->launch,
        .prepare = calls->prepare,
        .plan_destroy = calls->plan_destroy,
    };
    for (uint32_t v = 0; v < BP_VAR_COUNT; v++)
        row->kernel.types[v] = known->types[v] ? known->types[v] & info->types[v] : info->types[v];
}

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
    if (!op || strcmp(op->info.name, out_known->op) || !op_may_have(engines, op))
        return NULL;
    for (uint32_t k = 0; k < n; k++)
        if (row[k].op == op) return NULL;
    return op;
}

bool bp_engine_rows_add(struct bp_load *load)
{
    struct bp_plugin_entry *entry = load->entry;
    const struct bp_engines *engines = &entry->engines;
    uint32_t n = entry->n_kernel, more = 0;
    struct bp_engine_op known;

    if (!engines->claim || entry->plugin.adds_to || !is_graph_only(entry)) return true;
    entry->graph_only = true;
    entry->call_row = calloc(engines->n_known, sizeof *entry->call_row);
    if (!entry->call_row) return bp_no_memory(&load->why, entry->manifest.library);
    for (size_t i = 0; i < engines->n_known; i++) {
        const struct bp_opdef *op = known_op(engines, i, entry->call_row, more, &known);
        if (op) call_row_init(&entry->call_row[more++], entry, &known, op);
        entry->n_call_row = more;
    }
    if (!bp_entry_resize_rows(entry, (size_t)n + more))
        return bp_no_memory(&load->why, entry->manifest.library);
    for (uint32_t i = 0; i < more; i++) {
        entry->kernel[n + i] = entry->call_row[i].kernel;
        entry->kernel_row[n + i] = &entry->call_row[i].kernel;
        entry->kernel_reason[n + i] = NULL;
        entry->kernel_layouts[n + i] = NULL;
    }
    entry->n_kernel = entry->n_own = n + more;
    return bp_row_filter_apply(load, n);
}
