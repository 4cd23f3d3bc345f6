/* SPDX-License-Identifier: Apache-2.0 */
/* standin.h: what the files of the stand-ins for drivers share. A stand-in is a library with the
 * name and the functions of a real driver's (libcuda.so.1, libamdhip64.so.5), for machines without
 * a GPU. A plugin's embedded images are read as the driver would read them; the work is done by the
 * simulator, with the portable kernels compiled as C:
 *
 *   forwards.S     each function of calls.def goes to the simulator's, unless another file has it
 *   cuda.c, hip.c  what is peculiar to one driver
 *   fatbin.c, ptx.c, cubin.c    read the images of cuda
 *   code_object.c, metadata.c   read those of hip
 *   image.c        what the readers share
 *   module.c       modules, functions and launches: a launch must fit what its image says
 *   kernels.c      the kernels compiled as C, by the names of their entries
 *
 * The environment:
 *
 *   BP_STANDIN_ARCH=80, or gfx90a: what the device is; else STANDIN_ARCH, for which the build has
 *                         compiled the images
 *   BP_STANDIN_LOG=file   to which a line is added for each image, name or launch that is refused;
 *                         else it goes to the error output, which children of `bp conform` have
 *                         closed. The plugin gets the driver's code alone. */
#ifndef STANDIN_H
#define STANDIN_H

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
#define CALL_ASIDE(result, name, cuda, hip, parameters) \
    result standin_##name parameters STANDIN_SYMBOL(cuda, hip);
#include "gpu/calls.def"

enum {
    STANDIN_PARAMETERS = 16, /* at most */
    STANDIN_LANES = 256      /* of a team that kernels are compiled for */
};

/* Where a parameter lies, and what it is, as the image says; PTX and code of cuda do not say what
 * it is. */
struct standin_parameter {
    size_t offset, size;
    enum { STANDIN_UNTOLD, STANDIN_VALUE, STANDIN_ADDRESS, STANDIN_HIDDEN } kind;
};

/* A kernel that an image has. */
struct standin_kernel {
    const char *name; /* in the image, or of the reader */
    size_t size;      /* bytes of its parameters, as the image says */
    size_t n, lanes;  /* parameters; lanes of a team, or 0: the image does not say */
    struct standin_parameter parameter[STANDIN_PARAMETERS];
};

/* What a reader found in an image. kernel is to be freed; so are names, if it is not NULL. */
struct standin_image {
    struct standin_kernel *kernel;
    size_t n;
    char *names;
};

/* What the device is. */
const char *standin_arch(void);

/* fatbin.c or code_object.c: reads an image for the device. 0, or the code that the driver answers:
 * SIM_INVALID_IMAGE, SIM_NO_IMAGE, SIM_OUT_OF_MEMORY. */
int standin_read(const void *image, struct standin_image *out);

/* ptx.c, cubin.c: read one part of a fat binary. */
int standin_read_ptx(const char *text, size_t length, struct standin_image *out);
int standin_read_cubin(const void *elf, size_t size, struct standin_image *out);

/* metadata.c: adds to the kernels of a code object what its metadata say. */
int standin_read_metadata(const void *data, size_t size, struct standin_image *image);

/* image.c: adds a kernel: SIM_OUT_OF_MEMORY, or 0. */
int standin_add(struct standin_image *image, const struct standin_kernel *kernel);
/* Whether the kernel of an image has the parameters of the one that is compiled as C, by number,
 * place and size: 0, or SIM_INVALID_IMAGE. */
int standin_fits(const struct standin_kernel *kernel, const struct sim_kernel *compiled);
void standin_forget(struct standin_image *image);
/* Says what is wrong, to BP_STANDIN_LOG; returns code. */
int standin_refuse(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* kernels.c: the image of the simulator that has an entry, such as "bp_fold_f32"; NULL: none.
 * out_number: of the kernel in it, or NULL. And how many images there are. */
const struct sim_image *standin_compiled(const char *entry, size_t *out_number);
size_t standin_compiled_count(void);

/* What differs between the drivers, of cuda.c and of hip.c. */
extern const struct standin {
    const char *library;
    void *end;     /* of a launch's list */
    uint64_t most; /* lanes of a launch, all teams together, are fewer */
} standin;

#endif
