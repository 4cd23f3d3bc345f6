/* SPDX-License-Identifier: Apache-2.0 */
/* Reduce.hpp: reductions along axes, which the result lacks. */
#ifndef POPOPS_REDUCE_HPP
#define POPOPS_REDUCE_HPP

#include <poplar/Program.hpp>

namespace popops {

enum class Operation {
    ADD,
    MUL,
    MIN,
    MAX,
    LOGICAL_AND,
    LOGICAL_OR,
    SQUARE_ADD
};

struct POPLAR_API ReduceParams {
    ReduceParams(Operation op, bool update = false) : op(op), update(update)
    {
    }
    Operation op;
    bool update;
};

POPLAR_API poplar::Tensor reduce(poplar::Graph &graph, const poplar::Tensor &in,
                                 const std::vector<std::size_t> &dims, ReduceParams params,
                                 poplar::program::Sequence &program,
                                 const poplar::DebugContext &context = {},
                                 const poplar::OptionFlags &options = {});

} // namespace popops

#endif
