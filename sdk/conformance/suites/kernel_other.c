/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_other.c: runs kernel cases whose output is no new tensor of known extents: extents that
 * depend on data, an output written over an input, or a view. */
#include "case_run.h"
#include <backplane/kernel.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool kernel_has_row(struct bp_device *device, const char *op, uint32_t dtype)
{
    struct bp_device_properties held = {.size = sizeof held};

    if (bp_device_get_properties(device, &held) || !(held.dtypes >> dtype & 1)) return false;
    for (uint32_t i = 0; i < bp_device_kernels(device); i++) {
        struct bp_kernel_info info = {.size = sizeof info};
        if (bp_device_kernel(device, i, &info) || *info.reason || strcmp(info.op, op)) continue;
        if (info.types[0] >> dtype & 1) return true;
    }
    return false;
}

bool kernel_is_refused(enum bp_status status)
{
    return status == BP_ERR_NO_KERNEL || status == BP_ERR_UNSUPPORTED;
}

bool kernel_is_misfit(const char *reason)
{
    return !strncmp(reason, "types[", 6) || !strncmp(reason, "in_layout[", 10) ||
           !strncmp(reason, "out_layout[", 11);
}

/* Prepares the call of the case. A prepared call takes as attributes the values that other calls
 * may give as tensors. */
static bool kernel_other_prepare(struct run *r, struct bp_prepared **out)
{
    struct bp_arg arg[CASE_PORTS];
    struct bp_call call = r->call;

    for (uint32_t i = 0; i < r->info->n_in; i++)
        arg[i] = r->info->in[i].kind == BP_PORT_HOST ? (struct bp_arg){0} : r->arg[i];
    call.in = arg;
    if (call.attrs) call.attrs = &r->made->attrs;
    return check_ok(r->c, bp_prepared_create(r->c->fixture->device, &call, NULL, 0, out),
                    "bp_prepared_create");
}

/* Finds the upper bounds of the extents, which a call knows before it has the data. They must equal
 * the extents of the result, or be larger along the one axis that depends on data. */
static bool bound_of(struct run *r, int64_t *shape)
{
    struct bp_tensor_info info = {.size = sizeof info};
    const struct ref_array *e = &r->expected;
    struct bp_prepared *p;
    bool ok;

    if (!kernel_other_prepare(r, &p)) return false;
    ok = check_ok(r->c, bp_prepared_output(p, (uint32_t)r->made->part, &info),
                  "bp_prepared_output") &&
         check_that(r->c, info.rank == (uint32_t)e->rank, "the bound has rank %u, expected %d",
                    info.rank, e->rank);
    for (int i = 0; ok && i < e->rank; i++) {
        bool narrowed = (uint32_t)i == r->info->bound_axis;
        shape[i] = info.shape[i];
        ok = check_that(r->c, shape[i] == e->shape[i] || (narrowed && shape[i] > e->shape[i]),
                        "the bound of axis %d is %lld, for a result of %lld", i,
                        (long long)shape[i], (long long)e->shape[i]);
    }
    bp_prepared_destroy(p);
    return ok;
}

/* The kernel may or may not write the elements behind the actual extent. */
bool run_bound(struct run *r, enum bp_status *out_status)
{
    int64_t shape[REF_RANK];
    struct operand out = {0};
    struct bp_tensor *given;
    char call[96];
    bool ok;

    snprintf(call, sizeof call, "%s by row %s", r->info->name, run_row(r));
    if (!bound_of(r, shape) ||
        !operand_output(r->c, &r->expected, shape, r->made->out, &out)) {
        operand_finish(&out);
        return false;
    }
    given = out.tensor;
    r->poisoned = true;
    *out_status = case_call(r, &given);
    ok = !kernel_is_refused(*out_status) && check_ok(r->c, *out_status, call) &&
         check_that(r->c, given == out.tensor,
                    "the call replaced the output tensor that it was given") &&
         operand_verify(r->c, &out, "the output", false, NULL) &&
         run_take(r, given, r->data[0]) && run_inputs_unchanged(r, -1) &&
         run_judge(r, r->data[0], "");
    r->poisoned = false;
    operand_finish(&out);
    return ok;
}

static bool kernel_other_info_of(struct run *r, struct bp_tensor *t, struct bp_tensor_info *out)
{
    out->size = sizeof *out;
    return check_ok(r->c, bp_tensor_get_info(t, out), "bp_tensor_get_info");
}

/* Checks that the result is a handle of the same memory, whose version has increased. */
static bool is_updated(struct run *r, struct bp_tensor *out, uint64_t version)
{
    struct bp_tensor_info a, b;

    return kernel_other_info_of(r, out, &a) &&
           kernel_other_info_of(r, run_shared_input(r)->tensor, &b) &&
           check_that(r->c, a.buffer == b.buffer && a.offset == b.offset,
                      "the result does not lie in the memory that it updates") &&
           check_that(r->c, a.version > version, "the memory's version is %llu as before",
                      (unsigned long long)version);
}

/* Makes one run over the input. given: the call gets the input's tensor as its output; otherwise
 * the call makes the handle. */
static enum bp_status kernel_other_update(struct run *r, bool given, void *data, const char *which)
{
    struct operand *over = run_shared_input(r);
    struct bp_tensor *out = given ? over->tensor : NULL;
    struct bp_tensor_info before;
    enum bp_status status;

    if (!kernel_other_info_of(r, over->tensor, &before)) return BP_ERR_INTERNAL;
    status = case_call(r, &out);
    if (kernel_is_refused(status)) return status;
    if (!check_ok(r->c, status, which) || !is_updated(r, out, before.version) ||
        !operand_verify(r->c, over, "the input that is written over", false, data) ||
        !run_inputs_unchanged(r, (int)(over - r->in)) || !run_judge(r, data, which))
        status = BP_ERR_INTERNAL;
    if (!given) bp_tensor_destroy(out);
    return status;
}

/* Writes the original contents to the inputs that were written over. */
static bool kernel_other_restore(struct run *r)
{
    bool ok = true;

    for (uint32_t i = 0; i < r->info->n_out && ok; i++) {
        struct operand *over = &r->in[r->info->out[i].share];
        if (r->info->out[i].kind != BP_PORT_UPDATE || !over->base) continue;
        ok = check_ok(r->c,
                      bp_tensor_write(r->c->fixture->stream, over->base, over->image,
                                      (uint64_t)over->elements * over->values.type->size),
                      "bp_tensor_write");
    }
    return ok;
}

bool run_update(struct run *r, enum bp_status *out_status)
{
    enum bp_status status = kernel_other_update(r, true, r->data[0], "");

    if (kernel_is_refused(status)) *out_status = status;
    if (status || !kernel_other_restore(r)) return false;
    status = kernel_other_update(r, false, r->data[1], "with the output left to the call: ");
    if (status == BP_OK)
        check_that(r->c, !memcmp(r->data[0], r->data[1], run_bytes(&r->expected)) ||
                             !(r->made->row_flags & BP_KERNEL_DETERMINISTIC),
                   "the row is flagged BP_KERNEL_DETERMINISTIC, but two runs gave different bits");
    return false;
}

/* Finds the index of the input element of which each element of the view is: computes the reference
 * for an array of indices. */
static void kernel_other_origins(struct run *r, struct ref_array *out)
{
    struct ref_array values[CASE_PORTS + 1] = {{0}};
    const struct ref_array *x = &run_shared_input(r)->values;
    int at = (int)(run_shared_input(r) - r->in);

    for (int i = 0; i < r->made->n_in; i++) values[i] = r->in[i].values;
    ref_array_init(&values[at], BP_I64, x->rank, x->shape);
    for (int64_t i = 0; i < x->count; i++) values[at].u[i] = (uint64_t)i;
    run_reference(r, values, &r->made->attrs, out);
    ref_array_finish(&values[at]);
}

/* The position of an input element in memory, in elements from the first one. */
static int64_t kernel_other_place_of(const struct operand *o, uint64_t number)
{
    int64_t fixture = 0, rest = (int64_t)number;

    for (int i = o->values.rank - 1; i >= 0; i--) {
        fixture += rest % o->values.shape[i] * o->stride[i];
        rest /= o->values.shape[i];
    }
    return fixture;
}

static int64_t with_strides(int rank, const int64_t *at, const int64_t *stride)
{
    int64_t fixture = 0;

    for (int i = 0; i < rank; i++) fixture += at[i] * stride[i];
    return fixture;
}

/* Finds the strides with which the view's elements can be addressed in the input's memory. Returns
 * false if there are none. */
static bool find_strides(const struct operand *o, const struct ref_array *from, int64_t *stride)
{
    int64_t at[REF_RANK] = {0}, first = kernel_other_place_of(o, from->u[0]), step = 1;

    for (int i = from->rank - 1; i >= 0; i--) {
        stride[i] = from->shape[i] > 1 ? kernel_other_place_of(o, from->u[step]) - first : 0;
        step *= from->shape[i];
    }
    for (int64_t i = 0; i < from->count; i++, ref_next(from->rank, from->shape, at))
        if (kernel_other_place_of(o, from->u[i]) != first + with_strides(from->rank, at, stride))
            return false;
    return true;
}

/* Checks that the result is a view with the right offset and strides if such strides exist, and
 * otherwise has its own memory. */
static bool kernel_other_shares(struct run *r, struct bp_tensor *out)
{
    struct operand *o = run_shared_input(r);
    struct bp_tensor_info x, y;
    struct ref_array from;
    int64_t stride[REF_RANK], offset;
    bool ok = kernel_other_info_of(r, o->tensor, &x) && kernel_other_info_of(r, out, &y);

    if (!ok || !r->expected.count) return ok;
    kernel_other_origins(r, &from);
    offset = kernel_other_place_of(o, from.u[0]);
    if (!find_strides(o, &from, stride)) {
        ok = check_that(r->c, x.buffer != y.buffer,
                        "the input's strides allow no such view, but its memory is shared");
    } else {
        ok = check_that(r->c, x.buffer == y.buffer, "the result is a copy, expected a view");
        ok = ok && check_that(r->c, y.offset == x.offset + (uint64_t)offset * o->values.type->size,
                              "the view begins at byte %llu, expected %llu",
                              (unsigned long long)y.offset,
                              (unsigned long long)(x.offset +
                                                   (uint64_t)offset * o->values.type->size));
        for (int i = 0; ok && i < from.rank; i++)
            ok = check_that(r->c, from.shape[i] < 2 || y.stride[i] == stride[i],
                            "the view's stride of axis %d is %lld, expected %lld", i,
                            (long long)y.stride[i], (long long)stride[i]);
    }
    ref_array_finish(&from);
    return ok;
}

bool run_view(struct run *r, enum bp_status *out_status)
{
    struct bp_tensor *out = NULL;
    bool ok;

    *out_status = case_call(r, &out);
    ok = !kernel_is_refused(*out_status) && check_ok(r->c, *out_status, r->info->name) &&
         run_take(r, out, r->data[0]) && run_judge(r, r->data[0], "") &&
         kernel_other_shares(r, out) && run_inputs_unchanged(r, -1);
    bp_tensor_destroy(out);
    return ok;
}
