/* SPDX-License-Identifier: Apache-2.0 */
/* passes.c: lists the passes of the compiler and runs them, as BP_PASSES, BP_VALIDATE and
 * BP_DUMP_PASSES say. */
#include "passes.h"

#include "cancel.h"

#include "../plugin/entry.h"
#include "../plugin/patterns.h"

#include <backplane/program.h>
#include <stdlib.h>
#include <string.h>

const struct bp_pass bp_pass_list[] = {
    {"clean", "removes unread nodes, equal computations and identities", bp_pass_clean, 100},
    {"reuse", "shares with the forward what gradients compute again", bp_pass_reuse, 95},
    {"recognise", "replaces expressions by the operators that compute them", bp_pass_recognise, 90},
    {"attention", "replaces two products with a softmax between by attention", bp_pass_attention,
     80},
    {"affine", "merges factors and shifts of channels (batch_norm) into convolutions beside them",
     bp_pass_affine, 70},
    {"fold", "computes what depends on frozen constants only", bp_pass_fold, 60},
    {"engine", "lets engines of the plugin compile groups of nodes as a whole", bp_pass_engine, 55},
    {"product", "computes transposed convolutions whose windows do not overlap as products",
     bp_pass_product, 50},
    {"epilogue", "merges additions and activations into convolutions and products before them",
     bp_pass_epilogue, 40},
    {"layout", "lays images out channels-last where several convolutions follow each other",
     bp_pass_layout, 30},
    {"norm", "writes norms of constant statistics as elementwise operators", bp_pass_norm, 20},
    {"fuse", "merges elementwise operators of one shape into one pass over memory", bp_pass_fuse,
     10},
    {"format", "keeps results in layouts of the plugin between kernels that take them",
     bp_pass_format, 0},
};
const uint32_t bp_pass_count = sizeof bp_pass_list / sizeof *bp_pass_list;
_Static_assert(sizeof bp_pass_list / sizeof *bp_pass_list + BP_PLUGIN_PATTERNS + 1 <= BP_IR_PASSES,
               "room for each pass");

/* Adds the pass of a pattern: behind the passes of its priority, and behind patterns of its
 * priority that have no fewer nodes, but always before format, which is the last pass. */
static void order_add(struct bp_pass_order *order, struct bp_plugin_pattern *p)
{
    uint32_t at = order->n;

    while (at > 0) {
        const struct bp_pass *before = &order->pass[at - 1];
        bool stays = before->priority > p->row.priority ||
                     (before->priority == p->row.priority &&
                      (!before->pattern || before->pattern->row.n_node >= p->row.n_node));
        if (before->run == bp_pass_format) stays = false;
        if (stays) break;
        order->pass[at] = *before;
        at--;
    }
    order->pass[at] = (struct bp_pass){p->name, "replaces a pattern of the plugin",
                                       bp_pass_plugin, p->row.priority, p, NULL};
    order->n++;
}

/* Adds the pass of a plugin behind all passes of its priority. */
static void order_add_rewrite(struct bp_pass_order *order, struct bp_plugin_rewrite *r)
{
    uint32_t at = order->n++;

    for (; at > 0 && order->pass[at - 1].priority < r->priority; at--)
        order->pass[at] = order->pass[at - 1];
    order->pass[at] = (struct bp_pass){r->name, "is a pass of the plugin, which sees the graph",
                                       bp_pass_rewrite, r->priority, NULL, r};
}

/* Adds the patterns of a plugin. A plugin and its add-ons have no more than there is room for. */
static void order_add_all(struct bp_pass_order *order, const struct bp_plugin_entry *entry,
                          bool used)
{
    for (uint32_t i = 0; i < entry->n_pattern; i++)
        if (!used || !entry->pattern[i].reason) order_add(order, &entry->pattern[i]);
}

void bp_passes_of(const struct bp_device *device, bool used, struct bp_pass_order *out)
{
    const struct bp_plugin_entry *entry = device->entry;

    out->n = bp_pass_count;
    memcpy(out->pass, bp_pass_list, sizeof bp_pass_list);
    order_add_all(out, entry, used);
    for (uint32_t i = 0; i < entry->n_addon; i++) order_add_all(out, entry->addon[i], used);
    if (entry->rewrite) order_add_rewrite(out, entry->rewrite);
    for (uint32_t i = 0; i < entry->n_addon; i++)
        if (entry->addon[i]->rewrite) order_add_rewrite(out, entry->addon[i]->rewrite);
}

/* BP_PASSES: "uncompiled" (program_seen.c), "none", or names that begin with "-" for passes to
 * leave out. Without fold and fuse, which follow it, norm would only make more launches of a
 * norm. */
static bool is_left_out(const char *setting, const struct bp_pass *pass)
{
    char word[192];
    int n = snprintf(word, sizeof word, "-%s", pass->name);

    return bp_setting_has(setting, "none", 4) || bp_setting_has(setting, word, (size_t)n) ||
           (pass->run == bp_pass_norm &&
            (bp_setting_has(setting, "-fold", 5) || bp_setting_has(setting, "-fuse", 5)));
}

/* Whether a pass could be a pattern of the plugin, by its name. */
static bool is_of(const struct bp_plugin_entry *entry, const char *name)
{
    size_t own = strlen(entry->plugin.name);

    return !strncmp(name, entry->plugin.name, own) && name[own] == '.';
}

/* Whether a name is that of a pattern of another plugin than the device's and its add-ons. */
static bool is_foreign(const struct bp_device *device, const char *name, size_t n)
{
    const struct bp_plugin_entry *entry = device->entry;

    if (!memchr(name, '.', n) || is_of(entry, name)) return false;
    for (uint32_t i = 0; i < entry->n_addon; i++)
        if (is_of(entry->addon[i], name)) return false;
    return true;
}

/* Warns about a name in BP_PASSES that no pass has. */
static void check_setting(struct bp_device *device, const char *setting)
{
    struct bp_pass_order room, *order = &room;

    if (setting) bp_passes_of(device, false, order);
    for (const char *at = setting; at; at = strchr(at, ',')) {
        size_t n;
        bool known;
        at += *at == ',';
        n = strcspn(at, ",");
        known = !n || (n == 4 && !strncmp(at, "none", 4)) ||
                (n == 10 && !strncmp(at, "uncompiled", 10));
        for (uint32_t i = 0; i < order->n && !known; i++)
            known = *at == '-' && strlen(order->pass[i].name) == n - 1 &&
                    !strncmp(at + 1, order->pass[i].name, n - 1);
        known = known || (*at == '-' && is_foreign(device, at + 1, n - 1));
        if (!known)
            bp_core_log(device->core, BP_LOG_WARN,
                        "BP_PASSES: '%.*s' is no pass: expected 'uncompiled', 'none', or '-' and "
                        "the name of one (bp passes lists them)",
                        (int)n, at);
    }
}

/* Writes the representation to files of the folder that BP_DUMP_PASSES names. */
static void pass_dump(const struct bp_ir *ir, uint32_t number, const char *name)
{
    static _Atomic uint32_t programs;
    static _Thread_local uint32_t program;
    const char *folder = bp_env_get("BP_DUMP_PASSES");
    char path[4096];

    if (!folder) return;
    if (!number) program = atomic_fetch_add(&programs, 1);
    for (int dot = 0; dot < 2; dot++) {
        FILE *to;
        snprintf(path, sizeof path, "%s/%u-%02u-%s.%s", folder, program, number, name,
                 dot ? "dot" : "txt");
        to = fopen(path, "w");
        if (!to) {
            bp_core_log(ir->device->core, BP_LOG_WARN, "BP_DUMP_PASSES: %s cannot be written",
                        path);
            return;
        }
        if (dot) bp_ir_print_dot(ir, to);
        else bp_ir_print(ir, to);
        fclose(to);
    }
}

bool bp_pass_is_left_out(const struct bp_pass *pass)
{
    return is_left_out(bp_env_get("BP_PASSES"), pass);
}

/* Runs a pass again, which has nothing more to change. */
static enum bp_status pass_repeat(struct bp_ir *ir, const struct bp_pass *pass)
{
    struct bp_compilation again = {
        .ir = ir, .pattern = pass->pattern, .rewrite = pass->rewrite};
    enum bp_status status = pass->run(&again);

    bp_ir_resolve(ir);
    if (status == BP_OK && again.changes)
        status = bp_error(BP_ERR_INTERNAL, "%u changes are made by a second run", again.changes);
    return status ? bp_error_more(status, "pass %s: %s", pass->name, bp_error_message()) : BP_OK;
}

static enum bp_status pass_run(struct bp_ir *ir, const struct bp_pass *pass, uint32_t number,
                               bool validate)
{
    struct bp_compilation c = {.ir = ir, .pattern = pass->pattern, .rewrite = pass->rewrite};
    enum bp_status status = pass->run(&c);

    if (status) return bp_error_more(status, "pass %s: %s", pass->name, bp_error_message());
    bp_ir_resolve(ir);
    ir->pass[number] = (struct bp_ir_pass){c.changes, ir->living, true};
    if (!validate) return BP_OK;
    status = bp_ir_verify(ir);
    if (status) return bp_error_more(status, "pass %s: %s", pass->name, bp_error_message());
    return pass_repeat(ir, pass);
}

/* Fills the order of the passes: that of the list, or one that depends on the graph. format
 * stays last: other passes do not know the layouts that it gives values. */
static void passes_order(const struct bp_ir *ir, const struct bp_pass *list, uint32_t n, bool mixed,
                         uint32_t order[BP_IR_PASSES])
{
    uint32_t state = ir->n_node * 31 + ir->n_value;

    for (uint32_t i = 0; i < n; i++) order[i] = i;
    if (n && list[n - 1].run == bp_pass_format) n--;
    for (uint32_t i = n; mixed && i-- > 1;) {
        uint32_t k = (state = state * 1664525 + 1013904223) / 65536 % (i + 1), kept = order[i];
        order[i] = order[k];
        order[k] = kept;
    }
}

enum bp_status bp_passes_run(struct bp_ir *ir, const struct bp_pass *list, uint32_t n, bool dumps)
{
    const char *setting = bp_env_get("BP_PASSES");
    bool validate = bp_compile_checks("passes");
    uint32_t order[BP_IR_PASSES];

    check_setting(ir->device, setting);
    if (dumps) pass_dump(ir, 0, "recorded");
    if (validate) TRY(bp_ir_verify(ir));
    passes_order(ir, list, n, bp_compile_checks("order"), order);
    for (uint32_t i = 0; i < n; i++) {
        const struct bp_pass *pass = &list[order[i]];
        if (is_left_out(setting, pass)) continue;
        TRY(bp_cancel_check(ir->cancel));
        TRY(pass_run(ir, pass, order[i], validate));
        if (dumps) pass_dump(ir, i + 1, pass->name);
    }
    return BP_OK;
}

enum bp_status bp_compile(const struct bp_graph *graph, struct bp_device *device,
                          struct bp_schedule **out_schedule)
{
    const struct bp_compile_options none = {0};

    return bp_compile_with(graph, device, &none, out_schedule);
}

enum bp_status bp_compile_with(const struct bp_graph *graph, struct bp_device *device,
                               const struct bp_compile_options *options,
                               struct bp_schedule **out_schedule)
{
    struct bp_pass_order order;
    struct bp_ir *ir;
    enum bp_status status;

    TRY(bp_ir_create(graph, device, &ir));
    ir->allow |= options->allow;
    ir->donors = options->donors;
    ir->cancel = options->cancel;
    bp_passes_of(device, true, &order);
    status = bp_passes_run(ir, order.pass, options->no_passes ? 0 : order.n, true);
    ir->donors = NULL;
    if (status == BP_OK) return bp_schedule_create(ir, options->tuner, out_schedule);
    bp_ir_destroy(ir);
    return status;
}
