/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.h: declarations of all kernels, printed by the preprocessor from kernels.def. */
#ifndef CPU_KERNELS_H
#define CPU_KERNELS_H

#include <backplane/kernel.h>

extern const struct bp_kernels cpu_kernels;

#define KERNEL(op, variant, T, U, flags) \
    enum bp_status cpu_##op##variant(const struct bp_launch *launch);
#define INDICES(op, variant, T, I, flags) KERNEL(op, variant, T, I, flags)
#define LEVEL(op, variant, T, U, flags, level, isa) \
    enum bp_status cpu_##op##variant(const struct bp_launch *launch);
#define LIBRARY(op, variant, T, flags, library) \
    enum bp_status cpu_##op##_##library##_prepare(void *self, const struct bp_prep *prep, \
                                                  struct bp_plan *out); \
    enum bp_status cpu_##op##_##variant(const struct bp_launch *launch); \
    void cpu_##library##_plan_destroy(void *self, const struct bp_kernel *kernel, void *plan);
#include "kernels.def"

#endif
