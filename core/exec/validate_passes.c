/* SPDX-License-Identifier: Apache-2.0 */
/* validate_passes.c: for BP_VALIDATE=passes-values: compiles a graph without passes, with the first
 * pass, with the first two and so on, runs each with equal inputs and random numbers, and compares
 * the results of neighbours. Constants that nodes update are copied for each run. */
#include "program.h"

#include <backplane/ops.h>
#include <backplane/random.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The results of one run: the outputs of the graph, then the constants that nodes updated. */
struct results {
    struct bp_tensor **tensor;
    uint32_t n, room;
};

struct comparison {
    const struct bp_graph *graph;
    struct bp_device *device;
    const struct bp_pass *list;
    struct bp_stream *stream;
    struct bp_generator *generator;
    struct bp_tensor **in;
    struct results before, after;
};

static void results_clear(struct results *r)
{
    for (uint32_t i = 0; i < r->n; i++) bp_tensor_destroy(r->tensor[i]);
    for (uint32_t i = 0; i < r->room; i++) r->tensor[i] = NULL;
    r->n = 0;
}

static void comparison_finish(struct comparison *c)
{
    for (uint32_t i = 0; c->in && i < c->graph->n_input; i++) bp_tensor_destroy(c->in[i]);
    results_clear(&c->before);
    results_clear(&c->after);
    free(c->in);
    free(c->before.tensor);
    free(c->after.tensor);
    bp_stream_destroy(c->stream);
    bp_generator_destroy(c->generator);
}

/* ---- inputs ---- */

/* Element i of all inputs: for a float dtype a number in [-1, 1), otherwise 0 or 1, which is also
 * an index. */
static float input_element(uint64_t *state, bool is_float)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    if (!is_float) return (float)(*state >> 63);
    return (float)(*state >> 40) / (float)(1 << 23) - 1;
}

static bool dtype_is_float(uint32_t dtype)
{
    return (BP_MASK_FLOAT | BP_MASK_COMPLEX) >> dtype & 1;
}

static enum bp_status cast_to(struct comparison *c, struct bp_tensor *t, uint32_t dtype,
                              struct bp_tensor **out)
{
    struct bp_cast_attrs attrs = bp_cast_defaults();

    attrs.to = dtype;
    return bp_op_cast(&c->stream->scope, t, &attrs, out);
}

/* Fills n numbers of an input; is_double: doubles, otherwise floats. */
static void input_fill(void *data, uint64_t n, bool is_double, bool is_float, uint64_t *state)
{
    for (uint64_t k = 0; k < n; k++) {
        float number = input_element(state, is_float);
        if (is_double) ((double *)data)[k] = (double)number;
        else ((float *)data)[k] = number;
    }
}

/* Other dtypes than those of 32 and 64 bits and complex ones are cast from f32. */
static enum bp_status input_make(struct comparison *c, uint32_t i, uint64_t *state)
{
    const struct bp_typed_view *like = c->graph->value[c->graph->input[i]].type;
    struct bp_type type = {.dtype = like->view.dtype, .rank = like->view.rank};
    bool is_double = type.dtype == BP_F64 || type.dtype == BP_C128;
    bool is_cast = !is_double && type.dtype != BP_F32 && type.dtype != BP_C64;
    struct bp_tensor *numbers;
    enum bp_status status;
    uint64_t bytes;
    void *data;

    if (is_cast) type.dtype = BP_F32;
    bytes = (uint64_t)like->view.count * (bp_dtype_bits(type.dtype) / 8);
    data = malloc(bytes + 1);
    if (!data) return bp_error(BP_ERR_MEMORY, "no host memory to compare passes");
    input_fill(data, bytes / (is_double ? sizeof(double) : sizeof(float)), is_double,
               dtype_is_float(like->view.dtype), state);
    memcpy(type.shape, like->shape, sizeof type.shape);
    status = bp_tensor_create_typed(c->device, c->stream->timeline, &type, &numbers);
    if (status == BP_OK) {
        status = bp_tensor_write(c->stream, numbers, data, bytes);
        if (status == BP_OK && is_cast)
            status = cast_to(c, numbers, like->view.dtype, &c->in[i]);
        else if (status == BP_OK) c->in[i] = bp_tensor_retain(numbers);
        bp_tensor_destroy(numbers);
    }
    free(data);
    return status;
}

static enum bp_status comparison_init(struct comparison *c)
{
    const struct bp_graph *g = c->graph;
    uint32_t room = g->n_output + g->n_input + g->n_value + 1;

    c->in = calloc(g->n_input + 1, sizeof *c->in);
    c->before.tensor = calloc(room, sizeof *c->before.tensor);
    c->after.tensor = calloc(room, sizeof *c->after.tensor);
    if (!c->in || !c->before.tensor || !c->after.tensor)
        return bp_error(BP_ERR_MEMORY, "no host memory to compare passes");
    c->before.room = c->after.room = room;
    TRY(bp_generator_create(1, &c->generator));
    TRY(bp_device_synchronize(c->device)); /* other streams may write to constants now */
    TRY(bp_compile_stream(c->device, &c->stream));
    return bp_stream_set_generator(c->stream, c->generator);
}

/* ---- runs ---- */

/* Makes the inputs anew, since nodes may update them, and replaces the constants that nodes update
 * by copies. Both are results of the run. */
static enum bp_status make_operands(struct comparison *c, struct bp_ir *ir, struct results *r)
{
    uint64_t state = 1;

    for (uint32_t i = 0; i < c->graph->n_input; i++) {
        bp_tensor_destroy(c->in[i]);
        c->in[i] = NULL;
        TRY(input_make(c, i, &state));
        r->tensor[r->n++] = bp_tensor_retain(c->in[i]);
    }
    for (uint32_t v = 0; v < c->graph->n_value; v++) {
        struct bp_ir_value *value = &ir->value[v];
        struct bp_tensor *copy = NULL;
        if (!value->constant || !value->updated || value->root != v) continue;
        TRY(bp_op_assign(&c->stream->scope, value->constant, &copy));
        bp_tensor_destroy(value->constant);
        value->constant = copy;
        r->tensor[r->n++] = bp_tensor_retain(copy);
    }
    return BP_OK;
}

/* Runs the graph after the first n passes. *out_began: false if no launch has run, for example
 * because the graph cannot be compiled, so that a run would go node by node. */
static enum bp_status comparison_run(struct comparison *c, uint32_t n, struct results *r,
                                     bool *out_began)
{
    static const struct bp_schedule_watch unwatched;
    struct bp_schedule *schedule;
    struct bp_ir *ir;
    enum bp_status status;

    *out_began = false;
    results_clear(r);
    r->n = c->graph->n_output;
    TRY(bp_ir_create(c->graph, c->device, &ir));
    status = make_operands(c, ir, r);
    if (status == BP_OK) status = bp_passes_run(ir, c->list, n, false);
    if (status) {
        bp_ir_destroy(ir);
        return status;
    }
    TRY(bp_schedule_create(ir, NULL, &schedule));
    status = bp_generator_set(c->generator, 1, 0);
    if (status == BP_OK && !bp_schedule_fits(schedule, c->stream, c->in, r->tensor))
        status = bp_error(BP_ERR_UNSUPPORTED, "its tensors overlap");
    if (status == BP_OK)
        status = bp_schedule_run(schedule, &unwatched, c->stream, c->in, r->tensor, out_began);
    bp_schedule_destroy(schedule);
    return status;
}

/* ---- results ---- */

/* The difference that a pass may make, relative to the largest element of a result of this dtype:
 * room for sums in another order and for roundings that are left out. 0: bits must be equal. */
static double tolerance_of(uint32_t dtype)
{
    switch (dtype) {
    case BP_F64:
    case BP_C128: return 1e-9;
    case BP_F32:
    case BP_C64: return 1e-4;
    case BP_F16: return 1e-2;
    default: return dtype_is_float(dtype) ? 5e-2 : 0;
    }
}

/* The tolerance for results of a float dtype: that of the coarsest float dtype of the graph. */
static double graph_tolerance(const struct bp_graph *g)
{
    double most = 0;

    for (uint32_t v = 0; v < g->n_value; v++) {
        double tolerance = tolerance_of(g->value[v].type->view.dtype);
        if (tolerance > most) most = tolerance;
    }
    return most;
}

static bool is_single(uint32_t dtype)
{
    return dtype == BP_F32 || dtype == BP_C64;
}

/* Replaces n floats by doubles. */
static enum bp_status numbers_widen(void **data, uint64_t n)
{
    double *wide = malloc(n * sizeof *wide + 1);

    if (!wide) return bp_error(BP_ERR_MEMORY, "no host memory to compare passes");
    for (uint64_t i = 0; i < n; i++) wide[i] = (double)((const float *)*data)[i];
    free(*data);
    *data = wide;
    return BP_OK;
}

/* Reads a tensor: floats as doubles, one or two for each element, other dtypes as bytes. */
static enum bp_status result_read(struct comparison *c, struct bp_tensor *t, void **out_data,
                                  uint64_t *out_bytes)
{
    struct bp_tensor *as = NULL;
    enum bp_status status = BP_OK;

    if (t->view.dtype == BP_F16 || t->view.dtype == BP_BF16) status = cast_to(c, t, BP_F32, &as);
    else as = bp_tensor_retain(t);
    if (status) return status;
    *out_bytes = ((uint64_t)as->view.count * bp_dtype_bits(as->view.dtype) + 7) / 8;
    *out_data = malloc(*out_bytes + 1);
    status = *out_data ? bp_tensor_read(c->stream, as, *out_data, *out_bytes)
                       : bp_error(BP_ERR_MEMORY, "no host memory to compare passes");
    if (status == BP_OK && is_single(as->view.dtype)) {
        status = numbers_widen(out_data, *out_bytes / sizeof(float));
        *out_bytes *= 2;
    }
    bp_tensor_destroy(as);
    return status;
}

/* Whether a number is within `most` of the expected one; both may be NaN, or the same infinity. */
static bool is_near(double a, double b, double most)
{
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
    return a == b || fabs(a - b) <= most;
}

/* Finds the first number that differs; n: none does. A hundredth of the tolerance is allowed apart
 * from the size of the result, for differences of nearly equal numbers; inputs are at most 1. */
static uint64_t find_different(const double *a, const double *b, uint64_t n, double tolerance)
{
    double largest = 0;

    for (uint64_t i = 0; i < n; i++)
        if (isfinite(a[i]) && fabs(a[i]) > largest) largest = fabs(a[i]);
    for (uint64_t i = 0; i < n; i++)
        if (!is_near(a[i], b[i], tolerance * (largest + 0.01))) return i;
    return n;
}

static const char *result_name(const struct comparison *c, uint32_t i)
{
    const struct bp_graph *g = c->graph;

    if (i < g->n_output) return g->value[g->output[i]].name;
    i -= g->n_output;
    return i < g->n_input ? g->value[g->input[i]].name : "an updated constant";
}

static enum bp_status result_compare(struct comparison *c, uint32_t i, const char *pass)
{
    struct bp_tensor *before = c->before.tensor[i], *after = c->after.tensor[i];
    double tolerance = tolerance_of(before->view.dtype) > 0 ? graph_tolerance(c->graph) : 0;
    void *a = NULL, *b = NULL;
    uint64_t bytes = 0, n, at;
    enum bp_status status = result_read(c, before, &a, &bytes);

    if (status == BP_OK) status = result_read(c, after, &b, &bytes);
    n = bytes / sizeof(double);
    if (status == BP_OK && tolerance > 0) {
        at = find_different(a, b, n, tolerance);
        if (at < n)
            status = bp_error(BP_ERR_INTERNAL,
                              "pass %s changes %s: number %llu is %.9g, and %.9g before the "
                              "pass",
                              pass, result_name(c, i), (unsigned long long)at,
                              ((const double *)b)[at], ((const double *)a)[at]);
    } else if (status == BP_OK && memcmp(a, b, bytes)) {
        status = bp_error(BP_ERR_INTERNAL, "pass %s changes %s", pass, result_name(c, i));
    }
    free(a);
    free(b);
    return status;
}

/* Runs the graph with one pass more, and compares its results with those of the run before. */
static enum bp_status pass_compare(struct comparison *c, uint32_t number)
{
    const char *pass = c->list[number].name;
    struct results swap;
    bool began;
    enum bp_status status = comparison_run(c, number + 1, &c->after, &began);

    if (status && began)
        return bp_error_more(BP_ERR_INTERNAL, "pass %s makes a run fail: %s", pass,
                             bp_error_message());
    if (status) return status;
    for (uint32_t i = 0; i < c->after.n; i++) TRY(result_compare(c, i, pass));
    swap = c->before;
    c->before = c->after;
    c->after = swap;
    return BP_OK;
}

enum bp_status bp_passes_compare(const struct bp_graph *graph, struct bp_device *device,
                                 const struct bp_pass *list, uint32_t n)
{
    struct comparison c = {.graph = graph, .device = device, .list = list};
    enum bp_status status = comparison_init(&c);
    bool began;

    if (status == BP_OK) status = comparison_run(&c, 0, &c.before, &began);
    if (status == BP_ERR_INTERNAL) status = BP_ERR_UNSUPPORTED; /* no pass has run */
    for (uint32_t i = 0; i < n && status == BP_OK; i++)
        if (!bp_pass_is_left_out(&list[i])) status = pass_compare(&c, i);
    comparison_finish(&c);
    if (status == BP_OK || status == BP_ERR_INTERNAL) return status;
    bp_core_log(device->core, BP_LOG_WARN,
                "BP_VALIDATE=passes-values: a program is not compared: %s", bp_error_message());
    return BP_OK;
}
