/* SPDX-License-Identifier: Apache-2.0 */
/* guard.c: checks indices by functions of CANN, which itself does not: an index out of range would
 * read or write other memory. */
#include "call.h"

/* Indices that differ from their clamped values are bad; if there is one, the fault word gets 1. */
struct kit_arg npu_guard(struct kit_build *b, struct kit_arg index, int64_t n, bool negative)
{
    const struct bp_view *view = kit_arg_view(b, &index);
    int64_t axes[KIT_AXES_MAX] = {0, 1, 2, 3, 4, 5, 6, 7};
    struct kit_arg clamped, bad, any, extent, wrapped;

    if (!view || !n) kit_refuse(b);
    if (!view || !n || !view->count) return index;
    clamped = kit_temporary_like(b, view);
    bad = kit_temporary(b, BP_BOOL, view->rank, view->shape);
    any = kit_temporary(b, BP_BOOL, 0, NULL);
    KIT_STEP(b, "Clamp", index, KIT_SCALAR_IS(negative ? -n : 0), KIT_SCALAR_IS(n - 1), clamped);
    KIT_STEP(b, "NeTensor", index, clamped, bad);
    KIT_STEP(b, "Any", bad, kit_array(b, axes, view->rank), KIT_INT_IS(0), any);
    KIT_STEP(b, "InplaceMaskedFillScalar", kit_word(b), any, KIT_SCALAR_IS(1));
    if (!negative) return clamped;
    extent = kit_temporary_like(b, view);
    wrapped = kit_temporary_like(b, view);
    KIT_STEP(b, "InplaceFillScalar", extent, KIT_SCALAR_IS(n));
    KIT_STEP(b, "RemainderTensorTensor", clamped, extent, wrapped);
    return wrapped;
}
