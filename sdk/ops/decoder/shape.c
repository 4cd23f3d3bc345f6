/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c: infers the shapes of parts of language models. */
#include <call/shape.h>

#include <backplane/attrs.h>
#include <inttypes.h>

/* Checks that an input, if it is present, has this shape. */
static enum bp_status decoder_expect(const struct bp_invocation *inv, uint32_t port, uint32_t rank,
                                     const int64_t *shape)
{
    struct bp_type type = {.rank = rank};

    if (!bp_invocation_in(inv, port)) return BP_OK;
    memcpy(type.shape, shape, rank * sizeof *shape);
    return bp_shape_expect(inv, port, &type);
}

static enum bp_status decoder_rank(const struct bp_invocation *inv, uint32_t port, uint32_t rank)
{
    const struct bp_view *x = bp_invocation_in(inv, port);

    if (x->rank == rank) return BP_OK;
    return bp_error(BP_ERR_INVALID, "%s: input %s has %u axes, expected %u", inv->row->info.name,
                    inv->row->info.in[port].name, x->rank, rank);
}

enum bp_status bp_infer_rotary_embedding(struct bp_invocation *inv)
{
    const struct bp_view *x = bp_invocation_in(inv, 0), *cos = bp_invocation_in(inv, 1);
    const struct bp_view *positions = bp_invocation_in(inv, 3);
    int64_t line[3] = {1, 0, 0};

    TRY(decoder_rank(inv, 0, 4));
    TRY(decoder_rank(inv, 1, positions ? 2 : 3));
    line[1] = x->shape[2];
    line[2] = cos->shape[cos->rank - 1];
    if (line[2] > x->shape[3] / 2)
        return bp_error(BP_ERR_INVALID,
                        "rotary_embedding: the last extent of cos is %" PRId64
                        ", expected at most half of %" PRId64 ", the elements of a head",
                        line[2], x->shape[3]);
    if (positions) {
        TRY(decoder_rank(inv, 3, 2));
        if (positions->shape[0] != 1) line[0] = x->shape[0];
        TRY(decoder_expect(inv, 3, 2, line));
    } else {
        if (cos->shape[0] != 1) line[0] = x->shape[0];
        TRY(decoder_expect(inv, 1, 3, line));
    }
    TRY(decoder_expect(inv, 2, cos->rank, cos->shape));
    bp_shape_copy(&inv->out[0], x);
    return BP_OK;
}

enum bp_status bp_infer_causal_conv(struct bp_invocation *inv)
{
    const struct bp_view *x = bp_invocation_in(inv, 0), *w = bp_invocation_in(inv, 1);
    int64_t filters[3] = {0, 1, 0}, state[3];

    TRY(decoder_rank(inv, 0, 3));
    TRY(decoder_rank(inv, 1, 3));
    filters[0] = x->shape[1];
    filters[2] = w->shape[2];
    TRY(decoder_expect(inv, 1, 3, filters));
    if (w->shape[2] < 1 || x->shape[1] < 1 || x->shape[2] < 1)
        return bp_error(BP_ERR_INVALID,
                        "causal_conv_with_state: filters have %" PRId64 " elements and x has "
                        "%" PRId64 " channels of %" PRId64 ", expected 1 or more of each",
                        w->shape[2], x->shape[1], x->shape[2]);
    TRY(decoder_expect(inv, 2, 1, filters));
    memcpy(state, x->shape, sizeof state);
    state[2] = w->shape[2] - 1;
    TRY(decoder_expect(inv, 3, 3, state));
    bp_shape_copy(&inv->out[0], x);
    inv->out[1].rank = 3;
    memcpy(inv->out[1].shape, state, sizeof state);
    return BP_OK;
}

/* Checks decay and beta of linear_attention: their last extent, or that of heads, may be 1. */
static enum bp_status gates_fit(const struct bp_invocation *inv, const struct bp_view *k)
{
    const struct bp_view *decay = bp_invocation_in(inv, 4), *beta = bp_invocation_in(inv, 5);
    int64_t shape[4];

    memcpy(shape, k->shape, sizeof shape);
    if (decay && decay->rank == 4 && decay->shape[3] == 1) shape[3] = 1;
    TRY(decoder_expect(inv, 4, 4, shape));
    shape[3] = 1;
    if (beta && beta->rank == 4 && beta->shape[2] == 1) shape[2] = 1;
    return decoder_expect(inv, 5, 4, shape);
}

enum bp_status bp_infer_linear_attention(struct bp_invocation *inv)
{
    const struct bp_view *q = bp_invocation_in(inv, 0), *k = bp_invocation_in(inv, 1);
    const struct bp_view *v = bp_invocation_in(inv, 2), *state = bp_invocation_in(inv, 3);
    bool half = q->dtype == BP_F16 || q->dtype == BP_BF16;
    int64_t shape[4];

    for (uint32_t i = 0; i < 4; i++) TRY(decoder_rank(inv, i, 4));
    if (q->shape[1] < 1 || q->shape[3] < 1)
        return bp_error(BP_ERR_INVALID,
                        "linear_attention: q has %" PRId64 " steps and %" PRId64
                        " elements in a head, expected 1 or more of both",
                        q->shape[1], q->shape[3]);
    memcpy(shape, q->shape, sizeof shape);
    shape[2] = k->shape[2];
    TRY(decoder_expect(inv, 1, 4, shape));
    if (k->shape[2] < 1 || q->shape[2] % k->shape[2])
        return bp_error(BP_ERR_INVALID,
                        "linear_attention: q has %" PRId64 " heads and k %" PRId64
                        ", expected 1 or more in k and a multiple of them in q",
                        q->shape[2], k->shape[2]);
    shape[3] = v->shape[3];
    TRY(decoder_expect(inv, 2, 4, shape));
    TRY(gates_fit(inv, k));
    if (state->dtype != q->dtype && !(half && state->dtype == BP_F32))
        return bp_error(BP_ERR_INVALID, "linear_attention: input state is %s, expected %s%s",
                        bp_dtype_name(state->dtype), bp_dtype_name(q->dtype),
                        half ? " or f32" : "");
    bp_shape_copy(&inv->out[0], q);
    inv->out[0].shape[3] = v->shape[3];
    shape[0] = q->shape[0];
    shape[1] = k->shape[2];
    shape[2] = k->shape[3];
    TRY(decoder_expect(inv, 3, 4, shape));
    bp_shape_copy(&inv->out[1], state);
    return BP_OK;
}

enum bp_status bp_infer_tensor_scatter(struct bp_invocation *inv)
{
    const struct bp_tensor_scatter_attrs *a = inv->attrs;
    const struct bp_view *cache = bp_invocation_in(inv, 0), *update = bp_invocation_in(inv, 1);
    int64_t shape[BP_RANK_MAX];
    uint32_t axis;

    TRY(bp_shape_axis(inv, a->axis, cache->rank, &axis));
    if (!axis)
        return bp_error(BP_ERR_INVALID, "tensor_scatter: attribute axis is %" PRId64
                        ", expected an axis after the first", a->axis);
    memcpy(shape, cache->shape, cache->rank * sizeof *shape);
    if (update->rank == cache->rank && update->shape[axis] < shape[axis])
        shape[axis] = update->shape[axis];
    TRY(decoder_expect(inv, 1, cache->rank, shape));
    TRY(decoder_expect(inv, 2, 1, shape));
    bp_shape_copy(&inv->out[0], cache);
    return BP_OK;
}

enum bp_status bp_infer_cache_write(struct bp_invocation *inv)
{
    const struct bp_cache_write_attrs *a = inv->attrs;
    const struct bp_view *cache = bp_invocation_in(inv, 0), *update = bp_invocation_in(inv, 1),
                         *at = bp_invocation_in(inv, 2);
    int64_t shape[BP_RANK_MAX];
    uint32_t axis;

    TRY(bp_shape_axis(inv, a->axis, cache->rank, &axis));
    if (!axis && at && at->rank)
        return bp_error(BP_ERR_INVALID, "cache_write: attribute axis is %" PRId64
                        ", expected an axis after the first, or one number as input at", a->axis);
    memcpy(shape, cache->shape, cache->rank * sizeof *shape);
    if (update->rank == cache->rank && update->shape[axis] < shape[axis])
        shape[axis] = update->shape[axis];
    TRY(decoder_expect(inv, 1, cache->rank, shape));
    if (at && at->rank) TRY(decoder_expect(inv, 2, 1, shape));
    bp_shape_copy(&inv->out[0], cache);
    return BP_OK;
}

enum bp_status bp_infer_swiglu(struct bp_invocation *inv)
{
    const struct bp_view *gate = bp_invocation_in(inv, 0);

    bp_shape_copy(&inv->out[0], gate);
    return decoder_expect(inv, 1, gate->rank, gate->shape);
}
