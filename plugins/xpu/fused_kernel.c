/* SPDX-License-Identifier: Apache-2.0 */
/* fused_kernel.c: compiles kernels of `fused`, which the plans of a device share. */
#include "fused.h"
#include "sources.h"

#include <stdlib.h>
#include <string.h>

enum {
    FUSED_UNUSED = 64
}; /* kernels without a plan that a device keeps */

static void fused_destroy(struct xpu_device *d, struct xpu_fused *f)
{
    xpu_kernel_destroy(d->self, &f->kernel);
    free(f);
}

/* Code that the driver cannot build is another row's to compute. Other failures, as of the device,
 * are the call's. */
static enum bp_status fused_decline(struct xpu_device *d, cl_int code, enum bp_status status)
{
    static const cl_int cannot[] = {CL_BUILD_PROGRAM_FAILURE, CL_COMPILE_PROGRAM_FAILURE,
                                    CL_LINK_PROGRAM_FAILURE, CL_INVALID_BUILD_OPTIONS,
                                    CL_COMPILER_NOT_AVAILABLE};

    for (size_t i = 0; i < sizeof cannot / sizeof *cannot; i++)
        if (code == cannot[i]) {
            bp_log(d->self->host, BP_LOG_WARN,
                   "xpu:%u: fused: clBuildProgram answered %s (%d); other kernels compute the call",
                   d->number, xpu_opencl_name(code), code);
            return BP_ERR_UNSUPPORTED;
        }
    return status;
}

/* Compiles the text behind the functions of fused_functions.h, for teams of this many lanes. */
static enum bp_status fused_build(struct xpu_device *d, size_t lanes, enum portable_type type,
                                  const char *text, struct xpu_fused *f)
{
    uint32_t n = portable_source_fused.n;
    const char **line = malloc((n + 1) * sizeof *line);
    struct portable_source source = {n + 1, line};
    char options[288];
    cl_program program;
    enum bp_status status;
    cl_int code;

    if (!line) return bp_fail(d->self->host, BP_ERR_MEMORY, "xpu:%u: no memory", d->number);
    memcpy(line, portable_source_fused.line, n * sizeof *line);
    line[n] = text;
    xpu_program_options(d, lanes, type, options, sizeof options);
    strcat(options, " -DINLINE_ALL"); /* a call in a loop prevents vectors */
    status = xpu_program_load(d, &source, options, &program, &code);
    free(line);
    if (status) return fused_decline(d, code, status);
    status = xpu_kernel_create(d, program, "bp_fused", lanes, &f->kernel);
    d->self->call->clReleaseProgram(program);
    return status;
}

static enum bp_status fused_create(struct xpu_device *d, enum portable_type type, const char *text,
                                   struct xpu_fused **out)
{
    struct xpu_fused *f = calloc(1, sizeof *f);
    size_t lanes = d->lanes;
    enum bp_status status;

    if (!f)
        return bp_fail(d->self->host, BP_ERR_MEMORY, "xpu:%u: no memory for a kernel of fused",
                       d->number);
    f->device = d;
    status = fused_build(d, lanes, type, text, f);
    while (status && status != BP_ERR_MEMORY && lanes > XPU_LANES_FEWEST)
        status = fused_build(d, lanes /= 2, type, text, f);
    if (status) free(f);
    else *out = f;
    return status;
}

/* Returns the key of a kernel, in memory from malloc: its type and text. NULL: no memory. */
static char *fused_key(enum portable_type type, const char *text, size_t *out_size)
{
    size_t length = strlen(text);
    char *key = malloc(length + 1);

    *out_size = length + 1;
    if (!key) return NULL;
    key[0] = (char)type;
    memcpy(key + 1, text, length);
    return key;
}

/* Compiling takes long, and other threads need the same kernel as often as not: so they wait. */
enum bp_status xpu_fused_get(struct xpu_device *d, enum portable_type type, const char *text,
                             struct xpu_fused **out)
{
    size_t size;
    char *key = fused_key(type, text, &size);
    enum bp_status status = BP_OK;
    struct xpu_fused *f;

    if (!key) return bp_fail(d->self->host, BP_ERR_MEMORY, "xpu:%u: no memory", d->number);
    pthread_mutex_lock(&d->fused_lock);
    f = (struct xpu_fused *)kit_cache_take(&d->fused, key, size);
    if (!f) {
        status = fused_create(d, type, text, &f);
        if (status == BP_OK && !kit_cache_add(&d->fused, &f->kit, key, size)) {
            fused_destroy(d, f);
            status = bp_fail(d->self->host, BP_ERR_MEMORY, "xpu:%u: no memory", d->number);
        }
    }
    pthread_mutex_unlock(&d->fused_lock);
    free(key);
    if (status == BP_OK) *out = f;
    return status;
}

void xpu_fused_put(struct xpu_device *d, struct xpu_fused *kernel)
{
    struct kit_cached *unused;

    pthread_mutex_lock(&d->fused_lock);
    kernel->kit.users--;
    while ((unused = kit_cache_remove(&d->fused, FUSED_UNUSED)) != NULL)
        fused_destroy(d, (struct xpu_fused *)unused);
    pthread_mutex_unlock(&d->fused_lock);
}

void xpu_fused_finish(struct xpu_device *d)
{
    struct kit_cached *f;

    while ((f = kit_cache_empty(&d->fused)) != NULL) fused_destroy(d, (struct xpu_fused *)f);
    pthread_mutex_destroy(&d->fused_lock);
}
