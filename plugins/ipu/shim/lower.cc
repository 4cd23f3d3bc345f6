/* SPDX-License-Identifier: Apache-2.0 */
/* lower.cc: finds the writer of a node, and writes operators that PopLibs has, element by element,
 * and products. */
#include "internal.hpp"

#include <poplin/MatMul.hpp>
#include <poplin/codelets.hpp>
#include <popnn/codelets.hpp>
#include <popops/Cast.hpp>
#include <popops/ElementWise.hpp>
#include <popops/Reduce.hpp>
#include <popops/codelets.hpp>

#include <algorithm>

using poplar::Tensor;
using unary = popops::expr::UnaryOpType;
using binary = popops::expr::BinaryOpType;

const Tensor &lowered::in(uint32_t i) const
{
    if (!has(i))
        throw unsupported(std::string(node.name) + ": input " + std::to_string(i) + " is absent");
    if (!l.tensor[(std::size_t)node.in[i]].valid())
        throw unsupported(std::string(node.name) + ": input " + std::to_string(i) +
                          " is not made before the node");
    return l.tensor[(std::size_t)node.in[i]];
}

void lowered::result(uint32_t i, const Tensor &y) const
{
    if (i >= node.n_out)
        throw unsupported(std::string(node.name) + ": result " + std::to_string(i) + " is absent");
    if (y.shape() != shape_of(out(i)) || y.elementType() != type_of(out(i).type))
        throw unsupported(std::string(node.name) + ": result " + std::to_string(i) +
                          " has another type");
    l.tensor[(std::size_t)node.out[i]] = y;
}

std::vector<std::size_t> lowered::shape() const
{
    return shape_of(out());
}

void lower_begin(poplar::Graph &graph)
{
    popops::addCodelets(graph);
    poplin::addCodelets(graph);
    popnn::addCodelets(graph);
}

void lower_node(lowering &l, const bp_ipu_node &node)
{
    static lower_function *const writers[] = {
#define OP(name, number, real, text) lower_##name,
#include "ops.def"
    };
    lowered n = {l, node};

    if (node.op >= BP_IPU_OPS) throw unsupported("an operator that this shim lacks");
    n.result(0, writers[node.op](n));
    for (uint32_t i = 1; i < node.n_out; i++)
        if (!l.tensor[(std::size_t)node.out[i]].valid())
            throw unsupported(std::string(node.name) + ": the operator has no result " +
                              std::to_string(i));
}

Tensor lower_fault(lowering &l)
{
    Tensor all = l.faults[0];

    for (std::size_t i = 1; i < l.faults.size(); i++)
        all = popops::map(l.graph, binary::LOGICAL_OR, all, l.faults[i], l.program);
    return all;
}

Tensor number_like(lowering &l, const Tensor &x, double value)
{
    Tensor c = l.graph.addConstant(x.elementType(), std::vector<std::size_t>(), value);

    l.graph.setTileMapping(c, 0);
    return c;
}

Tensor wide(lowering &l, const Tensor &x)
{
    return x.elementType() == poplar::HALF ? popops::cast(l.graph, x, poplar::FLOAT, l.program) : x;
}

Tensor narrow(const lowered &n, const Tensor &y)
{
    poplar::Type type = type_of(n.out().type);

    return y.elementType() == type ? y : popops::cast(n.l.graph, y, type, n.l.program);
}

Tensor add(lowering &l, const Tensor &a, const Tensor &b)
{
    return popops::map(l.graph, binary::ADD, a, b, l.program);
}

Tensor sub(lowering &l, const Tensor &a, const Tensor &b)
{
    return popops::map(l.graph, binary::SUBTRACT, a, b, l.program);
}

Tensor mul(lowering &l, const Tensor &a, const Tensor &b)
{
    return popops::map(l.graph, binary::MULTIPLY, a, b, l.program);
}

Tensor div(lowering &l, const Tensor &a, const Tensor &b)
{
    return popops::map(l.graph, binary::DIVIDE, a, b, l.program);
}

Tensor select(lowering &l, const Tensor &condition, const Tensor &a, const Tensor &b)
{
    return popops::map(l.graph, popops::expr::TernaryOpType::SELECT, a, b, condition, l.program);
}

/* ---- operators that PopLibs has ---- */

namespace {

Tensor plain(const lowered &n, unary op)
{
    return popops::map(n.l.graph, op, n.in(0), n.l.program, n.node.name);
}

Tensor plain(const lowered &n, binary op)
{
    return popops::map(n.l.graph, op, n.in(0), n.in(1), n.l.program, n.node.name);
}

} // namespace

/* clang-format off */
#define PLAIN(name, type) Tensor lower_##name(const lowered &n) { return plain(n, type); }
PLAIN(abs, unary::ABSOLUTE)
PLAIN(ceil, unary::CEIL)
PLAIN(cos, unary::COS)
PLAIN(exp, unary::EXPONENT)
PLAIN(expm1, unary::EXPONENT_MINUS_ONE)
PLAIN(floor, unary::FLOOR)
PLAIN(reciprocal, unary::INVERSE)
PLAIN(log, unary::LOGARITHM)
PLAIN(log1p, unary::LOGARITHM_ONE_PLUS)
PLAIN(neg, unary::NEGATE)
PLAIN(sin, unary::SIN)
PLAIN(tan, unary::TAN)
PLAIN(tanh, unary::TANH)
PLAIN(sqrt, unary::SQRT)
PLAIN(square, unary::SQUARE)
PLAIN(sigmoid, unary::SIGMOID)
PLAIN(rsqrt, unary::RSQRT)
PLAIN(isfinite, unary::IS_FINITE)
PLAIN(isinf, unary::IS_INF)
PLAIN(isnan, unary::IS_NAN)
PLAIN(logical_not, unary::LOGICAL_NOT)
PLAIN(add, binary::ADD)
PLAIN(sub, binary::SUBTRACT)
PLAIN(mul, binary::MULTIPLY)
PLAIN(div, binary::DIVIDE)
PLAIN(equal, binary::EQUAL)
PLAIN(not_equal, binary::NOT_EQUAL)
PLAIN(less_than, binary::LESS_THAN)
PLAIN(less_equal, binary::LESS_THAN_EQUAL)
PLAIN(greater_than, binary::GREATER_THAN)
PLAIN(greater_equal, binary::GREATER_THAN_EQUAL)
PLAIN(logical_and, binary::LOGICAL_AND)
PLAIN(logical_or, binary::LOGICAL_OR)
PLAIN(logical_xor, binary::NOT_EQUAL)
#undef PLAIN
/* clang-format on */

/* Powers of half types in f32: the exponent may be large. */
Tensor lower_pow(const lowered &n)
{
    return narrow(n, popops::map(n.l.graph, binary::POWER, wide(n.l, n.in(0)), wide(n.l, n.in(1)),
                                 n.l.program, n.node.name));
}

/* SIGNUM of NaN is not documented: NaN stays. */
Tensor lower_sign(const lowered &n)
{
    const Tensor &x = n.in(0);
    Tensor y = plain(n, unary::SIGNUM);

    if (x.elementType() == poplar::INT || n.l.from.fast) return y;
    return select(n.l, popops::map(n.l.graph, unary::IS_NAN, x, n.l.program), x, y);
}

namespace {

/* How MAXIMUM and MINIMUM treat NaN is not documented. A comparison with NaN is false, so that x is
 * taken if x is NaN, and y is taken if y is. */
Tensor extreme(const lowered &n, binary op, binary comparison)
{
    const Tensor &x = n.in(0), &y = n.in(1);
    Tensor takes_x;

    if (x.elementType() == poplar::INT || n.l.from.fast) return plain(n, op);
    takes_x = popops::map(n.l.graph, comparison, x, y, n.l.program);
    takes_x = popops::map(n.l.graph, binary::LOGICAL_OR, takes_x,
                          popops::map(n.l.graph, binary::NOT_EQUAL, x, x, n.l.program),
                          n.l.program);
    return select(n.l, takes_x, x, y);
}

} // namespace

Tensor lower_maximum(const lowered &n)
{
    return extreme(n, binary::MAXIMUM, binary::GREATER_THAN);
}

Tensor lower_minimum(const lowered &n)
{
    return extreme(n, binary::MINIMUM, binary::LESS_THAN);
}

Tensor lower_where(const lowered &n)
{
    return select(n.l, n.in(0), n.in(1), n.in(2));
}

/* To bool: not equal to zero. A float becomes an integer by way of the range of the type, with zero
 * in place of NaN. */
Tensor lower_cast(const lowered &n)
{
    Tensor x = n.in(0);
    poplar::Type to = type_of(n.out().type);
    bool is_float = x.elementType() == poplar::FLOAT || x.elementType() == poplar::HALF;

    if (to == poplar::BOOL && x.elementType() != poplar::BOOL)
        return popops::map(n.l.graph, binary::NOT_EQUAL, x, number_like(n.l, x, 0), n.l.program,
                           n.node.name);
    if (is_float && to == poplar::INT) {
        Tensor zero, below, above, y;
        x = wide(n.l, x);
        zero = number_like(n.l, x, 0);
        below = popops::map(n.l.graph, binary::LESS_THAN, x, number_like(n.l, x, -2147483648.0),
                            n.l.program);
        above = popops::map(n.l.graph, binary::GREATER_THAN_EQUAL, x,
                            number_like(n.l, x, 2147483648.0), n.l.program);
        y = select(n.l, popops::map(n.l.graph, binary::NOT_EQUAL, x, x, n.l.program), zero, x);
        y = select(n.l, popops::map(n.l.graph, binary::LOGICAL_OR, below, above, n.l.program), zero,
                   y);
        y = popops::cast(n.l.graph, y, to, n.l.program, n.node.name);
        y = select(n.l, below, number_like(n.l, y, -2147483648.0), y);
        return select(n.l, above, number_like(n.l, y, 2147483647.0), y);
    }
    return popops::cast(n.l.graph, x, to, n.l.program, n.node.name);
}

/* ---- products ---- */

namespace {

/* The last two axes exchanged. */
Tensor turned(const Tensor &x)
{
    std::vector<unsigned> order(x.rank());

    for (unsigned i = 0; i < order.size(); i++) order[i] = i;
    std::swap(order[order.size() - 1], order[order.size() - 2]);
    return x.dimShuffle(order);
}

} // namespace

/* Broadcasts the axes in front of the last two, which become one axis of groups. A side with one
 * axis is a row in front of the product, and a column behind it. */
Tensor lower_matmul(const lowered &n)
{
    std::vector<std::size_t> front, shape[2];
    poplar::OptionFlags options;
    Tensor side[2];
    std::size_t groups = 1;

    options.set("partialsType", n.l.from.fast && n.out().type == BP_IPU_F16 ? "half" : "float");
    for (uint32_t i = 0; i < 2; i++) {
        side[i] = n.number(i) ? turned(n.in(i)) : n.in(i);
        if (side[i].rank() == 1)
            side[i] = i ? side[i].reshape({side[i].dim(0), 1})
                        : side[i].reshape({1, side[i].dim(0)});
        if (side[i].rank() - 2 > front.size())
            front.insert(front.begin(), side[i].rank() - 2 - front.size(), 1);
        for (std::size_t k = 0; k + 2 < side[i].rank(); k++) {
            std::size_t &extent = front[front.size() + 2 - side[i].rank() + k];
            extent = std::max(extent, side[i].dim((unsigned)k));
        }
    }
    for (std::size_t extent : front) groups *= extent;
    for (uint32_t i = 0; i < 2; i++) {
        unsigned last = (unsigned)side[i].rank() - 1;
        shape[i] = front;
        shape[i].push_back(side[i].dim(last - 1));
        shape[i].push_back(side[i].dim(last));
        side[i] =
            expanded(side[i], shape[i]).reshape({groups, side[i].dim(last - 1), side[i].dim(last)});
    }
    return poplin::matMulGrouped(n.l.graph, side[0], side[1], n.l.program, side[0].elementType(),
                                 n.node.name, options)
        .reshape(n.shape());
}
