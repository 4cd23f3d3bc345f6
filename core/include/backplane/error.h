/* SPDX-License-Identifier: Apache-2.0 */
/* error.h: what went wrong. */
#ifndef BP_ERROR_H
#define BP_ERROR_H

#include <backplane/api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The message of the last call that failed on this thread: what, where, expected, got, what to do.
 * Never NULL, "" before the first failure. Valid until this thread's next call. */
BP_API const char *bp_error_message(void);

/* For libraries on top of this one: message is what bp_error_message says next on this thread
 * (NULL: nothing is changed). Returns status. */
BP_API enum bp_status bp_error_set(enum bp_status status, const char *message);

/* "BP_ERR_INVALID" and "an argument is wrong". Never NULL: an unknown status is "BP_ERR_?". */
BP_API const char *bp_status_name(enum bp_status status);
BP_API const char *bp_status_text(enum bp_status status);

/* "f32". "?" for a number that is no dtype. */
BP_API const char *bp_dtype_name(uint32_t dtype);

/* The dtype of a name such as "f32". BP_ERR_INVALID: there is none. */
BP_API enum bp_status bp_dtype_find(const char *name, uint32_t *out_dtype);

/* Bits of one element; 0 for a number that is no dtype. */
BP_API uint32_t bp_dtype_bits(uint32_t dtype);

#ifdef __cplusplus
}
#endif

#endif
