/* SPDX-License-Identifier: Apache-2.0 */
/* test_plugin_load.c: tests plugins that load: tables of other lengths, rows of other widths, an
 * instance for each core, the services of the host, loading by path, and wrong calls. */
#include "plugin_kit.h"
#include <unistd.h>

/* Loads one of the built plugins and opens its device. */
static struct bp_device *open_plugin(const char *name, struct bp_core **out_core,
                                     struct kit_log *log)
{
    struct bp_device *device;
    uint32_t index;

    *out_core = kit_core(log, HOSTILE_DIR, name);
    index = kit_find(*out_core, name);
    OK(bp_core_load(*out_core, index));
    OK(bp_device_create_at(*out_core, index, 0, &device));
    cr_assert_eq(log->count[BP_LOG_ERROR], 0, "%s", log->text[BP_LOG_ERROR]);
    return device;
}

static const char *row_reason(struct bp_device *device, const char *name)
{
    for (uint32_t i = 0; i < bp_device_kernels(device); i++) {
        struct bp_kernel_info info = {.size = sizeof info};
        OK(bp_device_kernel(device, i, &info));
        if (!strcmp(info.name, name)) return info.reason;
    }
    cr_assert_fail("there is no row %s", name);
    return "";
}

/* Checks the four rows of the fake device's set `good`: one is good, the plugin declines one, and
 * the core declines two. */
static void check_rows(const char *plugin, bool requested)
{
    struct kit_log log;
    struct bp_core *core;
    struct bp_device *device = open_plugin(plugin, &core, &log);

    cr_assert_eq(bp_device_kernels(device), 4);
    cr_assert_str_eq(row_reason(device, kit_format("%s_add", plugin)), "");
    cr_assert_str_eq(row_reason(device, kit_format("%s_elsewhere", plugin)),
                     requested ? "needs a coprocessor of 1989" : "");
    cr_assert_str_eq(
        row_reason(device, kit_format("%s_newer", plugin)),
        kit_format("made for a newer form of add than this version (%s) has", bp_version()));
    cr_assert_str_eq(
        row_reason(device, kit_format("%s_future", plugin)),
        kit_format("this version (%s) has no operator \"op_of_the_future\"", bp_version()));
    bp_device_destroy(device);
    bp_core_destroy(core);
}

Test(plugin_load, rows_that_cannot_run_have_reasons)
{
    check_rows("h_good", true);
}
Test(plugin_load, longer_tables_are_cut_off)
{
    check_rows("h_long_tables", true);
}
Test(plugin_load, wider_rows_are_walked_by_stride)
{
    check_rows("h_wide_rows", true);
}
Test(plugin_load, shorter_rows_are_filled_up)
{
    check_rows("h_short_rows", true);
}
Test(plugin_load, shorter_tables_are_filled_up)
{
    check_rows("h_short_tables", false);
}

/* Tests collectives of plugins from before unique ids had sizes, and the longest ids alone. */
Test(plugin_load, ids_of_collectives_are_of_any_size)
{
    check_rows("h_short_ccl", true);
    check_rows("h_long_ids", true);
}

Test(plugin_load, engines_of_the_first_version_have_no_contexts)
{
    check_rows("h_short_engines", true);
}

Test(plugin_load, shorter_plugin_has_no_kernels)
{
    struct kit_log log;
    struct bp_core *core;
    struct bp_device *device = open_plugin("h_short_plugin", &core, &log);

    cr_assert_eq(bp_device_kernels(device), 0);
    cr_assert_eq(bp_device_emulated(device) & BP_EMULATED_STREAMS, BP_EMULATED_STREAMS);
    bp_device_destroy(device);
    bp_core_destroy(core);
}

/* The row is launched with the data that it registered: here through a tensor and a real call. */
Test(plugin_load, a_row_of_a_wider_plugin_runs)
{
    struct kit_log log;
    struct bp_core *core;
    struct bp_device *device = open_plugin("h_wide_rows", &core, &log);
    const float a[4] = {1, 2, 3, 4}, b[4] = {10, 20, 30, 40};
    const int64_t shape[1] = {4};
    float sum[4] = {0};
    struct bp_stream *stream;
    struct bp_tensor *in[2], *out = NULL;

    OK(bp_stream_create(device, &stream));
    for (int i = 0; i < 2; i++) {
        OK(bp_tensor_create(device, BP_F32, 1, shape, &in[i]));
        OK(bp_tensor_write(stream, in[i], i ? b : a, sizeof a));
    }
    OK(bp_op_add(bp_stream_scope(stream), in[0], in[1], &out));
    OK(bp_tensor_read(stream, out, sum, sizeof sum));
    for (int i = 0; i < 4; i++) cr_assert_eq(sum[i], a[i] + b[i]);
    bp_tensor_destroy(out);
    for (int i = 0; i < 2; i++) bp_tensor_destroy(in[i]);
    bp_stream_destroy(stream);
    bp_device_destroy(device);
    bp_core_destroy(core);
}

/* A message at error level from a plugin that fails is no second error; its reason is part of the
 * first. */
Test(plugin_load, a_failing_plugin_is_one_error)
{
    struct kit_log log;
    struct bp_core *core = kit_core(&log, HOSTILE_DIR, "h_create_fails");

    cr_assert_eq(bp_core_load(core, kit_find(core, "h_create_fails")), BP_ERR_PLUGIN);
    cr_assert_eq(log.count[BP_LOG_ERROR], 1);
    cr_assert_eq(log.count[BP_LOG_WARN], 1);
    cr_assert_str_eq(log.text[BP_LOG_WARN],
                     "h_create_fails: before I fail I complain at error level, too");
    bp_core_destroy(core);
}

/* Loading succeeds, so the message of an earlier failure stays, although a row was refused
 * meanwhile. */
Test(plugin_load, success_leaves_the_message)
{
    struct kit_log log;
    struct bp_core *core = kit_core(&log, HOSTILE_DIR, "h_good");
    char *before;

    cr_assert_eq(bp_core_load(core, 1000), BP_ERR_INVALID);
    before = kit_format("%s", bp_error_message());
    OK(bp_core_load(core, kit_find(core, "h_good")));
    cr_assert_str_eq(bp_error_message(), before);
    bp_core_destroy(core);
}

static int allocations;

static void *count_allocate(void *ctx, size_t size, size_t alignment)
{
    (void)ctx;
    allocations++;
    return aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

static void count_release(void *ctx, void *memory, size_t size)
{
    (void)ctx;
    (void)size;
    allocations--;
    free(memory);
}

/* Each core has a separate instance, in memory of its own allocator, which is freed with the
 * core. */
Test(plugin_load, an_instance_for_each_core)
{
    static const struct bp_allocator allocator = {.allocate = count_allocate,
                                                  .release = count_release};
    struct bp_core_options options = {.size = sizeof options,
                                      .allocator = &allocator,
                                      .plugin_path = HOSTILE_DIR,
                                      .plugins = "h_good"};
    struct bp_core *core[2];

    for (int i = 0; i < 2; i++) {
        OK(bp_core_create(&options, &core[i]));
        OK(bp_core_load(core[i], kit_find(core[i], "h_good")));
        OK(bp_core_load(core[i], kit_find(core[i], "h_good")));
        cr_assert_eq(allocations, i + 1);
    }
    bp_core_destroy(core[0]);
    cr_assert_eq(allocations, 1);
    cr_assert_eq(kit_info(core[1], "h_good").state, BP_PLUGIN_READY);
    bp_core_destroy(core[1]);
    cr_assert_eq(allocations, 0);
}

/* An instance that was created is destroyed when a later step of loading fails. */
Test(plugin_load, a_late_failure_ends_the_instance)
{
    static const struct bp_allocator allocator = {.allocate = count_allocate,
                                                  .release = count_release};
    struct bp_core_options options = {.size = sizeof options,
                                      .allocator = &allocator,
                                      .plugin_path = HOSTILE_DIR,
                                      .plugins = "h_no_devices,h_count_fails"};
    struct bp_core *core;

    OK(bp_core_create(&options, &core));
    cr_assert_eq(bp_core_load(core, kit_find(core, "h_no_devices")), BP_ERR_ABSENT);
    cr_assert_eq(bp_core_load(core, kit_find(core, "h_count_fails")), BP_ERR_PLUGIN);
    cr_assert_eq(allocations, 0);
    bp_core_destroy(core);
}

Test(plugin_load, by_a_path)
{
    struct kit_log log;
    struct bp_core *core = kit_core(&log, NULL, "nothing_at_all");
    struct bp_plugin_info info = {.size = sizeof info};
    uint32_t count = bp_core_plugins(core), index = 77, again = 78;

    OK(bp_core_load_path(core, HOSTILE_DIR "/bp_h_good.so", &index));
    OK(bp_core_load_path(core, HOSTILE_DIR "/.//bp_h_good.so", &again));
    cr_assert_eq(index, count);
    cr_assert_eq(again, index);
    cr_assert_eq(bp_core_plugins(core), count + 1);
    OK(bp_core_plugin(core, index, &info));
    cr_assert_str_eq(info.name, "h_good");
    cr_assert_str_eq(info.kind, "h_good");
    cr_assert_str_eq(info.version, "0.1.0");
    cr_assert_str_eq(info.manifest, "");
    cr_assert_str_eq(info.library, HOSTILE_DIR "/bp_h_good.so");
    bp_core_destroy(core);
}

Test(plugin_load, by_a_path_that_is_no_good)
{
    struct kit_log log;
    struct bp_core *core = kit_core(&log, NULL, "nothing_at_all");
    uint32_t index = 77, count = bp_core_plugins(core);

    for (int again = 0; again < 2; again++) {
        cr_assert_eq(bp_core_load_path(core, "/nowhere/bp_gone.so", &index), BP_ERR_PLUGIN);
        cr_assert_str_eq(
            bp_error_message(),
            "/nowhere/bp_gone.so: there is no such library: expected a shared object, got "
            "\"No such file or directory\"; correct the path");
    }
    cr_assert_eq(index, 77, "the out parameter was touched");
    cr_assert_eq(bp_core_plugins(core), count + 1);
    cr_assert_eq(kit_info(core, "gone").state, BP_PLUGIN_BROKEN);
    cr_assert_eq(log.count[BP_LOG_ERROR], 1);
    bp_core_destroy(core);
}

Test(plugin_load, wrong_paths_are_wrong_arguments)
{
    static const char *const paths[] = {
        NULL, "", "bp_x.so", "./bp_x.so", "/a/../bp_x.so", "/a/bp_x.la", "/a/bp_x"};
    struct kit_log log;
    struct bp_core *core = kit_core(&log, NULL, "nothing_at_all");
    uint32_t count = bp_core_plugins(core);

    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        cr_assert_eq(bp_core_load_path(core, paths[i], NULL), BP_ERR_INVALID, "%s",
                     paths[i] ? paths[i] : "NULL");
        cr_assert(strstr(bp_error_message(),
                         "expected an absolute path without \"..\" that ends in .so, got "));
    }
    cr_assert_eq(bp_core_plugins(core), count);
    bp_core_destroy(core);
}

/* The dynamic linker identifies open libraries by name. The code of the old file must not be used
 * for the new file, whose owner and hash were checked. */
Test(plugin_load, replaced_since_it_was_loaded)
{
    char *directory = kit_create(), *path = kit_format("%s/bp_h_good.so", directory);
    struct bp_core *core[4];
    struct kit_log log;
    struct stat file;

    kit_library(directory, "h_good");
    core[0] = kit_core(&log, NULL, "nothing_at_all");
    OK(bp_core_load_path(core[0], path, NULL));
    core[1] = kit_core(&log, NULL, "nothing_at_all");
    OK(bp_core_load_path(core[1], path, NULL)); /* it is still the same file */

    kit_copy(path, kit_format("%s/new", directory));
    cr_assert_eq(rename(kit_format("%s/new", directory), path), 0);
    cr_assert_eq(stat(path, &file), 0);
    core[2] = kit_core(&log, NULL, "nothing_at_all");
    cr_assert_eq(bp_core_load_path(core[2], path, NULL), BP_ERR_PLUGIN);
    cr_assert_str_eq(
        bp_error_message(),
        kit_format("%s: replaced since it was loaded: expected inode %llu, got %s (deleted), which "
                   "this process has open; restart the process",
                   path, (unsigned long long)file.st_ino, path));
    OK(bp_core_load_path(core[0], path, NULL)); /* a core that has loaded it keeps it */

    core[3] = kit_core(&log, NULL, "nothing_at_all");
    for (int i = 0; i < 4; i++) bp_core_destroy(core[i]);
    kit_destroy(directory);
}

/* The library is moved to another name: the open code belongs to this file. */
Test(plugin_load, moved_away_since_it_was_loaded)
{
    char *directory = kit_create(), *path = kit_format("%s/bp_h_good.so", directory),
         *kept = kit_format("%s/bp_h_kept.so", directory);
    struct bp_core *core;
    struct kit_log log;

    kit_library(directory, "h_good");
    core = kit_core(&log, NULL, "nothing_at_all");
    OK(bp_core_load_path(core, path, NULL));
    bp_core_destroy(core);
    cr_assert_eq(rename(path, kept), 0);
    kit_library(directory, "h_good");
    core = kit_core(&log, NULL, "nothing_at_all");
    cr_assert_eq(bp_core_load_path(core, path, NULL), BP_ERR_PLUGIN);
    cr_assert(strstr(bp_error_message(), kit_format("got %s, which", kept)), "%s",
              bp_error_message());
    OK(bp_core_load_path(core, kept, NULL)); /* this is the open file */
    bp_core_destroy(core);
    kit_destroy(directory);
}

/* Returns a path of nearly PATH_MAX for a library that is invalid in the way that the message below
 * describes. */
static char *make_long(const char *directory, size_t length)
{
    char *path = kit_format("%s", directory), name[201] = "";

    memset(name, 'x', sizeof name - 1);
    while (strlen(path) + 2 * sizeof name < length) {
        path = kit_format("%s/%s", path, name);
        cr_assert_eq(mkdir(path, 0755), 0);
    }
    return kit_format("%s/bp_x.so", path);
}

/* Each message ends with advice, in the log as well. */
Test(plugin_load, a_long_path_leaves_room_for_the_advice)
{
    char *directory = kit_create(), *path = make_long(directory, 4095);
    struct bp_core *core;
    struct kit_log log;

    cr_assert_gt(strlen(path), 3600);
    core = kit_core(&log, NULL, "nothing_at_all");
    kit_write(path, "x", 1);
    cr_assert_eq(chmod(path, 0666), 0);
    cr_assert_eq(bp_core_load_path(core, path, NULL), BP_ERR_PLUGIN);
    cr_assert(strstr(bp_error_message(), "; run: chmod go-w /"), "%s", bp_error_message());
    cr_assert(bp_error_message()[strlen(bp_error_message()) - 1] == 'o');
    cr_assert_str_eq(log.text[BP_LOG_ERROR], bp_error_message());
    bp_core_destroy(core);

    core = kit_core(&log, NULL, "nothing_at_all");
    cr_assert_eq(unlink(path), 0);
    cr_assert_eq(symlink(path, path), 0);
    cr_assert_eq(bp_core_load_path(core, path, NULL), BP_ERR_PLUGIN);
    cr_assert(strstr(bp_error_message(), "; correct the path"), "%s", bp_error_message());
    bp_core_destroy(core);

    core = kit_core(&log, NULL, "nothing_at_all");
    path[strlen(path) - 1] = 'a';
    cr_assert_eq(bp_core_load_path(core, path, NULL), BP_ERR_INVALID);
    cr_assert(strstr(bp_error_message(), "bp_x.sa\"; write it out"), "%s", bp_error_message());
    bp_core_destroy(core);
    kit_destroy(directory);
}

Test(plugin_load, a_message_is_one_line)
{
    static const char *const paths[] = {"/nowhere/two\nlines\x1b[2J.so", "two\nlines"};
    char *directory = kit_create(), *path = kit_format("%s/two\nlines.so", directory);
    struct bp_core *core;
    struct kit_log log;

    kit_copy(HOSTILE_DIR "/bp_h_good.so", path);
    core = kit_core(&log, NULL, "nothing_at_all");
    for (size_t i = 0; i < 3; i++) {
        cr_assert_neq(bp_core_load_path(core, i < 2 ? paths[i] : path, NULL), BP_OK);
        cr_assert(strstr(bp_error_message(), "two?lines"), "%s", bp_error_message());
        cr_assert(!strpbrk(bp_error_message(), "\n\x1b"), "%s", bp_error_message());
    }
    cr_assert_str_eq(log.text[BP_LOG_ERROR],
                     kit_format("%s/two?lines.so: its path has control characters: expected a path "
                                "without, got one with; rename what is called so",
                                directory));
    bp_core_destroy(core);
    kit_destroy(directory);
}

Test(plugin_load, wrong_calls)
{
    struct bp_plugin_info info = {.size = sizeof info}, unset = {0};
    uint32_t not_a_core[64] = {0};
    struct kit_log log;
    struct bp_core *core = kit_core(&log, HOSTILE_DIR, "h_good");

    cr_assert_eq(bp_core_plugins(NULL), 0);
    cr_assert_eq(bp_core_plugins((struct bp_core *)not_a_core), 0);
    cr_assert_eq(bp_core_plugin(NULL, 0, &info), BP_ERR_INVALID);
    cr_assert_eq(bp_core_plugin(core, 0, NULL), BP_ERR_INVALID);
    cr_assert_eq(bp_core_plugin(core, 0, &unset), BP_ERR_INVALID);
    cr_assert_eq(bp_core_plugin(core, UINT32_MAX, &info), BP_ERR_INVALID);
    cr_assert_eq(bp_core_load(NULL, 0), BP_ERR_INVALID);
    cr_assert_eq(bp_core_load(core, UINT32_MAX), BP_ERR_INVALID);
    cr_assert_str_eq(
        bp_error_message(),
        kit_format("bp_core_load: there is no plugin 4294967295: expected less than %u, "
                   "the number of plugins found",
                   bp_core_plugins(core)));
    cr_assert_eq(bp_core_load_path((struct bp_core *)not_a_core, "/bp_x.so", NULL), BP_ERR_INVALID);
    bp_core_destroy(core);
}

/* An app that was compiled with a shorter struct gets only its members. */
Test(plugin_load, a_shorter_table)
{
    struct {
        struct bp_plugin_info info;
        uint64_t behind;
    } out = {.info.size = offsetof(struct bp_plugin_info, version)};
    struct kit_log log;
    struct bp_core *core = kit_core(&log, HOSTILE_DIR, "h_good");

    OK(bp_core_plugin(core, kit_find(core, "h_good"), &out.info));
    cr_assert_str_eq(out.info.kind, "h_good");
    cr_assert_null(out.info.version);
    cr_assert_null(out.info.library);
    bp_core_destroy(core);
}
