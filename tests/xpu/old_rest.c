/* SPDX-License-Identifier: Apache-2.0 */
/* old_rest.c: defines the other functions of old_opencl.c's loader, which abort: their caller has
 * not checked the driver's version. With OLD_LOADER, one function of OpenCL 1.2 is missing. */
#include <stdio.h>
#include <stdlib.h>

/* The functions of old_opencl.c. */
#define clGetPlatformIDs other_platforms
#define clGetDeviceIDs other_devices
#define clGetPlatformInfo other_platform
#define clGetDeviceInfo other_device
#ifdef OLD_LOADER
#define clEnqueueMarkerWithWaitList no_marker
#endif

static void old_rest_called(void)
{
    fprintf(stderr, "a function that an old driver does not have was called\n");
    abort();
}

#define CALL(name) \
    void name(void); \
    void name(void) { old_rest_called(); }
#include "calls.def"
