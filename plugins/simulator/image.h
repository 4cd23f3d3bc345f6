/* SPDX-License-Identifier: Apache-2.0 */
/* image.h: declares the simulator's image of a kernel module: the entries of one family of portable
 * kernels for one type. */
#ifndef SIM_IMAGE_H
#define SIM_IMAGE_H

#include <stddef.h>
#include <stdint.h>

/* An entry of a portable kernel: computes elements or teams begin to begin + count - 1. */
typedef void sim_entry(const void *args, void *const *operand, int64_t begin, int64_t count);

/* The properties of a kernel that all types share. */
struct sim_kernel {
    const char *name; /* NULL: the end of the list */
    size_t args_size, operands;
};

enum { SIM_IMAGE = 0x1a6e, SIM_IMAGE_OF_OTHERS, SIM_IMAGE_COMPILED };

struct sim_image {
    uint32_t magic; /* SIM_IMAGE, or the number of an image for another device */
    const char *type;
    const struct sim_kernel *kernel;
    sim_entry *const *entry;
};

/* The image of the kernel bp_fused, compiled at run time by the stand-ins for NVRTC and hiprtc
 * (rtc.c): this head, and a shared object with the function sim_compiled_entry. */
struct sim_program {
    uint32_t magic; /* SIM_IMAGE_COMPILED */
    uint32_t unused;
    uint64_t size; /* bytes of the object */
    uint64_t args_size, operands;
};

#endif
