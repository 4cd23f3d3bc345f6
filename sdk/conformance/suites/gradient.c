/* SPDX-License-Identifier: Apache-2.0 */
/* gradient.c: runs a case of the suite `gradient`: compares the gradient of the rules with finite
 * differences of the function, in f64. docs/accuracy.md derives the step and the tolerance. */
#include "gradient_run.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEP 0x1p-8             /* step of the differences; half of it is used too */
#define TRUNCATION 1e-7         /* allowed error, relative to the magnitude of a gradient's terms */
#define ROUNDING (64 * 0x1p-53) /* of one number of the function, relative to at least 1 */
enum { MOST = 256 };       /* largest count of numbers of the function */

static double *gradient_allocate(int64_t n)
{
    double *at = calloc((size_t)n + 1, sizeof *at);

    if (!at) abort();
    return at;
}

static bool is_special(enum data data)
{
    return data == DATA_NONFINITE || data == DATA_SPECIAL || data == DATA_SPARSE ||
           data == DATA_ZERO;
}

static bool write_numbers(struct gradient_run *g, const struct numbers *x)
{
    return check_ok(
        g->r.c,
        bp_tensor_write(g->r.c->fixture->stream, x->tensor, x->at, (uint64_t)x->n * sizeof *x->at),
        "bp_tensor_write");
}

/* Creates one dense input. Inputs of f64 or c128 are variables; their numbers are stored. */
static bool gradient_make_input(struct gradient_run *g, int i, struct random *random)
{
    const struct kernel_input *in = &g->r.made->in[i];
    struct numbers *x = &g->in[i];
    struct kernel_input plain;
    struct ref_array values = {0};
    void *bytes;
    bool ok;

    ref_array_init(&values, in->dtype, in->rank, in->shape);
    plain = *in;
    if (!num_is_int(num_type(in->dtype)) && is_special(in->data)) plain.data = DATA_PLAIN;
    data_fill(&values, &plain, i, random);
    bytes = malloc(run_bytes(&values) + 1);
    if (!bytes) abort();
    ref_array_encode(&values, bytes);
    ok = check_ok(g->r.c,
                  bp_tensor_create(g->r.c->fixture->device, in->dtype, (uint32_t)in->rank,
                                   in->shape, &g->r.tensor[i]),
                  "bp_tensor_create of an input") &&
         check_ok(
             g->r.c,
             bp_tensor_write(g->r.c->fixture->stream, g->r.tensor[i], bytes, run_bytes(&values)),
             "bp_tensor_write of an input");
    if (ok && (in->dtype == BP_F64 || in->dtype == BP_C128)) {
        x->is = true;
        x->dtype = in->dtype;
        x->tensor = g->r.tensor[i];
        x->n = values.count * values.type->parts;
        x->rank = in->rank;
        memcpy(x->shape, in->shape, sizeof x->shape);
        x->at = gradient_allocate(x->n);
        memcpy(x->at, bytes, (size_t)x->n * sizeof *x->at);
    }
    free(bytes);
    ref_array_finish(&values);
    return ok;
}

/* Makes random weights of either sign, none of them small. */
static bool make_weights(struct gradient_run *g, struct numbers *w, struct random *random)
{
    if (!w->is) return true;
    w->at = gradient_allocate(w->n);
    for (int64_t i = 0; i < w->n; i++)
        w->at[i] = (random_below(random, 2) ? 1 : -1) * (0.5 + random_unit(random));
    return check_ok(g->r.c,
                    bp_tensor_create(g->r.c->fixture->device, w->dtype, (uint32_t)w->rank, w->shape,
                                     &w->tensor),
                    "bp_tensor_create of a gradient") &&
           write_numbers(g, w);
}

/* Sets the names of variables, and the index of each input in the list of all gradients. */
static void place_inputs(struct gradient_run *g)
{
    const struct bp_opinfo *op = g->r.info;
    int at = 0;

    for (uint32_t p = 0; p < op->n_in; p++) {
        bool many = op->in[p].kind == BP_PORT_VAR, host = op->in[p].kind == BP_PORT_HOST;
        int n = many ? g->r.made->n_in - at : !host && at < g->r.made->n_in;
        for (int i = 0; i < n; i++, at++) {
            g->flat[at] = g->n_flat + i;
            snprintf(g->in[at].name, sizeof g->in[at].name, many ? "input %s[%d]" : "input %s",
                     op->in[p].name, i);
        }
        g->n_flat += many ? n : 1;
    }
    for (int i = 0; i < g->n_out; i++)
        snprintf(g->dy[i].name, sizeof g->dy[i].name, "the gradient given for output %d (%s)", i,
                 op->out[i < op->n_out ? i : 0].name);
}

static bool gradient_set_up(struct gradient_run *g)
{
    const struct kernel_case *made = g->r.made;
    struct random random = random_of(made->id, g->r.c->fixture->seed);
    bool varies = false, ok = true;

    for (uint32_t i = 0; i < g->r.info->n_out; i++)
        varies |= g->r.info->out[i].kind == BP_PORT_VAROUT ||
                  g->r.info->out[i].kind == BP_PORT_VIEWS;
    g->n_out = varies ? made->n_out : g->r.info->n_out;
    ok = check_that(g->r.c, g->n_out <= REF_OUTPUTS, "the case has more than %d outputs",
                    (int)REF_OUTPUTS);
    if (ok) place_inputs(g);
    for (int i = 0; ok && i < made->n_in; i++)
        ok = !made->in[i].present || gradient_make_input(g, i, &random);
    ok = ok && run_arguments(&g->r) && gradient_record(g) && gradient_is_held(g);
    for (int i = 0; ok && i < REF_OUTPUTS; i++) ok = make_weights(g, &g->dy[i], &random);
    for (int i = 0; ok && i < CASE_PORTS; i++) ok = make_weights(g, &g->v[i], &random);
    ok = ok && check_ok(g->r.c, bp_generator_create(0, &g->generator), "bp_generator_create");
    if (ok) bp_stream_set_generator(g->r.c->fixture->stream, g->generator);
    return ok;
}

/* Sets the generator before each run, so that each run draws the same random numbers. */
static bool run_call_again(struct gradient_run *g, struct bp_tensor **out)
{
    bp_generator_set(g->generator, g->r.made->seed, g->r.made->offset);
    return gradient_ok(g,
                       bp_call_run(bp_stream_scope(g->r.c->fixture->stream), &g->r.call, out,
                                   (size_t)g->n_out, NULL),
                       "the call");
}

/* Computes the gradient of the call by its rule: dx of each input, NULL for zero. */
static bool run_rule(struct gradient_run *g, struct bp_tensor *const *out, struct bp_tensor **dx)
{
    struct bp_tensor *all[GRADIENT_FLAT] = {NULL}, *dy[REF_OUTPUTS];
    uint8_t want[GRADIENT_FLAT] = {0};
    bool ok;

    for (int i = 0; i < g->n_out; i++) dy[i] = g->dy[i].tensor;
    for (int i = 0; i < g->r.made->n_in; i++) want[g->flat[i]] = g->in[i].is;
    ok = gradient_ok(g,
                     bp_call_gradient(bp_stream_scope(g->r.c->fixture->stream), &g->r.call, out, dy,
                                      (size_t)g->n_out, want, all, (size_t)g->n_flat),
                     "bp_call_gradient");
    for (int i = 0; ok && i < g->r.made->n_in; i++) dx[i] = g->in[i].is ? all[g->flat[i]] : NULL;
    return ok;
}

/* Reads t, which must have the type of `like`. t NULL: fills with zeros. */
static bool read_numbers(struct gradient_run *g, struct bp_tensor *t, const struct numbers *like,
                         const char *what, double *to)
{
    struct bp_tensor_info info = {.size = sizeof info};
    bool same;

    memset(to, 0, (size_t)like->n * sizeof *to);
    if (!t || !like->is) return true;
    if (!check_ok(g->r.c, bp_tensor_get_info(t, &info), "bp_tensor_get_info")) return false;
    same = info.dtype == like->dtype && info.rank == (uint32_t)like->rank;
    for (int i = 0; same && i < like->rank; i++) same = info.shape[i] == like->shape[i];
    return check_that(g->r.c, same, "%s: its dtype or shape is not that of what it belongs to",
                      what) &&
           check_ok(g->r.c,
                    bp_tensor_read(g->r.c->fixture->stream, t, to, (uint64_t)like->n * sizeof *to),
                    "bp_tensor_read");
}

/* The numbers of the function, with their weights. First order: those of the outputs; second order:
 * those of the inputs' gradients. */
static const struct numbers *weights_of(const struct gradient_run *g, int *out_n)
{
    *out_n = g->r.made->gradient == 1 ? (int)REF_OUTPUTS : (int)CASE_PORTS;
    return g->r.made->gradient == 1 ? g->dy : g->v;
}

static bool gradient_evaluate(struct gradient_run *g, double *values)
{
    struct bp_tensor *out[REF_OUTPUTS] = {NULL}, *dx[CASE_PORTS] = {NULL};
    bool second = g->r.made->gradient == 2;
    bool ok = run_call_again(g, out) && (!second || run_rule(g, out, dx));
    const struct numbers *w;
    int n;

    w = weights_of(g, &n);
    for (int i = 0; ok && i < n; i++) {
        ok = read_numbers(g, second ? dx[i] : out[i], &w[i], second ? "a gradient" : "a result",
                          values);
        values += w[i].n;
    }
    for (int i = 0; i < g->n_out; i++) bp_tensor_destroy(out[i]);
    for (int i = 0; i < CASE_PORTS; i++) bp_tensor_destroy(dx[i]);
    return ok;
}

/* Computes (f(x + h) - f(x - h)) / 2 h of each number, where x is one element of a variable, and
 * adds it, times factor, to sum. Afterwards the tensor holds x - h. */
static bool gradient_difference(struct gradient_run *g, struct numbers *x, int64_t e, double h,
                                double factor, int64_t n, double *sum)
{
    double at = x->at[e], up = at + h, down = at - h, width = isnan(at) ? 2 * h : up - down;
    double *f[2] = {gradient_allocate(n), gradient_allocate(n)};
    bool ok = true;

    for (int i = 0; ok && i < 2; i++) {
        x->at[e] = i ? down : up;
        ok = write_numbers(g, x) && gradient_evaluate(g, f[i]);
    }
    x->at[e] = at;
    for (int64_t k = 0; ok && k < n; k++) sum[k] += factor * (f[0][k] - f[1][k]) / width;
    free(f[0]);
    free(f[1]);
    return ok;
}

/* Data of the function at the unchanged inputs, which are the same for all variables. */
struct base {
    int64_t n;
    double *weight;
    double noise; /* the largest effect of rounding errors of the function on a difference */
};

/* Compares the gradient `got` of element e of a variable with central differences of two steps,
 * extrapolated by Richardson's method. */
static bool compare_one(struct gradient_run *g, const struct base *base, struct numbers *x,
                        int64_t e, double got)
{
    double *slope = gradient_allocate(base->n), sum = 0, magnitude = 0, allowed, error;
    bool ok = gradient_difference(g, x, e, STEP, -1.0 / 3, base->n, slope) &&
              gradient_difference(g, x, e, STEP / 2, 4.0 / 3, base->n, slope);

    ok = write_numbers(g, x) && ok;
    for (int64_t k = 0; k < base->n; k++) {
        sum += base->weight[k] * slope[k];
        magnitude += fabs(base->weight[k] * slope[k]);
    }
    free(slope);
    if (!ok) return false;
    allowed = TRUNCATION * magnitude + base->noise;
    error = fabs(got - sum);
    if (isnan(error)) error = INFINITY;
    if (error / allowed > g->r.c->result->worst) g->r.c->result->worst = error / allowed;
    return check_that(g->r.c, error <= allowed,
                      "%s, element %lld of %lld: the rule%s %.12g, differences give %.12g: %.3g "
                      "apart where %.3g is allowed",
                      x->name, (long long)e, (long long)x->n,
                      g->r.made->gradient == 1 ? " gives" : "s give (second order)", got, sum,
                      error, allowed);
}

static bool make_base(struct gradient_run *g, struct base *base)
{
    const struct numbers *w;
    double *values, scale = 0;
    int64_t at = 0;
    int n;
    bool ok;

    w = weights_of(g, &n);
    for (int i = 0; i < n; i++) base->n += w[i].n;
    if (!check_that(g->r.c, base->n <= MOST,
                    "the case is too large: %lld numbers to differentiate, at most %d",
                    (long long)base->n, (int)MOST))
        return false;
    base->weight = gradient_allocate(base->n);
    for (int i = 0; i < n; i++)
        for (int64_t k = 0; k < w[i].n; k++) base->weight[at++] = w[i].at[k];
    values = gradient_allocate(base->n);
    ok = gradient_evaluate(g, values);
    for (int64_t k = 0; k < base->n; k++)
        scale += fabs(base->weight[k]) * fmax(1, fabs(values[k]));
    base->noise = 3 / STEP * ROUNDING * scale;
    ok = ok && check_that(g->r.c, isfinite(scale), "the function is not finite where it is "
                                                   "differentiated");
    free(values);
    return ok;
}

/* Computes the gradient of each variable by the rules. */
static bool run_rules(struct gradient_run *g, struct bp_tensor **out)
{
    struct bp_tensor *results[REF_OUTPUTS] = {NULL};
    bool ok;

    bp_generator_set(g->generator, g->r.made->seed, g->r.made->offset);
    if (g->r.made->gradient == 2) return gradient_run_second(g, out);
    ok = run_call_again(g, results) && run_rule(g, results, out);
    for (int i = 0; i < g->n_out; i++) bp_tensor_destroy(results[i]);
    return ok;
}

static bool compare_all(struct gradient_run *g, const struct base *base,
                        struct bp_tensor *const *gradient)
{
    int n = g->r.made->gradient == 1 ? (int)CASE_PORTS : (int)GRADIENT_VARIABLES;

    for (int i = 0; i < n; i++) {
        struct numbers *x = gradient_variable(g, i);
        double *got = gradient_allocate(x->n);
        bool ok = read_numbers(g, gradient[i], x, x->name, got);
        for (int64_t e = 0; ok && e < x->n; e++) ok = compare_one(g, base, x, e, got[e]);
        free(got);
        if (!ok) return false;
    }
    return true;
}

static void gradient_finish(struct gradient_run *g)
{
    if (g->generator) bp_stream_set_generator(g->r.c->fixture->stream, NULL);
    bp_generator_destroy(g->generator);
    for (int i = 0; i < CASE_PORTS; i++) {
        bp_tensor_destroy(g->r.tensor[i]);
        bp_tensor_destroy(g->r.host[i]);
        bp_tensor_destroy(g->v[i].tensor);
        free(g->in[i].at);
        free(g->v[i].at);
    }
    for (int i = 0; i < REF_OUTPUTS; i++) {
        bp_tensor_destroy(g->dy[i].tensor);
        free(g->dy[i].at);
    }
    gradient_forget(g);
}

/* Whether the device can hold the dtypes of all inputs; besides f64 these are those of indices and
 * masks. */
static bool holds_dtypes(struct check *c, const struct kernel_case *made)
{
    for (int i = 0; i < made->n_in; i++)
        if (made->in[i].present && !(c->fixture->properties.dtypes >> made->in[i].dtype & 1)) {
            check_unsupported(c, "the device does not hold %s", bp_dtype_name(made->in[i].dtype));
            return false;
        }
    return true;
}

void gradient_case_run(struct check *c, const struct kernel_case *made)
{
    struct gradient_run *g = calloc(1, sizeof *g);
    struct bp_tensor *gradient[GRADIENT_VARIABLES] = {NULL};
    struct base base = {0};

    if (!g) abort();
    g->r.c = c;
    g->r.made = made;
    g->r.info = bp_opinfo_find(made->op->name);
    c->result->worst = -1;
    if (holds_dtypes(c, made) && gradient_set_up(g) && make_base(g, &base) &&
        run_rules(g, gradient))
        compare_all(g, &base, gradient);
    for (int i = 0; i < GRADIENT_VARIABLES; i++) bp_tensor_destroy(gradient[i]);
    free(base.weight);
    gradient_finish(g);
    free(g);
}
