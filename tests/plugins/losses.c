/* SPDX-License-Identifier: Apache-2.0 */
/* losses.c: tests plugins that end their own process. No core can catch this in its own process.
 * The tests check that a plugin does no harm before it is loaded, that each plugin does its harm
 * (so that tests of `bp doctor` and of probing test something), and that a child process is
 * sufficient protection: the good plugin still works. */
#include <backplane/backplane.h>
#include <child.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct loss {
    const char *name;
    enum bp_child_end end;
    int code;
};
static const struct loss losses[] = {
    {"h_constructor_signal", BP_CHILD_SIGNALLED, SIGABRT},
    {"h_constructor_exit", BP_CHILD_EXITED, 0},
    {"h_constructor_hang", BP_CHILD_TIMEOUT, 0},
    {"h_constructor_output", BP_CHILD_OUTPUT, 0},
    {"h_entry_signal", BP_CHILD_SIGNALLED, SIGABRT},
    {"h_create_signal", BP_CHILD_SIGNALLED, SIGABRT},
};
enum {
    LOSSES = sizeof losses / sizeof *losses,
    SURVIVED = 42
};

static int number, failed;

static void losses_check(int good, const char *what, const char *name, const char *detail)
{
    printf("%sok %d - %s: %s\n", good ? "" : "not ", ++number, name, what);
    if (!good) printf("# %s\n", detail);
    if (!good) failed = 1;
}

/* In the child: loads one plugin, and returns SURVIVED if the process still exists. */
static int losses_load(const char *path)
{
    struct bp_core *core;

    if (bp_core_create(NULL, &core)) return 2;
    bp_core_load_path(core, path, NULL);
    return SURVIVED;
}

static void check_loss(const struct loss *loss)
{
    char path[4096], text[200];
    const char *argv[] = {"/proc/self/exe", path, NULL};
    struct bp_child child = {
        .argv = argv, .timeout_ns = UINT64_C(5000000000), .output_max = 1 << 16};
    struct bp_child_result result;

    if (loss->end == BP_CHILD_TIMEOUT) child.timeout_ns = UINT64_C(1000000000);
    snprintf(path, sizeof path, "%s/bp_%s.so", HOSTILE_DIR, loss->name);
    bp_child_run(&child, &result);
    bp_child_describe(&result, text, sizeof text);
    losses_check(result.end == loss->end &&
                     (loss->end > BP_CHILD_SIGNALLED || result.code == loss->code),
                 "its process ends as it means to", loss->name, text);
    bp_child_finish(&result);
}

static uint32_t losses_find(struct bp_core *core, const char *name)
{
    for (uint32_t i = 0; i < bp_core_plugins(core); i++) {
        struct bp_plugin_info info = {.size = sizeof info};
        if (bp_core_plugin(core, i, &info) == BP_OK && !strcmp(info.name, name) &&
            info.state == BP_PLUGIN_UNPROBED)
            return i;
    }
    return UINT32_MAX;
}

int main(int argc, char **argv)
{
    struct bp_core_options options = {
        .size = sizeof options, .plugin_path = HOSTILE_DIR, .plugins = "h_*"};
    struct bp_device *device = NULL;
    struct bp_core *core;

    if (argc == 2) return losses_load(argv[1]);
    printf("1..%d\n", 2 * LOSSES + 1);
    fflush(stdout);
    if (bp_core_create(&options, &core)) {
        printf("Bail out! %s\n", bp_error_message());
        return 1;
    }
    for (int i = 0; i < LOSSES; i++) {
        losses_check(losses_find(core, losses[i].name) != UINT32_MAX, "is listed, not opened",
                     losses[i].name, "it is not unprobed");
        check_loss(&losses[i]);
    }
    losses_check(bp_device_create(core, "h_good", &device) == BP_OK &&
                     bp_device_synchronize(device) == BP_OK,
                 "works on", "h_good", bp_error_message());
    bp_device_destroy(device);
    bp_core_destroy(core);
    return failed;
}
