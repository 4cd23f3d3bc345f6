/* SPDX-License-Identifier: Apache-2.0 */
/* select.c: which kernel row runs a call: the one of highest priority that takes it. */
#include "op.h"

#include <stdio.h>
#include <string.h>

enum { CANDIDATES = 64 };

/* Why rows were passed over, in one text. */
struct reasons {
    char text[900];
    size_t used;
};

static void note(struct reasons *r, const struct bp_kernel *kernel, const char *why)
{
    if (r->used < sizeof r->text - 1)
        r->used += (size_t)snprintf(r->text + r->used, sizeof r->text - r->used, "%s%s: %s",
                                    r->used ? "; " : "", kernel->name, why);
}

static bool any_strided(const struct bp_view *const *view, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (view[i] && view[i]->flags & BP_VIEW_STRIDED) return true;
    return false;
}

/* Whether an input or output past the known ones is used. */
static bool uses_unknown(const struct bp_site *site, const struct bp_kernel *k)
{
    const struct bp_opinfo *op = &site->row->info;

    for (uint32_t port = k->in_known; port < op->n_in; port++)
        if (bp_site_in(site, port)) return true;
    for (uint32_t port = k->out_known; port < op->n_out; port++)
        if (site->want >> port & 1) return true;
    return false;
}

/* NULL if the row's own facts admit the call. */
static const char *unfit(const struct bp_site *site, const struct bp_view *const *out,
                         const struct bp_kernel *k)
{
    const struct bp_opinfo *op = &site->row->info;

    for (uint32_t v = 0; v < BP_VAR_COUNT; v++)
        if (site->bound >> v & 1 && !(k->types[v] >> site->dtype[v] & 1))
            return "does not take the dtypes";
    if (k->attrs_size < op->attrs_size && !bp_attrs_tail_zero(op, site->attrs, k->attrs_size))
        return "is older than an attribute that is set";
    if (uses_unknown(site, k)) return "is older than an input or output that is used";
    if (!(k->flags & BP_KERNEL_STRIDED) &&
        (any_strided(site->in, site->n_in) || any_strided(out, site->n_out)))
        return "takes contiguous tensors only";
    if (site->in_place && !(k->flags & BP_KERNEL_IN_PLACE)) return "does not write over its input";
    return NULL;
}

/* Rows of the operator that fit, best first. Also counts the rows of the operator's name. */
static uint32_t candidates(const struct bp_site *site, const struct bp_view *const *out,
                           const struct bp_kernel **list, uint32_t *out_named,
                           struct reasons *reasons)
{
    const struct bp_plugin_entry *entry = site->device->entry;
    uint32_t n = 0;

    *out_named = 0;
    for (uint32_t i = 0; i < entry->n_kernel; i++) {
        const struct bp_kernel *k = &entry->kernel[i];
        const char *why;
        uint32_t at;
        if (strcmp(k->op, site->row->info.name)) continue;
        if (site->kernel && strcmp(k->name, site->kernel)) continue;
        ++*out_named;
        why = entry->kernel_reason[i] ? entry->kernel_reason[i] : unfit(site, out, k);
        if (!why && n == CANDIDATES) why = "is one row too many";
        if (why) {
            note(reasons, k, why);
            continue;
        }
        for (at = n++; at > 0 && list[at - 1]->priority < k->priority; at--)
            list[at] = list[at - 1];
        list[at] = k;
    }
    return n;
}

/* Asks the row itself. BP_ERR_UNSUPPORTED passes to the next row; other failures end the call. */
static enum bp_status ask(const struct bp_site *site, const struct bp_view *const *out,
                          const struct bp_kernel *k, struct bp_plan *out_plan)
{
    struct bp_plugin_entry *entry = site->device->entry;
    struct bp_plan plan = {.size = sizeof plan};
    struct bp_prep prep = {
        .size = sizeof prep, .kernel = bp_kernel_own(entry, k),
        .in = site->in, .out = out, .in_at = site->in_at, .out_at = site->out_at,
        .n_in = site->n_in, .n_out = site->n_out,
        .attrs = site->attrs, .device = site->device->index, .width = site->device->core->width,
    };
    enum bp_status status = BP_OK;

    bp_error_enter();
    if (k->prepare) status = k->prepare(entry->self, &prep, &plan);
    else if (k->accepts) status = k->accepts(entry->self, &prep);
    if (status == BP_OK && plan.workspace_alignment & (plan.workspace_alignment - 1))
        status = bp_error(BP_ERR_PLUGIN, "%s: prepare asks for a workspace aligned to %llu bytes, "
                          "which is no power of two", k->name,
                          (unsigned long long)plan.workspace_alignment);
    if (status == BP_OK) *out_plan = plan;
    return status == BP_ERR_UNSUPPORTED ? status
                                        : bp_error_leave(status, entry->plugin.name, k->name);
}

static enum bp_status none(const struct bp_site *site, uint32_t named,
                           const struct reasons *reasons)
{
    const char *op = site->row->info.name;
    const char *device = site->device->name;

    if (!named && site->kernel)
        return bp_error(BP_ERR_NOT_FOUND, "%s: %s has no kernel row named %s for it", op, device,
                        site->kernel);
    if (!named)
        return bp_error(BP_ERR_UNSUPPORTED,
                        "%s: %s has no kernel for it (`bp ops --device %s` lists what it has)", op,
                        device, device);
    return bp_error(BP_ERR_UNSUPPORTED, "%s: no kernel of %s takes this call: %s", op, device,
                    reasons->text);
}

enum bp_status bp_select(const struct bp_site *site, const struct bp_view *const *out,
                         struct bp_choice *out_choice)
{
    const struct bp_kernel *list[CANDIDATES];
    struct reasons reasons = {.used = 0};
    uint32_t named, n = candidates(site, out, list, &named, &reasons);

    for (uint32_t i = 0; i < n; i++) {
        enum bp_status status = ask(site, out, list[i], &out_choice->plan);
        if (status == BP_OK) {
            out_choice->kernel = list[i];
            return BP_OK;
        }
        if (status != BP_ERR_UNSUPPORTED) return status;
        note(&reasons, list[i], "does not take this configuration");
    }
    return none(site, named, &reasons);
}
