/* SPDX-License-Identifier: Apache-2.0 */
/* family.h: declares the families of operators of the stand-in for CANN, and what they share. A
 * family computes by the portable kernels (rows.h), and where the vendor's operator is made of
 * several of ours, by several of them, in f32 or f64. */
#ifndef STANDINS_CANN_FAMILY_H
#define STANDINS_CANN_FAMILY_H

#include "op.h"

/* cann_check_<family>: 0, or the code with which phase 1 refuses. cann_run_<family>: 0, or a code
 * of the base. */
#define FAMILIES(X) \
    X(unary) \
    X(test) \
    X(scalar) \
    X(add) \
    X(binary) \
    X(compare) \
    X(where) \
    X(masked_fill) \
    X(lerp) \
    X(addc) \
    X(prelu) X(copy) X(cast) X(fill) X(reduce_typed) X(reduce) X(reduce_bool) X(norm) X(prod) \
        X(var) X(arg) X(cumsum) X(cumprod) X(permute) X(cat) X(stack) X(split) X(slice) X(expand) \
            X(repeat) X(pad) X(flip) X(roll) X(triangle) X(arange) X(eye) X(select) X(gather) \
                X(gather_nd) X(index_put) X(scatter) X(index_add) X(embedding) X(embedding_grad) \
                    X(one_hot) X(nonzero) X(topk) X(sort) X(argsort) X(unique) \
                        X(unique_consecutive) X(matmul) X(addmm) X(mv) X(dot) X(trans_weight) \
                            X(conv) X(conv_grad) X(max_pool_index) X(max_pool) X(avg_pool) \
                                X(avg_pool_grad) X(adaptive_pool) X(softmax) X(softmax_grad) \
                                    X(layer_norm) X(layer_norm_grad) X(rms_norm) X(group_norm) \
                                        X(batch_norm) X(batch_norm_grad) X(upsample) \
                                            X(grid_sample) X(roi_align) X(nll_loss) X(mse_loss) \
                                                X(bce_logits) X(smooth_l1) X(flash_score) \
                                                    X(flash_prompt) X(uniform) X(adamw)
#define X(family) \
    CANN_API int cann_check_##family(struct cann_call *call); \
    CANN_API int cann_run_##family(struct cann_call *call);
FAMILIES(X)
#undef X

/* Returns the code of a check that has refused. */
#define CANN_TRY(check) \
    do { \
        int code_ = (check); \
        if (code_) return code_; \
    } while (0)

/* family.c: checks. Each returns 0 or refuses. */
struct cann_shape {
    int rank;
    int64_t at[CANN_RANK];
};
struct cann_shape cann_shape(const struct cann_tensor *t);
bool cann_dtype_in(int dtype, uint64_t mask);
int cann_want(struct cann_call *call, int arg, uint64_t mask);  /* a dtype of the mask */
int cann_want_own(struct cann_call *call, int arg);             /* of the operator's dtypes */
int cann_want_same(struct cann_call *call, int arg, int other); /* the dtype of the other */
int cann_want_shape(struct cann_call *call, int arg, const struct cann_shape *shape);
int cann_want_like(struct cann_call *call, int arg, int other); /* dtype and shape of it */
int cann_want_rank(struct cann_call *call, int arg, int from, int to);
int cann_want_n(struct cann_call *call, int arg, int n); /* integers of an array */
int cann_want_between(struct cann_call *call, int arg, int64_t from, int64_t to);
/* The format of convolutions and pools: NCL, NCHW, NCDHW for 3, 4, 5 axes. */
int cann_want_image(struct cann_call *call, int arg);
/* Broadcasts the tensor of an argument onto the shape. */
int cann_broadcast(struct cann_call *call, int arg, struct cann_shape *shape);
/* An axis that may be negative: 0 to rank - 1 in *out. A rank of 0 counts as 1. */
int cann_want_axis(struct cann_call *call, int arg, int64_t axis, int rank, int *out);

/* product.c: checks cubeMathType. */
int cann_want_math(struct cann_call *call, int arg);

/* Computation. Temporary tensors are freed by cann_temps_free. */
enum {
    CANN_TEMPS = 24
};
struct cann_temps {
    void *at[CANN_TEMPS];
    int n, code; /* code: the first failure; later calls do nothing */
};
void cann_temps_free(struct cann_temps *temps);
struct base_tensor cann_temp(struct cann_temps *temps, uint32_t dtype, int rank,
                             const int64_t *shape);
/* The tensor in another dtype; itself, if it has that. */
struct base_tensor cann_in_dtype(struct cann_temps *temps, const struct base_tensor *t,
                                 uint32_t dtype);
/* Writes a tensor to another one of any dtype and the same shape, by strides. */
void cann_write(struct cann_temps *temps, const struct base_tensor *from,
                const struct base_tensor *to);
/* f64 for f64, else f32: in which several kernels compute for one operator. */
uint32_t cann_wide(uint32_t dtype);
/* Computes an operator whose tensors are all of one dtype, that of out; in[1] and in[2] may be
 * NULL. */
void cann_apply(struct cann_temps *temps, const char *op, const void *attrs,
                const struct base_tensor *a, const struct base_tensor *b,
                const struct base_tensor *c, const struct base_tensor *out);
/* A tensor of one element. */
struct base_tensor cann_number(struct cann_temps *temps, uint32_t dtype, double value);
/* The tensor with axes of stride 0 in front and for extents of 1. */
struct base_tensor cann_expanded(const struct base_tensor *t, int rank, const int64_t *shape);
/* Element i, in row-major order, as a number. */
double cann_get(const struct base_tensor *t, int64_t i);
void cann_put(const struct base_tensor *t, int64_t i, double value);
/* product.c: a factor of a product: contiguous, from FRACTAL_NZ too, rounded as cubeMathType
 * says. */
struct base_tensor cann_factor(struct cann_temps *temps, const struct cann_call *call, int arg,
                               int64_t math);
int cann_call_base(struct cann_temps *temps, const struct base_call *call);

#endif
