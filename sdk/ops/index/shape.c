/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c: has the shape rules of operators that read and write elements by indices. Their
 * gradients are in grad.c. */
#include <call/shape.h>

#include <backplane/attrs.h>
#include <inttypes.h>

/* Sets out to x with axes first to last - 1 replaced by the axes of index, except its last
 * `skip`. */
static enum bp_status index_replaced(const struct bp_invocation *inv, const struct bp_view *x,
                                     const struct bp_view *index, uint32_t first, uint32_t last,
                                     uint32_t skip, struct bp_type *out)
{
    uint32_t rank = x->rank - (last - first) + index->rank - skip;

    if (rank > BP_RANK_MAX)
        return bp_error(BP_ERR_INVALID, "%s: the result would have %u axes, at most %u are allowed",
                        inv->row->info.name, rank, (unsigned)BP_RANK_MAX);
    out->rank = 0;
    for (uint32_t i = 0; i < first; i++) out->shape[out->rank++] = x->shape[i];
    for (uint32_t i = 0; i + skip < index->rank; i++) out->shape[out->rank++] = index->shape[i];
    for (uint32_t i = last; i < x->rank; i++) out->shape[out->rank++] = x->shape[i];
    return BP_OK;
}

static enum bp_status index_gathered(const struct bp_invocation *inv, const struct bp_view *x,
                                     const struct bp_view *index, int64_t axis, struct bp_type *out)
{
    uint32_t at;

    TRY(bp_shape_axis(inv, axis, x->rank, &at));
    return index_replaced(inv, x, index, at, at + 1, 0, out);
}

static enum bp_status one_axis(const struct bp_invocation *inv, uint32_t port)
{
    const struct bp_view *v = bp_invocation_in(inv, port);

    if (v->rank == 1) return BP_OK;
    return bp_error(BP_ERR_INVALID, "%s: input %s has %u axes, expected one",
                    inv->row->info.name, inv->row->info.in[port].name, v->rank);
}

enum bp_status bp_infer_gather(struct bp_invocation *inv)
{
    const struct bp_gather_attrs *a = inv->attrs;

    return index_gathered(inv, bp_invocation_in(inv, 0), bp_invocation_in(inv, 1), a->axis,
                          &inv->out[0]);
}

enum bp_status bp_infer_gather_grad(struct bp_invocation *inv)
{
    const struct bp_gather_grad_attrs *a = inv->attrs;
    const struct bp_view *x = bp_invocation_in(inv, 2);
    struct bp_type y;

    TRY(index_gathered(inv, x, bp_invocation_in(inv, 1), a->axis, &y));
    bp_shape_copy(&inv->out[0], x);
    return bp_shape_expect(inv, 0, &y);
}

enum bp_status bp_infer_index_select(struct bp_invocation *inv)
{
    const struct bp_index_select_attrs *a = inv->attrs;

    TRY(one_axis(inv, 1));
    return index_gathered(inv, bp_invocation_in(inv, 0), bp_invocation_in(inv, 1), a->axis,
                          &inv->out[0]);
}

enum bp_status bp_infer_index_add(struct bp_invocation *inv)
{
    const struct bp_index_add_attrs *a = inv->attrs;
    const struct bp_view *x = bp_invocation_in(inv, 0);
    struct bp_type updates;

    TRY(one_axis(inv, 1));
    TRY(index_gathered(inv, x, bp_invocation_in(inv, 1), a->axis, &updates));
    bp_shape_copy(&inv->out[0], x);
    return bp_shape_expect(inv, 2, &updates);
}

enum bp_status bp_infer_embedding(struct bp_invocation *inv)
{
    const struct bp_view *weight = bp_invocation_in(inv, 0);

    return index_gathered(inv, weight, bp_invocation_in(inv, 1), 0, &inv->out[0]);
}

enum bp_status bp_infer_embedding_grad(struct bp_invocation *inv)
{
    const struct bp_view *weight = bp_invocation_in(inv, 2);
    struct bp_type y;

    TRY(index_gathered(inv, weight, bp_invocation_in(inv, 1), 0, &y));
    bp_shape_copy(&inv->out[0], weight);
    return bp_shape_expect(inv, 0, &y);
}

/* Checks that x and index have one rank, and that index is not longer than x along axes other than
 * `axis`. */
static enum bp_status index_along(const struct bp_invocation *inv, const struct bp_view *x,
                                  const struct bp_view *index, int64_t axis)
{
    char a[BP_TYPE_TEXT], b[BP_TYPE_TEXT];
    bool fits = x->rank == index->rank;
    uint32_t at;

    TRY(bp_shape_axis(inv, axis, x->rank, &at));
    for (uint32_t i = 0; fits && i < x->rank; i++)
        fits = i == at || index->shape[i] <= x->shape[i];
    if (fits) return BP_OK;
    return bp_error(BP_ERR_INVALID,
                    "%s: index is %s and x is %s: expected as many axes, and but for axis %u no "
                    "larger extents",
                    inv->row->info.name,
                    bp_type_text(index->dtype, index->rank, index->shape, a, sizeof a),
                    bp_type_text(x->dtype, x->rank, x->shape, b, sizeof b), at);
}

enum bp_status bp_infer_take_along_axis(struct bp_invocation *inv)
{
    const struct bp_take_along_axis_attrs *a = inv->attrs;

    bp_shape_copy(&inv->out[0], bp_invocation_in(inv, 1));
    return index_along(inv, bp_invocation_in(inv, 0), bp_invocation_in(inv, 1), a->axis);
}

enum bp_status bp_infer_take_along_axis_grad(struct bp_invocation *inv)
{
    const struct bp_take_along_axis_grad_attrs *a = inv->attrs;
    const struct bp_view *index = bp_invocation_in(inv, 1), *x = bp_invocation_in(inv, 2);
    struct bp_type y;

    TRY(index_along(inv, x, index, a->axis));
    bp_shape_copy(&y, index);
    bp_shape_copy(&inv->out[0], x);
    return bp_shape_expect(inv, 0, &y);
}

enum bp_status bp_infer_index_sample(struct bp_invocation *inv)
{
    const struct bp_view *x = bp_invocation_in(inv, 0), *index = bp_invocation_in(inv, 1);

    if (x->rank != 2 || index->rank != 2 || x->shape[0] != index->shape[0]) {
        char a[BP_TYPE_TEXT], b[BP_TYPE_TEXT];
        return bp_error(BP_ERR_INVALID,
                        "index_sample: x is %s and index is %s: expected two axes each, the first "
                        "of one extent",
                        bp_type_text(x->dtype, x->rank, x->shape, a, sizeof a),
                        bp_type_text(index->dtype, index->rank, index->shape, b, sizeof b));
    }
    bp_shape_copy(&inv->out[0], index);
    return BP_OK;
}

enum bp_status bp_values_put_along_axis(const void *attrs)
{
    const struct bp_put_along_axis_attrs *a = attrs;

    if (a->reduce >= 0 && a->reduce <= 2) return BP_OK;
    return bp_error(BP_ERR_INVALID,
                    "put_along_axis: attribute reduce is %" PRId64
                    ", expected 0 (replace), 1 (add) or 2 (multiply)",
                    a->reduce);
}

enum bp_status bp_infer_put_along_axis(struct bp_invocation *inv)
{
    const struct bp_put_along_axis_attrs *a = inv->attrs;
    const struct bp_view *x = bp_invocation_in(inv, 0), *index = bp_invocation_in(inv, 1);
    struct bp_type updates;

    TRY(index_along(inv, x, index, a->axis));
    bp_shape_copy(&updates, index);
    bp_shape_copy(&inv->out[0], x);
    return bp_shape_expect(inv, 2, &updates);
}

/* Computes the shape of the slices of x, after its first `batch` axes, that the rows of index
 * name. */
static enum bp_status index_named(const struct bp_invocation *inv, const struct bp_view *x,
                                  const struct bp_view *index, int64_t batch, struct bp_type *out)
{
    const char *op = inv->row->info.name;
    uint32_t first = (uint32_t)batch;
    int64_t k;

    if (!index->rank)
        return bp_error(BP_ERR_INVALID, "%s: index has no axes, expected one or more", op);
    if (batch < 0 || batch >= index->rank || batch > x->rank)
        return bp_error(BP_ERR_INVALID,
                        "%s: attribute batch_dims is %" PRId64
                        ", expected 0 or more, fewer than the %u axes of index, and at most the %u "
                        "of x",
                        op, batch, index->rank, x->rank);
    for (uint32_t i = 0; i < first; i++)
        if (x->shape[i] != index->shape[i])
            return bp_error(BP_ERR_INVALID,
                            "%s: axis %u of x has extent %" PRId64 " and that of index %" PRId64
                            ": expected one extent, it is a batch axis",
                            op, i, x->shape[i], index->shape[i]);
    k = index->shape[index->rank - 1];
    if (k > x->rank - first)
        return bp_error(BP_ERR_INVALID,
                        "%s: the last axis of index is %" PRId64
                        ", at most %u: it counts axes of the tensor",
                        op, k, x->rank - first);
    return index_replaced(inv, x, index, 0, first + (uint32_t)k, 1, out);
}

enum bp_status bp_infer_gather_nd(struct bp_invocation *inv)
{
    const struct bp_gather_nd_attrs *a = inv->attrs;

    return index_named(inv, bp_invocation_in(inv, 0), bp_invocation_in(inv, 1), a->batch_dims,
                       &inv->out[0]);
}

enum bp_status bp_infer_gather_nd_grad(struct bp_invocation *inv)
{
    const struct bp_gather_nd_grad_attrs *a = inv->attrs;
    const struct bp_view *x = bp_invocation_in(inv, 2);
    struct bp_type y;

    TRY(index_named(inv, x, bp_invocation_in(inv, 1), a->batch_dims, &y));
    bp_shape_copy(&inv->out[0], x);
    return bp_shape_expect(inv, 0, &y);
}

enum bp_status bp_infer_scatter_nd(struct bp_invocation *inv)
{
    const struct bp_scatter_nd_attrs *a = inv->attrs;
    struct bp_view y = {.shape = a->shape.at, .rank = (uint8_t)a->shape.n};
    struct bp_type updates;

    if (a->shape.n > BP_RANK_MAX)
        return bp_error(BP_ERR_INVALID,
                        "scatter_nd: attribute shape has %" PRId64 " entries, expected at most %d",
                        a->shape.n, BP_RANK_MAX);
    TRY(index_named(inv, &y, bp_invocation_in(inv, 0), 0, &updates));
    bp_shape_copy(&inv->out[0], &y);
    return bp_shape_expect(inv, 1, &updates);
}

enum bp_status bp_infer_scatter_nd_put(struct bp_invocation *inv)
{
    const struct bp_view *x = bp_invocation_in(inv, 0);
    struct bp_type updates;

    TRY(index_named(inv, x, bp_invocation_in(inv, 1), 0, &updates));
    bp_shape_copy(&inv->out[0], x);
    return bp_shape_expect(inv, 2, &updates);
}

/* Checks that there is an index for each row: shape N, or N 1. */
static enum bp_status index_column(const struct bp_invocation *inv, uint32_t port)
{
    const struct bp_view *v = bp_invocation_in(inv, port);
    char text[BP_TYPE_TEXT];

    if (v->rank == 1 || (v->rank == 2 && v->shape[1] == 1)) return BP_OK;
    return bp_error(BP_ERR_INVALID, "%s: index is %s, expected one axis, or a second of extent 1",
                    inv->row->info.name,
                    bp_type_text(v->dtype, v->rank, v->shape, text, sizeof text));
}

enum bp_status bp_infer_scatter(struct bp_invocation *inv)
{
    const struct bp_view *x = bp_invocation_in(inv, 0), *index = bp_invocation_in(inv, 1);
    struct bp_type updates;

    TRY(index_column(inv, 1));
    if (!x->rank) return bp_error(BP_ERR_INVALID, "scatter: x has no axes, expected one or more");
    bp_shape_copy(&inv->out[0], x);
    bp_shape_copy(&updates, x);
    updates.shape[0] = index->shape[0];
    return bp_shape_expect(inv, 2, &updates);
}

enum bp_status bp_infer_one_hot(struct bp_invocation *inv)
{
    const struct bp_one_hot_attrs *a = inv->attrs;
    const struct bp_view *index = bp_invocation_in(inv, 0);
    const struct bp_opinfo *op = &inv->row->info;
    struct bp_type *out = &inv->out[0];
    uint32_t axis;

    if (a->depth < 0)
        return bp_error(BP_ERR_INVALID,
                        "one_hot: attribute depth is %" PRId64 ", expected 0 or more", a->depth);
    if (a->dtype > 63 || !(op->types[BP_VAR_T] >> a->dtype & 1))
        return bp_error(BP_ERR_INVALID,
                        "one_hot: attribute dtype is %s, which one_hot does not make",
                        bp_dtype_name((uint32_t)a->dtype));
    if (index->rank == BP_RANK_MAX)
        return bp_error(BP_ERR_INVALID, "one_hot: index has %u axes, expected fewer", index->rank);
    TRY(bp_shape_axis(inv, a->axis, index->rank + 1u, &axis));
    out->dtype = (uint32_t)a->dtype;
    out->rank = index->rank + 1u;
    for (uint32_t i = 0; i < out->rank; i++)
        out->shape[i] = i < axis ? index->shape[i] : i == axis ? a->depth : index->shape[i - 1];
    return BP_OK;
}

enum bp_status bp_values_shard_index(const void *attrs)
{
    const struct bp_shard_index_attrs *a = attrs;

    if (a->index_num >= 1 && a->nshards >= 1 && a->shard_id >= 0 && a->shard_id < a->nshards)
        return BP_OK;
    return bp_error(BP_ERR_INVALID,
                    "shard_index: index_num is %" PRId64 ", nshards %" PRId64 ", shard_id %" PRId64
                    ": expected 1 or more of the first two, and shard_id from 0 to nshards - 1",
                    a->index_num, a->nshards, a->shard_id);
}

enum bp_status bp_infer_multiplex(struct bp_invocation *inv)
{
    uint32_t n = inv->n_in - 1u;
    const struct bp_view *index = inv->in[0], *first = n ? inv->in[1] : NULL;

    if (!n || !first->rank)
        return bp_error(BP_ERR_INVALID, "multiplex: xs %s, expected tensors of one axis or more",
                        n ? "have no axes" : "has no tensors");
    TRY(index_column(inv, 0));
    for (uint32_t i = 1; i < n; i++) {
        char a[BP_TYPE_TEXT], b[BP_TYPE_TEXT];
        const struct bp_view *x = inv->in[1 + i];
        if (x->rank == first->rank &&
            !memcmp(x->shape, first->shape, x->rank * sizeof *x->shape))
            continue;
        return bp_error(BP_ERR_INVALID,
                        "multiplex: xs[0] is %s and xs[%u] is %s: expected one shape",
                        bp_type_text(first->dtype, first->rank, first->shape, a, sizeof a), i,
                        bp_type_text(x->dtype, x->rank, x->shape, b, sizeof b));
    }
    if (index->shape[0] != first->shape[0])
        return bp_error(BP_ERR_INVALID,
                        "multiplex: index has %" PRId64
                        " entries, expected one for each of the %" PRId64 " rows",
                        index->shape[0], first->shape[0]);
    bp_shape_copy(&inv->out[0], first);
    return BP_OK;
}

enum bp_status bp_infer_multiplex_grad(struct bp_invocation *inv)
{
    const struct bp_view *dy = bp_invocation_in(inv, 0), *index = bp_invocation_in(inv, 1);

    TRY(index_column(inv, 1));
    if (!dy->rank || dy->shape[0] != index->shape[0])
        return bp_error(BP_ERR_INVALID,
                        "multiplex_grad: index has %" PRId64
                        " entries, expected one for each row of dy",
                        index->shape[0]);
    bp_shape_copy(&inv->out[0], dy);
    return BP_OK;
}

/* The result has at most as many elements as x. */
enum bp_status bp_infer_masked_select(struct bp_invocation *inv)
{
    const struct bp_view *x = bp_invocation_in(inv, 0);
    struct bp_type same;

    bp_shape_copy(&same, x);
    TRY(bp_shape_expect(inv, 1, &same));
    inv->out[0].rank = 1;
    inv->out[0].shape[0] = x->count;
    return BP_OK;
}

enum bp_status bp_infer_masked_select_grad(struct bp_invocation *inv)
{
    const struct bp_view *mask = bp_invocation_in(inv, 1);

    TRY(one_axis(inv, 0));
    bp_shape_copy(&inv->out[0], mask);
    return BP_OK;
}

enum bp_status bp_infer_gather_tree(struct bp_invocation *inv)
{
    const struct bp_view *ids = bp_invocation_in(inv, 0);

    if (ids->rank != 3)
        return bp_error(BP_ERR_INVALID, "gather_tree: ids has %u axes, expected 3", ids->rank);
    bp_shape_copy(&inv->out[0], ids);
    return bp_shape_expect(inv, 1, &inv->out[0]);
}

enum bp_status bp_infer_repeat_interleave(struct bp_invocation *inv)
{
    const struct bp_repeat_interleave_attrs *a = inv->attrs;
    const struct bp_view *x = bp_invocation_in(inv, 0);
    uint32_t axis;

    TRY(bp_shape_axis(inv, a->axis, x->rank, &axis));
    bp_shape_copy(&inv->out[0], x);
    if (a->repeats < 0 ||
        __builtin_mul_overflow(x->shape[axis], a->repeats, &inv->out[0].shape[axis]))
        return bp_error(BP_ERR_INVALID,
                        "repeat_interleave: attribute repeats is %" PRId64
                        ", expected 0 or more, and a result below 2^63",
                        a->repeats);
    return BP_OK;
}

/* Computes the shape of the part of x that set_value replaces. */
static enum bp_status replaced_part(const struct bp_invocation *inv, struct bp_type *part)
{
    const struct bp_set_value_attrs *a = inv->attrs;
    const struct bp_view *x = bp_invocation_in(inv, 0);
    struct bp_shape_slices slices = {a->starts, a->ends, a->axes, a->steps};
    uint32_t axis[BP_RANK_MAX];

    TRY(bp_shape_check_slices(inv, &slices, x->rank, axis));
    bp_shape_copy(part, x);
    for (int64_t i = 0; i < a->starts.n; i++)
        part->shape[axis[i]] = bp_shape_slice_extent(a->starts.at[i], a->ends.at[i],
                                                     a->steps.n ? a->steps.at[i] : 1,
                                                     x->shape[axis[i]]);
    return BP_OK;
}

enum bp_status bp_infer_set_value(struct bp_invocation *inv)
{
    const struct bp_view *x = bp_invocation_in(inv, 0), *value = bp_invocation_in(inv, 1);
    struct bp_type part;
    char a[BP_TYPE_TEXT], b[BP_TYPE_TEXT];
    bool fits = true;

    TRY(replaced_part(inv, &part));
    bp_shape_copy(&inv->out[0], x);
    if (!value) return BP_OK;
    for (uint32_t i = 0; i < value->rank; i++) {
        int64_t extent = value->shape[value->rank - 1 - i];
        fits &= i < part.rank && (extent == 1 || extent == part.shape[part.rank - 1 - i]);
    }
    if (fits) return BP_OK;
    return bp_error(BP_ERR_INVALID,
                    "set_value: value is %s, which does not broadcast to the slice, %s",
                    bp_type_text(value->dtype, value->rank, value->shape, a, sizeof a),
                    bp_type_text(x->dtype, part.rank, part.shape, b, sizeof b));
}

enum bp_status bp_values_segment_pool(const void *attrs)
{
    const struct bp_segment_pool_attrs *a = attrs;

    if (a->mode >= 0 && a->mode <= 3 && a->segments >= 0) return BP_OK;
    return bp_error(BP_ERR_INVALID,
                    "segment_pool: mode is %" PRId64 ", segments %" PRId64
                    ": expected 0 (sum), 1 (mean), 2 (largest) or 3 (smallest), and 0 or more",
                    a->mode, a->segments);
}

static enum bp_status index_pooled(const struct bp_invocation *inv, int64_t segments,
                                   struct bp_type *out)
{
    const struct bp_view *x = bp_invocation_in(inv, 0), *ids = bp_invocation_in(inv, 1);

    TRY(one_axis(inv, 1));
    if (!x->rank || x->shape[0] != ids->shape[0])
        return bp_error(BP_ERR_INVALID,
                        "%s: ids has %" PRId64 " entries, expected one for each row of x",
                        inv->row->info.name, ids->shape[0]);
    bp_shape_copy(out, x);
    out->shape[0] = segments;
    return BP_OK;
}

enum bp_status bp_infer_segment_pool(struct bp_invocation *inv)
{
    const struct bp_segment_pool_attrs *a = inv->attrs;

    return index_pooled(inv, a->segments, &inv->out[0]);
}

enum bp_status bp_infer_segment_pool_grad(struct bp_invocation *inv)
{
    const struct bp_segment_pool_grad_attrs *a = inv->attrs;
    struct bp_type y;

    TRY(bp_values_segment_pool(inv->attrs)); /* the attributes have one layout */
    TRY(index_pooled(inv, a->segments, &y));
    TRY(bp_shape_expect(inv, 2, &y));
    bp_shape_copy(&inv->out[0], bp_invocation_in(inv, 0));
    return bp_shape_expect(inv, 3, &y);
}

enum bp_status bp_infer_reverse_sequence(struct bp_invocation *inv)
{
    const struct bp_reverse_sequence_attrs *a = inv->attrs;
    const struct bp_view *x = bp_invocation_in(inv, 0), *lengths = bp_invocation_in(inv, 1);
    uint32_t batch, time;

    TRY(bp_shape_axis(inv, a->batch_axis, x->rank, &batch));
    TRY(bp_shape_axis(inv, a->time_axis, x->rank, &time));
    TRY(one_axis(inv, 1));
    if (batch == time)
        return bp_error(BP_ERR_INVALID,
                        "reverse_sequence: batch_axis and time_axis are both axis %u, expected two",
                        batch);
    if (lengths->shape[0] != x->shape[batch])
        return bp_error(BP_ERR_INVALID,
                        "reverse_sequence: lengths has %" PRId64 " entries, expected %" PRId64
                        ", as many as axis %u of x",
                        lengths->shape[0], x->shape[batch], batch);
    bp_shape_copy(&inv->out[0], x);
    return BP_OK;
}

/* The result has at most as many rows as x has elements. */
enum bp_status bp_infer_nonzero(struct bp_invocation *inv)
{
    const struct bp_view *x = bp_invocation_in(inv, 0);

    inv->out[0] = (struct bp_type){.dtype = BP_I64, .rank = 2, .shape = {x->count, x->rank}};
    return BP_OK;
}
