/* SPDX-License-Identifier: Apache-2.0 */
/* dtype.h: element types by name. Their list is BP_DTYPES in types.h. */
#ifndef BP_DTYPE_H
#define BP_DTYPE_H

#include <backplane/api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* "f32". "?" for a number that is no dtype. */
BP_API const char *bp_dtype_name(enum bp_dtype dtype);

/* The dtype of a name such as "f32". BP_ERR_INVALID: there is none. */
BP_API enum bp_status bp_dtype_find(const char *name, enum bp_dtype *out_dtype);

/* Bits of one element; 0 for a number that is no dtype. */
BP_API uint32_t bp_dtype_bits(enum bp_dtype dtype);

#ifdef __cplusplus
}
#endif

#endif
