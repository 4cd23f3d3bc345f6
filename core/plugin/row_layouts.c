/* SPDX-License-Identifier: Apache-2.0 */
/* row_layouts.c: checks the layouts that kernel rows take, and describes them. */
#include "row_layouts.h"

#include "../call/kernel_layout.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    NAME_MAX_BYTES = 63
};

static bool name_is_valid(const char *name)
{
    size_t n = 0;

    if (!name || !*name) return false;
    while (n <= NAME_MAX_BYTES &&
           (isalnum((unsigned char)name[n]) || (name[n] && strchr("_.-", name[n]))))
        n++;
    return n <= NAME_MAX_BYTES && !name[n];
}

/* Why layout number `layout` of the plugin cannot be used; NULL: it can. */
static const char *layout_misfit(const struct bp_plugin_entry *entry, uint32_t layout)
{
    const struct bp_layout *l = &entry->layout[layout - 1];

    if (!name_is_valid(l->name)) return "has no valid name: letters, digits and '_', '.', '-'";
    if (!l->bytes) return "has no function bytes";
    for (uint32_t i = 0; i < entry->n_layout; i++)
        if (i != layout - 1 && entry->layout[i].name && !strcmp(entry->layout[i].name, l->name))
            return "has the name of another one";
    return NULL;
}

static bool list_misfit(const struct bp_plugin_entry *entry, const char *which,
                        const uint16_t *list, uint32_t n, char *text, size_t size)
{
    for (uint32_t i = 0; list && i < n; i++) {
        const char *why;
        if (!list[i]) continue;
        if (list[i] > entry->n_layout) {
            snprintf(text, size, "%s[%u] is %u, but the plugin has %u layouts", which, i, list[i],
                     entry->n_layout);
            return true;
        }
        why = layout_misfit(entry, list[i]);
        if (!why) continue;
        snprintf(text, size, "%s[%u]: layout %u of the plugin %s", which, i, list[i], why);
        return true;
    }
    return false;
}

static bool list_is_empty(const uint16_t *list, uint32_t n)
{
    for (uint32_t i = 0; list && i < n; i++)
        if (list[i]) return false;
    return true;
}

/* Whether an operator's tensors are always in strides. */
static bool op_stays_in_strides(const struct bp_opdef *op)
{
    return op->is_view || op->updates || op->bound || op->random;
}

bool bp_row_layouts_find_misfit(const struct bp_plugin_entry *entry, struct bp_kernel *row,
                                char *text, size_t size)
{
    const struct bp_opdef *op = bp_opdef_find(row->op);

    if (list_is_empty(row->in_layout, row->in_known)) row->in_layout = NULL;
    if (list_is_empty(row->out_layout, row->out_known)) row->out_layout = NULL;
    if (!bp_kernel_has_layouts(row)) return false;
    if (entry->plugin.adds_to) {
        snprintf(text, size, "rows of add-ons take tensors in strides only");
        return true;
    }
    if (list_misfit(entry, "in_layout", row->in_layout, row->in_known, text, size) ||
        list_misfit(entry, "out_layout", row->out_layout, row->out_known, text, size))
        return true;
    if (op_stays_in_strides(op)) {
        snprintf(text, size, "the tensors of %s are always in strides: its rows have no layouts",
                 row->op);
        return true;
    }
    if (op != &bp_opdef[BP_ROW_assign] || !row->in_layout || !row->out_layout ||
        row->in_layout[0] == row->out_layout[0])
        return false;
    snprintf(text, size,
             "it converts from %s to %s: rows of assign convert from strides or to "
             "strides",
             entry->layout[row->in_layout[0] - 1].name, entry->layout[row->out_layout[0] - 1].name);
    return true;
}

/* Whether a usable row of assign converts between a layout and strides. */
static bool has_conversion(const struct bp_plugin_entry *entry, uint32_t from, uint32_t to)
{
    for (uint32_t i = 0; i < entry->n_kernel; i++) {
        const struct bp_kernel *k = &entry->kernel[i];
        if (!entry->kernel_reason[i] && bp_opdef_find(k->op) == &bp_opdef[BP_ROW_assign] &&
            bp_kernel_in_layout(k, 0) == from && bp_kernel_out_layout(k, 0) == to)
            return true;
    }
    return false;
}

static bool layout_is_lost(const struct bp_plugin_entry *entry, uint32_t layout, char *text,
                           size_t size)
{
    bool in, out;

    if (!layout) return false;
    in = has_conversion(entry, 0, layout);
    out = has_conversion(entry, layout, 0);
    if (in && out) return false;
    snprintf(text, size, "no row of assign that this machine can run converts %s layout %s",
             in ? "from" : "to", entry->layout[layout - 1].name);
    return true;
}

bool bp_row_layouts_find_lost(const struct bp_plugin_entry *entry, const struct bp_kernel *row,
                              char *text, size_t size)
{
    for (uint32_t i = 0; i < row->in_known; i++)
        if (layout_is_lost(entry, bp_kernel_in_layout(row, i), text, size)) return true;
    for (uint32_t i = 0; i < row->out_known; i++)
        if (layout_is_lost(entry, bp_kernel_out_layout(row, i), text, size)) return true;
    return false;
}

static const char *layout_name_of(const struct bp_plugin_entry *entry, uint32_t layout)
{
    return layout && layout <= entry->n_layout ? entry->layout[layout - 1].name : "-";
}

char *bp_row_layouts_text(const struct bp_plugin_entry *entry, const struct bp_kernel *row)
{
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);

    if (!to) return NULL;
    for (uint32_t i = 0; i < row->in_known; i++)
        fprintf(to, "%s%s", i ? ", " : "", layout_name_of(entry, bp_kernel_in_layout(row, i)));
    fprintf(to, " -> ");
    for (uint32_t i = 0; i < row->out_known; i++)
        fprintf(to, "%s%s", i ? ", " : "", layout_name_of(entry, bp_kernel_out_layout(row, i)));
    if (!fclose(to)) return text;
    free(text);
    return NULL;
}
