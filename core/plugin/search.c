/* SPDX-License-Identifier: Apache-2.0 */
/* search.c: finds the manifests of plugins; it reads them and opens no library. The search order is
 * that of bp_core_create in backplane/core.h; of two plugins with one name the first is used. */
#include "loader.h"
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct search {
    struct bp_core *core;
    const char *globs;      /* names to select; NULL: all */
    const char *globs_from; /* for a message */
    enum bp_status status;  /* out of memory */
};

/* The directories of the system. */
static const char *const system_directories[] = {"/usr/lib/backplane", "/usr/local/lib/backplane"};

/* Finds an entry with a valid manifest of that name. (No entry is loaded during the search.) */
static const struct bp_plugin_entry *find_entry(const struct bp_core *core, const char *name)
{
    for (uint32_t i = 0; i < core->n_entry; i++)
        if (core->entry[i]->state == BP_PLUGIN_UNPROBED &&
            !strcmp(core->entry[i]->manifest.name, name))
            return core->entry[i];
    return NULL;
}

/* Whether a manifest was listed before: the search path may contain a directory twice. */
static bool search_is_listed(const struct bp_core *core, const char *manifest_path)
{
    for (uint32_t i = 0; i < core->n_entry; i++)
        if (!strcmp(core->entry[i]->manifest_path, manifest_path)) return true;
    return false;
}

/* Fills the manifest of a plugin whose manifest file cannot be used: only a name is known. */
static bool manifest_fill_unknown(struct bp_plugin_entry *entry)
{
    entry->manifest = (struct bp_manifest){.name = bp_path_plugin_name(entry->manifest_path),
                                           .kind = strdup(""),
                                           .version = strdup(""),
                                           .library = strdup("")};
    return entry->manifest.name && entry->manifest.kind && entry->manifest.version &&
           entry->manifest.library;
}

/* Whether the entry shall be listed. */
static bool search_is_wanted(struct search *s, const struct bp_plugin_entry *entry)
{
    const struct bp_plugin_entry *before;
    const char *name = entry->manifest.name;
    char shown[BP_SHOWN_PATH], other[BP_SHOWN_PATH];

    bp_show(shown, sizeof shown, entry->manifest_path);
    if (!bp_select_match(s->globs, name)) {
        bp_core_log(s->core, BP_LOG_INFO, "%s: not selected by %s=%s", shown, s->globs_from,
                    bp_show(other, sizeof other, s->globs));
        return false;
    }
    before = find_entry(s->core, name);
    if (!before) return true;
    bp_core_log(s->core, BP_LOG_INFO, "%s: plugin %s was found before, in %s, which counts", shown,
                name, bp_show(other, sizeof other, before->manifest_path));
    return false;
}

static void warn_ignored(struct search *s, const struct bp_plugin_entry *entry)
{
    char shown[BP_SHOWN_PATH], key[BP_SHOWN_PATH];

    bp_core_log(s->core, BP_LOG_WARN,
                "%s: the key %s is not known and has no effect; correct its spelling or remove it",
                bp_show(shown, sizeof shown, entry->manifest_path),
                bp_show(key, sizeof key, entry->manifest.ignored));
}

static void search_add_manifest(struct search *s, const char *path)
{
    struct bp_plugin_entry *entry;
    struct bp_refusal why = {0};
    struct stat file;
    bool good, listed;
    uint32_t index;

    if (search_is_listed(s->core, path)) return;
    entry = bp_plugin_entry_create(s->core, path);
    if (!entry) {
        s->status = bp_error(BP_ERR_MEMORY, "no memory for another plugin");
        return;
    }
    entry->step = BP_STEP_TRUST;
    errno = 0;
    good = bp_trust_check(path, &file, &why);
    if (good) entry->step = BP_STEP_MANIFEST;
    good = good && bp_manifest_read(path, &entry->manifest, &why);
    if (good) entry->step = BP_STEP_FILE; /* loading begins there */
    if (!good && (why.memory || errno == ENOMEM || !manifest_fill_unknown(entry)))
        s->status = bp_error(BP_ERR_MEMORY, "%s: no memory to read it", path);

    if (good) listed = search_is_wanted(s, entry);
    else listed = !s->status && bp_select_match(s->globs, entry->manifest.name);
    if (s->status) listed = false;
    if (listed && !good) bp_plugin_set_result(entry, &why);
    if (listed && entry->manifest.ignored) warn_ignored(s, entry);
    if (listed) {
        pthread_mutex_lock(&s->core->lock);
        s->status = bp_plugin_entry_append(s->core, entry, &index);
        pthread_mutex_unlock(&s->core->lock);
        if (!s->status) return;
    }
    free(why.text);
    bp_plugin_entry_destroy(entry);
}

static int compare_strings(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Lists the names in a directory that do not begin with '.', in byte order. false: errno has the
 * reason. */
static bool list_directory(const char *path, char ***out_names, size_t *out_count)
{
    DIR *directory = opendir(path);
    struct dirent *item;
    char **names = NULL;
    size_t count = 0;
    bool good = directory != NULL;

    while (good && (item = readdir(directory))) {
        char **more;
        if (item->d_name[0] == '.') continue;
        more = realloc(names, (count + 1) * sizeof *more);
        if (more) names = more;
        good = more && (names[count] = strdup(item->d_name));
        count += good;
    }
    if (directory) closedir(directory);
    if (!good) {
        while (count) free(names[--count]);
        free(names);
        if (directory) errno = ENOMEM;
        return false;
    }
    if (count) qsort(names, count, sizeof *names, compare_strings);
    *out_names = names;
    *out_count = count;
    return true;
}

/* Adds the manifests in a directory and, if deep, those in its direct subdirectories. own: the
 * directory belongs to Backplane's installation, so links in it are followed before files are
 * checked. */
static void search_directory(struct search *s, const char *path, bool own, bool deep)
{
    char *resolved = own ? realpath(path, NULL) : NULL;
    char shown[BP_SHOWN_PATH], **names;
    size_t count;

    if (resolved) path = resolved;
    if ((own && !resolved && errno == ENOMEM) || !list_directory(path, &names, &count)) {
        if (errno == ENOMEM)
            s->status = bp_error(BP_ERR_MEMORY, "%s: no memory to search it for plugins", path);
        else if (errno != ENOENT)
            bp_core_log(s->core, BP_LOG_WARN,
                        "%s: cannot be searched for plugins: expected a directory, or a manifest, "
                        "whose name is bp_NAME.json, got \"%s\"; correct it or leave it out",
                        bp_show(shown, sizeof shown, path), strerror(errno));
        free(resolved);
        return;
    }
    for (size_t pass = 0; pass < (deep ? 2 : 1); pass++) {
        for (size_t i = 0; i < count && !s->status; i++) {
            bool manifest = !strncmp(names[i], "bp_", 3) && bp_path_has_suffix(names[i], ".json");
            char *full = manifest == (pass == 0) ? bp_path_join(path, names[i]) : NULL;
            struct stat file;

            if (manifest == (pass == 0) && !full)
                s->status = bp_error(BP_ERR_MEMORY, "no memory for a search path");
            if (full && manifest) search_add_manifest(s, full);
            else if (full && !(own ? stat : lstat)(full, &file) && S_ISDIR(file.st_mode))
                search_directory(s, full, own, false);
            free(full);
        }
    }
    for (size_t i = 0; i < count; i++) free(names[i]);
    free(names);
    free(resolved);
}

static void search_entry(struct search *s, const char *path)
{
    bool manifest = !strncmp(bp_path_basename(path), "bp_", 3) && bp_path_has_suffix(path, ".json");
    struct stat file;

    if (!manifest || (!lstat(path, &file) && S_ISDIR(file.st_mode)))
        search_directory(s, path, false, true);
    else if (!lstat(path, &file)) search_add_manifest(s, path);
}

/* Searches a list of directories and manifest files, separated by ':'. Relative paths would depend
 * on the current directory: they are skipped, with one warning. */
static void search_list(struct search *s, const char *list, const char *from)
{
    char shown[BP_SHOWN_PATH];
    bool warned = false;

    while (list && *list && !s->status) {
        size_t length = strcspn(list, ":");
        char *word = strndup(list, length), *clean = word ? bp_path_normalize(word) : NULL;

        if (!clean) s->status = bp_error(BP_ERR_MEMORY, "no memory for a search path");
        else if (word[0] == '/' && !bp_path_has_parent(clean)) search_entry(s, clean);
        else if (!warned) {
            bp_core_log(s->core, BP_LOG_WARN,
                        "%s: an entry is passed over: expected absolute directories without "
                        "\"..\", got \"%s\"; write it out",
                        from, bp_show(shown, sizeof shown, word));
            warned = true;
        }
        free(clean);
        free(word);
        list += length;
        if (*list == ':' && !list[1] && !warned)
            bp_core_log(s->core, BP_LOG_WARN,
                        "%s: an entry is passed over: expected absolute directories without "
                        "\"..\", got \"\"; write it out",
                        from);
        list += *list == ':';
    }
}

static void search_own_directory(struct search *s)
{
    char *own, *path;

    errno = 0;
    own = bp_path_of_core();
    path = own ? bp_path_join(own, "backplane") : NULL;
    if (!path && errno == ENOMEM)
        s->status = bp_error(BP_ERR_MEMORY, "no memory for a search path");
    else if (path) search_directory(s, path, true, true);
    else if (!own)
        bp_core_log(s->core, BP_LOG_WARN,
                    "libbackplane was loaded by a relative path: expected an absolute one, to "
                    "search the directory beside it; make LD_LIBRARY_PATH absolute");
    free(path);
    free(own);
}

/* Warns about a glob that matches no plugin: after a misspelt name the app would have no device and
 * see no reason. */
static void warn_unmatched(struct search *s)
{
    char glob[64];

    for (size_t i = 0; bp_select_glob(s->globs, i, glob); i++) {
        bool match = false;
        for (uint32_t e = 0; e < s->core->n_entry && !match; e++)
            match = bp_select_match(glob, s->core->entry[e]->manifest.name);
        if (!match)
            bp_core_log(s->core, BP_LOG_WARN,
                        "%s: \"%s\" selects no plugin: expected the name of one that is installed, "
                        "got none that matches; bp list shows all, with %s unset",
                        s->globs_from, glob, s->globs_from);
    }
}

enum bp_status bp_plugin_search(struct bp_core *core)
{
    struct search s = {
        .core = core, .globs = core->plugins, .globs_from = "plugins of the options"};

    if (!s.globs) {
        s.globs = bp_env_get("BP_PLUGINS");
        s.globs_from = "BP_PLUGINS";
    }
    search_list(&s, core->plugin_path, "plugin_path of the options");
    search_list(&s, bp_env_get("BP_PLUGIN_PATH"), "BP_PLUGIN_PATH");
    if (!s.status) search_own_directory(&s);
    for (size_t i = 0; i < sizeof system_directories / sizeof *system_directories; i++)
        if (!s.status) search_directory(&s, system_directories[i], true, true);
    warn_unmatched(&s);
    return s.status;
}
