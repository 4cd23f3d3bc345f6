/* SPDX-License-Identifier: Apache-2.0 */
/* rounds.c: adds the steps around those that run again and again. */
#include "rounds.h"

#include <stdlib.h>
#include <string.h>

struct npu_rounds npu_rounds_begin(struct kit_build *b)
{
    const int64_t one[1] = {1};
    struct npu_rounds rounds = {.at = kit_temporary(b, BP_I64, 1, one)};

    KIT_STEP(b, "InplaceFillScalar", kit_as(rounds.at, KIT_UPDATES), KIT_SCALAR_IS(0));
    rounds.first = b->n_step;
    return rounds;
}

void npu_rounds_end(struct kit_build *b, const struct npu_rounds *rounds, int64_t times)
{
    npu_state_set(b, rounds->at, part_plus(b, rounds->at, KIT_VALUE(KIT_SCALAR_IS(1))));
    kit_repeat(b, rounds->first, times);
}

struct kit_arg npu_state(struct kit_build *b, struct kit_arg value)
{
    struct kit_arg state = part_like(b, value);

    npu_state_set(b, state, value);
    return state;
}

void npu_state_set(struct kit_build *b, struct kit_arg state, struct kit_arg value)
{
    KIT_STEP(b, "InplaceCopy", kit_as(state, KIT_UPDATES), value);
}

struct kit_arg npu_places(struct kit_build *b, int64_t n, uint32_t rank, uint32_t axis)
{
    int64_t shape[KIT_AXES_MAX], *at = malloc(((size_t)n + 1) * sizeof *at);
    struct kit_arg places;

    if (!at) {
        if (!b->status) b->status = BP_ERR_MEMORY;
        return NPU_NONE;
    }
    for (uint32_t a = 0; a < rank; a++) shape[a] = a == axis ? n : 1;
    for (int64_t i = 0; i < n; i++) at[i] = i;
    places = kit_constant(b, BP_I64, rank, shape, at);
    free(at);
    return places;
}

/* A temporary of the shape of x, but for one extent. */
static struct kit_arg rounds_along(struct kit_build *b, struct kit_arg x, uint32_t dtype,
                                   uint32_t axis, int64_t n)
{
    const struct bp_view *type = npu_type(b, x);
    int64_t shape[KIT_AXES_MAX];

    if (b->status) return NPU_NONE;
    memcpy(shape, type->shape, type->rank * sizeof *shape);
    shape[axis] = n;
    return kit_temporary(b, dtype, type->rank, shape);
}

struct kit_arg npu_select(struct kit_build *b, struct kit_arg x, uint32_t axis, struct kit_arg at)
{
    struct kit_arg to = rounds_along(b, x, npu_type(b, x)->dtype, axis, 1);

    KIT_STEP(b, "IndexSelect", x, KIT_INT_IS(axis), at, to);
    return to;
}

struct kit_arg npu_argmax(struct kit_build *b, struct kit_arg x, uint32_t axis)
{
    struct kit_arg to = rounds_along(b, x, BP_I64, axis, 1);

    KIT_STEP(b, "ArgMax", x, KIT_INT_IS(axis), KIT_INT_IS(1), to);
    return to;
}

struct kit_arg npu_gather(struct kit_build *b, struct kit_arg x, uint32_t axis,
                          struct kit_arg index)
{
    struct kit_arg to = npu_like(b, index, npu_type(b, x)->dtype);

    KIT_STEP(b, "Gather", x, KIT_INT_IS(axis), index, to);
    return to;
}
