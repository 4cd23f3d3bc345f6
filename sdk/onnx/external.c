/* SPDX-License-Identifier: Apache-2.0 */
/* external.c: reads weights from files beside the model. A model may come from an untrusted source,
 * so it may name only files in its own folder and below. */
#include "onnx.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *external_entry(const Onnx__TensorProto *t, const char *key)
{
    for (size_t i = 0; i < t->n_external_data; i++)
        if (t->external_data[i]->key && !strcmp(t->external_data[i]->key, key))
            return t->external_data[i]->value;
    return NULL;
}

/* Reads a number that is not negative. */
static bool external_number(const char *text, uint64_t otherwise, uint64_t *out)
{
    char *end;

    *out = otherwise;
    if (!text) return true;
    if (*text < '0' || *text > '9') return false;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return !*end && !errno;
}

/* Opens the folders of a path and its file one by one, so that no symbolic link and no ".." escapes
 * from the folder. */
static int open_inside(const char *folder, const char *path)
{
    int at = open(folder, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    char part[256];

    while (at >= 0) {
        size_t n = strcspn(path, "/");
        bool last = !path[n];
        int next = -1;
        if (n && n < sizeof part) {
            memcpy(part, path, n);
            part[n] = 0;
            if (strcmp(part, "..") && !(last && !strcmp(part, ".")))
                next = openat(at, part, O_NOFOLLOW | O_RDONLY | O_CLOEXEC | O_NONBLOCK |
                                            (last ? 0 : O_DIRECTORY));
        }
        close(at);
        at = next;
        if (last) break;
        path += n + 1;
    }
    return at;
}

static enum bp_status external_read_all(int file, uint64_t offset, char *out, uint64_t size)
{
    while (size) {
        ssize_t n = pread(file, out, size, (off_t)offset);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return BP_ERR_INVALID;
        out += n;
        offset += (uint64_t)n;
        size -= (uint64_t)n;
    }
    return BP_OK;
}

static enum bp_status external_refuse(const Onnx__TensorProto *t, const char *location,
                                      const char *why)
{
    return onnx_error(BP_ERR_INVALID, "tensor %.80s: external data '%.120s': %s",
                      t->name ? t->name : "", location ? location : "", why);
}

static enum bp_status external_short(const Onnx__TensorProto *t, const char *location,
                                     uint64_t offset, uint64_t size, uint64_t file_size)
{
    char why[200];

    snprintf(why, sizeof why,
             "the tensor has %" PRIu64 " bytes from byte %" PRIu64 " on, but the file has %" PRIu64
             ": it is incomplete, or of another model; copy it again",
             size, offset, file_size);
    return external_refuse(t, location, why);
}

/* Called only after the file is known to have `size` bytes, because a model can declare false
 * extents. Then memory is allocated. */
static enum bp_status read_new(const Onnx__TensorProto *proto, const char *location, int file,
                               uint64_t offset, uint64_t size, void **out_data)
{
    void *data = malloc(size + 1);

    if (!data) return onnx_no_memory();
    if (external_read_all(file, offset, data, size)) {
        free(data);
        return external_refuse(proto, location, "it can't be read");
    }
    *out_data = data;
    return BP_OK;
}

enum bp_status onnx_external(struct bp_model *model, const Onnx__TensorProto *proto, uint64_t size,
                             void **out_data)
{
    const char *folder = model->options.folder;
    const char *location = external_entry(proto, "location");
    uint64_t offset, length;
    enum bp_status status;
    struct stat about;
    int file;

    if (!location || !*location) return external_refuse(proto, location, "no location is given");
    if (!folder) return external_refuse(proto, location, "a model from memory has no folder");
    if (!external_number(external_entry(proto, "offset"), 0, &offset) || offset > INT64_MAX ||
        !external_number(external_entry(proto, "length"), size, &length))
        return external_refuse(proto, location, "offset or length is not a number");
    if (length != size) return external_refuse(proto, location, "length is not that of the tensor");
    if (*location == '/')
        return external_refuse(proto, location, "it lies outside the model's folder");
    file = open_inside(folder, location);
    if (file < 0)
        return external_refuse(proto, location,
                               "there is no such file inside the model's folder "
                               "(links and '..' are not followed)");
    if (fstat(file, &about) || !S_ISREG(about.st_mode))
        status = external_refuse(proto, location, "it is a folder, or no regular file");
    else if ((uint64_t)about.st_size < offset || (uint64_t)about.st_size - offset < size)
        status = external_short(proto, location, offset, size, (uint64_t)about.st_size);
    else status = read_new(proto, location, file, offset, size, out_data);
    if (status == BP_OK)
        model->loaded = (struct onnx_place){onnx_reload_file(model, file, location), offset};
    close(file);
    return status;
}
