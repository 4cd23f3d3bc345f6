/* SPDX-License-Identifier: Apache-2.0 */
/* test_images.c: all images that the build made for a plugin, read as the stand-in for its driver
 * reads them: each has the kernels of its family that are compiled as C, no others, and their
 * parameters are as many bytes as the host gives: the arguments of C, a count, operands. And the
 * reader refuses what is no image, and one for another device.
 *
 *   test_images FOLDER END [some]
 *
 * END: of the files' names, as .fatbin; some: not all are there. */
#include "standin.h"
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    OPERANDS = 16,
    ROOM = 1 << 24
};

static int number, failed;

static void report(bool good, const char *name)
{
    printf("%s %d - %s\n", good ? "ok" : "not ok", ++number, name);
    failed += !good;
}

/* The whole file, with zeros behind it; to be freed. NULL and a message. */
static unsigned char *contents(const char *path, size_t *out_size)
{
    unsigned char *data = calloc(1, ROOM);
    FILE *file = fopen(path, "rb");

    if (data && file) *out_size = fread(data, 1, ROOM - 1, file);
    if (!data || !file || ferror(file)) {
        printf("# %s: %s\n", path, strerror(errno));
        free(data);
        data = NULL;
    }
    if (file) fclose(file);
    return data;
}

/* Whether the kernels of an image are those of one family that C has, with the same parameters. */
static bool fits(const char *path, const struct standin_image *image)
{
    const struct sim_image *first = NULL, *compiled;
    size_t n = 0, i, k;

    for (i = 0; i < image->n; i++) {
        const struct standin_kernel *kernel = &image->kernel[i];
        compiled = standin_compiled(kernel->name, &k);
        if (!first) first = compiled;
        if (!compiled || compiled != first) {
            printf("# %s: %s is no kernel of this family\n", path, kernel->name);
            return false;
        }
        size_t head = compiled->kernel[k].args_size + sizeof(int64_t);
        if (kernel->size <= head || (kernel->size - head) % sizeof(void *) != 0 ||
            (kernel->size - head) / sizeof(void *) > OPERANDS) {
            printf("# %s: %s takes %zu bytes; its arguments and count are %zu\n", path,
                   kernel->name, kernel->size, head);
            return false;
        }
    }
    while (first && first->kernel[n].name) n++;
    if (n != image->n) printf("# %s: %zu kernels of %zu\n", path, image->n, n);
    return n == image->n;
}

static bool is_good(const char *folder, const char *name, size_t *kernels)
{
    struct standin_image image = {0};
    char path[4096];
    size_t size;
    unsigned char *data;
    bool good;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    data = contents(path, &size);
    good = data && !standin_read(data, &image) && fits(name, &image);
    *kernels += image.n;
    standin_forget(&image);
    free(data);
    return good;
}

/* The answer to a file of which one byte is another. */
static int changed(const char *path, size_t at, unsigned char to)
{
    struct standin_image image = {0};
    size_t size;
    unsigned char *data = contents(path, &size);
    int code = -1;

    if (data) {
        data[at] = to;
        code = standin_read(data, &image);
        standin_forget(&image);
        free(data);
    }
    return code;
}

static void refuse(const char *path, bool elf)
{
    report(changed(path, 1, 'X') == SIM_INVALID_IMAGE, "an image without its magic is refused");
    if (elf) {
        report(changed(path, 18, 62) == SIM_INVALID_IMAGE, "code for a processor is refused");
        report(changed(path, 7, 0) == SIM_INVALID_IMAGE, "code for another system is refused");
        report(changed(path, 48, 0x2c) == SIM_NO_IMAGE, "code for gfx900 is for another device");
    } else {
        report(changed(path, 16 + 41, 0x80) == SIM_INVALID_IMAGE, "a compressed part is refused");
        report(changed(path, 16 + 28, 121) == SIM_NO_IMAGE, "PTX of 121 is for another device");
        report(changed(path, 16 + 12, 1) == SIM_INVALID_IMAGE,
               "a part that is too long is refused");
    }
}

int main(int argc, char **argv)
{
    size_t files = 0, bad = 0, kernels = 0, length = strlen(argv[2]);
    char some[4096] = "";
    struct dirent *entry;
    DIR *folder = argc > 2 ? opendir(argv[1]) : NULL;

    setenv("BP_STANDIN_LOG", "/dev/null", 0);
    while (folder && (entry = readdir(folder)) != NULL) {
        size_t n = strlen(entry->d_name);
        if (n <= length || strcmp(entry->d_name + n - length, argv[2]) != 0) continue;
        files++;
        bad += !is_good(argv[1], entry->d_name, &kernels);
        snprintf(some, sizeof some, "%s/%s", argv[1], entry->d_name);
    }
    if (folder) closedir(folder);
    printf("1..%d\n# %zu images, %zu kernels, %zu images are bad\n", argc > 3 ? 1 : 6, files,
           kernels, bad);
    report(files && !bad, "the images have the kernels that C has, with the same parameters");
    if (argc > 3) return failed > 0;
    report(files && files % standin_compiled_count() == 0,
           "there is an image of each family and type");
    if (files) refuse(some, strcmp(argv[2], ".co") == 0);
    return failed > 0;
}
