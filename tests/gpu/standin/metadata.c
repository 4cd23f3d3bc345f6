/* SPDX-License-Identifier: Apache-2.0 */
/* metadata.c: reads the description of kernels that a code object has for HIP's runtime, in
 * MessagePack: a map whose "amdhsa.kernels" is a list of maps. A kernel has its name, and for each
 * argument its offset, its bytes, and whether it is a value or an address. */
#include "standin.h"
#include <string.h>

enum {
    LONGEST = 128, /* bytes of a name */
    DEEP = 16 /* nested lists */
};

/* The bytes that are left to read; at is NULL after an error. */
struct pack {
    const unsigned char *at, *end;
};
enum kind { OTHER, NUMBER, TEXT, LIST, MAP };
struct value {
    enum kind kind;
    uint64_t n; /* the number; or bytes of a text, members of a list, pairs of a map */
    const char *text;
};

static uint64_t metadata_take(struct pack *in, size_t bytes)
{
    uint64_t n = 0;

    if (!in->at || (size_t)(in->end - in->at) < bytes) in->at = NULL;
    else
        while (bytes--) n = n << 8 | *in->at++;
    return n;
}

static struct value take_text(struct pack *in, enum kind kind, uint64_t n)
{
    const char *text = (const char *)in->at;

    if (!in->at || (uint64_t)(in->end - in->at) < n) in->at = NULL;
    else in->at += n;
    return (struct value){kind, n, text};
}

/* Reads the beginning of the next value. The members of a list or map come next. */
static struct value take_value(struct pack *in)
{
    unsigned byte = (unsigned)metadata_take(in, 1);

    if (byte < 0x80) return (struct value){NUMBER, byte, NULL};
    if (byte < 0x90) return (struct value){MAP, byte & 15, NULL};
    if (byte < 0xa0) return (struct value){LIST, byte & 15, NULL};
    if (byte < 0xc0) return take_text(in, TEXT, byte & 31);
    if (byte >= 0xcc && byte <= 0xcf)
        return (struct value){NUMBER, metadata_take(in, (size_t)1 << (byte - 0xcc)), NULL};
    if (byte >= 0xd9 && byte <= 0xdb)
        return take_text(in, TEXT, metadata_take(in, (size_t)1 << (byte - 0xd9)));
    if (byte == 0xdc || byte == 0xdd)
        return (struct value){LIST, metadata_take(in, byte == 0xdc ? 2 : 4), NULL};
    if (byte == 0xde || byte == 0xdf)
        return (struct value){MAP, metadata_take(in, byte == 0xde ? 2 : 4), NULL};
    if (byte != 0xc0 && byte != 0xc2 && byte != 0xc3 && byte < 0xe0) in->at = NULL;
    return (struct value){OTHER, 0, NULL}; /* nil, true, false, or a negative number */
}

/* Skips the rest of a value whose beginning has been read. */
static void metadata_skip(struct pack *in, struct value value, int depth)
{
    uint64_t n = value.kind == LIST ? value.n : value.kind == MAP ? 2 * value.n : 0;

    if (n && depth >= DEEP) in->at = NULL;
    while (in->at && n--) metadata_skip(in, take_value(in), depth + 1);
}

static bool metadata_is(struct value value, const char *text)
{
    return value.kind == TEXT && value.n == strlen(text) && !memcmp(value.text, text, value.n);
}

static void read_parameter(struct pack *in, struct standin_parameter *out)
{
    uint64_t pairs = take_value(in).n;

    while (in->at && pairs--) {
        struct value key = take_value(in), value = take_value(in);
        if (metadata_is(key, ".offset")) out->offset = value.n;
        if (metadata_is(key, ".size")) out->size = value.n;
        if (metadata_is(key, ".value_kind"))
            out->kind = metadata_is(value, "by_value")        ? STANDIN_VALUE
                        : metadata_is(value, "global_buffer") ? STANDIN_ADDRESS
                                                     : STANDIN_HIDDEN;
        metadata_skip(in, value, 0);
    }
}

/* Reads one kernel, and copies its name to name. */
static void read_kernel(struct pack *in, char *name, struct standin_kernel *out)
{
    uint64_t pairs = take_value(in).n;

    while (in->at && pairs--) {
        struct value key = take_value(in), value = take_value(in);
        if (metadata_is(key, ".name") && value.kind == TEXT && value.n < LONGEST) {
            memcpy(name, value.text, value.n);
            name[value.n] = '\0';
        }
        if (metadata_is(key, ".kernarg_segment_size")) out->size = value.n;
        if (metadata_is(key, ".max_flat_workgroup_size")) out->lanes = value.n;
        if (!metadata_is(key, ".args") || value.kind != LIST || value.n > STANDIN_PARAMETERS)
            metadata_skip(in, value, 0);
        else
            while (in->at && out->n < value.n) read_parameter(in, &out->parameter[out->n++]);
    }
}

/* Adds the metadata of a kernel to the kernel of that name in the image. */
static int metadata_note(struct standin_image *image, const char *name,
                         const struct standin_kernel *declared)
{
    for (size_t i = 0; i < image->n; i++) {
        struct standin_kernel *kernel = &image->kernel[i];
        if (strcmp(kernel->name, name) != 0) continue;
        if (kernel->size != declared->size)
            return standin_refuse(SIM_INVALID_IMAGE,
                                  "%s takes %zu bytes by its descriptor and %zu by its metadata",
                                  name, kernel->size, declared->size);
        kernel->n = declared->n;
        kernel->lanes = declared->lanes;
        memcpy(kernel->parameter, declared->parameter, sizeof kernel->parameter);
        return SIM_SUCCESS;
    }
    return standin_refuse(SIM_INVALID_IMAGE, "%s has metadata and no descriptor", name);
}

static int read_kernels(struct pack *in, uint64_t n, struct standin_image *image)
{
    int code = SIM_SUCCESS;

    while (in->at && n-- && !code) {
        struct standin_kernel declared = {0};
        char name[LONGEST] = "";
        read_kernel(in, name, &declared);
        if (in->at) code = metadata_note(image, name, &declared);
    }
    return code;
}

int standin_read_metadata(const void *data, size_t size, struct standin_image *image)
{
    struct pack in = {data, (const unsigned char *)data + size};
    uint64_t pairs = take_value(&in).n;
    int code = SIM_SUCCESS;

    while (in.at && pairs-- && !code) {
        struct value key = take_value(&in), value = take_value(&in);
        if (metadata_is(key, "amdhsa.kernels") && value.kind == LIST)
            code = read_kernels(&in, value.n, image);
        else metadata_skip(&in, value, 0);
    }
    if (!code && !in.at)
        code = standin_refuse(SIM_INVALID_IMAGE, "the metadata of an image are not understood");
    for (size_t i = 0; i < image->n && !code; i++)
        if (!image->kernel[i].n)
            code = standin_refuse(SIM_INVALID_IMAGE, "%s has no metadata", image->kernel[i].name);
    return code;
}
