/* SPDX-License-Identifier: Apache-2.0 */
/* TileMapping.hpp: spreads tensors over tiles. */
#ifndef POPUTIL_TILE_MAPPING_HPP
#define POPUTIL_TILE_MAPPING_HPP

#include <poplar/Graph.hpp>

namespace poputil {

struct POPLAR_API poplibs_error : std::runtime_error {
    explicit poplibs_error(const std::string &text) : std::runtime_error(text)
    {
    }
};
POPLAR_API void mapTensorLinearly(poplar::Graph &graph, const poplar::Tensor &tensor);

} // namespace poputil

#endif
