/* SPDX-License-Identifier: Apache-2.0 */
/* test_kit_library.c: tests that sdk/kit finds libraries by names, folders and settings, and that
 * it reports what is missing. The libraries are links to the system's libm. */
#include "fixture.h"
#include <kit/library.h>
#include <dlfcn.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATHS = 8 };

static char folder[64], made[PATHS][256], libm[256];
static int n_made;

/* Makes a link to libm in a folder below the test's folder. */
static void library_link(const char *name)
{
    char *path = made[n_made++];

    snprintf(path, sizeof made[0], "%s/%s", folder, name);
    CHECK(!symlink(libm, path), "symlink %s", path);
}

static void library_unlink(void)
{
    while (n_made) unlink(made[--n_made]);
}

static const enum kit_place in_folders[] = {KIT_FOLDERS, KIT_PLACES};
static const enum kit_place in_loader[] = {KIT_LOADER, KIT_PLACES};

static const struct kit_symbol symbols[] = {{"cos", true},
                                            {"no_such_function", false},
                                            {NULL, true}};
static const struct kit_symbol missing[] = {{"cos", true}, {"no_such_function", true}};

static void settings_are_read(void)
{
    char name[KIT_SETTING_SIZE];

    kit_setting_name(name, "kittest", "trace");
    CHECK(!strcmp(name, "BP_KITTEST_TRACE"), "%s", name);
    CHECK(!kit_setting("kittest", "TRACE"), "it is set");
    setenv("BP_KITTEST_TRACE", "", 1);
    CHECK(!kit_setting("kittest", "TRACE"), "an empty variable is set");
    setenv("BP_KITTEST_TRACE", "0", 1);
    CHECK(!strcmp(kit_setting("kittest", "TRACE"), "0"), "not its value");
    CHECK(!kit_setting_is_on("kittest", "TRACE"), "0 is on");
    setenv("BP_KITTEST_TRACE", "1", 1);
    CHECK(kit_setting_is_on("kittest", "TRACE"), "1 is off");
    unsetenv("BP_KITTEST_TRACE");
}

static void a_library_is_loaded_once(void)
{
    static const char *const names[] = {"libm.so.none", "libm.so.6", NULL};
    static const struct kit_wanted wanted = {"kittest", "LIBRARY", names, "", in_loader};
    static void *function[3];
    static struct kit_library library = KIT_LIBRARY(symbols, function, NULL);
    int mark;

    function[2] = &mark;
    CHECK(kit_library_load(&library, &wanted) == BP_OK, "%s", library.why);
    CHECK(library.n == 3 && function[0] == dlsym(dlopen("libm.so.6", RTLD_NOW), "cos"),
          "cos is not found");
    CHECK(!function[1] && function[2] == &mark, "functions that the library lacks");
    CHECK(strstr(library.path, "/libm.so.6") != NULL, "the path is %s", library.path);
    function[0] = NULL;
    CHECK(kit_library_load(&library, &wanted) == BP_OK && !function[0], "it is loaded again");
}

static void a_missing_library_is_reported_with_names_and_places(void)
{
    static const char *const names[] = {"libkit_none.so.2", "libkit_none.so.1", NULL};
    static const enum kit_place place[] = {KIT_LOADED, KIT_PATH, KIT_FOLDERS, KIT_LOADER,
                                           KIT_PLACES};
    static const struct kit_wanted wanted = {"kittest", "LIBRARY", names, "/a/b:$KIT_NONE/c",
                                             place};
    static void *function[3];
    static struct kit_library library = KIT_LIBRARY(symbols, function, NULL);

    CHECK(kit_library_load(&library, &wanted) == BP_ERR_ABSENT, "it is there");
    CHECK(!strcmp(library.why,
                  "no libkit_none.so.2, libkit_none.so.1 among the libraries of the process or in "
                  "LD_LIBRARY_PATH or in /a/b:$KIT_NONE/c or where the loader looks; "
                  "BP_KITTEST_LIBRARY can name its file"),
          "%s", library.why);
}

static void a_missing_function_is_named(void)
{
    static const char *const names[] = {"libm.so.6", NULL};
    static const struct kit_wanted wanted = {"kittest", "LIBRARY", names, "", in_loader};
    static void *function[2];
    static struct kit_library library = KIT_LIBRARY(missing, function, "; install version 3");

    CHECK(kit_library_load(&library, &wanted) == BP_ERR_DEVICE, "it has the function");
    CHECK(strstr(library.why, "/libm.so.6 has no function no_such_function; install version 3"),
          "%s", library.why);
}

static void the_newest_version_of_a_folder_is_found(void)
{
    static const char *const names[] = {"libkit_a.so*", NULL};
    static const struct kit_wanted wanted = {"kittest", "LIBRARY", names,
                                             "relative:$KIT_NONE/x:$KIT_FOLDER", in_folders};
    struct kit_found found;
    char why[KIT_WHY_SIZE];

    setenv("KIT_FOLDER", folder, 1);
    CHECK(kit_library_find(&wanted, &found, why) == BP_ERR_ABSENT, "found %s", found.path);
    library_link("libkit_a.so.9");
    library_link("libkit_a.so.10");
    CHECK(kit_library_find(&wanted, &found, why) == BP_OK, "%s", why);
    CHECK(!found.library && !strcmp(found.path, made[1]), "found %s", found.path);
    CHECK(kit_library_open(&wanted, &found, why) == BP_OK && found.library, "%s", why);
    library_unlink();
}

/* A folder of the environment is no pattern, whatever its characters. */
static void the_environment_has_no_patterns(void)
{
    static const char *const names[] = {"libkit_a.so.1", NULL};
    static const struct kit_wanted wanted = {"kittest", "LIBRARY", names, "$KIT_FOLDER",
                                             in_folders};
    char pattern[sizeof folder], why[KIT_WHY_SIZE];
    struct kit_found found;

    library_link("libkit_a.so.1");
    strcpy(pattern, folder);
    pattern[strlen(pattern) - 1] = '?';
    setenv("KIT_FOLDER", pattern, 1);
    CHECK(kit_library_find(&wanted, &found, why) == BP_ERR_ABSENT, "found %s", found.path);
    setenv("KIT_FOLDER", folder, 1);
    CHECK(kit_library_find(&wanted, &found, why) == BP_OK, "%s", why);
    library_unlink();
}

static void a_setting_names_the_only_file(void)
{
    static const char *const names[] = {"libm.so.6", NULL};
    static const struct kit_wanted wanted = {"kittest", "LIBRARY", names, "", in_loader};
    struct kit_found found;
    char why[KIT_WHY_SIZE];

    setenv("BP_KITTEST_LIBRARY", "off", 1);
    CHECK(kit_library_find(&wanted, &found, why) == BP_ERR_ABSENT, "it is not off");
    CHECK(!strcmp(why, "BP_KITTEST_LIBRARY is off"), "%s", why);
    setenv("BP_KITTEST_LIBRARY", "/none", 1);
    CHECK(kit_library_find(&wanted, &found, why) == BP_ERR_DEVICE, "a missing file is used");
    library_link("other_name");
    setenv("BP_KITTEST_LIBRARY", "other_name", 1);
    CHECK(!chdir(folder), "chdir");
    CHECK(kit_library_find(&wanted, &found, why) == BP_ERR_DEVICE, "a relative path is used");
    setenv("BP_KITTEST_LIBRARY", made[0], 1);
    CHECK(kit_library_open(&wanted, &found, why) == BP_OK, "%s", why);
    unsetenv("BP_KITTEST_LIBRARY");
    library_unlink();
}

static void a_file_that_is_no_library_is_reported(void)
{
    static const char *const names[] = {"none", NULL};
    static const struct kit_wanted wanted = {"kittest", "LIBRARY", names, "", in_loader};
    static void *function[3];
    static struct kit_library library = KIT_LIBRARY(symbols, function, NULL);

    setenv("BP_KITTEST_LIBRARY", "/dev/null", 1);
    CHECK(kit_library_load(&library, &wanted) == BP_ERR_DEVICE, "it is open");
    CHECK(strstr(library.why, "/dev/null cannot be opened: ") == library.why, "%s", library.why);
    unsetenv("BP_KITTEST_LIBRARY");
}

int main(void)
{
    static const struct kit_test tests[] = {
        {"settings are read", settings_are_read},
        {"a library is loaded once", a_library_is_loaded_once},
        {"a missing library is reported", a_missing_library_is_reported_with_names_and_places},
        {"a missing function is named", a_missing_function_is_named},
        {"the newest version of a folder is found", the_newest_version_of_a_folder_is_found},
        {"the environment has no patterns", the_environment_has_no_patterns},
        {"a setting names the only file", a_setting_names_the_only_file},
        {"a file that is no library is reported", a_file_that_is_no_library_is_reported},
    };
    struct link_map *map = NULL;
    void *library = dlopen("libm.so.6", RTLD_NOW);
    int status;

    if (!library || dlinfo(library, RTLD_DI_LINKMAP, &map) || !realpath(map->l_name, libm))
        return 2;
    snprintf(folder, sizeof folder, "/tmp/bp-kit-XXXXXX");
    if (!mkdtemp(folder)) return 2;
    status = kit_run(tests, sizeof tests / sizeof *tests);
    rmdir(folder);
    return status;
}
