/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_args.h: numbers of the kernels of kernel.h, which launches work out. */
#ifndef BP_KERNELS_PATCHES_ARGS_H
#define BP_KERNELS_PATCHES_ARGS_H

#include "../../dialect/dialect.h"

/* Images of height x width, and windows of kh x kw, oh x ow of them: row p sh + i dh - top. */
struct patches_take_args {
    i64 height, width, kh, kw, oh, ow, sh, sw, dh, dw, top, left;
};
#define patches_add_args patches_take_args

#endif
