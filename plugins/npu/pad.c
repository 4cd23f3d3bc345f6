/* SPDX-License-Identifier: Apache-2.0 */
/* pad.c: builds the calls of pad. Borders of one value are one call; the others are copies of parts
 * of the input, an axis after the other. */
#include "builds.h"
#include "parts.h"
#include <string.h>

/* One axis that gets borders. Places are those of the input: its own are 0 to n - 1. */
struct pad_axis {
    uint32_t axis;
    int64_t n, first, end; /* the result has the places from first to end */
    struct kit_arg from, to;
};

static int64_t pad_of(const struct bp_dims *dims, uint32_t axis)
{
    return dims->n ? dims->at[axis] : 0;
}

/* The places from first to end along the axis of a tensor whose place 0 is `origin`. */
static struct kit_arg pad_places(struct kit_build *b, struct kit_arg x, uint32_t axis,
                                 int64_t origin, int64_t first, int64_t n)
{
    const struct bp_view *v = kit_arg_view(b, &x);
    int64_t shape[KIT_AXES_MAX], stride[KIT_AXES_MAX], step = 1;

    if (!v) return KIT_VALUE(KIT_NONE);
    for (uint32_t a = v->rank; a-- > 0; step *= v->shape[a]) {
        shape[a] = v->shape[a];
        stride[a] = step;
    }
    shape[axis] = n;
    return kit_alias(b, x, v->dtype, v->rank, shape, stride,
                     (first - origin) * stride[axis] * (int64_t)part_item_size(v->dtype));
}

/* Copies `n` places of the input to the places from `to` on, backwards if `reversed`. */
static void pad_copy(struct kit_build *b, const struct pad_axis *p, int64_t to, int64_t from,
                     int64_t n, int64_t places, bool reversed)
{
    struct kit_arg target = pad_places(b, p->to, p->axis, p->first, to, n);
    struct kit_arg source = pad_places(b, p->from, p->axis, 0, from, places);

    if (reversed) {
        const int64_t axis = p->axis;
        struct kit_arg there = kit_temporary_like(b, kit_arg_view(b, &source));

        KIT_STEP(b, "Flip", source, kit_array(b, &axis, 1), there);
        source = there;
    }
    target.role = KIT_UPDATES;
    KIT_STEP(b, "InplaceCopy", target, source);
}

/* The border at the places first to end, which lie all below 0 or all above n - 1. */
static void pad_border(struct kit_build *b, const struct pad_axis *p, int64_t mode, int64_t first,
                       int64_t end)
{
    const int64_t n = end - first;

    if (n <= 0) return;
    switch (mode) {
    case BP_PAD_MODE_REFLECT:
        pad_copy(b, p, first, first < 0 ? 1 - end : 2 * (p->n - 1) - (end - 1), n, n, true);
        break;
    case BP_PAD_MODE_REPLICATE: pad_copy(b, p, first, first < 0 ? 0 : p->n - 1, n, 1, false); break;
    default: pad_copy(b, p, first, first < 0 ? first + p->n : first - p->n, n, n, false);
    }
}

static int64_t pad_least(int64_t x, int64_t y)
{
    return x < y ? x : y;
}

static int64_t pad_most(int64_t x, int64_t y)
{
    return x > y ? x : y;
}

static void pad_axis(struct kit_build *b, const struct pad_axis *p, int64_t mode)
{
    const int64_t first = pad_most(0, p->first), end = pad_least(p->n, p->end);

    pad_border(b, p, mode, p->first, pad_least(0, p->end));
    if (first < end) pad_copy(b, p, first, first, end - first, end - first, false);
    pad_border(b, p, mode, pad_most(p->n, p->first), p->end);
}

/* Borders that repeat elements of the input. */
static enum bp_status pad_repeat(struct kit_build *b, const struct bp_pad_attrs *attrs)
{
    const struct bp_view *x = b->in[0], *y = b->out[0];
    int64_t shape[KIT_AXES_MAX];
    uint32_t last = x->rank;
    struct kit_arg now = KIT_IN(0);

    memcpy(shape, x->shape, x->rank * sizeof *shape);
    for (uint32_t a = 0; a < x->rank; a++)
        if (pad_of(&attrs->before, a) || pad_of(&attrs->after, a)) last = a;
    if (last == x->rank) return KIT_STEP(b, "InplaceCopy", KIT_UPDATED(0), now);
    for (uint32_t a = 0; a <= last; a++) {
        struct pad_axis p = {.axis = a,
                             .n = x->shape[a],
                             .first = -pad_of(&attrs->before, a),
                             .end = x->shape[a] + pad_of(&attrs->after, a),
                             .from = now};

        if (!p.first && p.end == p.n) continue;
        shape[a] = y->shape[a];
        p.to = a == last ? KIT_VALUE(KIT_OUT(0)) : kit_temporary(b, x->dtype, x->rank, shape);
        pad_axis(b, &p, attrs->mode);
        now = p.to;
    }
    return part_pack(b);
}

/* One value around the part of the input that stays. */
static enum bp_status pad_value(struct kit_build *b, const struct bp_pad_attrs *attrs)
{
    const struct bp_view *x = b->in[0], *y = b->out[0];
    int64_t shape[KIT_AXES_MAX], from[KIT_AXES_MAX], to[KIT_AXES_MAX], step = 1, origin = 0;
    int64_t place = 0, size = (int64_t)part_item_size(x->dtype);
    struct kit_arg target;

    create_fill(b, KIT_VALUE(KIT_OUT(0)), part_value(b, KIT_VALUE(KIT_SCALAR(pad, value))));
    for (uint32_t a = x->rank; a-- > 0; step *= x->shape[a]) from[a] = step;
    step = 1;
    for (uint32_t a = x->rank; a-- > 0; step *= y->shape[a]) to[a] = step;
    for (uint32_t a = 0; a < x->rank; a++) {
        const int64_t before = pad_of(&attrs->before, a);

        shape[a] = pad_least(x->shape[a], y->shape[a] - before) - pad_most(0, -before);
        if (shape[a] <= 0) return b->status;
        origin += pad_most(0, -before) * from[a];
        place += pad_most(0, before) * to[a];
    }
    target = kit_alias(b, KIT_VALUE(KIT_OUT(0)), x->dtype, x->rank, shape, to, place * size);
    target.role = KIT_UPDATES;
    return KIT_STEP(
        b, "InplaceCopy", target,
        kit_alias(b, KIT_VALUE(KIT_IN(0)), x->dtype, x->rank, shape, from, origin * size));
}

/* Whether ConstantPadNd serves: it takes no unsigned integers but u8, and no complex numbers. */
static bool pad_is_one_call(const struct kit_build *b, const struct bp_pad_attrs *attrs)
{
    const uint32_t dtype = b->in[0]->dtype;

    for (uint32_t a = 0; a < b->in[0]->rank; a++)
        if (pad_of(&attrs->before, a) < 0 || pad_of(&attrs->after, a) < 0) return false;
    return b->in[0]->count && dtype != BP_C64 && dtype != BP_C128 && create_bits(dtype) == dtype;
}

enum bp_status npu_pad_build(struct kit_build *b)
{
    const struct bp_pad_attrs *attrs = b->attrs;
    const uint32_t rank = b->in[0]->rank;
    int64_t pairs[2 * KIT_AXES_MAX];

    if (!rank) return KIT_STEP(b, "InplaceCopy", KIT_UPDATED(0), KIT_IN(0));
    if (attrs->mode != BP_PAD_MODE_VALUE) return pad_repeat(b, attrs);
    if (!pad_is_one_call(b, attrs)) return pad_value(b, attrs);
    for (uint32_t a = 0; a < rank; a++) { /* the last axis first */
        pairs[2 * (rank - 1 - a)] = pad_of(&attrs->before, a);
        pairs[2 * (rank - 1 - a) + 1] = pad_of(&attrs->after, a);
    }
    return KIT_STEP(
        b, "ConstantPadNd", KIT_IN(0), kit_array(b, pairs, 2 * rank),
        create_number(b->in[0]->dtype, part_value(b, KIT_VALUE(KIT_SCALAR(pad, value)))),
        KIT_OUT(0));
}
