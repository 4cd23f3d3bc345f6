/* SPDX-License-Identifier: Apache-2.0 */
/* program_seen.c: compiles programs, and describes what the compiler did with them: passes,
 * launches, memory. */
#include "../device/profiled.h"
#include "program.h"

#include "../compile/engine.h"
#include "../plugin/patterns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum bp_status program_lower(struct bp_program *p)
{
    struct bp_compile_options options;
    struct bp_pass_order order;

    if (bp_setting_has(bp_env_get("BP_PASSES"), "uncompiled", 10))
        return bp_error(BP_ERR_UNSUPPORTED, "BP_PASSES=uncompiled");
    if (bp_compile_checks("passes-values")) {
        bp_passes_of(p->device, true, &order);
        TRY(bp_passes_compare(p->graph, p->device, order.pass, order.n));
    }
    if (bp_program_take(p)) return BP_OK;
    options = bp_program_compilation(p);
    TRY(bp_compile_with(p->graph, p->device, &options, &p->schedule));
    bp_program_keep(p);
    return BP_OK;
}

enum bp_status bp_program_cancel(struct bp_program *p)
{
    uint32_t runs = BP_CANCEL_RUNS;

    if (!bp_program_is(p)) return bp_not_a("program");
    if (atomic_compare_exchange_strong(&p->cancel.state, &runs, BP_CANCEL_SET) ||
        runs == BP_CANCEL_SET)
        return BP_OK;
    return bp_error(BP_ERR_NOT_FOUND, "bp_program_cancel: the program is not being compiled");
}

void bp_program_make_schedule(struct bp_program *p)
{
    char *before;
    enum bp_status status;

    if (p->schedule || p->uncompilable) return;
    before = strdup(bp_error_message());
    status = bp_program_tuner_begin(p);
    if (status == BP_OK) {
        bp_program_work_begin(p);
        status = program_lower(p);
        bp_program_work_end(p);
    }
    bp_program_tuner_end(p);
    if (status) {
        p->uncompilable = status != BP_ERR_MEMORY; /* a later run may find memory */
        p->failure = status;
        snprintf(p->uncompiled, sizeof p->uncompiled, "%s", bp_error_message());
        snprintf(p->why_not, sizeof p->why_not, "%s", p->uncompiled);
        bp_core_log(p->device->core, status == BP_ERR_INTERNAL ? BP_LOG_ERROR : BP_LOG_INFO,
                    "%s: a program is not compiled: %s", p->device->name, p->why_not);
    }
    if (!status) bp_program_drop_donors(p);
    if (before) bp_error_write("%s", before);
    free(before);
}

enum bp_status bp_program_compile(struct bp_program *p)
{
    enum bp_status status = BP_OK;
    uint64_t began = bp_profile_begin();

    if (!bp_program_is(p)) return bp_not_a("program");
    pthread_mutex_lock(&p->lock);
    if (p->failure == BP_ERR_CANCELLED) p->uncompilable = false;
    bp_program_make_schedule(p);
    if (!p->schedule) status = bp_error(p->failure, "%s", p->uncompiled);
    pthread_mutex_unlock(&p->lock);
    if (began) bp_device_profile_put(p->device, NULL, BP_PROFILE_COMPILE, "program", began);
    return status;
}

enum bp_status bp_program_get_info(struct bp_program *p, struct bp_program_info *out)
{
    struct bp_program_info info = {.size = sizeof info};

    if (!bp_program_is(p)) return bp_not_a("program");
    pthread_mutex_lock(&p->lock);
    info.runs = p->runs;
    info.replays = p->replays;
    info.recorded = p->recording != NULL;
    info.bytes = p->recording ? bp_capture_bytes(p->recording) : 0;
    info.reason = p->why;
    info.compiled = p->compiled;
    info.not_compiled = p->why_not;
    info.recorded_nodes = p->graph->n_node;
    info.loaded = p->loaded;
    info.derived = p->derived;
    info.cache = p->cached;
    info.engines = "";
    info.records = p->device->entry->captures.capture_begin != NULL;
    if (p->schedule) {
        info.launches = p->schedule->n_launch;
        info.arena = p->schedule->arena;
        info.unplanned = p->schedule->unplanned;
        info.nodes = p->schedule->ir->living;
        if (p->schedule->ir->engines && p->schedule->ir->engines->failure)
            info.engines = p->schedule->ir->engines->failure;
        bp_schedule_constants(p->schedule, &info.constants, &info.folded);
    }
    pthread_mutex_unlock(&p->lock);
    return bp_info_fill(out, &info, sizeof info);
}

static void pass_describe(const struct bp_pass *pass, struct bp_pass_info *out)
{
    out->name = pass->name;
    out->doc = pass->doc;
    out->priority = pass->priority;
    out->reason = pass->pattern && pass->pattern->reason ? pass->pattern->reason : "";
}

enum bp_status bp_pass_get(uint32_t index, struct bp_pass_info *out)
{
    struct bp_pass_info info = {.size = sizeof info};

    if (index >= bp_pass_count)
        return bp_error(BP_ERR_NOT_FOUND, "bp_pass_get: there is no pass %u, only %u passes", index,
                        bp_pass_count);
    pass_describe(&bp_pass_list[index], &info);
    return bp_info_fill(out, &info, sizeof info);
}

enum bp_status bp_device_pass(struct bp_device *device, uint32_t index, struct bp_pass_info *out)
{
    struct bp_pass_info info = {.size = sizeof info};
    struct bp_pass_order order;

    if (!bp_device_is(device)) return bp_not_a("device");
    bp_passes_of(device, false, &order);
    if (index >= order.n)
        return bp_error(BP_ERR_NOT_FOUND, "bp_device_pass: there is no pass %u, only %u passes",
                        index, order.n);
    pass_describe(&order.pass[index], &info);
    return bp_info_fill(out, &info, sizeof info);
}

/* Returns the schedule, which lives as long as the program. */
static enum bp_status seen_schedule(const char *call, struct bp_program *p,
                                    const struct bp_schedule **out_schedule)
{
    if (!bp_program_is(p)) return bp_not_a_for(call, "program");
    pthread_mutex_lock(&p->lock);
    *out_schedule = p->schedule;
    pthread_mutex_unlock(&p->lock);
    if (*out_schedule) return BP_OK;
    return bp_error(BP_ERR_NOT_READY, "%s: the program is not compiled: call bp_program_compile",
                    call);
}

enum bp_status bp_program_pass(struct bp_program *p, uint32_t index, struct bp_pass_result *out)
{
    struct bp_pass_result result = {.size = sizeof result};
    const struct bp_schedule *s;
    struct bp_pass_order order;

    TRY(seen_schedule("bp_program_pass", p, &s));
    bp_passes_of(p->device, true, &order);
    if (index >= order.n)
        return bp_error(BP_ERR_NOT_FOUND, "bp_program_pass: there is no pass %u, only %u passes",
                        index, order.n);
    result.name = order.pass[index].name;
    result.ran = s->ir->pass[index].ran;
    result.changes = s->ir->pass[index].changes;
    result.nodes = s->ir->pass[index].nodes;
    return bp_info_fill(out, &result, sizeof result);
}

enum bp_status bp_program_group(struct bp_program *p, uint32_t index, struct bp_group_info *out)
{
    struct bp_group_info info = {.size = sizeof info};
    const struct bp_schedule *s;

    TRY(seen_schedule("bp_program_group", p, &s));
    if (s->ir->engines && index < s->ir->engines->n_group) {
        const struct bp_engine_group *group = &s->ir->engines->group[index];
        info.engine = group->engine;
        info.node = group->name;
        info.nodes = group->n_node;
        info.compiled = group->compiled;
        info.text = group->text ? group->text : "";
        info.origin = group->origin;
    }
    return bp_info_fill(out, &info, sizeof info);
}

enum bp_status bp_program_left(struct bp_program *p, uint32_t index, struct bp_left_info *out)
{
    struct bp_left_info info = {.size = sizeof info};
    const struct bp_engine_report *r;
    const struct bp_schedule *s;
    uint32_t count = 0, n = 0;

    TRY(seen_schedule("bp_program_left", p, &s));
    r = s->ir->engines;
    for (; r && n < r->n_left && count <= index; n++) count += r->left[n] != NULL;
    if (count > index) {
        info.node = s->ir->node[n - 1].call.name;
        info.op = s->ir->node[n - 1].call.row->info.name;
        info.why = r->left[n - 1];
    }
    return bp_info_fill(out, &info, sizeof info);
}

static enum bp_status seen_launch(const char *call, struct bp_program *p, uint32_t index,
                                  const struct bp_schedule **out_schedule)
{
    TRY(seen_schedule(call, p, out_schedule));
    if (index < (*out_schedule)->n_launch) return BP_OK;
    return bp_error(BP_ERR_NOT_FOUND, "%s: there is no launch %u, only %u launches", call, index,
                    (*out_schedule)->n_launch);
}

enum bp_status bp_program_launch(struct bp_program *p, uint32_t index, struct bp_launch_info *out)
{
    struct bp_launch_info info = {.size = sizeof info};
    const struct bp_schedule *s;

    TRY(seen_launch("bp_program_launch", p, index, &s));
    bp_schedule_describe(s, index, &info);
    return bp_info_fill(out, &info, sizeof info);
}

enum bp_status bp_program_operand(struct bp_program *p, uint32_t launch, uint32_t operand,
                                  struct bp_operand_info *out)
{
    struct bp_operand_info info = {.size = sizeof info};
    const struct bp_schedule *s;
    uint32_t n;

    TRY(seen_launch("bp_program_operand", p, launch, &s));
    n = s->launch[launch].step->launch.n_in + s->launch[launch].step->launch.n_out;
    if (operand >= n)
        return bp_error(BP_ERR_NOT_FOUND, "bp_program_operand: there is no operand %u, only %u",
                        operand, n);
    bp_schedule_operand(s, launch, operand, &info);
    return bp_info_fill(out, &info, sizeof info);
}

enum bp_status bp_program_watch(struct bp_program *p, bp_program_watcher *watcher, void *ctx)
{
    if (!bp_program_is(p)) return bp_not_a("program");
    pthread_mutex_lock(&p->lock);
    p->watch = (struct bp_schedule_watch){watcher, ctx, p};
    pthread_mutex_unlock(&p->lock);
    return BP_OK;
}
