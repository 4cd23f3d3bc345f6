/* SPDX-License-Identifier: Apache-2.0 */
/* image.c: what the readers of images share. */
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

int standin_add(struct standin_image *image, const char *name, size_t size)
{
    struct standin_kernel *more = realloc(image->kernel, (image->n + 1) * sizeof *more);

    if (!more) return SIM_OUT_OF_MEMORY;
    more[image->n++] = (struct standin_kernel){name, size};
    image->kernel = more;
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
