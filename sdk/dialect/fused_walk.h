/* SPDX-License-Identifier: Apache-2.0 */
/* fused_walk.h: declares how a kernel of `fused` visits elements: a plugin whose driver compiles
 * source code at run time prints one kernel for each code, dtype and pattern of strides. */
#ifndef BP_DIALECT_FUSED_WALK_H
#define BP_DIALECT_FUSED_WALK_H

#include "portable.h"
#include <backplane/fused.h>
#include <stdbool.h>

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

/* The longest extents and strides, in numbers of 64 bits. */
enum {
    FUSED_ARGS = FUSED_RANK * (1 + FUSED_OPERANDS)
};

/* fused_walk.c: joins and sorts the axes of a call, and finds the kind of each operand. */
void portable_fused_walk(const struct bp_prep *prep, struct fused_walk *out);
/* Fills the kernel's struct fused_args; returns its size in bytes, 0 if the kernel has none. */
size_t portable_fused_args(const struct fused_walk *walk, int64_t out[FUSED_ARGS]);

/* Whether the kernel reads the strides of an operand from its arguments. */
static inline bool fused_has_strides(const struct fused_walk *w, int operand)
{
    return w->kind[operand] > FUSED_SCALAR;
}

/* The properties of a device on which the kernel's text depends. */
struct fused_device {
    bool is_processor; /* the compiler vectorises loops over elements */
    bool has_f64;
    bool has_buffers; /* an operand is a buffer and an offset in it, and not an address; a launch
                          may compute a part of the elements, in runs */
};

/* fused_print.c: prints the kernel bp_fused in the dialect, in memory from malloc:
 *
 *   bp_fused(args, count, operands)        args: portable_fused_args, absent if it has no bytes
 *   bp_fused(args, count, run, operands)   if the device has buffers
 *
 * The functions of fused_functions.h must stand before the text. The text depends on the kinds of
 * the operands and on the rank, not on extents and strides. NULL: out of memory, or the code names
 * an operator that this version, or a device without f64, does not have. *out_work: the cost of an
 * element, in additions. */
char *portable_fused_print(struct bp_dims code, enum portable_type type,
                           const struct fused_device *device, const struct fused_walk *walk,
                           double *out_work);

#endif
