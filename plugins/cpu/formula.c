/* SPDX-License-Identifier: Apache-2.0 */
/* formula.c: dispatches elementwise operators: from a kernel row to its family's function for the
 * dtype of input 0, at the row's instruction level. */
#include "kernels.h"
#include "cpu.h"

enum { unary, binary, predicate, compare, ternary, where, complex, FAMILIES };

#define TYPED(family, type, level, number) cpu_typed cpu_##family##_##type##level;
#include "entries.def"

static cpu_typed *const typed[FAMILIES][3][PORTABLE_TYPES_COUNT] = {
#define TYPED(family, type, level, number) \
    [family][number][TYPE_##type] = cpu_##family##_##type##level,
#include "entries.def"
};

static inline enum bp_status run_as(int family, enum portable_type type,
                                    const struct bp_launch *launch)
{
    return typed[family][cpu_level(launch->kernel)][type](launch, cpu_number(launch->kernel));
}

static inline enum bp_status formula_run(int family, const struct bp_launch *launch)
{
    return run_as(family, portable_type(launch->in[0]->dtype), launch);
}

enum bp_status cpu_unary(const struct bp_launch *launch)
{
    return formula_run(unary, launch);
}

enum bp_status cpu_binary(const struct bp_launch *launch)
{
    return formula_run(binary, launch);
}

enum bp_status cpu_predicate(const struct bp_launch *launch)
{
    return formula_run(predicate, launch);
}

enum bp_status cpu_compare(const struct bp_launch *launch)
{
    return formula_run(compare, launch);
}

enum bp_status cpu_ternary(const struct bp_launch *launch)
{
    return formula_run(ternary, launch);
}

/* Selected by the size of an element of the result. */
enum bp_status cpu_where(const struct bp_launch *launch)
{
    return run_as(where, portable_move_type(launch->out[0]->dtype), launch);
}

/* Selected by the type of the real and imaginary parts. */
enum bp_status cpu_complex(const struct bp_launch *launch)
{
    uint8_t dtype = launch->in[0]->dtype;

    return run_as(complex, dtype == BP_F32 || dtype == BP_C64 ? TYPE_f32 : TYPE_f64, launch);
}
