/* SPDX-License-Identifier: Apache-2.0 */
/* prepared.c: creates prepared calls: types, steps, plans, and the choice of the fast path. */
#include "../device/profiled.h"
#include "prepared.h"

#include "../base/generator.h"
#include "../plugin/engine_rows.h"
#include "plan.h"
#include "fallback.h"
#include "kernel_layout.h"

#include <stdlib.h>
#include <string.h>

/* Completes the type of a port: device, signature and bytes. */
static void prepared_sign(struct bp_typed_view *type, const struct bp_device *device)
{
    type->view.device = (uint16_t)device->index;
    type->sig = bp_tensor_signature(device, &type->view);
    type->bytes = (uint64_t)type->view.count * (bp_dtype_bits(type->view.dtype) / 8);
}

void bp_prepared_new_type(struct bp_typed_view *type, const struct bp_invocation *inv, uint32_t i)
{
    const struct bp_type *out = &inv->out[i];

    bp_typed_view_dense(type, out);
    for (uint32_t k = 0; k < inv->row->keeps && k < inv->n_in; k++) {
        if (!inv->in[k] || !bp_strides_like(out->rank, out->shape, inv->in[k], type->stride))
            continue;
        if (bp_strides_are_contiguous(out->rank, out->shape, type->stride) ||
            !bp_select_has(inv, BP_KERNEL_STRIDED))
            bp_type_strides(out->rank, type->shape, type->stride);
        else type->view.flags |= BP_VIEW_STRIDED;
        return;
    }
}

static void fill_types(struct bp_prepared *p, const struct bp_invocation *inv)
{
    for (uint32_t i = 0; i < p->n_in; i++) {
        p->type[i].view.rank = BP_ABSENT;
        if (!inv->in[i]) continue;
        bp_typed_view_init(&p->type[i], inv->in[i]);
        prepared_sign(&p->type[i], inv->device);
        if (!(inv->in[i]->flags & BP_VIEW_CONSTANT)) continue;
        p->type[i].view.data = inv->in[i]->data; /* needed while steps are built */
        p->type[i].view.memory = inv->in[i]->memory;
    }
    for (uint32_t i = 0; i < p->n_out; i++) {
        struct bp_typed_view *type = &p->type[p->n_in + i];
        type->view.rank = BP_ABSENT;
        if (!bp_invocation_wants(inv, i)) continue;
        if (inv->given[i]) bp_typed_view_init(type, inv->given[i]);
        else bp_prepared_new_type(type, inv, i);
        if (inv->given[i] && !p->row->varies) p->given |= 1u << i;
        prepared_sign(type, inv->device);
    }
}

/* Checks that the device supports the dtypes of the outputs. Runs create them without a further
 * check. */
static enum bp_status check_held(const struct bp_prepared *p)
{
    for (uint32_t i = 0; i < p->n_out; i++) {
        const struct bp_view *v = &p->type[p->n_in + i].view;
        if (v->rank != BP_ABSENT && !(p->device->properties.dtypes >> v->dtype & 1))
            return bp_error(BP_ERR_UNSUPPORTED, "%s: output %s: %s does not hold %s",
                            p->row->info.name, bp_prepared_port(p, i)->name, p->device->name,
                            bp_dtype_name(v->dtype));
    }
    return BP_OK;
}

static struct bp_prepared *prepared_allocate(const struct bp_invocation *inv)
{
    size_t n = inv->n_in + inv->n_out, size = sizeof(struct bp_prepared);
    struct bp_prepared *p;

    size = (size + n * sizeof *p->type + BP_LINE - 1) / BP_LINE * BP_LINE;
    p = aligned_alloc(BP_LINE, size);
    if (!p) {
        bp_plan_no_memory(inv);
        return NULL;
    }
    memset(p, 0, size);
    p->step = &p->first;
    return p;
}

static void prepared_give_back(struct bp_deferred *pending)
{
    bp_prepared_free(
        (struct bp_prepared *)((char *)pending - offsetof(struct bp_prepared, pending)));
}

static struct bp_prepared *make_empty(const struct bp_invocation *inv)
{
    struct bp_prepared *p = prepared_allocate(inv);

    if (!p) return NULL;
    p->magic = bp_magic(BP_MAGIC_PREPARED);
    atomic_init(&p->refs, 1);
    p->pending.release = prepared_give_back;
    p->device = inv->device;
    p->row = inv->row;
    p->n_in = inv->n_in;
    p->n_out = inv->n_out;
    p->want = inv->want;
    p->in_place = inv->in_place;
    memcpy(p->in_at, inv->in_at, sizeof p->in_at);
    memcpy(p->out_at, inv->out_at, sizeof p->out_at);
    fill_types(p, inv);
    return p;
}

/* Prepares a call for dense tensors of the invocation's shapes. */
static enum bp_status make_dense(struct bp_invocation *inv, struct bp_prepared **out_prepared)
{
    struct bp_typed_view *dense = calloc(inv->n_in + 1, sizeof *dense);
    enum bp_status status;

    if (!dense) return bp_plan_no_memory(inv);
    for (uint32_t i = 0; i < inv->n_in; i++) {
        const struct bp_view *v = inv->in[i];
        struct bp_type type = {.dtype = v ? v->dtype : 0, .rank = v ? v->rank : 0};
        if (!v) continue;
        memcpy(type.shape, v->shape, v->rank * sizeof *v->shape);
        bp_typed_view_dense(&dense[i], &type);
        dense[i].view.device = (uint16_t)inv->device->index;
        inv->in[i] = &dense[i].view;
        inv->constant[i] = (struct bp_constant){0};
    }
    status = bp_prepared_make(inv, out_prepared);
    free(dense);
    return status;
}

/* Prepares the call on the fallback device `host`, and takes over the reference to it. */
static enum bp_status make_there(const struct bp_invocation *inv, struct bp_device *host,
                                 struct bp_prepared **out_prepared)
{
    struct bp_invocation *copy = bp_plan_copy_call(inv);
    enum bp_status status = copy ? BP_OK : bp_plan_no_memory(inv);

    if (copy) {
        copy->device = host;
        copy->in_place = false;
        memset(copy->given, 0, copy->n_out * sizeof *copy->given);
        copy->attrs = NULL;
        if (inv->attrs) status = bp_attrs_clone(&inv->row->info, inv->attrs, &copy->attrs);
    }
    if (status == BP_OK) status = make_dense(copy, out_prepared);
    if (copy) free(copy->attrs);
    free(copy);
    if (status) bp_device_release(host);
    else (*out_prepared)->keeps_device = true;
    return status;
}

/* Adds the only step: another device runs the call. The steps of failed paths are removed first. */
static enum bp_status plan_on_fallback(struct bp_planner *b, const struct bp_invocation *inv,
                                       const struct bp_operand *in, const struct bp_operand *out)
{
    struct bp_step *step = NULL;
    struct bp_prepared *there;
    struct bp_device *host;
    enum bp_status status;

    bp_plan_rewind(b->p, (struct bp_plan_mark){0, 0});
    TRY(bp_fallback_find(inv->device, &host));
    TRY(make_there(inv, host, &there));
    status = bp_plan_add_step(b, inv, in, out, &step);
    if (status) {
        bp_prepared_release(there);
        return status;
    }
    step->kind = BP_FALLBACK_DEVICE;
    step->fallback = there;
    bp_plan_set_launch(step, inv);
    return BP_OK;
}

static bool may_fall_back(const struct bp_invocation *inv, enum bp_status status)
{
    return bp_plan_is_dead_end(status) && !inv->kernel && !inv->decompose && !inv->whole &&
           bp_fallback_policy(inv->device->core) != BP_POLICY_DENY &&
           !bp_invocation_has_layouts(inv);
}

/* Plans the call on its device; if no path exists, on another device. */
static enum bp_status build_steps(struct bp_planner *b, const struct bp_invocation *inv,
                                  const struct bp_operand *in, const struct bp_operand *out)
{
    enum bp_status status = bp_plan_call(b, inv, in, out);
    struct bp_first_failure first;

    if (!may_fall_back(inv, status)) return status;
    first = bp_plan_first_failure(status);
    status = plan_on_fallback(b, inv, in, out);
    if (status == BP_OK)
        bp_fallback_explain(b->p->device, inv->row, b->p->step->fallback->device->name, first.why);
    return bp_plan_report(&first, status);
}

/* Plans the call, with its own tensors in their order as operands. */
static enum bp_status find_steps(struct bp_prepared *p, const struct bp_invocation *inv)
{
    struct bp_operand in[BP_FLAT_MAX], out[BP_FLAT_MAX];
    struct bp_planner b = {p, in, inv->attrs, inv->constant, 0, BP_FALLBACK_NONE, bp_plan_call};

    for (uint32_t i = 0; i < p->n_in; i++)
        in[i] = (struct bp_operand){inv->in[i] ? BP_OPERAND_IN : BP_OPERAND_NONE, (uint16_t)i};
    for (uint32_t i = 0; i < p->n_out; i++)
        out[i] = (struct bp_operand){
            bp_invocation_wants(inv, i) ? BP_OPERAND_OUT : BP_OPERAND_NONE, (uint16_t)i};
    TRY(build_steps(&b, inv, in, out));
    for (uint32_t i = 0; i < p->n_step; i++) { /* from now on steps do not move in memory */
        p->step[i].launch.in_at = p->step[i].in_at;
        p->step[i].launch.out_at = p->step[i].out_at;
    }
    p->simple = p->n_step == 1 && p->step->kernel && !p->step->in;
    return BP_OK;
}

/* Only plans may use the addresses of constants, because a prepared call may outlive the
 * constants. */
static void forget_addresses(struct bp_prepared *p)
{
    for (uint32_t i = 0; i < p->n_in; i++) p->type[i].view.data = p->type[i].view.memory = NULL;
    for (uint32_t i = 0; i < p->n_temp; i++)
        p->temp[i]->type.view.data = p->temp[i]->type.view.memory = NULL;
}

/* A plan may have read constant inputs; then the call is valid for these constants only. Engines
 * get the constants of a call at each run. */
static enum bp_status bind_constants(struct bp_prepared *p, const struct bp_invocation *inv)
{
    bool any = false;

    for (uint32_t i = 0; i < p->n_in; i++)
        any |= inv->constant[i].id != 0;
    for (uint32_t i = 0; any && i < p->n_step; i++)
        p->bound |= p->step[i].plan.plan && !bp_engine_call_is(p->step[i].kernel);
    if (!p->bound) return BP_OK;
    p->constant = calloc(p->n_in, sizeof *p->constant);
    if (!p->constant) return bp_plan_no_memory(inv);
    for (uint32_t i = 0; i < p->n_in; i++) p->constant[i] = inv->constant[i];
    return BP_OK;
}

enum bp_status bp_prepared_count_plans(struct bp_prepared *p)
{
    enum bp_status status = p->plan_bytes ? bp_memory_plan_reserve(p->device, p->plan_bytes)
                                          : BP_OK;

    if (status == BP_OK) p->counted = p->plan_bytes;
    else status = bp_error(status, "%s: no memory for its plan: %s", p->row->info.name,
                           bp_error_message());
    return status;
}

/* Whether the elements of the output fill all its bytes from the first one. This holds for each
 * output that the core creates. */
static bool is_dense(const struct bp_prepared *p)
{
    const struct bp_view *view = &p->type[p->n_in].view;

    return view->rank != BP_ABSENT && (!p->given || !(view->flags & BP_VIEW_STRIDED));
}

/* Sets the members for the fast path if fast.c can run the call. */
static void prepared_set_fast(struct bp_prepared *p)
{
    const struct bp_step *step = &p->first;

    if (!p->simple || p->step != step || !p->n_in || p->n_in > BP_FAST_IN || p->n_out != 1 ||
        !p->row->plain || step->plan.workspace || step->attrs || p->bound ||
        !is_dense(p))
        return;
    for (uint32_t i = 0; i < p->n_in; i++)
        if (p->type[i].view.rank == BP_ABSENT) return;
    for (uint32_t i = 0; i <= p->n_in; i++) p->sig[i] = p->type[i].sig;
    p->bytes = p->type[p->n_in].bytes;
    for (uint32_t i = 0; i < p->n_in; i++) p->span[i] = bp_view_span(&p->type[i].view);
    p->fast = p->magic;
    if (p->row->simple && !p->given && p->want == 1) p->eager = p->row;
}

enum bp_status bp_prepared_make_empty(const struct bp_invocation *inv,
                                      struct bp_prepared **out_prepared)
{
    struct bp_prepared *p = make_empty(inv);
    enum bp_status status = p ? check_held(p) : BP_ERR_MEMORY;

    if (status == BP_OK) *out_prepared = p;
    else if (p) bp_prepared_release(p);
    return status;
}

enum bp_status bp_prepared_make(struct bp_invocation *inv, struct bp_prepared **out_prepared)
{
    uint64_t began = bp_profile_begin();
    struct bp_prepared *p = make_empty(inv);
    enum bp_status status;

    if (!p) return BP_ERR_MEMORY;
    status = check_held(p);
    if (status == BP_OK) status = find_steps(p, inv);
    forget_addresses(p);
    if (status == BP_OK) status = bind_constants(p, inv);
    if (status == BP_OK) status = bp_prepared_count_plans(p);
    if (status) {
        bp_prepared_release(p);
        return status;
    }
    p->attrs = inv->attrs;
    inv->attrs = NULL;
    prepared_set_fast(p);
    *out_prepared = p;
    if (began)
        bp_device_profile_put(p->device, NULL, BP_PROFILE_COMPILE, p->row->info.name, began);
    return BP_OK;
}

/* An output that updates an input is always that input, whether it is wanted or not. Returns the
 * bits of those that are not wanted. */
static uint32_t take_updates(struct bp_invocation *inv)
{
    const struct bp_opinfo *op = &inv->row->info;
    uint32_t unasked = 0;

    for (uint32_t i = 0; inv->row->updates && i < op->n_out; i++) {
        const struct bp_port *port = &op->out[i];
        if (port->kind != BP_PORT_UPDATE || !bp_invocation_in(inv, (uint32_t)port->share))
            continue;
        inv->given[i] = bp_invocation_in(inv, (uint32_t)port->share);
        if (!(inv->want >> i & 1)) unasked |= 1u << i;
        inv->want |= 1u << i;
    }
    return unasked;
}

/* Checks the options of a call that is to be prepared. */
static enum bp_status check_options(const struct bp_invocation *inv,
                                    const struct bp_prepare_options *o)
{
    const char *op = inv->row->info.name;

    if (o->flags & ~(uint32_t)BP_PREPARE_DECOMPOSE)
        return bp_error(BP_ERR_INVALID, "%s: options->flags is %u: expected BP_PREPARE_EXPAND or 0",
                        op, (unsigned)o->flags);
    if (!(o->flags & BP_PREPARE_DECOMPOSE)) return BP_OK;
    if (!inv->row->decompose)
        return bp_error(BP_ERR_INVALID, "%s is not defined in other operators", op);
    if (inv->kernel)
        return bp_error(BP_ERR_INVALID, "%s: BP_PREPARE_EXPAND with the kernel '%.64s'", op,
                        inv->kernel);
    return BP_OK;
}

/* Prepares a call for `device`, on which all of its tensors must be. */
static enum bp_status prepared_create(struct bp_device *device, const struct bp_call *call,
                                      const struct bp_prepare_options *o,
                                      struct bp_prepared **out_prepared)
{
    const uint8_t *want = o->want || o->n_want ? o->want : bp_want_all;
    struct bp_holds holds = {.n = 0}; /* plans may read constants */
    const struct bp_opdef *row;
    struct bp_invocation inv;
    enum bp_status status;
    uint32_t unasked;

    TRY(bp_call_check(call));
    row = bp_opdef_find(call->op);
    if (row) TRY(bp_host_refuse(row, call->in, call->n_in));
    TRY(bp_invocation_init(&inv, device, NULL, call, want, o->n_want));
    status = check_options(&inv, o);
    if (status) {
        bp_invocation_finish(&inv);
        return status;
    }
    inv.prefer = o->step_kernel;
    inv.decompose = o->flags & BP_PREPARE_DECOMPOSE;
    unasked = take_updates(&inv);
    for (uint32_t i = 0; i < call->n_in && !status; i++)
        if (call->in[i].at) status = bp_holds_add(&holds, call->in[i].at, call->in[i].n);
    if (status == BP_OK) status = bp_prepared_make(&inv, out_prepared);
    bp_holds_end(&holds);
    bp_invocation_finish(&inv);
    if (status) return status;
    (*out_prepared)->unasked = unasked;
    (*out_prepared)->keeps_device = true;
    bp_device_retain(device);
    return BP_OK;
}

enum bp_status bp_prepared_create(struct bp_device *device, const struct bp_call *call,
                                  const uint8_t *want, size_t n_want,
                                  struct bp_prepared **out_prepared)
{
    struct bp_prepare_options o = {.size = sizeof o, .want = want, .n_want = n_want};

    if (!bp_device_is(device)) return bp_not_a("device");
    if (!out_prepared) return bp_error(BP_ERR_INVALID, "bp_prepared_create: out_prepared is NULL");
    return prepared_create(device, call, &o, out_prepared);
}

enum bp_status bp_prepared_create_with(struct bp_device *device, const struct bp_call *call,
                                       const struct bp_prepare_options *options,
                                       struct bp_prepared **out_prepared)
{
    struct bp_prepare_options o = {.size = sizeof o};

    if (!bp_device_is(device)) return bp_not_a("device");
    if (!out_prepared)
        return bp_error(BP_ERR_INVALID, "bp_prepared_create_with: out_prepared is NULL");
    if (options && (options->size < sizeof o || options->size > 4096))
        return bp_error(BP_ERR_INVALID, "bp_prepared_create_with: options->size is %zu: set it to "
                        "sizeof(struct bp_prepare_options)", options->size);
    if (options) o = *options;
    return prepared_create(device, call, &o, out_prepared);
}
