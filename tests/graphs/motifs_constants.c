/* SPDX-License-Identifier: Apache-2.0 */
/* motifs_constants.c: adds motifs of nodes that a pass may compute in advance or join: nodes whose
 * inputs are constants, products of one value with several constants, changes of layout that
 * cancel. */
#include "graphs.h"

static uint32_t constant_step(struct fuzz_generator *m, uint32_t w)
{
    const struct fuzz_value v = *fuzz_value_of(m, w);
    uint32_t x;

    switch (fuzz_below(m, 6)) {
    case 0: return fuzz_unary(m, "transpose", w);
    case 1: return fuzz_activation(m, w);
    case 2: return fuzz_binary(m, "add", w, fuzz_weight(m, FUZZ_WEIGHT, v.dtype, v.rank, v.shape));
    case 3: return fuzz_cast(m, fuzz_cast(m, w, BP_F16), v.dtype);
    case 4: return fuzz_binary(m, "mul", w, fuzz_weight(m, FUZZ_PLAIN, v.dtype, 0, v.shape));
    default: /* a constant of other numbers in each run */
        fuzz_begin(m, "dropout");
        fuzz_in(m, w);
        x = fuzz_end(m, 0);
        return fuzz_chance(m, 30) ? x : w;
    }
}

/* A chain of constants, some of which are not frozen, that a value meets at its end. */
void fuzz_motif_fold(struct fuzz_generator *m)
{
    uint32_t x = fuzz_pick(m, 2 + fuzz_below(m, 2)), w;
    const struct fuzz_value v = *fuzz_value_of(m, x);
    int64_t k = v.shape[v.rank - 1];

    w = fuzz_weight(m, FUZZ_WEIGHT, v.dtype, 2, (int64_t[]){k, k});
    for (uint32_t n = 1 + fuzz_below(m, 3); n; n--) w = constant_step(m, w);
    if (fuzz_chance(m, 60)) x = fuzz_binary(m, "matmul", x, w);
    else if (v.shape[v.rank - 2] == k) x = fuzz_binary(m, "add", x, w);
    else fuzz_activation(m, w);
    if (fuzz_chance(m, 20)) fuzz_output(m, w);
    if (fuzz_chance(m, 40)) fuzz_activation(m, x);
}

/* Products of one value with several constants, such as the three of an attention. */
void fuzz_motif_beside(struct fuzz_generator *m)
{
    uint32_t x = fuzz_pick(m, 2 + fuzz_below(m, 2)), y[3];
    const struct fuzz_value v = *fuzz_value_of(m, x);
    int64_t n = 2 + fuzz_below(m, 6);

    for (int i = 0; i < 3; i++) {
        uint32_t w = fuzz_weight(m, FUZZ_WEIGHT, v.dtype, 2, (int64_t[]){v.shape[v.rank - 1], n});
        y[i] = fuzz_binary(m, "matmul", x, w);
        if (fuzz_chance(m, 60))
            y[i] = fuzz_binary(m, "add", y[i], fuzz_weight(m, FUZZ_WEIGHT, v.dtype, 1, &n));
        if (fuzz_chance(m, 15)) n++; /* of another extent */
    }
    if (fuzz_chance(m, 60)) fuzz_binary(m, "mul", y[0], fuzz_unary(m, "softmax", y[1]));
    if (fuzz_chance(m, 20)) fuzz_output(m, y[2]);
}

static uint32_t layout_change(struct fuzz_generator *m, uint32_t x, bool to_last)
{
    static const int64_t last[] = {0, 2, 3, 1}, first[] = {0, 3, 1, 2};

    fuzz_begin(m, "transpose");
    fuzz_in(m, x);
    fuzz_list(m, "perm", 4, to_last ? last : first);
    return fuzz_end(m, 0);
}

/* An image with its channels last, made channels first for a convolution, and back. */
void fuzz_motif_layout(struct fuzz_generator *m)
{
    int64_t channels = 1 + fuzz_below(m, 6), filters = 1 + fuzz_below(m, 6);
    uint32_t dtype = fuzz_float_dtype(m), x, y;

    x = fuzz_new(
        m, FUZZ_INPUT, FUZZ_PLAIN, dtype, 4,
        (int64_t[]){1 + fuzz_below(m, 2), 2 + fuzz_below(m, 4), 2 + fuzz_below(m, 4), channels});
    y = layout_change(m, x, false);
    if (fuzz_chance(m, 40)) y = fuzz_activation(m, y);
    y = fuzz_binary(m, "conv", y,
                    fuzz_weight(m, FUZZ_WEIGHT, dtype, 4, (int64_t[]){filters, channels, 1, 1}));
    if (fuzz_chance(m, 60)) y = fuzz_activation(m, y);
    if (fuzz_chance(m, 15)) fuzz_output(m, y);
    y = layout_change(m, y, true);
    if (fuzz_chance(m, 40)) y = fuzz_activation(m, y);
    if (filters == channels && fuzz_chance(m, 60)) y = fuzz_binary(m, "add", y, x);
    if (fuzz_chance(m, 40)) layout_change(m, y, false);
}
