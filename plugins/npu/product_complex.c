/* SPDX-License-Identifier: Apache-2.0 */
/* product_complex.c: builds the row of products of complex matrices, which CANN's functions of
 * products do not take: four products of real and imaginary parts. Those of c64 are CANN's products
 * of f32; those of c128 are made of all terms. */
#include "builds.h"
#include "compose.h"

/* A part of a complex tensor, as a contiguous tensor. */
static struct kit_arg complex_side(struct kit_build *b, struct kit_arg z, int64_t part)
{
    struct kit_arg from = npu_complex_part(b, z, part), to = part_like(b, from);

    KIT_STEP(b, "InplaceCopy", kit_as(to, KIT_UPDATES), from);
    return to;
}

/* A vector as a matrix of one row or one column. */
static struct kit_arg complex_matrix(struct kit_build *b, struct kit_arg x, bool is_row)
{
    int64_t shape[2] = {1, 1};

    if (npu_type(b, x)->rank != 1) return x;
    shape[is_row] = npu_type(b, x)->count;
    return kit_reshaped(b, x, 2, shape);
}

/* Factors and results of as many axes as there can be, with three axes: the four products would
 * need more integers than a build has. */
static void complex_flat(struct kit_build *b, struct kit_arg *x, struct kit_arg *y,
                         struct kit_arg *out, const bool transpose[2])
{
    struct bp_view result = *npu_type(b, *out);
    int64_t shape[3] = {1, 1, 1};

    if (npu_type(b, *x)->rank < KIT_AXES_MAX && npu_type(b, *y)->rank < KIT_AXES_MAX) return;
    result.rank = KIT_AXES_MAX; /* of a vector and matrices: the axes of batches are the same */
    *x = npu_product_batches(b, complex_matrix(b, *x, true), &result);
    *y = npu_product_batches(b, complex_matrix(b, *y, false), &result);
    if (b->status) return;
    shape[0] = npu_type(b, *x)->shape[0];
    shape[1] = npu_type(b, *x)->shape[transpose[0] ? 2 : 1];
    shape[2] = npu_type(b, *y)->shape[transpose[1] ? 1 : 2];
    *out = kit_reshaped(b, *out, 3, shape);
}

enum bp_status npu_matmul_complex_build(struct kit_build *b)
{
    const struct bp_matmul_attrs *a = b->attrs;
    const bool transpose[2] = {a->transpose_a && b->in[0]->rank > 1,
                               a->transpose_b && b->in[1]->rank > 1};
    struct kit_arg whole[3] = {NPU_IN(0), NPU_IN(1), NPU_OUT(0)}, x[2], y[2], out[2], z[2][2];

    if (npu_is_empty(b, whole[2])) return b->status;
    if (npu_is_empty(b, whole[0])) return create_fill(b, whole[2], 0);
    complex_flat(b, &whole[0], &whole[1], &whole[2], transpose);
    for (int64_t i = 0; i < 2; i++) {
        x[i] = complex_side(b, whole[0], i);
        y[i] = complex_side(b, whole[1], i);
        out[i] = npu_complex_part(b, whole[2], i);
    }
    for (int i = 0; i < 4; i++) {
        struct kit_arg *to = &z[i / 2][i % 2];

        *to = part_like(b, out[0]);
        if (part_dtype(b, out[0]) == BP_F32)
            npu_product(b, x[i / 2], y[i % 2], transpose[0], transpose[1], *to);
        else npu_product_terms(b, x[i / 2], y[i % 2], transpose[0], transpose[1], *to);
    }
    KIT_STEP(b, "Sub", z[0][0], z[1][1], KIT_SCALAR_IS(1), kit_as(out[0], KIT_WRITES));
    KIT_STEP(b, "Add", z[0][1], z[1][0], KIT_SCALAR_IS(1), kit_as(out[1], KIT_WRITES));
    return part_pack(b);
}
