/* SPDX-License-Identifier: Apache-2.0 */
/* main.c: the `bp` command: the table of its commands, and its help. */
#include "tools.h"

#include <signal.h>
#include <string.h>

static const struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *words; /* arguments in the help; NULL: the help does not show the command */
    const char *summary;
    bool loads; /* loads plugins into this process */
} commands[] = {
    {"list", bp_cmd_list, "[--probe]", "the plugins that are found"},
    {"info", bp_cmd_info, "DEV", "a device: properties, memory, kernels", true},
    {"doctor", bp_cmd_doctor, "[NAME|PATH]", "why a plugin does not work, and what to do"},
    {"ops", bp_cmd_ops, "[--device DEV]", "the operators, and what a device has kernels for", true},
    {"manifest", bp_cmd_manifest, "FILE.so", "write the manifest that announces a plugin"},
    {"new-plugin", bp_cmd_new_plugin, "NAME", "write the source of a new plugin, from a template"},
    {"conform", bp_cmd_conform, "DEV", "test a device against the references"},
    {"compare", bp_cmd_compare, "A B", "what got worse between two JSON reports"},
    {"report", bp_cmd_report, "DEV", "a page about a device: support, accuracy, speed"},
    {"bench", bp_cmd_bench, "DEV", "measure a device", true},
#ifdef BP_ONNX
    {"run", bp_cmd_run, "MODEL.onnx", "run an ONNX model on a device", true},
    {"program", bp_cmd_program, "MODEL.onnx", "show the compiled program of an ONNX model", true},
    {"tune", bp_cmd_tune, "MODEL.onnx", "choose kernels for an ONNX model by their time", true},
    {"onnx-test", bp_cmd_onnx_test, "DIR", "test a device with ONNX's models", true},
#endif
    {"passes", bp_cmd_passes, "[--json]", "the passes of the compiler of programs"},
    {"ccl-bench", bp_cmd_ccl_bench, "[-n N]", "measure collective calls", true},
    {"profile", bp_cmd_profile, "CMD", "run a command, and show where its time went"},
    {"trace", bp_cmd_trace, "FILE", "show a profile: where the time went"},
    {"launch", bp_cmd_launch, "-n N CMD", "run a command as the ranks of a job"},
    {"probe-plugin", bp_cmd_probe_plugin, NULL, NULL},
    {"read-plugin", bp_cmd_read_plugin, NULL, NULL},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static void print_help(FILE *file)
{
    fprintf(file, "usage: bp COMMAND [OPTIONS]\n\n");
    fprintf(file, "Backplane %s: runs operators on devices that plugins bring.\n\n", bp_version());
    for (int i = 0; i < COMMANDS; i++)
        if (commands[i].words)
            fprintf(file, "  %-10s  %-15s %s\n", commands[i].name, commands[i].words,
                    commands[i].summary);
    fprintf(file, "\n`bp COMMAND -h` says more; every command takes --json.\n"
                  "Exit status: 0 good, 1 a check failed, 2 wrong use or nothing matched,\n"
                  "3 no such device, 4 bp itself failed. For what is not there list, doctor and\n"
                  "manifest, which ask for plugins, exit with 2; info, ops, conform and bench,\n"
                  "which ask for a device, with 3.\n");
}

static int unknown_command(const char *word)
{
    const char *names[COMMANDS];
    size_t n = 0;

    for (int i = 0; i < COMMANDS; i++)
        if (commands[i].words) names[n++] = commands[i].name;
    const char *near = bp_nearest(word, names, n);
    if (near) bp_complain("", "there is no command '%s'; did you mean bp %s?", word, near);
    else bp_complain("", "there is no command '%s'; `bp -h` lists them", word);
    return BP_EXIT_USAGE;
}

static int tool_run(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : NULL;

    if (!word) {
        print_help(stderr);
        return BP_EXIT_USAGE;
    }
    if (!strcmp(word, "-h") || !strcmp(word, "--help") || !strcmp(word, "help")) {
        print_help(stdout);
        return BP_EXIT_GOOD;
    }
    if (!strcmp(word, "--version")) {
        printf("bp %s\n", bp_version());
        return BP_EXIT_GOOD;
    }
    for (int i = 0; i < COMMANDS; i++)
        if (!strcmp(word, commands[i].name)) {
            if (commands[i].loads) bp_crash_watch(word);
            return commands[i].run(argc - 1, argv + 1);
        }
    return unknown_command(word);
}

int main(int argc, char **argv)
{
    /* If the parent process ignores SIGCHLD, bp inherits that and could not wait for its
     * children. */
    signal(SIGCHLD, SIG_DFL);
    int status = tool_run(argc, argv);
    bp_crash_ending();
    bool lost = ferror(stdout);
    if (fflush(stdout) || lost) {
        bp_complain("", "the output could not be written");
        return BP_EXIT_BROKEN;
    }
    return status;
}
