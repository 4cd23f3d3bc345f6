/* SPDX-License-Identifier: Apache-2.0 */
/* passes.c: lists the passes of the compiler and runs them, as BP_PASSES, BP_VALIDATE and
 * BP_DUMP_PASSES say. */
#include "passes.h"

#include <backplane/program.h>
#include <stdlib.h>
#include <string.h>

const struct bp_pass bp_pass_list[] = {
    {"clean", "removes unread nodes, equal computations and identities", bp_pass_clean},
    {"recognise", "replaces expressions by the operators that compute them", bp_pass_recognise},
    {"affine", "merges factors and shifts of channels (batch_norm) into convolutions before them",
     bp_pass_affine},
    {"fold", "computes what depends on frozen constants only", bp_pass_fold},
    {"epilogue", "merges additions and activations into convolutions and products before them",
     bp_pass_epilogue},
};
const uint32_t bp_pass_count = sizeof bp_pass_list / sizeof *bp_pass_list;

/* Whether a list of words that are separated by commas has this word. */
static bool list_has(const char *list, const char *word, size_t n)
{
    for (const char *at = list; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (!strncmp(at, word, n) && (!at[n] || at[n] == ',')) return true;
    }
    return false;
}

/* BP_PASSES: "none", or names that begin with "-" for passes to leave out. */
static bool is_left_out(const char *setting, const struct bp_pass *pass)
{
    char word[64];
    int n = snprintf(word, sizeof word, "-%s", pass->name);

    return list_has(setting, "none", 4) || list_has(setting, word, (size_t)n);
}

/* Warns about a name in BP_PASSES that no pass has. */
static void check_setting(const struct bp_core *core, const char *setting)
{
    for (const char *at = setting; at; at = strchr(at, ',')) {
        size_t n;
        bool known;
        at += *at == ',';
        n = strcspn(at, ",");
        known = !n || (n == 4 && !strncmp(at, "none", 4));
        for (uint32_t i = 0; i < bp_pass_count && !known; i++)
            known = *at == '-' && strlen(bp_pass_list[i].name) == n - 1 &&
                    !strncmp(at + 1, bp_pass_list[i].name, n - 1);
        if (!known)
            bp_core_log((struct bp_core *)(uintptr_t)core, BP_LOG_WARN,
                        "BP_PASSES: '%.*s' is no pass: expected 'none', or '-' and the name of one "
                        "(bp passes lists them)",
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

static enum bp_status pass_run(struct bp_ir *ir, const struct bp_pass *pass, bool validate)
{
    struct bp_compilation c = {.ir = ir};
    enum bp_status status = pass->run(&c);

    if (status) return status;
    bp_ir_resolve(ir);
    if (!validate) return BP_OK;
    status = bp_ir_verify(ir);
    return status ? bp_error_more(status, "pass %s: %s", pass->name, bp_error_message()) : BP_OK;
}

enum bp_status bp_passes_run(struct bp_ir *ir)
{
    const char *setting = bp_env_get("BP_PASSES"), *checks = bp_env_get("BP_VALIDATE");
    bool validate = list_has(checks, "passes", 6);

    check_setting(ir->device->core, setting);
    pass_dump(ir, 0, "recorded");
    if (validate) TRY(bp_ir_verify(ir));
    for (uint32_t i = 0; i < bp_pass_count; i++) {
        if (is_left_out(setting, &bp_pass_list[i])) continue;
        TRY(pass_run(ir, &bp_pass_list[i], validate));
        pass_dump(ir, i + 1, bp_pass_list[i].name);
    }
    return BP_OK;
}

enum bp_status bp_compile(const struct bp_graph *graph, struct bp_device *device,
                          struct bp_schedule **out_schedule)
{
    struct bp_ir *ir;
    enum bp_status status;

    TRY(bp_ir_create(graph, device, &ir));
    status = bp_passes_run(ir);
    if (status == BP_OK) return bp_schedule_create(ir, out_schedule);
    bp_ir_destroy(ir);
    return status;
}
