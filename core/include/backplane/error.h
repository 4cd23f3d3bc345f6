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
 * (NULL: nothing is changed); what bp_error_get_info says stays. Returns status. */
BP_API enum bp_status bp_error_set(enum bp_status status, const char *message);

/* What the last call that failed on this thread failed at, for code that goes on by it: no message
 * has to be read. Of a failure that is about none of these, all are "" and 0. */
struct bp_error_info { /* answer: set size before the call */
    size_t size;
    const char *op; /* of BP_ERR_NO_KERNEL: the operator that no kernel takes. Valid for ever */
    const char *kernel; /* the kernel row whose launch failed; valid until this thread's next
                           failure */
    uint32_t rows; /* of BP_ERR_NO_KERNEL: how many kernel rows of op the device has (of a call that
                      names its row: of that name), each of which was passed over */
    uint32_t zero; /* 0 */
};
BP_API enum bp_status bp_error_get_info(struct bp_error_info *out);

/* "BP_ERR_INVALID" and "an argument is wrong". Never NULL: an unknown status is "BP_ERR_?". */
BP_API const char *bp_status_name(enum bp_status status);
BP_API const char *bp_status_text(enum bp_status status);

#ifdef __cplusplus
}
#endif

#endif
