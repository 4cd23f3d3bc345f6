/* SPDX-License-Identifier: Apache-2.0 */
/* program.c: compiles the entries of a family of portable kernels for one type when the first of
 * them is launched, or loads them from the cache. */
#include "sources.h"
#include "xpu.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

void xpu_programs_init(struct xpu_device *device)
{
    for (int f = 0; f < PORTABLE_FAMILIES; f++)
        for (int t = 0; t < PORTABLE_TYPES_COUNT; t++)
            pthread_mutex_init(&device->program[f][t].lock, NULL);
}

void xpu_kernel_destroy(struct xpu *self, struct xpu_kernel *kernel)
{
    self->call->clReleaseKernel(kernel->kernel);
    free(kernel->set.args);
    pthread_mutex_destroy(&kernel->lock);
}

static void kernels_destroy(struct xpu *self, struct xpu_kernel *kernel, int n)
{
    for (int i = 0; i < n; i++) xpu_kernel_destroy(self, &kernel[i]);
    free(kernel);
}

void xpu_programs_finish(struct xpu_device *device)
{
    for (int f = 0; f < PORTABLE_FAMILIES; f++)
        for (int t = 0; t < PORTABLE_TYPES_COUNT; t++) {
            struct xpu_program *p = &device->program[f][t];
            kernels_destroy(device->self, p->kernel, p->kernel ? portable_entries(f) : 0);
            pthread_mutex_destroy(&p->lock);
        }
}

/* Logs the compiler's output, which may be too long for an error message. */
static void log_build(struct xpu_device *d, cl_program program)
{
    const struct xpu *self = d->self;
    size_t size = 0;
    char *text;

    self->call->clGetProgramBuildInfo(program, d->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &size);
    text = calloc(1, size + 1);
    if (!text) return;
    self->call->clGetProgramBuildInfo(program, d->id, CL_PROGRAM_BUILD_LOG, size, text, NULL);
    bp_log(self->host, BP_LOG_ERROR, "xpu:%u: the OpenCL compiler says: %s", d->number, text);
    free(text);
}

static void program_keep(struct xpu_device *d, cl_program program, const struct program_key *key)
{
    const struct xpu *self = d->self;
    size_t size = 0;
    unsigned char *binary;

    if (self->call->clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, NULL) !=
            CL_SUCCESS ||
        !size)
        return;
    binary = malloc(size);
    if (!binary) return;
    if (self->call->clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL) ==
        CL_SUCCESS)
        program_cache_write(key, binary, size);
    free(binary);
}

/* Loads a program from the cache. NULL: it is not in the cache, or the driver no longer accepts
 * it. */
static cl_program from_cache(struct xpu_device *d, const struct program_key *key,
                             const char *options)
{
    const struct xpu *self = d->self;
    size_t size;
    unsigned char *binary = program_cache_read(key, &size);
    const unsigned char *at = binary;
    cl_int code = CL_SUCCESS, loaded = CL_SUCCESS;
    cl_program program;

    if (!binary) return NULL;
    program = self->call->clCreateProgramWithBinary(d->context, 1, &d->id, &size, &at, &loaded,
                                                    &code);
    free(binary);
    if (program && loaded == CL_SUCCESS &&
        self->call->clBuildProgram(program, 1, &d->id, options, NULL, NULL) == CL_SUCCESS)
        return program;
    if (program) self->call->clReleaseProgram(program);
    program_cache_remove(key);
    return NULL;
}

static enum bp_status program_compile(struct xpu_device *d, const struct portable_source *source,
                                      const char *options, cl_program *out, cl_int *out_code)
{
    const struct xpu *self = d->self;
    cl_int code = CL_SUCCESS;
    cl_program program = self->call->clCreateProgramWithSource(
        d->context, source->n, (const char **)source->line, NULL, &code);

    if (!program) return xpu_fail(d, "clCreateProgramWithSource", code);
    code = self->call->clBuildProgram(program, 1, &d->id, options, NULL, NULL);
    if (code == CL_SUCCESS) {
        *out = program;
        return BP_OK;
    }
    *out_code = code;
    log_build(d, program);
    self->call->clReleaseProgram(program);
    return xpu_fail(d, "clBuildProgram", code);
}

/* Checks that the kernel can be launched in teams of its lanes. A driver that reports no limit
 * passes. */
static enum bp_status check_lanes(struct xpu_device *d, const struct xpu_kernel *k,
                                  const char *name)
{
    const struct xpu *self = d->self;
    size_t most = 0;
    cl_int code = self->call->clGetKernelWorkGroupInfo(k->kernel, d->id, CL_KERNEL_WORK_GROUP_SIZE,
                                                       sizeof most, &most, NULL);

    if (code != CL_SUCCESS || most >= k->lanes) return BP_OK;
    return bp_fail(self->host, BP_ERR_UNSUPPORTED,
                   "xpu:%u: %s has work-groups of %zu items at most, %zu are needed", d->number,
                   name, most, k->lanes);
}

enum bp_status xpu_kernel_create(struct xpu_device *d, cl_program program, const char *name,
                                 size_t lanes, struct xpu_kernel *out)
{
    const struct xpu *self = d->self;
    cl_int code = CL_SUCCESS;
    enum bp_status status;

    out->lanes = lanes;
    out->kernel = self->call->clCreateKernel(program, name, &code);
    if (!out->kernel)
        return bp_fail(self->host, xpu_opencl_status(code),
                       "xpu:%u: clCreateKernel of %s answered %s", d->number, name,
                       xpu_opencl_name(code));
    status = check_lanes(d, out, name);
    if (status) self->call->clReleaseKernel(out->kernel);
    else pthread_mutex_init(&out->lock, NULL);
    return status;
}

static enum bp_status make_kernels(struct xpu_device *d, cl_program program, size_t lanes,
                                   enum portable_family family, enum portable_type type,
                                   struct xpu_kernel **out)
{
    const struct xpu *self = d->self;
    int n = portable_entries(family);
    struct xpu_kernel *kernel = calloc((size_t)n, sizeof *kernel);

    if (!kernel) return bp_fail(self->host, BP_ERR_MEMORY, "xpu:%u: no memory", d->number);
    for (int i = 0; i < n; i++) {
        char name[96];
        enum bp_status status;
        snprintf(name, sizeof name, "bp_%s_%s", portable_entry_name(family, i),
                 portable_type_name(type));
        status = xpu_kernel_create(d, program, name, lanes, &kernel[i]);
        if (status) {
            kernels_destroy(d->self, kernel, i);
            return status;
        }
    }
    *out = kernel;
    return BP_OK;
}

/* Compiles the program, or waits until another process has compiled it. */
static enum bp_status compile_once(struct xpu_device *d, const struct portable_source *source,
                                   const struct program_key *key, const char *options,
                                   cl_program *out, cl_int *out_code)
{
    int lock = program_cache_begin(key);
    enum bp_status status = BP_OK;

    *out = lock >= 0 ? from_cache(d, key, options) : NULL;
    if (!*out) {
        status = program_compile(d, source, options, out, out_code);
        if (status == BP_OK) program_keep(d, *out, key);
    }
    program_cache_end(key, lock);
    return status;
}

void xpu_program_options(const struct xpu_device *d, size_t lanes, enum portable_type type,
                         char *out, size_t size)
{
    const char *name = portable_type_name(type);
    int n = snprintf(out, size, "%s -DELEM=%s -DELEM_%s", d->options, name, name);

    if (lanes > 1 && lanes < XPU_LANES)
        snprintf(out + n, size - (size_t)n, " -DMAX_LANES=%zu", lanes);
}

enum bp_status xpu_program_load(struct xpu_device *d, const struct portable_source *source,
                                const char *options, cl_program *out, cl_int *out_code)
{
    const struct program_key key = xpu_cache_key(d, source, options);
    cl_program program = from_cache(d, &key, options);

    *out_code = CL_SUCCESS;
    if (!program) return compile_once(d, source, &key, options, out, out_code);
    *out = program;
    return BP_OK;
}

/* Builds the kernels for teams of this many lanes. */
static enum bp_status build_for(struct xpu_device *d, size_t lanes, enum portable_family family,
                                enum portable_type type, struct xpu_kernel **out)
{
    char options[288];
    cl_program program;
    enum bp_status status;
    cl_int code;

    xpu_program_options(d, lanes, type, options, sizeof options);
    status = xpu_program_load(d, &xpu_source[family], options, &program, &code);
    if (status) return status;
    status = make_kernels(d, program, lanes, family, type, out);
    d->self->call->clReleaseProgram(program); /* its kernels keep it alive */
    return status;
}

/* Builds the kernels. Under the program's lock. Some devices can run certain kernels only in small
 * work-groups. They report this for the compiled kernel, or fail to compile it, so the function
 * then tries fewer lanes. */
static enum bp_status program_build(struct xpu_device *d, enum portable_family family,
                                    enum portable_type type, struct xpu_kernel **out)
{
    size_t lanes = d->lanes;
    enum bp_status status = build_for(d, lanes, family, type, out);

    while (status && lanes > XPU_LANES_FEWEST) {
        lanes /= 2;
        status = build_for(d, lanes, family, type, out);
    }
    return status;
}

enum bp_status xpu_kernel_get(struct xpu_device *d, enum portable_family family,
                              enum portable_type type, int entry, struct xpu_kernel **out)
{
    struct xpu_program *p = &d->program[family][type];
    struct xpu_kernel *kernel = atomic_load_explicit(&p->kernel, memory_order_acquire);
    enum bp_status status = BP_OK;

    if (!kernel) {
        pthread_mutex_lock(&p->lock);
        kernel = atomic_load_explicit(&p->kernel, memory_order_relaxed);
        if (!kernel) status = program_build(d, family, type, &kernel);
        if (status == BP_OK) atomic_store_explicit(&p->kernel, kernel, memory_order_release);
        pthread_mutex_unlock(&p->lock);
    }
    if (status == BP_OK) *out = kernel + entry;
    return status;
}
