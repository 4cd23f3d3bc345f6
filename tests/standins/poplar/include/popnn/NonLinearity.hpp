/* SPDX-License-Identifier: Apache-2.0 */
/* NonLinearity.hpp: activations. */
#ifndef POPNN_NON_LINEARITY_HPP
#define POPNN_NON_LINEARITY_HPP

#include <poplar/Program.hpp>

namespace popnn {

enum class NonLinearityType {
    SIGMOID,
    RELU,
    TANH,
    GELU,
    SOFTMAX,
    SOFTMAX_STABLE,
    SOFTMAX_SCALED
};

/* Softmax is computed along the last axis. */
POPLAR_API poplar::Tensor nonLinearity(poplar::Graph &graph, NonLinearityType type,
                                       poplar::Tensor t, poplar::program::Sequence &program,
                                       const poplar::DebugContext &context = {});

} // namespace popnn

#endif
