/* SPDX-License-Identifier: Apache-2.0 */
/* Cast.hpp: converts elements to another type. */
#ifndef POPOPS_CAST_HPP
#define POPOPS_CAST_HPP

#include <poplar/Program.hpp>

namespace popops {

POPLAR_API poplar::Tensor cast(poplar::Graph &graph, const poplar::Tensor &source,
                               const poplar::Type &type, poplar::program::Sequence &program,
                               const poplar::DebugContext &context = {});

} // namespace popops

#endif
