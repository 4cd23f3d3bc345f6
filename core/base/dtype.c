/* SPDX-License-Identifier: Apache-2.0 */
/* dtype.c: converts between dtypes, their names and their sizes. */
#include "base.h"

struct dtype {
    uint32_t bits;
    const char *name; /* NULL: the number is reserved */
};

/* The dtypes by their numbers. */
static const struct dtype dtypes[] = {
#define X(NAME, name, number, bits, class) [number] = {bits, #name},
    BP_DTYPES(X)
#undef X
};
static const uint32_t dtypes_count = sizeof dtypes / sizeof *dtypes;

const char *bp_dtype_name(enum bp_dtype dtype)
{
    return dtype < dtypes_count && dtypes[dtype].name ? dtypes[dtype].name : "?";
}

uint32_t bp_dtype_bits(enum bp_dtype dtype)
{
    return dtype < dtypes_count ? dtypes[dtype].bits : 0;
}

enum bp_status bp_dtype_find(const char *name, enum bp_dtype *out_dtype)
{
    if (!name || !out_dtype)
        return bp_error(BP_ERR_INVALID, "bp_dtype_find: name or out_dtype is NULL");
    for (uint32_t i = 0; i < dtypes_count; i++)
        if (dtypes[i].name && !strcmp(dtypes[i].name, name)) {
            *out_dtype = i;
            return BP_OK;
        }
    return bp_error(BP_ERR_INVALID, "dtype '%.32s': expected a name such as f32, bf16, i64 or bool",
                    name);
}
