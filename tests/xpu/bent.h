/* SPDX-License-Identifier: Apache-2.0 */
/* bent.h: declares the functions that the two files of the bent OpenCL loader share. This loader
 * passes each call on to the machine's OpenCL loader, and changes single results as environment
 * variables specify:
 *
 *   BENT_REAL    path of the machine's loader
 *   BENT_INFO    [DEVICE:]PARAMETER=VALUE;...   result of clGetDeviceInfo and
 *                clGetPlatformInfo for a parameter (0x102e): a number, or else a text. DEVICE:
 *                number of a device in the platform's order; without it: each device
 *   BENT_FAIL    CALL=CODE;...   these calls return CODE after the first launch of a kernel, and
 *                then do nothing. The call `event` is the state of an event, `launch` is each
 *                launch except the first, and `fused` each clBuildProgram of a kernel of fused
 *   BENT_GROUP   KERNEL=ITEMS;...   kernels whose names contain KERNEL have work-groups of at
 *                most ITEMS items: clGetKernelWorkGroupInfo returns ITEMS, and a larger launch
 *                fails
 *   BENT_TRACE   a file that gets a line for each call: its name, and its main arguments */
#ifndef BENT_H
#define BENT_H

#include <stdbool.h>
#include <stdint.h>

/* Returns a function of the machine's loader; the caller casts it to the function's type. */
typedef void bent_function(void);
bent_function *bent_real(const char *name);

/* Returns whether the call must fail now, and with which code. */
bool bent_fails(const char *call, int32_t *out_code);

/* Appends a line to the trace file, in printf's format. */
void bent_trace(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
