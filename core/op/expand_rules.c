/* SPDX-License-Identifier: Apache-2.0 */
/* expand_rules.c: one rule for each EXPAND word: an operator written in others. */
#include "op.h"

#include <backplane/ops.h>

enum bp_status bp_expand_mse_loss(struct bp_expansion *e)
{
    struct bp_scale_attrs mean = bp_scale_defaults();
    struct bp_tensor *d = NULL, *square = NULL, *sum = NULL;
    enum bp_status status;

    mean.factor = 1.0 / (double)e->in[0]->view.count;
    status = bp_op_sub(e->scope, e->in[0], e->in[1], &d);
    if (status == BP_OK) status = bp_op_mul(e->scope, d, d, &square);
    if (status == BP_OK) status = bp_op_sum(e->scope, square, NULL, &sum);
    if (status == BP_OK) status = bp_op_scale(e->scope, sum, &mean, &e->out[0]);
    bp_tensor_destroy(d);
    bp_tensor_destroy(square);
    bp_tensor_destroy(sum);
    return status;
}
