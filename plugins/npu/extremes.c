/* SPDX-License-Identifier: Apache-2.0 */
/* extremes.c: builds the rows of the extremes up to each place. In step k each place takes the
 * better of its own extreme and that of the place 2^k in front of it. */
#include "builds.h"
#include "rounds.h"

enum {
    EXTREMES_STEPS = 15
};

/* Lines before and behind the axis, which is the middle one of three. */
struct extremes {
    const char *test;        /* whether the later of two values stays */
    struct kit_arg state[2]; /* values and places */
};

static struct kit_arg extremes_part(struct kit_build *b, struct kit_arg x, int64_t first, int64_t n)
{
    return npu_part(b, x, 1, first, n, 1);
}

static void extremes_step(struct kit_build *b, const struct extremes *s, int64_t n, int64_t step)
{
    struct kit_arg former[2], later[2], result[2], stays;

    for (int i = 0; i < 2; i++) {
        former[i] = extremes_part(b, s->state[i], 0, n - step);
        later[i] = extremes_part(b, s->state[i], step, n - step);
    }
    stays = part_test(b, s->test, later[0], former[0]);
    if (BP_MASK_FLOAT >> part_dtype(b, later[0]) & 1)
        stays = part_test(b, "LogicalOr", stays, part_test(b, "NeTensor", later[0], later[0]));
    for (int i = 0; i < 2; i++) result[i] = part_where(b, stays, later[i], former[i]);
    for (int i = 0; i < 2; i++) npu_state_set(b, later[i], result[i]);
}

static enum bp_status extremes_build(struct kit_build *b, const char *test, int64_t axis)
{
    const struct bp_view *x = b->in[0];
    int64_t shape[3] = {1, 1, 1};
    struct extremes s = {.test = test};

    if (x->rank) axis = npu_axis(axis, x->rank);
    for (int64_t a = 0; a < x->rank; a++) shape[a < axis ? 0 : a > axis ? 2 : 1] *= x->shape[a];
    if (!x->count) return b->status;
    if (shape[1] > (int64_t)1 << EXTREMES_STEPS) return kit_refuse(b);
    s.state[0] = npu_state(b, kit_reshaped(b, NPU_IN(0), 3, shape));
    s.state[1] = kit_temporary(b, BP_I64, 3, shape);
    npu_state_set(b, s.state[1], npu_places(b, shape[1], 3, 1));
    for (int64_t step = 1; step < shape[1]; step *= 2) extremes_step(b, &s, shape[1], step);
    npu_finish(b, s.state[0], NPU_OUT(0));
    if (npu_is_given(b, NPU_OUT(1))) npu_finish(b, s.state[1], NPU_OUT(1));
    return part_pack(b);
}

enum bp_status npu_cummax_build(struct kit_build *b)
{
    return extremes_build(b, "GeTensor", ((const struct bp_cummax_attrs *)b->attrs)->axis);
}

enum bp_status npu_cummin_build(struct kit_build *b)
{
    return extremes_build(b, "LeTensor", ((const struct bp_cummin_attrs *)b->attrs)->axis);
}
