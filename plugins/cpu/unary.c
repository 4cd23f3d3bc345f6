/* SPDX-License-Identifier: Apache-2.0 */
/* unary.c: operators of sdk/kernels/unary.def, for one dtype (elem.h). */
#include "cpu.h"
#include "formula.h"
#include "past.h"
#include "walk.h"
#include <kernels/unary.h>

struct unary {
    struct walk walk; /* y, x */
    elem *y;
    const elem *x;
    acc a, b, c; /* attributes */
    int op; /* UNARY_exp and so on */
    int past; /* the result is stored past the caches */
};

/* of is known where this is inlined, so that the loop vectorises. y may be x: then each element is
 * read before it is written, in any order. */
static inline __attribute__((always_inline)) void loop(const struct unary *u, int64_t n, elem *y,
                                                       const elem *x,
                                                       elem (*of)(elem, acc, acc, acc))
{
    acc a = u->a, b = u->b, c = u->c;

#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = of(x[i], a, b, c);
}

/* Elements that lie side by side. */
static void dense(const struct unary *u, int64_t n, elem *y, const elem *x)
{
    switch (u->op) {
#define UNARY_EACH(op) case UNARY_##op: loop(u, n, y, x, unary_##op); break;
#include <kernels/unary_each.def>
    }
}

enum { PART = PAST_PART / sizeof(elem) };

/* The same, stored past the caches. */
static void dense_past(const struct unary *u, int64_t n, elem *y, const elem *x)
{
    int64_t i = past_head(y, n, sizeof *y);
    _Alignas(PAST_LINE) elem part[PART];

    dense(u, i, y, x);
    for (; i + PART <= n; i += PART) {
        dense(u, PART, part, x + i);
        past_put(y + i, part, sizeof part);
    }
    dense(u, n - i, y + i, x + i);
}

/* Others are brought together first, a part at a time. */
static void unary_span(void *ctx, int64_t n, const int64_t *at)
{
    const struct unary *u = ctx;
    int last = u->walk.rank - 1;
    int64_t sy = u->walk.stride[0][last], sx = u->walk.stride[1][last];
    elem *y = u->y + at[0], part[PART];
    const elem *x = u->x + at[1];

    if (sy == 1 && sx == 1) {
        if (u->past) dense_past(u, n, y, x);
        else dense(u, n, y, x);
        return;
    }
    for (int64_t i = 0; i < n; i += PART) {
        int64_t some = n - i < PART ? n - i : PART;
        for (int64_t j = 0; j < some; j++) part[j] = x[(i + j) * sx];
        dense(u, some, part, part);
        for (int64_t j = 0; j < some; j++) y[(i + j) * sy] = part[j];
    }
}

/* The formula of an operator that has several. */
static int unary_form(int op, const struct bp_launch *launch)
{
    if (op == UNARY_gelu && attr_i64(launch, 1)) /* approximate */
        return UNARY_gelu_tanh;
    return op;
}

cpu_typed NAME(unary);
enum bp_status NAME(unary)(const struct bp_launch *launch, int op)
{
    const struct bp_view *x = launch->in[0], *y = launch->out[0];
    struct unary u;

    u.y = y->data;
    u.x = x->data;
    u.op = unary_form(op, launch);
    u.a = unary_number(op, 0, attr_f64(launch, 1));
    u.b = unary_number(op, 1, attr_f64(launch, 2));
    u.c = unary_number(op, 2, attr_f64(launch, 3));
    if (!((x->flags | y->flags) & BP_VIEW_STRIDED)) {
        walk_flat(&u.walk, y->count);
    } else {
        walk_init(&u.walk, y->rank, y->shape);
        walk_broadcast(&u.walk, 0, y->rank, y->shape, y->stride);
        walk_broadcast(&u.walk, 1, x->rank, x->shape, x->stride);
        walk_sort(&u.walk, 0);
        walk_collapse(&u.walk);
    }
    u.past = y->data != x->data && past_pays(y->count * (int64_t)sizeof *u.y);
    walk_run(&u.walk, launch, unary_span, &u);
    return BP_OK;
}
