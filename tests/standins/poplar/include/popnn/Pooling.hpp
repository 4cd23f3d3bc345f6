/* SPDX-License-Identifier: Apache-2.0 */
/* Pooling.hpp: pools of windows; the mean of a window does not count padding. */
#ifndef POPNN_POOLING_HPP
#define POPNN_POOLING_HPP

#include <poplar/Program.hpp>

namespace popnn {

enum class PoolingType {
    MAX,
    AVG,
    SUM
};

namespace pooling {

struct POPLAR_API PoolParams {
    PoolingType poolingType;
    std::vector<std::size_t> inputFieldShape, kernelShape;
    std::vector<unsigned> stride;
    std::vector<int> inputTruncationOrPaddingLower, inputTruncationOrPaddingUpper;
    std::size_t numChannels, batchSize;
    poplar::Type dType;

    PoolParams(PoolingType poolingType, std::vector<std::size_t> inputFieldShape,
               std::vector<std::size_t> kernelShape, std::vector<unsigned> stride,
               std::vector<int> lower, std::vector<int> upper, std::size_t numChannels,
               std::size_t batchSize, poplar::Type dType)
        : poolingType(poolingType), inputFieldShape(inputFieldShape), kernelShape(kernelShape),
          stride(stride), inputTruncationOrPaddingLower(lower),
          inputTruncationOrPaddingUpper(upper), numChannels(numChannels), batchSize(batchSize),
          dType(dType)
    {
    }
};

/* in: [batch][channels][field]. */
POPLAR_API poplar::Tensor pool(poplar::Graph &graph, const PoolParams &params,
                               const poplar::Tensor &in, poplar::program::Sequence &program,
                               const poplar::DebugContext &context = {},
                               const poplar::OptionFlags &options = {});

} // namespace pooling
} // namespace popnn

#endif
