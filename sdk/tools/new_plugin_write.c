/* SPDX-License-Identifier: Apache-2.0 */
/* new_plugin_write.c: writes the files of a new plugin from the templates.
 *
 * The templates are files that a compiler, a shell or a reader of YAML or Markdown takes as they
 * are. Comments mark the lines that depend on features of the plugin:
 *
 *     TEXT / *- WORD * /        TEXT #- WORD       a line of plugins without the feature WORD
 *     / *+ WORD: TEXT * /       #+ WORD: TEXT      a line of plugins with it
 *
 * (without the spaces between a slash and an asterisk). A line may end in several marks. */
#include "new_plugin.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The files of the templates: folder and name of the source, name in the plugin (NULL: the same),
 * and the features of plugins that have the file (any of them; 0: all plugins) or do not. A later
 * source replaces an earlier one of the same name. */
static const struct source {
    const char *folder, *file, *to;
    unsigned with, without;
} sources[] = {
    {"address", "plugin.map", NULL, 0, 0},
    {"address", "build.sh", NULL, 0, NEW_KERNELS},
    {"address", "template.h", NULL, 0, NEW_KERNELS | NEW_ADDON},
    {"address", "plugin.c", NULL, 0, NEW_KERNELS | NEW_ADDON},
    {"address", "device.c", NULL, 0, NEW_KERNELS | NEW_ADDON},
    {"address", "memory.c", NULL, 0, NEW_KERNELS | NEW_ADDON},
    {"address", "stream.c", NULL, 0, NEW_KERNELS | NEW_ADDON},
    {"address", "kernels.c", NULL, 0, NEW_KERNELS | NEW_ADDON | NEW_GRAPH},
    {"handles", "memory.c", NULL, NEW_HANDLES, NEW_KERNELS},
    {"kernels", "template.h", NULL, NEW_KERNELS, 0},
    {"kernels", "template.c", NULL, NEW_KERNELS, 0},
    {"kernels", "Makefile", NULL, NEW_KERNELS, 0},
    {"engine", "engine.c", NULL, NEW_ENGINE, 0},
    {"ccl", "ccl.h", NULL, NEW_CCL, 0},
    {"ccl", "ccl.c", NULL, NEW_CCL, 0},
    {"ccl", "segment.c", NULL, NEW_CCL, 0},
    {"profiler", "profiler.c", NULL, NEW_PROFILER, 0},
    {"addon", "addon.c", NULL, NEW_ADDON, 0},
    {"readme", "README.md", NULL, 0, 0},
    {"ci", "sdk.sh", "ci/sdk.sh", 0, 0},
    {"ci", "github.yml", ".github/workflows/conformance.yml", 0, 0},
    {"ci", "gitlab.yml", ".gitlab-ci.yml", 0, 0},
};
/* The directories of the names above, an outer one first. */
static const char *const folders[] = {"ci", ".github", ".github/workflows"};

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
static void text_rename(const struct new_request *r, const char *text, FILE *to)
{
    const struct {
        const char *from, *to;
    } words[] = {{"template", r->name},
                 {"TEMPLATE", r->upper},
                 {"@sdk@", r->sdk},
                 {"addon", r->features & NEW_ADDON ? r->name : "addon"}};

    while (*text) {
        size_t i = 0, n = sizeof words / sizeof *words;
        while (i < n && strncmp(text, words[i].from, strlen(words[i].from))) i++;
        if (i < n) {
            fputs(words[i].to, to);
            text += strlen(words[i].from);
        } else {
            fputc(*text++, to);
        }
    }
}

/* Whether the plugin has the feature that the first n letters of word name. */
static bool mark_holds(const struct new_request *r, const char *word, size_t n)
{
    static const char *const known[] = {
#define X(NAME, word) #word,
        NEW_FEATURES(X)
#undef X
    };

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strlen(known[i]) == n && !strncmp(word, known[i], n)) return r->features >> i & 1;
    bp_complain("new-plugin", "a template has the mark '%.*s', which is unknown", (int)n, word);
    return false;
}

/* Takes marks off the end of a line; returns whether the plugin has the line. */
static bool line_take_marks(const struct new_request *r, char *line)
{
    bool wanted = true;

    for (;;) {
        size_t n = strlen(line);
        bool c = n > 3 && !strcmp(line + n - 3, " */");
        char *mark = NULL, *next = line, *word, *end = line + n - (c ? 3 : 0);
        while ((next = strstr(next, c ? " /*- " : " #- "))) mark = next++;
        if (!mark) return wanted;
        word = mark + (c ? 5 : 4);
        if (memchr(word, ' ', (size_t)(end - word))) return wanted; /* a comment of another kind */
        wanted &= !mark_holds(r, word, (size_t)(end - word));
        *mark = '\0';
    }
}

/* Writes a line of a template, if the plugin has that line. */
static void line_write(const struct new_request *r, char *line, FILE *to)
{
    size_t blanks = strspn(line, " \t");
    char *text = line + blanks, *word, *colon;
    bool c = !strncmp(text, "/*+ ", 4);

    if (!line_take_marks(r, line)) return;
    if (c || !strncmp(text, "#+ ", 3)) {
        word = text + (c ? 4 : 3);
        colon = strchr(word, ':');
        if (!colon || !mark_holds(r, word, (size_t)(colon - word))) return;
        if (c) text[strlen(text) - strlen(" */")] = '\0';
        fprintf(to, "%.*s", (int)blanks, line);
        line = colon + 2;
    }
    text_rename(r, line, to);
    fputc('\n', to);
}

static void text_write(const struct new_request *r, char *text, FILE *to)
{
    char *end;

    for (; (end = strchr(text, '\n')); text = end + 1) {
        *end = '\0';
        line_write(r, text, to);
    }
    text_rename(r, text, to);
}

/* Lists a file that is written, once. */
static void files_add(struct new_request *r, const char *name)
{
    const cJSON *known;

    cJSON_ArrayForEach(known, r->files) if (!strcmp(known->valuestring, name)) return;
    cJSON_AddItemToArray(r->files, cJSON_CreateString(name));
}

/* Writes one file of a template into the temporary directory, under its new name. */
static bool source_copy(struct new_request *r, const struct source *s)
{
    char *path = bp_text_format("%s/%s/%s", r->templates, s->folder, s->file);
    char *text = file_read(path), *name = NULL, *to;
    size_t size;
    FILE *memory = open_memstream(&name, &size), *file;

    text_rename(r, s->to ? s->to : s->file, memory);
    fclose(memory);
    to = bp_text_format("%s/%s", r->folder, name);
    files_add(r, name);
    file = text ? fopen(to, "w") : NULL;
    if (file) {
        text_write(r, text, file);
        if (ferror(file) | fclose(file)) file = NULL;
    }
    if (!file)
        bp_complain("new-plugin", "%s: %s%s", text ? to : path, strerror(errno),
                    text ? "" : ": the templates are installed together with bp");
    free(path);
    free(name);
    free(text);
    free(to);
    return file != NULL;
}

static bool folders_make(const struct new_request *r)
{
    bool good = true;

    for (size_t i = 0; good && i < sizeof folders / sizeof *folders; i++) {
        char *path = bp_text_format("%s/%s", r->folder, folders[i]);
        good = mkdir(path, 0755) == 0;
        if (!good) bp_complain("new-plugin", "%s: %s", path, strerror(errno));
        free(path);
    }
    return good;
}

static bool sources_write(struct new_request *r)
{
    bool good = true;

    for (size_t i = 0; good && i < sizeof sources / sizeof *sources; i++) {
        const struct source *s = &sources[i];
        if (s->with && !(s->with & r->features)) continue;
        if (!(s->without & r->features)) good = source_copy(r, s);
    }
    return good;
}

/* Removes the temporary directory and the files that were written. */
static void folder_remove(struct new_request *r)
{
    const cJSON *name;

    cJSON_ArrayForEach(name, r->files)
    {
        char *path = bp_text_format("%s/%s", r->folder, name->valuestring);
        unlink(path);
        free(path);
    }
    for (size_t i = sizeof folders / sizeof *folders; i-- > 0;) {
        char *path = bp_text_format("%s/%s", r->folder, folders[i]);
        rmdir(path);
        free(path);
    }
    rmdir(r->folder);
}

enum bp_exit bp_new_plugin_write(struct new_request *r)
{
    enum bp_exit status = BP_EXIT_GOOD;

    r->folder = bp_text_format("%s.XXXXXX", r->output);
    if (!mkdtemp(r->folder)) {
        bp_complain("new-plugin", "%s cannot be created: %s", r->output, strerror(errno));
        return BP_EXIT_USAGE;
    }
    if (chmod(r->folder, 0755) || !folders_make(r) || !sources_write(r)) {
        status = BP_EXIT_BROKEN;
    } else if (rename(r->folder, r->output)) { /* replaces an empty directory */
        bp_complain("new-plugin", "%s cannot be created: %s", r->output, strerror(errno));
        status = BP_EXIT_USAGE;
    }
    if (status) folder_remove(r);
    return status;
}
