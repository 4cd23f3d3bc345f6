/* SPDX-License-Identifier: Apache-2.0 */
/* dtype.c: dtypes by name and number. */
#include "base.h"

struct dtype {
    uint32_t number, bits;
    const char *name;
};

static const struct dtype dtypes[] = {
#define X(NAME, name, number, bits, class) {number, bits, #name},
    BP_DTYPES(X)
#undef X
};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

/* The numbers are dense from 0: see BP_DTYPES. */
const char *bp_dtype_name(uint32_t dtype)
{
    return dtype < DTYPES ? dtypes[dtype].name : "?";
}

uint32_t bp_dtype_bits(uint32_t dtype)
{
    return dtype < DTYPES ? dtypes[dtype].bits : 0;
}

enum bp_status bp_dtype_find(const char *name, uint32_t *out_dtype)
{
    if (!name || !out_dtype)
        return bp_error(BP_ERR_INVALID, "bp_dtype_find: name or out_dtype is NULL");
    for (uint32_t i = 0; i < DTYPES; i++)
        if (!strcmp(dtypes[i].name, name)) {
            *out_dtype = dtypes[i].number;
            return BP_OK;
        }
    return bp_error(BP_ERR_INVALID, "dtype '%.32s': expected a name such as f32, bf16, i64 or bool",
                    name);
}
