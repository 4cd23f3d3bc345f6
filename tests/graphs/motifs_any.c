/* SPDX-License-Identifier: Apache-2.0 */
/* motifs_any.c: adds a node of any operator, with default attributes: the graph refuses those whose
 * inputs do not fit. */
#include "graphs.h"

#include <string.h>

/* Operators whose results have a size that attributes choose, or that are undefined for unsorted or
 * infinite inputs; and products of many numbers, whose references allow for no error of numbers
 * below the normal ones. */
static bool any_is_left_out(const struct bp_opinfo *op)
{
    static const char *const names[] = {
        "arange",        "eye",       "linspace", "logspace", "one_hot",
        "searchsorted",  "bucketize", "prod",     "cumprod",  "dynamic_quantize_linear",
        "gumbel_softmax"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i], op->name)) return true;
    for (uint32_t i = 0; i < op->n_out; i++)
        if (op->out[i].kind == BP_PORT_VAROUT || op->out[i].kind == BP_PORT_VIEWS) return true;
    return op->n_in > FUZZ_PORTS || op->n_out > FUZZ_FLAT || !op->n_in ||
           op->attrs_size > sizeof(uint64_t) * FUZZ_ATTRS;
}

/* The dtypes of the call's type variables. */
static void any_dtypes(struct fuzz_generator *m, const struct bp_opinfo *op, uint32_t *dtype)
{
    static const uint32_t tried[] = {BP_F32, BP_F16, BP_I64, BP_I32, BP_BOOL, BP_F64, BP_U8};
    uint32_t first = fuzz_float_dtype(m);

    for (int v = 0; v < BP_VAR_COUNT; v++) {
        dtype[v] = op->types[v] & UINT64_C(1) << first ? first : FUZZ_ABSENT;
        for (size_t i = 0; i < sizeof tried / sizeof *tried && dtype[v] == FUZZ_ABSENT; i++)
            if (op->types[v] & UINT64_C(1) << tried[i]) dtype[v] = tried[i];
    }
}

static uint32_t any_value(struct fuzz_generator *m, uint32_t dtype, uint32_t like)
{
    const struct fuzz_value v = *fuzz_value_of(m, like);

    if (like != FUZZ_BAD && fuzz_chance(m, 75)) {
        if (v.dtype == dtype) return fuzz_pick_like(m, like);
        return fuzz_new(m, FUZZ_INPUT, fuzz_is_float(dtype) ? FUZZ_PLAIN : FUZZ_INDEX, dtype,
                        v.rank, v.shape);
    }
    if (!fuzz_is_float(dtype))
        return fuzz_new(m, FUZZ_INPUT, FUZZ_INDEX, dtype, 1 + fuzz_below(m, 2), (int64_t[]){2, 3});
    return fuzz_pick_dtype(m, dtype, fuzz_chance(m, 50) ? 1 + fuzz_below(m, 4) : FUZZ_ABSENT);
}

void fuzz_motif_any(struct fuzz_generator *m)
{
    const struct bp_opinfo *op = bp_opinfo_at(fuzz_below(m, bp_opinfo_count()));
    uint32_t dtype[BP_VAR_COUNT], like = FUZZ_BAD, in[FUZZ_PORTS][2], n[FUZZ_PORTS], y;

    if (m->special || any_is_left_out(op)) return;
    any_dtypes(m, op, dtype);
    for (uint32_t p = 0; p < op->n_in; p++) {
        n[p] = op->in[p].kind == BP_PORT_HOST ? 0 : op->in[p].kind == BP_PORT_VAR ? 2 : 1;
        for (uint32_t i = 0; i < n[p]; i++) {
            bool absent = op->in[p].kind == BP_PORT_OPT && fuzz_chance(m, 50);
            in[p][i] = absent ? FUZZ_ABSENT : any_value(m, dtype[op->in[p].var], like);
            if (like == FUZZ_BAD) like = in[p][i];
        }
    }
    fuzz_begin(m, op->name);
    for (uint32_t p = 0; p < op->n_in; p++)
        if (n[p]) fuzz_in_many(m, in[p], n[p]);
    y = fuzz_end(m, 0);
    if (fuzz_is_float(fuzz_value_of(m, y)->dtype) && fuzz_chance(m, 50)) fuzz_activation(m, y);
}
