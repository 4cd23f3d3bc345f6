/* SPDX-License-Identifier: Apache-2.0 */
/* dtype.h: converts between element types and their names. The list of element types is BP_DTYPES
 * in types.h. */
#ifndef BP_DTYPE_H
#define BP_DTYPE_H

#include <backplane/api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the name, such as "f32"; "?" for a number that is no dtype. */
BP_API const char *bp_dtype_name(enum bp_dtype dtype);

/* Finds the dtype that has a name such as "f32". BP_ERR_INVALID: no dtype has this name. */
BP_API enum bp_status bp_dtype_find(const char *name, enum bp_dtype *out_dtype);

/* Returns the number of bits of one element; 0 for a number that is no dtype. */
BP_API uint32_t bp_dtype_bits(enum bp_dtype dtype);

#ifdef __cplusplus
}
#endif

#endif
