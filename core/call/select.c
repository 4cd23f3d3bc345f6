/* SPDX-License-Identifier: Apache-2.0 */
/* select.c: selects the kernel row that runs a call: the one of highest priority that supports the
 * call. */
#include "../base/activity.h"
#include "../plugin/engine_rows.h"
#include "../schema/op.h"
#include "kernel_layout.h"

#include <stdio.h>
#include <string.h>

static bool any_strided(const struct bp_view *const *view, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (view[i] && view[i]->flags & BP_VIEW_STRIDED) return true;
    return false;
}

/* Whether the call uses an input or output that did not exist when the kernel was built. */
static bool uses_unknown(const struct bp_invocation *inv, const struct bp_kernel *k)
{
    const struct bp_opinfo *op = &inv->row->info;

    for (uint32_t port = k->in_known; port < op->n_in; port++)
        if (bp_invocation_in(inv, port)) return true;
    for (uint32_t port = k->out_known; port < op->n_out; port++)
        if (inv->want >> port & 1) return true;
    return false;
}

bool bp_select_broadcasts(const struct bp_invocation *inv, const struct bp_view *out)
{
    if (!inv->row->broadcasts) return false;
    for (uint32_t i = 0; i < inv->n_in; i++) {
        const struct bp_view *v = inv->in[i];
        if (!v) continue;
        if (v->rank != out->rank ||
            (v->rank && memcmp(v->shape, out->shape, v->rank * sizeof *v->shape)))
            return true;
    }
    return false;
}

/* Returns NULL if the kernel row's declared properties admit the call, otherwise the reason. */
static const char *select_unfit(const struct bp_invocation *inv, const struct bp_view *const *out,
                                const struct bp_kernel *k)
{
    const struct bp_opinfo *op = &inv->row->info;

    for (uint32_t v = 0; v < BP_VAR_COUNT; v++) {
        if (!(inv->bound >> v & 1)) continue;
        if (!(k->types[v] >> inv->dtype[v] & 1)) return "does not take the dtypes";
        if (!(inv->device->properties.dtypes >> inv->dtype[v] & 1))
            return "takes dtypes that the device does not hold";
    }
    if (k->attrs_size < op->attrs_size && !bp_attrs_tail_zero(op, inv->attrs, k->attrs_size))
        return "is older than an attribute that is set";
    if (uses_unknown(inv, k)) return "is older than an input or output that is used";
    if (!(k->flags & BP_KERNEL_STRIDED) &&
        (any_strided(inv->in, inv->n_in) || any_strided(out, inv->n_out)))
        return "takes contiguous tensors only";
    if (k->flags & BP_KERNEL_SAME_SHAPE && bp_select_broadcasts(inv, out[0]))
        return "takes inputs of the result's shape only";
    if (!bp_layouts_fit(inv, out, k)) return "takes tensors in other layouts";
    if (inv->in_place && !(k->flags & BP_KERNEL_IN_PLACE)) return "does not write over its input";
    return NULL;
}

const struct bp_kernel **bp_select_rows(const struct bp_device *device, const struct bp_opdef *row,
                                        uint32_t *out_n)
{
    const struct bp_plugin_entry *entry = device->entry;
    uintptr_t op = (uintptr_t)row->info.name;
    uint32_t low = 0, high = entry->n_kernel, end;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if ((uintptr_t)entry->kernel_best[middle]->op < op) low = middle + 1;
        else high = middle;
    }
    for (end = low; end < entry->n_kernel && entry->kernel_best[end]->op == row->info.name;)
        end++;
    *out_n = end - low;
    return entry->kernel_best ? entry->kernel_best + low : NULL;
}

bool bp_select_has(const struct bp_invocation *inv, uint32_t flags)
{
    const struct bp_plugin_entry *entry = inv->device->entry;
    uint32_t n;
    const struct bp_kernel **rows = bp_select_rows(inv->device, inv->row, &n);

    for (uint32_t i = 0; i < n; i++) {
        const struct bp_kernel *k = rows[i];
        bool fits = (k->flags & flags) == flags && !entry->kernel_reason[k - entry->kernel] &&
                    !bp_kernel_has_layouts(k);
        for (uint32_t v = 0; v < BP_VAR_COUNT; v++)
            fits &= !(inv->bound >> v & 1) || k->types[v] >> inv->dtype[v] & 1;
        if (fits && (!inv->kernel || !strcmp(k->name, inv->kernel))) return true;
    }
    return false;
}

bool bp_select_has_priority(const struct bp_device *device, const struct bp_opdef *row,
                            uint32_t dtype, int32_t least)
{
    const struct bp_plugin_entry *entry = device->entry;
    uint32_t n;
    const struct bp_kernel **rows = bp_select_rows(device, row, &n);

    for (uint32_t i = 0; i < n; i++)
        if (rows[i]->types[BP_VAR_T] >> dtype & 1 && rows[i]->priority >= least &&
            !entry->kernel_reason[rows[i] - entry->kernel] && !bp_kernel_has_layouts(rows[i]))
            return true;
    return false;
}

bool bp_select_has_dtype(const struct bp_device *device, const struct bp_opdef *row,
                         uint32_t dtype)
{
    return bp_select_has_priority(device, row, dtype, INT32_MIN);
}

static bool is_wanted(const struct bp_invocation *inv, const struct bp_kernel *k)
{
    return !inv->kernel || !strcmp(k->name, inv->kernel);
}

/* Returns the reason why a kernel row is no candidate; NULL if it is one. */
static const char *select_refused(const struct bp_invocation *inv, const struct bp_view *const *out,
                                  const struct bp_kernel *k)
{
    const struct bp_plugin_entry *entry = inv->device->entry;
    const char *reason = entry->kernel_reason[k - entry->kernel];

    return reason ? reason : select_unfit(inv, out, k);
}

/* Checks the plan's workspace; the limits are those of a device's alignment. An invalid plan is
 * destroyed immediately. */
static enum bp_status check_plan(const struct bp_invocation *inv, const struct bp_kernel *k,
                                 const struct bp_plan *plan)
{
    struct bp_plugin_entry *entry = inv->device->entry;
    uint64_t alignment = plan->workspace_alignment;

    if (!(alignment & (alignment - 1)) && alignment <= 1 << 20 &&
        plan->workspace <= INT64_MAX - (2 << 20))
        return BP_OK;
    if (plan->plan && k->plan_destroy)
        k->plan_destroy(bp_kernel_plugin(entry, k)->self, bp_kernel_registered(entry, k),
                        plan->plan);
    return bp_error(BP_ERR_PLUGIN,
                    "%s: prepare asks for a workspace of %llu bytes aligned to %llu: expected less "
                    "than 2^63, and a power of two up to 1 MiB",
                    k->name, (unsigned long long)plan->workspace, (unsigned long long)alignment);
}

void bp_choice_drop(const struct bp_device *device, const struct bp_choice *choice)
{
    struct bp_plugin_entry *entry = device->entry;
    const struct bp_kernel *k = choice->kernel;

    if (choice->plan.plan && k->plan_destroy)
        k->plan_destroy(bp_kernel_plugin(entry, k)->self, bp_kernel_registered(entry, k),
                        choice->plan.plan);
}

/* Calls the kernel's prepare, which may compile for a long time. */
static enum bp_status select_prepare(struct bp_plugin_entry *plugin, const struct bp_kernel *k,
                                     const struct bp_prep *prep, struct bp_plan *out_plan)
{
    uint32_t note = bp_activity_begin(BP_ACTIVITY_PREPARE, plugin->plugin.name, k->name);
    enum bp_status status = k->prepare(plugin->self, prep, out_plan);

    bp_activity_end(note);
    return status;
}

/* Calls the kernel's prepare or accepts. BP_ERR_UNSUPPORTED: the next row is tried. Other failures
 * end the call. */
static enum bp_status select_query(const struct bp_invocation *inv,
                                   const struct bp_view *const *out, const struct bp_kernel *k,
                                   struct bp_plan *out_plan)
{
    struct bp_plugin_entry *entry = inv->device->entry;
    struct bp_plugin_entry *plugin = bp_kernel_plugin(entry, k);
    struct bp_plan plan = {.size = sizeof plan};
    uint64_t constant[BP_FLAT_MAX];
    struct bp_prep prep = {
        .size = sizeof prep, .kernel = bp_kernel_registered(entry, k),
        .in = inv->in, .out = out, .in_at = inv->in_at, .out_at = inv->out_at,
        .n_in = inv->n_in, .n_out = inv->n_out,
        .attrs = inv->attrs, .device = inv->device->index, .width = inv->device->core->width,
        .constant = constant, .allow = inv->allow,
    };
    enum bp_status status = BP_OK;

    for (uint32_t i = 0; i < inv->n_in; i++) constant[i] = inv->constant[i].id;
    if (k->prepare) TRY(bp_process_busy_begin());
    bp_error_enter();
    if (k->prepare) status = select_prepare(plugin, k, &prep, &plan);
    else if (k->accepts) status = k->accepts(plugin->self, &prep);
    if (k->prepare) bp_exit_reregister(prep.kernel), bp_process_busy_end();
    if (status == BP_OK) status = check_plan(inv, k, &plan);
    if (status == BP_OK) *out_plan = plan;
    return status == BP_ERR_UNSUPPORTED ? status : bp_kernel_leave(inv->device, status, k);
}

/* Returns BP_ERR_NO_KERNEL with the message on this thread; `rows` kernel rows of the operator were
 * rejected. */
static enum bp_status no_kernel(const struct bp_invocation *inv, uint32_t rows)
{
    bp_error_set_operator(inv->row->info.name, rows);
    return BP_ERR_NO_KERNEL;
}

/* Writes the reason for each kernel row, after no row was found. */
static enum bp_status select_none(const struct bp_invocation *inv, const struct bp_view *const *out)
{
    const char *op = inv->row->info.name, *device = inv->device->name;
    const struct bp_kernel **row;
    char text[900] = "";
    size_t used = 0;
    uint32_t n, passed = 0;

    row = bp_select_rows(inv->device, inv->row, &n);
    for (uint32_t i = 0; i < n; i++) {
        const char *why;
        if (!is_wanted(inv, row[i])) continue;
        passed++;
        if (used >= sizeof text) continue;
        why = select_refused(inv, out, row[i]);
        if (!why && bp_engine_call_is(row[i])) why = bp_engine_call_refusal();
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s: %s", used ? "; " : "",
                                 row[i]->name, why ? why : "does not take this configuration");
    }
    if (!passed && inv->kernel)
        return bp_error(BP_ERR_NOT_FOUND, "%s: %s has no kernel row named %s for it", op, device,
                        inv->kernel);
    if (!passed)
        bp_error_write("%s: %s has no kernel for it (`bp ops --device %s` lists what it has)", op,
                       device, device);
    else bp_error_write("%s: no kernel of %s takes this call: %s", op, device, text);
    return no_kernel(inv, passed);
}

/* Selects the best row that supports the call. preferred: only rows with the name site->prefer;
 * otherwise only the others. */
static enum bp_status select_of(const struct bp_invocation *inv, const struct bp_view *const *out,
                                bool preferred, struct bp_choice *out_choice)
{
    const struct bp_kernel **row;
    uint32_t n;

    row = bp_select_rows(inv->device, inv->row, &n);
    for (uint32_t i = 0; i < n; i++) {
        enum bp_status status;
        if ((inv->prefer && !strcmp(row[i]->name, inv->prefer)) != preferred) continue;
        if (!is_wanted(inv, row[i]) || select_refused(inv, out, row[i])) continue;
        status = select_query(inv, out, row[i], &out_choice->plan);
        if (status == BP_OK) out_choice->kernel = row[i];
        if (status != BP_ERR_UNSUPPORTED) return status;
    }
    return BP_ERR_UNSUPPORTED;
}

enum bp_status bp_select(const struct bp_invocation *inv, const struct bp_view *const *out,
                         struct bp_choice *out_choice)
{
    enum bp_status status = BP_ERR_UNSUPPORTED;

    if (inv->prefer) status = select_of(inv, out, true, out_choice);
    if (status == BP_ERR_UNSUPPORTED) status = select_of(inv, out, false, out_choice);
    if (status == BP_ERR_UNSUPPORTED && inv->whole) return BP_ERR_NO_KERNEL;
    return status == BP_ERR_UNSUPPORTED ? select_none(inv, out) : status;
}
