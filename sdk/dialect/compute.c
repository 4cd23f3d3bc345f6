/* SPDX-License-Identifier: Apache-2.0 */
/* compute.c: finds the function of a portable kernel among the units that are linked. */
#include "compute.h"

typedef void host_entry(const void *args, void *const *operand, int64_t begin, int64_t count);

/* The table that each unit defines (entries.c); a plugin may leave units out. */
#define ENTRIES(family, type) \
    extern host_entry *const portable_##family##_entries_##type[] __attribute__((weak));
#include <ops/list_units.def>
#undef ENTRIES

static host_entry *const *const tables[PORTABLE_FAMILIES][PORTABLE_TYPES_COUNT] = {
#define ENTRIES(family, type) \
    [FAMILY_##family][TYPE_##type] = portable_##family##_entries_##type,
#include <ops/list_units.def>
};

int portable_compute(enum portable_family family, enum portable_type type, int entry,
                     const void *args, void *const *operand, int64_t begin, int64_t count)
{
    host_entry *const *table = tables[family][type];

    if (!table) return -1;
    table[entry](args, operand, begin, count);
    return 0;
}
