/* SPDX-License-Identifier: Apache-2.0 */
/* fused_kernel.c: compiles kernels of `fused`, and keeps those of a device in a list. */
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
    free(f->text);
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
static enum bp_status fused_build(struct xpu_device *d, size_t lanes, struct xpu_fused *f)
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
    line[n] = f->text;
    xpu_program_options(d, lanes, f->type, options, sizeof options);
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
    enum bp_status status = BP_OK;

    if (f) f->text = strdup(text);
    if (!f || !f->text)
        status = bp_fail(d->self->host, BP_ERR_MEMORY, "xpu:%u: no memory for a kernel of fused",
                         d->number);
    if (f) f->device = d;
    if (f) f->type = type;
    if (status == BP_OK) status = fused_build(d, lanes, f);
    for (; status && status != BP_ERR_MEMORY && lanes > XPU_LANES_FEWEST;)
        status = fused_build(d, lanes /= 2, f);
    if (status == BP_OK) {
        *out = f;
        return BP_OK;
    }
    if (f) free(f->text);
    free(f);
    return status;
}

/* Compiling takes long, and other threads need the same kernel as often as not: so they wait. */
enum bp_status xpu_fused_get(struct xpu_device *d, enum portable_type type, const char *text,
                             struct xpu_fused **out)
{
    struct xpu_fused *f;
    enum bp_status status = BP_OK;

    pthread_mutex_lock(&d->fused_lock);
    for (f = d->fused; f; f = f->next)
        if (f->type == type && !strcmp(f->text, text)) break;
    if (!f) {
        status = fused_create(d, type, text, &f);
        if (status == BP_OK) {
            f->next = d->fused;
            d->fused = f;
        }
    }
    if (status == BP_OK) {
        f->users++;
        *out = f;
    }
    pthread_mutex_unlock(&d->fused_lock);
    return status;
}

/* Destroys the oldest kernel without users if there are too many of them. */
static void fused_limit(struct xpu_device *d)
{
    struct xpu_fused **oldest = NULL;
    int unused = 0;

    for (struct xpu_fused **at = &d->fused; *at; at = &(*at)->next) {
        if ((*at)->users) continue;
        unused++;
        oldest = at;
    }
    if (unused > FUSED_UNUSED) {
        struct xpu_fused *f = *oldest;
        *oldest = f->next;
        fused_destroy(d, f);
    }
}

void xpu_fused_put(struct xpu_device *d, struct xpu_fused *kernel)
{
    pthread_mutex_lock(&d->fused_lock);
    kernel->users--;
    fused_limit(d);
    pthread_mutex_unlock(&d->fused_lock);
}

void xpu_fused_finish(struct xpu_device *d)
{
    while (d->fused) {
        struct xpu_fused *f = d->fused;
        d->fused = f->next;
        fused_destroy(d, f);
    }
    pthread_mutex_destroy(&d->fused_lock);
}
