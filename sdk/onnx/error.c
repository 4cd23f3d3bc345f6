/* SPDX-License-Identifier: Apache-2.0 */
/* error.c: stores this library's error messages where the core stores its own
 * (bp_error_message). */
#include "onnx.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum bp_status onnx_error(enum bp_status status, const char *format, ...)
{
    char text[768];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return bp_error_set(status, text);
}

enum bp_status onnx_node_error(enum bp_status status, const struct onnx_node *node,
                               const char *format, ...)
{
    const char *op = node->proto->op_type ? node->proto->op_type : "";
    char text[768];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (!node->name) {
        const char *domain = node->proto->domain ? node->proto->domain : "";
        if (!strcmp(domain, "ai.onnx")) domain = "";
        return onnx_error(status, "%.60s%s%.60s: %s", domain, *domain ? "." : "", op, text);
    }
    return onnx_error(status, "node %.80s (%.60s): %s", node->name, op, text);
}

enum bp_status onnx_fault(const struct onnx_node *node, enum bp_status status)
{
    if (!status || !node->skip || !*node->skip) return status;
    --*node->skip;
    return BP_OK;
}

enum bp_status onnx_no_memory(void)
{
    return onnx_error(BP_ERR_MEMORY, "model: no memory on the host");
}
