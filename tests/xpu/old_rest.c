/* SPDX-License-Identifier: Apache-2.0 */
/* old_rest.c: the other functions of the loader of old_opencl.c: whoever calls one has not asked
 * how old the driver is. With OLD_LOADER one is not there that came with OpenCL 1.2. */
#include <stdio.h>
#include <stdlib.h>

/* Those of old_opencl.c. */
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
