/* SPDX-License-Identifier: Apache-2.0 */
/* emulate.c: plans calls for kernels that take less than an app may pass, with steps that the core
 * runs itself: copies where assign has no kernel, expanded inputs, 32-bit indices. */
#include "plan.h"

#include <backplane/attrs.h>

#include <stdlib.h>
#include <string.h>

/* Adds a step of the core itself, with the counter `kind`. */
static enum bp_status emulate_step(struct bp_planner *b, const struct bp_invocation *inv,
                                   const struct bp_operand *in, const struct bp_operand *out,
                                   uint32_t kind, struct bp_transform **out_transform)
{
    struct bp_transform *transform = calloc(1, sizeof *transform);
    struct bp_step *step = NULL;
    enum bp_status status = transform ? bp_plan_add_step(b, inv, in, out, &step)
                                      : bp_plan_no_memory(inv);

    if (status) {
        free(transform);
        return status;
    }
    step->kind = kind;
    step->transform = transform;
    bp_plan_set_launch(step, inv);
    *out_transform = transform;
    return BP_OK;
}

enum bp_status bp_plan_copy(struct bp_planner *b, const struct bp_invocation *inv,
                            const struct bp_operand *in, const struct bp_operand *out)
{
    const struct bp_view *x = bp_plan_view_of(b->p, *in), *y = bp_plan_view_of(b->p, *out);
    struct bp_transform *transform;
    struct bp_move move = {0};

    if (y->count)
        bp_move_init(&move, y->rank, y->shape, y->stride, x->stride, bp_dtype_bits(y->dtype) / 8);
    TRY(emulate_step(b, inv, in, out, BP_FALLBACK_COPY, &transform));
    transform->move = move;
    transform->waits = bp_transfer_within_waits(&move);
    return BP_OK;
}

/* Makes a view of the shape `like` of an operand that broadcasts to it: strides are 0 where it
 * repeats. */
static enum bp_status emulate_view(struct bp_planner *b, const struct bp_invocation *inv,
                                   const struct bp_view *like, struct bp_operand of,
                                   struct bp_operand *out_operand)
{
    const struct bp_view *v = bp_plan_view_of(b->p, of);
    int64_t stride[BP_RANK_MAX];
    uint32_t new_axes = like->rank - v->rank;

    for (uint32_t i = 0; i < like->rank; i++) {
        bool repeats = i < new_axes || v->shape[i - new_axes] != like->shape[i];
        stride[i] = repeats ? 0 : v->stride[i - new_axes];
    }
    TRY(bp_plan_add_dense(b, inv, like, v->dtype, out_operand));
    bp_plan_set_view(b->p, *out_operand, of, 0, stride);
    return BP_OK;
}

static enum bp_status expand_inputs(struct bp_planner *b, struct bp_invocation *inv,
                                    const struct bp_operand *in, const struct bp_operand *out)
{
    struct bp_operand wide[BP_FLAT_MAX];

    memcpy(wide, in, inv->n_in * sizeof *in);
    for (uint32_t i = 0; i < inv->n_in; i++) {
        const struct bp_view *v = bp_plan_view_of(b->p, in[i]), *z = bp_plan_view_of(b->p, *out);
        if (v && (v->rank != z->rank || !bp_same_extents(z->rank, v->shape, z->shape)))
            TRY(emulate_view(b, inv, z, in[i], &wide[i]));
    }
    bp_plan_set_inputs(b, inv, wide);
    return b->call(b, inv, wide, out);
}

/* Runs a plan on a copy of the invocation, and removes its steps if it is no path. */
static enum bp_status emulate_try(struct bp_planner *b, const struct bp_invocation *inv,
                                  const struct bp_operand *in, const struct bp_operand *out,
                                  enum bp_status (*plan)(struct bp_planner *b,
                                                         struct bp_invocation *inv,
                                                         const struct bp_operand *in,
                                                         const struct bp_operand *out))
{
    struct bp_plan_mark here = {b->p->n_step, b->p->n_temp};
    struct bp_invocation *copy = bp_plan_copy_call(inv);
    enum bp_status status;

    if (!copy) return bp_plan_no_memory(inv);
    status = plan(b, copy, in, out);
    if (status) bp_plan_rewind(b->p, here);
    free(copy);
    return status;
}

/* The views cost nothing for a kernel that takes strides; for others the layout is changed next. */
enum bp_status bp_plan_expand(struct bp_planner *b, const struct bp_invocation *inv,
                              const struct bp_operand *in, const struct bp_operand *out)
{
    if (!bp_select_broadcasts(inv, bp_plan_view_of(b->p, *out)) ||
        !bp_select_has(inv, BP_KERNEL_SAME_SHAPE))
        return BP_ERR_NO_KERNEL;
    return emulate_try(b, inv, in, out, expand_inputs);
}

/* Converts by kernels of the device: clip, so that no index wraps, then cast. */
static enum bp_status narrow_by_kernels(struct bp_planner *b, struct bp_invocation *inv,
                                        const struct bp_operand *from,
                                        const struct bp_operand *narrow)
{
    struct bp_clip_attrs clip = *(const struct bp_clip_attrs *)bp_opdef[BP_ROW_clip].info.defaults;
    struct bp_cast_attrs cast = *(const struct bp_cast_attrs *)bp_opdef[BP_ROW_cast].info.defaults;
    struct bp_operand clipped;

    clip.min = INT32_MIN;
    clip.max = INT32_MAX;
    cast.to = BP_I32;
    TRY(bp_plan_add_dense(b, inv, bp_plan_view_of(b->p, *from), BP_I64, &clipped));
    TRY(bp_plan_unary(b, inv, BP_ROW_clip, &clip, *from, clipped));
    return bp_plan_unary(b, inv, BP_ROW_cast, &cast, clipped, *narrow);
}

/* Converts without a clip: each index fits. */
static enum bp_status widen_by_kernel(struct bp_planner *b, struct bp_invocation *inv,
                                      const struct bp_operand *narrow, const struct bp_operand *to)
{
    struct bp_cast_attrs cast = *(const struct bp_cast_attrs *)bp_opdef[BP_ROW_cast].info.defaults;

    cast.to = BP_I64;
    return bp_plan_unary(b, inv, BP_ROW_cast, &cast, *narrow, *to);
}

/* Adds the conversion of one operand to another dtype: by the device's kernels if they can, else on
 * the host. */
static enum bp_status convert_indices(struct bp_planner *b, struct bp_invocation *inv,
                                      const struct bp_operand *from, const struct bp_operand *to)
{
    bool widens = bp_plan_view_of(b->p, *to)->dtype == BP_I64;
    struct bp_transform *transform;
    struct bp_invocation *one;
    enum bp_status status = emulate_try(b, inv, from, to,
                                        widens ? widen_by_kernel : narrow_by_kernels);

    if (!bp_plan_is_dead_end(status)) return status;
    one = bp_plan_copy_call(inv);
    if (!one) return bp_plan_no_memory(inv);
    one->row = &bp_opdef[BP_ROW_cast];
    one->n_in = one->n_out = one->want = one->in_at[1] = one->out_at[1] = 1;
    one->in_at[0] = one->out_at[0] = 0;
    status = emulate_step(b, one, from, to, BP_FALLBACK_INDEX, &transform);
    free(one);
    if (status == BP_OK) transform->indices = transform->waits = true;
    return status;
}

/* Whether an operand has i64 where the call, whose indices have become i32, has i32. */
static bool narrow_changes(const struct bp_planner *b, const struct bp_invocation *inv,
                           const struct bp_port *port, struct bp_operand o)
{
    const struct bp_view *v = bp_plan_view_of(b->p, o);

    return v && v->dtype == BP_I64 && inv->dtype[port->var] == BP_I32;
}

/* Replaces inputs and outputs of i64 by temporaries of i32, and converts the inputs. */
static enum bp_status narrow_operands(struct bp_planner *b, struct bp_invocation *inv,
                                      struct bp_operand *in, struct bp_operand *out)
{
    const struct bp_opinfo *op = &inv->row->info;

    for (uint32_t port = 0; port < op->n_in; port++)
        for (uint32_t i = inv->in_at[port]; i < inv->in_at[port + 1]; i++) {
            struct bp_operand from = in[i];
            if (!narrow_changes(b, inv, &op->in[port], from)) continue;
            TRY(bp_plan_add_dense(b, inv, bp_plan_view_of(b->p, from), BP_I32, &in[i]));
            TRY(convert_indices(b, inv, &from, &in[i]));
        }
    for (uint32_t i = 0; i < inv->n_out; i++) {
        const struct bp_port *port = &op->out[bp_out_port(inv->row, inv->out_at, i)];
        if (!narrow_changes(b, inv, port, out[i])) continue;
        TRY(bp_plan_add_dense(b, inv, bp_plan_view_of(b->p, out[i]), BP_I32, &out[i]));
    }
    bp_plan_set_inputs(b, inv, in);
    return BP_OK;
}

static enum bp_status narrow_call(struct bp_planner *b, struct bp_invocation *inv,
                                  const struct bp_operand *in, const struct bp_operand *out)
{
    struct bp_operand narrow_in[BP_FLAT_MAX], narrow_out[BP_FLAT_MAX];
    uint32_t before = b->kind;
    enum bp_status status;

    memcpy(narrow_in, in, inv->n_in * sizeof *in);
    memcpy(narrow_out, out, inv->n_out * sizeof *out);
    b->kind = BP_FALLBACK_INDEX;
    status = narrow_operands(b, inv, narrow_in, narrow_out);
    b->kind = before;
    if (status == BP_OK) status = b->call(b, inv, narrow_in, narrow_out);
    b->kind = BP_FALLBACK_INDEX;
    for (uint32_t i = 0; i < inv->n_out && status == BP_OK; i++)
        if (narrow_out[i].kind != out[i].kind || narrow_out[i].index != out[i].index)
            status = convert_indices(b, inv, &narrow_out[i], &out[i]);
    b->kind = before;
    return status;
}

/* Whether every number that the call compares with an index fits into 32 bits, so that the ends of
 * i32 are no valid index and stand for all values beyond: extents, and attributes such as the
 * number of a padding row. If the call returns indices, each of them must fit too: none is above
 * the number of elements of an input. */
static bool narrow_is_exact(const struct bp_invocation *inv, bool returns)
{
    const struct bp_opinfo *op = &inv->row->info;

    for (uint32_t i = 0; i < inv->n_in; i++) {
        if (!inv->in[i]) continue;
        if (returns && inv->in[i]->count > INT32_MAX) return false;
        for (uint32_t a = 0; a < inv->in[i]->rank; a++)
            if (inv->in[i]->shape[a] >= INT32_MAX) return false;
    }
    for (uint32_t i = 0; i < op->n_attr; i++) {
        int64_t value;
        if (op->attr[i].kind != BP_ATTR_I64) continue;
        memcpy(&value, (const char *)inv->attrs + op->attr[i].offset, sizeof value);
        if (value >= INT32_MAX || value <= INT32_MIN) return false;
    }
    return true;
}

/* Whether the inputs of the type variable I are indices, which are valid in a range only.
 * npair_loss compares its labels with each other; a plugin's own operator may do so, too. */
static bool narrow_takes(const struct bp_invocation *inv)
{
    const struct bp_opinfo *op = &inv->row->info;

    if (!(inv->bound >> BP_VAR_I & 1) || inv->dtype[BP_VAR_I] != BP_I64 ||
        !(op->types[BP_VAR_I] >> BP_I32 & 1) || inv->row == &bp_opdef[BP_ROW_npair_loss] ||
        strchr(op->name, '.'))
        return false;
    for (uint32_t port = 0; port < op->n_out; port++)
        if (op->out[port].var == BP_VAR_I) return false;
    return true;
}

/* Makes an attribute that names the dtype of the returned indices i32. *out_own: a copy of the
 * attributes, which the caller frees; NULL if the operator has no such attribute. */
static enum bp_status narrow_attrs(struct bp_invocation *inv, void **out_own)
{
    const struct bp_opinfo *op = &inv->row->info;
    const int64_t narrow = BP_I32;

    *out_own = NULL;
    for (uint32_t i = 0; i < op->n_attr; i++) {
        if (op->attr[i].kind != BP_ATTR_DTYPE) continue;
        if (inv->row->has_run) return BP_ERR_NO_KERNEL; /* a copy would not have a run's values */
        TRY(bp_attrs_copy(op, inv->attrs, out_own));
        memcpy((char *)*out_own + op->attr[i].offset, &narrow, sizeof narrow);
        inv->attrs = *out_own;
        return BP_OK;
    }
    return BP_OK;
}

static enum bp_status narrow_plan(struct bp_planner *b, struct bp_invocation *inv,
                                  const struct bp_operand *in, const struct bp_operand *out)
{
    uint32_t returned = bp_opinfo_index_output(&inv->row->info);
    bool returns = returned < BP_VAR_COUNT && inv->dtype[returned] == BP_I64;
    bool takes = narrow_takes(inv);
    void *attrs = NULL;
    enum bp_status status = BP_OK;

    if ((!takes && !returns) || !narrow_is_exact(inv, returns)) return BP_ERR_NO_KERNEL;
    if (takes) inv->dtype[BP_VAR_I] = BP_I32;
    if (returns) {
        inv->dtype[returned] = BP_I32;
        status = narrow_attrs(inv, &attrs);
    }
    if (status == BP_OK)
        status = bp_select_has(inv, 0) ? narrow_call(b, inv, in, out) : BP_ERR_NO_KERNEL;
    free(attrs);
    return status;
}

enum bp_status bp_plan_narrow(struct bp_planner *b, const struct bp_invocation *inv,
                              const struct bp_operand *in, const struct bp_operand *out)
{
    if (!(inv->device->properties.dtypes >> BP_I32 & 1)) return BP_ERR_NO_KERNEL;
    return emulate_try(b, inv, in, out, narrow_plan);
}
