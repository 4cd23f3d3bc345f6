/* SPDX-License-Identifier: Apache-2.0 */
/* fused.h: describes the code of the operator `fused`: a list of elementwise operators that run in
 * one pass over memory. The attribute `code` is this list, as words of 64 bits.
 *
 *     word 0          version, n_in << 8, n_out << 16, n_register << 24, truths << 32
 *     then, for each instruction, BP_FUSED_STEP_WORDS words:
 *     words 0 to 2    the operator's name, filled up with zero bytes; byte i is in word i / 8, from
 *                     its lowest bits on
 *     word 3          the place of the result, then the places of the three operands, 8 bits each
 *     words 4 to 6    the operator's attributes in declared order, as the bits of doubles
 *
 * Unused operands are BP_FUSED_NONE and unused attributes are 0, so that equal code has equal
 * words. The words have the same meaning in every process and for every plugin.
 *
 * `truths` has a bit for each register that holds truth values, as the dtype BP_BOOL does; all
 * other places hold numbers of the dtype of the call. Code without such registers has version 1,
 * other code version 2. A kernel that does not know version 2 finds operators that it does not
 * know, and declines.
 *
 * The core checks code before a kernel sees it: each operand is an input, or was written by an
 * earlier instruction; each output is written once. The core also has a text form:
 * fused_text.h. */
#ifndef BP_FUSED_H
#define BP_FUSED_H

#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Limits of code. */
enum {
    BP_FUSED_VERSION = 1,
    BP_FUSED_VERSION_TRUTHS = 2, /* some registers hold truth values */
    BP_FUSED_IN = 16,
    BP_FUSED_OUT = 8,
    BP_FUSED_REGISTERS = 12,
    BP_FUSED_STEPS = 64,
    BP_FUSED_FROM = 3,    /* operands and attributes of an instruction */
    BP_FUSED_NAME = 24,   /* bytes of a name, with at least one zero byte */
    BP_FUSED_STEP_WORDS = 7,
    BP_FUSED_WORDS = 1 + BP_FUSED_STEPS * BP_FUSED_STEP_WORDS
};

/* Numbers of places: inputs x0, x1 ..., registers r0 ..., outputs y0 ... */
enum bp_fused_place {
    BP_FUSED_X = 0,
    BP_FUSED_R = 16,
    BP_FUSED_Y = 32,
    BP_FUSED_PLACES = 40,
    BP_FUSED_NONE = 255
};

/* X(name, n): the operators that code may name, each with n operands of the dtype of the call. */
#define BP_FUSED_OPS(X) \
    X(neg, 1) X(square, 1) X(sign, 1) X(clip, 1) X(abs, 1) X(ceil, 1) X(floor, 1) X(round, 1) \
    X(trunc, 1) X(frac, 1) X(nan_to_num, 1) X(sqrt, 1) X(rsqrt, 1) X(reciprocal, 1) X(exp, 1) \
    X(exp2, 1) X(expm1, 1) X(log, 1) X(log2, 1) X(log10, 1) X(log1p, 1) X(sin, 1) X(cos, 1) \
    X(tan, 1) X(asin, 1) X(acos, 1) X(atan, 1) X(sinh, 1) X(cosh, 1) X(tanh, 1) X(asinh, 1) \
    X(acosh, 1) X(atanh, 1) X(rad2deg, 1) X(deg2rad, 1) X(erf, 1) X(erfinv, 1) X(lgamma, 1) \
    X(digamma, 1) X(trigamma, 1) X(sigmoid, 1) X(log_sigmoid, 1) X(logit, 1) X(relu, 1) \
    X(leaky_relu, 1) X(relu6, 1) X(thresholded_relu, 1) X(elu, 1) X(celu, 1) X(selu, 1) \
    X(gelu, 1) X(silu, 1) X(swish, 1) X(mish, 1) X(softplus, 1) \
    X(softsign, 1) \
    X(tanh_shrink, 1) X(hard_shrink, 1) X(soft_shrink, 1) X(shrink, 1) X(hard_sigmoid, 1) \
    X(hard_swish, 1) X(hard_tanh, 1) X(stanh, 1) X(scale, 1) X(add, 2) X(sub, 2) X(mul, 2) \
    X(div, 2) X(relu_grad, 2) X(leaky_relu_grad, 2) X(atan2, 2) X(hypot, 2) X(xlogy, 2) \
    X(copysign, 2) X(maximum, 2) X(minimum, 2) X(fmax, 2) X(fmin, 2) X(mod, 2) X(fmod, 2) \
    X(floor_divide, 2) X(heaviside, 2) X(clip_grad, 2) X(hard_shrink_grad, 2) X(elu_grad, 2) \
    X(softplus_grad, 2) X(hard_swish_grad, 2) X(gelu_grad, 2) X(gelu_tanh_grad, 2) X(lerp, 3) \
    X(addcmul, 3) X(addcdiv, 3)

/* X(name, n, from, to): the operators of version 2. from: a bit for each operand that is a register
 * with truth values; to: 1 if the result is one. Other operands and results are numbers. */
#define BP_FUSED_TRUTH_OPS(X) \
    X(equal, 2, 0, 1) X(not_equal, 2, 0, 1) X(less_than, 2, 0, 1) X(less_equal, 2, 0, 1) \
    X(greater_than, 2, 0, 1) X(greater_equal, 2, 0, 1) X(isnan, 1, 0, 1) X(isinf, 1, 0, 1) \
    X(isfinite, 1, 0, 1) X(logical_not, 1, 1, 1) X(logical_and, 2, 3, 1) X(logical_or, 2, 3, 1) \
    X(logical_xor, 2, 3, 1) X(where, 3, 1, 0) X(mask, 2, 2, 0) X(masked_fill, 3, 2, 0)

/* One instruction, decoded. */
struct bp_fused_step {
    char op[BP_FUSED_NAME];
    uint8_t to, from[BP_FUSED_FROM]; /* enum bp_fused_place plus a number */
    uint32_t rest;                   /* the upper bits of word 3: 0 */
    double number[BP_FUSED_FROM];
};

static inline uint32_t bp_fused_n_in(const int64_t *code)
{
    return (uint32_t)(code[0] >> 8 & 255);
}
static inline uint32_t bp_fused_n_out(const int64_t *code)
{
    return (uint32_t)(code[0] >> 16 & 255);
}
static inline uint32_t bp_fused_n_register(const int64_t *code)
{
    return (uint32_t)(code[0] >> 24 & 255);
}

/* A bit for each register that holds truth values. */
static inline uint32_t bp_fused_truths(const int64_t *code)
{
    return (uint32_t)((uint64_t)code[0] >> 32);
}

/* Whether a place holds truth values. */
static inline int bp_fused_is_truth(const int64_t *code, uint32_t place)
{
    return place >= BP_FUSED_R && place < BP_FUSED_Y &&
           (bp_fused_truths(code) >> (place - BP_FUSED_R) & 1);
}

/* The number of instructions in code of n words. */
static inline uint32_t bp_fused_n_step(int64_t n)
{
    return (uint32_t)((n - 1) / BP_FUSED_STEP_WORDS);
}

/* Returns word 0 of code whose registers hold numbers. */
static inline int64_t bp_fused_head(uint32_t n_in, uint32_t n_out, uint32_t n_register)
{
    return BP_FUSED_VERSION | (int64_t)n_in << 8 | (int64_t)n_out << 16 | (int64_t)n_register << 24;
}

/* Returns word 0 of code with truth values in some registers, or in none. */
static inline int64_t bp_fused_head_truths(uint32_t n_in, uint32_t n_out, uint32_t n_register,
                                           uint32_t truths)
{
    int64_t version = truths ? BP_FUSED_VERSION_TRUTHS - BP_FUSED_VERSION : 0;

    return (int64_t)((uint64_t)(bp_fused_head(n_in, n_out, n_register) + version) |
                     (uint64_t)truths << 32);
}

/* Decodes instruction number i, also one that is invalid. */
static inline void bp_fused_get(const int64_t *code, uint32_t i, struct bp_fused_step *out)
{
    const int64_t *word = code + 1 + (int64_t)i * BP_FUSED_STEP_WORDS;
    uint64_t places = (uint64_t)word[3];

    for (int k = 0; k < BP_FUSED_NAME; k++)
        out->op[k] = (char)((uint64_t)word[k / 8] >> 8 * (k % 8) & 255);
    out->to = (uint8_t)(places & 255);
    for (int k = 0; k < BP_FUSED_FROM; k++)
        out->from[k] = (uint8_t)(places >> (8 + 8 * k) & 255);
    out->rest = (uint32_t)(places >> 32);
    memcpy(out->number, word + 4, sizeof out->number);
}

/* Encodes instruction number i. */
static inline void bp_fused_put(int64_t *code, uint32_t i, const struct bp_fused_step *step)
{
    int64_t *word = code + 1 + (int64_t)i * BP_FUSED_STEP_WORDS;
    uint64_t places = step->to;

    for (int w = 0; w < 3; w++) {
        uint64_t bits = 0;
        for (int k = 0; k < 8; k++)
            bits |= (uint64_t)(uint8_t)step->op[8 * w + k] << 8 * k;
        word[w] = (int64_t)bits;
    }
    for (int k = 0; k < BP_FUSED_FROM; k++) places |= (uint64_t)step->from[k] << (8 + 8 * k);
    word[3] = (int64_t)places;
    memcpy(word + 4, step->number, sizeof step->number);
}

#ifdef __cplusplus
}
#endif

#endif
