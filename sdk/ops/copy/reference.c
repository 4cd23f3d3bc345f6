/* SPDX-License-Identifier: Apache-2.0 */
/* reference.c: computes the reference results of operators that copy elements to other positions,
 * by coordinates, and of sums of windows. */
#include "../common/reference_made_value.h"
#include "../common/reference.h"
#include <math.h>

static void ref_copy_make(const struct ref_array *x, int rank, const int64_t *shape,
                          struct ref_array *out)
{
    ref_array_init(out, x->type->dtype, rank, shape);
    out->exact = true;
}

/* The first index, the step and the number of indices along each axis, counted one by one. */
struct range {
    int64_t first[REF_RANK], step[REF_RANK], count[REF_RANK];
};

static struct range range_of(const struct bp_strided_slice_attrs *a, const struct ref_array *x)
{
    struct range r;

    for (int i = 0; i < x->rank; i++) {
        r.first[i] = 0;
        r.step[i] = 1;
        r.count[i] = x->shape[i];
    }
    for (int64_t i = 0; i < a->starts.n; i++) {
        int axis = a->axes.n ? ref_axis(a->axes.at[i], x->rank) : (int)i;
        int64_t n = x->shape[axis], step = a->steps.n ? a->steps.at[i] : 1;
        int64_t start = a->starts.at[i], end = a->ends.at[i];
        start += start < 0 ? n : 0;
        end += end < 0 ? n : 0;
        if (step > 0) {
            start = start < 0 ? 0 : start;
            end = end > n ? n : end;
        } else {
            start = start >= n ? n - 1 : start;
            end = end < -1 ? -1 : end;
        }
        r.first[axis] = start;
        r.step[axis] = step;
        r.count[axis] = 0;
        if (start < 0 || start >= n) continue;
        for (int64_t k = start; step > 0 ? k < end : k > end; k += step) r.count[axis]++;
    }
    return r;
}

static int64_t in_range(const struct ref_array *x, const struct range *r, const int64_t *at)
{
    int64_t from[REF_RANK];

    for (int k = 0; k < x->rank; k++) from[k] = r->first[k] + at[k] * r->step[k];
    return ref_index(x, x->rank, from);
}

void ref_strided_slice(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    struct range r = range_of(attrs, in);
    int64_t at[REF_RANK] = {0};

    ref_copy_make(in, in->rank, r.count, out);
    for (int64_t i = 0; i < out->count; i++, ref_next(in->rank, r.count, at))
        ref_array_copy(out, i, in, in_range(in, &r, at));
}

void ref_strided_slice_grad(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct ref_array *dy = &in[0], *x = &in[1];
    struct range r = range_of(attrs, x); /* strided_slice's attributes have one layout with these */
    int64_t at[REF_RANK] = {0};

    ref_copy_make(x, x->rank, x->shape, out);
    for (int64_t i = 0; i < dy->count; i++, ref_next(dy->rank, r.count, at))
        ref_array_copy(out, in_range(x, &r, at), dy, i);
}

void ref_tile(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_tile_attrs *a = attrs;
    int rank = a->repeats.n > in->rank ? (int)a->repeats.n : in->rank;
    int64_t shape[REF_RANK], at[REF_RANK] = {0}, from[REF_RANK];

    for (int i = 0; i < rank; i++) {
        int64_t r = i - (rank - a->repeats.n), k = i - (rank - in->rank);
        shape[i] = (r < 0 ? 1 : a->repeats.at[r]) * (k < 0 ? 1 : in->shape[k]);
    }
    ref_copy_make(in, rank, shape, out);
    for (int64_t i = 0; i < out->count; i++, ref_next(rank, shape, at)) {
        for (int k = 0; k < in->rank; k++) from[k] = at[k + rank - in->rank] % in->shape[k];
        ref_array_copy(out, i, in, ref_index(in, in->rank, from));
    }
}

/* Returns which index along an axis a border's element k copies; -1: the value. */
static int64_t ref_copy_bordered(int64_t k, int64_t n, int64_t mode)
{
    if (mode == 1)
        while (k < 0 || k >= n) k = k < 0 ? -k : 2 * (n - 1) - k;
    if (mode == 2) k = k < 0 ? 0 : k >= n ? n - 1 : k;
    if (mode == 3) k = ((k % n) + n) % n;
    return k >= 0 && k < n ? k : -1;
}

void ref_pad(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_pad_attrs *a = attrs;
    int64_t shape[REF_RANK], at[REF_RANK] = {0}, from[REF_RANK];

    for (int i = 0; i < in->rank; i++)
        shape[i] = in->shape[i] + (a->before.n ? a->before.at[i] : 0) +
                   (a->after.n ? a->after.at[i] : 0);
    ref_copy_make(in, in->rank, shape, out);
    for (int64_t i = 0; i < out->count; i++, ref_next(in->rank, shape, at)) {
        bool inside = true;
        for (int k = 0; k < in->rank; k++) {
            from[k] = ref_copy_bordered(at[k] - (a->before.n ? a->before.at[k] : 0), in->shape[k],
                                        a->mode);
            inside = inside && from[k] >= 0;
        }
        if (inside) ref_array_copy(out, i, in, ref_index(in, in->rank, from));
        else ref_made_value(out, i, a->value);
    }
}

void ref_flip(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_flip_attrs *a = attrs;
    int64_t at[REF_RANK] = {0}, from[REF_RANK];

    ref_copy_make(in, in->rank, in->shape, out);
    for (int64_t i = 0; i < out->count; i++, ref_next(in->rank, in->shape, at)) {
        for (int k = 0; k < in->rank; k++) {
            bool transposed = !a->axes.n;
            for (int64_t n = 0; n < a->axes.n; n++)
                transposed = transposed || ref_axis(a->axes.at[n], in->rank) == k;
            from[k] = transposed ? in->shape[k] - 1 - at[k] : at[k];
        }
        ref_array_copy(out, i, in, ref_index(in, in->rank, from));
    }
}

static int64_t ref_copy_modulo(int64_t i, int64_t n)
{
    return (i % n + n) % n;
}

void ref_roll(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_roll_attrs *a = attrs;
    int64_t at[REF_RANK] = {0}, to[REF_RANK];

    ref_copy_make(in, in->rank, in->shape, out);
    for (int64_t i = 0; i < in->count; i++, ref_next(in->rank, in->shape, at)) {
        if (!a->axes.n) {
            ref_array_copy(out, ref_copy_modulo(i + a->shifts.at[0] % in->count, in->count), in, i);
            continue;
        }
        for (int k = 0; k < in->rank; k++) to[k] = at[k];
        for (int64_t n = 0; n < a->axes.n; n++) {
            int axis = ref_axis(a->axes.at[n], in->rank);
            to[axis] = ref_copy_modulo(at[axis] + a->shifts.at[n] % in->shape[axis],
                                       in->shape[axis]);
        }
        ref_array_copy(out, ref_index(out, in->rank, to), in, i);
    }
}

/* Rotates by a quarter turn, k modulo 4 times. */
void ref_rot90(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_rot90_attrs *a = attrs;
    int p = ref_axis(a->axis0, in->rank), q = ref_axis(a->axis1, in->rank);
    struct ref_array x;

    ref_copy_make(in, in->rank, in->shape, out);
    for (int64_t i = 0; i < in->count; i++) ref_array_copy(out, i, in, i);
    for (int64_t turn = ref_copy_modulo(a->k, 4); turn > 0; turn--) {
        int64_t shape[REF_RANK], at[REF_RANK] = {0}, from[REF_RANK];
        x = *out;
        for (int i = 0; i < x.rank; i++) shape[i] = x.shape[i];
        shape[p] = x.shape[q];
        shape[q] = x.shape[p];
        ref_copy_make(&x, x.rank, shape, out);
        for (int64_t i = 0; i < out->count; i++, ref_next(x.rank, shape, at)) {
            for (int k = 0; k < x.rank; k++) from[k] = at[k];
            from[p] = at[q];
            from[q] = x.shape[q] - 1 - at[p];
            ref_array_copy(out, i, &x, ref_index(&x, x.rank, from));
        }
        ref_array_finish(&x);
    }
}

static void ref_copy_triangle(const struct ref_array *in, int64_t diagonal, bool upper,
                              struct ref_array *out)
{
    int64_t rows = in->shape[in->rank - 2], columns = in->shape[in->rank - 1];

    ref_copy_make(in, in->rank, in->shape, out);
    for (int64_t i = 0; i < in->count; i++) {
        int64_t over = i % columns - i / columns % rows; /* distance to the right of the diagonal */
        if (upper ? over >= diagonal : over <= diagonal) ref_array_copy(out, i, in, i);
    }
}

void ref_tril(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    ref_copy_triangle(in, ((const struct bp_tril_attrs *)attrs)->diagonal, false, out);
}

void ref_triu(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    ref_copy_triangle(in, ((const struct bp_triu_attrs *)attrs)->diagonal, true, out);
}

void ref_diag_embed(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_diag_embed_attrs *a = attrs;
    int rank = in->rank + 1, p = ref_axis(a->axis1, rank), q = ref_axis(a->axis2, rank);
    int64_t shape[REF_RANK], at[REF_RANK] = {0}, from[REF_RANK];
    int64_t side = in->shape[in->rank - 1] + (a->offset < 0 ? -a->offset : a->offset);

    for (int i = 0, next = 0; i < rank; i++) shape[i] = i == p || i == q ? side : in->shape[next++];
    ref_copy_make(in, rank, shape, out);
    for (int64_t i = 0; i < out->count; i++, ref_next(rank, shape, at)) {
        int next = 0;
        for (int k = 0; k < rank; k++)
            if (k != p && k != q) from[next++] = at[k];
        from[next] = a->offset < 0 ? at[q] : at[p];
        if (at[q] - at[p] == a->offset) ref_array_copy(out, i, in, ref_index(in, in->rank, from));
        else ref_made_value(out, i, a->value);
    }
}

void ref_diag(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_diag_attrs *a = attrs;
    int64_t n = 0, side;

    if (in->rank == 1) {
        side = in->shape[0] + (a->offset < 0 ? -a->offset : a->offset);
        ref_copy_make(in, 2, (int64_t[]){side, side}, out);
        for (int64_t i = 0; i < out->count; i++)
            if (i % side - i / side == a->offset) ref_array_copy(out, i, in, n++);
            else ref_made_value(out, i, a->value);
        return;
    }
    for (int64_t i = 0; i < in->count; i++) n += i % in->shape[1] - i / in->shape[1] == a->offset;
    ref_copy_make(in, 1, &n, out);
    n = 0;
    for (int64_t i = 0; i < in->count; i++)
        if (i % in->shape[1] - i / in->shape[1] == a->offset) ref_array_copy(out, n++, in, i);
}

void ref_fill_diagonal(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_fill_diagonal_attrs *a = attrs;
    int64_t at[REF_RANK] = {0};

    ref_copy_make(in, in->rank, in->shape, out);
    for (int64_t i = 0; i < in->count; i++, ref_next(in->rank, in->shape, at)) {
        int64_t row = a->wrap ? at[0] % (in->shape[1] + 1) : at[0];
        bool on = true;
        if (in->rank == 2) on = at[1] == row + a->offset;
        for (int k = 1; k < in->rank && in->rank > 2; k++) on = on && at[k] == at[0];
        if (on) ref_made_value(out, i, a->value);
        else ref_array_copy(out, i, in, i);
    }
}

/* Returns the index of element n, c, h, w of an image; last: channels are the last axis. */
static int64_t ref_copy_pixel(const struct ref_array *x, bool last, int64_t n, int64_t c, int64_t h,
                              int64_t w)
{
    const int64_t first[] = {n, c, h, w}, behind[] = {n, h, w, c};

    return ref_index(x, 4, last ? behind : first);
}

/* Copies, for each element of the wide side (space), the element of the deep side (channels): in
 * one direction or the other. */
static void ref_copy_blocks(const struct ref_array *in, int64_t b, bool crd, bool last,
                            bool to_space, struct ref_array *out)
{
    int64_t sign[4] = {in->shape[0], in->shape[last ? 3 : 1], in->shape[last ? 1 : 2],
                       in->shape[last ? 2 : 3]};
    int64_t channels = to_space ? sign[1] / (b * b) : sign[1]; /* of the wide side */
    int64_t h = to_space ? sign[2] : sign[2] / b, w = to_space ? sign[3] : sign[3] / b;
    int64_t c2 = to_space ? channels : channels * b * b, h2 = to_space ? h * b : h,
            w2 = to_space ? w * b : w;

    ref_copy_make(in, 4, last ? (int64_t[]){sign[0], h2, w2, c2} : (int64_t[]){sign[0], c2, h2, w2},
                  out);
    if (!out->count) return;
    for (int64_t n = 0; n < sign[0]; n++)
        for (int64_t c = 0; c < channels; c++)
            for (int64_t i = 0; i < h * b; i++)
                for (int64_t j = 0; j < w * b; j++) {
                    int64_t deep = crd ? (c * b + i % b) * b + j % b
                                       : (i % b * b + j % b) * channels + c;
                    const struct ref_array *wide = to_space ? out : in,
                                           *other = to_space ? in : out;
                    int64_t p = ref_copy_pixel(wide, last, n, c, i, j);
                    int64_t q = ref_copy_pixel(other, last, n, deep, i / b, j / b);
                    ref_array_copy(out, to_space ? p : q, in, to_space ? q : p);
                }
}

void ref_depth_to_space(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_depth_to_space_attrs *a = attrs;

    ref_copy_blocks(in, a->block, a->crd, a->channels_last, true, out);
}

void ref_space_to_depth(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_space_to_depth_attrs *a = attrs;

    ref_copy_blocks(in, a->block, a->crd, a->channels_last, false, out);
}

void ref_pixel_shuffle(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_pixel_shuffle_attrs *a = attrs;

    ref_copy_blocks(in, a->factor, true, a->channels_last, true, out);
}

void ref_pixel_unshuffle(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_pixel_unshuffle_attrs *a = attrs;

    ref_copy_blocks(in, a->factor, true, a->channels_last, false, out);
}

void ref_channel_shuffle(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_channel_shuffle_attrs *a = attrs;
    int axis = a->channels_last ? 3 : 1;
    int64_t at[REF_RANK] = {0}, each = in->shape[axis] / a->groups;

    ref_copy_make(in, 4, in->shape, out);
    for (int64_t i = 0; i < in->count; i++, ref_next(4, in->shape, at)) {
        int64_t from[] = {at[0], at[1], at[2], at[3]};
        from[axis] = at[axis] % a->groups * each + at[axis] / a->groups;
        ref_array_copy(out, i, in, ref_index(in, 4, from));
    }
}

void ref_temporal_shift(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_temporal_shift_attrs *a = attrs;
    int axis = a->channels_last ? 3 : 1;
    int64_t at[REF_RANK] = {0}, c = in->shape[axis];
    int64_t first = (int64_t)floor(a->ratio * (double)c),
            second = (int64_t)floor(2 * a->ratio * (double)c);

    ref_copy_make(in, 4, in->shape, out);
    for (int64_t i = 0; i < in->count; i++, ref_next(4, in->shape, at)) {
        int64_t frame = at[0] % a->segments, step = at[axis] < first    ? -1
                                                    : at[axis] < second ? 1
                                                                        : 0;
        int64_t from[] = {at[0] + step, at[1], at[2], at[3]};
        if (frame + step >= 0 && frame + step < a->segments)
            ref_array_copy(out, i, in, ref_index(in, 4, from));
    }
}

/* Windows over an image: their attributes, the image's extents, and the number of windows. */
struct windows {
    const int64_t *kernel, *stride, *dilation, *pad;
    int64_t size[2], count[2];
};

static struct windows windows_of(const int64_t *size, const int64_t *kernel, const int64_t *stride,
                                 const int64_t *dilation, const int64_t *pad)
{
    struct windows w = {kernel, stride, dilation, pad, {size[0], size[1]}, {0}};

    for (int i = 0; i < 2; i++)
        for (int64_t first = 0;
             first + dilation[i] * (kernel[i] - 1) < size[i] + pad[i] + pad[2 + i];
             first += stride[i])
            w.count[i]++;
    return w;
}

/* Returns the index in the image of one element of one window; -1: outside of the image. */
static int64_t ref_copy_place(const struct windows *w, int64_t element, int64_t window)
{
    const int64_t e[] = {element / w->kernel[1], element % w->kernel[1]},
                  p[] = {window / w->count[1], window % w->count[1]};
    int64_t at[2];

    for (int i = 0; i < 2; i++) {
        at[i] = p[i] * w->stride[i] + e[i] * w->dilation[i] - w->pad[i];
        if (at[i] < 0 || at[i] >= w->size[i]) return -1;
    }
    return at[0] * w->size[1] + at[1];
}

void ref_unfold(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_unfold_attrs *a = attrs;
    struct windows w = windows_of(in->shape + 2, a->kernel, a->stride, a->dilation, a->pad);
    int64_t each = a->kernel[0] * a->kernel[1], n = w.count[0] * w.count[1];

    ref_copy_make(in, 3, (int64_t[]){in->shape[0], in->shape[1] * each, n}, out);
    for (int64_t i = 0; i < out->count; i++) {
        int64_t at = ref_copy_place(&w, i / n % each, i % n), channel = i / n / each;
        if (at >= 0) ref_array_copy(out, i, in, channel * w.size[0] * w.size[1] + at);
    }
}

void ref_fold(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_fold_attrs *a = attrs;
    struct windows w = windows_of(a->image, a->kernel, a->stride, a->dilation, a->pad);
    int64_t each = a->kernel[0] * a->kernel[1], n = w.count[0] * w.count[1];
    struct ref_array terms;

    ref_array_init(out, in->type->dtype, 4,
                   (int64_t[]){in->shape[0], in->shape[1] / each, w.size[0], w.size[1]});
    ref_array_init(&terms, BP_U64, 4, out->shape);
    for (int64_t i = 0; i < in->count; i++) {
        int64_t at = ref_copy_place(&w, i / n % each, i % n);
        if (at < 0) continue;
        at += i / n / each * w.size[0] * w.size[1];
        out->v[at] += in->v[i];
        out->bound[at] += fabsl(in->v[i]);
        terms.u[at]++;
    }
    for (int64_t i = 0; i < out->count; i++) out->bound[i] *= ref_growth((int64_t)terms.u[i] - 1);
    ref_array_finish(&terms);
}
