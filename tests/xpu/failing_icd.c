/* SPDX-License-Identifier: Apache-2.0 */
/* failing_icd.c: a driver with one GPU that cannot be opened, as if other processes used it
 * exclusively. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl_icd.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wunused-parameter"

void *clGetExtensionFunctionAddress(const char *name);

static cl_icd_dispatch dispatch;
static struct {
    cl_icd_dispatch *dispatch; /* the first word of each handle of a driver */
} platform = {&dispatch}, device = {&dispatch};

static cl_int failing_icd_fill(const void *value, size_t bytes, size_t size, void *out,
                               size_t *out_size)
{
    if (out_size) *out_size = bytes;
    if (out) memcpy(out, value, bytes < size ? bytes : size);
    return CL_SUCCESS;
}

static cl_int platform_info(cl_platform_id id, cl_platform_info what, size_t size, void *out,
                            size_t *out_size)
{
    const char *text = what == CL_PLATFORM_EXTENSIONS ? "cl_khr_icd"
                       : what == CL_PLATFORM_VERSION  ? "OpenCL 1.2 failing"
                                                      : "Failing";

    return failing_icd_fill(text, strlen(text) + 1, size, out, out_size);
}

static cl_int device_ids(cl_platform_id id, cl_device_type type, cl_uint room, cl_device_id *out,
                         cl_uint *n)
{
    if (out && room) out[0] = (cl_device_id)(void *)&device;
    if (n) *n = 1;
    return CL_SUCCESS;
}

static cl_int device_info(cl_device_id id, cl_device_info what, size_t size, void *out,
                          size_t *out_size)
{
    static const cl_ulong all = ~(cl_ulong)0;
    static const cl_device_type gpu = CL_DEVICE_TYPE_GPU;
    static const cl_uint bits = 64;

    switch (what) {
    case CL_DEVICE_NAME:
        return failing_icd_fill("Taken GPU", sizeof "Taken GPU", size, out, out_size);
    case CL_DEVICE_VERSION:
        return failing_icd_fill("OpenCL 1.2", sizeof "OpenCL 1.2", size, out, out_size);
    case CL_DEVICE_ADDRESS_BITS: return failing_icd_fill(&bits, sizeof bits, size, out, out_size);
    case CL_DEVICE_TYPE: return failing_icd_fill(&gpu, sizeof gpu, size, out, out_size);
    default:
        return failing_icd_fill(&all, size < sizeof all ? size : sizeof all, size, out, out_size);
    }
}

static cl_context create_context(const cl_context_properties *properties, cl_uint n,
                                 const cl_device_id *id,
                                 void(CL_CALLBACK *notify)(const char *, const void *, size_t,
                                                           void *),
                                 void *ctx, cl_int *code)
{
    if (code) *code = CL_DEVICE_NOT_AVAILABLE;
    return NULL;
}

static cl_int platform_ids(cl_uint room, cl_platform_id *out, cl_uint *n)
{
    dispatch.clGetPlatformInfo = platform_info;
    dispatch.clGetDeviceIDs = device_ids;
    dispatch.clGetDeviceInfo = device_info;
    dispatch.clCreateContext = create_context;
    if (out && room) out[0] = (cl_platform_id)(void *)&platform;
    if (n) *n = 1;
    return CL_SUCCESS;
}

void *clGetExtensionFunctionAddress(const char *name)
{
    union {
        cl_api_clGetPlatformIDs ids;
        cl_api_clGetPlatformInfo info;
        void *address;
    } function = {.address = NULL};

    if (!strcmp(name, "clIcdGetPlatformIDsKHR")) function.ids = platform_ids;
    if (!strcmp(name, "clGetPlatformInfo")) function.info = platform_info;
    return function.address;
}
