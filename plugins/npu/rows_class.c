/* SPDX-License-Identifier: Apache-2.0 */
/* rows_class.c: builds the rows of losses with a class for each line. A label that is no class
 * makes the launch fail (guard.c). */
#include "compose.h"

#include <math.h>

/* How the operators of this file differ. */
struct class_how {
    int64_t axis, ignored;
    double smoothing;
    bool logits;
    uint32_t weight; /* the port of the classes' factors */
};

/* The lines of x along the axis of its classes. */
struct class_lines {
    uint32_t axis;
    int64_t classes;
    int64_t kept[KIT_AXES_MAX], weight[KIT_AXES_MAX]; /* shapes of x: 1 for the axis; for others */
    struct kit_arg ignored, label; /* of the shape `kept`; label: without ignored and bad ones */
};

static struct class_lines class_begin(struct kit_build *b, const struct class_how *how)
{
    const struct bp_view *x = npu_type(b, NPU_IN(0));
    struct class_lines l = {.axis = npu_axis(how->axis, x->rank)};
    struct kit_arg label, number;

    if (b->status) return l;
    l.classes = x->shape[l.axis];
    for (uint32_t i = 0; i < x->rank; i++) {
        l.kept[i] = i == l.axis ? 1 : x->shape[i];
        l.weight[i] = i == l.axis ? l.classes : 1;
    }
    label = kit_temporary(b, BP_I64, x->rank, l.kept);
    npu_cast(b, kit_reshaped(b, NPU_IN(1), x->rank, l.kept), label);
    number = npu_filled(b, BP_I64, 0, NULL, 0);
    KIT_STEP(b, "InplaceFillScalar", kit_as(number, KIT_UPDATES), KIT_SCALAR_IS(how->ignored));
    l.ignored = npu_like(b, label, BP_BOOL);
    KIT_STEP(b, "EqTensor", label, number, l.ignored);
    KIT_STEP(b, "InplaceMaskedFillScalar", kit_as(label, KIT_UPDATES), l.ignored, KIT_SCALAR_IS(0));
    l.label = npu_guard(b, label, l.classes, false);
    return l;
}

static struct kit_arg class_without_ignored(struct kit_build *b, const struct class_lines *l,
                                            struct kit_arg x)
{
    KIT_STEP(b, "InplaceMaskedFillScalar", kit_as(x, KIT_UPDATES), l->ignored, KIT_SCALAR_IS(0));
    return x;
}

static struct kit_arg class_taken(struct kit_build *b, const struct class_lines *l,
                                  struct kit_arg x)
{
    struct kit_arg taken = kit_temporary(b, npu_type(b, x)->dtype, npu_type(b, x)->rank, l->kept);

    KIT_STEP(b, "Gather", x, KIT_INT_IS(l->axis), l->label, taken);
    return taken;
}

/* The factors of the classes, with the axes of x; and that of each line's class. */
static struct kit_arg class_weights(struct kit_build *b, const struct class_lines *l,
                                    const struct class_how *how)
{
    uint32_t rank = npu_type(b, NPU_IN(0))->rank;

    return npu_wide(b, kit_reshaped(b, NPU_IN(how->weight), rank, l->weight));
}

static struct kit_arg class_factor(struct kit_build *b, const struct class_lines *l,
                                   const struct class_how *how)
{
    uint32_t rank = npu_type(b, NPU_IN(0))->rank;
    int64_t count = npu_type(b, l->label)->count;
    struct kit_arg taken, weight;

    if (!npu_is_given(b, NPU_IN(how->weight))) return npu_filled(b, BP_F32, rank, l->kept, 1);
    weight = npu_wide(b, NPU_IN(how->weight));
    taken = kit_temporary(b, BP_F32, 1, &count);
    KIT_STEP(b, "IndexSelect", weight, KIT_INT_IS(0), kit_reshaped(b, l->label, 1, &count), taken);
    return kit_reshaped(b, taken, rank, l->kept);
}

/* The losses of all lines; *out_factor: the factors of their classes. 0 where the label is
 * ignored. */
static struct kit_arg class_losses(struct kit_build *b, const struct class_how *how,
                                   struct kit_arg *out_factor)
{
    struct class_lines l = class_begin(b, how);
    struct kit_arg x = npu_wide(b, NPU_IN(0)), p = x, loss, all;

    if (how->logits) {
        p = npu_like(b, x, BP_F32);
        KIT_STEP(b, "LogSoftmax", x, KIT_INT_IS(l.axis), p);
    }
    *out_factor = class_factor(b, &l, how);
    loss = npu_mul(b, class_taken(b, &l, p), *out_factor);
    loss = npu_times(b, loss, how->smoothing - 1);
    if (how->smoothing != 0) {
        all = npu_is_given(b, NPU_IN(how->weight)) ? npu_mul(b, p, class_weights(b, &l, how)) : p;
        all = npu_sum(b, all, 1u << l.axis);
        loss = part_add(b, loss, npu_times(b, all, -how->smoothing / (double)l.classes));
    }
    *out_factor = class_without_ignored(b, &l, *out_factor);
    return class_without_ignored(b, &l, loss);
}

/* Whether there are no lines, or no classes; then what is left to do is done. */
static bool class_is_empty(struct kit_build *b, bool *out_refused)
{
    bool lines = !b->status && npu_type(b, NPU_IN(1))->count, x = !npu_is_empty(b, NPU_IN(0));

    *out_refused = lines && !x;
    if (*out_refused) kit_refuse(b);
    return b->status || !lines;
}

enum bp_status npu_build_label_loss(struct kit_build *b)
{
    const struct bp_label_loss_attrs *a = b->attrs;
    struct class_how how = {a->axis, a->ignore_index, a->label_smoothing, a->logits, 2};
    struct kit_arg factor, loss;
    bool refused;

    if (class_is_empty(b, &refused)) return b->status;
    loss = class_losses(b, &how, &factor);
    npu_finish(b, loss, NPU_OUT(0));
    if (npu_is_given(b, NPU_OUT(1))) npu_finish(b, factor, NPU_OUT(1));
    return b->status;
}

/* The losses as the attribute `reduction` has them: of the sum of the factors for a mean. */
static enum bp_status class_reduced(struct kit_build *b, const struct class_how *how,
                                    int64_t reduction)
{
    struct kit_arg factor, loss;
    uint32_t all = (1u << npu_type(b, NPU_IN(0))->rank) - 1;
    bool refused;

    if (class_is_empty(b, &refused)) {
        if (!refused && !b->status && !npu_is_empty(b, NPU_OUT(0)))
            npu_fill(b, NPU_OUT(0), reduction == BP_REDUCTION_MODE_MEAN ? NAN : 0);
        return b->status;
    }
    loss = class_losses(b, how, &factor);
    if (reduction) loss = npu_sum(b, loss, all);
    if (reduction == BP_REDUCTION_MODE_MEAN) loss = npu_div(b, loss, npu_sum(b, factor, all));
    npu_finish(b, loss, NPU_OUT(0));
    return b->status;
}

enum bp_status npu_build_nll_loss(struct kit_build *b)
{
    const struct bp_nll_loss_attrs *a = b->attrs;
    const struct class_how how = {a->axis, a->ignore_index, 0, false, 2};

    return class_reduced(b, &how, a->reduction);
}

enum bp_status npu_build_cross_entropy(struct kit_build *b)
{
    const struct bp_cross_entropy_attrs *a = b->attrs;
    const struct class_how how = {a->axis, a->ignore_index, a->label_smoothing, true, 2};
    uint32_t rank = npu_type(b, NPU_IN(0))->rank;

    if (npu_is_given(b, NPU_OUT(1)) && !npu_is_empty(b, NPU_OUT(1)))
        KIT_STEP(b, "Softmax", NPU_IN(0), KIT_INT_IS(npu_axis(a->axis, rank)), NPU_OUT(1));
    return class_reduced(b, &how, a->reduction);
}

/* dloss ((own + sum(each)) p - own [at label] - each), with own the part of the label's class and
 * each that of every class. */
enum bp_status npu_build_label_loss_grad(struct kit_build *b)
{
    const struct bp_label_loss_grad_attrs *a = b->attrs;
    const struct class_how how = {a->axis, a->ignore_index, a->label_smoothing, a->logits, 3};
    struct class_lines l;
    struct kit_arg own, each, t, x, sum, dloss;
    double part;
    bool refused;

    if (class_is_empty(b, &refused) || npu_is_empty(b, NPU_OUT(0))) return b->status;
    l = class_begin(b, &how);
    x = npu_wide(b, NPU_IN(0));
    part = how.smoothing / (double)l.classes;
    own = npu_times(b, class_factor(b, &l, &how), 1 - how.smoothing);
    each = npu_is_given(b, NPU_IN(3)) ? npu_times(b, class_weights(b, &l, &how), part)
                                      : npu_filled(b, BP_F32, npu_type(b, x)->rank, l.weight, part);
    if (a->logits) {
        t = npu_like(b, x, BP_F32);
        KIT_STEP(b, "Softmax", x, KIT_INT_IS(l.axis), t);
        sum = part_add(b, own, npu_sum(b, each, 1u << l.axis));
        t = part_sub(b, npu_mul(b, t, sum), each);
    } else {
        t = npu_filled(b, BP_F32, npu_type(b, x)->rank, npu_type(b, x)->shape, 0);
        t = part_sub(b, t, each);
    }
    sum = npu_like(b, t, BP_F32);
    KIT_STEP(b, "ScatterAdd", t, KIT_INT_IS(l.axis), l.label, npu_times(b, own, -1), sum);
    dloss = kit_reshaped(b, NPU_IN(2), npu_type(b, x)->rank, l.kept);
    t = class_without_ignored(b, &l, npu_mul(b, sum, dloss));
    npu_finish(b, t, NPU_OUT(0));
    return b->status;
}
