/* SPDX-License-Identifier: Apache-2.0 */
/* case_fixture.c: creates the core, the device and the stream on which cases run, and renews them
 * after a failure. */
#include "case_fixture.h"
#include "parts.h"
#include "suites/suites.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The path of the manifest beside a library, or "". */
static char *manifest_beside(const char *library)
{
    char *path = NULL;
    size_t n = strlen(library);
    FILE *file;

    if (n > 3 && !strcmp(library + n - 3, ".so") &&
        asprintf(&path, "%.*s.json", (int)(n - 3), library) > 0) {
        file = fopen(path, "rb");
        if (file) {
            fclose(file);
            return path;
        }
    }
    free(path);
    return strdup("");
}

static enum bp_status open_path(struct fixture *fixture, const char *path)
{
    char *absolute = realpath(path, NULL);
    enum bp_status status;

    /* If the file does not exist, the core reports this with the path as it was given. */
    status = bp_core_load_path(fixture->core, absolute ? absolute : path, &fixture->plugin);
    if (!status) status = bp_device_create_at(fixture->core, fixture->plugin, 0, &fixture->device);
    fixture->library = absolute ? absolute : strdup(path);
    fixture->manifest = manifest_beside(fixture->library);
    return status;
}

/* Finds the plugin that serves the device: the ready plugin of its kind. */
static void find_library(struct fixture *fixture)
{
    const char *name = bp_device_name(fixture->device);
    size_t kind = strcspn(name, ":");

    for (uint32_t i = 0; i < bp_core_plugins(fixture->core); i++) {
        struct bp_plugin_info info = {.size = sizeof info};
        if (bp_core_plugin(fixture->core, i, &info) || info.state != BP_PLUGIN_READY) continue;
        if (strlen(info.kind) != kind || strncmp(info.kind, name, kind)) continue;
        fixture->library = strdup(info.library);
        fixture->manifest = strdup(info.manifest);
        return;
    }
}

/* Hides errors that are logged while the core searches for plugins, because they concern the
 * manifests of other plugins. If the plugin of the requested device is broken, the call that opens
 * the device reports this. */
static void log_own(void *ctx, uint32_t level, const char *text)
{
    const bool *searched = ctx;

    if (*searched || level > BP_LOG_ERROR)
        fprintf(stderr, "backplane: %s: %s\n", level > BP_LOG_ERROR ? "warning" : "error", text);
}

int fixture_init(struct fixture *fixture, const char *device, const char *library,
                 const char *manifest, bool open)
{
    struct bp_core_options options = {.size = sizeof options};
    enum bp_status status;

    setenv("BP_FALLBACK", "deny", 1); /* a case passes only by the device's own work */
    /* Ranks that lose each other report this within the time limit of a case. */
    setenv("BP_CCL_TIMEOUT", "20", 0);
    if (!getenv("BP_LOG")) options.log = log_own, options.log_ctx = &fixture->searched;
    status = bp_core_create(&options, &fixture->core);
    fixture->name = device;
    if (status) return 4;
    fixture->searched = true;
    if (!open) {
        fixture->library = strdup(library);
        fixture->manifest = strdup(manifest);
        return 0;
    }
    if (strchr(device, '/')) status = open_path(fixture, device);
    else status = bp_device_create(fixture->core, device, &fixture->device);
    if (!status && !fixture->library) find_library(fixture);
    if (!status) {
        fixture->properties.size = sizeof fixture->properties;
        status = bp_device_get_properties(fixture->device, &fixture->properties);
    }
    if (!status) status = bp_stream_create(fixture->device, &fixture->stream);
    if (!status) return 0;
    return status == BP_ERR_NOT_FOUND || status == BP_ERR_ABSENT || status == BP_ERR_PLUGIN ||
                   status == BP_ERR_INVALID
               ? 3
               : 1; /* the device exists, but it cannot be used */
}

void fixture_finish(struct fixture *fixture)
{
    bp_stream_destroy(fixture->stream);
    bp_device_destroy(fixture->device);
    bp_core_destroy(fixture->core);
    parts_destroy(fixture->parts);
    free(fixture->gone);
    free((char *)fixture->library);
    free((char *)fixture->manifest);
    *fixture = (struct fixture){0};
}

/* Opens the device again. All objects of the old device have been destroyed, so the core creates a
 * new device. */
static enum bp_status open_again(struct fixture *fixture)
{
    char name[96];

    snprintf(name, sizeof name, "%s", bp_device_name(fixture->device));
    bp_device_destroy(fixture->device);
    fixture->device = NULL;
    if (strchr(fixture->name, '/'))
        return bp_device_create_at(fixture->core, fixture->plugin, 0, &fixture->device);
    return bp_device_create(fixture->core, name, &fixture->device);
}

/* A failure of work stays with its stream, or with the device if the device has a single order of
 * work. The case that submitted the work has failed already; later cases must find a stream without
 * a failure. */
static void case_fixture_renew(struct fixture *fixture)
{
    enum bp_status status = bp_stream_synchronize(fixture->stream);

    if (status == BP_OK) status = bp_device_synchronize(fixture->device);
    if (status == BP_OK) return;
    bp_stream_destroy(fixture->stream);
    fixture->stream = NULL;
    bp_device_synchronize(fixture->device); /* reports the destroyed stream's failure, once */
    status = bp_device_synchronize(fixture->device) ? open_again(fixture) : BP_OK;
    if (status == BP_OK) status = bp_stream_create(fixture->device, &fixture->stream);
    if (status) fixture->gone = strdup(bp_error_message());
}

bool fixture_receives(struct fixture *fixture, double timeout_s)
{
    static const unsigned char bytes[64 * 16];
    struct bp_event *event = NULL;
    struct bp_tensor *t = NULL;
    enum bp_status status;
    uint32_t dtype = 0;
    int64_t n = 64;

    while (dtype < 63 && !(fixture->properties.dtypes >> dtype & 1)) dtype++;
    status = bp_tensor_create(fixture->device, dtype, 1, &n, &t);
    if (!status)
        status = bp_tensor_write(fixture->stream, t, bytes, (uint64_t)n * bp_dtype_bits(dtype) / 8);
    if (!status) status = bp_event_create(fixture->device, &event);
    if (!status) status = bp_event_record(event, fixture->stream);
    if (!status) status = bp_event_wait(event, (uint64_t)(timeout_s * 1e9));
    bp_event_destroy(event);
    bp_tensor_destroy(t);
    return status != BP_ERR_TIMEOUT; /* other failures are found by the cases */
}

long plugin_cases(void)
{
    long n = 0;

    while (suite_plugin[n].id) n++;
    return n;
}

void listed_run(struct fixture *fixture, const struct listed *listed, struct result *result)
{
    struct check check = {fixture, result, listed->id};
    struct timespec begin, end;

    *result = (struct result){.outcome = OUTCOME_PASS, .worst = -1};
    clock_gettime(CLOCK_MONOTONIC, &begin);
    if (fixture->gone) {
        check_that(&check, false, "after a case that failed the device cannot be opened again: %s",
                   fixture->gone);
    } else if (listed->run) {
        listed->run(&check, listed->arg);
    } else if (listed->kernel && listed->suite == SUITE_GRADIENT) {
        gradient_case_run(&check, listed->kernel);
    } else if (listed->kernel) {
        kernel_case_run(&check, listed->kernel);
    } else {
        result->outcome = listed->outcome;
        snprintf(result->message, sizeof result->message, "%s", listed->message);
    }
    if (result->outcome == OUTCOME_FAIL && fixture->stream) case_fixture_renew(fixture);
    clock_gettime(CLOCK_MONOTONIC, &end);
    result->seconds = (double)(end.tv_sec - begin.tv_sec) +
                      1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
}
