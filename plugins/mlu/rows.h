/* SPDX-License-Identifier: Apache-2.0 */
/* rows.h: declares the functions that build the plans of rows, for the table of rows. Each is used
 * by the rows of one or several operators (rows.def). */
#ifndef MLU_ROWS_H
#define MLU_ROWS_H

#include "cnnl.h"
#include <backplane/attrs.h>

/* The value of a number of CNNL, or of a fact. */
int mlu_number(enum mlu_number number);
/* An axis, counted from the first. */
int64_t mlu_axis(int64_t axis, uint32_t rank);

/* elementwise.c. preferred: with a preference of precision; numbered: a binary function whose first
 * argument is the row's number; scaled: with a factor. */
void mlu_build_unary(struct mlu_build *b);
void mlu_build_preferred(struct mlu_build *b);
void mlu_build_log(struct mlu_build *b);
void mlu_build_scale(struct mlu_build *b);
void mlu_build_clip(struct mlu_build *b);
void mlu_build_binary(struct mlu_build *b);
void mlu_build_numbered(struct mlu_build *b);
void mlu_build_ternary(struct mlu_build *b);
void mlu_build_scaled(struct mlu_build *b);
void mlu_build_prelu(struct mlu_build *b);
void mlu_build_masked_fill(struct mlu_build *b);
void mlu_build_logical_not(struct mlu_build *b);
void mlu_build_trigon(struct mlu_build *b);
void mlu_build_bits(struct mlu_build *b);

/* norm.c */
void mlu_build_layer_norm(struct mlu_build *b);
void mlu_build_layer_norm_grad(struct mlu_build *b);
void mlu_build_rms_norm(struct mlu_build *b);
void mlu_build_group_norm(struct mlu_build *b);
void mlu_build_batch_norm(struct mlu_build *b);
void mlu_build_batch_norm_train(struct mlu_build *b);
void mlu_build_batch_norm_grad(struct mlu_build *b);

/* move.c */
void mlu_build_assign(struct mlu_build *b);
void mlu_build_full(struct mlu_build *b);
void mlu_build_zeros(struct mlu_build *b);
void mlu_build_ones(struct mlu_build *b);
void mlu_build_full_like(struct mlu_build *b);
void mlu_build_fill(struct mlu_build *b);
void mlu_build_concat(struct mlu_build *b);
void mlu_build_stack(struct mlu_build *b);
void mlu_build_tile(struct mlu_build *b);
void mlu_build_tril(struct mlu_build *b);
void mlu_build_triu(struct mlu_build *b);

/* slice.c */
void mlu_build_flip(struct mlu_build *b);
void mlu_build_strided_slice(struct mlu_build *b);
void mlu_build_roll(struct mlu_build *b);
void mlu_build_slice_grad(struct mlu_build *b);
void mlu_build_pad(struct mlu_build *b);

/* index.c */
void mlu_build_gather(struct mlu_build *b);
void mlu_build_embedding(struct mlu_build *b);
void mlu_build_embedding_grad(struct mlu_build *b);
void mlu_build_index_add(struct mlu_build *b);
void mlu_build_gather_grad(struct mlu_build *b);
void mlu_build_topk(struct mlu_build *b);
void mlu_build_sort(struct mlu_build *b);
void mlu_build_argsort(struct mlu_build *b);
void mlu_build_argmax(struct mlu_build *b);
void mlu_build_argmin(struct mlu_build *b);
void mlu_build_cumsum(struct mlu_build *b);
void mlu_build_cumprod(struct mlu_build *b);

/* scatter.c */
void mlu_build_take_along_axis(struct mlu_build *b);
void mlu_build_take_along_axis_grad(struct mlu_build *b);
void mlu_build_index_sample(struct mlu_build *b);
void mlu_build_put_along_axis(struct mlu_build *b);
void mlu_build_gather_nd(struct mlu_build *b);
void mlu_build_gather_nd_grad(struct mlu_build *b);
void mlu_build_scatter(struct mlu_build *b);
void mlu_build_scatter_nd(struct mlu_build *b);
void mlu_build_scatter_nd_add(struct mlu_build *b);
void mlu_build_scatter_nd_update(struct mlu_build *b);

/* resize.c */
void mlu_build_resize_axis(struct mlu_build *b);
void mlu_build_resize_axis_grad(struct mlu_build *b);

/* optimizer.c */
void mlu_build_sgd(struct mlu_build *b);
void mlu_build_momentum(struct mlu_build *b);
void mlu_build_adam(struct mlu_build *b);
void mlu_build_adamw(struct mlu_build *b);
void mlu_build_adamax(struct mlu_build *b);
void mlu_build_adagrad(struct mlu_build *b);
void mlu_build_rmsprop(struct mlu_build *b);

/* loss.c */
void mlu_build_mse_loss(struct mlu_build *b);
void mlu_build_smooth_l1_loss(struct mlu_build *b);
void mlu_build_bce_with_logits(struct mlu_build *b);
void mlu_build_nll_loss(struct mlu_build *b);

/* pool.c */
void mlu_build_max_pool(struct mlu_build *b);
void mlu_build_max_pool_with_index(struct mlu_build *b);
void mlu_build_max_pool_grad(struct mlu_build *b);
void mlu_build_avg_pool(struct mlu_build *b);
void mlu_build_adaptive_avg_pool(struct mlu_build *b);
void mlu_build_avg_pool_grad(struct mlu_build *b);

/* activation.c. Sets the descriptor of an activation that has no coefficients. */
void mlu_describe_activation(struct mlu_build *b, struct mlu_step *step, enum mlu_number number);
/* activation: those without an attribute, or whose attributes may change. */
void mlu_build_activation(struct mlu_build *b);
void mlu_build_gelu(struct mlu_build *b);
void mlu_build_gelu_tanh_grad(struct mlu_build *b);

/* product.c, conv.c */
void mlu_build_matmul(struct mlu_build *b);
void mlu_build_conv(struct mlu_build *b);
void mlu_build_conv_grad_input(struct mlu_build *b);
void mlu_build_conv_grad_weight(struct mlu_build *b);

/* waiting.c. z = x OP y, which broadcast. */
void mlu_step_op_tensor(struct mlu_build *b, enum mlu_number number, struct mlu_tensor x,
                        struct mlu_tensor y, struct mlu_tensor z);
/* y = x in another dtype; one of the two is f32. Both have one axis. */
void mlu_step_cast(struct mlu_build *b, struct mlu_tensor x, struct mlu_tensor y);
void mlu_build_op_tensor(struct mlu_build *b);
void mlu_build_softmax(struct mlu_build *b);
void mlu_build_reduce(struct mlu_build *b);
void mlu_build_cast(struct mlu_build *b);

#endif
