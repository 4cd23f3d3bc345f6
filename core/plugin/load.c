/* SPDX-License-Identifier: Apache-2.0 */
/* load.c: loads a plugin step by step, from the library's name in a manifest to its devices. The
 * first step that fails writes the only message. All earlier steps are undone, but the library is
 * never unmapped: threads of the plugin or of its vendor's libraries may still run in it. */
#include "../base/activity.h"
#include "loader.h"
#include "../call/kernel_layout.h"
#include "row_filter.h"
#include "row_layouts.h"
#include "row_types.h"
#include <backplane/call.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_DEVICES = 65535
}; /* struct bp_view has 16 bits for a device's index */

static const char *load_library(const struct bp_load *load)
{
    return load->entry->manifest.library;
}

static bool load_check_exists(struct bp_load *load)
{
    char shown[BP_SHOWN_PATH];
    struct stat file;

    if (!stat(load_library(load), &file)) return true;
    return bp_broken(
        &load->why, load_library(load),
        "there is no such library: expected a shared object, got \"%s\"; %s%s", strerror(errno),
        *load->entry->manifest_path ? "install it, or correct \"library\" in " : "correct the path",
        bp_show(shown, sizeof shown, load->entry->manifest_path));
}

/* The manifest has the ABI version, so the library need not be opened for this check. */
static bool check_abi(struct bp_load *load)
{
    const struct bp_plugin_entry *entry = load->entry;

    if (!*entry->manifest_path || entry->manifest.abi_major == BP_ABI_MAJOR) return true;
    return bp_broken(&load->why, entry->manifest_path,
                     "of another plugin ABI, says its manifest: expected major %d, got %u; "
                     "install the build for this version",
                     BP_ABI_MAJOR, entry->manifest.abi_major);
}

static bool check_trust(struct bp_load *load)
{
    const char *sha256 = load->entry->manifest.sha256;

    return bp_trust_check(load_library(load), &load->file, &load->why) &&
           (!sha256 || bp_file_hash(load_library(load), &load->file, sha256, &load->why));
}

static bool check_features(struct bp_load *load)
{
    const char *missing = bp_features_find_missing(&load->entry->manifest);

    if (!missing) return true;
    return bp_absent(&load->why, load_library(load),
                     "the processor lacks what it needs: expected %s in /proc/cpuinfo, got a "
                     "processor without it; use a build for this processor",
                     missing);
}

static bool load_report_unopened(struct bp_load *load, const char *text)
{
    enum bp_library_cause cause = bp_library_cause(load_library(load), text);
    const char *advice = cause == BP_LIBRARY_LACKS
                             ? "install that library, or link with an rpath to it"
                             : "build it again for this system, and link it with -Wl,-z,defs, "
                               "which finds symbols that are missing";
    char shown[BP_SHOWN_REASON];

    if (cause == BP_LIBRARY_MEMORY) return bp_no_memory(&load->why, load_library(load));
    return bp_broken(
        &load->why, load_library(load),
        "cannot be opened: expected all libraries and symbols that it needs, got \"%s\"; %s",
        bp_show(shown, sizeof shown, text), advice);
}

static bool is_file(const char *path, const struct stat *file)
{
    struct stat found;

    return !stat(path, &found) && found.st_dev == file->st_dev && found.st_ino == file->st_ino;
}

/* Whether bp_plugin_get belongs to the file that was checked. It could also belong to a library
 * that the plugin depends on, or to a file that had the plugin's name before: the dynamic linker
 * returns an open library if the name is equal. */
static bool load_is_checked(struct bp_load *load)
{
    errno = 0;
    char *mapped = bp_mapped_file_find(load->symbol), shown[BP_SHOWN_PATH], expected[BP_SHOWN_PATH];
    bool good = mapped && is_file(mapped, &load->file);
    Dl_info info = {0};

    if (!mapped && errno == ENOMEM) bp_no_memory(&load->why, load_library(load));
    else if (!mapped)
        bp_broken(&load->why, load_library(load),
                  "what is mapped of it cannot be known: expected it in /proc/self/maps, got "
                  "nothing; mount /proc");
    else if (!good && dladdr(load->symbol, &info) && is_file(info.dli_fname, &load->file))
        bp_broken(&load->why, load_library(load),
                  "replaced since it was loaded: expected inode %llu, got %s, which this process "
                  "has open; restart the process",
                  (unsigned long long)load->file.st_ino, bp_show(shown, sizeof shown, mapped));
    else if (!good)
        bp_broken(&load->why, load_library(load),
                  "its bp_plugin_get is not in the file that was checked: expected %s, got "
                  "%s; export it from the plugin itself",
                  bp_show(expected, sizeof expected, load_library(load)),
                  bp_show(shown, sizeof shown, info.dli_fname ? info.dli_fname : mapped));
    free(mapped);
    return good;
}

static bool load_open_library(struct bp_load *load)
{
    char *text = NULL;
    bool opened;

    if (!bp_file_elf(load_library(load), &load->file, &load->why)) return false;
    load->symbol = bp_library_open_symbol(load_library(load), "bp_plugin_get", &opened, &text);
    if (!opened) load_report_unopened(load, text);
    free(text);
    return opened;
}

static bool load_get_table(struct bp_load *load)
{
    const struct bp_plugin *(*get)(void);

    if (!load->symbol)
        return bp_broken(&load->why, load_library(load),
                         "not a plugin: expected the exported symbol bp_plugin_get, got a "
                         "library without it; export it with BP_EXPORT");
    if (!load_is_checked(load)) return false;
    memcpy(&get, &load->symbol, sizeof get);
    load->table = get();
    if (load->table) return true;
    return bp_broken(&load->why, load_library(load),
                     "bp_plugin_get gave nothing: expected a struct bp_plugin, got NULL; "
                     "return a constant table");
}

/* Reports that a callback of the plugin failed with status. The message contains the plugin's own
 * reason, or says that it gave none. */
static bool load_report_callback(struct bp_load *load, const char *callback, enum bp_status status)
{
    const char *name = load->entry->plugin.name;
    char reason[BP_SHOWN_REASON];

    status = bp_error_leave(status, name, callback);
    bp_show(reason, sizeof reason, bp_error_message());
    if (status == BP_ERR_ABSENT)
        return bp_absent(&load->why, load_library(load),
                         "%s finds nothing to drive: expected a device and its driver, got "
                         "\"%s\"; install the driver if there is such hardware",
                         callback, reason);
    bp_broken(&load->why, load_library(load), "%s failed: expected BP_OK, got %s, \"%s\"; %s",
              callback, bp_status_name(status), reason,
              status == BP_ERR_MEMORY ? "free memory and ask again"
                                      : "see the manual of the plugin");
    if (status == BP_ERR_MEMORY) load->why.memory = true;
    return false;
}

static bool load_create(struct bp_load *load)
{
    struct bp_plugin_entry *entry = load->entry;
    enum bp_status status;

    bp_host_init(entry);
    bp_error_enter();
    status = entry->plugin.create(&entry->host, &entry->self);
    if (status) return load_report_callback(load, "create", status);
    return load->created = true;
}

static bool count_devices(struct bp_load *load)
{
    struct bp_plugin_entry *entry = load->entry;
    enum bp_status status;
    uint32_t count = 0;

    if (bp_addon_is(entry)) return true;
    bp_error_enter();
    status = entry->runtime.device_count(entry->self, &count);
    if (status) return load_report_callback(load, "device_count", status);
    if (!count)
        return bp_absent(&load->why, load_library(load),
                         "no device: expected at least one, got 0; nothing is wrong if there "
                         "is no such hardware");
    if (count > MAX_DEVICES)
        return bp_broken(
            &load->why, load_library(load),
            "device_count cannot be right: expected at most %d, got %u; correct the plugin",
            MAX_DEVICES, count);
    entry->n_device = count;
    return true;
}

/* Returns why this core cannot use a kernel row, or NULL. out_memory: there was no memory for the
 * reason. */
static char *row_find_reason(const struct bp_plugin_entry *entry, struct bp_kernel *row,
                             bool *out_memory)
{
    const struct bp_opinfo *op = bp_opinfo_find(row->op);
    char *reason = NULL, text[500];
    struct bp_quote quote;
    int made = 0;

    if (!op)
        made = asprintf(&reason, "this version (%s) has no operator %s", bp_version(),
                        bp_quote(&quote, row->op));
    else if (strcmp(op->name, row->op))
        made = asprintf(&reason, "%s is another name of the operator: rows say \"%s\"",
                        bp_quote(&quote, row->op), op->name);
    else if (row->attrs_size > op->attrs_size || row->in_known > op->n_in ||
             row->out_known > op->n_out)
        made = asprintf(&reason, "made for a newer form of %s than this version (%s) has", op->name,
                        bp_version());
    else if (bp_row_types_find_misfit(op, row->types, text, sizeof text) ||
             bp_row_layouts_find_misfit(entry, row, text, sizeof text))
        made = asprintf(&reason, "%s", text);
    *out_memory = made < 0;
    return made < 0 ? NULL : reason;
}

static int compare_rows(const void *a, const void *b)
{
    const struct bp_kernel *x = *(const struct bp_kernel *const *)a;
    const struct bp_kernel *y = *(const struct bp_kernel *const *)b;

    if (x->op != y->op) return (uintptr_t)x->op < (uintptr_t)y->op ? -1 : 1;
    if (x->priority != y->priority) return x->priority > y->priority ? -1 : 1;
    return x < y ? -1 : x > y;
}

/* Sorts the kernel rows by operator, the best first. */
static bool load_sort_rows(struct bp_load *load)
{
    struct bp_plugin_entry *entry = load->entry;

    entry->kernel_best = calloc(entry->n_kernel + 1, sizeof *entry->kernel_best);
    if (!entry->kernel_best) return bp_no_memory(&load->why, load_library(load));
    for (uint32_t i = 0; i < entry->n_kernel; i++) entry->kernel_best[i] = &entry->kernel[i];
    qsort(entry->kernel_best, entry->n_kernel, sizeof *entry->kernel_best, compare_rows);
    return true;
}

/* Finds the rows whose layouts cannot be converted, after all other reasons are known: rows of
 * assign that convert are among them. */
static bool load_check_layouts(struct bp_load *load)
{
    struct bp_plugin_entry *entry = load->entry;
    char text[200];

    for (uint32_t i = 0; i < entry->n_kernel; i++) {
        if (!bp_kernel_has_layouts(&entry->kernel[i]) || entry->kernel_reason[i]) continue;
        entry->kernel_layouts[i] = bp_row_layouts_text(entry, &entry->kernel[i]);
        if (!entry->kernel_layouts[i]) return bp_no_memory(&load->why, load_library(load));
    }
    for (uint32_t i = 0; i < 2 * entry->n_kernel; i++) { /* last the rows that convert */
        uint32_t row = i % entry->n_kernel;
        bool converts = !strcmp(entry->kernel[row].op, "assign");
        if (converts != (i >= entry->n_kernel) || !entry->kernel_layouts[row] ||
            !bp_row_layouts_find_lost(entry, &entry->kernel[row], text, sizeof text))
            continue;
        entry->kernel_reason[row] = strdup(text);
        if (!entry->kernel_reason[row]) return bp_no_memory(&load->why, load_library(load));
    }
    return true;
}

/* Calls the plugin's `usable` to find the kernel rows that this machine can run. */
static bool load_check_rows(struct bp_load *load)
{
    struct bp_plugin_entry *entry = load->entry;

    for (uint32_t i = 0; i < entry->n_kernel; i++) {
        bool memory = false;
        enum bp_status status;
        char *reason = row_find_reason(entry, &entry->kernel[i], &memory);
        const struct bp_opinfo *op = bp_opinfo_find(entry->kernel[i].op);

        /* The copied row refers to the core's own name string, so that rows of an operator are
         * found without strcmp. */
        if (op && !strcmp(op->name, entry->kernel[i].op)) entry->kernel[i].op = op->name;
        if (!reason && !memory && load->kernels.usable) {
            bp_error_enter();
            status = load->kernels.usable(entry->self, entry->kernel_row[i]);
            bp_error_leave(status, entry->plugin.name, "usable");
            if (status == BP_ERR_MEMORY) memory = true;
            else if (status) memory = !(reason = strdup(bp_error_message()));
        }
        if (memory) return bp_no_memory(&load->why, load_library(load));
        entry->kernel_reason[i] = reason;
    }
    entry->n_own = entry->n_kernel;
    return bp_row_filter_apply(load, 0) && load_check_layouts(load);
}

void bp_plugin_step(struct bp_plugin_entry *entry, enum bp_plugin_step step)
{
    static const char *const words[] = {
#define X(NAME, word, text) #word,
        BP_PLUGIN_STEPS(X)
#undef X
    };
    char shown[BP_SHOWN_PATH];

    pthread_mutex_lock(&entry->core->lock);
    entry->step = step;
    pthread_mutex_unlock(&entry->core->lock);
    if (step < BP_STEP_COUNT)
        bp_core_log(entry->core, BP_LOG_DEBUG, "%s: step %s",
                    bp_show(shown, sizeof shown, entry->manifest.library), words[step]);
}

/* Runs one step of loading. Steps in which the plugin's code runs may end or block the process, so
 * they are recorded as activities. */
static bool load_run_check(struct bp_load *load, enum bp_plugin_step step,
                           bool (*check)(struct bp_load *))
{
    static const uint32_t activity[BP_STEP_COUNT] = {
        [BP_STEP_FILE] = BP_ACTIVITY_COUNT,       [BP_STEP_MANIFEST] = BP_ACTIVITY_COUNT,
        [BP_STEP_TRUST] = BP_ACTIVITY_COUNT,      [BP_STEP_OPEN] = BP_ACTIVITY_OPEN,
        [BP_STEP_ENTRY] = BP_ACTIVITY_ENTRY,      [BP_STEP_VERSION] = BP_ACTIVITY_VERSION,
        [BP_STEP_CREATE] = BP_ACTIVITY_CREATE,    [BP_STEP_DEVICES] = BP_ACTIVITY_DEVICES,
    };
    uint32_t note;
    bool good;

    if (activity[step] != BP_ACTIVITY_COUNT) {
        note = bp_activity_begin(activity[step], load->entry->manifest.name, NULL);
        good = check(load);
        bp_activity_end(note);
        return good;
    }
    /* No code of the plugin runs in this step: errno is of the core's own calls. */
    errno = 0;
    good = check(load);
    if (!good && errno == ENOMEM) load->why.memory = true;
    return good;
}

/* Loads the entry step by step. If host memory runs out, the entry stays as it was, so that a later
 * call loads it again. So does an add-on whose owner is not known yet. */
static enum bp_status load_entry(struct bp_plugin_entry *entry, struct bp_plugin_entry *owner)
{
    static const struct {
        enum bp_plugin_step step;
        bool (*check)(struct bp_load *);
    } checks[] = {
        {BP_STEP_FILE, load_check_exists},
        {BP_STEP_MANIFEST, check_abi},
        {BP_STEP_MANIFEST, check_features},
        {BP_STEP_TRUST, check_trust},
        {BP_STEP_OPEN, load_open_library},
        {BP_STEP_ENTRY, load_get_table},
        {BP_STEP_VERSION, bp_table_check},
        {BP_STEP_VERSION, bp_table_manifest},
        {BP_STEP_VERSION, bp_table_runtime},
        {BP_STEP_VERSION, bp_table_captures},
        {BP_STEP_VERSION, bp_table_ccl},
        {BP_STEP_VERSION, bp_table_engines},
        {BP_STEP_VERSION, bp_table_profiler},
        {BP_STEP_VERSION, bp_table_kernels},
        {BP_STEP_VERSION, bp_table_layouts},
        {BP_STEP_VERSION, bp_addon_fits},
        {BP_STEP_VERSION, bp_table_operators},
        {BP_STEP_VERSION, bp_table_passes},
        {BP_STEP_VERSION, bp_addon_patterns},
        {BP_STEP_CREATE, load_create},
        {BP_STEP_DEVICES, count_devices},
        {BP_STEP_DEVICES, load_check_rows},
        {BP_STEP_DEVICES, bp_engine_rows_add},
        {BP_STEP_DEVICES, bp_addons_load},
        {BP_STEP_DEVICES, load_sort_rows},
        {BP_STEP_DEVICES, bp_row_filter_report},
    };
    struct bp_load load = {.entry = entry, .owner = owner, .load_addon = load_entry};
    bool good = true;

    for (size_t i = 0; good && i < sizeof checks / sizeof *checks; i++) {
        if (!i || checks[i].step != checks[i - 1].step) bp_plugin_step(entry, checks[i].step);
        good = load_run_check(&load, checks[i].step, checks[i].check);
    }
    if (!good) {
        if (load.created) bp_plugin_destroy_instance(entry);
        bp_plugin_clear_tables(entry);
    }
    if (load.postponed) return BP_OK;
    if (!good && load.why.memory) {
        bp_error_write("%s", load.why.text ? load.why.text
                                           : "not enough host memory to load a plugin");
        free(load.why.text);
        return BP_ERR_MEMORY;
    }
    bp_plugin_set_result(entry, &load.why);
    return entry->status;
}

enum bp_status bp_plugin_load(struct bp_plugin_entry *entry)
{
    enum bp_status status;
    char *message;
    bool is_addon;

    TRY(bp_process_busy_begin());
    pthread_mutex_lock(&entry->lock);
    status = entry->status;
    if (entry->state == BP_PLUGIN_UNPROBED && !entry->manifest.adds_to) {
        /* Messages that plugins write before a success are no failure of this call: the previous
         * message is restored. */
        message = strdup(bp_error_message());
        status = load_entry(entry, NULL);
        if (status == BP_OK && message) bp_error_write("%s", message);
        free(message);
        if (status == BP_OK && entry->plugin.create)
            bp_exit_reregister((const void *)(uintptr_t)entry->plugin.create);
    }
    is_addon = entry->state == BP_PLUGIN_UNPROBED && entry->manifest.adds_to;
    pthread_mutex_unlock(&entry->lock);
    if (is_addon) status = bp_addon_load(entry, bp_plugin_load);
    bp_process_busy_end();
    if (status == BP_ERR_MEMORY || status == BP_ERR_NOT_FOUND) return status;
    return status ? bp_error(status, "%s", entry->reason) : BP_OK;
}
