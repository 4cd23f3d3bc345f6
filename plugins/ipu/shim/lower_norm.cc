/* SPDX-License-Identifier: Apache-2.0 */
/* lower_norm.cc: writes reductions, softmax and norms. */
#include "internal.hpp"

#include <popnn/NonLinearity.hpp>
#include <popops/Cast.hpp>
#include <popops/ElementWise.hpp>
#include <popops/Reduce.hpp>

#include <algorithm>
#include <cmath>

using poplar::Tensor;
using popops::Operation;
using unary = popops::expr::UnaryOpType;
using binary = popops::expr::BinaryOpType;

namespace {

std::vector<std::size_t> node_axes(const lowered &n)
{
    std::vector<std::size_t> axes;

    for (uint32_t i = 0; i < n.number(0); i++) axes.push_back((std::size_t)n.number(i + 1));
    return axes;
}

/* Nothing to reduce: the same elements. */
Tensor reduced(lowering &l, const Tensor &x, const std::vector<std::size_t> &axes, Operation op)
{
    return axes.empty() ? x : popops::reduce(l.graph, x, axes, op, l.program);
}

/* A reduction whose axes stay, with extent 1. */
Tensor kept(lowering &l, const Tensor &x, const std::vector<std::size_t> &axes, Operation op)
{
    std::vector<std::size_t> shape = x.shape();

    for (std::size_t axis : axes) shape.at(axis) = 1;
    return reduced(l, x, axes, op).reshape(shape);
}

std::size_t count_along(const Tensor &x, const std::vector<std::size_t> &axes)
{
    std::size_t count = 1;

    for (std::size_t axis : axes) count *= x.dim((unsigned)axis);
    return count;
}

Tensor mean_kept(lowering &l, const Tensor &x, const std::vector<std::size_t> &axes)
{
    return div(l, kept(l, x, axes, Operation::ADD),
               number_like(l, x, (double)count_along(x, axes)));
}

std::vector<std::size_t> axes_from(const Tensor &x, int64_t first)
{
    std::vector<std::size_t> axes;

    for (std::size_t i = (std::size_t)first; i < x.rank(); i++) axes.push_back(i);
    return axes;
}

Tensor rsqrt_of(lowering &l, const Tensor &square, double epsilon)
{
    return popops::map(l.graph, unary::RSQRT, add(l, square, number_like(l, square, epsilon)),
                       l.program);
}

/* (x - mean) / sqrt(variance + epsilon) along axes. */
Tensor normalised(lowering &l, const Tensor &x, const std::vector<std::size_t> &axes,
                  double epsilon)
{
    Tensor d = sub(l, x, mean_kept(l, x, axes));

    return mul(l, d, rsqrt_of(l, mean_kept(l, mul(l, d, d), axes), epsilon));
}

/* The same axis as the last one; back: the inverse. */
Tensor axis_last(const Tensor &x, unsigned axis)
{
    std::vector<unsigned> order;

    for (unsigned i = 0; i < x.rank(); i++)
        if (i != axis) order.push_back(i);
    order.push_back(axis);
    return x.dimShuffle(order);
}

Tensor axis_back(const Tensor &x, unsigned axis)
{
    std::vector<unsigned> order;

    for (unsigned i = 0; i + 1 < x.rank(); i++) order.push_back(i);
    order.insert(order.begin() + axis, (unsigned)x.rank() - 1);
    return x.dimShuffle(order);
}

} // namespace

Tensor lower_sum(const lowered &n)
{
    return narrow(n, reduced(n.l, wide(n.l, n.in(0)), node_axes(n), Operation::ADD))
        .reshape(n.shape());
}

Tensor lower_prod(const lowered &n)
{
    return narrow(n, reduced(n.l, wide(n.l, n.in(0)), node_axes(n), Operation::MUL))
        .reshape(n.shape());
}

Tensor lower_max(const lowered &n)
{
    return reduced(n.l, n.in(0), node_axes(n), Operation::MAX).reshape(n.shape());
}

Tensor lower_min(const lowered &n)
{
    return reduced(n.l, n.in(0), node_axes(n), Operation::MIN).reshape(n.shape());
}

Tensor lower_mean(const lowered &n)
{
    return narrow(n, mean_kept(n.l, wide(n.l, n.in(0)), node_axes(n))).reshape(n.shape());
}

Tensor lower_softmax(const lowered &n)
{
    unsigned axis = (unsigned)n.number(0);
    Tensor x = axis_last(wide(n.l, n.in(0)), axis);

    return narrow(n,
                  axis_back(popnn::nonLinearity(n.l.graph, popnn::NonLinearityType::SOFTMAX_STABLE,
                                                x, n.l.program, n.node.name),
                            axis));
}

Tensor lower_log_softmax(const lowered &n)
{
    std::vector<std::size_t> axes = {(std::size_t)n.number(0)};
    Tensor x = wide(n.l, n.in(0)), d, e;

    d = sub(n.l, x, kept(n.l, x, axes, Operation::MAX));
    e = kept(n.l, popops::map(n.l.graph, unary::EXPONENT, d, n.l.program), axes, Operation::ADD);
    return narrow(n, sub(n.l, d, popops::map(n.l.graph, unary::LOGARITHM, e, n.l.program)));
}

Tensor lower_layer_norm(const lowered &n)
{
    Tensor x = wide(n.l, n.in(0));

    x = normalised(n.l, x, axes_from(x, n.number(0)), n.real(0));
    if (n.has(1)) x = mul(n.l, x, wide(n.l, n.in(1)));
    if (n.has(2)) x = add(n.l, x, wide(n.l, n.in(2)));
    return narrow(n, x);
}

Tensor lower_rms_norm(const lowered &n)
{
    Tensor x = wide(n.l, n.in(0));

    x = mul(n.l, x,
            rsqrt_of(n.l, mean_kept(n.l, mul(n.l, x, x), axes_from(x, n.number(0))), n.real(0)));
    if (n.has(1)) x = mul(n.l, x, wide(n.l, n.in(1)));
    return narrow(n, x);
}

namespace {

/* (sum |x|^p)^(1/p) along an axis, which stays; of an order that f32 does not have: the largest |x|. */
Tensor norm_kept(lowering &l, const Tensor &x, std::size_t axis, double order)
{
    Tensor y;

    if (order == 2)
        return popops::map(
            l.graph, unary::SQRT,
            kept(l, popops::map(l.graph, unary::SQUARE, x, l.program), {axis}, Operation::ADD),
            l.program);
    y = popops::map(l.graph, unary::ABSOLUTE, x, l.program);
    if (std::isinf((float)order)) return kept(l, y, {axis}, Operation::MAX);
    if (order == 1) return kept(l, y, {axis}, Operation::ADD);
    y = popops::map(l.graph, binary::POWER, y, number_like(l, y, order), l.program);
    y = kept(l, y, {axis}, Operation::ADD);
    return popops::map(l.graph, binary::POWER, y, number_like(l, y, 1 / order), l.program);
}

} // namespace

/* x / max(norm, epsilon). A comparison with NaN is false, so that NaN stays. Of an epsilon of 0, or
 * one that f32 does not have, the norm of zeros is replaced by 1. */
Tensor lower_lp_normalize(const lowered &n)
{
    Tensor x = wide(n.l, n.in(0)), size, is_small;
    double least = (float)n.real(1);

    if (!(n.real(0) >= 1))
        throw unsupported(std::string(n.node.name) + ": the order of the norm is " +
                          std::to_string(n.real(0)) + ", expected 1 or more");
    size = norm_kept(n.l, x, (std::size_t)n.number(0), n.real(0));
    is_small = popops::map(n.l.graph, least > 0 ? binary::LESS_THAN : binary::EQUAL, size,
                           number_like(n.l, size, least), n.l.program);
    size = select(n.l, is_small, number_like(n.l, size, least > 0 ? least : 1), size);
    return narrow(n, div(n.l, x, size));
}

namespace {

/* A value for each channel, to be matched with x. */
Tensor channels(lowering &l, const Tensor &value, const Tensor &x)
{
    std::vector<std::size_t> shape(x.rank(), 1);

    shape[1] = x.dim(1);
    return wide(l, value).reshape(shape);
}

} // namespace

Tensor lower_batch_norm(const lowered &n)
{
    Tensor x = wide(n.l, n.in(0));

    if (n.has(3)) x = sub(n.l, x, channels(n.l, n.in(3), x));
    if (n.has(4)) x = mul(n.l, x, rsqrt_of(n.l, channels(n.l, n.in(4), x), n.real(0)));
    if (n.has(1)) x = mul(n.l, x, channels(n.l, n.in(1), x));
    if (n.has(2)) x = add(n.l, x, channels(n.l, n.in(2), x));
    return narrow(n, x);
}

/* Groups of neighbouring channels with their spatial axes. */
Tensor lower_group_norm(const lowered &n)
{
    Tensor x = wide(n.l, n.in(0)), y;
    std::size_t groups = (std::size_t)n.number(0), all = x.numElements() / x.dim(0);

    y = normalised(n.l, x.reshape({x.dim(0), groups, all / groups}), {2}, n.real(0))
            .reshape(x.shape());
    if (n.has(1)) y = mul(n.l, y, channels(n.l, n.in(1), x));
    if (n.has(2)) y = add(n.l, y, channels(n.l, n.in(2), x));
    return narrow(n, y);
}

/* x (bias + alpha / window sum of squares of neighbouring channels)^-beta. */
Tensor lower_lrn(const lowered &n)
{
    Tensor x = wide(n.l, n.in(0)), square = mul(n.l, x, x), sum;
    std::size_t channels = x.dim(1), window = (std::size_t)n.number(0);
    std::size_t before = (window - 1) / 2, after = window - 1 - before;
    std::vector<std::size_t> shape = x.shape();
    std::vector<Tensor> parts;

    for (int side = 0; side < 2; side++) {
        std::vector<std::size_t> ones(x.rank(), 1);
        shape[1] = side ? after : before;
        if (side) parts.push_back(square);
        if (shape[1]) parts.push_back(expanded(number_like(n.l, x, 0).reshape(ones), shape));
    }
    square = poplar::concat(parts, 1);
    for (std::size_t i = 0; i < window; i++) {
        Tensor part = square.slice(i, i + channels, 1);
        sum = i ? add(n.l, sum, part) : part;
    }
    sum = mul(n.l, sum, number_like(n.l, x, n.real(0) / (double)window));
    sum = add(n.l, sum, number_like(n.l, x, n.real(2)));
    sum = popops::map(n.l.graph, binary::POWER, sum, number_like(n.l, x, -n.real(1)), n.l.program);
    return narrow(n, mul(n.l, x, sum));
}
