/* SPDX-License-Identifier: Apache-2.0 */
/* scan_linear.c: builds the rows of linear recurrences along an axis, s[i] = f[i] s[i-1] + t[i], of
 * which CANN has no function: in step k each place takes in the 2^k places in front of it. Such a
 * recurrence is the sum s of e^(x - m) too, where m is the largest x up to a place: with terms
 * e^(x[i] - m[i]) and factors e^(m[i-1] - m[i]). logcumsumexp is m + log s. */
#include "builds.h"
#include "rounds.h"

#include <math.h>

enum {
    SCAN_LINEAR_STEPS = 17
};

/* Tensors of three axes, of which the middle one, of extent n, is scanned. */
struct scan_linear {
    int64_t shape[3], n;
    uint32_t dtype;
    struct kit_arg most, sums, factors;
};

static struct kit_arg scan_linear_part(struct kit_build *b, struct kit_arg x, int64_t first,
                                       int64_t n)
{
    return npu_part(b, x, 1, first, n, 1);
}

/* e^(x - y), and 1 where both are equal, infinities too. */
static struct kit_arg scan_linear_ratio(struct kit_build *b, struct kit_arg x, struct kit_arg y)
{
    struct kit_arg equal = part_test(b, "EqTensor", x, y);

    return part_where_number(b, equal, KIT_VALUE(KIT_NUMBER_IS(1)),
                             part_one(b, "Exp", part_sub(b, x, y)));
}

/* The largest element up to each place. */
static void scan_linear_most(struct kit_build *b, struct scan_linear *s, struct kit_arg x)
{
    s->most = npu_state(b, x);
    for (int64_t step = 1; step < s->n; step *= 2) {
        struct kit_arg later = scan_linear_part(b, s->most, step, s->n - step);
        struct kit_arg former = scan_linear_part(b, s->most, 0, s->n - step);

        npu_state_set(b, later, part_two(b, "Maximum", former, later));
    }
}

static void scan_linear_sums(struct kit_build *b, struct scan_linear *s)
{
    for (int64_t step = 1; step < s->n; step *= 2) {
        const int64_t n = s->n - step;
        struct kit_arg sum = scan_linear_part(b, s->sums, step, n), more;
        struct kit_arg factor = scan_linear_part(b, s->factors, step, n);

        more = part_two(b, "Mul", factor, scan_linear_part(b, s->sums, 0, n));
        npu_state_set(b, sum, part_add(b, more, sum));
        more = part_two(b, "Mul", factor, scan_linear_part(b, s->factors, 0, n));
        npu_state_set(b, factor, more);
    }
}

/* Moves the results of all places but the last one by one place, behind that of nothing. */
static struct kit_arg scan_linear_exclusive(struct kit_build *b, const struct scan_linear *s,
                                            struct kit_arg y)
{
    struct kit_arg moved = npu_filled(b, s->dtype, 3, s->shape, -INFINITY);

    if (s->n > 1)
        npu_state_set(b, scan_linear_part(b, moved, 1, s->n - 1),
                      scan_linear_part(b, y, 0, s->n - 1));
    return moved;
}

static struct kit_arg scan_linear_reversed(struct kit_build *b, struct kit_arg x, bool reverse)
{
    const int64_t axis[1] = {1};
    struct kit_arg y;

    if (!reverse) return x;
    y = part_like(b, x);
    KIT_STEP(b, "Flip", x, kit_array(b, axis, 1), y);
    return y;
}

static struct scan_linear scan_linear_of(const struct bp_view *x, int64_t axis)
{
    struct scan_linear s = {.shape = {1, 1, 1}, .dtype = x->dtype == BP_F64 ? BP_F64 : BP_F32};

    if (x->rank) axis = npu_axis(axis, x->rank);
    for (int64_t i = 0; i < x->rank; i++) s.shape[i < axis ? 0 : i > axis ? 2 : 1] *= x->shape[i];
    s.n = s.shape[1];
    return s;
}

/* The factor of the first place has no place in front of it: it is 0. */
static void scan_linear_factors(struct kit_build *b, struct scan_linear *s, struct kit_arg factors)
{
    s->factors = npu_filled(b, s->dtype, 3, s->shape, 0);
    npu_state_set(b, scan_linear_part(b, s->factors, 1, s->n - 1), factors);
}

enum bp_status npu_linear_scan_build(struct kit_build *b)
{
    const struct bp_linear_scan_attrs *a = b->attrs;
    struct scan_linear s = scan_linear_of(b->in[0], a->axis);
    struct kit_arg factors;

    if (!b->in[0]->count) return b->status;
    if (s.n > (int64_t)1 << SCAN_LINEAR_STEPS) return kit_refuse(b);
    factors = scan_linear_reversed(b, kit_reshaped(b, part_in(b, 0), 3, s.shape), a->reverse);
    s.sums = npu_state(
        b, scan_linear_reversed(b, kit_reshaped(b, part_in(b, 1), 3, s.shape), a->reverse));
    if (s.n > 1) {
        scan_linear_factors(b, &s, scan_linear_part(b, factors, a->shift ? 0 : 1, s.n - 1));
        scan_linear_sums(b, &s);
    }
    npu_finish(b, scan_linear_reversed(b, s.sums, a->reverse), NPU_OUT(0));
    return part_pack(b);
}

enum bp_status npu_logcumsumexp_build(struct kit_build *b)
{
    const struct bp_logcumsumexp_attrs *a = b->attrs;
    struct scan_linear s = scan_linear_of(b->in[0], a->axis);
    struct kit_arg x, y;

    if (!b->in[0]->count) return b->status;
    if (s.n > (int64_t)1 << SCAN_LINEAR_STEPS) return kit_refuse(b);
    x = scan_linear_reversed(b, kit_reshaped(b, part_in(b, 0), 3, s.shape), a->reverse);
    scan_linear_most(b, &s, x);
    s.sums = npu_state(b, scan_linear_ratio(b, x, s.most));
    if (s.n > 1) {
        scan_linear_factors(b, &s,
                            scan_linear_ratio(b, scan_linear_part(b, s.most, 0, s.n - 1),
                                              scan_linear_part(b, s.most, 1, s.n - 1)));
        scan_linear_sums(b, &s);
    }
    y = part_add(b, part_one(b, "Log", s.sums), s.most);
    if (a->exclusive) y = scan_linear_exclusive(b, &s, y);
    npu_finish(b, scan_linear_reversed(b, y, a->reverse), NPU_OUT(0));
    return part_pack(b);
}
