/* SPDX-License-Identifier: Apache-2.0 */
/* passes.c: lists the passes of the compiler and runs them, as BP_PASSES, BP_VALIDATE and
 * BP_DUMP_PASSES say. */
#include "passes.h"

#include <backplane/program.h>
#include <stdlib.h>
#include <string.h>

const struct bp_pass bp_pass_list[] = {
    {"clean", "removes unread nodes, equal computations and identities", bp_pass_clean},
    {"reuse", "shares with the forward what gradients compute again", bp_pass_reuse},
    {"recognise", "replaces expressions by the operators that compute them", bp_pass_recognise},
    {"attention", "replaces two products with a softmax between by attention", bp_pass_attention},
    {"affine", "merges factors and shifts of channels (batch_norm) into convolutions beside them",
     bp_pass_affine},
    {"fold", "computes what depends on frozen constants only", bp_pass_fold},
    {"product", "computes transposed convolutions whose windows do not overlap as products",
     bp_pass_product},
    {"epilogue", "merges additions and activations into convolutions and products before them",
     bp_pass_epilogue},
    {"layout", "lays images out channels-last where several convolutions follow each other",
     bp_pass_layout},
    {"norm", "writes norms of constant statistics as elementwise operators", bp_pass_norm},
    {"fuse", "merges elementwise operators of one shape into one pass over memory", bp_pass_fuse},
};
const uint32_t bp_pass_count = sizeof bp_pass_list / sizeof *bp_pass_list;
_Static_assert(sizeof bp_pass_list / sizeof *bp_pass_list <= BP_IR_PASSES, "room for each pass");

/* BP_PASSES: "uncompiled" (program_seen.c), "none", or names that begin with "-" for passes to
 * leave out. Without fold and fuse, which follow it, norm would only make more launches of a
 * norm. */
static bool is_left_out(const char *setting, const struct bp_pass *pass)
{
    char word[64];
    int n = snprintf(word, sizeof word, "-%s", pass->name);

    return bp_setting_has(setting, "none", 4) || bp_setting_has(setting, word, (size_t)n) ||
           (pass->run == bp_pass_norm &&
            (bp_setting_has(setting, "-fold", 5) || bp_setting_has(setting, "-fuse", 5)));
}

/* Warns about a name in BP_PASSES that no pass has. */
static void check_setting(const struct bp_core *core, const char *setting)
{
    for (const char *at = setting; at; at = strchr(at, ',')) {
        size_t n;
        bool known;
        at += *at == ',';
        n = strcspn(at, ",");
        known = !n || (n == 4 && !strncmp(at, "none", 4)) ||
                (n == 10 && !strncmp(at, "uncompiled", 10));
        for (uint32_t i = 0; i < bp_pass_count && !known; i++)
            known = *at == '-' && strlen(bp_pass_list[i].name) == n - 1 &&
                    !strncmp(at + 1, bp_pass_list[i].name, n - 1);
        if (!known)
            bp_core_log((struct bp_core *)(uintptr_t)core, BP_LOG_WARN,
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
    struct bp_compilation again = {.ir = ir};
    enum bp_status status = pass->run(&again);

    bp_ir_resolve(ir);
    if (status == BP_OK && again.changes)
        status = bp_error(BP_ERR_INTERNAL, "%u changes are made by a second run", again.changes);
    return status ? bp_error_more(status, "pass %s: %s", pass->name, bp_error_message()) : BP_OK;
}

static enum bp_status pass_run(struct bp_ir *ir, const struct bp_pass *pass, uint32_t number,
                               bool validate)
{
    struct bp_compilation c = {.ir = ir};
    enum bp_status status = pass->run(&c);

    if (status) return bp_error_more(status, "pass %s: %s", pass->name, bp_error_message());
    bp_ir_resolve(ir);
    ir->pass[number] = (struct bp_ir_pass){c.changes, ir->living, true};
    if (!validate) return BP_OK;
    status = bp_ir_verify(ir);
    if (status) return bp_error_more(status, "pass %s: %s", pass->name, bp_error_message());
    return pass_repeat(ir, pass);
}

/* Fills the order of the passes: that of the list, or one that depends on the graph. */
static void passes_order(const struct bp_ir *ir, uint32_t n, bool mixed,
                         uint32_t order[BP_IR_PASSES])
{
    uint32_t state = ir->n_node * 31 + ir->n_value;

    for (uint32_t i = 0; i < n; i++) order[i] = i;
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

    check_setting(ir->device->core, setting);
    if (dumps) pass_dump(ir, 0, "recorded");
    if (validate) TRY(bp_ir_verify(ir));
    passes_order(ir, n, bp_compile_checks("order"), order);
    for (uint32_t i = 0; i < n; i++) {
        const struct bp_pass *pass = &list[order[i]];
        if (is_left_out(setting, pass)) continue;
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
    uint32_t n = options->no_passes ? 0 : bp_pass_count;
    struct bp_ir *ir;
    enum bp_status status;

    TRY(bp_ir_create(graph, device, &ir));
    ir->allow |= options->allow;
    status = bp_passes_run(ir, bp_pass_list, n, true);
    if (status == BP_OK) return bp_schedule_create(ir, options->tuner, out_schedule);
    bp_ir_destroy(ir);
    return status;
}
