/* SPDX-License-Identifier: Apache-2.0 */
/* standin.h: declares the functions that the files of the stand-ins for drivers share. A stand-in
 * is a library with the name and the functions of a real driver's library (libcuda.so.1,
 * libamdhip64.so.5), for machines without a GPU. It reads a plugin's embedded images as the driver
 * would read them; the simulator does the work, with the portable kernels compiled as C:
 *
 *   forwards.S     forwards each function of calls.def to the simulator's, unless another file
 *                  defines it
 *   cuda.c, hip.c  have the functions that only one driver has
 *   fatbin.c, ptx.c, cubin.c    read the images of cuda
 *   code_object.c, metadata.c   read those of hip
 *   image.c        has the functions that the readers share
 *   module.c       has modules, functions and launches: a launch must fit its image
 *
 * Kernels compiled as C are found by the names of their entry points: ../../standins/base.
 *
 * The environment:
 *
 *   BP_STANDIN_ARCH=80, or gfx90a: the architecture of the device; without it STANDIN_ARCH, for
 *                         which the build has compiled the images
 *   BP_STANDIN_LOG=file   a file that gets a line for each image, name or launch that is refused;
 *                         without it the line is written to the error output, which children of
 *                         `bp conform` have closed. The plugin receives only the driver's code. */
#ifndef STANDIN_H
#define STANDIN_H

#include "../../standins/base/compiled.h"
#include "simulator/sim.h"

/* The driver's functions, by their names in calls.def: standin_<name> has the driver's symbol. */
#undef GPU_WHERE
#ifdef SYMBOL_cuda
#define GPU_WHERE void *
#define STANDIN_SYMBOL(cuda, hip) __asm__(#cuda) __attribute__((visibility("default")))
#else
#define GPU_WHERE int
#define GPU_RETURNS_TEXT
#define STANDIN_SYMBOL(cuda, hip) __asm__(#hip) __attribute__((visibility("default")))
#endif
#define CALL(name, cuda, hip, parameters) int standin_##name parameters STANDIN_SYMBOL(cuda, hip);
#define CALL_OPTIONAL(result, name, cuda, hip, parameters) \
    result standin_##name parameters STANDIN_SYMBOL(cuda, hip);
#include "gpu/calls.def"

enum {
    STANDIN_PARAMETERS = 16, /* at most */
    STANDIN_LANES = 256      /* lanes of a team for which kernels are compiled */
};

/* The offset, size and kind of a parameter in the image; PTX and code of cuda do not state the
 * kind. */
struct standin_parameter {
    size_t offset, size;
    enum { STANDIN_UNTOLD, STANDIN_VALUE, STANDIN_ADDRESS, STANDIN_HIDDEN } kind;
};

/* A kernel of an image. */
struct standin_kernel {
    const char *name; /* in the image, or allocated by the reader */
    size_t size;      /* bytes of its parameters in the image */
    size_t n, lanes;  /* parameters; lanes of a team, or 0 if the image does not state them */
    struct standin_parameter parameter[STANDIN_PARAMETERS];
};

/* The kernels that a reader found in an image. The caller frees kernel, and names if it is not NULL
 * (standin_forget). */
struct standin_image {
    struct standin_kernel *kernel;
    size_t n;
    char *names;
};

/* The architecture of the device. */
const char *standin_arch(void);

/* fatbin.c or code_object.c: reads an image for the device. Returns 0, or the code that the driver
 * returns: SIM_INVALID_IMAGE, SIM_NO_IMAGE, SIM_OUT_OF_MEMORY. */
int standin_read(const void *image, struct standin_image *out);

/* ptx.c, cubin.c: read one part of a fat binary. */
int standin_read_ptx(const char *text, size_t length, struct standin_image *out);
int standin_read_cubin(const void *elf, size_t size, struct standin_image *out);

/* metadata.c: adds the metadata of a code object to its kernels. */
int standin_read_metadata(const void *data, size_t size, struct standin_image *image);

/* image.c: adds a kernel; returns 0 or SIM_OUT_OF_MEMORY. */
int standin_add(struct standin_image *image, const struct standin_kernel *kernel);
/* Checks that the kernel of an image has the parameters of the one compiled as C, by number, offset
 * and size. Returns 0 or SIM_INVALID_IMAGE. */
int standin_fits(const struct standin_kernel *kernel, const struct sim_kernel *compiled);
void standin_forget(struct standin_image *image);
/* Writes the message to BP_STANDIN_LOG; returns code. */
int standin_refuse(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The properties in which the drivers differ; cuda.c and hip.c each define them. */
extern const struct standin {
    const char *library;
    void *end;     /* the mark at the end of a launch's list */
    uint64_t most; /* a launch has fewer lanes, all teams together */
} standin;

#endif
