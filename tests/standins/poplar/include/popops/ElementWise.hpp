/* SPDX-License-Identifier: Apache-2.0 */
/* ElementWise.hpp: operators that work element by element. Shapes are matched by the rules of
 * numpy; the dtypes of both sides must be equal. */
#ifndef POPOPS_ELEMENT_WISE_HPP
#define POPOPS_ELEMENT_WISE_HPP

#include <poplar/Program.hpp>

namespace popops {
namespace expr {

enum class TernaryOpType {
    CLAMP,
    SELECT
};
enum class BinaryOpType {
    ADD,
    ATAN2,
    BITWISE_AND,
    BITWISE_OR,
    BITWISE_XOR,
    BITWISE_XNOR,
    DIVIDE,
    EQUAL,
    GREATER_THAN_EQUAL,
    GREATER_THAN,
    INV_STD_DEV_TO_VARIANCE,
    LESS_THAN_EQUAL,
    LOGICAL_AND,
    LOGICAL_OR,
    LESS_THAN,
    MAXIMUM,
    MINIMUM,
    MULTIPLY,
    NOT_EQUAL,
    POWER,
    REMAINDER,
    SHIFT_LEFT,
    SHIFT_RIGHT,
    SHIFT_RIGHT_SIGN_EXTEND,
    SUBTRACT,
    VARIANCE_TO_INV_STD_DEV
};
enum class UnaryOpType {
    ABSOLUTE,
    ASIN,
    BITWISE_NOT,
    CEIL,
    COS,
    COUNT_LEADING_ZEROS,
    EXPONENT,
    EXPONENT_MINUS_ONE,
    FLOOR,
    INVERSE,
    IS_FINITE,
    IS_INF,
    IS_NAN,
    LOGARITHM,
    LOGARITHM_ONE_PLUS,
    LOGICAL_NOT,
    NEGATE,
    POPCOUNT,
    SIGNUM,
    SIN,
    TAN,
    TANH,
    ROUND,
    SQRT,
    SQUARE,
    SIGMOID,
    RSQRT
};

} // namespace expr

POPLAR_API poplar::Tensor map(poplar::Graph &graph, expr::UnaryOpType op, const poplar::Tensor &a,
                              poplar::program::Sequence &program,
                              const poplar::DebugContext &context = {},
                              const poplar::OptionFlags &options = {});
POPLAR_API poplar::Tensor map(poplar::Graph &graph, expr::BinaryOpType op, const poplar::Tensor &a,
                              const poplar::Tensor &b, poplar::program::Sequence &program,
                              const poplar::DebugContext &context = {},
                              const poplar::OptionFlags &options = {});
POPLAR_API poplar::Tensor map(poplar::Graph &graph, expr::TernaryOpType op, const poplar::Tensor &a,
                              const poplar::Tensor &b, const poplar::Tensor &c,
                              poplar::program::Sequence &program,
                              const poplar::DebugContext &context = {},
                              const poplar::OptionFlags &options = {});

} // namespace popops

#endif
