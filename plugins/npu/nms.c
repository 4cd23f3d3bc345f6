/* SPDX-License-Identifier: Apache-2.0 */
/* nms.c: builds the rows that suppress overlapping boxes. A round takes the best box of each line
 * of scores that is still there, and removes the boxes that overlap it. Of aclnnNonMaxSuppression
 * neither the parameters nor the order of equal scores are known. */
#include "builds.h"
#include "rounds.h"

#include <math.h>

/* B batches of N boxes, and C lines of scores for each batch. Boxes are five planes, each B by N:
 * the lower corner, the upper corner, the area. */
enum {
    NMS_PLANES = 5
};
enum nms_form {
    NMS_CORNERS,  /* the lower corner, then the upper one */
    NMS_OPPOSITE, /* two opposite corners */
    NMS_CENTRE    /* the centre, then the extents */
};

struct nms {
    int64_t batches, classes, n, most; /* most: rounds */
    struct kit_arg planes, places;
    struct kit_arg score; /* B C N; KIT_NONE: all are equal */
    struct kit_arg there; /* which boxes are still there, bools: B C N */
    struct kit_arg kept;  /* i64: B C most; -1: none */
    struct kit_arg threshold;
};

/* Two planes as a tensor of the axes 2, B, C or 1, N or 1. */
static struct kit_arg nms_two(struct kit_build *b, const struct kit_arg *x, int64_t first,
                              int64_t batches, int64_t lines, int64_t n)
{
    const int64_t shape[4] = {2, batches, lines, n};
    const uint32_t dtype = part_dtype(b, *x);

    return kit_alias(b, *x, dtype, 4, shape, NULL,
                     first * batches * lines * n * (int64_t)part_item_size(dtype));
}

/* One plane, of the axes B, C or 1, N or 1. */
static struct kit_arg nms_one(struct kit_build *b, const struct kit_arg *x, int64_t plane,
                              int64_t batches, int64_t lines, int64_t n)
{
    const int64_t shape[3] = {batches, lines, n};
    const uint32_t dtype = part_dtype(b, *x);

    return kit_alias(b, *x, dtype, 3, shape, NULL,
                     plane * batches * lines * n * (int64_t)part_item_size(dtype));
}

/* The planes of the boxes, whose axes are B, N, 4. */
static void nms_planes(struct kit_build *b, struct nms *s, enum nms_form form)
{
    const uint32_t dtype = part_is_half(b->in[0]->dtype) ? BP_F32 : b->in[0]->dtype;
    const int64_t shape[4] = {s->batches, s->n, 2, 2}, item = (int64_t)part_item_size(dtype);
    const int64_t turned[4] = {2, s->batches, s->n, 1}, stride[4] = {1, 4 * s->n, 4, 1};
    const int64_t all[3] = {NMS_PLANES, s->batches, s->n};
    struct kit_arg x = kit_reshaped(b, part_in(b, 0), 4, shape), low, high, size, corner[2];

    low = kit_alias(b, x, dtype, 4, turned, stride, 0);
    high = kit_alias(b, x, dtype, 4, turned, stride, 2 * item);
    if (form == NMS_CENTRE) {
        struct kit_arg half = part_two(b, "Div", high,
                                       part_number(b, dtype, KIT_VALUE(KIT_NUMBER_IS(2))));
        corner[0] = part_sub(b, low, half);
        corner[1] = part_add(b, low, half);
    } else {
        corner[0] = form == NMS_OPPOSITE ? part_two(b, "Minimum", low, high) : low;
        corner[1] = form == NMS_OPPOSITE ? part_two(b, "Maximum", low, high) : high;
    }
    s->planes = kit_temporary(b, dtype, 3, all);
    for (int i = 0; i < 2; i++)
        npu_state_set(b, nms_two(b, &s->planes, 2 * i, s->batches, 1, s->n),
                      kit_reshaped(b, corner[i], 4, (const int64_t[]){2, s->batches, 1, s->n}));
    size = part_sub(b, nms_two(b, &s->planes, 2, s->batches, 1, s->n),
                    nms_two(b, &s->planes, 0, s->batches, 1, s->n));
    npu_state_set(b, nms_one(b, &s->planes, 4, s->batches, 1, s->n),
                  part_two(b, "Mul", nms_one(b, &size, 0, s->batches, 1, s->n),
                           nms_one(b, &size, 1, s->batches, 1, s->n)));
}

/* The first of the best boxes that are still there, B C 1. A line of which none is there gives any
 * box. If the largest score is -infinity, removed boxes may be in front of it. */
static struct kit_arg nms_best(struct kit_build *b, const struct nms *s)
{
    struct kit_arg first = npu_argmax(b, part_cast(b, s->there, BP_I32), 2), best;

    if (s->score.from == KIT_FROM_NONE) return first;
    best = part_where_else(b, s->there, s->score, KIT_VALUE(KIT_NUMBER_IS(-INFINITY)));
    best = npu_argmax(b, best, 2);
    return part_where(b, npu_gather(b, s->there, 2, best), best, first);
}

/* Which boxes share more of the union with the best one than the threshold: B C N. */
static struct kit_arg nms_overlap(struct kit_build *b, const struct nms *s, struct kit_arg best)
{
    const int64_t all[3] = {NMS_PLANES, s->batches, s->classes};
    const int64_t one[3] = {1, s->batches, s->classes};
    const int64_t batches = s->batches, lines = s->classes, n = s->n;
    struct kit_arg each = kit_temporary(b, BP_I64, 3, all), box, shared, above, size;

    KIT_STEP(b, "Expand", kit_reshaped(b, best, 3, one), kit_array(b, all, 3), each);
    box = npu_gather(b, s->planes, 2, each);
    size = part_two(b, "Minimum", nms_two(b, &box, 2, batches, lines, 1),
                    nms_two(b, &s->planes, 2, batches, 1, n));
    size = part_sub(b, size,
                    part_two(b, "Maximum", nms_two(b, &box, 0, batches, lines, 1),
                             nms_two(b, &s->planes, 0, batches, 1, n)));
    above = part_compare(b, "GtTensor", size, KIT_VALUE(KIT_NUMBER_IS(0)));
    above = part_test(b, "LogicalAnd", nms_one(b, &above, 0, batches, lines, n),
                      nms_one(b, &above, 1, batches, lines, n));
    shared = part_two(b, "Mul", nms_one(b, &size, 0, batches, lines, n),
                      nms_one(b, &size, 1, batches, lines, n));
    shared = part_where_else(b, above, shared, KIT_VALUE(KIT_NUMBER_IS(0)));
    size = part_add(b, nms_one(b, &box, 4, batches, lines, 1),
                    nms_one(b, &s->planes, 4, batches, 1, n));
    return part_test(b, "GtTensor", part_two(b, "Div", shared, part_sub(b, size, shared)),
                     s->threshold);
}

static void nms_round(struct kit_build *b, const struct nms *s, struct kit_arg round,
                      struct kit_arg rounds)
{
    struct kit_arg best = nms_best(b, s), found = npu_gather(b, s->there, 2, best), removed;
    struct kit_arg kept = part_where_else(b, found, best, KIT_VALUE(KIT_SCALAR_IS(-1)));

    kept = part_where(b, part_test(b, "EqTensor", rounds, round), kept, s->kept);
    npu_state_set(b, s->kept, kept);
    removed = part_test(b, "LogicalOr", nms_overlap(b, s, best),
                        part_test(b, "EqTensor", s->places, best));
    npu_state_set(b, s->there,
                  part_test(b, "LogicalAnd", s->there, part_one(b, "LogicalNot", removed)));
}

/* All rounds: fills `kept`. */
static void nms_rounds(struct kit_build *b, struct nms *s, double threshold)
{
    const int64_t shape[3] = {s->batches, s->classes, s->most};
    struct kit_arg number = KIT_NUMBER_IS(threshold), last = npu_places(b, s->most, 3, 2);
    struct npu_rounds rounds;

    s->threshold = part_number(b, part_dtype(b, s->planes), number);
    s->places = npu_places(b, s->n, 3, 2);
    s->kept = kit_temporary(b, BP_I64, 3, shape);
    KIT_STEP(b, "InplaceFillScalar", kit_as(s->kept, KIT_UPDATES), KIT_SCALAR_IS(-1));
    rounds = npu_rounds_begin(b);
    nms_round(b, s, rounds.at, last);
    npu_rounds_end(b, &rounds, s->most);
}

/* Writes the rows of those that are kept, in their order, and their number. A row is `width`
 * numbers, of which the last one is the box. */
static void nms_write(struct kit_build *b, const struct nms *s, struct kit_arg rows, int64_t width)
{
    const int64_t n = s->batches * s->classes * s->most, line[1] = {n}, column[2] = {n, 1};
    const int64_t all[2] = {n, width}, more[2] = {n + 1, width};
    struct kit_arg kept = kit_reshaped(b, s->kept, 1, line), valid, ones, at, each, none, to;

    valid = part_compare(b, "GeTensor", kept, KIT_VALUE(KIT_SCALAR_IS(0)));
    ones = part_cast(b, valid, BP_I64);
    KIT_STEP(b, "ReduceSum", ones, kit_array(b, (const int64_t[]){0}, 1), KIT_INT_IS(1),
             KIT_DTYPE_IS(BP_I64), kit_extent(b, 0));
    at = part_like(b, ones);
    KIT_STEP(b, "Cumsum", ones, KIT_INT_IS(0), KIT_DTYPE_IS(BP_I64), at);
    at = part_plus(b, at, KIT_VALUE(KIT_SCALAR_IS(-1)));
    at = part_where_else(b, valid, at, KIT_VALUE(KIT_SCALAR_IS(n)));
    each = kit_temporary(b, BP_I64, 2, all);
    KIT_STEP(b, "Expand", kit_reshaped(b, at, 2, column), kit_array(b, all, 2), each);
    none = kit_temporary(b, BP_I64, 2, more);
    to = kit_temporary(b, BP_I64, 2, more);
    KIT_STEP(b, "InplaceFillScalar", kit_as(none, KIT_UPDATES), KIT_SCALAR_IS(0));
    KIT_STEP(b, "Scatter", none, KIT_INT_IS(0), each, rows, KIT_INT_IS(0), to);
    KIT_STEP(b, "InplaceCopy", kit_reshaped(b, KIT_VALUE(KIT_UPDATED(0)), 2, all),
             kit_alias(b, to, BP_I64, 2, all, NULL, 0));
}

/* Rows of the batch, the class, and the box. */
static struct kit_arg nms_named(struct kit_build *b, const struct nms *s)
{
    const int64_t shape[4] = {s->batches, s->classes, s->most, 1},
                  n = s->batches * s->classes * s->most;
    const int64_t stride[4] = {s->classes * s->most * 3, s->most * 3, 3, 1}, all[2] = {n, 3};
    struct kit_arg rows = kit_temporary(b, BP_I64, 2, all);
    const struct kit_arg part[3] = {npu_places(b, s->batches, 4, 0),
                                    npu_places(b, s->classes, 4, 1),
                                    kit_reshaped(b, s->kept, 4, shape)};

    for (int i = 0; i < 3; i++)
        npu_state_set(b, kit_alias(b, rows, BP_I64, 4, shape, stride, 8 * i), part[i]);
    return rows;
}

/* The scores above a limit count; where there is no limit, all of them. */
static struct kit_arg nms_counting(struct kit_build *b, struct kit_arg score, double limit)
{
    struct kit_arg number = KIT_NUMBER_IS(limit), low, limited;

    number = part_number(b, part_dtype(b, score), number);
    limited = part_compare(b, "NeTensor", number, KIT_VALUE(KIT_NUMBER_IS(-INFINITY)));
    low = part_test(b, "LogicalAnd", part_test(b, "LeTensor", score, number), limited);
    return part_one(b, "LogicalNot", low);
}

enum bp_status npu_non_max_suppression_build(struct kit_build *b)
{
    const struct bp_non_max_suppression_attrs *a = b->attrs;
    const struct bp_view *scores = b->in[1];
    struct nms s = {.batches = scores->shape[0],
                    .classes = scores->shape[1],
                    .n = scores->shape[2],
                    .most = a->max_boxes};

    if (s.most > s.n) s.most = s.n;
    if (!b->out[0]->count) return b->status;
    s.score = part_in(b, 1);
    nms_planes(b, &s, a->center_point_box ? NMS_CENTRE : NMS_OPPOSITE);
    s.there = npu_state(b, nms_counting(b, s.score, a->score_threshold));
    nms_rounds(b, &s, a->iou_threshold);
    nms_write(b, &s, nms_named(b, &s), 3);
    return b->status;
}

enum bp_status npu_nms_build(struct kit_build *b)
{
    const struct bp_nms_attrs *a = b->attrs;
    const int64_t n = b->in[0]->shape[0], shape[3] = {1, 1, n}, column[2] = {n, 1};
    struct nms s = {.batches = 1, .classes = 1, .n = n, .most = n, .score = NPU_NONE};

    if (!n) return b->status;
    if (npu_is_given(b, NPU_IN(1))) s.score = kit_reshaped(b, part_in(b, 1), 3, shape);
    nms_planes(b, &s, NMS_CORNERS);
    s.there = npu_filled(b, BP_BOOL, 3, shape, 1);
    nms_rounds(b, &s, a->iou_threshold);
    nms_write(b, &s, kit_reshaped(b, s.kept, 2, column), 1);
    return b->status;
}
