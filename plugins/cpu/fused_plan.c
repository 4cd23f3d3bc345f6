/* SPDX-License-Identifier: Apache-2.0 */
/* fused_plan.c: plans `fused`: finds the span of each instruction, the layout of each operand and
 * the size of a tile. */
#include "fused.h"
#include "conv_own.h"
#include "dtype.h"
#include "kernels.h"
#include <backplane/attrs.h>
#include <dialect/portable.h>
#include <ops/common/kernel_formulas.h>
#include <stdlib.h>
#include <string.h>

/* ---- spans ---- */

enum family {
    FUSED_unary, FUSED_binary, FUSED_ternary, FUSED_scale, FUSED_compare, FUSED_predicate,
    FUSED_where, FUSED_FAMILIES,
    FUSED_truth = FUSED_FAMILIES /* cpu_fused_truth, in all instruction levels */
};

#define SPAN_unary(type, level, number) SPAN(unary, type, level, number)
#define SPAN_binary(type, level, number) SPAN(binary, type, level, number)
#define SPAN_ternary(type, level, number) SPAN(ternary, type, level, number)
#define SPAN_predicate(type, level, number) SPAN(predicate, type, level, number)
#define SPAN_compare(type, level, number) SPAN(compare, type, level, number)
#define SPAN_where(type, level, number) SPAN(where, type, level, number)
#define SPAN_complex(type, level, number)
#define SCALES(level, number) \
    SPAN(scale, f32, level, number) SPAN(scale, f64, level, number) \
    SPAN(scale, f16, level, number) SPAN(scale, bf16, level, number)
#ifdef CPU_AVX2
#define SCALES_AVX2 SCALES(_avx2, CPU_ISA_AVX2)
#else
#define SCALES_AVX2
#endif
#ifdef CPU_AVX512
#define SCALES_AVX512 SCALES(_avx512, CPU_ISA_AVX512)
#else
#define SCALES_AVX512
#endif

#define SPAN(family, type, level, number) cpu_span cpu_##family##_span_##type##level;
#define TYPED(family, type, level, number) SPAN_##family(type, level, number)
#include "entries.def"
SCALES(, CPU_ISA_PORTABLE) SCALES_AVX2 SCALES_AVX512
#undef SPAN

static cpu_span *const spans[FUSED_FAMILIES][3][PORTABLE_TYPES_COUNT] = {
#define SPAN(family, type, level, number) \
    [FUSED_##family][number][TYPE_##type] = cpu_##family##_span_##type##level,
#define TYPED(family, type, level, number) SPAN_##family(type, level, number)
#include "entries.def"
    SCALES(, CPU_ISA_PORTABLE) SCALES_AVX2 SCALES_AVX512
#undef SPAN
};

/* The formula of each operator. */
static const struct formula {
    const char *name;
    int family, op;
} formulas[] = {
    {"scale", FUSED_scale, 0},
#define UNARY_NUMBER(op, formula) {#op, FUSED_unary, UNARY_##op},
#define UNARY_REAL(op, formula) {#op, FUSED_unary, UNARY_##op},
#define UNARY_SIGNED(op, formula) {#op, FUSED_unary, UNARY_##op},
#define UNARY_FLOAT(op, formula) {#op, FUSED_unary, UNARY_##op},
#include <ops/unary/kernels.def>
#define BINARY_NUMBER(op, formula) {#op, FUSED_binary, BINARY_##op},
#define BINARY_FIELD(op, formula) {#op, FUSED_binary, BINARY_##op},
#define BINARY_FLOAT(op, formula) {#op, FUSED_binary, BINARY_##op},
#define BINARY_REAL(op, formula) {#op, FUSED_binary, BINARY_##op},
#include <ops/binary/kernels.def>
#define TERNARY_FLOAT(op, formula) {#op, FUSED_ternary, TERNARY_##op},
#include <ops/binary/kernels_ternary.def>
#define COMPARE_ANY(op, formula) {#op, FUSED_compare, COMPARE_##op},
#define COMPARE_REAL(op, formula) {#op, FUSED_compare, COMPARE_##op},
#include <ops/compare/kernels.def>
#define PREDICATE_FLOAT(op, formula) {#op, FUSED_predicate, PREDICATE_##op},
#include <ops/compare/kernels_predicate.def>
    {"where", FUSED_where, WHERE_where},
    {"mask", FUSED_where, WHERE_mask},
    {"masked_fill", FUSED_where, WHERE_masked_fill},
    {"logical_and", FUSED_truth, FUSED_AND},
    {"logical_or", FUSED_truth, FUSED_OR},
    {"logical_xor", FUSED_truth, FUSED_XOR},
    {"logical_not", FUSED_truth, FUSED_NOT},
};

/* Selection has the same results in all instruction levels, and not all levels have it. */
static cpu_span *span_of(int family, int level, uint32_t dtype)
{
    enum portable_type type = family == FUSED_where ? portable_move_type(dtype)
                                                    : portable_type(dtype);

    if (family == FUSED_truth) return cpu_fused_truth;
    while (family == FUSED_where && level && !spans[family][level][type]) level--;
    return spans[family][level][type];
}

/* Sets the span of an instruction. Returns false for an operator that this plugin does not know. */
static bool call_init(struct fused_call *c, const struct bp_fused_step *step, int level,
                      uint32_t dtype)
{
    const struct formula *of = NULL;

    *c = (struct fused_call){.to = step->to};
    for (size_t i = 0; i < sizeof formulas / sizeof *formulas && !of; i++)
        if (!strcmp(formulas[i].name, step->op)) of = &formulas[i];
    if (!of) return false;
    c->span = span_of(of->family, level, dtype);
    c->op = of->op;
    if (of->family == FUSED_unary && of->op == UNARY_gelu && step->number[0] != 0)
        c->op = UNARY_gelu_tanh;
    memcpy(c->from, step->from, sizeof c->from);
    memcpy(c->number, step->number, sizeof c->number);
    return c->span != NULL;
}

bool cpu_span_find(const char *op, int level, const double *number, cpu_span **out_span,
                   int *out_formula)
{
    struct bp_fused_step step = {0};
    struct fused_call call;

    memcpy(step.op, op, strlen(op) + 1); /* a name of the operator table */
    memcpy(step.number, number, sizeof step.number);
    if (!call_init(&call, &step, level, BP_F32)) return false;
    *out_span = call.span;
    *out_formula = call.op;
    return true;
}

/* ---- operands ---- */

/* order: the first result, in whose order elements are visited. */
static void operand_init(struct fused_operand *o, const struct bp_view *order,
                         const struct bp_view *v)
{
    struct walk *w = &o->walk;

    walk_init(w, order->rank, order->shape);
    walk_broadcast(w, 0, order->rank, order->shape, order->stride);
    walk_broadcast(w, 1, v->rank, v->shape, v->stride);
    walk_sort(w, 0);
    walk_number(w, 0);
    walk_collapse(w);
    o->period = 0;
    o->kind = FUSED_MOVED;
    if (w->rank == 1 && (w->stride[1][0] == 1 || w->count == 1)) o->kind = FUSED_DIRECT;
    else if (w->rank == 1 && w->stride[1][0] == 0) o->kind = FUSED_SCALAR;
    else if (w->stride[1][0] == 0) o->period = w->count / w->shape[0];
}

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Makes tiles of a multiple of the period of each operand, if these are not much smaller: such an
 * operand is copied only once. */
static void plan_repeat(struct fused_plan *p)
{
    int64_t unit = 64 / p->size;

    for (int i = 0; i < p->n_in; i++) {
        struct fused_operand *o = &p->in[i];
        int64_t all;
        if (!o->period) continue;
        all = o->period / common_divisor(o->period, unit) * unit;
        if (all > p->tile) continue;
        unit = all;
        o->kind = FUSED_REPEAT;
    }
    p->tile = p->tile / unit * unit;
}

/* Whether an input needs a buffer: links of chains have forms for a number that is repeated. */
static bool plan_spreads(const struct fused_plan *p, int i)
{
    if (p->in[i].kind != FUSED_SCALAR) return true;
    for (int c = 0; c < p->n_call; c++)
        for (int k = 0; k < (p->call[c].n_link ? 1 : BP_FUSED_FROM); k++)
            if (p->call[c].from[k] == BP_FUSED_X + i) return true;
    return false;
}

/* Gives a buffer to each place that needs one, and finds the size of a tile. */
static void plan_tile(struct fused_plan *p)
{
    int64_t bytes;

    for (int i = 0; i < BP_FUSED_PLACES; i++) p->slot[i] = -1;
    for (int i = 0; i < p->n_in; i++)
        if (p->in[i].kind != FUSED_DIRECT && plan_spreads(p, i))
            p->slot[BP_FUSED_X + i] = p->n_slot++;
    for (int i = 0; i < p->n_call; i++) /* registers inside of chains need no buffer */
        if (p->slot[p->call[i].to] < 0) p->slot[p->call[i].to] = p->n_slot++;
    bytes = FUSED_L1 / p->n_slot;
    if (bytes > FUSED_LARGEST) bytes = FUSED_LARGEST;
    if (bytes < FUSED_SMALLEST) bytes = FUSED_SMALLEST;
    p->tile = bytes / 64 * 64 / p->size;
    plan_repeat(p);
}

/* Finds the chains whose results may be written with streaming stores. */
static void plan_streams(struct fused_plan *p)
{
    for (int i = 0; i < p->n_call; i++) {
        struct fused_call *c = &p->call[i];
        c->streams = c->n_link && c->to >= BP_FUSED_Y &&
                     p->out[c->to - BP_FUSED_Y].kind == FUSED_DIRECT;
        for (int later = i + 1; later < p->n_call; later++) {
            for (int k = 0; k < BP_FUSED_FROM; k++)
                if (p->call[later].from[k] == c->to) c->streams = false;
            for (int k = 0; k < p->call[later].n_link; k++)
                if (p->other[p->call[later].link + k] == c->to) c->streams = false;
        }
        if (c->streams) p->streamed |= 1u << (c->to - BP_FUSED_Y);
    }
}

static void plan_init(struct fused_plan *p, const struct bp_prep *prep)
{
    const struct bp_view *order = prep->out[0];

    p->n_in = (int)prep->n_in;
    p->n_out = (int)prep->n_out;
    p->count = order->count;
    p->size = dtype_size(order->dtype);
    for (int i = 0; i < p->n_in; i++) operand_init(&p->in[i], order, prep->in[i]);
    for (int i = 0; i < p->n_out; i++) operand_init(&p->out[i], order, prep->out[i]);
    plan_tile(p);
    plan_streams(p);
}

/* Fills the calls of the plan. Returns false if this plugin does not know an operator. */
static bool plan_calls(struct fused_plan *p, const struct bp_prep *prep, struct bp_dims code)
{
    struct bp_fused_step step[BP_FUSED_STEPS];
    int n = (int)bp_fused_n_step(code.n), level = cpu_level(prep->kernel);
    uint32_t dtype = prep->out[0]->dtype;

    for (int i = 0; i < n; i++) bp_fused_get(code.at, (uint32_t)i, &step[i]);
    for (int i = 0; i < n;) {
        int length = cpu_fused_add_chain(p, step, n, i, level, dtype);
        if (!length && !call_init(&p->call[p->n_call], &step[i], level, dtype)) return false;
        if (!length) p->n_call++;
        i += length ? length : 1;
    }
    return true;
}

enum bp_status cpu_fused_prepare(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    struct bp_dims code = ((const struct bp_fused_attrs *)prep->attrs)->code;
    const struct cpu *cpu = self;
    struct fused_plan *p;

    p = calloc(1, sizeof *p);
    if (!p) return bp_fail(cpu->host, BP_ERR_MEMORY, "cpu: no memory for a plan of fused");
    if (!plan_calls(p, prep, code)) {
        free(p);
        return BP_ERR_UNSUPPORTED;
    }
    plan_init(p, prep);
    out->plan = p;
    out->bytes = sizeof *p;
    return BP_OK;
}

void cpu_fused_destroy(void *self, const struct bp_kernel *kernel, void *plan)
{
    (void)self;
    (void)kernel;
    free(plan);
}
