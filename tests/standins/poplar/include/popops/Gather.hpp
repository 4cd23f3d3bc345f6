/* SPDX-License-Identifier: Apache-2.0 */
/* Gather.hpp: slices at places that a tensor names. */
#ifndef POPOPS_GATHER_HPP
#define POPOPS_GATHER_HPP

#include <poplar/Program.hpp>

namespace popops {

struct POPLAR_API GatherParams {
    std::size_t maxElementsPerTile = 65535;
};

/* Indices are UNSIGNED_INT. An index beyond the axis is not defined. */
POPLAR_API poplar::Tensor gather(poplar::Graph &graph, const poplar::Tensor &input,
                                 const poplar::Tensor &indices, unsigned axis,
                                 poplar::program::Sequence &program, GatherParams params,
                                 const poplar::DebugContext &context = {});

} // namespace popops

#endif
