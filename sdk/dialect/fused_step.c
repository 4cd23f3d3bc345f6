/* SPDX-License-Identifier: Apache-2.0 */
/* fused_step.c: prints instructions of `fused` as calls of the functions of fused_functions.h. */
#include "fused_print.h"
#include <ops/common/kernel_formulas.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void portable_text_add(struct text *t, const char *format, ...)
{
    va_list args;
    int n;

    if (t->room - t->used < 512) {
        size_t room = 2 * t->room + 8192;
        char *at = realloc(t->at, room);
        if (!at) {
            t->failed = true;
            return;
        }
        t->at = at;
        t->room = room;
    }
    va_start(args, format);
    n = vsnprintf(t->at + t->used, t->room - t->used, format, args);
    va_end(args);
    t->used += (size_t)n;
}

enum family {
    UNARY,
    BINARY,
    TERNARY,
    SCALE,
    COMPARE,
    PREDICATE,
    TRUTH,
    SELECT
};

static const struct fused_formula {
    const char *name;
    enum family family;
} formulas[] = {
    {"scale", SCALE},
#define UNARY_NUMBER(op, formula) {#op, UNARY},
#define UNARY_REAL(op, formula) {#op, UNARY},
#define UNARY_SIGNED(op, formula) {#op, UNARY},
#define UNARY_FLOAT(op, formula) {#op, UNARY},
#include <ops/unary/kernels.def>
#define BINARY_NUMBER(op, formula) {#op, BINARY},
#define BINARY_FIELD(op, formula) {#op, BINARY},
#define BINARY_FLOAT(op, formula) {#op, BINARY},
#define BINARY_REAL(op, formula) {#op, BINARY},
#include <ops/binary/kernels.def>
#define TERNARY_FLOAT(op, formula) {#op, TERNARY},
#include <ops/binary/kernels_ternary.def>
#define COMPARE_ANY(op, formula) {#op, COMPARE},
#define COMPARE_REAL(op, formula) {#op, COMPARE},
#define COMPARE_TRUTH(op, formula) {#op, TRUTH},
#include <ops/compare/kernels.def>
#define PREDICATE_FLOAT(op, formula) {#op, PREDICATE},
#include <ops/compare/kernels_predicate.def>
    {"logical_not", TRUTH}, {"where", SELECT}, {"mask", SELECT}, {"masked_fill", SELECT},
};

/* The first part of the name of each family's functions. */
static const char *const prefix[] = {
    [UNARY] = "unary",         [BINARY] = "binary", [TERNARY] = "ternary", [COMPARE] = "compare",
    [PREDICATE] = "predicate", [TRUTH] = "truth",   [SELECT] = "select",
};

/* tan of f32 is computed in f64. */
bool portable_fused_step(struct bp_dims code, uint32_t i, bool has_f64,
                         struct fused_instruction *out)
{
    bp_fused_get(code.at, i, &out->step);
    out->of = NULL;
    for (size_t k = 0; k < sizeof formulas / sizeof *formulas && !out->of; k++)
        if (!strcmp(formulas[k].name, out->step.op)) out->of = &formulas[k];
    return out->of && (has_f64 || strcmp(out->step.op, "tan"));
}

double portable_fused_cost(const struct fused_instruction *i)
{
    static const double cost[] = {[UNARY] = 8,   [BINARY] = 4,    [TERNARY] = 8, [SCALE] = 2,
                                  [COMPARE] = 2, [PREDICATE] = 2, [TRUTH] = 1,   [SELECT] = 2};

    return cost[i->of->family];
}

bool portable_fused_is_short(const struct fused_instruction *i)
{
    static const char *const shorts[] = {
        "scale",      "neg",       "square", "sign",    "clip",    "abs",     "ceil",
        "floor",      "round",     "trunc",  "frac",    "rad2deg", "deg2rad", "relu",
        "leaky_relu", "relu6",     "add",    "sub",     "mul",     "div",     "maximum",
        "minimum",    "relu_grad", "lerp",   "addcmul",
    };

    for (size_t k = 0; k < sizeof shorts / sizeof *shorts; k++)
        if (!strcmp(shorts[k], i->of->name)) return true;
    return false;
}

/* Prints a number by its bits, which any compiler reads alike. */
static void print_number(struct text *t, double number, bool is_f64)
{
    float narrow = (float)number;
    uint64_t bits = 0;

    if (is_f64) memcpy(&bits, &number, sizeof number);
    else memcpy(&bits, &narrow, sizeof narrow);
    if (is_f64) portable_text_add(t, "f64_from_bits(0x%llxul)", (unsigned long long)bits);
    else portable_text_add(t, "f32_from_bits(0x%llxu)", (unsigned long long)bits);
}

static void print_operands(struct text *t, const struct bp_fused_step *step)
{
    for (int k = 0; k < BP_FUSED_FROM && step->from[k] != BP_FUSED_NONE; k++)
        portable_text_add(t, "%sv%d", k ? ", " : "", step->from[k]);
}

static void print_unary(struct text *t, const struct bp_fused_step *step, bool is_f64)
{
    bool is_tanh = !strcmp(step->op, "gelu") && step->number[0] != 0;

    portable_text_add(t, "unary_%s%s(", step->op, is_tanh ? "_tanh" : "");
    print_operands(t, step);
    for (int k = 0; k < BP_FUSED_FROM; k++) {
        portable_text_add(t, ", unary_number(UNARY_%s, %d, ", step->op, k);
        print_number(t, step->number[k], is_f64);
        portable_text_add(t, ")");
    }
    portable_text_add(t, ")");
}

static void print_call(struct text *t, const struct fused_instruction *i, bool is_f64)
{
    const struct bp_fused_step *step = &i->step;
    enum family family = i->of->family;

    if (family == UNARY) {
        print_unary(t, step, is_f64);
        return;
    }
    if (family == SCALE) portable_text_add(t, "scale_elem(");
    else portable_text_add(t, "%s_%s(", prefix[family], step->op);
    print_operands(t, step);
    if (!strcmp(step->op, "mask")) portable_text_add(t, ", %d", step->number[0] != 0);
    for (int k = 0; k < (family == TERNARY ? 1 : family < COMPARE ? 2 : 0); k++) {
        portable_text_add(t, ", ");
        print_number(t, step->number[k], is_f64);
    }
    portable_text_add(t, ")");
}

void portable_fused_print_step(struct text *t, const struct fused_instruction *i, bool is_f64)
{
    bool rounds = i->of->family < COMPARE; /* others compute no sum or product */

    portable_text_add(t, rounds ? "v%d = fused_value(" : "v%d = ", i->step.to);
    print_call(t, i, is_f64);
    portable_text_add(t, rounds ? ");\n" : ";\n");
}
