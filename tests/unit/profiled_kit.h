/* SPDX-License-Identifier: Apache-2.0 */
/* profiled_kit.h: opens the plugin of tests/plugins/profiled.c, and reads profiles of its work, for
 * tests. */
#ifndef BP_TEST_PROFILED_KIT_H
#define BP_TEST_PROFILED_KIT_H

#include "fixture.h"
#include "../plugins/profiled.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    MS = 1000000 /* nanoseconds */
};

static struct profiled *profiled;
static char profile_path[64], warning[1024];

static inline void kit_init(void)
{
    snprintf(profile_path, sizeof profile_path, "/tmp/bp-profile-XXXXXX");
    close(mkstemp(profile_path));
}
static inline void kit_finish(void)
{
    unlink(profile_path);
}

static inline void kit_log(void *ctx, uint32_t level, const char *text)
{
    (void)ctx;
    if (level == BP_LOG_WARN) snprintf(warning, sizeof warning, "%s", text);
}

static inline struct fixture kit_open_plugin(const char *path)
{
    struct bp_core_options options = {.size = sizeof options, .log = kit_log};
    struct fixture f;
    uint32_t plugin;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    cr_assert_not_null(library, "%s", dlerror());
    profiled = dlsym(library, "profiled");
    cr_assert_not_null(profiled);
    OK(bp_core_create(&options, &f.core));
    OK(bp_core_load_path(f.core, path, &plugin));
    OK(bp_device_create_at(f.core, plugin, 0, &f.device));
    OK(bp_stream_create(f.device, &f.stream));
    f.scope = bp_stream_scope(f.stream);
    return f;
}

static inline struct fixture kit_open(void)
{
    return kit_open_plugin(PROFILED_PLUGIN);
}

static inline struct bp_profiler *kit_start(void)
{
    struct bp_profiler_options options = {.size = sizeof options, .path = profile_path};
    struct bp_profiler *p;

    OK(bp_profiler_start(&options, &p));
    return p;
}

/* Ends the recording, and opens it. */
static inline struct bp_profile *kit_stop(struct bp_profiler *profiler)
{
    struct bp_profile *p;

    OK(bp_profiler_stop(profiler));
    bp_profiler_destroy(profiler);
    OK(bp_profile_open(profile_path, &p));
    return p;
}

static inline struct bp_profile_event kit_event(struct bp_profile *p, uint64_t i)
{
    struct bp_profile_event e = {.size = sizeof e};

    OK(bp_profile_get_event(p, i, &e));
    return e;
}

static inline struct bp_profile_info kit_info(struct bp_profile *p)
{
    struct bp_profile_info info = {.size = sizeof info};

    OK(bp_profile_get_info(p, &info));
    return info;
}

static inline struct bp_profiler_info kit_profiler_info(struct bp_profiler *p)
{
    struct bp_profiler_info info = {.size = sizeof info};

    OK(bp_profiler_get_info(p, &info));
    return info;
}

#endif
