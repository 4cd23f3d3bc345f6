/* SPDX-License-Identifier: Apache-2.0 */
/* bent_rest.c: defines the other functions of the bent loader, which fail with a code or pass their
 * arguments on. It needs no types: each parameter of OpenCL is a pointer or an integer, in a
 * register or a word of the stack, and no function has more than ten. */
#include "bent.h"

/* The functions of bent_opencl.c. */
#define clGetPlatformInfo other_clGetPlatformInfo
#define clGetDeviceIDs other_clGetDeviceIDs
#define clGetDeviceInfo other_clGetDeviceInfo
#define clCreateContext other_clCreateContext
#define clCreateBuffer other_clCreateBuffer
#define clBuildProgram other_clBuildProgram
#define clGetEventInfo other_clGetEventInfo
#define clGetKernelWorkGroupInfo other_clGetKernelWorkGroupInfo
#define clEnqueueNDRangeKernel other_clEnqueueNDRangeKernel

typedef uintptr_t word;
typedef word call(word, word, word, word, word, word, word, word, word, word);

static word bent_rest_pass(const char *name, const word *a)
{
    int32_t code;

    bent_trace("%s", name);
    if (bent_fails(name, &code)) return (word)(intptr_t)code;
    return ((call *)bent_real(name))(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9]);
}

#define CALL(name) \
    call name; \
    word name(word a, word b, word c, word d, word e, word f, word g, word h, word i, word j) \
    { \
        return bent_rest_pass(#name, (const word[]){a, b, c, d, e, f, g, h, i, j}); \
    }
#include "calls.def"
