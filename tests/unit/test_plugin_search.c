/* SPDX-License-Identifier: Apache-2.0 */
/* test_plugin_search.c: tests where and in which order plugins are searched, which plugins are
 * selected, and the effect of environment variables. */
#include "plugin_kit.h"
#include <unistd.h>

/* Writes a valid manifest with this name and version. */
static void plugin_search_announce(const char *directory, const char *name, const char *version)
{
    char *text = kit_format(
        "{\"manifest\": 1, \"name\": \"%s\", \"kind\": \"t_kind\", \"library\": \"bp_x.so\", "
        "\"abi\": {\"major\": 0, \"minor\": 1}, \"version\": \"%s\"}",
        name, version);

    kit_write(kit_format("%s/bp_%s.json", directory, name), text, strlen(text));
}

static char *make_directory(const char *directory, const char *name)
{
    char *path = kit_format("%s/%s", directory, name);

    cr_assert_eq(mkdir(path, 0755), 0);
    return path;
}

/* Returns the names of the listed plugins, with a space behind each. */
static char *plugin_search_names(struct bp_core *core)
{
    char *text = kit_format("%s", "");

    for (uint32_t i = 0; i < bp_core_plugins(core); i++) {
        struct bp_plugin_info info = {.size = sizeof info};
        OK(bp_core_plugin(core, i, &info));
        text = kit_format("%s%s ", text, info.name);
    }
    return text;
}

Test(plugin_search, order_and_shadows)
{
    char *directory = kit_create(), *a = make_directory(directory, "a"),
         *b = make_directory(directory, "b");
    struct kit_log log;
    struct bp_core *core;

    plugin_search_announce(a, "t_two", "1");
    plugin_search_announce(make_directory(a, "y"), "t_four", "1");
    plugin_search_announce(make_directory(a, "x"), "t_three", "1");
    plugin_search_announce(a, "t_one", "1");
    plugin_search_announce(make_directory(kit_format("%s/x", a), "deeper"), "t_never", "1");
    plugin_search_announce(make_directory(a, ".hidden"), "t_never", "1");
    plugin_search_announce(b, "t_two", "2");
    plugin_search_announce(b, "t_five", "2");
    setenv("BP_PLUGIN_PATH", b, 1);
    core = kit_core(&log, a, "t_*");
    cr_assert_str_eq(plugin_search_names(core), "t_one t_two t_three t_four t_five ");
    cr_assert_str_eq(kit_info(core, "t_two").version, "1");
    cr_assert_eq(kit_info(core, "t_two").state, BP_PLUGIN_UNPROBED);
    cr_assert_str_eq(kit_info(core, "t_two").manifest, kit_format("%s/bp_t_two.json", a));
    cr_assert_str_eq(kit_info(core, "t_three").library, kit_format("%s/x/bp_x.so", a));
    cr_assert_eq(log.count[BP_LOG_WARN], 0, "%s", log.text[BP_LOG_WARN]);
    cr_assert_eq(log.count[BP_LOG_ERROR], 0);
    bp_core_destroy(core);

    /* A plugin that occurs in two directories of the path is listed once. */
    core = kit_core(&log, kit_format("%s:%s", a, b), "t_two");
    cr_assert_str_eq(plugin_search_names(core), "t_two ");
    bp_core_destroy(core);
    kit_destroy(directory);
}

/* A broken manifest does not shadow a valid one with the same name in a later directory. */
Test(plugin_search, a_broken_manifest_shadows_nothing)
{
    char *directory = kit_create(), *a = make_directory(directory, "a"),
         *b = make_directory(directory, "b");
    struct kit_log log;
    struct bp_core *core;

    kit_write(kit_format("%s/bp_t_one.json", a), "{", 1);
    plugin_search_announce(b, "t_one", "2");
    core = kit_core(&log, kit_format("%s:%s", a, b), "t_*");
    cr_assert_str_eq(plugin_search_names(core), "t_one t_one ");
    cr_assert_eq(log.count[BP_LOG_ERROR], 1);
    cr_assert_eq(bp_core_load(core, 0), BP_ERR_PLUGIN);
    cr_assert_eq(log.count[BP_LOG_ERROR], 1);
    bp_core_destroy(core);
    kit_destroy(directory);
}

/* All files of a directory that is named twice count once, also a broken manifest. */
Test(plugin_search, a_directory_named_twice)
{
    char *directory = kit_create();
    struct kit_log log;
    struct bp_core *core;

    kit_write(kit_format("%s/bp_t_one.json", directory), "{", 1);
    make_directory(directory, "bp_t_three.json");
    plugin_search_announce(kit_format("%s/bp_t_three.json", directory), "t_never", "1");
    plugin_search_announce(make_directory(directory, "in"), "t_two", "1");
    setenv("BP_PLUGIN_PATH", kit_format("%s//:%s/in", directory, directory), 1);
    core = kit_core(&log, kit_format("%s:%s", directory, directory), "t_*");
    cr_assert_str_eq(plugin_search_names(core), "t_one t_three t_two ");
    cr_assert_eq(log.count[BP_LOG_ERROR], 2);
    bp_core_destroy(core);
    kit_destroy(directory);
}

Test(plugin_search, never_the_current_directory)
{
    static const char *const paths[] = {
        ".", "", ":", "./", "plugins", ":/nonexistent", "/nonexistent:", "/tmp/../tmp"};
    char *directory = kit_create();
    struct kit_log log;

    plugin_search_announce(directory, "t_here", "1");
    plugin_search_announce(make_directory(directory, "backplane"), "t_here", "1");
    plugin_search_announce(make_directory(directory, "plugins"), "t_here", "1");
    cr_assert_eq(chdir(directory), 0);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct bp_core *core = kit_core(&log, paths[i], "!nothing");
        cr_assert_eq(kit_find(core, "t_here"), UINT32_MAX, "found by %s", paths[i]);
        cr_assert_eq(log.count[BP_LOG_WARN], *paths[i] ? 1 : 0, "%s: %d warnings, the last: %s",
                     paths[i], log.count[BP_LOG_WARN], log.text[BP_LOG_WARN]);
        bp_core_destroy(core);
    }
    kit_destroy(directory);
}

Test(plugin_search, a_relative_path_is_one_warning)
{
    struct kit_log log;
    struct bp_core *core = kit_core(&log, "/nonexistent:here:there::", "!nothing");

    cr_assert_eq(log.count[BP_LOG_WARN], 1);
    cr_assert_str_eq(log.text[BP_LOG_WARN],
                     "plugin_path of the options: an entry is passed over: expected absolute "
                     "directories without \"..\", got \"here\"; write it out");
    bp_core_destroy(core);
}

Test(plugin_search, a_file_is_no_directory)
{
    char *directory = kit_create(), *file = kit_format("%s/file", directory);
    struct kit_log log;
    struct bp_core *core;

    kit_write(file, "", 0);
    core = kit_core(&log, file, "!nothing");
    cr_assert_str_eq(log.text[BP_LOG_WARN],
                     kit_format("%s: cannot be searched for plugins: expected a directory, or a "
                                "manifest, whose name is bp_NAME.json, got \"Not a directory\"; "
                                "correct it or leave it out",
                                file));
    bp_core_destroy(core);
    kit_destroy(directory);
}

static void check_selection(const char *directory, const char *globs, const char *expected)
{
    struct kit_log log;
    struct bp_core *core = kit_core(&log, directory, globs);

    cr_assert_str_eq(plugin_search_names(core), expected, "%s selects %s", globs,
                     plugin_search_names(core));
    bp_core_destroy(core);
}

Test(plugin_search, selection)
{
    char *directory = kit_create();
    struct kit_log log;
    struct bp_core *core;

    plugin_search_announce(directory, "t_a", "1");
    plugin_search_announce(directory, "t_ab", "1");
    plugin_search_announce(directory, "t_b", "1");
    check_selection(directory, "t_a", "t_a ");
    check_selection(directory, "t_*", "t_a t_ab t_b ");
    check_selection(directory, "t_a*,!t_ab", "t_a ");
    check_selection(directory, "!t_ab,t_a*", "t_a ");
    check_selection(directory, " t_b , t_a ,", "t_a t_b ");
    check_selection(directory, "t_?", "t_a t_b ");

    /* The environment counts if the options are silent; otherwise the options count. */
    setenv("BP_PLUGINS", "t_ab", 1);
    check_selection(directory, NULL, "t_ab ");
    check_selection(directory, "t_b", "t_b ");

    /* A misspelt name. */
    setenv("BP_PLUGINS", "t_a,t_aab", 1);
    core = kit_core(&log, directory, NULL);
    cr_assert_eq(log.count[BP_LOG_WARN], 1);
    cr_assert_str_eq(log.text[BP_LOG_WARN],
                     "BP_PLUGINS: \"t_aab\" selects no plugin: expected the name of one that is "
                     "installed, got none that matches; bp list shows all, with BP_PLUGINS unset");
    bp_core_destroy(core);
    kit_destroy(directory);
}

/* The core does not complain about a broken plugin that is not selected. */
Test(plugin_search, a_broken_one_that_is_not_selected)
{
    char *directory = kit_create();
    struct kit_log log;
    struct bp_core *core;

    kit_write(kit_format("%s/bp_t_broken.json", directory), "{", 1);
    plugin_search_announce(directory, "t_a", "1");
    core = kit_core(&log, directory, "t_*,!t_broken");
    cr_assert_str_eq(plugin_search_names(core), "t_a ");
    cr_assert_eq(log.count[BP_LOG_ERROR], 0);
    bp_core_destroy(core);
    kit_destroy(directory);
}

Test(plugin_search, a_key_that_is_not_known)
{
    static const char text[] =
        "{\"manifest\": 1, \"name\": \"t_a\", \"kind\": \"t_a\", \"library\": \"bp_x.so\", "
        "\"abi\": {\"major\": 0, \"minor\": 1}, \"version\": \"1\", \"prioritty\": 5}";
    char *directory = kit_create();
    struct kit_log log;
    struct bp_core *core;

    kit_write(kit_format("%s/bp_t_a.json", directory), text, strlen(text));
    core = kit_core(&log, directory, "t_*");
    cr_assert_eq(kit_info(core, "t_a").state, BP_PLUGIN_UNPROBED);
    cr_assert_str_eq(log.text[BP_LOG_WARN],
                     kit_format("%s/bp_t_a.json: the key prioritty is not known and has no effect; "
                                "correct its spelling or remove it",
                                directory));
    bp_core_destroy(core);
    kit_destroy(directory);
}
