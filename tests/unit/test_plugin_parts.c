/* SPDX-License-Identifier: Apache-2.0 */
/* test_plugin_parts.c: tests the parts of the loader separately: paths, globs, quotes, hashes,
 * processor features, trust, and the parser of manifests. */
#include "plugin_kit.h"
#include "../../core/plugin/loader.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/xattr.h>
#include <unistd.h>

Test(plugin_parts, paths)
{
    static const char *const clean[][2] = {{"/", "/"},
                                           {"//", "/"},
                                           {"/a", "/a"},
                                           {"/a/", "/a"},
                                           {"//a//b/.//c/.", "/a/b/c"},
                                           {"/./a", "/a"},
                                           {"a/./b", "a/b"},
                                           {".", "."},
                                           {"/a/...", "/a/..."},
                                           {"/.a", "/.a"}};

    for (size_t i = 0; i < sizeof clean / sizeof *clean; i++) {
        char *got = bp_path_normalize(clean[i][0]);
        cr_assert_str_eq(got, clean[i][1], "%s: %s", clean[i][0], got);
        free(got);
    }
    cr_assert(bp_path_has_parent(".."));
    cr_assert(bp_path_has_parent("/a/../b"));
    cr_assert(bp_path_has_parent("/a/.."));
    cr_assert(!bp_path_has_parent("/a/..b/c../..."));
    cr_assert_str_eq(bp_path_basename("/a/b"), "b");
    cr_assert_str_eq(bp_path_basename("b"), "b");
    cr_assert_str_eq(kit_keep(bp_path_dirname("/a/b")), "/a");
    cr_assert_str_eq(kit_keep(bp_path_dirname("/b")), "/");
    cr_assert_str_eq(kit_keep(bp_path_plugin_name("/a/bp_x.y.json")), "x");
    cr_assert_str_eq(kit_keep(bp_path_plugin_name("libz.so")), "libz");
}

Test(plugin_parts, globs)
{
    cr_assert(bp_select_match(NULL, "x"));
    cr_assert(bp_select_match("", "x"));
    cr_assert(bp_select_match(" , ,", "x"));
    cr_assert(bp_select_match("!y", "x"));
    cr_assert(!bp_select_match("!x", "x"));
    cr_assert(!bp_select_match("y", "x"));
    cr_assert(!bp_select_match("x,!*", "x"));
    cr_assert(bp_select_match("y,x*", "xyz"));
    cr_assert(!bp_select_match("y,x", "xyz"));
    /* The pattern is longer than any name; it must not be truncated to one that matches. */
    cr_assert(!bp_select_match(
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab",
        "aaaa"));
}

Test(plugin_parts, quotes)
{
    struct bp_quote quote;
    char longer[1000];

    cr_assert_str_eq(bp_quote(&quote, "a b"), "\"a b\"");
    cr_assert_str_eq(bp_quote(&quote, NULL), "nothing");
    cr_assert_str_eq(bp_quote(&quote, "\x1b[2J\n\x7f"), "\"?[2J??\"");
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    cr_assert_eq(strlen(bp_quote(&quote, longer)), sizeof quote.text - 1);
    cr_assert(!strcmp(quote.text + sizeof quote.text - 6, "x...\""), "%s", quote.text);
}

/* A long text is cut in the middle, and never within a character of UTF-8. */
Test(plugin_parts, long_texts_are_shown_without_their_middle)
{
    char to[16], exact[16];

    cr_assert_str_eq(bp_show(to, sizeof to, "/a/b"), "/a/b");
    cr_assert_str_eq(bp_show(to, sizeof to, ""), "");
    cr_assert_str_eq(bp_show(to, sizeof to, "a\nb\x1b[2J\x7f"), "a?b?[2J?");
    cr_assert_str_eq(bp_show(to, sizeof to, "123456789abcdef"), "123456789abcdef");
    cr_assert_str_eq(bp_show(to, sizeof to, "123456789abcdefg"), "1234...9abcdefg");
    cr_assert_str_eq(bp_show(to, sizeof to, "123\xc3\xa9xxxx\xc3\xa9zzzzzzz"), "123...zzzzzzz");
    for (size_t length = 0; length < 100; length++) {
        char text[101] = "";
        memset(text, '\xa9', length);
        cr_assert(strlen(bp_show(exact, sizeof exact, text)) < sizeof exact);
    }
}

/* Tests the hash of "abc" in FIPS 180, and lengths around a block and around a read, against
 * another program. */
Test(plugin_parts, hashes)
{
    static const size_t sizes[] = {0,   1,   55,    56,    63,    64,     65,
                                   119, 120, 65535, 65536, 65537, 131072, 200001};
    char *directory = kit_create(), *path = kit_format("%s/data", directory);
    char *data = malloc(200001), got[65], expected[65] = "";

    for (size_t i = 0; i < 200001; i++) data[i] = (char)(i * 2654435761u >> 11);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        FILE *pipe;
        int fd;

        kit_write(path, data, sizes[i]);
        fd = open(path, O_RDONLY);
        cr_assert(bp_sha256_fd(fd, got));
        close(fd);
        pipe = popen(kit_format("sha256sum %s", path), "re");
        cr_assert(pipe && fread(expected, 1, 64, pipe) == 64);
        pclose(pipe);
        cr_assert_str_eq(got, expected, "%zu bytes", sizes[i]);
    }
    kit_write(path, "abc", 3);
    cr_assert(bp_sha256_fd(open(path, O_RDONLY), got));
    cr_assert_str_eq(got, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    cr_assert(!bp_sha256_fd(open(directory, O_RDONLY), got), "a directory has a hash");
    free(data);
    kit_destroy(directory);
}

Test(plugin_parts, features)
{
    char *words[2] = {"fpu", "no_such_thing"};
    struct bp_manifest manifest = {.cpu_features = words};

    cr_assert_null(bp_features_find_missing(&manifest));
#if defined(__x86_64__)
    manifest.n_cpu_features = 1;
    cr_assert_null(bp_features_find_missing(&manifest));
    words[0] = "fp"; /* the prefix of a word is another word */
    cr_assert_str_eq(bp_features_find_missing(&manifest), "fp");
    words[0] = "fpu";
#endif
    manifest.n_cpu_features = 2;
    cr_assert(bp_features_find_missing(&manifest));
}

/* cJSON ends a string at its first NUL, and would ignore the text behind it. */
Test(plugin_parts, manifests_with_a_nul_are_refused)
{
    static const struct {
        const char *text;
        size_t size;
    } cases[] = {
#define TEXT(text) {text, sizeof(text) - 1}
        TEXT("{\"manifest\": 1, \"name\": \"m\\u0000m\"}"),
        TEXT("{\"manifest\": 1, \"name\": \"m\0m\"}"),
        TEXT("{\"manifest\": 1, \"na\\\\\\u0000me\": \"m\"}"),
#undef TEXT
    };
    static const char intact[] =
        "{\"manifest\": 1, \"name\": \"m\", \"kind\": \"m\", \"library\": \"m.so\", "
        "\"abi\": {\"major\": 0, \"minor\": 0}, \"version\": \"\\\\u0000\"}";
    struct bp_manifest out;
    struct bp_refusal why = {0};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_expect(!bp_manifest_parse("/m.json", cases[i].text, cases[i].size, &out, &why));
        cr_expect(why.text && strstr(why.text, "a NUL character is in it"), "%zu: %s", i, why.text);
        free(why.text);
        why = (struct bp_refusal){0};
    }
    cr_assert(bp_manifest_parse("/m.json", intact, strlen(intact), &out, &why), "%s", why.text);
    cr_expect_str_eq(out.version, "\\u0000"); /* an escaped backslash, not a NUL */
    bp_manifest_finish(&out);
}

static bool plugin_parts_trusted(const char *path)
{
    struct bp_refusal why = {0};
    struct stat file;
    bool good = bp_trust_check(path, &file, &why);

    cr_assert_eq(good, why.text == NULL);
    free(why.text);
    return good;
}

/* The cause is found by the file that the dynamic linker names and the final errno value, not by
 * other words of the message: a folder may have such a name. */
Test(plugin_parts, causes_of_libraries_that_are_not_opened)
{
    static const char path[] = "/out of memory/bp_a.so";
    static const struct {
        const char *before;
        int number; /* errno; 0: no number */
        enum bp_library_cause cause;
    } given[] = {
        {"/out of memory/bp_a.so: invalid ELF header", 0, BP_LIBRARY_OTHER},
        {"/out of memory/bp_a.so: undefined symbol: cannot allocate memory", 0, BP_LIBRARY_OTHER},
        {"/out of memory/bp_a.so: x", ENOENT, BP_LIBRARY_OTHER},
        {"/out of memory/bp_a.so: x", EACCES, BP_LIBRARY_OTHER},
        {"/out of memory/bp_a.so: x", ENOMEM, BP_LIBRARY_MEMORY},
        {"libm.so.6: x", ENOMEM, BP_LIBRARY_MEMORY},
        {"libm.so.6: x", ENOENT, BP_LIBRARY_LACKS},
        {"/opt/libm.so.6: x", ENOENT, BP_LIBRARY_LACKS},
        {"/out of memory/bp_a.so.1: x", ENOENT, BP_LIBRARY_LACKS},
        {"libm.so.6: x", EACCES, BP_LIBRARY_OTHER},
        {"out of memory", 0, BP_LIBRARY_MEMORY},
    };
    char text[256];

    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        snprintf(text, sizeof text, "%s%s%s", given[i].before, given[i].number ? ": " : "",
                 given[i].number ? strerror(given[i].number) : "");
        cr_assert_eq(bp_library_cause(path, text), given[i].cause, "%s", text);
    }
    cr_assert_eq(bp_library_cause(path, NULL), BP_LIBRARY_MEMORY);
}

Test(plugin_parts, trust)
{
    char *directory = kit_create(), *inside = kit_format("%s/in", directory),
         *file = kit_format("%s/file", inside);

    cr_assert_eq(mkdir(inside, 0755), 0);
    kit_write(file, "x", 1);
    cr_assert(plugin_parts_trusted(file));
    cr_assert(!plugin_parts_trusted(inside), "a directory is no file");
    cr_assert(!plugin_parts_trusted("/"));
    cr_assert(!plugin_parts_trusted("file"));
    cr_assert(!plugin_parts_trusted(kit_format("%s/../in/file", inside)));
    kit_write(kit_format("%s/two\nlines", inside), "x", 1);
    cr_assert(!plugin_parts_trusted(kit_format("%s/two\nlines", inside)));
    cr_assert(!plugin_parts_trusted(kit_format("%s/gone", inside)));
    cr_assert(!plugin_parts_trusted(kit_format("%s/file", file)));
    for (mode_t mode = 0; mode < 01000; mode++) {
        cr_assert_eq(chmod(file, mode), 0);
        if (mode & 0002)
            cr_assert(!plugin_parts_trusted(file), "file of mode %04o", (unsigned)mode);
        if (!(mode & 0022))
            cr_assert(plugin_parts_trusted(file), "file of mode %04o", (unsigned)mode);
    }
    cr_assert_eq(chmod(file, 0644), 0);
    cr_assert_eq(chmod(inside, 0777), 0);
    cr_assert(!plugin_parts_trusted(file));
    cr_assert_eq(chmod(inside, 01777), 0);
    cr_assert(!plugin_parts_trusted(file), "anyone can put a library beside it");
    cr_assert_eq(chmod(inside, 0755), 0);
    cr_assert_eq(chmod(directory, 01777), 0);
    cr_assert(plugin_parts_trusted(file), "nobody can replace a directory in a sticky one");
    cr_assert_eq(chmod(directory, 0777), 0);
    cr_assert(!plugin_parts_trusted(file));
    kit_destroy(directory);
}

/* A group that other users may belong to must not have write permission. Group 0 is root's own
 * group, for tests that run as root. */
Test(plugin_parts, trust_of_a_group)
{
    char *directory = kit_create(), *file = kit_format("%s/file", directory);
    bool given;

    kit_write(file, "x", 1);
    cr_assert_eq(chmod(file, 0664), 0);
    if (geteuid() == 0) {
        cr_assert_eq(chown(file, (uid_t)-1, 0), 0);
        cr_assert(plugin_parts_trusted(file));
    }
    given = !kit_is_refused(chown(file, (uid_t)-1, 100));
    if (given) cr_assert(!plugin_parts_trusted(file));
    kit_destroy(directory);
    if (!given) cr_skip_test("no file can be given to another group");
}

/* The contents of "system.posix_acl_access": an access control list that gives user 12345 read and
 * write permission; the rest is that of mode 0664. All numbers are little-endian. */
static const unsigned char access_list[] = {
    2,    0, 0, 0,                                       /* version */
    0x01, 0, 6, 0, 0xff,         0xff,       0xff, 0xff, /* the owner */
    0x02, 0, 6, 0, 12345 & 0xff, 12345 >> 8, 0,    0,    /* the named user */
    0x04, 0, 4, 0, 0xff,         0xff,       0xff, 0xff, /* the group */
    0x10, 0, 6, 0, 0xff,         0xff,       0xff, 0xff, /* the mask */
    0x20, 0, 4, 0, 0xff,         0xff,       0xff, 0xff, /* others */
};

/* Checks a file with an access control list; returns false if no list can be set. */
static bool check_access_list(const char *path, const char *file)
{
    mode_t plain = 0775;

    cr_assert_eq(chmod(path, plain), 0);
    cr_assert(plugin_parts_trusted(file), "%s without a list", path);
    if (setxattr(path, "system.posix_acl_access", access_list, sizeof access_list, 0)) {
        /* A user namespace may lack this user. */
        cr_assert(errno == ENOTSUP || errno == EINVAL, "%s", strerror(errno));
        return false;
    }
    cr_assert(!plugin_parts_trusted(file), "%s, which a list lets another user write to", path);
    cr_assert_eq(removexattr(path, "system.posix_acl_access"), 0);
    cr_assert_eq(chmod(path, plain), 0);
    cr_assert(plugin_parts_trusted(file));
    return true;
}

/* With an access control list, the group's permission bits are a mask for all users and groups in
 * the list. */
Test(plugin_parts, trust_of_an_access_list)
{
    char *directory = kit_create(), *inside = kit_format("%s/in", directory),
         *file = kit_format("%s/file", inside);
    bool own_group, lists;

    cr_assert_eq(mkdir(inside, 0755), 0);
    kit_write(file, "x", 1);
    cr_assert_eq(chmod(file, 0664), 0);
    own_group = plugin_parts_trusted(file);
    lists = own_group && check_access_list(file, file) && check_access_list(inside, file);
    kit_destroy(directory);
    if (!own_group) cr_skip_test("this user has no group of its own");
    if (!lists) cr_skip_test("no access control list can be set");
}

/* Each prefix of a manifest, and each manifest with one changed byte, is accepted or refused
 * without a crash. */
Test(plugin_parts, mangled_manifests)
{
    static const char text[] =
        "{\"manifest\": 1, \"name\": \"a\", \"kind\": \"b\", \"library\": \"bp_c.so\", \"abi\": "
        "{\"major\": 0, \"minor\": 1}, \"version\": \"1\", \"priority\": -5, "
        "\"cpu_features\": [\"x\", \"y\"]}";
    size_t good = 0;

    for (size_t i = 0; i < sizeof text; i++) {
        for (int change = -1; change < 256; change += change < 0 ? 1 : 5) {
            struct bp_manifest manifest;
            struct bp_refusal why = {0};
            char *copy = malloc(sizeof text);
            size_t size = change < 0 ? i : sizeof text - 1;

            memcpy(copy, text, sizeof text);
            if (change >= 0) copy[i] = (char)change;
            copy = realloc(copy, size + 1);
            if (bp_manifest_parse("/d/bp_a.json", copy, size, &manifest, &why)) {
                good++;
                cr_assert(manifest.name && manifest.kind && manifest.version &&
                          manifest.library[0] == '/');
                bp_manifest_finish(&manifest);
            } else cr_assert(why.text && !manifest.name && !manifest.cpu_features);
            free(why.text);
            free(copy);
        }
    }
    cr_assert(good > 100, "only %zu were taken", good);
}
