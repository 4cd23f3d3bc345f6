/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.h: declares all kernels of the cpu plugin, as the preprocessor generates them from
 * kernels.def. */
#ifndef CPU_KERNELS_H
#define CPU_KERNELS_H

#include <backplane/kernel.h>
#include <dialect/portable.h>

struct cpu;
extern const struct bp_kernels cpu_kernels;

/* The number of a kernel row among the rows that share its function, and the row's instruction
 * level (enum cpu_isa). */
int cpu_number(const struct bp_kernel *row);
int cpu_level(const struct bp_kernel *row);

/* Finds the plugin's own row of an operator without a plan, for a dtype of its variable T: that of
 * the highest instruction level that this machine has. NULL: there is none. */
const struct bp_kernel *cpu_row_find(const struct cpu *self, const char *op, uint8_t dtype);

/* limits.c: refuse calls that a row does not support, and request workspace. */
#define X(op) \
    enum bp_status cpu_##op##_prepare(void *self, const struct bp_prep *prep, struct bp_plan *out);
X(topk)
X(non_max_suppression)
X(roi_align)
#undef X

/* An entry of a portable kernel: computes the elements or teams begin to begin + count - 1. */
typedef void cpu_entry(const void *args, void *const *operand, int64_t begin, int64_t count);

#define CPU(op, variant, launch, prepare, number, T, U, I, R, flags, isa) \
    enum bp_status launch(const struct bp_launch *launch_);
#define LIBRARY(op, variant, T, flags, library) \
    enum bp_status cpu_##op##_##library##_prepare(void *self, const struct bp_prep *prep, \
                                                  struct bp_plan *out); \
    enum bp_status cpu_##op##_##variant(const struct bp_launch *launch); \
    void cpu_##library##_plan_destroy(void *self, const struct bp_kernel *kernel, void *plan);
#define PLANNED_I(op, variant, launch, prepare, destroy, T, I, flags, isa) \
    enum bp_status prepare(void *self, const struct bp_prep *prep, struct bp_plan *out); \
    enum bp_status launch(const struct bp_launch *launch_); \
    void destroy(void *self, const struct bp_kernel *kernel, void *plan);
#define BEFORE(op, variant, launch, prepare, destroy, T, flags, isa) \
    PLANNED(op, variant, launch, prepare, destroy, T, flags, isa)
#include "kernels.def"

#endif
