/* SPDX-License-Identifier: Apache-2.0 */
/* ptx.c: reads kernels and their parameters from PTX, which is text:
 *
 *   .visible .entry bp_softmax_f32(
 *       .param .align 8 .b8 bp_softmax_f32_param_0[200],
 *       .param .u64 bp_softmax_f32_param_1
 *   ) */
#include "standin.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns the bytes of a type such as "u64"; 0: it has no size. */
static size_t ptx_size_of(const char *type)
{
    return isalpha((unsigned char)type[0]) ? (size_t)strtoul(type + 1, NULL, 10) / 8 : 0;
}

/* Reads one parameter, declared in text, and places it after those before it. Returns false for a
 * declaration that it cannot read. */
static bool read_parameter(const char *text, struct standin_kernel *kernel)
{
    const char *align = strstr(text, ".align"), *many = strchr(text, '['), *type = NULL;
    const char *pointer = strstr(text, ".ptr");
    struct standin_parameter *out = &kernel->parameter[kernel->n];
    size_t at;

    for (const char *word = text; (word = strchr(word, '.')) != NULL; word++)
        if (ptx_size_of(word + 1)) type = word + 1;
    if (!type || kernel->n == STANDIN_PARAMETERS) return false;
    out->size = ptx_size_of(type);
    at = align && !pointer ? strtoul(align + strlen(".align"), NULL, 10) : out->size;
    if (!at || at & (at - 1)) return false;
    if (many) out->size *= strtoul(many + 1, NULL, 10);
    out->offset = (kernel->size + at - 1) & ~(at - 1);
    out->kind = pointer ? STANDIN_ADDRESS : STANDIN_UNTOLD;
    kernel->size = out->offset + out->size;
    kernel->n++;
    return out->size > 0;
}

/* Reads the list of parameters of an entry, which ends with a closing parenthesis. */
static int read_entry(char *name, struct standin_image *out)
{
    char *open = strchr(name, '('), *close = open ? strchr(open, ')') : NULL, *save;
    struct standin_kernel kernel = {.name = name};

    if (!close) return standin_refuse(SIM_INVALID_IMAGE, "an entry of PTX has no end");
    *close = *open = '\0';
    for (char *text = strtok_r(open + 1, ",", &save); text; text = strtok_r(NULL, ",", &save))
        if (!read_parameter(text, &kernel))
            return standin_refuse(SIM_INVALID_IMAGE, "a parameter of %s is not understood: %s",
                                  name, text + strspn(text, " \t\n"));
    name[strcspn(name, " \t\n")] = '\0';
    return standin_add(out, &kernel);
}

int standin_read_ptx(const char *text, size_t length, struct standin_image *out)
{
    char *at, *next;
    int code = SIM_SUCCESS;

    out->names = calloc(1, length + 1);
    if (!out->names) return SIM_OUT_OF_MEMORY;
    memcpy(out->names, text, length);
    /* read_entry writes ends of strings only before the closing parenthesis of its entry. */
    for (at = strstr(out->names, ".entry "); at && !code; at = next) {
        char *close = strchr(at, ')');
        next = close ? strstr(close + 1, ".entry ") : NULL;
        code = read_entry(at + strlen(".entry "), out);
    }
    if (!code && !out->n) code = standin_refuse(SIM_INVALID_IMAGE, "PTX without an entry");
    if (code) standin_forget(out);
    return code;
}
