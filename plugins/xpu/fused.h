/* SPDX-License-Identifier: Apache-2.0 */
/* fused.h: declares how the plugin compiles `fused`: one kernel for each code, dtype and pattern of
 * strides. */
#ifndef XPU_FUSED_H
#define XPU_FUSED_H

#include "xpu.h"
#include <backplane/fused.h>

enum {
    FUSED_OPERANDS = BP_FUSED_OUT + BP_FUSED_IN,
    FUSED_RANK = 8,
    FUSED_TILE = 256 /* elements of which a processor keeps values between loops */
};

/* How an operand lies in memory, for elements in the order of the first result's memory. */
enum fused_kind {
    FUSED_DENSE,  /* adjacent elements */
    FUSED_SCALAR, /* one element, repeated */
    FUSED_ROW,    /* adjacent along the innermost axis */
    FUSED_HELD,   /* repeated along the innermost axis */
    FUSED_STRIDED
};

/* The operands of a call, results first, and the axes that they share. Axis 0 is the outermost. */
struct fused_walk {
    int n_out, n, rank; /* n: results and inputs */
    int64_t count, shape[FUSED_RANK], stride[FUSED_OPERANDS][FUSED_RANK];
    enum fused_kind kind[FUSED_OPERANDS];
};

/* fused_walk.c: joins and sorts the axes of a call, and finds the kind of each operand. */
void xpu_fused_walk(const struct bp_prep *prep, struct fused_walk *out);

/* Whether the kernel reads the strides of an operand from its arguments. */
static inline bool fused_has_strides(const struct fused_walk *w, int operand)
{
    return w->kind[operand] > FUSED_SCALAR;
}

/* fused_print.c: prints the kernel bp_fused in the dialect, in memory from malloc. The text depends
 * on the kinds of the operands and on the rank, not on extents and strides. NULL: out of memory,
 * or the code names an operator that this plugin, or a device without f64, does not have.
 * *out_work: the cost of an element, in additions. */
char *xpu_fused_print(struct bp_dims code, enum portable_type type, const struct xpu_device *device,
                      const struct fused_walk *walk, double *out_work);

/* A compiled kernel, of the list of its device. */
struct xpu_fused {
    struct xpu_fused *next;
    struct xpu_device *device;
    struct xpu_kernel kernel;
    enum portable_type type;
    uint32_t users; /* plans; a kernel without users is kept for later plans, while there are few */
    char *text;
};

/* fused_kernel.c: returns the kernel of this text, which is compiled if the device does not have
 * it. xpu_fused_put: the plan that had the kernel ends. */
enum bp_status xpu_fused_get(struct xpu_device *device, enum portable_type type, const char *text,
                             struct xpu_fused **out);
void xpu_fused_put(struct xpu_device *device, struct xpu_fused *kernel);
void xpu_fused_finish(struct xpu_device *device);

#endif
