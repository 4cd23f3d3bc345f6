/* SPDX-License-Identifier: Apache-2.0 */
/* call.h: kernel rows by CANN's functions of operators, aclnnX.
 *
 * How to add a row. A line in one of the lists rows_*.def is one row; rows_all.def includes the
 * lists. Arguments are those of the function, in its order, without the last two (the size of the
 * workspace and the executor); kit/rows.h has the words.
 *
 *   NPU_ROW(exp, , BP_M(F32) | BP_M(F16) | BP_M(BF16), 0, 0, 0, BP_KERNEL_STRIDED, "Exp",
 *           KIT_IN(0), KIT_OUT(0))
 *
 * is npu_exp, which calls aclnnExp(self, out): the operator, an end of the name ("_scalar"), the
 * dtypes of the type variables T, U, I, R, flags of kernel.h, the function.
 *
 *   NPU_ROW(add, , NPU_NUMBERS, 0, 0, 0, BP_KERNEL_STRIDED, "Add", KIT_IN(0), KIT_IN(1),
 *           KIT_SCALAR_IS(1), KIT_OUT(0))
 *
 * calls aclnnAdd(self, other, alpha, out) with alpha 1.
 *
 *   NPU_ROW(sum, , NPU_NUMBERS, 0, 0, 0, BP_KERNEL_STRIDED, "ReduceSum", KIT_IN(0),
 *           KIT_AXES(sum, axes, 0), KIT_INT(sum, keep), KIT_OUT_DTYPE(0), KIT_OUT(0))
 *
 * calls aclnnReduceSum(self, dims, keepDims, dtype, out) with the operator's attributes.
 *
 * Where this does not suffice, a function adds the steps (kit/rows.h has an example); list all
 * functions that it calls, because the row exists only if all of them do:
 *
 *   NPU_BUILT(scale, , NPU_FLOATS, 0, 0, 0, BP_KERNEL_STRIDED, "Muls Adds", npu_scale_build)
 *   NPU_BUILT_EACH(...)   the same, where attributes marked RUN in schema.def are used
 *
 * Declare the function in the list, above its row: `NPU_BUILD(npu_scale_build)`.
 *
 *   NPU_ROW_OR(sum, , NPU_NUMBERS, 0, 0, 0, BP_KERNEL_STRIDED, 0, "ReduceSum", ...)
 *
 * is NPU_ROW with a number for the outputs of inputs without elements: NPU_ROW refuses such inputs.
 *
 * Of all rows, outputs without elements are left alone. Strides that are zero or negative are
 * refused, and the core passes a contiguous copy instead. bf16 is refused on products without it. A
 * function that refuses the tensors in phase 1 makes the core try the next row.
 *
 * npu_image(arg) gives a tensor the format NCL, NCHW or NCDHW by its rank, which functions for
 * images demand. NPU_CUBE is cubeMathType. npu_guard checks indices. */
#ifndef NPU_CALL_H
#define NPU_CALL_H

#include "npu.h"
#include <backplane/attrs.h>
#include <kit/rows.h>

/* The dtypes of most functions. */
#define NPU_HALVES (BP_M(F16) | BP_M(BF16))
#define NPU_FLOATS (BP_M(F32) | NPU_HALVES)
#define NPU_INTS (BP_M(I8) | BP_M(I16) | BP_M(I32) | BP_M(I64) | BP_M(U8))
#define NPU_NUMBERS (NPU_FLOATS | BP_M(F64) | NPU_INTS)

/* The plugin's own values: KIT_OWN(NPU_OWN_CUBE). */
enum {
    NPU_OWN_CUBE = 1
};
#define NPU_CUBE KIT_OWN(NPU_OWN_CUBE)

/* Formats of tensors: aclFormat + 1, so that 0 is the usual one. */
enum {
    NPU_FORMAT_ND = 3,
    NPU_FORMAT_NCHW = 1,
    NPU_FORMAT_NCL = 48,
    NPU_FORMAT_NCDHW = 31,
    NPU_FORMAT_NZ = 30,
    NPU_FORMAT_TO_NZ = 254, /* ND, in memory that has room for NZ */
    NPU_FORMAT_IMAGE = 255  /* of the latter three, by the rank */
};
#define NPU_IMAGE_IN(port) KIT_ARG(.from = KIT_FROM_IN, .at = port, .format = NPU_FORMAT_IMAGE)
#define NPU_IMAGE_OUT(port) KIT_ARG(.from = KIT_FROM_OUT, .at = port, .format = NPU_FORMAT_IMAGE)
struct kit_arg npu_image(struct kit_arg arg);

/* guard.c: adds steps which check that all indices are in [-n, n), or in [0, n) if not `negative`,
 * and let the launch report BP_ERR_FAULT otherwise. Returns the indices in [0, n), with bad ones
 * replaced, for the function that uses them; an argument of the same shape. A row that uses it
 * lists NPU_GUARD_FUNCTIONS. */
struct kit_arg npu_guard(struct kit_build *b, struct kit_arg index, int64_t n, bool negative);
#define NPU_GUARD_FUNCTIONS \
    "Clamp NeTensor Any InplaceMaskedFillScalar InplaceFillScalar RemainderTensorTensor"

/* layouts.c: the layouts of tensors that rows name, from 1. */
enum {
    NPU_LAYOUT_NZ = 1,
    NPU_LAYOUTS = 1
};
extern const struct bp_layout npu_layouts[NPU_LAYOUTS];
/* The elements of a matrix in FRACTAL_NZ, with padding. */
int64_t npu_nz_elements(const struct bp_view *view);

/* The callbacks of all rows, and the table beside the kernel rows: rows.c. */
enum bp_status npu_row_prepare(void *self, const struct bp_prep *prep, struct bp_plan *out);
enum bp_status npu_row_launch(const struct bp_launch *launch);
void npu_row_destroy(void *self, const struct bp_kernel *kernel, void *plan);
const struct kit_row *npu_row_of(const struct bp_kernel *kernel);

/* The functions that add the steps of rows. */
#define NPU_BUILD(function) enum bp_status function(struct kit_build *b);
#define NPU_ROW(...)
#define NPU_ROW_OR(...)
#define NPU_BUILT(...)
#define NPU_BUILT_EACH(...)
#define NPU_LAID(...)
#include "rows_all.def"
#undef NPU_BUILD
#undef NPU_ROW
#undef NPU_ROW_OR
#undef NPU_BUILT
#undef NPU_BUILT_EACH
#undef NPU_LAID

#endif
