/* SPDX-License-Identifier: Apache-2.0 */
/* reference.c: computes reference results of `fused` by the reference of each instruction's
 * operator. The error that a correct computation may have is carried from instruction to
 * instruction: docs/accuracy.md. */
#include "../common/reference.h"
#include <backplane/fused.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The reference and the tolerance of each operator. */
static const struct member {
    const char *op;
    ref_fn *reference;
    ref_family_fn *family;
    double ulp;
    int terms;
} members[] = {
#define TOL(ulp_, terms_) .ulp = ulp_, .terms = terms_,
#define REF(family_) .family = ref_family_##family_,
#define OP(op_, ins, outs, facts) {.op = #op_, .reference = ref_##op_, facts},
#define OPA(op_, ins, outs, attrs, facts) {.op = #op_, .reference = ref_##op_, facts},
#include "../ops.def"
};

/* The attributes of an operator. */
struct numbers {
    size_t size;
    double number[BP_FUSED_FROM];
};

/* A place: its values, and by how much each may be off; of a truth value, 1 if it may be wrong. */
struct place {
    struct ref_array value;
    long double *off;
};

static const struct member *member_of(const char *op)
{
    const struct member *m = members;

    while (strcmp(m->op, op)) m++;
    return m;
}

static struct numbers numbers_of(const struct bp_fused_step *step)
{
    struct numbers n = {.size = sizeof n};
    int64_t flag = (int64_t)step->number[0];

    memcpy(n.number, step->number, sizeof n.number);
    if (!strcmp(step->op, "gelu") || !strcmp(step->op, "mask"))
        memcpy(n.number, &flag, sizeof flag);
    return n;
}

static void member_run(const struct member *m, const struct bp_fused_step *step,
                       const struct ref_array *in, struct ref_array *out)
{
    struct numbers attrs = numbers_of(step);

    if (m->family) m->family(m->op, in, &attrs, out);
    else m->reference(in, &attrs, out);
}

/* Returns by how much the operator itself and the rounding of its result may be off. `moved`: by
 * how much the operands move the result. The error may move it to a binade with larger steps. */
static long double member_own(const struct member *m, const struct ref_array *y, int64_t i,
                              long double moved)
{
    const struct num_type *wide = num_accumulate(y->type);
    long double size = fabsl(y->v[i]) + moved, own = num_unit(wide) * y->bound[i];

    own += (long double)m->ulp * num_ulp(m->terms ? wide : y->type, size);
    if (m->terms && num_is_half(y->type)) own += num_ulp(y->type, size + own) / 2;
    if (y->flush && size < num_min_normal(wide)) own += size;
    return own;
}

/* Values that are rounded beyond the type are infinities. */
static void place_overflow(struct ref_array *y)
{
    long double most = num_max(y->type), limit = most + num_ulp(y->type, most) / 2;

    for (int64_t i = 0; i < y->count; i++)
        if (fabsl(y->v[i]) >= limit) y->v[i] = copysignl(INFINITY, y->v[i]);
}

/* Makes an operand at one end of its errors. */
static void place_end(const struct place *p, bool upper, struct ref_array *out)
{
    ref_array_init(out, p->value.type->dtype, p->value.rank, p->value.shape);
    for (int64_t i = 0; i < out->count; i++)
        if (out->u) out->u[i] = p->value.u[i] ^ (uint64_t)(upper && p->off[i] != 0);
        else out->v[i] = p->value.v[i] + (upper ? p->off[i] : -p->off[i]);
}

/* Computes the result with all operands at one corner of their errors, and widens `moved`, which
 * has an entry for each element of y. */
static void step_corner(const struct member *m, const struct bp_fused_step *step,
                        const struct place *at, int n, int corner, const struct ref_array *y,
                        long double *moved)
{
    struct ref_array in[BP_FUSED_FROM + 1] = {{0}}, got;

    for (int k = 0; k < n; k++) place_end(&at[step->from[k]], corner >> k & 1, &in[k]);
    member_run(m, step, in, &got);
    for (int64_t i = 0; i < y->count; i++) {
        long double by;
        if (y->u) {
            if (got.u[i] != y->u[i]) moved[i] = 1;
            continue;
        }
        by = fabsl(got.v[i] - y->v[i]);
        if (got.v[i] == y->v[i] || !isfinite(y->v[i])) continue;
        if (!(by <= moved[i])) moved[i] = by;
    }
    for (int k = 0; k < n; k++) ref_array_finish(&in[k]);
    ref_array_finish(&got);
}

/* Adds the roundings of numbers to their errors. */
static void place_round(const struct member *m, struct place *p)
{
    place_overflow(&p->value);
    for (int64_t i = 0; i < p->value.count; i++)
        if (isfinite(p->value.v[i])) p->off[i] += member_own(m, &p->value, i, p->off[i]);
        else p->off[i] = 0;
}

/* Runs one instruction. */
static void step_run(const struct bp_fused_step *step, struct place *at)
{
    const struct member *m = member_of(step->op);
    struct ref_array in[BP_FUSED_FROM + 1] = {{0}};
    struct place made;
    int n = 0;

    for (; n < BP_FUSED_FROM && step->from[n] != BP_FUSED_NONE; n++)
        in[n] = at[step->from[n]].value;
    member_run(m, step, in, &made.value);
    made.off = calloc((size_t)made.value.count + 1, sizeof *made.off);
    if (!made.off) abort();
    for (int corner = 0; corner < 1 << n; corner++)
        step_corner(m, step, at, n, corner, &made.value, made.off);
    if (made.value.v) place_round(m, &made);
    if (at[step->to].off) {
        ref_array_finish(&at[step->to].value);
        free(at[step->to].off);
    }
    at[step->to] = made;
}

/* Writes an output of the shape to which all inputs broadcast. The last rounding of a result is
 * part of the tolerance of `fused`. */
static void place_give(const struct place *p, int rank, const int64_t *shape, struct ref_array *out)
{
    const struct num_type *wide = num_accumulate(p->value.type);
    int64_t at[REF_RANK] = {0};

    ref_array_init(out, p->value.type->dtype, rank, shape);
    for (int64_t i = 0; i < out->count; i++, ref_next(rank, shape, at)) {
        int64_t from = ref_index(&p->value, rank, at);
        long double v = p->value.v[from], counted = 0;
        out->v[i] = v;
        if (!isfinite(v)) continue;
        counted = num_ulp(wide, v);
        if (num_is_half(p->value.type)) counted += num_ulp(p->value.type, v) / 2;
        out->bound[i] = fmaxl(p->off[from] - counted, 0) / num_unit(wide);
    }
}

void ref_fused(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    struct bp_dims code = ((const struct bp_fused_attrs *)attrs)->code;
    struct place at[BP_FUSED_PLACES] = {{{0}}};
    int64_t shape[REF_RANK];
    int rank = 0, n_in = (int)bp_fused_n_in(code.at);

    for (int a = 0; a < REF_RANK; a++) shape[a] = 1;
    for (int n = 0; n < n_in; n++) rank = in[n].rank > rank ? in[n].rank : rank;
    for (int n = 0; n < n_in; n++) {
        at[n].value = in[n];
        at[n].off = calloc((size_t)in[n].count + 1, sizeof *at[n].off);
        if (!at[n].off) abort();
        for (int a = 0; a < in[n].rank; a++)
            if (in[n].shape[a] != 1) shape[rank - in[n].rank + a] = in[n].shape[a];
    }
    for (uint32_t i = 0; i < bp_fused_n_step(code.n); i++) {
        struct bp_fused_step step;
        bp_fused_get(code.at, i, &step);
        step_run(&step, at);
    }
    for (uint32_t i = 0; i < bp_fused_n_out(code.at); i++)
        place_give(&at[BP_FUSED_Y + i], rank, shape, &out[i]);
    for (int p = 0; p < BP_FUSED_PLACES; p++) {
        if (p >= BP_FUSED_R && at[p].off) ref_array_finish(&at[p].value);
        free(at[p].off);
    }
}
