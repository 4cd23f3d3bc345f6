/* SPDX-License-Identifier: Apache-2.0 */
/* run_verify.c: runs each operator call of a model on the device and by the suite's reference, from
 * the same inputs, so that errors do not accumulate and a wrong node is named. */
#include "onnx_cases.h"
#include "run_model.h"

#include <compare.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool read_array(struct run_model *r, struct bp_tensor *t, struct ref_array *out,
                       void **out_data)
{
    struct bp_tensor_info info = {.size = sizeof info};
    void *data;

    if (bp_tensor_get_info(t, &info)) return run_failed("verify");
    data = malloc(info.bytes + 8);
    if (!data) abort();
    if (info.bytes && bp_tensor_read(r->stream, t, data, info.bytes)) {
        free(data);
        return run_failed("verify");
    }
    ref_array_init(out, info.dtype, (int)info.rank, info.shape);
    ref_array_decode(out, data);
    if (out_data) *out_data = data;
    else free(data);
    return true;
}

static bool is_constant(const struct ref_array *a)
{
    bool same = true;

    for (int64_t i = 1; i < a->count && same; i++)
        same = a->v ? a->v[i] == a->v[0] : a->u[i] == a->u[0];
    return same;
}

/* The walk through the model, and the state of the current call. */
struct verify {
    struct run_walk walk;
    uint32_t wrong, known;
    const struct conform_op *op; /* of the call; NULL: no reference */
    struct ref_array *in;        /* read before the call, which may overwrite them */
    uint32_t n_in;
    bool ok; /* the inputs could be read */
};

static FILE *verify_output(const struct verify *v)
{
    return v->walk.r->output;
}

/* Whether a constant result is plausible: a graph has no nodes whose inputs are all constants, but
 * a run has such calls. */
static bool may_be_constant(const struct verify *v)
{
    bool varies = v->walk.nodes != 0;

    for (uint32_t i = 0; i < v->n_in && !varies; i++)
        varies = v->in[i].type && !is_constant(&v->in[i]);
    return !varies;
}

/* Whether a result is useful for verification. Results that are all equal, or not finite, would
 * hide errors of later nodes. */
static bool is_telling(const struct verify *v, const struct ref_array *got)
{
    for (int64_t i = 0; got->v && i < got->count; i++)
        if (!isfinite((double)got->v[i])) {
            fprintf(verify_output(v), "node %s (%s): element %lld is %g\n", v->walk.name,
                    v->op->name, (long long)i, (double)got->v[i]);
            return false;
        }
    if (got->count < 2 || !got->v || !is_constant(got) || may_be_constant(v)) return true;
    fprintf(verify_output(v), "node %s (%s): all %lld elements are %g\n", v->walk.name, v->op->name,
            (long long)got->count, (double)got->v[0]);
    return false;
}

static bool verify_judge(const struct verify *v, struct bp_tensor *out,
                         const struct ref_array *expected)
{
    struct ref_array got = {0};
    struct comparison c;
    char text[400];
    void *data;
    bool ok;

    if (!read_array(v->walk.r, out, &got, &data)) return false;
    ok = got.rank == expected->rank && got.type == expected->type &&
         !memcmp(got.shape, expected->shape, (size_t)got.rank * sizeof *got.shape);
    if (!ok)
        fprintf(verify_output(v), "node %s (%s): its shape is not the reference's\n", v->walk.name,
                v->op->name);
    if (ok) {
        c = compare(v->op, expected, data);
        ok = !c.wrong;
        if (!ok) {
            compare_describe(&c, expected, data, text, sizeof text);
            fprintf(verify_output(v), "node %s (%s): %s\n", v->walk.name, v->op->name, text);
        }
    }
    ok = ok && is_telling(v, &got);
    ref_array_finish(&got);
    free(data);
    return ok;
}

/* Reads the inputs. An absent one marks the end of a variadic port, as the suite's references
 * expect. */
static void verify_take_inputs(struct run_walk *walk, const struct bp_watched *call)
{
    struct verify *v = walk->ctx;

    if (walk->nodes) bp_progress("%u of %u nodes", walk->calls, walk->nodes);
    else bp_progress("%u nodes", walk->calls);
    v->op = call->op->flags & BP_OP_RANDOM || call->n_out > REF_OUTPUTS
                ? NULL : conform_op(call->op->name);
    v->ok = true;
    if (!v->op) return;
    v->n_in = call->n_in;
    v->in = calloc(call->n_in + 2, sizeof *v->in);
    if (!v->in) abort();
    for (uint32_t i = 0; i < call->n_in && v->ok; i++)
        v->ok = !call->in[i] || read_array(walk->r, call->in[i], &v->in[i], NULL);
}

static void verify_check_outputs(struct run_walk *walk, const struct bp_watched *call)
{
    struct verify *v = walk->ctx;
    struct ref_array out[REF_OUTPUTS] = {{0}};

    if (!v->op) {
        fprintf(verify_output(v), "node %s (%s): it has no reference\n", walk->name,
                call->op->name);
        return;
    }
    if (v->ok && v->op->family) v->op->family(v->op->name, v->in, call->attrs, out);
    else if (v->ok) v->op->reference(v->in, call->attrs, out);
    for (uint32_t i = 0; i < call->n_out && v->ok; i++)
        if (call->out[i]) v->ok = verify_judge(v, call->out[i], &out[i]);
    v->known++;
    v->wrong += !v->ok;
    for (uint32_t i = 0; i < v->n_in; i++) ref_array_finish(&v->in[i]);
    for (int i = 0; i < REF_OUTPUTS; i++) ref_array_finish(&out[i]);
    free(v->in);
    v->in = NULL;
}

int run_verify(struct run_model *r)
{
    struct bp_model_info info = {.size = sizeof info};
    struct verify v = {
        .walk = {.r = r, .before = verify_take_inputs, .after = verify_check_outputs}};
    uint32_t all;
    bool ok;

    v.walk.ctx = &v;
    ok = run_walk(&v.walk);
    bp_progress("%s", "");
    for (uint32_t i = 0; v.in && i < v.n_in; i++) ref_array_finish(&v.in[i]); /* the call failed */
    free(v.in);
    if (!ok || (bp_model_get_info(r->model, &info) && !run_failed("verify"))) return BP_EXIT_FAILED;
    if (info.host_nodes)
        fprintf(r->output, "node %s%s: done by the host, it has no reference\n", info.host_node,
                info.host_nodes > 1 ? " and others" : "");
    all = v.walk.calls + info.host_nodes;
    fprintf(r->output, "verified: %u of %u nodes, %u wrong, %u without a reference\n", v.known, all,
            v.wrong, all - v.known);
    if (!v.known) fprintf(r->output, "nothing was verified: no node has a reference\n");
    return !v.wrong && v.known ? BP_EXIT_GOOD : BP_EXIT_FAILED;
}

bool run_same(struct run_model *r, const char *name, const struct bp_model_value *got,
              const struct bp_model_value *expected)
{
    const struct onnx_tolerance tolerance = {r->rtol, 1e-7, false};
    struct result result = {.outcome = OUTCOME_PASS, .worst = -1};
    struct check check = {NULL, &result, name};
    bool ok = check_that(&check, got->n == expected->n && got->kind == expected->kind,
                         "%s: %zu tensors, expected %zu", name, got->n, expected->n);

    for (size_t i = 0; ok && i < got->n; i++)
        ok = onnx_compare(&check, r->stream, got->at[i], expected->at[i], &tolerance, name);
    fprintf(r->output, "%s: %s\n", name, ok ? "as expected" : result.message);
    return ok;
}
