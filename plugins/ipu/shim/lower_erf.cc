/* SPDX-License-Identifier: Apache-2.0 */
/* lower_erf.cc: writes erf and gelu, which PopLibs has as an approximation by tanh only, by
 * polynomials in f32.
 *
 * Near 0, erf(t) = t P(t^2). Farther away 1 - erf(t) = e^(-t^2) Q(s) / (1 + 2 t), where Q is smooth
 * and s = (t - 2) / (t + 2). The coefficients of P and Q are interpolations at Chebyshev's points in
 * f64, with errors of 4e-11 for t up to 1 and 2e-10 for t from 0.45 to 10.1. The rounding of t^2
 * would be an error of t^2 roundings of e^(-t^2): t is divided into its value in half, whose square
 * is exact, and a rest. */
#include "internal.hpp"

#include <popops/Cast.hpp>
#include <popops/ElementWise.hpp>

using poplar::Tensor;
using unary = popops::expr::UnaryOpType;
using binary = popops::expr::BinaryOpType;

namespace {

const std::vector<double> near_zero = {1.1283791671e+00,  -3.7612638476e-01, 1.1283782622e-01,
                                       -2.6865438310e-02, 5.2210534123e-03,  -8.4843965460e-04,
                                       1.1268253849e-04,  -9.6735906482e-06};
const std::vector<double> tail = {1.2769783816e+00,  -9.2763825679e-02, -1.6603040533e-01,
                                  1.6405122410e-01,  -5.4219799928e-02, -8.0330302064e-03,
                                  8.7207648473e-03,  1.2639044053e-03,  -1.4490838243e-03,
                                  -4.2694819701e-04, 1.9355452267e-04,  1.0182577834e-04};
const double LARGEST = 10.1; /* 1 - erf is 0 in f32 beyond */

Tensor polynomial(lowering &l, const Tensor &x, const std::vector<double> &coefficient)
{
    Tensor y = number_like(l, x, coefficient.back());

    for (std::size_t i = coefficient.size() - 1; i-- > 0;)
        y = add(l, mul(l, y, x), number_like(l, x, coefficient[i]));
    return y;
}

Tensor times(lowering &l, const Tensor &x, double factor)
{
    return mul(l, x, number_like(l, x, factor));
}

/* erf(t), for t from -1 to 1. P is 1 and a rest, so that the roundings of the rest count less. */
Tensor erf_near(lowering &l, const Tensor &t)
{
    std::vector<double> rest = near_zero;

    rest[0] -= 1;
    return add(l, t, mul(l, t, polynomial(l, mul(l, t, t), rest)));
}

/* 1 - erf(t) for t from 0.45: t is x times the square root of `factor`, and x is not negative. */
Tensor erfc(lowering &l, const Tensor &t, const Tensor &x, double factor)
{
    Tensor two = number_like(l, t, 2), one = number_like(l, t, 1);
    Tensor q = polynomial(l, div(l, sub(l, t, two), add(l, t, two)), tail);
    Tensor head = popops::cast(l.graph, popops::cast(l.graph, x, poplar::HALF, l.program),
                               poplar::FLOAT, l.program);
    Tensor rest = mul(l, sub(l, x, head), add(l, x, head));
    Tensor e = popops::map(l.graph, unary::EXPONENT, times(l, mul(l, head, head), -factor),
                           l.program);

    e = mul(l, e, popops::map(l.graph, unary::EXPONENT, times(l, rest, -factor), l.program));
    return mul(l, e, div(l, q, add(l, mul(l, two, t), one)));
}

/* The smaller one of x and a number; NaN stays. */
Tensor at_most(lowering &l, const Tensor &x, double largest)
{
    Tensor above = popops::map(l.graph, binary::GREATER_THAN, x, number_like(l, x, largest),
                               l.program);

    return select(l, above, number_like(l, x, largest), x);
}

Tensor is_below(lowering &l, const Tensor &x, double limit)
{
    return popops::map(l.graph, binary::LESS_THAN, x, number_like(l, x, limit), l.program);
}

} // namespace

Tensor lower_erf(const lowered &n)
{
    Tensor x = wide(n.l, n.in(0)), far;
    Tensor t = at_most(n.l, popops::map(n.l.graph, unary::ABSOLUTE, x, n.l.program), LARGEST);

    far = sub(n.l, number_like(n.l, x, 1), erfc(n.l, t, t, 1));
    far = select(n.l, is_below(n.l, x, 0), times(n.l, far, -1), far);
    return narrow(n, select(n.l, is_below(n.l, t, 1), erf_near(n.l, x), far));
}

/* x P(x), where P is the probability of a standard normal number below x. */
Tensor lower_gelu(const lowered &n)
{
    const double root = 0.70710678118654752;
    if (n.number(0)) return gelu_tanh(n);
    Tensor x = wide(n.l, n.in(0)), p, far, half = number_like(n.l, x, 0.5);
    Tensor a = at_most(n.l, popops::map(n.l.graph, unary::ABSOLUTE, x, n.l.program),
                       LARGEST / root);
    Tensor t = times(n.l, a, root);

    far = mul(n.l, erfc(n.l, t, a, 0.5), half);
    far = select(n.l, is_below(n.l, x, 0), far, sub(n.l, number_like(n.l, x, 1), far));
    p = add(n.l, mul(n.l, erf_near(n.l, times(n.l, x, root)), half), half);
    p = select(n.l, is_below(n.l, t, 0.5), p, far);
    return narrow(n, mul(n.l, x, p));
}
