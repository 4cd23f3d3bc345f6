/* SPDX-License-Identifier: Apache-2.0 */
/* rotary.c: runs RotaryEmbedding of ONNX and of com.microsoft. Half types are computed in f32. */
#include "../ops.h"
#include "heads.h"

struct bp_tensor *onnx_rotate(struct onnx_chain *k, struct bp_tensor *x, struct bp_tensor *cos,
                              struct bp_tensor *sin, struct bp_tensor *positions,
                              bool interleaved)
{
    struct bp_rotary_embedding_attrs attrs = bp_rotary_embedding_defaults();
    uint32_t dtype;

    if (k->status) return NULL;
    dtype = onnx_info(x).dtype;
    attrs.interleaved = interleaved;
    return MAKE(k, rotary_embedding, &attrs, x, onnx_chain_cast(k, cos, dtype),
                onnx_chain_cast(k, sin, dtype), positions);
}

/* The extents that a node declares. heads: 0 if x has an axis for them. */
struct rotary {
    int64_t heads, size, batch, length, half;
};

/* by_table: if the node has neither the number of heads nor that of rotated elements, all elements
 * of a head are rotated, and the table has half as many columns as a head has elements. */
static enum bp_status rotary_read(const struct onnx_call *c, const struct bp_tensor_info *x,
                                  const struct bp_tensor_info *cos, bool by_table,
                                  struct rotary *r)
{
    int64_t heads = onnx_attr_int(c, "num_heads", 0);
    int64_t dim = onnx_attr_int(c, "rotary_embedding_dim", 0);

    if ((x->rank != 3 && x->rank != 4) || (cos->rank != 2 && cos->rank != 3))
        return onnx_error(BP_ERR_INVALID, "x has %u axes, expected 3 or 4; cosines have %u, "
                          "expected 2 or 3", x->rank, cos->rank);
    r->half = cos->shape[cos->rank - 1];
    if (x->rank == 4) heads = 0;
    else if (by_table && !heads && !dim && r->half) heads = x->shape[2] / (2 * r->half);
    if (x->rank == 3 && (heads < 1 || x->shape[2] % heads))
        return onnx_error(BP_ERR_INVALID, "a last extent of %lld, for num_heads %lld",
                          (long long)x->shape[2], (long long)heads);
    *r = (struct rotary){heads, x->rank == 4 ? x->shape[3] : x->shape[2] / heads, x->shape[0],
                         x->shape[x->rank == 4 ? 2 : 1], r->half};
    if (!dim) dim = r->size;
    if (dim < 0 || dim > r->size || dim % 2 || r->half != dim / 2)
        return onnx_error(BP_ERR_INVALID, "%lld of %lld elements of a head are rotated, cosines "
                          "have %lld, expected half as many", (long long)dim, (long long)r->size,
                          (long long)r->half);
    return BP_OK;
}

static enum bp_status rotary_give(struct onnx_chain *k, const struct rotary *r,
                                  struct bp_tensor *x, struct bp_tensor *cos,
                                  struct bp_tensor *sin, struct bp_tensor *positions)
{
    bool interleaved = onnx_attr_int(k->call, "interleaved", 0) != 0;

    if (r->heads) x = onnx_heads_split(k, x, r->heads);
    x = onnx_rotate(k, x, cos, sin, positions, interleaved);
    if (r->heads) x = onnx_heads_join(k, x);
    onnx_chain_give(k, 0, x);
    return onnx_chain_end(k);
}

/* Checks that a table has these extents. */
static enum bp_status rotary_check(const char *name, const struct bp_tensor_info *t, int64_t batch,
                                   int64_t length, int64_t half)
{
    uint32_t rank = batch ? 3 : 2;

    if (t->rank == rank && t->shape[rank - 1] == half &&
        (!batch || (t->shape[0] == batch && t->shape[1] == length)))
        return BP_OK;
    if (!batch)
        return onnx_error(BP_ERR_INVALID, "%s: 2 axes with a last extent of %lld are expected",
                          name, (long long)half);
    return onnx_error(BP_ERR_INVALID, "%s: [%lld, %lld, %lld] is expected, as there are no "
                      "positions", name, (long long)batch, (long long)length, (long long)half);
}

enum bp_status onnx_rotary(struct onnx_call *c)
{
    struct bp_tensor *cos = onnx_in(c, 1), *sin = onnx_in(c, 2), *ids = onnx_in(c, 3);
    struct onnx_chain k = onnx_chain_begin(c);
    struct bp_tensor_info x, a, b;
    struct rotary r = {0};

    TRY(onnx_need(c, 3));
    x = onnx_info(onnx_in(c, 0));
    a = onnx_info(cos);
    b = onnx_info(sin);
    TRY(rotary_read(c, &x, &a, false, &r));
    TRY(rotary_check("cos_cache", &a, ids ? 0 : r.batch, r.length, r.half));
    TRY(rotary_check("sin_cache", &b, ids ? 0 : r.batch, r.length, r.half));
    if (ids) {
        a = onnx_info(ids);
        if (a.rank != 2 || a.shape[0] != r.batch || a.shape[1] != r.length)
            return onnx_error(BP_ERR_INVALID, "position_ids: [%lld, %lld] is expected",
                              (long long)r.batch, (long long)r.length);
    }
    return rotary_give(&k, &r, onnx_in(c, 0), cos, sin, ids);
}

/* One position is that of the first element of each sequence. */
enum bp_status onnx_contrib_rotary(struct onnx_call *c)
{
    struct bp_tensor *ids = onnx_in(c, 1), *cos = onnx_in(c, 2), *sin = onnx_in(c, 3);
    struct onnx_chain k = onnx_chain_begin(c);
    struct bp_tensor_info x, a, b, p;
    struct rotary r = {0};

    TRY(onnx_need(c, 4));
    x = onnx_info(onnx_in(c, 0));
    a = onnx_info(cos);
    b = onnx_info(sin);
    p = onnx_info(ids);
    TRY(rotary_read(c, &x, &a, true, &r));
    TRY(rotary_check("cos_cache", &a, 0, 0, r.half));
    TRY(rotary_check("sin_cache", &b, 0, 0, r.half));
    if (p.rank == 1 && p.shape[0] == 1) {
        const int64_t one = 1, row[] = {1, r.length};
        ids = onnx_chain_reshape(&k, ids, 1, &one);
        ids = MAKE(&k, add, NULL, onnx_heads_numbers(&k, r.length, 2, row), ids);
    } else if (p.rank != 2 || p.shape[0] != r.batch || p.shape[1] != r.length)
        return onnx_error(BP_ERR_INVALID, "position_ids: [1] or [%lld, %lld] is expected",
                          (long long)r.batch, (long long)r.length);
    return rotary_give(&k, &r, onnx_in(c, 0), cos, sin, ids);
}
