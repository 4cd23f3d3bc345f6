/* SPDX-License-Identifier: Apache-2.0 */
/* near.c: compares two runs within tolerances, which follow from the tolerances of the nodes. */
#include "check.h"

#include <compare.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    SAMPLES = 8
};

/* Adds how far each element of a perturbed run is from the run without, but at least a quarter of
 * the float's unit in the last place: tolerance_widen makes two units of it, for the roundings that
 * a pass adds or leaves out. */
static void tolerance_add(double *tolerance, const struct fuzz_array *a, const struct fuzz_array *b)
{
    const struct num_type *type = num_type(a->dtype);
    struct ref_array x = {0}, y = {0};
    int64_t n = (int64_t)(a->bytes / type->size);

    ref_array_init(&x, a->dtype, 1, &n);
    ref_array_init(&y, a->dtype, 1, &n);
    ref_array_decode(&x, a->data);
    ref_array_decode(&y, b->data);
    for (int64_t i = 0; i < n; i++) {
        long double d = x.v ? fabsl(x.v[i] - y.v[i])
                            : fabsl((long double)(int64_t)x.u[i] - (long double)(int64_t)y.u[i]);
        if (x.v && isfinite(y.v[i])) d = fmaxl(d, num_ulp(type, y.v[i]) / 4);
        if (d > (long double)tolerance[i]) tolerance[i] = (double)d;
    }
    ref_array_finish(&x);
    ref_array_finish(&y);
}

static void tolerance_widen(double *tolerance, uint64_t n)
{
    double sum = 0;

    for (uint64_t i = 0; i < n; i++) sum += tolerance[i];
    for (uint64_t i = 0; i < n; i++) tolerance[i] = 8 * tolerance[i] + 2 * sum / (double)n;
}

/* How far results may differ from those of `expected` if each node keeps within its tolerance:
 * found by runs call by call that move each result by its tolerance, up or down at random. */
static double **near_tolerance(struct fuzz_checker *c, const struct fuzz_snapshot *expected,
                               uint32_t set, uint32_t with)
{
    double **tolerance = calloc(expected->n + 1, sizeof *tolerance);

    if (!tolerance) abort();
    for (uint32_t a = 0; a < expected->n; a++)
        tolerance[a] = calloc(expected->array[a].bytes + 1, sizeof **tolerance);
    for (uint64_t k = 0; k < SAMPLES; k++) {
        struct fuzz_snapshot *s;
        c->perturb = fuzz_mix(c->built.recipe->seed + k) | 1;
        s = fuzz_run_once(c, RUN_CALLS, set, with);
        for (uint32_t a = 0; a < expected->n && s->status == BP_OK; a++)
            tolerance_add(tolerance[a], &s->array[a], &expected->array[a]);
        fuzz_snapshot_free(s);
    }
    c->perturb = 0;
    for (uint32_t a = 0; a < expected->n; a++)
        tolerance_widen(tolerance[a],
                        expected->array[a].bytes / num_type(expected->array[a].dtype)->size);
    return tolerance;
}

/* Marks the values that are exact: copies, selections and the like of inputs and constants. No pass
 * may change their bits. */
static void find_exact(const struct fuzz_recipe *r, bool *exact)
{
    for (uint32_t v = 0; v < r->n_value; v++) exact[v] = r->value[v].kind != FUZZ_RESULT;
    for (uint32_t n = 0; n < r->n_node; n++) {
        const struct fuzz_node *node = &r->node[n];
        const struct conform_op *op = node->op ? conform_op(node->op->name) : NULL;
        bool is_exact = op && op->ulp == 0 && !op->terms && !fuzz_node_is_update(node);
        if (node->dropped) continue;
        for (uint32_t i = 0; i < node->n_in; i++)
            is_exact = is_exact && (node->in[i] == FUZZ_ABSENT || exact[node->in[i]]);
        for (uint32_t i = 0; i < node->n_out; i++) exact[node->out[i]] = is_exact;
    }
}

bool fuzz_near(struct fuzz_checker *c, const struct fuzz_snapshot *got,
               const struct fuzz_snapshot *expected, uint32_t set, uint32_t with, char *text,
               size_t size)
{
    const struct fuzz_recipe *r = c->built.recipe;
    double **tolerance = near_tolerance(c, expected, set, with);
    bool exact[FUZZ_VALUES], ok;

    find_exact(r, exact);
    for (uint32_t o = 0; o < r->n_output && o < expected->n && !fuzz_has_updates(r); o++)
        if (exact[r->output[o]]) memset(tolerance[o], 0, expected->array[o].bytes * sizeof(double));
    ok = fuzz_same(got, expected, tolerance, text, size);
    for (uint32_t a = 0; a < expected->n; a++) free(tolerance[a]);
    free(tolerance);
    return ok;
}
