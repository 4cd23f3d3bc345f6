/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.c: the table of kernel rows, and which of them this machine can run. */
#include "kernels.h"
#include "cpu.h"
#include "library.h"
#include "walk.h"
#include <backplane/attrs.h>
#include <kernels/formulas.h>
#include <string.h>

/* Portable rows keep indices in arrays of WALK_RANK. */
static enum bp_status cpu_accepts(void *self, const struct bp_prep *prep)
{
    (void)self;
    for (uint32_t i = 0; i < prep->n_in; i++)
        if (prep->in[i] && prep->in[i]->rank > WALK_RANK) return BP_ERR_UNSUPPORTED;
    for (uint32_t i = 0; i < prep->n_out; i++)
        if (prep->out[i]->rank > WALK_RANK) return BP_ERR_UNSUPPORTED;
    return BP_OK;
}

static const struct bp_kernel rows[] = {
#define KERNEL(operator, variant, T, U, set) \
    {BP_OPROW(operator), .name = "cpu_" #operator #variant, .types = {T, U}, \
     .flags = BP_KERNEL_STRIDED | BP_KERNEL_DETERMINISTIC | (set), \
     .launch = cpu_##operator##variant, .accepts = cpu_accepts},
#define INDICES(operator, variant, T, I, set) \
    {BP_OPROW(operator), .name = "cpu_" #operator #variant, .types = {T, 0, I}, \
     .flags = BP_KERNEL_STRIDED | BP_KERNEL_DETERMINISTIC | (set), \
     .launch = cpu_##operator##variant, .accepts = cpu_accepts},
#define LEVEL(operator, variant, T, U, set, level, isa) \
    {BP_OPROW(operator), .name = "cpu_" #operator #variant, .types = {T, U}, \
     .flags = BP_KERNEL_STRIDED | BP_KERNEL_DETERMINISTIC | (set), .priority = 10 * (isa), \
     .launch = cpu_##operator##variant, .accepts = cpu_accepts},
#define FORMULA(operator, variant, T, set, family) \
    {BP_OPROW(operator), .name = "cpu_" #operator #variant, .types = {T}, \
     .flags = BP_KERNEL_STRIDED | BP_KERNEL_DETERMINISTIC | (set), \
     .launch = cpu_##family##variant, .accepts = cpu_accepts},
#define FORMULA_LEVEL(operator, variant, T, set, family, level, isa) \
    {BP_OPROW(operator), .name = "cpu_" #operator #variant, .types = {T}, \
     .flags = BP_KERNEL_STRIDED | BP_KERNEL_DETERMINISTIC | (set), .priority = 10 * (isa), \
     .launch = cpu_##family##variant, .accepts = cpu_accepts},
#define LIBRARY(operator, variant, T, set, library) \
    {BP_OPROW(operator), .name = "cpu_" #operator "_" #variant, .types = {T}, .flags = (set), \
     .priority = 100, .launch = cpu_##operator##_##variant, \
     .prepare = cpu_##operator##_##library##_prepare, .plan_destroy = cpu_##library##_plan_destroy},
#include "kernels.def"
};

/* In the order of rows. */
static const uint8_t formula[] = {
#define KERNEL(op, variant, T, U, flags) 0,
#define INDICES(op, variant, T, I, flags) 0,
#define LEVEL(op, variant, T, U, flags, level, isa) 0,
#define FORMULA(op, variant, T, flags, family) NUMBER_##family(op),
#define FORMULA_LEVEL(op, variant, T, flags, family, level, isa) NUMBER_##family(op),
#define NUMBER_binary(op) BINARY_##op
#define LIBRARY(op, variant, T, flags, library) 0,
#include "kernels.def"
};
_Static_assert(sizeof formula == sizeof rows / sizeof *rows, "one for each row");

int cpu_formula(const struct bp_kernel *row)
{
    return formula[row - rows];
}

static enum bp_status usable_level(struct cpu *self, const char *name, enum cpu_isa needed,
                                   const char *level)
{
    if (self->isa >= needed) return BP_OK;
    return bp_fail(self->host, BP_ERR_UNSUPPORTED,
                   "%s: needs %s, which this machine lacks or BP_CPU_ISA forbids", name, level);
}

static enum bp_status cpu_usable(void *p, const struct bp_kernel *kernel)
{
    struct cpu *self = p;
    const char *name = kernel->name;

#define KERNEL(op, variant, T, U, flags)
#define INDICES(op, variant, T, I, flags)
#define LEVEL(op, variant, T, U, flags, level, isa) \
    if (!strcmp(name, "cpu_" #op #variant)) return usable_level(self, name, isa, #level);
#define FORMULA(op, variant, T, flags, family)
#define FORMULA_LEVEL(op, variant, T, flags, family, level, isa) \
    LEVEL(op, variant, T, 0, flags, level, isa)
#define LIBRARY(op, variant, T, flags, library) \
    if (!strcmp(name, "cpu_" #op "_" #variant)) return cpu_##library##_usable(self, name);
#include "kernels.def"
    return BP_OK;
}

const struct bp_kernels cpu_kernels = {
    .size = sizeof cpu_kernels,
    .first = rows,
    .count = sizeof rows / sizeof *rows,
    .stride = sizeof *rows,
    .usable = cpu_usable,
};
