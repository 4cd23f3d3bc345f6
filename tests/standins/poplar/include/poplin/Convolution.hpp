/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution.hpp: convolutions, and the struct that describes one. */
#ifndef POPLIN_CONVOLUTION_HPP
#define POPLIN_CONVOLUTION_HPP

#include <poplar/Program.hpp>

namespace poplin {

class PlanningCache;

/* Transforms of the input and of the kernel: truncation, then dilation, padding and flipping; of
 * the output: truncation, then stride and padding. */
struct POPLAR_API ConvParams {
    struct POPLAR_API InputTransform {
        std::vector<unsigned> truncationLower, truncationUpper, dilation, paddingLower,
            paddingUpper;
        std::vector<bool> flip;
        InputTransform()
        {
        }
        explicit InputTransform(std::size_t axes);
    };
    struct POPLAR_API OutputTransform {
        std::vector<unsigned> truncationLower, truncationUpper, stride, paddingLower, paddingUpper;
        OutputTransform()
        {
        }
        explicit OutputTransform(std::size_t axes);
    };
    poplar::Type inputType, outputType;
    std::size_t batchSize;
    std::vector<std::size_t> inputFieldShape, kernelShape;
    std::size_t inputChannelsPerConvGroup, outputChannelsPerConvGroup, numConvGroups;
    InputTransform inputTransform, kernelTransform;
    OutputTransform outputTransform;

    ConvParams(poplar::Type inputType, poplar::Type outputType, std::size_t batchSize,
               std::vector<std::size_t> inputFieldShape, std::vector<std::size_t> kernelShape,
               std::size_t inputChannels, std::size_t outputChannels, std::size_t numConvGroups);
    std::size_t getOutputSize(unsigned dim) const;
};

/* in: [batch][channels of all groups][field]; weights: [groups][outputs][inputs][kernel]. The
 * filter is not mirrored, unless its transform says so. */
POPLAR_API poplar::Tensor convolution(poplar::Graph &graph, const poplar::Tensor &in,
                                      const poplar::Tensor &weights, const ConvParams &params,
                                      bool transposeAndFlipWeights,
                                      poplar::program::Sequence &program,
                                      const poplar::DebugContext &context = {},
                                      const poplar::OptionFlags &options = {},
                                      PlanningCache *cache = nullptr);

} // namespace poplin

#endif
