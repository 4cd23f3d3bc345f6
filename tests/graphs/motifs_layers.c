/* SPDX-License-Identifier: Apache-2.0 */
/* motifs_layers.c: adds motifs of layers of networks: convolutions and products with what follows
 * them, pools, norms, softmax and reductions. */
#include "graphs.h"

/* ---- convolutions ---- */

static uint32_t conv_image(struct fuzz_generator *m)
{
    uint32_t x = fuzz_pick(m, 4);
    const struct fuzz_value *v = fuzz_value_of(m, x);

    if (fuzz_chance(m, 65) && v->shape[1] && v->shape[2] > 1 && v->shape[3] > 1) return x;
    if (fuzz_chance(m, 6)) /* large enough for kernels of libraries, which pack constants */
        return fuzz_new(m, FUZZ_INPUT, FUZZ_PLAIN, BP_F32, 4, (int64_t[]){1, 16, 9, 9});
    return fuzz_new(m, FUZZ_INPUT, FUZZ_PLAIN, fuzz_chance(m, 75) ? BP_F32 : fuzz_float_dtype(m), 4,
                    (int64_t[]){1 + fuzz_below(m, 2), 1 + fuzz_below(m, 8), 3 + fuzz_below(m, 5),
                                3 + fuzz_below(m, 5)});
}

static uint32_t conv_filters(struct fuzz_generator *m, uint32_t x, int64_t groups, int64_t filters,
                             int64_t extent)
{
    const struct fuzz_value v = *fuzz_value_of(m, x);

    return fuzz_weight(m, FUZZ_WEIGHT, v.dtype, 4,
                       (int64_t[]){filters, v.shape[1] / groups, extent, extent});
}

static uint32_t conv_node(struct fuzz_generator *m, uint32_t x)
{
    const struct fuzz_value v = *fuzz_value_of(m, x);
    int64_t channels = v.shape[1], groups = 1, filters = 1 + fuzz_below(m, 8), pad, stride;
    int64_t extent = fuzz_chance(m, 40) ? 1 : 2 + fuzz_below(m, 2);
    uint32_t w, bias = FUZZ_ABSENT;

    if (fuzz_chance(m, 20)) groups = filters = channels; /* depthwise */
    else if (fuzz_chance(m, 20) && channels % 2 == 0) groups = 2;
    if (groups == 2) filters = 2 * (1 + fuzz_below(m, 3));
    if (fuzz_chance(m, 15) || channels == 16) filters = 16;
    if (filters % groups) filters = groups;
    pad = extent > 1 ? fuzz_below(m, 2) : 0;
    stride = 1 + fuzz_chance(m, 20);
    w = conv_filters(m, x, groups, filters, extent);
    if (fuzz_chance(m, 50)) bias = fuzz_weight(m, FUZZ_WEIGHT, v.dtype, 1, &filters);
    fuzz_begin(m, "conv");
    fuzz_in(m, x);
    fuzz_in(m, w);
    if (bias != FUZZ_ABSENT) fuzz_in(m, bias);
    fuzz_i64(m, "groups", groups);
    fuzz_ints(m, "stride", 2, (int64_t[]){stride, stride});
    fuzz_ints(m, "pad", 6, (int64_t[]){pad, pad, 0, pad, fuzz_chance(m, 15) ? 0 : pad, 0});
    return fuzz_end(m, 0);
}

static uint32_t statistic_dtype(uint32_t dtype)
{
    return dtype == BP_F16 || dtype == BP_BF16 ? BP_F32 : dtype;
}

static uint32_t conv_norm(struct fuzz_generator *m, uint32_t x)
{
    const struct fuzz_value v = *fuzz_value_of(m, x);
    uint32_t part[4], dtype = statistic_dtype(v.dtype);

    for (int i = 0; i < 4; i++) /* scale, bias, mean, variance */
        part[i] = fuzz_weight(m, i == 0 || i == 3 ? FUZZ_POSITIVE : FUZZ_WEIGHT, dtype, 1,
                              &v.shape[1]);
    fuzz_begin(m, "batch_norm");
    fuzz_in(m, x);
    for (int i = 0; i < 4; i++) fuzz_in(m, part[i]);
    if (fuzz_chance(m, 30)) fuzz_f64(m, "epsilon", 1e-3);
    return fuzz_end(m, 0);
}

/* A bias of its own node, by channel. */
static uint32_t conv_bias(struct fuzz_generator *m, uint32_t x)
{
    const struct fuzz_value v = *fuzz_value_of(m, x);

    return fuzz_binary(m, "add", x,
                       fuzz_weight(m, FUZZ_WEIGHT, v.dtype, 4, (int64_t[]){1, v.shape[1], 1, 1}));
}

/* Two convolutions that share filters and have norms of their own. */
static void conv_shared(struct fuzz_generator *m)
{
    uint32_t x = conv_image(m), y = fuzz_pick_like(m, x), w, a;
    int64_t channels = fuzz_value_of(m, x)->shape[1];

    w = conv_filters(m, x, 1, 1 + fuzz_below(m, (uint32_t)channels), 1);
    a = fuzz_activation(m, conv_norm(m, fuzz_binary(m, "conv", x, w)));
    fuzz_binary(m, "add", a, conv_norm(m, fuzz_binary(m, "conv", y, w)));
}

/* A norm, or a border, before a convolution that adds a border of its own: a norm that is folded
 * into the filters would shift the border too. */
static uint32_t conv_before(struct fuzz_generator *m, uint32_t x)
{
    int64_t border[4] = {0, 0, 1, 1};

    if (fuzz_chance(m, 50)) return conv_norm(m, x);
    fuzz_begin(m, "pad");
    fuzz_in(m, x);
    fuzz_list(m, "before", 4, border);
    fuzz_list(m, "after", 4, border);
    if (fuzz_chance(m, 30)) fuzz_f64(m, "value", 0.5);
    return fuzz_end(m, 0);
}

/* A residual that broadcasts, along any of the axes. */
static uint32_t conv_wide(struct fuzz_generator *m, uint32_t x)
{
    struct fuzz_value v = *fuzz_value_of(m, x);

    v.shape[fuzz_below(m, v.rank)] = 1;
    return fuzz_new(m, FUZZ_INPUT, FUZZ_PLAIN, v.dtype, v.rank, v.shape);
}

/* A convolution with any of: a norm, a bias, a residual, an activation; with a second reader of a
 * node between them, or as an output. */
void fuzz_motif_conv(struct fuzz_generator *m)
{
    uint32_t image = conv_image(m), x;

    if (fuzz_chance(m, 7)) {
        conv_shared(m);
        return;
    }
    x = conv_node(m, fuzz_chance(m, 12) ? conv_before(m, image) : image);
    if (fuzz_chance(m, 8)) fuzz_output(m, x);
    if (fuzz_chance(m, 50)) {
        if (fuzz_chance(m, 10)) fuzz_activation(m, x);
        x = conv_norm(m, x);
    }
    if (fuzz_chance(m, 15)) x = conv_bias(m, x);
    if (fuzz_chance(m, 8)) fuzz_output(m, x);
    if (fuzz_chance(m, 40)) {
        uint32_t other = fuzz_chance(m, 50) ? fuzz_pick_like(m, x) : conv_node(m, image);
        if (fuzz_chance(m, 10)) fuzz_activation(m, x);
        if (fuzz_chance(m, 10)) other = conv_wide(m, x);
        x = fuzz_chance(m, 50) ? fuzz_binary(m, "add", x, other) : fuzz_binary(m, "add", other, x);
        if (fuzz_chance(m, 15)) fuzz_activation(m, other);
    }
    if (fuzz_chance(m, 75)) x = fuzz_activation(m, x);
    if (fuzz_chance(m, 20)) { /* one more, without anything between */
        x = conv_node(m, x);
        if (fuzz_chance(m, 50)) fuzz_activation(m, x);
    }
}

/* ---- products ---- */

static uint32_t matmul_gelu(struct fuzz_generator *m, uint32_t x)
{
    uint32_t e;

    if (fuzz_chance(m, 60)) return fuzz_unary(m, "gelu", x);
    fuzz_begin(m, "scale");
    fuzz_in(m, x);
    fuzz_f64(m, "factor", 0.70710678118654752);
    e = fuzz_unary(m, "erf", fuzz_end(m, 0));
    fuzz_begin(m, "scale");
    fuzz_in(m, e);
    fuzz_f64(m, "factor", 0.5);
    fuzz_f64(m, "bias", 0.5);
    return fuzz_binary(m, "mul", x, fuzz_end(m, 0));
}

/* A bias by column; and, beside it, near misses: one by row, of one element, or by batch. */
static uint32_t matmul_bias(struct fuzz_generator *m, uint32_t x)
{
    struct fuzz_value v = *fuzz_value_of(m, x);

    if (fuzz_chance(m, 75)) return fuzz_weight(m, FUZZ_WEIGHT, v.dtype, 1, &v.shape[v.rank - 1]);
    v.shape[v.rank - 1] = 1;
    return fuzz_weight(m, FUZZ_WEIGHT, v.dtype, fuzz_chance(m, 70) ? v.rank : 0, v.shape);
}

static uint32_t matmul_node(struct fuzz_generator *m, uint32_t x, int64_t n)
{
    const struct fuzz_value v = *fuzz_value_of(m, x);
    bool transposed = fuzz_chance(m, 30);
    int64_t k = v.shape[v.rank - 1];
    uint32_t w = fuzz_weight(m, FUZZ_WEIGHT, v.dtype, 2,
                             transposed ? (int64_t[]){n, k} : (int64_t[]){k, n});

    if (transposed && fuzz_chance(m, 50)) {
        w = fuzz_unary(m, "transpose", w);
        transposed = false;
    }
    fuzz_begin(m, "matmul");
    fuzz_in(m, x);
    fuzz_in(m, w);
    fuzz_i64(m, "transpose_b", transposed);
    return fuzz_end(m, 0);
}

void fuzz_motif_matmul(struct fuzz_generator *m)
{
    uint32_t x = fuzz_pick(m, 2 + fuzz_below(m, 2)), y;
    int64_t n = fuzz_chance(m, 15) ? 1 : 2 + fuzz_below(m, 18);

    if (fuzz_value_of(m, x)->rank < 2) return;
    if (fuzz_chance(m, 5)) { /* large enough for kernels of libraries, which pack constants */
        x = fuzz_new(m, FUZZ_INPUT, FUZZ_PLAIN, fuzz_chance(m, 80) ? BP_F32 : BP_BF16, 2,
                     (int64_t[]){33, 36});
        n = 34;
    }
    y = matmul_node(m, x, n);
    if (fuzz_chance(m, 8)) fuzz_output(m, y);
    if (fuzz_chance(m, 70)) y = fuzz_binary(m, "add", y, matmul_bias(m, y));
    if (fuzz_chance(m, 10)) fuzz_activation(m, y);
    if (fuzz_chance(m, 40)) y = matmul_gelu(m, y);
    else if (fuzz_chance(m, 50)) y = fuzz_activation(m, y);
    if (fuzz_chance(m, 30)) y = fuzz_binary(m, "add", y, fuzz_pick_like(m, y));
    if (fuzz_chance(m, 25)) matmul_node(m, y, 1 + fuzz_below(m, 8));
}

/* softmax(q k^T / c + mask) v, in parts. */
void fuzz_motif_attention(struct fuzz_generator *m)
{
    int64_t shape[3] = {1 + fuzz_below(m, 3), 2 + fuzz_below(m, 6), 2 + fuzz_below(m, 7)};
    uint32_t dtype = fuzz_float_dtype(m), p, q, k, v;

    q = fuzz_new(m, FUZZ_INPUT, FUZZ_PLAIN, dtype, 3, shape);
    k = fuzz_chance(m, 30) ? q : fuzz_new(m, FUZZ_INPUT, FUZZ_PLAIN, dtype, 3, shape);
    v = fuzz_chance(m, 30) ? k : fuzz_new(m, FUZZ_INPUT, FUZZ_PLAIN, dtype, 3, shape);
    fuzz_begin(m, "matmul");
    fuzz_in(m, q);
    fuzz_in(m, k);
    fuzz_i64(m, "transpose_b", 1);
    p = fuzz_end(m, 0);
    fuzz_begin(m, "scale");
    fuzz_in(m, p);
    fuzz_f64(m, "factor", 0.353553390593);
    p = fuzz_end(m, 0);
    if (fuzz_chance(m, 40))
        p = fuzz_binary(
            m, "add", p,
            fuzz_new(m, FUZZ_INPUT, FUZZ_PLAIN, dtype, 2, (int64_t[]){shape[1], shape[1]}));
    p = fuzz_unary(m, "softmax", p);
    if (fuzz_chance(m, 15)) fuzz_output(m, p);
    fuzz_binary(m, "matmul", p, v);
}

/* ---- pools, norms, softmax, reductions ---- */

void fuzz_motif_pool(struct fuzz_generator *m)
{
    uint32_t x = conv_image(m);
    const struct fuzz_value v = *fuzz_value_of(m, x);
    int64_t extent = 1 + fuzz_below(m, 3), pad = extent > 1 && fuzz_chance(m, 30);

    if (fuzz_chance(m, 20)) {
        x = fuzz_unary(m, "global_avg_pool", x);
        if (fuzz_chance(m, 50)) { /* squeeze and excite */
            uint32_t gate = fuzz_unary(m, "sigmoid", x);
            fuzz_binary(m, "mul", fuzz_new(m, FUZZ_INPUT, FUZZ_PLAIN, v.dtype, 4, v.shape), gate);
        }
        return;
    }
    fuzz_begin(m, fuzz_chance(m, 50) ? "max_pool" : "avg_pool");
    fuzz_in(m, x);
    fuzz_ints(m, "window", 2, (int64_t[]){extent, extent});
    fuzz_ints(m, "stride", 2, (int64_t[]){1 + fuzz_below(m, 2), 1 + fuzz_below(m, 2)});
    fuzz_ints(m, "pad", 6, (int64_t[]){pad, pad, 0, pad, pad, 0});
    fuzz_i64(m, "ceil_mode", fuzz_chance(m, 20));
    x = fuzz_end(m, 0);
    if (fuzz_chance(m, 40)) fuzz_activation(m, x);
}

void fuzz_motif_norm(struct fuzz_generator *m)
{
    uint32_t x = fuzz_pick(m, 2 + fuzz_below(m, 2)), scale, bias;
    const struct fuzz_value v = *fuzz_value_of(m, x);

    if (v.rank < 2) return;
    if (fuzz_chance(m, 40)) x = fuzz_binary(m, "add", x, fuzz_pick_like(m, x));
    scale = fuzz_weight(m, FUZZ_POSITIVE, v.dtype, 1, &v.shape[v.rank - 1]);
    bias = fuzz_weight(m, FUZZ_WEIGHT, v.dtype, 1, &v.shape[v.rank - 1]);
    if (fuzz_chance(m, 25)) {
        fuzz_begin(m, "rms_norm");
        fuzz_in(m, x);
        fuzz_in(m, scale);
        x = fuzz_end(m, 1 + fuzz_chance(m, 30));
    } else {
        fuzz_begin(m, "layer_norm");
        fuzz_in(m, x);
        fuzz_in(m, scale);
        fuzz_in(m, bias);
        x = fuzz_end(m, 1 + 2 * fuzz_chance(m, 30));
    }
    if (fuzz_chance(m, 50)) fuzz_activation(m, x);
}

static uint32_t reduce_node(struct fuzz_generator *m, const char *op, uint32_t x, bool keep)
{
    uint32_t rank = fuzz_value_of(m, x)->rank;
    int64_t axes[2] = {rank ? fuzz_below(m, rank) : 0, rank > 1 ? fuzz_below(m, rank) : 0};

    fuzz_begin(m, op);
    fuzz_in(m, x);
    if (rank) fuzz_list(m, "axes", axes[0] != axes[1] && fuzz_chance(m, 40) ? 2 : 1, axes);
    fuzz_i64(m, "keep", keep);
    return fuzz_end(m, 0);
}

void fuzz_motif_softmax(struct fuzz_generator *m)
{
    uint32_t x = fuzz_pick(m, FUZZ_ABSENT), rank = fuzz_value_of(m, x)->rank, e;

    if (!rank) return;
    if (fuzz_chance(m, 60)) {
        fuzz_begin(m, fuzz_chance(m, 60) ? "softmax" : "log_softmax");
        fuzz_in(m, x);
        fuzz_i64(m, "axis", (int64_t)fuzz_below(m, 2 * rank) - rank);
        e = fuzz_end(m, 0);
        if (fuzz_chance(m, 30)) fuzz_binary(m, "mul", e, x);
        return;
    }
    fuzz_begin(m, "max");
    fuzz_in(m, x);
    fuzz_list(m, "axes", 1, (int64_t[]){-1});
    fuzz_i64(m, "keep", 1);
    e = fuzz_unary(m, "exp", fuzz_binary(m, "sub", x, fuzz_end(m, 0)));
    fuzz_begin(m, "sum");
    fuzz_in(m, e);
    fuzz_list(m, "axes", 1, (int64_t[]){-1});
    fuzz_i64(m, "keep", 1);
    fuzz_binary(m, "div", e, fuzz_end(m, 0));
}

void fuzz_motif_reduce(struct fuzz_generator *m)
{
    static const char *const ops[] = {"sum", "sum",  "mean",      "mean", "max",
                                      "min", "amax", "logsumexp", "var"};
    uint32_t x = fuzz_pick(m, FUZZ_ABSENT), y;
    bool keep = fuzz_chance(m, 50);

    if (fuzz_chance(m, 50)) x = fuzz_activation(m, x);
    y = reduce_node(m, ops[fuzz_below(m, sizeof ops / sizeof *ops)], x, keep);
    if (keep && fuzz_chance(m, 60)) y = fuzz_binary(m, "sub", x, y);
    if (fuzz_chance(m, 40)) fuzz_activation(m, y);
}
