/* SPDX-License-Identifier: Apache-2.0 */
/* new_plugin.c: implements `bp new-plugin`: checks the name, the options and the directory of a new
 * plugin, and prints the next steps. */
#include "new_plugin.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Names of Backplane's own plugins and libraries, first words of its functions, and names of files
 * of the templates. */
static const char *const reserved[] = {"cpu",      "xpu", "cuda",     "hip", "kunlun",
                                       "openvino", "ipu", "npu",      "mlu", "sim",
                                       "net_ucx",  "bp",  "portable", "ccl", "engine"};

/* The options, as the command line has them. */
struct new_options {
    const char *kernels, *output;
    bool addresses, handles, graph, engine, ccl, profiler, addon, json;
};

/* The plugin's name is part of identifiers in C, and the kind of its devices. */
static bool name_fits(struct new_request *r)
{
    const char *c = r->name;

    while (islower((unsigned char)*c) || (c > r->name && (isdigit((unsigned char)*c) || *c == '_')))
        c++;
    if (*c || c == r->name || c - r->name > NEW_NAME_LENGTH) {
        bp_complain("new-plugin",
                    "the name '%s' cannot be used: expected at most %d lower-case letters, digits "
                    "and '_', with a letter first",
                    r->name, NEW_NAME_LENGTH);
        return false;
    }
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++) {
        if (strcmp(r->name, reserved[i])) continue;
        bp_complain("new-plugin",
                    "the name '%s' is reserved for Backplane itself: choose another, such as "
                    "my%s",
                    r->name, r->name);
        return false;
    }
    for (int i = 0; r->name[i]; i++) r->upper[i] = (char)toupper((unsigned char)r->name[i]);
    return true;
}

/* Returns the names of two options that exclude each other, or NULL. */
static const char *options_clash(const struct new_options *o)
{
    if (o->addresses + o->handles + o->graph > 1)
        return "--addresses, --handles and --graph-only are kinds of devices: choose one";
    if (o->graph && o->kernels)
        return "--graph-only is a device without kernels: leave out --kernels, or --graph-only";
    if ((o->ccl || o->profiler) && o->kernels)
        return "--ccl and --profiler need a device that works after a call has returned, and that "
               "of --kernels works within its calls: leave out --kernels, or the others";
    if (o->addon && (o->addresses || o->handles || o->graph || o->kernels || o->engine || o->ccl ||
                     o->profiler))
        return "--add-on is a plugin without a device: the other options describe a device";
    return NULL;
}

static bool options_fit(const struct new_options *o, struct new_request *r)
{
    const char *clash = options_clash(o);

    if (o->kernels && strcmp(o->kernels, "portable")) {
        bp_complain("new-plugin", "--kernels %s: expected `--kernels portable`", o->kernels);
        return false;
    }
    if (clash) bp_complain("new-plugin", "%s", clash);
    if (r->sdk && strpbrk(r->sdk, "'\"\\$`\n ")) {
        bp_complain("new-plugin", "--sdk %s: expected an address without quotes, blanks, $ and \\",
                    r->sdk);
        return false;
    }
    if (!r->sdk) r->sdk = "";
    r->features = (o->handles ? NEW_HANDLES : 0u) | (o->graph ? NEW_GRAPH : 0u) |
                  (o->engine || o->graph ? NEW_ENGINE : 0u) | (o->kernels ? NEW_KERNELS : 0u) |
                  (o->ccl ? NEW_CCL : 0u) | (o->profiler ? NEW_PROFILER : 0u) |
                  (o->addon ? NEW_ADDON : 0u);
    return !clash;
}

/* Whether the directory does not exist, or is empty. */
static bool output_is_free(const char *path)
{
    const struct dirent *entry;
    struct stat info;
    DIR *folder;
    int n = 0;

    if (lstat(path, &info)) return true; /* the failure of a later step says more */
    folder = S_ISDIR(info.st_mode) ? opendir(path) : NULL;
    while (folder && n < 3 && (entry = readdir(folder))) n++;
    if (folder) closedir(folder);
    if (folder && n < 3) return true; /* . and .. */
    bp_complain("new-plugin",
                "%s exists, and is not overwritten: choose another directory with --output", path);
    return false;
}

/* Returns a copy of the path, without slashes at its end. */
static char *output_path(const char *given)
{
    char *path = bp_text_format("%s", given);
    size_t n = strlen(path);

    while (n > 1 && path[n - 1] == '/') path[--n] = '\0';
    return path;
}

static int request_report(struct new_request *r, bool as_json)
{
    bool kernels = r->features & NEW_KERNELS;
    cJSON *json;

    if (as_json) {
        json = cJSON_CreateObject();
        bp_json_text(json, "name", r->name);
        bp_json_text(json, "directory", r->output);
        cJSON_AddItemToObject(json, "files", r->files);
        r->files = NULL;
        return bp_json_print(json);
    }
    printf("wrote the plugin %s to %s. Next:\n  cd %s\n  %s\n", r->name, r->output, r->output,
           kernels ? "make -j4        # compiles the kernels too, and writes the manifest"
                   : "sh build.sh     # compiles the plugin");
    if (!kernels) printf("  bp manifest bp_%s.so\n", r->name);
    printf("  bp doctor ./bp_%s.json\n", r->name);
    if (r->features & NEW_ADDON)
        printf("  BP_PLUGIN_PATH=$PWD bp conform cpu --filter 'kernel/%s.*'\n", r->name);
    else printf("  BP_PLUGIN_PATH=$PWD bp conform %s\n", r->name);
    return BP_EXIT_GOOD;
}

int bp_cmd_new_plugin(int argc, char **argv)
{
    struct new_request request = {0};
    struct new_options o = {0};
    const struct bp_option options[] = {
        {"addresses", 0, BP_OPTION_FLAG, NULL, "memory has addresses (the default)", &o.addresses},
        {"handles", 0, BP_OPTION_FLAG, NULL, "memory has handles, and no addresses", &o.handles},
        {"graph-only", 0, BP_OPTION_FLAG, NULL,
         "no kernels: an engine compiles graphs, and single calls too", &o.graph},
        {"kernels", 0, BP_OPTION_TEXT, "KIND",
         "portable: a chip with a C compiler, which runs the portable kernels", &o.kernels},
        {"engine", 0, BP_OPTION_FLAG, NULL, "an engine compiles parts of a graph as a whole",
         &o.engine},
        {"ccl", 0, BP_OPTION_FLAG, NULL, "collectives between devices of this kind", &o.ccl},
        {"profiler", 0, BP_OPTION_FLAG, NULL, "records of the device's work for profilers",
         &o.profiler},
        {"add-on", 0, BP_OPTION_FLAG, NULL,
         "an operator and a kernel for the cpu plugin, without a device: an add-on", &o.addon},
        {"sdk", 0, BP_OPTION_TEXT, "URL",
         "where the CI files get Backplane: a git repository or a .tar.gz",
         &request.sdk},
        {"output", 'o', BP_OPTION_TEXT, "DIR", "the directory to create (default NAME)", &o.output},
        {"json", 0, BP_OPTION_FLAG, NULL, "for programs", &o.json},
        {0},
    };
    const struct bp_usage usage = {
        .command = "new-plugin",
        .words = "NAME",
        .min_words = 1,
        .max_words = 1,
        .about = "Writes the source of a plugin NAME, a complete one to begin with, and files with "
                 "which GitHub and GitLab build and test it: a device that is made of host memory. "
                 "docs/plugin-guide.md leads from there to a plugin for your chip, "
                 "docs/portable-kernels.md explains --kernels, docs/engines.md --engine and "
                 "--graph-only, docs/collectives.md --ccl, docs/add-ons.md --add-on.",
        .options = options,
    };
    int status = bp_options_parse(&usage, argc, argv, &request.name);

    if (status != BP_OPTIONS_GOOD) return status;
    if (!name_fits(&request) || !options_fit(&o, &request)) return BP_EXIT_USAGE;
    request.output = output_path(o.output ? o.output : request.name);
    request.templates = bp_installed_path(BP_TEMPLATES);
    request.files = cJSON_CreateArray();
    status = output_is_free(request.output) ? (int)bp_new_plugin_write(&request) : BP_EXIT_USAGE;
    if (status == BP_EXIT_GOOD) status = request_report(&request, o.json);
    cJSON_Delete(request.files);
    free(request.output);
    free(request.templates);
    free(request.folder);
    return status;
}
