/* SPDX-License-Identifier: Apache-2.0 */
/* error.h: returns the message and the details of the last failure of a thread. */
#ifndef BP_ERROR_H
#define BP_ERROR_H

#include <backplane/api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the message of the last call that failed on this thread: the error, its place, the
 * expected and the actual value, and how to correct it. Never NULL; "" before the first failure.
 * Valid until this thread's next call. */
BP_API const char *bp_error_message(void);

/* For libraries on top of this one: sets the message that bp_error_message returns next on this
 * thread (message NULL: the message stays); the result of bp_error_get_info stays. Returns
 * status. */
BP_API enum bp_status bp_error_set(enum bp_status status, const char *message);

/* The operator or the kernel of the last call that failed on this thread, for code that continues
 * in another way and must not parse messages. For any other failure all strings are "" and rows is
 * 0. */
struct bp_error_info { /* output struct: set size before the call */
    size_t size;
    const char *op; /* of BP_ERR_NO_KERNEL: the operator that no kernel accepts. Valid for ever */
    const char *kernel; /* the kernel row whose launch failed; valid until this thread's next
                           failure */
    uint32_t rows; /* of BP_ERR_NO_KERNEL: the number of kernel rows of op that the device has (if
                      the call names its row: rows of that name); each of them was rejected */
    uint32_t zero; /* 0 */
};
BP_API enum bp_status bp_error_get_info(struct bp_error_info *out);

/* Return the name of a status, "BP_ERR_INVALID", and its meaning, "an argument is wrong". Never
 * NULL: the name of an unknown status is "BP_ERR_?". */
BP_API const char *bp_status_name(enum bp_status status);
BP_API const char *bp_status_text(enum bp_status status);

#ifdef __cplusplus
}
#endif

#endif
