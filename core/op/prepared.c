/* SPDX-License-Identifier: Apache-2.0 */
/* prepared.c: prepared calls as the app sees them: made, checked against tensors, run, ended. */
#include "prepared.h"

#include "../random/generator.h"
#include "build.h"

#include <stdlib.h>
#include <string.h>

/* Types of all ports; outputs as given, or dense. */
static void sign(struct bp_typed_view *type, const struct bp_device *device)
{
    type->view.device = (uint16_t)device->index;
    type->sig = bp_tensor_sign(device, &type->view);
    type->bytes = (uint64_t)type->view.count * (bp_dtype_bits(type->view.dtype) / 8);
}

/* A new output, dense; in the order of axes that an input has, where the operator keeps that. */
static void make_type(struct bp_typed_view *type, const struct bp_site *site, uint32_t i)
{
    const struct bp_type *out = &site->out[i];

    bp_typed_view_dense(type, out);
    for (uint32_t k = 0; k < site->row->keeps && k < site->n_in; k++) {
        if (!site->in[k] || !bp_strides_like(out->rank, out->shape, site->in[k], type->stride))
            continue;
        if (bp_is_contiguous(out->rank, out->shape, type->stride) || !bp_select_strided(site))
            bp_type_strides(out->rank, type->shape, type->stride);
        else type->view.flags |= BP_VIEW_STRIDED;
        return;
    }
}

static void fill_types(struct bp_prepared *p, const struct bp_site *site)
{
    for (uint32_t i = 0; i < p->n_in; i++) {
        p->type[i].view.rank = BP_ABSENT;
        if (!site->in[i]) continue;
        bp_typed_view_init(&p->type[i], site->in[i]);
        sign(&p->type[i], site->device);
        if (!(site->in[i]->flags & BP_VIEW_CONSTANT)) continue;
        p->type[i].view.data = site->in[i]->data; /* while steps are built */
        p->type[i].view.memory = site->in[i]->memory;
    }
    for (uint32_t i = 0; i < p->n_out; i++) {
        struct bp_typed_view *type = &p->type[p->n_in + i];
        type->view.rank = BP_ABSENT;
        if (!bp_site_wants(site, i)) continue;
        if (site->given[i]) bp_typed_view_init(type, site->given[i]);
        else make_type(type, site, i);
        if (site->given[i] && !p->row->varies) p->given |= 1u << i;
        sign(type, site->device);
    }
}

static const struct bp_port *out_port(const struct bp_prepared *p, uint32_t i)
{
    return &p->row->info.out[bp_out_port(p->row, p->out_at, i)];
}

/* Results are made without asking the device again. */
static enum bp_status check_held(const struct bp_prepared *p)
{
    for (uint32_t i = 0; i < p->n_out; i++) {
        const struct bp_view *v = &p->type[p->n_in + i].view;
        if (v->rank != BP_ABSENT && !(p->device->properties.dtypes >> v->dtype & 1))
            return bp_error(BP_ERR_UNSUPPORTED, "%s: output %s: %s does not hold %s",
                            p->row->info.name, out_port(p, i)->name, p->device->name,
                            bp_dtype_name(v->dtype));
    }
    return BP_OK;
}

static struct bp_prepared *allocate(const struct bp_site *site)
{
    size_t n = site->n_in + site->n_out, size = sizeof(struct bp_prepared);
    struct bp_prepared *p;

    size = (size + n * sizeof *p->type + BP_LINE - 1) / BP_LINE * BP_LINE;
    p = aligned_alloc(BP_LINE, size);
    if (!p) {
        bp_build_no_memory(site);
        return NULL;
    }
    memset(p, 0, size);
    p->step = &p->first;
    return p;
}

static void give_back(struct bp_pending *pending)
{
    bp_prepared_free(
        (struct bp_prepared *)((char *)pending - offsetof(struct bp_prepared, pending)));
}

static struct bp_prepared *make_empty(const struct bp_site *site)
{
    struct bp_prepared *p = allocate(site);

    if (!p) return NULL;
    p->magic = bp_magic(BP_MAGIC_PREPARED);
    atomic_init(&p->refs, 1);
    p->pending.release = give_back;
    p->device = site->device;
    p->row = site->row;
    p->n_in = site->n_in;
    p->n_out = site->n_out;
    p->want = site->want;
    p->in_place = site->in_place;
    memcpy(p->in_at, site->in_at, sizeof p->in_at);
    memcpy(p->out_at, site->out_at, sizeof p->out_at);
    fill_types(p, site);
    return p;
}

/* The call's own tensors, in their order. */
static enum bp_status find_steps(struct bp_prepared *p, const struct bp_site *site)
{
    struct bp_operand in[BP_FLAT_MAX], out[BP_FLAT_MAX];
    struct bp_builder b = {p, in, site->constant, 0, BP_FALLBACK_NONE};

    for (uint32_t i = 0; i < p->n_in; i++)
        in[i] = (struct bp_operand){site->in[i] ? BP_OPERAND_IN : BP_OPERAND_NONE, (uint16_t)i};
    for (uint32_t i = 0; i < p->n_out; i++)
        out[i] = (struct bp_operand){bp_site_wants(site, i) ? BP_OPERAND_OUT : BP_OPERAND_NONE,
                                     (uint16_t)i};
    TRY(bp_build(&b, site, in, out));
    for (uint32_t i = 0; i < p->n_step; i++) { /* steps stay where they are from now on */
        p->step[i].launch.in_at = p->step[i].in_at;
        p->step[i].launch.out_at = p->step[i].out_at;
    }
    p->simple = p->n_step == 1 && p->step->kernel && !p->step->in;
    return BP_OK;
}

/* Where constants lie is for plans alone to know: a prepared call may outlive them. */
static void forget_addresses(struct bp_prepared *p)
{
    for (uint32_t i = 0; i < p->n_in; i++) p->type[i].view.data = p->type[i].view.memory = NULL;
    for (uint32_t i = 0; i < p->n_temp; i++)
        p->temp[i]->type.view.data = p->temp[i]->type.view.memory = NULL;
}

/* A plan may have read inputs that are constant: it is good for these only. */
static enum bp_status bind_constants(struct bp_prepared *p, const struct bp_site *site)
{
    bool any = false;

    for (uint32_t i = 0; i < p->n_in; i++)
        any |= site->constant[i].id != 0;
    for (uint32_t i = 0; any && i < p->n_step; i++) p->bound |= p->step[i].plan.plan != NULL;
    if (!p->bound) return BP_OK;
    p->constant = calloc(p->n_in, sizeof *p->constant);
    if (!p->constant) return bp_build_no_memory(site);
    for (uint32_t i = 0; i < p->n_in; i++) p->constant[i] = site->constant[i];
    return BP_OK;
}

static enum bp_status count_plans(struct bp_prepared *p)
{
    enum bp_status status = p->plan_bytes ? bp_memory_plan_take(p->device, p->plan_bytes) : BP_OK;

    if (status == BP_OK) p->counted = p->plan_bytes;
    else status = bp_error(status, "%s: no memory for its plan: %s", p->row->info.name,
                           bp_error_message());
    return status;
}

enum bp_status bp_prepared_make(struct bp_site *site, struct bp_prepared **out_prepared)
{
    struct bp_prepared *p = make_empty(site);
    enum bp_status status;

    if (!p) return BP_ERR_MEMORY;
    status = check_held(p);
    if (status == BP_OK) status = find_steps(p, site);
    forget_addresses(p);
    if (status == BP_OK) status = bind_constants(p, site);
    if (status == BP_OK) status = count_plans(p);
    if (status) {
        bp_prepared_release(p);
        return status;
    }
    p->attrs = site->attrs;
    site->attrs = NULL;
    bp_prepared_rate(p);
    *out_prepared = p;
    return BP_OK;
}

enum bp_status bp_prepared_make_dense(struct bp_site *site, struct bp_prepared **out_prepared)
{
    struct bp_typed_view *dense = calloc(site->n_in + 1, sizeof *dense);
    enum bp_status status;

    if (!dense) return bp_build_no_memory(site);
    for (uint32_t i = 0; i < site->n_in; i++) {
        const struct bp_view *v = site->in[i];
        struct bp_type type = {.dtype = v ? v->dtype : 0, .rank = v ? v->rank : 0};
        if (!v) continue;
        memcpy(type.shape, v->shape, v->rank * sizeof *v->shape);
        bp_typed_view_dense(&dense[i], &type);
        dense[i].view.device = (uint16_t)site->device->index;
        site->in[i] = &dense[i].view;
        site->constant[i] = (struct bp_constant){0};
    }
    status = bp_prepared_make(site, out_prepared);
    free(dense);
    return status;
}

/* An output that updates an input is that input, whether it is asked for or not. Result: bit of
 * each that is not. */
static uint32_t take_updates(struct bp_site *site)
{
    const struct bp_opinfo *op = &site->row->info;
    uint32_t unasked = 0;

    for (uint32_t i = 0; site->row->updates && i < op->n_out; i++) {
        const struct bp_port *port = &op->out[i];
        if (port->kind != BP_PORT_UPDATE || !bp_site_in(site, (uint32_t)port->share)) continue;
        site->given[i] = bp_site_in(site, (uint32_t)port->share);
        if (!(site->want >> i & 1)) unasked |= 1u << i;
        site->want |= 1u << i;
    }
    return unasked;
}

/* What options say of a call that is to be prepared. */
static enum bp_status check_options(const struct bp_site *site,
                                    const struct bp_prepare_options *o)
{
    const char *op = site->row->info.name;

    if (o->flags & ~(uint32_t)BP_PREPARE_EXPAND)
        return bp_error(BP_ERR_INVALID, "%s: options->flags is %u: expected BP_PREPARE_EXPAND or 0",
                        op, (unsigned)o->flags);
    if (!(o->flags & BP_PREPARE_EXPAND)) return BP_OK;
    if (!site->row->expand)
        return bp_error(BP_ERR_INVALID, "%s is not defined in other operators", op);
    if (site->kernel)
        return bp_error(BP_ERR_INVALID, "%s: BP_PREPARE_EXPAND with the kernel '%.64s'", op,
                        site->kernel);
    return BP_OK;
}

/* The device of a call is that of its first tensor, for a call without tensors the given one. */
static enum bp_status create(struct bp_device *device, const struct bp_call *call,
                             const struct bp_prepare_options *o, struct bp_prepared **out_prepared)
{
    const uint8_t *want = o->want || o->n_want ? o->want : bp_want_all;
    const struct bp_op_row *row;
    struct bp_site site;
    enum bp_status status;
    uint32_t unasked;

    TRY(bp_call_check(call));
    row = bp_row_find(call->op);
    if (row) TRY(bp_host_refuse(row, call->in, call->n_in));
    TRY(bp_site_init(&site, device, NULL, call, want, o->n_want));
    status = check_options(&site, o);
    if (status) {
        bp_site_finish(&site);
        return status;
    }
    site.prefer = o->step_kernel;
    site.expand = o->flags & BP_PREPARE_EXPAND;
    unasked = take_updates(&site);
    status = bp_prepared_make(&site, out_prepared);
    bp_site_finish(&site);
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
    return create(device, call, &o, out_prepared);
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
    return create(device, call, &o, out_prepared);
}

void bp_step_finish(struct bp_prepared *p, struct bp_step *step)
{
    struct bp_plugin_entry *entry = p->device->entry;

    if (step->plan.plan && step->kernel->plan_destroy)
        step->kernel->plan_destroy(entry->self, bp_kernel_own(entry, step->kernel),
                                   step->plan.plan);
    if (step->elsewhere) bp_prepared_release(step->elsewhere);
    free(step->attrs);
    free(step->in);
}

void bp_prepared_free(struct bp_prepared *p)
{
    if (p->counted) bp_memory_plan_give(p->device, p->counted);
    for (uint32_t i = 0; i < p->n_step; i++) bp_step_finish(p, &p->step[i]);
    for (uint32_t i = 0; i < p->n_temp; i++) free(p->temp[i]);
    if (p->step != &p->first) free(p->step);
    free(p->temp);
    free(p->constant);
    free(p->attrs);
    free(p);
}

void bp_prepared_release(struct bp_prepared *p)
{
    struct bp_device *device = p->device;
    bool keeps_device = p->keeps_device;

    if (atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) != 1) return;
    p->magic = 0;
    bp_pending_release(device, &p->pending);
    if (keeps_device) bp_device_release(device);
}

void bp_prepared_destroy(struct bp_prepared *p)
{
    if (bp_prepared_is(p)) bp_prepared_release(p);
}

/* The kernel of the call itself, or of its last step. */
const char *bp_prepared_kernel(struct bp_prepared *prepared)
{
    const struct bp_step *step;

    if (!bp_prepared_is(prepared) || !prepared->n_step) return "";
    step = &prepared->step[prepared->n_step - 1];
    return step->kernel ? step->kernel->name : bp_prepared_kernel(step->elsewhere);
}

uint32_t bp_prepared_steps(struct bp_prepared *prepared)
{
    return bp_prepared_is(prepared) ? prepared->n_step : 0;
}

const char *bp_prepared_step(struct bp_prepared *prepared, uint32_t index)
{
    const struct bp_step *step;

    if (!bp_prepared_is(prepared) || index >= prepared->n_step) return "";
    step = &prepared->step[index];
    return step->kernel ? step->kernel->name : bp_prepared_kernel(step->elsewhere);
}

enum bp_status bp_prepared_output(struct bp_prepared *prepared, uint32_t index,
                                  struct bp_tensor_info *out)
{
    struct bp_tensor_info info = {.size = sizeof info};
    const struct bp_view *v;

    if (!bp_prepared_is(prepared)) return bp_not_a("prepared call");
    if (index >= prepared->n_out)
        return bp_error(BP_ERR_INVALID, "%s: there is no output %u", prepared->row->info.name,
                        index);
    v = &prepared->type[prepared->n_in + index].view;
    if (v->rank == BP_ABSENT || (index < BP_PORT_MAX && prepared->unasked >> index & 1))
        return bp_error(BP_ERR_INVALID, "%s: output %u was not asked for",
                        prepared->row->info.name, index);
    info.device = prepared->device;
    info.shape = v->shape;
    info.stride = v->stride;
    info.count = v->count;
    info.bytes = (uint64_t)v->count * (bp_dtype_bits(v->dtype) / 8);
    info.dtype = v->dtype;
    info.rank = v->rank;
    info.contiguous = !(v->flags & BP_VIEW_STRIDED);
    return bp_answer(out, &info, sizeof info);
}

static enum bp_status wrong_type(const struct bp_prepared *p, const char *what, size_t i,
                                 const struct bp_tensor *t, const struct bp_view *expected)
{
    char got[BP_TYPE_TEXT], want[BP_TYPE_TEXT];

    if (t->view.space != expected->space)
        return bp_error(BP_ERR_INVALID, "%s: %s %zu is in memory space %u, prepared for %u",
                        p->row->info.name, what, i, t->view.space, expected->space);
    return bp_error(
        BP_ERR_INVALID, "%s: %s %zu is %s%s%s, prepared for %s%s%s", p->row->info.name, what, i,
        bp_type_text(t->view.dtype, t->view.rank, t->shape, got, sizeof got),
        t->view.flags & BP_VIEW_STRIDED ? " strided" : "",
        t->view.flags & BP_VIEW_CONSTANT ? " frozen" : "",
        bp_type_text(expected->dtype, expected->rank, expected->shape, want, sizeof want),
        expected->flags & BP_VIEW_STRIDED ? " strided" : "",
        expected->flags & BP_VIEW_CONSTANT ? " frozen" : "");
}

/* Tensors against the prepared types. */
static enum bp_status check_types(const struct bp_prepared *p, const char *what,
                                  const struct bp_typed_view *type, struct bp_tensor *const *tensor,
                                  size_t n)
{
    const char *op = p->row->info.name;

    for (size_t i = 0; i < n; i++) {
        const struct bp_view *expected = &type[i].view;
        struct bp_tensor *t = tensor[i];
        if (!t && expected->rank == BP_ABSENT) continue;
        if (t && !bp_tensor_is(t) && bp_was_stale()) return bp_not_a_for(op, "tensor");
        if (!bp_tensor_is(t) || expected->rank == BP_ABSENT)
            return bp_error(BP_ERR_INVALID, "%s: %s %zu: expected %s", op, what, i,
                            expected->rank == BP_ABSENT ? "NULL, as it was prepared"
                                                        : "a tensor");
        if (t->device != p->device)
            return bp_error(BP_ERR_INVALID, "%s: %s %zu is on %s, prepared for %s", op, what, i,
                            t->device ? t->device->name : "no device", p->device->name);
        if (!bp_same_type(&t->view, expected)) return wrong_type(p, what, i, t, expected);
    }
    return BP_OK;
}

static bool same_place(const struct bp_tensor *a, const struct bp_tensor *b)
{
    return a->storage == b->storage && a->offset == b->offset && bp_same_type(&a->view, &b->view);
}

/* An output may be, exactly, the input that the row lets it share, if every step that runs says
 * so; else memory of outputs is their own. */
static bool may_share(const struct bp_prepared *p, const struct bp_tensor *in,
                      const struct bp_tensor *out, uint32_t i, uint32_t o)
{
    const struct bp_port *port = out_port(p, o);

    if (port->share < 0 || i != p->in_at[port->share] || !same_place(in, out)) return false;
    return port->kind == BP_PORT_UPDATE ||
           (p->simple && p->step[0].kernel->flags & BP_KERNEL_IN_PLACE) ||
           (!p->simple && p->in_place);
}

enum bp_status bp_prepared_check_output(const struct bp_prepared *p, struct bp_tensor *const *in,
                                        struct bp_tensor *const *out, uint32_t o)
{
    const struct bp_opinfo *op = &p->row->info;
    const struct bp_port *port = out_port(p, o);

    if (port->kind == BP_PORT_UPDATE &&
        (!in[p->in_at[port->share]] || !same_place(in[p->in_at[port->share]], out[o])))
        return bp_error(BP_ERR_INVALID, "%s: output %s must be input %s itself, which it updates",
                        op->name, port->name, op->in[port->share].name);
    TRY(bp_tensor_check_write(op->name, port->name, out[o]));
    if (out[o]->view.flags & BP_VIEW_STRIDED && bp_view_overlaps_itself(&out[o]->view))
        return bp_error(BP_ERR_INVALID,
                        "%s: output %s may overlap itself: its strides repeat or interleave",
                        op->name, port->name);
    for (uint32_t i = 0; i < p->n_in; i++) {
        if (!in[i] || !bp_tensors_meet(in[i], out[o]) || may_share(p, in[i], out[o], i, o))
            continue;
        return bp_error(BP_ERR_INVALID, "%s: output %s overlaps input %u in memory%s", op->name,
                        port->name, i,
                        port->share >= 0
                            ? "; it may only be the same view as the input that it may share"
                            : "");
    }
    for (uint32_t i = 0; i < o; i++)
        if (out[i] && bp_tensors_meet(out[i], out[o]))
            return bp_error(BP_ERR_INVALID, "%s: outputs %s and %s overlap in memory", op->name,
                            out_port(p, i)->name, port->name);
    return BP_OK;
}

static enum bp_status check_constants(const struct bp_prepared *p, struct bp_tensor *const *in)
{
    for (uint32_t i = 0; p->bound && i < p->n_in; i++)
        if (in[i] && !bp_constant_same(p->constant[i], bp_tensor_constant(in[i])))
            return bp_error(BP_ERR_INVALID,
                            "%s: input %u is another constant than the one it was prepared with",
                            p->row->info.name, i);
    return BP_OK;
}

static enum bp_status check_run(struct bp_prepared *p, struct bp_stream *stream,
                                struct bp_tensor *const *in, size_t n_in,
                                struct bp_tensor *const *out, size_t n_out)
{
    if (!bp_prepared_is(p)) return bp_not_a_for("bp_prepared_run", "prepared call");
    if (!bp_stream_is(stream)) return bp_not_a_for("bp_prepared_run", "stream");
    if (stream->device != p->device)
        return bp_error(BP_ERR_INVALID, "%s: prepared for %s, the stream is of %s",
                        p->row->info.name, p->device->name, stream->device->name);
    if (n_in != p->n_in || n_out != p->n_out)
        return bp_error(BP_ERR_INVALID, "%s: %zu inputs and %zu outputs given, %u and %u prepared",
                        p->row->info.name, n_in, n_out, p->n_in, p->n_out);
    if ((n_in && !in) || (n_out && !out))
        return bp_error(BP_ERR_INVALID, "%s: %s is NULL", p->row->info.name,
                        n_in && !in ? "in" : "out");
    return bp_stream_failed(stream) ? bp_stream_check(stream) : BP_OK;
}

/* With attributes of this run: their own copy, in full length. */
static enum bp_status run_with(struct bp_prepared *p, struct bp_stream *stream,
                               struct bp_tensor *const *in, struct bp_tensor *const *out,
                               const void *attrs)
{
    struct bp_run run = {.attrs = p->attrs};
    void *current = NULL;
    enum bp_status status = BP_OK;

    if (attrs) {
        TRY(bp_attrs_copy(&p->row->info, attrs, &current));
        status = bp_attrs_check_run(&p->row->info, p->attrs, current);
        run.attrs = current;
    }
    if (status == BP_OK) status = bp_run_call(p, stream, in, out, &run);
    free(current);
    return status;
}

/* The inputs that stand for outputs that were not asked for, beside those that were. */
static enum bp_status add_unasked(const struct bp_prepared *p, struct bp_tensor *const *in,
                                  struct bp_tensor *const *out, struct bp_tensor **all)
{
    for (uint32_t i = 0; i < p->n_out; i++) {
        all[i] = out[i];
        if (!(p->unasked >> i & 1)) continue;
        if (out[i])
            return bp_error(BP_ERR_INVALID, "%s: output %u: expected NULL, as it was prepared",
                            p->row->info.name, i);
        all[i] = in[p->in_at[out_port(p, i)->share]];
    }
    return BP_OK;
}

enum bp_status bp_prepared_run_checked(struct bp_prepared *p, struct bp_stream *stream,
                                       struct bp_tensor *const *in, size_t n_in,
                                       struct bp_tensor *const *out, size_t n_out,
                                       const void *attrs)
{
    struct bp_tensor *all[BP_PORT_MAX]; /* no output of a row that updates is of any number */

    TRY(check_run(p, stream, in, n_in, out, n_out));
    TRY(check_types(p, "input", p->type, in, n_in));
    if (p->unasked) {
        TRY(add_unasked(p, in, out, all));
        out = all;
    }
    TRY(check_types(p, "output", p->type + n_in, out, n_out));
    for (uint32_t i = 0; i < n_out; i++)
        if (out[i]) TRY(bp_prepared_check_output(p, in, out, i));
    TRY(check_constants(p, in));
    return run_with(p, stream, in, out, attrs);
}
