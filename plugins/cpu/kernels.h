/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.h: declarations of all kernels, printed by the preprocessor from kernels.def. */
#ifndef CPU_KERNELS_H
#define CPU_KERNELS_H

#include <backplane/kernel.h>

extern const struct bp_kernels cpu_kernels;

/* Which formula of its family (kernels/formulas.h) a row stands for: it shares its function with
 * all the family's rows of its dtype. */
int cpu_formula(const struct bp_kernel *row);

#define KERNEL(op, variant, T, U, flags) \
    enum bp_status cpu_##op##variant(const struct bp_launch *launch);
#define INDICES(op, variant, T, I, flags) KERNEL(op, variant, T, I, flags)
#define LEVEL(op, variant, T, U, flags, level, isa) \
    enum bp_status cpu_##op##variant(const struct bp_launch *launch);
#define FORMULA(op, variant, T, flags, family) \
    enum bp_status cpu_##family##variant(const struct bp_launch *launch);
#define FORMULA_LEVEL(op, variant, T, flags, family, level, isa) \
    FORMULA(op, variant, T, flags, family)
#define LIBRARY(op, variant, T, flags, library) \
    enum bp_status cpu_##op##_##library##_prepare(void *self, const struct bp_prep *prep, \
                                                  struct bp_plan *out); \
    enum bp_status cpu_##op##_##variant(const struct bp_launch *launch); \
    void cpu_##library##_plan_destroy(void *self, const struct bp_kernel *kernel, void *plan);
#include "kernels.def"

#endif
