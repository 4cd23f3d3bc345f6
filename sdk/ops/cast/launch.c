/* SPDX-License-Identifier: Apache-2.0 */
/* launch.c: launches the cast kernel of kernel.h. */
#include "kernel.h"
#include "../../dialect/float8.h"
#include "../../dialect/portable.h"
#include "../../dialect/run_size.h"
#include "../../dialect/walk_plan.h"

_Static_assert((int)BP_CAST_ROUND_NEAREST == F8_NEAREST && (int)BP_CAST_ROUND_UP == F8_UP &&
                   (int)BP_CAST_ROUND_DOWN == F8_DOWN,
               "float8.h has the values of the attribute round");

static int64_t cast_of(uint32_t dtype)
{
    switch (dtype) {
    case BP_BOOL: return CAST_OF_BOOL;
    case BP_F8E4M3: return CAST_OF_E4M3;
    case BP_F8E5M2: return CAST_OF_E5M2;
    case BP_F8E8M0: return CAST_OF_E8M0;
    case BP_F8E4M3FNUZ: return CAST_OF_E4M3FNUZ;
    case BP_F8E5M2FNUZ: return CAST_OF_E5M2FNUZ;
    default: return CAST_OF_ELEM;
    }
}

enum bp_status portable_cast(const struct bp_launch *launch)
{
    static const uint8_t number[] = {
        [BP_BOOL] = CAST_bool, [BP_I8] = CAST_i8,   [BP_I16] = CAST_i16, [BP_I32] = CAST_i32,
        [BP_I64] = CAST_i64,   [BP_U8] = CAST_u8,   [BP_U16] = CAST_u16, [BP_U32] = CAST_u32,
        [BP_U64] = CAST_u64,   [BP_F16] = CAST_f16, [BP_BF16] = CAST_bf16, [BP_F32] = CAST_f32,
        [BP_F64] = CAST_f64, [BP_F8E4M3] = CAST_f8e4m3, [BP_F8E5M2] = CAST_f8e5m2,
        [BP_F8E8M0] = CAST_f8e8m0, [BP_F8E4M3FNUZ] = CAST_f8e4m3fnuz,
        [BP_F8E5M2FNUZ] = CAST_f8e5m2fnuz,
    };
    const struct bp_cast_attrs *a = launch->attrs;
    const struct bp_view *y = launch->out[0], *const *x = launch->in;
    struct cast_args args = {walk_of(y, x, 1), number[y->dtype], cast_of(x[0]->dtype),
                             !a->overflow, a->round};
    struct portable p = PORTABLE(cast, cast, portable_type(x[0]->dtype), args, y->count, 2);

    portable_view(&p, y);
    portable_view(&p, x[0]);
    walk_divide(&args.walk, 2, CAST_RUN_OF(portable_type_bytes(p.type)), &p);
    return portable_run(launch, &p);
}
