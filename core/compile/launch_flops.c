/* SPDX-License-Identifier: Apache-2.0 */
/* launch_flops.c: counts the floating-point operations of products and convolutions: a
 * multiplication and an addition for each product of two elements. */
#include "schedule.h"

#include <backplane/ops.h>

#include <string.h>

enum work_kind {
    WORK_MATMUL,  /* for each element of the output, the extent of a's last axis (or of the one
                     before it, if `transposed` says so) */
    WORK_ROWS,    /* for each element of the output, the extent of b's last axis */
    WORK_FILTERS, /* for each element of a, the elements of one filter of b */
    WORK_ATTENTION
};

/* The operands a and b: numbers of inputs, or the first output. */
enum { OUTPUT = -1 };
static const struct work {
    const char *op;
    enum work_kind kind;
    int a, b;
} works[] = {
    {"matmul", WORK_MATMUL, 0, 1},           {"fused_matmul", WORK_MATMUL, 0, 1},
    {"addmm", WORK_MATMUL, 1, 2},            {"matmul_integer", WORK_MATMUL, 0, 1},
    {"qlinear_matmul", WORK_MATMUL, 0, 3},   {"linear", WORK_ROWS, 0, 1},
    {"conv", WORK_FILTERS, OUTPUT, 1},       {"fused_conv", WORK_FILTERS, OUTPUT, 1},
    {"conv_integer", WORK_FILTERS, OUTPUT, 1}, {"conv_transpose", WORK_FILTERS, 0, 1},
    {"conv_grad_input", WORK_FILTERS, 0, 1}, {"conv_grad_weight", WORK_FILTERS, 0, OUTPUT},
    {"attention", WORK_ATTENTION, 0, 1},
};

static uint64_t last_extent(const struct bp_view *v, uint32_t from_end)
{
    return v->rank > from_end ? (uint64_t)v->shape[v->rank - 1 - from_end] : 1;
}

static bool is_transposed(const char *op, const void *attrs)
{
    if (!attrs) return false;
    if (!strcmp(op, "matmul")) return ((const struct bp_matmul_attrs *)attrs)->transpose_a;
    if (!strcmp(op, "fused_matmul"))
        return ((const struct bp_fused_matmul_attrs *)attrs)->transpose_a;
    return false;
}

static uint64_t count_attention(const struct bp_view *q, const struct bp_view *k,
                                const struct bp_view *y)
{
    return 2 * ((uint64_t)q->count + (uint64_t)y->count) * last_extent(k, 1);
}

uint64_t bp_launch_flops(const struct bp_opdef *row, const void *attrs,
                         const struct bp_view *const *in, uint32_t n_in,
                         const struct bp_view *const *out)
{
    for (size_t i = 0; i < sizeof works / sizeof *works; i++) {
        const struct work *w = &works[i];
        const struct bp_view *a, *b;
        bool transposed;
        if (strcmp(w->op, row->info.name)) continue;
        if ((w->a >= 0 && (uint32_t)w->a >= n_in) || (w->b >= 0 && (uint32_t)w->b >= n_in))
            return 0;
        a = w->a == OUTPUT ? out[0] : in[w->a];
        b = w->b == OUTPUT ? out[0] : in[w->b];
        if (!a || !b || !out[0]) return 0;
        transposed = a->rank > 1 && is_transposed(w->op, attrs);
        switch (w->kind) {
        case WORK_MATMUL: return 2 * (uint64_t)out[0]->count * last_extent(a, transposed);
        case WORK_ROWS: return 2 * (uint64_t)out[0]->count * last_extent(b, 0);
        case WORK_FILTERS:
            return b->shape[0] ? 2 * (uint64_t)a->count * (uint64_t)(b->count / b->shape[0]) : 0;
        default: return count_attention(a, b, out[0]);
        }
    }
    return 0;
}
