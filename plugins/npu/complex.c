/* SPDX-License-Identifier: Apache-2.0 */
/* complex.c: builds the rows that make complex numbers of parts, and take them apart: copies of
 * every second number. */
#include "builds.h"
#include "compose.h"

struct kit_arg npu_complex_part(struct kit_build *b, struct kit_arg z, int64_t part)
{
    const struct bp_view *type = npu_type(b, z);
    const uint32_t dtype = type->dtype == BP_C64 ? BP_F32 : BP_F64;
    int64_t stride[KIT_AXES_MAX], step = 2;

    if (b->status) return NPU_NONE;
    for (uint32_t a = type->rank; a-- > 0; step *= type->shape[a]) stride[a] = step;
    return kit_alias(b, z, dtype, type->rank, type->shape, stride,
                     part * (int64_t)part_item_size(dtype));
}

static enum bp_status complex_copy(struct kit_build *b, struct kit_arg from, struct kit_arg to)
{
    return KIT_STEP(b, "InplaceCopy", kit_as(to, KIT_UPDATES), from);
}

enum bp_status npu_real_build(struct kit_build *b)
{
    return complex_copy(b, npu_complex_part(b, NPU_IN(0), 0), NPU_OUT(0));
}

enum bp_status npu_imag_build(struct kit_build *b)
{
    return complex_copy(b, npu_complex_part(b, NPU_IN(0), 1), NPU_OUT(0));
}

enum bp_status npu_complex_build(struct kit_build *b)
{
    complex_copy(b, NPU_IN(0), npu_complex_part(b, NPU_OUT(0), 0));
    return complex_copy(b, NPU_IN(1), npu_complex_part(b, NPU_OUT(0), 1));
}

enum bp_status npu_conj_build(struct kit_build *b)
{
    complex_copy(b, npu_complex_part(b, NPU_IN(0), 0), npu_complex_part(b, NPU_OUT(0), 0));
    complex_copy(b, part_one(b, "Neg", npu_complex_part(b, NPU_IN(0), 1)),
                 npu_complex_part(b, NPU_OUT(0), 1));
    return part_pack(b);
}

enum bp_status npu_angle_build(struct kit_build *b)
{
    return KIT_STEP(b, "Atan2", npu_complex_part(b, NPU_IN(0), 1),
                    npu_complex_part(b, NPU_IN(0), 0), NPU_OUT(0));
}

enum bp_status npu_complex_abs_build(struct kit_build *b)
{
    struct kit_arg part[2];
    bool is_wide;

    for (int64_t i = 0; i < 2; i++) part[i] = npu_complex_part(b, NPU_IN(0), i);
    is_wide = part_dtype(b, part[0]) == BP_F64;
    return part_end(
        b, npu_hypot(b, part_cast(b, part[0], BP_F64), part_cast(b, part[1], BP_F64), is_wide));
}

/* The same memory, of which the complex side is seen as parts. */
static enum bp_status complex_parts(struct kit_build *b, struct kit_arg z, struct kit_arg parts,
                                    bool is_out)
{
    const struct bp_view *type = npu_type(b, parts);
    struct kit_arg seen = kit_alias(b, z, type->dtype, type->rank, type->shape, NULL, 0);

    return is_out ? complex_copy(b, parts, seen) : complex_copy(b, seen, parts);
}

enum bp_status npu_as_real_build(struct kit_build *b)
{
    return complex_parts(b, NPU_IN(0), NPU_OUT(0), false);
}

enum bp_status npu_as_complex_build(struct kit_build *b)
{
    return complex_parts(b, NPU_OUT(0), NPU_IN(0), true);
}
