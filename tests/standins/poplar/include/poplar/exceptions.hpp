/* SPDX-License-Identifier: Apache-2.0 */
/* exceptions.hpp: names the header in which Poplar declares its exceptions. */
#ifndef POPLAR_EXCEPTIONS_HPP
#define POPLAR_EXCEPTIONS_HPP

#include <poplar/Basics.hpp>

#endif
