/* SPDX-License-Identifier: Apache-2.0 */
/* ops.c: finds the rows of operators, and writes the numbers of nodes that work element by element,
 * move elements, multiply or reduce. Read ops.h first. */
#include "ops.h"

#include <backplane/attrs.h>
#include <math.h>
#include <string.h>

/* In place of a function in ops.def. */
#define ipu_refuses_none NULL
#define ipu_numbers_none NULL

/* clang-format off */
const struct ipu_op ipu_ops[] = {
#define ROW(op, dtypes, to, refuses, numbers) \
    {{BP_OPROW(op), .types = {dtypes, (dtypes) | BP_M(BOOL)}}, \
     BP_IPU_OP_##to, dtypes, ipu_refuses_##refuses, ipu_numbers_##numbers},
#include "ops.def"
};
/* clang-format on */
_Static_assert(sizeof ipu_ops / sizeof *ipu_ops == IPU_OPS, "their number");

const struct ipu_op *ipu_op_find(const char *op)
{
    for (uint32_t i = 0; i < IPU_OPS; i++)
        if (!strcmp(ipu_ops[i].known.op, op)) return &ipu_ops[i];
    return NULL;
}

bool ipu_op_takes_i64(const struct ipu_op *op, uint32_t i)
{
    return (op->op == BP_IPU_OP_cast && i == 0) || (op->op == BP_IPU_OP_gather && i == 1) ||
           (op->op == BP_IPU_OP_cache_write && i == 2);
}

const struct bp_data_value *ipu_result(const struct ipu_node *n, uint32_t i)
{
    const struct bp_data_node *node = n->node;
    uint32_t port = 0;

    if (node->out[i] != BP_DATA_NONE) return ipu_value(n->graph, node->out[i]);
    while (node->out_at[port + 1] <= i) port++;
    return node->info->out[port].kind == BP_PORT_UPDATE
               ? ipu_in(n, node->in_at[node->info->out[port].share])
               : NULL;
}

uint32_t ipu_results(const struct ipu_node *n)
{
    uint32_t op = ipu_op_find(n->node->op)->op, count = n->node->n_out;

    if (op != BP_IPU_OP_split && op != BP_IPU_OP_momentum && op != BP_IPU_OP_adam) return 1;
    while (count > 1 && !ipu_result(n, count - 1)) count--; /* adam without its largest moment */
    return count;
}

/* ---- elementwise ---- */

void ipu_numbers_gelu(const struct ipu_node *n, struct bp_ipu_node *to)
{
    to->number[0] = ((const struct bp_gelu_attrs *)n->attrs)->approximate;
}

void ipu_numbers_leaky_relu(const struct ipu_node *n, struct bp_ipu_node *to)
{
    to->real[0] = ((const struct bp_leaky_relu_attrs *)n->attrs)->slope;
}

void ipu_numbers_clip(const struct ipu_node *n, struct bp_ipu_node *to)
{
    const struct bp_clip_attrs *a = n->attrs;

    to->real[0] = a->min;
    to->real[1] = a->max;
}

void ipu_numbers_silu(const struct ipu_node *n, struct bp_ipu_node *to)
{
    (void)n;
    to->real[0] = 1;
}

void ipu_numbers_swish(const struct ipu_node *n, struct bp_ipu_node *to)
{
    to->real[0] = ((const struct bp_swish_attrs *)n->attrs)->beta;
}

void ipu_numbers_hard_sigmoid(const struct ipu_node *n, struct bp_ipu_node *to)
{
    const struct bp_hard_sigmoid_attrs *a = n->attrs;

    to->real[0] = a->slope;
    to->real[1] = a->offset;
}

void ipu_numbers_elu(const struct ipu_node *n, struct bp_ipu_node *to)
{
    to->real[0] = ((const struct bp_elu_attrs *)n->attrs)->alpha;
}

void ipu_numbers_softplus(const struct ipu_node *n, struct bp_ipu_node *to)
{
    const struct bp_softplus_attrs *a = n->attrs;

    to->real[0] = a->beta;
    to->real[1] = a->threshold;
}

void ipu_numbers_scale(const struct ipu_node *n, struct bp_ipu_node *to)
{
    const struct bp_scale_attrs *a = n->attrs;

    to->real[0] = a->factor;
    to->real[1] = a->bias;
}

/* Whether a value comes from outside of all groups, so that a run converts it on the host. */
static bool is_outside(const struct ipu_node *n, uint32_t i)
{
    const struct bp_data_value *x = ipu_in(n, i);

    return x->node == BP_DATA_NONE || !n->group || !n->group[x->node];
}

const char *ipu_refuses_cast(const struct ipu_node *n)
{
    uint32_t from = ipu_in(n, 0)->dtype, to = ipu_out(n)->dtype;

    if (from != BP_I64) return NULL;
    return (to == BP_F32 || to == BP_I32) && is_outside(n, 0)
               ? NULL
               : "i64 is converted to f32 and i32 only, and only if it comes from outside";
}

/* ---- operators that move elements ---- */

void ipu_numbers_transpose(const struct ipu_node *n, struct bp_ipu_node *to)
{
    const struct bp_transpose_attrs *a = n->attrs;
    uint32_t rank = ipu_out(n)->rank;

    for (uint32_t i = 0; i < rank; i++)
        to->number[i] = a->perm.n ? ipu_axis(a->perm.at[i], rank) : (int64_t)rank - 1 - i;
}

const char *ipu_refuses_slice(const struct ipu_node *n)
{
    const struct bp_slice_attrs *a = n->attrs;

    return a->starts.n <= BP_IPU_RANK && a->ends.n == a->starts.n &&
                   (!a->axes.n || a->axes.n == a->starts.n) &&
                   (!a->steps.n || a->steps.n == a->starts.n)
               ? NULL
               : "lists of different lengths";
}

static int64_t slice_end(int64_t at, int64_t extent)
{
    if (at < 0) at += extent;
    if (at < 0) at = 0;
    return at > extent ? extent : at;
}

void ipu_numbers_slice(const struct ipu_node *n, struct bp_ipu_node *to)
{
    const struct bp_slice_attrs *a = n->attrs;
    const struct bp_data_value *x = ipu_in(n, 0);

    for (uint32_t i = 0; i < x->rank; i++) {
        to->number[3 * i + 1] = x->shape[i];
        to->number[3 * i + 2] = 1;
    }
    for (int64_t i = 0; i < a->starts.n; i++) {
        int64_t axis = a->axes.n ? ipu_axis(a->axes.at[i], x->rank) : i;
        to->number[3 * axis] = slice_end(a->starts.at[i], x->shape[axis]);
        to->number[3 * axis + 1] = slice_end(a->ends.at[i], x->shape[axis]);
        if (a->steps.n) to->number[3 * axis + 2] = a->steps.at[i];
    }
}

const char *ipu_refuses_split(const struct ipu_node *n)
{
    for (uint32_t i = 0; i < n->node->n_out; i++)
        if (n->node->out[i] == BP_DATA_NONE) return "a part without a type";
    return NULL;
}

void ipu_numbers_split(const struct ipu_node *n, struct bp_ipu_node *to)
{
    to->number[0] = ipu_axis(((const struct bp_split_attrs *)n->attrs)->axis, ipu_in(n, 0)->rank);
}

void ipu_numbers_concat(const struct ipu_node *n, struct bp_ipu_node *to)
{
    to->number[0] = ipu_axis(((const struct bp_concat_attrs *)n->attrs)->axis, ipu_out(n)->rank);
}

/* The value of padding in i32, as cast makes it. */
static double i32_value(double value)
{
    if (isnan(value)) return 0;
    if (value >= INT32_MAX) return INT32_MAX;
    return value <= INT32_MIN ? INT32_MIN : trunc(value);
}

void ipu_numbers_pad(const struct ipu_node *n, struct bp_ipu_node *to)
{
    const struct bp_pad_attrs *a = n->attrs;

    to->real[0] = ipu_out(n)->dtype == BP_I32 ? i32_value(a->value) : a->value;
    to->number[16] = a->mode;
    for (int64_t i = 0; i < a->before.n; i++) to->number[2 * i] = a->before.at[i];
    for (int64_t i = 0; i < a->after.n; i++) to->number[2 * i + 1] = a->after.at[i];
}

/* Indices of index_select have one axis, as any of gather. */
const char *ipu_refuses_gather(const struct ipu_node *n)
{
    const struct bp_data_value *x = ipu_in(n, 0), *index = ipu_in(n, 1);

    if (!x->rank) return "a tensor of rank 0";
    if (index->dtype != BP_I32 && index->dtype != BP_I64) return "indices of another dtype";
    return index->dtype == BP_I32 || is_outside(n, 1) ? NULL : "i64 indices of another node";
}

void ipu_numbers_gather(const struct ipu_node *n, struct bp_ipu_node *to)
{
    to->number[0] = ipu_axis(((const struct bp_gather_attrs *)n->attrs)->axis, ipu_in(n, 0)->rank);
}

void ipu_numbers_embedding(const struct ipu_node *n, struct bp_ipu_node *to)
{
    const struct bp_embedding_attrs *a = n->attrs;

    to->number[0] = 0;
    to->number[1] = 1; /* an id below zero is a fault */
    to->number[2] = a->padding_idx >= 0 ? a->padding_idx + 1 : 0;
}

/* Attributes of cache_write and tensor_scatter are alike. */
const char *ipu_refuses_cache_write(const struct ipu_node *n)
{
    const struct bp_cache_write_attrs *a = n->attrs;
    const struct bp_data_value *at = ipu_in(n, 2);

    if (!at || at->dtype == BP_I32) return NULL;
    if (at->dtype != BP_I64) return "places of another dtype";
    if (a->circular) return "places of i64 that go on at the beginning";
    return is_outside(n, 2) ? NULL : "i64 places of another node";
}

void ipu_numbers_cache_write(const struct ipu_node *n, struct bp_ipu_node *to)
{
    const struct bp_cache_write_attrs *a = n->attrs;

    to->number[0] = ipu_axis(a->axis, ipu_in(n, 0)->rank);
    to->number[1] = a->circular;
}

/* ---- steps of optimizers ---- */

void ipu_numbers_momentum(const struct ipu_node *n, struct bp_ipu_node *to)
{
    const struct bp_momentum_attrs *a = n->attrs;

    to->number[0] = a->nesterov;
    to->real[0] = a->momentum;
    to->real[1] = a->l2;
}

void ipu_numbers_adam(const struct ipu_node *n, struct bp_ipu_node *to)
{
    const struct bp_adam_attrs *a = n->attrs;

    to->real[0] = a->beta1;
    to->real[1] = a->beta2;
    to->real[2] = a->epsilon;
    to->real[3] = a->decay;
}

void ipu_numbers_adamw(const struct ipu_node *n, struct bp_ipu_node *to)
{
    const struct bp_adamw_attrs *a = n->attrs;

    to->number[0] = 1;
    to->real[0] = a->beta1;
    to->real[1] = a->beta2;
    to->real[2] = a->epsilon;
    to->real[3] = a->decay;
}

/* ---- products and reductions ---- */

const char *ipu_refuses_matmul(const struct ipu_node *n)
{
    return ipu_in(n, 0)->rank && ipu_in(n, 1)->rank ? NULL : "a side of rank 0";
}

void ipu_numbers_matmul(const struct ipu_node *n, struct bp_ipu_node *to)
{
    const struct bp_matmul_attrs *a = n->attrs;

    to->number[0] = a->transpose_a && ipu_in(n, 0)->rank > 1;
    to->number[1] = a->transpose_b && ipu_in(n, 1)->rank > 1;
}

/* Attributes of softmax and log_softmax are alike. */
void ipu_numbers_softmax(const struct ipu_node *n, struct bp_ipu_node *to)
{
    to->number[0] = ipu_axis(((const struct bp_softmax_attrs *)n->attrs)->axis, ipu_out(n)->rank);
}

const char *ipu_refuses_layer_norm(const struct ipu_node *n)
{
    for (uint32_t i = 1; i < n->node->n_out; i++)
        if (n->node->out[i] != BP_DATA_NONE) return "the statistics are results too";
    return NULL;
}

void ipu_numbers_layer_norm(const struct ipu_node *n, struct bp_ipu_node *to)
{
    const struct bp_layer_norm_attrs *a = n->attrs;

    to->number[0] = ipu_axis(a->axis, ipu_out(n)->rank);
    to->real[0] = a->epsilon;
}

void ipu_numbers_rms_norm(const struct ipu_node *n, struct bp_ipu_node *to)
{
    const struct bp_rms_norm_attrs *a = n->attrs;

    to->number[0] = ipu_axis(a->axis, ipu_out(n)->rank);
    to->real[0] = a->epsilon;
}

void ipu_numbers_lp_normalize(const struct ipu_node *n, struct bp_ipu_node *to)
{
    const struct bp_lp_normalize_attrs *a = n->attrs;

    to->number[0] = ipu_axis(a->axis, ipu_out(n)->rank);
    to->real[0] = a->p;
    to->real[1] = a->epsilon;
}

/* Attributes of sum, mean, max, min and prod are alike. */
void ipu_numbers_reduce(const struct ipu_node *n, struct bp_ipu_node *to)
{
    const struct bp_sum_attrs *a = n->attrs;
    uint32_t rank = ipu_in(n, 0)->rank;

    to->number[0] = a->axes.n ? a->axes.n : rank;
    for (int64_t i = 0; i < to->number[0]; i++)
        to->number[i + 1] = a->axes.n ? ipu_axis(a->axes.at[i], rank) : i;
}

/* ---- operators of nothing ---- */

bool ipu_op_of_nothing(const struct ipu_node *n, double *out_value)
{
    switch (ipu_op_find(n->node->op)->op) {
    case BP_IPU_OP_sum:
    case BP_IPU_OP_matmul: *out_value = 0; return true;
    case BP_IPU_OP_prod: *out_value = 1; return true;
    case BP_IPU_OP_mean: *out_value = NAN; return true;
    case BP_IPU_OP_pad:
        *out_value = ((const struct bp_pad_attrs *)n->attrs)->value;
        if (ipu_out(n)->dtype == BP_I32) *out_value = i32_value(*out_value);
        return true;
    default: return false;
    }
}
