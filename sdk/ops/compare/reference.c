/* SPDX-License-Identifier: Apache-2.0 */
/* reference.c: computes the reference results of operators whose results are truth values. */
#include "../common/reference.h"
#include <math.h>
#include <string.h>

/* x is below, equal to or above y; 0: none of these (NaN). */
enum order { LESS = 1, SAME = 2, MORE = 4 };

static int order_of(const struct ref_array *in, int64_t x, int64_t y)
{
    const struct ref_array *a = &in[0], *b = &in[1];

    if (a->u) {
        bool less = a->type->class == NUM_SIGNED ? (int64_t)a->u[x] < (int64_t)b->u[y]
                                                 : a->u[x] < b->u[y];
        return less ? LESS : a->u[x] == b->u[y] ? SAME : MORE;
    }
    if (a->type->parts == 2) {
        bool same = a->v[2 * x] == b->v[2 * y] && a->v[2 * x + 1] == b->v[2 * y + 1];
        return same ? SAME : 0;
    }
    return (a->v[x] < b->v[y] ? LESS : 0) | (a->v[x] == b->v[y] ? SAME : 0) |
           (a->v[x] > b->v[y] ? MORE : 0);
}

static bool ref_compare_truth(const struct ref_array *a, int64_t i)
{
    bool any = a->u && a->u[i];

    for (int p = 0; a->v && p < a->type->parts; p++) any |= a->v[i * a->type->parts + p] != 0;
    return any;
}

static bool is_close(long double x, long double y, long double rtol, long double atol, bool nans)
{
    if (isnan(x) || isnan(y)) return nans && isnan(x) && isnan(y);
    if (isinf(x) || isinf(y) || x == y) return x == y;
    return fabsl(x - y) <= atol + rtol * fabsl(y);
}

static bool ref_compare_holds(const char *op, const struct ref_array *in, int64_t x, int64_t y,
                              const struct bp_isclose_attrs *a)
{
    int order;

    if (!strncmp(op, "logical_", 8)) {
        bool p = ref_compare_truth(&in[0], x), q = ref_compare_truth(&in[1], y);
        return !strcmp(op, "logical_and") ? p && q : !strcmp(op, "logical_or") ? p || q : p != q;
    }
    if (!strcmp(op, "isclose"))
        return is_close(in[0].v[x], in[1].v[y], ref_number(in->type, a, 1),
                        ref_number(in->type, a, 2), a->equal_nan);
    order = order_of(in, x, y);
    if (!strcmp(op, "equal")) return order == SAME;
    if (!strcmp(op, "not_equal")) return order != SAME;
    if (!strcmp(op, "less_than")) return order == LESS;
    if (!strcmp(op, "less_equal")) return order & (LESS | SAME);
    if (!strcmp(op, "greater_than")) return order == MORE;
    return order & (MORE | SAME);
}

void ref_family_compare(const char *op, const struct ref_array *in, const void *attrs,
                        struct ref_array *out)
{
    int64_t shape[REF_RANK], at[REF_RANK] = {0};
    int rank = ref_broadcast(&in[0], &in[1], shape);

    ref_array_init(out, BP_BOOL, rank, shape);
    for (int64_t i = 0; i < out->count; i++, ref_next(rank, shape, at))
        out->u[i] = ref_compare_holds(op, in, ref_index(&in[0], rank, at),
                                      ref_index(&in[1], rank, at), attrs);
}

/* Computes whether op holds for all elements. */
static void ref_compare_all(const char *op, const struct ref_array *in, const void *attrs,
                            struct ref_array *out)
{
    struct ref_array each;

    ref_family_compare(op, in, attrs, &each);
    ref_array_init(out, BP_BOOL, 0, NULL);
    out->u[0] = 1;
    for (int64_t i = 0; i < each.count; i++) out->u[0] &= each.u[i];
    ref_array_finish(&each);
}

void ref_equal_all(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    ref_compare_all("equal", in, attrs, out);
}

void ref_allclose(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_allclose_attrs *a = attrs;
    struct bp_isclose_attrs with = {sizeof with, a->rtol, a->atol, a->equal_nan};

    ref_compare_all("isclose", in, &with, out);
}
