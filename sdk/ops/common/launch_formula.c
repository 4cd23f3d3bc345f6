/* SPDX-License-Identifier: Apache-2.0 */
/* launch_formula.c: launches the kernels that are one formula per element (kernel_formula.h):
 * operators of unary/kernels.def and similar lists. */
#include "kernel_formula.h"
#include "launch_formula_attrs.h"
#include "../../dialect/portable.h"
#include "../../dialect/run_size.h"
#include "../../dialect/walk_plan.h"

/* Adds the result and the inputs as operands and runs the kernel. The walk must be the first member
 * of the arguments. */
static enum bp_status formula_run(const struct bp_launch *launch, struct portable *p,
                                  const struct bp_view *const *x, int n)
{
    portable_view(p, launch->out[0]);
    for (int i = 0; i < n; i++) portable_view(p, x[i]);
    walk_divide(p->args, n + 1, RUN_OF(portable_type_bytes(p->type)), p);
    return portable_run(launch, p);
}

enum bp_status portable_unary(const struct bp_launch *launch)
{
    const struct bp_view *y = launch->out[0], *const *x = launch->in;
    struct unary_args args = {.walk = walk_of(y, x, 1),
                              .op = unary_form(portable_number(launch->kernel), launch),
                              .a = attr_f64(launch, 1),
                              .b = attr_f64(launch, 2),
                              .c = attr_f64(launch, 3)};
    struct portable p = PORTABLE(formula, unary, portable_type(x[0]->dtype), args, y->count, 8);

    return formula_run(launch, &p, x, 1);
}

enum bp_status portable_binary(const struct bp_launch *launch)
{
    const struct bp_view *z = launch->out[0], *const *x = launch->in;
    struct binary_args args = {.walk = walk_of(z, x, 2),
                               .op = portable_number(launch->kernel),
                               .a = attr_f64(launch, 1),
                               .b = attr_f64(launch, 2)};
    struct portable p = PORTABLE(formula, binary, portable_type(x[0]->dtype), args, z->count, 4);

    return formula_run(launch, &p, x, 2);
}

enum bp_status portable_predicate(const struct bp_launch *launch)
{
    const struct bp_view *y = launch->out[0], *const *x = launch->in;
    struct predicate_args args = {walk_of(y, x, 1), portable_number(launch->kernel)};
    struct portable p = PORTABLE(formula, predicate, portable_type(x[0]->dtype), args, y->count, 2);

    return formula_run(launch, &p, x, 1);
}

enum bp_status portable_compare(const struct bp_launch *launch)
{
    const struct bp_view *z = launch->out[0], *const *x = launch->in;
    struct compare_args args = {.walk = walk_of(z, x, 2),
                                .op = portable_number(launch->kernel),
                                .flag = attr_i64(launch, 3) != 0,
                                .a = attr_f64(launch, 1),
                                .b = attr_f64(launch, 2)};
    struct portable p = PORTABLE(formula, compare, portable_type(x[0]->dtype), args, z->count, 2);

    return formula_run(launch, &p, x, 2);
}

enum bp_status portable_ternary(const struct bp_launch *launch)
{
    const struct bp_view *w = launch->out[0], *const *x = launch->in;
    struct ternary_args args = {.walk = walk_of(w, x, 3),
                                .op = portable_number(launch->kernel),
                                .a = attr_f64(launch, 1)};
    struct portable p = PORTABLE(formula, ternary, portable_type(x[0]->dtype), args, w->count, 8);

    return formula_run(launch, &p, x, 3);
}

/* Runs where, mask (where with zeros on one side) and masked_fill (where with another order of
 * inputs). The kernel is chosen by the size of an element of the result. */
enum bp_status portable_where(const struct bp_launch *launch)
{
    const struct bp_view *const *in = launch->in, *z = launch->out[0];
    int op = portable_number(launch->kernel);
    /* Condition, values where it is true, values where it is false; NULL means zero. */
    const struct bp_view *from[3] = {op == WHERE_where ? in[0] : in[1]};

    if (op == WHERE_mask) {
        int invert = attr_i64(launch, 1) != 0;
        from[1 + invert] = in[0];
    } else {
        from[1] = op == WHERE_where ? in[1] : in[2];
        from[2] = op == WHERE_where ? in[2] : in[0];
    }
    struct where_args args = {walk_of(z, from, 3)};
    struct portable p = PORTABLE(formula, where, portable_move_type(z->dtype), args, z->count, 2);

    return formula_run(launch, &p, from, 3);
}

/* Chosen by the type of the parts. The arguments of the three kernels have one layout. */
enum bp_status portable_complex(const struct bp_launch *launch)
{
    const struct bp_view *y = launch->out[0], *const *x = launch->in;
    int op = portable_number(launch->kernel), n = (int)launch->n_in;
    uint32_t dtype = x[0]->dtype;
    struct complex_pair_args args = {walk_of(y, x, n), op};
    struct portable p = PORTABLE(formula, complex_part,
                                 dtype == BP_F32 || dtype == BP_C64 ? TYPE_f32 : TYPE_f64, args,
                                 y->count, 4);

    if (op == COMPLEX_complex) p.entry = ENTRY_complex_make - FIRST_formula;
    else if (op == COMPLEX_conj) p.entry = ENTRY_complex_pair - FIRST_formula;
    return formula_run(launch, &p, x, n);
}
