/* SPDX-License-Identifier: Apache-2.0 */
/* scan.c: builds the calls of running sums and products. CANN's functions run from the first place
 * and include the place itself: otherwise the input is reversed, and the result moved. */
#include "builds.h"
#include "parts.h"
#include <string.h>

struct scan {
    const char *function;
    int64_t axis, n; /* its extent */
    uint32_t rank;
    int64_t shape[KIT_AXES_MAX], stride[KIT_AXES_MAX]; /* of a contiguous tensor */
    int64_t item;                                      /* bytes of an element */
    bool reverse, exclusive;
};

static enum bp_status scan_step(struct kit_build *b, const struct scan *s, struct kit_arg x,
                                struct kit_arg to)
{
    struct kit_arg axis = KIT_INT_IS(s->axis);

    if (!strcmp(s->function, "Cumprod")) axis.as = KIT_AS_SCALAR;
    return KIT_STEP(b, s->function, x, axis, KIT_OUT_DTYPE(0), to);
}

/* n places of a contiguous tensor of the input's shape, from `first` on. */
static struct kit_arg scan_places(struct kit_build *b, const struct scan *s, struct kit_arg x,
                                  int64_t first, int64_t n)
{
    int64_t shape[KIT_AXES_MAX];

    memcpy(shape, s->shape, s->rank * sizeof *shape);
    shape[s->axis] = n;
    return kit_alias(b, x, b->in[0]->dtype, s->rank, shape, s->stride,
                     first * s->stride[s->axis] * s->item);
}

/* The results of all places but the last one, behind a first place that has the result of
 * nothing. */
static enum bp_status scan_exclusive(struct kit_build *b, const struct scan *s, struct kit_arg x,
                                     struct kit_arg to, struct kit_arg nothing)
{
    struct kit_arg first = scan_places(b, s, to, 0, 1), results, rest;

    first.role = KIT_UPDATES;
    KIT_STEP(b, "InplaceFillScalar", first, nothing);
    if (s->n == 1) return b->status;
    rest = scan_places(b, s, to, 1, s->n - 1);
    results = kit_temporary_like(b, kit_arg_view(b, &rest));
    scan_step(b, s, scan_places(b, s, x, 0, s->n - 1), results);
    rest.role = KIT_UPDATES;
    return KIT_STEP(b, "InplaceCopy", rest, results);
}

static struct scan scan_of(const struct kit_build *b, const char *function)
{
    const struct bp_cumsum_attrs *attrs = b->attrs; /* those of cumprod are the same */
    const struct bp_view *x = b->in[0];
    struct scan s = {.function = function,
                     .rank = x->rank ? x->rank : 1,
                     .n = 1,
                     .item = 1,
                     .reverse = attrs->reverse,
                     .exclusive = attrs->exclusive,
                     .shape = {1}};
    int64_t stride = 1;

    if (x->rank) {
        memcpy(s.shape, x->shape, x->rank * sizeof *s.shape);
        s.axis = attrs->axis < 0 ? attrs->axis + x->rank : attrs->axis;
        s.n = x->shape[s.axis];
    }
    for (uint32_t a = s.rank; a-- > 0; stride *= s.shape[a]) s.stride[a] = stride;
    s.item = (int64_t)part_item_size(x->dtype);
    return s;
}

static enum bp_status scan_build(struct kit_build *b, const char *function, struct kit_arg nothing)
{
    const struct scan s = scan_of(b, function);
    struct kit_arg x = kit_reshaped(b, KIT_VALUE(KIT_IN(0)), s.rank, s.shape);
    struct kit_arg out = kit_reshaped(b, KIT_VALUE(KIT_OUT(0)), s.rank, s.shape), to = out;

    if (s.reverse) {
        struct kit_arg axis = kit_array(b, &s.axis, 1), reversed;

        reversed = kit_temporary(b, b->in[0]->dtype, s.rank, s.shape);
        KIT_STEP(b, "Flip", x, axis, reversed);
        x = reversed;
        to = kit_temporary(b, b->in[0]->dtype, s.rank, s.shape);
    }
    if (s.exclusive) scan_exclusive(b, &s, x, to, nothing);
    else scan_step(b, &s, x, to);
    if (s.reverse) KIT_STEP(b, "Flip", to, kit_array(b, &s.axis, 1), out);
    return part_pack(b);
}

enum bp_status npu_cumsum_build(struct kit_build *b)
{
    return scan_build(b, "Cumsum", KIT_VALUE(KIT_SCALAR_IS(0)));
}

enum bp_status npu_cumprod_build(struct kit_build *b)
{
    return scan_build(b, "Cumprod", KIT_VALUE(KIT_SCALAR_IS(1)));
}
