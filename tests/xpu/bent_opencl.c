/* SPDX-License-Identifier: Apache-2.0 */
/* bent_opencl.c: an OpenCL loader that changes single results of the machine's own loader (bent.h).
 * This file has the functions whose arguments the loader examines. */
#include "bent.h"
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(name) *)bent_real(#name))

enum { DEVICES = 16 };
static cl_device_id device[DEVICES]; /* in the platform's order */
static atomic_int launches;

bent_function *bent_real(const char *name)
{
    static _Atomic(void *) library;
    union {
        void *address;
        bent_function *function;
    } found = {.address = NULL};

    if (!library) library = dlopen(getenv("BENT_REAL"), RTLD_NOW | RTLD_LOCAL);
    if (library) found.address = dlsym(library, name);
    if (!found.address) {
        fprintf(stderr, "the bent loader finds no %s behind BENT_REAL\n", name);
        abort();
    }
    return found.function;
}

void bent_trace(const char *format, ...)
{
    const char *path = getenv("BENT_TRACE");
    char line[512];
    va_list args;
    int n, file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;

    if (file < 0) return;
    va_start(args, format);
    n = vsnprintf(line, sizeof line - 1, format, args);
    va_end(args);
    if (n > (int)sizeof line - 2) n = (int)sizeof line - 2;
    line[n++] = '\n';
    if (write(file, line, (size_t)n) != n) abort();
    close(file);
}

/* Reads the next key and value of KEY=VALUE;... into out. Returns false at the end. */
struct entry {
    char key[64], value[512];
};
static bool bent_opencl_next(const char **at, struct entry *out)
{
    size_t length, key;

    if (!*at || !**at) return false;
    length = strcspn(*at, ";");
    key = strcspn(*at, "=");
    if (key >= length || key >= sizeof out->key || length - key > sizeof out->value) abort();
    snprintf(out->key, sizeof out->key, "%.*s", (int)key, *at);
    snprintf(out->value, sizeof out->value, "%.*s", (int)(length - key - 1), *at + key + 1);
    *at += length + ((*at)[length] == ';');
    return true;
}

bool bent_fails(const char *call, int32_t *out_code)
{
    const char *at = getenv("BENT_FAIL");
    struct entry e;

    while (launches && bent_opencl_next(&at, &e))
        if (!strcmp(e.key, call)) {
            *out_code = atoi(e.value);
            return true;
        }
    return false;
}

cl_int clGetDeviceIDs(cl_platform_id platform, cl_device_type type, cl_uint room, cl_device_id *out,
                      cl_uint *out_n)
{
    cl_uint n = 0;
    cl_int code = REAL(clGetDeviceIDs)(platform, type, room, out, &n);

    if (out_n) *out_n = n;
    if (code == CL_SUCCESS && out)
        memcpy(device, out, sizeof *out * (n < room ? n < DEVICES ? n : DEVICES : room));
    return code;
}

static cl_int bent_opencl_fill(const char *text, size_t size, void *out, size_t *out_size)
{
    char *end;
    cl_ulong number = strtoull(text, &end, 0);
    bool is_text = *end || end == text;
    size_t bytes = is_text ? strlen(text) + 1 : size < sizeof number ? size : sizeof number;

    if (out_size) *out_size = bytes;
    if (out) {
        if (size < bytes) return CL_INVALID_VALUE;
        memcpy(out, is_text ? (const void *)text : &number, bytes);
    }
    return CL_SUCCESS;
}

cl_int clGetPlatformInfo(cl_platform_id platform, cl_platform_info what, size_t size, void *out,
                         size_t *out_size)
{
    const char *at = getenv("BENT_INFO");
    struct entry e;

    while (bent_opencl_next(&at, &e))
        if (strtoul(e.key, NULL, 0) == what)
            return bent_opencl_fill(e.value, size, out, out_size);
    return REAL(clGetPlatformInfo)(platform, what, size, out, out_size);
}

cl_int clGetDeviceInfo(cl_device_id id, cl_device_info what, size_t size, void *out,
                       size_t *out_size)
{
    const char *at = getenv("BENT_INFO");
    struct entry e;

    while (bent_opencl_next(&at, &e)) {
        char *colon = strchr(e.key, ':');
        if (colon && device[atoi(e.key) % DEVICES] != id) continue;
        if (strtoul(colon ? colon + 1 : e.key, NULL, 0) == what)
            return bent_opencl_fill(e.value, size, out, out_size);
    }
    return REAL(clGetDeviceInfo)(id, what, size, out, out_size);
}

cl_context clCreateContext(const cl_context_properties *properties, cl_uint n,
                           const cl_device_id *id,
                           void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *),
                           void *ctx, cl_int *out_code)
{
    bent_trace("clCreateContext devices=%u", n);
    return REAL(clCreateContext)(properties, n, id, notify, ctx, out_code);
}

cl_mem clCreateBuffer(cl_context context, cl_mem_flags flags, size_t size, void *host,
                      cl_int *out_code)
{
    cl_int code;

    bent_trace("clCreateBuffer bytes=%zu flags=%llu", size, (unsigned long long)flags);
    if (!bent_fails("clCreateBuffer", &code))
        return REAL(clCreateBuffer)(context, flags, size, host, out_code);
    if (out_code) *out_code = code;
    return NULL;
}

cl_int clBuildProgram(cl_program program, cl_uint n, const cl_device_id *id, const char *options,
                      void(CL_CALLBACK *notify)(cl_program, void *), void *ctx)
{
    cl_int code;

    bent_trace("clBuildProgram options=%s", options);
    if (strstr(options, "-DINLINE_ALL") && bent_fails("fused", &code)) return code;
    return REAL(clBuildProgram)(program, n, id, options, notify, ctx);
}

cl_int clGetEventInfo(cl_event event, cl_event_info what, size_t size, void *out, size_t *out_size)
{
    cl_int code;

    if (what == CL_EVENT_COMMAND_EXECUTION_STATUS && out && bent_fails("event", &code)) {
        memcpy(out, &code, sizeof code);
        return CL_SUCCESS;
    }
    return REAL(clGetEventInfo)(event, what, size, out, out_size);
}

static size_t limit_of(cl_kernel kernel, char *out_name, size_t room)
{
    const char *at = getenv("BENT_GROUP");
    struct entry e;

    REAL(clGetKernelInfo)(kernel, CL_KERNEL_FUNCTION_NAME, room, out_name, NULL);
    while (bent_opencl_next(&at, &e))
        if (strstr(out_name, e.key)) return (size_t)atoi(e.value);
    return SIZE_MAX;
}

cl_int clGetKernelWorkGroupInfo(cl_kernel kernel, cl_device_id id, cl_kernel_work_group_info what,
                                size_t size, void *out, size_t *out_size)
{
    char name[128] = "";
    size_t limit = limit_of(kernel, name, sizeof name);

    if (what != CL_KERNEL_WORK_GROUP_SIZE || limit == SIZE_MAX)
        return REAL(clGetKernelWorkGroupInfo)(kernel, id, what, size, out, out_size);
    if (out_size) *out_size = sizeof limit;
    if (out) memcpy(out, &limit, sizeof limit);
    return CL_SUCCESS;
}

cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint axes,
                              const size_t *offset, const size_t *global, const size_t *local,
                              cl_uint n, const cl_event *wait, cl_event *event)
{
    char name[128] = "";
    size_t limit = limit_of(kernel, name, sizeof name);
    cl_int code;

    bent_trace("clEnqueueNDRangeKernel kernel=%s local=%zu offset=%zu", name, *local,
               offset ? *offset : 0);
    if (bent_fails("launch", &code)) return code;
    launches++;
    if (*local > limit) return CL_INVALID_WORK_GROUP_SIZE;
    return REAL(clEnqueueNDRangeKernel)(queue, kernel, axes, offset, global, local, n, wait, event);
}
