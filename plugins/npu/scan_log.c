/* SPDX-License-Identifier: Apache-2.0 */
/* scan_log.c: builds the row of running logarithms of sums of exponentials, of which CANN has no
 * function. With m the largest element up to a place, the sum s of e^(x - m) up to there is
 * s[i] = f[i] s[i-1] + e^(x[i] - m[i]), where f[i] = e^(m[i-1] - m[i]); the result is m + log s. In
 * step k each place takes in the 2^k places in front of it. */
#include "builds.h"
#include "rounds.h"

#include <math.h>

enum {
    SCAN_LOG_STEPS = 17
};

/* Tensors of three axes, of which the middle one, of extent n, is scanned. */
struct scan_log {
    int64_t shape[3], n;
    uint32_t dtype;
    struct kit_arg most, sums, factors;
};

static struct kit_arg scan_log_part(struct kit_build *b, struct kit_arg x, int64_t first, int64_t n)
{
    return npu_part(b, x, 1, first, n, 1);
}

/* e^(x - y), and 1 where both are equal, infinities too. */
static struct kit_arg scan_log_ratio(struct kit_build *b, struct kit_arg x, struct kit_arg y)
{
    struct kit_arg equal = part_test(b, "EqTensor", x, y);

    return part_where_number(b, equal, KIT_VALUE(KIT_NUMBER_IS(1)),
                             part_one(b, "Exp", part_sub(b, x, y)));
}

/* The largest element up to each place. */
static void scan_log_most(struct kit_build *b, struct scan_log *s, struct kit_arg x)
{
    s->most = npu_state(b, x);
    for (int64_t step = 1; step < s->n; step *= 2) {
        struct kit_arg later = scan_log_part(b, s->most, step, s->n - step);
        struct kit_arg former = scan_log_part(b, s->most, 0, s->n - step);

        npu_state_set(b, later, part_two(b, "Maximum", former, later));
    }
}

static void scan_log_sums(struct kit_build *b, struct scan_log *s)
{
    for (int64_t step = 1; step < s->n; step *= 2) {
        const int64_t n = s->n - step;
        struct kit_arg sum = scan_log_part(b, s->sums, step, n), more;
        struct kit_arg factor = scan_log_part(b, s->factors, step, n);

        more = part_two(b, "Mul", factor, scan_log_part(b, s->sums, 0, n));
        npu_state_set(b, sum, part_add(b, more, sum));
        more = part_two(b, "Mul", factor, scan_log_part(b, s->factors, 0, n));
        npu_state_set(b, factor, more);
    }
}

/* Moves the results of all places but the last one by one place, behind that of nothing. */
static struct kit_arg scan_log_exclusive(struct kit_build *b, const struct scan_log *s,
                                         struct kit_arg y)
{
    struct kit_arg moved = npu_filled(b, s->dtype, 3, s->shape, -INFINITY);

    if (s->n > 1)
        npu_state_set(b, scan_log_part(b, moved, 1, s->n - 1), scan_log_part(b, y, 0, s->n - 1));
    return moved;
}

static struct kit_arg scan_log_reversed(struct kit_build *b, struct kit_arg x, bool reverse)
{
    const int64_t axis[1] = {1};
    struct kit_arg y;

    if (!reverse) return x;
    y = part_like(b, x);
    KIT_STEP(b, "Flip", x, kit_array(b, axis, 1), y);
    return y;
}

enum bp_status npu_logcumsumexp_build(struct kit_build *b)
{
    const struct bp_logcumsumexp_attrs *a = b->attrs;
    const struct bp_view *v = b->in[0];
    const int64_t axis = v->rank ? npu_axis(a->axis, v->rank) : 0;
    struct scan_log s = {.shape = {1, 1, 1}, .dtype = v->dtype == BP_F64 ? BP_F64 : BP_F32};
    struct kit_arg x, y;

    if (!v->count) return b->status;
    for (int64_t i = 0; i < v->rank; i++) s.shape[i < axis ? 0 : i > axis ? 2 : 1] *= v->shape[i];
    s.n = s.shape[1];
    if (s.n > (int64_t)1 << SCAN_LOG_STEPS) return kit_refuse(b);
    x = scan_log_reversed(b, kit_reshaped(b, part_in(b, 0), 3, s.shape), a->reverse);
    scan_log_most(b, &s, x);
    s.sums = npu_state(b, scan_log_ratio(b, x, s.most));
    s.factors = npu_filled(b, s.dtype, 3, s.shape, 0);
    if (s.n > 1)
        npu_state_set(b, scan_log_part(b, s.factors, 1, s.n - 1),
                      scan_log_ratio(b, scan_log_part(b, s.most, 0, s.n - 1),
                                     scan_log_part(b, s.most, 1, s.n - 1)));
    scan_log_sums(b, &s);
    y = part_add(b, part_one(b, "Log", s.sums), s.most);
    if (a->exclusive) y = scan_log_exclusive(b, &s, y);
    npu_finish(b, scan_log_reversed(b, y, a->reverse), NPU_OUT(0));
    return part_pack(b);
}
