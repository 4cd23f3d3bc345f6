/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.c: tests the plugin's shared object. Each case runs in its own process in which the plugin
 * has not been loaded; place->device is NULL. */
#include "suites.h"
#include "../elf_symbols.h"
#include <backplane/plugin.h>
#include <backplane/runtime.h>
#include <backplane/kernel.h>
#include <cjson/cJSON.h>
#include <ctype.h>
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef const struct bp_plugin *get_fn(void);

enum { ROW_NAME = 64 }; /* bytes of a row's name, including the final zero */
static const char ROW_LETTERS[] = "abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";

/* Maps the library as the core does and returns the plugin's entry function. NULL: the case has
 * failed. */
static get_fn *plugin_entry(struct check *c)
{
    void *library = dlopen(c->fixture->library, RTLD_NOW | RTLD_LOCAL);
    get_fn *get = NULL;
    void *symbol;

    if (!check_that(c, library != NULL, "%s: %s", c->fixture->library, library ? "" : dlerror()))
        return NULL;
    symbol = dlsym(library, "bp_plugin_get");
    memcpy(&get, &symbol, sizeof get); /* ISO C has no cast for this */
    check_that(c, get != NULL, "%s: it has no bp_plugin_get", c->fixture->library);
    return get;
}

static const struct bp_plugin *plugin_struct(struct check *c)
{
    get_fn *get = plugin_entry(c);
    const struct bp_plugin *p = get ? get() : NULL;

    if (get) check_that(c, p != NULL, "bp_plugin_get returned NULL");
    return p;
}

static void plugin_symbols(struct check *c, const int64_t *arg)
{
    char names[600];
    size_t n;

    (void)arg;
    if (!check_that(c, elf_exports(c->fixture->library, names, sizeof names, &n), "%s: %s",
                    c->fixture->library, names))
        return;
    check_that(c, n == 1 && !strcmp(names, "bp_plugin_get"),
               "%s exports %zu symbols, expected bp_plugin_get alone: link with a version script "
               "{ global: bp_plugin_get; local: *; }; it exports: %s",
               c->fixture->library, n, names);
}

static void plugin_pure(struct check *c, const int64_t *arg)
{
    get_fn *get = plugin_entry(c);
    const struct bp_plugin *first, *second;
    struct bp_plugin copy;

    (void)arg;
    if (!get) return;
    first = get();
    if (!check_that(c, first != NULL, "bp_plugin_get returned NULL")) return;
    memset(&copy, 0, sizeof copy);
    memcpy(&copy, first, first->size < sizeof copy ? first->size : sizeof copy);
    second = get();
    check_that(c, first == second, "bp_plugin_get returned %p, then %p: it must be pure",
               (const void *)first, (const void *)second);
    check_that(c,
               second &&
                   !memcmp(&copy, second, second->size < sizeof copy ? second->size : sizeof copy),
               "what bp_plugin_get returns changed from call to call");
}

static bool has_text(struct check *c, const char *text, const char *field)
{
    return check_that(c, text && *text && strlen(text) < 64, "%s is %s, expected a short text",
                      field, text ? *text ? "too long" : "empty" : "NULL");
}

static bool name_is_good(const char *name)
{
    for (; *name; name++)
        if (!islower((unsigned char)*name) && !isdigit((unsigned char)*name) && *name != '_')
            return false;
    return true;
}

static void plugin_tables(struct check *c, const int64_t *arg)
{
    const struct bp_plugin *p = plugin_struct(c);
    const struct bp_runtime *r;

    (void)arg;
    if (!p) return;
    check_that(c, p->size >= offsetof(struct bp_plugin, kernels) && p->size <= 4096,
               "plugin.size is %zu, expected sizeof(struct bp_plugin), %zu here", p->size,
               sizeof *p);
    check_that(c, p->abi_major == BP_ABI_MAJOR, "plugin.abi_major is %u, expected %d", p->abi_major,
               BP_ABI_MAJOR);
    check_that(c, p->needs_minor <= p->abi_minor,
               "plugin.needs_minor is %u, more than its abi_minor of %u", p->needs_minor,
               p->abi_minor);
    if (has_text(c, p->name, "plugin.name"))
        check_that(c, name_is_good(p->name), "plugin.name is '%s', expected a-z, 0-9 and _",
                   p->name);
    if (has_text(c, p->kind, "plugin.kind"))
        check_that(c, name_is_good(p->kind), "plugin.kind is '%s', expected a-z, 0-9 and _",
                   p->kind);
    has_text(c, p->version, "plugin.version");
    check_that(c, p->create && p->destroy, "plugin.create or plugin.destroy is NULL");
    r = p->runtime;
    if (!check_that(c, r != NULL, "plugin.runtime is NULL: it is required")) return;
    check_that(c, r->size >= offsetof(struct bp_runtime, stream_create) && r->size <= 4096,
               "runtime.size is %zu, expected sizeof(struct bp_runtime), %zu here", r->size,
               sizeof *r);
    check_that(c,
               r->device_count && r->device_properties && r->memory_allocate && r->memory_free &&
                   r->copy_in && r->copy_out && r->copy_within && r->synchronize,
               "one of the eight required callbacks of runtime is NULL");
    if (r->size < sizeof *r) return;
    check_that(c, !r->stream_create == !r->stream_destroy,
               "runtime has one of stream_create, stream_destroy");
    int events = !!r->event_create + !!r->event_destroy + !!r->event_record + !!r->event_query +
                 !!r->event_wait;
    check_that(c, events == 0 || events == 5,
               "runtime has %d of the five event callbacks, expected all or none", events);
}

static void no_log(void *ctx, uint32_t level, const char *text)
{
    (void)ctx, (void)level,
        (void)text; /* messages of host->log are no output of the plugin */
}

/* Loads the plugin and opens its device, as an app does, then calls `look`. */
static void with_device(struct check *c, void (*look)(struct check *c, struct bp_device *device))
{
    struct bp_core_options options = {.size = sizeof options, .log = no_log};
    struct bp_core *core = NULL;
    struct bp_device *device = NULL;
    uint32_t index;

    if (plugin_struct(c) && check_ok(c, bp_core_create(&options, &core), "bp_core_create") &&
        check_ok(c, bp_core_load_path(core, c->fixture->library, &index), "bp_core_load_path") &&
        check_ok(c, bp_device_create_at(core, index, 0, &device), "bp_device_create_at"))
        look(c, device);
    bp_device_destroy(device);
    bp_core_destroy(core);
}

/* The core reports the rows whose dtypes do not fit their operator. */
static void row_dtypes(struct check *c, struct bp_device *device)
{
    struct bp_kernel_info info = {.size = sizeof info};

    for (uint32_t i = 0; i < bp_device_kernels(device); i++)
        if (!bp_device_kernel(device, i, &info))
            check_that(c, !kernel_is_misfit(info.reason), "row %s: %s", info.name, info.reason);
}

/* Finds an operator among those that the plugin defines, or among all. */
static const struct bp_opinfo *find_op(const struct bp_kernels *k, const char *name)
{
    for (size_t i = 0; BP_HAS(k, op_stride) && i < k->op_count; i++) {
        const char *at = (const char *)k->op + i * k->op_stride;
        const struct bp_operator *own = (const void *)at;
        if (own->info.name && !strcmp(own->info.name, name)) return &own->info;
    }
    return bp_opinfo_find(name);
}

/* Row names are used in case ids, on command lines and in reports, behind an '@' and without
 * quotes, so only some characters are allowed. */
static bool row_name_is_good(struct check *c, const struct bp_kernel *row, size_t i)
{
    size_t n = strnlen(row->name, ROW_NAME);

    for (size_t at = 0; at < n; at++)
        if (!strchr(ROW_LETTERS, row->name[at]))
            return check_that(c, false,
                              "row %zu: character %zu of its name is 0x%02x, expected letters, "
                              "digits and _ . -",
                              i, at, (unsigned)(unsigned char)row->name[at]);
    return check_that(c, n < ROW_NAME,
                      "row %zu: its name, %.16s..., has no end within %d bytes", i, row->name,
                      ROW_NAME);
}

/* Whether a row states a layout of the plugin. The row may be older than the member. */
static bool row_has_layouts(const struct bp_kernels *k, const struct bp_kernel *row)
{
    bool has = false;

    if (k->stride < sizeof *row) return false;
    for (uint32_t i = 0; row->in_layout && i < row->in_known; i++) has |= row->in_layout[i] > 0;
    for (uint32_t i = 0; row->out_layout && i < row->out_known; i++) has |= row->out_layout[i] > 0;
    return has;
}

static void row_flags(struct check *c, const struct bp_plugin *p, const struct bp_kernel *row)
{
    const uint32_t known = BP_KERNEL_STRIDED | BP_KERNEL_DETERMINISTIC | BP_KERNEL_IN_PLACE |
                           BP_KERNEL_NO_CAPTURE | BP_KERNEL_SAME_SHAPE | BP_KERNEL_RNG;

    check_that(c, !(row->flags & ~known),
               "row %s: flags is 0x%x, which has bits that kernel.h does not define (0x%x)",
               row->name, row->flags, row->flags & ~known);
    check_that(c, !(row->flags & BP_KERNEL_SAME_SHAPE) || p->needs_minor >= 5,
               "row %s: flags has BP_KERNEL_SAME_SHAPE, but plugin.needs_minor is %u: set it to 5, "
               "because older cores do not know the flag",
               row->name, p->needs_minor);
    check_that(c, !row_has_layouts(p->kernels, row) || p->needs_minor >= 10,
               "row %s: in_layout or out_layout has a layout, but plugin.needs_minor is %u: set it "
               "to 10, because older cores call the row with tensors in strides",
               row->name, p->needs_minor);
}

static void plugin_rows(struct check *c, const int64_t *arg)
{
    const struct bp_plugin *p = plugin_struct(c);
    const struct bp_kernels *k = p ? p->kernels : NULL;

    (void)arg;
    if (!k) return;
    check_that(c,
               k->stride >= offsetof(struct bp_kernel, accepts) && k->stride <= 4096 &&
                   k->stride % 8 == 0,
               "kernels.stride is %zu, expected sizeof(struct bp_kernel), %zu here", k->stride,
               sizeof(struct bp_kernel));
    check_that(c, k->first || !k->count, "kernels.first is NULL, but count is %zu", k->count);
    for (size_t i = 0; c->result->outcome == OUTCOME_PASS && i < k->count; i++) {
        const struct bp_kernel *row = (const void *)((const char *)k->first + i * k->stride);
        const struct bp_opinfo *op = row->op ? find_op(k, row->op) : NULL;
        if (!check_that(c, row->name && *row->name && row->op && row->launch,
                        "row %zu has no op, name or launch", i) ||
            !row_name_is_good(c, row, i))
            return;
        row_flags(c, p, row);
        for (size_t other = 0; other < i; other++)
            check_that(
                c,
                strcmp(row->name, ((const struct bp_kernel *)(const void *)((const char *)k->first +
                                                                            other * k->stride))
                                      ->name),
                "rows %zu and %zu have one name, %s", other, i, row->name);
        if (!check_that(c, op && !strcmp(op->name, row->op), "row %s: there is no operator '%s'",
                        row->name, row->op))
            return;
        check_that(c,
                   row->attrs_size == op->attrs_size && row->in_known == op->n_in &&
                       row->out_known == op->n_out,
                   "row %s: attrs_size %u, in_known %u, out_known %u; operator %s has %u, %u, %u: "
                   "write BP_OPROW(%s)",
                   row->name, row->attrs_size, row->in_known, row->out_known, op->name,
                   op->attrs_size, op->n_in, op->n_out, op->name);
    }
    if (c->result->outcome == OUTCOME_PASS) with_device(c, row_dtypes);
}

static cJSON *manifest_read(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *text = calloc(1, 65537);
    cJSON *json = NULL;

    if (file && text && fread(text, 1, 65536, file) > 0) json = cJSON_Parse(text);
    if (file) fclose(file);
    free(text);
    return json;
}

static void manifest_text(struct check *c, const cJSON *json, const char *key, const char *binary)
{
    const char *value = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, key));

    check_that(c, value && binary && !strcmp(value, binary),
               "%s: \"%s\" is '%s', the binary says '%s': write it anew with `bp manifest`",
               c->fixture->manifest, key, value ? value : "(absent)", binary ? binary : "(NULL)");
}

static void plugin_manifest(struct check *c, const int64_t *arg)
{
    const struct bp_plugin *p;
    cJSON *json;

    (void)arg;
    if (!*c->fixture->manifest) {
        check_skip(c, "the plugin was given by its path, and has no manifest beside it");
        return;
    }
    p = plugin_struct(c);
    json = manifest_read(c->fixture->manifest);
    if (p &&
        check_that(c, json != NULL, "%s is no JSON text that can be read", c->fixture->manifest)) {
        manifest_text(c, json, "name", p->name);
        manifest_text(c, json, "kind", p->kind);
        manifest_text(c, json, "version", p->version);
    }
    cJSON_Delete(json);
}

static size_t count_threads(void)
{
    DIR *dir = opendir("/proc/self/task");
    size_t n = 0;

    if (!dir) return 0;
    for (const struct dirent *e; (e = readdir(dir));) n += e->d_name[0] != '.';
    closedir(dir);
    return n;
}

static void plugin_threads(struct check *c, const int64_t *arg)
{
    size_t before = count_threads(), after;

    (void)arg;
    if (!plugin_struct(c)) return;
    after = count_threads();
    check_that(c, before == after,
               "%zu threads before the plugin was loaded, %zu after: start none before create",
               before, after);
}

static void look_away(struct check *c, struct bp_device *device)
{
    (void)c, (void)device;
}

static void plugin_quiet(struct check *c, const int64_t *arg)
{
    int memory = memfd_create("output", MFD_CLOEXEC), saved[2] = {dup(1), dup(2)};
    char text[200];
    ssize_t n;

    (void)arg;
    if (!check_that(c, memory >= 0 && saved[0] >= 0 && saved[1] >= 0,
                    "no descriptors to catch output with"))
        return;
    fflush(NULL);
    dup2(memory, 1);
    dup2(memory, 2);
    with_device(c, look_away);
    fflush(NULL);
    for (int i = 0; i < 2; i++) {
        dup2(saved[i], i + 1);
        close(saved[i]);
    }
    n = pread(memory, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = 0;
    check_that(c, n == 0,
               "the plugin wrote to standard output or error as it was loaded; use host->log: '%s'",
               text);
    close(memory);
}

const struct check_case suite_plugin[] = {
    {"symbols", plugin_symbols},
    {"pure", plugin_pure},
    {"tables", plugin_tables},
    {"rows", plugin_rows},
    {"manifest", plugin_manifest},
    {"threads", plugin_threads},
    {"quiet", plugin_quiet},
    {"memory", plugin_memory},
    {"process", plugin_process},
    {"again", plugin_again},
    {NULL, NULL},
};
