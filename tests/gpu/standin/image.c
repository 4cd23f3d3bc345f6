/* SPDX-License-Identifier: Apache-2.0 */
/* image.c: has the functions that all readers of images share: lists of kernels, and messages. */
#include "standin.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

int standin_refuse(int code, const char *format, ...)
{
    const char *path = secure_getenv("BP_STANDIN_LOG");
    FILE *log = path ? fopen(path, "ae") : stderr;
    char text[256];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (log) fprintf(log, "stand-in: %s: %s\n", standin.library, text);
    if (log && log != stderr) fclose(log);
    return code;
}

int standin_add(struct standin_image *image, const struct standin_kernel *kernel)
{
    struct standin_kernel *more = realloc(image->kernel, (image->n + 1) * sizeof *more);

    if (!more) return SIM_OUT_OF_MEMORY;
    more[image->n++] = *kernel;
    image->kernel = more;
    return SIM_SUCCESS;
}

/* Returns which property of parameter i is wrong, or NULL. Parameters are the arguments, a count,
 * and operands, which are addresses. */
static const char *image_wrong(const struct standin_kernel *kernel,
                               const struct sim_kernel *compiled, size_t i)
{
    const struct standin_parameter *p = &kernel->parameter[i];
    size_t size = i ? sizeof(int64_t) : compiled->args_size;
    size_t offset = i ? compiled->args_size + (i - 1) * sizeof(int64_t) : 0;

    if (p->offset != offset) return "place";
    if (p->size != size) return "size";
    if (p->kind == STANDIN_HIDDEN) return "kind that is hidden";
    if (p->kind == (i > 1 ? STANDIN_VALUE : STANDIN_ADDRESS)) return "kind";
    return NULL;
}

int standin_fits(const struct standin_kernel *kernel, const struct sim_kernel *compiled)
{
    if (kernel->n != compiled->operands + 2)
        return standin_refuse(SIM_INVALID_IMAGE,
                              "%s has %zu parameters in its image, and %zu as C does", kernel->name,
                              kernel->n, compiled->operands + 2);
    for (size_t i = 0; i < kernel->n; i++) {
        const char *what = image_wrong(kernel, compiled, i);
        if (what)
            return standin_refuse(SIM_INVALID_IMAGE,
                                  "parameter %zu of %s, %zu bytes at %zu of its image, has another "
                                  "%s than C's",
                                  i, kernel->name, kernel->parameter[i].size,
                                  kernel->parameter[i].offset, what);
    }
    if (kernel->lanes && kernel->lanes != STANDIN_LANES)
        return standin_refuse(SIM_INVALID_IMAGE, "%s is compiled for teams of %zu lanes",
                              kernel->name, kernel->lanes);
    return SIM_SUCCESS;
}

void standin_forget(struct standin_image *image)
{
    free(image->kernel);
    free(image->names);
    *image = (struct standin_image){0};
}

const char *standin_arch(void)
{
    const char *text = secure_getenv("BP_STANDIN_ARCH");

    return text && *text ? text : STANDIN_ARCH;
}
