/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.c: finds the portable kernels compiled as C, by the names that their entry points have in
 * images. */
#include "compiled.h"
#include <dialect/portable.h>
#include <stdio.h>
#include <string.h>

#define ENTRIES(family, type, prefix) \
    extern sim_entry *const prefix##family##_entries_##type[]; \
    extern const struct sim_kernel sim_##family##_kernels[];
#include "simulator_entries.def"

static const struct sim_image images[] = {
#define ENTRIES(family, type, prefix) \
    {SIM_IMAGE, #type, sim_##family##_kernels, prefix##family##_entries_##type},
#include "simulator_entries.def"
};

__attribute__((visibility("default"))) size_t standin_compiled_count(void)
{
    return sizeof images / sizeof *images;
}

__attribute__((visibility("default"))) const struct sim_image *standin_compiled(const char *entry,
                                                                                size_t *out_number)
{
    char name[128];

    for (size_t i = 0; i < sizeof images / sizeof *images; i++)
        for (size_t k = 0; images[i].kernel[k].name; k++) {
            snprintf(name, sizeof name, "bp_%s_%s", images[i].kernel[k].name, images[i].type);
            if (strcmp(name, entry) != 0) continue;
            if (out_number) *out_number = k;
            return &images[i];
        }
    return NULL;
}
