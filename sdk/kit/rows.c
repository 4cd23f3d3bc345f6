/* SPDX-License-Identifier: Apache-2.0 */
/* rows.c: makes the steps of a row's call, and reads the values of their arguments; see rows.h. */
#include "rows.h"

#include <stdlib.h>
#include <string.h>

/* The bytes between temporaries: vendors' kernels may read past the end of a tensor, and want
 * aligned addresses. */
enum {
    TEMPORARY_ALIGN = 512,
    TEMPORARY_SLACK = 32,
    STEPS_AT_FIRST = 32
};

void kit_build_prep(struct kit_build *b, void *self, const struct bp_prep *prep)
{
    memset(b, 0, offsetof(struct kit_build, arg));
    b->self = self;
    b->kernel = prep->kernel;
    b->in = prep->in;
    b->out = prep->out;
    b->in_at = prep->in_at;
    b->out_at = prep->out_at;
    b->n_in = prep->n_in;
    b->n_out = prep->n_out;
    b->device = prep->device;
    b->attrs = prep->attrs;
}

void kit_build_launch(struct kit_build *b, const struct bp_launch *launch)
{
    memset(b, 0, offsetof(struct kit_build, arg));
    b->self = launch->self;
    b->kernel = launch->kernel;
    b->in = launch->in;
    b->out = launch->out;
    b->in_at = launch->in_at;
    b->out_at = launch->out_at;
    b->n_in = launch->n_in;
    b->n_out = launch->n_out;
    b->device = launch->device;
    b->attrs = launch->attrs;
    b->seed = launch->seed;
    b->offset = launch->offset;
}

enum bp_status kit_refuse(struct kit_build *b)
{
    if (!b->status) b->status = BP_ERR_UNSUPPORTED;
    return b->status;
}

struct kit_arg kit_as(struct kit_arg arg, enum kit_role role)
{
    arg.role = (uint8_t)role;
    return arg;
}

/* The temporary of which an argument is a part; NULL: it belongs to the call. */
static struct kit_tensor *step_temporary(struct kit_build *b, const struct kit_arg *arg)
{
    const struct kit_arg *at = arg;
    struct kit_tensor *t = NULL;

    for (; at->from == KIT_FROM_TENSOR; at = &t->base) t = &b->tensor[at->at];
    return at->from == KIT_FROM_NONE ? t : NULL;
}

/* Whether an argument is an output of the call, or a part of one. */
static bool step_is_out(const struct kit_build *b, const struct kit_arg *arg)
{
    while (arg->from == KIT_FROM_TENSOR) arg = &b->tensor[arg->at].base;
    return arg->from == KIT_FROM_OUT || arg->from == KIT_FROM_OUTS;
}

static void step_roles(struct kit_build *b, struct kit_arg *arg, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct kit_tensor *t = step_temporary(b, &arg[i]);
        if (arg[i].as > KIT_AS_TENSORS || arg[i].role) continue;
        arg[i].role = t ? (t->written ? KIT_READS : KIT_WRITES)
                        : (step_is_out(b, &arg[i]) ? KIT_WRITES : KIT_READS);
    }
    for (uint32_t i = 0; i < n; i++) {
        struct kit_tensor *t = step_temporary(b, &arg[i]);
        if (t && arg[i].role != KIT_READS) t->written = true;
    }
}

/* Makes room for more steps. */
static enum bp_status step_room(struct kit_build *b, uint64_t more)
{
    uint64_t room = b->n_step + more;
    struct kit_step *step;

    if (more > KIT_STEPS || room > KIT_STEPS) return kit_refuse(b);
    if (room <= b->room) return BP_OK;
    if (room < 2 * (uint64_t)b->room) room = 2 * (uint64_t)b->room;
    if (room < STEPS_AT_FIRST) room = STEPS_AT_FIRST;
    step = realloc(b->step, room * sizeof *step);
    if (!step) return b->status = BP_ERR_MEMORY;
    b->step = step;
    b->room = (uint32_t)room;
    return BP_OK;
}

enum bp_status kit_step(struct kit_build *b, const char *function, const struct kit_arg *arg,
                        uint32_t n)
{
    if (b->status) return b->status;
    if (n > KIT_ARGS - b->n_arg) return kit_refuse(b);
    if (step_room(b, 1)) return b->status;
    memcpy(&b->arg[b->n_arg], arg, n * sizeof *arg);
    b->step[b->n_step] = (struct kit_step){function, &b->arg[b->n_arg], n, b->n_step};
    b->n_step++;
    step_roles(b, &b->arg[b->n_arg], n);
    b->n_arg += n;
    return BP_OK;
}

enum bp_status kit_repeat(struct kit_build *b, uint32_t first, int64_t times)
{
    const uint32_t n = b->n_step - first;

    if (b->status) return b->status;
    if (times < 1 || times > KIT_STEPS) return kit_refuse(b);
    if (step_room(b, (uint64_t)(times - 1) * n)) return b->status;
    for (int64_t i = 1; i < times; i++, b->n_step += n)
        if (n) memcpy(&b->step[b->n_step], &b->step[first], n * sizeof *b->step);
    return BP_OK;
}

enum bp_status kit_build_row(struct kit_build *b, const struct kit_row *row)
{
    return row->build ? row->build(b) : kit_step(b, row->functions, row->arg, row->n);
}

/* Adds a tensor without a place. stride NULL: contiguous. Returns NULL if it does not fit. */
static struct kit_tensor *build_tensor(struct kit_build *b, uint32_t dtype, uint32_t rank,
                                       const int64_t *shape, const int64_t *stride)
{
    struct kit_tensor *t;
    int64_t count = 1;

    if (b->status || b->n_tensor == KIT_TENSORS || rank > KIT_AXES_MAX) {
        kit_refuse(b);
        return NULL;
    }
    t = &b->tensor[b->n_tensor++];
    memset(t, 0, sizeof *t);
    for (uint32_t a = rank; a-- > 0;) {
        t->shape[a] = shape[a];
        t->stride[a] = stride ? stride[a] : count;
        count *= shape[a];
    }
    t->view = (struct bp_view){.shape = t->shape,
                               .stride = t->stride,
                               .count = count,
                               .dtype = (uint8_t)dtype,
                               .rank = (uint8_t)rank};
    return t;
}

static struct kit_arg build_tensor_arg(const struct kit_build *b, const struct kit_tensor *t)
{
    return t ? KIT_VALUE({.from = KIT_FROM_TENSOR, .at = (uint16_t)(t - b->tensor)})
             : KIT_VALUE(KIT_NONE);
}

static uint64_t build_item_size(uint32_t dtype)
{
    switch (dtype) {
#define X(NAME, name, number, bits, class) \
    case BP_##NAME: return (bits) / 8;
        BP_DTYPES(X)
#undef X
    default: return 1;
    }
}

struct kit_arg kit_temporary(struct kit_build *b, uint32_t dtype, uint32_t rank,
                             const int64_t *shape)
{
    struct kit_tensor *t = build_tensor(b, dtype, rank, shape, NULL);

    if (!t) return KIT_VALUE(KIT_NONE);
    t->view.data = (void *)(uintptr_t)b->bytes;
    b->bytes += (uint64_t)t->view.count * build_item_size(dtype) + TEMPORARY_SLACK;
    b->bytes = (b->bytes + TEMPORARY_ALIGN - 1) / TEMPORARY_ALIGN * TEMPORARY_ALIGN;
    return build_tensor_arg(b, t);
}

struct kit_arg kit_constant(struct kit_build *b, uint32_t dtype, uint32_t rank,
                            const int64_t *shape, const void *data)
{
    struct kit_tensor *t = build_tensor(b, dtype, rank, shape, NULL);
    uint64_t bytes, all;
    char *held;

    if (!t) return KIT_VALUE(KIT_NONE);
    bytes = (uint64_t)t->view.count * build_item_size(dtype);
    all = (b->held_bytes + bytes + TEMPORARY_SLACK + TEMPORARY_ALIGN - 1) / TEMPORARY_ALIGN *
          TEMPORARY_ALIGN;
    held = realloc(b->held, all);
    if (!held) {
        b->status = BP_ERR_MEMORY;
        return KIT_VALUE(KIT_NONE);
    }
    memset(held + b->held_bytes, 0, all - b->held_bytes);
    if (bytes) memcpy(held + b->held_bytes, data, bytes);
    t->view.data = (void *)(uintptr_t)b->held_bytes;
    t->held = t->written = true;
    b->held = held;
    b->held_bytes = all;
    return build_tensor_arg(b, t);
}

void kit_build_end(struct kit_build *b)
{
    free(b->held);
    free(b->step);
    b->held = NULL;
    b->step = NULL;
    b->room = b->n_step = 0;
}

struct kit_arg kit_temporary_like(struct kit_build *b, const struct bp_view *like)
{
    return kit_temporary(b, like->dtype, like->rank, like->shape);
}

struct kit_arg kit_alias(struct kit_build *b, struct kit_arg base, uint32_t dtype, uint32_t rank,
                         const int64_t *shape, const int64_t *stride, int64_t offset)
{
    struct kit_tensor *t = build_tensor(b, dtype, rank, shape, stride);
    struct kit_arg arg;

    if (!t) return KIT_VALUE(KIT_NONE);
    t->view.data = (void *)(uintptr_t)(uint64_t)offset;
    t->base = base;
    arg = build_tensor_arg(b, t);
    arg.format = base.format;
    arg.role = base.role;
    return arg;
}

struct kit_arg kit_word(struct kit_build *b)
{
    struct kit_tensor *t = build_tensor(b, BP_I32, 1, (const int64_t[]){1}, NULL);

    if (!t) return KIT_VALUE(KIT_NONE);
    t->word = true;
    b->guarded = true;
    return KIT_VALUE(
        {.from = KIT_FROM_TENSOR, .at = (uint16_t)(t - b->tensor), .role = KIT_UPDATES});
}

struct kit_arg kit_extent(struct kit_build *b, uint32_t out)
{
    struct kit_arg arg = kit_temporary(b, BP_I64, 1, (const int64_t[]){1});

    if (b->n_result == KIT_RESULTS) kit_refuse(b);
    if (b->status) return KIT_VALUE(KIT_NONE);
    b->result[b->n_result++] = (struct kit_result){out, arg.at};
    return arg;
}

static bool reshaped_is_contiguous(const struct bp_view *view)
{
    int64_t expected = 1;

    for (uint32_t a = view->rank; a-- > 0;) {
        if (view->shape[a] != 1 && view->stride[a] != expected) return false;
        expected *= view->shape[a];
    }
    return true;
}

/* Gives the axes of `shape` the strides of the axes of the view that have an extent above 1. */
static bool reshaped_strides(const struct bp_view *view, uint32_t rank, const int64_t *shape,
                             int64_t *out_stride)
{
    uint32_t from = 0;

    for (uint32_t a = 0; a < rank; a++) {
        out_stride[a] = 1;
        if (shape[a] == 1) continue;
        while (from < view->rank && view->shape[from] == 1) from++;
        if (from == view->rank || view->shape[from] != shape[a]) return false;
        out_stride[a] = view->stride[from++];
    }
    return true;
}

struct kit_arg kit_reshaped(struct kit_build *b, struct kit_arg base, uint32_t rank,
                            const int64_t *shape)
{
    const struct bp_view *view = kit_arg_view(b, &base);
    int64_t stride[KIT_AXES_MAX];

    if (!view || rank > KIT_AXES_MAX) {
        kit_refuse(b);
        return KIT_VALUE(KIT_NONE);
    }
    if (reshaped_is_contiguous(view)) return kit_alias(b, base, view->dtype, rank, shape, NULL, 0);
    if (reshaped_strides(view, rank, shape, stride))
        return kit_alias(b, base, view->dtype, rank, shape, stride, 0);
    kit_refuse(b);
    return KIT_VALUE(KIT_NONE);
}

struct kit_arg kit_array(struct kit_build *b, const int64_t *at, uint32_t n)
{
    struct kit_arg arg = {
        .from = KIT_FROM_ARRAY, .as = KIT_AS_ARRAY, .at = (uint16_t)b->n_int, .size = (uint16_t)n};

    if (n > KIT_INTS_MAX - b->n_int) {
        kit_refuse(b);
        return KIT_VALUE(KIT_NONE);
    }
    if (n) memcpy(&b->ints[b->n_int], at, n * sizeof *at);
    b->n_int += n;
    return arg;
}

static const struct bp_view *port_view(const struct bp_view *const *views, const uint16_t *at,
                                       uint32_t port)
{
    return at[port] < at[port + 1] ? views[at[port]] : NULL;
}

const struct bp_view *kit_arg_view(const struct kit_build *b, const struct kit_arg *arg)
{
    switch (arg->from) {
    case KIT_FROM_IN:
    case KIT_FROM_IN_DTYPE: return port_view(b->in, b->in_at, arg->at);
    case KIT_FROM_OUT:
    case KIT_FROM_OUT_DTYPE: return port_view(b->out, b->out_at, arg->at);
    case KIT_FROM_INS: return arg->size == 1 ? b->in[b->in_at[arg->at] + arg->i] : NULL;
    case KIT_FROM_OUTS: return arg->size == 1 ? b->out[b->out_at[arg->at] + arg->i] : NULL;
    case KIT_FROM_TENSOR: return &b->tensor[arg->at].view;
    default: return NULL;
    }
}

const struct bp_view *const *kit_arg_views(const struct kit_build *b, const struct kit_arg *arg,
                                           uint32_t *out_n)
{
    const uint16_t *at = (arg->from == KIT_FROM_INS ? b->in_at : b->out_at) + arg->at;

    *out_n = arg->size ? arg->size : (uint32_t)(at[1] - at[0]);
    return (arg->from == KIT_FROM_INS ? b->in : b->out) + at[0] + (arg->size ? arg->i : 0);
}

static const void *arg_field(const struct kit_build *b, const struct kit_arg *arg)
{
    return (const char *)b->attrs + arg->at;
}

static int64_t arg_axis(const struct kit_build *b, const struct kit_arg *arg, int64_t axis)
{
    const struct bp_view *view = port_view(b->in, b->in_at, arg->size);

    return axis < 0 && view ? axis + view->rank : axis;
}

bool kit_arg_is_number(const struct kit_arg *arg)
{
    return arg->from == KIT_FROM_F64 || arg->from == KIT_FROM_NUMBER;
}

int64_t kit_arg_int(const struct kit_build *b, const struct kit_arg *arg)
{
    const struct bp_view *view;

    switch (arg->from) {
    case KIT_FROM_I64: return *(const int64_t *)arg_field(b, arg);
    case KIT_FROM_AXIS: return arg_axis(b, arg, *(const int64_t *)arg_field(b, arg));
    case KIT_FROM_INT: return arg->i;
    case KIT_FROM_IN_DTYPE:
    case KIT_FROM_OUT_DTYPE: view = kit_arg_view(b, arg); return view ? view->dtype : -1;
    default: return (int64_t)kit_arg_number(b, arg);
    }
}

double kit_arg_number(const struct kit_build *b, const struct kit_arg *arg)
{
    switch (arg->from) {
    case KIT_FROM_F64: return *(const double *)arg_field(b, arg);
    case KIT_FROM_NUMBER: return arg->f;
    case KIT_FROM_I64:
    case KIT_FROM_AXIS:
    case KIT_FROM_INT: return (double)kit_arg_int(b, arg);
    default: return 0;
    }
}

/* The axes of an attribute, none of them negative; if it has none, all axes. */
static uint32_t arg_axes(const struct kit_build *b, const struct kit_arg *arg,
                         int64_t out[KIT_INTS_MAX])
{
    const struct bp_dims *dims = arg_field(b, arg);
    const struct bp_view *view = port_view(b->in, b->in_at, arg->size);
    uint32_t n = dims->n ? (uint32_t)dims->n : view ? view->rank : 0;

    for (uint32_t i = 0; i < n && i < KIT_INTS_MAX; i++)
        out[i] = dims->n ? arg_axis(b, arg, dims->at[i]) : (int64_t)i;
    return n;
}

uint32_t kit_arg_ints(const struct kit_build *b, const struct kit_arg *arg,
                      int64_t out[KIT_INTS_MAX])
{
    const struct bp_dims *dims;
    const int64_t *from = NULL;
    uint32_t n = arg->size;

    switch (arg->from) {
    case KIT_FROM_AXES: return arg_axes(b, arg, out);
    case KIT_FROM_DIMS:
        dims = arg_field(b, arg);
        from = dims->at;
        n = dims->n < KIT_INTS_MAX ? (uint32_t)dims->n : KIT_INTS_MAX;
        break;
    case KIT_FROM_INTS: from = arg_field(b, arg); break;
    case KIT_FROM_ARRAY: from = &b->ints[arg->at]; break;
    default: out[0] = kit_arg_int(b, arg); return 1;
    }
    if (n) memcpy(out, from, n * sizeof *out);
    return n;
}

bool kit_row_has(const struct kit_row *row, bool (*has)(void *self, const char *function),
                 void *self, char missing[64])
{
    const char *at = row->functions;

    while (*at) {
        size_t n = strcspn(at, " ");
        if (n >= 64) n = 63;
        memcpy(missing, at, n);
        missing[n] = 0;
        if (!has(self, missing)) return false;
        at += n;
        at += strspn(at, " ");
    }
    return true;
}
