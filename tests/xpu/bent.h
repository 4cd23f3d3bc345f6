/* SPDX-License-Identifier: Apache-2.0 */
/* bent.h: what the two files of the bent OpenCL loader share. That loader passes each call on to
 * the machine's own and bends single answers, as environment variables say:
 *
 *   BENT_REAL    path of the machine's loader
 *   BENT_INFO    [DEVICE:]PARAMETER=VALUE;...   what clGetDeviceInfo and clGetPlatformInfo answer
 *                of the device of that number (in the platform's order) or of each, for the
 *                parameter (0x102e): a number or else a text
 *   BENT_FAIL    CALL=CODE;...   what these calls answer after the first launch of a kernel, and
 *                have then not done. The call `event` is the state of an event, `launch` each
 *                launch but the first
 *   BENT_GROUP   KERNEL=ITEMS;...   work-groups of kernels whose names hold that text have so many
 *                items at most: clGetKernelWorkGroupInfo says so, and a larger launch fails
 *   BENT_TRACE   a file that gets a line for each call: its name, and what is worth knowing */
#ifndef BENT_H
#define BENT_H

#include <stdbool.h>
#include <stdint.h>

/* The function of the machine's loader, to be called as what it is. */
typedef void bent_function(void);
bent_function *bent_real(const char *name);

/* Whether call is to fail now, and how. */
bool bent_fails(const char *call, int32_t *out_code);

/* A line in the file: printf's format. */
void bent_trace(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
