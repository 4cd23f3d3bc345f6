/* SPDX-License-Identifier: Apache-2.0 */
/* rtc_source.c: joins the parts of a source for NVRTC or hiprtc. */
#include "rtc.h"
#include <dialect/source.h>
#include <stdlib.h>
#include <string.h>

/* The names of stdint.h and math.h that the dialect uses: the libraries have no headers, and some
 * have a part of these names built in. */
static const char rtc_names[] =
    "typedef signed char rtc_i8; typedef short rtc_i16; typedef int rtc_i32;\n"
    "typedef long long rtc_i64; typedef unsigned char rtc_u8; typedef unsigned short rtc_u16;\n"
    "typedef unsigned int rtc_u32; typedef unsigned long long rtc_u64;\n"
    "#define int8_t rtc_i8\n#define int16_t rtc_i16\n#define int32_t rtc_i32\n"
    "#define int64_t rtc_i64\n#define uint8_t rtc_u8\n#define uint16_t rtc_u16\n"
    "#define uint32_t rtc_u32\n#define uint64_t rtc_u64\n"
    "#ifndef __HIP__\n#define __builtin_memcpy memcpy\n#endif\n"
    "#ifndef INFINITY\n"
    "#ifdef __HIP__\n#define INFINITY __builtin_huge_valf()\n"
    "#else\n#define INFINITY __int_as_float(0x7f800000)\n#endif\n"
    "#endif\n";

char *rtc_source(enum portable_type type, const char *text)
{
    const struct portable_source *functions = &portable_source_fused;
    size_t size = sizeof rtc_names + strlen(text) + 64, used;
    const char *name = portable_type_name(type);
    char *source;

    for (uint32_t i = 0; i < functions->n; i++) size += strlen(functions->line[i]);
    source = malloc(size);
    if (!source) return NULL;
    used = (size_t)snprintf(source, size, "#define ELEM %s\n#define ELEM_%s\n%s", name, name,
                            rtc_names);
    for (uint32_t i = 0; i < functions->n; i++) {
        size_t length = strlen(functions->line[i]);
        memcpy(source + used, functions->line[i], length);
        used += length;
    }
    strcpy(source + used, text);
    return source;
}
