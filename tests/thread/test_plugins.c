/* SPDX-License-Identifier: Apache-2.0 */
/* test_plugins.c: loads plugins on many threads at once, the same and different ones, good and
 * hostile, in a shared core and in one core per thread. A plain program, for ThreadSanitizer.
 * Silent on success. */
#include <backplane/backplane.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    THREADS = 8,
    ROUNDS = 20
};

#define SELECTION \
    "h_good,h_wide_rows,h_long_tables,h_no_symbol,h_undefined_symbol,h_create_fails,h_no_devices," \
    "h_bad_name"
enum {
    LISTED = 8,
    BROKEN = 4,
    READY = 3
};

static atomic_int errors;

static void count_errors(void *ctx, uint32_t level, const char *text)
{
    (void)ctx;
    (void)text;
    if (level == BP_LOG_ERROR) errors++;
}

static void plugins_need(int good, const char *what)
{
    if (good) return;
    fprintf(stderr, "%s: %s\n", what, bp_error_message());
    exit(1);
}

static struct bp_core *plugins_open(void)
{
    struct bp_core_options options = {.size = sizeof options,
                                      .log = count_errors,
                                      .plugin_path = HOSTILE_DIR,
                                      .plugins = SELECTION};
    struct bp_core *core;

    plugins_need(bp_core_create(&options, &core) == BP_OK, "create");
    plugins_need(bp_core_plugins(core) >= LISTED, "some plugin is not listed");
    return core;
}

/* Loads all plugins, starting with number first. Each returned status must match the plugin's
 * state, and each loaded device must work. */
static void load_all(struct bp_core *core, uint32_t first)
{
    uint32_t states[4] = {0};

    for (uint32_t i = 0; i < LISTED; i++) {
        uint32_t index = (first + i) % LISTED;
        enum bp_status status = bp_core_load(core, index);
        struct bp_plugin_info info = {.size = sizeof info};
        struct bp_device *device;

        plugins_need(bp_core_plugin(core, index, &info) == BP_OK, "info");
        states[info.state & 3]++;
        plugins_need(status == (info.state == BP_PLUGIN_READY    ? BP_OK
                                : info.state == BP_PLUGIN_ABSENT ? BP_ERR_ABSENT
                                                                 : BP_ERR_PLUGIN),
                     "the status is not what the state says");
        if (status)
            plugins_need(!strcmp(bp_error_message(), info.reason), "the message is not the reason");
        if (status) continue;
        plugins_need(bp_device_create_at(core, index, 0, &device) == BP_OK, "device");
        plugins_need(bp_device_synchronize(device) == BP_OK, "synchronize");
        bp_device_destroy(device);
    }
    plugins_need(states[BP_PLUGIN_READY] == READY && states[BP_PLUGIN_BROKEN] == BROKEN &&
                     states[BP_PLUGIN_UNPROBED] == 0,
                 "the states are not those of the plugins");
}

static struct bp_core *shared;
static pthread_barrier_t barrier;

static void *plugins_work(void *number)
{
    uint32_t first = (uint32_t)(uintptr_t)number, index, again;
    struct bp_core *own;

    for (int round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&barrier);
        if (first == 0) {
            errors = 0;
            shared = plugins_open();
        }
        pthread_barrier_wait(&barrier);
        load_all(shared, first);
        plugins_need(bp_core_load_path(shared, HOSTILE_DIR "/bp_h_good.so", &index) == BP_OK,
                     "by a path");
        plugins_need(bp_core_load_path(shared, HOSTILE_DIR "//bp_h_good.so", &again) == BP_OK &&
                         again == index,
                     "by a path again");
        plugins_need(bp_core_plugins(shared) > LISTED, "the path has no entry");
        pthread_barrier_wait(&barrier);
        if (first == 0) {
            plugins_need(errors == BROKEN,
                         "a plugin that is loaded by many threads is complained about once");
            bp_core_destroy(shared);
        }
        pthread_barrier_wait(&barrier);

        own = plugins_open();
        load_all(own, first);
        bp_core_destroy(own);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];

    plugins_need(!pthread_barrier_init(&barrier, NULL, THREADS), "barrier");
    for (uintptr_t i = 0; i < THREADS; i++)
        plugins_need(!pthread_create(&threads[i], NULL, plugins_work, (void *)i), "thread");
    for (int i = 0; i < THREADS; i++) plugins_need(!pthread_join(threads[i], NULL), "join");
    pthread_barrier_destroy(&barrier);
    return 0;
}
