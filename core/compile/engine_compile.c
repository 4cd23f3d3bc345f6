/* SPDX-License-Identifier: Apache-2.0 */
/* engine_compile.c: lets an engine compile a group of nodes, on a thread of its own: an engine that
 * does not return in time goes on, and its result is destroyed when it returns. */
#include "cancel.h"
#include "engine.h"
#include "schedule.h"

#include "../base/activity.h"
#include "../base/number.h"
#include "../device/deadline.h"
#include "../memory/memory.h"
#include "../plugin/entry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ALIGNMENT_MAX = 1 << 20,
    TIMEOUT = 600 /* seconds, without BP_ENGINE_TIMEOUT */
};

enum { JOB_RUNS, JOB_ENDED, JOB_LEFT };

/* One compilation. The thread that waits and the thread that compiles have a reference each. */
struct engine_job {
    _Atomic uint32_t refs;
    _Atomic uint32_t state; /* JOB_LEFT: the waiting thread has left it */
    struct bp_deadline until;
    struct bp_device *device; /* a reference */
    struct bp_plugin_entry *entry;
    struct bp_graph_copy *graph;
    const struct bp_cancel *cancel; /* of the thread that waits; or NULL */
    struct bp_engine_compile request;
    struct bp_engine_compiled result;
    void *blob; /* owned; or NULL */
    struct bp_prepared *donor;    /* a reference: the group that refit begins with; or NULL */
    struct bp_engine_refit refit; /* with a donor. Its list is owned */
    enum bp_status status;
};

static enum bp_status job_no_memory(void)
{
    return bp_error(BP_ERR_MEMORY, "no host memory to compile a group of nodes");
}

static void result_free(struct bp_engine_compiled *result)
{
    free(result->in_layout);
    free(result->out_layout);
    free(result->may_share);
    free(result->out_type);
    free(result->keeps);
}

static void job_release(struct engine_job *job)
{
    if (atomic_fetch_sub(&job->refs, 1) != 1) return;
    result_free(&job->result);
    bp_graph_copy_destroy(job->graph);
    if (job->donor) bp_prepared_release(job->donor);
    free((void *)(uintptr_t)job->refit.value);
    bp_device_release(job->device);
    free(job->blob);
    free(job);
}

static const struct bp_data_value *job_value(const struct engine_job *job, uint32_t v)
{
    const struct bp_graph_data *d = &job->graph->data;

    return BP_ROW(struct bp_data_value, d->value, d->value_stride, v);
}

/* ---- the thread that compiles ---- */

static uint32_t job_progress(void *ctx, double done, const char *what)
{
    struct engine_job *job = ctx;

    (void)done;
    (void)what;
    return atomic_load(&job->state) == JOB_LEFT || bp_process_is_stopping() ||
           !bp_deadline_remaining(&job->until);
}

static bool job_is_cancelled(void *ctx)
{
    const struct engine_job *job = ctx;

    return bp_cancel_is_set(job->cancel);
}

static enum bp_status job_call(struct engine_job *job)
{
    struct bp_plugin_entry *entry = job->entry;
    uint32_t note = bp_activity_begin(BP_ACTIVITY_PREPARE, entry->plugin.name, "an engine");
    enum bp_status status;

    bp_error_enter();
    status = job->donor ? entry->engines.refit(entry->self, &job->refit, &job->result)
                        : entry->engines.compile(entry->self, &job->request, &job->result);
    status = bp_addon_leave(job->device, entry, status, job->donor ? "refit" : "compile");
    bp_activity_end(note);
    return status;
}

/* The thread counts as busy, because it may go on after its caller has left it: job_progress ends
 * the engine's work when the process exits, and exit then waits until the engine has cleaned up. */
static enum bp_status job_run(void *ctx)
{
    struct engine_job *job = ctx;
    struct bp_plugin_entry *entry = job->entry;
    enum bp_status status = bp_process_busy_begin();
    bool busy = status == BP_OK;
    uint32_t runs;

    if (busy) status = job_call(job);
    job->status = status;
    runs = JOB_RUNS;
    if (!atomic_compare_exchange_strong(&job->state, &runs, JOB_ENDED) && status == BP_OK &&
        job->result.engine)
        entry->engines.engine_destroy(entry->self, job->device->index, job->result.engine);
    job_release(job);
    if (busy) bp_process_busy_end();
    return status;
}

/* ---- the request ---- */

static void types_fill(const struct engine_job *job)
{
    const struct bp_graph_data *d = &job->graph->data;

    for (uint32_t o = 0; o < d->n_out; o++) {
        const struct bp_data_value *v = job_value(job, d->out[o]);
        struct bp_inferred *type = &job->result.out_type[o];
        *type = (struct bp_inferred){.dtype = v->dtype, .rank = v->rank};
        memcpy(type->extent, v->shape, v->rank * sizeof *v->shape);
        job->result.may_share[o] = -1;
    }
}

static enum bp_status result_init(struct engine_job *job)
{
    const struct bp_graph_data *d = &job->graph->data;
    struct bp_engine_compiled *r = &job->result;

    *r = (struct bp_engine_compiled){.size = sizeof *r};
    r->in_layout = calloc(d->n_in + 1u, sizeof *r->in_layout);
    r->out_layout = calloc(d->n_out + 1u, sizeof *r->out_layout);
    r->may_share = calloc(d->n_out + 1u, sizeof *r->may_share);
    r->out_type = calloc(d->n_out + 1u, sizeof *r->out_type);
    r->keeps = calloc(d->n_in + 1u, sizeof *r->keeps);
    if (!r->in_layout || !r->out_layout || !r->may_share || !r->out_type || !r->keeps)
        return job_no_memory();
    types_fill(job);
    return BP_OK;
}

/* BP_ENGINE_TIMEOUT, in seconds. */
static struct bp_deadline engine_deadline(struct bp_core *core)
{
    const char *wanted = bp_env_get("BP_ENGINE_TIMEOUT");
    struct bp_deadline until;
    double seconds = TIMEOUT;
    char *end = NULL;

    if (wanted && *wanted) {
        seconds = bp_number_parse(wanted, &end);
        if (*end || !(seconds > 0 && seconds < 1e9)) {
            bp_core_log(core, BP_LOG_WARN, "BP_ENGINE_TIMEOUT=%.40s: expected seconds, more than 0",
                        wanted);
            seconds = TIMEOUT;
        }
    }
    until = bp_deadline_after((uint64_t)(seconds * 1e9));
    until.source = "BP_ENGINE_TIMEOUT";
    return until;
}

/* Takes over the graph. flags: enum bp_engine_flags. */
static enum bp_status job_create(struct bp_device *device, struct bp_plugin_entry *entry,
                                 struct bp_graph_copy *graph, uint32_t allow, uint32_t flags,
                                 struct engine_job **out_job)
{
    struct engine_job *job = calloc(1, sizeof *job);
    enum bp_status status;

    if (!job) {
        bp_graph_copy_destroy(graph);
        return job_no_memory();
    }
    atomic_init(&job->refs, 1);
    job->until = engine_deadline(device->core);
    job->device = device;
    job->entry = entry;
    job->graph = graph;
    bp_device_retain(job->device);
    job->request = (struct bp_engine_compile){
        .size = sizeof job->request,
        .graph = &graph->data,
        .device = device->index,
        .width = device->core->width,
        .flags = flags,
        .allow = allow,
        .deadline_ns = bp_deadline_is_set(&job->until) ? job->until.end : 0,
        .ctx = job,
        .progress = job_progress,
    };
    status = result_init(job);
    if (status) job_release(job);
    else *out_job = job;
    return status;
}

/* ---- the result ---- */

static enum bp_status result_error(const struct engine_job *job, const char *what, uint32_t number)
{
    return bp_error(BP_ERR_PLUGIN, "engine of %s: compile sets %s %u", job->entry->plugin.name,
                    what, number);
}

/* The tensors of a call are contiguous: it has one launch, and no copies. */
static enum bp_status check_contiguous(const struct engine_job *job)
{
    const struct bp_graph_data *d = &job->graph->data;
    const struct bp_engine_compiled *r = &job->result;
    bool good = true;

    for (uint32_t i = 0; i < d->n_in; i++) good &= r->in_layout[i] != BP_ENGINE_CHANNELS_LAST;
    for (uint32_t o = 0; o < d->n_out; o++) good &= r->out_layout[o] == BP_ENGINE_ROW_MAJOR;
    if (good) return BP_OK;
    return bp_error(BP_ERR_UNSUPPORTED,
                    "the engine of %s wants another layout than row-major for a call",
                    job->entry->plugin.name);
}

static enum bp_status check_layouts(const struct engine_job *job)
{
    const struct bp_graph_data *d = &job->graph->data;
    const struct bp_engine_compiled *r = &job->result;

    for (uint32_t i = 0; i < d->n_in; i++)
        if (r->in_layout[i] > BP_ENGINE_ANY ||
            (r->in_layout[i] == BP_ENGINE_CHANNELS_LAST && job_value(job, d->in[i])->rank < 3))
            return result_error(job, "a layout that is unknown, or wrong for the rank, for input",
                                i);
    for (uint32_t o = 0; o < d->n_out; o++)
        if (r->out_layout[o] > BP_ENGINE_CHANNELS_LAST ||
            (r->out_layout[o] == BP_ENGINE_CHANNELS_LAST && job_value(job, d->out[o])->rank < 3))
            return result_error(job, "a layout that is unknown, or wrong for the rank, for output",
                                o);
    return job->request.flags & BP_ENGINE_CALL ? check_contiguous(job) : BP_OK;
}

/* The core would convert a copy of the input, which a run would then update. */
static enum bp_status check_updates(const struct bp_ir *ir, const struct engine_job *job)
{
    const struct bp_graph_data *d = &job->graph->data;

    for (uint32_t i = 0; i < d->n_in; i++)
        if (job->result.in_layout[i] == BP_ENGINE_CHANNELS_LAST &&
            !bp_ir_is_stable(ir, job->graph->value_of[d->in[i]]))
            return bp_error(BP_ERR_UNSUPPORTED, "the engine of %s wants input %u, which the group "
                            "updates, channels-last", job->entry->plugin.name, i);
    for (uint32_t i = 0; i < d->n_in; i++) {
        uint32_t keeps = job->result.keeps[i];
        if (keeps > 1 || (keeps && bp_ir_is_stable(ir, job->graph->value_of[d->in[i]])))
            return bp_error(BP_ERR_PLUGIN, "engine of %s: compile sets keeps %u of input %u: "
                            "expected 0, or 1 of an input that the group updates",
                            job->entry->plugin.name, keeps, i);
        if (keeps && !job->entry->engines.state)
            return bp_error(BP_ERR_PLUGIN, "engine of %s: compile keeps input %u, and the table "
                            "has no callback state", job->entry->plugin.name, i);
    }
    return BP_OK;
}

/* Whether the engine keeps an input of a group. Calls have no inputs that are updated. */
static bool result_keeps(const struct engine_job *job)
{
    bool keeps = false;

    for (uint32_t i = 0; i < job->graph->data.n_in; i++) keeps |= job->result.keeps[i];
    return keeps && !(job->request.flags & BP_ENGINE_CALL);
}

static bool same_value_type(const struct bp_data_value *a, uint32_t dtype, uint32_t rank,
                            const int64_t *shape)
{
    return a->dtype == dtype && a->rank == rank && bp_same_extents(rank, a->shape, shape);
}

static enum bp_status check_types(const struct engine_job *job)
{
    const struct bp_graph_data *d = &job->graph->data;
    const struct bp_engine_compiled *r = &job->result;

    for (uint32_t o = 0; o < d->n_out; o++) {
        const struct bp_data_value *v = job_value(job, d->out[o]), *in;
        const struct bp_inferred *type = &r->out_type[o];
        if (!same_value_type(v, type->dtype, type->rank, type->extent))
            return result_error(job, "another type than the inferred one for output", o);
        if (r->may_share[o] == -1) continue;
        in = r->may_share[o] >= 0 && (uint32_t)r->may_share[o] < d->n_in
                 ? job_value(job, d->in[r->may_share[o]])
                 : NULL;
        if (!in || !same_value_type(in, v->dtype, v->rank, v->shape) ||
            r->in_layout[r->may_share[o]] != r->out_layout[o])
            return result_error(job, "may_share to no input of the same type and layout for output",
                                o);
    }
    return BP_OK;
}

static enum bp_status check_result(const struct engine_job *job)
{
    const struct bp_engine_compiled *r = &job->result;
    uint64_t alignment = r->workspace_alignment;

    if (!r->engine)
        return bp_error(BP_ERR_PLUGIN, "engine of %s: compile returned BP_OK and no engine",
                        job->entry->plugin.name);
    if (alignment & (alignment - 1) || alignment > ALIGNMENT_MAX ||
        r->workspace > INT64_MAX - (2 << 20))
        return bp_error(BP_ERR_PLUGIN, "engine of %s: compile asks for a workspace of %llu bytes "
                        "aligned to %llu: expected less than 2^63, and a power of two up to 1 MiB",
                        job->entry->plugin.name, (unsigned long long)r->workspace,
                        (unsigned long long)alignment);
    TRY(check_layouts(job));
    return check_types(job);
}

/* ---- the call ---- */

/* Moves the engine's result to the plan of a call. */
static enum bp_status code_create(struct engine_job *job, struct bp_engine_code **out_code)
{
    struct bp_engine_code *code = calloc(1, sizeof *code);
    char *note = job->result.note ? strndup(job->result.note, 400) : NULL;
    uint64_t *id = calloc(job->graph->n_value + 1u, sizeof *id);

    if (!code || !id || (job->result.note && !note)) {
        free(code);
        free(id);
        free(note);
        job->entry->engines.engine_destroy(job->entry->self, job->device->index,
                                           job->result.engine);
        return job_no_memory();
    }
    bp_engine_code_init(code, job->entry, job->device);
    code->engine = job->result.engine;
    code->in_layout = job->result.in_layout;
    code->out_layout = job->result.out_layout;
    code->may_share = job->result.may_share;
    code->n_in = job->graph->data.n_in;
    code->n_out = job->graph->data.n_out;
    code->workspace = job->result.workspace;
    code->workspace_alignment = job->result.workspace_alignment;
    code->note = note;
    code->allow = job->request.allow;
    code->flags = job->request.flags;
    code->id = id;
    for (uint32_t v = 0; v < job->graph->n_value; v++) id[v] = job_value(job, v)->id;
    if (result_keeps(job)) {
        code->keeps = job->result.keeps;
        job->result.keeps = NULL;
    } else if (job->result.captures == 1 && !(job->request.flags & BP_ENGINE_CALL))
        code->kernel.flags &= ~(uint32_t)BP_KERNEL_NO_CAPTURE;
    memcpy(code->hash, job->graph->data.hash, sizeof code->hash);
    job->result.in_layout = job->result.out_layout = NULL;
    job->result.may_share = NULL;
    *out_code = code;
    return BP_OK;
}

static void plan_fill(struct bp_plan *plan, struct bp_engine_code *code,
                      const struct bp_engine_compiled *r)
{
    bp_engine_code_plan(code, plan);
    plan->bytes = r->bytes;
}

/* Fills the only step of the call, which owns the code. */
static void step_fill(struct bp_prepared *p, struct bp_engine_code *code,
                      const struct bp_engine_compiled *r)
{
    struct bp_step *step = p->step;

    p->n_step = 1;
    step->row = &bp_engine_row;
    step->kernel = &code->kernel;
    plan_fill(&step->plan, code, r);
    memcpy(step->in_at, p->in_at, sizeof step->in_at);
    memcpy(step->out_at, p->out_at, sizeof step->out_at);
    step->launch = (struct bp_launch){.self = code->entry->self,
                                      .kernel = &code->kernel,
                                      .plan = &code->plain,
                                      .in_at = step->in_at,
                                      .out_at = step->out_at,
                                      .n_in = p->n_in,
                                      .n_out = p->n_out,
                                      .workspace_size = r->workspace,
                                      .device = code->device->index,
                                      .width = code->device->core->width};
}

/* Notes the inputs that the group updates: memory of the IR that is updated, which only nodes of
 * this group use. */
static enum bp_status code_set_updates(const struct bp_ir *ir, const struct bp_graph_copy *graph,
                                       struct bp_engine_code *code)
{
    const uint32_t *in = graph->data.in;
    uint32_t n = 0;

    for (uint32_t i = 0; i < code->n_in; i++) n += !bp_ir_is_stable(ir, graph->value_of[in[i]]);
    if (!n) return BP_OK;
    code->updates = calloc(code->n_in, sizeof *code->updates);
    if (!code->updates) return job_no_memory();
    for (uint32_t i = 0; i < code->n_in; i++)
        code->updates[i] = !bp_ir_is_stable(ir, graph->value_of[in[i]]);
    return BP_OK;
}

static enum bp_status call_make(const struct bp_ir *ir, const struct engine_job *job,
                                struct bp_engine_code *code, struct bp_prepared **out_prepared)
{
    const struct bp_graph_copy *graph = job->graph;
    struct bp_invocation *inv = calloc(1, sizeof *inv);
    struct bp_prepared *p = NULL;
    enum bp_status status = job_no_memory();

    if (inv && code_set_updates(ir, graph, code) == BP_OK) {
        inv->row = &bp_engine_row;
        inv->device = ir->device;
        inv->want = 1;
        inv->n_in = inv->in_at[1] = (uint16_t)code->n_in;
        inv->n_out = inv->out_at[1] = (uint16_t)code->n_out;
        for (uint32_t i = 0; i < code->n_in; i++)
            inv->in[i] = &ir->value[graph->value_of[graph->data.in[i]]].type->view;
        for (uint32_t o = 0; o < code->n_out; o++)
            inv->given[o] = &ir->value[graph->value_of[graph->data.out[o]]].type->view;
        status = bp_prepared_make_empty(inv, &p);
    }
    free(inv);
    if (status) {
        code->kernel.plan_destroy(code->entry->self, &code->kernel, code);
        return status;
    }
    step_fill(p, code, &job->result);
    p->plan_bytes = job->result.bytes;
    status = bp_prepared_count_plans(p);
    code->prepared = p;
    if (status) bp_prepared_release(p);
    else *out_prepared = p;
    return status;
}

/* ir NULL: the graph is that of a call. */
static enum bp_status job_take(const struct bp_ir *ir, struct engine_job *job,
                               struct bp_engine_code **out_code)
{
    enum bp_status status = check_result(job);

    if (status == BP_OK && ir) status = check_updates(ir, job);
    if (status == BP_OK) return code_create(job, out_code);
    if (job->result.engine)
        job->entry->engines.engine_destroy(job->entry->self, job->device->index,
                                           job->result.engine);
    return status;
}

/* Runs the job on its own thread. Returns its status, or BP_ERR_TIMEOUT. */
static enum bp_status job_wait(struct engine_job *job)
{
    uint32_t runs = JOB_RUNS;
    bool begun, late = false;
    enum bp_status status;

    TRY(bp_process_busy_begin());
    atomic_fetch_add(&job->refs, 1);
    status = bp_thread_run_unless(job_run, job, &job->until, job->cancel ? job_is_cancelled : NULL,
                                  &begun, &late);
    if (!begun) job_release(job);
    bp_process_busy_end();
    if (!late) return status;
    if (!atomic_compare_exchange_strong(&job->state, &runs, JOB_LEFT)) {
        /* It ended at the last moment, without a message here. */
        return job->status ? bp_error(job->status, "engine of %s: compile failed at its deadline",
                                      job->entry->plugin.name)
                           : BP_OK;
    }
    TRY(bp_cancel_check(job->cancel));
    return bp_error(BP_ERR_TIMEOUT, "engine of %s: compile was not over after %.3g s (%s)",
                    job->entry->plugin.name, (double)job->until.timeout_ns / 1e9,
                    job->until.source);
}

/* BP_VALIDATE=blobs: cuts the blob, or changes a byte of it, each time in another way. */
static void job_damage_blob(struct engine_job *job)
{
    static _Atomic uint32_t turn;
    uint32_t way = atomic_fetch_add(&turn, 1);
    uint64_t n = job->request.blob_size, at = way * UINT64_C(0x9e3779b97f4a7c15) >> 11;
    void *cut;

    if (way % 4) {
        ((unsigned char *)job->blob)[at % n] ^= (unsigned char)(1u << way % 7);
        return;
    }
    n = at % n;
    cut = malloc(n ? (size_t)n : 1); /* so that a sanitizer sees reads behind its end */
    if (!cut) return;
    memcpy(cut, job->blob, (size_t)n);
    free(job->blob);
    job->blob = cut;
    job->request.blob = cut;
    job->request.blob_size = n;
}

/* Gives the engine a copy of a blob that is of an equal graph: the engine may need the blob longer
 * than the caller has it. */
static enum bp_status job_set_blob(struct engine_job *job, const struct bp_engine_blob *blob)
{
    if (!blob || !blob->n ||
        memcmp(blob->hash, job->graph->data.hash, sizeof job->graph->data.hash) != 0)
        return BP_OK;
    job->blob = malloc((size_t)blob->n);
    if (!job->blob) return job_no_memory();
    memcpy(job->blob, blob->bytes, (size_t)blob->n);
    job->request.blob = job->blob;
    job->request.blob_size = blob->n;
    if (bp_compile_checks("blobs")) job_damage_blob(job);
    return BP_OK;
}

/* Makes the job one of refit. */
static enum bp_status job_set_donor(struct engine_job *job, struct bp_prepared *donor)
{
    const struct bp_engine_code *code;
    uint32_t *value;

    if (!donor || !job->entry->engines.refit) return BP_OK;
    code = bp_engine_code_of(donor);
    value = malloc((job->graph->n_value + 1u) * sizeof *value);
    if (!value) return job_no_memory();
    job->refit = (struct bp_engine_refit){.size = sizeof job->refit,
                                          .compile = &job->request,
                                          .engine = code->engine,
                                          .value = value,
                                          .n_value = bp_engine_changed(code, job->graph, value)};
    bp_prepared_retain(donor);
    job->donor = donor;
    return BP_OK;
}

/* Makes the job as it was, without the blob and the donor. */
static enum bp_status job_forget(struct engine_job *job)
{
    result_free(&job->result);
    job->request.blob = NULL;
    job->request.blob_size = 0;
    if (job->donor) bp_prepared_release(job->donor);
    job->donor = NULL;
    atomic_store(&job->state, JOB_RUNS);
    return result_init(job);
}

/* Compiles once. *out_again: the engine could not use the blob or the donor, and the job can run
 * again. */
static enum bp_status job_try(const struct bp_ir *ir, struct engine_job *job,
                              struct bp_prepared **out_prepared, bool *out_again)
{
    struct bp_engine_code *code;
    enum bp_status status = job_wait(job);

    *out_again = (job->request.blob || job->donor) && atomic_load(&job->state) != JOB_LEFT;
    if (status == BP_OK) status = job_take(ir, job, &code);
    if (status == BP_OK) {
        *out_again = false;
        return call_make(ir, job, code, out_prepared);
    }
    *out_again = *out_again && status && status != BP_ERR_CANCELLED && status != BP_ERR_TIMEOUT;
    return status;
}

enum bp_status bp_engine_compile_group(const struct bp_ir *ir, struct bp_plugin_entry *entry,
                                       struct bp_graph_copy *graph,
                                       const struct bp_engine_blob *blob,
                                       struct bp_prepared *donor,
                                       struct bp_prepared **out_prepared, uint32_t *out_origin)
{
    struct engine_job *job;
    bool again = false;
    enum bp_status status;

    TRY(job_create(ir->device, entry, graph, ir->allow, bp_engine_flags_of(ir), &job));
    job->cancel = ir->cancel;
    status = job_set_blob(job, blob);
    if (status == BP_OK) status = job_set_donor(job, donor);
    if (status == BP_OK) status = job_try(ir, job, out_prepared, &again);
    if (again) {
        bp_core_log(ir->device->core, BP_LOG_INFO, "%s: the engine of %s cannot use a %s group "
                    "(%s), and compiles it again", ir->device->name, entry->plugin.name,
                    job->donor ? "similar" : "saved",
                    status == BP_ERR_STALE ? "stale" : bp_error_message());
        status = job_forget(job);
        if (status == BP_OK) status = job_try(ir, job, out_prepared, &again);
    }
    *out_origin = job->donor ? BP_GROUP_REFITTED : BP_GROUP_COMPILED;
    job_release(job);
    return status;
}

enum bp_status bp_engine_compile_call(struct bp_device *device, uint32_t allow,
                                      struct bp_graph_copy *graph,
                                      struct bp_engine_code **out_code, struct bp_plan *out_plan)
{
    struct engine_job *job;
    enum bp_status status;

    TRY(job_create(device, device->entry, graph, allow, bp_engine_flags_of_call(allow), &job));
    status = job_wait(job);
    if (status == BP_OK) status = job_take(NULL, job, out_code);
    if (status == BP_OK) plan_fill(out_plan, *out_code, &job->result);
    job_release(job);
    return status;
}
