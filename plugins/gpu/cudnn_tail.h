/* SPDX-License-Identifier: Apache-2.0 */
/* cudnn_tail.h: computes what follows a convolution in fused_conv and is not part of the library's
 * call: y = activation(y + bias + residual), in place. */
#ifndef GPU_CUDNN_TAIL_H
#define GPU_CUDNN_TAIL_H

#include "epilogue.h"

/* One kernel that is compiled at run time; or, where the plugin has no compiler, the portable
 * kernels of the addition and of the activation, one after the other. */
struct cudnn_tail {
    bool bias, residual;
    const struct bp_kernel *compiled; /* the row of `fused`, and its plan; or NULL */
    void *plan;
    const struct bp_kernel *add;
    struct gpu_epilogue activation;
};

/* Plans the steps for a call of fused_conv, whose bias is input 2 and residual input 3. A plan with
 * two steps or more is compiled if that is possible; a bias is added by a compiled kernel only.
 * false: they cannot be computed; nothing is left to destroy. */
bool cudnn_tail_init(struct cudnn_tail *out, struct gpu *gpu, const struct bp_prep *prep, bool bias,
                     bool residual, bool activation);
void cudnn_tail_finish(struct cudnn_tail *tail, struct gpu *gpu);
/* Enqueues the steps behind the convolution. */
enum bp_status cudnn_tail_run(const struct cudnn_tail *tail, const struct bp_launch *launch);

#endif
