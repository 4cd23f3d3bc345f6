/* SPDX-License-Identifier: Apache-2.0 */
/* npy.c: writes arrays as .npy files, format version 1.0. A file has a magic number, the length of
 * the header, the header as a Python dictionary in text padded to 64 bytes, and the data. */
#include "suites/suites.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char *npy_descr(uint32_t dtype)
{
    static const char *const name[] = {
        [BP_BOOL] = "|b1", [BP_I8] = "|i1",  [BP_I16] = "<i2",  [BP_I32] = "<i4",
        [BP_I64] = "<i8",  [BP_U8] = "|u1",  [BP_U16] = "<u2",  [BP_U32] = "<u4",
        [BP_U64] = "<u8",  [BP_F16] = "<f2", [BP_BF16] = "<f4", [BP_F32] = "<f4",
        [BP_F64] = "<f8",  [BP_C64] = "<c8", [BP_C128] = "<c16"};

    return dtype < sizeof name / sizeof *name && name[dtype] ? name[dtype] : "|u1";
}

static void write_data(FILE *file, const struct ref_array *like, const char *data)
{
    const struct num_type *type = like->type;

    if (type->dtype != BP_BF16) fwrite(data, type->size, (size_t)like->count, file);
    else
        for (int64_t i = 0; i < like->count; i++) {
            float value = (float)num_get_float(type, data + 2 * i);
            fwrite(&value, sizeof value, 1, file);
        }
}

void npy_write(const char *dir, const char *id, const char *what, const struct ref_array *like,
               const void *data)
{
    char path[1024], header[256], shape[200] = "";
    int used = 0, length;
    FILE *file;

    snprintf(path, sizeof path, "%s/%s.%s.npy", dir, id, what);
    for (char *c = path + strlen(dir) + 1; *c; c++)
        if (*c == '/') *c = '_';
    for (int i = 0; i < like->rank; i++)
        used += snprintf(shape + used, sizeof shape - (size_t)used, "%lld,",
                         (long long)like->shape[i]);
    length = snprintf(header, sizeof header,
                      "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }",
                      npy_descr(like->type->dtype), shape);
    while ((length + 1 + 10) % 64) header[length++] = ' ';
    header[length++] = '\n';
    file = fopen(path, "wb");
    if (!file) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return;
    }
    fwrite("\x93NUMPY\x01\x00", 1, 8, file);
    fputc(length & 255, file);
    fputc(length >> 8, file);
    fwrite(header, 1, (size_t)length, file);
    write_data(file, like, data);
    if (fclose(file)) fprintf(stderr, "%s: %s\n", path, strerror(errno));
}
