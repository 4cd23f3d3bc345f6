/* SPDX-License-Identifier: Apache-2.0 */
/* error.c: messages of this library go where those of the core are. */
#include "onnx.h"
#include <stdarg.h>
#include <stdio.h>

enum bp_status onnx_error(enum bp_status status, const char *format, ...)
{
    char text[768];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return bp_error_set(status, text);
}

enum bp_status onnx_no_memory(void)
{
    return onnx_error(BP_ERR_MEMORY, "model: no memory on the host");
}
