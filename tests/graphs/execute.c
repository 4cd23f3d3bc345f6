/* SPDX-License-Identifier: Apache-2.0 */
/* execute.c: runs the nodes of a graph one by one, as calls on a stream, and compares the result of
 * each with the reference of the conformance suite, from the same inputs. */
#include "graphs.h"

#include <compare.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One node as a call. */
struct executed {
    struct bp_node_info node;
    const struct bp_opinfo *op;
    const struct conform_op *reference;
    struct bp_arg arg[FUZZ_PORTS + 8];
    struct bp_tensor *in[64], *out[64];
    uint8_t want[64];
    struct ref_array array[66]; /* of the inputs */
};
struct executor {
    const struct fuzz_built *built;
    struct bp_stream *stream;
    struct bp_generator *generator;
    struct bp_tensor **value; /* of the graph; a reference each */
    uint64_t perturb;
    struct fuzz_report *report;
};

static enum bp_status executor_read(struct executor *e, struct bp_tensor *t, struct ref_array *out,
                                    void **out_data)
{
    struct bp_tensor_info info = {.size = sizeof info};
    enum bp_status status = bp_tensor_get_info(t, &info);
    void *data;

    if (status) return status;
    data = malloc(info.bytes + 8);
    if (!data) abort();
    if (info.bytes) status = bp_tensor_read(e->stream, t, data, info.bytes);
    if (status == BP_OK) {
        ref_array_init(out, info.dtype, (int)info.rank, info.shape);
        ref_array_decode(out, data);
    }
    if (out_data && status == BP_OK) *out_data = data;
    else free(data);
    return status;
}

/* ---- references ---- */

static uint32_t port_of(const struct executed *x, uint32_t input)
{
    uint32_t at = 0;

    for (uint32_t p = 0; p < x->op->n_in; p++) {
        at += (uint32_t)x->arg[p].n;
        if (input < at) return p;
    }
    return x->op->n_in;
}

/* Reads the inputs as the reference expects them: the state of the generator first, if the operator
 * draws numbers; inputs that give an attribute are left out then. */
static enum bp_status read_inputs(struct executor *e, struct executed *x)
{
    uint32_t n = 0;

    if (x->op->flags & BP_OP_RANDOM) {
        ref_array_init(&x->array[n], BP_U64, 1, (int64_t[]){2});
        bp_generator_get(e->generator, &x->array[n].u[0], &x->array[n].u[1]);
        n++;
    }
    for (uint32_t i = 0; i < x->node.n_in; i++) {
        if (x->op->in[port_of(x, i)].kind == BP_PORT_HOST) {
            n += !(x->op->flags & BP_OP_RANDOM);
            continue;
        }
        if (x->in[i]) {
            enum bp_status status = executor_read(e, x->in[i], &x->array[n], NULL);
            if (status) return status;
        }
        n++;
    }
    return BP_OK;
}

static void executed_report(struct executor *e, const struct executed *x, const char *text)
{
    if (e->report->fault) return;
    e->report->fault = FUZZ_REFERENCE;
    snprintf(e->report->message, sizeof e->report->message, "node %s (%s): %s", x->node.name,
             x->node.op, text);
}

static enum bp_status result_check(struct executor *e, const struct executed *x,
                                   struct bp_tensor *t, const struct ref_array *expected)
{
    struct ref_array got = {0};
    enum bp_status status;
    struct comparison c;
    char text[600];
    void *data;

    status = executor_read(e, t, &got, &data);
    if (status) return status;
    if (got.rank != expected->rank || got.type != expected->type ||
        memcmp(got.shape, expected->shape, (size_t)got.rank * sizeof *got.shape)) {
        executed_report(e, x, "its type is not the reference's");
    } else {
        c = compare(x->reference, expected, data);
        e->report->checked++;
        if (c.wrong) {
            compare_describe(&c, expected, data, text, sizeof text);
            executed_report(e, x, text);
        }
    }
    ref_array_finish(&got);
    free(data);
    return BP_OK;
}

/* The largest allowed error of an element: docs/accuracy.md, "The rule". */
static long double result_allowance(const struct conform_op *op, const struct ref_array *expected,
                                    int64_t i)
{
    const struct num_type *type = expected->type, *sum = num_accumulate(type);
    long double bound = num_unit(sum) * expected->bound[i], value = expected->v[i];

    if (!op->terms) return op->ulp * num_ulp(type, value) + bound;
    return op->ulp * num_ulp(sum, value) + bound +
           (num_is_half(type) ? num_ulp(type, value) / 2 : 0);
}

/* Moves each element of a float result by its tolerance, up or down at random. Those of half types
 * move by half a unit more: a pass may leave out their rounding. */
static enum bp_status result_perturb(struct executor *e, const struct executed *x,
                                     struct bp_tensor *t, const struct ref_array *expected)
{
    struct ref_array got = {0};
    enum bp_status status;
    void *data;

    if (!expected->v || expected->type->parts > 1) return BP_OK;
    status = executor_read(e, t, &got, &data);
    if (status) return status;
    for (int64_t i = 0; i < got.count; i++) {
        long double step = result_allowance(x->reference, expected, i);
        if (num_is_half(got.type)) step += num_ulp(got.type, got.v[i]) / 2;
        e->perturb++;
        got.v[i] += fuzz_mix(e->perturb) >> 63 ? step : -step;
    }
    ref_array_encode(&got, data);
    status = bp_tensor_write(e->stream, t, data, (uint64_t)got.count * got.type->size);
    ref_array_finish(&got);
    free(data);
    return status;
}

static bool executed_is_exact(const struct executed *x)
{
    for (uint32_t i = 0; i < x->op->n_out; i++)
        if (x->op->out[i].kind == BP_PORT_UPDATE) return true;
    return x->op->flags & (BP_OP_VIEW | BP_OP_RANDOM);
}

static enum bp_status check_results(struct executor *e, struct executed *x)
{
    struct ref_array out[REF_OUTPUTS] = {{0}};
    enum bp_status status = BP_OK;

    if (x->reference->family)
        x->reference->family(x->reference->name, x->array, x->node.attrs, out);
    else x->reference->reference(x->array, x->node.attrs, out);
    for (uint32_t i = 0; i < x->node.n_out && status == BP_OK; i++) {
        if (!x->out[i]) continue;
        if (!e->perturb) status = result_check(e, x, x->out[i], &out[i]);
        else if (!executed_is_exact(x)) status = result_perturb(e, x, x->out[i], &out[i]);
    }
    for (int i = 0; i < REF_OUTPUTS; i++) ref_array_finish(&out[i]);
    return status;
}

/* ---- nodes ---- */

/* Assigns the node's inputs to ports. At most one port takes any number of tensors. */
static void executed_place(const struct executor *e, struct executed *x)
{
    uint32_t many = x->node.n_in + 1 - x->op->n_in, at = 0;

    for (uint32_t i = 0; i < x->node.n_in; i++)
        x->in[i] = x->node.in[i] == UINT32_MAX ? NULL : e->value[x->node.in[i]];
    for (uint32_t i = 0; i < x->node.n_out; i++) x->want[i] = x->node.out[i] != UINT32_MAX;
    for (uint32_t p = 0; p < x->op->n_in; p++) {
        x->arg[p] = (struct bp_arg){x->in + at, x->op->in[p].kind == BP_PORT_VAR ? many : 1};
        at += (uint32_t)x->arg[p].n;
    }
}

static enum bp_status execute_call(struct executor *e, struct executed *x)
{
    const struct bp_call call = {.size = sizeof call,
                                 .op = x->node.op,
                                 .in = x->arg,
                                 .n_in = x->op->n_in,
                                 .attrs = x->node.attrs,
                                 .kernel = x->node.kernel};
    enum bp_status status = x->reference ? read_inputs(e, x) : BP_OK;

    if (status == BP_OK)
        status = bp_call_run(bp_stream_scope(e->stream), &call, x->out, x->node.n_out, x->want);
    if (status) return status;
    for (uint32_t i = 0; i < x->node.n_out; i++)
        if (x->out[i]) e->value[x->node.out[i]] = x->out[i];
    if (!x->reference) return BP_OK;
    status = bp_stream_synchronize(e->stream); /* references expect inputs that are no faults */
    return status ? status : check_results(e, x);
}

static enum bp_status execute_node(struct executor *e, uint32_t number)
{
    struct executed *x = calloc(1, sizeof *x);
    enum bp_status status;

    if (!x) abort();
    x->node.size = sizeof x->node;
    status = bp_graph_node(e->built->graph, number, &x->node);
    if (status == BP_OK) {
        x->op = bp_opinfo_find(x->node.op);
        if (x->node.n_in > 64 || x->node.n_out > 64 || x->op->n_in > FUZZ_PORTS + 8) abort();
        x->reference = x->node.n_out > REF_OUTPUTS ? NULL : conform_op(x->node.op);
        executed_place(e, x);
        status = execute_call(e, x);
    }
    for (size_t i = 0; i < sizeof x->array / sizeof *x->array; i++) ref_array_finish(&x->array[i]);
    free(x);
    return status;
}

static enum bp_status execute_values(struct executor *e, uint32_t n, struct bp_tensor *const *in,
                                     bool *held)
{
    uint32_t given = 0;

    for (uint32_t v = 0; v < n; v++) {
        struct bp_value_info info = {.size = sizeof info};
        enum bp_status status = bp_graph_value(e->built->graph, v, &info);
        if (status) return status;
        held[v] = info.kind == 2;
        if (info.kind == 0) e->value[v] = in[given++];
        if (info.kind == 1) e->value[v] = info.constant;
    }
    return BP_OK;
}

/* A new handle of a tensor that the caller destroys. */
static enum bp_status execute_output(const struct executor *e, uint32_t o, struct bp_tensor **out)
{
    struct bp_tensor *t = e->value[e->built->output[o]];
    struct bp_tensor_info info = {.size = sizeof info};
    enum bp_status status = bp_tensor_get_info(t, &info);

    return status ? status : bp_tensor_view(t, 0, info.rank, info.shape, info.stride, out);
}

enum bp_status fuzz_execute(const struct fuzz_built *built, struct bp_stream *stream,
                            struct bp_generator *generator, struct bp_tensor *const *in,
                            struct bp_tensor **out, uint64_t perturb, struct fuzz_report *report)
{
    struct executor e = {built, stream, generator, NULL, perturb, report};
    struct bp_graph_info info = {.size = sizeof info};
    enum bp_status status = bp_graph_get_info(built->graph, &info);
    bool *held;

    if (status) return status;
    e.value = calloc(info.values + 1, sizeof *e.value);
    held = calloc(info.values + 1, sizeof *held);
    if (!e.value || !held) abort();
    status = execute_values(&e, info.values, in, held);
    for (uint32_t n = 0; n < info.nodes && status == BP_OK; n++) status = execute_node(&e, n);
    for (uint32_t o = 0; o < built->n_output && status == BP_OK; o++)
        status = execute_output(&e, o, &out[o]);
    for (uint32_t v = 0; v < info.values; v++)
        if (held[v]) bp_tensor_destroy(e.value[v]);
    free(e.value);
    free(held);
    return status;
}
