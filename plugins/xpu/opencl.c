/* SPDX-License-Identifier: Apache-2.0 */
/* opencl.c: opens the OpenCL loader, and translates OpenCL's error codes. */
#include "opencl.h"
#include <kit/call.h>
#include <kit/library.h>

#define CALL(name) {#name, true},
#define KIT_LIST "xpu/calls.def"
#define KIT_TABLE loaded
#define KIT_CALLS struct xpu_calls
#include <kit/table.h>

enum bp_status xpu_opencl_open(const struct bp_host *host, const struct xpu_calls **out_calls)
{
    static const char *const names[] = {"libOpenCL.so.1", NULL};
    static const enum kit_place place[] = {KIT_LOADER, KIT_PLACES};
    static const struct kit_wanted wanted = {"xpu", "LOADER", names, "", place};
    static struct kit_library loader = KIT_LIBRARY(loaded_symbols, loaded.function,
                                                   ": it is older than OpenCL 1.2");

    if (kit_library_load(&loader, &wanted))
        return bp_fail(host, BP_ERR_ABSENT, "xpu: no OpenCL loader: %s", loader.why);
    *out_calls = &loaded.call;
    return BP_OK;
}

static const struct kit_error known[] = {
#define ERROR(code, status) {code, status, #code}
    ERROR(CL_DEVICE_NOT_FOUND, BP_ERR_ABSENT),
    ERROR(CL_DEVICE_NOT_AVAILABLE, BP_ERR_DEVICE_LOST),
    ERROR(CL_COMPILER_NOT_AVAILABLE, BP_ERR_UNSUPPORTED),
    ERROR(CL_MEM_OBJECT_ALLOCATION_FAILURE, BP_ERR_MEMORY),
    ERROR(CL_OUT_OF_RESOURCES, BP_ERR_MEMORY),
    ERROR(CL_OUT_OF_HOST_MEMORY, BP_ERR_MEMORY),
    ERROR(CL_INVALID_BUFFER_SIZE, BP_ERR_MEMORY),
    ERROR(CL_BUILD_PROGRAM_FAILURE, BP_ERR_DEVICE),
    ERROR(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, BP_ERR_DEVICE),
    ERROR(CL_INVALID_VALUE, BP_ERR_DEVICE),
    ERROR(CL_INVALID_DEVICE, BP_ERR_DEVICE),
    ERROR(CL_INVALID_CONTEXT, BP_ERR_DEVICE),
    ERROR(CL_INVALID_COMMAND_QUEUE, BP_ERR_DEVICE),
    ERROR(CL_INVALID_MEM_OBJECT, BP_ERR_DEVICE),
    ERROR(CL_INVALID_BINARY, BP_ERR_DEVICE),
    ERROR(CL_INVALID_BUILD_OPTIONS, BP_ERR_DEVICE),
    ERROR(CL_INVALID_PROGRAM, BP_ERR_DEVICE),
    ERROR(CL_INVALID_PROGRAM_EXECUTABLE, BP_ERR_DEVICE),
    ERROR(CL_INVALID_KERNEL_NAME, BP_ERR_DEVICE),
    ERROR(CL_INVALID_KERNEL, BP_ERR_DEVICE),
    ERROR(CL_INVALID_ARG_INDEX, BP_ERR_DEVICE),
    ERROR(CL_INVALID_ARG_VALUE, BP_ERR_DEVICE),
    ERROR(CL_INVALID_ARG_SIZE, BP_ERR_DEVICE),
    ERROR(CL_INVALID_KERNEL_ARGS, BP_ERR_DEVICE),
    ERROR(CL_INVALID_WORK_GROUP_SIZE, BP_ERR_DEVICE),
    ERROR(CL_INVALID_EVENT, BP_ERR_DEVICE),
    ERROR(CL_INVALID_OPERATION, BP_ERR_DEVICE),
#undef ERROR
    {-1001, BP_ERR_DEVICE, "CL_PLATFORM_NOT_FOUND_KHR"},
    /* A code of NVIDIA's that no header defines: a kernel accessed an invalid address. */
    {-9999, BP_ERR_DEVICE_LOST, "an illegal access of a kernel"},
};
static const struct kit_errors errors = {known, sizeof known / sizeof *known, NULL};

const char *xpu_opencl_name(cl_int code)
{
    return kit_error_find(&errors, NULL, code).text;
}

enum bp_status xpu_opencl_status(cl_int code)
{
    return kit_error_find(&errors, NULL, code).status;
}

enum bp_status xpu_opencl_outcome(cl_int code)
{
    return code == CL_OUT_OF_RESOURCES ? BP_ERR_DEVICE_LOST : xpu_opencl_status(code);
}
