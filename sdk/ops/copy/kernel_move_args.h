/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_move_args.h: numbers of the kernel of kernel_move.h: where elements go (operand 0), where
 * they are. */
#ifndef BP_KERNELS_MOVE_ARGS_H
#define BP_KERNELS_MOVE_ARGS_H

#include "../../dialect/walk.h"

struct move_args {
    struct walk_by_value walk;
};

#endif
