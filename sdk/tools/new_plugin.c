/* SPDX-License-Identifier: Apache-2.0 */
/* new_plugin.c: implements `bp new-plugin`: copies a template of a plugin under another name. */
#include "tools.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_LENGTH = 31 };

struct request {
    const char *name, *output;
    char upper[NAME_LENGTH + 1];
    bool handles, kernels, addon, engine, json;
    char *templates; /* directory of the templates */
    char *folder;    /* temporary directory of the copy */
    cJSON *files;    /* names of the files that were written */
};

/* The plugin's name is part of identifiers in C, and the kind of its devices. */
static bool name_fits(struct request *r)
{
    const char *c = r->name;

    while (islower((unsigned char)*c) || (c > r->name && (isdigit((unsigned char)*c) || *c == '_')))
        c++;
    if (*c || c == r->name || c - r->name > NAME_LENGTH) {
        bp_complain("new-plugin",
                    "the name '%s' cannot be used: expected at most %d lower-case letters, digits "
                    "and '_', with a letter first", r->name, NAME_LENGTH);
        return false;
    }
    for (int i = 0; r->name[i]; i++) r->upper[i] = (char)toupper((unsigned char)r->name[i]);
    return true;
}

/* Returns a whole file, which the caller frees, or NULL. */
static char *file_read(const char *path)
{
    FILE *file = fopen(path, "r");
    char *text = NULL;
    size_t size = 0;

    if (!file) return NULL;
    if (getdelim(&text, &size, '\0', file) < 0) {
        free(text);
        text = NULL;
    }
    fclose(file);
    return text;
}

/* Writes text with the plugin's name in place of "template", and in an add-on of "addon". */
static void text_rename(const struct request *r, const char *text, FILE *to)
{
    while (*text) {
        bool lower = !strncmp(text, "template", 8), upper = !strncmp(text, "TEMPLATE", 8);
        bool addon = r->addon && !strncmp(text, "addon", 5);
        if (lower || upper || addon) {
            fputs(upper ? r->upper : r->name, to);
            text += addon ? 5 : 8;
        } else {
            fputc(*text++, to);
        }
    }
}

/* Lists a file that is written, once. */
static void files_add(struct request *r, const char *name)
{
    const cJSON *known;

    cJSON_ArrayForEach(known, r->files) if (!strcmp(known->valuestring, name)) return;
    cJSON_AddItemToArray(r->files, cJSON_CreateString(name));
}

/* Copies a file of a template into the temporary directory, under its new name. */
static bool file_copy(struct request *r, const char *path, const char *name)
{
    char *text = file_read(path), *new_name = NULL, *to;
    size_t size;
    FILE *memory = open_memstream(&new_name, &size), *file;

    text_rename(r, name, memory);
    fclose(memory);
    to = bp_text_format("%s/%s", r->folder, new_name);
    files_add(r, new_name);
    file = text ? fopen(to, "w") : NULL;
    if (file) {
        text_rename(r, text, file);
        if (ferror(file) | fclose(file)) file = NULL;
    }
    if (!file) bp_complain("new-plugin", "%s: %s", text ? to : path, strerror(errno));
    free(new_name);
    free(text);
    free(to);
    return file != NULL;
}

/* Copies the files of a template, except those about the template itself. */
static bool template_copy(struct request *r, const char *template)
{
    char *folder = bp_text_format("%s/%s", r->templates, template);
    struct dirent **entry;
    int n = scandir(folder, &entry, NULL, alphasort);
    bool good = n >= 0;

    if (n < 0)
        bp_complain("new-plugin", "%s: %s: the templates are installed together with bp", folder,
                    strerror(errno));
    for (int i = 0; i < n; i++) {
        char *path = bp_text_format("%s/%s", folder, entry[i]->d_name);
        struct stat info;
        bool wanted = stat(path, &info) == 0 && S_ISREG(info.st_mode) &&
                      strcmp(entry[i]->d_name, "meson.build") &&
                      strcmp(entry[i]->d_name, "README.md");
        if (good && wanted) good = file_copy(r, path, entry[i]->d_name);
        free(path);
        free(entry[i]);
    }
    if (n >= 0) free(entry);
    free(folder);
    return good;
}

/* Removes the temporary directory and the files that were written. */
static void folder_remove(struct request *r)
{
    const cJSON *name;

    cJSON_ArrayForEach(name, r->files)
    {
        char *path = bp_text_format("%s/%s", r->folder, name->valuestring);
        unlink(path);
        free(path);
    }
    rmdir(r->folder);
}

/* Makes the copy in a directory beside the final one, and renames it when it is complete. */
static enum bp_exit copy_make(struct request *r)
{
    struct stat info;
    bool good;

    if (lstat(r->output, &info) == 0) {
        bp_complain("new-plugin",
                    "%s exists, and is not overwritten: choose another directory with --output",
                    r->output);
        return BP_EXIT_USAGE;
    }
    r->folder = bp_text_format("%s.XXXXXX", r->output);
    if (!mkdtemp(r->folder) || chmod(r->folder, 0755)) {
        bp_complain("new-plugin", "%s: %s", r->output, strerror(errno));
        return BP_EXIT_BROKEN;
    }
    if (r->kernels) good = template_copy(r, "kernels");
    else if (r->addon) good = template_copy(r, "addon");
    else good = template_copy(r, "address");
    good = good && (!r->handles || template_copy(r, "handles")) &&
           (!r->engine || template_copy(r, "engine"));
    if (good && rename(r->folder, r->output)) {
        bp_complain("new-plugin", "%s: %s", r->output, strerror(errno));
        good = false;
    }
    if (!good) folder_remove(r);
    return good ? BP_EXIT_GOOD : BP_EXIT_BROKEN;
}

static int copy_report(struct request *r)
{
    cJSON *json;

    if (r->json) {
        json = cJSON_CreateObject();
        bp_json_text(json, "name", r->name);
        bp_json_text(json, "directory", r->output);
        cJSON_AddItemToObject(json, "files", r->files);
        r->files = NULL;
        return bp_json_print(json);
    }
    printf("wrote the plugin %s to %s. Next:\n  cd %s\n  %s\n", r->name, r->output, r->output,
           r->kernels ? "make -j4        # compiles the kernels too, and writes the manifest"
                      : "sh build.sh     # compiles the plugin");
    if (!r->kernels) printf("  bp manifest bp_%s.so\n", r->name);
    printf("  bp doctor ./bp_%s.json\n", r->name);
    if (r->addon) printf("  BP_PLUGIN_PATH=$PWD bp conform cpu --filter 'kernel/%s.*'\n", r->name);
    else printf("  BP_PLUGIN_PATH=$PWD bp conform %s\n", r->name);
    return BP_EXIT_GOOD;
}

int bp_cmd_new_plugin(int argc, char **argv)
{
    struct request request = {0};
    const struct bp_option options[] = {
        {"handles", 0, BP_OPTION_FLAG, NULL, "a device whose memory has handles, not addresses",
         &request.handles},
        {"kernels", 0, BP_OPTION_FLAG, NULL,
         "a chip with a C compiler, which runs the portable kernels", &request.kernels},
        {"add-on", 0, BP_OPTION_FLAG, NULL,
         "an operator and a kernel for the cpu plugin, without a device: an add-on",
         &request.addon},
        {"engine", 0, BP_OPTION_FLAG, NULL,
         "a device whose engine compiles parts of a graph as a whole", &request.engine},
        {"output", 'o', BP_OPTION_TEXT, "DIR", "the directory to create (default NAME)",
         &request.output},
        {"json", 0, BP_OPTION_FLAG, NULL, "for programs", &request.json},
        {0},
    };
    const struct bp_usage usage = {
        .command = "new-plugin",
        .words = "NAME",
        .min_words = 1, .max_words = 1,
        .about = "Writes the source of a plugin NAME, a complete one to begin with: a copy of the "
                 "template, a device that is made of host memory. docs/plugin-guide.md leads from "
                 "there to a plugin for your chip, docs/portable-kernels.md explains --kernels, "
                 "docs/add-ons.md --add-on, docs/engines.md --engine.",
        .options = options,
    };
    int status = bp_options_parse(&usage, argc, argv, &request.name);

    if (status != BP_OPTIONS_GOOD) return status;
    if (!name_fits(&request)) return BP_EXIT_USAGE;
    if (request.handles + request.kernels + request.addon + request.engine > 1) {
        bp_complain("new-plugin",
                    "--handles, --kernels, --add-on and --engine are four templates, and there is "
                    "none for two of them: choose one");
        return BP_EXIT_USAGE;
    }
    if (!request.output) request.output = request.name;
    request.templates = bp_installed_path(BP_TEMPLATES);
    request.files = cJSON_CreateArray();
    status = copy_make(&request);
    if (status == BP_EXIT_GOOD) status = copy_report(&request);
    cJSON_Delete(request.files);
    free(request.templates);
    free(request.folder);
    return status;
}
