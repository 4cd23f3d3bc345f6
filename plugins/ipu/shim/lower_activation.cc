/* SPDX-License-Identifier: Apache-2.0 */
/* lower_activation.cc: writes activations by the operators of popops. Half types are computed in
 * f32, so that a result is rounded once. */
#include "internal.hpp"

#include <popnn/NonLinearity.hpp>
#include <popops/ElementWise.hpp>

#include <cmath>

using poplar::Tensor;
using unary = popops::expr::UnaryOpType;
using binary = popops::expr::BinaryOpType;

namespace {

Tensor one(lowering &l, unary op, const Tensor &x)
{
    return popops::map(l.graph, op, x, l.program);
}

Tensor two(lowering &l, binary op, const Tensor &x, double y)
{
    return popops::map(l.graph, op, x, number_like(l, x, y), l.program);
}

/* x held between two numbers; NaN stays. */
Tensor held(lowering &l, const Tensor &x, double least, double largest)
{
    Tensor y = x;

    if (least > -INFINITY)
        y = select(l, two(l, binary::LESS_THAN, y, least), number_like(l, x, least), y);
    if (largest < INFINITY)
        y = select(l, two(l, binary::GREATER_THAN, y, largest), number_like(l, x, largest), y);
    return y;
}

/* log(1 + e^x) without overflow: max(x, 0) + log1p(e^-|x|). */
Tensor softplus(lowering &l, const Tensor &x)
{
    Tensor e = one(l, unary::EXPONENT, one(l, unary::NEGATE, one(l, unary::ABSOLUTE, x)));

    return add(l, held(l, x, 0, INFINITY), one(l, unary::LOGARITHM_ONE_PLUS, e));
}

} // namespace

/* A comparison with NaN is false, so that NaN stays. */
Tensor lower_relu(const lowered &n)
{
    const Tensor &x = n.in(0);

    if (n.l.from.fast && x.elementType() != poplar::INT && x.rank())
        return popnn::nonLinearity(n.l.graph, popnn::NonLinearityType::RELU, x, n.l.program,
                                   n.node.name);
    return held(n.l, x, 0, INFINITY);
}

Tensor lower_leaky_relu(const lowered &n)
{
    Tensor x = wide(n.l, n.in(0));

    return narrow(n, select(n.l, two(n.l, binary::LESS_THAN, x, 0),
                            two(n.l, binary::MULTIPLY, x, n.real(0)), x));
}

Tensor lower_clip(const lowered &n)
{
    Tensor x = wide(n.l, n.in(0));

    return narrow(n, held(n.l, x, n.real(0), n.real(1)));
}

/* Of an infinity below zero, x sigmoid(x) is NaN by multiplication, and 0 by this division. */
Tensor lower_swish(const lowered &n)
{
    Tensor x = wide(n.l, n.in(0));
    Tensor s = one(n.l, unary::SIGMOID, two(n.l, binary::MULTIPLY, x, n.real(0)));

    return narrow(n, mul(n.l, x, s));
}

/* x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) = x sigmoid of twice that argument. */
Tensor gelu_tanh(const lowered &n)
{
    Tensor x = wide(n.l, n.in(0));
    Tensor cube = two(n.l, binary::MULTIPLY, mul(n.l, mul(n.l, x, x), x), 0.044715);
    Tensor t = two(n.l, binary::MULTIPLY, add(n.l, x, cube), 2 * 0.7978845608028654);

    return narrow(n, mul(n.l, x, one(n.l, unary::SIGMOID, t)));
}

Tensor lower_hard_sigmoid(const lowered &n)
{
    Tensor x = wide(n.l, n.in(0));
    Tensor y = two(n.l, binary::ADD, two(n.l, binary::MULTIPLY, x, n.real(0)), n.real(1));

    return narrow(n, held(n.l, y, 0, 1));
}

Tensor lower_hard_swish(const lowered &n)
{
    Tensor x = wide(n.l, n.in(0));
    Tensor y = held(n.l, two(n.l, binary::ADD, x, 3), 0, 6);

    return narrow(n, mul(n.l, x, two(n.l, binary::DIVIDE, y, 6)));
}

Tensor lower_elu(const lowered &n)
{
    Tensor x = wide(n.l, n.in(0));
    Tensor below = two(n.l, binary::MULTIPLY, one(n.l, unary::EXPONENT_MINUS_ONE, x), n.real(0));

    return narrow(n, select(n.l, two(n.l, binary::LESS_THAN_EQUAL, x, 0), below, x));
}

Tensor lower_softplus(const lowered &n)
{
    Tensor x = wide(n.l, n.in(0)), z = two(n.l, binary::MULTIPLY, x, n.real(0));
    Tensor y = two(n.l, binary::DIVIDE, softplus(n.l, z), n.real(0));

    return narrow(n, select(n.l, two(n.l, binary::GREATER_THAN, z, n.real(1)), x, y));
}

Tensor lower_mish(const lowered &n)
{
    Tensor x = wide(n.l, n.in(0));

    return narrow(n, mul(n.l, x, one(n.l, unary::TANH, softplus(n.l, x))));
}

/* A factor of 1 without a bias multiplies too, because the result may replace an input. */
Tensor lower_scale(const lowered &n)
{
    Tensor x = wide(n.l, n.in(0));

    if (n.real(0) != 1 || n.real(1) == 0) x = two(n.l, binary::MULTIPLY, x, n.real(0));
    if (n.real(1) != 0) x = two(n.l, binary::ADD, x, n.real(1));
    return narrow(n, x);
}
