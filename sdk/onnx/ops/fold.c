/* SPDX-License-Identifier: Apache-2.0 */
/* fold.c: runs Col2Im: adds blocks to an image of any number of spatial axes, one axis after the
 * other. */
#include "../chain.h"
#include "../ops.h"

enum { SPATIAL_MAX = 5 };

/* The parameters of each spatial axis. */
struct folding {
    int64_t n, image[SPATIAL_MAX], block[SPATIAL_MAX], stride[SPATIAL_MAX], dilation[SPATIAL_MAX];
    int64_t pad[2 * SPATIAL_MAX]; /* in front of each axis, then behind each axis */
    int64_t blocks[SPATIAL_MAX];  /* the number of blocks along each axis */
};

/* Copies an attribute of n numbers; absent, each is `otherwise`. */
static enum bp_status folding_attr(const struct onnx_call *c, const char *name, int64_t n,
                                   int64_t otherwise, int64_t *out)
{
    struct onnx_ints given = onnx_attr_ints(c, name);

    if (given.n >= 0 && given.n != n)
        return onnx_error(BP_ERR_INVALID, "attribute %s has %lld numbers, expected %lld", name,
                          (long long)given.n, (long long)n);
    for (int64_t i = 0; i < n; i++) {
        out[i] = given.n >= 0 ? given.at[i] : otherwise;
        if (out[i] < otherwise || out[i] > INT32_MAX)
            return onnx_error(BP_ERR_INVALID, "attribute %s: number %lld is %lld, expected %lld "
                              "or more", name, (long long)i, (long long)out[i],
                              (long long)otherwise);
    }
    return BP_OK;
}

static enum bp_status folding_read(struct onnx_call *c, struct folding *f)
{
    struct onnx_ints image, block;

    TRY(onnx_in_ints(c, 1, &image));
    TRY(onnx_in_ints(c, 2, &block));
    f->n = image.n;
    if (image.n < 1 || image.n != block.n)
        return onnx_error(BP_ERR_INVALID, "%lld extents of the image, %lld of a block",
                          (long long)image.n, (long long)block.n);
    if (f->n > SPATIAL_MAX)
        return onnx_error(BP_ERR_UNSUPPORTED, "%lld spatial axes, at most %d are supported",
                          (long long)f->n, SPATIAL_MAX);
    TRY(folding_attr(c, "strides", f->n, 1, f->stride));
    TRY(folding_attr(c, "dilations", f->n, 1, f->dilation));
    TRY(folding_attr(c, "pads", 2 * f->n, 0, f->pad));
    for (int64_t i = 0; i < f->n; i++) {
        int64_t room;
        f->image[i] = image.at[i];
        f->block[i] = block.at[i];
        if (f->image[i] < 1 || f->image[i] > INT32_MAX || f->block[i] < 1 ||
            f->block[i] > INT32_MAX)
            return onnx_error(BP_ERR_INVALID, "axis %lld: an image of %lld, blocks of %lld",
                              (long long)i, (long long)f->image[i], (long long)f->block[i]);
        room = f->image[i] + f->pad[i] + f->pad[f->n + i] - f->dilation[i] * (f->block[i] - 1) - 1;
        f->blocks[i] = room < 0 ? 0 : room / f->stride[i] + 1;
    }
    return BP_OK;
}

/* Checks that x has the axes N, C block, blocks. */
static enum bp_status folding_check(const struct folding *f, const struct bp_tensor_info *x,
                                    int64_t *out_channels)
{
    int64_t block = 1, blocks = 1, image = 1;
    bool good = x->rank == 3;

    for (int64_t i = 0; i < f->n && good; i++) { /* an overflow is above any extent of x */
        if (__builtin_mul_overflow(image, f->image[i], &image))
            return onnx_error(BP_ERR_INVALID, "the image has more than 2^63 places");
        good = !__builtin_mul_overflow(block, f->block[i], &block) &&
               !__builtin_mul_overflow(blocks, f->blocks[i], &blocks);
    }
    if (!good || x->shape[1] % block || x->shape[2] != blocks)
        return onnx_error(BP_ERR_INVALID, "x has to have 3 axes: N, a multiple of %lld, %lld",
                          (long long)block, (long long)blocks);
    *out_channels = x->shape[1] / block;
    return BP_OK;
}

static int64_t folding_product(const int64_t *at, int64_t n)
{
    int64_t product = 1;

    while (n--) product *= at[n];
    return product;
}

/* Folds axis d, the last one that is not folded yet. x: N C, blocks 0 to d, their numbers 0 to d,
 * then `rest`, the axes that are folded. */
static struct bp_tensor *folding_step(struct onnx_chain *k, const struct folding *f, int64_t d,
                                      int64_t outer, int64_t rest, struct bp_tensor *x)
{
    static const int64_t there[] = {0, 2, 4, 1, 3}, back[] = {0, 1, 3, 2};
    int64_t a = outer * folding_product(f->block, d), b = folding_product(f->blocks, d);
    struct bp_transpose_attrs turn = bp_transpose_defaults();
    struct bp_fold_attrs fold = bp_fold_defaults();

    turn.perm = (struct bp_dims){there, 5};
    x = onnx_chain_reshape(k, x, 5, (const int64_t[]){a, f->block[d], b, f->blocks[d], rest});
    x = MAKE(k, transpose, &turn, x);
    x = onnx_chain_reshape(k, x, 3,
                           (const int64_t[]){a * b, rest * f->block[d], f->blocks[d]});
    fold.image[0] = f->image[d];
    fold.kernel[0] = f->block[d];
    fold.stride[0] = f->stride[d];
    fold.dilation[0] = f->dilation[d];
    fold.pad[0] = f->pad[d];
    fold.pad[2] = f->pad[f->n + d];
    x = MAKE(k, fold, &fold, x);
    x = onnx_chain_reshape(k, x, 4, (const int64_t[]){a, b, rest, f->image[d]});
    turn.perm = (struct bp_dims){back, 4};
    return MAKE(k, transpose, &turn, x);
}

/* With two spatial axes the operator fold does the whole node. */
static struct bp_tensor *folding_flat(struct onnx_chain *k, const struct folding *f,
                                      struct bp_tensor *x)
{
    struct bp_fold_attrs fold = bp_fold_defaults();

    for (int64_t i = 0; i < 2; i++) {
        fold.image[i] = f->image[i];
        fold.kernel[i] = f->block[i];
        fold.stride[i] = f->stride[i];
        fold.dilation[i] = f->dilation[i];
        fold.pad[i] = f->pad[i];
        fold.pad[2 + i] = f->pad[2 + i];
    }
    return MAKE(k, fold, &fold, x);
}

enum bp_status onnx_col2im(struct onnx_call *c)
{
    struct onnx_chain k = onnx_chain_begin(c);
    struct bp_tensor *x = onnx_in(c, 0);
    int64_t shape[2 + SPATIAL_MAX], channels = 0, rest = 1;
    struct bp_tensor_info info;
    struct folding f = {0};

    TRY(onnx_need(c, 3));
    TRY(folding_read(c, &f));
    info = onnx_info(x);
    TRY(folding_check(&f, &info, &channels));
    if (f.n == 2) x = folding_flat(&k, &f, x);
    else {
        for (int64_t d = f.n - 1; d >= 0; d--) {
            x = folding_step(&k, &f, d, info.shape[0] * channels, rest, x);
            rest *= f.image[d];
        }
        shape[0] = info.shape[0];
        shape[1] = channels;
        for (int64_t i = 0; i < f.n; i++) shape[2 + i] = f.image[i];
        x = onnx_chain_reshape(&k, x, 2 + f.n, shape);
    }
    onnx_chain_give(&k, 0, x);
    return onnx_chain_end(&k);
}
