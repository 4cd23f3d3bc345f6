/* SPDX-License-Identifier: Apache-2.0 */
/* reduce_type.h: contains the loops of reduce.c for one dtype. The includer defines these macros,
 * and this file undefines them: TYPE, the name of the dtype in function names; ELEMENT, the type in
 * memory; NUMBER, the type of the computation; LOAD and STORE, which convert between the two; WIDE,
 * a type in which sums and products do not overflow in an undefined manner; DIVISOR, the type in
 * which averages are divided; IS_NAN; IN_PLACE, if ELEMENT and NUMBER are one type and results are
 * computed directly in dst. */
#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define FN(name) JOIN(TYPE, name)

INLINE NUMBER FN(min)(NUMBER a, NUMBER b)
{
    return a < b || IS_NAN(a) ? a : b;
}

INLINE NUMBER FN(max)(NUMBER a, NUMBER b)
{
    return a > b || IS_NAN(a) ? a : b;
}

/* acc = the reduction of a and b. */
INLINE void FN(pair)(uint32_t reduction, NUMBER *acc, const ELEMENT *a, const ELEMENT *b, size_t n)
{
    switch (reduction) {
    case BP_REDUCE_PRODUCT:
        for (size_t i = 0; i < n; i++) acc[i] = (NUMBER)((WIDE)LOAD(a[i]) * (WIDE)LOAD(b[i]));
        break;
    case BP_REDUCE_MIN:
        for (size_t i = 0; i < n; i++) acc[i] = FN(min)(LOAD(a[i]), LOAD(b[i]));
        break;
    case BP_REDUCE_MAX:
        for (size_t i = 0; i < n; i++) acc[i] = FN(max)(LOAD(a[i]), LOAD(b[i]));
        break;
    default:
        for (size_t i = 0; i < n; i++) acc[i] = (NUMBER)((WIDE)LOAD(a[i]) + (WIDE)LOAD(b[i]));
    }
}

/* acc = the reduction of acc and b. */
INLINE void FN(step)(uint32_t reduction, NUMBER *acc, const ELEMENT *b, size_t n)
{
    switch (reduction) {
    case BP_REDUCE_PRODUCT:
        for (size_t i = 0; i < n; i++) acc[i] = (NUMBER)((WIDE)acc[i] * (WIDE)LOAD(b[i]));
        break;
    case BP_REDUCE_MIN:
        for (size_t i = 0; i < n; i++) acc[i] = FN(min)(acc[i], LOAD(b[i]));
        break;
    case BP_REDUCE_MAX:
        for (size_t i = 0; i < n; i++) acc[i] = FN(max)(acc[i], LOAD(b[i]));
        break;
    default:
        for (size_t i = 0; i < n; i++) acc[i] = (NUMBER)((WIDE)acc[i] + (WIDE)LOAD(b[i]));
    }
}

INLINE void FN(body)(uint32_t reduction, void *dst, const void *const *src, uint32_t n_src,
                     uint64_t count, uint32_t ranks)
{
    for (uint64_t at = 0; at < count; at += BLOCK) {
        size_t n = count - at < BLOCK ? (size_t)(count - at) : BLOCK;
        const ELEMENT *first = (const ELEMENT *)src[0] + at;
        ELEMENT *out = (ELEMENT *)dst + at;
#ifdef IN_PLACE
        NUMBER *acc = out;
#else
        NUMBER acc[BLOCK];
#endif
        if (n_src > 1) FN(pair)(reduction, acc, first, (const ELEMENT *)src[1] + at, n);
        else
            for (size_t i = 0; i < n; i++) acc[i] = LOAD(first[i]);
        for (uint32_t j = 2; j < n_src; j++)
            FN(step)(reduction, acc, (const ELEMENT *)src[j] + at, n);
        if (reduction == BP_REDUCE_AVERAGE)
            for (size_t i = 0; i < n; i++) acc[i] = (NUMBER)((DIVISOR)acc[i] / (DIVISOR)ranks);
#ifndef IN_PLACE
        for (size_t i = 0; i < n; i++) out[i] = STORE(acc[i]);
#endif
    }
}

static void FN(any)(uint32_t reduction, void *dst, const void *const *src, uint32_t n_src,
                    uint64_t count, uint32_t ranks)
{
    FN(body)(reduction, dst, src, n_src, count, ranks);
}

#ifdef WITH_AVX2
__attribute__((target("avx2"))) static void FN(avx2)(uint32_t reduction, void *dst,
                                                     const void *const *src, uint32_t n_src,
                                                     uint64_t count, uint32_t ranks)
{
    FN(body)(reduction, dst, src, n_src, count, ranks);
}
#else
static void FN(avx2)(uint32_t reduction, void *dst, const void *const *src, uint32_t n_src,
                     uint64_t count, uint32_t ranks)
{
    FN(body)(reduction, dst, src, n_src, count, ranks);
}
#endif

#undef JOIN_
#undef JOIN
#undef FN
#undef TYPE
#undef ELEMENT
#undef NUMBER
#undef WIDE
#undef DIVISOR
#undef LOAD
#undef IS_NAN
#undef STORE
#undef IN_PLACE
