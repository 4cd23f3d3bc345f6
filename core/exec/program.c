/* SPDX-License-Identifier: Apache-2.0 */
/* program.c: runs a graph repeatedly. The first run compiles the graph to a schedule, and all runs
 * launch from it. A device that can capture work captures the second run of a stream, and replays
 * the capture later. If the graph cannot be compiled, it runs node by node and the program has the
 * reason. */
#include "program.h"

#include "../compile/engine.h"
#include "../device/profiled.h"
#include "capture.h"

#include <backplane/ops.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum bp_status no_memory(void)
{
    return bp_error(BP_ERR_MEMORY, "no memory for a program");
}

static enum bp_status check_constants(const struct bp_graph *graph, const struct bp_device *device)
{
    for (uint32_t v = 0; v < graph->n_value; v++) {
        const struct bp_tensor *t = graph->value[v].constant;
        if (t && t->device != device)
            return bp_error(BP_ERR_INVALID, "bp_program_create: %s is on %s%s, expected on %s",
                            graph->value[v].name, t->device->name,
                            bp_device_qualifier(t->device, device), device->name);
    }
    return BP_OK;
}

enum bp_status bp_program_create(struct bp_graph *graph, struct bp_device *device,
                                 struct bp_program **out_program)
{
    return bp_program_create_with(graph, device, NULL, out_program);
}

static enum bp_status check_options(const struct bp_program_options *o)
{
    if (o->size < offsetof(struct bp_program_options, like) || o->size > 4096)
        return bp_error(BP_ERR_INVALID, "bp_program_create_with: options->size is %zu: set it to "
                        "sizeof(struct bp_program_options)", o->size);
    if (o->flags & ~(uint32_t)BP_PROGRAM_FLAGS || o->zero)
        return bp_error(BP_ERR_INVALID, "bp_program_create_with: options->flags is %u, zero %u: "
                        "expected flags of enum bp_program_flags and 0", o->flags, o->zero);
    return BP_OK;
}

/* Takes references to the groups of the program that the options name. */
static enum bp_status take_donors(struct bp_program *p, const struct bp_program_options *o)
{
    struct bp_program *like = o && o->size >= sizeof *o ? o->like : NULL;
    enum bp_status status;

    if (!like) return BP_OK;
    if (!bp_program_is(like)) return bp_not_a_for("bp_program_create_with", "program");
    if (like->device != p->device)
        return bp_error(BP_ERR_INVALID, "bp_program_create_with: options->like is a program of "
                        "%s%s, expected one of %s", like->device->name,
                        bp_device_qualifier(like->device, p->device), p->device->name);
    pthread_mutex_lock(&like->lock);
    status = like->schedule ? bp_engine_donors_create(like->schedule, &p->donors)
                            : bp_error(BP_ERR_NOT_READY, "bp_program_create_with: options->like is "
                                       "not compiled: call bp_program_compile");
    pthread_mutex_unlock(&like->lock);
    return status;
}

/* Sets what the options say, or the environment. */
static enum bp_status set_options(struct bp_program *p, const struct bp_program_options *o)
{
    const char *cache = o && o->cache ? o->cache : bp_env_get("BP_PROGRAM_CACHE");

    p->flags = o ? o->flags : 0;
    if (!cache || !*cache) return BP_OK;
    p->cache = strdup(cache);
    return p->cache ? BP_OK : no_memory();
}

enum bp_status bp_program_create_with(struct bp_graph *graph, struct bp_device *device,
                                      const struct bp_program_options *options,
                                      struct bp_program **out_program)
{
    struct bp_program *p;
    enum bp_status status;

    if (!bp_graph_is(graph)) return bp_not_a("graph");
    if (!bp_device_is(device)) return bp_not_a("device");
    if (!out_program) return bp_error(BP_ERR_INVALID, "bp_program_create: out_program is NULL");
    if (options) TRY(check_options(options));
    TRY(check_constants(graph, device));
    p = bp_handle_alloc(sizeof *p);
    if (!p) return no_memory();
    p->place = calloc(graph->n_input + graph->n_output + 1, sizeof(struct bp_tensor *));
    p->device = device;
    status = p->place ? set_options(p, options) : no_memory();
    if (status == BP_OK) status = take_donors(p, options);
    if (status) {
        free(p->place);
        free(p->cache);
        free(p);
        return status;
    }
    p->result = p->place + graph->n_input;
    p->magic = bp_magic(BP_MAGIC_PROGRAM);
    p->graph = graph;
    pthread_mutex_init(&p->lock, NULL);
    snprintf(p->why, sizeof p->why, "it has not been run");
    snprintf(p->why_not, sizeof p->why_not, "it has not been run");
    bp_graph_retain(graph);
    atomic_fetch_add(&graph->programs, 1);
    bp_device_retain(device);
    *out_program = p;
    return BP_OK;
}

/* Drops the capture, which is freed after its last replay. */
static void program_forget(struct bp_program *p)
{
    for (uint32_t i = 0; i < p->graph->n_input + p->graph->n_output; i++) {
        bp_tensor_destroy(p->place[i]);
        p->place[i] = NULL;
    }
    bp_capture_destroy(p->recording);
    p->recording = NULL;
}

void bp_program_destroy(struct bp_program *p)
{
    if (!bp_program_is(p)) return;
    p->magic = 0;
    program_forget(p);
    bp_schedule_destroy(p->schedule);
    bp_program_drop_donors(p);
    pthread_mutex_destroy(&p->lock);
    atomic_fetch_sub(&p->graph->programs, 1);
    bp_graph_release(p->graph);
    bp_device_release(p->device);
    free(p->place);
    free(p->written);
    free(p->cache);
    free(p);
}

/* ---- recording ---- */

static enum bp_status make_places(struct bp_program *p, struct bp_timeline *owner)
{
    const struct bp_graph *g = p->graph;

    for (uint32_t i = 0; i < g->n_input; i++) {
        const struct bp_typed_view *v = g->value[g->input[i]].type;
        struct bp_type type = {.dtype = v->view.dtype, .rank = v->view.rank};
        memcpy(type.shape, v->shape, sizeof type.shape);
        TRY(bp_tensor_create_typed(p->device, owner, &type, &p->place[i]));
    }
    return BP_OK;
}

/* Checks that replays have no effect on inputs: they would change their own copies of the inputs
 * and not the app's tensors. */
static enum bp_status check_effects(const struct bp_program *p)
{
    const struct bp_graph *g = p->graph;

    for (uint32_t i = 0; i < g->n_input; i++) {
        const struct bp_buffer *s = p->place[i]->buffer;
        const char *name = g->value[g->input[i]].name;
        if (atomic_load(&s->version))
            return bp_error(BP_ERR_UNSUPPORTED, "input %s is written to", name);
        for (uint32_t o = 0; o < p->graph->n_output; o++)
            if (p->result[o]->buffer == s && g->value[g->output[o]].kind != BP_VALUE_INPUT)
                return bp_error(BP_ERR_UNSUPPORTED, "output %s is a view of input %s",
                                g->value[g->output[o]].name, name);
    }
    return BP_OK;
}

static struct bp_buffer *constant_buffer(const struct bp_program *p, uint32_t value)
{
    const struct bp_tensor *t = p->graph->value[value].constant;

    return t ? t->buffer : NULL;
}

/* Lets engines write the constants that they keep, before recorded work reads them. */
static enum bp_status program_settle(const struct bp_program *p)
{
    if (!bp_device_has_writebacks(p->device)) return BP_OK;
    for (uint32_t v = 0; v < p->graph->n_value; v++)
        if (constant_buffer(p, v)) TRY(bp_buffer_settle(constant_buffer(p, v)));
    return BP_OK;
}

/* Sets the constants' versions: those before a capture, which increases them like a run. */
static void note_versions(const struct bp_program *p, uint64_t *version)
{
    for (uint32_t v = 0; v < p->graph->n_value; v++)
        if (constant_buffer(p, v)) version[v] = atomic_load(&constant_buffer(p, v)->version);
}

/* Launches the schedule, or the graph's nodes if there is no schedule. */
static enum bp_status execute_captured(struct bp_program *p, struct bp_stream *stream)
{
    static const struct bp_schedule_watch unwatched = {0};
    bool began = false;
    enum bp_status status;

    p->from_schedule = p->schedule && bp_schedule_fits(p->schedule, stream, p->place, p->result);
    if (p->from_schedule) {
        status = bp_schedule_run(p->schedule, &unwatched, stream, p->place, p->result, &began);
        if (began) return status;
    }
    p->from_schedule = false;
    return bp_graph_execute(p->graph, stream, p->place, p->result);
}

/* Runs the graph for a capture, and finds the constants that it writes to. */
static enum bp_status program_execute(struct bp_program *p, struct bp_stream *stream)
{
    uint64_t *version = calloc(p->graph->n_value + 1, sizeof *version);
    enum bp_status status;

    free(p->written);
    p->written = calloc(p->graph->n_value + 1, sizeof *p->written);
    status = version && p->written ? BP_OK : no_memory();
    if (status == BP_OK) {
        note_versions(p, version);
        status = execute_captured(p, stream);
    }
    for (uint32_t v = 0; status == BP_OK && v < p->graph->n_value; v++)
        p->written[v] = constant_buffer(p, v) &&
                        atomic_load(&constant_buffer(p, v)->version) != version[v];
    free(version);
    return status;
}

/* Captures the graph. No call runs, and afterwards the stream runs its calls as before, also after
 * a failure. */
static enum bp_status program_record(struct bp_program *p, struct bp_stream *stream)
{
    struct bp_capture *r;
    enum bp_status status;

    program_forget(p);
    if (p->schedule && p->schedule->n_kept)
        return bp_error(BP_ERR_UNSUPPORTED, "an engine keeps values between runs");
    TRY(program_settle(p));
    TRY(bp_capture_begin(stream, p->graph, &r));
    status = make_places(p, stream->timeline);
    if (status == BP_OK) status = program_execute(p, stream);
    if (status == BP_OK) status = check_effects(p);
    if (status == BP_OK) status = bp_capture_end(r);
    else bp_capture_abort(r);
    if (status == BP_OK) p->recording = r;
    else program_forget(p);
    return status;
}

/* A failed capture is no failure of the call, so the thread's previous message is restored. */
static void try_to_record(struct bp_program *p, struct bp_stream *stream)
{
    char *before = strdup(bp_error_message());
    enum bp_status status = program_record(p, stream);

    if (status) {
        snprintf(p->why, sizeof p->why, "%s", bp_error_message());
        p->never = status != BP_ERR_BUSY && status != BP_ERR_CANCELLED;
        if (p->device->entry->captures.capture_begin)
            bp_core_log(p->device->core, BP_LOG_INFO, "%s: a program goes on node by node: %s",
                        p->device->name, p->why);
    }
    if (before) bp_error_write("%s", before);
    free(before);
}

/* ---- runs ---- */

/* Returns output o: the input or constant that it is, or a copy of the tensor that the replay
 * wrote. */
static enum bp_status program_give(struct bp_program *p, struct bp_stream *stream,
                                   struct bp_tensor *const *in, uint32_t o, struct bp_tensor **out)
{
    const struct bp_graph *g = p->graph;
    struct bp_tensor *from = p->result[o];
    bool copied = from->buffer->pool == p->recording->memory;

    for (uint32_t i = 0; i < g->n_input; i++)
        if (g->input[i] == g->output[o]) {
            from = in[i];
            copied = false;
        }
    if (*out && from->buffer == (*out)->buffer && bp_tensors_overlap(from, *out) &&
        from->offset == (*out)->offset && bp_same_type(&from->view, &(*out)->view))
        return BP_OK;
    if (*out || copied) return bp_program_move(stream, from, out);
    *out = bp_tensor_retain(from);
    return BP_OK;
}

static enum bp_status check_given(const struct bp_program *p, struct bp_tensor *const *in,
                                  struct bp_tensor *const *out)
{
    const struct bp_graph *g = p->graph;

    for (uint32_t i = 0; i < g->n_input; i++)
        if (in[i]->device != p->device)
            return bp_error(BP_ERR_INVALID, "bp_program_run: input %s is on %s%s, expected on %s",
                            g->value[g->input[i]].name, in[i]->device->name,
                            bp_device_qualifier(in[i]->device, p->device), p->device->name);
    for (uint32_t o = 0; o < p->graph->n_output; o++) {
        const struct bp_value *v = &g->value[g->output[o]];
        if (!out[o]) continue;
        TRY(bp_tensor_check_write("bp_program_run", v->name, out[o]));
        if (out[o]->device != p->device || out[o]->view.dtype != v->type->view.dtype ||
            out[o]->view.rank != v->type->view.rank ||
            !bp_same_extents(v->type->view.rank, out[o]->shape, v->type->shape))
            return bp_error(BP_ERR_INVALID,
                            "bp_program_run: the tensor for output %s has another device, dtype or "
                            "shape",
                            v->name);
    }
    return BP_OK;
}

/* Replays the capture. out: preallocated outputs or NULL. The caller destroys the outputs that were
 * created, also after a failure. */
static enum bp_status program_replay(struct bp_program *p, struct bp_stream *stream,
                                     struct bp_tensor *const *in, struct bp_tensor **out)
{
    enum bp_status status;

    TRY(check_given(p, in, out));
    TRY(program_settle(p));
    for (uint32_t i = 0; i < p->graph->n_input; i++)
        TRY(bp_program_move(stream, in[i], &p->place[i]));
    status = bp_capture_replay(p->recording, stream);
    if (p->from_schedule) /* also after a failure: a part may have been submitted */
        bp_schedule_add_user(p->schedule, stream->timeline, p->recording->ran);
    TRY(status);
    for (uint32_t v = 0; v < p->graph->n_value; v++)
        if (p->written[v]) bp_buffer_record_write(constant_buffer(p, v));
    for (uint32_t o = 0; o < p->graph->n_output; o++) TRY(program_give(p, stream, in, o, &out[o]));
    return BP_OK;
}

static enum bp_status replay_into(struct bp_program *p, struct bp_stream *stream,
                                  struct bp_tensor *const *in, struct bp_tensor **out)
{
    struct bp_tensor **own = malloc((p->graph->n_output + 1) * sizeof *own);
    enum bp_status status;

    if (!own) return no_memory();
    for (uint32_t o = 0; o < p->graph->n_output; o++) own[o] = out[o];
    status = program_replay(p, stream, in, own);
    for (uint32_t o = 0; o < p->graph->n_output; o++) {
        if (status == BP_OK) out[o] = own[o];
        else if (!out[o]) bp_tensor_destroy(own[o]);
    }
    free(own);
    p->replays += status == BP_OK;
    *p->why = 0;
    p->compiled = p->from_schedule;
    if (p->compiled) *p->why_not = 0;
    return status;
}

/* Whether an input lies in a constant that the recorded work updates: the replay would read a copy
 * of it from before the update. */
static bool input_is_updated(const struct bp_program *p, struct bp_tensor *const *in)
{
    for (uint32_t v = 0; v < p->graph->n_value; v++)
        for (uint32_t i = 0; p->written[v] && i < p->graph->n_input; i++)
            if (in[i]->buffer == constant_buffer(p, v) &&
                bp_tensors_overlap(in[i], p->graph->value[v].constant))
                return true;
    return false;
}

/* Whether a run with these inputs may be a replay. */
static bool may_replay(struct bp_program *p, struct bp_tensor *const *in)
{
    if (!p->recording) return false;
    if (!input_is_updated(p, in)) return true;
    snprintf(p->why, sizeof p->why, "an input lies in a constant that the program updates");
    return false;
}

/* The way of a run: schedule NULL: not from the schedule. */
struct program_way {
    struct bp_schedule *schedule;
    struct bp_schedule_watch watch;
};

/* Notes whether a run was one from the schedule. If not, there was no memory for the arena, and the
 * thread has the message. Called with the program locked. */
static void note_compiled(struct bp_program *p, bool began)
{
    p->compiled = began;
    snprintf(p->why_not, sizeof p->why_not, "%s", began ? "" : bp_error_message());
}

/* Launches from the schedule if there is one, otherwise node by node. Called with the program
 * locked. */
static enum bp_status run_unrecorded(struct bp_program *p, const struct program_way *way,
                                     struct bp_stream *stream, struct bp_tensor *const *in,
                                     struct bp_tensor **out)
{
    bool began = false;
    enum bp_status status = BP_OK;

    if (way->schedule) {
        status = bp_schedule_run(way->schedule, &way->watch, stream, in, out, &began);
        note_compiled(p, began);
    }
    return began ? status : bp_graph_execute(p->graph, stream, in, out);
}

/* Runs on a stream whose work can be captured, or node by node. Called with the program locked. A
 * watcher sees the launches of a run from the schedule, so watched runs are no replays. */
static enum bp_status program_run(struct bp_program *p, const struct program_way *way,
                                  struct bp_stream *stream, struct bp_tensor *const *in,
                                  struct bp_tensor **out)
{
    struct bp_timeline *timeline = stream->timeline;
    uint64_t base = atomic_load(&timeline->base);
    bool again = p->last == timeline && p->base == base;

    if (bp_stream_is_cancelled(stream)) return bp_stream_check_calls(stream);
    p->last = timeline;
    p->base = base;
    if (p->recording && bp_capture_is_of(p->recording, stream) && !way->watch.watcher)
        return may_replay(p, in) ? replay_into(p, stream, in, out)
                                 : run_unrecorded(p, way, stream, in, out);
    if (!p->never)
        snprintf(p->why, sizeof p->why,
                 p->recording ? "it is recorded for another stream"
                              : "the first run on a stream is not recorded");
    if (again && !p->never && !way->watch.watcher && !bp_stream_has_failed(stream))
        try_to_record(p, stream);
    return again && !way->watch.watcher && may_replay(p, in)
               ? replay_into(p, stream, in, out)
               : run_unrecorded(p, way, stream, in, out);
}

/* ---- ways ---- */

/* Finds the way of a run with these tensors, and notes it. */
static struct program_way program_way(struct bp_program *p, struct bp_stream *stream,
                                      struct bp_tensor *const *in, struct bp_tensor *const *out)
{
    struct program_way way = {0};
    const char *why = "";

    pthread_mutex_lock(&p->lock);
    bp_program_make_schedule(p);
    if (p->schedule && bp_schedule_fits(p->schedule, stream, in, out)) way.schedule = p->schedule;
    if (!p->schedule) why = p->uncompiled;
    else if (stream->watcher) why = "the stream is watched";
    else if (bp_stream_refuses_calls(stream)) why = "the stream has failed or was cancelled";
    else if (!way.schedule)
        why = "a tensor is strided, of another type, overlaps another one, or must not be written";
    snprintf(p->why_not, sizeof p->why_not, "%s", why);
    p->compiled = way.schedule != NULL;
    if (p->schedule) way.watch = p->watch;
    pthread_mutex_unlock(&p->lock);
    return way;
}

/* Whether runs on the stream may be captured, and so run one after the other. */
static bool may_record(const struct bp_stream *stream)
{
    return !stream->timeline->is_inline && !stream->timeline->queue &&
           stream->device->entry->captures.capture_begin;
}

static const char *why_unrecorded(const struct bp_stream *stream)
{
    if (may_record(stream)) return "the program is watched";
    return stream->timeline->is_inline ? "work of an inline stream is not recorded"
                                       : "the device does not record work";
}

/* Runs from the schedule; threads need not wait for each other. *out_began: false if nothing has
 * run, because there is no memory for the whole arena: a run node by node needs less at a time. */
static enum bp_status program_run_compiled(struct bp_program *p, const struct program_way *way,
                                           struct bp_stream *stream, struct bp_tensor *const *in,
                                           struct bp_tensor **out, bool *out_began)
{
    enum bp_status status = bp_schedule_run(way->schedule, &way->watch, stream, in, out, out_began);

    pthread_mutex_lock(&p->lock);
    note_compiled(p, *out_began);
    if (*out_began) {
        p->runs += status == BP_OK;
        snprintf(p->why, sizeof p->why, "%s", why_unrecorded(stream));
    }
    pthread_mutex_unlock(&p->lock);
    return status;
}

/* Runs node by node on an inline stream. Nothing is recorded, so threads need not wait for each
 * other. */
static enum bp_status program_run_nodes(struct bp_program *p, struct bp_stream *stream,
                                        struct bp_tensor *const *in, struct bp_tensor **out)
{
    enum bp_status status = bp_graph_execute(p->graph, stream, in, out);

    pthread_mutex_lock(&p->lock);
    p->runs += status == BP_OK;
    snprintf(p->why, sizeof p->why, "%s", why_unrecorded(stream));
    pthread_mutex_unlock(&p->lock);
    return status;
}

/* Runs by one of the ways, after all arguments were checked. */
static enum bp_status program_run_checked(struct bp_program *p, struct bp_stream *stream,
                                          struct bp_tensor *const *in, struct bp_tensor **out)
{
    struct program_way way = program_way(p, stream, in, out);
    bool began = false;
    enum bp_status status;

    /* A watcher may call functions that lock the program, and watched runs are not recorded. */
    if (way.schedule && (way.watch.watcher || !may_record(stream))) {
        status = program_run_compiled(p, &way, stream, in, out, &began);
        if (began) return status;
        way.schedule = NULL;
    }
    if (stream->timeline->is_inline) return program_run_nodes(p, stream, in, out);
    pthread_mutex_lock(&p->lock);
    status = program_run(p, &way, stream, in, out);
    p->runs += status == BP_OK;
    pthread_mutex_unlock(&p->lock);
    return status;
}

enum bp_status bp_program_run(struct bp_program *p, struct bp_stream *stream,
                              struct bp_tensor *const *in, size_t n_in, struct bp_tensor **out,
                              size_t n_out)
{
    enum bp_status status;
    uint64_t began;

    if (!bp_program_is(p)) return bp_not_a("program");
    if (!bp_stream_is(stream)) return bp_not_a("stream");
    if (stream->device != p->device)
        return bp_error(BP_ERR_INVALID, "bp_program_run: the stream is of %s%s, the program of %s",
                        stream->device->name, bp_device_qualifier(stream->device, p->device),
                        p->device->name);
    TRY(bp_graph_check("bp_program_run", p->graph, in, n_in, out, n_out));
    began = bp_profile_begin();
    status = program_run_checked(p, stream, in, out);
    if (began)
        bp_device_profile_put(p->device, stream->timeline, BP_PROFILE_RUN, "program", began);
    return status;
}
