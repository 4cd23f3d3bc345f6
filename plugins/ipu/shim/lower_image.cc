/* SPDX-License-Identifier: Apache-2.0 */
/* lower_image.cc: writes convolutions and pools. */
#include "internal.hpp"

#include <poplin/Convolution.hpp>
#include <popnn/Pooling.hpp>
#include <popops/Cast.hpp>

using poplar::Tensor;

Tensor expanded(const Tensor &x, const std::vector<std::size_t> &shape);

namespace {

std::vector<std::size_t> field_of(const Tensor &x, std::size_t first)
{
    return std::vector<std::size_t>(x.shape().begin() + (std::ptrdiff_t)first, x.shape().end());
}

Tensor with_bias(const lowered &n, const Tensor &y)
{
    std::vector<std::size_t> shape(y.rank(), 1);

    if (!n.has(2)) return y;
    shape[1] = y.dim(1);
    return add(n.l, y, n.in(2).reshape(shape));
}

/* Filters as [groups][outputs of a group][inputs of a group][kernel]. */
Tensor filters(const Tensor &w, std::size_t groups)
{
    std::vector<std::size_t> shape = {groups, w.dim(0) / groups};

    shape.insert(shape.end(), w.shape().begin() + 1, w.shape().end());
    return w.reshape(shape);
}

Tensor convolve(const lowered &n, const Tensor &x, const Tensor &w, const poplin::ConvParams &params)
{
    poplar::OptionFlags options;

    options.set("partialsType", n.l.from.fast && x.elementType() == poplar::HALF ? "half" : "float");
    return poplin::convolution(n.l.graph, x, w, params, false, n.l.program, n.node.name, options);
}

} // namespace

Tensor lower_conv(const lowered &n)
{
    const Tensor &x = n.in(0);
    std::size_t groups = (std::size_t)n.number(0), axes = (std::size_t)n.number(1);
    Tensor w = filters(n.in(1), groups);
    poplin::ConvParams params(x.elementType(), x.dim(0), field_of(x, 2), field_of(w, 3), w.dim(2),
                              w.dim(1), groups);

    for (unsigned k = 0; k < axes; k++) {
        params.outputTransform.stride[k] = (unsigned)n.number(2 + 4 * k);
        params.kernelTransform.dilation[k] = (unsigned)n.number(3 + 4 * k);
        params.inputTransform.paddingLower[k] = (unsigned)n.number(4 + 4 * k);
        params.inputTransform.paddingUpper[k] = (unsigned)n.number(5 + 4 * k);
    }
    return with_bias(n, convolve(n, x, w, params));
}

/* A convolution of x with zeros between its elements, by mirrored filters. Padding that a
 * convolution would add is what is cut off from the result of the transposed one: if more is cut
 * off than the filter reaches, the result is sliced. */
Tensor lower_conv_transpose(const lowered &n)
{
    const Tensor &x = n.in(0);
    std::size_t groups = (std::size_t)n.number(0), axes = (std::size_t)n.number(1);
    Tensor w = filters(n.in(1), groups), y;
    std::vector<unsigned> order = {0, 2, 1};
    std::vector<int64_t> cut(2 * axes, 0);

    for (unsigned k = 3; k < w.rank(); k++) order.push_back(k);
    w = w.dimShuffle(order);
    poplin::ConvParams params(x.elementType(), x.dim(0), field_of(x, 2), field_of(w, 3), w.dim(2),
                              w.dim(1), groups);
    for (unsigned k = 0; k < axes; k++) {
        int64_t stride = n.number(2 + 4 * k), dilation = n.number(3 + 4 * k);
        int64_t reach = ((int64_t)w.dim(3 + k) - 1) * dilation;
        int64_t lower = reach - n.number(4 + 4 * k);
        int64_t upper = reach - n.number(5 + 4 * k) + n.number(2 + 4 * (uint32_t)axes + k);
        params.inputTransform.dilation[k] = (unsigned)stride;
        params.kernelTransform.dilation[k] = (unsigned)dilation;
        params.kernelTransform.flip[k] = true;
        params.inputTransform.paddingLower[k] = (unsigned)(lower > 0 ? lower : 0);
        params.inputTransform.paddingUpper[k] = (unsigned)(upper > 0 ? upper : 0);
        cut[2 * k] = lower < 0 ? -lower : 0;
        cut[2 * k + 1] = upper < 0 ? -upper : 0;
    }
    y = convolve(n, x, w, params);
    for (unsigned k = 0; k < axes; k++)
        y = y.slice((std::size_t)cut[2 * k], y.dim(k + 2) - (std::size_t)cut[2 * k + 1], k + 2);
    return with_bias(n, y);
}

namespace {

Tensor pooled(const lowered &n, const Tensor &x, popnn::PoolingType type)
{
    std::size_t axes = (std::size_t)n.number(0);
    std::vector<std::size_t> window;
    std::vector<unsigned> stride;
    std::vector<int> lower, upper;

    for (uint32_t k = 0; k < axes; k++) {
        window.push_back((std::size_t)n.number(1 + 4 * k));
        stride.push_back((unsigned)n.number(2 + 4 * k));
        lower.push_back((int)n.number(3 + 4 * k));
        upper.push_back((int)n.number(4 + 4 * k));
    }
    popnn::pooling::PoolParams params(type, field_of(x, 2), window, stride, lower, upper, x.dim(1),
                                      x.dim(0), x.elementType());
    return popnn::pooling::pool(n.l.graph, params, x, n.l.program, n.node.name);
}

} // namespace

Tensor lower_max_pool(const lowered &n)
{
    return pooled(n, n.in(0), popnn::PoolingType::MAX);
}

/* A mean that counts padding is a mean over a tensor with zeros around. */
Tensor lower_avg_pool(const lowered &n)
{
    Tensor x = wide(n.l, n.in(0));

    if (n.real(0) != 0) {
        bp_ipu_node node = n.node;
        double window = 1;
        for (uint32_t k = 0; k < n.number(0); k++) {
            for (unsigned side = 0; side < 2; side++) {
                std::vector<std::size_t> shape = x.shape(), ones(x.rank(), 1);
                shape[k + 2] = (std::size_t)n.number(3 + 4 * k + side);
                if (!shape[k + 2]) continue;
                Tensor zeros = expanded(number_like(n.l, x, 0).reshape(ones), shape);
                x = side ? poplar::concat({x, zeros}, k + 2) : poplar::concat({zeros, x}, k + 2);
            }
            node.number[3 + 4 * k] = node.number[4 + 4 * k] = 0;
            window *= (double)n.number(1 + 4 * k);
        }
        x = pooled({n.l, node}, x, popnn::PoolingType::AVG);
        if (n.real(0) != window) x = mul(n.l, x, number_like(n.l, x, window / n.real(0)));
        return narrow(n, x);
    }
    return narrow(n, pooled(n, x, popnn::PoolingType::AVG));
}
