/* SPDX-License-Identifier: Apache-2.0 */
/* fused.h: declares how the plugin compiles `fused`: one kernel for each code, dtype and pattern of
 * strides. */
#ifndef XPU_FUSED_H
#define XPU_FUSED_H

#include "xpu.h"
#include <dialect/fused_walk.h>

/* A compiled kernel, of the cache of its device. */
struct xpu_fused {
    struct kit_cached kit; /* must be first */
    struct xpu_device *device;
    struct xpu_kernel kernel;
};

/* fused_kernel.c: returns the kernel of this text, which is compiled if the device does not have
 * it. xpu_fused_put: the plan that had the kernel ends. */
enum bp_status xpu_fused_get(struct xpu_device *device, enum portable_type type, const char *text,
                             struct xpu_fused **out);
void xpu_fused_put(struct xpu_device *device, struct xpu_fused *kernel);
void xpu_fused_finish(struct xpu_device *device);

#endif
