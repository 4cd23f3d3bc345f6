/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c: infers shapes of operators that move blocks of images between channels and space,
 * between channels or along time, and decomposes them; infers shapes of unfold and fold. */
#include <call/compose.h>
#include <call/shape.h>

#include <backplane/attrs.h>
#include <inttypes.h>
#include <math.h>

/* Extents of N C H W, in any order of the axes. */
struct image {
    int64_t n, channels, height, width;
};

static enum bp_status image_of(const struct bp_invocation *inv, bool last, struct image *out)
{
    const struct bp_view *x = bp_invocation_in(inv, 0);

    if (x->rank != 4)
        return bp_error(BP_ERR_INVALID, "%s: x has %u axes, expected 4", inv->row->info.name,
                        x->rank);
    *out = (struct image){x->shape[0], x->shape[last ? 3 : 1], x->shape[last ? 1 : 2],
                          x->shape[last ? 2 : 3]};
    return BP_OK;
}

static enum bp_status put_image(struct bp_invocation *inv, bool last, const struct image *i)
{
    int64_t *to = inv->out[0].shape;

    inv->out[0].rank = 4;
    to[0] = i->n;
    to[last ? 3 : 1] = i->channels;
    to[last ? 1 : 2] = i->height;
    to[last ? 2 : 3] = i->width;
    return BP_OK;
}

enum {
    BLOCK_MOST = 1 << 20
};

static enum bp_status no_block(const struct bp_invocation *inv, int64_t block, const char *what,
                               int64_t extent)
{
    return bp_error(BP_ERR_INVALID,
                    "%s: blocks of %" PRId64 " do not divide the %" PRId64
                    " %s of x, or are not from 1 to %d",
                    inv->row->info.name, block, extent, what, BLOCK_MOST);
}

static enum bp_status to_space(struct bp_invocation *inv, int64_t block, bool last)
{
    struct image i;

    TRY(image_of(inv, last, &i));
    if (block < 1 || block > BLOCK_MOST || i.channels % (block * block))
        return no_block(inv, block, "channels", i.channels);
    i.channels /= block * block;
    if (__builtin_mul_overflow(i.height, block, &i.height) ||
        __builtin_mul_overflow(i.width, block, &i.width))
        return no_block(inv, block, "rows", i.height);
    return put_image(inv, last, &i);
}

static enum bp_status to_depth(struct bp_invocation *inv, int64_t block, bool last)
{
    struct image i;

    TRY(image_of(inv, last, &i));
    if (block < 1 || block > BLOCK_MOST || i.height % block)
        return no_block(inv, block, "rows", i.height);
    if (i.width % block) return no_block(inv, block, "columns", i.width);
    if (__builtin_mul_overflow(i.channels, block * block, &i.channels))
        return no_block(inv, block, "channels", i.channels);
    i.height /= block;
    i.width /= block;
    return put_image(inv, last, &i);
}

enum bp_status bp_infer_depth_to_space(struct bp_invocation *inv)
{
    const struct bp_depth_to_space_attrs *a = inv->attrs;

    return to_space(inv, a->block, a->channels_last);
}

enum bp_status bp_infer_space_to_depth(struct bp_invocation *inv)
{
    const struct bp_space_to_depth_attrs *a = inv->attrs;

    return to_depth(inv, a->block, a->channels_last);
}

enum bp_status bp_infer_pixel_shuffle(struct bp_invocation *inv)
{
    const struct bp_pixel_shuffle_attrs *a = inv->attrs;

    return to_space(inv, a->factor, a->channels_last);
}

enum bp_status bp_infer_pixel_unshuffle(struct bp_invocation *inv)
{
    const struct bp_pixel_unshuffle_attrs *a = inv->attrs;

    return to_depth(inv, a->factor, a->channels_last);
}

/* Reshapes x to `rank` axes, permutes these with a copy, and reshapes the result. */
static enum bp_status unfold_rearranged(struct bp_decomposition *e, int64_t rank,
                                        const int64_t *shape, const int64_t *perm,
                                        const int64_t *result)
{
    struct bp_transpose_attrs turn = {.size = sizeof turn, .perm = {perm, rank}};
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_tensor *x = bp_compose_reshape(&c, e->in[0], (uint32_t)rank, shape);

    x = MAKE(&c, assign, NULL, MAKE(&c, transpose, &turn, x));
    bp_compose_keep(&c, bp_compose_reshape(&c, x, e->in[0]->view.rank, result), &e->out[0]);
    return bp_compose_end(&c);
}

static enum bp_status unfold_spread(struct bp_decomposition *e, int64_t b, bool crd, bool last)
{
    static const int64_t perm[2][2][6] = {{{0, 3, 4, 1, 5, 2}, {0, 1, 4, 2, 5, 3}},
                                          {{0, 1, 3, 2, 4, 5}, {0, 1, 4, 2, 5, 3}}};
    const int64_t *s = e->in[0]->shape;
    int64_t c = s[last ? 3 : 1] / (b * b), h = s[last ? 1 : 2], w = s[last ? 2 : 3];
    const int64_t shape[2][2][6] = {{{s[0], b, b, c, h, w}, {s[0], c, b, b, h, w}},
                                    {{s[0], h, w, b, b, c}, {s[0], h, w, c, b, b}}};
    const int64_t result[2][4] = {{s[0], c, h * b, w * b}, {s[0], h * b, w * b, c}};

    return unfold_rearranged(e, 6, shape[last][crd], perm[last][crd], result[last]);
}

static enum bp_status unfold_gathered(struct bp_decomposition *e, int64_t b, bool crd, bool last)
{
    static const int64_t perm[2][2][6] = {{{0, 3, 5, 1, 2, 4}, {0, 1, 3, 5, 2, 4}},
                                          {{0, 1, 3, 2, 4, 5}, {0, 1, 3, 5, 2, 4}}};
    const int64_t *s = e->in[0]->shape;
    int64_t c = s[last ? 3 : 1], h = s[last ? 1 : 2] / b, w = s[last ? 2 : 3] / b;
    const int64_t shape[2][6] = {{s[0], c, h, b, w, b}, {s[0], h, b, w, b, c}};
    const int64_t result[2][4] = {{s[0], c * b * b, h, w}, {s[0], h, w, c * b * b}};

    return unfold_rearranged(e, 6, shape[last], perm[last][crd], result[last]);
}

enum bp_status bp_decompose_depth_to_space(struct bp_decomposition *e)
{
    const struct bp_depth_to_space_attrs *a = e->attrs;

    return unfold_spread(e, a->block, a->crd, a->channels_last);
}

enum bp_status bp_decompose_space_to_depth(struct bp_decomposition *e)
{
    const struct bp_space_to_depth_attrs *a = e->attrs;

    return unfold_gathered(e, a->block, a->crd, a->channels_last);
}

enum bp_status bp_decompose_pixel_shuffle(struct bp_decomposition *e)
{
    const struct bp_pixel_shuffle_attrs *a = e->attrs;

    return unfold_spread(e, a->factor, true, a->channels_last);
}

enum bp_status bp_decompose_pixel_unshuffle(struct bp_decomposition *e)
{
    const struct bp_pixel_unshuffle_attrs *a = e->attrs;

    return unfold_gathered(e, a->factor, true, a->channels_last);
}

enum bp_status bp_infer_channel_shuffle(struct bp_invocation *inv)
{
    const struct bp_channel_shuffle_attrs *a = inv->attrs;
    struct image i;

    TRY(image_of(inv, a->channels_last, &i));
    if (a->groups < 1 || i.channels % a->groups)
        return bp_error(BP_ERR_INVALID,
                        "channel_shuffle: attribute groups is %" PRId64
                        ", expected a divisor of the %" PRId64 " channels of x",
                        a->groups, i.channels);
    return put_image(inv, a->channels_last, &i);
}

enum bp_status bp_decompose_channel_shuffle(struct bp_decomposition *e)
{
    const struct bp_channel_shuffle_attrs *a = e->attrs;
    static const int64_t perm[2][5] = {{0, 2, 1, 3, 4}, {0, 1, 2, 4, 3}};
    const int64_t *s = e->in[0]->shape;
    int64_t g = a->groups;
    const int64_t shape[2][5] = {{s[0], g, s[1] / g, s[2], s[3]}, {s[0], s[1], s[2], g, s[3] / g}};

    return unfold_rearranged(e, 5, shape[a->channels_last], perm[a->channels_last], s);
}

enum bp_status bp_infer_temporal_shift(struct bp_invocation *inv)
{
    const struct bp_temporal_shift_attrs *a = inv->attrs;
    struct image i;

    TRY(image_of(inv, a->channels_last, &i));
    if (a->segments < 1 || i.n % a->segments)
        return bp_error(BP_ERR_INVALID,
                        "temporal_shift: attribute segments is %" PRId64
                        ", expected a divisor of the first extent of x, %" PRId64,
                        a->segments, i.n);
    if (!(a->ratio >= 0 && a->ratio <= 0.5))
        return bp_error(BP_ERR_INVALID, "temporal_shift: attribute ratio is %g, expected 0 to 0.5",
                        a->ratio);
    return put_image(inv, a->channels_last, &i);
}

/* Returns channels begin to end - 1; each frame holds the channels of the frame `by` frames before
 * it. */
static struct bp_tensor *unfold_shifted(struct bp_compose *c, struct bp_tensor *x, int64_t axis,
                                        int64_t begin, int64_t end, int64_t by)
{
    struct bp_slice_attrs part = {
        .size = sizeof part, .starts = {&begin, 1}, .ends = {&end, 1}, .axes = {&axis, 1}};
    const int64_t before[5] = {0, by}, after[5] = {0, -by};
    struct bp_pad_attrs move = {.size = sizeof move, .before = {before, 5}, .after = {after, 5}};

    x = MAKE(c, slice, &part, x);
    return by ? MAKE(c, pad, &move, x) : x;
}

enum bp_status bp_decompose_temporal_shift(struct bp_decomposition *e)
{
    const struct bp_temporal_shift_attrs *a = e->attrs;
    struct bp_tensor *x = e->in[0], *part[3];
    const int64_t *s = x->shape;
    int64_t axis = a->channels_last ? 4 : 2, channels = s[axis - 1];
    int64_t first = (int64_t)floor(a->ratio * (double)channels);
    int64_t second = (int64_t)floor(2 * a->ratio * (double)channels);
    struct bp_concat_attrs join = {.size = sizeof join, .axis = axis};
    struct bp_compose c = bp_compose_begin(e->scope);

    x = bp_compose_reshape(&c, x, 5,
                           (int64_t[]){s[0] / a->segments, a->segments, s[1], s[2], s[3]});
    part[0] = unfold_shifted(&c, x, axis, 0, first, 1);
    part[1] = unfold_shifted(&c, x, axis, first, second, -1);
    part[2] = unfold_shifted(&c, x, axis, second, channels, 0);
    x = bp_compose_all(&c, BP_ROW_concat, &join, part, 3);
    bp_compose_keep(&c, bp_compose_reshape(&c, x, 4, s), &e->out[0]);
    return bp_compose_end(&c);
}

/* The windows of unfold or fold: pointers to the attributes that both operators have. */
struct windows {
    const int64_t *kernel, *stride, *dilation, *pad;
};

static enum bp_status check_windows(const char *op, const struct windows *w)
{
    for (int i = 0; i < 2; i++)
        if (w->kernel[i] < 1 || w->stride[i] < 1 || w->dilation[i] < 1 ||
            w->kernel[i] > INT32_MAX || w->stride[i] > INT32_MAX || w->dilation[i] > INT32_MAX)
            return bp_error(BP_ERR_INVALID,
                            "%s: kernel[%d] is %" PRId64 ", stride %" PRId64 ", dilation %" PRId64
                            ": expected 1 to 2^31 - 1",
                            op, i, w->kernel[i], w->stride[i], w->dilation[i]);
    for (int i = 0; i < 4; i++)
        if (w->pad[i] < 0 || w->pad[i] > INT32_MAX)
            return bp_error(BP_ERR_INVALID, "%s: pad[%d] is %" PRId64 ", expected 0 to 2^31 - 1",
                            op, i, w->pad[i]);
    return BP_OK;
}

static struct windows of_unfold(const struct bp_unfold_attrs *a)
{
    return (struct windows){a->kernel, a->stride, a->dilation, a->pad};
}

static struct windows of_fold(const struct bp_fold_attrs *a)
{
    return (struct windows){a->kernel, a->stride, a->dilation, a->pad};
}

enum bp_status bp_values_unfold(const void *attrs)
{
    struct windows w = of_unfold(attrs);

    return check_windows("unfold", &w);
}

enum bp_status bp_values_fold(const void *attrs)
{
    const struct bp_fold_attrs *a = attrs;
    struct windows w = of_fold(a);

    if (a->image[0] < 0 || a->image[1] < 0)
        return bp_error(BP_ERR_INVALID,
                        "fold: image is %" PRId64 " and %" PRId64 ", expected 0 or more",
                        a->image[0], a->image[1]);
    return check_windows("fold", &w);
}

/* Computes the number of windows in an image of `size`, and of elements in a window. */
static enum bp_status count_windows(const struct bp_invocation *inv, const struct windows *w,
                                    const int64_t *size, int64_t *out_count, int64_t *out_elements)
{
    int64_t n[2];

    for (int i = 0; i < 2; i++) {
        int64_t all, reach = w->dilation[i] * (w->kernel[i] - 1) + 1;
        if (__builtin_add_overflow(size[i], w->pad[i] + w->pad[2 + i], &all) || all < reach)
            return bp_error(BP_ERR_INVALID,
                            "%s: along %s a window of %" PRId64
                            " does not fit into the extent %" PRId64 " with its borders",
                            inv->row->info.name, i ? "columns" : "rows", reach, size[i]);
        n[i] = (all - reach) / w->stride[i] + 1;
    }
    *out_elements = w->kernel[0] * w->kernel[1];
    if (!__builtin_mul_overflow(n[0], n[1], out_count)) return BP_OK;
    return bp_error(BP_ERR_INVALID, "%s: the windows are more than 2^63", inv->row->info.name);
}

enum bp_status bp_infer_unfold(struct bp_invocation *inv)
{
    struct windows w = of_unfold(inv->attrs);
    struct bp_type *out = &inv->out[0];
    struct image i;
    int64_t count, elements;

    TRY(image_of(inv, false, &i));
    TRY(count_windows(inv, &w, (int64_t[]){i.height, i.width}, &count, &elements));
    *out = (struct bp_type){.dtype = out->dtype, .rank = 3, .shape = {i.n, 0, count}};
    if (!__builtin_mul_overflow(i.channels, elements, &out->shape[1])) return BP_OK;
    return bp_error(BP_ERR_INVALID, "unfold: the result would reach past 63 bits");
}

enum bp_status bp_infer_fold(struct bp_invocation *inv)
{
    const struct bp_fold_attrs *a = inv->attrs;
    const struct bp_view *x = bp_invocation_in(inv, 0);
    struct windows w = of_fold(a);
    struct bp_type *out = &inv->out[0];
    int64_t count, elements;

    TRY(count_windows(inv, &w, a->image, &count, &elements));
    if (x->rank != 3 || x->shape[1] % elements || x->shape[2] != count) {
        char text[BP_TYPE_TEXT];
        return bp_error(
            BP_ERR_INVALID,
            "fold: x is %s, expected N, a multiple of %" PRId64 ", and %" PRId64 " windows",
            bp_type_text(x->dtype, x->rank, x->shape, text, sizeof text), elements, count);
    }
    *out = (struct bp_type){
        .dtype = out->dtype,
        .rank = 4,
        .shape = {x->shape[0], x->shape[1] / elements, a->image[0], a->image[1]}};
    return BP_OK;
}

enum bp_status bp_grad_unfold(struct bp_grad *g)
{
    const struct bp_unfold_attrs *f = g->attrs;
    struct bp_fold_attrs a = {.size = sizeof a};
    struct bp_compose c = bp_compose_begin(g->scope);

    a.image[0] = g->in[0]->shape[2];
    a.image[1] = g->in[0]->shape[3];
    memcpy(a.kernel, f->kernel, sizeof a.kernel);
    memcpy(a.stride, f->stride, sizeof a.stride);
    memcpy(a.dilation, f->dilation, sizeof a.dilation);
    memcpy(a.pad, f->pad, sizeof a.pad);
    if (g->want[0]) bp_compose_keep(&c, MAKE(&c, fold, &a, g->dy[0]), &g->dx[0]);
    return bp_compose_end(&c);
}

enum bp_status bp_grad_fold(struct bp_grad *g)
{
    const struct bp_fold_attrs *f = g->attrs;
    struct bp_unfold_attrs a = {.size = sizeof a};
    struct bp_compose c = bp_compose_begin(g->scope);

    memcpy(a.kernel, f->kernel, sizeof a.kernel);
    memcpy(a.stride, f->stride, sizeof a.stride);
    memcpy(a.dilation, f->dilation, sizeof a.dilation);
    memcpy(a.pad, f->pad, sizeof a.pad);
    if (g->want[0]) bp_compose_keep(&c, MAKE(&c, unfold, &a, g->dy[0]), &g->dx[0]);
    return bp_compose_end(&c);
}
