/* SPDX-License-Identifier: Apache-2.0 */
/* manifest.c: `bp manifest FILE.so`: writes the manifest of a plugin with the information that the
 * plugin's library states.
 *
 * A child process (bp read-plugin PATH) opens the library with plain dlopen: the user has named the
 * file, and only the constant data of bp_plugin_get are read. */
#include <backplane/plugin.h>
#include "tools.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "child.h"

enum { MANIFEST_FORMAT = 1, READ_SECONDS = 30 };

/* ---- the child process ---- */

/* Why the table of a plugin cannot be read; NULL if it can. The caller frees the text. */
static char *manifest_refusal(const char *path, const struct bp_plugin *plugin)
{
    if (!plugin)
        return bp_text_format("%s: bp_plugin_get answers NULL; it must return the plugin's table",
                              path);
    if (!BP_HAS(plugin, abi_minor))
        return bp_text_format("%s: the plugin's table says that its size is %zu; set .size = "
                              "sizeof(struct bp_plugin)",
                              path, plugin->size);
    if (plugin->abi_major != BP_ABI_MAJOR)
        return bp_text_format(
            "%s: built for ABI major %u, expected %d; rebuild it with the headers of this bp, or "
            "use the bp of its own version",
            path, plugin->abi_major, BP_ABI_MAJOR);
    bool is_addon = BP_HAS(plugin, adds_to) && plugin->adds_to;
    if (!BP_HAS(plugin, kind) || !plugin->name || !plugin->version || (!plugin->kind && !is_addon))
        return bp_text_format(
            "%s: the plugin's table lacks name, version or kind; all three are required, and an "
            "add-on has adds_to in place of kind",
            path);
    if (plugin->kind && is_addon)
        return bp_text_format("%s: the plugin's table has both kind and adds_to; an add-on has no "
                              "kind",
                              path);
    return NULL;
}

static cJSON *read_plugin(const char *path)
{
    cJSON *json = cJSON_CreateObject();
    const struct bp_plugin *(*get)(void) = NULL;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    char *why;

    if (library) *(void **)&get = dlsym(library, "bp_plugin_get");
    if (!library) why = bp_text_format("%s", dlerror());
    else if (!get)
        why = bp_text_format(
            "%s: no function bp_plugin_get; is it a plugin, and is it exported (BP_EXPORT)?", path);
    else why = manifest_refusal(path, get());
    if (why) {
        bp_json_text(json, "error", why);
        free(why);
        return json;
    }
    const struct bp_plugin *plugin = get();
    bp_json_text(json, "name", plugin->name);
    bool is_addon = BP_HAS(plugin, adds_to) && plugin->adds_to;
    bp_json_text(json, is_addon ? "adds_to" : "kind", is_addon ? plugin->adds_to : plugin->kind);
    bp_json_text(json, "version", plugin->version);
    cJSON_AddNumberToObject(json, "major", plugin->abi_major);
    cJSON_AddNumberToObject(json, "minor", plugin->abi_minor);
    return json;
}

int bp_cmd_read_plugin(int argc, char **argv)
{
    if (argc != 2) return BP_EXIT_USAGE;
    cJSON *json = read_plugin(argv[1]);
    char *line = cJSON_PrintUnformatted(json);
    if (line) dprintf(BP_CHILD_REPORT, "%s\n", line);
    cJSON_free(line);
    cJSON_Delete(json);
    _exit(BP_EXIT_GOOD); /* ends without the plugin's exit handlers, which are not tested here */
}

/* ---- the command ---- */

struct request {
    const char *file, *output;
    const char *path; /* absolute path of file */
    double priority;
    bool sha256, json;
    struct bp_texts features;
};

static void take_json(void *ctx, const char *line)
{
    cJSON **reply = ctx;
    cJSON *json = cJSON_Parse(line);

    cJSON_Delete(*reply);
    *reply = json;
}

/* The information that the plugin states; NULL after printing an error. */
static cJSON *query_plugin(const char *path)
{
    const char *argv[] = {"/proc/self/exe", "read-plugin", path, NULL};
    cJSON *reply = NULL;
    struct bp_child child = {
        .argv = argv,
        .timeout_ns = READ_SECONDS * UINT64_C(1000000000),
        .report = take_json,
        .ctx = &reply,
    };
    struct bp_child_result result;
    char end[200];

    bp_child_run(&child, &result);
    bp_child_describe(&result, end, sizeof end);
    if (!reply) bp_complain("manifest", "%s: cannot be opened: %s; it printed: %.500s", path, end,
                             result.output_size ? result.output : "nothing");
    else if (cJSON_HasObjectItem(reply, "error"))
        bp_complain("manifest", "%s", bp_json_get(reply, "error"));
    bp_child_finish(&result);
    if (reply && !cJSON_HasObjectItem(reply, "error")) return reply;
    cJSON_Delete(reply);
    return NULL;
}

/* Adds the hash that the system's program sha256sum computes. */
static bool add_sha256(cJSON *manifest, const char *path)
{
    const char *argv[] = {"/usr/bin/env", "sha256sum", "--", path, NULL};
    struct bp_child child = {.argv = argv};
    struct bp_child_result result;

    bp_child_run(&child, &result);
    /* The output begins with a backslash if sha256sum had to quote a character of the path. */
    const char *digits = result.output + (*result.output == '\\');
    bool good = result.end == BP_CHILD_EXITED && !result.code &&
                strspn(digits, "0123456789abcdef") == 64;
    if (good) {
        char *text = bp_text_format("%.64s", digits);
        bp_json_text(manifest, "sha256", text);
        free(text);
    } else {
        bp_complain("manifest", "the program sha256sum gave no hash: %.200s; install coreutils or "
                                "leave out --sha256", result.output);
    }
    bp_child_finish(&result);
    return good;
}

static bool write_manifest(const cJSON *manifest, const char *output)
{
    char *text = cJSON_Print(manifest);
    char *part = bp_text_format("%s.%d.part", output, (int)getpid());
    FILE *file = text ? fopen(part, "w") : NULL;
    bool good = file && fprintf(file, "%s\n", text) > 0;

    if (file) good = !fclose(file) && good;
    good = good && !rename(part, output); /* a reader sees the old file or the whole new one */
    if (!good) {
        bp_complain("manifest", "%s: cannot be written: %s", output, strerror(errno));
        if (file) unlink(part);
    }
    free(part);
    cJSON_free(text);
    return good;
}

static cJSON *manifest_create(const struct request *request, const cJSON *plugin)
{
    cJSON *manifest = cJSON_CreateObject();
    const char *slash = strrchr(request->file, '/');
    cJSON *abi;

    cJSON_AddNumberToObject(manifest, "manifest", MANIFEST_FORMAT);
    bp_json_text(manifest, "name", bp_json_get(plugin, "name"));
    const char *key = cJSON_HasObjectItem(plugin, "adds_to") ? "adds_to" : "kind";
    bp_json_text(manifest, key, bp_json_get(plugin, key));
    bp_json_text(manifest, "library", slash ? slash + 1 : request->file);
    abi = cJSON_AddObjectToObject(manifest, "abi");
    cJSON_AddNumberToObject(abi, "major",
                            cJSON_GetObjectItemCaseSensitive(plugin, "major")->valuedouble);
    cJSON_AddNumberToObject(abi, "minor",
                            cJSON_GetObjectItemCaseSensitive(plugin, "minor")->valuedouble);
    bp_json_text(manifest, "version", bp_json_get(plugin, "version"));
    cJSON_AddNumberToObject(manifest, "priority", request->priority);
    if (request->features.n)
        cJSON_AddItemToObject(
            manifest, "cpu_features",
            cJSON_CreateStringArray(request->features.at, (int)request->features.n));
    if (request->sha256 && !add_sha256(manifest, request->path)) {
        cJSON_Delete(manifest);
        return NULL;
    }
    return manifest;
}

static int manifest_run(const struct request *request)
{
    cJSON *plugin = query_plugin(request->path);
    cJSON *manifest = plugin ? manifest_create(request, plugin) : NULL;
    int status = BP_EXIT_FAILED;
    size_t stem = strlen(request->file) - strlen(".so");
    char *beside = bp_text_format("%.*s.json", (int)stem, request->file);
    const char *output = request->output ? request->output : beside;

    cJSON_Delete(plugin);
    if (manifest && (request->json || !strcmp(output, "-"))) {
        status = bp_json_print(manifest);
    } else if (manifest) {
        status = write_manifest(manifest, output) ? BP_EXIT_GOOD : BP_EXIT_BROKEN;
        if (!status && isatty(STDOUT_FILENO)) printf("wrote %s\n", output);
        cJSON_Delete(manifest);
    }
    free(beside);
    return status;
}

int bp_cmd_manifest(int argc, char **argv)
{
    struct request request = {0};
    const struct bp_option options[] = {
        {"output", 'o', BP_OPTION_OUTPUT, "OUT",
         "the file to write (default FILE.json); -: standard output", &request.output},
        {"priority", 0, BP_OPTION_WHOLE, "N",
         "among plugins of one kind the highest is taken (default 0)", &request.priority,
         -1e6, 1e6},
        {"cpu-feature", 0, BP_OPTION_TEXTS, "X",
         "needed, a word of flags in /proc/cpuinfo; may be repeated", &request.features},
        {"sha256", 0, BP_OPTION_FLAG, NULL, "add the hash: a library that was damaged is refused",
         &request.sha256},
        {"json", 0, BP_OPTION_FLAG, NULL, "write to standard output", &request.json},
        {0},
    };
    const struct bp_usage usage = {
        .command = "manifest",
        .words = "FILE.so",
        .min_words = 1, .max_words = 1,
        .about =
            "Writes the manifest that announces a plugin. What it says of the plugin is read from "
            "the library, and compared with it again at each load: write it anew after each change "
            "of name, kind, version or ABI.",
        .options = options,
    };
    char path[PATH_MAX];
    int status = bp_options_parse(&usage, argc, argv, &request.file);
    if (status != BP_OPTIONS_GOOD) return status;

    size_t length = strlen(request.file);
    if (length <= 3 || strcmp(request.file + length - 3, ".so")) {
        bp_complain("manifest", "%s: expected a shared object, a name that ends in .so",
                    request.file);
        return BP_EXIT_USAGE;
    }
    for (size_t i = 0; i < request.features.n; i++) {
        const char *feature = request.features.at[i];
        if (*feature && !strpbrk(feature, " \t\n")) continue;
        bp_complain("manifest", "--cpu-feature '%s': expected one word of the line flags in "
                    "/proc/cpuinfo, such as avx2; give the option again for another one", feature);
        return BP_EXIT_USAGE;
    }
    if (bp_path_is_missing("manifest", request.file)) return BP_EXIT_USAGE;
    if (!realpath(request.file, path)) {
        bp_complain("manifest", "%s: %s", request.file, strerror(errno));
        return BP_EXIT_USAGE;
    }
    request.path = path;
    return manifest_run(&request);
}
