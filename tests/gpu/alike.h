/* SPDX-License-Identifier: Apache-2.0 */
/* alike.h: compares a function that plugins/gpu calls with its declaration in a header, as a caller
 * sees it: the same number of parameters, of the same sizes and kinds. */
#ifndef BP_TEST_GPU_ALIKE_H
#define BP_TEST_GPU_ALIKE_H

#include <stddef.h>
#include <type_traits>

/* Whether two types are alike: integers in registers of one width, or pointers (a device address
 * may be either); floating-point numbers, or structures, of one size. */
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
