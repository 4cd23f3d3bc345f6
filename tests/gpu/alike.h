/* SPDX-License-Identifier: Apache-2.0 */
/* alike.h: whether a function that plugins/gpu calls is, to a caller, as a header declares it: as
 * many parameters, of the same sizes and kinds. */
#ifndef BP_TEST_GPU_ALIKE_H
#define BP_TEST_GPU_ALIKE_H

#include <stddef.h>
#include <type_traits>

/* Integers in registers of one width, or pointers, which device addresses may be too;
 * floating-point numbers, or structures, of one size. */
template <class A, class B> constexpr bool alike_one()
{
    return sizeof(A) == sizeof(B) &&
           std::is_floating_point<A>::value == std::is_floating_point<B>::value &&
           std::is_class<A>::value == std::is_class<B>::value;
}

template <class R, class... A> struct takes {
    template <class S, class... B> static constexpr bool like(S (*)(B...))
    {
        if constexpr (sizeof...(A) != sizeof...(B)) return false;
        else return sizeof(R) == sizeof(S) && (alike_one<A, B>() && ...);
    }
};

template <class R, class... A> constexpr takes<R, A...> of(R (*)(A...))
{
    return {};
}

#endif
