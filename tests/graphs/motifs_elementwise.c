/* SPDX-License-Identifier: Apache-2.0 */
/* motifs_elementwise.c: adds motifs of elementwise nodes: chains, diamonds, broadcasts, identities,
 * equal nodes, selections and casts. */
#include "graphs.h"

static uint32_t chain_scale(struct fuzz_generator *m, uint32_t x)
{
    fuzz_begin(m, "scale");
    fuzz_in(m, x);
    fuzz_f64(m, "factor", 0.25 * (1 + fuzz_below(m, 6)));
    if (fuzz_chance(m, 50)) fuzz_f64(m, "bias", 0.5 * fuzz_below(m, 4) - 0.75);
    return fuzz_end(m, 0);
}

static uint32_t chain_clip(struct fuzz_generator *m, uint32_t x)
{
    fuzz_begin(m, "clip");
    fuzz_in(m, x);
    fuzz_f64(m, "min", fuzz_chance(m, 50) ? 0 : -1);
    fuzz_f64(m, "max", fuzz_chance(m, 30) ? 6 : 1);
    return fuzz_end(m, 0);
}

static uint32_t chain_sloped(struct fuzz_generator *m, const char *op, const char *attr, uint32_t x)
{
    fuzz_begin(m, op);
    fuzz_in(m, x);
    fuzz_f64(m, attr, 0.125 * (1 + fuzz_below(m, 4)));
    return fuzz_end(m, 0);
}

uint32_t fuzz_activation(struct fuzz_generator *m, uint32_t x)
{
    static const char *const plain[] = {"relu",         "relu",       "relu", "sigmoid",
                                        "tanh",         "hard_swish", "silu", "mish",
                                        "hard_sigmoid", "softplus",   "gelu"};
    uint32_t n = fuzz_below(m, sizeof plain / sizeof *plain + 5);

    if (n < sizeof plain / sizeof *plain) return fuzz_unary(m, plain[n], x);
    switch (n - sizeof plain / sizeof *plain) {
    case 0: return chain_clip(m, x);
    case 1: return chain_sloped(m, "leaky_relu", "slope", x);
    case 2: return chain_sloped(m, "elu", "alpha", x);
    case 3: return fuzz_binary(m, "mul", x, fuzz_unary(m, "sigmoid", x)); /* silu, composed */
    default:
        fuzz_begin(m, "gelu");
        fuzz_in(m, x);
        fuzz_i64(m, "approximate", 1);
        return fuzz_end(m, 0);
    }
}

/* A value that broadcasts to x: one element, a row, a channel, a plane, or all of it. */
static uint32_t chain_operand(struct fuzz_generator *m, uint32_t x)
{
    const struct fuzz_value v = *fuzz_value_of(m, x);
    int64_t shape[REF_RANK];
    uint32_t kind = fuzz_below(m, 8), rank = v.rank;

    if (x == FUZZ_BAD || kind > 3) return fuzz_pick_like(m, x);
    for (uint32_t i = 0; i < v.rank; i++) shape[i] = kind == 3 ? v.shape[i] : 1;
    if (kind == 0) rank = fuzz_chance(m, 50) ? 0 : rank;
    if (kind == 1 && rank) shape[0] = v.shape[rank - 1], rank = 1;
    if (kind == 2 && rank > 1) shape[1] = v.shape[1];
    if (kind == 3 && rank) shape[fuzz_below(m, rank)] = 1;
    return fuzz_weight(m, FUZZ_PLAIN, v.dtype, rank, shape);
}

static uint32_t chain_binary(struct fuzz_generator *m, uint32_t x, uint32_t y)
{
    static const char *const ops[] = {"add", "add", "mul", "mul", "sub", "maximum", "minimum"};
    const char *op = ops[fuzz_below(m, sizeof ops / sizeof *ops)];

    return fuzz_chance(m, 50) ? fuzz_binary(m, op, x, y) : fuzz_binary(m, op, y, x);
}

static uint32_t chain_step(struct fuzz_generator *m, uint32_t x)
{
    static const char *const ops[] = {"abs", "neg", "exp", "sqrt", "floor", "sin", "erf", "sign"};
    uint32_t n = fuzz_below(m, 10);

    if (n < 4) return chain_binary(m, x, chain_operand(m, x));
    if (n < 7) return fuzz_activation(m, x);
    if (n == 7) return chain_scale(m, x);
    if (n == 8) return fuzz_unary(m, "tanh", fuzz_unary(m, "square", x));
    n = fuzz_below(m, sizeof ops / sizeof *ops);
    if (n == 2) x = chain_clip(m, x);        /* exp */
    if (n == 3) x = fuzz_unary(m, "abs", x); /* sqrt */
    return fuzz_unary(m, ops[n], x);
}

void fuzz_motif_chain(struct fuzz_generator *m)
{
    uint32_t x = fuzz_pick(m, FUZZ_ABSENT), n = 2 + fuzz_below(m, 6);

    while (n--) x = chain_step(m, x);
}

/* Two ways from one value to another. */
void fuzz_motif_diamond(struct fuzz_generator *m)
{
    uint32_t x = chain_step(m, fuzz_pick(m, FUZZ_ABSENT)), a = chain_step(m, x), b = x;

    for (uint32_t n = fuzz_below(m, 3); n; n--) b = chain_step(m, b);
    chain_step(m, chain_binary(m, a, b));
}

/* Results that are larger than both operands, and operands of rank 0. */
void fuzz_motif_broadcast(struct fuzz_generator *m)
{
    uint32_t dtype = fuzz_float_dtype(m), x, y;
    int64_t rows = 1 + fuzz_below(m, 6), columns = 1 + fuzz_below(m, 9);

    x = fuzz_new(m, FUZZ_INPUT, FUZZ_PLAIN, dtype, 2, (int64_t[]){rows, 1});
    y = fuzz_chance(m, 20) ? fuzz_new(m, FUZZ_INPUT, FUZZ_PLAIN, dtype, 0, (int64_t[]){1})
                           : fuzz_new(m, FUZZ_CONSTANT, FUZZ_PLAIN, dtype, 1, &columns);
    if (fuzz_chance(m, 50)) x = chain_step(m, x);
    chain_step(m, chain_binary(m, x, y));
}

/* x + 0 changes the sign of a zero, x - 0 does not; a cast to half types and back rounds. */
void fuzz_motif_identity(struct fuzz_generator *m)
{
    uint32_t x = fuzz_pick(m, FUZZ_ABSENT), dtype = fuzz_value_of(m, x)->dtype, y = x;

    switch (fuzz_below(m, 6)) {
    case 0: y = chain_sloped(m, "scale", "factor", fuzz_unary(m, "neg", x)); break;
    case 1:
        fuzz_begin(m, "scale"); /* x * 1 + 0 */
        fuzz_in(m, x);
        y = fuzz_end(m, 0);
        break;
    case 2: y = fuzz_cast(m, fuzz_cast(m, x, fuzz_chance(m, 50) ? BP_F16 : BP_F64), dtype); break;
    case 3: y = fuzz_unary(m, "neg", fuzz_unary(m, "neg", x)); break;
    case 4: y = fuzz_unary(m, "relu", fuzz_unary(m, "relu", x)); break;
    default: y = fuzz_unary(m, "assign", x);
    }
    chain_step(m, y);
}

/* Nodes that are equal, and nodes that differ in one attribute only. */
void fuzz_motif_twins(struct fuzz_generator *m)
{
    uint32_t x = fuzz_pick(m, FUZZ_ABSENT), y = fuzz_pick_like(m, x), a, b;

    switch (fuzz_below(m, 4)) {
    case 0:
        a = fuzz_binary(m, "add", x, y);
        b = fuzz_chance(m, 50) ? fuzz_binary(m, "add", x, y) : fuzz_binary(m, "add", y, x);
        break;
    case 1:
        a = chain_sloped(m, "leaky_relu", "slope", x);
        b = chain_sloped(m, "leaky_relu", "slope", x);
        break;
    case 2:
        a = chain_scale(m, x);
        b = chain_scale(m, x);
        break;
    default: a = fuzz_activation(m, x); b = fuzz_activation(m, x);
    }
    fuzz_binary(m, "mul", a, b);
}

/* A comparison and what it selects. */
void fuzz_motif_select(struct fuzz_generator *m)
{
    static const char *const ops[] = {"greater_than", "less_equal", "equal", "not_equal"};
    uint32_t x = fuzz_pick(m, FUZZ_ABSENT), y = chain_operand(m, x);
    uint32_t mask = fuzz_binary(m, ops[fuzz_below(m, 4)], x, y), z = fuzz_pick_like(m, x);

    if (fuzz_chance(m, 30)) mask = fuzz_unary(m, "logical_not", mask);
    fuzz_begin(m, "where");
    fuzz_in(m, mask);
    fuzz_in(m, fuzz_chance(m, 50) ? x : fuzz_unary(m, "neg", x));
    fuzz_in(m, z);
    x = fuzz_end(m, 0);
    if (fuzz_chance(m, 30))
        fuzz_binary(m, "mul", x, fuzz_cast(m, mask, fuzz_value_of(m, x)->dtype));
}

void fuzz_motif_casts(struct fuzz_generator *m)
{
    static const uint32_t to[] = {BP_F16, BP_BF16, BP_F32, BP_F32, BP_F64, BP_I32, BP_BOOL};
    uint32_t x = fuzz_pick(m, FUZZ_ABSENT), from = fuzz_value_of(m, x)->dtype;
    uint32_t dtype = to[fuzz_below(m, sizeof to / sizeof *to)];

    if (dtype == BP_I32) x = chain_clip(m, x); /* NaN stays; the cast of others is defined */
    x = fuzz_cast(m, x, dtype);
    if (fuzz_is_float(dtype)) x = chain_step(m, x);
    else if (dtype == BP_I32) x = fuzz_binary(m, fuzz_chance(m, 50) ? "add" : "mul", x, x);
    else x = fuzz_unary(m, "logical_not", x);
    if (fuzz_chance(m, 60)) chain_step(m, fuzz_cast(m, x, from));
}
