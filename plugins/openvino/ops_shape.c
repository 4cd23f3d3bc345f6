/* SPDX-License-Identifier: Apache-2.0 */
/* ops_shape.c: writes operators that move elements. The core has inferred all extents, so that
 * attributes of views are not read again. */
#include "ops.h"

#include <backplane/attrs.h>

struct ir_ref ov_write_reshape(const struct ov_node *n, const struct ov_op *op)
{
    const struct bp_data_value *y = ov_out(n);

    (void)op;
    return ir_reshape(n->ir, ov_ref(n, 0), y->dtype, y->shape, y->rank);
}

struct ir_ref ov_write_same(const struct ov_node *n, const struct ov_op *op)
{
    (void)op;
    return ov_ref(n, 0);
}

struct ir_ref ov_write_transpose(const struct ov_node *n, const struct ov_op *op)
{
    const struct bp_transpose_attrs *a = n->attrs;
    uint32_t rank = ov_out(n)->rank;
    int64_t perm[OPENVINO_RANK];
    struct ir_ref in[] = {ov_ref(n, 0), {0, 0}};

    for (uint32_t i = 0; i < rank; i++)
        perm[i] = a->perm.n ? ov_axis(a->perm.at[i], rank) : (int64_t)rank - 1 - i;
    in[1] = ir_integers(n->ir, perm, rank);
    return ir_add(n->ir, op->type, op->opset, ov_out(n)->dtype, in, 2, NULL);
}

struct ir_ref ov_write_concat(const struct ov_node *n, const struct ov_op *op)
{
    const struct bp_concat_attrs *a = n->attrs;
    struct ir_ref in[OPENVINO_PARTS];

    for (uint32_t i = 0; i < n->node->n_in; i++) in[i] = ov_ref(n, i);
    return ir_add(n->ir, op->type, op->opset, ov_out(n)->dtype, in, n->node->n_in, "axis=\"%d\"",
                  (int)ov_axis(a->axis, ov_out(n)->rank));
}

const char *ov_refuses_slice(const struct ov_node *n)
{
    const struct bp_slice_attrs *a = n->attrs;

    return a->starts.n <= OPENVINO_RANK && a->ends.n == a->starts.n &&
                   (!a->axes.n || a->axes.n == a->starts.n) &&
                   (!a->steps.n || a->steps.n == a->starts.n)
               ? NULL
               : "lists of different lengths";
}

struct ir_ref ov_write_slice(const struct ov_node *n, const struct ov_op *op)
{
    const struct bp_slice_attrs *a = n->attrs;
    int64_t steps[OPENVINO_RANK], axes[OPENVINO_RANK], count = a->starts.n;
    struct ir_ref in[5] = {ov_ref(n, 0)};

    if (!count) return in[0];
    for (int64_t i = 0; i < count; i++) {
        steps[i] = a->steps.n ? a->steps.at[i] : 1;
        axes[i] = a->axes.n ? ov_axis(a->axes.at[i], ov_out(n)->rank) : i;
    }
    in[1] = ir_integers(n->ir, a->starts.at, count);
    in[2] = ir_integers(n->ir, a->ends.at, count);
    in[3] = ir_integers(n->ir, steps, count);
    in[4] = ir_integers(n->ir, axes, count);
    return ir_add(n->ir, op->type, op->opset, ov_out(n)->dtype, in, 5, NULL);
}

struct ir_ref ov_write_expand(const struct ov_node *n, const struct ov_op *op)
{
    const struct bp_data_value *y = ov_out(n);
    struct ir_ref in[] = {ov_ref(n, 0), ir_integers(n->ir, y->shape, y->rank)};

    return ir_add(n->ir, op->type, op->opset, y->dtype, in, 2, "mode=\"numpy\"");
}

struct ir_ref ov_write_gather(const struct ov_node *n, const struct ov_op *op)
{
    const struct bp_gather_attrs *a = n->attrs;
    int64_t axis = ov_axis(a->axis, ov_in(n, 0)->rank);
    struct ir_ref in[] = {ov_ref(n, 0), ov_ref(n, 1), ir_integers(n->ir, &axis, 1)};

    return ir_add(n->ir, op->type, op->opset, ov_out(n)->dtype, in, 3, "batch_dims=\"0\"");
}
