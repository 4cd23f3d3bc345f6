/* SPDX-License-Identifier: Apache-2.0 */
/* locate.c: finds and opens the file of a library. A setting can name the file; otherwise the
 * process, folders and the system's loader are searched; see library.h. */
#include "library.h"
#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <glob.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    DEPTH = 4,
    LACKED = 16
}; /* limits for libraries that need other missing libraries: nesting, and number for one library */

void kit_setting_name(char out[KIT_SETTING_SIZE], const char *plugin, const char *setting)
{
    snprintf(out, KIT_SETTING_SIZE, "BP_%s_%s", plugin, setting);
    for (char *c = out; *c; c++) *c = (char)toupper(*c);
}

const char *kit_setting(const char *plugin, const char *setting)
{
    char name[KIT_SETTING_SIZE];
    const char *value;

    kit_setting_name(name, plugin, setting);
    value = secure_getenv(name);
    return value && *value ? value : NULL;
}

bool kit_setting_is_on(const char *plugin, const char *setting)
{
    const char *given = kit_setting(plugin, setting);

    return given && !strcmp(given, "1");
}

/* Writes a text as a glob pattern that matches only this text: escapes special characters. Returns
 * the length; KIT_PATH_SIZE: too long. */
static size_t put_plain(char out[KIT_PATH_SIZE], const char *text, size_t length)
{
    size_t used = 0;

    *out = 0;
    for (; length; length--) {
        if (used + 2 >= KIT_PATH_SIZE) return KIT_PATH_SIZE;
        if (strchr("*?[\\", *text)) out[used++] = '\\';
        out[used++] = *text++;
        out[used] = 0;
    }
    return used;
}

/* Writes the value of an environment variable, escaped as by put_plain. */
static size_t put_variable(char out[KIT_PATH_SIZE], const char *name, size_t length)
{
    char text[KIT_SETTING_SIZE];
    const char *value;

    snprintf(text, sizeof text, "%.*s", (int)length, name);
    value = secure_getenv(text);
    return value ? put_plain(out, value, strlen(value)) : put_plain(out, "", 0);
}

/* Writes a folder of a list as a glob pattern. false: the folder is not an absolute path, or is too
 * long. A folder of a target's list is a pattern already, and may begin with an environment
 * variable. */
static bool put_folder(char out[KIT_PATH_SIZE], const char *folder, size_t length, bool is_pattern)
{
    size_t used = 0, from = 0;

    if (!is_pattern) {
        used = put_plain(out, folder, from = length);
    } else if (*folder == '$') {
        from = strcspn(folder, "/:");
        used = put_variable(out, folder + 1, from - 1);
        if (!used) return false;
    }
    used += (size_t)snprintf(out + used, KIT_PATH_SIZE - used, "%.*s", (int)(length - from),
                             folder + from);
    return used < KIT_PATH_SIZE && *out == '/';
}

static bool is_file(const char *path)
{
    struct stat state;

    return !stat(path, &state) && S_ISREG(state.st_mode) && !access(path, R_OK);
}

/* Searches the folders that match a pattern. If several have the file, takes the one with the
 * newest version. */
static bool is_in_folder(char out[KIT_PATH_SIZE], const char *folder, const char *name)
{
    char pattern[KIT_PATH_SIZE + 64];
    bool found = false;
    glob_t all;

    snprintf(pattern, sizeof pattern, "%s/%s", folder, name);
    if (glob(pattern, 0, NULL, &all)) return false;
    for (size_t i = 0; i < all.gl_pathc; i++) {
        const char *path = all.gl_pathv[i];
        if (strlen(path) >= KIT_PATH_SIZE || !is_file(path)) continue;
        if (!found || strverscmp(path, out) > 0) strcpy(out, path);
        found = true;
    }
    globfree(&all);
    return found;
}

/* Searches the folders of a list in the format of LD_LIBRARY_PATH. */
static bool is_in_list(char out[KIT_PATH_SIZE], const char *list, const char *name, bool is_pattern)
{
    char folder[KIT_PATH_SIZE];

    while (list && *list) {
        size_t length = strcspn(list, ":");
        if (put_folder(folder, list, length, is_pattern) && is_in_folder(out, folder, name))
            return true;
        list += length + (list[length] == ':');
    }
    return false;
}

/* Whether dlerror's message reports that a file was not found: in every language the message then
 * ends with the system's text for ENOENT. */
static bool is_not_found(const char *error)
{
    const char *end = strerror(ENOENT);
    size_t length = strlen(error), n = strlen(end);

    return length >= n && !strcmp(error + length - n, end);
}

/* Finds the name of the missing library that another library needs: dlerror's message begins with
 * it. false: the error is another one, or `name` itself was not found. */
static bool lacks_another(char out[KIT_PATH_SIZE], const char *name, const char *error)
{
    size_t length = strcspn(error, ":");

    if (length >= KIT_PATH_SIZE) return false;
    memcpy(out, error, length);
    out[length] = 0;
    return is_not_found(error) && !strchr(out, '/') && strcmp(out, name) != 0;
}

/* Opens a library by its path, or by its name, which the loader then searches. If it needs another
 * library that the loader does not find, opens this one from the vendor's folders and tries again:
 * the loader may not know these folders, as with the drivers of DCUs. */
static void *locate_open_library(const char *name, const char *folders, int depth,
                                 char why[KIT_WHY_SIZE])
{
    char lacked[KIT_PATH_SIZE], path[KIT_PATH_SIZE];

    for (int i = 0; i < LACKED; i++) {
        void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
        if (library) return library;
        snprintf(why, KIT_WHY_SIZE, "%s", dlerror());
        if (!depth || !lacks_another(lacked, name, why) ||
            !is_in_list(path, folders, lacked, true) ||
            !locate_open_library(path, folders, depth - 1, why))
            return NULL;
    }
    return NULL;
}

/* BP_ERR_ABSENT only if the library itself was not found. If it lacks another library, the status
 * is BP_ERR_DEVICE. */
static enum bp_status search_loader(const struct kit_wanted *wanted, const char *name,
                                    struct kit_found *out, char why[KIT_WHY_SIZE])
{
    snprintf(out->path, sizeof out->path, "%s", name);
    out->library = locate_open_library(name, wanted->folders, DEPTH, why);
    if (out->library) return BP_OK;
    return !strncmp(why, name, strlen(name)) && is_not_found(why) ? BP_ERR_ABSENT : BP_ERR_DEVICE;
}

static enum bp_status search_process(const char *name, struct kit_found *out)
{
    snprintf(out->path, sizeof out->path, "%s", name);
    out->library = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    return out->library ? BP_OK : BP_ERR_ABSENT;
}

static enum bp_status locate_library(const struct kit_wanted *wanted, enum kit_place place,
                                     const char *name, struct kit_found *out,
                                     char why[KIT_WHY_SIZE])
{
    bool found = false;

    switch (place) {
    case KIT_LOADED: return search_process(name, out);
    case KIT_LOADER: return search_loader(wanted, name, out, why);
    case KIT_PATH:
        found = is_in_list(out->path, secure_getenv("LD_LIBRARY_PATH"), name, false);
        break;
    case KIT_FOLDERS: found = is_in_list(out->path, wanted->folders, name, true); break;
    case KIT_PLACES: break;
    }
    return found ? BP_OK : BP_ERR_ABSENT;
}

/* Uses only the file that the setting names. */
static enum bp_status locate_given(const struct kit_wanted *wanted, const char *given,
                                   struct kit_found *out, char why[KIT_WHY_SIZE])
{
    char name[KIT_SETTING_SIZE];

    snprintf(out->path, sizeof out->path, "%s", given);
    if (given[0] == '/' && !access(given, R_OK)) return BP_OK;
    kit_setting_name(name, wanted->plugin, wanted->setting);
    if (!strcmp(given, "off")) {
        snprintf(why, KIT_WHY_SIZE, "%s is off", name);
        return BP_ERR_ABSENT;
    }
    snprintf(why, KIT_WHY_SIZE, "there is no file that can be read where %s says: %.200s", name,
             given);
    return BP_ERR_DEVICE;
}

/* Writes the names that were searched for, and the places. */
static void locate_report(const struct kit_wanted *wanted, char why[KIT_WHY_SIZE])
{
    static const char *const where[KIT_PLACES] = {
        [KIT_LOADED] = "among the libraries of the process",
        [KIT_PATH] = "in LD_LIBRARY_PATH",
        [KIT_FOLDERS] = "in ",
        [KIT_LOADER] = "where the loader looks",
    };
    char setting[KIT_SETTING_SIZE];
    size_t used = 0;

    for (const char *const *n = wanted->names; *n && used < 200; n++)
        used += (size_t)snprintf(why + used, KIT_WHY_SIZE - used, "%s%.100s", used ? ", " : "no ",
                                 *n);
    for (const enum kit_place *place = wanted->place; *place != KIT_PLACES; place++)
        used += (size_t)snprintf(why + used, KIT_WHY_SIZE - used, "%s%s%.500s",
                                 place == wanted->place ? " " : " or ", where[*place],
                                 *place == KIT_FOLDERS ? wanted->folders : "");
    kit_setting_name(setting, wanted->plugin, wanted->setting);
    snprintf(why + used, KIT_WHY_SIZE - used, "; %s can name its file", setting);
}

enum bp_status kit_library_find(const struct kit_wanted *wanted, struct kit_found *out,
                                char why[KIT_WHY_SIZE])
{
    const char *given = kit_setting(wanted->plugin, wanted->setting);

    *out = (struct kit_found){.library = NULL};
    if (given) return locate_given(wanted, given, out, why);
    for (const enum kit_place *place = wanted->place; *place != KIT_PLACES; place++)
        for (const char *const *n = wanted->names; *n; n++) {
            enum bp_status status = locate_library(wanted, *place, *n, out, why);
            if (status != BP_ERR_ABSENT) return status;
        }
    locate_report(wanted, why);
    return BP_ERR_ABSENT;
}

/* Opens the library, and stores the path under which the loader knows it. */
static enum bp_status open_found(const struct kit_wanted *wanted, struct kit_found *out,
                                 char why[KIT_WHY_SIZE])
{
    enum bp_status status = kit_library_find(wanted, out, why);
    struct link_map *map = NULL;

    if (status != BP_OK) return status;
    if (!out->library) out->library = locate_open_library(out->path, wanted->folders, DEPTH, why);
    if (!out->library) return BP_ERR_DEVICE;
    if (!dlinfo(out->library, RTLD_DI_LINKMAP, &map) && map && *map->l_name)
        snprintf(out->path, sizeof out->path, "%s", map->l_name);
    return BP_OK;
}

/* Only one thread at a time: a thread may read the name of a library that another thread has
 * opened, and the loader does not promise any order between the two. */
enum bp_status kit_library_open(const struct kit_wanted *wanted, struct kit_found *out,
                                char why[KIT_WHY_SIZE])
{
    static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
    enum bp_status status;

    pthread_mutex_lock(&opening);
    status = open_found(wanted, out, why);
    pthread_mutex_unlock(&opening);
    return status;
}
