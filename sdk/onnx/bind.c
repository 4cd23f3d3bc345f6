/* SPDX-License-Identifier: Apache-2.0 */
/* bind.c: binds outputs of a model to inputs of its next run, and creates the buffers in which both
 * lie. */
#include "bind.h"
#include "row.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const struct onnx_bind_pair *onnx_bind_input(const struct onnx_bind *bind, uint32_t input)
{
    for (uint32_t i = 0; i < bind->n; i++)
        if (bind->pair[i].input == input) return &bind->pair[i];
    return NULL;
}

const struct onnx_bind_pair *onnx_bind_output(const struct onnx_bind *bind, uint32_t output)
{
    for (uint32_t i = 0; i < bind->n; i++)
        if (bind->pair[i].output == output) return &bind->pair[i];
    return NULL;
}

void onnx_bind_drop_plans(struct bp_model *model)
{
    for (int i = 0; i < ONNX_PLANS; i++) {
        onnx_bind_plan_destroy(model, model->bind->plan[i]);
        model->bind->plan[i] = NULL;
    }
    model->bind->refused = 0;
}

void onnx_bind_destroy(struct bp_model *model)
{
    struct onnx_bind *bind = model->bind;

    if (!bind) return;
    onnx_bind_drop_plans(model);
    for (uint32_t i = 0; i < bind->n; i++) bp_tensor_destroy(bind->pair[i].buffer);
    bp_tensor_destroy(bind->position);
    pthread_mutex_destroy(&bind->lock);
    free(bind->pair);
    free(bind);
    model->bind = NULL;
}

enum bp_status onnx_bind_zeros(struct bp_stream *stream, uint32_t dtype, uint32_t rank,
                               const int64_t *shape, struct bp_tensor **out)
{
    struct bp_fill_attrs zero = bp_fill_defaults();
    struct bp_tensor *t = NULL, *same = NULL;
    struct bp_arg arg = {&t, 1};
    struct bp_call call = {
        .size = sizeof call, .op = "fill", .in = &arg, .n_in = 1, .attrs = &zero};
    enum bp_status status;

    TRY(bp_tensor_create(bp_stream_device(stream), dtype, rank, shape, &t));
    status = bp_call_run(bp_stream_scope(stream), &call, &same, 1, NULL);
    bp_tensor_destroy(same);
    if (status) bp_tensor_destroy(t);
    else *out = t;
    return status;
}

/* Copies the first places of one tensor to another along an axis. */
static enum bp_status bind_keep(struct bp_stream *stream, struct bp_tensor *to,
                                struct bp_tensor *from, uint32_t axis, int64_t keep)
{
    struct bp_tensor *part = NULL, *old = NULL;
    enum bp_status status = bp_tensor_slice(to, axis, 0, keep, 1, &part);

    if (status == BP_OK) status = bp_tensor_slice(from, axis, 0, keep, 1, &old);
    if (status == BP_OK) status = bp_tensor_copy(stream, part, old);
    bp_tensor_destroy(part);
    bp_tensor_destroy(old);
    return status;
}

enum bp_status onnx_bind_resize(struct bp_model *model, struct bp_stream *stream,
                                const struct bp_model_value *in, int64_t capacity, int64_t keep)
{
    struct onnx_bind *bind = model->bind;
    struct bp_tensor **made = calloc(bind->n, sizeof *made);
    enum bp_status status = made ? BP_OK : onnx_no_memory();

    for (uint32_t i = 0; i < bind->n && status == BP_OK; i++) {
        const struct onnx_bind_pair *pair = &bind->pair[i];
        struct bp_tensor_info info = onnx_info(in[pair->input].at[0]);
        int64_t shape[ONNX_RANK_MAX];
        memcpy(shape, info.shape, info.rank * sizeof *shape);
        shape[pair->axis] = capacity;
        status = onnx_bind_zeros(stream, info.dtype, info.rank, shape, &made[i]);
        if (status == BP_OK && keep)
            status = bind_keep(stream, made[i], pair->buffer, pair->axis, keep);
    }
    if (status == BP_OK) onnx_bind_drop_plans(model);
    if (status == BP_OK) bind->capacity = capacity;
    for (uint32_t i = 0; made && i < bind->n; i++) {
        bp_tensor_destroy(status ? made[i] : bind->pair[i].buffer);
        if (status == BP_OK) bind->pair[i].buffer = made[i];
    }
    free(made);
    return status;
}

/* ---- patterns ---- */

/* Whether a name fits a pattern, which may have one '*'. The text in its place is *out_text. */
static bool bind_fits(const char *pattern, const char *name, const char **out_text, size_t *out_n)
{
    const char *star = strchr(pattern, '*');
    size_t before = star ? (size_t)(star - pattern) : strlen(pattern);
    size_t after = star ? strlen(star + 1) : 0, n = strlen(name);

    *out_text = name + before;
    if (!star) *out_n = 0;
    if (!star) return !strcmp(pattern, name);
    if (n < before + after || memcmp(pattern, name, before) ||
        memcmp(star + 1, name + n - after, after))
        return false;
    *out_n = n - before - after;
    return true;
}

/* Finds the axis along which two ports differ: an open axis with different names of its extent, or
 * the only open axis behind the first. */
static enum bp_status bind_axis(const struct bp_model_port *out, const struct bp_model_port *in,
                                uint32_t *out_axis)
{
    uint32_t found = UINT32_MAX, open = UINT32_MAX, n = 0, n_open = 0;

    if (in->kind != BP_MODEL_TENSOR || in->rank == UINT32_MAX || in->rank > ONNX_RANK_MAX)
        return onnx_error(BP_ERR_INVALID, "bp_model_bind: input %.80s does not declare its axes",
                          in->name);
    if (out->rank != UINT32_MAX && (out->rank != in->rank || out->dtype != in->dtype))
        return onnx_error(BP_ERR_INVALID,
                          "bp_model_bind: output %.80s and input %.80s differ in "
                          "their type or number of axes",
                          out->name, in->name);
    for (uint32_t i = 0; i < in->rank; i++) {
        bool is_open = in->shape[i] < 0, differs;
        differs = is_open && out->rank != UINT32_MAX &&
                  (out->shape[i] >= 0 || strcmp(out->extent_name[i], in->extent_name[i]) != 0);
        if (is_open && i) open = i, n_open++;
        if (differs) found = i, n++;
        if (out->rank != UINT32_MAX && !is_open && out->shape[i] >= 0 &&
            out->shape[i] != in->shape[i])
            return onnx_error(BP_ERR_INVALID,
                              "bp_model_bind: output %.80s has extent %" PRId64
                              " along axis %u, input %.80s has %" PRId64,
                              out->name, out->shape[i], i, in->name, in->shape[i]);
    }
    if (n != 1 && n_open != 1)
        return onnx_error(BP_ERR_INVALID,
                          "bp_model_bind: output %.80s and input %.80s: expected "
                          "one axis whose extent grows, found %u",
                          out->name, in->name, n ? n : n_open);
    *out_axis = n == 1 ? found : open;
    return BP_OK;
}

static enum bp_status bind_add(struct bp_model *model, uint32_t output, uint32_t input)
{
    struct onnx_bind *bind = model->bind;
    struct onnx_bind_pair pair = {.input = input, .output = output}, *more;

    if (onnx_bind_input(bind, input) || onnx_bind_output(bind, output))
        return onnx_error(BP_ERR_INVALID, "bp_model_bind: output %.80s or input %.80s is bound",
                          model->output[output].name, model->input[input].name);
    TRY(bind_axis(&model->output[output], &model->input[input], &pair.axis));
    more = realloc(bind->pair, (bind->n + 1) * sizeof *more);
    if (!more) return onnx_no_memory();
    bind->pair = more;
    more[bind->n++] = pair;
    return BP_OK;
}

/* Adds a pair for each output and input in whose names the same text is in the place of '*'. */
static enum bp_status bind_match(struct bp_model *model, const char *output, const char *input)
{
    uint32_t before = model->bind->n;
    const char *text, *same;
    size_t n, m;

    for (uint32_t o = 0; o < model->body.n_output; o++) {
        if (!bind_fits(output, model->output[o].name, &text, &n)) continue;
        for (uint32_t i = 0; i < model->body.n_input; i++)
            if (bind_fits(input, model->input[i].name, &same, &m) && n == m &&
                !memcmp(text, same, n))
                TRY(bind_add(model, o, i));
    }
    if (model->bind->n > before) return BP_OK;
    return onnx_error(BP_ERR_NOT_FOUND, "bp_model_bind: no output %.80s has an input %.80s", output,
                      input);
}

static enum bp_status bind_begin(struct bp_model *model)
{
    struct onnx_bind *bind = calloc(1, sizeof *bind);

    if (!bind) return onnx_no_memory();
    pthread_mutex_init(&bind->lock, NULL);
    model->bind = bind;
    return bp_tensor_create(model->device, BP_I64, 0, NULL, &bind->position);
}

enum bp_status bp_model_bind(struct bp_model *model, const char *output, const char *input,
                             int64_t capacity)
{
    uint32_t before;
    enum bp_status status = BP_OK;

    TRY(onnx_check_model("bp_model_bind", model));
    if (!output || !input)
        return onnx_error(BP_ERR_INVALID, "bp_model_bind: %s is NULL", output ? "input" : "output");
    if (capacity < 1)
        return onnx_error(BP_ERR_INVALID,
                          "bp_model_bind: capacity is %" PRId64 ", expected 1 or more", capacity);
    if (model->bind && model->bind->runs)
        return onnx_error(BP_ERR_INVALID, "bp_model_bind: the model has run with its bindings");
    if (!strchr(output, '*') != !strchr(input, '*'))
        return onnx_error(BP_ERR_INVALID,
                          "bp_model_bind: '%.80s' and '%.80s': expected '*' in "
                          "both or none",
                          output, input);
    before = model->bind ? model->bind->n : 0;
    if (!model->bind) status = bind_begin(model);
    if (status == BP_OK) status = bind_match(model, output, input);
    if (status && model->bind) model->bind->n = before;
    if (status && !before) onnx_bind_destroy(model);
    if (status == BP_OK) model->bind->capacity = capacity;
    return status;
}

enum bp_status bp_model_reset(struct bp_model *model)
{
    TRY(onnx_check_model("bp_model_reset", model));
    if (!model->bind)
        return onnx_error(BP_ERR_INVALID, "bp_model_reset: the model has no bindings");
    pthread_mutex_lock(&model->bind->lock);
    model->bind->length = 0;
    pthread_mutex_unlock(&model->bind->lock);
    return BP_OK;
}

enum bp_status bp_model_get_bind_info(struct bp_model *model, struct bp_model_bind_info *out)
{
    struct bp_model_bind_info info = {.size = sizeof info};
    struct onnx_bind *bind;

    TRY(onnx_check_model("bp_model_get_bind_info", model));
    bind = model->bind;
    if (bind) {
        pthread_mutex_lock(&bind->lock);
        info.pairs = bind->n;
        info.capacity = bind->capacity;
        info.length = bind->length;
        info.runs = bind->runs;
        info.in_place = bind->in_place;
        info.copies = bind->copies;
        info.grown = bind->grown;
        info.plans = bind->plans;
        pthread_mutex_unlock(&bind->lock);
    }
    return onnx_fill_info("bp_model_get_bind_info", out, &info, sizeof info);
}
