/* SPDX-License-Identifier: Apache-2.0 */
/* old_opencl.c: an OpenCL loader with one GPU, whose driver has OpenCL 1.1 or (SMALL_GROUPS) small
 * work-groups. Its other functions, in old_rest.c, must not be called. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wunused-parameter"

static int one;

cl_int clGetPlatformIDs(cl_uint room, cl_platform_id *out, cl_uint *n)
{
    if (out) out[0] = (cl_platform_id)(void *)&one;
    if (n) *n = 1;
    return CL_SUCCESS;
}

cl_int clGetDeviceIDs(cl_platform_id platform, cl_device_type type, cl_uint room, cl_device_id *out,
                      cl_uint *n)
{
    if (out) out[0] = (cl_device_id)(void *)&one;
    if (n) *n = 1;
    return CL_SUCCESS;
}

static cl_int old_opencl_fill(const void *value, size_t bytes, size_t size, void *out)
{
    memset(out, 0, size);
    memcpy(out, value, bytes < size ? bytes : size);
    return CL_SUCCESS;
}

cl_int clGetPlatformInfo(cl_platform_id platform, cl_platform_info what, size_t size, void *out,
                         size_t *out_size)
{
    return old_opencl_fill("Old", sizeof "Old", size, out);
}

cl_int clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t size, void *out,
                       size_t *out_size)
{
    static const cl_ulong all = ~(cl_ulong)0;
    static const cl_device_type gpu = CL_DEVICE_TYPE_GPU;
    static const size_t lanes = 32;
    static const cl_uint bits = 64;
#ifdef SMALL_GROUPS
    static const char version[] = "OpenCL 1.2 small";
#else
    static const char version[] = "OpenCL 1.1 old";
#endif

    switch (what) {
    case CL_DEVICE_NAME: return old_opencl_fill("Old GPU", sizeof "Old GPU", size, out);
    case CL_DEVICE_VERSION: return old_opencl_fill(version, sizeof version, size, out);
    case CL_DEVICE_ADDRESS_BITS: return old_opencl_fill(&bits, sizeof bits, size, out);
    case CL_DEVICE_MAX_WORK_GROUP_SIZE: return old_opencl_fill(&lanes, sizeof lanes, size, out);
    case CL_DEVICE_TYPE: return old_opencl_fill(&gpu, sizeof gpu, size, out);
    default: return old_opencl_fill(&all, sizeof all, size, out);
    }
}
