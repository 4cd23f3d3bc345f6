/* SPDX-License-Identifier: Apache-2.0 */
/* divisors.c: builds the rows of common divisors and multiples, by Euclid's algorithm in i64: a
 * round divides all pairs. */
#include "builds.h"
#include "rounds.h"

/* The most divisions of numbers of a dtype: those of neighbours in Fibonacci's sequence. */
static int64_t divisors_rounds(uint32_t dtype)
{
    switch (dtype) {
    case BP_I8: return 12;
    case BP_U8: return 13;
    case BP_I16: return 24;
    case BP_I32: return 46;
    default: return 92;
    }
}

/* The magnitude of an input. The lowest i64 stays negative: divisions give its remainders, but for
 * the sign. */
static struct kit_arg divisors_in(struct kit_build *b, uint32_t port)
{
    return part_one(b, "Abs", part_cast(b, KIT_VALUE(KIT_IN(port)), BP_I64));
}

/* (a, b) becomes (b, a mod b) until b is 0. a has the broadcast shape. */
static struct kit_arg divisors_common(struct kit_build *b)
{
    const struct bp_view *z = b->out[0];
    const struct kit_arg zero = KIT_SCALAR_IS(0), one = KIT_SCALAR_IS(1);
    struct kit_arg numbers[2], done, next;
    struct npu_rounds rounds;

    for (uint32_t i = 0; i < 2; i++) {
        numbers[i] = kit_temporary(b, BP_I64, z->rank, z->shape);
        npu_state_set(b, numbers[i], divisors_in(b, i));
    }
    rounds = npu_rounds_begin(b);
    done = part_compare(b, "EqTensor", numbers[1], zero);
    next = part_where_number(b, done, one, numbers[1]);
    next = part_where_number(b, done, zero, part_two(b, "FmodTensor", numbers[0], next));
    npu_state_set(b, numbers[0], part_where(b, done, numbers[0], numbers[1]));
    npu_state_set(b, numbers[1], next);
    npu_rounds_end(b, &rounds, divisors_rounds(z->dtype));
    return part_one(b, "Abs", numbers[0]);
}

enum bp_status npu_gcd_build(struct kit_build *b)
{
    npu_finish(b, divisors_common(b), NPU_OUT(0));
    return part_pack(b);
}

/* The divisor of two zeros is 0; the multiple then is 0 by the other factor. */
enum bp_status npu_lcm_build(struct kit_build *b)
{
    struct kit_arg divisor = divisors_common(b), one = KIT_SCALAR_IS(1), part;

    divisor = part_where_number(
        b, part_compare(b, "EqTensor", divisor, KIT_VALUE(KIT_SCALAR_IS(0))), one, divisor);
    part = part_two(b, "FloorDivide", divisors_in(b, 0), divisor);
    npu_finish(b, part_two(b, "Mul", part, divisors_in(b, 1)), NPU_OUT(0));
    return part_pack(b);
}
