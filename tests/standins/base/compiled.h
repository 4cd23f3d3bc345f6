/* SPDX-License-Identifier: Apache-2.0 */
/* compiled.h: declares how stand-ins find the portable kernels that were compiled as C, in the
 * library libbp_standin_kernels.so. */
#ifndef STANDINS_COMPILED_H
#define STANDINS_COMPILED_H

#include "simulator/image.h"

/* kernels.c: standin_compiled returns the simulator's image that has an entry point, such as
 * "bp_softmax_f32"; NULL: none. out_number (may be NULL): the number of the kernel in it.
 * standin_compiled_count returns the number of images. */
const struct sim_image *standin_compiled(const char *entry, size_t *out_number);
size_t standin_compiled_count(void);

#endif
