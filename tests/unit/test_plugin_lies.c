/* SPDX-License-Identifier: Apache-2.0 */
/* test_plugin_lies.c: tests manifests that are malformed or false, and files that other users could
 * have written: the exact message for each, logged once, and a good plugin beside it that works. */
#include "plugin_kit.h"
#include <fcntl.h>
#include <unistd.h>

#define REAL "h_short_plugin" /* a good plugin, which each case makes invalid */
#define HEAD \
    "{\"manifest\": 1, \"name\": \"" REAL "\", \"kind\": \"" REAL "\", \"library\": \"bp_" REAL \
    ".so\""
#define REST ", \"abi\": {\"major\": 0, \"minor\": 12}, \"version\": \"0.1.0\""
#define ANEW "write it anew with: bp manifest FILE.so"

static void make_text(const char *dir, const char *text)
{
    kit_library(dir, REAL);
    kit_write(kit_format("%s/bp_%s.json", dir, REAL), text, strlen(text));
}

/* --- malformed ------------------------------------------------------------------------------- */

static void make_huge(const char *dir)
{
    make_text(dir, "{");
    cr_assert_eq(truncate(kit_format("%s/bp_%s.json", dir, REAL), 100 << 20), 0);
}

static void make_deep(const char *dir)
{
    static char text[20001];

    memset(text, '[', 10000);
    memset(text + 10000, ']', 10000);
    make_text(dir, text);
}

static void make_empty(const char *dir)
{
    make_text(dir, "");
}
static void make_half(const char *dir)
{
    make_text(dir, "{\"manifest\": 1,\n\"name\": \"" REAL);
}
static void make_list(const char *dir)
{
    make_text(dir, "[1, 2]");
}
static void make_more(const char *dir)
{
    make_text(dir, HEAD REST "}\n{}");
}
static void make_future(const char *dir)
{
    make_text(dir, "{\"manifest\": 2}");
}
static void make_nameless(const char *dir)
{
    make_text(dir, "{\"manifest\": 1, \"kind\": \"" REAL "\"}");
}
static void make_number(const char *dir)
{
    make_text(dir, "{\"manifest\": 1, \"name\": 42}");
}
static void make_capitals(const char *dir)
{
    make_text(dir, "{\"manifest\": 1, \"name\": \"H\\u001b[31m\"}");
}
static void make_twice(const char *dir)
{
    make_text(dir, HEAD REST ", \"name\": \"h_other\"}");
}
static void make_abi_text(const char *dir)
{
    make_text(dir, HEAD ", \"abi\": \"0.1\"}");
}
static void make_no_version(const char *dir)
{
    make_text(dir, HEAD ", \"abi\": {\"major\": 0, \"minor\": 1}}");
}
static void make_priority(const char *dir)
{
    make_text(dir, HEAD REST ", \"priority\": 1.5}");
}
static void make_features(const char *dir)
{
    make_text(dir, HEAD REST ", \"cpu_features\": \"avx2\"}");
}
static void make_hash_text(const char *dir)
{
    make_text(dir, HEAD REST ", \"sha256\": \"0123\"}");
}

static void make_climbing(const char *dir)
{
    make_text(dir, "{\"manifest\": 1, \"name\": \"" REAL "\", \"kind\": \"" REAL
                   "\", \"library\": \"../bp_x.so\"}");
}

static void make_archive(const char *dir)
{
    make_text(dir, "{\"manifest\": 1, \"name\": \"" REAL "\", \"kind\": \"" REAL
                   "\", \"library\": \"bp_x.la\"}");
}

/* --- false ----------------------------------------------------------------------------------- */

static void make_other_kind(const char *dir)
{
    make_text(dir, "{\"manifest\": 1, \"name\": \"" REAL
                   "\", \"kind\": \"h_gpu\", \"library\": \"bp_" REAL ".so\"" REST "}");
}

static void make_other_version(const char *dir)
{
    make_text(dir, HEAD ", \"abi\": {\"major\": 0, \"minor\": 1}, \"version\": \"9.9\"}");
}

static void make_other_minor(const char *dir)
{
    make_text(dir, HEAD ", \"abi\": {\"major\": 0, \"minor\": 13}, \"version\": \"0.1.0\"}");
}

static void make_other_major(const char *dir)
{
    make_text(dir, HEAD ", \"abi\": {\"major\": 3, \"minor\": 1}, \"version\": \"0.1.0\"}");
}

/* The manifest's library is another plugin. */
static void make_other_name(const char *dir)
{
    kit_library(dir, "h_good");
    make_text(dir, "{\"manifest\": 1, \"name\": \"" REAL
                   "\", \"kind\": \"h_good\", \"library\": \"bp_h_good.so\"" REST "}");
}

static void make_other_hash(const char *dir)
{
    make_text(dir, HEAD REST ", \"sha256\": \""
                             "0123456789abcdef0123456789abcdef"
                             "0123456789abcdef0123456789abcdef"
                             "\"}");
}

static void make_other_processor(const char *dir)
{
    make_text(dir, HEAD REST ", \"cpu_features\": [\"fpu_of_the_future\"]}");
}

/* --- trust ----------------------------------------------------------------------------------- */

static void make_open_file(const char *dir)
{
    kit_plugin(dir, REAL);
    cr_assert_eq(chmod(kit_format("%s/bp_%s.so", dir, REAL), 0666), 0);
}

static void make_open_manifest(const char *dir)
{
    kit_plugin(dir, REAL);
    cr_assert_eq(chmod(kit_format("%s/bp_%s.json", dir, REAL), 0646), 0);
}

/* Creates a sub-directory with the library, and a manifest outside it that names the library. */
static void make_inside(const char *dir, const char *name, mode_t mode)
{
    char *inside = kit_format("%s/%s", dir, name);

    cr_assert_eq(mkdir(inside, 0755), 0);
    kit_library(inside, REAL);
    cr_assert_eq(chmod(inside, mode), 0);
    make_text(dir, kit_format("{\"manifest\": 1, \"name\": \"%s\", \"kind\": \"%s\", \"library\": "
                              "\"%s/bp_%s.so\"" REST "}",
                              REAL, REAL, name, REAL));
}

static void make_open_directory(const char *dir)
{
    make_inside(dir, "open", 0777);
}
static void make_sticky_directory(const char *dir)
{
    make_inside(dir, "sticky", 01777);
}

static void make_open_both(const char *dir)
{
    char *inside = kit_format("%s/open", dir);

    cr_assert_eq(mkdir(inside, 0755), 0);
    kit_plugin(inside, REAL);
    cr_assert_eq(chmod(inside, 0777), 0);
}

static void make_linked_file(const char *dir)
{
    kit_plugin(dir, REAL);
    cr_assert_eq(rename(kit_format("%s/bp_%s.so", dir, REAL), kit_format("%s/real.so", dir)), 0);
    cr_assert_eq(symlink("real.so", kit_format("%s/bp_%s.so", dir, REAL)), 0);
}

static void make_linked_directory(const char *dir)
{
    make_inside(dir, "real", 0755);
    cr_assert_eq(rename(kit_format("%s/real", dir), kit_format("%s/moved", dir)), 0);
    cr_assert_eq(symlink("moved", kit_format("%s/real", dir)), 0);
}

static void make_linked_manifest(const char *dir)
{
    kit_plugin(dir, REAL);
    cr_assert_eq(rename(kit_format("%s/bp_%s.json", dir, REAL), kit_format("%s/real.json", dir)),
                 0);
    cr_assert_eq(symlink("real.json", kit_format("%s/bp_%s.json", dir, REAL)), 0);
}

static void make_dangling(const char *dir)
{
    kit_manifest(dir, REAL);
    cr_assert_eq(symlink("nowhere", kit_format("%s/bp_%s.so", dir, REAL)), 0);
}

static void make_pipe(const char *dir)
{
    kit_library(dir, REAL);
    cr_assert_eq(mkfifo(kit_format("%s/bp_%s.json", dir, REAL), 0600), 0);
}

#define KEY(name, expected, got, advice) \
    "{J}: the key " name " is wrong: expected " expected ", got " got "; " advice
#define SHUT(what, expected, got) \
    what " can be changed by other users: expected mode " expected ", got " got "; "

static const struct kit_case cases[] = {
    /* Malformed manifests. */
    {REAL, make_huge, BP_ERR_PLUGIN,
     "{J}: too large: expected at most 65536 bytes, got 104857600; " ANEW},
    {REAL, make_deep, BP_ERR_PLUGIN,
     "{J}: nested too deeply: expected at most 8 levels, got more at byte 8; " ANEW},
    {REAL, make_empty, BP_ERR_PLUGIN,
     "{J}: not a manifest: expected one JSON object, got an empty file at line 1; " ANEW},
    {REAL, make_half, BP_ERR_PLUGIN,
     "{J}: not a manifest: expected one JSON object, got an error at line 2; " ANEW},
    {REAL, make_list, BP_ERR_PLUGIN,
     "{J}: not a manifest: expected one JSON object, got another value at line 1; " ANEW},
    {REAL, make_more, BP_ERR_PLUGIN,
     "{J}: not a manifest: expected one JSON object, got more text at line 2; " ANEW},
    {REAL, make_pipe, BP_ERR_PLUGIN,
     "{J}: {J} is of the wrong type: expected a regular file, got a special file; correct the "
     "path"},
    {REAL, make_future, BP_ERR_PLUGIN,
     KEY("manifest", "1", "2", "install a library that is as new as the plugin, or " ANEW)},
    {REAL, make_nameless, BP_ERR_PLUGIN,
     "{J}: the key name is missing: expected lower-case letters, digits and '_', at most 63, got "
     "nothing; " ANEW},
    {REAL, make_number, BP_ERR_PLUGIN,
     KEY("name", "lower-case letters, digits and '_', at most 63", "42", ANEW)},
    {REAL, make_capitals, BP_ERR_PLUGIN,
     KEY("name", "lower-case letters, digits and '_', at most 63", "\"H?[31m\"", ANEW)},
    {REAL, make_twice, BP_ERR_PLUGIN,
     "{J}: the key name stands there twice: expected it once, got \"h_other\" as well; remove one"},
    {REAL, make_climbing, BP_ERR_PLUGIN,
     KEY("library", "a path that ends in .so, without \"..\"", "\"../bp_x.so\"",
         "name the library beside the manifest, or its absolute path")},
    {REAL, make_archive, BP_ERR_PLUGIN,
     KEY("library", "a path that ends in .so, without \"..\"", "\"bp_x.la\"",
         "name the library beside the manifest, or its absolute path")},
    {REAL, make_abi_text, BP_ERR_PLUGIN,
     KEY("abi", "{\"major\": number, \"minor\": number}", "\"0.1\"", ANEW)},
    {REAL, make_no_version, BP_ERR_PLUGIN,
     "{J}: the key version is missing: expected 1 to 63 characters without spaces, got "
     "nothing; " ANEW},
    {REAL, make_priority, BP_ERR_PLUGIN,
     KEY("priority", "a whole number from -1000000 to 1000000", "1.5",
         "correct it or leave it out")},
    {REAL, make_features, BP_ERR_PLUGIN,
     KEY("cpu_features", "at most 64 words as in the flags of /proc/cpuinfo", "\"avx2\"",
         "correct it or leave it out")},
    {REAL, make_hash_text, BP_ERR_PLUGIN,
     KEY("sha256", "64 hexadecimal digits", "\"0123\"", "correct it with: sha256sum FILE.so")},

    /* False manifests. */
    {REAL, make_other_name, BP_ERR_PLUGIN,
     "{D}/bp_h_good.so: its name is not what the manifest {J} says: expected \"" REAL
     "\", got \"h_good\"; write it "
     "anew with: bp manifest {D}/bp_h_good.so"},
    {REAL, make_other_version, BP_ERR_PLUGIN,
     "{L}: its version is not what the manifest {J} says: expected \"9.9\", got \"0.1.0\"; write "
     "it anew with: bp "
     "manifest {L}"},
    {REAL, make_other_kind, BP_ERR_PLUGIN,
     "{L}: its device kind is not what the manifest {J} says: expected \"h_gpu\", got \"" REAL
     "\"; write it anew "
     "with: bp manifest {L}"},
    {REAL, make_other_minor, BP_ERR_PLUGIN,
     "{L}: its ABI is not what the manifest {J} says: expected 0.13, got 0.12; write it anew with: "
     "bp manifest {L}"},
    {REAL, make_other_major, BP_ERR_PLUGIN,
     "{J}: of another plugin ABI, says its manifest: expected major 0, got 3; install the build "
     "for this version"},
    {REAL, make_other_hash, BP_ERR_PLUGIN,
     "{L}: the SHA-256 is not that of the manifest: expected "
     "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef, got {H}; install the "
     "plugin again, or write "
     "the manifest anew"},
    {REAL, make_other_processor, BP_ERR_ABSENT,
     "{L}: the processor lacks what it needs: expected fpu_of_the_future in /proc/cpuinfo, got a "
     "processor without "
     "it; use a build for this processor"},

    /* Files that are not trusted. */
    {REAL, make_open_file, BP_ERR_PLUGIN,
     "{L}: " SHUT("{L}", "0644", "0666") "run: chmod go-w {L}"},
    {REAL, make_open_manifest, BP_ERR_PLUGIN,
     "{J}: " SHUT("{J}", "0644", "0646") "run: chmod go-w {J}"},
    {REAL, make_open_directory, BP_ERR_PLUGIN,
     "{D}/open/bp_" REAL ".so: " SHUT("{D}/open", "0755", "0777") "run: chmod go-w {D}/open"},
    {REAL, make_open_both, BP_ERR_PLUGIN,
     "{D}/open/bp_" REAL ".json: " SHUT("{D}/open", "0755", "0777") "run: chmod go-w {D}/open"},
    {REAL, make_sticky_directory, BP_ERR_PLUGIN,
     "{D}/sticky/bp_" REAL
     ".so: " SHUT("{D}/sticky", "1755",
                  "1777") "keep plugins in a directory of their own, not in {D}/sticky"},
    {REAL, make_linked_file, BP_ERR_PLUGIN,
     "{L}: {L} is a symbolic link: expected a path without links, got a link to real.so; name "
     "{D}/real.so instead"},
    {REAL, make_linked_directory, BP_ERR_PLUGIN,
     "{D}/real/bp_" REAL
     ".so: {D}/real is a symbolic link: expected a path without links, got a link to moved; name "
     "{D}/moved instead"},
    {REAL, make_linked_manifest, BP_ERR_PLUGIN,
     "{J}: {J} is a symbolic link: expected a path without links, got a link to real.json; name "
     "{D}/real.json instead"},
    {REAL, make_dangling, BP_ERR_PLUGIN,
     "{L}: there is no such library: expected a shared object, got \"No such file or directory\"; "
     "install it, or "
     "correct \"library\" in {J}"},
};

ParameterizedTestParameters(plugin_lies, words)
{
    static size_t index[sizeof cases / sizeof *cases];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) index[i] = i;
    return cr_make_param_array(size_t, index, sizeof cases / sizeof *cases);
}

ParameterizedTest(size_t *index, plugin_lies, words)
{
    kit_check(&cases[*index]);
}

/* The test gives a file to another user, which only root can do, and not in each container. */
static void check_owner(const char *what, uid_t uid)
{
    char *directory = kit_create(), *path = kit_format("%s/%s", directory, what);
    struct kit_log log;
    struct bp_core *core;

    kit_plugin(directory, REAL);
    if (geteuid() != 0 || kit_is_refused(chown(path, uid, (gid_t)-1))) {
        kit_destroy(directory);
        cr_skip_test("no file can be given to another user");
    }
    core = kit_core(&log, directory, "h_*");
    cr_assert_eq(bp_core_load(core, kit_find(core, REAL)), BP_ERR_PLUGIN);
    cr_assert_str_eq(
        bp_error_message(),
        kit_format(
            "%s: %s belongs to another user: expected user 0 or 0, got user %u; install the plugin "
            "as root or as yourself",
            path, path, (unsigned)uid));
    cr_assert_eq(log.count[BP_LOG_ERROR], 1);
    bp_core_destroy(core);
    kit_destroy(directory);
}

Test(plugin_lies, library_of_another_user)
{
    check_owner("bp_" REAL ".so", 65534);
}

Test(plugin_lies, manifest_of_another_user)
{
    check_owner("bp_" REAL ".json", 65534);
}

/* The right hash in capitals and the right processor features do not prevent loading. */
Test(plugin_lies, truth_loads)
{
    char *directory = kit_create(), *hash = kit_format("%64s", "");
    struct kit_log log;
    struct bp_core *core;
    FILE *pipe;

    kit_plugin(directory, REAL);
    pipe = popen(kit_format("sha256sum %s/bp_%s.so", directory, REAL), "re");
    cr_assert(pipe && fread(hash, 1, 64, pipe) == 64);
    pclose(pipe);
    for (char *c = hash; *c; c++) *c = *c >= 'a' ? (char)(*c - 32) : *c;
    make_text(directory,
              kit_format(HEAD REST ", \"sha256\": \"%s\", \"priority\": -7, \"cpu_features\": []}",
                         hash));

    core = kit_core(&log, directory, "h_*");
    OK(bp_core_load(core, kit_find(core, REAL)));
    cr_assert_eq(kit_info(core, REAL).priority, -7);
    cr_assert_eq(kit_info(core, REAL).devices, 1);
    cr_assert_eq(kit_info(core, REAL).step, BP_STEP_COUNT);
    cr_assert_eq(log.count[BP_LOG_ERROR], 0);
    bp_core_destroy(core);
    kit_destroy(directory);
}
