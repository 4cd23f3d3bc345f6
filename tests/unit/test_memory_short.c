/* SPDX-License-Identifier: Apache-2.0 */
/* test_memory_short.c: tests host memory that runs out while plugins are found and loaded.
 * Allocation number N fails, for each N until no allocation is left. Each call returns BP_OK or
 * BP_ERR_MEMORY, no plugin is marked broken for lack of memory, and the same core loads the plugin
 * when memory is available again. */
#include <backplane/backplane.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

/* Counts down to the allocation of this thread that fails; below 0: none fails. lasts: all
 * allocations after it fail too. */
static _Thread_local long fails_at = -1;
static _Thread_local bool lasts;

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *memory, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

static bool memory_short_fails(void)
{
    if (fails_at < 0 || (fails_at && --fails_at)) return false;
    if (!lasts) fails_at = -2; /* this one fails, and no later one */
    errno = ENOMEM;
    return true;
}

void *malloc(size_t size)
{
    return memory_short_fails() ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    return memory_short_fails() ? NULL : __libc_calloc(n, size);
}

void *realloc(void *memory, size_t size)
{
    return memory_short_fails() ? NULL : __libc_realloc(memory, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return memory_short_fails() ? NULL : __libc_memalign(alignment, size);
}

int posix_memalign(void **out, size_t alignment, size_t size)
{
    void *memory = memory_short_fails() ? NULL : __libc_memalign(alignment, size);

    if (!memory) return ENOMEM;
    *out = memory;
    return 0;
}

static void take_log(void *ctx, uint32_t level, const char *text)
{
    (void)ctx;
    (void)text;
    (void)level;
}

/* Makes allocation n of the next call fail. */
static void short_of(long n, bool from_there_on)
{
    fails_at = n;
    lasts = from_there_on;
}

/* Tests whether the allocation failed. */
static bool was_short(void)
{
    bool was = fails_at <= 0;

    fails_at = -1;
    return was;
}

static void expect_status(enum bp_status status, const char *call, long n)
{
    cr_assert(status == BP_OK || status == BP_ERR_MEMORY, "%s, allocation %ld: %s: %s", call, n,
              bp_status_name(status), bp_error_message());
}

/* Creates a core while allocation n fails; 0: none fails. */
static struct bp_core *make_core(long n, bool from_there_on, bool *out_was_short)
{
    struct bp_core_options options = {.size = sizeof options, .log = take_log,
                                      .plugin_path = HOSTILE_DIR "/bp_h_good.json",
                                      .plugins = "h_good"};
    struct bp_core *core = NULL;
    enum bp_status status;

    if (n) short_of(n, from_there_on);
    status = bp_core_create(&options, &core);
    *out_was_short = n && was_short();
    expect_status(status, "bp_core_create", n);
    cr_assert(*out_was_short || status == BP_OK);
    return core;
}

static void memory_short_open_device(struct bp_core *core)
{
    struct bp_device *device = NULL;

    cr_assert_eq(bp_device_create(core, "h_good:0", &device), BP_OK, "%s", bp_error_message());
    bp_device_destroy(device);
}

static void find_without(bool from_there_on)
{
    bool was = true;
    long n;

    for (n = 1; was; n++) {
        struct bp_core *core = make_core(n, from_there_on, &was);
        if (core) memory_short_open_device(core);
        bp_core_destroy(core);
    }
    cr_assert_gt(n, 50);
}

Test(memory_short, finding_plugins)
{
    find_without(false);
}

Test(memory_short, finding_plugins_without_any_more)
{
    find_without(true);
}

static void load_without(bool from_there_on, const char *path)
{
    bool was = true;
    long n;

    for (n = 1; was; n++) {
        struct bp_core *core = make_core(0, false, &was);
        struct bp_device *device = NULL;
        struct bp_plugin_info info = {.size = sizeof info};
        enum bp_status status;
        short_of(n, from_there_on);
        status = path ? bp_core_load_path(core, path, NULL)
                      : bp_device_create(core, "h_good:0", &device);
        was = was_short();
        expect_status(status, "loading", n);
        cr_assert_eq(bp_core_plugin(core, 0, &info), BP_OK);
        cr_assert_neq(info.state, BP_PLUGIN_BROKEN, "allocation %ld: %s", n, info.reason);
        bp_device_destroy(device);
        if (path) cr_assert_eq(bp_core_load_path(core, path, NULL), BP_OK, "%s",
                               bp_error_message());
        memory_short_open_device(core);
        bp_core_destroy(core);
    }
    cr_assert_gt(n, 20);
}

Test(memory_short, loading_by_name)
{
    load_without(false, NULL);
}

Test(memory_short, loading_by_name_without_any_more)
{
    load_without(true, NULL);
}

Test(memory_short, loading_by_path)
{
    load_without(false, HOSTILE_DIR "/bp_h_good.so");
}
