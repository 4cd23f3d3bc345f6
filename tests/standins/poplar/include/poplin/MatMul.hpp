/* SPDX-License-Identifier: Apache-2.0 */
/* MatMul.hpp: products of matrices. */
#ifndef POPLIN_MAT_MUL_HPP
#define POPLIN_MAT_MUL_HPP

#include <poplar/Program.hpp>

namespace poplin {
namespace matmul {
class PlanningCache;
}

/* C[g] = A[g] B[g]; all have three axes, the first is that of the groups. */
POPLAR_API poplar::Tensor matMulGrouped(poplar::Graph &graph, const poplar::Tensor &a,
                                        const poplar::Tensor &b, poplar::program::Sequence &program,
                                        const poplar::Type &type,
                                        const poplar::DebugContext &context = {},
                                        const poplar::OptionFlags &options = {},
                                        matmul::PlanningCache *cache = nullptr);

} // namespace poplin

#endif
