/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_own.c: tests kernel rows of operators that plugins define. The suite has no reference for
 * them: the reference is the operator's decomposition, which the core runs on the same device. Rows
 * with layouts of the plugin run in programs of one node.
 *
 * Each of the n steps of a decomposition rounds its result, and the next step may double an error
 * that is relative to its largest operand: so the two results may differ by 4 (n + 1) units of
 * roundoff of the largest number among inputs and results. Integers must be equal. */
#include "suites.h"

#include <backplane/call.h>
#include <backplane/graph.h>
#include <backplane/prepared.h>
#include <backplane/program.h>
#include <math.h>
#include <ops/common/reference.h>
#include <stdlib.h>
#include <string.h>

enum { OWN_PORTS = 16, OWN_BYTES = 17 * 33 * 16 }; /* the largest shape, of c128 */

static const struct {
    int rank;
    int64_t shape[4];
} own_shapes[OWN_SHAPES] = {{1, {7}},    {2, {3, 5}}, {3, {2, 3, 4}},    {0, {0}},
                            {2, {0, 3}}, {1, {64}},   {4, {2, 9, 3, 4}}, {2, {17, 33}}};

struct own {
    struct check *c;
    struct bp_kernel_info row;
    const struct bp_opinfo *op;
    uint32_t dtype[BP_VAR_COUNT];
    int rank;
    const int64_t *shape;
    struct bp_tensor *in[OWN_PORTS], *out[OWN_PORTS], *by_parts[OWN_PORTS];
    struct bp_arg arg[OWN_PORTS];
    struct bp_call call;
    long double largest; /* of inputs and results */
    uint32_t steps;
};

/* Fills a tensor with numbers from -2 to 2, and integers from 0 to 4, that differ by port. */
static bool own_input(struct own *o, uint32_t port)
{
    struct fixture *f = o->c->fixture;
    struct ref_array a;
    char data[OWN_BYTES];
    bool ok;

    ref_array_init(&a, o->dtype[o->op->in[port].var], o->rank, o->shape);
    for (int64_t i = 0; i < a.count * a.type->parts; i++) {
        int64_t k = (i * 37 + (int64_t)port * 11 + 5) % 101;
        if (num_is_int(a.type)) a.u[i] = (uint64_t)k % (a.type->class == NUM_BOOL ? 2 : 5);
        else a.v[i] = (k - 50) / 25.0L;
    }
    ref_array_encode(&a, data);
    ok = check_ok(o->c, bp_tensor_create(f->device, a.type->dtype, (uint32_t)o->rank, o->shape,
                                         &o->in[port]),
                  "bp_tensor_create") &&
         (!a.count || check_ok(o->c, bp_tensor_write(f->stream, o->in[port], data,
                                                     (uint64_t)a.count * a.type->size),
                               "bp_tensor_write"));
    ref_array_finish(&a);
    o->largest = 2;
    return ok;
}

static bool own_inputs(struct own *o)
{
    bool ok = true;

    for (uint32_t i = 0; i < o->op->n_in && ok; i++) {
        o->arg[i] = (struct bp_arg){&o->in[i], 1};
        if (o->op->in[i].kind != BP_PORT_OPT) ok = own_input(o, i);
    }
    return ok;
}

/* Runs the decomposition into tensors of its own. false: the case has ended. */
static bool own_run_parts(struct own *o)
{
    struct bp_prepare_options options = {.size = sizeof options, .flags = BP_PREPARE_DECOMPOSE};
    struct bp_device *device = o->c->fixture->device;
    struct bp_prepared *prepared;
    enum bp_status status;
    bool ok = true;

    o->call.kernel = NULL;
    status = bp_prepared_create_with(device, &o->call, &options, &prepared);
    if (status == BP_ERR_INVALID || status == BP_ERR_UNSUPPORTED) {
        check_skip(o->c, "inputs of one shape are not for this operator: %s", bp_error_message());
        return false;
    }
    if (!check_ok(o->c, status, "bp_prepared_create_with, decomposed")) return false;
    o->steps = bp_prepared_steps(prepared);
    for (uint32_t i = 0; i < o->op->n_out && ok; i++) {
        struct bp_tensor_info info = {.size = sizeof info};
        ok = check_ok(o->c, bp_prepared_output(prepared, i, &info), "bp_prepared_output") &&
             check_ok(o->c, bp_tensor_create(device, info.dtype, info.rank, info.shape,
                                             &o->by_parts[i]),
                      "bp_tensor_create");
    }
    ok = ok && check_ok(o->c, bp_prepared_run(prepared, o->c->fixture->stream, o->in, o->op->n_in,
                                              o->by_parts, o->op->n_out, NULL),
                        "bp_prepared_run, decomposed");
    bp_prepared_destroy(prepared);
    return ok;
}

/* Decodes a result. false: the case has ended. */
static bool own_read(struct own *o, struct bp_tensor *t, const struct bp_tensor_info *info,
                     struct ref_array *out)
{
    char *data = calloc(1, info->bytes + 1);
    bool ok = data && (!info->bytes || check_ok(o->c, bp_tensor_read(o->c->fixture->stream, t, data,
                                                                     info->bytes),
                                                "bp_tensor_read"));

    ref_array_init(out, info->dtype, (int)info->rank, info->shape);
    if (ok) ref_array_decode(out, data);
    free(data);
    return ok;
}

static bool own_is_near(const struct own *o, long double got, long double expected,
                        const struct num_type *type, double *worst)
{
    long double unit = ldexpl(1, -type->digits), size = fmaxl(o->largest, fabsl(expected));
    long double allowed = 4 * (o->steps + 1) * unit * size, error = fabsl(got - expected);

    if (isnan(got) || isnan(expected)) return isnan(got) && isnan(expected);
    if (isinf(expected) || isinf(got)) return got == expected;
    if ((double)(error / allowed) > *worst) *worst = (double)(error / allowed);
    return error <= allowed;
}

static void own_compare(struct own *o, uint32_t output)
{
    struct bp_tensor_info info = {.size = sizeof info}, other = {.size = sizeof other};
    struct ref_array got = {0}, expected = {0};

    if (!check_ok(o->c, bp_tensor_get_info(o->out[output], &info), "bp_tensor_get_info") ||
        !check_ok(o->c, bp_tensor_get_info(o->by_parts[output], &other), "bp_tensor_get_info"))
        return;
    if (own_read(o, o->out[output], &info, &got) &&
        own_read(o, o->by_parts[output], &other, &expected))
        for (int64_t i = 0; i < got.count * got.type->parts; i++) {
            bool near = num_is_int(got.type) ? got.u[i] == expected.u[i]
                                             : own_is_near(o, got.v[i], expected.v[i], got.type,
                                                           &o->c->result->worst);
            if (!check_that(o->c, near,
                            "output %s, element %lld: %s gave %Lg, the decomposition %Lg",
                            o->op->out[output].name, (long long)i, o->row.name,
                            num_is_int(got.type) ? (long double)got.u[i] : got.v[i],
                            num_is_int(got.type) ? (long double)expected.u[i] : expected.v[i]))
                break;
        }
    ref_array_finish(&got);
    ref_array_finish(&expected);
}

/* A program of one node: its row has layouts of the plugin, so the core converts the tensors. */
struct own_program {
    struct bp_graph *graph;
    struct bp_program *program;
    struct bp_tensor *value[OWN_PORTS], *in[OWN_PORTS], *out[OWN_PORTS];
    struct bp_arg arg[OWN_PORTS];
    size_t n_in;
};

static bool own_record(struct own *o, struct own_program *p)
{
    struct bp_call call = o->call;
    bool ok = check_ok(o->c, bp_graph_create(o->c->fixture->core, &p->graph), "bp_graph_create");

    for (uint32_t i = 0; i < o->op->n_in && ok; i++) {
        p->arg[i] = (struct bp_arg){&p->value[i], 1};
        if (!o->in[i]) continue;
        ok = check_ok(o->c, bp_graph_input(p->graph, NULL, o->dtype[o->op->in[i].var],
                                           (uint32_t)o->rank, o->shape, &p->value[i]),
                      "bp_graph_input");
        p->in[p->n_in++] = o->in[i];
    }
    call.in = p->arg;
    ok = ok && check_ok(o->c, bp_call_run(bp_graph_scope(p->graph), &call, p->out, o->op->n_out,
                                          NULL),
                        "recording the call");
    for (uint32_t i = 0; i < o->op->n_out && ok; i++)
        ok = check_ok(o->c, bp_graph_output(p->graph, p->out[i], NULL), "bp_graph_output");
    return ok && check_ok(o->c, bp_program_create(p->graph, o->c->fixture->device, &p->program),
                          "bp_program_create");
}

/* Whether the row is a launch of the program. */
static bool own_has_row(const struct own *o, const struct own_program *p)
{
    struct bp_launch_info info = {.size = sizeof info};

    for (uint32_t i = 0; !bp_program_launch(p->program, i, &info); i++)
        if (!strcmp(info.kernel, o->row.name)) return true;
    return check_that(o->c, false, "the program does not run on the row that its node names");
}

static void own_end(struct own_program *p)
{
    for (int i = 0; i < OWN_PORTS; i++) {
        bp_tensor_destroy(p->value[i]);
        bp_tensor_destroy(p->out[i]);
    }
    bp_program_destroy(p->program);
    bp_graph_destroy(p->graph);
}

/* Runs the call, in a program if only programs use the row. */
static enum bp_status own_call(struct own *o, bool in_program)
{
    struct bp_stream *stream = o->c->fixture->stream;
    struct own_program p = {.graph = NULL};
    enum bp_status status = BP_OK;

    if (!in_program)
        return bp_call_run(bp_stream_scope(stream), &o->call, o->out, o->op->n_out, NULL);
    if (own_record(o, &p)) {
        status = bp_program_compile(p.program);
        if (!status && own_has_row(o, &p))
            status = bp_program_run(p.program, stream, p.in, p.n_in, o->out, o->op->n_out);
        if (!status) status = bp_stream_synchronize(stream);
    }
    own_end(&p);
    return status;
}

static void own_run(struct own *o, bool in_program)
{
    enum bp_status status;

    if (!own_inputs(o) || !own_run_parts(o)) return;
    o->call.kernel = o->row.name;
    status = own_call(o, in_program);
    if (kernel_is_refused(status)) {
        check_skip(o->c, "the row declines: %s", bp_error_message());
        return;
    }
    if (!check_ok(o->c, status, in_program ? "a program of the call" : "bp_call_run") ||
        o->c->result->outcome != OUTCOME_PASS)
        return;
    o->c->result->executed = true;
    if (o->c->result->worst < 0) o->c->result->worst = 0;
    for (uint32_t i = 0; i < o->op->n_out; i++) own_compare(o, i);
}

void kernel_own_run(struct check *c, const int64_t *arg)
{
    struct own o = {.c = c, .row = {.size = sizeof o.row}};
    int shape = (int)(arg[1] >> 8 & 255);

    if (!check_ok(c, bp_device_kernel(c->fixture->device, (uint32_t)arg[0], &o.row),
                  "bp_device_kernel"))
        return;
    o.op = bp_opinfo_find(o.row.op);
    o.rank = own_shapes[shape].rank;
    o.shape = own_shapes[shape].shape;
    o.call = (struct bp_call){.size = sizeof o.call, .op = o.row.op, .in = o.arg,
                              .n_in = o.op->n_in};
    for (int v = 0; v < BP_VAR_COUNT; v++)
        if (o.row.types[v]) o.dtype[v] = (uint32_t)__builtin_ctzll(o.row.types[v]);
    o.dtype[BP_VAR_T] = (uint32_t)(arg[1] & 255);
    own_run(&o, arg[1] >> 16);
    for (uint32_t i = 0; i < OWN_PORTS; i++) {
        bp_tensor_destroy(o.in[i]);
        bp_tensor_destroy(o.out[i]);
        bp_tensor_destroy(o.by_parts[i]);
    }
}
