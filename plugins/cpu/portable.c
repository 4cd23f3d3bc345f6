/* SPDX-License-Identifier: Apache-2.0 */
/* portable.c: runs the entries of portable kernels, compiled as C (entries.c), on the thread
 * team. */
#include "cpu.h"
#include "kernels.h"
#include <dialect/portable.h>

/* The compiled entries: each family has them for its types, at its instruction levels. */
#define ENTRIES(family, type, level, number) \
    extern cpu_entry *const cpu_##family##_entries_##type##level[];
#include "entries.def"

static cpu_entry *const *const compiled[PORTABLE_FAMILIES][PORTABLE_TYPES_COUNT][3] = {
#define ENTRIES(family, type, level, number) \
    [FAMILY_##family][TYPE_##type][number] = cpu_##family##_entries_##type##level,
#include "entries.def"
};

/* The work of one task: enough that the cost of distributing tasks is small. */
static const double task_work = 32768;

struct task {
    const struct portable *p;
    cpu_entry *entry;
    void *operand[PORTABLE_OPERANDS];
    int64_t part; /* elements or teams of one task */
};

static void task_run(void *arg, int64_t i)
{
    const struct task *t = arg;
    int64_t begin = i * t->part, rest = t->p->count - begin;

    t->entry(t->p->args, t->operand, begin, rest < t->part ? rest : t->part);
}

enum bp_status portable_run(const struct bp_launch *launch, const struct portable *p)
{
    cpu_entry *const *entries = compiled[p->family][p->type][cpu_level(launch->kernel)];
    struct task t = {.p = p};
    double work = p->work > 1 ? p->work : 1;

    if (p->count <= 0) return BP_OK;
    if (!entries) entries = compiled[p->family][p->type][CPU_ISA_PORTABLE];
    t.entry = entries[p->entry];
    for (int i = 0; i < p->n_operand; i++) t.operand[i] = p->operand[i].data;
    t.part = (int64_t)(task_work / work) + 1;
    cpu_team_run(task_run, &t, (p->count + t.part - 1) / t.part,
                 cpu_team_width(launch, work * (double)p->count));
    return BP_OK;
}

int portable_number(const struct bp_kernel *row)
{
    return cpu_number(row);
}

int portable_has_blocks(void *self, uint32_t device)
{
    (void)self;
    (void)device;
    return 0;
}
