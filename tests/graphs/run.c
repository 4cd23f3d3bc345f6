/* SPDX-License-Identifier: Apache-2.0 */
/* run.c: runs a graph once: makes its tensors, and keeps their contents afterwards. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool value_is_like(const struct fuzz_value *a, const struct fuzz_value *b)
{
    return a->dtype == b->dtype && a->rank == b->rank && a->data == b->data &&
           a->limit == b->limit && !memcmp(a->shape, b->shape, a->rank * sizeof *a->shape);
}

enum bp_status fuzz_run_inputs(struct fuzz_checker *c, struct fuzz_run *run, uint32_t set,
                               uint32_t with, struct bp_stream *stream)
{
    const struct fuzz_recipe *r = c->built.recipe;

    for (uint32_t i = 0; i < c->built.n_input; i++) {
        const struct fuzz_value *v = &r->value[c->built.input[i]];
        for (uint32_t k = 0; k < i && with & WITH_SAME; k++)
            if (!run->is_shared[i] && value_is_like(v, &r->value[c->built.input[k]])) {
                run->in[i] = run->in[k];
                run->is_shared[i] = true;
            }
        for (uint32_t k = 0; k < r->n_value && with & WITH_SAME; k++)
            if (!run->is_shared[i] && c->built.constant[k] && value_is_like(v, &r->value[k])) {
                run->in[i] = c->built.constant[k];
                run->is_shared[i] = true;
            }
        if (run->is_shared[i]) continue;
        if (fuzz_tensor(c->place, v, with & WITH_STRIDED, &run->in[i]) ||
            !fuzz_write(r, c->built.input[i], set, stream, run->in[i]))
            return BP_ERR_INTERNAL;
    }
    return BP_OK;
}

static bool value_has_alias(const struct fuzz_recipe *r, uint32_t v)
{
    for (uint32_t k = 0; k < r->n_value; k++)
        if (r->value[k].kind == FUZZ_CONSTANT && r->value[k].base == v) return true;
    return r->value[v].base != FUZZ_ABSENT;
}

/* Finds an input or a constant of the type of an output, to write the output over it. */
static struct bp_tensor *run_find_over(const struct fuzz_checker *c, const struct fuzz_run *run,
                                       const struct fuzz_value *output, bool constants)
{
    const struct fuzz_recipe *r = c->built.recipe;
    struct fuzz_value like = *output;

    for (uint32_t i = 0; i < c->built.n_input && !constants; i++) {
        like.data = r->value[c->built.input[i]].data;
        like.limit = r->value[c->built.input[i]].limit;
        if (value_is_like(&like, &r->value[c->built.input[i]])) return run->in[i];
    }
    for (uint32_t v = 0; v < r->n_value && constants; v++) {
        like.data = r->value[v].data;
        if (c->built.constant[v] && !r->value[v].frozen && !value_has_alias(r, v) &&
            value_is_like(&like, &r->value[v]))
            return c->built.constant[v];
    }
    return NULL;
}

static enum bp_status run_outputs(struct fuzz_checker *c, struct fuzz_run *run, uint32_t with)
{
    const struct fuzz_recipe *r = c->built.recipe;

    for (uint32_t o = 0; o < r->n_output && with & WITH_OVER && !run->over; o++) {
        const struct fuzz_value *v = &r->value[r->output[o]];
        run->over = run_find_over(c, run, v, r->seed % 2);
        if (!run->over) run->over = run_find_over(c, run, v, !(r->seed % 2));
        run->out[o] = run->over;
    }
    for (uint32_t o = 0; o < r->n_output && with & WITH_GIVEN; o++)
        if (!run->out[o] &&
            fuzz_tensor(c->place, &r->value[r->output[o]], o % 3 == 1, &run->out[o]))
            return BP_ERR_INTERNAL;
    return BP_OK;
}

bool fuzz_run_reset(struct fuzz_checker *c, uint32_t set, struct bp_stream *stream)
{
    const struct fuzz_recipe *r = c->built.recipe;

    for (uint32_t v = 0; v < r->n_value; v++)
        if (c->built.constant[v] && !r->value[v].frozen && r->value[v].base == FUZZ_ABSENT &&
            !fuzz_write(r, v, set, stream, c->built.constant[v]))
            return false;
    return bp_stream_set_generator(stream, c->place->generator) == BP_OK &&
           bp_generator_set(c->place->generator, r->seed, 16 * (uint64_t)set) == BP_OK;
}

static void run_keep(struct fuzz_checker *c, const struct fuzz_run *run, struct bp_stream *stream,
                     struct fuzz_snapshot *s)
{
    const struct fuzz_recipe *r = c->built.recipe;
    uint64_t seed;

    for (uint32_t o = 0; o < r->n_output; o++)
        fuzz_snapshot_add(s, stream, run->out[o], "output", r->output[o]);
    for (uint32_t i = 0; i < c->built.n_input; i++) {
        fuzz_snapshot_add(s, stream, run->in[i], "input", c->built.input[i]);
        if (s->n && run->over == run->in[i]) s->array[s->n - 1].ignored = true;
    }
    for (uint32_t v = 0; v < r->n_value; v++)
        if (c->built.constant[v]) {
            fuzz_snapshot_add(s, stream, c->built.constant[v], "constant", v);
            if (s->n && run->over == c->built.constant[v]) s->array[s->n - 1].ignored = true;
        }
    bp_generator_get(c->place->generator, &seed, &s->drawn);
}

/* Whether a launch of the program is a group of elementwise nodes. */
static bool program_is_fused(struct bp_program *program)
{
    struct bp_launch_info info = {.size = sizeof info};

    for (uint32_t i = 0; !bp_program_launch(program, i, &info); i++)
        if (!strcmp(info.op, "fused")) return true;
    return false;
}

static enum bp_status run_now(struct fuzz_checker *c, enum fuzz_runner runner, struct fuzz_run *run,
                              struct bp_stream *stream)
{
    struct fuzz_built *b = &c->built;
    enum bp_status status;

    if (runner == RUN_CALLS)
        return fuzz_execute(b, stream, c->place->generator, run->in, run->out, c->perturb,
                            c->report);
    if (runner == RUN_GRAPH)
        return bp_graph_run(b->graph, stream, run->in, b->n_input, run->out, b->n_output);
    status = bp_program_run(c->program, stream, run->in, b->n_input, run->out, b->n_output);
    if (status == BP_OK) {
        struct bp_program_info info = {.size = sizeof info};
        bp_program_get_info(c->program, &info);
        c->report->runs++;
        c->report->compiled += info.compiled;
        c->is_compiled = info.compiled;
        if (info.compiled && !c->report->fused) c->report->fused = program_is_fused(c->program);
        if (!strncmp(info.not_compiled, "pass ", 5)) { /* BP_VALIDATE=passes found a mistake */
            c->report->fault = FUZZ_PROGRAM;
            snprintf(c->report->message, sizeof c->report->message, "%s", info.not_compiled);
        }
    }
    return status;
}

void fuzz_run_finish(const struct fuzz_checker *c, struct fuzz_run *run)
{
    for (uint32_t o = 0; o < c->built.n_output; o++)
        if (!run->over || run->out[o] != run->over) bp_tensor_destroy(run->out[o]);
    for (uint32_t i = 0; i < c->built.n_input; i++)
        if (!run->is_shared[i]) bp_tensor_destroy(run->in[i]);
}

/* Waits for the run. A failure of its work takes the place of a failure of a call: the work was
 * submitted before that call, and an inline stream would have reported this failure first. */
static void run_wait(struct bp_stream *stream, struct fuzz_snapshot *s)
{
    enum bp_status status = bp_stream_synchronize(stream);

    if (status == BP_OK || s->status == BP_ERR_FAULT) return;
    s->status = status;
    snprintf(s->message, sizeof s->message, "%s", bp_error_message());
}

/* Counts the faults, and replaces a stream that has failed: a fault of a kernel stays with an
 * asynchronous stream, and must not become the status of later runs. */
static void run_repair(struct fuzz_checker *c, int at, enum bp_status status)
{
    c->report->faults += status == BP_ERR_FAULT;
    if (fuzz_repair(c->place, at) || c->report->fault) return;
    c->report->fault = FUZZ_STREAM;
    snprintf(c->report->message, sizeof c->report->message, "a new stream after a failed one: %s",
             bp_error_message());
}

/* Runs the graph once from a defined state, and keeps what there is afterwards. The status is that
 * of the call or, where a device reports a fault later, of the first call that waits for it. */
struct fuzz_snapshot *fuzz_run_once(struct fuzz_checker *c, enum fuzz_runner runner, uint32_t set,
                                    uint32_t with)
{
    int at = with & WITH_OTHER ? 1 : with & WITH_QUEUE ? 2 : 0;
    struct bp_stream *stream = c->place->stream[at];
    struct fuzz_snapshot *s = calloc(1, sizeof *s);
    struct fuzz_run *run = calloc(1, sizeof *run);

    if (!s || !run) abort();
    s->status = fuzz_run_reset(c, set, stream) ? fuzz_run_inputs(c, run, set, with, stream)
                                               : BP_ERR_INTERNAL;
    if (s->status == BP_OK) s->status = run_outputs(c, run, with);
    if (s->status == BP_OK) s->status = run_now(c, runner, run, stream);
    if (s->status) snprintf(s->message, sizeof s->message, "%s", bp_error_message());
    else run_keep(c, run, stream, s);
    run_wait(stream, s);
    fuzz_run_finish(c, run);
    free(run);
    run_repair(c, at, s->status);
    return s;
}

void fuzz_snapshot_free(struct fuzz_snapshot *s)
{
    if (s) fuzz_snapshot_clear(s);
    free(s);
}
