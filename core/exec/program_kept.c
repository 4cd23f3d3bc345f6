/* SPDX-License-Identifier: Apache-2.0 */
/* program_kept.c: saves and loads what the compiler found for a program, in files of the app's
 * choice and in the cache folder. */
#include "program.h"

#include "../compile/engine.h"
#include "../compile/saved.h"
#include "../compile/tuner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct bp_compile_options bp_program_compilation(const struct bp_program *p)
{
    uint32_t winograd = p->flags & BP_PROGRAM_WINOGRAD ? BP_ALLOW_WINOGRAD : 0;
    uint32_t fast_math = p->flags & BP_PROGRAM_FAST_MATH ? BP_ALLOW_FAST_MATH : 0;

    return (struct bp_compile_options){.no_passes = p->flags & BP_PROGRAM_NO_PASSES,
                                       .tuner = p->tuner,
                                       .donors = p->donors,
                                       .cancel = &p->cancel,
                                       .allow = winograd | fast_math};
}

void bp_program_work_begin(struct bp_program *p)
{
    atomic_store(&p->cancel.state, BP_CANCEL_RUNS);
}

void bp_program_work_end(struct bp_program *p)
{
    atomic_store(&p->cancel.state, BP_CANCEL_IDLE);
}

void bp_program_drop_donors(struct bp_program *p)
{
    bp_engine_donors_destroy(p->donors);
    p->donors = NULL;
}

enum bp_status bp_program_tuner_begin(struct bp_program *p)
{
    bool measures = p->flags & BP_PROGRAM_TUNE;

    return measures || p->cache ? bp_tuner_create(p->device, p->cache, measures, &p->tuner) : BP_OK;
}

void bp_program_tuner_end(struct bp_program *p)
{
    char *before = strdup(bp_error_message());

    if (bp_tuner_destroy(p->tuner))
        bp_core_log(p->device->core, BP_LOG_WARN, "%s: choices of kernels are not kept: %s",
                    p->device->name, bp_error_message());
    p->tuner = NULL;
    if (before) bp_error_write("%s", before);
    free(before);
}

static struct bp_digest kept_key(const struct bp_program *p)
{
    struct bp_compile_options options = bp_program_compilation(p);

    return bp_saved_key(p->graph, p->device, &options);
}

/* Makes a schedule from a file. */
static enum bp_status kept_load(struct bp_program *p, const char *path, struct bp_digest key,
                                struct bp_schedule **out_schedule)
{
    unsigned char *bytes;
    struct bp_compile_options options = bp_program_compilation(p);
    struct bp_ir *ir = NULL;
    size_t n;
    enum bp_status status;

    TRY(bp_kept_file_read(path, BP_KEPT_PROGRAM, key, &bytes, &n));
    status = bp_saved_read(p->graph, p->device, &options, bytes, n, &ir);
    free(bytes);
    if (status) return status;
    return bp_schedule_create(ir, p->tuner, out_schedule);
}

static enum bp_status kept_save(const struct bp_program *p, const char *path, struct bp_digest key)
{
    struct bp_kept_writer w = {0};
    enum bp_status status = bp_saved_write(p->schedule, p->graph, &w);

    if (status == BP_OK) return bp_kept_file_write(path, BP_KEPT_PROGRAM, key, &w);
    free(w.bytes);
    return status;
}

/* ---- the cache folder ---- */

static void kept_path(const struct bp_program *p, struct bp_digest key, char path[BP_KEPT_PATH])
{
    snprintf(path, BP_KEPT_PATH, "%.4000s/%016llx%016llx.program", p->cache,
             (unsigned long long)key.a, (unsigned long long)key.b);
}

bool bp_program_take(struct bp_program *p)
{
    char *before, path[BP_KEPT_PATH];
    struct bp_digest key;
    enum bp_status status;

    if (!p->cache) return false;
    before = strdup(bp_error_message());
    key = kept_key(p);
    kept_path(p, key, path);
    status = kept_load(p, path, key, &p->schedule);
    p->loaded = status == BP_OK;
    snprintf(p->cached, sizeof p->cached, "%s",
             status == BP_OK              ? "loaded"
             : status == BP_ERR_NOT_FOUND ? ""
                                          : bp_error_message());
    if (status && status != BP_ERR_NOT_FOUND)
        bp_core_log(p->device->core, BP_LOG_INFO, "%s: a program is compiled anew: %s",
                    p->device->name, p->cached);
    if (before) bp_error_write("%s", before);
    free(before);
    return p->loaded;
}

void bp_program_keep(struct bp_program *p)
{
    char *before, path[BP_KEPT_PATH];
    struct bp_digest key;
    enum bp_status status;

    if (!p->cache) return;
    before = strdup(bp_error_message());
    key = kept_key(p);
    kept_path(p, key, path);
    status = kept_save(p, path, key);
    if (status) {
        snprintf(p->cached, sizeof p->cached, "not saved: %s", bp_error_message());
        bp_core_log(p->device->core, status == BP_ERR_UNSUPPORTED ? BP_LOG_INFO : BP_LOG_WARN,
                    "%s: a program is %s", p->device->name, p->cached);
    } else {
        char why[400];
        snprintf(why, sizeof why, "%.390s", p->cached);
        snprintf(p->cached, sizeof p->cached, *why ? "saved (%s)" : "saved%s", why);
    }
    if (before) bp_error_write("%s", before);
    free(before);
}

/* ---- files of the app ---- */

enum bp_status bp_program_save(struct bp_program *p, const char *path)
{
    enum bp_status status;

    if (!bp_program_is(p)) return bp_not_a("program");
    if (!path || !*path) return bp_error(BP_ERR_INVALID, "bp_program_save: path is NULL or empty");
    pthread_mutex_lock(&p->lock);
    status = p->schedule ? kept_save(p, path, kept_key(p))
                         : bp_error(BP_ERR_NOT_READY, "bp_program_save: the program is not "
                                                      "compiled: call bp_program_compile");
    pthread_mutex_unlock(&p->lock);
    return status;
}

enum bp_status bp_program_load(struct bp_program *p, const char *path)
{
    enum bp_status status = BP_OK;

    if (!bp_program_is(p)) return bp_not_a("program");
    if (!path || !*path) return bp_error(BP_ERR_INVALID, "bp_program_load: path is NULL or empty");
    pthread_mutex_lock(&p->lock);
    if (p->schedule)
        status = bp_error(BP_ERR_BUSY, "bp_program_load: the program is compiled already");
    else status = bp_program_tuner_begin(p);
    if (!status) {
        bp_program_work_begin(p);
        status = kept_load(p, path, kept_key(p), &p->schedule);
        bp_program_work_end(p);
    }
    bp_program_tuner_end(p);
    if (!status) {
        p->loaded = true;
        p->uncompilable = false;
        bp_program_drop_donors(p);
    }
    pthread_mutex_unlock(&p->lock);
    return status;
}
