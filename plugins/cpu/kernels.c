/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.c: defines the table of kernel rows, and decides which rows this machine can run. */
#include "kernels.h"
#include "cpu.h"
#include "library.h"
#include "walk.h"
#include <backplane/attrs.h>
#include <ops/common/kernel_formulas.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The plugin's own kernels keep indices in arrays of WALK_RANK. */
static enum bp_status cpu_accepts(void *self, const struct bp_prep *prep)
{
    (void)self;
    for (uint32_t i = 0; i < prep->n_in; i++)
        if (prep->in[i] && prep->in[i]->rank > WALK_RANK) return BP_ERR_UNSUPPORTED;
    for (uint32_t i = 0; i < prep->n_out; i++)
        if (prep->out[i] && prep->out[i]->rank > WALK_RANK) return BP_ERR_UNSUPPORTED;
    return BP_OK;
}

static const struct bp_kernel rows[] = {
#define CPU(operator, variant, function, plan, number, T, U, I, R, set, isa) \
    {BP_OPROW(operator), .name = "cpu_" #operator #variant, .types = {T, U, I, R}, \
     .flags = BP_KERNEL_DETERMINISTIC | (set), .priority = 10 * (isa), .launch = function, \
     .prepare = plan, .accepts = cpu_accepts},
#define LIBRARY(operator, variant, T, set, library) \
    {BP_OPROW(operator), .name = "cpu_" #operator "_" #variant, .types = {T}, .flags = (set), \
     .priority = 100, .launch = cpu_##operator##_##variant, \
     .prepare = cpu_##operator##_##library##_prepare, .plan_destroy = cpu_##library##_plan_destroy},
#define PLANNED_I(operator, variant, function, plan, destroy, T, I, set, isa) \
    {BP_OPROW(operator), .name = "cpu_" #operator #variant, .types = {T, 0, I}, \
     .flags = BP_KERNEL_DETERMINISTIC | (set), .priority = 10 * (isa), .launch = function, \
     .prepare = plan, .plan_destroy = destroy},
#define BEFORE(operator, variant, function, plan, destroy, T, set, isa) \
    {BP_OPROW(operator), .name = "cpu_" #operator #variant, .types = {T}, \
     .flags = BP_KERNEL_DETERMINISTIC | (set), .priority = 200 + 10 * (isa), .launch = function, \
     .prepare = plan, .plan_destroy = destroy},
#include "kernels.def"
};

/* The properties of the rows that only this plugin uses, in the order of the rows. */
static const struct {
    uint8_t number, level;
    enum bp_status (*usable)(struct cpu *self, const char *name); /* checks a row's library */
} known[] = {
#define CPU(op, variant, launch, prepare, number, T, U, I, R, flags, isa) {number, isa, NULL},
#define LIBRARY(op, variant, T, flags, library) {0, CPU_ISA_PORTABLE, cpu_##library##_usable},
#define PLANNED_I(op, variant, launch, prepare, destroy, T, I, flags, isa) {0, isa, NULL},
#define BEFORE(op, variant, launch, prepare, destroy, T, flags, isa) {0, isa, NULL},
#include "kernels.def"
};
_Static_assert(sizeof known / sizeof *known == sizeof rows / sizeof *rows, "one for each row");

int cpu_number(const struct bp_kernel *row)
{
    return known[row - rows].number;
}

int cpu_level(const struct bp_kernel *row)
{
    return known[row - rows].level;
}

/* The numbers of the rows, sorted by their operators; set once in a process. */
enum { ROWS = sizeof rows / sizeof *rows };
static pthread_once_t rows_once = PTHREAD_ONCE_INIT;
static uint16_t rows_sorted[ROWS];
_Static_assert(ROWS <= UINT16_MAX, "numbers of rows fit");

static int row_compare(const void *a, const void *b)
{
    int x = *(const uint16_t *)a, y = *(const uint16_t *)b, order = strcmp(rows[x].op, rows[y].op);

    return order ? order : x - y;
}

static void rows_sort(void)
{
    for (size_t i = 0; i < ROWS; i++) rows_sorted[i] = (uint16_t)i;
    qsort(rows_sorted, ROWS, sizeof *rows_sorted, row_compare);
}

const struct bp_kernel *cpu_row_find(const struct cpu *self, const char *op, uint8_t dtype)
{
    const struct bp_kernel *best = NULL;
    size_t low = 0, high = ROWS;

    pthread_once(&rows_once, rows_sort);
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (strcmp(rows[rows_sorted[middle]].op, op) < 0) low = middle + 1;
        else high = middle;
    }
    for (; low < ROWS && !strcmp(rows[rows_sorted[low]].op, op); low++) {
        const struct bp_kernel *row = &rows[rows_sorted[low]];
        if (!row->prepare && row->types[0] >> dtype & 1 && self->isa >= (uint32_t)cpu_level(row) &&
            (!best || row->priority > best->priority))
            best = row;
    }
    return best;
}

static enum bp_status cpu_usable(void *p, const struct bp_kernel *kernel)
{
    struct cpu *self = p;
    size_t row = (size_t)(kernel - rows);

    if (known[row].usable) return known[row].usable(self, kernel->name);
    if (self->isa >= known[row].level) return BP_OK;
    return bp_fail(self->host, BP_ERR_UNSUPPORTED,
                   "%s: needs %s, which this machine lacks or BP_CPU_ISA forbids", kernel->name,
                   cpu_isa_name[known[row].level]);
}

const struct bp_kernels cpu_kernels = {
    .size = sizeof cpu_kernels,
    .first = rows,
    .count = sizeof rows / sizeof *rows,
    .stride = sizeof *rows,
    .usable = cpu_usable,
};
