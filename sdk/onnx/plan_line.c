/* SPDX-License-Identifier: Apache-2.0 */
/* plan_line.c: makes plans for input types that lie on a line with those of other plans, from a
 * template of these plans. */
#include "plan.h"

#include "bind.h"
#include "row.h"
#include <stdlib.h>
#include <string.h>

enum {
    LINE_BYTES = 256 << 20, /* of the inputs for which a model is recorded to make a line longer */
    WAITS = 10              /* failed searches for a template that double the next pause */
};

/* ---- lines ---- */

static int64_t *line_at(int64_t *list, uint32_t input, uint32_t axis)
{
    return &list[input * ONNX_RANK_MAX + axis];
}

static bool same_ports(const struct onnx_plan *a, const struct onnx_plan *b)
{
    if (a->n_type != b->n_type) return false;
    for (uint32_t i = 0; i < a->n_type; i++) {
        const struct bp_model_port *p = &a->type[i], *q = &b->type[i];
        if (p->kind != BP_MODEL_TENSOR || q->kind != p->kind || p->dtype != q->dtype ||
            p->rank != q->rank || p->rank > ONNX_RANK_MAX)
            return false;
    }
    return true;
}

/* Finds the first extent in which two plans differ. */
static bool line_parameter(struct onnx_line *line, const struct onnx_plan *a,
                           const struct onnx_plan *b)
{
    for (uint32_t i = 0; i < a->n_type; i++)
        for (uint32_t k = 0; k < a->type[i].rank; k++)
            if (a->type[i].shape[k] != b->type[i].shape[k]) {
                line->input = i;
                line->axis = k;
                return true;
            }
    return false;
}

/* Finds the line through two plans with the same kinds of inputs. Extents of 0 and 1 are no part of
 * a line: such axes mean something else. */
static bool line_through(struct onnx_line *line, const struct onnx_plan *a,
                         const struct onnx_plan *b)
{
    int64_t t, steps;

    if (!same_ports(a, b) || !line_parameter(line, a, b)) return false;
    t = a->type[line->input].shape[line->axis];
    steps = b->type[line->input].shape[line->axis] - t;
    for (uint32_t i = 0; i < a->n_type; i++)
        for (uint32_t k = 0; k < a->type[i].rank; k++) {
            int64_t p = a->type[i].shape[k], q = b->type[i].shape[k];
            if (p != q && (p < 2 || q < 2)) return false;
            if ((q - p) % steps ||
                __builtin_mul_overflow((q - p) / steps, t, line_at(line->first, i, k)))
                return false;
            *line_at(line->slope, i, k) = (q - p) / steps;
            *line_at(line->first, i, k) = p - *line_at(line->first, i, k);
        }
    return true;
}

/* Whether the types of a plan lie on a line. *out_t: where. */
static bool line_has(const struct onnx_line *line, const struct onnx_plan *like,
                     const struct onnx_plan *plan, int64_t *out_t)
{
    if (!same_ports(like, plan)) return false;
    *out_t = plan->type[line->input].shape[line->axis];
    for (uint32_t i = 0; i < plan->n_type; i++)
        for (uint32_t k = 0; k < plan->type[i].rank; k++) {
            int64_t extent, slope = *line_at(line->slope, i, k);
            if (__builtin_mul_overflow(slope, *out_t, &extent) ||
                extent + *line_at(line->first, i, k) != plan->type[i].shape[k] ||
                (slope && plan->type[i].shape[k] < 2))
                return false;
        }
    return true;
}

static void line_destroy(struct bp_model *model, struct onnx_line *line)
{
    if (!line) return;
    bp_template_destroy(line->made);
    for (uint32_t i = 0; i < line->n_sample; i++) onnx_plan_release(model, line->sample[i]);
    free(line->first);
    free(line->slope);
    free(line);
}

void onnx_lines_destroy(struct bp_model *model)
{
    for (int i = 0; i < ONNX_LINES; i++) line_destroy(model, model->line[i]);
}

static struct onnx_line *line_new(uint32_t n_in)
{
    struct onnx_line *line = calloc(1, sizeof *line);

    if (!line) return NULL;
    line->first = calloc((n_in + 1) * ONNX_RANK_MAX, sizeof *line->first);
    line->slope = calloc((n_in + 1) * ONNX_RANK_MAX, sizeof *line->slope);
    if (line->first && line->slope) return line;
    line_destroy(NULL, line);
    return NULL;
}

/* ---- samples ---- */

static int64_t sample_at(const struct onnx_line *line, const struct onnx_plan *plan)
{
    return plan->type[line->input].shape[line->axis];
}

static bool same_want(const struct bp_model *model, const uint8_t *a, const uint8_t *b)
{
    return !a == !b && (!a || !memcmp(a, b, model->body.n_output));
}

/* Whether an output of a sample can be given by a derived plan: a result of the graph, or one and
 * the same constant. */
static bool output_fits(const struct onnx_value *a, const struct onnx_value *b)
{
    if (!a || !b) return a == b;
    if (a->kind != BP_MODEL_TENSOR || b->kind != a->kind || a->symbolic != b->symbolic ||
        a->of_data || b->of_data || !a->tensor || !b->tensor)
        return false;
    return a->symbolic || a->tensor == b->tensor;
}

static bool plan_is_sample(const struct bp_model *model, const struct onnx_plan *plan,
                           const struct onnx_plan *like)
{
    if (!plan || plan->derived || !plan->graph || plan->fixed.inputs ||
        !same_want(model, plan->want, like->want))
        return false;
    for (uint32_t i = 0; i < model->body.n_output; i++)
        if (!output_fits(plan->output[i], plan->output[i])) return false;
    return true;
}

static int64_t divisor_of(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a < 0 ? -a : a;
}

/* The common divisor of the differences of the samples. */
static int64_t line_divisor(const struct onnx_line *line)
{
    int64_t divisor = 0, t = sample_at(line, line->sample[0]);

    for (uint32_t i = 1; i < line->n_sample; i++)
        divisor = divisor_of(divisor, sample_at(line, line->sample[i]) - t);
    return divisor;
}

/* Collects the kept plans on the line through one of them and the wanted types. */
static void line_collect(struct bp_model *model, struct onnx_line *line,
                         const struct onnx_plan *wanted)
{
    int64_t t;

    pthread_mutex_lock(&model->lock);
    for (int i = 0; i < ONNX_PLANS && line->n_sample < ONNX_SAMPLES - 1; i++) {
        struct onnx_plan *plan = model->plan[i];
        if (!plan_is_sample(model, plan, wanted) || !line_has(line, wanted, plan, &t)) continue;
        plan->refs++;
        line->sample[line->n_sample++] = plan;
    }
    pthread_mutex_unlock(&model->lock);
    for (uint32_t i = 0; i < line->n_sample; i++) {
        t = sample_at(line, line->sample[i]);
        if (!i || t < line->least) line->least = t;
        if (!i || t > line->most) line->most = t;
    }
}

/* Makes inputs for a place on the line. The caller destroys the tensors of `own`. */
static enum bp_status line_inputs(const struct bp_model *model, const struct onnx_line *line,
                                  const struct onnx_wanted *w, int64_t t, struct bp_model_value *in,
                                  struct bp_tensor **own)
{
    int64_t bytes = 0;

    for (uint32_t i = 0; i < w->n_in; i++) {
        struct bp_tensor_info info = onnx_info(w->in[i].at[0]);
        int64_t shape[ONNX_RANK_MAX], count = bp_dtype_bits(info.dtype) / 8;
        for (uint32_t k = 0; k < info.rank; k++) {
            shape[k] = *line_at(line->first, i, k) + *line_at(line->slope, i, k) * t;
            if (__builtin_mul_overflow(count, shape[k], &count)) return BP_ERR_MEMORY;
        }
        if (count > LINE_BYTES || (bytes += count) > LINE_BYTES) return BP_ERR_MEMORY;
        TRY(onnx_bind_zeros(model->stream, info.dtype, info.rank, shape, &own[i]));
        in[i] = (struct bp_model_value){&own[i], 1, BP_MODEL_TENSOR, 0};
    }
    return BP_OK;
}

/* Records the model for the types of a place on the line, on a stream of its own: the model may
 * have no results for them, as a table of positions ends somewhere, and a fault ends the use of a
 * stream. NULL: it cannot be recorded there. */
static struct onnx_plan *line_record(struct bp_model *model, const struct onnx_line *line,
                                     const struct onnx_wanted *w, int64_t t)
{
    struct bp_model_value *in = calloc(w->n_in + 1, sizeof *in);
    struct bp_tensor **own = calloc(w->n_in + 1, sizeof *own);
    struct onnx_wanted there = *w;
    struct onnx_plan *plan = NULL;
    struct bp_stream *stream = model->stream;
    enum bp_status status = in && own ? bp_stream_create(model->device, &model->stream)
                                      : BP_ERR_MEMORY;

    there.in = in;
    there.fixes = false;
    there.keeps_ranges = line->keeps_ranges;
    if (status == BP_OK) {
        status = line_inputs(model, line, w, t, in, own);
        if (status == BP_OK) status = onnx_plan_make(model, &there, &plan);
        for (uint32_t i = 0; i < w->n_in; i++) bp_tensor_destroy(own[i]);
        bp_stream_destroy(model->stream);
    }
    model->stream = stream;
    free(own);
    free(in);
    if (status == BP_OK && plan_is_sample(model, plan, line->sample[0])) return plan;
    onnx_plan_release(model, plan);
    return NULL;
}

/* Adds a sample above t, so that the differences have no common divisor: at twice t, or as far as
 * the model allows. */
static bool line_extend(struct bp_model *model, struct onnx_line *line, const struct onnx_wanted *w,
                        int64_t t)
{
    int64_t base = t > line->most ? t : line->most, first = sample_at(line, line->sample[0]);

    for (int64_t more = base; more > 0; more /= 4) {
        int64_t divisor = line_divisor(line), at = base + more;
        struct onnx_plan *plan;
        while (divisor_of(divisor, at - first) != 1) at++;
        plan = line_record(model, line, w, at);
        if (!plan) continue;
        line->sample[line->n_sample++] = plan;
        line->most = at;
        return true;
    }
    return false;
}

/* Makes the template of the samples. */
static enum bp_status line_make(struct bp_model *model, struct onnx_line *line)
{
    struct bp_program *program[ONNX_SAMPLES];
    int64_t at[ONNX_SAMPLES];

    for (uint32_t i = 0; i < line->n_sample; i++) {
        program[i] = line->sample[i]->shared;
        at[i] = sample_at(line, line->sample[i]);
        for (uint32_t o = 0; o < model->body.n_output; o++)
            if (!output_fits(line->sample[0]->output[o], line->sample[i]->output[o]))
                return BP_ERR_UNSUPPORTED;
    }
    return bp_template_create(program, at, line->n_sample, &line->made);
}

static bool model_has_ranges(const struct bp_model *model)
{
    for (uint32_t n = 0; n < model->body.n_node; n++)
        if (!strcmp(model->body.node[n].proto->op_type, "Range")) return true;
    return false;
}

/* Leaves few samples: the smallest, the largest, and others until the differences have no common
 * divisor. */
static void line_choose(struct bp_model *model, struct onnx_line *line)
{
    struct onnx_plan *all[ONNX_SAMPLES];
    uint32_t n = line->n_sample, least = 0, most = 0;

    memcpy(all, line->sample, sizeof all);
    for (uint32_t i = 1; i < n; i++) {
        if (sample_at(line, all[i]) < sample_at(line, all[least])) least = i;
        if (sample_at(line, all[i]) > sample_at(line, all[most])) most = i;
    }
    line->sample[0] = all[least];
    line->sample[1] = all[most];
    line->n_sample = 2;
    for (uint32_t i = 0; i < n; i++) {
        if (i == least || i == most) continue;
        if (line->n_sample < 3 || line_divisor(line) != 1) line->sample[line->n_sample++] = all[i];
        else onnx_plan_release(model, all[i]);
    }
}

/* Records the samples anew with the numbers of Range nodes as values. Nodes then
 * compute all that depends on these numbers, and a template has these nodes. */
static enum bp_status line_record_ranges(struct bp_model *model, struct onnx_line *line,
                                         const struct onnx_wanted *w)
{
    line->keeps_ranges = true;
    line_choose(model, line);
    for (uint32_t i = 0; i < line->n_sample; i++) {
        struct onnx_plan *plan = line_record(model, line, w, sample_at(line, line->sample[i]));
        if (!plan) return BP_ERR_UNSUPPORTED;
        onnx_plan_release(model, line->sample[i]);
        line->sample[i] = plan;
    }
    return line_make(model, line);
}

/* ---- templates ---- */

/* Makes a line through a kept plan and the wanted types, with a template. NULL: there is none.
 * out_tried: there are samples enough. */
static struct onnx_line *line_find(struct bp_model *model, const struct onnx_wanted *w,
                                   const struct onnx_plan *wanted, const struct onnx_plan *plan,
                                   bool *out_tried)
{
    struct onnx_line *line = line_new((uint32_t)w->n_in);
    int64_t t;
    bool good = line && line_through(line, plan, wanted) && line_has(line, plan, wanted, &t);

    if (good) {
        line_collect(model, line, wanted);
        good = line->n_sample >= 3 && t > line->least;
    }
    *out_tried = good;
    if (good && (t > line->most || line_divisor(line) != 1)) good = line_extend(model, line, w, t);
    if (good && line_make(model, line) == BP_OK) return line;
    if (good && model_has_ranges(model) && line_record_ranges(model, line, w) == BP_OK) return line;
    line_destroy(model, line);
    return NULL;
}

/* Replaces a line by one whose largest sample is above t. */
static void line_grow(struct bp_model *model, struct onnx_line **place, const struct onnx_wanted *w,
                      int64_t t)
{
    struct onnx_line *old = *place, *line = line_new((uint32_t)w->n_in);
    size_t bytes = w->n_in * ONNX_RANK_MAX * sizeof *old->first;

    old->is_closed = true;
    if (!line) return;
    memcpy(line->first, old->first, bytes);
    memcpy(line->slope, old->slope, bytes);
    line->input = old->input;
    line->axis = old->axis;
    line->least = old->least;
    line->most = old->most;
    line->used = old->used;
    line->keeps_ranges = old->keeps_ranges;
    pthread_mutex_lock(&model->lock);
    for (uint32_t i = 0; i < old->n_sample; i++) {
        int64_t at = sample_at(old, old->sample[i]);
        if (line->n_sample >= 2 && at != old->least && at != old->most) continue;
        if (line->n_sample == ONNX_SAMPLES - 1) continue;
        old->sample[i]->refs++;
        line->sample[line->n_sample++] = old->sample[i];
    }
    pthread_mutex_unlock(&model->lock);
    if (line_extend(model, line, w, t) && line_make(model, line) == BP_OK) {
        line_destroy(model, old);
        *place = line;
    } else {
        line_destroy(model, line);
    }
}

static struct onnx_line *line_keep(struct bp_model *model, struct onnx_line *line)
{
    struct onnx_line **place = &model->line[0];

    for (int i = 0; i < ONNX_LINES && *place; i++)
        if (!model->line[i] || model->line[i]->used < (*place)->used) place = &model->line[i];
    line_destroy(model, *place);
    return *place = line;
}

/* Finds the line of the wanted types among those that are kept. */
static struct onnx_line *line_kept(struct bp_model *model, const struct onnx_wanted *w,
                                   const struct onnx_plan *wanted, int64_t *out_t)
{
    for (int i = 0; i < ONNX_LINES; i++) {
        struct onnx_line *line = model->line[i];
        if (!line || !same_want(model, line->sample[0]->want, wanted->want) ||
            !line_has(line, line->sample[0], wanted, out_t))
            continue;
        if (*out_t > line->most && !line->is_closed) line_grow(model, &model->line[i], w, *out_t);
        line = model->line[i];
        if (*out_t >= line->least && *out_t <= line->most) return line;
    }
    return NULL;
}

/* Finds or makes the line of the wanted types. Searches that find none become rare, because each
 * may record the model a few times. */
static struct onnx_line *line_get(struct bp_model *model, const struct onnx_wanted *w,
                                  const struct onnx_plan *wanted, int64_t *out_t)
{
    struct onnx_line *line = line_kept(model, w, wanted, out_t);
    bool tried = false;

    if (line) return line;
    if (model->line_wait) {
        model->line_wait--;
        return NULL;
    }
    for (int i = 0; i < ONNX_PLANS && !tried; i++)
        if (plan_is_sample(model, model->plan[i], wanted))
            line = line_find(model, w, wanted, model->plan[i], &tried);
    if (line) {
        *out_t = sample_at(line, wanted);
        return line_keep(model, line);
    }
    if (tried) model->line_wait = 4u << model->line_failures;
    if (tried && model->line_failures < WAITS) model->line_failures++;
    return NULL;
}

/* Forgets a line whose template gave no plan, or a wrong one. The next search is a while off. */
static void line_drop(struct bp_model *model, struct onnx_line *line)
{
    for (int i = 0; i < ONNX_LINES; i++)
        if (model->line[i] == line) model->line[i] = NULL;
    line_destroy(model, line);
    model->line_wait = 4u << model->line_failures;
    if (model->line_failures < WAITS) model->line_failures++;
}

/* ---- plans ---- */

/* Gives the plan the outputs of its graph, in the order of those of a sample. */
static enum bp_status derive_outputs(const struct bp_model *model, const struct onnx_plan *sample,
                                     struct onnx_plan *plan)
{
    struct onnx_use own = {.begun = 0};
    struct onnx_run run = {.model = (struct bp_model *)(uintptr_t)model, .use = &own};
    uint32_t next = 0;

    plan->output = calloc(model->body.n_output + 1, sizeof *plan->output);
    if (!plan->output) return onnx_no_memory();
    for (uint32_t i = 0; i < model->body.n_output; i++) {
        struct onnx_value *v = sample->output[i];
        struct bp_tensor *t;
        if (!v || !v->symbolic) {
            plan->output[i] = onnx_value_retain(v);
            continue;
        }
        TRY(bp_graph_output_symbol(plan->graph, next++, &t));
        TRY(onnx_value_tensor(&run, t, true, &plan->output[i]));
        onnx_value_settle(plan->output[i], &own);
    }
    return BP_OK;
}

/* Records the model and compares the graph with the derived one. Nodes that run while the model is
 * recorded, such as an If on a length, leave no trace in the samples: only a recording shows what
 * they do at another length. It takes a small part of the time of the passes. */
static enum bp_status derive_check(struct bp_model *model, const struct onnx_wanted *w,
                                   const struct onnx_line *line, int64_t t)
{
    struct onnx_wanted again = *w;
    struct onnx_plan *recorded;
    enum bp_status status;

    again.keeps_ranges = line->keeps_ranges;
    TRY(onnx_plan_make(model, &again, &recorded));
    status = recorded->graph ? bp_template_check(line->made, t, recorded->graph)
                             : BP_ERR_UNSUPPORTED;
    onnx_plan_release(model, recorded);
    return status;
}

/* Bytes of the constants of a derived plan that are not those of a sample. */
static uint64_t derived_constants(const struct onnx_plan *plan, const struct onnx_plan *sample)
{
    struct bp_graph_info all = {.size = sizeof all};
    uint64_t bytes = 0;

    if (bp_graph_get_info(plan->graph, &all)) return 0;
    for (uint32_t v = 0; v < all.values; v++) {
        struct bp_value_info own = {.size = sizeof own}, other = {.size = sizeof other};
        if (bp_graph_value(plan->graph, v, &own) || !own.constant) continue;
        if (!bp_graph_value(sample->graph, v, &other) && other.constant == own.constant) continue;
        bytes += onnx_info(own.constant).bytes;
    }
    return bytes;
}

/* About the memory of a derived plan: its constants, an arena, and for each node parts of the
 * graph, of the compiler's representation and of the schedule. */
static uint64_t derived_bytes(const struct onnx_plan *plan, const struct onnx_plan *sample)
{
    struct bp_program_info info = {.size = sizeof info};

    if (bp_program_get_info(plan->shared, &info)) return 0;
    return derived_constants(plan, sample) + info.arena + 2048ull * info.recorded_nodes;
}

enum bp_status onnx_line_plan(struct bp_model *model, struct onnx_wanted *w,
                              struct onnx_plan **out_plan)
{
    struct onnx_plan *plan;
    struct onnx_line *line;
    enum bp_status status;
    int64_t t;

    *out_plan = NULL;
    if (atomic_load(&model->fixed) || w->keeps_ranges) return BP_OK;
    for (size_t i = 0; i < w->n_in; i++)
        if (w->in[i].kind != BP_MODEL_TENSOR) return BP_OK;
    TRY(onnx_plan_new(model, w, &plan));
    plan->derived = true;
    line = line_get(model, w, plan, &t);
    status = line ? bp_template_program(line->made, t, &plan->graph, &plan->shared)
                  : BP_ERR_UNSUPPORTED;
    if (status == BP_OK) status = derive_outputs(model, line->sample[0], plan);
    if (status == BP_OK) status = derive_check(model, w, line, t);
    if (status == BP_OK) {
        line->used = ++model->line_uses;
        model->line_failures = 0;
        plan->bytes = derived_bytes(plan, line->sample[0]);
        *out_plan = plan;
        return BP_OK;
    }
    onnx_plan_release(model, plan);
    if (line) line_drop(model, line);
    return BP_OK;
}
