/* SPDX-License-Identifier: Apache-2.0 */
/* file.c: maps files of models and values while they are unpacked. The files are mapped and not
 * copied, because models are large. */
#include "onnx.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum bp_status onnx_file_map(const char *path, void **out_data, size_t *out_size, int *out_file)
{
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat about;
    void *data;

    if (file < 0 || fstat(file, &about)) {
        int cause = errno;
        if (file >= 0) close(file);
        return onnx_error(BP_ERR_NOT_FOUND, "%.200s: %s", path, strerror(cause));
    }
    if (!S_ISREG(about.st_mode) || !about.st_size) {
        close(file);
        return onnx_error(BP_ERR_INVALID, "%.200s: it is %s", path,
                          S_ISREG(about.st_mode)   ? "empty"
                          : S_ISDIR(about.st_mode) ? "a folder: name a file in it"
                                                   : "no regular file");
    }
    data = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (data == MAP_FAILED || !out_file) close(file);
    if (data == MAP_FAILED) return onnx_no_memory();
    if (out_file) *out_file = file;
    *out_data = data;
    *out_size = (size_t)about.st_size;
    return BP_OK;
}

void onnx_file_unmap(void *data, size_t size)
{
    munmap(data, size);
}
