/* SPDX-License-Identifier: Apache-2.0 */
/* row_filter.c: leaves out kernel rows, as BP_KERNELS says: "-cpu_conv_*,+cpu_conv_f32". Each word
 * is a sign and a glob, which matches names of rows and of operators. The last word that matches a
 * row decides; a row that no word matches is left out if the first word has a '+'. */
#include "row_filter.h"
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

enum {
    SHOWN_ROWS = 12
}; /* rows that a line of the log names */

static const char left_out[] = "left out by BP_KERNELS";

struct row_pattern {
    char *text; /* the sign and the glob */
    _Atomic bool matched, reported;
};

struct bp_row_filter {
    struct row_pattern *at;
    size_t n;
};

void bp_row_filter_destroy(struct bp_core *core)
{
    struct bp_row_filter *filter = core->row_filter;

    for (size_t i = 0; filter && i < filter->n; i++) free(filter->at[i].text);
    if (filter) free(filter->at);
    free(filter);
    core->row_filter = NULL;
}

/* Adds one word of the list. False: no memory. */
static bool filter_add(struct bp_core *core, const char *word, size_t length)
{
    struct bp_row_filter *filter = core->row_filter;

    if ((*word != '-' && *word != '+') || length < 2) {
        bp_core_log(core, BP_LOG_WARN,
                    "BP_KERNELS: expected - or + and the name of kernel rows or of operators, such "
                    "as -cpu_conv_*, got '%.*s'",
                    length > 80 ? 80 : (int)length, word);
        return true;
    }
    filter->at[filter->n] = (struct row_pattern){.text = strndup(word, length)};
    return filter->at[filter->n++].text != NULL;
}

enum bp_status bp_row_filter_create(struct bp_core *core)
{
    static const char between[] = ", \t\n";
    const char *list = bp_env_get("BP_KERNELS");
    bool good = true;

    if (!list || !list[strspn(list, between)]) return BP_OK;
    core->row_filter = calloc(1, sizeof *core->row_filter);
    if (core->row_filter) /* words and separators alternate */
        core->row_filter->at = calloc(strlen(list) / 2 + 1, sizeof *core->row_filter->at);
    good = core->row_filter && core->row_filter->at;
    for (size_t n; good && *(list += strspn(list, between)); list += n) {
        n = strcspn(list, between);
        good = filter_add(core, list, n);
    }
    return good ? BP_OK : bp_error(BP_ERR_MEMORY, "bp_core_create: no memory for BP_KERNELS");
}

static bool filter_matches(const struct row_pattern *pattern, const struct bp_kernel *row)
{
    const char *glob = pattern->text + 1;

    return !fnmatch(glob, row->name, 0) || !fnmatch(glob, row->op, 0);
}

/* Whether the row is left out. *out_why: the word that decides, or NULL if no word matches. */
static bool filter_excludes(struct bp_row_filter *filter, const struct bp_kernel *row,
                            const char **out_why)
{
    const struct row_pattern *last = NULL;

    for (size_t i = 0; i < filter->n; i++)
        if (filter_matches(&filter->at[i], row)) {
            filter->at[i].matched = true;
            last = &filter->at[i];
        }
    *out_why = last ? last->text : NULL;
    if (last) return *last->text == '-';
    return filter->n && *filter->at[0].text == '+';
}

bool bp_row_filter_apply(struct bp_load *load, uint32_t first)
{
    struct bp_plugin_entry *entry = load->entry;
    struct bp_row_filter *filter = entry->core->row_filter;
    const char *why;

    for (uint32_t i = first; filter && i < entry->n_kernel; i++) {
        int made;
        if (!filter_excludes(filter, &entry->kernel[i], &why) || entry->kernel_reason[i]) continue;
        made = asprintf(&entry->kernel_reason[i], "%s (%.80s)", left_out,
                        why ? why : "no + in it selects the row");
        if (made >= 0) continue;
        entry->kernel_reason[i] = NULL;
        return bp_no_memory(&load->why, entry->manifest.library);
    }
    return true;
}

/* Logs the rows that the list leaves out. */
static void filter_log(const struct bp_plugin_entry *entry)
{
    char text[SHOWN_ROWS * 66] = "";
    size_t used = 0;
    uint32_t n = 0;

    for (uint32_t i = 0; i < entry->n_kernel; i++) {
        const char *reason = entry->kernel_reason[i];
        if (!reason || strncmp(reason, left_out, sizeof left_out - 1)) continue;
        if (n++ < SHOWN_ROWS)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%.63s", n > 1 ? ", " : "",
                                     entry->kernel[i].name);
    }
    if (n)
        bp_core_log(entry->core, BP_LOG_INFO,
                    "%s: BP_KERNELS leaves out %u of %u kernel rows: %s%s", entry->plugin.name, n,
                    entry->n_kernel, text, n > SHOWN_ROWS ? ", ..." : "");
}

/* Whether the pattern probably means rows of a plugin that is not loaded yet: names of rows begin
 * with the name of their plugin. */
static bool filter_may_match_later(struct bp_core *core, const struct row_pattern *pattern)
{
    bool may = false;

    pthread_mutex_lock(&core->lock);
    for (uint32_t i = 0; i < core->n_entry && !may; i++) {
        const char *name = core->entry[i]->manifest.name;
        size_t n = strlen(name);
        may = core->entry[i]->state == BP_PLUGIN_UNPROBED && n &&
              !strncmp(pattern->text + 1, name, n) && pattern->text[1 + n] == '_';
    }
    pthread_mutex_unlock(&core->lock);
    return may;
}

bool bp_row_filter_report(struct bp_load *load)
{
    struct bp_plugin_entry *entry = load->entry;
    struct bp_core *core = entry->core;

    if (!core->row_filter || bp_addon_is(entry)) return true;
    filter_log(entry);
    for (size_t i = 0; i < core->row_filter->n; i++) {
        struct row_pattern *pattern = &core->row_filter->at[i];
        if (pattern->matched || filter_may_match_later(core, pattern) ||
            atomic_exchange(&pattern->reported, true))
            continue;
        bp_core_log(core, BP_LOG_WARN,
                    "BP_KERNELS: %.80s matches no kernel row and no operator of plugin %s, nor of "
                    "those loaded before; `bp ops --device %s --json` lists its rows",
                    pattern->text, entry->plugin.name, entry->plugin.kind);
    }
    return true;
}
