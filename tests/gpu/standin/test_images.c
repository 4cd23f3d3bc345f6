/* SPDX-License-Identifier: Apache-2.0 */
/* test_images.c: tests all images that the build made for a plugin, read as the stand-in for its
 * driver reads them. Each must have exactly those kernels of its family that are compiled as C, and
 * their parameters must be, by number, offset and size, the arguments of C, a count, and the
 * operands. The reader must also refuse a file that is not an image, and an image for another
 * device.
 *
 *   test_images FOLDER END [some]
 *
 * END: the end of the files' names, such as .fatbin; some: not all images are present. */
#include "standin.h"
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROOM = 1 << 24
};

static int number, failed;

static void test_images_report(bool good, const char *name)
{
    printf("%s %d - %s\n", good ? "ok" : "not ok", ++number, name);
    failed += !good;
}

/* Returns the whole file, followed by zeros; the caller frees it. NULL and a message on failure. */
static unsigned char *test_images_contents(const char *path, size_t *out_size)
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

/* Whether the kernels of an image are kernels of one family in C, with the same parameters. */
static bool test_images_fits(const char *path, const struct standin_image *image)
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
        size_t size = compiled->kernel[k].args_size + sizeof(int64_t) +
                      compiled->kernel[k].operands * sizeof(void *);
        if (kernel->size != size || standin_fits(kernel, &compiled->kernel[k])) {
            printf("# %s: %s takes %zu bytes, or others than the %zu of C\n", path, kernel->name,
                   kernel->size, size);
            return false;
        }
    }
    while (first && first->kernel[n].name) n++;
    if (n != image->n) printf("# %s: %zu kernels of %zu\n", path, image->n, n);
    return n == image->n;
}

static bool test_images_is_good(const char *path, const unsigned char *data, size_t *kernels)
{
    struct standin_image image = {0};
    bool good = data && !standin_read(data, &image) && test_images_fits(path, &image);

    *kernels += image.n;
    standin_forget(&image);
    return good;
}

/* Whether a file passes after the first occurrence of `from` in it has been replaced by `to`. Both
 * have the length of `to`, because `from` may contain a zero byte. */
static bool is_good_with(const char *path, const char *from, const char *to)
{
    size_t size = 0, length = strlen(to), kernels = 0;
    unsigned char *data = test_images_contents(path, &size), *at;
    bool good = true;

    at = data ? memmem(data, size, from, length) : NULL;
    if (at) {
        memcpy(at, to, length);
        good = test_images_is_good(path, data, &kernels);
    }
    free(data);
    return good;
}

/* Returns the reader's result for a file with one byte changed. */
static int test_images_changed(const char *path, size_t at, unsigned char to)
{
    struct standin_image image = {0};
    size_t size;
    unsigned char *data = test_images_contents(path, &size);
    int code = -1;

    if (data) {
        data[at] = to;
        code = standin_read(data, &image);
        standin_forget(&image);
        free(data);
    }
    return code;
}

static void test_images_refuse(const char *path, bool elf)
{
    test_images_report(test_images_changed(path, 1, 'X') == SIM_INVALID_IMAGE,
                       "an image without its magic is refused");
    if (elf) {
        test_images_report(test_images_changed(path, 18, 62) == SIM_INVALID_IMAGE,
                           "code for a processor is refused");
        test_images_report(test_images_changed(path, 7, 0) == SIM_INVALID_IMAGE,
                           "code for another system is refused");
        test_images_report(test_images_changed(path, 48, 0x2c) == SIM_NO_IMAGE,
                           "code for gfx900 is for another device");
        test_images_report(!is_good_with(path, ".offset\x00", ".offset\x04"),
                           "a parameter has another place");
        test_images_report(!is_good_with(path, ".size\x08", ".size\x04"),
                           "a parameter has another size");
        test_images_report(!is_good_with(path, "global_buffer", "hidden_global"),
                           "a parameter is hidden");
        test_images_report(!is_good_with(path, ".args", ".argt"),
                           "a kernel has no list of parameters");
    } else {
        test_images_report(test_images_changed(path, 16 + 41, 0x80) == SIM_INVALID_IMAGE,
                           "a compressed part is refused");
        test_images_report(test_images_changed(path, 16 + 28, 121) == SIM_NO_IMAGE,
                           "PTX of 121 is for another device");
        test_images_report(test_images_changed(path, 16 + 12, 1) == SIM_INVALID_IMAGE,
                           "a part that is too long is refused");
        test_images_report(!is_good_with(path, ".param .u64 bp_", ".param .u32 bp_"),
                           "a parameter has another size");
        test_images_report(!is_good_with(path, ",\n.param .u64 bp_", " \n.param .u64 bp_"),
                           "a parameter is missing");
        test_images_report(!is_good_with(path, ".align 8 .b8 bp_", ".align 8 .f3 bp_"),
                           "a parameter is not understood");
    }
}

int main(int argc, char **argv)
{
    size_t files = 0, bad = 0, kernels = 0, length = strlen(argv[2]);
    char some[4096] = "", path[4096];
    unsigned char *data;
    size_t size;
    struct dirent *entry;
    DIR *folder = argc > 2 ? opendir(argv[1]) : NULL;

    setenv("BP_STANDIN_LOG", "/dev/null", 0);
    while (folder && (entry = readdir(folder)) != NULL) {
        size_t n = strlen(entry->d_name);
        if (n <= length || strcmp(entry->d_name + n - length, argv[2]) != 0) continue;
        files++;
        snprintf(path, sizeof path, "%s/%s", argv[1], entry->d_name);
        /* The image that is changed below is the first by name: readdir has no fixed order. */
        if (!*some || strcmp(path, some) < 0) memcpy(some, path, sizeof some);
        data = test_images_contents(path, &size);
        bad += !test_images_is_good(path, data, &kernels);
        free(data);
    }
    if (folder) closedir(folder);
    printf("# %zu images, %zu kernels, %zu images are bad\n", files, kernels, bad);
    test_images_report(files && !bad,
                       "the images have the kernels that C has, with the same parameters");
    if (argc == 3)
        test_images_report(files && files % standin_compiled_count() == 0,
                           "there is an image of each family and type");
    if (argc == 3 && files) test_images_refuse(some, strcmp(argv[2], ".co") == 0);
    printf("1..%d\n", number);
    return failed > 0;
}
