/* SPDX-License-Identifier: Apache-2.0 */
/* test_plugin_hostile.c: tests invalid libraries, tables and instances of plugins: the exact
 * message for each, logged once, and a good plugin beside it that works. */
#include "plugin_kit.h"
#include <elf.h>
#include <unistd.h>

static void make_missing(const char *dir)
{
    kit_manifest(dir, "h_create_fails");
}

/* Writes a file of these bytes under the name of a plugin. */
static void make_file(const char *dir, const void *data, size_t size)
{
    kit_manifest(dir, "h_no_symbol");
    kit_write(kit_format("%s/bp_h_no_symbol.so", dir), data, size);
}

static void make_empty(const char *dir)
{
    make_file(dir, "", 0);
}

static void make_junk(const char *dir)
{
    char junk[5000];

    for (size_t i = 0; i < sizeof junk; i++) junk[i] = (char)(i * 2654435761u >> 13);
    make_file(dir, junk, sizeof junk);
}

static void make_script(const char *dir)
{
    make_file(dir, "#!/bin/sh\n", 10);
}

/* Truncates a library after its first bytes. */
static void make_torso(const char *dir)
{
    kit_plugin(dir, "h_no_symbol");
    cr_assert_eq(truncate(kit_format("%s/bp_h_no_symbol.so", dir), 100), 0);
}

static void make_half(const char *dir)
{
    kit_plugin(dir, "h_no_symbol");
    cr_assert_eq(truncate(kit_format("%s/bp_h_no_symbol.so", dir), 2000), 0);
}

static void patch_head(const char *dir, long at, unsigned char value)
{
    kit_plugin(dir, "h_no_symbol");
    kit_patch(kit_format("%s/bp_h_no_symbol.so", dir), at, &value, 1);
}

static void make_other_machine(const char *dir)
{
    patch_head(dir, offsetof(Elf64_Ehdr, e_machine), EM_S390);
}

static void make_other_word(const char *dir)
{
    patch_head(dir, EI_CLASS, ELFCLASS32);
}

static void make_program(const char *dir)
{
    patch_head(dir, offsetof(Elf64_Ehdr, e_type), ET_EXEC);
}

static void make_directory(const char *dir)
{
    kit_manifest(dir, "h_no_symbol");
    cr_assert_eq(mkdir(kit_format("%s/bp_h_no_symbol.so", dir), 0755), 0);
}

#define NAME_RULE "expected lower-case letters, digits and '_', at most 63"

static const struct kit_case cases[] = {
    /* Errors of the file. */
    {"h_create_fails", make_missing, BP_ERR_PLUGIN,
     "{L}: there is no such library: expected a shared object, got \"No such file or directory\"; "
     "install it, or "
     "correct \"library\" in {J}"},
    {"h_no_symbol", make_empty, BP_ERR_PLUGIN,
     "{L}: the file is empty: expected a shared object, got 0 bytes; build or install it again"},
    {"h_no_symbol", make_junk, BP_ERR_PLUGIN,
     "{L}: not a library: expected a shared object, got a file that is not ELF; build or install "
     "it again"},
    {"h_no_symbol", make_script, BP_ERR_PLUGIN,
     "{L}: not a library: expected a shared object, got a file that is not ELF; build or install "
     "it again"},
    {"h_no_symbol", make_torso, BP_ERR_PLUGIN,
     "{L}: the file is cut short: expected at least 101 bytes, got 100; build or install it again"},
    {"h_no_symbol", make_half, BP_ERR_PLUGIN,
     "{L}: the file is cut short: expected at least {N} bytes, got 2000; build or install it "
     "again"},
    {"h_no_symbol", make_other_machine, BP_ERR_PLUGIN,
     "{L}: built for another machine: expected {M}, got s390; install the build for this machine"},
    {"h_no_symbol", make_other_word, BP_ERR_PLUGIN,
     "{L}: built for another machine: expected {M}, got {M} of another word size; install the "
     "build for this machine"},
    {"h_no_symbol", make_program, BP_ERR_PLUGIN,
     "{L}: not a shared object: expected ELF type 3, got 2; link it with -shared"},
    {"h_no_symbol", make_directory, BP_ERR_PLUGIN,
     "{L}: {L} is of the wrong type: expected a regular file, got a directory; correct the path"},

    /* Errors of the dynamic linker. */
    {"h_no_symbol", NULL, BP_ERR_PLUGIN,
     "{L}: not a plugin: expected the exported symbol bp_plugin_get, got a library without it; "
     "export it with "
     "BP_EXPORT"},
    {"h_undefined_symbol", NULL, BP_ERR_PLUGIN,
     "{L}: cannot be opened: expected all libraries and symbols that it needs, got \"{L}: "
     "undefined symbol: "
     "bp_hostile_nowhere\"; build it again for this system, and link it with -Wl,-z,defs, which "
     "finds symbols that are missing"},
    {"h_missing_dependency", NULL, BP_ERR_PLUGIN,
     "{L}: cannot be opened: expected all libraries and symbols that it needs, got "
     "\"libbp_gone_since_the_build.so.1: cannot open shared object file: No such file or "
     "directory\"; install that "
     "library, or link with an rpath to it"},
    {"h_borrowed_symbol", NULL, BP_ERR_PLUGIN,
     "{L}: its bp_plugin_get is not in the file that was checked: expected {L}, got " HOSTILE_DIR
     "/libbp_lender.so; export it from the plugin itself"},

    /* Errors of the tables. */
    {"h_null_table", NULL, BP_ERR_PLUGIN,
     "{L}: bp_plugin_get gave nothing: expected a struct bp_plugin, got NULL; return a constant "
     "table"},
    {"h_tiny_table", NULL, BP_ERR_PLUGIN,
     "{L}: the size of its struct bp_plugin makes no sense: expected 72 to 4096 bytes, got 24; set "
     "size to sizeof "
     "the struct"},
    {"h_huge_table", NULL, BP_ERR_PLUGIN,
     "{L}: the size of its struct bp_plugin makes no sense: expected 72 to 4096 bytes, got "
     "9223372036854775807; set "
     "size to sizeof the struct"},
    {"h_future_major", NULL, BP_ERR_PLUGIN,
     "{L}: of another plugin ABI: expected major 0, got 1; install the build for this version"},
    {"h_needs_minor", NULL, BP_ERR_PLUGIN,
     "{L}: needs a newer core: expected ABI 0.12 or less, got 0.13; install a newer libbackplane"},
    {"h_other_sanitizer", NULL, BP_ERR_PLUGIN,
     "{L}: built with another sanitizer: expected {S}, got {O}; build plugin and core alike"},
    {"h_bad_name", NULL, BP_ERR_PLUGIN,
     "{L}: its name cannot be used: " NAME_RULE ", got \"a/b?h_bad_name\"; rename it"},
    {"h_no_name", NULL, BP_ERR_PLUGIN,
     "{L}: its name cannot be used: " NAME_RULE ", got nothing; rename it"},
    {"h_no_destroy", NULL, BP_ERR_PLUGIN,
     "{L}: a required callback is missing: expected destroy, got NULL; write it"},
    {"h_no_runtime", NULL, BP_ERR_PLUGIN,
     "{L}: a required interface is missing: expected runtime, got NULL; write it"},
    {"h_no_copy_in", NULL, BP_ERR_PLUGIN,
     "{L}: a required callback is missing: expected copy_in, got NULL; write it"},
    {"h_half_events", NULL, BP_ERR_PLUGIN,
     "{L}: callbacks that belong together are not all there: expected event_create beside "
     "event_query, got NULL; "
     "write both or neither"},
    {"h_half_graphs", NULL, BP_ERR_PLUGIN,
     "{L}: callbacks that belong together are not all there: expected capture_begin beside "
     "replay, got NULL; "
     "write both or neither"},
    {"h_no_streams", NULL, BP_ERR_PLUGIN,
     "{L}: it records streams and has none: expected stream_create beside capture_begin, got NULL; "
     "write both or neither"},
    {"h_half_ccl", NULL, BP_ERR_PLUGIN,
     "{L}: a required callback of collectives is missing: expected unique_id, got NULL; write it, "
     "or leave ccl out"},
    {"h_empty_ids", NULL, BP_ERR_PLUGIN,
     "{L}: bp_ccl.id_size is 0: expected 1 to 8192, the bytes of an id that unique_id_long makes"},
    {"h_longer_ids", NULL, BP_ERR_PLUGIN,
     "{L}: bp_ccl.id_size is 8193: expected 1 to 8192, the bytes of an id that unique_id_long "
     "makes"},
    {"h_half_ids", NULL, BP_ERR_PLUGIN,
     "{L}: it has ids of a size of its own: expected unique_id_long beside id_size, got NULL; "
     "write both or neither"},
    {"h_half_engines", NULL, BP_ERR_PLUGIN,
     "{L}: a required callback of engines is missing: expected compile, got NULL; write it, or "
     "leave engines out"},
    {"h_half_contexts", NULL, BP_ERR_PLUGIN,
     "{L}: callbacks that belong together are not all there: expected context_destroy beside "
     "context_create, got NULL; write both or neither"},
    {"h_tiny_engines", NULL, BP_ERR_PLUGIN,
     "{L}: the size of its struct bp_engines makes no sense: expected 64 to 4096 bytes, got 24; "
     "set size to sizeof the struct"},
    {"h_no_known", NULL, BP_ERR_PLUGIN,
     "{L}: the operators that its engine knows cannot be walked: expected known, n_known 1 to "
     "1048576, known_stride 16 to 4096, got known, 0, 48; set known_stride to sizeof(struct "
     "bp_engine_op)"},
    {"h_odd_known", NULL, BP_ERR_PLUGIN,
     "{L}: the operators that its engine knows cannot be walked: expected known, n_known 1 to "
     "1048576, known_stride 16 to 4096, got known, 1, 12; set known_stride to sizeof(struct "
     "bp_engine_op)"},
    {"h_odd_patterns", NULL, BP_ERR_PLUGIN,
     "{L}: its patterns cannot be walked: expected first, count up to 64, stride 88 to 4096, got "
     "first, 65, 12; set stride to sizeof(struct bp_pattern)"},
    {"h_many_patterns", NULL, BP_ERR_PLUGIN,
     "{L}: its patterns cannot be walked: expected first, count up to 64, stride 88 to 4096, got "
     "first, 65, 88; set stride to sizeof(struct bp_pattern)"},
    {"h_tiny_passes", NULL, BP_ERR_PLUGIN,
     "{L}: the size of its struct bp_passes makes no sense: expected 32 to 4096 bytes, got 8; set "
     "size to sizeof the struct"},
    {"h_empty_known", NULL, BP_ERR_PLUGIN,
     "{L}: operator 0 that its engine knows has no name: expected op, got nothing; fill it in"},
    {"h_twin_rows", NULL, BP_ERR_PLUGIN,
     "{L}: two kernel rows have one name: expected different ones, got \"h_twin_rows_add\" twice; "
     "rename one"},
    {"h_empty_row", NULL, BP_ERR_PLUGIN,
     "{L}: kernel row 1 (\"h_empty_row_elsewhere\") is not complete: expected launch, got NULL; "
     "fill it in"},
    {"h_odd_stride", NULL, BP_ERR_PLUGIN,
     "{L}: its kernel rows cannot be walked: expected first, count up to 1048576, stride 72 to "
     "4096, got first, 4, "
     "12; set stride to sizeof(struct bp_kernel)"},

    /* Errors of the instance. */
    {"h_create_fails", NULL, BP_ERR_PLUGIN,
     "{L}: create failed: expected BP_OK, got BP_ERR_DEVICE, \"the driver answered -13: permission "
     "denied\"; see the "
     "manual of the plugin"},
    {"h_create_silent", NULL, BP_ERR_PLUGIN,
     "{L}: create failed: expected BP_OK, got BP_ERR_DEVICE, \"plugin h_create_silent: create "
     "answered 77, which is no "
     "status that this version knows\"; see the manual of the plugin"},
    {"h_create_absent", NULL, BP_ERR_ABSENT,
     "{L}: create finds nothing to drive: expected a device and its driver, got \"libhostile.so.2: "
     "no such "
     "library\"; install the driver if there is such hardware"},
    {"h_no_devices", NULL, BP_ERR_ABSENT,
     "{L}: no device: expected at least one, got 0; nothing is wrong if there is no such hardware"},
    {"h_many_devices", NULL, BP_ERR_PLUGIN,
     "{L}: device_count cannot be right: expected at most 65535, got 4000000000; correct the "
     "plugin"},
    {"h_count_fails", NULL, BP_ERR_PLUGIN,
     "{L}: device_count failed: expected BP_OK, got BP_ERR_DEVICE, \"plugin h_count_fails: "
     "device_count failed and "
     "gave no reason: the device's driver reported a failure\"; see the manual of the plugin"},
};

ParameterizedTestParameters(plugin_hostile, words)
{
    static size_t index[sizeof cases / sizeof *cases];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) index[i] = i;
    return cr_make_param_array(size_t, index, sizeof cases / sizeof *cases);
}

ParameterizedTest(size_t *index, plugin_hostile, words)
{
    kit_check(&cases[*index]);
}
