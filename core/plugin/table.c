/* SPDX-License-Identifier: Apache-2.0 */
/* table.c: checks the tables of a plugin before using any of their values, and copies them into the
 * form of this core's version. Members that an older plugin lacks become NULL; members newer than
 * this core are cut off. From then on the core handles one form only. */
#include "loader.h"
#include "patterns.h"
#include <backplane/call.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define REBUILD "build it again with the headers of this version"
#define END(type, field) (offsetof(struct type, field) + sizeof((struct type *)0)->field)

enum {
    MAX_TABLE = 4096,   /* bytes; a larger size is invalid */
    MAX_ROWS = 1 << 20, /* kernel rows of one plugin */
    SANITIZERS = BP_BUILD_ASAN | BP_BUILD_TSAN,
};

static const char *table_library(const struct bp_load *load)
{
    return load->entry->manifest.library;
}

/* Copies a table whose first member is its size. required: the bytes that every table must have
 * since version 0.1. */
static bool copy_table(struct bp_load *load, const char *name, const void *table, size_t required,
                       void *out, size_t out_size)
{
    size_t size;

    memcpy(&size, table, sizeof size);
    if (size < required || size > MAX_TABLE || size % sizeof(void *))
        return bp_broken(&load->why, table_library(load),
                         "the size of its struct %s makes no sense: expected %zu to %d bytes, "
                         "got %zu; set size to sizeof the struct",
                         name, required, MAX_TABLE, size);
    memcpy(out, table, size < out_size ? size : out_size);
    memcpy(out, &out_size, sizeof out_size);
    return true;
}

static const char *sanitizer_name(uint32_t build)
{
    return build & BP_BUILD_ASAN   ? "AddressSanitizer"
           : build & BP_BUILD_TSAN ? "ThreadSanitizer"
                                   : "no sanitizer";
}

/* AddressSanitizer needs no core that was built with it, if the process began with its runtime
 * (LD_PRELOAD). ThreadSanitizer does: it would not see how the core orders its threads. */
static bool sanitizer_fits(uint32_t build)
{
    uint32_t plugin = build & SANITIZERS, core = BP_BUILD_FLAGS & SANITIZERS;

    if (plugin == core) return true;
    return plugin == BP_BUILD_ASAN && !core && dlsym(RTLD_DEFAULT, "__asan_init");
}

static bool check_names(struct bp_load *load)
{
    const struct bp_plugin *plugin = &load->entry->plugin;
    struct bp_quote quote;

    if (!plugin->name || !bp_name_is_valid(plugin->name))
        return bp_broken(&load->why, table_library(load),
                         "its name cannot be used: expected lower-case letters, digits and "
                         "'_', at most 63, got %s; rename it",
                         bp_quote(&quote, plugin->name));
    if (!bp_addon_is(load->entry) && (!plugin->kind || !bp_name_is_valid(plugin->kind)))
        return bp_broken(&load->why, table_library(load),
                         "its device kind cannot be used: expected lower-case letters, digits "
                         "and '_', at most 63, got %s; rename it",
                         bp_quote(&quote, plugin->kind));
    if (!plugin->version || !bp_version_is_valid(plugin->version))
        return bp_broken(&load->why, table_library(load),
                         "its version cannot be used: expected 1 to 63 characters without "
                         "spaces, got %s; correct it",
                         bp_quote(&quote, plugin->version));
    if (plugin->stream_type && !bp_stream_type_is_valid(plugin->stream_type))
        return bp_broken(&load->why, table_library(load),
                         "its stream_type cannot be used: expected a name, '/' and a version, at "
                         "most 63 characters without spaces, got %s; correct it",
                         bp_quote(&quote, plugin->stream_type));
    return !bp_addon_is(load->entry) || bp_addon_table(load);
}

/* The order matters: only size and abi_major are read before both are valid, because in another
 * major version the rest of the table may have any form. */
bool bp_table_check(struct bp_load *load)
{
    struct bp_plugin *plugin = &load->entry->plugin;

    if (load->table->size >= END(bp_plugin, abi_major) && load->table->size <= MAX_TABLE &&
        load->table->abi_major != BP_ABI_MAJOR)
        return bp_broken(&load->why, table_library(load),
                         "of another plugin ABI: expected major %d, got %u; install the build "
                         "for this version",
                         BP_ABI_MAJOR, load->table->abi_major);
    if (!copy_table(load, "bp_plugin", load->table, END(bp_plugin, runtime), plugin,
                    sizeof *plugin))
        return false;
    if (plugin->needs_minor > BP_ABI_MINOR)
        return bp_broken(&load->why, table_library(load),
                         "needs a newer core: expected ABI %d.%d or less, got %d.%u; install a "
                         "newer libbackplane",
                         BP_ABI_MAJOR, BP_ABI_MINOR, BP_ABI_MAJOR, plugin->needs_minor);
    if (!sanitizer_fits(plugin->build))
        return bp_broken(
            &load->why, table_library(load),
            "built with another sanitizer: expected %s, got %s; build plugin and core alike",
            sanitizer_name(BP_BUILD_FLAGS), sanitizer_name(plugin->build));
    if (!check_names(load)) return false;
    if (!plugin->create || !plugin->destroy)
        return bp_broken(&load->why, table_library(load),
                         "a required callback is missing: expected %s, got NULL; write it",
                         plugin->create ? "destroy" : "create");
    if (!plugin->runtime && !plugin->adds_to)
        return bp_broken(&load->why, table_library(load),
                         "a required interface is missing: expected runtime, got NULL; write it");
    return true;
}

/* A plugin that was loaded by its path has no manifest: its own table provides the values. */
static bool table_fill_manifest(struct bp_load *load)
{
    struct bp_plugin_entry *entry = load->entry;

    if (entry->previous_manifest.name)
        return true; /* loaded again, because memory ran out after this */
    struct bp_manifest found = {
        .name = strdup(entry->plugin.name),
        .kind = strdup(bp_addon_is(entry) ? "" : entry->plugin.kind),
        .adds_to = bp_addon_is(entry) ? strdup(entry->plugin.adds_to) : NULL,
        .version = strdup(entry->plugin.version),
        .library = strdup(table_library(load)),
        .abi_major = entry->plugin.abi_major,
        .abi_minor = entry->plugin.abi_minor,
    };

    if (!found.name || !found.kind || !found.version || !found.library ||
        (bp_addon_is(entry) && !found.adds_to)) {
        bp_manifest_finish(&found);
        return false;
    }
    pthread_mutex_lock(&entry->core->lock);
    entry->previous_manifest = entry->manifest; /* an app may still use its strings */
    entry->manifest = found;
    pthread_mutex_unlock(&entry->core->lock);
    return true;
}

bool bp_table_manifest(struct bp_load *load)
{
    const struct bp_plugin *plugin = &load->entry->plugin;
    const struct bp_manifest *manifest = &load->entry->manifest;
    const char *path = load->entry->manifest_path;
    char shown_path[BP_SHOWN_PATH], shown[BP_SHOWN_PATH];
    const struct {
        const char *what, *expected, *got;
    } found[] = {
        {"name", manifest->name, plugin->name},
        {"version", manifest->version, plugin->version},
        {"device kind", manifest->kind, bp_addon_is(load->entry) ? "" : plugin->kind},
        {"adds_to", manifest->adds_to ? manifest->adds_to : "",
         plugin->adds_to ? plugin->adds_to : ""},
    };

    if (!*path) return table_fill_manifest(load) || bp_no_memory(&load->why, table_library(load));
    bp_show(shown_path, sizeof shown_path, path);
    bp_show(shown, sizeof shown, table_library(load));
    for (size_t i = 0; i < sizeof found / sizeof *found; i++)
        if (strcmp(found[i].expected, found[i].got))
            return bp_broken(&load->why, table_library(load),
                             "its %s is not what the manifest %s says: expected \"%s\", got "
                             "\"%s\"; write it anew with: bp manifest %s",
                             found[i].what, shown_path, found[i].expected, found[i].got, shown);
    if (manifest->abi_major != plugin->abi_major || manifest->abi_minor != plugin->abi_minor)
        return bp_broken(&load->why, table_library(load),
                         "its ABI is not what the manifest %s says: expected %u.%u, got %u.%u; "
                         "write it anew with: bp manifest %s",
                         shown_path, manifest->abi_major, manifest->abi_minor, plugin->abi_major,
                         plugin->abi_minor, shown);
    return true;
}

struct callback {
    const char *name;
    size_t offset;
};
#define CALLBACK(table, field) \
    { \
#field, offsetof(struct table, field) \
    }

/* Returns the first of n callbacks that is set (there) or missing; NULL: no callback is. */
static const char *find_callback(const void *table, const struct callback *list, size_t n,
                                 bool there)
{
    for (size_t i = 0; i < n; i++) {
        void (*callback)(void);
        memcpy(&callback, (const char *)table + list[i].offset, sizeof callback);
        if ((callback != NULL) == there) return list[i].name;
    }
    return NULL;
}

/* Checks callbacks that must be set all together or not at all. */
static bool check_group(struct bp_load *load, const void *table, const struct callback *list,
                        size_t n)
{
    const char *there = find_callback(table, list, n, true);
    const char *missing = find_callback(table, list, n, false);

    if (!there || !missing) return true;
    return bp_broken(&load->why, table_library(load),
                     "callbacks that belong together are not all there: expected %s beside %s, "
                     "got NULL; write both or neither",
                     missing, there);
}

bool bp_table_runtime(struct bp_load *load)
{
    static const struct callback required[] = {
        CALLBACK(bp_runtime, device_count),    CALLBACK(bp_runtime, device_properties),
        CALLBACK(bp_runtime, memory_allocate), CALLBACK(bp_runtime, memory_free),
        CALLBACK(bp_runtime, copy_in),         CALLBACK(bp_runtime, copy_out),
        CALLBACK(bp_runtime, copy_within),     CALLBACK(bp_runtime, synchronize),
    };
    static const struct callback streams[] = {CALLBACK(bp_runtime, stream_create),
                                              CALLBACK(bp_runtime, stream_destroy)};
    static const struct callback events[] = {
        CALLBACK(bp_runtime, event_create), CALLBACK(bp_runtime, event_destroy),
        CALLBACK(bp_runtime, event_record), CALLBACK(bp_runtime, event_query),
        CALLBACK(bp_runtime, event_wait)};
    struct bp_plugin_entry *entry = load->entry;
    const char *missing;

    if (bp_addon_is(entry)) return true;
    if (!copy_table(load, "bp_runtime", entry->plugin.runtime, END(bp_runtime, synchronize),
                    &entry->runtime, sizeof entry->runtime))
        return false;
    entry->plugin.runtime = &entry->runtime;
    missing = find_callback(&entry->runtime, required, sizeof required / sizeof *required, false);
    if (missing)
        return bp_broken(&load->why, table_library(load),
                         "a required callback is missing: expected %s, got NULL; write it",
                         missing);
    return check_group(load, &entry->runtime, streams, sizeof streams / sizeof *streams) &&
           check_group(load, &entry->runtime, events, sizeof events / sizeof *events);
}

bool bp_table_captures(struct bp_load *load)
{
    static const struct callback capture[] = {
        CALLBACK(bp_captures, capture_begin), CALLBACK(bp_captures, capture_end),
        CALLBACK(bp_captures, capture_abort), CALLBACK(bp_captures, replay),
        CALLBACK(bp_captures, recording_destroy),
    };
    struct bp_plugin_entry *entry = load->entry;

    if (!entry->plugin.captures) return true;
    if (!copy_table(load, "bp_captures", entry->plugin.captures,
                    END(bp_captures, recording_destroy),
                    &entry->captures, sizeof entry->captures))
        return false;
    entry->plugin.captures = &entry->captures;
    if (!check_group(load, &entry->captures, capture, sizeof capture / sizeof *capture))
        return false;
    if (entry->runtime.stream_create || !entry->captures.capture_begin) return true;
    return bp_broken(&load->why, table_library(load),
                     "it records streams and has none: expected stream_create beside "
                     "capture_begin, got NULL; write both or neither");
}

bool bp_table_profiler(struct bp_load *load)
{
    static const struct callback required[] = {
        CALLBACK(bp_profilers, start), CALLBACK(bp_profilers, stop),
    };
    static const struct callback ranges[] = {
        CALLBACK(bp_profilers, range_begin), CALLBACK(bp_profilers, range_end),
    };
    struct bp_plugin_entry *entry = load->entry;
    const char *missing;

    if (!entry->plugin.profiler) return true;
    if (!copy_table(load, "bp_profilers", entry->plugin.profiler, END(bp_profilers, stop),
                    &entry->profilers, sizeof entry->profilers))
        return false;
    entry->plugin.profiler = &entry->profilers;
    if (!entry->profilers.kind) entry->profilers.n_kind = 0;
    missing = find_callback(&entry->profilers, required, sizeof required / sizeof *required, false);
    if (!missing)
        return check_group(load, &entry->profilers, ranges, sizeof ranges / sizeof *ranges);
    return bp_broken(&load->why, table_library(load),
                     "a required callback of the profiler is missing: expected %s, got NULL; write "
                     "it, or leave profiler out",
                     missing);
}

/* Checks the ids of a size that the plugin defines. */
static bool check_ids(struct bp_load *load, const struct bp_ccl *ccl)
{
    if (!ccl->unique_id_long && !ccl->id_size) return true;
    if (!ccl->unique_id_long)
        return bp_broken(&load->why, table_library(load),
                         "it has ids of a size of its own: expected unique_id_long beside id_size, "
                         "got NULL; write both or neither");
    if (ccl->id_size && ccl->id_size <= BP_CCL_ID_MAX) return true;
    return bp_broken(&load->why, table_library(load),
                     "bp_ccl.id_size is %llu: expected 1 to %d, the bytes of an id that "
                     "unique_id_long makes",
                     (unsigned long long)ccl->id_size, BP_CCL_ID_MAX);
}

bool bp_table_ccl(struct bp_load *load)
{
    static const struct callback required[] = {
        CALLBACK(bp_ccl, comm_create),
        CALLBACK(bp_ccl, comm_destroy),  CALLBACK(bp_ccl, comm_abort),
        CALLBACK(bp_ccl, comm_error),    CALLBACK(bp_ccl, all_reduce),
        CALLBACK(bp_ccl, reduce),        CALLBACK(bp_ccl, broadcast),
        CALLBACK(bp_ccl, all_gather),    CALLBACK(bp_ccl, reduce_scatter),
        CALLBACK(bp_ccl, send),          CALLBACK(bp_ccl, recv),
        CALLBACK(bp_ccl, group_begin),   CALLBACK(bp_ccl, group_end),
    };
    static const struct callback joining[] = {
        CALLBACK(bp_ccl, comm_begin), CALLBACK(bp_ccl, comm_joined),
    };
    struct bp_plugin_entry *entry = load->entry;
    const char *missing;

    if (!entry->plugin.ccl) return true;
    if (!copy_table(load, "bp_ccl", entry->plugin.ccl, END(bp_ccl, group_end), &entry->ccl,
                    sizeof entry->ccl))
        return false;
    entry->plugin.ccl = &entry->ccl;
    missing = find_callback(&entry->ccl, required, sizeof required / sizeof *required, false);
    if (!entry->ccl.unique_id && !entry->ccl.unique_id_long) missing = "unique_id";
    if (!missing)
        return check_ids(load, &entry->ccl) &&
               check_group(load, &entry->ccl, joining, sizeof joining / sizeof *joining);
    return bp_broken(&load->why, table_library(load),
                     "a required callback of collectives is missing: expected %s, got NULL; write "
                     "it, or leave ccl out",
                     missing);
}

/* Checks the operators that an engine knows. */
static bool check_known(struct bp_load *load, const struct bp_engines *e)
{
    struct bp_quote quote;

    if (!e->known || !e->n_known || e->n_known > MAX_ROWS ||
        e->known_stride < END(bp_engine_op, out_known) || e->known_stride > MAX_TABLE ||
        e->known_stride % sizeof(void *))
        return bp_broken(
            &load->why, table_library(load),
            "the operators that its engine knows cannot be walked: expected known, n_known 1 to "
            "%d, known_stride %zu to %d, got %s, %zu, %zu; set known_stride to "
            "sizeof(struct bp_engine_op)",
            MAX_ROWS, END(bp_engine_op, out_known), MAX_TABLE, e->known ? "known" : "NULL",
            e->n_known, e->known_stride);
    for (size_t i = 0; i < e->n_known; i++) {
        const struct bp_engine_op *op =
            BP_ROW(struct bp_engine_op, e->known, e->known_stride, i);
        if (!op->op || !*op->op)
            return bp_broken(&load->why, table_library(load),
                             "operator %zu that its engine knows has no name: expected op, got "
                             "%s; fill it in",
                             i, bp_quote(&quote, op->op));
    }
    return true;
}

bool bp_table_engines(struct bp_load *load)
{
    static const struct callback required[] = {
        CALLBACK(bp_engines, claim), CALLBACK(bp_engines, compile), CALLBACK(bp_engines, run),
        CALLBACK(bp_engines, engine_destroy),
    };
    static const struct callback contexts[] = {
        CALLBACK(bp_engines, context_create), CALLBACK(bp_engines, context_destroy),
    };
    struct bp_plugin_entry *entry = load->entry;
    const char *missing;

    if (!entry->plugin.engines) return true;
    if (!copy_table(load, "bp_engines", entry->plugin.engines, END(bp_engines, engine_destroy),
                    &entry->engines, sizeof entry->engines))
        return false;
    entry->plugin.engines = &entry->engines;
    missing = find_callback(&entry->engines, required, sizeof required / sizeof *required, false);
    if (missing)
        return bp_broken(&load->why, table_library(load),
                         "a required callback of engines is missing: expected %s, got NULL; write "
                         "it, or leave engines out",
                         missing);
    return check_known(load, &entry->engines) &&
           check_group(load, &entry->engines, contexts, sizeof contexts / sizeof *contexts);
}

static int compare_names(const void *a, const void *b)
{
    const struct bp_kernel *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static bool check_unique(struct bp_load *load)
{
    struct bp_plugin_entry *entry = load->entry;
    const struct bp_kernel **sorted = malloc(entry->n_kernel * sizeof *sorted);
    struct bp_quote quote;
    bool good = true;

    if (!sorted) return bp_no_memory(&load->why, table_library(load));
    for (uint32_t i = 0; i < entry->n_kernel; i++) sorted[i] = &entry->kernel[i];
    qsort(sorted, entry->n_kernel, sizeof *sorted, compare_names);
    for (uint32_t i = 1; i < entry->n_kernel && good; i++)
        if (!strcmp(sorted[i - 1]->name, sorted[i]->name))
            good = bp_broken(&load->why, table_library(load),
                             "two kernel rows have one name: expected different ones, got %s "
                             "twice; rename one",
                             bp_quote(&quote, sorted[i]->name));
    free(sorted);
    return good;
}

static bool check_row(struct bp_load *load, uint32_t index)
{
    const struct bp_kernel *row = &load->entry->kernel[index];
    const char *missing = !row->op                    ? "op"
                          : !row->name || !*row->name ? "name"
                          : !row->launch              ? "launch"
                                                      : NULL;
    struct bp_quote quote;

    if (!missing) return true;
    return bp_broken(&load->why, table_library(load),
                     "kernel row %u (%s) is not complete: expected %s, got NULL; fill it in", index,
                     bp_quote(&quote, row->name), missing);
}

bool bp_table_kernels(struct bp_load *load)
{
    struct bp_plugin_entry *entry = load->entry;
    const struct bp_kernels *kernels = &load->kernels;
    size_t used;

    if (!entry->plugin.kernels) return true;
    if (!copy_table(load, "bp_kernels", entry->plugin.kernels, END(bp_kernels, stride),
                    &load->kernels, sizeof load->kernels))
        return false;
    entry->plugin.kernels = NULL; /* only the rows are used from now on */
    if (!kernels->count) return true;
    if (!kernels->first || kernels->count > MAX_ROWS || kernels->stride < END(bp_kernel, launch) ||
        kernels->stride > MAX_TABLE || kernels->stride % sizeof(void *))
        return bp_broken(
            &load->why, table_library(load),
            "its kernel rows cannot be walked: expected first, count up to %d, stride %zu to "
            "%d, got %s, %zu, %zu; set stride to sizeof(struct bp_kernel)",
            MAX_ROWS, END(bp_kernel, launch), MAX_TABLE, kernels->first ? "first" : "NULL",
            kernels->count, kernels->stride);

    entry->kernel = calloc(kernels->count, sizeof *entry->kernel);
    entry->kernel_row = calloc(kernels->count, sizeof *entry->kernel_row);
    entry->kernel_reason = calloc(kernels->count, sizeof *entry->kernel_reason);
    entry->kernel_layouts = calloc(kernels->count, sizeof *entry->kernel_layouts);
    if (!entry->kernel || !entry->kernel_row || !entry->kernel_reason || !entry->kernel_layouts)
        return bp_no_memory(&load->why, table_library(load));
    entry->n_kernel = (uint32_t)kernels->count;

    used = kernels->stride < sizeof *entry->kernel ? kernels->stride : sizeof *entry->kernel;
    for (uint32_t i = 0; i < entry->n_kernel; i++) {
        const void *row = (const char *)kernels->first + i * kernels->stride;
        entry->kernel_row[i] = row;
        memcpy(&entry->kernel[i], row, used);
        if (!check_row(load, i)) return false;
    }
    return check_unique(load);
}

/* Copies the rules of the operator of that name; false: it has none. */
static bool table_find_rules(const struct bp_kernels *k, const char *op, struct bp_op_rules *out)
{
    size_t used = k->rule_stride < sizeof *out ? k->rule_stride : sizeof *out;

    for (size_t i = 0; op && i < k->rule_count; i++) {
        *out = (struct bp_op_rules){0};
        memcpy(out, (const char *)k->rule + i * k->rule_stride, used);
        if (!strcmp(out->op, op)) return true;
    }
    return false;
}

/* Whether the plugin defines an operator of that name. */
static bool table_defines(const struct bp_kernels *k, const char *name)
{
    for (size_t i = 0; i < k->op_count; i++) {
        const struct bp_operator *op = (const void *)((const char *)k->op + i * k->op_stride);
        if (op->info.name && !strcmp(op->info.name, name)) return true;
    }
    return false;
}

/* Checks that the rules can be walked, and that each names an operator of the plugin, once. */
static bool table_check_rules(struct bp_load *load)
{
    const struct bp_kernels *k = &load->kernels;
    struct bp_quote quote;

    if (!k->rule_count) return true;
    if (!k->rule || k->rule_count > MAX_ROWS || k->rule_stride < END(bp_op_rules, count) ||
        k->rule_stride > MAX_TABLE || k->rule_stride % sizeof(void *))
        return bp_broken(
            &load->why, table_library(load),
            "the rules of its operators cannot be walked: expected rule, rule_count up to %d, "
            "rule_stride %zu to %d, got %s, %zu, %zu; set rule_stride to sizeof(struct "
            "bp_op_rules)",
            MAX_ROWS, END(bp_op_rules, count), MAX_TABLE, k->rule ? "rule" : "NULL", k->rule_count,
            k->rule_stride);
    for (size_t i = 0; i < k->rule_count; i++) {
        const struct bp_op_rules *rules = (const void *)((const char *)k->rule +
                                                         i * k->rule_stride);
        bool twice = false;
        for (size_t j = 0; rules->op && j < i; j++)
            twice |= !strcmp(*(const char *const *)((const char *)k->rule + j * k->rule_stride),
                             rules->op);
        if (rules->op && !twice && table_defines(k, rules->op)) continue;
        return bp_broken(&load->why, table_library(load),
                         "rules %zu are of no operator: expected the name of an operator of this "
                         "plugin, and each name once, got %s; correct the plugin",
                         i, bp_quote(&quote, rules->op));
    }
    return true;
}

/* Registers the operators that the plugin defines. They stay registered even if the plugin is
 * refused later: a later step may fail for this core only, and the library is never unmapped. */
bool bp_table_operators(struct bp_load *load)
{
    const struct bp_kernels *k = &load->kernels;
    size_t used = k->op_stride < sizeof *k->op ? k->op_stride : sizeof *k->op;
    struct bp_quote quote;

    if (!k->op_count) return table_check_rules(load);
    if (!k->op || k->op_count > MAX_ROWS || k->op_stride < END(bp_operator, info.bound_axis) ||
        k->op_stride > MAX_TABLE || k->op_stride % sizeof(void *))
        return bp_broken(
            &load->why, table_library(load),
            "its operators cannot be walked: expected op, op_count up to %d, op_stride %zu to %d, "
            "got %s, %zu, %zu; set op_stride to sizeof(struct bp_operator)",
            MAX_ROWS, END(bp_operator, info.bound_axis), MAX_TABLE, k->op ? "op" : "NULL",
            k->op_count, k->op_stride);
    if (!table_check_rules(load)) return false;
    for (size_t i = 0; i < k->op_count; i++) {
        struct bp_operator op = {0};
        struct bp_op_rules rules;
        const char *why;
        memcpy(&op, (const char *)k->op + i * k->op_stride, used);
        why = bp_plugin_op_add(&op, table_find_rules(k, op.info.name, &rules) ? &rules : NULL);
        if (why)
            return bp_broken(&load->why, table_library(load),
                             "operator %zu (%s) cannot be taken: %s; correct the plugin", i,
                             bp_quote(&quote, op.info.name), why);
    }
    return true;
}

/* A name that an earlier pattern or rewrite has disables the later one. */
static bool pattern_is_twin(const struct bp_plugin_entry *entry, const struct bp_plugin_pattern *p)
{
    for (uint32_t i = 0; i < entry->n_pattern; i++)
        if (!strcmp(entry->pattern[i].name, p->name)) return true;
    return entry->rewrite && !strcmp(entry->rewrite->name, p->name);
}

/* Takes the plugin's own pass. */
static bool table_rewrite(struct bp_load *load, const struct bp_passes *passes)
{
    struct bp_plugin_entry *entry = load->entry;
    size_t size = strlen(entry->plugin.name) + sizeof ".rewrite";

    if (!passes->rewrite) return true;
    entry->rewrite = calloc(1, sizeof *entry->rewrite);
    if (!entry->rewrite) return bp_no_memory(&load->why, table_library(load));
    entry->rewrite->name = malloc(size);
    if (!entry->rewrite->name) return bp_no_memory(&load->why, table_library(load));
    snprintf(entry->rewrite->name, size, "%s.rewrite", entry->plugin.name);
    entry->rewrite->entry = entry;
    entry->rewrite->run = passes->rewrite;
    entry->rewrite->priority = passes->rewrite_priority;
    entry->rewrite->allow = passes->rewrite_allow;
    return true;
}

bool bp_table_passes(struct bp_load *load)
{
    struct bp_plugin_entry *entry = load->entry;
    struct bp_passes passes;

    if (!entry->plugin.passes) return true;
    if (!copy_table(load, "bp_passes", entry->plugin.passes, END(bp_passes, stride), &passes,
                    sizeof passes))
        return false;
    entry->plugin.passes = NULL; /* only the patterns are used from now on */
    if (!table_rewrite(load, &passes)) return false;
    if (!passes.count) return true;
    if (!passes.first || passes.count > BP_PLUGIN_PATTERNS ||
        passes.stride < END(bp_pattern, n_between) || passes.stride > MAX_TABLE ||
        passes.stride % sizeof(void *))
        return bp_broken(
            &load->why, table_library(load),
            "its patterns cannot be walked: expected first, count up to %d, stride %zu to %d, got "
            "%s, %zu, %zu; set stride to sizeof(struct bp_pattern)",
            BP_PLUGIN_PATTERNS, END(bp_pattern, n_between), MAX_TABLE,
            passes.first ? "first" : "NULL", passes.count, passes.stride);
    entry->pattern = calloc(passes.count, sizeof *entry->pattern);
    if (!entry->pattern) return bp_no_memory(&load->why, table_library(load));
    for (size_t i = 0; i < passes.count; i++) {
        struct bp_plugin_pattern *p = &entry->pattern[i];
        bool good = bp_plugin_pattern_init(
            p, entry, (const void *)((const char *)passes.first + i * passes.stride),
            passes.stride);
        if (good && !p->reason && pattern_is_twin(entry, p))
            good = (p->reason = strdup("another pass of the plugin has its name")) != NULL;
        entry->n_pattern++;
        if (!good) return bp_no_memory(&load->why, table_library(load));
        if (p->reason)
            bp_core_log(entry->core, BP_LOG_WARN, "pattern %s is not used: %s", p->name,
                        p->reason);
    }
    return true;
}

bool bp_table_layouts(struct bp_load *load)
{
    struct bp_plugin_entry *entry = load->entry;
    const struct bp_kernels *k = &load->kernels;
    size_t used = k->layout_stride < sizeof *k->layout ? k->layout_stride : sizeof *k->layout;

    if (!k->layout_count) return true;
    if (!k->layout || k->layout_count > UINT16_MAX || k->layout_stride < END(bp_layout, bytes) ||
        k->layout_stride > MAX_TABLE || k->layout_stride % sizeof(void *))
        return bp_broken(
            &load->why, table_library(load),
            "its layouts cannot be walked: expected layout, layout_count up to %d, layout_stride "
            "%zu to %d, got %s, %zu, %zu; set layout_stride to sizeof(struct bp_layout)",
            UINT16_MAX, END(bp_layout, bytes), MAX_TABLE, k->layout ? "layout" : "NULL",
            k->layout_count, k->layout_stride);
    entry->layout = calloc(k->layout_count, sizeof *entry->layout);
    if (!entry->layout) return bp_no_memory(&load->why, table_library(load));
    entry->n_layout = (uint32_t)k->layout_count;
    for (uint32_t i = 0; i < entry->n_layout; i++)
        memcpy(&entry->layout[i], (const char *)k->layout + i * k->layout_stride, used);
    return true;
}
